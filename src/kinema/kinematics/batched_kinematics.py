"""Compiled queries over batches of configurations: link poses, Jacobian, mass matrix, centre of mass, inverse dynamics.

A query is a traced function with output arrays; its program is compiled once and runs on batches of any size, one
configuration per environment of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kinema.core import Array, KinemaError, content_digest
from kinema.dynamics.arrays import ARRAYS, ArrayUse, ElementKind, arena_arrays, initial_values
from kinema.dynamics.extensions import program_key
from kinema.dynamics.forces.external_wrenches import add_gravcomp_wrenches, zero_wrenches
from kinema.dynamics.forces.fluid import add_fluid_wrenches
from kinema.dynamics.lowering.program_tracing import OutputSpecs
from kinema.dynamics.lowering.reference_configuration import with_rest_lengths
from kinema.dynamics.lowering.step_program import should_use_loops, trace_field_program
from kinema.dynamics.pipeline import compute
from kinema.dynamics.queries.field_catalog import n_elements
from kinema.dynamics.queries.field_groups import JACOBIAN_ARRAYS, write_link_jacobians
from kinema.dynamics.rigid.kinematics import Pose, link_pose
from kinema.dynamics.rigid.link_dynamics import acceleration_at_point
from kinema.dynamics.rigid.rnea import generalized_forces
from kinema.dynamics.settings import Settings
from kinema.dynamics.step import StepData
from kinema.dynamics.tree.kinematic_tree import FrameNode, LinkNode
from kinema.dynamics.tree.node_values import NodeValues
from kinema.dynamics.vector_math import Vector, add, matrix_to_quaternion
from kinema.ir import UNIFORM, ArenaOffset, Program, Value
from kinema.model import Model, empty_geoms, empty_pairs
from kinema.runtime import Arena, ArenaLayout, Device, Kernel, LaunchArguments, ProgramSource, synchronise

# -------------------------------------------------------------------------------------------------------------- queries

QACC_INPUT = "desired acceleration"
"""Input array of joint accelerations."""


@dataclass(frozen=True, slots=True)
class KinematicQuery:
    """A traced query: its output arrays and the function that writes them."""

    outputs: OutputSpecs
    """Output arrays (and the input `QACC_INPUT`) with kind of elements and values per element."""
    trace: Callable[[StepData], None]
    """Traces the code that writes the outputs."""


LinkOutputs = Mapping[str, tuple[int, Callable[[Pose], Sequence[Value]]]]
"""Output array of each link -> number of values, and their computation from the world pose of the link."""
LINK_POSES: LinkOutputs = {
    "link position": (3, lambda pose: pose.position),
    "link quaternion": (4, lambda pose: matrix_to_quaternion(pose.rotation)),
}
"""World position and quaternion (w, x, y, z) of all links."""


def link_query(label: str, outputs: LinkOutputs) -> KinematicQuery:
    """Query (program and its output arrays) for values computed from the world pose of each link."""

    def trace(data: StepData) -> None:
        compute(data, "world_poses")
        ctx, world_poses = data.ctx, data.world_poses

        def body(link: LinkNode) -> None:
            pose = link_pose(link, world_poses)
            for name, (_, values_of) in outputs.items():
                ctx.write(name, link, values_of(pose))

        ctx.for_each_link(label, body)

    return KinematicQuery({name: (ElementKind.LINK, width) for name, (width, _) in outputs.items()}, trace)


BIAS_ACCELERATION = "bias acceleration"
"""Output array of the link acceleration dJ/dt v at zero joint acceleration: linear, then angular."""


def jacobian_query(link: int) -> KinematicQuery:
    """Query (program and its output arrays) for the Jacobian of a link at its origin, in world axes."""

    def trace(data: StepData) -> None:
        compute(data, "world_poses")
        ctx, world_poses = data.ctx, data.world_poses
        origins: NodeValues[Vector] = ctx.new_values("link origins")
        ctx.for_each_link("link origins", lambda x: origins.put(x.ref, link_pose(x, world_poses).position))
        write_link_jacobians(ctx, data.local_poses, world_poses, [link], lambda ref: origins[ref])

    return KinematicQuery(dict.fromkeys(JACOBIAN_ARRAYS, (ElementKind.DOF, 1)), trace)


def link_jacobian_query(link: int) -> KinematicQuery:
    """Query for the Jacobian of a link at its origin, in world axes, and its bias acceleration dJ/dt v.

    The bias acceleration dJ/dt v excludes gravity.
    """
    jacobian = jacobian_query(link)

    def trace(data: StepData) -> None:
        jacobian.trace(data)
        compute(data, "world_poses", "bias_accelerations")
        ctx, world_poses = data.ctx, data.world_poses
        accelerations = data.bias_accelerations

        def write_bias(link_node: LinkNode) -> None:
            origin_acceleration = acceleration_at_point(
                world_poses[link_node.frame_ref],
                accelerations[link_node.frame_ref],
                link_pose(link_node, world_poses).position,
            )
            ctx.write(
                BIAS_ACCELERATION,
                link_node,
                [*add(origin_acceleration.linear, ctx.gravity), *origin_acceleration.angular],
            )

        ctx.for_each_link("bias acceleration", write_bias, [link])

    return KinematicQuery({**jacobian.outputs, BIAS_ACCELERATION: (ElementKind.LINK, 6)}, trace)


def mass_matrix_query(model: Model) -> KinematicQuery:
    """Query for the mass matrix with joint and tendon armature."""

    def trace(data: StepData) -> None:
        compute(data, "mass_matrix")
        data.mass_matrix.store("mass matrix")

    return KinematicQuery({"mass matrix": (ElementKind.DOF, model.n_dofs)}, trace)


def link_com_query(model: Model) -> KinematicQuery:
    """Query for the world position of the centre of mass of each link."""

    def trace(data: StepData) -> None:
        compute(data, "link_bodies")
        ctx, bodies = data.ctx, data.link_bodies
        ctx.for_each_link("link centres of mass", lambda link: ctx.write("link com", link, bodies[link.ref].com))

    return KinematicQuery({"link com": (ElementKind.LINK, 3)}, trace)


def inverse_dynamics_query(model: Model) -> KinematicQuery:
    """Query for inverse dynamics: actuator forces for desired joint accelerations, and bias forces.

    `actuator force` = M qacc + qfrc_bias - passive forces (springs, dampers, tendons, fluid, gravity compensation).
    `bias force` = qfrc_bias - gravity compensation: the actuator force that balances gravity and Coriolis forces,
    without passive springs and dampers.
    """

    def trace(data: StepData) -> None:
        compute(data, "mass_matrix", "qfrc_bias", "joint_force_terms", "world_poses", "velocities")
        ctx, qfrc_bias, force_terms, qfrc_gravcomp = (
            data.ctx,
            data.qfrc_bias,
            data.joint_force_terms,
            data.qfrc_gravcomp,
        )
        qacc: NodeValues[list] = ctx.new_values("desired acceleration")
        ctx.for_each_frame(
            "desired acceleration",
            lambda node: qacc.put(node.ref, ctx.iteration.read_array(QACC_INPUT, len(node.dofs))),
        )
        mass_times_qacc = data.mass_matrix.multiply("mass times desired acceleration", qacc)
        gravcomp_wrenches, passive_wrenches = (
            zero_wrenches(ctx, "gravity compensation"),
            zero_wrenches(ctx, "passive wrenches"),
        )
        if qfrc_gravcomp is None:
            add_gravcomp_wrenches(ctx, data.world_poses, gravcomp_wrenches)
        add_fluid_wrenches(data, passive_wrenches)
        gravcomp_forces, passive_forces = (
            generalized_forces(ctx, name, data.local_poses, lambda node, of=of: of[node.ref])
            for name, of in (("gravity compensation", gravcomp_wrenches), ("passive wrenches", passive_wrenches))
        )

        def body(node: FrameNode) -> None:
            passive, tendons, _, _ = force_terms[node.ref]
            gravcomp = gravcomp_forces[node.ref] if qfrc_gravcomp is None else qfrc_gravcomp[node.ref]
            passive_sum = [
                p.force + t.force + m for p, t, m in zip(passive, tendons, passive_forces[node.ref], strict=True)
            ]
            if qfrc_gravcomp is None:  # else passive forces or actuator forces contain it
                passive_sum = [x + y for x, y in zip(passive_sum, gravcomp, strict=True)]
            terms = zip(mass_times_qacc[node.ref], qfrc_bias[node.ref], passive_sum, strict=True)
            ctx.write("actuator force", node, [m + b - p for m, b, p in terms])
            bias_terms = zip(qfrc_bias[node.ref], gravcomp, strict=True)
            ctx.write("bias force", node, [b - x for b, x in bias_terms])

        ctx.for_each_frame("inverse dynamics", body)

    return KinematicQuery(
        {
            "actuator force": (ElementKind.DOF, 1),
            "bias force": (ElementKind.DOF, 1),
            QACC_INPUT: (ElementKind.DOF, 1),
        },
        trace,
    )


# ----------------------------------------------------------------------------------------------------------- evaluation

MAX_BATCHES = 8
"""Number of batch sizes whose memory is kept."""
MAX_KEPT_CONFIGURATIONS = 4096
"""Size of a batch above which only its memory is kept."""
QUERY_SETTINGS = Settings()
"""Settings of query programs: no constraints, limits or contacts."""


class BatchedKinematics:
    """Compiled queries of one model; arrays have one row for each of n configurations."""

    def __init__(self, model: Model, device: Device, precision: str, threads: int | None = None) -> None:
        """Copy the model without collision geoms, derive its rest lengths; programs are compiled on first use."""
        self.model = with_rest_lengths(without_collision_geoms(model))
        self.device = device
        self.precision = precision
        self.threads = threads
        self._layouts = {
            name: ArenaLayout.from_sizes(name, arena_arrays(name, self.model, QUERY_SETTINGS))
            for name in ("state", "controls", UNIFORM)
        }
        self._uses_loops = should_use_loops(self.model, QUERY_SETTINGS, allow_copies=False)
        self._uniform = self._initial_arena(UNIFORM, 1)
        self._digest = ""
        """Content digest of the model, once computed."""
        self._batches: dict[int, tuple[Arena, Arena]] = {}
        """Memory of the state and of the inputs by number of configurations."""
        self._kernels: dict[object, tuple[Kernel, ArenaLayout]] = {}

    def _initial_arena(self, name: str, n_configurations: int) -> Arena:
        """Allocate an arena for n configurations with all arrays at their initial values."""
        arena = Arena(self._layouts[name], n_configurations, self.device, self.precision)
        for info in ARRAYS:
            if info.name in arena.layout.rows and arena.layout.rows[info.name][1] and info.use is not ArrayUse.CONTROL:
                arena.view(info.name).assign(initial_values(info, self.model, QUERY_SETTINGS))
        return arena

    def evaluate(self, key: object, make_query: Callable[[], KinematicQuery], **inputs: Array) -> dict[str, Array]:
        """Run the program of a query on a batch of configurations and return its output arrays, (n, values) each.

        Args:
            key: key of the compiled program; the query is compiled on first use.
            make_query: makes the query.
            inputs: `qpos` (n, n_qs), and optionally `vel` and `acc` (n, n_dofs); velocities default to zero.
        """
        if not self.model.n_dofs:
            raise KinemaError("the robot has no degrees of freedom")
        n = len(inputs["qpos"])
        if n not in self._batches:
            if len(self._batches) == MAX_BATCHES or n > MAX_KEPT_CONFIGURATIONS:
                self._batches.clear()
            self._batches[n] = self._initial_arena("state", n), self._initial_arena("controls", n)
        state, controls = self._batches[n]
        if key not in self._kernels:
            self._kernels[key] = self._compile_query(key, make_query())
        kernel, layout = self._kernels[key]
        out = Arena(layout, n, self.device, self.precision)
        velocity = inputs.get("vel")
        state.view("qpos").assign(inputs["qpos"].T)
        state.view("vel").assign(0.0 if velocity is None else velocity.T)
        if QACC_INPUT in layout.rows and "acc" in inputs:
            out.view(QACC_INPUT).assign(inputs["acc"].T)
        kernel.prepare_launch(LaunchArguments(state, controls.data, out, self._uniform, max_threads=self.threads))()
        synchronise(self.device)
        return {name: np.array(out.view(name).numpy().T, np.float64) for name in layout.rows}

    def _compile_query(self, key: object, query: KinematicQuery) -> tuple[Kernel, ArenaLayout]:
        """Trace and compile the program of a query, or load it from the cache; returns kernel and layout of outputs."""
        sizes = [
            (name, n_elements(self.model, element_kind, QUERY_SETTINGS) * width)
            for name, (element_kind, width) in query.outputs.items()
        ]
        layout = ArenaLayout.from_sizes("out", sizes)
        array_offsets = {a: p for x in self._layouts.values() for a, p in x.offsets().items()} | layout.offsets()
        self._digest = self._digest or content_digest(self.model)
        cache_key = program_key("kinematics", self._digest, QUERY_SETTINGS, self._uses_loops, key, query.outputs)
        source = ProgramSource(lambda: self.trace_query(query, array_offsets), cache_key, "kinematics")
        return Kernel(source, array_offsets, self.device, self.precision), layout

    def trace_query(self, query: KinematicQuery, array_offsets: Mapping[str, ArenaOffset]) -> Program:
        """Trace the program of a query for given offsets of inputs, outputs and parameters."""
        return trace_field_program(
            self.model,
            QUERY_SETTINGS,
            array_offsets,
            lambda ctx, use_aba: query.trace(StepData(ctx, use_aba)),
            query.outputs,
            loops=self._uses_loops,
            output_prefix="",
        )

    @property
    def parameters(self) -> Arena:
        """Arena of the parameters that programs of queries read, such as gravity, with the values of the model."""
        return self._uniform

    # ------------------------------------------------------------------------------------------------------ queries

    def link_poses(self, qpos: Array) -> tuple[Array, Array]:
        """World positions (n, n_links, 3) and quaternions (n, n_links, 4) of all links."""
        outputs = self.evaluate("poses", lambda: link_query("link poses", LINK_POSES), qpos=qpos)
        n, n_links = len(qpos), self.model.n_links
        return outputs["link position"].reshape(n, n_links, 3), outputs["link quaternion"].reshape(n, n_links, 4)

    def jacobian_and_bias(self, qpos: Array, link: int, qvel: Array | None = None) -> tuple[Array, Array]:
        """Jacobian (n, 6, n_dofs) of a link at its origin and its bias acceleration dJ/dt v (n, 6)."""
        inputs = {"qpos": qpos} if qvel is None else {"qpos": qpos, "vel": qvel}
        outputs = self.evaluate(("jacobian", link), lambda: link_jacobian_query(link), **inputs)
        bias = outputs[BIAS_ACCELERATION].reshape(len(qpos), -1, 6)[:, link]
        return np.stack([outputs[name] for name in JACOBIAN_ARRAYS], axis=1), bias

    def mass_matrix(self, qpos: Array) -> Array:
        """Mass matrix, (n, n_dofs, n_dofs)."""
        outputs = self.evaluate("mass", lambda: mass_matrix_query(self.model), qpos=qpos)
        return outputs["mass matrix"].reshape(len(qpos), self.model.n_dofs, self.model.n_dofs)

    def center_of_mass(self, qpos: Array) -> Array:
        """Centre of mass of the whole model [m], (n, 3)."""
        masses = self.model.links.inertial_mass
        if masses.sum() <= 0.0:
            raise KinemaError("the robot has no mass, so there is no centre of mass")
        outputs = self.evaluate("center", lambda: link_com_query(self.model), qpos=qpos)
        link_coms = outputs["link com"].reshape(len(qpos), -1, 3)
        return np.einsum("i,nij->nj", masses / masses.sum(), link_coms)

    def inverse_dynamics(self, qpos: Array, qvel: Array, qacc: Array) -> Array:
        """Actuator forces for the given joint accelerations, (n, n_dofs)."""
        inputs = {"qpos": qpos, "vel": qvel, "acc": qacc}
        return self.evaluate("forces", lambda: inverse_dynamics_query(self.model), **inputs)["actuator force"]

    def bias_forces(self, qpos: Array, qvel: Array | None = None) -> Array:
        """Gravity minus gravity compensation, with velocities also Coriolis and centrifugal forces, (n, n_dofs)."""
        inputs = {"qpos": qpos} if qvel is None else {"qpos": qpos, "vel": qvel}
        return self.evaluate("forces", lambda: inverse_dynamics_query(self.model), **inputs)["bias force"]


def without_collision_geoms(model: Model) -> Model:
    """Copy of a model without collision geoms and pairs."""
    return model.with_tables(geoms=empty_geoms(), pairs=empty_pairs())

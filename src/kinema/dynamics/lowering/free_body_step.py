"""Step of scenes of free bodies with rules of collision: unrolled code per body, and loops over contacts.

Bodies are rows of tables. A loop over equal bodies computes, in unrolled code, what the contacts depend on: poses,
motion axes, mass matrix and unconstrained accelerations. Contacts are found and solved with one node per body
(`tree/body_context.py`). A second loop over the bodies integrates, given the constraint forces. The code does not
depend on the number of bodies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kinema.ir import SCRATCH, ArenaOffset, OffsetColumn, Program, Tracer, Value
from kinema.model import Model

from ..arrays import ElementKind
from ..collision.contact_slots import ContactSlots
from ..collision.ruled_narrow_phase import detect_contacts_by_rules
from ..constraints.contact_jacobian import MotionSubspace, shift_twist
from ..constraints.contacts import world_motion_subspaces
from ..constraints.rows import ConstraintRows, KinematicState
from ..pipeline import compute, record_step
from ..rigid.kinematics import IDENTITY_POSE, Pose, Twist, poses_in_world
from ..settings import Settings
from ..solver.constraint_solver import ConstraintSolution, solve_constraints
from ..solver.objective import SolverInputs
from ..step import StepData
from ..topology import tree_index_of_frames
from ..tree.body_context import BODY_DOFS, LOWER_TRIANGLE, BodyMassMatrix, body_context, node_values_in
from ..tree.kinematic_tree import WORLD, KinematicTree, build_tree, frame_ref
from ..tree.node_constants import FrameConstants
from ..tree.node_values import NodeValues, flatten, unflatten
from ..tree.per_tree import PerTreeArray
from ..tree.trace_context import TraceContext
from ..vector_math import ZERO, Vector, add, scale
from .components import CopiedComponents, group_equal_trees
from .program_tracing import OutputSpecs

ORIGIN = "shifted origin"
"""Array with the coordinates of the first body, whose position is the origin of contact positions."""
FORCE = "body force"
"""Array of the constraint forces of a body."""
OUTPUT_WIDTHS = {
    "body pose": 12,
    "body point": 3,
    "body axes": 6 * BODY_DOFS,
    "body axes about point": 6 * BODY_DOFS,
    "body mass": len(LOWER_TRIANGLE),
    "body acceleration": BODY_DOFS,
    "body inverse pivots": BODY_DOFS,
}
"""Arrays of a body that contacts depend on: pose, reference point, motion axes about the shifted origin and about the
reference point, mass matrix, unconstrained acceleration, and inverse pivots of the factors of the mass matrix."""


@dataclass(frozen=True, slots=True, eq=False)
class _BodyFactors:
    """Inverse pivots of the mass matrix, as of `LDLFactors`."""

    inverse_pivots: Mapping[int, ArenaOffset]
    idle_flags: Mapping[int, Mapping[str, ArenaOffset]]


class _FreeBodies:
    """Free bodies of a model while a program is traced: the context with one node per body, and their arrays."""

    def __init__(
        self,
        model: Model,
        settings: Settings,
        array_offsets: Mapping[str, ArenaOffset],
        outputs: OutputSpecs | None = None,
    ) -> None:
        """Trace the loop that computes what the contacts depend on, `OUTPUT_WIDTHS`, for all bodies."""
        tree = build_tree(model)
        groups = group_equal_trees(model, settings, tree, FrameConstants(model))
        bodies = sorted((body for group in groups for body in group), key=lambda body: body.frames[0])
        frames, first_dofs = [body.frames[-1] for body in bodies], [body.dofs[0] for body in bodies]
        self.tree = tree
        self.ctx = ctx = body_context(model, settings, array_offsets, Tracer(), frames, first_dofs, outputs)
        trees = np.array(tree_index_of_frames(model))
        self.trees = trees[frames].tolist()
        """Tree of each node."""
        self.arrays = {name: PerTreeArray(ctx, width) for name, width in OUTPUT_WIDTHS.items()}
        self.forces = PerTreeArray(ctx, BODY_DOFS)
        single = replace(settings, contacts=False, n_partitions=1, islands=False, use_warps=False)
        origin = array_offsets["qpos"]
        start = ArenaOffset(origin.arena, origin.row + bodies[0].qs[0])
        self.copies = []
        for group in groups:
            own_trees = trees[[body.frames[0] for body in group]]
            offsets = {name: array.column_of(own_trees) for name, array in self.arrays.items()}
            offsets |= {FORCE: self.forces.column_of(own_trees), ORIGIN: OffsetColumn.repeated(start, len(group))}
            self.copies.append(CopiedComponents(model, single, array_offsets, group, tree, offsets))
        widths = {name: (ElementKind.ENVIRONMENT, width) for name, width in OUTPUT_WIDTHS.items()}
        for group in self.copies:
            group.trace_loop(ctx.tracer, "contact inputs of bodies", _write_contact_inputs, widths)

    def build(self) -> Program:
        """The traced program."""
        ctx = self.ctx
        return ctx.tracer.build(
            n_scratch=ctx.n_scratch, allocation_starts=ctx.allocation_starts, oversized_lists=ctx.oversized_lists
        )


def trace_free_body_step(model: Model, settings: Settings, array_offsets: Mapping[str, ArenaOffset]) -> Program:
    """Trace the step of a model with rules of collision."""
    bodies = _FreeBodies(model, settings, array_offsets)
    _solve_contacts(bodies)
    for group in bodies.copies:
        group.trace_loop(bodies.ctx.tracer, "next state of bodies", _integrate, {})
    return bodies.build()


def trace_free_body_contacts(
    model: Model,
    settings: Settings,
    array_offsets: Mapping[str, ArenaOffset],
    trace_fields: Callable[[StepData], None],
    outputs: OutputSpecs,
    output_prefix: str,
) -> Program:
    """Trace a program that solves the contacts of a model with rules of collision and writes fields of contacts."""
    bodies = _FreeBodies(model, replace(settings, n_partitions=1, islands=False), array_offsets, outputs)
    bodies.ctx.output_prefix = output_prefix
    slots, solution = _solve_contacts(bodies)
    data = StepData(bodies.ctx)
    data.contact_buffers, data.contacts, data.qfrc_constraint = slots, solution.contacts, solution.qfrc_constraint
    trace_fields(data)
    return bodies.build()


def _write_contact_inputs(ctx: TraceContext) -> None:
    """Trace the arrays `OUTPUT_WIDTHS` of the body of a context."""
    step, tracer = StepData(ctx), ctx.tracer
    compute(step, "local_poses", "mass_matrix", "mass_factors", "qacc_smooth")
    origin = _shifted_origin(ctx.tree, [tracer.read(ORIGIN, i) for i in range(3)])
    poses = poses_in_world(ctx, step.local_poses, scale(-1.0, origin))
    subspaces = world_motion_subspaces(ctx, step.local_poses, poses)

    def read(values: NodeValues, node: int) -> list[Value]:
        place = values.offset_of(ctx.nodes[node].ref)
        count = len(flatten(values.template_of(ctx.nodes[node].ref)))
        return [tracer.read(SCRATCH, place.row + i) for i in range(count)]

    dofs = [dof for node in ctx.nodes for dof in node.dofs]
    pose = read(poses, -1)
    axes = [x for node in range(len(ctx.nodes)) for x in read(subspaces, node)]
    twists = [Twist(axes[6 * i : 6 * i + 3], axes[6 * i + 3 : 6 * i + 6]) for i in range(BODY_DOFS)]
    position = flatten(_pose_of(pose).position)
    about_point = [x for twist in twists for x in flatten(shift_twist(twist, position))]
    entries = [step.mass_matrix.symmetric_entry(dofs[i], dofs[j]) for i, j in LOWER_TRIANGLE]
    values = {
        "body pose": pose,
        "body point": position,
        "body axes": axes,
        "body axes about point": about_point,
        "body mass": [tracer.read(SCRATCH, place.row) for place in entries],
        "body acceleration": [x for node in range(len(ctx.nodes)) for x in read(step.qacc_smooth, node)],
        "body inverse pivots": [tracer.read(SCRATCH, step.mass_factors.inverse_pivots[dof].row) for dof in dofs],
    }
    for name, scalars in values.items():
        tracer.write(name, scalars)


def _shifted_origin(tree: KinematicTree, coordinates: Sequence[Value]) -> Vector:
    """Position of the first body, the origin of contact positions, given its first three coordinates."""
    slides = zip(tree.nodes[:3], coordinates, strict=True)
    return add(*(scale(q - node.reference, node.axis) for node, q in slides))


def _pose_of(flat: Sequence[Value]) -> Pose:
    """Pose from its flattened values."""
    return unflatten(POSE_TEMPLATE, flat)


POSE_TEMPLATE = Pose(((0.0,) * 3,) * 3, ZERO)


def _integrate(ctx: TraceContext) -> None:
    """Trace the next state of the body of a context, given its constraint forces."""
    step = StepData(ctx)
    step.limiter_factors = step.islands = step.contacts = step.solver_inputs = step.solver = None
    forces: NodeValues[list[Value]] = ctx.new_values("constraint forces")
    first = ctx.nodes[0].dofs.start
    for node in ctx.nodes:
        place = forces.allocate(node.ref, [0.0] * len(node.dofs))
        ctx.tracer.write(SCRATCH, [ctx.tracer.read(FORCE, dof - first) for dof in node.dofs], place.row)
    ctx.tracer.new_basic_block()
    step.qfrc_constraint = forces
    record_step(step)


def _solve_contacts(bodies: _FreeBodies) -> tuple[ContactSlots, ConstraintSolution]:
    """Trace the collision detection and the constraint solve; writes the constraint forces of each body."""
    ctx, arrays, trees = bodies.ctx, bodies.arrays, bodies.trees
    zero_twist = Twist(ZERO, ZERO)
    subspace = MotionSubspace([zero_twist] * BODY_DOFS)
    poses = node_values_in(ctx, "poses of bodies", arrays["body pose"], POSE_TEMPLATE, trees)
    origin = _shifted_origin(bodies.tree, [ctx.tracer.read("qpos", i) for i in range(3)])
    world = poses.allocate(frame_ref(WORLD), POSE_TEMPLATE)
    ctx.tracer.write(SCRATCH, flatten(Pose(IDENTITY_POSE.rotation, scale(-1.0, origin))), world.row)
    slots = ContactSlots(ctx)
    detect_contacts_by_rules(ctx, slots, poses)
    inverse_pivots = {
        dof: arrays["body inverse pivots"].offset_of(tree, i)
        for node, tree in zip(ctx.nodes, trees, strict=True)
        for i, dof in enumerate(node.dofs)
    }
    zeros = [0.0] * BODY_DOFS
    mass = node_values_in(ctx, "mass matrices", arrays["body mass"], [0.0] * len(LOWER_TRIANGLE), trees)

    def make_inputs() -> SolverInputs:
        about_point = node_values_in(ctx, "axes about points", arrays["body axes about point"], subspace, trees)
        return SolverInputs(
            rows=ConstraintRows(ctx, []),
            mass_matrix=BodyMassMatrix(ctx, arrays["body mass"], mass),  # type: ignore[arg-type]
            mass_factors=_BodyFactors(inverse_pivots, {dof: {} for dof in inverse_pivots}),  # type: ignore[arg-type]
            qacc_smooth=node_values_in(ctx, "unconstrained acceleration", arrays["body acceleration"], zeros, trees),
            motion_subspaces=node_values_in(ctx, "motion axes", arrays["body axes"], subspace, trees),
            shifted_world_poses=poses,
            references=(arrays["body point"], about_point),
        )

    state = KinematicState(ctx, *[None] * 5)  # type: ignore[arg-type]  # no rows depend on it
    solution = solve_constraints(ctx, [], state, slots, make_inputs, lambda _: None)
    result = node_values_in(ctx, "forces of bodies", bodies.forces, zeros, trees)
    copy: Callable[..., None] = lambda node: result.put(node.ref, solution.qfrc_constraint[node.ref])  # noqa: E731
    ctx.for_each_frame("constraint forces of bodies", copy)
    return slots, solution

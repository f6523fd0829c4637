"""Step of scenes of many free bodies with rules of collision: unrolled code per body, and loops over contacts.

Bodies are rows of tables. A loop over equal bodies computes, in unrolled code, what the contacts depend on: poses,
motion axes, mass matrix and unconstrained accelerations. Contacts are found and solved with one node per body
(`tree/body_context.py`). A second loop over the bodies integrates, given the constraint forces. The code does not
depend on the number of bodies. Articulated trees are processed by loops over their frames (`articulated_trees.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from kinema.ir import SCRATCH, ArenaOffset, OffsetColumn, Program, Tracer, Value
from kinema.model import Model

from ..arrays import ElementKind
from ..collision.contact_lists import ContactCounts, record_contact_counts
from ..collision.contact_slots import ContactSlots
from ..collision.ruled_narrow_phase import detect_contacts_by_rules
from ..constraints.contact_jacobian import MotionSubspace, shift_twist
from ..constraints.contacts import world_motion_subspaces
from ..constraints.rows import ConstraintRows, KinematicState
from ..free_bodies import articulated_trees
from ..pipeline import compute, record_step
from ..rigid.kinematics import IDENTITY_POSE, Pose, Twist, poses_in_world
from ..settings import Settings
from ..sleep.body_sleep import BodySleep
from ..solver.body_islands import BodyIslands
from ..solver.constraint_solver import ConstraintSolution, solve_constraints
from ..solver.objective import SolverInputs
from ..step import StepData
from ..topology import tree_index_of_frames
from ..tree.body_context import BODY_DOFS, LOWER_TRIANGLE, BodyFactors, BodyMassMatrix, body_context, node_values_in
from ..tree.kinematic_tree import WORLD, build_tree, frame_ref
from ..tree.node_constants import FrameConstants
from ..tree.node_values import NodeValues, flatten, unflatten
from ..tree.per_tree import PerTreeArray
from ..tree.presence import free_body_chains, list_present, origin_of_chain, origin_of_first_present
from ..tree.trace_context import TraceContext
from ..vector_math import ZERO, Vector, scale
from .articulated_trees import ArticulatedTrees
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


POSE_TEMPLATE = Pose(((0.0,) * 3,) * 3, ZERO)


class _FreeBodies:
    """Free bodies of a model while a program is traced: the context with one node per body, and their arrays."""

    def __init__(
        self,
        model: Model,
        settings: Settings,
        array_offsets: Mapping[str, ArenaOffset],
        outputs: OutputSpecs | None = None,
    ) -> None:
        has_islands, settings = settings.islands, replace(settings, islands=False)  # idle bodies are not in the lists
        tree, tracer = build_tree(model), Tracer()
        groups = group_equal_trees(model, settings, tree, FrameConstants(model), ~articulated_trees(model))
        bodies = sorted((body for group in groups for body in group), key=lambda body: body.frames[0])
        frames, first_dofs = [body.frames[-1] for body in bodies], [body.dofs[0] for body in bodies]
        self.tree = tree
        self.articulated = ArticulatedTrees.of_model(model, settings, array_offsets, tracer, tree, outputs)
        """Trees that are no free bodies; None without any."""
        of_trees = None if self.articulated is None else self.articulated.ctx
        self.ctx = ctx = body_context(model, settings, array_offsets, tracer, frames, first_dofs, outputs, of_trees)
        trees = np.array(tree_index_of_frames(model))
        self.trees = trees[frames].tolist()
        """Tree of each node."""
        self.first_qs = [body.qs[0] for body in bodies]
        self.first_dofs = first_dofs
        self.arrays = {name: PerTreeArray(ctx, width) for name, width in OUTPUT_WIDTHS.items()}
        self.forces = PerTreeArray(ctx, BODY_DOFS)
        self.poses: NodeValues[Pose] = node_values_in(
            ctx, "poses of bodies", self.arrays["body pose"], POSE_TEMPLATE, self.trees
        )
        single = replace(settings, contacts=False, n_partitions=1, islands=False, use_warps=False)
        origin = array_offsets["qpos"]
        chains = free_body_chains(tree.nodes)
        self.first_chain = chains[0]
        """The sliding frames of the first free base."""
        first_q = chains[0][0].qs.start
        start = ArenaOffset(origin.arena, origin.row + first_q)
        initial = [float(model.qpos0[first_q + i]) for i in range(3)]
        self.initial_origin = initial if has_islands else None
        """Initial coordinates of the first body, the origin if islands are not to depend on each other; else None."""
        self.present_origin = None
        """Where the position of the first body that is present is found, the origin if bodies can be absent."""
        if settings.presence:
            self.present_origin = start = origin_of_first_present(ctx, chains, initial=has_islands)
        self.copies = []
        for group in groups:
            own_trees = trees[[body.frames[0] for body in group]]
            offsets = {name: array.column_of(own_trees) for name, array in self.arrays.items()}
            offsets |= {FORCE: self.forces.column_of(own_trees), ORIGIN: OffsetColumn.repeated(start, len(group))}
            self.copies.append(CopiedComponents(model, single, array_offsets, group, tree, offsets))

    @property
    def trees_of_copies(self) -> list[list[int]]:
        """Tree of each body of each group of copies."""
        trees = np.array(tree_index_of_frames(self.ctx.model))
        return [trees[[body.frames[0] for body in group.copies]].tolist() for group in self.copies]

    def list_present(self) -> list[ArenaOffset] | None:
        """Trace the lists of the present bodies of each group of copies; None if all are always present."""
        if not self.ctx.settings.presence:
            return None
        return [list_present(self.ctx, trees) for trees in self.trees_of_copies]

    def compute_poses(self) -> None:
        """Trace the loop that computes the poses of all bodies."""
        widths = {name: (ElementKind.ENVIRONMENT, OUTPUT_WIDTHS[name]) for name in ("body pose",)}
        for group in self.copies:
            group.trace_loop(self.ctx.tracer, "poses of bodies", partial(_write_pose, self), widths)

    def compute_contact_inputs(self, lists: Sequence[ArenaOffset] | None = None) -> None:
        """Trace the loop that computes what the contacts depend on, `OUTPUT_WIDTHS`, for all bodies.

        `lists` are the bodies of each group of copies that it is computed for; None for all.
        """
        widths = {name: (ElementKind.ENVIRONMENT, width) for name, width in OUTPUT_WIDTHS.items()}
        write = partial(_write_contact_inputs, self)
        for group, active in zip(self.copies, lists or [None] * len(self.copies), strict=True):
            group.trace_loop(self.ctx.tracer, "contact inputs of bodies", write, widths, active)
        if self.articulated is not None:
            self.articulated.compute_contact_inputs(self.origin(self.ctx, "qpos"), self.poses)

    def integrate(self, lists: Sequence[ArenaOffset] | None = None) -> None:
        """Trace the loop that computes the next state, given the constraint forces."""
        for group, active in zip(self.copies, lists or [None] * len(self.copies), strict=True):
            group.trace_loop(self.ctx.tracer, "next state of bodies", _integrate, {}, active)

    def origin(self, ctx: TraceContext, array: str) -> Vector:
        """Origin of contact positions, given the coordinates of the first body at the start of an array.

        If bodies can be absent, it is the position of the first one that is present.
        """
        if self.present_origin is not None:
            source, first = (SCRATCH, self.present_origin.row) if ctx is self.ctx else (array, 0)
            return [ctx.tracer.read(source, first + i) for i in range(3)]
        if self.initial_origin is not None:
            return origin_of_chain(self.first_chain, self.initial_origin)
        first = self.first_chain[0].qs.start if array == "qpos" else 0
        return origin_of_chain(self.first_chain, [ctx.tracer.read(array, first + i) for i in range(3)])

    def build(self) -> Program:
        """The traced program."""
        ctx = self.ctx
        program = ctx.tracer.build(
            n_scratch=ctx.n_scratch, allocation_starts=ctx.allocation_starts, oversized_lists=ctx.oversized_lists
        )
        return replace(program, uses_superwords=ctx.settings.uses_superwords)


def trace_free_body_step(model: Model, settings: Settings, array_offsets: Mapping[str, ArenaOffset]) -> Program:
    """Trace the step of a model with rules of collision; the islands of bodies in contact are solved separately."""
    bodies = _FreeBodies(model, settings, array_offsets)
    if settings.sleep_tolerance > 0.0:
        _trace_step_of_awake_bodies(bodies)
    else:
        present = bodies.list_present()
        bodies.compute_contact_inputs(present)
        solution = _solve_contacts(bodies, *_detect_contacts(bodies))
        bodies.integrate(present)
        if bodies.articulated is not None:
            bodies.articulated.integrate(solution)
    return bodies.build()


def _trace_step_of_awake_bodies(bodies: _FreeBodies) -> None:
    """Trace the step of the bodies that are awake, or are woken by contacts; nothing else if all sleep."""
    ctx = bodies.ctx
    sleep = BodySleep(ctx, bodies.first_qs, bodies.first_dofs)
    sleep.begin_step()
    record_contact_counts(ctx, ContactCounts(0.0, 0.0, 0.0))
    if ctx.has_output("n_iterations"):
        ctx.write("n_iterations", None, [0.0])

    def step() -> None:
        bodies.compute_poses()
        slots, islands = _detect_contacts(bodies, sleep)
        awake = [sleep.list_awake_of(group) for group in bodies.trees_of_copies]
        bodies.compute_contact_inputs(awake)
        islands.find()
        ctx.active_nodes = ctx.active_bodies = sleep.awake_bodies
        _solve_contacts(bodies, slots, islands, has_islands=True)
        ctx.active_nodes = ctx.active_bodies = None
        bodies.integrate(awake)
        sleep.put_to_sleep(islands.islands)

    ctx.if_nonzero("awake bodies", ctx.tracer.read(SCRATCH, sleep.n_awake.row), step)


def trace_free_body_contacts(
    model: Model,
    settings: Settings,
    array_offsets: Mapping[str, ArenaOffset],
    trace_fields: Callable[[StepData], None],
    outputs: OutputSpecs,
    output_prefix: str,
) -> Program:
    """Trace a program that solves the contacts of a model with rules of collision and writes fields of contacts."""
    bodies = _FreeBodies(model, replace(settings, n_partitions=1), array_offsets, outputs)
    bodies.ctx.output_prefix = output_prefix
    bodies.compute_contact_inputs(bodies.list_present())
    slots, islands = _detect_contacts(bodies, is_step=False)
    solution = _solve_contacts(bodies, slots, islands)
    data = StepData(bodies.ctx)
    data.contact_buffers, data.contacts, data.qfrc_constraint = slots, solution.contacts, solution.qfrc_constraint
    trace_fields(data)
    return bodies.build()


def _write_pose(bodies: _FreeBodies, ctx: TraceContext) -> None:
    """Trace the pose of the body of a context about the shifted origin."""
    step = StepData(ctx)
    compute(step, "local_poses")
    poses = poses_in_world(ctx, step.local_poses, scale(-1.0, bodies.origin(ctx, ORIGIN)))
    ctx.tracer.write("body pose", _read_values(ctx, poses, -1))


def _read_values(ctx: TraceContext, values: NodeValues, node: int) -> list[Value]:
    """Values of a node of a context by its index."""
    place = values.offset_of(ctx.nodes[node].ref)
    count = len(flatten(values.template_of(ctx.nodes[node].ref)))
    return [ctx.tracer.read(SCRATCH, place.row + i) for i in range(count)]


def _write_contact_inputs(bodies: _FreeBodies, ctx: TraceContext) -> None:
    """Trace the arrays `OUTPUT_WIDTHS` of the body of a context."""
    step, tracer = StepData(ctx), ctx.tracer
    compute(step, "local_poses", "mass_matrix", "mass_factors", "qacc_smooth")
    poses = poses_in_world(ctx, step.local_poses, scale(-1.0, bodies.origin(ctx, ORIGIN)))
    subspaces = world_motion_subspaces(ctx, step.local_poses, poses)

    read = partial(_read_values, ctx)
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


def _pose_of(flat: Sequence[Value]) -> Pose:
    """Pose from its flattened values."""
    return unflatten(POSE_TEMPLATE, flat)


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


def _detect_contacts(
    bodies: _FreeBodies, sleep: BodySleep | None = None, *, is_step: bool = True
) -> tuple[ContactSlots, BodyIslands]:
    """Trace the collision detection, given the poses of the bodies; the islands are not found yet.

    With sleep, contacts between sleeping bodies are not detected, and islands that awake bodies touch are woken.
    """
    ctx, poses = bodies.ctx, bodies.poses
    origin = bodies.origin(ctx, "qpos")
    world = poses.allocate(frame_ref(WORLD), POSE_TEMPLATE)
    ctx.tracer.write(SCRATCH, flatten(Pose(IDENTITY_POSE.rotation, scale(-1.0, origin))), world.row)
    slots = ContactSlots(ctx)
    if sleep is None:
        detect_contacts_by_rules(ctx, slots, poses, is_step=is_step)
        return slots, BodyIslands(ctx, slots)

    def detect_and_wake() -> tuple[Value, Value]:
        detect_contacts_by_rules(ctx, slots, poses, sleep.awake_frames)
        return 0.5, sleep.wake_contacted(slots)

    ctx.while_loop("detect contacts and wake", detect_and_wake, len(ctx.nodes) + 1)
    return slots, BodyIslands(ctx, slots)


def _solve_contacts(
    bodies: _FreeBodies, slots: ContactSlots, islands: BodyIslands, *, has_islands: bool = False
) -> ConstraintSolution:
    """Trace the constraint solve; writes the constraint forces of each body.

    `has_islands` tells that the islands were found; they are found here otherwise if there are contacts.
    """
    ctx, arrays, trees, poses = bodies.ctx, bodies.arrays, bodies.trees, bodies.poses
    articulated = bodies.articulated
    zero_twist = Twist(ZERO, ZERO)
    subspace = MotionSubspace([zero_twist] * BODY_DOFS)
    zeros = [0.0] * BODY_DOFS
    mass = node_values_in(ctx, "mass matrices", arrays["body mass"], [0.0] * len(LOWER_TRIANGLE), trees)

    def make_inputs() -> SolverInputs:
        if not has_islands:
            islands.find()
        about_point = node_values_in(ctx, "axes about points", arrays["body axes about point"], subspace, trees)
        qacc_smooth = node_values_in(ctx, "unconstrained acceleration", arrays["body acceleration"], zeros, trees)
        subspaces = node_values_in(ctx, "motion axes", arrays["body axes"], subspace, trees)
        rows, matrix, factors = ConstraintRows(ctx, []), None, None
        if articulated is not None:
            articulated.add_to_inputs(slots, arrays["body point"], about_point, subspaces, qacc_smooth)
            assert articulated.rows is not None
            rows, matrix, factors = articulated.rows, articulated.step.mass_matrix, articulated.step.mass_factors
        return SolverInputs(
            rows=rows,
            mass_matrix=BodyMassMatrix(ctx, arrays["body mass"], mass, matrix),  # type: ignore[arg-type]
            mass_factors=BodyFactors(arrays["body inverse pivots"], factors),  # type: ignore[arg-type]
            qacc_smooth=qacc_smooth,
            motion_subspaces=subspaces,
            shifted_world_poses=poses,
            references=(arrays["body point"], about_point),
            body_islands=islands,
        )

    blocks, state = [], KinematicState(ctx, *[None] * 5)  # type: ignore[arg-type]  # no rows depend on it
    if articulated is not None:
        blocks, state = articulated.step.constraint_blocks, articulated.step.kinematic_state
    solution = solve_constraints(ctx, blocks, state, slots, make_inputs, lambda _: None)
    result = node_values_in(ctx, "forces of bodies", bodies.forces, zeros, trees)
    copy: Callable[..., None] = lambda node: result.put(node.ref, solution.qfrc_constraint[node.ref])  # noqa: E731
    ctx.for_each_body("constraint forces of bodies", copy)
    return solution

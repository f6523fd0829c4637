"""Choice between unrolled, copied and looped code for each component, and the traced step and field programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from kinema.core import KinemaError
from kinema.ir import ArenaOffset, Program, Tracer
from kinema.model import Model

from ..pipeline import advance_rk4_phase, record_step
from ..rigid.free_bodies import free_bodies
from ..settings import CODEGEN_MODES, Integrator, Settings
from ..solver.constraint_solver import MAX_DENSE_DOFS, fits_many_tree_warp_solver, fits_warp_solver
from ..step import StepData
from ..tree.kinematic_tree import WORLD, KinematicTree, build_tree
from ..tree.loop_context import tree_index_of_frames
from ..tree.node_constants import FrameConstants
from ..tree.trace_context import TraceContext
from ..tree.transmissions import matrix_derivative_actuators
from .components import (
    MAX_UNROLLED_OPERATIONS,
    Component,
    collision_frame_pairs,
    connected_components,
    copy_signature,
    estimate_unrolled_operations,
    is_deep_tree,
    trace_copies,
)
from .free_body_step import trace_free_body_step
from .program_tracing import OutputSpecs, trace_looped_program, trace_unrolled_program, trace_unrolled_step


@dataclass(frozen=True, slots=True, eq=False)
class LoweringPlan:
    """Assignment of components to loops over copies or loops over frames."""

    copied_components: list[list[Component]]
    """Groups of components of equal signature; a loop over the unrolled code of one component steps each group."""
    looped_components: list[Component]
    """Components stepped by loops over frames."""


MIN_WARP_EQUALITIES, MIN_WARP_DOFS = 2, 16
"""Number of equality constraints and of dofs from which on a warp solves them faster than one thread."""
MIN_PILE_TREES = 4
"""Number of trees that may collide with each other from which on a model counts as a pile: most pairs do not touch."""
MAX_UNROLLED_CONTACT_OPERATIONS = 10_000
"""Operation limit of unrolled code for models with contacts, unless a warp runs the solver: the solver adds to it."""
MIN_COPY_SAVING = 1_000
"""Operations that loops over identical components have to save if nothing else requires loops."""


def should_use_warps(model: Model, settings: Settings) -> bool:
    """Whether a warp of GPU threads should find contacts and solve constraints of each environment.

    True for models with contacts (for piles of free bodies only if the warp solver of many trees supports them) and for
    models with enough equality constraints and dofs. A few constraint rows are solved faster by one thread in unrolled
    code. False with no-slip iterations, islands or adhesion actuators.
    """
    if settings.noslip_iterations or settings.islands or (model.actuators.link_idx >= 0).any():
        return False  # not supported by the warp solver
    has_closed_loops = (
        settings.constraints and len(model.equalities.names) >= MIN_WARP_EQUALITIES and model.n_dofs >= MIN_WARP_DOFS
    )
    settings = replace(settings, use_warps=True)
    has_contacts = settings.contacts and bool(len(model.pairs.geom_a))
    has_contacts = has_contacts and (not is_sparse_pile(model) or fits_many_tree_warp_solver(model, settings))
    return has_contacts or (has_closed_loops and fits_warp_solver(model, settings))


def should_use_loops(model: Model, settings: Settings, codegen: str = "auto", *, allow_copies: bool = True) -> bool:
    """Whether the step program uses loops over frames, links, ... instead of unrolled code; decided before tracing.

    As requested by `codegen` (`loops`, `unrolled`); for `auto` if the unrolled code would exceed the operation limit,
    if a tree is so deep that loops need fewer operations, or, with `allow_copies`, if identical components could share
    their code. Islands always require loops.
    """
    if codegen not in CODEGEN_MODES:
        raise KinemaError(f"unknown codegen mode {codegen!r}; expected one of: {', '.join(CODEGEN_MODES)}")
    if settings.islands or model.has_pair_rules:  # islands and pairs are known only at run time
        return True
    if codegen != "auto":
        return codegen == "loops"
    has_own_solver = settings.contacts and collision_frame_pairs(model) and not fits_warp_solver(model, settings)
    max_operations = MAX_UNROLLED_CONTACT_OPERATIONS if has_own_solver else MAX_UNROLLED_OPERATIONS
    if estimate_unrolled_operations(model) > max_operations or any(
        is_deep_tree(model, component) for component in connected_components(model)
    ):
        return True
    return allow_copies and _operations_saved_by_copies(model, settings) > MIN_COPY_SAVING


def is_sparse_pile(model: Model) -> bool:
    """Whether many trees may collide and exceed the dofs of the dense warp solver: their Hessian is mostly zero.

    A dense warp solver would process all of the matrix; one thread per environment skips the zeros.
    """
    trees = tree_index_of_frames(model)
    colliding_trees = {trees[f] for pair in collision_frame_pairs(model) if WORLD not in pair for f in pair}
    return len(colliding_trees) >= MIN_PILE_TREES and model.n_dofs > MAX_DENSE_DOFS


def _operations_saved_by_copies(model: Model, settings: Settings) -> int:
    """Operations that need not be compiled if components of equal signature share their code."""
    groups, _ = _group_copies(model, settings)
    return sum((len(copies) - 1) * estimate_unrolled_operations(model, copies[0].frames) for copies in groups)


def _group_copies(model: Model, settings: Settings) -> tuple[list[list[Component]], list[Component]]:
    """Group identical components by signature, and list components that cannot share code.

    The latter are components whose indices are not contiguous, that may collide or that have per-environment
    parameters.
    """
    groups: dict[object, list[Component]] = {}
    not_copied: list[Component] = []
    tree, frame_constants = build_tree(model), FrameConstants(model)
    colliding_frames = {frame for pair in collision_frame_pairs(model) for frame in pair}
    for component in connected_components(model):
        if (
            component.is_contiguous
            and colliding_frames.isdisjoint(component.frames)
            and not any(tree.nodes[frame].is_on_kinematic_body for frame in component.frames)
            and not _has_per_env_parameters(model, component)
        ):
            groups.setdefault(copy_signature(model, tree, component, settings, frame_constants), []).append(component)
        else:
            not_copied.append(component)
    return list(groups.values()), not_copied


def _has_per_env_parameters(model: Model, component: Component) -> bool:
    """Whether frames or links of a component have constants that are read per environment."""
    entries = () if model.derived.per_env_parameters is None else model.derived.per_env_parameters.entries
    return any(
        (table == "frame" and element in component.frames) or (table == "link" and element in component.links)
        for table, element, _ in entries
    )


def plan_lowering(
    model: Model,
    settings: Settings,
    tree: KinematicTree,
    operation_budget: int = MAX_UNROLLED_OPERATIONS,
    min_copies: int = 1,
) -> LoweringPlan:
    """Choose which groups of identical components are stepped by shared unrolled code, within an operation budget.

    Groups of smaller code come first. Groups of fewer than `min_copies` components and deep trees are stepped by loops
    over frames. Free bodies always use unrolled code: their implicit gyroscopic forces need a matrix factorisation,
    which the loops avoid.
    """
    free_frames = {ball_frame.index for _, ball_frame in free_bodies(tree.nodes)}
    groups, looped = _group_copies(model, settings)
    copied: list[list[Component]] = []
    for copies in sorted(groups, key=lambda copies: estimate_unrolled_operations(model, copies[0].frames)):
        cost = estimate_unrolled_operations(model, copies[0].frames)
        worth_it = cost <= operation_budget and len(copies) >= min_copies and not is_deep_tree(model, copies[0])
        if worth_it or not free_frames.isdisjoint(copies[0].frames):
            operation_budget -= cost
            copied.append(copies)
        else:
            looped += copies
    return LoweringPlan(copied, looped)


def trace_looped_step(
    model: Model,
    settings: Settings,
    array_offsets: Mapping[str, ArenaOffset],
    operation_budget: int = MAX_UNROLLED_OPERATIONS,
    min_copies: int = 1,
) -> Program:
    """Trace the step as loops: over identical components with unrolled bodies, then over frames of other components.

    Components stepped by loops over frames use the mass matrix if required (`needs_mass_matrix`) or if a warp solves
    their constraints, otherwise ABA.

    Args:
        model: the model.
        settings: settings of the step.
        array_offsets: offsets of the arrays of state and inputs.
        operation_budget: limit of unrolled operations.
        min_copies: smallest number of identical components that share unrolled code.
    """
    tree = build_tree(model)
    plan = plan_lowering(model, settings, tree, operation_budget, min_copies)
    tracer, ctx = Tracer(), None
    for copies in plan.copied_components:
        trace_copies(tracer, model, settings, array_offsets, copies, tree)
    if plan.looped_components:
        frames = sorted(f for component in plan.looped_components for f in component.frames)
        ctx = TraceContext(model, settings, array_offsets, tracer, tree, frames)
        use_mass_matrix = needs_mass_matrix(model, tree, settings) or fits_warp_solver(model, settings, ctx.nodes)
        record_step(StepData(ctx, use_aba=not use_mass_matrix))
    if settings.integrator is Integrator.RK4:
        advance_rk4_phase(tracer)
    if ctx is None:
        return tracer.build()
    return tracer.build(
        n_scratch=ctx.n_scratch, allocation_starts=ctx.allocation_starts, oversized_lists=ctx.oversized_lists
    )


def needs_mass_matrix(model: Model, tree: KinematicTree, settings: Settings) -> bool:
    """Whether the step needs the mass matrix, because its implicit terms or armatures couple different joints.

    True for tendon armature, rigid couplings (unless RK4) and the integrator `implicit`; with `implicitfast` for fluid
    forces, for free bodies (unless there are deep trees), for tendons or actuators that act on a dof and one of its
    ancestors, and for actuators in `matrix_derivative_actuators`. Otherwise ABA is sufficient.
    """
    has_rigid_couplings = (
        settings.constraints and settings.integrator is not Integrator.RK4 and model.couplings.is_rigid.any()
    )
    if model.tendons.armature.any() or has_rigid_couplings:
        return True
    if settings.integrator is Integrator.IMPLICIT:
        return True
    if settings.integrator is not Integrator.IMPLICITFAST:
        return False
    if (
        model.fluid.kinds
        or matrix_derivative_actuators(model)
        or (
            free_bodies(tree.nodes)
            and not any(is_deep_tree(model, component) for component in connected_components(model))
        )
    ):
        return True
    for moment in (*model.tendons.moment, *model.actuators.moment):
        dofs = [int(d) for d in moment.nonzero()[0]]
        if any(not set(dofs).isdisjoint(tree.ancestor_dofs(dof)) for dof in dofs):
            return True
    return False


def trace_step(
    model: Model, settings: Settings, array_offsets: Mapping[str, ArenaOffset], *, loops: bool, min_copies: int = 1
) -> Program:
    """Trace the step program, with loops over frames, links, ... or as unrolled code."""
    if model.has_pair_rules:
        return trace_free_body_step(model, settings, array_offsets)
    return (
        trace_looped_step(model, settings, array_offsets, min_copies=min_copies)
        if loops
        else trace_unrolled_step(model, settings)
    )


def trace_field_program(
    model: Model,
    settings: Settings,
    array_offsets: Mapping[str, ArenaOffset],
    trace_function: Callable[[TraceContext, bool], None],
    outputs: OutputSpecs,
    *,
    loops: bool,
    output_prefix: str,
) -> Program:
    """Trace a program that writes arrays computed on demand (fields), with loops or unrolled like the step.

    Args:
        model: the model.
        settings: settings of the step; partitions, warps and islands are disabled.
        array_offsets: offsets of all arrays.
        trace_function: traces the fields; called with the context and whether accelerations are computed by ABA.
        outputs: arrays that the function writes, with their prefix.
        loops: whether to use loops instead of unrolled code.
        output_prefix: prefix of the output array names.
    """
    settings = replace(settings, n_partitions=1, use_warps=False, islands=False)
    use_aba = loops and not needs_mass_matrix(model, build_tree(model), settings)

    def write(ctx: TraceContext) -> None:
        ctx.output_prefix = output_prefix
        trace_function(ctx, use_aba)

    if loops:
        return trace_looped_program(model, settings, write, array_offsets, outputs)
    return trace_unrolled_program(model, settings, write, outputs)

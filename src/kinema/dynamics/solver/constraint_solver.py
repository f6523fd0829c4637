"""Entry point of the constraint solve: builds constraint rows, selects the solver and skips inactive solves.

Solvers: Newton or conjugate gradients on one thread per environment, Newton per island, and Newton by a warp with a
dense or a block-sparse Hessian.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kinema.ir import Value
from kinema.model import Model

from ..collision.contact_buffers import ContactBuffers
from ..collision.contact_lists import ContactLists, compute_contact_counts, record_contact_counts
from ..collision.contact_slots import ContactSlots
from ..constraints.constraint_kinds import ConstraintKind, blocks_by_kind
from ..constraints.contacts import ContactConstraints
from ..constraints.rows import ConstraintBlock, ConstraintRows, KinematicState
from ..settings import MAX_WARP_TREES, Settings, Solver
from ..tree.kinematic_tree import WORLD, FrameNode, build_tree
from ..tree.node_values import NodeValues
from ..tree.per_tree import PerTreeArray
from ..tree.trace_context import TraceContext
from ..vector_math import sum_values
from .body_objective import BodyIteration, BodyObjective, fits_body_objective
from .implicit_differentiation import solve_implicitly
from .islands import IslandIteration
from .newton import NewtonSolver
from .newton_cg import NewtonCGDirection, fits_newton_cg
from .objective import SolverInputs, ThreadObjective
from .search_direction import ConjugateGradientDirection, NewtonDirection
from .warp_many_trees import many_tree_warp_solver
from .warp_objective import WarpObjective, dense_warp_solver

# ------------------------------------------------------------------------------------ applicability of the warp solvers

MAX_DENSE_DOFS = 64
"""Largest number of dofs of the dense warp solver: each thread has one or two rows of the Hessian in registers."""
MIN_WARP_TREES = 4
"""Smallest number of trees for the warp solver of many trees: with fewer the Hessian is nearly dense."""
MAX_TREE_DOFS = 12
"""Largest number of dofs of a tree in the warp solver of many trees, whose diagonal block is in registers."""


def allows_warp_solver(model: Model, settings: Settings) -> bool:
    """Return whether the warp solvers support the settings and the model.

    Requires warps and the Newton solver, and contacts without restitution and static friction.
    """
    pairs = model.pairs
    has_restitution_or_stiction = bool(pairs.restitution.any() or (pairs.stiction_ratio > 1.0).any())
    return settings.use_warps and settings.solver is Solver.NEWTON and not has_restitution_or_stiction


def fits_dense_warp_solver(model: Model, settings: Settings, n_dofs: int) -> bool:
    """Return whether the dense warp solver applies: a supported model with at most `MAX_DENSE_DOFS` dofs."""
    return allows_warp_solver(model, settings) and n_dofs <= MAX_DENSE_DOFS


def fits_many_tree_warp_solver(model: Model, settings: Settings, nodes: list[FrameNode] | None = None) -> bool:
    """Return whether the warp solver of many trees applies: small trees that only contacts couple.

    Requires 4 to 256 trees of at most 12 dofs each, more dofs than the dense solver handles, and constraint rows of
    single dofs only, neither rigid nor breakable.

    Args:
        model: model.
        settings: simulation settings.
        nodes: frames to be solved; None for all frames of the model.
    """
    if not allows_warp_solver(model, settings):
        return False
    nodes = build_tree(model).nodes if nodes is None else nodes
    tree_dofs: list[int] = []
    tree_of: dict[int, int] = {}
    for node in nodes:
        if node.parent == WORLD:
            tree_dofs.append(0)
        tree_of[node.index] = len(tree_dofs) - 1 if node.parent == WORLD else tree_of[node.parent]
        tree_dofs[tree_of[node.index]] += len(node.dofs)
    if (
        sum(tree_dofs) <= MAX_DENSE_DOFS
        or not MIN_WARP_TREES <= len(tree_dofs) <= MAX_WARP_TREES
        or max(tree_dofs) > MAX_TREE_DOFS
    ):
        return False
    blocks = [block for _, kind_blocks in blocks_by_kind(model, settings, nodes) for block in kind_blocks]
    return all(b.n_rows == 1 and len(b.dofs) == 1 and not b.is_rigid and b.equality_idx < 0 for b in blocks)


def fits_warp_solver(model: Model, settings: Settings, nodes: list[FrameNode] | None = None) -> bool:
    """Return whether one of the warp solvers applies to the given frames, or to the whole model."""
    n_dofs = model.n_dofs if nodes is None else sum(len(node.dofs) for node in nodes)
    return fits_dense_warp_solver(model, settings, n_dofs) or fits_many_tree_warp_solver(model, settings, nodes)


# ---------------------------------------------------------------------------------------------------------------- solve

BlocksByKind = Sequence[tuple[ConstraintKind, list[ConstraintBlock]]]
"""Constraints (`ConstraintBlock`) of each constraint kind."""


@dataclass(slots=True, eq=False)
class ConstraintSolution:
    """Result of the constraint solve."""

    qfrc_constraint: NodeValues[list[Value]]
    """Joint forces of constraints and contacts."""
    contacts: ContactConstraints | None = None
    """Contacts of the thread solvers; None without contacts and for warp solvers."""
    inputs: SolverInputs | None = None
    """Inputs of the solve; None if the solve is conditional at run time."""
    solver: NewtonSolver | None = None
    """Solver that computed the forces."""


def enabled_constraint_blocks(ctx: TraceContext) -> BlocksByKind:
    """Return the constraints of all enabled kinds that act on the traced frames, without empty kinds."""
    return [
        (kind, kind_blocks) for kind, kind_blocks in blocks_by_kind(ctx.model, ctx.settings, ctx.nodes) if kind_blocks
    ]


def build_constraint_rows(ctx: TraceContext, blocks: BlocksByKind, kinematic_state: KinematicState) -> ConstraintRows:
    """Allocate the constraint rows and compute position errors, Jacobians, stiffness and reference accelerations."""
    rows = ConstraintRows(ctx, [block for _, kind_blocks in blocks for block in kind_blocks])
    for kind, _ in blocks:
        kind.fill_rows(kinematic_state, rows)
    rows.compute_stiffness_and_aref()
    return rows


def thread_solver(
    ctx: TraceContext, inputs: SolverInputs, contacts: ContactConstraints | None, islands: PerTreeArray | None
) -> NewtonSolver:
    """Make a Newton or CG constraint solver that runs on one thread per environment.

    `islands` is the island index of each tree, to solve each island separately; None to solve all trees together.
    """
    if ctx.settings.solver is not Solver.CG and islands is None and fits_body_objective(ctx, inputs, contacts):
        assert contacts is not None
        bodies = BodyObjective(ctx, inputs, contacts)
        direction = NewtonCGDirection(bodies)
        return NewtonSolver(bodies, direction, BodyIteration(bodies, direction))
    objective = ThreadObjective(ctx, inputs, contacts)
    if ctx.settings.solver is Solver.CG:
        return NewtonSolver(objective, ConjugateGradientDirection(objective))
    if islands is None and fits_newton_cg(objective):
        return NewtonSolver(objective, NewtonCGDirection(objective))
    direction = NewtonDirection(objective)
    return NewtonSolver(
        objective, direction, None if islands is None else IslandIteration(objective, direction, islands)
    )


def solve_constraints(  # noqa: PLR0913
    ctx: TraceContext,
    blocks: BlocksByKind,
    kinematic_state: KinematicState,
    contacts: ContactBuffers | ContactSlots | ContactLists | None,
    make_inputs: Callable[[], SolverInputs],
    on_solved: Callable[[NewtonSolver], None],
    *,
    always_solve: bool = False,
    on_warp: bool = False,
    islands: PerTreeArray | None = None,
) -> ConstraintSolution:
    """Compute the joint forces of all constraints and contacts (qfrc_constraint).

    Counts the contacts and the limits within their margin; if both are zero and no constraint is always active, the
    solve is skipped at run time and the forces are zero.

    Args:
        ctx: tracing context.
        blocks: constraints by kind.
        kinematic_state: kinematic quantities that the constraints depend on.
        contacts: detected contacts, per contact buffer or in lists; None if contacts are disabled.
        make_inputs: computes the inputs of the solver; traced inside the conditional.
        on_solved: called with the solver after the solve, inside the conditional.
        always_solve: solve even if no constraint is active.
        on_warp: solve by a warp.
        islands: island index of each tree, to solve each island separately; None to solve all trees together.
    """
    solution = ConstraintSolution(ctx.new_values("constraint forces"))
    ctx.for_each_frame(
        "clear constraint forces", lambda node: solution.qfrc_constraint.put(node.ref, [0.0] * len(node.dofs))
    )
    if ctx.has_output("n_iterations") and not ctx.settings.differentiable:
        ctx.write("n_iterations", None, [0.0])
    n_contacts = None
    if contacts is not None:
        counts = compute_contact_counts(ctx, contacts)
        n_contacts = counts.found
        record_contact_counts(ctx, counts)

    def solve() -> SolverInputs:  # values traced here are unknown outside if conditional
        inputs = make_inputs()
        if on_warp:
            has_many_trees = fits_many_tree_warp_solver(ctx.model, ctx.settings, ctx.nodes)
            make_solver = many_tree_warp_solver if has_many_trees else dense_warp_solver
            solution.solver = make_solver(ctx, inputs, contacts if isinstance(contacts, ContactLists) else None)
        else:
            subspaces, poses = inputs.motion_subspaces, inputs.shifted_world_poses
            if isinstance(contacts, ContactBuffers | ContactSlots) and subspaces is not None and poses is not None:
                solution.contacts = ContactConstraints(ctx, contacts, subspaces, poses, inputs.references)
            solution.solver = thread_solver(ctx, inputs, solution.contacts, islands)
        forces = (solve_implicitly if ctx.settings.differentiable else NewtonSolver.solve)(solution.solver)
        if isinstance(solution.solver.objective, WarpObjective):
            solution.solver.objective.multi_dof_rows.store_attachment_forces()
        ctx.for_each_frame(
            "store constraint forces", lambda node: solution.qfrc_constraint.put(node.ref, forces[node.ref])
        )
        on_solved(solution.solver)
        return inputs

    counts = [n_contacts] if n_contacts is not None else []
    near_counters = [(kind.count_near, kind_blocks) for kind, kind_blocks in blocks]
    has_breakable = any(block.equality_idx >= 0 for _, kind_blocks in blocks for block in kind_blocks)
    if always_solve or has_breakable or any(count_near is None for count_near, _ in near_counters):
        solution.inputs = solve()
        return solution
    counts = [
        count_near(kinematic_state, kind_blocks) for count_near, kind_blocks in near_counters if count_near is not None
    ] + counts
    ctx.if_nonzero("constraints", sum_values(counts), solve)
    return solution

"""Constraint solve of scenes of many trees by a warp: vectors padded to equal length per tree, and the solver.

Of two directions, the one is chosen by the number of trees: with up to `MAX_FACTORIZED_TREES` the block-sparse Hessian
is factorised (`warp_block_sparse.py`), with more conjugate gradients are used (`warp_newton_cg.py`).
"""

from __future__ import annotations

from dataclasses import replace

from kinema import ir
from kinema.ir import SCRATCH, ArenaOffset, LoopIteration, Value

from ..collision.contact_lists import ContactLists
from ..constraints.warp_contacts import LoadedVector, TreePairContacts
from ..settings import MAX_FACTORIZED_TREES
from ..tree.per_tree import PaddedTreeLayout
from ..tree.sparse_matrix import LDLFactors
from ..tree.trace_context import TraceContext
from ..vector_math import sum_values
from .convergence import ROUNDING_TOLERANCE
from .newton import NewtonSolver, SearchDirection
from .objective import JointVector, SolverInputs, SolverState
from .warp_block_sparse import BlockSparseDirection, WarpBlockSparseMatrix
from .warp_newton_cg import WarpNewtonCGDirection
from .warp_objective import BlockDiagonalMatrix, WarpObjective, WarpVectors


class PaddedVectors(WarpVectors):
    """Joint-space vectors in which each tree has the same number of elements; padding is zero."""

    def __init__(self, ctx: TraceContext) -> None:
        super().__init__(ctx)
        self.layout = PaddedTreeLayout(ctx)
        self.size = self.layout.size

    def new(self, name: str) -> JointVector:
        """Allocate a vector with zero padding."""
        if self.layout.is_unpadded:
            return super().new(name)
        vector = self.layout.joint_vector(name)
        self.set_zero(vector)
        return vector

    def load(self, vector: JointVector) -> LoadedVector:
        """Return a vector whose elements are read on demand."""
        return LoadedVector(self.ctx.start_offset(vector), ())

    def copy_padded(self, vector: JointVector) -> JointVector:
        """Return a vector of the ordinary layout in the padded layout; the same one if the layouts are equal."""
        if self.layout.is_unpadded:
            return vector
        padded = self.new("padded vector")
        self.ctx.for_each_frame("pad vector", lambda node: padded.put(node.ref, vector[node.ref]))
        return padded

    def copy_inverse_pivots(self, factors: LDLFactors) -> int:
        """Copy the inverse pivots of LDL factors, 1 for padding; return the first scratch offset."""
        ctx, layout = self.ctx, self.layout
        start = ctx.allocate(layout.size).row
        targets = {dof: ArenaOffset(SCRATCH, start + position) for dof, position in layout.position_of_dof.items()}
        rows = [LoopIteration("dof", {"from": x, "to": targets[dof]}) for dof, x in factors.inverse_pivots.items()]
        rows += [
            LoopIteration("padding", {"to": ArenaOffset(SCRATCH, start + position)}) for position in layout.padding
        ]
        ctx.for_each(
            "bounds of inverse pivots",
            rows,
            lambda iteration: iteration.write(
                "to", [iteration.read("from") if iteration.specialization == "dof" else 1.0]
            ),
        )
        return start


def many_tree_warp_solver(ctx: TraceContext, inputs: SolverInputs, contact_lists: ContactLists | None) -> NewtonSolver:
    """Make a Newton solver for many trees, in code that a warp executes cooperatively (warp region).

    `contact_lists` is None without contacts.
    """
    vectors = PaddedVectors(ctx)
    layout, state, subspaces = vectors.layout, SolverState(ctx, vectors.new), inputs.motion_subspaces
    inputs = replace(inputs, qacc_smooth=vectors.copy_padded(inputs.qacc_smooth))
    max_inverse_pivots = vectors.copy_inverse_pivots(inputs.mass_factors)
    contacts = None
    if contact_lists is not None and subspaces is not None:
        contacts = TreePairContacts(ctx, contact_lists, subspaces, layout)
    hessian = None
    if layout.n_trees <= MAX_FACTORIZED_TREES:
        hessian = WarpBlockSparseMatrix(ctx, layout)
        hessian.compute_elimination_order(contacts)
    stride, start = layout.stride, ctx.allocate(layout.size * layout.stride).row
    mass = BlockDiagonalMatrix(ctx, layout.position_of_dof, layout.size, stride, stride, start)
    objective = WarpObjective(inputs, state, vectors, mass, max_inverse_pivots, contacts)
    assert not objective.multi_dof_rows.n_rows
    assert not objective.rows.blocks, "the warp solver of many trees supports only constraint rows of single dofs"
    if ctx.settings.is_single_precision:
        objective.tree_convergence = _PaddedTreeConvergence(objective, layout)
    direction: SearchDirection
    if hessian is None:
        direction = WarpNewtonCGDirection(objective, layout, contacts)
    else:
        direction = BlockSparseDirection(objective, hessian, contacts)
    return NewtonSolver(objective, direction)


class _PaddedTreeConvergence:
    """Convergence test per tree for joint-space vectors in the padded layout (see `TreeConvergence`)."""

    def __init__(self, objective: WarpObjective, layout: PaddedTreeLayout) -> None:
        self.objective, self.layout = objective, layout

    def count_unconverged(self, gradient: JointVector, forces: JointVector, tolerance: Value) -> Value:
        """Return the number of trees whose gradient norm exceeds `tolerance` times their force norm plus rounding.

        One thread per tree. The total force norm is read from the convergence sums of the objective.
        """
        ctx, stride = self.objective.ctx, self.layout.stride
        total_squared_force, squared_tolerance = (
            self.objective.state.read(self.objective.convergence_sums, 1),
            tolerance * tolerance,
        )

        def is_unconverged(tree: Value) -> list[Value]:
            squared_gradient, squared_force = (
                sum_values(
                    [
                        ir.square(ctx.tracer.read(SCRATCH, ctx.start_offset(x) + i, tree * float(stride)))
                        for i in range(stride)
                    ]
                )
                for x in (gradient, forces)
            )
            return [
                ir.select(
                    squared_tolerance * squared_force + ROUNDING_TOLERANCE**2 * total_squared_force,
                    squared_gradient,
                    1.0,
                    0.0,
                )
            ]

        return ctx.tracer.parallel_loop("unconverged trees", float(self.layout.n_trees), is_unconverged, 1)[0]

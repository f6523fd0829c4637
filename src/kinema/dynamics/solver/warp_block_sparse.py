"""Newton direction by a warp for scenes of many trees: block-sparse Hessian with one block per pair of coupled trees.

Joint-space vectors are padded to the same number of dofs per tree (the stride). The Hessian is stored as dense stride x
stride blocks: diagonal blocks of all trees, then off-diagonal blocks of trees coupled by contacts or by fill-in. Trees
are eliminated in minimum-degree order by a block LDL factorisation: all threads factorise the diagonal block
redundantly in registers, then each thread processes a row of a block coupled with the tree, and then a row of a Schur
complement block between two of its neighbours.

This is not the matrix of the CPU (`tree/block_sparse_matrix.py`). There, one thread eliminates the blocks in the order
of the trees and skips absent ones, with memory for all pairs of trees, because the lanes of a SIMD vector need equal
blocks at equal offsets. Here, each environment stores its own blocks only, in its own minimum-degree order, and the
threads of a warp share their rows: 50 free bodies take at most 65 kB per environment instead of 184 kB for all pairs,
and the blocks used first lie in shared memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kinema import ir
from kinema.codegen import MinimumDegreeOrdering
from kinema.ir import SCRATCH, IntrinsicCall, MemoryLocation, SharedMemoryStaging, Value

from ..constraints.warp_contacts import TreePairContacts, divmod_index
from ..tree.per_tree import PaddedTreeLayout
from ..tree.trace_context import TraceContext
from ..vector_math import dot, sum_values
from .newton import SearchDirection
from .objective import JointVector
from .warp_objective import WarpObjective

# ----------------------------------------------------------------------------------------------------- block-sparse LDL

BLOCKS_PER_TREE = 8
"""Capacity of off-diagonal blocks per tree. With fill-in, 50 objects with eight neighbours each need at most 6.6, 4 x 4
x 4 cubes 7.3."""
SHARED_BLOCKS_PER_TREE = 2
"""Blocks per tree staged in shared memory, including the diagonal block; enough for a tower."""
MAX_SHARED_VALUES = 2048
"""Maximum number of matrix values staged in shared memory."""
ORDER, RANK, FIRST_BLOCK, N_BLOCKS = range(4)
"""Fields of the tree table written by `MinimumDegreeOrdering`: tree eliminated at a position, position of a tree, first
block, block count."""


class WarpBlockSparseMatrix:
    """Symmetric block-sparse matrix over trees in scratch memory, factorised in place by a warp.

    Diagonal blocks come first, one per tree, then off-diagonal blocks in the order of elimination.
    """

    def __init__(self, ctx: TraceContext, layout: PaddedTreeLayout) -> None:
        self.ctx, self.layout = ctx, layout
        count, self.block_size = layout.n_trees, layout.stride**2
        self.capacity = max(min(count * (count - 1) // 2, BLOCKS_PER_TREE * count), 1)
        self.tree_table = ctx.allocate(4 * count).row
        self.block_trees = ctx.allocate(2 * self.capacity, oversized=True).row
        self.block_of_tree_pair = ctx.allocate(count * count, oversized=True).row
        self.block_counts = ctx.allocate_fixed(2).row
        self.blocks = ctx.allocate((count + self.capacity) * self.block_size, oversized=True).row

    def compute_elimination_order(self, contacts: TreePairContacts | None) -> None:
        """Compute minimum-degree elimination order of the trees and nonzero off-diagonal blocks, fill-in included.

        Two trees are coupled by a contact between them. Also stages the first blocks in shared memory if they fit.
        """
        tracer, layout = self.ctx.tracer, self.layout
        locations = [
            MemoryLocation(SCRATCH, row)
            for row in (self.tree_table, self.block_trees, self.block_of_tree_pair, self.block_counts)
        ]
        couplings = () if contacts is None else contacts.tree_couplings()
        ordering = MinimumDegreeOrdering(layout.n_trees, self.capacity, couplings, *locations)
        tracer.add_statement(IntrinsicCall("elimination order", ordering), {})
        n_staged = min(SHARED_BLOCKS_PER_TREE, 1 + self.capacity // layout.n_trees) * layout.n_trees
        if n_staged * self.block_size > MAX_SHARED_VALUES:
            return
        blocks, length = MemoryLocation(SCRATCH, self.blocks), (layout.n_trees + self.capacity) * self.block_size
        block_count, n_trees = MemoryLocation(SCRATCH, self.block_counts), layout.n_trees
        tracer.add_statement(
            SharedMemoryStaging(
                "matrix blocks", blocks, length, self.block_size, block_count, n_staged - n_trees, n_always=n_trees
            ),
            {},
        )

    @property
    def has_overflowed(self) -> Value:
        """1 if the block capacity was exceeded, so that solutions are inexact, else 0."""
        return self._read(self.block_counts + 1)

    def _read(self, row: int, index: Value | None = None) -> Value:
        return self.ctx.tracer.read(SCRATCH, row, index)

    def _tree_value(self, field: int, tree: Value) -> Value:
        return self._read(self.tree_table + field, tree * 4.0)

    def _block_entry(self, block: Value, row: int, column: int) -> Value:
        """Return an entry of a block given by run-time index."""
        return self._read(self.blocks + row * self.layout.stride + column, block * float(self.block_size))

    def _block_row(self, block: Value, row: Value) -> list[Value]:
        """Return all entries of a row of a block, both given by run-time index."""
        offset = block * float(self.block_size) + row * float(self.layout.stride)
        return [self._read(self.blocks + i, offset) for i in range(self.layout.stride)]

    def _write_block_row(self, block: Value, row: Value, values: list[Value]) -> None:
        offset = block * float(self.block_size) + row * float(self.layout.stride)
        self.ctx.tracer.write(SCRATCH, values, self.blocks, offset)

    def _for_each_block_row(self, name: str, n_blocks: Value, body: Callable[[Value, Value], None]) -> None:
        """Run `body(block, row)` for each row of `n_blocks` blocks, one thread per row."""
        stride = self.layout.stride

        def run(index: Value) -> list[Value]:
            body(*divmod_index(index, stride))
            return []

        self.ctx.tracer.parallel_loop(name, n_blocks * float(stride), run)

    # --------------------------------------------------------------------------------------------------------- assembly

    def assemble(self, mass_start: int, diagonal_start: int, contacts: TreePairContacts | None) -> None:
        """Trace the assembly of the Hessian M + diagonal + J^T H J of contacts, with one thread per block row.

        Args:
            mass_start: scratch offset of the block-diagonal mass matrix.
            diagonal_start: scratch offset of the vector added to the diagonal (stiffness of single-dof rows).
            contacts: contacts that add J^T H J; None without contacts.
        """
        tracer, stride, n_trees = self.ctx.tracer, self.layout.stride, float(self.layout.n_trees)

        def write_row(block: Value, row: Value) -> None:
            sums, off_diagonal_index = tracer.allocate_local(stride), block - n_trees
            pair = ir.maximum(off_diagonal_index, 0.0) * 2.0
            row_tree, column_tree = (
                ir.select(off_diagonal_index, -0.5, block, self._read(self.block_trees + i, pair)) for i in range(2)
            )
            is_diagonal = ir.select(off_diagonal_index, -0.5, 1.0, 0.0)
            mass_offset = is_diagonal * (block * float(self.block_size) + row * float(stride))
            diagonal = self._read(diagonal_start, row_tree * float(stride) + row)
            for i in range(stride):
                diagonal_entry = ir.select(ir.absolute(row - float(i)), 0.5, diagonal, 0.0)
                tracer.write(sums, [is_diagonal * (self._read(mass_start + i, mass_offset) + diagonal_entry)], i)
            if contacts is not None:
                contacts.add_hessian_row(sums, (row_tree, column_tree), row)
            self._write_block_row(block, row, [tracer.read(sums, i) for i in range(stride)])

        self._for_each_block_row("matrix blocks", n_trees + self._read(self.block_counts), write_row)

    # ------------------------------------------------------------------------------------------------------------ solve

    def solve(self, max_inverse_pivots: int, vector_start: int) -> None:
        """Solve the linear system in place by block LDL factorisation and substitution; the matrix is overwritten.

        Args:
            max_inverse_pivots: scratch offset of the upper bounds of the inverse pivots, one per dof.
            vector_start: scratch offset of the right-hand side, replaced by the solution.
        """
        tracer, n_trees = self.ctx.tracer, float(self.layout.n_trees)

        def eliminate(index: Value) -> None:
            self._eliminate(self._tree_value(ORDER, index), max_inverse_pivots, vector_start)

        def substitute(index: Value) -> None:
            self._back_substitute(self._tree_value(ORDER, n_trees - 1.0 - index), vector_start)

        tracer.counted_loop("eliminate trees", n_trees, eliminate)
        tracer.counted_loop("back-substitute trees", n_trees, substitute)

    def _eliminate(self, tree: Value, max_inverse_pivots: int, vector_start: int) -> None:
        """Eliminate one tree: LDL-factorise its diagonal block and update its neighbours and the right-hand side.

        Writes the factors with inverse pivots on the diagonal, the reduced off-diagonal blocks and the Schur complement
        blocks between the neighbours. Inverse pivots are bounded by `max_inverse_pivots`.
        """
        tracer, n, offset = self.ctx.tracer, self.layout.stride, tree * float(self.layout.stride)
        factors = [[self._block_entry(tree, i, j) for j in range(i + 1)] for i in range(n)]
        rhs = [self._read(vector_start + i, offset) for i in range(n)]
        inverses: list[Value] = [0.0] * n
        for k in reversed(range(n)):
            bound = self._read(max_inverse_pivots + k, offset)
            inverses[k] = ir.select(1.0, bound * factors[k][k], 1.0 / factors[k][k], bound)
            for i in range(k):
                factor = factors[k][i] * inverses[k]
                for j in range(i + 1):
                    factors[i][j] = factors[i][j] - factor * factors[k][j]
                rhs[i] = rhs[i] - factor * rhs[k]
            factors[k] = [*(factors[k][i] * inverses[k] for i in range(k)), inverses[k]]
        first, n_blocks = self._tree_value(FIRST_BLOCK, tree), self._tree_value(N_BLOCKS, tree)
        scaled = [a * b for a, b in zip(inverses, rhs, strict=True)]
        for k in range(n):
            tracer.write(SCRATCH, factors[k], self.blocks + k * n, tree * float(self.block_size))
        tracer.write(SCRATCH, rhs, vector_start, offset)
        start = float(self.layout.n_trees) + first

        def reduce(index: Value, row: Value) -> None:
            block = start + index
            entries = self._block_row(block, row)
            for k in reversed(range(n)):
                for i in range(k):
                    entries[i] = entries[i] - factors[k][i] * entries[k]
            self._write_block_row(block, row, entries)
            position = self._read(self.block_trees, (first + index) * 2.0) * float(n) + row
            tracer.write(SCRATCH, [self._read(vector_start, position) - dot(entries, scaled)], vector_start, position)

        def update(pair: Value, row: Value) -> None:
            self._update_schur_complement(pair, row, first, inverses)

        self._for_each_block_row("blocks of a tree", n_blocks, reduce)
        self._for_each_block_row("Schur complement blocks", 0.5 * n_blocks * (n_blocks + 1.0), update)

    def _update_schur_complement(self, pair: Value, row: Value, first_block: Value, inverses: list[Value]) -> None:
        """Subtract B_a D^-1 B_b^T of an eliminated tree from one row of the block between two of its neighbours.

        Args:
            pair: index of the neighbour pair (a <= b) in packed triangular order.
            row: row of the block.
            first_block: first off-diagonal block of the eliminated tree.
            inverses: inverse pivots D^-1 of the eliminated tree.
        """
        n, n_trees = self.layout.stride, float(self.layout.n_trees)
        b = ir.floor(0.5 * ir.sqrt(8.0 * pair + 1.5) - 0.5)
        a = pair - 0.5 * b * (b + 1.0)
        trees = [self._read(self.block_trees, (first_block + i) * 2.0) for i in (a, b)]
        ranks = [self._tree_value(RANK, tree) for tree in trees]
        later_block = ir.select(ranks[0], ranks[1], b, a)
        earlier_block = a + b - later_block
        off_diagonal = n_trees + self._read(self.block_of_tree_pair, trees[0] * n_trees + trees[1])
        block = ir.select(ir.absolute(a - b), 0.5, trees[0], off_diagonal)
        start = n_trees + first_block
        scaled_row = [x * y for x, y in zip(self._block_row(start + later_block, row), inverses, strict=True)]
        entries = self._block_row(block, row)
        other_block = start + earlier_block
        products = [dot(scaled_row, [self._block_entry(other_block, j, i) for i in range(n)]) for j in range(n)]
        self._write_block_row(block, row, [x - y for x, y in zip(entries, products, strict=True)])

    def _back_substitute(self, tree: Value, vector_start: int) -> None:
        """Back-substitute one tree: subtract contributions of later eliminated neighbours, then solve its own block.

        Overwrites the tree's part of the vector with the solution; one thread per column of the off-diagonal blocks.
        """
        tracer, n, offset = self.ctx.tracer, self.layout.stride, tree * float(self.layout.stride)
        first, n_blocks = self._tree_value(FIRST_BLOCK, tree), self._tree_value(N_BLOCKS, tree)

        def subtract_column(column_index: Value) -> list[Value]:
            total = tracer.allocate_local(1)
            tracer.write(total, [self._read(vector_start, offset + column_index)])

            def subtract_block(index: Value) -> None:
                other_offset = self._read(self.block_trees, (first + index) * 2.0) * float(n)
                entry_offset = (float(self.layout.n_trees) + first + index) * float(self.block_size) + column_index
                products = [
                    self._read(self.blocks + i * n, entry_offset) * self._read(vector_start + i, other_offset)
                    for i in range(n)
                ]
                tracer.write(total, [tracer.read(total) - sum_values(products)])

            tracer.counted_loop("blocks of a tree", n_blocks, subtract_block)
            tracer.write(SCRATCH, [tracer.read(total)], vector_start, offset + column_index)
            return []

        tracer.parallel_loop("subtract neighbours", float(n), subtract_column)
        solution: list[Value] = []
        for k in range(n):
            scaled = self._read(vector_start + k, offset) * self._block_entry(tree, k, k)
            solution.append(scaled - dot([self._block_entry(tree, k, i) for i in range(k)], solution) if k else scaled)
        tracer.write(SCRATCH, solution, vector_start, offset)


# ---------------------------------------------------------------------------------------- block-sparse Newton direction


@dataclass(frozen=True, eq=False)
class BlockSparseDirection(SearchDirection):
    """Newton direction with a block-sparse Hessian, for many trees of which most pairs are not in contact.

    All constraint rows must act on single dofs; only contacts couple trees.
    """

    objective: WarpObjective
    hessian: WarpBlockSparseMatrix
    contacts: TreePairContacts | None

    def overflow(self) -> Value:
        """Return 1 if the capacity of blocks was exceeded, so that a step is inexact, else 0."""
        return self.hessian.has_overflowed

    def compute(self) -> JointVector:
        """Assemble and factorise the block-sparse Hessian H; return the Newton direction H^-1 (-g)."""
        objective, vectors = self.objective, self.objective.vectors
        direction, start = vectors.new("direction"), objective.ctx.start_offset
        self.hessian.assemble(objective.mass.start, start(objective.hessian_diagonal), self.contacts)
        vectors.for_each_dof(
            "direction", lambda dof: vectors.write(direction, dof, vectors.read(objective.state.negative_gradient, dof))
        )
        self.hessian.solve(objective.max_inverse_pivots, start(direction))
        return direction

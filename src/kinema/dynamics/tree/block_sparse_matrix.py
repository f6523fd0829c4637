"""Block-sparse symmetric joint-space matrices (6x6 blocks) and their block Cholesky factorisation G^T G.

In scenes where any two trees may come into contact, a joint-space Hessian has potential entries between all pairs of
trees, nearly all of them zero. Storage is allocated for every 6x6 block of the lower triangle; a nonzero flag per
block, set at run time, tells which blocks are in use. Fill-in blocks are flagged before the factorisation starts, and
blocks without a flag are skipped, so that the cost grows with the number of contacts instead of the number of pairs: 50
objects in a bin run at 4,400 steps/s on one core, with a dense matrix at 63 (docs/internals/contacts.md). On a GPU, the
matrix of a warp (`solver/warp_block_sparse.py`) stores and orders the blocks of each environment by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kinema import ir
from kinema.ir import (
    SCRATCH,
    ArenaOffset,
    ColumnarGroup,
    IterationContext,
    IterationTable,
    LoopIteration,
    OffsetColumn,
    Value,
)

from .kinematic_tree import WORLD, FrameNode, Ints
from .loop_context import LoopContext
from .node_values import NodeValues
from .sparse_matrix import JointSpaceMatrix, LDLFactors

BLOCK_SIZE = 6
"""Rows and columns of a block: the six degrees of freedom of a free body."""
BLOCK_ENTRIES = BLOCK_SIZE * BLOCK_SIZE


class DofBlocks:
    """Partition of the degrees of freedom into blocks of at most six consecutive dofs of whole frames of one tree."""

    def __init__(self, ctx: LoopContext) -> None:
        self.dofs_of_block: list[list[int]] = []
        self.root_frame_of_block: list[int] = []
        """For each block the index of the root frame of its tree."""
        self.block_of_dof: dict[int, tuple[int, int]] = {}
        """For each degree of freedom its block index and its position within the block."""
        by_tree: dict[int, list[FrameNode]] = {}
        for node in ctx.nodes:
            by_tree.setdefault(root_frame(ctx, node.index), []).append(node)
        for root, nodes in by_tree.items():
            self._add_tree(root, nodes)

    def _add_tree(self, root: int, nodes: Sequence[FrameNode]) -> None:
        """Append the blocks of one tree: at most six consecutive dofs of whole frames per block."""
        has_open_block = False
        for node in nodes:
            if not has_open_block or len(self.dofs_of_block[-1]) + len(node.dofs) > BLOCK_SIZE:
                self.dofs_of_block.append([])
                self.root_frame_of_block.append(root)
                has_open_block = True
            for dof in node.dofs:
                self.block_of_dof[dof] = (len(self.dofs_of_block) - 1, len(self.dofs_of_block[-1]))
                self.dofs_of_block[-1].append(dof)

    @property
    def count(self) -> int:
        """Number of blocks."""
        return len(self.dofs_of_block)

    def blocks_of_dofs(self, dofs: Iterable[int]) -> list[int]:
        """Sorted indices of the blocks that contain the given degrees of freedom."""
        return sorted({self.block_of_dof[dof][0] for dof in dofs})

    def block_pairs(self, dofs: Iterable[int]) -> list[tuple[int, int]]:
        """All lower-triangle block pairs (row, column) coupled by a dense clique of the given degrees of freedom."""
        blocks = self.blocks_of_dofs(dofs)
        return [(a, b) for a in blocks for b in blocks if b <= a]


def root_frame(ctx: LoopContext, frame: int) -> int:
    """Index of the root frame (child of the world) of the tree that contains `frame`."""
    while ctx.tree.nodes[frame].parent != WORLD:
        frame = ctx.tree.nodes[frame].parent
    return frame


def _no_columns(*_: Ints) -> dict[str, Any]:
    return {}


@dataclass(frozen=True, slots=True, eq=False)
class BlockRows:
    """A subset of the matrix blocks that runs one specialization of a block loop, with its extra columns."""

    specialization: Hashable
    mask: npt.NDArray[np.bool_]
    """For each block of the loop whether it belongs to this subset, (n_blocks_of_loop,)."""
    offset_columns: Callable[[Ints, Ints], Mapping[str, OffsetColumn]] = _no_columns
    """Extra arena offsets of the loop iterations, computed from block row and block column indices."""
    constants: Callable[[Ints, Ints], Mapping[str, npt.NDArray[np.float64]]] = _no_columns
    """Extra table constants, computed from block row and block column indices."""


class BlockSparseMatrix(JointSpaceMatrix):
    """Symmetric joint-space matrix of 6x6 blocks in scratch memory; diagonal blocks store their lower half only.

    The lower triangle of blocks is stored row by row, with one nonzero flag per block. The name gets a numeric suffix
    to be unique, and the matrix registers itself as a frame extension so that loops over frames find its diagonal
    entries.
    """

    def __init__(self, template: JointSpaceMatrix, name: str) -> None:
        self.blocks = DofBlocks(template.ctx)
        n = self.blocks.count
        self._first_block_row = template.ctx.allocate(BLOCK_ENTRIES * n * (n + 1) // 2).row
        self._first_flag_row = template.ctx.allocate(n * n).row
        self.may_overwrite = True
        self.shares_flags = template.ctx.idle_flags is None
        """Whether environments that run in SIMD lanes share the nonzero flags (the union over lanes). Blocks that are
        empty in one of these environments are zero there and change nothing. Not possible with idle trees, whose blocks
        are undefined."""
        self.ctx = template.ctx
        self.name = f"{name} {len(template.ctx.frame_extensions)}"
        self.sparsity = template.sparsity
        self.order = template.order
        template.ctx.frame_extensions.append(self)
        self._backward_list: ArenaOffset | None = None
        self._forward_list: ArenaOffset | None = None
        """Lists of the flagged blocks in backward and forward order, once the flags are final."""

    def block_offset(self, block_row: int, block_column: int) -> ArenaOffset:
        """Scratch offset of the 36 entries of a block; requires `block_column` <= `block_row`."""
        return ArenaOffset(
            SCRATCH, self._first_block_row + BLOCK_ENTRIES * (block_row * (block_row + 1) // 2 + block_column)
        )

    def flag_offset(self, block_row: int, block_column: int) -> ArenaOffset:
        """Scratch offset of the nonzero flag of a block."""
        return ArenaOffset(SCRATCH, self._first_flag_row + block_row * self.blocks.count + block_column)

    def block_offset_column(self, block_rows: Ints, block_columns: Ints) -> OffsetColumn:
        """Scratch offsets of many blocks as a table column."""
        return OffsetColumn(
            SCRATCH, self._first_block_row + BLOCK_ENTRIES * (block_rows * (block_rows + 1) // 2 + block_columns)
        )

    def flag_offset_column(self, block_rows: Ints, block_columns: Ints) -> OffsetColumn:
        """Scratch offsets of the nonzero flags of many blocks as a table column."""
        return OffsetColumn(SCRATCH, self._first_flag_row + block_rows * self.blocks.count + block_columns)

    def _idle_flag_columns(self, block_rows: Ints) -> dict[str, OffsetColumn]:
        """Table column of the idle flags of the trees that the block rows belong to; empty without idle flags."""
        flags = [self.ctx.idle_flag_of_frame(root) for root in self.blocks.root_frame_of_block]
        return {
            name: OffsetColumn.from_offsets([offsets[name] for offsets in flags]).select(block_rows)
            for name in flags[0]
        }

    def entry(self, dof: int, ancestor: int) -> ArenaOffset:
        """Scratch offset of entry (dof, ancestor) or of its mirror image, whichever lies in the lower triangle."""
        first, second = sorted((self.blocks.block_of_dof[dof], self.blocks.block_of_dof[ancestor]), reverse=True)
        return ArenaOffset(SCRATCH, self.block_offset(first[0], second[0]).row + BLOCK_SIZE * first[1] + second[1])

    def symmetric_entry(self, a: int, b: int) -> ArenaOffset:
        """Scratch offset of entry (a, b) or of its mirror image; same as `entry`."""
        return self.entry(a, b)

    # ---------------------------------------------------------------------------------------------------- nonzero flags

    def clear_flags(self) -> None:
        """Trace a loop that sets the nonzero flags of the diagonal blocks and clears the flags of all other blocks."""

        def body(iteration: IterationContext) -> None:
            tracer = iteration.tracer
            tracer.counted_loop(
                "flags", iteration.constant("count"), lambda index: tracer.write("flags", [0.0], 0, index), uniform=True
            )
            iteration.write("diagonal flag", [1.0])

        rows = []
        for k in range(self.blocks.count):
            offsets = {"flags": self.flag_offset(k, 0), "diagonal flag": self.flag_offset(k, k)}
            rows.append(LoopIteration("flags", offsets, {"count": [float(k)]}))
        self.ctx.for_each(f"{self.name}, clear flags", rows, body)

    def flag_structural_blocks(self, coupled_groups: Iterable[Iterable[int]]) -> None:
        """Trace a loop that flags the structurally nonzero blocks: branch sparsity and cliques of coupled dofs.

        Each element of `coupled_groups` lists degrees of freedom that are all coupled with each other.
        """
        pairs = {
            tuple(sorted((self.blocks.block_of_dof[dof][0], self.blocks.block_of_dof[column][0]), reverse=True))
            for dof, columns in self.sparsity.items()
            for column in columns
        }
        pairs |= {block_pair for group in coupled_groups for block_pair in self.blocks.block_pairs(group)}
        rows = [LoopIteration("flag", {"flag": self.flag_offset(a, b)}) for a, b in sorted(pairs) if a != b]
        self.ctx.for_each(f"{self.name}, structural flags", rows, lambda iteration: iteration.write("flag", [1.0]))

    def flag_fill_in(self) -> None:
        """Trace the symbolic factorisation: flag all blocks that elimination of the flagged blocks fills in.

        Runs from the last block row to the first. If SIMD lanes share the flags, each block row first takes the union
        of its flags over the lanes.
        """

        def unite_lanes(iteration: IterationContext) -> None:
            tracer = iteration.tracer

            def combine(index: Value) -> None:
                tracer.write("flags", [ir.any_lane(tracer.read("flags", 0, index))], 0, index)

            tracer.counted_loop("flags", iteration.constant("count"), combine, uniform=True)

        def fill(iteration: IterationContext) -> None:
            tracer = iteration.tracer

            def combine(index: Value) -> None:
                both = [tracer.read(array, 0, index) for array in ("flags", "target flags")]
                tracer.write("target flags", [both[0] + both[1] - both[0] * both[1]], 0, index)

            def merge_row() -> list[Value]:
                tracer.counted_loop("flags", iteration.constant("count"), combine, uniform=True)
                return []

            tracer.if_less("nonzero", 0.5, iteration.read("flag"), merge_row, [])

        rows = self._fill_in_table()
        self.ctx.for_each(
            f"{self.name}, fill-in flags",
            rows,
            lambda iteration: (fill if iteration.specialization == "pair" else unite_lanes)(iteration),
        )

    def _fill_in_table(self) -> IterationTable:
        """Table of the symbolic factorisation: off-diagonal blocks (k, i), i < k, from the last block row to the first.

        If SIMD lanes share the flags, an iteration of specialization "row" for the whole block row k precedes its
        pairs.
        """
        n = self.blocks.count
        k = np.repeat(np.arange(n - 1, -1, -1), np.arange(n - 1, -1, -1))
        i = np.concatenate([np.arange(k - 1, -1, -1) for k in range(n - 1, -1, -1)])
        rows = np.arange(n - 1, -1, -1) if self.shares_flags else np.zeros(0, np.int64)
        pair_positions = np.arange(len(k)) + (n - k if self.shares_flags else 0)
        pair_columns = {
            "flag": self.flag_offset_column(k, i),
            "flags": self.flag_offset_column(k, 0 * k),
            "target flags": self.flag_offset_column(i, 0 * i),
        }
        groups = [ColumnarGroup("pair", pair_positions, pair_columns, {"count": i[:, None].astype(np.float64)})]
        if self.shares_flags:
            row_positions = np.setdiff1d(np.arange(len(k) + n), pair_positions)
            row_columns = {"flags": self.flag_offset_column(rows, 0 * rows)}
            groups.append(ColumnarGroup("row", row_positions, row_columns, {"count": rows[:, None].astype(np.float64)}))
        return IterationTable(groups)

    def list_nonzero_blocks(self) -> None:
        """Trace loops that list the blocks flagged in any SIMD lane, in backward and forward order.

        Later block loops iterate over these lists only.
        """
        self._backward_list, self._forward_list = (
            self._nonzero_block_list(forward=forward) for forward in (False, True)
        )

    def _nonzero_block_list(self, *, forward: bool) -> ArenaOffset:
        """Trace the loops that list the blocks flagged as nonzero in any SIMD lane; returns the list's scratch offset.

        The list has its length, then positions in the loop order of the blocks.
        """
        k, i = self._block_order(forward=forward)
        list_offset = self.ctx.allocate(len(k) + 1)

        def clear(iteration: IterationContext) -> None:
            _if_in_all_environments(iteration, 1.0, lambda: iteration.write("list", [0.0]))

        def append_if_flagged(iteration: IterationContext) -> None:
            def append() -> None:
                count = iteration.read("list") + 1.0
                iteration.tracer.write("list", [iteration.constant("row")], 0, count)
                iteration.write("list", [count])

            _if_in_all_environments(iteration, ir.any_lane(iteration.read("flag")), append)

        positions = np.arange(len(k))
        columns = {"flag": self.flag_offset_column(k, i), "list": OffsetColumn.repeated(list_offset, len(k))}
        rows = IterationTable(
            [ColumnarGroup("block", positions, columns, {"row": positions[:, None].astype(np.float64)})]
        )
        direction = "forward" if forward else "backward"
        self.ctx.for_each(f"{self.name}, clear {direction} list", [LoopIteration("list", {"list": list_offset})], clear)
        self.ctx.for_each(f"{self.name}, {direction} list", rows, append_if_flagged)
        return list_offset

    def _block_order(self, *, forward: bool) -> tuple[Ints, Ints]:
        """Row and column indices of all blocks in loop order.

        Forward: the lower triangle row by row. Backward: from the last block row to the first, each starting with its
        diagonal block.
        """
        n = self.blocks.count
        if forward:
            k, i = np.tril_indices(n)
            return k, i
        k = np.repeat(np.arange(n - 1, -1, -1), np.arange(n, 0, -1))
        return k, np.concatenate([np.append(k, np.arange(k)) for k in range(n - 1, -1, -1)])

    def for_each_nonzero_block(
        self,
        name: str,
        block_rows: Callable[[Ints, Ints], Iterable[BlockRows]],
        body: Callable[[IterationContext], None],
        *,
        forward: bool = False,
    ) -> None:
        """Trace a loop over the flagged (nonzero) blocks of the lower triangle, block row by block row.

        The loop iteration binds the current block (k, i) as the array `block`, and the diagonal block (k, k) as
        `pivot block`.

        Args:
            name: label of the loop.
            block_rows: from block row and column indices, the subsets with their specializations and extra columns.
            body: code of one block.
            forward: from the first block row to the last instead of from the last to the first.
        """
        order, groups = self._block_order(forward=forward), []
        for subset in block_rows(*order):
            positions = np.flatnonzero(subset.mask)
            k, i = (indices[positions] for indices in order)
            columns = {
                "flag": self.flag_offset_column(k, i),
                "block": self.block_offset_column(k, i),
                "pivot block": self.block_offset_column(k, k),
                **self._idle_flag_columns(k),
            }
            groups.append(
                ColumnarGroup(
                    subset.specialization, positions, {**subset.offset_columns(k, i), **columns}, subset.constants(k, i)
                )
            )

        def run(iteration: IterationContext) -> None:
            self.if_nonzero(iteration, iteration.read("flag"), lambda: body(iteration))

        self.ctx.for_each(name, IterationTable(groups), run, self._forward_list if forward else self._backward_list)

    def copy_from(self, source: JointSpaceMatrix) -> None:
        """Trace loops that copy a matrix with branch sparsity into the blocks; other flagged entries become zero.

        Diagonal entries of unused rows of a block (frames with fewer than six dofs) are set to one, so that the
        factorisation never divides by zero.
        """
        blocks = self.blocks

        self.for_each_nonzero_block(
            f"{self.name}, clear blocks",
            lambda k, _: [BlockRows("block", k >= 0)],
            lambda iteration: iteration.write("block", [0.0] * BLOCK_ENTRIES),
        )
        idle_flags = self.ctx.idle_flags_of_dofs()
        rows = [
            LoopIteration(
                "entry", {"from": source.entry(dof, column), "to": self.entry(dof, column), **idle_flags[dof]}
            )
            for dof, columns in self.sparsity.items()
            for column in columns
        ]
        for k, dofs in enumerate(blocks.dofs_of_block):
            for i in range(len(dofs), BLOCK_SIZE):
                offset = ArenaOffset(SCRATCH, self.block_offset(k, k).row + (BLOCK_SIZE + 1) * i)
                rows.append(LoopIteration("one", {"to": offset, **idle_flags[dofs[0]]}))

        def body(iteration: IterationContext) -> None:
            iteration.write("to", [iteration.read("from") if iteration.specialization == "entry" else 1.0])

        self.ctx.for_each(f"{self.name}, copy entries", rows, body)

    def for_each_nonzero_in_row(self, iteration: IterationContext, body: Callable[[], None]) -> None:
        """Trace a loop over the flagged blocks among the first `count` blocks of a block row.

        Reads the array `row flags` and the constant `count` bound by the loop iteration; the loop index of the tracer
        is the block column.
        """
        tracer = iteration.tracer

        def visit(index: Value) -> None:
            self.if_nonzero(iteration, tracer.read("row flags", 0, index), body)

        tracer.counted_loop("blocks of the row", iteration.constant("count"), visit, uniform=True)

    def if_nonzero(self, iteration: IterationContext, flag: Value, body: Callable[[], None]) -> None:
        """Trace a branch that runs `body` if a nonzero flag is set."""

        def run() -> list[Value]:
            body()
            return []

        iteration.tracer.if_less("nonzero", 0.5, flag, run, [], uniform=self.shares_flags)


def _if_in_all_environments(iteration: IterationContext, flag: Value, body: Callable[[], object]) -> None:
    """Trace a uniform branch: `body` runs in all SIMD lanes, active or not, if `flag` exceeds 0.5.

    Used for lists shared by the lanes, which are read from the first lane.
    """

    def run() -> list[Value]:
        body()
        return []

    iteration.tracer.if_less("all lanes", 0.5, flag, run, [], uniform=True)


# ----------------------------------------------------------------------------------------- block Cholesky factorisation

Block = list[list[Value]]


class BlockCholeskyFactors:
    """Block Cholesky factors of A = G^T G with lower-triangular G, computed in place from the last block to the first.

    The diagonal of G holds the inverse square roots of the pivots. Inverse pivots are bounded from above by those of
    `min_pivots`, the LDL factors of a smaller matrix, so that rounding cannot make the factorisation fail.
    """

    def __init__(self, matrix: BlockSparseMatrix, min_pivots: LDLFactors) -> None:
        self.matrix = matrix
        self.ctx = matrix.ctx
        self.solution = self.ctx.allocate(BLOCK_SIZE * matrix.blocks.count)
        """Scratch offset of right-hand side and solution in block order, six values per block."""

        counts = np.array([len(dofs) for dofs in matrix.blocks.dofs_of_block])

        def pivot_bounds(k: Ints, _: Ints) -> dict[str, OffsetColumn]:
            dofs = [matrix.blocks.dofs_of_block[block] for block in k.tolist()]
            return {
                f"max inverse {p}": OffsetColumn.from_offsets(
                    [min_pivots.inverse_pivots[block_dofs[p]] for block_dofs in dofs]
                )
                for p in range(len(dofs[0]))
            }

        def elimination_columns(k: Ints, i: Ints) -> dict[str, OffsetColumn]:
            return {
                "row blocks": matrix.block_offset_column(k, 0 * k),
                "row flags": matrix.flag_offset_column(k, 0 * k),
                "target blocks": matrix.block_offset_column(i, 0 * i),
            }

        def subsets(k: Ints, i: Ints) -> Iterator[BlockRows]:
            for n_dofs in np.unique(counts).tolist():
                yield BlockRows(("pivot", n_dofs), (i == k) & (counts[k] == n_dofs), pivot_bounds)
            if len(counts) > 1:
                yield BlockRows(
                    "block", i < k, elimination_columns, lambda _, i: {"count": (i[:, None] + 1).astype(np.float64)}
                )

        matrix.for_each_nonzero_block(
            f"{matrix.name}, factorize", subsets, lambda iteration: _eliminate_block(matrix, iteration)
        )

    def _solution_column(self, block_rows: Ints) -> OffsetColumn:
        return OffsetColumn(SCRATCH, self.solution.row + BLOCK_SIZE * block_rows)

    def solve(self, name: str, rhs: NodeValues[list[Value]]) -> NodeValues[list[Value]]:
        """Trace the solution x of (G^T G) x = rhs by block backward and forward substitution.

        Returns x as one value per degree of freedom.
        """
        ctx, blocks = self.ctx, self.matrix.blocks
        result: NodeValues[list[Value]] = ctx.new_values(name)
        ctx.for_each_joint(f"{name}, right-hand side", lambda node: result.put(node.ref, rhs[node.ref]))
        dof_offsets = ctx.dof_offsets(result)
        block_offsets = {
            dof: ArenaOffset(SCRATCH, self.solution.row + BLOCK_SIZE * k + i)
            for k, dofs in enumerate(blocks.dofs_of_block)
            for i, dof in enumerate(dofs)
        }
        padding_rows = [
            LoopIteration("padding", {"to": ArenaOffset(SCRATCH, self.solution.row + BLOCK_SIZE * k + i)})
            for k, dofs in enumerate(blocks.dofs_of_block)
            for i in range(len(dofs), BLOCK_SIZE)
        ]
        rows = [LoopIteration("dof", {"from": dof_offsets[dof], "to": offset}) for dof, offset in block_offsets.items()]

        def copy(iteration: IterationContext) -> None:
            iteration.write("to", [iteration.read("from") if iteration.specialization == "dof" else 0.0])

        ctx.for_each(f"{name}, gather into blocks", [*rows, *padding_rows], copy)

        def pivot_columns(k: Ints, _: Ints) -> dict[str, OffsetColumn]:
            return {"row x": self._solution_column(k)}

        def block_columns(k: Ints, i: Ints) -> dict[str, OffsetColumn]:
            return {"row x": self._solution_column(k), "column x": self._solution_column(i)}

        def subsets(k: Ints, i: Ints) -> list[BlockRows]:
            return [
                BlockRows("pivot", i == k, pivot_columns),
                *([BlockRows("block", i < k, block_columns)] if blocks.count > 1 else []),
            ]

        self.matrix.for_each_nonzero_block(f"{name}, backward substitution", subsets, _backward_substitution)
        self.matrix.for_each_nonzero_block(
            f"{name}, forward substitution", subsets, _forward_substitution, forward=True
        )
        scatter_rows = [
            LoopIteration("dof", {"from": offset, "to": dof_offsets[dof]}) for dof, offset in block_offsets.items()
        ]
        ctx.for_each(f"{name}, scatter from blocks", scatter_rows, copy)
        return result


def _read_block(iteration: IterationContext, array: str) -> Block:
    return [
        iteration.read_array(array, BLOCK_ENTRIES)[BLOCK_SIZE * i : BLOCK_SIZE * (i + 1)] for i in range(BLOCK_SIZE)
    ]


def _read_block_row(iteration: IterationContext, array: str, row: int, offset: Value | None = None) -> list[Value]:
    return [iteration.tracer.read(array, BLOCK_SIZE * row + j, offset) for j in range(BLOCK_SIZE)]


def _eliminate_block(matrix: BlockSparseMatrix, iteration: IterationContext) -> None:
    """Code of one block of the factorisation: factorise a diagonal block, or solve and eliminate an off-diagonal block.

    An off-diagonal block (k, i) is first solved against the factor of the diagonal block k; then its products with the
    flagged blocks (k, 0..i) are subtracted from the blocks of row i.
    """
    if isinstance(iteration.specialization, tuple):
        _factorize_diagonal_block(iteration, iteration.specialization[1])
    else:
        _solve_off_diagonal_block(iteration)
        matrix.for_each_nonzero_in_row(iteration, lambda: _subtract_block_product(iteration))


def _factorize_diagonal_block(iteration: IterationContext, n_dofs: int) -> None:
    """Cholesky factorisation of a diagonal block in place: rows of G with the inverse square roots of the pivots.

    Only the leading `n_dofs` rows and columns are factorised. An inverse pivot larger than its bound `max inverse` is
    replaced by the bound.
    """
    a = [[iteration.read("pivot block", BLOCK_SIZE * i + j) for j in range(i + 1)] for i in range(n_dofs)]
    for p in reversed(range(n_dofs)):
        max_inverse = iteration.read(f"max inverse {p}")
        inverse_root = ir.sqrt(ir.select(1.0, max_inverse * a[p][p], 1.0 / a[p][p], max_inverse))
        a[p] = [*(x * inverse_root for x in a[p][:p]), inverse_root]
        for i in range(p):
            for j in range(i + 1):
                a[i][j] = a[i][j] - a[p][i] * a[p][j]
    for i, row in enumerate(a):
        iteration.write("pivot block", row, BLOCK_SIZE * i)


def _solve_off_diagonal_block(iteration: IterationContext) -> None:
    """Triangular solve of an off-diagonal block with the transposed factor of its diagonal block, in place.

    One basic block per matrix row keeps the live values within the registers.
    """
    tracer = iteration.tracer
    for p in reversed(range(BLOCK_SIZE)):
        row = _read_block_row(iteration, "block", p)
        for r in range(p + 1, BLOCK_SIZE):
            factor = iteration.read("pivot block", BLOCK_SIZE * r + p)
            row = [x - factor * y for x, y in zip(row, _read_block_row(iteration, "block", r), strict=True)]
        inverse_root = iteration.read("pivot block", (BLOCK_SIZE + 1) * p)
        tracer.write("block", [inverse_root * x for x in row], BLOCK_SIZE * p)
        tracer.new_basic_block()


def _subtract_block_product(iteration: IterationContext) -> None:
    """Schur complement update of block (i, j): subtract block(k, i)^T block(k, j), with j the current loop index.

    One basic block per matrix row keeps the live values within the registers.
    """
    tracer = iteration.tracer
    for i in range(BLOCK_SIZE):
        offset = tracer.loop_index() * float(BLOCK_ENTRIES)
        row = _read_block_row(iteration, "target blocks", i, offset)
        for k in range(BLOCK_SIZE):
            factor = iteration.read("block", BLOCK_SIZE * k + i)
            row = [
                x - factor * y for x, y in zip(row, _read_block_row(iteration, "row blocks", k, offset), strict=True)
            ]
        tracer.write("target blocks", row, BLOCK_SIZE * i, offset)
        tracer.new_basic_block()


def _backward_substitution(iteration: IterationContext) -> None:
    """Code of one block of the solution of G^T y = rhs, run from the last block row to the first.

    The diagonal block solves for its six values `row x` in place; an off-diagonal block subtracts its transposed
    product with them from `column x`.
    """
    x = iteration.read_array("row x", BLOCK_SIZE)
    if iteration.specialization == "pivot":
        pivot = _read_block(iteration, "pivot block")
        for p in reversed(range(BLOCK_SIZE)):
            for r in range(p + 1, BLOCK_SIZE):
                x[p] = x[p] - pivot[r][p] * x[r]
            x[p] = x[p] * pivot[p][p]
        iteration.write("row x", x)
        return
    block, column_x = _read_block(iteration, "block"), iteration.read_array("column x", BLOCK_SIZE)
    for j in range(BLOCK_SIZE):
        for k in range(BLOCK_SIZE):
            column_x[j] = column_x[j] - block[k][j] * x[k]
    iteration.write("column x", column_x)


def _forward_substitution(iteration: IterationContext) -> None:
    """Code of one block of the solution of G x = y, run from the first block row to the last.

    An off-diagonal block subtracts its product with `column x` from `row x`; the diagonal block solves for `row x`.
    """
    x = iteration.read_array("row x", BLOCK_SIZE)
    if iteration.specialization == "pivot":
        pivot = _read_block(iteration, "pivot block")
        for p in range(BLOCK_SIZE):
            for q in range(p):
                x[p] = x[p] - pivot[p][q] * x[q]
            x[p] = x[p] * pivot[p][p]
    else:
        block, column_x = _read_block(iteration, "block"), iteration.read_array("column x", BLOCK_SIZE)
        for k in range(BLOCK_SIZE):
            for j in range(BLOCK_SIZE):
                x[k] = x[k] - block[k][j] * column_x[j]
    iteration.write("row x", x)

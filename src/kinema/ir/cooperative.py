"""Statements executed cooperatively by the threads of a GPU warp.

Dense and block-arrowhead LDL solve, minimum-degree ordering, shared-memory staging of lists and atomic increment.
Fields of type `Slot` refer to the first element of an array.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from .memory import Slot


def round_up_to_4(n: int) -> int:
    """Round up to a multiple of 4, the vector width of memory accesses."""
    return -(-n // 4) * 4


@dataclass(frozen=True, slots=True)
class HessianTerm:
    """Records (J, W) whose sum of J^T W J is added to the matrix of a solve; J and W are stored row by row."""

    records: Slot
    """Start of the first record."""
    record_stride: int
    """Size of a record in scalars."""
    count: Slot
    """Number of records."""
    max_rows: int
    """Maximum number of rows of J; unused rows of J are zero."""
    row_count_offset: int
    """Offset in a record of the number of rows in use; 0 if W is zero."""
    weight_offset: int
    """Offset of W in a record; its row stride is `round_up_to_4(max_rows)`."""
    jacobian_offset: int
    """Offset of J in a record."""
    jacobian_row_stride: int
    """Row stride of J."""
    is_cone: bool = False
    """Whether W is packed as the Hessian of a friction cone: w_n and w_t (diagonal: normal, tangential), a, b, mu,
    and the tangential unit vector t; W = diag(w_n, w_t, ...) + a s s^T - b u u^T with s = (1, -mu t) and u = (0,
    t)."""


def cone_weight_size(max_rows: int) -> int:
    """Number of scalars of the packed weight matrix W of a friction cone with `max_rows` rows."""
    return 5 + max_rows - 1


@dataclass(frozen=True, slots=True)
class BlockArrowhead:
    """Block-arrowhead sparsity: diagonal blocks (limbs of a robot) that are coupled only to the border (trunk)."""

    diagonal_blocks: tuple[tuple[int, int], ...]
    """(first unknown, number of unknowns) of each diagonal block."""
    border: tuple[int, ...]
    """All other unknowns."""
    decoupled: Slot | None
    """Flag, above 0.5 if no two diagonal blocks are coupled at the moment; None if they never are."""

    @property
    def n_block_unknowns(self) -> int:
        """Total number of unknowns of the diagonal blocks."""
        return sum(size for _, size in self.diagonal_blocks)

    @property
    def max_block_size(self) -> int:
        """Number of unknowns of the largest diagonal block."""
        return max(size for _, size in self.diagonal_blocks)

    def sparsity_mask(self, n_unknowns: int) -> npt.NDArray[np.bool_]:
        """Boolean (n, n) mask of the entries that may be nonzero while the diagonal blocks are decoupled.

        Rows of a diagonal block have entries in the columns of the block and of the border; rows of the border are
        full.
        """
        mask = np.ones((n_unknowns, n_unknowns), bool)
        for first, size in self.diagonal_blocks:
            columns = [*range(first, first + size), *self.border]
            mask[first : first + size] = np.isin(range(n_unknowns), columns)
        return mask

    def fits(self, n_threads: int) -> bool:
        """Whether each thread gets at most one unknown of a diagonal block and one of the border; both must exist."""
        return (
            max(self.n_block_unknowns, len(self.border)) <= n_threads
            and bool(self.diagonal_blocks)
            and bool(self.border)
        )

    def schur_tiling(self, n_threads: int) -> tuple[int, int]:
        """Split of the Schur complement of the border among threads: (threads per row, columns per thread).

        The number of columns includes the right-hand side and is a multiple of 4.
        """
        n = len(self.border)
        threads_per_row = min(n_threads // n, -(-(n + 1) // 4))
        columns = round_up_to_4(-(-(n + 1) // threads_per_row))
        return -(-(n + 1) // columns), columns

    def row_strides(self, n_threads: int) -> tuple[int, int]:
        """Row strides in the workspace, in scalars: (rows of diagonal blocks, rows of the border)."""
        threads_per_row, columns = self.schur_tiling(n_threads)
        return round_up_to_4(
            max(len(self.border) + 1 + self.max_block_size, threads_per_row * columns)
        ), threads_per_row * columns

    def workspace_size(self, n_threads: int) -> int:
        """Size in scalars of the workspace of the block-arrowhead solve for a warp of `n_threads` threads."""
        block_stride, border_stride = self.row_strides(n_threads)
        n = len(self.border)
        return self.n_block_unknowns * block_stride + n * border_stride + 2 * round_up_to_4(n)


@dataclass(frozen=True, slots=True)
class DenseSolve:
    """LDL solve of (A + diag(diagonal) + sum of J^T W J) x = rhs with symmetric positive definite A by a warp.

    Elimination goes from the last unknown to the first, with matrix rows distributed over the threads. The inverse of a
    pivot is limited to `max_inverse_pivot`.
    """

    name: str
    size: int
    """Number of unknowns n."""
    matrix: Slot
    """A, row by row."""
    row_stride: int
    """Row stride of A."""
    diagonal: Slot
    """(n,) values added to the diagonal of A."""
    max_inverse_pivot: Slot
    """(n,) upper bounds of the inverse pivots."""
    rhs: Slot
    """(n,) right-hand side."""
    result: Slot
    """(n,) solution x."""
    workspace: Slot
    """Workspace: two columns, or `workspace_size` scalars for the block-arrowhead solve."""
    terms: tuple[HessianTerm, ...] = ()
    """Terms J^T W J of the matrix."""
    lower_only: bool = False
    """Whether only the lower triangle of A is stored."""
    arrowhead: BlockArrowhead | None = None
    """Block-arrowhead sparsity of the matrix, or None for a dense matrix."""
    workspace_size: int = 0
    """Size of the workspace in scalars, if larger than two columns."""

    @property
    def reads(self) -> list[Slot]:
        """Slots at the start of all arrays that the solve reads."""
        slots = [self.matrix, self.diagonal, self.max_inverse_pivot, self.rhs]
        slots += [] if self.arrowhead is None or self.arrowhead.decoupled is None else [self.arrowhead.decoupled]
        return slots + [x for term in self.terms for x in (term.records, term.count)]

    def relocate(self, map_slot: Callable[[Slot], Slot]) -> DenseSolve:
        """Return a copy with every slot replaced by `map_slot(slot)`."""
        terms = tuple(replace(t, records=map_slot(t.records), count=map_slot(t.count)) for t in self.terms)
        names = ("matrix", "diagonal", "max_inverse_pivot", "rhs", "result", "workspace")
        arrowhead = self.arrowhead
        if arrowhead is not None and arrowhead.decoupled is not None:
            arrowhead = replace(arrowhead, decoupled=map_slot(arrowhead.decoupled))
        return replace(
            self, terms=terms, arrowhead=arrowhead, **{name: map_slot(getattr(self, name)) for name in names}
        )


@dataclass(frozen=True, slots=True)
class EdgeRecords:
    """Records that are the edges of a graph: each holds the indices of the two coupled blocks (which may be equal)."""

    records: Slot
    """Start of the first record."""
    record_stride: int
    """Size of a record in scalars."""
    count: Slot
    """Number of records."""
    pair_offset: int
    """Offset in a record of the two block indices."""


@dataclass(frozen=True, slots=True)
class MinimumDegreeOrdering:
    """Minimum-degree elimination order of a block-sparse symmetric matrix and the tiles of its factor with fill-in.

    The block with the fewest remaining neighbours is eliminated next (ties: lowest index), and its neighbours become
    neighbours of each other. Row i of `block_info` holds the block eliminated at step i, then for block i its step, its
    first tile and its number of tiles. A tile is an off-diagonal block of the factor (later block, eliminated block).
    """

    name: str
    n_blocks: int
    """Number of blocks of unknowns."""
    max_tiles: int
    """Capacity for off-diagonal tiles."""
    edges: tuple[EdgeRecords, ...]
    """Edges of the graph."""
    block_info: Slot
    """Output (n_blocks, 4)."""
    tiles: Slot
    """Output (max_tiles, 2): the two blocks of each tile, the later one first."""
    tile_of_pair: Slot
    """Output (n_blocks, n_blocks): index of the tile of two blocks."""
    status: Slot
    """Output (2,): number of tiles, and 1 if some did not fit."""

    @property
    def reads(self) -> list[Slot]:
        """Slots at the start of all arrays that the ordering reads."""
        return [x for records in self.edges for x in (records.records, records.count)]

    @property
    def writes(self) -> list[Slot]:
        """Slots at the start of all arrays that the ordering writes."""
        return [self.block_info, self.tiles, self.tile_of_pair, self.status]

    def relocate(self, map_slot: Callable[[Slot], Slot]) -> MinimumDegreeOrdering:
        """Return a copy with every slot replaced by `map_slot(slot)`."""
        edges = tuple(replace(c, records=map_slot(c.records), count=map_slot(c.count)) for c in self.edges)
        names = ("block_info", "tiles", "tile_of_pair", "status")
        return replace(self, edges=edges, **{name: map_slot(getattr(self, name)) for name in names})


@dataclass(frozen=True, slots=True)
class SharedMemoryStaging:
    """Placement of a list in shared memory for the following statements, if its used part fits there.

    From this statement on only the first `n_always + used_count` records of the list are used. They are in shared
    memory at `shared_offset` if `used_count` is at most `max_staged`, else in global memory.
    """

    name: str
    records: Slot
    """Start of the list in global memory."""
    total_size: int
    """Size of the whole list in scalars."""
    record_stride: int
    """Size of a record in scalars."""
    used_count: Slot
    """Number of records in use, beyond the `n_always` first."""
    max_staged: int
    """Maximum `used_count` for which the list is in shared memory."""
    min_staged: int | None = None
    """Lower bound when `max_staged` is reduced to save shared memory; None if it must not be reduced."""
    n_always: int = 0
    """Number of records that are always in use."""
    shared_offset: int = -1
    """Offset of the staged part in shared memory, in scalars; -1 if not assigned yet."""

    @property
    def staged_size(self) -> int:
        """Size of the staged part in scalars."""
        return (self.n_always + self.max_staged) * self.record_stride


@dataclass(frozen=True, slots=True)
class AtomicIncrement:
    """Atomic fetch-and-add of 1 on a counter; the previous value, unique to each thread, goes to `result`."""

    name: str
    counter: Slot
    result: Slot
    """Slot of the previous counter value."""

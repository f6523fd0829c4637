"""Linear system of a Newton step, (A + D + sum of J^T W J) x = b: operands, Hessian terms, block-arrowhead sparsity."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kinema.ir import MemoryLocation, round_up_to_4


@dataclass(frozen=True, slots=True)
class HessianTerm:
    """Records (J, W) whose sum of J^T W J is added to the matrix of a solve; J and W are stored row by row."""

    records: MemoryLocation
    """Start of the first record."""
    record_stride: int
    """Size of a record in scalars."""
    count: MemoryLocation
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
    decoupled: MemoryLocation | None
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
        """Whether a thread has at most one unknown of a diagonal block and one of the border; both must exist."""
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
class LinearSystem:
    """Symmetric positive definite system (A + diag(diagonal) + sum of J^T W J) x = rhs, and a workspace."""

    size: int
    """Number of unknowns n."""
    matrix: MemoryLocation
    """A, row by row."""
    row_stride: int
    """Row stride of A."""
    diagonal: MemoryLocation
    """(n,) values added to the diagonal of A."""
    max_inverse_pivot: MemoryLocation
    """(n,) upper bounds of the inverse pivots."""
    rhs: MemoryLocation
    """(n,) right-hand side."""
    result: MemoryLocation
    """(n,) solution x."""
    workspace: MemoryLocation
    """Workspace: two columns, or `workspace_size` scalars for the block-arrowhead solve."""
    terms: tuple[HessianTerm, ...] = ()
    """Terms J^T W J of the matrix."""
    lower_only: bool = False
    """Whether only the lower triangle of A is stored."""
    arrowhead: BlockArrowhead | None = None
    """Block-arrowhead sparsity of the matrix, or None for a dense matrix."""
    workspace_size: int = 0
    """Size of the workspace in scalars, if larger than two columns."""

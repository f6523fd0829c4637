"""LDL solve of a Newton system by a warp: block-arrowhead if the matrix has this sparsity, else dense."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kinema.ir import Intrinsic, MemoryLocation, round_up_to_4

from ..warp import WarpEmitter
from .block_arrowhead_solve import BlockArrowheadSolveEmitter
from .dense_solve import DenseSolveEmitter
from .linear_system import HessianTerm, LinearSystem, cone_weight_size


@dataclass(frozen=True, slots=True)
class LdlSolve(LinearSystem, Intrinsic):
    """Intrinsic: LDL solve of a linear system, with matrix rows distributed over the threads.

    Elimination goes from the last unknown to the first. The inverse of a pivot is limited to `max_inverse_pivot`.
    """

    @property
    def reads(self) -> list[MemoryLocation]:
        """Operands of all arrays that are read."""
        locations = [self.matrix, self.diagonal, self.max_inverse_pivot, self.rhs]
        locations += [] if self.arrowhead is None or self.arrowhead.decoupled is None else [self.arrowhead.decoupled]
        return locations + [x for term in self.terms for x in (term.records, term.count)]

    @property
    def writes(self) -> list[MemoryLocation]:
        """Operands of all arrays that are written."""
        return [self.result, self.workspace]

    @property
    def definite_writes(self) -> list[tuple[MemoryLocation, int]]:
        """Solution and workspace with their sizes."""
        return [(self.result, self.size), (self.workspace, max(2 * round_up_to_4(self.size), self.workspace_size))]

    @property
    def n_operations(self) -> int:
        """Floating-point operations of the factorisation, n^3/3."""
        return self.size**3 // 3

    def evaluate(self, memory: Callable[[MemoryLocation], np.ndarray]) -> None:
        """Reference evaluation: assemble the matrix from memory, solve the system and write the solution to memory.

        While the diagonal blocks are decoupled, entries outside of the block-arrowhead sparsity pattern are ignored.
        """
        n, stored = self.size, memory(self.matrix)
        matrix = np.array([stored[i * self.row_stride : i * self.row_stride + n] for i in range(n)])
        matrix = np.tril(matrix) + np.tril(matrix, -1).T if self.lower_only else matrix
        matrix += np.diag(memory(self.diagonal)[:n])
        for term in self.terms:
            for record in range(int(memory(term.count)[0])):
                matrix += _hessian_contribution(memory(term.records)[record * term.record_stride :], term, n)
        arrowhead = self.arrowhead
        if arrowhead is not None and (arrowhead.decoupled is None or memory(arrowhead.decoupled)[0] > 0.5):
            matrix *= arrowhead.sparsity_mask(n)  # other entries are not used
        solution = _solve_symmetric(matrix, memory(self.rhs)[:n], memory(self.max_inverse_pivot)[:n])
        memory(self.result)[:n] = solution

    def emit(self, emitter: WarpEmitter) -> None:
        """Emit the solve by a warp: block-arrowhead if the matrix has diagonal blocks that fit the warp, else dense.

        If the blocks may be coupled at times, both solves are emitted, and a flag in memory selects one at run time.
        """
        arrowhead = self.arrowhead
        if arrowhead is None or not arrowhead.fits(emitter.group_size):
            DenseSolveEmitter(emitter, self).emit()
            return
        if arrowhead.decoupled is None:
            BlockArrowheadSolveEmitter(emitter, self).emit()
            return
        decoupled_label, coupled_label, done = map(emitter.fresh_name, ("apart", "coupled", "done"))
        condition = emitter.condition_mask(arrowhead.decoupled)
        emitter.emit(f"br i1 {condition}, label %{decoupled_label}, label %{coupled_label}")
        for label, emitter_type in ((decoupled_label, BlockArrowheadSolveEmitter), (coupled_label, DenseSolveEmitter)):
            emitter.start_block(label)
            emitter_type(emitter, self).emit()
            emitter.emit(f"br label %{done}")
        emitter.start_block(done)


def _hessian_contribution(record: np.ndarray, term: HessianTerm, n_unknowns: int) -> np.ndarray:
    """Term J^T W J of one record, shape (n_unknowns, n_unknowns), with dense W or the packed W of a friction cone."""
    n_rows = int(record[term.row_count_offset])
    jacobian = np.array(
        [record[term.jacobian_offset + i * term.jacobian_row_stride :][:n_unknowns] for i in range(n_rows)]
    ).reshape(n_rows, n_unknowns)
    if term.is_cone:
        weight = _cone_weight(record[term.weight_offset :][: cone_weight_size(term.max_rows)])[:n_rows, :n_rows]
    else:
        weight = np.array(
            [record[term.weight_offset + i * round_up_to_4(term.max_rows) :][:n_rows] for i in range(n_rows)]
        ).reshape(n_rows, n_rows)
    return jacobian.T @ weight @ jacobian


def _cone_weight(packed: np.ndarray) -> np.ndarray:
    """Weight matrix W of a friction cone from its packed form (see `HessianTerm.is_cone`)."""
    normal, tangential, along_edge, radial, mu = packed[:5]
    direction = np.array([0.0, *packed[5:]])
    edge = np.array([1.0, *(-mu * packed[5:])])
    diagonal = np.diag([normal, *[tangential] * (len(packed) - 5)])
    return diagonal + along_edge * np.outer(edge, edge) - radial * np.outer(direction, direction)


def _solve_symmetric(a: np.ndarray, rhs: np.ndarray, max_inverse_pivot: np.ndarray) -> np.ndarray:
    """Solve a symmetric linear system by elimination from the last unknown to the first, with limited pivots.

    The inverse of pivot k is limited to `max_inverse_pivot[k]`.
    """
    a, x, n = a.copy(), rhs.copy(), len(rhs)
    inverse = np.zeros_like(rhs)
    for k in reversed(range(n)):
        inverse[k] = 1.0 / a[k, k] if max_inverse_pivot[k] * a[k, k] > 1.0 else max_inverse_pivot[k]
        factors = a[:k, k] * inverse[k]
        a[:k, :k] -= np.outer(factors, a[k, :k])
        x[:k] -= factors * x[k]
    for k in range(n):
        x[k] = (x[k] - a[k, :k] @ x[:k]) * inverse[k]
    return x

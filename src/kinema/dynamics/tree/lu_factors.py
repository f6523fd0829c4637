"""LU factorisation of nonsymmetric joint-space matrices along the tree, without fill-in beyond the sparsity pattern."""

from __future__ import annotations

from collections.abc import Sequence

from kinema import ir
from kinema.ir import SCRATCH, ArenaOffset, IterationContext, LoopIteration, Value

from .node_values import NodeValues
from .sparse_matrix import JointSpaceMatrix, solve_with_derivative


class LUFactors:
    """Factors of A = U D^-1 L: L (with D on its diagonal) overwrites `lower`, the strict upper part U^T `upper`.

    `lower` holds the entries (dof, ancestor) and the diagonal, `upper` the entries (ancestor, dof) at (dof, ancestor);
    both have the same sparsity pattern, which is closed under elimination from the last dof to the first. The
    factorisation is traced on construction, without pivoting; a pivot is at least `MIN_PIVOT_RATIO` of its diagonal
    entry.
    """

    MIN_PIVOT_RATIO = 1e-14

    def __init__(self, lower: JointSpaceMatrix, upper: JointSpaceMatrix) -> None:
        self.differentiated = (lower, upper)
        """The matrix with its derivatives, in programs to be differentiated, where the factors are constants."""
        if lower.ctx.settings.differentiable:
            lower, upper = (
                x.copy_with_sparsity(f"{x.name}, constant factors", x.sparsity, detached=True) for x in (lower, upper)
            )
        self.lower, self.upper, self.ctx = lower, upper, lower.ctx
        first = self.ctx.allocate(len(lower.sparsity)).row
        self.inverse_pivots = {dof: ArenaOffset(SCRATCH, first + i) for i, dof in enumerate(lower.sparsity)}
        self.idle_flags = self.ctx.idle_flags_of_dofs()
        rows = [self._pivot_iteration("smallest pivot", dof) for dof in lower.sparsity]
        for dof in reversed(list(lower.sparsity)):
            rows.append(self._pivot_iteration("invert", dof))
            for ancestor in reversed(lower.sparsity[dof][:-1]):
                rows += self._elimination_iterations(dof, ancestor)
        self.ctx.for_each(f"{lower.name}, LU factorize", rows, self._eliminate)

    def _pivot_iteration(self, specialization: str, dof: int) -> LoopIteration:
        offsets = {"diagonal": self.lower.entry(dof, dof), "inverse": self.inverse_pivots[dof]}
        return LoopIteration(specialization, {**offsets, **self.idle_flags[dof]})

    def _elimination_iterations(self, dof: int, ancestor: int) -> list[LoopIteration]:
        """Loop iterations that subtract multiples of the rows of a dof from the rows of an ancestor, in both matrices.

        One iteration with an inner loop per matrix if the ancestor's row is a prefix of the row of `dof`, else, and
        in code that a warp executes cooperatively (warp region), one per entry.
        """
        rows = []
        for target, factor in ((self.lower, self.upper), (self.upper, self.lower)):
            offsets = {"inverse": self.inverse_pivots[dof], "factor": factor.entry(dof, ancestor)}
            offsets |= self.idle_flags[dof]
            columns = [x for x in target.sparsity[ancestor] if target is self.lower or x != ancestor]
            if target.shares_row_prefix(ancestor, dof) and not self.ctx.tracer.in_warp_region:
                starts = {"to": target.row_starts[ancestor], "from": target.row_starts[dof]}
                offsets |= {name: ArenaOffset(SCRATCH, start) for name, start in starts.items()}
                rows += [LoopIteration("row", offsets, {"count": [float(len(columns))]})] if columns else []
                continue
            rows += [
                LoopIteration("entry", {**offsets, "to": target.entry(ancestor, x), "from": target.entry(dof, x)})
                for x in columns
                if x in target.column_of[dof]
            ]
        return rows

    def _eliminate(self, iteration: IterationContext) -> None:
        """Loop body of the LU factorisation: pivot bound, inverse pivot, or elimination of entries."""
        if iteration.specialization == "smallest pivot":
            iteration.write("inverse", [self.MIN_PIVOT_RATIO * ir.absolute(iteration.read("diagonal"))])
            return
        if iteration.specialization == "invert":
            iteration.write("inverse", [1.0 / ir.maximum(iteration.read("diagonal"), iteration.read("inverse"))])
            return
        tracer, factor = iteration.tracer, iteration.read("factor") * iteration.read("inverse")

        def subtract(index: Value) -> None:
            to, dof_entry = tracer.read("to", 0, index), tracer.read("from", 0, index)
            tracer.write("to", [to - factor * dof_entry], index=index)

        if iteration.specialization == "row":
            tracer.counted_loop("row entries", iteration.constant("count"), subtract, uniform=True)
        else:
            iteration.write("to", [iteration.read("to") - factor * iteration.read("from")])

    def solve(self, name: str, rhs: NodeValues[list[Value]]) -> NodeValues[list[Value]]:
        """Trace the solution x of A x = rhs; returns a joint vector."""
        if not self.ctx.settings.differentiable:
            return self._substitute(name, rhs)
        return solve_with_derivative(self.ctx, name, rhs, self._substitute, self._multiply)

    def _multiply(self, name: str, x: NodeValues[list[Value]]) -> NodeValues[list[Value]]:
        """Trace the product A x with the matrix that has derivatives."""
        ctx, (lower, upper) = self.ctx, self.differentiated
        result: NodeValues[list[Value]] = ctx.new_values(name)
        ctx.for_each_joint(f"{name}, clear", lambda node: result.put(node.ref, [0.0] * len(node.dofs)))
        to, of = ctx.dof_offsets(result), ctx.dof_offsets(x)
        rows = []
        for dof, columns in lower.sparsity.items():
            for ancestor in columns:
                offsets = {"entry": lower.entry(dof, ancestor), **self.idle_flags[dof]}
                rows.append(LoopIteration("pair", {"to": to[dof], "of": of[ancestor], **offsets}))
                if ancestor != dof:
                    offsets = {"entry": upper.entry(dof, ancestor), **self.idle_flags[dof]}
                    rows.append(LoopIteration("pair", {"to": to[ancestor], "of": of[dof], **offsets}))

        def add(iteration: IterationContext) -> None:
            iteration.write("to", [iteration.read("to") + iteration.read("entry") * iteration.read("of")])

        ctx.for_each(name, rows, add)
        return result

    def _substitute(self, name: str, rhs: NodeValues[list[Value]]) -> NodeValues[list[Value]]:
        """Trace the solution x of A x = rhs by substitution from the last dof to the first and back."""
        ctx, dofs = self.ctx, list(self.lower.sparsity)
        x = ctx.joint_vector(name)
        ctx.for_each_joint(f"{name}, right-hand side", lambda node: x.put(node.ref, rhs[node.ref]))
        x_offsets = ctx.dof_offsets(x)

        def rows(
            matrix: JointSpaceMatrix, pairs: Sequence[tuple[int, int]], *, to_ancestor: bool
        ) -> list[LoopIteration]:
            return [
                LoopIteration(
                    "pair",
                    {
                        "to": x_offsets[ancestor if to_ancestor else dof],
                        "from": x_offsets[dof if to_ancestor else ancestor],
                        "entry": matrix.entry(dof, ancestor),
                        "inverse": self.inverse_pivots[dof],
                        **self.idle_flags[dof],
                    },
                )
                for dof, ancestor in pairs
            ]

        def subtract(iteration: IterationContext) -> None:
            iteration.write(
                "to",
                [iteration.read("to") - iteration.read("entry") * iteration.read("inverse") * iteration.read("from")],
            )

        pairs = [(dof, ancestor) for dof in reversed(dofs) for ancestor in reversed(self.lower.sparsity[dof][:-1])]
        ctx.for_each(f"{name}, backward substitution", rows(self.upper, pairs, to_ancestor=True), subtract)
        scale_rows = [
            LoopIteration("dof", {"x": x_offsets[d], "inverse": self.inverse_pivots[d], **self.idle_flags[d]})
            for d in dofs
        ]
        ctx.for_each(
            f"{name}, scale",
            scale_rows,
            lambda iteration: iteration.write("x", [iteration.read("x") * iteration.read("inverse")]),
        )
        forward = sorted(pairs, key=lambda pair: self.lower.order[pair[1]])
        ctx.for_each(f"{name}, forward substitution", rows(self.lower, forward, to_ancestor=False), subtract)
        return x

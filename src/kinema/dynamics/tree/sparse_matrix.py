"""Symmetric joint-space matrices with branch-induced sparsity and their L^T D L factorisation (Featherstone).

Row `dof` of a matrix holds the entries with its ancestor dofs, ordered from the root, and its diagonal entry. The row
of an ancestor therefore has the column order of the beginning of the rows of all its descendants, and elimination runs
along rows. Where constraints couple branches, rows have additional entries for the coupled dofs and the fill-in of
their elimination; the sparsity pattern is known when the program is traced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy as copy_of
from typing import Any, Protocol

from kinema import ir
from kinema.ir import SCRATCH, ArenaOffset, IterationContext, LoopIteration, Value
from kinema.model import PrimitiveJointType

from .kinematic_tree import WORLD, FrameNode, frame_ref
from .loop_context import LoopContext
from .node_constants import FrameSpecialization
from .node_values import NodeValues
from .transmissions import Transmissions, moment_arm_product

# ---------------------------------------------------------------------------------------------------- sparsity patterns


def branch_sparsity(ctx: LoopContext) -> dict[int, list[int]]:
    """Branch-induced sparsity pattern: for each dof its ancestor dofs from the root down, and itself."""
    sparsity: dict[int, list[int]] = {}
    for node in ctx.nodes:
        ancestors = [] if node.parent == WORLD else sparsity[ctx.tree.nodes[node.parent].dofs[-1]]
        for k, dof in enumerate(node.dofs):
            sparsity[dof] = [*ancestors, *node.dofs[: k + 1]]
    return sparsity


def with_fill_in(sparsity: Mapping[int, list[int]], coupled_groups: Sequence[Sequence[int]]) -> dict[int, list[int]]:
    """Sparsity pattern with all pairs of each coupled group of dofs added, and the fill-in of the L^T D L elimination.

    Coupled groups list dofs that share a constraint. The order of the dofs is that of `sparsity`.
    """
    order = {dof: i for i, dof in enumerate(sparsity)}
    columns = {dof: set(ancestors) for dof, ancestors in sparsity.items()}
    for group in coupled_groups:
        for dof in group:
            columns[dof] |= {other for other in group if order[other] < order[dof]}
    for dof in reversed(list(sparsity)):
        for other in columns[dof] - {dof}:
            columns[other] |= {x for x in columns[dof] if order[x] < order[other]}
    return {dof: sorted(columns_of_dof, key=order.__getitem__) for dof, columns_of_dof in columns.items()}


def gimbal_chains(ctx: LoopContext) -> dict[int, list[int]]:
    """Chains of hinges without links in between (gimbals): for the last hinge's dof the dofs of the earlier hinges."""
    frames_with_links = set(ctx.model.links.frame_idx.tolist())
    hinges = {node.index: node for node in ctx.nodes if node.joint_type == PrimitiveJointType.HINGE}
    children: dict[int, list[int]] = {}
    for node in ctx.nodes:
        children.setdefault(node.parent, []).append(node.index)
    chains: dict[int, list[int]] = {}
    for index, node in hinges.items():
        last = index
        while last not in frames_with_links and len(children.get(last, ())) == 1 and children[last][0] in hinges:
            last = children[last][0]
        if last != index:
            chains.setdefault(hinges[last].dofs[0], []).append(node.dofs[0])
    return chains


# ------------------------------------------------------------------------------------------------------------- matrices


class SymmetricEntries(Protocol):
    """A symmetric joint-space matrix whose entries can be addressed."""

    def symmetric_entry(self, a: int, b: int) -> ArenaOffset:
        """Arena offset of entry (a, b) or of its mirror image."""
        ...


class JointSpaceMatrix:
    """Sparse symmetric matrix over the degrees of freedom, in scratch memory; rows hold the lower triangle."""

    def __init__(
        self, ctx: LoopContext, name: str, sparsity: Mapping[int, list[int]], *, may_overwrite: bool = False
    ) -> None:
        self.may_overwrite = may_overwrite
        """Whether a factorisation may overwrite the entries."""
        self.ctx = ctx
        self.name = name
        self.sparsity = sparsity
        """For each dof the dofs with entries in its row, ordered from the root, ending with the dof itself."""
        self.order = {dof: i for i, dof in enumerate(sparsity)}
        self.column_of = {dof: {ancestor: i for i, ancestor in enumerate(columns)} for dof, columns in sparsity.items()}
        """For each dof the position of each column dof within its row."""
        self.row_starts = {dof: ctx.allocate(len(columns)).row for dof, columns in sparsity.items()}
        """Scratch offset where the entries of each dof start."""

    def entry(self, dof: int, ancestor: int) -> ArenaOffset:
        """Scratch offset of entry (dof, ancestor)."""
        return ArenaOffset(SCRATCH, self.row_starts[dof] + self.column_of[dof][ancestor])

    def symmetric_entry(self, a: int, b: int) -> ArenaOffset:
        """Scratch offset of entry (a, b) or of its mirror image, whichever is stored."""
        return self.entry(a, b) if self.order[a] >= self.order[b] else self.entry(b, a)

    def shares_row_prefix(self, ancestor: int, dof: int) -> bool:
        """Whether the row of `dof` starts with exactly the columns of the row of `ancestor`."""
        columns = self.sparsity[ancestor]
        positions = ([self.column_of[x][y] for y in columns] for x in (dof, ancestor))
        return self.sparsity[dof][: len(columns)] == columns and all(
            x_positions == list(range(len(columns))) for x_positions in positions
        )

    def compute(
        self,
        diagonal_block: Callable[[FrameNode], tuple[Any, list[list[Value]]]],
        ancestor_block: Callable[[FrameNode, FrameNode, Any], tuple[Any, list[list[Value]]]],
        *,
        accumulate: bool = False,
    ) -> None:
        """Trace loops that compute all entries frame by frame, walking from each frame to the root as in CRBA.

        `diagonal_block(node)` returns a value to be carried towards the root and the rows of the node's dofs up to the
        diagonal; `ancestor_block(child, ancestor, carried)` returns the value carried on and the block of entries with
        the dofs of `ancestor`, where `child` is the frame below `ancestor` on the path. With `accumulate`, results are
        added to the entries.
        """
        ctx = self.ctx
        carried = ctx.new_values(f"{self.name}, carried")

        def write_rows(iteration: IterationContext, rows: list[list[Value]]) -> None:
            for k, row in enumerate(rows):
                before = iteration.read_array(f"row {k}", len(row)) if accumulate else []
                iteration.write(f"row {k}", [a + b for a, b in zip(before, row, strict=True)] if accumulate else row)

        def diagonal(iteration: IterationContext) -> None:
            node = ctx.frame_of_iteration(iteration)
            carry, rows = diagonal_block(node)
            carried.put(node.ref, carry)
            write_rows(iteration, rows)

        ctx.for_each(f"{self.name}, diagonal blocks", [self._diagonal_iteration(node) for node in ctx.nodes], diagonal)

        def off_diagonal(iteration: IterationContext) -> None:
            child, ancestor = (
                ctx.frame_of_iteration(iteration, "child "),
                ctx.frame_of_iteration(iteration, "ancestor "),
            )
            ref = frame_ref("")
            before = carried[ref]
            carry, rows = ancestor_block(child, ancestor, before)
            if carry is not before:
                carried.put(ref, carry)
            write_rows(iteration, rows)

        ctx.for_each(f"{self.name}, ancestor blocks", list(self._ancestor_iterations()), off_diagonal)

    def _diagonal_iteration(self, node: FrameNode) -> LoopIteration:
        row = self.ctx.frame_iteration(node)
        row.offsets.update({f"row {k}": self.entry(d, node.dofs[0]) for k, d in enumerate(node.dofs)})
        return row

    def _ancestor_iterations(self) -> Sequence[LoopIteration]:
        """Iterations of the off-diagonal blocks: for each frame one per proper ancestor, from its parent to the root.

        The loop body reads arrays of the frame, and with the name prefixes "ancestor " and "child " those of the
        ancestor and of the ancestor's child on the path.
        """
        ctx, rows = self.ctx, []
        for node in ctx.nodes:
            child = node
            while child.parent != WORLD:
                ancestor = ctx.tree.nodes[child.parent]
                specialization = (
                    ("dofs", len(node.dofs)),
                    ("child ", _kinematic_specialization(child)),
                    ("ancestor ", _kinematic_specialization(ancestor)),
                )
                bindings = {"": node.ref, "child ": child.ref, "ancestor ": ancestor.ref}
                offsets = {f"row {k}": self.entry(d, ancestor.dofs[0]) for k, d in enumerate(node.dofs)}
                offsets |= ctx.idle_flag_of_frame(node.index)
                constants = ctx.frame_constants(child, "child ") | ctx.frame_constants(ancestor, "ancestor ")
                rows.append(ctx.node_iteration(specialization, bindings, offsets, constants))
                child = ancestor
        return rows

    def acts_on(self, node: FrameNode) -> bool:
        """False: a matrix does not change the specialization of frames."""
        return False

    def frame_offsets(self, node: FrameNode) -> Mapping[str, ArenaOffset]:
        """Arena offsets of the diagonal entries of a frame's dofs, by their names in the frame's loop iteration."""
        return {f"diagonal {k} of {self.name}": self.entry(d, d) for k, d in enumerate(node.dofs)}

    def diagonal(self, node: FrameNode) -> list[Value]:
        """Diagonal entries of a frame's dofs, read in the loop body being traced."""
        return [self.ctx.iteration.read(f"diagonal {k} of {self.name}") for k in range(len(node.dofs))]

    def plus_diagonal(
        self,
        name: str,
        diagonal_terms: Callable[[FrameNode], list[Value]],
        transmissions: Sequence[Transmissions] = (),
        derivative_factor: Callable[[], Value] = float,
    ) -> JointSpaceMatrix:
        """Copy of the matrix with `diagonal_terms` added, and off-diagonal velocity derivatives of transmission forces.

        The off-diagonal terms are `derivative_factor()` times the product of the moment arms of two dofs that share a
        transmission times the derivative of its force by velocity. Pairs of dofs that are not ancestor and descendant
        have no entry and are left out.
        """
        ctx = self.ctx
        copy = self.copy(name)

        def add_to_diagonal(node: FrameNode) -> None:
            for k, (old, new) in enumerate(zip(copy.diagonal(node), diagonal_terms(node), strict=True)):
                ctx.iteration.write(f"diagonal {k} of {copy.name}", [old + new])

        frame_iterations = [ctx.frame_iteration(node) for node in ctx.nodes]
        ctx.for_each(
            f"{name}, diagonal", frame_iterations, lambda iteration: add_to_diagonal(ctx.frame_of_iteration(iteration))
        )
        for group in transmissions:

            def couple(iteration: IterationContext) -> None:
                dforce_dvel = iteration.read("pair", 1)
                iteration.write(
                    "entry",
                    [iteration.read("entry") + derivative_factor() * moment_arm_product(iteration) * dforce_dvel],
                )

            ctx.for_each(f"{name}, coupling by {group.name}", group.dof_pair_iterations(copy.entry), couple)
        return copy

    def copy(self, name: str) -> JointSpaceMatrix:
        """Trace a copy of the matrix, whose factorisation may overwrite it."""
        return self.copy_with_sparsity(name, self.sparsity)

    def copy_with_sparsity(
        self, name: str, sparsity: Mapping[int, list[int]], *, detached: bool = False
    ) -> JointSpaceMatrix:
        """Trace a copy with a larger sparsity pattern; additional entries are zero.

        The entries of a `detached` copy are constants for differentiation.
        """
        copy = JointSpaceMatrix(self.ctx, f"{name} {len(self.ctx.frame_extensions)}", sparsity, may_overwrite=True)
        self.ctx.frame_extensions.append(copy)
        copy._copy_entries(self, ir.detach if detached else _unchanged)
        return copy

    def view_with_sparsity(self, sparsity: Mapping[int, list[int]]) -> JointSpaceMatrix:
        """The same entries with another sparsity pattern, for use where all other entries are zero; copies nothing."""
        view = copy_of(self)
        view.sparsity = sparsity
        return view

    def _copy_entries(self, source: JointSpaceMatrix, transform: Callable[[Value], Value]) -> None:
        """Trace a loop that copies the entries of `source`, transformed; entries missing there become zero.

        Rows with equal columns are copied by an inner loop, other rows entry by entry; in code that a warp executes
        cooperatively (warp region) all rows are copied entry by entry.
        """
        rows: list[LoopIteration] = []
        idle_flags = self.ctx.idle_flags_of_dofs()
        for dof, columns in self.sparsity.items():
            positions = [source.column_of[dof].get(column, -1) for column in columns]
            is_run = positions == list(range(positions[0], positions[0] + len(columns)))  # a view may skip columns
            if is_run and columns == source.sparsity[dof] and not self.ctx.tracer.in_warp_region:
                offsets = {"from": source.entry(dof, columns[0]), "to": self.entry(dof, columns[0]), **idle_flags[dof]}
                rows.append(LoopIteration("row", offsets, {"count": [float(len(columns))]}))
                continue
            for ancestor in columns:
                source_offset = {"from": source.entry(dof, ancestor)} if ancestor in source.column_of[dof] else {}
                offsets = {**source_offset, "to": self.entry(dof, ancestor), **idle_flags[dof]}
                rows.append(LoopIteration("entry" if source_offset else "zero", offsets))

        def body(iteration: IterationContext) -> None:
            tracer = iteration.tracer

            def copy_entry(index: Value) -> None:
                tracer.write("to", [transform(tracer.read("from", 0, index))], index=index)

            if iteration.specialization == "row":
                tracer.counted_loop("row entries", iteration.constant("count"), copy_entry, uniform=True)
            else:
                is_entry = iteration.specialization == "entry"
                iteration.write("to", [transform(iteration.read("from")) if is_entry else 0.0])

        self.ctx.for_each(f"{self.name}, copy", rows, body)

    def multiply(self, name: str, x: NodeValues[list[Value]]) -> NodeValues[list[Value]]:
        """Trace the matrix-vector product A x; returns a joint vector."""
        result: NodeValues[list[Value]] = self.ctx.new_values(name)
        self.ctx.for_each_joint(f"{name}, clear", lambda node: result.put(node.ref, [0.0] * len(node.dofs)))
        result_offsets, x_offsets = (self.ctx.dof_offsets(vector) for vector in (result, x))
        rows, idle_flags = [], self.ctx.idle_flags_of_dofs()
        for dof, columns in self.sparsity.items():
            for ancestor in columns:
                offsets = {"entry": self.entry(dof, ancestor), **idle_flags[dof]}
                rows.append(LoopIteration("pair", {"to": result_offsets[dof], "of": x_offsets[ancestor], **offsets}))
                if ancestor != dof:
                    rows.append(
                        LoopIteration("pair", {"to": result_offsets[ancestor], "of": x_offsets[dof], **offsets})
                    )

        def body(iteration: IterationContext) -> None:
            iteration.write("to", [iteration.read("to") + iteration.read("entry") * iteration.read("of")])

        self.ctx.for_each(name, rows, body)
        return result

    def store(self, array: str, first_columns: Sequence[int] | None = None, width: int = 0) -> None:
        """Trace a loop that writes the full symmetric matrix to an output array (n_dofs, n_dofs).

        With `first_columns`, the array has `width` columns: the row of each dof starts at its first column.
        """
        n, start = self.ctx.model.n_dofs, self.ctx.array_offsets[self.ctx.output_prefix + array]
        starts = [i * n for i in range(n)]
        if first_columns is not None:
            starts = [i * width - first for i, first in enumerate(first_columns)]
        rows = [
            LoopIteration(
                "entry",
                {
                    "entry": self.entry(i, j),
                    "out": ArenaOffset(start.arena, start.row + starts[i] + j),
                    "mirrored": ArenaOffset(start.arena, start.row + starts[j] + i),
                },
            )
            for i, columns in self.sparsity.items()
            for j in columns
        ]

        def body(iteration: IterationContext) -> None:
            iteration.write("out", [iteration.read("entry")])
            iteration.write("mirrored", [iteration.read("entry")])

        self.ctx.for_each(f"{self.name}, store", rows, body)


def _unchanged(value: Value) -> Value:
    return value


def _kinematic_specialization(node: FrameNode) -> FrameSpecialization:
    """Specialization of a frame with only the fields that affect pose or motion subspace, so that frames share code."""
    specialization = FrameSpecialization.from_node(node)
    return FrameSpecialization(
        specialization.joint_type,
        specialization.axis,
        specialization.inverted,
        specialization.n_qs,
        specialization.n_dofs,
        False,
        False,
        False,
        0,
        False,
        (),
    )


# ------------------------------------------------------------------------------------------------ L^T D L factorisation

MIN_PIVOT_RATIO_SINGLE, MIN_PIVOT_RATIO_DOUBLE = 1e-7, 1e-14
"""Smallest ratio of a pivot to the diagonal entry of the matrix, about the machine precision. At a gimbal lock, where
two dofs move the same way, the pivot would vanish otherwise."""
GIMBAL_PIVOT_FACTOR = 100.0
"""Factor of the smallest pivot ratio for the hinges of a gimbal chain, relative to the pivot before the other
hinges of the chain are eliminated: the remaining pivot is a difference of nearly equal values and divides all
ancestor entries."""


def ldl_factorize(matrix: JointSpaceMatrix, min_pivots: LDLFactors | None = None) -> LDLFactors:
    """Factorise a matrix as L^T D L with unit lower-triangular L of the same sparsity.

    Pivots are not below those of `min_pivots`.

    Adding a positive semidefinite matrix cannot decrease the pivots. With the factors of the original matrix as
    `min_pivots`, rounding errors therefore cannot make the factorisation fail.
    """
    if matrix.ctx.settings.differentiable:
        name = f"{matrix.name}, constant factors"
        return LDLFactors(matrix.copy_with_sparsity(name, matrix.sparsity, detached=True), min_pivots, matrix)
    return LDLFactors(matrix if matrix.may_overwrite else matrix.copy(f"{matrix.name}, factors"), min_pivots)


class LDLFactors:
    """Factors of A = L^T D L: L overwrites the matrix, the inverse pivots 1 / D are stored beside it.

    The factorisation is traced on construction, from the last dof to the first. Pivots have lower bounds: a fraction
    of the diagonal entry, or the pivots of `min_pivots`. In programs to be differentiated the factors are constants;
    solutions carry the derivative of the inverse matrix (`differentiated`, the matrix with its derivatives).
    """

    def __init__(
        self,
        matrix: JointSpaceMatrix,
        min_pivots: LDLFactors | None,
        differentiated: JointSpaceMatrix | None = None,
    ) -> None:
        self.matrix = matrix
        self.differentiated = differentiated
        self.ctx = matrix.ctx
        first = self.ctx.allocate(len(matrix.sparsity)).row
        self.inverse_pivots = {dof: ArenaOffset(SCRATCH, first + i) for i, dof in enumerate(matrix.sparsity)}
        self.min_pivots = min_pivots
        self.idle_flags = self.ctx.idle_flags_of_dofs()
        self.has_unit_diagonal = not self.ctx.tracer.in_warp_region
        """Whether rows of L are divided by their pivots. In code that a warp executes cooperatively (warp region), rows
        are divided when used, which needs fewer barriers."""
        rows: list[LoopIteration] = []
        if self.has_unit_diagonal and min_pivots is None:
            pivot_rows = [
                self._pivot_iteration(dof, "min pivot", min_ratio=self._min_pivot_ratio()) for dof in matrix.sparsity
            ]
            self.ctx.for_each(f"{matrix.name}, smallest pivots", pivot_rows, _store_min_pivot)
        self._gimbal_chains = gimbal_chains(self.ctx) if self.has_unit_diagonal else {}
        for dof in reversed(list(matrix.sparsity)):
            rows += [self._gimbal_pivot_iteration(d) for d in self._gimbal_chains.get(dof, ())]
            rows += [self._pivot_iteration(dof)] if self.has_unit_diagonal else []
            for ancestor in reversed(matrix.sparsity[dof][:-1]):
                rows += self._elimination_iterations(dof, ancestor)
        rows += [] if self.has_unit_diagonal else [self._pivot_iteration(dof, "plain") for dof in matrix.sparsity]
        self.ctx.for_each(f"{matrix.name}, factorize", rows, _eliminate_entry)

    def _pivot_iteration(self, dof: int, specialization: str = "invert", min_ratio: float = 0.0) -> LoopIteration:
        """Loop iteration that inverts the pivot D of a dof in the L^T D L factorisation.

        With `min_pivots` (another factorisation), the inverse is at most that factorisation's inverse pivot. A nonzero
        `min_ratio` becomes a constant of the iteration.
        """
        offsets, bound = (
            self._pivot_offsets(dof),
            {} if self.min_pivots is None else {"max inverse": self.min_pivots.inverse_pivots[dof]},
        )
        if bound:
            specialization = "invert gimbal and bound" if self._in_gimbal(dof) else "invert and bound"
        return LoopIteration(specialization, offsets | bound, {"min ratio": [min_ratio]} if min_ratio else {})

    def _gimbal_pivot_iteration(self, dof: int) -> LoopIteration:
        """Iteration that stores a lower bound of the pivot of a gimbal hinge, relative to its current diagonal entry.

        The bound is kept where the inverse pivot is stored later.
        """
        specialization = "gimbal" if self.min_pivots is None else "gimbal and bound"
        return LoopIteration(
            specialization, self._pivot_offsets(dof), {"min ratio": [GIMBAL_PIVOT_FACTOR * self._min_pivot_ratio()]}
        )

    def _in_gimbal(self, dof: int) -> bool:
        return any(dof in before for before in self._gimbal_chains.values())

    def _pivot_offsets(self, dof: int) -> dict[str, ArenaOffset]:
        return {"diagonal": self.matrix.entry(dof, dof), "inverse": self.inverse_pivots[dof], **self.idle_flags[dof]}

    def _min_pivot_ratio(self) -> float:
        return MIN_PIVOT_RATIO_SINGLE if self.ctx.settings.is_single_precision else MIN_PIVOT_RATIO_DOUBLE

    def _elimination_iterations(self, dof: int, ancestor: int) -> list[LoopIteration]:
        """Iterations that eliminate entry (dof, ancestor): subtract a multiple of row `dof` from the row of `ancestor`.

        One iteration with an inner loop if the ancestor's row is a prefix of the row of `dof`, else one per entry. In
        code that a warp executes cooperatively (warp region) always one per entry.
        """
        matrix = self.matrix
        offsets = {"inverse": self.inverse_pivots[dof], "entry": matrix.entry(dof, ancestor), **self.idle_flags[dof]}
        columns = [column for column in matrix.sparsity[dof] if matrix.order[column] <= matrix.order[ancestor]]
        if not self.has_unit_diagonal:
            pivot_offsets = {k: p for k, p in self._pivot_iteration(dof).offsets.items() if k != "inverse"} | {
                "entry": offsets["entry"]
            }
            specialization = "one entry, bound" if self.min_pivots else "one entry, divided"
            return [
                LoopIteration(
                    specialization,
                    {
                        **pivot_offsets,
                        "ancestor entry": matrix.entry(ancestor, column),
                        "dof entry": matrix.entry(dof, column),
                    },
                )
                for column in columns
            ]
        if matrix.shares_row_prefix(ancestor, dof):
            iteration_offsets = {
                "row": ArenaOffset(SCRATCH, matrix.row_starts[dof]),
                "ancestor row": ArenaOffset(SCRATCH, matrix.row_starts[ancestor]),
            }
            specialization = "eliminate if coupled" if self.ctx.disables_unrolling else "eliminate"
            return [
                LoopIteration(
                    specialization, {**offsets, **iteration_offsets}, {"count": [float(len(matrix.sparsity[ancestor]))]}
                )
            ]
        rows = [
            LoopIteration(
                "one entry",
                {**offsets, "ancestor entry": matrix.entry(ancestor, column), "dof entry": matrix.entry(dof, column)},
            )
            for column in columns
        ]
        return [*rows, LoopIteration("divide", offsets)]

    def _off_diagonal_pairs(self) -> list[tuple[int, int]]:
        return [(dof, ancestor) for dof, columns in self.matrix.sparsity.items() for ancestor in reversed(columns[:-1])]

    def solve(
        self, name: str, rhs: NodeValues[list[Value]], *, constant_matrix: bool = False
    ) -> NodeValues[list[Value]]:
        """Trace the solution x of A x = rhs; returns a joint vector.

        `constant_matrix` states that the derivative of A is not needed, as rhs vanishes in programs to be
        differentiated.
        """
        if self.differentiated is None or constant_matrix:
            return self._substitute(name, rhs)
        return solve_with_derivative(self.ctx, name, rhs, self._substitute, self.differentiated.multiply)

    def _substitute(self, name: str, rhs: NodeValues[list[Value]]) -> NodeValues[list[Value]]:
        """Trace the solution x of (L^T D L) x = rhs by backward substitution, scaling and forward substitution."""
        ctx, matrix = self.ctx, self.matrix
        x = ctx.joint_vector(name)
        ctx.for_each_joint(f"{name}, right-hand side", lambda node: x.put(node.ref, rhs[node.ref]))
        x_offsets = ctx.dof_offsets(x)

        def subtract(iteration: IterationContext) -> None:
            entry = (
                iteration.read("entry")
                if self.has_unit_diagonal
                else iteration.read("entry") * iteration.read("inverse")
            )
            iteration.write("to", [iteration.read("to") - entry * iteration.read("from")])

        def rows(pairs: Sequence[tuple[int, int]]) -> list[LoopIteration]:
            result = []
            for t, f in pairs:
                offsets = {
                    "to": x_offsets[t],
                    "from": x_offsets[f],
                    "entry": matrix.symmetric_entry(t, f),
                    **self.idle_flags[t],
                }
                row_dof = t if matrix.order[t] >= matrix.order[f] else f
                result.append(
                    LoopIteration(
                        "pair",
                        offsets if self.has_unit_diagonal else {**offsets, "inverse": self.inverse_pivots[row_dof]},
                    )
                )
            return result

        backward_pairs = [
            (ancestor, dof)
            for dof in reversed(list(matrix.sparsity))
            for ancestor in reversed(matrix.sparsity[dof][:-1])
        ]
        ctx.for_each(f"{name}, backward substitution", rows(backward_pairs), subtract)
        scale_rows = [
            LoopIteration("dof", {"x": x_offsets[d], "inverse": self.inverse_pivots[d], **self.idle_flags[d]})
            for d in matrix.sparsity
        ]
        ctx.for_each(
            f"{name}, scale",
            scale_rows,
            lambda iteration: iteration.write("x", [iteration.read("x") * iteration.read("inverse")]),
        )
        # sorted by ancestor: updates that depend on the same known value are independent of each other
        forward_pairs = sorted(self._off_diagonal_pairs(), key=lambda pair: matrix.order[pair[1]])
        ctx.for_each(f"{name}, forward substitution", rows(forward_pairs), subtract)
        return x

    def store(self, lower: str, inverse: str) -> None:
        """Trace loops that write L (n_dofs, n_dofs) and 1 / D (n_dofs,) to two output arrays."""
        ctx, matrix, n = self.ctx, self.matrix, self.ctx.model.n_dofs
        start, diagonal = (ctx.array_offsets[ctx.output_prefix + name] for name in (lower, inverse))

        def out_offset(i: int, j: int) -> ArenaOffset:
            return ArenaOffset(start.arena, start.row + i * n + j)

        rows = [
            LoopIteration("lower", {"out": out_offset(i, j), "entry": matrix.entry(i, j)})
            for i, j in self._off_diagonal_pairs()
        ]
        for i, pivot_offset in self.inverse_pivots.items():
            rows.append(
                LoopIteration("inverse", {"out": ArenaOffset(diagonal.arena, diagonal.row + i), "entry": pivot_offset})
            )
        ctx.for_each(
            f"{matrix.name}, store factors", rows, lambda iteration: iteration.write("out", [iteration.read("entry")])
        )
        ones = [LoopIteration("one", {"out": out_offset(i, i)}) for i in matrix.sparsity]
        ctx.for_each(f"{matrix.name}, store unit diagonal", ones, lambda iteration: iteration.write("out", [1.0]))


JointVectorMap = Callable[[str, NodeValues[list[Value]]], NodeValues[list[Value]]]
"""Traces a linear map of joint vectors under a name."""


def solve_with_derivative(
    ctx: LoopContext, name: str, rhs: NodeValues[list[Value]], solve: JointVectorMap, multiply: JointVectorMap
) -> NodeValues[list[Value]]:
    """Trace the solution x of A x = rhs with its derivative A^-1 (d rhs - dA x), by the implicit function theorem.

    `solve` applies the inverse of A with constant factors, `multiply` the matrix A with its derivatives. The value is
    that of `solve`; the correction A^-1 (rhs - A x), which is zero, carries the derivative.
    """
    constant, remainder = ctx.joint_vector(f"{name}, constant rhs"), ctx.joint_vector(f"{name}, remainder")
    ctx.for_each_joint(
        f"{name}, constant rhs", lambda node: constant.put(node.ref, [ir.detach(x) for x in rhs[node.ref]])
    )
    value = solve(f"{name}, value", constant)
    product = multiply(f"{name}, product", value)

    def subtract(node: FrameNode) -> None:
        remainder.put(node.ref, [a - b for a, b in zip(rhs[node.ref], product[node.ref], strict=True)])

    ctx.for_each_joint(f"{name}, remainder", subtract)
    correction, x = solve(f"{name}, correction", remainder), ctx.joint_vector(name)

    def attach(node: FrameNode) -> None:
        x.put(node.ref, [ir.attach(a, b) for a, b in zip(value[node.ref], correction[node.ref], strict=True)])

    ctx.for_each_joint(name, attach)
    return x


def _store_min_pivot(iteration: IterationContext) -> None:
    """Store the smallest allowed pivot, a fraction of the diagonal entry, in the place of the inverse pivot."""
    iteration.write("inverse", [iteration.constant("min ratio") * iteration.read("diagonal")])


def _eliminate_entry(iteration: IterationContext) -> None:
    """Loop body of the L^T D L factorisation: invert a pivot, store a pivot bound, or eliminate an entry.

    Elimination of entry (dof, ancestor) subtracts L(dof, ancestor) times row `dof` from the row of the ancestor, and
    stores L(dof, ancestor) in the place of the entry.
    """
    if iteration.specialization == "invert":
        iteration.write("inverse", [1.0 / ir.maximum(iteration.read("diagonal"), iteration.read("inverse"))])
        return
    if iteration.specialization == "gimbal":
        iteration.write(
            "inverse",
            [ir.maximum(iteration.read("inverse"), iteration.constant("min ratio") * iteration.read("diagonal"))],
        )
        return
    if iteration.specialization == "gimbal and bound":
        _store_min_pivot(iteration)
        return
    if iteration.specialization in ("plain", "invert and bound"):
        iteration.write("inverse", [_inverse_pivot(iteration, bounded=iteration.specialization != "plain")])
        return
    if iteration.specialization == "invert gimbal and bound":
        pivot = ir.maximum(iteration.read("diagonal"), iteration.read("inverse"))
        iteration.write("inverse", [ir.minimum(1.0 / pivot, iteration.read("max inverse"))])
        return
    if iteration.specialization in ("one entry, divided", "one entry, bound"):
        factor = iteration.read("entry") * _inverse_pivot(
            iteration, bounded=iteration.specialization != "one entry, divided"
        )
        iteration.write("ancestor entry", [iteration.read("ancestor entry") - factor * iteration.read("dof entry")])
        return
    factor = iteration.read("entry") * iteration.read("inverse")
    if iteration.specialization == "divide":
        iteration.write("entry", [factor])
        return
    if iteration.specialization == "one entry":
        iteration.write("ancestor entry", [iteration.read("ancestor entry") - factor * iteration.read("dof entry")])
        return
    tracer = iteration.tracer

    def subtract_entry(index: Value) -> None:
        dof_entry, ancestor_entry = tracer.read("row", 0, index), tracer.read("ancestor row", 0, index)
        tracer.write("ancestor row", [ancestor_entry - factor * dof_entry], index=index)

    def subtract_row() -> list[Value]:
        tracer.counted_loop("row entries", iteration.constant("count"), subtract_entry, uniform=True)
        return []

    if iteration.specialization == "eliminate":
        subtract_row()
    else:  # entries of possible contacts are mostly zero
        tracer.if_less("coupled", 0.0, ir.absolute(factor), subtract_row, [])
    iteration.write("entry", [factor])


def _inverse_pivot(iteration: IterationContext, *, bounded: bool) -> Value:
    """Inverse of a diagonal entry.

    If `bounded`, no larger than the bound `max inverse`, which also replaces nonpositive pivots.
    """
    diagonal = iteration.read("diagonal")
    if not bounded:
        return 1.0 / diagonal
    max_inverse = iteration.read("max inverse")
    return ir.select(1.0, max_inverse * diagonal, 1.0 / diagonal, max_inverse)

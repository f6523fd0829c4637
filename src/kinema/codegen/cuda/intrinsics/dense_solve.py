"""Emission of a dense LDL solve by a warp: (A + D + sum of J^T W J) x = b, with rows of the matrix in registers.

Elimination goes from the last unknown to the first. A row is final once its unknown is eliminated, so that each thread
ends up with the coefficients of its unknowns for back substitution. Threads beyond the last row duplicate the last row.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kinema.ir import MemoryLocation, round_up_to_4

from ..warp import NO_UNROLL_METADATA, SHUFFLE_INDEX, WarpEmitter
from .linear_system import HessianTerm, LinearSystem, cone_weight_size

MAX_UNROLLED_ROWS = 3
"""Number of rows of a record up to which the loop over rows is unrolled."""
VECTOR_BYTES = 16
"""Bytes of a vector load."""


RowRegisters = list[str]
"""Names of the registers that hold the entries of a matrix row."""


class RegisterLoop:
    """Loop with a trip count given as a float that updates matrix rows in registers (loop-carried values)."""

    def __init__(self, emitter: WarpEmitter, trip_count: str, rows: list[RowRegisters]) -> None:
        self.emitter, self._entry_label, self._initial_rows = emitter, emitter.current_label, rows
        self._trip_count = emitter.assign(f"fptosi {emitter.scalar_type} {trip_count} to i32")
        self._head_label, body, self._exit_label = (
            emitter.fresh_name("turns"),
            emitter.fresh_name("turn"),
            emitter.fresh_name("done"),
        )
        emitter.emit(f"br label %{self._head_label}")
        emitter.start_block(self._head_label)
        self._phi_position = len(emitter.output_lines)
        self.index = f"%{self._head_label}.i"
        self.rows = [
            [f"%{self._head_label}.{row_index}.{j}" for j in range(len(row))] for row_index, row in enumerate(rows)
        ]
        """Names of the entries at the start of an iteration and after the loop."""
        emitter.output_lines += [""] * (1 + sum(map(len, rows)))
        continues = emitter.assign(f"icmp slt i32 {self.index}, {self._trip_count}")
        emitter.emit(f"br i1 {continues}, label %{body}, label %{self._exit_label}")
        emitter.start_block(body)

    def end(self, rows: list[RowRegisters]) -> None:
        """Emit the back edge and exit of the loop and complete the phis; `rows` are the entries after an iteration."""
        emitter, head = self.emitter, self._head_label
        next_index = emitter.assign(f"add i32 {self.index}, 1")
        phis = [f"{self.index} = phi i32 [ 0, %{self._entry_label} ], [ {next_index}, %{emitter.current_label} ]"]
        for initial_row, names, final_row in zip(self._initial_rows, self.rows, rows, strict=True):
            for a, b, c in zip(initial_row, names, final_row, strict=True):
                phis.append(
                    f"{b} = phi {emitter.scalar_type} [ {a}, %{self._entry_label} ], [ {c}, %{emitter.current_label} ]"
                )
        emitter.output_lines[self._phi_position : self._phi_position + len(phis)] = [f"  {phi}" for phi in phis]
        emitter.emit(f"br label %{head}, !llvm.loop {NO_UNROLL_METADATA}")
        emitter.start_block(self._exit_label)


class RegisterBranch:
    """Branch that updates matrix rows in registers if a value, the same in all threads, is positive."""

    def __init__(self, emitter: WarpEmitter, condition: str, rows: list[RowRegisters]) -> None:
        self.emitter, self._initial_rows = emitter, rows
        body, self._exit_label = emitter.fresh_name("where"), emitter.fresh_name("done")
        self._entry_label = emitter.current_label
        is_positive = emitter.assign(f"fcmp ogt {emitter.scalar_type} {condition}, {emitter.constant(0.0)}")
        emitter.emit(f"br i1 {is_positive}, label %{body}, label %{self._exit_label}")
        emitter.start_block(body)

    def end(self, rows: list[RowRegisters]) -> list[RowRegisters]:
        """Emit the end of the branch and phis that merge the entries updated in it (`rows`) with the unchanged ones.

        Returns the merged entries.
        """
        emitter, body_label = self.emitter, self.emitter.current_label
        emitter.emit(f"br label %{self._exit_label}")
        emitter.start_block(self._exit_label)
        return [
            [
                emitter.assign(f"phi {emitter.scalar_type} [ {a}, %{self._entry_label} ], [ {b}, %{body_label} ]")
                for a, b in zip(old, new, strict=True)
            ]
            for old, new in zip(self._initial_rows, rows, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class Unknowns:
    """Unknowns of one elimination and their distribution over threads."""

    count: int
    lane_indices: list[str]
    """Indices of the unknowns that a thread owns."""
    global_indices: list[str]
    """Indices of the same unknowns in the whole system."""
    workspace: MemoryLocation
    """Workspace of two columns."""


@dataclass(slots=True)
class DenseSolveEmitter:
    """Emits one dense LDL solve by a thread group."""

    emitter: WarpEmitter
    solve: LinearSystem
    lane_rows: list[str] = field(default_factory=list)
    """Matrix rows that a thread owns."""

    def emit(self) -> None:
        """Emit the solve of a dense symmetric system A x = b by a warp, with rows of A distributed over the threads.

        Load the rows, add the Hessian terms J^T W J, eliminate from the last unknown to the first, back-substitute and
        store x.
        """
        emitter, solve = self.emitter, self.solve
        n_rows = -(-solve.size // emitter.group_size)
        for q in range(n_rows):
            row = "%lane" if q == 0 else emitter.assign(f"add i32 %lane, {q * emitter.group_size}")
            beyond = emitter.assign(f"icmp sgt i32 {row}, {solve.size - 1}")
            self.lane_rows.append(emitter.assign(f"select i1 {beyond}, i32 {solve.size - 1}, i32 {row}"))
        rows = [self._load_matrix_row(i) for i in self.lane_rows]
        for term in solve.terms:
            rows = self._add_hessian_term(rows, term)
        rhs = [self._load_element(solve.rhs, i) for i in self.lane_rows]
        unknowns = Unknowns(solve.size, self.lane_rows, self.lane_rows, solve.workspace)
        inverses = self._eliminate(unknowns, rows, rhs)
        solution, _ = self._back_substitute(unknowns, rows, rhs, inverses)
        for i, x in zip(self.lane_rows, solution, strict=True):
            self._store_element(solve.result, i, x)
        emitter.emit_barrier()

    # ------------------------------------------------------------------------------------------------------- memory

    def _element_pointer(self, location: MemoryLocation, index: str) -> str:
        pointer_type, start = self.emitter.location_pointer(location)
        address = f"getelementptr {self.emitter.scalar_type}, {pointer_type} {start}, i32 {index}"
        return f"{pointer_type} {self.emitter.assign(address)}"

    def _load_element(self, location: MemoryLocation, index: str) -> str:
        return self._load_pointer(self._element_pointer(location, index))

    def _load_pointer(self, pointer: str) -> str:
        return self.emitter.assign(f"load {self.emitter.scalar_type}, {pointer}, align {self.emitter.scalar_bytes}")

    def _store_element(self, location: MemoryLocation, index: str, value: str) -> None:
        self.emitter.emit(
            f"store {self.emitter.scalar_type} {value}, {self._element_pointer(location, index)}, "
            f"align {self.emitter.scalar_bytes}"
        )

    def _load_vector(self, location: MemoryLocation, start: str, count: int) -> RowRegisters:
        """Emit loads of `count` consecutive scalars, the same in all threads, with vector loads where possible."""
        emitter, values = self.emitter, []
        width = VECTOR_BYTES // emitter.scalar_bytes
        for i in range(0, count, width):
            n = min(width, count - i)
            if n < width:
                values += [self._load_element(location, emitter.assign(f"add i32 {start}, {i + k}")) for k in range(n)]
                continue
            pointer = self._element_pointer(location, emitter.assign(f"add i32 {start}, {i}"))
            vector = emitter.assign(f"load <{width} x {emitter.scalar_type}>, {pointer}, align {VECTOR_BYTES}")
            values += [
                emitter.assign(f"extractelement <{width} x {emitter.scalar_type}> {vector}, i32 {k}")
                for k in range(width)
            ]
        return values

    # --------------------------------------------------------------------------------------------------------- assembly

    def _load_matrix_row(self, i: str) -> RowRegisters:
        """Emit loads of row i of the matrix, with mirrored entries if only the lower triangle is stored."""
        emitter, solve = self.emitter, self.solve
        start, row = emitter.assign(f"mul i32 {i}, {solve.row_stride}"), []
        for j in range(solve.size):
            offset = emitter.assign(f"add i32 {start}, {j}")
            if solve.lower_only:
                mirrored = emitter.assign(f"add i32 {i}, {j * solve.row_stride}")
                is_below = emitter.assign(f"icmp sge i32 {i}, {j}")
                offset = emitter.assign(f"select i1 {is_below}, i32 {offset}, i32 {mirrored}")
            row.append(self._load_element(solve.matrix, offset))
        return row

    def _add_hessian_term(self, rows: list[RowRegisters], term: HessianTerm) -> list[RowRegisters]:
        """Emit a loop over the constraint records of a term that adds J^T W J to the matrix rows of each thread.

        Friction cones use their packed W. Records without active rows are skipped; J with many rows are processed in a
        loop over rows. Returns the updated rows.
        """
        emitter, records = self.emitter, RegisterLoop(self.emitter, self.emitter.load(term.count, {}), rows)
        start = emitter.assign(f"mul i32 {records.index}, {term.record_stride}")
        first = emitter.assign(f"add i32 {start}, {term.jacobian_offset}")
        lane_jacobian = []
        for i in self.lane_rows:
            column = emitter.assign(f"add i32 {first}, {i}")
            offsets = [
                emitter.assign(f"add i32 {column}, {k * term.jacobian_row_stride}") for k in range(term.max_rows)
            ]
            lane_jacobian.append([self._load_element(term.records, offset) for offset in offsets])
        if term.max_rows == 1:  # a branch would cost as much as the update
            records.end(self._add_weighted_row(records.rows, "0", term, start, lane_jacobian))
            return records.rows
        n_rows = self._load_element(term.records, emitter.assign(f"add i32 {start}, {term.row_count_offset}"))
        if term.is_cone:
            records.end(self._add_cone_term(records.rows, term, start, lane_jacobian, n_rows))
            return records.rows
        if term.max_rows > MAX_UNROLLED_ROWS:
            inner = RegisterLoop(emitter, n_rows, records.rows)
            inner.end(self._add_weighted_row(inner.rows, inner.index, term, start, lane_jacobian))
            records.end(inner.rows)
            return records.rows
        branch = RegisterBranch(emitter, n_rows, records.rows)
        updated = records.rows
        for k in range(term.max_rows):  # unused rows are zero
            updated = self._add_weighted_row(updated, str(k), term, start, lane_jacobian)
        records.end(branch.end(updated))
        return records.rows

    def _add_cone_term(
        self, rows: list[RowRegisters], term: HessianTerm, start: str, lane_jacobian: list[RowRegisters], n_rows: str
    ) -> list[RowRegisters]:
        """Add J^T W J of a friction-cone record to the thread's rows, with packed W (see `HessianTerm.is_cone`).

        W J is evaluated for the thread's columns of J, then outer products with the rows of J are added; rows beyond
        `MAX_UNROLLED_ROWS` are skipped if unused. `start` is the offset of the record, `lane_jacobian` the thread's
        columns of J.
        """
        emitter = self.emitter
        branch = RegisterBranch(emitter, n_rows, rows)
        weights = emitter.assign(f"add i32 {start}, {term.weight_offset}")
        normal, tangential, edge_weight, radial_weight, mu, *direction = self._load_vector(
            term.records, weights, cone_weight_size(term.max_rows)
        )
        weighted = []
        for column in lane_jacobian:
            radial = self._dot(list(zip(direction, column[1:], strict=True)))
            edge = emitter.emit_op("fnma", [mu, radial, column[0]])
            edge_force = emitter.assign(f"fmul {emitter.scalar_type} {edge_weight}, {edge}")
            radial_force = emitter.emit_op(
                "neg", [emitter.emit_op("fma", [mu, edge_force, self._dot([(radial_weight, radial)])])]
            )
            tangential_forces = [
                emitter.emit_op("fma", [radial_force, o, self._dot([(tangential, x)])])
                for o, x in zip(direction, column[1:], strict=True)
            ]
            weighted.append([emitter.emit_op("fma", [normal, column[0], edge_force]), *tangential_forces])
        updated = rows
        for k in range(min(term.max_rows, MAX_UNROLLED_ROWS)):
            updated = self._add_outer_product(updated, str(k), term, start, [column[k] for column in weighted])
        if term.max_rows > MAX_UNROLLED_ROWS:
            beyond = emitter.assign(
                f"fsub {emitter.scalar_type} {n_rows}, {emitter.constant(float(MAX_UNROLLED_ROWS))}"
            )
            long_branch, extended = RegisterBranch(emitter, beyond, updated), updated
            for k in range(MAX_UNROLLED_ROWS, term.max_rows):
                extended = self._add_outer_product(extended, str(k), term, start, [column[k] for column in weighted])
            updated = long_branch.end(extended)
        return branch.end(updated)

    def _add_weighted_row(
        self, rows: list[RowRegisters], row_index: str, term: HessianTerm, start: str, lane_jacobian: list[RowRegisters]
    ) -> list[RowRegisters]:
        """Add the contribution of row k of J to the thread's rows: (W J)_k times row k of J, with dense W.

        `row_index` is k, `start` the offset of the record, `lane_jacobian` the thread's columns of J.
        """
        emitter = self.emitter
        offset = emitter.assign(f"mul i32 {row_index}, {round_up_to_4(term.max_rows)}")
        offset = emitter.assign(f"add i32 {emitter.assign(f'add i32 {start}, {term.weight_offset}')}, {offset}")
        weights = self._load_vector(term.records, offset, term.max_rows)
        weighted = [self._dot(list(zip(weights, column, strict=True))) for column in lane_jacobian]
        return self._add_outer_product(rows, row_index, term, start, weighted)

    def _add_outer_product(
        self, rows: list[RowRegisters], row_index: str, term: HessianTerm, start: str, weighted_jacobian: RowRegisters
    ) -> list[RowRegisters]:
        """Add the outer product of `weighted_jacobian` and row k of J to the thread's rows; returns the new rows.

        `weighted_jacobian` is row k of W J at the thread's columns, `row_index` is k, `start` the offset of the record.
        """
        emitter = self.emitter
        offset = emitter.assign(f"mul i32 {row_index}, {term.jacobian_row_stride}")
        offset = emitter.assign(f"add i32 {emitter.assign(f'add i32 {start}, {term.jacobian_offset}')}, {offset}")
        return [
            [emitter.emit_op("fma", [factor, x, h]) for x, h in zip(jacobian_row, row, strict=True)]
            for factor, row, jacobian_row in zip(
                weighted_jacobian, rows, self._gather_columns(term.records, offset), strict=True
            )
        ]

    def _gather_columns(self, location: MemoryLocation, start: str) -> list[RowRegisters]:
        """Load consecutive scalars (a row of J), restricted to the columns of each matrix row of the thread."""
        return [self._load_vector(location, start, self.solve.size)] * len(self.lane_rows)

    def _dot(self, products: list[tuple[str, str]]) -> str:
        (a, b), *rest = products
        total = self.emitter.assign(f"fmul {self.emitter.scalar_type} {a}, {b}")
        for c, d in rest:
            total = self.emitter.emit_op("fma", [c, d, total])
        return total

    # ---------------------------------------------------------------------------------------------------- elimination

    def _eliminate(self, unknowns: Unknowns, rows: list[RowRegisters], rhs: list[str]) -> list[str]:
        """Emit elimination from the last unknown to the first; returns the inverses of the thread's pivots.

        `rows` and `rhs` are updated in place. Values added to the diagonal only affect the pivots. If a thread owns
        several unknowns, the last of each thread are eliminated first.
        """
        inverses = [self.emitter.constant(0.0)] * len(rows)
        for pass_index in reversed(range(len(rows))):
            self._eliminate_pass(unknowns, pass_index, rows, rhs, inverses)
        return inverses

    def _eliminate_pass(
        self, unknowns: Unknowns, pass_index: int, rows: list[RowRegisters], rhs: list[str], inverses: list[str]
    ) -> None:
        """Emit elimination of the `pass_index`-th unknown of each thread, as a loop to keep the code short.

        Each iteration eliminates with the last column and rotates the columns by one, so that the next pivot column is
        again the last; after the pass the rotation is undone. The pivot column is exchanged through the double-buffered
        workspace. Updates `rows`, `rhs` and `inverses` in place.
        """
        emitter, solve, active = self.emitter, self.solve, range(pass_index + 1)
        count = min(unknowns.count, (pass_index + 1) * emitter.group_size)
        n_pivots = count - pass_index * emitter.group_size
        max_inverses, diagonals = (
            [self._load_element(location, unknowns.global_indices[q]) for q in active]
            for location in (solve.max_inverse_pivot, solve.diagonal)
        )
        initial_rows = [rows[q][:count] for q in active]
        loop = RegisterLoop(
            emitter,
            emitter.constant(float(n_pivots)),
            [*initial_rows, rhs[: pass_index + 1], inverses[: pass_index + 1]],
        )
        *current, current_rhs, current_inverses = loop.rows
        pivot = emitter.assign(f"sub i32 {count - 1}, {loop.index}")
        buffer = emitter.assign(
            f"mul i32 {emitter.assign(f'and i32 {loop.index}, 1')}, {round_up_to_4(unknowns.count)}"
        )
        new_inverses = list(current_inverses)
        for q in active:
            inverse = self._bounded_inverse(
                emitter.assign(f"fadd {emitter.scalar_type} {current[q][-1]}, {diagonals[q]}"), max_inverses[q]
            )
            is_pivot = emitter.assign(f"icmp eq i32 {unknowns.lane_indices[q]}, {pivot}")
            new_inverses[q] = emitter.assign(
                f"select i1 {is_pivot}, {emitter.scalar_type} {inverse}, {emitter.scalar_type} {new_inverses[q]}"
            )
            is_remaining = emitter.assign(f"icmp slt i32 {unknowns.lane_indices[q]}, {pivot}")
            column_entry = emitter.assign(
                f"select i1 {is_remaining}, {emitter.scalar_type} {current[q][-1]}, "
                f"{emitter.scalar_type} {emitter.constant(0.0)}"
            )
            published = emitter.assign(
                f"select i1 {is_pivot}, {emitter.scalar_type} {inverse}, {emitter.scalar_type} {column_entry}"
            )
            position = emitter.assign(f"add i32 {unknowns.lane_indices[q]}, {loop.index}")
            wraps = emitter.assign(f"icmp sge i32 {position}, {count}")
            position = emitter.assign(
                f"select i1 {wraps}, i32 {emitter.assign(f'sub i32 {position}, {count}')}, i32 {position}"
            )
            # double-buffered, as the other column may still be read
            self._store_element(unknowns.workspace, emitter.assign(f"add i32 {position}, {buffer}"), published)
        emitter.emit_barrier()
        *pivot_column, inverse = self._load_vector(unknowns.workspace, buffer, count)
        pivot_rhs = emitter.shuffle(
            current_rhs[pass_index],
            emitter.assign(f"sub i32 {pivot}, {pass_index * emitter.group_size}"),
            SHUFFLE_INDEX,
        )
        next_rows, next_rhs = [], []
        for q in active:
            scaled = emitter.assign(f"fmul {emitter.scalar_type} {current[q][-1]}, {inverse}")
            is_remaining = emitter.assign(f"icmp slt i32 {unknowns.lane_indices[q]}, {pivot}")
            factor = emitter.assign(
                f"select i1 {is_remaining}, {emitter.scalar_type} {scaled}, "
                f"{emitter.scalar_type} {emitter.constant(0.0)}"
            )
            negated = emitter.emit_op("neg", [factor])
            updated = [
                emitter.emit_op("fma", [negated, x, own])
                for x, own in reversed([*zip(pivot_column, current[q][:-1], strict=True)])
            ]
            next_rows.append([current[q][-1], *reversed(updated)])
            next_rhs.append(emitter.emit_op("fma", [negated, pivot_rhs, current_rhs[q]]))
        loop.end([*next_rows, next_rhs, new_inverses])
        for q in active:
            row = loop.rows[q]
            rows[q][:count] = [*row[n_pivots:], *row[:n_pivots]]
        rhs[: pass_index + 1], inverses[: pass_index + 1] = loop.rows[-2:]

    def _bounded_inverse(self, pivot: str, max_inverse: str) -> str:
        """Inverse of a pivot, or `max_inverse` if the pivot is smaller than 1 / `max_inverse`."""
        emitter = self.emitter
        scaled = emitter.assign(f"fmul {emitter.scalar_type} {max_inverse}, {pivot}")
        is_bounded = emitter.assign(f"fcmp ogt {emitter.scalar_type} {scaled}, {emitter.constant(1.0)}")
        inverse = emitter.emit_op("reciprocal", [pivot])
        return emitter.assign(
            f"select i1 {is_bounded}, {emitter.scalar_type} {inverse}, {emitter.scalar_type} {max_inverse}"
        )

    def _back_substitute(
        self, unknowns: Unknowns, rows: list[RowRegisters], rhs: list[str], inverses: list[str]
    ) -> tuple[list[str], list[str]]:
        """Emit back substitution from the first unknown to the last.

        Each unknown is broadcast from its thread by a shuffle. Returns the unknowns of the thread, and all unknowns.
        """
        emitter, remaining, solution = self.emitter, list(rhs), [self.emitter.constant(0.0)] * len(rows)
        all_unknowns = []
        for k in range(unknowns.count):
            q_owner = k // emitter.group_size
            candidate = emitter.assign(f"fmul {emitter.scalar_type} {remaining[q_owner]}, {inverses[q_owner]}")
            x = emitter.shuffle(candidate, k % emitter.group_size, SHUFFLE_INDEX)
            all_unknowns.append(x)
            negated = emitter.emit_op("neg", [x])
            for q, (i, row) in enumerate(zip(unknowns.lane_indices, rows, strict=True)):
                if q < q_owner:  # solved already
                    continue
                is_owner = emitter.assign(f"icmp eq i32 {i}, {k}")
                solution[q] = emitter.assign(
                    f"select i1 {is_owner}, {emitter.scalar_type} {x}, {emitter.scalar_type} {solution[q]}"
                )
                remaining[q] = emitter.emit_op("fma", [negated, row[k], remaining[q]])
        return solution, all_unknowns

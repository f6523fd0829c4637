"""Emission of a block-arrowhead solve by a warp: diagonal blocks are eliminated concurrently, then the border.

A thread owns an unknown of a diagonal block and holds the entries of its row in the columns of its block and of the
border. All blocks eliminate one unknown per step, from their last to their first, in as many steps as the largest block
has unknowns. The threads then share the Schur complement of the border, which is solved like a dense system, and all
blocks back-substitute concurrently.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kinema.ir import MemoryLocation

from ..warp import SHUFFLE_INDEX, WarpEmitter
from .dense_solve import VECTOR_BYTES, DenseSolveEmitter, RegisterLoop, RowRegisters, Unknowns
from .linear_system import BlockArrowhead, LinearSystem


@dataclass(frozen=True, slots=True)
class LaneRange:
    """Consecutive lanes that own consecutive unknowns."""

    first_lane: int
    first_unknown: int
    """Unknown of the first lane."""
    size: int


class BlockArrowheadSolveEmitter(DenseSolveEmitter):
    """Emits one block-arrowhead (Schur complement) solve by a thread group."""

    def __init__(self, emitter: WarpEmitter, solve: LinearSystem) -> None:
        super().__init__(emitter, solve)
        assert solve.arrowhead is not None
        self.structure: BlockArrowhead = solve.arrowhead
        self.n_border, self.max_block_size = len(self.structure.border), self.structure.max_block_size
        self.disjoint_lanes = self.structure.n_block_unknowns + self.n_border <= emitter.group_size
        """Whether no thread owns both a row of a diagonal block and a row of the border."""
        self.block_ranges = []
        for first, size in self.structure.diagonal_blocks:
            self.block_ranges.append(LaneRange(sum(lane_range.size for lane_range in self.block_ranges), first, size))
        self.block_row_stride, self.border_row_stride = self.structure.row_strides(emitter.group_size)
        start = solve.workspace.element + self.structure.n_block_unknowns * self.block_row_stride
        self.border_rows = MemoryLocation(solve.workspace.array, start)
        self.border_workspace = MemoryLocation(solve.workspace.array, start + self.n_border * self.border_row_stride)

    def emit(self) -> None:
        """Emit the solve of a block-arrowhead system A x = b (diagonal blocks coupled by a common border) by a warp.

        Load the rows, add the Hessian terms J^T W J, eliminate the diagonal blocks, solve the Schur complement of the
        border, back-substitute and store x.
        """
        self._assign_lanes()
        rows = [self._load_row(row_index) for row_index in range(len(self.lane_rows))]
        for term in self.solve.terms:
            rows = self._add_hessian_term(rows, term)
        rhs = [self._load_element(self.solve.rhs, i) for i in self.lane_rows]
        block_row = self._clear_missing_columns(rows[0])
        inverse = self._eliminate_blocks(block_row, rhs)
        self._form_schur_complement(self._border_part(rows[-1]), rhs[-1])
        border_solution = self._solve_border()
        self._back_substitute_blocks(block_row, rhs[0], inverse, border_solution)
        self.emitter.emit_barrier()

    # --------------------------------------------------------------------------------------------- distribution of rows

    def _assign_lanes(self) -> None:
        """Emit the assignment of threads to unknowns: rows, diagonal block and lanes of the block.

        Sets `lane_rows`, `border_lane`, `in_block`, first lane, first unknown and size of the block, `index_in_block`,
        `lane` and `block_lanes`. Surplus lanes duplicate the last unknown.
        """
        emitter, n_block_unknowns = self.emitter, self.structure.n_block_unknowns
        border_ranges = self._border_ranges(n_block_unknowns if self.disjoint_lanes else 0)
        ranges = [*self.block_ranges, *(border_ranges if self.disjoint_lanes else ())]
        lane = self._minimum("%lane", sum(lane_range.size for lane_range in ranges) - 1)
        self.lane_rows = [self._unknown_of_lane(lane, ranges)]
        if not self.disjoint_lanes:
            self.lane_rows.append(self._unknown_of_lane(self._minimum("%lane", self.n_border - 1), border_ranges))
        self.border_lane = (
            emitter.assign(f"sub i32 {lane}, {n_block_unknowns}")
            if self.disjoint_lanes
            else self._minimum("%lane", self.n_border - 1)
        )
        self.in_block = emitter.assign(f"icmp slt i32 {lane}, {n_block_unknowns}")
        self.block_first_lane = self._block_property(lane, lambda lane_range: lane_range.first_lane)
        self.block_first_unknown = self._block_property(lane, lambda lane_range: lane_range.first_unknown)
        size = self._block_property(lane, lambda lane_range: lane_range.size)
        self.block_size = emitter.assign(f"select i1 {self.in_block}, i32 {size}, i32 0")
        local_index = emitter.assign(f"sub i32 {lane}, {self.block_first_lane}")
        self.index_in_block = emitter.assign(f"select i1 {self.in_block}, i32 {local_index}, i32 {self.max_block_size}")
        self.lane = lane
        largest = next(lane_range for lane_range in self.block_ranges if lane_range.size == self.max_block_size)
        self.block_lanes = []
        """Lanes of the unknowns of the thread's block; of the largest block where the thread's block has none."""
        for k in range(self.max_block_size):
            block_lane = emitter.assign(f"add i32 {self.block_first_lane}, {k}")
            exists = emitter.assign(f"icmp sgt i32 {self.block_size}, {k}")
            self.block_lanes.append(
                emitter.assign(f"select i1 {exists}, i32 {block_lane}, i32 {largest.first_lane + k}")
            )

    def _border_ranges(self, first_lane: int) -> list[LaneRange]:
        """Lane ranges of the border unknowns, starting at `first_lane`, with consecutive unknowns merged."""
        ranges: list[LaneRange] = []
        for i, unknown in enumerate(self.structure.border):
            if ranges and ranges[-1].first_unknown + ranges[-1].size == unknown:
                ranges[-1] = LaneRange(ranges[-1].first_lane, ranges[-1].first_unknown, ranges[-1].size + 1)
            else:
                ranges.append(LaneRange(first_lane + i, unknown, 1))
        return ranges

    def _minimum(self, a: str, b: int) -> str:
        less = self.emitter.assign(f"icmp slt i32 {a}, {b}")
        return self.emitter.assign(f"select i1 {less}, i32 {a}, i32 {b}")

    def _unknown_of_lane(self, lane: str, ranges: Sequence[LaneRange]) -> str:
        """Emit the unknown that a lane owns."""
        offset = self._range_property(lane, ranges, lambda r: r.first_unknown - r.first_lane)
        return self.emitter.assign(f"add i32 {lane}, {offset}")

    def _block_property(self, lane: str, key: Callable[[LaneRange], int]) -> str:
        return self._range_property(lane, self.block_ranges, key)

    def _range_property(self, lane: str, ranges: Sequence[LaneRange], key: Callable[[LaneRange], int]) -> str:
        """Emit the value `key(lane_range)` of the range that contains a lane, by a chain of selects."""
        value = str(key(ranges[-1]))
        for lane_range in reversed(ranges[:-1]):
            if str(key(lane_range)) != value:
                is_inside = self.emitter.assign(f"icmp slt i32 {lane}, {lane_range.first_lane + lane_range.size}")
                value = self.emitter.assign(f"select i1 {is_inside}, i32 {key(lane_range)}, i32 {value}")
        return value

    # --------------------------------------------------------------------------------------------------------- assembly

    def _block_columns(self) -> list[str]:
        """Emit the column indices of the thread's diagonal block in the matrix, as integers.

        Blocks smaller than the largest are padded with arbitrary valid columns.
        """
        last = self.solve.size - 1
        columns = []
        for k in range(self.max_block_size):
            column = self.emitter.assign(f"add i32 {self.block_first_unknown}, {k}") if k else self.block_first_unknown
            columns.append(
                self._minimum(column, last)
                if max(lane_range.first_unknown for lane_range in self.block_ranges) + k > last
                else column
            )
        return columns

    def _load_row(self, row_index: int) -> RowRegisters:
        """Load row `row_index` of the thread: entries in the columns of its block (row 0 only) and the border."""
        columns = [*(self._block_columns() if row_index == 0 else ()), *map(str, self.structure.border)]
        return [self._load_entry(self.lane_rows[row_index], column) for column in columns]

    def _load_entry(self, i: str, j: str) -> str:
        """Emit the load of matrix entry (i, j), mirrored if only the lower triangle is stored."""
        emitter, stride = self.emitter, self.solve.row_stride
        offset = emitter.assign(f"add i32 {emitter.assign(f'mul i32 {i}, {stride}')}, {j}")
        if self.solve.lower_only:
            mirrored = emitter.assign(f"add i32 {i}, {emitter.assign(f'mul i32 {j}, {stride}')}")
            is_below = emitter.assign(f"icmp sge i32 {i}, {j}")
            offset = emitter.assign(f"select i1 {is_below}, i32 {offset}, i32 {mirrored}")
        return self._load_element(self.solve.matrix, offset)

    def _gather_columns(self, location: MemoryLocation, start: str) -> list[RowRegisters]:
        """Emit loads of a row of J at offset `start` of `location`, only of the columns that each matrix row needs.

        These are the columns of the thread's block and of the border for the first row of the thread, and of the border
        for its second row.
        """
        emitter = self.emitter
        block_part = [
            self._load_element(location, emitter.assign(f"add i32 {start}, {column}"))
            for column in self._block_columns()
        ]
        border_part: RowRegisters = []
        for lane_range in self._border_ranges(0):
            border_part += self._load_range(location, start, lane_range)
        return [[*block_part, *border_part], border_part][: len(self.lane_rows)]

    def _load_range(self, location: MemoryLocation, start: str, lane_range: LaneRange) -> RowRegisters:
        """Emit loads of consecutive scalars, one per unknown of `lane_range`, by vector loads where aligned.

        The first scalar is at offset `start` of `location`. Returns their LLVM names.
        """
        width = VECTOR_BYTES // self.emitter.scalar_bytes
        n_unaligned = min(-lane_range.first_unknown % width, lane_range.size)
        offsets = [self.emitter.assign(f"add i32 {start}, {lane_range.first_unknown + i}") for i in range(n_unaligned)]
        rest = self.emitter.assign(f"add i32 {start}, {lane_range.first_unknown + n_unaligned}")
        return [
            *(self._load_element(location, offset) for offset in offsets),
            *self._load_vector(location, rest, lane_range.size - n_unaligned),
        ]

    def _clear_missing_columns(self, row: RowRegisters) -> RowRegisters:
        """Set entries to zero in columns that the thread's block, if smaller than the largest, does not have."""
        emitter, cleared = self.emitter, list(row)
        for k in range(min(lane_range.size for lane_range in self.block_ranges), self.max_block_size):
            exists = emitter.assign(f"icmp sgt i32 {self.block_size}, {k}")
            cleared[k] = emitter.assign(
                f"select i1 {exists}, {emitter.scalar_type} {row[k]}, {emitter.scalar_type} {emitter.constant(0.0)}"
            )
        return cleared

    def _border_part(self, row: RowRegisters) -> RowRegisters:
        return row[len(row) - self.n_border :]

    # -------------------------------------------------------------------------------------------------- diagonal blocks

    def _eliminate_blocks(self, row: RowRegisters, rhs: list[str]) -> str:
        """Emit concurrent Gaussian elimination of all diagonal blocks, last unknown first; returns the inverse pivot.

        The pivot is that of the thread's unknown. A finished row is stored in the workspace for the other threads:
        border entries, right-hand side, inverse pivot and remaining block entries. `row` and `rhs` are updated in
        place.
        """
        emitter, solve, n = self.emitter, self.solve, self.n_border
        max_inverse, diagonal = (
            self._load_element(solve.max_inverse_pivot, self.lane_rows[0]),
            self._load_element(solve.diagonal, self.lane_rows[0]),
        )
        lane_inverse = emitter.constant(0.0)
        for k in reversed(range(self.max_block_size)):
            inverse = self._bounded_inverse(
                emitter.assign(f"fadd {emitter.scalar_type} {row[k]}, {diagonal}"), max_inverse
            )
            is_pivot = emitter.assign(f"icmp eq i32 {self.index_in_block}, {k}")
            lane_inverse = emitter.assign(
                f"select i1 {is_pivot}, {emitter.scalar_type} {inverse}, {emitter.scalar_type} {lane_inverse}"
            )
            offset = emitter.assign(f"mul i32 {self.lane}, {self.block_row_stride}")
            published = [*self._border_part(row), rhs[0], inverse, *row[:k]]
            self._emit_if(is_pivot, lambda start=offset, published=published: self._store_vector(start, published))
            emitter.emit_barrier()
            if k == 0:
                break
            pivot_row = emitter.assign(f"mul i32 {self.block_lanes[k]}, {self.block_row_stride}")
            pivot = self._load_vector(solve.workspace, pivot_row, n + 2 + k)
            is_before = emitter.assign(f"icmp slt i32 {self.index_in_block}, {k}")
            is_remaining = emitter.assign(
                f"and i1 {is_before}, {emitter.assign(f'icmp sgt i32 {self.block_size}, {k}')}"
            )
            scaled = emitter.assign(f"fmul {emitter.scalar_type} {row[k]}, {pivot[n + 1]}")
            factor = emitter.assign(
                f"select i1 {is_remaining}, {emitter.scalar_type} {scaled}, "
                f"{emitter.scalar_type} {emitter.constant(0.0)}"
            )
            negated = emitter.emit_op("neg", [factor])
            for j in range(k):
                row[j] = emitter.emit_op("fma", [negated, pivot[n + 2 + j], row[j]])
            for j in range(n):
                row[self.max_block_size + j] = emitter.emit_op("fma", [negated, pivot[j], row[self.max_block_size + j]])
            rhs[0] = emitter.emit_op("fma", [negated, pivot[n], rhs[0]])
        return lane_inverse

    def _back_substitute_blocks(
        self, row: RowRegisters, rhs: str, inverse: str, border_solution: Sequence[str]
    ) -> None:
        """Emit back substitution in all diagonal blocks, given the solution of the border unknowns.

        Stores the unknown of the thread. `row` and `rhs` are the thread's eliminated row and right-hand side, `inverse`
        the inverse of its pivot.
        """
        emitter, remaining, solution = self.emitter, rhs, self.emitter.constant(0.0)
        for entry, x in zip(self._border_part(row), border_solution, strict=True):
            remaining = emitter.emit_op("fnma", [x, entry, remaining])
        for k in range(self.max_block_size):
            candidate = emitter.assign(f"fmul {emitter.scalar_type} {remaining}, {inverse}")
            x = emitter.shuffle(candidate, self.block_lanes[k], SHUFFLE_INDEX)
            is_owner = emitter.assign(f"icmp eq i32 {self.index_in_block}, {k}")
            solution = emitter.assign(
                f"select i1 {is_owner}, {emitter.scalar_type} {x}, {emitter.scalar_type} {solution}"
            )
            remaining = emitter.emit_op("fnma", [x, row[k], remaining])
        self._emit_if(self.in_block, lambda: self._store_element(self.solve.result, self.lane_rows[0], solution))

    # ----------------------------------------------------------------------------------------------------------- border

    def _form_schur_complement(self, row: RowRegisters, rhs: str) -> None:
        """Emit the Schur complement of the border, S = C - B^T D^-1 B, with its right-hand side as last column.

        D are the eliminated diagonal blocks, C is the border block and B the coupling. Each thread updates a tile of
        columns of one border row by a loop over all block unknowns. The result is stored in the workspace
        (`border_rows`).
        """
        emitter, solve = self.emitter, self.solve
        row_start = emitter.assign(f"mul i32 {self.border_lane}, {self.border_row_stride}")

        def store_row() -> None:
            self._store_vector(row_start, [*row, rhs], self.border_rows)

        if self.disjoint_lanes:
            self._emit_if(emitter.assign(f"xor i1 {self.in_block}, true"), store_row)
        else:
            store_row()
        emitter.emit_barrier()
        threads_per_row, columns = self.structure.schur_tiling(emitter.group_size)
        lane_row, group = (
            emitter.assign(f"urem i32 %lane, {self.n_border}"),
            emitter.assign(f"udiv i32 %lane, {self.n_border}"),
        )
        first_column = emitter.assign(f"mul i32 {self._minimum(group, threads_per_row - 1)}, {columns}")
        tile = emitter.assign(
            f"add i32 {emitter.assign(f'mul i32 {lane_row}, {self.border_row_stride}')}, {first_column}"
        )
        initial = self._load_vector(self.border_rows, tile, columns)
        loop = RegisterLoop(emitter, emitter.constant(float(self.structure.n_block_unknowns)), [initial])
        start = emitter.assign(f"mul i32 {loop.index}, {self.block_row_stride}")
        entry = self._load_element(solve.workspace, emitter.assign(f"add i32 {start}, {lane_row}"))
        inverse = self._load_element(solve.workspace, emitter.assign(f"add i32 {start}, {self.n_border + 1}"))
        negated = emitter.emit_op("neg", [emitter.assign(f"fmul {emitter.scalar_type} {entry}, {inverse}")])
        block_row = self._load_vector(solve.workspace, emitter.assign(f"add i32 {start}, {first_column}"), columns)
        loop.end(
            [
                [
                    emitter.emit_op("fma", [negated, x, entry_before])
                    for x, entry_before in zip(block_row, loop.rows[0], strict=True)
                ]
            ]
        )
        emitter.emit_barrier()
        has_tile = emitter.assign(f"icmp slt i32 {group}, {threads_per_row}")
        self._emit_if(has_tile, lambda: self._store_vector(tile, loop.rows[0], self.border_rows))
        emitter.emit_barrier()

    def _solve_border(self) -> list[str]:
        """Emit the dense solve of the Schur complement; stores the border unknowns and returns all of them."""
        emitter, n = self.emitter, self.n_border
        lane = self._minimum("%lane", n - 1)
        row = self._load_vector(self.border_rows, emitter.assign(f"mul i32 {lane}, {self.border_row_stride}"), n + 1)
        global_index = self._unknown_of_lane(lane, self._border_ranges(0))
        unknowns = Unknowns(n, [lane], [global_index], self.border_workspace)
        rows, rhs = [row[:n]], row[n:]
        inverses = self._eliminate(unknowns, rows, rhs)
        solution, all_unknowns = self._back_substitute(unknowns, rows, rhs, inverses)
        self._store_element(self.solve.result, global_index, solution[0])
        return all_unknowns

    # ------------------------------------------------------------------------------------------------------- memory

    def _emit_if(self, condition: str, then: Callable[[], None]) -> None:
        """Emit a branch for the threads whose condition holds; `then` emits its body."""
        emitter, body, done = self.emitter, self.emitter.fresh_name("some"), self.emitter.fresh_name("done")
        emitter.emit(f"br i1 {condition}, label %{body}, label %{done}")
        emitter.start_block(body)
        then()
        emitter.emit(f"br label %{done}")
        emitter.start_block(done)

    def _store_vector(self, index: str, values: Sequence[str], location: MemoryLocation | None = None) -> None:
        """Emit stores of consecutive scalars to a memory location, as vectors if possible.

        The first one goes to offset `index`; the default memory location is the workspace.
        """
        emitter, location = self.emitter, self.solve.workspace if location is None else location
        width = VECTOR_BYTES // emitter.scalar_bytes
        for i in range(0, len(values), width):
            chunk, start = values[i : i + width], emitter.assign(f"add i32 {index}, {i}")
            if len(chunk) < width:
                for j, value in enumerate(chunk):
                    self._store_element(location, emitter.assign(f"add i32 {start}, {j}"), value)
                continue
            vector = "poison"
            for j, value in enumerate(chunk):
                vector = emitter.assign(
                    f"insertelement <{width} x {emitter.scalar_type}> {vector}, {emitter.scalar_type} {value}, i32 {j}"
                )
            emitter.emit(
                f"store <{width} x {emitter.scalar_type}> {vector}, {self._element_pointer(location, start)}, "
                f"align {VECTOR_BYTES}"
            )

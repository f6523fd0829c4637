"""Effect analysis: read and write sets of statements and of single loop iterations.

A memory cell is one scalar of an arena. The tables of loops are constant, so that the cells of an iteration are known
at compile time; an array accessed at a dynamic index counts from its start to the end of its allocation. All iterations
of a loop specialization are analysed together.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat

import numpy as np
import numpy.typing as npt

from .memory import (
    CONSTANT_PREFIX,
    FIRST_ITERATION_PREFIX,
    ITERATION_COUNT_PREFIX,
    SCRATCH,
    THREAD_SCRATCH,
    WARP_GLOBAL,
    MemoryLocation,
)
from .program import (
    ForEachLoop,
    Program,
    Statements,
    WarpRegion,
    WorkQueueLoop,
    memory_accesses,
    nested_bodies,
    walk,
)

Cell = tuple[str, int]
"""Memory cell: (arena or array, offset), one scalar per environment."""


@dataclass(slots=True, eq=False)
class Effects:
    """Cells that some code reads, cells that it writes, and the local arrays that it uses."""

    reads: set[Cell] = field(default_factory=set)
    writes: set[Cell] = field(default_factory=set)
    locals: set[str] = field(default_factory=set)

    def scratch_offsets(self) -> set[int]:
        """Scratch offsets that are read or written."""
        return {row for arena, row in self.reads | self.writes if arena == SCRATCH}


class CellSet:
    """Set of memory cells, with a boolean mask over scratch memory."""

    __slots__ = ("other_cells", "scratch_offsets")

    def __init__(self, scratch_offsets: npt.NDArray[np.bool_], other_cells: set[Cell]) -> None:
        self.scratch_offsets = scratch_offsets
        self.other_cells = other_cells

    def __contains__(self, cell: Cell) -> bool:
        return bool(self.scratch_offsets[cell[1]]) if cell[0] == SCRATCH else cell in self.other_cells

    def __or__(self, other: CellSet) -> CellSet:
        return CellSet(self.scratch_offsets | other.scratch_offsets, self.other_cells | other.other_cells)

    def __sub__(self, other: CellSet) -> CellSet:
        return CellSet(self.scratch_offsets & ~other.scratch_offsets, self.other_cells - other.other_cells)

    def intersection(self, cells: Iterable[Cell]) -> list[Cell]:
        """Memory cells of a list that are in the set."""
        rows, others = self.scratch_offsets.tolist(), self.other_cells
        return [cell for cell in cells if (rows[cell[1]] if cell[0] == SCRATCH else cell in others)]


def kept_statements(statements: Statements) -> Iterator[ForEachLoop | WarpRegion | WorkQueueLoop]:
    """Outermost statements that unrolling keeps: rolled for-each loops, warp regions and work-queue loops."""
    for block in statements:
        if isinstance(block, WarpRegion | WorkQueueLoop) or (isinstance(block, ForEachLoop) and block.no_unroll):
            yield block
            continue
        for body in nested_bodies(block):
            yield from kept_statements(body)


def find_effects(program: Program, statements: Statements) -> Effects:
    """Read and write sets of statements, and the local arrays that they use.

    An array accessed at a dynamic index counts from the named element to the end of its allocation.
    """
    analysis = _EffectAnalysis(program, {})
    analysis.visit(statements, [])
    return analysis.result()


def find_local_arrays(program: Program, statements: Statements) -> set[str]:
    """Local arrays that statements use, without an analysis of the cells of other memory."""
    used: set[str] = set()
    for statement in walk(statements):
        used.update(location.array for location, _ in memory_accesses(statement))
        if isinstance(statement, ForEachLoop):
            used.update(arena for x in statement.specializations for arena, _ in x.array_columns.values())
    return used & program.locals.keys()


def find_effect_cells(program: Program, statements: Statements) -> tuple[CellSet, CellSet, set[str]]:
    """Read set, write set and local arrays of statements; the sets are `CellSet` (boolean masks of scratch offsets).

    The same result as `find_effects` in another representation; an access at a dynamic index marks all cells from the
    named element to the end of its allocation.
    """
    analysis = _EffectAnalysis(program, {})
    analysis.visit(statements, [])
    masks = []
    for ranges, cells in zip(analysis.indexed_ranges, (analysis.effects.reads, analysis.effects.writes), strict=True):
        rows = np.zeros(program.n_scratch + 1, np.bool_)
        rows[[row for arena, row in cells if arena == SCRATCH]] = True
        for end, start in ranges.items():
            rows[start:end] = True
        masks.append(CellSet(rows, {cell for cell in cells if cell[0] != SCRATCH}))
    return masks[0], masks[1], analysis.effects.locals


def effects_per_iteration(program: Program, loop: ForEachLoop) -> list[Effects]:
    """Read and write sets of each iteration of a for-each loop."""
    uses_cache: dict[int, ArrayUses] = {}
    row_effects = []
    for i in range(len(loop.ints)):
        analysis = _EffectAnalysis(program, uses_cache)
        analysis.visit_iterations(loop, [i], [])
        row_effects.append(analysis.result())
    return row_effects


def dependency_levels(iteration_cells: Iterable[tuple[Collection[Hashable], Collection[Hashable]]]) -> list[int]:
    """Dependency level of each loop iteration from its (read set, written set) of memory cells, in program order.

    An iteration is one level above the highest earlier iteration that it has a flow, anti or output dependence on;
    iterations of one level are independent.
    """
    written: dict[Hashable, int] = {}
    read: dict[Hashable, int] = {}
    levels = []
    for reads, writes in iteration_cells:
        level = 0
        for cell in reads:
            level = max(level, written.get(cell, -1) + 1)
        for cell in writes:
            level = max(level, written.get(cell, -1) + 1, read.get(cell, -1) + 1)
        for cell in reads:
            read[cell] = max(read.get(cell, -1), level)
        for cell in writes:
            written[cell] = level
        levels.append(level)
    return levels


ArrayUses = Mapping[str, Collection[tuple[int, bool, bool]]]
"""Array -> set of (element, whether accessed at a dynamic index, whether written)."""


@dataclass(slots=True, eq=False)
class _EnclosingIterations:
    """Iterations of one loop specialization at one nesting level, one entry for each execution of the loop body."""

    arrays: Mapping[str, tuple[str, int]]
    """Array -> (arena, column of its offset)."""
    ints: npt.NDArray[np.int32]
    rows: list[int]
    _start_cache: dict[str, list[int]] = field(default_factory=dict)

    def column(self, array: str) -> list[int]:
        """Offset of an array for each execution."""
        return self.ints[self.rows, self.arrays[array][1]].tolist()

    def starts(self, array: str) -> list[int]:
        """Distinct offsets of an array; many iterations share the same one."""
        if array not in self._start_cache:
            self._start_cache[array] = list(dict.fromkeys(self.column(array)))
        return self._start_cache[array]

    def select(self, indices: list[int]) -> _EnclosingIterations:
        """Restrict to the executions with the given indices, for code of a nested loop."""
        return _EnclosingIterations(self.arrays, self.ints, [self.rows[i] for i in indices])


@dataclass(slots=True, eq=False)
class _EffectAnalysis:
    """Accumulates the effects of statements; each loop specialization is analysed once for all of its iterations."""

    program: Program
    uses_cache: dict[int, ArrayUses]
    """Array uses of statement sequences, by identity of the sequence."""
    effects: Effects = field(default_factory=Effects)
    indexed_ranges: tuple[dict[int, int], dict[int, int]] = field(default_factory=lambda: ({}, {}))
    """Ranges of scratch offsets read and written at dynamic indices: end of the allocation -> first offset."""

    def result(self) -> Effects:
        for ranges, cells in zip(self.indexed_ranges, (self.effects.reads, self.effects.writes), strict=True):
            for end, start in ranges.items():
                cells.update(zip(repeat(SCRATCH), range(start, end)))
        return self.effects

    def visit(self, statements: Statements, enclosing_iterations: list[_EnclosingIterations]) -> None:
        """Add the reads and writes of statements that run for the loop iterations of the enclosing loops.

        Nested loops are expanded: each execution of the enclosing iteration runs all nested iterations, or the range
        given by the enclosing iteration. `enclosing_iterations` are those of the enclosing loops, outermost first.
        """
        if id(statements) not in self.uses_cache:
            self.uses_cache[id(statements)] = array_uses(statements)
        for array, uses in self.uses_cache[id(statements)].items():
            self._add_uses(array, uses, enclosing_iterations)
        n_executions = len(enclosing_iterations[-1].rows) if enclosing_iterations else 1
        for nested in outermost_for_each_loops(statements):
            if nested.active_iterations is not None:
                arena, row = nested.active_iterations
                self._add_uses(arena, [(row, True, False)], [])
            if nested.joined_rows:  # columns are looked up one by one: every row and every execution has to occur
                count = max(n_executions, len(nested.ints))
                executions = [(i % max(n_executions, 1), i % len(nested.ints)) for i in range(count)]
            elif not nested.range_name:
                executions = [(i, row) for i in range(n_executions) for row in range(len(nested.ints))]
            else:
                row_ranges = zip(
                    *(
                        enclosing_iterations[-1].column(prefix + nested.range_name)
                        for prefix in (FIRST_ITERATION_PREFIX, ITERATION_COUNT_PREFIX)
                    ),
                    strict=True,
                )
                executions = [
                    (i, row) for i, (first, count) in enumerate(row_ranges) for row in range(first, first + count)
                ]
            outer_indices, rows = [i for i, _ in executions], [row for _, row in executions]
            self.visit_iterations(nested, rows, [level.select(outer_indices) for level in enclosing_iterations])

    def visit_iterations(
        self, loop: ForEachLoop, rows: Sequence[int], enclosing_iterations: list[_EnclosingIterations]
    ) -> None:
        """Add the reads and writes of the iterations `rows` of a loop to the read and write sets, per specialization.

        `enclosing_iterations` has, for each enclosing loop, the iteration in which each of the rows runs.
        """
        specialization_indices = loop.specialization_indices()[list(rows)].tolist()
        for specialization_index in sorted(set(specialization_indices)):
            specialization, selected = (
                loop.specializations[specialization_index],
                [i for i, v in enumerate(specialization_indices) if v == specialization_index],
            )
            level = _EnclosingIterations(specialization.array_columns, loop.ints, [rows[i] for i in selected])
            self.visit(specialization.body, [*(outer.select(selected) for outer in enclosing_iterations), level])

    def _add_uses(
        self, array: str, uses: Collection[tuple[int, bool, bool]], enclosing_iterations: list[_EnclosingIterations]
    ) -> None:
        """Add the accesses of one array to the read and write sets, at the array's offset in every loop iteration.

        The offsets are those of the innermost enclosing loop that defines the array. Constants are ignored, local
        arrays are recorded by name only, and a list in global or thread scratch memory counts as its first cell.

        Args:
            array: name of the array in the code.
            uses: accesses: (element, whether at a dynamic index, whether a write).
            enclosing_iterations: iterations of the enclosing loops, outermost first.
        """
        if array.startswith(CONSTANT_PREFIX):
            return
        level = next((level for level in reversed(enclosing_iterations) if array in level.arrays), None)
        arena, starts = (array, [0]) if level is None else (level.arrays[array][0], level.starts(array))
        if arena in self.program.locals:
            self.effects.locals.add(arena)
            return
        for element, indexed, written in uses:
            cells = self.effects.writes if written else self.effects.reads
            if arena in (WARP_GLOBAL, THREAD_SCRATCH):  # a list is represented by its start
                cells.update((arena, row) for row in starts)
            elif arena == SCRATCH and (indexed or self.program.oversized_lists):
                self._add_scratch_uses((row + element for row in starts), indexed, written)
            elif not indexed:
                cells.update((arena, row + element) for row in starts)

    def _add_scratch_uses(self, starts: Iterable[int], indexed: bool, written: bool) -> None:
        """Add accesses at the scratch offsets `starts` to the read or write set.

        In an oversized list (capacity far above the usual length) the first offset stands for the whole list. An access
        at a dynamic index (`indexed`) may touch all offsets up to the end of the allocation.
        """
        program, ranges = self.program, self.indexed_ranges[written]
        cells = self.effects.writes if written else self.effects.reads
        for start in starts:
            if program.oversized_lists and allocation_start(program, start) in program.oversized_lists:
                cells.add((SCRATCH, allocation_start(program, start)))
            elif indexed:
                end = allocation_end(program, start)
                ranges[end] = min(ranges.get(end, end), start)
            else:
                cells.add((SCRATCH, start))


def array_uses(statements: Statements) -> ArrayUses:
    """Array accesses of all statements outside of for-each loops and work-queue loops."""
    uses: dict[str, set[tuple[int, bool, bool]]] = {}
    for location, written in _memory_accesses(statements):
        uses.setdefault(location.array, set()).add((location.element, location.index is not None, written))
    return uses


def _memory_accesses(statements: Statements) -> Iterator[tuple[MemoryLocation, bool]]:
    """Iterate over (location, whether written) of statements; for-each loops and work-queue loops are skipped."""
    for block in statements:
        if not isinstance(block, ForEachLoop | WorkQueueLoop):
            yield from memory_accesses(block)
            for body in nested_bodies(block):
                yield from _memory_accesses(body)


def outermost_for_each_loops(statements: Statements) -> Iterator[ForEachLoop]:
    """Iterate over the for-each loops that are not inside another for-each loop."""
    for block in statements:
        if isinstance(block, ForEachLoop):
            yield block
        else:
            for body in nested_bodies(block):
                yield from outermost_for_each_loops(body)


def allocation_start(program: Program, row: int) -> int:
    """Start of the scratch allocation that contains an offset."""
    return (
        program.allocation_starts[bisect_right(program.allocation_starts, row) - 1] if program.allocation_starts else 0
    )


def allocation_end(program: Program, row: int) -> int:
    """End of the scratch allocation that contains an offset."""
    after = bisect_right(program.allocation_starts, row)
    return program.allocation_starts[after] if after < len(program.allocation_starts) else program.n_scratch

"""Parallelisation of for-each loops of thread kernels: groups of independent iterations run on threads of their own.

A thread of a GPU that runs all iterations of a scene of many bodies waits for memory in each of them. The iterations of
consecutive loops are partitioned into the connected components of their dependence graph: two iterations are connected
if they access the same cell and one of them writes it. In a scene of free bodies a component has the iterations of one
body in all loops. The loops become one loop over components with nested loops over the iterations of a component, in
their former order; it is a kernel of its own, with a thread per environment and component. A cell that all iterations
add to is privatised: each component has a sum of its own, and the sums are added afterwards. All other results are
bitwise equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .effects import Cell, array_uses, find_effects, find_local_arrays
from .intrinsics import AtomicIncrement
from .level_schedule import accumulated_locations
from .memory import CONSTANT_PREFIX, FIRST_ITERATION_PREFIX, ITERATION_COUNT_PREFIX, SCRATCH, MemoryLocation
from .program import (
    BasicBlock,
    CountedLoop,
    ForEachLoop,
    If,
    Instruction,
    LoopSpecialization,
    Program,
    Statement,
    Statements,
    Store,
    WarpRegion,
    WhileLoop,
    WorkQueueLoop,
    memory_accesses,
    walk,
)

MIN_COMPONENTS = 16
"""Smallest number of components of a loop that is parallelised."""
MAX_COMPONENT_SHARE = 0.25
"""Largest share of the iterations that one component may have: other threads would wait for it."""
MAX_ACCESSES = 20_000_000
"""Largest number of accesses (iteration, cell) of a loop that are analysed."""
SUMS_PER_ITERATION = 64
"""Sums of components that are added at a time."""
ARENA_BITS, SCRATCH_ARENA = 40, 0
"""Bits of the row in the key of a cell, below the number of its arena; number of scratch memory."""
Keys = npt.NDArray[np.int64]


class _Accesses(NamedTuple):
    """Accesses of a loop: pairs of an iteration and the key of a cell."""

    iterations: Keys
    cells: Keys


@dataclass(frozen=True, slots=True, eq=False)
class _Candidate:
    """Loop whose accesses are known for each iteration."""

    loop: ForEachLoop
    reads: _Accesses
    writes: _Accesses
    indexed_arenas: frozenset[int]
    """Numbers of the arenas besides scratch memory that are read at dynamic indices."""
    reads_named: bool
    """Whether an array besides scratch memory is read by its name, so that its rows in an arena are unknown."""
    sums: Mapping[int, Sequence[tuple[int, str, int]]]
    """Key of a scratch cell that iterations only add to -> uses: specialization, array and element."""

    @property
    def writes_arrays(self) -> bool:
        """Whether memory besides scratch memory is written."""
        return _is_outside_scratch(self.writes.cells)

    @property
    def accesses_arrays(self) -> bool:
        """Whether memory besides scratch memory is read or written."""
        known = self.writes_arrays or _is_outside_scratch(self.reads.cells)
        return known or self.reads_named or bool(self.indexed_arenas)


def _is_outside_scratch(cells: Keys) -> bool:
    return bool((cells >> ARENA_BITS != SCRATCH_ARENA).any())


def parallelise_loops(program: Program) -> Program:
    """Pass: replace for-each loops at top level outside of warp regions by parallel loops over independent components.

    Statements between two loops are moved before the first one if that is possible, so that fewer kernels remain.
    """
    if not any(isinstance(x, ForEachLoop) and len(x.ints) >= MIN_COMPONENTS for x in program.body):
        return program
    analysis = _LoopAnalysis(program)
    result: list[Statement] = []
    for statement in program.body:
        if isinstance(statement, WarpRegion | WorkQueueLoop):
            result += [*analysis.take(), statement]
        else:
            analysis.add(statement)
    result += analysis.take()
    starts = tuple(analysis.allocation_starts)
    return replace(program, body=tuple(result), n_scratch=analysis.n_scratch, allocation_starts=starts)


class _LoopAnalysis:
    """Statements in order, with the last consecutive loops that have independent components together."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.n_scratch, self.allocation_starts = program.n_scratch, [*(program.allocation_starts or (0,))]
        self._arenas = {SCRATCH: SCRATCH_ARENA}
        self._n_users = Counter(name for x in program.body for name in _local_arrays(program, x))
        self._finished: list[Statement] = []
        self._run: list[_Candidate] = []

    def take(self) -> Statements:
        """Return all statements that were added, with parallel loops, and start again."""
        self._flush()
        statements, self._finished = tuple(self._finished), []
        return statements

    def add(self, statement: Statement) -> None:
        """Add a statement: to the run of loops if it has independent components, else before or after it."""
        candidate = self._candidate(statement)
        if candidate is not None and _components([candidate]):
            self._run.append(candidate)
            return
        if self._run and not self._is_independent_of_run(statement):
            self._flush()
        self._finished.append(statement)  # before the run

    def _flush(self) -> None:
        """Replace the run by one parallel loop, or by several where too many iterations would be connected."""
        run, self._run = self._run, []
        while run:
            n_loops = len(run)
            if not (components := _components(run)):
                n_loops, components = 1, _components(run[:1])
                while longer := _components(run[: n_loops + 1]):
                    n_loops, components = n_loops + 1, longer
            self._finish(run[:n_loops], components)
            run = run[n_loops:]

    def _finish(self, candidates: Sequence[_Candidate], components: list[npt.NDArray[np.intp]]) -> None:
        """Append the parallel loop of some loops, with the sums over their components."""
        loops, n_components = [x.loop for x in candidates], 1 + max(int(x.max()) for x in components)
        totals: list[tuple[int, int]] = []
        for i, candidate in enumerate(candidates):
            for key, uses in candidate.sums.items():
                loops[i] = _add_to_sums(loops[i], components[i], uses, self.n_scratch)
                totals.append((self.n_scratch, key & ((1 << ARENA_BITS) - 1)))
                self.allocation_starts.append(self.n_scratch)
                self.n_scratch += n_components
        clears = [_clear_loop(start, n_components) for start, _ in totals]
        components = [*(np.arange(n_components) for _ in clears), *components]
        self._finished.append(_component_loop([*clears, *loops], components))
        self._finished += [_sum_loop(start, n_components, total) for start, total in totals]

    def _is_independent_of_run(self, statement: Statement) -> bool:
        unknown = set(_unknown_accesses(self.program, statement))
        if (False in unknown and any(c.writes_arrays for c in self._run)) or (
            True in unknown and any(c.accesses_arrays for c in self._run)
        ):
            return False
        effects = find_effects(self.program, (statement,))
        reads, writes = (self._keys(cells) for cells in (effects.reads, effects.writes))
        if any(np.isin([*c.sums], cells).any() for c in self._run for cells in (reads, writes)):
            return False
        return not any(
            np.isin(x.cells, cells).any()
            for c in self._run
            for x, cells in ((c.writes, reads), (c.writes, writes), (c.reads, writes))
        ) and not any(int(x) in c.indexed_arenas for c in self._run for x in np.unique(writes >> ARENA_BITS))

    # ------------------------------------------------------------------------------------------------------- accesses

    def _arena(self, name: str) -> int:
        return self._arenas.setdefault(name, len(self._arenas))

    def _keys(self, cells: Iterable[Cell]) -> Keys:
        return np.array([(self._arena(arena) << ARENA_BITS) + row for arena, row in cells], np.int64)

    def _is_plain(self, loop: ForEachLoop) -> bool:
        """Whether a loop runs all its iterations, of code without nested tables or shared local arrays."""
        if len(loop.ints) < MIN_COMPONENTS or loop.range_name or loop.joined_rows or loop.reductions:
            return False
        if loop.active_iterations is not None or any(self._n_users[x] > 1 for x in _local_arrays(self.program, loop)):
            return False
        return all(isinstance(x, _PLAIN_STATEMENTS) for s in loop.specializations for x in walk(s.body))

    def _candidate(self, statement: Statement) -> _Candidate | None:
        """Accesses of a statement by iteration; None if it is no loop whose iterations could be independent.

        Local arrays have to be private to an iteration: no other statement may use them.
        """
        if not isinstance(statement, ForEachLoop) or not self._is_plain(statement):
            return None
        accesses: tuple[list[_Accesses], list[_Accesses]] = ([], [])
        indexed_arenas, reads_named = set[int](), False
        sums: dict[int, list[tuple[int, str, int]]] = {}
        indices, n_accesses = statement.specialization_indices(), 0
        for number, specialization in enumerate(statement.specializations):
            rows = np.flatnonzero(indices == number)
            accumulated = set(accumulated_locations(specialization))
            for array, uses in array_uses(specialization.body).items():
                if array.startswith(CONSTANT_PREFIX):
                    continue
                arena, starts = array, np.zeros(len(rows), np.int64)
                if array in specialization.array_columns:
                    arena, column = specialization.array_columns[array]
                    starts = statement.ints[rows, column].astype(np.int64)
                    if arena in self.program.locals:
                        return None
                elif arena in self.program.locals:
                    continue
                elif arena != SCRATCH:
                    if any(written for _, _, written in uses):
                        return None
                    reads_named = True
                    continue
                elements = {element for element, _, _ in uses}
                if arena == SCRATCH and len(elements) == 1 and len(np.unique(starts)) == 1:
                    (element,) = elements
                    if array in specialization.array_columns and MemoryLocation(array, element) in accumulated:
                        (key,) = self._keys([(SCRATCH, int(starts[0]) + element)]).tolist()
                        sums.setdefault(key, []).append((number, array, element))
                        continue
                for element, indexed, written in uses:
                    if indexed and arena != SCRATCH:
                        if written:
                            return None
                        indexed_arenas.add(self._arena(arena))
                        continue
                    found = self._access(arena, rows, starts + element, indexed=indexed)
                    n_accesses += len(found.cells)
                    if n_accesses > MAX_ACCESSES:
                        return None
                    accesses[written].append(found)
        reads, writes = (
            _Accesses(*(np.concatenate([np.zeros(0, np.int64), *(x[i] for x in found)]) for i in range(2)))
            for found in accesses
        )
        return _Candidate(statement, reads, writes, frozenset(indexed_arenas), reads_named, sums)

    def _access(self, arena: str, rows: Keys, cells: Keys, *, indexed: bool) -> _Accesses:
        """Accesses of iterations to one cell each, or, at a dynamic index, to all cells up to the end of an allocation.

        The first cell of an oversized list stands for the whole list.
        """
        if arena == SCRATCH and self.program.allocation_starts:
            starts = np.asarray(self.program.allocation_starts, np.int64)
            allocations = np.searchsorted(starts, cells, side="right") - 1
            is_oversized = np.isin(starts[allocations], list(self.program.oversized_lists))
            if indexed:
                ends = np.append(starts[1:], self.program.n_scratch)[allocations]
                counts = np.where(is_oversized, 1, ends - cells)
                first = np.where(is_oversized, starts[allocations], cells)
                offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
                rows, cells = np.repeat(rows, counts), np.repeat(first, counts) + offsets
            else:
                cells = np.where(is_oversized, starts[allocations], cells)
        elif indexed:  # one allocation
            n = self.program.n_scratch
            rows, cells = np.repeat(rows, n), np.tile(np.arange(n), len(rows))
        return _Accesses(rows, cells + (self._arena(arena) << ARENA_BITS))


_PLAIN_STATEMENTS = BasicBlock | CountedLoop | WhileLoop | If | AtomicIncrement
"""Statements whose accesses are known without the tables of nested loops."""


def _local_arrays(program: Program, statement: Statement) -> set[str]:
    return find_local_arrays(program, (statement,))


def _unknown_accesses(program: Program, statement: Statement) -> Iterator[bool]:
    """Whether each access of a statement to an array outside of scratch memory writes, if its cells are unknown.

    Those are accesses at dynamic indices, and to arrays by name, whose rows in an arena a program does not contain.
    """
    arenas: dict[str, set[str]] = {}
    for loop in walk((statement,)):
        for specialization in loop.specializations if isinstance(loop, ForEachLoop) else ():
            for array, (arena, _) in specialization.array_columns.items():
                arenas.setdefault(array, set()).add(arena)
    for nested in walk((statement,)):
        for location, written in memory_accesses(nested):
            if location.array.startswith(CONSTANT_PREFIX):
                continue
            outside = arenas.get(location.array, {location.array}) - {SCRATCH, *program.locals}
            if outside and (location.array not in arenas or location.index is not None):
                yield written


def _components(candidates: Sequence[_Candidate]) -> list[npt.NDArray[np.intp]]:
    """Component of each iteration of consecutive loops; empty if there are too few, or a large one."""
    written_arenas = {int(x) for c in candidates for x in np.unique(c.writes.cells >> ARENA_BITS)}
    if any(written_arenas & c.indexed_arenas for c in candidates):
        return []
    if any(c.reads_named for c in candidates) and any(c.writes_arrays for c in candidates):
        return []
    sums = [key for c in candidates for key in c.sums]
    if sums and any(np.isin(sums, x.cells).any() for c in candidates for x in (c.reads, c.writes)):
        return []
    labels = _connected_components(candidates)
    sizes = np.bincount(labels)
    if len(sizes) < MIN_COMPONENTS or sizes.max() > MAX_COMPONENT_SHARE * len(labels):
        return []
    return np.split(labels, np.cumsum([len(c.loop.ints) for c in candidates])[:-1])


def _connected_components(candidates: Sequence[_Candidate]) -> npt.NDArray[np.intp]:
    """Component of each iteration of consecutive loops: iterations that access a cell that one of them writes."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    firsts = np.cumsum([0, *(len(c.loop.ints) for c in candidates)])
    written = np.unique(np.concatenate([c.writes.cells for c in candidates]))
    edges: list[tuple[Keys, Keys]] = []
    for first, candidate in zip(firsts, candidates, strict=False):
        for accesses in (candidate.reads, candidate.writes):
            cells = np.searchsorted(written, accesses.cells)
            is_written = np.append(written, -1)[cells] == accesses.cells
            edges.append((accesses.iterations[is_written] + first, cells[is_written] + firsts[-1]))
    rows, cells = (np.concatenate([x[i] for x in edges]) for i in range(2))
    n = int(firsts[-1]) + len(written)
    _, labels = connected_components(coo_array((np.ones(len(rows), np.int8), (rows, cells)), (n, n)), directed=False)
    _, compact = np.unique(labels[: firsts[-1]], return_inverse=True)
    return compact


def _component_loop(loops: Sequence[ForEachLoop], components: Sequence[npt.NDArray[np.intp]]) -> ForEachLoop:
    """Parallel loop over components with nested loops over the iterations of a component, in their former order."""
    n_components = 1 + max(int(x.max()) for x in components)
    nested, columns, ranges = [], dict[str, tuple[str, int]](), []
    for i, (loop, component) in enumerate(zip(loops, components, strict=True)):
        order = np.argsort(component, kind="stable")
        counts = np.bincount(component, minlength=n_components)
        name = f"component {i}"
        for prefix in (FIRST_ITERATION_PREFIX, ITERATION_COUNT_PREFIX):
            columns[prefix + name] = "", len(columns)
        ranges += [np.cumsum(counts) - counts, counts]
        nested.append(replace(loop, ints=loop.ints[order], floats=loop.floats[order], range_name=name))
    specialization = LoopSpecialization("component", tuple(nested), columns, {})
    return ForEachLoop(
        loops[0].name if len(loops) == 1 else f"{loops[0].name} to {loops[-1].name}",
        (specialization,),
        np.column_stack(ranges).astype(np.int32),
        np.zeros((n_components, 0)),
        no_unroll=True,
        parallel=True,
    )


# ------------------------------------------------------------------------------------------------ sums over components


def _add_to_sums(
    loop: ForEachLoop, component: npt.NDArray[np.intp], uses: Sequence[tuple[int, str, int]], start: int
) -> ForEachLoop:
    """Loop whose iterations add to the sum of their component, at scratch offset `start` + component."""
    ints, indices = loop.ints.copy(), loop.specialization_indices()
    for number, array, element in uses:
        rows = indices == number
        ints[rows, loop.specializations[number].array_columns[array][1]] = start + component[rows] - element
    return replace(loop, ints=ints)


def _table_loop(
    name: str, bodies: Sequence[BasicBlock], columns: npt.NDArray[np.int32], arrays: Sequence[str]
) -> ForEachLoop:
    """Loop over a table of scratch offsets; the first column selects the body if there are several."""
    first = int(len(bodies) > 1)
    array_columns = {array: (SCRATCH, first + i) for i, array in enumerate(arrays)}
    specializations = tuple(LoopSpecialization(str(i), (body,), array_columns, {}) for i, body in enumerate(bodies))
    return ForEachLoop(name, specializations, columns, np.zeros((len(columns), 0)), no_unroll=True)


def _clear_loop(start: int, count: int) -> ForEachLoop:
    """Loop that sets the sum of each component to zero."""
    body = BasicBlock((), (Store(MemoryLocation("sum", 0), 0.0),))
    return _table_loop("clear sums", [body], np.arange(start, start + count, dtype=np.int32)[:, None], ["sum"])


def _sum_loop(start: int, count: int, total: int) -> ForEachLoop:
    """Loop that adds the sums of all components to the scratch cell `total`, some in each iteration."""
    lengths = [SUMS_PER_ITERATION] * (count // SUMS_PER_ITERATION) + [count % SUMS_PER_ITERATION or SUMS_PER_ITERATION]
    lengths = lengths[: -(-count // SUMS_PER_ITERATION)]
    distinct = sorted(set(lengths))
    starts = start + SUMS_PER_ITERATION * np.arange(len(lengths))
    columns = np.column_stack([starts, np.full(len(lengths), total)]).astype(np.int32)
    if len(distinct) > 1:
        columns = np.column_stack([[distinct.index(x) for x in lengths], columns]).astype(np.int32)
    return _table_loop("add sums", [_sum_block(x) for x in distinct], columns, ["sums", "total"])


def _sum_block(count: int) -> BasicBlock:
    """Code that adds `count` consecutive values of the array `sums` to `total`."""
    loads = [Instruction(i, "input", (), MemoryLocation("sums", i)) for i in range(count)]
    loads.append(Instruction(count, "input", (), MemoryLocation("total", 0)))
    sums = [Instruction(count + 1 + i, "add", (count + i, i)) for i in range(count)]
    return BasicBlock((*loads, *sums), (Store(MemoryLocation("total", 0), 2 * count),))

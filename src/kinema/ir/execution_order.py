"""Execution order of a program: the executions of each statement, their times, and the last write to each memory cell.

The tables of for-each loops are constant, so that the executions of their rows are known; each has a time, an integer
that grows in execution order. A counted loop or while loop runs an unknown number of times: its body has one execution,
and all that it stores counts as stored at the end of the outermost such loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from .activity import CellRows, Scope, Scopes
from .memory import FIRST_ITERATION_PREFIX, ITERATION_COUNT_PREFIX, ArenaOffset, MemoryLocation
from .program import BasicBlock, CountedLoop, ForEachLoop, Statement, Statements, WhileLoop, nested_bodies

Ints = npt.NDArray[np.int64]
BLOCK_DURATION = 2
"""Duration of a basic block: loads at its start, stores one unit of time later."""


@dataclass(slots=True, eq=False)
class Executions:
    """Executions of a sequence of statements, in order."""

    scopes: Scopes
    """Enclosing loop specializations, outermost first."""
    rows: tuple[Ints, ...]
    """For each scope the row (index into its `ints`) of each execution, shape (n_executions,)."""
    start: Ints
    """(n_executions,) time at which the first statement starts."""
    loop_end: Ints | None = None
    """(n_executions,) time at which the outermost enclosing counted or while loop ends; None outside such loops."""


@dataclass(slots=True, eq=False)
class Body:
    """Sequence of statements with its executions."""

    executions: Executions
    nodes: list[Node] = field(default_factory=list)
    owner: Node | None = None
    """The statement that the sequence is part of; None for the program."""


@dataclass(slots=True, eq=False)
class Node:
    """Statement of a program; the same statement in two places has two nodes."""

    statement: Statement
    parent: Body
    time: Ints
    """(n_executions,) time at which the statement starts."""
    bodies: list[Body] = field(default_factory=list)
    """Nested sequences of statements, in the order of `nested_bodies`."""

    @property
    def scopes(self) -> Scopes:
        """Enclosing loop specializations, outermost first."""
        return self.parent.executions.scopes


def nodes_of(body: Body) -> Iterator[Node]:
    """Iterate over all nodes in program order, each followed by the nodes nested in it."""
    for node in body.nodes:
        yield node
        for inner in node.bodies:
            yield from nodes_of(inner)


def execution_tree(statements: Statements, rows: CellRows) -> Body:
    """Build the tree of the statements of a program with their executions."""
    zero = np.zeros(1, np.int64)
    return _TreeBuilder(rows).body(statements, Executions((), (), zero), None)


class _TreeBuilder:
    """Builds nodes; durations of statements are cached by identity."""

    def __init__(self, rows: CellRows) -> None:
        self.cell_rows = rows
        self._durations: dict[int, int] = {}

    def body(self, statements: Statements, executions: Executions, owner: Node | None) -> Body:
        """Build the nodes of a statement sequence and of nested statements, with the time of each execution."""
        body, offset = Body(executions, owner=owner), 0
        for statement in statements:
            node = Node(statement, body, executions.start + offset)
            offset += self.duration(statement)
            end = executions.start + offset
            if isinstance(statement, ForEachLoop):
                self._add_rows(node, statement)
            else:
                for inner in nested_bodies(statement):
                    place = replace(executions, start=node.time + 1)
                    if isinstance(statement, CountedLoop | WhileLoop) and place.loop_end is None:
                        place.loop_end = end
                    node.bodies.append(self.body(inner, place, node))
            body.nodes.append(node)
        return body

    def duration(self, statement: Statement) -> int:
        """Upper bound of the time that a statement takes; loops of unknown length count one iteration."""
        if id(statement) not in self._durations:
            self._durations[id(statement)] = self._duration(statement)
        return self._durations[id(statement)]

    def _duration(self, statement: Statement) -> int:
        if isinstance(statement, BasicBlock):
            return BLOCK_DURATION
        if isinstance(statement, ForEachLoop):
            return max(len(statement.ints), 1) * self._row_duration(statement)
        return 2 + sum(self.duration(x) for body in nested_bodies(statement) for x in body)

    def _row_duration(self, loop: ForEachLoop) -> int:
        return max([1, *(sum(map(self.duration, s.body)) for s in loop.specializations)])

    def _add_rows(self, node: Node, loop: ForEachLoop) -> None:
        """Add the bodies of the specializations of a loop, with an execution for each row of each outer execution."""
        outer = node.parent.executions
        n_outer, indices = len(outer.start), loop.specialization_indices()
        if loop.range_name:
            first, counts = nested_row_ranges(loop, outer.scopes[-1])
            first, counts = first[outer.rows[-1]], counts[outer.rows[-1]]
        else:
            first, counts = np.zeros(n_outer, np.int64), np.full(n_outer, len(loop.ints), np.int64)
        of_outer = np.repeat(np.arange(n_outer), counts)
        position = np.arange(len(of_outer)) - np.repeat(np.cumsum(counts) - counts, counts)
        row = first[of_outer] + position
        start = node.time[of_outer] + position * self._row_duration(loop)
        rank = np.zeros(len(loop.ints), np.int64)  # of a row in its specialization
        for i in range(len(loop.specializations)):
            rank[indices == i] = np.arange(np.count_nonzero(indices == i))
        for i, scope in enumerate(self.cell_rows.scopes_of(loop)):
            chosen = np.flatnonzero(indices[row] == i)
            executions = Executions(
                (*outer.scopes, scope),
                (*(rows[of_outer[chosen]] for rows in outer.rows), rank[row[chosen]]),
                start[chosen],
                None if outer.loop_end is None else outer.loop_end[of_outer[chosen]],
            )
            node.bodies.append(self.body(scope.specialization.body, executions, node))


def nested_row_ranges(loop: ForEachLoop, outer: Scope) -> tuple[Ints, Ints]:
    """First row and number of rows of a nested loop for each row of the enclosing specialization."""
    columns = [
        outer.specialization.array_columns[prefix + loop.range_name][1]
        for prefix in (FIRST_ITERATION_PREFIX, ITERATION_COUNT_PREFIX)
    ]
    return outer.ints[:, columns[0]].astype(np.int64), outer.ints[:, columns[1]].astype(np.int64)


def cells_of(location: MemoryLocation, executions: Executions, rows: CellRows) -> tuple[str, Ints]:
    """Arena and row of a reference without dynamic index in each execution, shape (n_executions,) or (1,)."""
    for i in range(len(executions.scopes) - 1, -1, -1):
        scope, row = executions.scopes[i], executions.rows[i]
        if location.array in scope.specialization.array_columns:
            name, column = scope.specialization.array_columns[location.array]
            arena, first = rows.array_offsets.get(name, ArenaOffset(name, 0))
            return arena, scope.ints[row, column] + np.int64(first + location.element)
    arena, first = rows.array_offsets.get(location.array, ArenaOffset(location.array, 0))
    return arena, np.array([first + location.element], np.int64)


class CellTimes:
    """Latest or earliest time of an access to each memory cell."""

    def __init__(self, rows: CellRows, *, earliest: bool = False) -> None:
        self._rows = rows
        self._sign = -1 if earliest else 1
        self._times: dict[str, Ints] = {}
        """Arena -> time for each row, negated for earliest times; `_NEVER` for rows that are not accessed."""
        self._unknown_rows: dict[str, int] = {}
        """Arena -> time of accesses whose row is unknown."""
        self._of_lists: dict[int, tuple[str, list[int], int]] = {}
        """Accesses at dynamic indices that `_times` has not yet: identity of the list of rows -> arena, list, time."""
        self._latest: dict[int, int] = {}
        """Time of the last access to any row of a list that `CellRows` keeps, by its identity."""

    def add(self, location: MemoryLocation, executions: Executions, time: Ints) -> None:
        """Update the latest (or earliest) access time of the cells of a memory reference by one time per execution."""
        if not len(time):
            return
        self._latest.clear()
        time = self._sign * time
        if location.index is None:
            arena, cells = cells_of(location, executions, self._rows)
            if len(cells) == 1:
                times, cell = self._times_up_to(arena, int(cells[0])), int(cells[0])
                times[cell] = max(times[cell], time[0] if len(time) == 1 else time.max())
            else:
                np.maximum.at(self._times_up_to(arena, int(cells.max())), cells, time)
            return
        arena, known = self._rows.resolve(location, executions.scopes)
        latest = int(time.max())
        if known == [-1]:
            self._unknown_rows[arena] = max(self._unknown_rows.get(arena, _NEVER), latest)
        elif known:
            _, _, before = self._of_lists.get(id(known), (arena, known, latest))
            self._of_lists[id(known)] = arena, known, max(before, latest)

    def _times_up_to(self, arena: str, row: int) -> Ints:
        """Times of the rows of an arena, which are at least so many that a row is among them."""
        old = self._times.get(arena, _NO_TIMES)
        if len(old) <= row:
            new = np.full(2 * row + 1, _NEVER)
            new[: len(old)] = old
            self._times[arena] = old = new
        return old

    def after(self, location: MemoryLocation, executions: Executions, time: Ints) -> bool:
        """Whether any of the cells of a reference has an access after (before, for earliest times) the given times."""
        if not len(time):
            return False
        if self._of_lists:
            self._add_lists()
        time = self._sign * time
        if location.index is not None:
            return self._latest_of(*self._rows.resolve(location, executions.scopes)) > int(time.min())
        arena, cells = cells_of(location, executions, self._rows)
        times, unknown = self._times.get(arena, _NO_TIMES), self._unknown_rows.get(arena, _NEVER)
        if len(cells) == 1:
            cell = int(cells[0])
            latest = max(unknown, int(times[cell])) if cell < len(times) else unknown
            return latest > int(time[0] if len(time) == 1 else time.min())
        found = np.full(len(cells), unknown)
        inside = cells < len(times)
        found[inside] = np.maximum(found[inside], times[cells[inside]])
        return bool((found > time).any())

    def _add_lists(self) -> None:
        """Update the access times of the cells that are accessed at dynamic indices."""
        for arena, known, time in self._of_lists.values():
            cells = np.array(known, np.int64)
            times = self._times_up_to(arena, int(cells.max()))
            times[cells] = np.maximum(times[cells], time)
        self._of_lists.clear()

    def _latest_of(self, arena: str, known: list[int]) -> int:
        """Time of the last (or earliest) access to any of the rows of an arena that a list has."""
        if id(known) not in self._latest:
            times = self._times.get(arena, _NO_TIMES)
            if known != [-1]:
                cells = np.array(known, np.int64)
                times = times[cells[cells < len(times)]]
            unknown = self._unknown_rows.get(arena, _NEVER)
            self._latest[id(known)] = max(unknown, int(times.max(initial=_NEVER)))
        return self._latest[id(known)]


_NEVER = np.iinfo(np.int64).min
_NO_TIMES = np.zeros(0, np.int64)

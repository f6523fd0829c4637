"""Base of the two sweeps of a reverse-mode derivative: positions on the tape, and loop tables with tape offsets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from .activity import Scope, find_scope
from .execution_order import Body, Ints, Node
from .memory import FIRST_ITERATION_PREFIX, ITERATION_COUNT_PREFIX, MemoryLocation
from .program import CountedLoop, ForEachLoop, LoopSpecialization, Statements, WhileLoop, memory_accesses, walk
from .reverse_plan import ReversePlan
from .symbolic import Tape, Value, add, multiply
from .tape_layout import Frame, TapedLoop

ADJOINT_PREFIX = "d "
"""Prefix of the names of arrays and arenas of adjoints."""
INDEX, COUNT, POSITION, END = range(4)
"""Elements of the local array of a loop: index of the iteration, number of iterations so far, position on its stack,
end of the stack."""
N_LOOP_ELEMENTS = 4

NewColumns = Mapping[str, tuple[str, Ints]]
"""Array -> (arena, first row for each row of a specialization)."""


class Sweep:
    """Statements of the forward or of the reverse sweep."""

    loop_prefix: str
    """Prefix of the names of the local arrays of loops."""

    def __init__(self, plan: ReversePlan, shifts: Mapping[str, int]) -> None:
        self.plan = plan
        self.shifts = shifts
        """Arena -> distance in rows of an adjoint from its value, for arenas that store both."""
        self.local_arrays: dict[str, int] = {}
        """Local arrays that the statements of the sweep need, with their sizes."""

    def loop_array(self, loop: TapedLoop) -> str:
        """Local array with the state of a loop."""
        name = f"{self.loop_prefix} {loop.number}"
        self.local_arrays[name] = N_LOOP_ELEMENTS
        return name

    def loop_index(self, tape: Tape, body: Body, loop: TapedLoop) -> Value:
        """Index of the current iteration of an enclosing loop, counted from the first iteration."""
        raise NotImplementedError

    def adjoint_of(self, location: MemoryLocation, node: Node) -> tuple[str, int]:
        """Array and element of the adjoint of a memory reference, without its dynamic index."""
        if find_scope(location.array, node.scopes) is None and location.array in self.shifts:
            return location.array, location.element + self.shifts[location.array]
        return ADJOINT_PREFIX + location.array, location.element

    def adjoint_columns(self, scope: Scope) -> NewColumns:
        """Offset columns (arena, offset per row) of the adjoints of all arrays of a loop specialization, by name."""
        columns: dict[str, tuple[str, np.ndarray]] = {}
        for array, (arena, column) in scope.specialization.array_columns.items():
            offsets = scope.ints[:, column].astype(np.int64)
            if arena in self.shifts:
                columns[ADJOINT_PREFIX + array] = (arena, offsets + self.shifts[arena])
            else:
                columns[ADJOINT_PREFIX + array] = (ADJOINT_PREFIX + arena, offsets)
        return columns

    def slot(self, tape: Tape, body: Body, frame: Frame, slot: int) -> tuple[str, int, Value | None]:
        """Tape address of a recorded value (slot of a frame): array, element and dynamic index, recorded on `tape`.

        The index is computed from rows, loop indices and stack positions around the statement sequence `body`.
        """
        location = frame.static_location(slot)
        index: Value | None = None
        for term in frame.terms:
            if isinstance(term.source, TapedLoop):
                is_stack = term.source.capacity is not None
                array = self.loop_array(term.source)
                value = tape.input(array, POSITION) if is_stack else self.loop_index(tape, body, term.source)
            else:
                value = tape.input(*term.source.location[:2])
            value = multiply(value, float(term.factor))
            index = value if index is None else add(index, value)
        return location.array, location.element, index

    def extended_loop(
        self, node: Node, bodies: Sequence[Statements], columns: Sequence[NewColumns] | None = None
    ) -> ForEachLoop:
        """Copy of a for-each loop with other bodies, and with table columns for the tape offsets that they use.

        Args:
            node: the original loop.
            bodies: new body of each specialization.
            columns: further arrays of each specialization.
        """
        loop = node.statement
        assert isinstance(loop, ForEachLoop)
        n_rows, (_, n_ints), n_floats = len(loop.ints), loop.ints.shape, loop.floats.shape[1]
        new_ints: list[Ints] = []
        new_floats: list[np.ndarray] = []
        specializations = []
        for i, (specialization, body) in enumerate(zip(loop.specializations, bodies, strict=True)):
            scope, rows = node.bodies[i].executions.scopes[-1], loop.specialization_indices() == i
            locations = {location for statement in walk(body) for location, _ in memory_accesses(statement)}
            used = {location.array for location in locations} | set(_row_range_arrays(body))
            arrays = {array: column for array, column in specialization.array_columns.items() if array in used}
            added = {**self._tape_columns(scope), **(columns[i] if columns else {})}
            for k, array in enumerate(array for array in added if array in used):
                arena, offsets = added[array]
                if k == len(new_ints):
                    new_ints.append(np.zeros(n_rows, np.int64))
                new_ints[k][rows] = offsets
                arrays[array] = (arena, n_ints + k)
            constants = {x: column for x, column in specialization.constant_columns.items() if x in locations}
            position = self.plan.layout.row_positions.get(id(scope))
            if position is not None and position.location in locations:
                if not new_floats:
                    new_floats.append(np.zeros(n_rows))
                new_floats[0][rows] = np.arange(len(scope.ints))
                constants[position.location] = n_floats
            specializations.append(LoopSpecialization(specialization.key, body, arrays, constants))
        return replace(
            loop,
            specializations=tuple(specializations),
            ints=np.column_stack([loop.ints, *new_ints]).astype(np.int32),
            floats=np.column_stack([loop.floats, *new_floats]),
        )

    def _tape_columns(self, scope: Scope) -> NewColumns:
        """Offsets of the frames whose positions follow from the rows of a specialization."""
        frames = self.plan.layout.frames_of_scope(scope)
        return {frame.column_array: (frame.arena, frame.column()) for frame in frames if frame.n_slots}


def innermost_loop(plan: ReversePlan, body: Body, *, counted: bool) -> TapedLoop | None:
    """Innermost counted loop (or while loop, unless `counted`) around a statement sequence."""
    while body.owner is not None:
        node = body.owner
        if isinstance(node.statement, CountedLoop) or (isinstance(node.statement, WhileLoop) and not counted):
            return plan.layout.loops[id(node)]
        body = node.parent
    return None


def _row_range_arrays(statements: Statements) -> Iterator[str]:
    """Names of the columns that select the rows of nested loops."""
    for statement in walk(statements):
        if isinstance(statement, ForEachLoop) and statement.range_name:
            yield from (prefix + statement.range_name for prefix in (FIRST_ITERATION_PREFIX, ITERATION_COUNT_PREFIX))


def location_at(tape: Tape, place: tuple[str, int, Value | None]) -> MemoryLocation:
    """Memory location of an array, element and dynamic index."""
    array, element, index = place
    if index is None:
        return MemoryLocation(array, element)
    operand = tape.operand(index)
    if isinstance(operand, float):
        return MemoryLocation(array, element + int(operand))
    return MemoryLocation(array, element, operand)

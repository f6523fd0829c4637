"""From loops to straight lines: a program is run on symbols, row by row, and what it does is recorded.

All that a loop over a table leaves to another one lies in memory whose places are known; here that memory is a
dictionary of symbols, so that what was stored is simply used again, constants of rows fold, and what nobody reads is
never computed. On plain numbers the same computes.

Loops that only a run can end, and conditions, stay. What their bodies write, and someone reads later, is carried
through them; a first run, of which nothing is kept, finds out what that is.

Loops over tables that are to stay, and teams, work in real memory: what they read is stored before them, and what they
write is read again after them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

import numpy as np

from .blocks import Blocks, Count, If, Line, Loop, Repeat, Spread, Team
from .functions import OPERATIONS
from .program import Program
from .record import Recorder, repeat
from .slots import FIRST, MANY, SCRATCH, Place, Slot
from .staying import Cell, Cells, staying, touched_cells
from .tape import Scalar, Value

Read = Callable[[str, int], Value]
"""What an array holds before the program runs."""


@dataclass(slots=True, eq=False)
class _Lost:
    """What a body may have written: whoever reads it says that it has to be carried."""

    value: Value
    needed: set[Cell]


@dataclass(slots=True, eq=False)
class _Uses:
    """What is known of the bodies of loops that stay, by the block."""

    carried: dict[int, set[Cell]] = field(default_factory=dict)
    indexed: set[str] = field(default_factory=set)
    """Local arrays that are looked up at a computed index: they stay arrays."""


@dataclass(slots=True, eq=False)
class _Rows:
    """Rows of tables, by loop and number: where their arrays are, and their constants."""

    tables: dict[int, tuple[list[int], list[list[int]], list[list[float]]]] = field(default_factory=dict)
    found: dict[tuple[int, int], tuple[dict[str, Place], dict[Slot, Value]]] = field(default_factory=dict)

    def kinds(self, loop: Loop) -> list[int]:
        """Which case each row is."""
        if id(loop) not in self.tables:
            self.tables[id(loop)] = (loop.case_of_row().tolist(), loop.ints.tolist(), loop.floats.tolist())
        return self.tables[id(loop)][0]

    def row(self, loop: Loop, i: int) -> tuple[dict[str, Place], dict[Slot, Value]]:
        """One row."""
        key = id(loop), i
        if key not in self.found:
            kinds, ints, floats = self.tables[id(loop)]
            case, whole, numbers = loop.cases[kinds[i]], ints[i], floats[i]
            self.found[key] = (
                {array: Place(arena, whole[column]) for array, (arena, column) in case.arrays.items()},
                {slot: numbers[column] for slot, column in case.numbers.items()},
            )
        return self.found[key]


class _UndecidedError(Exception):
    """There are loops that stay, and it is not known yet what they carry."""


def unroll(program: Program, read: Read, recorder: Recorder | None = None) -> dict[Cell, Value]:
    """What a program leaves in each cell of the arrays that outlive it; without a recorder on plain numbers."""
    kept = {} if recorder is None else {id(x): touched_cells(program, (x,)) for x in staying(program.blocks)}
    rows = _Rows()
    if not kept:  # what these record cannot be taken back
        with suppress(_UndecidedError):
            return _Unrolling(program, read, recorder, None, kept, rows).outcome()
    uses = _Uses()
    _Unrolling(program, read, recorder or Recorder(), uses, kept, rows, dry=True).outcome()
    return _Unrolling(program, read, recorder, uses, kept, rows).outcome()


class _Unrolling:
    def __init__(
        self,
        program: Program,
        read: Read,
        recorder: Recorder | None,
        uses: _Uses | None,
        staying: Mapping[int, tuple[Cells, Cells, set[str]]],
        tables: _Rows,
        *,
        dry: bool = False,
    ) -> None:
        self.program = program
        self.read = read
        self.recorder = recorder
        self.uses = uses
        self.indexed: Set[str] = frozenset() if uses is None else uses.indexed
        self.dry = dry
        self.memory: dict[Cell, Value | _Lost] = {}
        self.tables = tables
        self.rows: list[tuple[dict[str, Place], dict[Slot, Value]]] = []
        """Where the arrays of the rows are that the run is in, and their constants."""
        self.path: list[tuple[int, float]] = []
        """Which rows and turns the run is in: the loop, and the number of the row or turn."""
        self.looked_at: dict[tuple[object, ...], set[Cell]] = {}
        """What bodies were seen to write, by the block and where the run was."""
        self.turns: list[Value] = []
        self.arrays: dict[str, str] = {}
        """What local arrays that stay are called in the new program."""
        self.staying = staying
        nothing = Cells(np.zeros(program.n_scratch + 1, np.bool_), set())
        self.shared = reduce(or_, (writes for _, writes, _ in staying.values()), nothing)
        """What loops that stay write: it is read from memory again whenever these may have run."""
        self.shared_rows, self.shared_others = self.shared.rows.tolist(), self.shared.others
        self.inputs = {key: reads - self.shared for key, (reads, _, _) in staying.items()}
        """What each of them reads that none of them writes."""
        self.cached: set[Cell] = set()
        """What of that which loops that stay write is in `memory`."""
        self.dirty: set[Cell] = set()
        """What of it has been computed and not been stored yet."""
        self.written: set[Cell] = set()
        """What a body has written."""
        self.stored: dict[Cell, Value] = {}
        """What has been stored of the rest, for such loops to read."""

    def outcome(self) -> dict[Cell, Value]:
        self.blocks(self.program.blocks)
        self.settle()
        inside = {SCRATCH, *self.program.locals}
        return {cell: self.get(cell) for cell in list(self.memory) if cell[0] not in inside}

    def blocks(self, blocks: Blocks) -> None:
        for block in blocks:
            match block:
                case Line():
                    self.line(block)
                case Loop() | Team() | Spread() if id(block) in self.staying:
                    self.keep(block)
                case Loop():
                    self.loop(block)
                case Count() if not isinstance(self.load(block.count), Scalar):
                    self.count(block)
                case Team():
                    self.blocks(block.body)
                case Repeat() | If() | Count():
                    self.stay(block)
                case _:
                    raise TypeError("that is for many threads")

    # ------------------------------------------------------------------------------------------------ what goes away

    def loop(self, loop: Loop) -> None:
        kinds, rows = self.tables.kinds(loop), range(len(loop.ints))
        if loop.within:
            first, many = (self.rows[-1][0][word + loop.within].row for word in (FIRST, MANY))
            rows = range(first, first + many)
        for i in rows:
            self.rows.append(self.tables.row(loop, i))
            self.path.append((id(loop), i))
            self.blocks(loop.cases[kinds[i]].blocks)
            self.path.pop()
            self.rows.pop()

    def count(self, block: Count) -> None:
        self.turns.append(0.0)
        while self.turns[-1] < self.load(block.count):  # type: ignore[operator]  # ty: ignore[unsupported-operator]
            self.path.append((id(block), self.turns[-1]))  # type: ignore[arg-type]
            self.blocks(block.body)
            self.path.pop()
            self.turns[-1] += 1.0
        self.turns.pop()

    def line(self, line: Line) -> None:
        values: dict[int, Value] = {}
        load, dry = self.load, self.dry
        for target, op, arguments, slot in line.instructions:
            if slot is not None:
                values[target] = load(slot, values)
            elif op == "turn":
                values[target] = self.turns[-1]
            else:
                args = [values[a] if type(a) is int else a for a in arguments]
                values[target] = self._unknown(op, args) if dry else OPERATIONS[op](*args)
        stores = [(slot, values[value] if type(value) is int else value) for slot, value in line.stores]
        for slot, value in stores:
            self.store(slot, value, values)

    def _unknown(self, op: str, args: list[Value]) -> Value:
        """A value of a run of which nothing is kept: only plain numbers matter, which may be indices and counts."""
        for argument in args:
            if type(argument) is Scalar:
                return argument
        return OPERATIONS[op](*args)

    # ------------------------------------------------------------------------------------------------------ memory

    def load(self, slot: Slot, values: Mapping[int, Value] | None = None) -> Value:
        array, row, number = slot
        for places, numbers in reversed(self.rows):
            value = numbers.get(slot)
            if value is not None:
                return value
            place = places.get(array)
            if place is not None:
                array, row = place.arena, place.row + row
                break
        index: Value = 0.0 if number is None else (values or {})[number]
        if type(index) is Scalar or array in self.indexed:
            assert self.recorder is not None
            return self.recorder.read(self._kept_array(array), row, index)
        cell = (array, row if number is None else row + int(index))  # type: ignore[arg-type]
        found = self.memory.get(cell)
        return self.get(cell) if found is None or type(found) is _Lost else found  # type: ignore[return-value]  # ty: ignore[invalid-explicit-return]

    def store(self, slot: Slot, value: Value, values: Mapping[int, Value]) -> None:
        array, row, index = self._find(slot, values)
        if type(index) is Scalar or array in self.indexed:
            assert self.recorder is not None
            name = self._kept_array(array)
            if not self.dry:
                self.recorder.write(name, [value], row, index)
                self.recorder.new_line()
            return
        cell = (array, row + int(index))  # type: ignore[arg-type]
        self.memory[cell] = value
        if self.dry:
            self.written.add(cell)
        if self._is_shared(cell):
            self.dirty.add(cell)
            self.cached.add(cell)

    def get(self, cell: Cell) -> Value:
        """What a cell holds."""
        found = self.memory.get(cell)
        if found is None and self._is_shared(cell):
            assert self.recorder is not None
            found = self.memory[cell] = self.recorder.read(*cell)
            self.cached.add(cell)
        if isinstance(found, _Lost):
            found.needed.add(cell)
            return found.value
        if found is not None:
            return found
        if cell[0] == SCRATCH or cell[0] in self.program.locals:
            return 0.0
        return self.read(*cell)

    def _is_shared(self, cell: Cell) -> bool:
        return self.shared_rows[cell[1]] if cell[0] == SCRATCH else cell in self.shared_others

    def _find(self, slot: Slot, values: Mapping[int, Value] | None) -> tuple[str, int, Value]:
        array, item, number = slot
        index: Value = 0.0 if number is None else (values or {})[number]
        for places, _ in reversed(self.rows):
            place = places.get(array)
            if place is not None:
                return place.arena, place.row + item, index
        return array, item, index

    def _kept_array(self, array: str) -> str:
        """The name of a local array that stays one."""
        if self.uses is None:
            raise _UndecidedError
        assert array in self.program.locals, f"{array} is looked up at an index that only a run knows"
        assert self.recorder is not None
        self.uses.indexed.add(array)
        if self.dry:
            return "unknown"
        if array not in self.arrays:
            self.arrays[array] = self.recorder.local(self.program.locals[array])
        return self.arrays[array]

    # ---------------------------------------------------------------------------------------------------- what stays

    def keep(self, block: Loop | Team | Spread) -> None:
        """What stays as it is, on what is in memory by then."""
        assert self.recorder is not None
        reads, (_, _, local) = self.inputs[id(block)], self.staying[id(block)]
        if isinstance(block, Spread):  # a launch of its own: what is computed by now would have to be carried past it
            reads = reduce(or_, self.inputs.values(), reads)
        wanted = {cell: self.get(cell) for cell in sorted(reads.among(self.memory))}
        self.settle({cell: value for cell, value in wanted.items() if self.stored.get(cell) is not value})
        if not self.dry:
            self.recorder.add(block, {name: self.program.locals[name] for name in sorted(local)})

    def settle(self, more: Mapping[Cell, Value] | None = None) -> None:
        """Store what loops that stay may read, and forget what they may write."""
        cells = {cell: self.get(cell) for cell in sorted(self.dirty)} | dict(more or {})
        if cells and not self.dry:
            assert self.recorder is not None
            for (array, row), value in cells.items():
                self.recorder.write(array, [value], row)
            self.recorder.new_line()
        self.stored.update(more or {})
        self.dirty.clear()
        for cell in self.cached:
            self.memory.pop(cell, None)
        self.cached.clear()

    def body(self, blocks: Blocks) -> None:
        """What runs as often as only a run knows: what it stores may not be there."""
        stored = dict(self.stored)
        self.blocks(blocks)
        self.settle()
        self.stored = stored

    def stay(self, block: Repeat | If | Count) -> None:
        if self.uses is None and self.recorder is not None:
            raise _UndecidedError
        self.settle()
        if self.dry:
            self._look_at(block)
            return
        cells = sorted((self.uses.carried if self.uses else {}).get(id(block), ()))
        match block:
            case Repeat():
                self._repeat(block, cells)
            case If():
                self._condition(block, cells)
            case Count():
                self._count(block, cells)

    def _repeat(self, block: Repeat, cells: list[Cell]) -> None:
        def step(state: object) -> tuple[list[Value], Value, Value]:
            self.memory.update(zip(cells, state, strict=True))  # type: ignore[call-overload]
            self.body(block.body)
            return [self.get(c) for c in cells], 0.5, self.load(block.again)

        after = repeat(self.recorder, block.name, step, [self.get(c) for c in cells], block.most)
        self.memory.update(zip(cells, after, strict=True))

    def _condition(self, block: If, cells: list[Cell]) -> None:
        flag, before = self.load(block.flag), [self.get(c) for c in cells]

        def then() -> list[Value]:
            self.body(block.body)
            return [self.get(c) for c in cells]

        if isinstance(flag, Scalar):
            assert self.recorder is not None
            after = self.recorder.where(block.name, 0.5, flag, then, before)
            self.memory.update(zip(cells, after, strict=True))
        elif flag > 0.5:
            self.blocks(block.body)

    def _count(self, block: Count, cells: list[Cell]) -> None:
        recorder = self.recorder
        assert recorder is not None
        state = recorder.local(len(cells))
        recorder.write(state, [self.get(c) for c in cells])

        def body(turn: Value) -> None:
            self.turns.append(turn)
            self.memory.update({c: recorder.read(state, i) for i, c in enumerate(cells)})  # ty: ignore[missing-union-attribute]
            self.body(block.body)
            recorder.write(state, [self.get(c) for c in cells])
            self.turns.pop()

        recorder.count(block.name, self.load(block.count), body, uniform=block.uniform)
        self.memory.update({c: recorder.read(state, i) for i, c in enumerate(cells)})

    def _look_at(self, block: Repeat | If | Count) -> None:
        """Run a body, not to keep it, but to see what it writes that it, or someone later, reads."""
        assert self.uses is not None
        assert self.recorder is not None
        unknown, carried = self.recorder.read("unknown"), self.uses.carried.setdefault(id(block), set())
        self.turns.append(unknown)
        before, outside, where = dict(self.memory), self.written, (id(block), *self.path)
        known = self.looked_at.get(where)
        if known is None:
            self.written = set()
            self.body(block.body)
            known = {cell for cell in self.written if not self._is_shared(cell)}
        while True:  # as if not for the first time
            lost = {c: _Lost(unknown, carried) for c in sorted(known)}
            self.memory, self.written = {**before, **lost}, set()
            self.body(block.body)
            if isinstance(block, Repeat):
                self.load(block.again)
            more = {cell for cell in self.written if not self._is_shared(cell)} - known
            if not more:
                break
            known |= more
        self.looked_at[where] = known
        self.memory, self.written = {**before, **lost}, set(known)
        self.written |= outside
        self.turns.pop()

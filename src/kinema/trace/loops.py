"""Loops over tables: code that is traced once for each kind of rows, and the rows packed into numbers.

A model with hundreds of joints needs the same few things done to each of them. The *kind* of a row says which code it
runs, its integers say where in the arenas its arrays start, and its numbers are the constants of that row. Numbers that
are zero, one or infinite in all rows of a kind are folded into the code, all others are read from the table. So the
code does not grow with the model, and models that need the same kinds share it. Numbers that each environment has its
own of (`Own`) are read from an array instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from .blocks import Blocks, Case, Loop, Spread, counters, inner, lines
from .functions import select
from .record import Recorder
from .slots import FIRST, MANY, NUMBER, Place, Slot
from .tables import OWN, Group, Row, Table
from .tape import Scalar, Value

Rows = Sequence[Row] | Table


class RowCode:
    """What the code of a kind of rows reads and writes, while it is traced."""

    def __init__(
        self,
        group: Group,
        recorder: Recorder,
        folded: Mapping[str, Sequence[float | None]],
        around: RowCode | None = None,
    ) -> None:
        self.group = group
        """All rows that run this code; they may be given more places meanwhile."""
        self.kind: Any = group.kind
        self.recorder = recorder
        self._folded = folded if around is None else {**around._folded, **folded}
        self._own = set(group.own) if around is None else (around._own - folded.keys()) | group.own

    def read(self, array: str, item: int = 0) -> Value:
        """An item of an array of this row."""
        return self.recorder.read(array, item)

    def array(self, array: str, count: int) -> list[Value]:
        """The first items of an array."""
        return [self.read(array, i) for i in range(count)]

    def numbers(self, name: str) -> list[Value]:
        """Constants of this row: symbols, or plain numbers where all rows of the kind agree."""
        array = OWN if name in self._own else NUMBER
        return [self.read(array + name, i) if x is None else x for i, x in enumerate(self._folded[name])]

    def number(self, name: str) -> Value:
        """A constant that is one number."""
        return self.numbers(name)[0]

    def holds(self, array: str) -> bool:
        """Whether its rows have an array."""
        return self.group.holds(array)

    def give(self, array: str, place: Place) -> None:
        """All of its rows find an array there from now on."""
        self.group.give(array, place)

    def write(self, array: str, values: Sequence[Value], item: int = 0) -> None:
        """Store items of an array one after the other, when all of this line is computed."""
        self.recorder.write(array, values, item)

    def each(self, name: str, body: Body) -> None:
        """A loop over rows of this row's own, whose code sees what this row has as well."""
        _record(self.recorder, name, self.group.inner(name), body, within=name, around=self)


Body = Callable[[RowCode], None]
Test = Callable[[RowCode], "tuple[Value, Value]"]


def record_loop(
    recorder: Recorder,
    name: str,
    rows: Rows,
    body: Body,
    *,
    stays: bool = False,
    chosen: Place | None = None,
) -> None:
    """Trace the code of each kind of rows, pack the rows, and add the loop to what is recorded."""
    _record(recorder, name, rows, body, stays=stays, chosen=chosen)


def record_spread(recorder: Recorder, name: str, rows: Rows, tests: Sequence[Test], work: Body) -> None:
    """Likewise, of what all threads share: the rows for which the first of two numbers is below the second.

    There may be several tests, each of which is for what has passed the ones before.
    """
    flag = f"{recorder.prefix}chosen {len(recorder.locals)}"

    def decide(test: Test, code: RowCode) -> None:
        code.recorder.write(flag, [select(*test(code), 1.0, 0.0)])

    bodies = [*(partial(decide, test) for test in tests), work]
    found = [_packed(recorder, name, rows, body, prefix=f"{i} ") for i, body in enumerate(bodies)]
    *deciding, (then, _) = found
    own = {local: count for _, locals_ in found for local, count in locals_.items()}
    recorder.add(Spread(name, tuple(loop for loop, _ in deciding), Slot(flag, 0), then), {**own, flag: 1})


def _record(recorder: Recorder, name: str, rows: Rows, body: Body, around: RowCode | None = None, **how: Any) -> None:
    if rows:
        recorder.add(*_packed(recorder, name, rows, body, around, **how))


def _packed(
    recorder: Recorder,
    name: str,
    rows: Rows,
    body: Body,
    around: RowCode | None = None,
    prefix: str = "",
    **how: Any,
) -> tuple[Loop, dict[str, int]]:
    """A loop, and the local arrays of its code."""
    table = rows if isinstance(rows, Table) else Table.of(rows)
    several = int(len(table.groups) > 1)
    cases: list[Case] = []
    own_locals: dict[str, int] = {}
    for number, group in enumerate(table.groups):
        own = f"{prefix}{recorder.prefix}{len(recorder.locals)} {number} "
        case, needed = _trace(group, body, several, own, around)
        cases.append(case)
        own_locals.update(needed)
    ints = np.zeros((len(table), several + max(len(c.arrays) for c in cases)), np.int32)
    columns: list[tuple[Any, int, Any]] = []
    for number, (group, case) in enumerate(zip(table.groups, cases, strict=True)):
        ints[group.at, :several] = number
        for array, (_, column) in case.arrays.items():
            ints[group.at, column] = group.starts(array)
        for slot, column in case.numbers.items():
            columns.append((group.at, column, group.values(slot.array.removeprefix(NUMBER), slot.item)))
    symbolic = any(isinstance(values, list) and any(isinstance(x, Scalar) for x in values) for _, _, values in columns)
    floats = np.zeros((len(table), max(len(c.numbers) for c in cases)), object if symbolic else np.float64)
    for at, column, values in columns:
        floats[at, column] = values
    return Loop(name, tuple(cases), ints, floats, **how), own_locals


def _trace(group: Group, body: Body, first: int, prefix: str, around: RowCode | None) -> tuple[Case, dict[str, int]]:
    """The code of one kind, and the local arrays it needs, under names that no other code has."""
    folded = group.folded()
    group.place_own()
    recorder = Recorder(prefix)
    body(RowCode(group, recorder, folded, around))
    program = recorder.finish()
    slots = set(counters(program.blocks))
    for line in lines(program.blocks):
        slots.update([i.slot for i in line.instructions if i.slot is not None])
        slots.update([store.slot for store in line.stores])
    used = {slot.array for slot in slots} | {word + name for name in _within(program.blocks) for word in (FIRST, MANY)}
    arrays = group.arenas(used)
    order = {NUMBER + name: (i, len(values)) for i, (name, values) in enumerate(folded.items())}
    own = [slot for slot in slots if slot.array in order and slot.item < order[slot.array][1]]
    wanted = sorted(own, key=lambda slot: (order[slot.array], slot.item))
    return Case(
        group.code,
        program.blocks,
        {a: (arena, i + first) for i, (a, arena) in enumerate(arrays.items())},
        {slot: i for i, slot in enumerate(wanted)},
    ), dict(program.locals)


def _within(blocks: Blocks) -> Iterator[str]:
    """The loops of code that rows have rows for."""
    for block in blocks:
        if isinstance(block, Loop) and block.within:
            yield block.within
        elif not isinstance(block, Loop):
            for body in inner(block):
                yield from _within(body)

"""Loops over tables: code that is traced once for each kind of rows, and the rows packed into numbers.

A model with hundreds of joints needs the same few things done to each of them. The *kind* of a row says which code it
runs, its integers say where in the arenas its arrays start, and its numbers are the constants of that row. Numbers that
are zero, one or infinite in all rows of a kind are folded into the code, all others are read from the table. So the
code does not grow with the model, and models that need the same kinds share it. Numbers that each environment has its
own of (`Own`) are read from an array instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from .blocks import Blocks, Case, Loop, Spread, counters, inner, lines
from .functions import select
from .record import Recorder
from .slots import FIRST, MANY, NUMBER, Place, Slot
from .tape import Scalar, Value

FOLDED = (0.0, 1.0, -1.0, math.inf, -math.inf)
"""Numbers that are worth a code of their own where all rows of a kind have them."""


OWN = "own "
"""Before the name of a row's numbers, where environments have their own: the array that they are read from."""


@dataclass(frozen=True, slots=True)
class Own:
    """Numbers of a row that lie in an array, because they differ between environments or may be set."""

    place: Place
    known: tuple[float | None, ...]
    """Those that are plain all the same; None for what is read, each at its place in the row."""


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One row of a table; those of a kind name the same arrays and numbers."""

    kind: Hashable
    """Which code it runs: a record of all that the code asks for; rows are told apart by its text."""
    places: MutableMapping[str, Place]
    """Array -> where its first item is for this row."""
    numbers: Mapping[str, Sequence[Value] | Own] = field(default_factory=dict)
    """Symbols only in what is going to be unrolled."""
    inside: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    """Rows of its own, for loops in its code."""

    @property
    def code(self) -> str:
        """What tells apart the rows that run different code."""
        own = [f" {name} {x.known}" for name, x in self.numbers.items() if isinstance(x, Own)]
        return str(self.kind) + "".join(own)


class RowCode:
    """What the code of a kind of rows reads and writes, while it is traced."""

    def __init__(
        self,
        rows: Sequence[Row],
        recorder: Recorder,
        folded: Mapping[str, Sequence[float | None]],
        around: RowCode | None = None,
    ) -> None:
        self.rows = rows
        """All rows that run this code; they may be given more places meanwhile."""
        self.kind = rows[0].kind
        self.recorder = recorder
        self._folded = folded if around is None else {**around._folded, **folded}
        own = {name for name, values in rows[0].numbers.items() if isinstance(values, Own)}
        self._own = own if around is None else (around._own - folded.keys()) | own

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

    def write(self, array: str, values: Sequence[Value], item: int = 0) -> None:
        """Store items of an array one after the other, when all of this line is computed."""
        self.recorder.write(array, values, item)

    def each(self, name: str, body: Body) -> None:
        """A loop over rows of this row's own, whose code sees what this row has as well."""
        own: list[Row] = []
        for row in self.rows:
            found = row.inside.get(name, ())
            row.places[FIRST + name] = Place("", len(own))
            row.places[MANY + name] = Place("", len(found))
            own.extend(found)
        _record(self.recorder, name, own, body, within=name, around=self)


Body = Callable[[RowCode], None]
Test = Callable[[RowCode], "tuple[Value, Value]"]


def record_loop(
    recorder: Recorder,
    name: str,
    rows: Sequence[Row],
    body: Body,
    *,
    stays: bool = False,
    chosen: Place | None = None,
) -> None:
    """Trace the code of each kind of rows, pack the rows, and add the loop to what is recorded."""
    _record(recorder, name, rows, body, stays=stays, chosen=chosen)


def record_spread(recorder: Recorder, name: str, rows: Sequence[Row], tests: Sequence[Test], work: Body) -> None:
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


def _record(
    recorder: Recorder, name: str, rows: Sequence[Row], body: Body, around: RowCode | None = None, **how: Any
) -> None:
    if rows:
        recorder.add(*_packed(recorder, name, rows, body, around, **how))


def _packed(
    recorder: Recorder,
    name: str,
    rows: Sequence[Row],
    body: Body,
    around: RowCode | None = None,
    prefix: str = "",
    **how: Any,
) -> tuple[Loop, dict[str, int]]:
    """A loop, and the local arrays of its code."""
    by_kind: dict[str, list[int]] = {}
    for i, code in enumerate(_codes(rows)):
        by_kind.setdefault(code, []).append(i)
    kinds = sorted(by_kind)  # whatever their order in this model, so that models share their code
    several = int(len(kinds) > 1)
    cases: dict[str, Case] = {}
    own_locals: dict[str, int] = {}
    for number, kind in enumerate(kinds):
        own = f"{prefix}{recorder.prefix}{len(recorder.locals)} {number} "
        cases[kind], needed = _trace(kind, [rows[i] for i in by_kind[kind]], body, several, own, around)
        own_locals.update(needed)
    width = several + max(len(c.arrays) for c in cases.values())
    ints = np.zeros((len(rows), width), np.int32)
    columns: list[tuple[list[int], int, list[Value]]] = []
    for number, kind in enumerate(kinds):
        case, chosen = cases[kind], by_kind[kind]
        ints[chosen, :several] = number
        for array, (arena, column) in case.arrays.items():
            places = [rows[i].places[array] for i in chosen]
            assert all(place.arena == arena for place in places), "one arena for each array"
            ints[chosen, column] = [place.row for place in places]
        for slot, column in case.numbers.items():
            word, item = slot.array.removeprefix(NUMBER), slot.item
            columns.append((chosen, column, [rows[i].numbers[word][item] for i in chosen]))  # type: ignore[index]
    symbolic = any(isinstance(x, Scalar) for _, _, values in columns for x in values)
    floats = np.zeros((len(rows), max(len(c.numbers) for c in cases.values())), object if symbolic else np.float64)
    for chosen, column, values in columns:
        floats[chosen, column] = values
    return Loop(name, tuple(cases[k] for k in kinds), ints, floats, **how), own_locals


def _codes(rows: Sequence[Row]) -> Iterator[str]:
    """What tells apart the rows that run different code: of kinds that many rows have the text is made once."""
    known: dict[Hashable, str] = {}
    for row in rows:
        if any(isinstance(x, Own) for x in row.numbers.values()):
            yield row.code
        else:
            key = type(row.kind), row.kind
            if key not in known:
                known[key] = row.code
            yield known[key]


def _trace(
    kind: str, rows: Sequence[Row], body: Body, first: int, prefix: str, around: RowCode | None
) -> tuple[Case, dict[str, int]]:
    """The code of one kind, and the local arrays it needs, under names that no other code has."""
    folded = {name: _fold([row.numbers[name] for row in rows]) for name in rows[0].numbers}
    for name in [name for name, x in rows[0].numbers.items() if isinstance(x, Own)]:
        for row in rows:
            row.places[OWN + name] = row.numbers[name].place  # type: ignore[union-attr]
    recorder = Recorder(prefix)
    body(RowCode(rows, recorder, folded, around))
    program = recorder.finish()
    slots = [*(slot for line in lines(program.blocks) for slot in line.slots()), *counters(program.blocks)]
    used = {slot.array for slot in slots} | {word + name for name in _within(program.blocks) for word in (FIRST, MANY)}
    arrays = {a: p.arena for a, p in rows[0].places.items() if a in used}
    ordered = (Slot(NUMBER + name, i) for name, values in folded.items() for i in range(len(values)))
    wanted = {slot for slot in slots if slot.array.startswith(NUMBER)}
    return Case(
        kind,
        program.blocks,
        {a: (arena, i + first) for i, (a, arena) in enumerate(arrays.items())},
        {s: i for i, s in enumerate(s for s in ordered if s in wanted)},
    ), dict(program.locals)


def _within(blocks: Blocks) -> Iterator[str]:
    """The loops of code that rows have rows for."""
    for block in blocks:
        if isinstance(block, Loop) and block.within:
            yield block.within
        elif not isinstance(block, Loop):
            for body in inner(block):
                yield from _within(body)


def _fold(values: Sequence[Sequence[Value] | Own]) -> list[float | None]:
    """What all rows agree on, and is worth a code of its own."""
    if isinstance(values[0], Own):
        return list(values[0].known)
    columns = list(zip(*values, strict=True))  # type: ignore[arg-type]
    return [c[0] if c[0] in FOLDED and len(set(c)) == 1 else None for c in columns]  # type: ignore[list-item]

"""Structured programs: loops over the rows of tables, around straight lines of code.

A model with hundreds of joints needs the same few things done to each of them. A *loop* goes through the rows of a
table; the *kind* of a row says which straight line of code it runs, its integers say where in the arenas its arrays
start, and its numbers are the constants of that row. The code is traced once for each kind, with the same symbols as
unrolled programs; numbers that are zero, one or infinite in all rows of a kind are folded into it, all others are read
from the table. So the code does not grow with the model, and models that need the same kinds share it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from .c_functions import prelude
from .emit import Place, Target, straight_line
from .interpret import evaluate
from .passes import optimise
from .program import Program, finish
from .tape import Slot, Tape, Value

SCRATCH = "scratch"
"""The arena of what a run computes and the next one does not need."""
FOLDED = (0.0, 1.0, -1.0, math.inf, -math.inf)
"""Numbers that are worth a code of their own where all rows of a kind have them."""
NUMBER = "number "
"""What the names of constants start with in programs: an array may have the same name."""
HEADER = 3
"""Integers for each loop: how many rows it has, and where its integers and its numbers start."""


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One turn of a loop."""

    kind: str
    places: Mapping[str, Place]
    """Array -> where its first item is for this row."""
    numbers: Mapping[str, Sequence[float]] = field(default_factory=dict)


class Turn:
    """What the code of a kind of rows reads and writes, while it is traced."""

    def __init__(self, kind: str, folded: Mapping[str, Sequence[float | None]]) -> None:
        self.kind = kind
        self.tape = Tape()
        self.stores: dict[str, list[Value]] = {}
        self._folded = folded

    def read(self, array: str, item: int = 0) -> Value:
        """An item of an array of this row."""
        return self.tape.input(array, item)

    def array(self, array: str, count: int) -> list[Value]:
        """The first items of an array."""
        return [self.read(array, i) for i in range(count)]

    def numbers(self, name: str) -> list[Value]:
        """Constants of this row: symbols, or plain numbers where all rows of the kind agree."""
        return [self.tape.input(NUMBER + name, i) if x is None else x for i, x in enumerate(self._folded[name])]

    def number(self, name: str) -> Value:
        """A constant that is one number."""
        return self.numbers(name)[0]

    def write(self, array: str, values: Sequence[Value]) -> None:
        """Store the first items of an array, when all of this row is computed."""
        self.stores[array] = list(values)


Body = Callable[[Turn], None]


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """The straight line for one kind of rows, and how its slots are found from a row."""

    kind: str
    program: Program
    arrays: dict[str, tuple[str, int]]
    """Array -> its arena, and the column of the integers that holds its first row."""
    numbers: dict[Slot, int]
    """Constant -> the column it is in."""


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """Rows in the order in which they run."""

    name: str
    cases: tuple[Case, ...]
    ints: npt.NDArray[np.int32]
    """(rows, columns); the first column says which case, if there are several."""
    floats: npt.NDArray[np.float64]

    @property
    def n_operations(self) -> int:
        """Of all rows together."""
        counts = np.bincount(self._case_of_row(), minlength=len(self.cases))
        return sum(int(n) * case.program.n_operations for n, case in zip(counts, self.cases, strict=True))

    def _case_of_row(self) -> npt.NDArray[np.int32]:
        return self.ints[:, 0] if len(self.cases) > 1 else np.zeros(len(self.ints), np.int32)


@dataclass(frozen=True, slots=True, eq=False)
class Rolled:
    """Loops one after the other: one run of a structured program."""

    loops: tuple[Loop, ...]
    n_scratch: int
    """Rows of the arena `scratch`."""

    @property
    def n_operations(self) -> int:
        """Floating-point operations of a run, roughly."""
        return sum(loop.n_operations for loop in self.loops)

    @property
    def n_instructions(self) -> int:
        """Instructions that have to be compiled."""
        return sum(len(case.program.instructions) for loop in self.loops for case in loop.cases)

    def tables(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float64]]:
        """All tables of integers behind one header, and all tables of numbers."""
        header: list[int] = []
        start, first = HEADER * len(self.loops), 0
        for loop in self.loops:
            header += [len(loop.ints), start, first]
            start, first = start + loop.ints.size, first + loop.floats.size
        ints = [np.array(header, np.int32), *(loop.ints.ravel() for loop in self.loops)]
        floats = [loop.floats.ravel() for loop in self.loops]
        return np.concatenate(ints), np.concatenate([*floats, np.zeros(1)])

    def __str__(self) -> str:
        lines = []
        for loop in self.loops:
            lines.append(f"for {len(loop.ints)} rows of {loop.name}:")
            for case in loop.cases:
                lines.append(f"  {case.kind}:")
                lines += [f"    {line}" for line in str(case.program).splitlines()]
        return "\n".join(lines)


def make_loop(name: str, rows: Sequence[Row], body: Body) -> Loop:
    """Trace the code of each kind of rows, and pack the rows; those of a kind name the same arrays and numbers."""
    by_kind: dict[str, list[Row]] = {}
    for row in rows:
        by_kind.setdefault(row.kind, []).append(row)
    kinds = sorted(by_kind)  # whatever their order in this model, so that models share their code
    cases = {kind: _trace(kind, by_kind[kind], body) for kind in kinds}
    first = int(len(kinds) > 1)
    width = first + max((len(c.arrays) for c in cases.values()), default=0)
    ints = np.zeros((len(rows), width), np.int32)
    floats = np.zeros((len(rows), max((len(c.numbers) for c in cases.values()), default=0)))
    shifted = {k: _shifted(c, first) for k, c in cases.items()}
    for i, row in enumerate(rows):
        case = shifted[row.kind]
        ints[i, :first] = kinds.index(row.kind)
        for array, (_, column) in case.arrays.items():
            ints[i, column] = row.places[array].row
        for slot, column in case.numbers.items():
            floats[i, column] = row.numbers[slot.array.removeprefix(NUMBER)][slot.item]
    return Loop(name, tuple(shifted[k] for k in kinds), ints, floats)


def _trace(kind: str, rows: Sequence[Row], body: Body) -> Case:
    folded = {name: _fold([row.numbers[name] for row in rows]) for name in rows[0].numbers}
    turn = Turn(kind, folded)
    body(turn)
    program = optimise(finish(turn.tape, turn.stores))
    slots = [i.slot for i in program.instructions if i.slot is not None]
    used = {slot.array for slot in slots} | {store.slot.array for store in program.stores}
    arrays = {a: (p.arena, i) for i, (a, p) in enumerate((a, p) for a, p in rows[0].places.items() if a in used)}
    wanted = {slot for slot in slots if slot.array.startswith(NUMBER)}
    ordered = (Slot(NUMBER + name, i) for name, values in folded.items() for i in range(len(values)))
    return Case(kind, program, arrays, {s: i for i, s in enumerate(s for s in ordered if s in wanted)})


def _fold(values: Sequence[Sequence[float]]) -> list[float | None]:
    table = np.array(values, np.float64).reshape(len(values), -1)
    same = (table == table[:1]).all(axis=0)
    return [float(x) if s and x in FOLDED else None for s, x in zip(same, table[0], strict=True)]


def _shifted(case: Case, first: int) -> Case:
    arrays = {a: (arena, column + first) for a, (arena, column) in case.arrays.items()}
    return Case(case.kind, case.program, arrays, case.numbers)


def interpret_rolled(rolled: Rolled, arenas: Mapping[str, np.ndarray], runs: int = 1) -> None:
    """Run by NumPy for all environments at once; arenas have the shape (rows, n_envs) and are written in place."""
    some = next(iter(arenas.values()))
    memory = {**arenas, SCRATCH: np.zeros((rolled.n_scratch, some.shape[1]), some.dtype)}
    for _ in range(runs):
        for loop in rolled.loops:
            for ints, floats in zip(loop.ints, loop.floats, strict=True):
                _run_row(loop.cases[int(ints[0]) if len(loop.cases) > 1 else 0], ints, floats, memory)


def _run_row(case: Case, ints: np.ndarray, floats: np.ndarray, memory: Mapping[str, np.ndarray]) -> None:
    arrays: dict[str, Any] = {
        array: memory[arena][int(ints[column]) :] for array, (arena, column) in case.arrays.items()
    }
    for slot, column in case.numbers.items():
        arrays.setdefault(slot.array, {})[slot.item] = floats[column]
    values: dict = {}
    evaluate(case.program.instructions, arrays, values)
    # copies: what was read is a view of memory that a store may change
    results = [np.array(values[s.value] if isinstance(s.value, int) else s.value) for s in case.program.stores]
    for store, result in zip(case.program.stores, results, strict=True):
        arrays[store.slot.array][store.slot.item] = result


def emit_rolled(rolled: Rolled, target: Target, runs_per_step: int = 1) -> str:
    """The body of a function that runs a structured program for some steps.

    It expects what `emit` expects, and beside it the tables `ints` and `floats`, and `scratch` with `scratch_stride`
    and `scratch_e`, the place in it of this thread's environments. It depends on the kinds of rows, not on the rows.
    """
    lines = [
        prelude(target.scalar, target.lanes),
        "#define KN_AT(arena, row) (*(kn*)((arena) + (long long)(row) * stride + e))",
        "#define KN_SCRATCH(row) (*(kn*)(scratch + (long long)(row) * scratch_stride + scratch_e))",
        f"for (int run = 0; run < steps * {runs_per_step}; ++run) {{",
        f"const {target.scalar}* told = told_start + (long long)(run / {runs_per_step}) * advance * stride;",
    ]
    for number, loop in enumerate(rolled.loops):
        lines += _emit_loop(number, loop, target)
    lines += ["}", *(f"#undef {name}" for name in ("KN_AT", "KN_SCRATCH", "KN_SQRT", "KN", "KN_FMA"))]
    return "\n".join(lines) + "\n"


def _emit_loop(number: int, loop: Loop, target: Target) -> list[str]:
    at = HEADER * number
    lines = [
        f"{{ // {loop.name}",
        f"const int count = ints[{at}]; const int* row = ints + ints[{at + 1}];",
        f"const {target.scalar}* number = floats + ints[{at + 2}];",
        "#pragma unroll 1",
        "for (int turn = 0; turn < count; ++turn) {",
    ]
    several = len(loop.cases) > 1
    if several:
        lines.append("switch (row[0]) {")
    for place, case in enumerate(loop.cases):
        lines.append(f"case {place}: {{ // {case.kind}" if several else "{")
        lines += [f"const int r{column} = row[{column}];" for _, column in case.arrays.values()]
        lines += straight_line(case.program, lambda slot, case=case: _address(case, slot), target)
        lines.append("} break;" if several else "}")
    if several:
        lines.append("}")
    lines.append(f"row += {loop.ints.shape[1]}; number += {loop.floats.shape[1]};")
    return [*lines, "}", "}"]


def _address(case: Case, slot: Slot) -> str:
    if slot in case.numbers:
        return f"KN(number[{case.numbers[slot]}])"
    arena, column = case.arrays[slot.array]
    return f"KN_SCRATCH(r{column} + {slot.item})" if arena == SCRATCH else f"KN_AT({arena}, r{column} + {slot.item})"

"""Random programs of every kind of blocks, as trees that three can follow.

A tree is followed by the recorder, which leaves a program, and by plain Python, one environment at a time: an oracle
that knows nothing of programs. Numbers are of two sorts. *Whole* ones decide what is done and where; they are kept so
small that their arithmetic is exact, whatever is fused. *Real* ones are carried along, and decide nothing, so that how
they are rounded never makes two runs part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Any, Protocol

import numpy as np
from hypothesis import strategies as st

from kinema.ir import (
    SCRATCH,
    UNIFORM,
    ArenaOffset,
    IterationContext,
    LoopIteration,
    PerEnvParameters,
    Program,
    Scalar,
    Tracer,
    Value,
    absolute,
    clamp,
    cos,
    floor,
    maximum,
    minimum,
    select,
    sin,
    sqrt,
    trace_for_each_loop,
)

from .arenas import Memory, Numbers

MEMORY = Memory(
    state=[("x", 4), ("z", 3)],
    controls=[("u", 3), ("w", 2)],
    out=[("y", 4), ("o", 2), ("left whole", 10), ("left real", 8)],
    uniform=[("g", 4), ("h", 2)],
)
PLACES = MEMORY.places()
BOUND = 1000.0
"""Whole numbers stay below: their products are exact."""
N_LOCAL, N_SCRATCH = 5, 8


@dataclass(frozen=True)
class Array:
    """An array that statements may name: some elements of an array of the program."""

    name: str
    size: int
    whole: bool
    first: int = 0
    written: bool = True


GLOBAL = (
    Array("x", 4, True),
    Array("z", 3, False),
    Array("u", 3, True, written=False),
    Array("w", 2, False, written=False),
    Array("g", 4, True, written=False),
    Array("h", 2, False, written=False),
    Array("y", 4, True),
    Array("o", 2, False),
    Array("local whole", N_LOCAL, True),
    Array("local real", N_LOCAL, False),
    Array(SCRATCH, 5, True),
    Array(SCRATCH, 3, False, first=5),
    Array("left whole", 10, True),
    Array("left real", 8, False),
)
OF_ROW = (Array("a", 2, True), Array("b", 2, False))
"""What rows of tables have besides: each its own."""
HOMES = {
    True: (("state", 0, 4), ("out", 0, 4), (SCRATCH, 0, 5), ("local whole", 0, N_LOCAL)),
    False: (("state", 4, 3), ("out", 4, 2), (SCRATCH, 5, 3), ("local real", 0, N_LOCAL)),
}
"""Arena, first row and number of rows where such an array may lie."""


# ----------------------------------------------------------------------------------------------------------- the tree


@dataclass(frozen=True)
class Compute:
    """A new number of two others."""

    whole: bool
    op: str
    i: int
    j: int
    c: float


@dataclass(frozen=True)
class Access:
    """Read or write an element of an array, at an index that is computed or under the condition that it is valid."""

    write: bool
    array: int
    how: str
    i: int
    value: int


@dataclass(frozen=True)
class Turns:
    """A counted loop."""

    how: str
    i: int
    body: tuple[Any, ...]


@dataclass(frozen=True)
class Again:
    """A repeated step."""

    most: int
    counter: bool
    i: int
    j: int
    body: tuple[Any, ...]


@dataclass(frozen=True)
class Branch:
    """A condition."""

    i: int
    j: int
    body: tuple[Any, ...]


@dataclass(frozen=True)
class Table:
    """A loop over rows: kind, where its two arrays start, and its constants."""

    homes: dict[str, tuple[int, int]]
    bodies: dict[str, tuple[Any, ...]]
    rows: tuple[tuple[str, int, int, float, float], ...]


WHOLE_OPS = ("+", "-", "*", "min", "max", "abs", "neg", "half", "select", "const")
REAL_OPS = ("mix", "*", "sin", "cos", "both", "root", "recip", "select", "whole", "min")
HOW = ("element", "clamped", "half", "guarded", "root")
WHOLE, REAL = (0.0, 1.0, -1.0, 2.0, -3.0), (0.0, 1.0, 0.5, -0.3)
DEPTH = 3
MOST = 24
"""Statements of a tree."""


class Growing:
    """Makes a tree from choices, each a number below another."""

    def __init__(self, choose: Callable[[int], int]) -> None:
        self.choose = choose
        self.left = MOST

    def of(self, options: Sequence[Any]) -> Any:
        return options[self.choose(len(options))]

    def body(self, depth: int, in_row: bool = False, tables: int = 2) -> tuple[Any, ...]:
        """Some statements; tables within tables, and not within those."""
        return tuple(self.statement(depth, in_row, tables) for _ in range(1 + self.choose(5)))

    def statement(self, depth: int, in_row: bool, tables: int) -> Any:
        self.left -= 1
        choose = self.choose
        kind = choose(10 if depth and self.left > 0 else 4)
        if kind < 2:
            return Compute(
                kind == 0, self.of(WHOLE_OPS if kind == 0 else REAL_OPS), choose(9), choose(9), self.of(WHOLE)
            )
        if kind < 4:
            n_arrays = len(GLOBAL) + (len(OF_ROW) if in_row else 0)
            return Access(kind == 2, choose(n_arrays), self.of(HOW), choose(9), choose(9))
        if kind == 9 and tables:
            return self.table(depth - 1, tables - 1)
        inner = self.body(depth - 1, in_row, tables)
        if kind in (4, 5):
            return Turns(self.of(("own", "own", "uniform", "constant")), choose(9), inner)
        if kind in (6, 7):
            return Again(1 + choose(4), bool(choose(2)), choose(9), choose(9), inner)
        return Branch(choose(9), choose(9), inner)

    def table(self, depth: int, tables: int) -> Table:
        kinds = self.of((("p",), ("p", "q")))
        homes = {kind: (self.choose(4), self.choose(4)) for kind in kinds}
        bodies = {kind: self.body(depth, True, tables) for kind in kinds}
        rows = [
            (self.of(kinds), self.choose(4), self.choose(4), self.of(WHOLE), self.of(REAL))
            for _ in range(1 + self.choose(4))
        ]
        return Table(homes, bodies, tuple(rows))


@cache
def _below(n: int) -> st.SearchStrategy[int]:
    return st.integers(0, n - 1)


@st.composite
def trees(draw: st.DrawFn) -> tuple[Any, ...]:
    return Growing(lambda n: draw(_below(n))).body(DEPTH)


def some_tree(seed: int) -> tuple[Any, ...]:
    """One of many trees, without the help of Hypothesis."""
    return Growing(Random(seed).randrange).body(DEPTH)


# ----------------------------------------------------------------------------------------------------- following a tree


class Follower(Protocol):
    """Who does what a tree says."""

    def read(self, array: str, element: int, index: Value | None) -> Value: ...
    def write(self, array: str, value: Value, element: int, index: Value | None) -> None: ...
    def count(self, number: Value, body: Callable[[Value], None], uniform: bool) -> None: ...
    def repeat(self, step: Callable, start: list[Value], most: int) -> list[Value]: ...
    def where(self, a: Value, b: Value, then: Callable, otherwise: list[Value]) -> list[Value]: ...
    def table(self, rows: list[LoopIteration], body: Callable[[str, Follower, list[Value]], None]) -> None: ...
    def local(self, name: str) -> str: ...


@dataclass
class Scope:
    """The numbers that statements may name so far."""

    whole: list[Value]
    real: list[Value]
    in_row: bool = False

    def copy(self) -> Scope:
        return Scope(list(self.whole), list(self.real), self.in_row)

    def w(self, i: int) -> Value:
        return self.whole[i % len(self.whole)]

    def r(self, i: int) -> Value:
        return self.real[i % len(self.real)]


def follow(tree: tuple[Any, ...], machine: Follower) -> None:
    """All of a program: locals and scratch are written before they are read, and come out with the last numbers."""
    scope = Scope([machine.read("x", i, None) for i in range(4)], [machine.read("z", i, None) for i in range(3)])
    scope.whole += [machine.read("u", 0, None), machine.read("g", 1, None)]
    memory = [array for array in GLOBAL if array.name in ("local whole", "local real", SCRATCH)]
    for array in memory:
        for element in range(array.size):
            value = scope.w(element) if array.whole else scope.r(element)
            machine.write(_name(array, machine), value, array.first + element, None)
    machine.count(1.0, lambda turn: None, True)  # the line is over: now it can be read
    body(tree, machine, scope)
    machine.count(1.0, lambda turn: None, True)
    for whole, name in ((True, "left whole"), (False, "left real")):
        items = [(_name(a, machine), a.first + i) for a in memory if a.whole == whole for i in range(a.size)]
        for element, place in enumerate(items):
            machine.write(name, machine.read(*place, None), element, None)
    for i in range(4):
        machine.write("y", scope.w(-1 - i), i, None)
    for i in range(3):
        machine.write("z", 0.5 * sin(scope.r(-1 - i)), i, None)


def body(statements: Sequence[Any], machine: Follower, scope: Scope) -> None:
    for statement in statements:
        match statement:
            case Compute():
                _compute(statement, scope)
            case Access():
                _access(statement, machine, scope)
            case Turns():
                _turns(statement, machine, scope)
            case Again():
                _again(statement, machine, scope)
            case Branch():
                _branch(statement, machine, scope)
            case Table():
                _table(statement, machine)


def _whole(value: Value) -> Value:
    return clamp(value, -BOUND, BOUND)


def _compute(s: Compute, scope: Scope) -> None:
    a, b = scope.w(s.i), scope.w(s.j)
    if s.whole:
        scope.whole.append(
            {
                "+": lambda: _whole(a + b),
                "-": lambda: _whole(a - b),
                "*": lambda: _whole(a * b),
                "min": lambda: minimum(a, b),
                "max": lambda: maximum(b, a),
                "abs": lambda: absolute(a),
                "neg": lambda: -a,
                "half": lambda: floor(0.5 * a),
                "select": lambda: select(a, b, s.c, b),
                "const": lambda: _whole(s.c * a + s.c),
            }[s.op]()
        )
        return
    x, y = scope.r(s.i), scope.r(s.j)
    scope.real.append(
        {
            "mix": lambda: 0.5 * x + 0.25 * y + 0.1 * s.c,
            "*": lambda: 0.1 * x * y,
            "sin": lambda: sin(x),
            "cos": lambda: cos(y),
            "both": lambda: sin(x) * cos(x),
            "root": lambda: sqrt(1.0 + x * x) - 1.0,
            "recip": lambda: 1.0 / (2.0 + cos(x)),
            "select": lambda: select(a, b, x, y),
            "whole": lambda: 0.001 * a + 0.5 * y,
            "min": lambda: 0.5 * minimum(x, y),
        }[s.op]()
    )


def _name(array: Array, machine: Follower) -> str:
    return machine.local(array.name) if array.name.startswith("local") else array.name


def _access(s: Access, machine: Follower, scope: Scope) -> None:
    arrays = (*GLOBAL, *OF_ROW) if scope.in_row else GLOBAL
    array = arrays[s.array % len(arrays)]
    numbers = scope.whole if array.whole else scope.real
    new = numbers[s.value % len(numbers)]
    name, v, last = _name(array, machine), scope.w(s.i), array.size - 1

    def reach(index: Value | None, element: int = 0) -> Value:
        if s.write and array.written:
            machine.write(name, new, array.first + element, index)
            return new
        return machine.read(name, array.first + element, index)

    def guarded(index: Callable[[], Value], below: float) -> None:
        """Only where the index is one: elsewhere it is too large, negative, or no number at all."""
        valid = select(v, -0.5, 0.0, select(v, below, 1.0, 0.0))
        safe = isinstance(v, Scalar) or valid == 1.0  # the recorder goes into every branch
        numbers.append(machine.where(0.5, valid, lambda: [reach(index() if safe else 0.0)], [new])[0])

    match s.how:
        case "element":
            numbers.append(reach(None, s.i % array.size))
        case "clamped":
            numbers.append(reach(clamp(v, 0.0, float(last))))
        case "half":  # what is between two elements is the lower one
            numbers.append(reach(clamp(0.5 * v, 0.0, float(last))))
        case "guarded":
            guarded(lambda: v, last + 0.5)
        case _:
            guarded(lambda: sqrt(v), array.size**2 - 0.5)


def _turns(s: Turns, machine: Follower, scope: Scope) -> None:
    def each(turn: Value) -> None:
        inner = scope.copy()
        inner.whole += [turn, _whole(turn + scope.w(s.i))]
        local = machine.local("local whole")
        inner.whole.append(machine.read(local, 0, turn))  # of all that are active the same place
        machine.write(local, inner.w(s.i), 1, turn)
        body(s.body, machine, inner)

    match s.how:
        case "own":
            machine.count(minimum(scope.w(s.i), 4.0), each, False)
        case "uniform":
            machine.count(clamp(machine.read("g", s.i % 4, None), 0.0, 3.0), each, True)
        case _:
            machine.count(float(s.i % 4), each, True)


def _again(s: Again, machine: Follower, scope: Scope) -> None:
    limit = scope.w(s.j)

    def step(state: Sequence[Value]) -> tuple[list[Value], Value, Value]:
        inner = scope.copy()
        inner.whole += state[:2]
        inner.real += state[2:]
        body(s.body, machine, inner)
        counter = _whole(state[0] + 1.0)
        after = [counter if s.counter else inner.w(-1), inner.w(s.i), inner.r(-1)]
        return (after, counter, limit) if s.counter else (after, inner.w(-1), inner.w(s.j))

    new = machine.repeat(step, [scope.w(s.i), 2.0, scope.r(s.i)], s.most)
    scope.whole += new[:2]
    scope.real += new[2:]


def _branch(s: Branch, machine: Follower, scope: Scope) -> None:
    def then() -> list[Value]:
        inner = scope.copy()
        body(s.body, machine, inner)
        return [inner.w(-1), inner.r(-1)]

    a, x = machine.where(scope.w(s.i), scope.w(s.j), then, [scope.w(s.i + 1), scope.r(s.j)])
    scope.whole.append(a)
    scope.real.append(x)


def _table(s: Table, machine: Follower) -> None:
    rows = []
    for kind, a, b, k, f in s.rows:
        places = {}
        for array, home, start in zip(OF_ROW, s.homes[kind], (a, b), strict=True):
            arena, first, count = HOMES[array.whole][home]
            arena = machine.local(arena) if arena.startswith("local") else arena
            places[array.name] = ArenaOffset(arena, first + start % (count - array.size + 1))
        rows.append(LoopIteration(kind, places, {"k": [k, 2.0], "f": [f]}))

    def run(kind: str, inner: Follower, numbers: list[Value]) -> None:
        own = [inner.read(array.name, 0, None) for array in OF_ROW]
        scope = Scope([numbers[0], numbers[1], own[0]], [numbers[2], own[1]], in_row=True)
        body(s.bodies[kind], inner, scope)
        inner.write("a", scope.w(-1), 1, None)
        inner.write("b", 0.5 * scope.r(-1), 1, None)

    machine.table(rows, run)


# ----------------------------------------------------------------------------------------------------------- recorded


@dataclass
class Recording:
    """Leaves a program."""

    recorder: Tracer
    locals: dict[str, str]

    def read(self, array: str, element: int, index: Value | None) -> Value:
        return self.recorder.read(array, element, index)

    def write(self, array: str, value: Value, element: int, index: Value | None) -> None:
        self.recorder.write(array, [value], element, index)

    def count(self, number: Value, body: Callable[[Value], None], uniform: bool) -> None:
        self.recorder.counted_loop("turns", number, body, uniform=uniform)

    def repeat(self, step: Callable, start: list[Value], most: int) -> list[Value]:
        return self.recorder.while_loop("steps", step, start, most)

    def where(self, a: Value, b: Value, then: Callable, otherwise: list[Value]) -> list[Value]:
        alone = len(self.recorder.locals) % 2 == 0  # environments side by side, and one after the other
        return self.recorder.if_less("branch", a, b, then, otherwise, scalarize=alone)

    def table(self, rows: list[LoopIteration], body: Callable[[str, Follower, list[Value]], None]) -> None:
        def trace(code: IterationContext) -> None:
            body(
                str(code.specialization),
                Recording(code.tracer, self.locals),
                [*code.constants("k"), code.constant("f")],
            )

        trace_for_each_loop(self.recorder, "rows", rows, trace)

    def local(self, name: str) -> str:
        if name not in self.locals:
            self.locals[name] = self.recorder.allocate_local(N_LOCAL)
        return self.locals[name]


def recorded(tree: tuple[Any, ...]) -> Program:
    recorder = Tracer()
    follow(tree, Recording(recorder, {}))
    return recorder.build(n_scratch=N_SCRATCH)


# -------------------------------------------------------------------------------------------------------------- plain


@dataclass
class Plain:
    """Does it at once, for one environment: what a line writes is there when the line is over."""

    arenas: dict[str, list[float]]
    rows: list[dict[str, ArenaOffset]] = field(default_factory=list)
    pending: list[tuple[str, int, float]] = field(default_factory=list)

    def _find(self, array: str, element: int, index: Value | None) -> tuple[str, int]:
        row = element + (0 if index is None else math.trunc(index))  # type: ignore[arg-type]
        for places in (*reversed(self.rows), PLACES):
            if array in places:
                return places[array].arena, places[array].row + row
        return array, row

    def read(self, array: str, element: int, index: Value | None) -> Value:
        arena, row = self._find(array, element, index)
        return self.arenas[arena][row]

    def write(self, array: str, value: Value, element: int, index: Value | None) -> None:
        self.pending.append((*self._find(array, element, index), value))  # type: ignore[arg-type]

    def flush(self) -> None:
        for arena, row, value in self.pending:
            self.arenas[arena][row] = value
        self.pending.clear()

    def count(self, number: Value, body: Callable[[Value], None], uniform: bool) -> None:
        self.flush()
        turn = 0
        while turn < number:  # type: ignore[operator]
            body(float(turn))
            self.flush()
            turn += 1

    def repeat(self, step: Callable, start: list[Value], most: int) -> list[Value]:
        self.flush()
        state = start
        for _ in range(most):
            state, a, b = step(state)
            self.flush()
            if not a < b:
                break
        return list(state)

    def where(self, a: Value, b: Value, then: Callable, otherwise: list[Value]) -> list[Value]:
        self.flush()
        if not a < b:  # type: ignore[operator]
            return otherwise
        result = then()
        self.flush()
        return result

    def table(self, rows: list[LoopIteration], body: Callable[[str, Follower, list[Value]], None]) -> None:
        self.flush()
        for row in rows:
            self.rows.append(dict(row.offsets))
            known = [row.constants[name] for name in ("k", "f")]
            body(
                str(row.specialization),
                self,
                [x for values in known if not isinstance(values, PerEnvParameters) for x in values],
            )
            self.flush()
            self.rows.pop()

    def local(self, name: str) -> str:
        return name


def plainly(tree: tuple[Any, ...], numbers: Numbers, n_envs: int, steps: int) -> Numbers:
    """What is in the arenas after some steps: every environment by itself, in Python's own numbers."""
    numbers = MEMORY.whole(numbers, n_envs, steps)
    advance = MEMORY.n_rows("controls")
    for e in range(n_envs):
        for step in range(steps):
            machine = Plain(
                {
                    "state": numbers["state"][:, e].tolist(),
                    "controls": numbers["controls"][step * advance : (step + 1) * advance, e].tolist(),
                    "out": numbers["out"][:, e].tolist(),
                    UNIFORM: numbers[UNIFORM][:, 0].tolist(),
                    SCRATCH: [0.0] * N_SCRATCH,
                    "local whole": [0.0] * N_LOCAL,
                    "local real": [0.0] * N_LOCAL,
                }
            )
            follow(tree, machine)
            machine.flush()
            for arena in ("state", "out"):
                numbers[arena][:, e] = machine.arenas[arena]
    return numbers


def random_numbers(seed: int, n_envs: int, steps: int) -> Numbers:
    """Whole numbers where they belong, of both signs and around the sizes of arrays, and real ones."""
    rng = np.random.default_rng(seed)
    made = MEMORY.whole({}, n_envs, steps)
    for arena, values in made.items():
        rows = [array for array, count in getattr(MEMORY, arena) for _ in range(count)]
        for row in range(len(values)):
            whole = next(a for a in GLOBAL if a.name == rows[row % len(rows)]).whole
            many = values.shape[1]
            values[row] = rng.integers(-6, 7, many) if whole else rng.uniform(-1, 1, many)
    return made

"""Programs run by NumPy, for all environments at once: slow, plain, and what the tests trust."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .arranging import arranged
from .blocks import Blocks, Case, Count, If, Instruction, Line, Loop, Repeat, Spread, Team
from .equations import Arrange, Choose, Next, Solve, Term, numbers_of_cone, whole
from .program import Program
from .slots import FIRST, MANY, SCRATCH, Place, Slot

RUN: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "neg": lambda a: -a,
    "reciprocal": lambda a: 1.0 / a,
    "sqrt": np.sqrt,
    "sin": np.sin,
    "cos": np.cos,
    "abs": np.abs,
    "floor": np.floor,
    "min": lambda a, b: np.where(b < a, b, a),  # not np.minimum: what becomes of a NaN is as in the emitted text
    "max": lambda a, b: np.where(a < b, b, a),
    "select": lambda a, b, below, otherwise: np.where(a < b, below, otherwise),
    "any": lambda a: np.full_like(a, (a > 0.5).any()),
    "fma": lambda a, b, c: a * b + c,
    "fms": lambda a, b, c: a * b - c,
    "fnma": lambda a, b, c: c - a * b,
}


def interpret(program: Program, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs, each of shape (items, n_envs), from inputs of shape (items, n_envs), which stay as they are."""
    some = next(iter(arrays.values())) if arrays else np.zeros((1, 1))
    outputs = program.outputs
    own = dict(arrays)
    for name, count in outputs.items():
        own[name] = np.zeros((max(count, len(arrays.get(name, ()))), some.shape[1]), some.dtype)
        own[name][: len(arrays.get(name, ()))] = arrays.get(name, 0.0)
    _Run(program, own, {}).run(program.blocks)
    return {name: own[name][:count] for name, count in outputs.items()}


def interpret_in(
    program: Program, arenas: Mapping[str, np.ndarray], places: Mapping[str, Place], runs: int = 1
) -> None:
    """Run in arenas of shape (rows, n_envs), which are written in place."""
    for _ in range(runs):
        _Run(program, arenas, places).run(program.blocks)


def interpret_part(program: Program, arenas: Mapping[str, np.ndarray], places: Mapping[str, Place]) -> None:
    """Run one launch of a program that was cut; its scratch memory is among the arenas."""
    run = _Run(program, {name: x for name, x in arenas.items() if name != SCRATCH}, places)
    run.arrays[SCRATCH] = arenas[SCRATCH]
    run.run(program.blocks)


class _Run:
    def __init__(self, program: Program, arrays: Mapping[str, np.ndarray], places: Mapping[str, Place]) -> None:
        some = next(iter(arrays.values())) if arrays else np.zeros((1, 1))
        self.dtype, self.n_envs = some.dtype, some.shape[1]
        sizes = {**program.locals, SCRATCH: program.n_scratch}
        self.arrays = {**arrays, **{name: np.zeros((n, self.n_envs), self.dtype) for name, n in sizes.items()}}
        self.places = places
        self.rows: list[tuple[Case, np.ndarray, np.ndarray]] = []
        """The rows of tables that the run is in."""
        self.turns: list[int] = []
        self.active: np.ndarray | None = None
        """Which environments take part; None for all."""

    def run(self, blocks: Blocks) -> None:
        for block in blocks:
            match block:
                case Line():
                    self.line(block)
                case Loop():
                    self.loop(block)
                case Count():
                    self.count(block)
                case Repeat():
                    self.repeat(block)
                case Team():
                    self.run(block.body)
                case Solve():
                    self.solve(block)
                case Arrange():
                    self.arrange(block)
                case Choose():
                    pass  # here there is but one memory
                case Next():
                    number = np.array(self.get(block.counter))
                    self.put(block.to, number, {})
                    self.put(block.counter, number + 1.0, {})
                case Spread():
                    self.spread(block)
                case If():
                    before = self.active
                    if self._narrow(self.get(block.flag) > 0.5):
                        self.run(block.body)
                    self.active = before

    def loop(self, loop: Loop) -> None:
        kinds = loop.case_of_row()
        for own, _ in loop.sums:
            self.put(own, np.zeros(self.n_envs), {})
        for i in self._rows(loop):
            case = loop.cases[int(kinds[i])]
            self.rows.append((case, loop.ints[i], loop.floats[i]))
            self.run(case.blocks)
            self.rows.pop()
        for own, total in loop.sums:
            self.put(total, self.get(total) + self.get(own), {})

    def spread(self, block: Spread) -> None:
        before = self.active
        for i in range(len(block.work.ints)):
            for loop in block.loops:
                case = loop.cases[int(loop.case_of_row()[i])]
                self.rows.append((case, loop.ints[i], loop.floats[i]))
                self.run(case.blocks)
                self.rows.pop()
                if loop is not block.work and not self._narrow(self.get(block.flag) > 0.5):
                    break
            self.active = before

    def _rows(self, loop: Loop) -> Sequence[int]:
        """Those of a loop that run: within the code of a row, its own."""
        if not loop.within:
            return [x.first + i for x in loop.rounds for i in range(x.n_rows)] or range(len(loop.ints))
        case, ints, _ = self.rows[-1]
        first, many = (int(ints[case.arrays[word + loop.within][1]]) for word in (FIRST, MANY))
        return range(first, first + many)

    def _narrow(self, mask: np.ndarray) -> bool:
        """Only these environments from now on; whether there are any."""
        self.active = mask if self.active is None else self.active & mask
        return bool(self.active.any())

    def count(self, block: Count) -> None:
        before, counts = self.active, np.array(self.get(block.count))
        self.turns.append(0)
        while self._narrow(self.turns[-1] < counts):
            self.run(block.body)
            self.turns[-1] += 1
        self.turns.pop()
        self.active = before

    def repeat(self, block: Repeat) -> None:
        before = self.active
        for _ in range(block.most):
            self.run(block.body)
            if not self._narrow(self.get(block.again) > 0.5):
                break
        self.active = before

    def solve(self, block: Solve) -> None:
        """Each environment by itself."""
        n, result = block.size, np.zeros((block.size, self.n_envs), self.dtype)
        whole = {name: self._whole(getattr(block, name)) for name in ("matrix", "diagonal", "most", "right")}
        for e in range(self.n_envs):
            if self.active is not None and not self.active[e]:
                continue
            a = np.array([whole["matrix"][i * block.pitch : i * block.pitch + n, e] for i in range(n)])
            a = np.tril(a) + np.tril(a, -1).T if block.lower else a
            a += np.diag(whole["diagonal"][:n, e])
            for term in block.terms:
                for record in range(int(self.get(term.count)[e])):
                    own = self._whole(term.records)[record * term.width :, e]
                    a += _stiffness(own, term, n)
            if block.limbs is not None and (block.limbs.apart is None or self.get(block.limbs.apart)[e] > 0.5):
                a *= block.limbs.coupled(n)  # nobody looks at the rest
            result[:, e] = _solution(a, whole["right"][:n, e], whole["most"][:n, e])
        for i in range(n):
            self.put(block.result._replace(item=block.result.item + i), result[i], {})

    def arrange(self, block: Arrange) -> None:
        """Each environment by itself."""
        for e in range(self.n_envs):
            if self.active is not None and not self.active[e]:
                continue
            pairs = list[tuple[int, int]]()
            for own in block.couplings:
                records = self._whole(own.records)[:, e]
                starts = (i * own.width + own.things for i in range(int(self.get(own.count)[e])))
                pairs += [(int(records[at]), int(records[at + 1])) for at in starts]
            blocks, tiles, between, missing = arranged(block.size, block.room, pairs)
            self._whole(block.blocks)[: blocks.size, e] = blocks.ravel()
            self._whole(block.tiles)[: 2 * len(tiles), e] = np.array(tiles, float).ravel()
            for (a, b), tile in between.items():
                self._whole(block.between)[[a * block.size + b, b * block.size + a], e] = tile
            self._whole(block.told)[:2, e] = len(tiles), missing

    def _whole(self, slot: Slot) -> np.ndarray:
        array, row = self._find(slot)
        return array[row:]

    def line(self, line: Line) -> None:
        values: dict[int, Any] = {}
        self.evaluate(line.instructions, values)
        # copies: what was read is a view of memory that a store may change
        results = [np.array(values[s.value] if isinstance(s.value, int) else s.value) for s in line.stores]
        for store, result in zip(line.stores, results, strict=True):
            self.put(store.slot, result, values)

    def evaluate(self, instructions: Iterable[Instruction], values: dict[int, Any]) -> None:
        """Run instructions, adding what they compute to the values known so far."""
        for i in instructions:
            if i.slot is not None:
                values[i.target] = np.array(self.get(i.slot, values))  # not a view: a store may change it
            elif i.op == "turn":
                values[i.target] = self.dtype.type(self.turns[-1])
            else:
                values[i.target] = RUN[i.op](*(values[a] if isinstance(a, int) else self.dtype.type(a) for a in i.args))

    def _find(self, slot: Slot) -> tuple[np.ndarray, int]:
        for case, ints, floats in reversed(self.rows):
            if slot in case.numbers:
                return floats[:, None], case.numbers[slot]
            if slot.array in case.arrays:
                arena, column = case.arrays[slot.array]
                start = self.places.get(arena, Place(arena, 0))  # a straight line calls arrays by their names
                return self.arrays[start.arena], start.row + int(ints[column]) + slot.item
        if slot.array in self.places:
            place = self.places[slot.array]
            return self.arrays[place.arena], place.row + slot.item
        return self.arrays[slot.array], slot.item

    def get(self, slot: Slot, values: Mapping[int, Any] | None = None) -> Any:
        array, row = self._find(slot)
        shared = (array.shape[1] == 1 and self.n_envs > 1) or array.dtype != self.dtype
        if slot.index is None:
            return self.dtype.type(array[row, 0]) if shared else array[row]
        rows = row + self._index(slot, values, len(array) - row)
        return array[rows, 0 if shared else np.arange(self.n_envs)]

    def _index(self, slot: Slot, values: Mapping[int, Any] | None, count: int) -> np.ndarray:
        """Of environments that take no part, anything that is there."""
        index = np.broadcast_to(np.asarray((values or {})[slot.index or 0], np.int64), (self.n_envs,))
        return index if self.active is None else np.clip(index, 0, count - 1)

    def put(self, slot: Slot, result: np.ndarray, values: Mapping[int, Any]) -> None:
        array, row = self._find(slot)
        every = np.arange(self.n_envs)
        rows = row if slot.index is None else row + self._index(slot, values, len(array) - row)
        if self.active is not None:
            result = np.where(self.active, result, array[rows, every])
        array[rows, every] = result


def _stiffness(record: np.ndarray, term: Term, n: int) -> np.ndarray:
    """J^T W J of a record."""
    d = int(record[term.rows])
    levers = np.array([record[term.levers + k * term.pitch :][:n] for k in range(d)]).reshape(d, n)
    if term.is_cone:
        curve = _of_cone(record[term.curve :][: numbers_of_cone(term.dimension)])[:d, :d]
    else:
        curve = np.array([record[term.curve + k * whole(term.dimension) :][:d] for k in range(d)]).reshape(d, d)
    return levers.T @ curve @ levers


def _of_cone(numbers: np.ndarray) -> np.ndarray:
    first, others, soft, less, bound = numbers[:5]
    outward = np.array([0.0, *numbers[5:]])
    steep = np.array([1.0, *(-bound * numbers[5:])])
    own = np.diag([first, *[others] * (len(numbers) - 5)])
    return own + soft * np.outer(steep, steep) - less * np.outer(outward, outward)


def _solution(a: np.ndarray, right: np.ndarray, most: np.ndarray) -> np.ndarray:
    """Of a symmetric system, eliminated from the last unknown to the first; no inverse of a pivot above `most`."""
    a, x, n = a.copy(), right.copy(), len(right)
    inverse = np.zeros_like(right)
    for k in reversed(range(n)):
        inverse[k] = 1.0 / a[k, k] if most[k] * a[k, k] > 1.0 else most[k]
        factors = a[:k, k] * inverse[k]
        a[:k, :k] -= np.outer(factors, a[k, :k])
        x[:k] -= factors * x[k]
    for k in range(n):
        x[k] = (x[k] - a[k, :k] @ x[:k]) * inverse[k]
    return x

"""Programs run by NumPy, rows of a loop side by side: for numbers that are wanted once, of models with many parts.

What the interpreter does row by row, and a straight line number by number, is done to all rows at once that do not wait
for each other, with the same operations: the results are the same to the last bit. Only for programs of lines and of
loops over lines.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from .blocks import Case, Line, Loop
from .interpret import RUN
from .program import Program
from .slots import SCRATCH, Slot

Array = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]
EXACT = {"sin": math.sin, "cos": math.cos}
"""What Python and NumPy round differently: as a straight line of plain numbers does it."""


def can_run(program: Program) -> bool:
    """Whether a program is of lines, and of loops over lines."""
    return (
        all(
            isinstance(block, Line)
            or (
                isinstance(block, Loop) and block.chosen is None and not block.sums and all(map(_is_plain, block.cases))
            )
            for block in program.blocks
        )
        and all(_is_simple(line) for block in program.blocks for line in _lines(block))
        and _keeps_to_rows(program)
    )


def _keeps_to_rows(program: Program) -> bool:
    """Whether rows find in local arrays nothing but what they left there themselves."""
    loops = [block for block in program.blocks if isinstance(block, Loop)]
    return not any(slot.array in program.locals for loop in loops for case in loop.cases for slot in _slots(case)[0])


def run_side_by_side(
    program: Program, arrays: Mapping[str, Array], *, exact: bool = False
) -> dict[str, npt.NDArray[np.bool_]]:
    """Run in arrays of shape (items, n_envs), written in place; of each array which items were written.

    Args:
        program: one that `can_run`.
        arrays: all that it names, but for its own memory.
        exact: whether sines are those of Python instead of NumPy's.
    """
    run = _Run(program, arrays, exact=exact)
    with np.errstate(all="ignore"):
        for block in program.blocks:
            if isinstance(block, Loop):
                run.loop(block)
            else:
                assert isinstance(block, Line)
                run.line(block, {}, 1)
    return run.written


def _is_plain(case: Case) -> bool:
    return all(isinstance(block, Line) for block in case.blocks)


def _lines(block: Any) -> Iterator[Line]:
    if isinstance(block, Loop):
        yield from (line for case in block.cases for line in case.blocks if isinstance(line, Line))
    else:
        yield block


def _is_simple(line: Line) -> bool:
    return all(slot.index is None for slot in line.slots()) and all(i.slot or i.op in RUN for i in line.instructions)


class _Run:
    def __init__(self, program: Program, arrays: Mapping[str, Array], *, exact: bool) -> None:
        n_envs = next(iter(arrays.values())).shape[1]
        self.locals = program.locals
        self.arrays = {**arrays, SCRATCH: np.zeros((program.n_scratch, n_envs))}
        self.arrays |= {name: np.zeros((size, n_envs)) for name, size in program.locals.items()}
        self.written = {name: np.zeros(len(x), np.bool_) for name, x in self.arrays.items()}
        self.exact = exact

    def loop(self, loop: Loop) -> None:
        kinds, levels = loop.case_of_row(), self._levels(loop)
        for level in range(int(levels.max(initial=-1)) + 1):
            for number, case in enumerate(loop.cases):
                rows = np.flatnonzero((levels == level) & (kinds == number))
                if not len(rows):
                    continue
                known: dict[Any, Any] = {s: loop.floats[rows, c][:, None] for s, c in case.numbers.items()}
                known |= {a: (arena, loop.ints[rows, c].astype(np.int64)) for a, (arena, c) in case.arrays.items()}
                for line in case.blocks:
                    assert isinstance(line, Line)
                    self.line(line, known, len(rows))

    def line(self, line: Line, known: dict[Any, Any], n_rows: int) -> None:
        """A line for some rows; what it leaves to later lines of these rows is kept with what they know."""
        values: dict[int, Any] = {}
        for i in line.instructions:
            if i.slot is not None:
                values[i.target] = self._load(i.slot, known)
            else:
                values[i.target] = self._compute(i.op, [values[a] if isinstance(a, int) else a for a in i.args])
        stores = [(s.slot, values[s.value] if isinstance(s.value, int) else s.value) for s in line.stores]
        for slot, value in stores:
            if slot.array in self.locals and known:
                known[slot] = value
            else:
                arena, at = self._find(slot, known)
                self.arrays[arena][at] = value
                self.written[arena][at] = True

    def _compute(self, op: str, args: list[Any]) -> Any:
        if self.exact and op in EXACT:
            x = np.asarray(args[0], np.float64)
            return np.array([EXACT[op](v) for v in x.ravel().tolist()]).reshape(x.shape)
        return RUN[op](*(np.float64(a) if isinstance(a, float) else a for a in args))

    def _load(self, slot: Slot, known: Mapping[Any, Any]) -> Any:
        if slot in known:
            return known[slot]
        arena, at = self._find(slot, known)
        return self.arrays[arena][at]  # a copy, as the index is an array

    def _find(self, slot: Slot, known: Mapping[Any, Any]) -> tuple[str, Rows]:
        if slot.array in known:
            arena, starts = known[slot.array]
            return arena, starts + slot.item
        return slot.array, np.array([slot.item])

    def _levels(self, loop: Loop) -> Rows:
        """Of each row its round: after all rows before it that touch what it writes, or write what it reads."""
        kinds = loop.case_of_row().tolist()
        bases, total = {}, 0
        for name, array in self.arrays.items():
            bases[name], total = total, total + len(array)
        reads, writes = ([np.zeros((0,), np.int64)] * len(kinds) for _ in range(2))
        for number, case in enumerate(loop.cases):
            rows = np.flatnonzero(loop.case_of_row() == number)
            outside = ([slot for slot in slots if slot.array not in self.locals] for slots in _slots(case))
            cells = [self._cells(loop, case, rows, bases, slots) for slots in outside]
            for row, own, changed in zip(rows.tolist(), *(x.tolist() for x in cells), strict=True):
                reads[row], writes[row] = own, changed
        read_at, written_at = [-1] * total, [-1] * total
        levels = np.zeros(len(kinds), np.int64)
        for row, (own, changed) in enumerate(zip(reads, writes, strict=True)):
            level = 1 + max([-1, *(written_at[c] for c in own), *(max(read_at[c], written_at[c]) for c in changed)])
            for c in own:
                read_at[c] = max(read_at[c], level)
            for c in changed:
                written_at[c] = level
            levels[row] = level
        return levels

    def _cells(self, loop: Loop, case: Case, rows: Rows, bases: Mapping[str, int], slots: list[Slot]) -> Rows:
        found = np.zeros((len(rows), len(slots)), np.int64)
        for i, slot in enumerate(slots):
            if slot.array in case.arrays:
                arena, column = case.arrays[slot.array]
                found[:, i] = bases[arena] + loop.ints[rows, column] + slot.item
            else:
                found[:, i] = bases[slot.array] + slot.item
        return found


def _slots(case: Case) -> tuple[list[Slot], list[Slot]]:
    """What rows of a kind read and write, but for what their lines leave to each other."""
    reads: dict[Slot, None] = {}
    writes: dict[Slot, None] = {}
    for line in case.blocks:
        assert isinstance(line, Line)
        for i in line.instructions:
            if i.slot is not None and i.slot not in case.numbers and i.slot not in writes:
                reads[i.slot] = None
        writes |= dict.fromkeys(store.slot for store in line.stores)
    return list(reads), list(writes)

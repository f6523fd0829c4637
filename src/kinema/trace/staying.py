"""What loops and teams among straight lines touch: the memory through which they and the lines speak to each other."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat

import numpy as np
import numpy.typing as npt

from .blocks import Blocks, Count, If, Line, Loop, Repeat, Spread, Team, inner
from .equations import Arrange, Choose, Next, Solve
from .program import Program
from .slots import COMMON, FAR, FIRST, MANY, NUMBER, SCRATCH, Slot

Cell = tuple[str, int]
"""A number in memory: its arena or array, and which of its rows."""


@dataclass(slots=True, eq=False)
class Touched:
    """The memory that something reads, the memory it writes, and its local arrays."""

    reads: set[Cell] = field(default_factory=set)
    writes: set[Cell] = field(default_factory=set)
    locals: set[str] = field(default_factory=set)

    def rows(self) -> set[int]:
        """All of that which is scratch memory."""
        return {row for arena, row in self.reads | self.writes if arena == SCRATCH}


class Cells:
    """A set of cells: those of the scratch memory, of which there are many, as a mask of its rows."""

    __slots__ = ("others", "rows")

    def __init__(self, rows: npt.NDArray[np.bool_], others: set[Cell]) -> None:
        self.rows = rows
        self.others = others

    def __contains__(self, cell: Cell) -> bool:
        return bool(self.rows[cell[1]]) if cell[0] == SCRATCH else cell in self.others

    def __or__(self, other: Cells) -> Cells:
        return Cells(self.rows | other.rows, self.others | other.others)

    def __sub__(self, other: Cells) -> Cells:
        return Cells(self.rows & ~other.rows, self.others - other.others)

    def among(self, cells: Iterable[Cell]) -> list[Cell]:
        """Those of some cells that are in the set."""
        rows, others = self.rows.tolist(), self.others
        return [cell for cell in cells if (rows[cell[1]] if cell[0] == SCRATCH else cell in others)]


def staying(blocks: Blocks) -> Iterator[Loop | Team | Spread]:
    """The outermost loops that stay, teams, and what is spread."""
    for block in blocks:
        if isinstance(block, Team | Spread) or (isinstance(block, Loop) and block.stays):
            yield block
            continue
        for body in inner(block):
            yield from staying(body)


def touched(program: Program, blocks: Blocks) -> Touched:
    """What blocks touch; an array that is looked up at a computed index from where it is named to its end."""
    found = _Finding(program, {})
    found.blocks(blocks, [])
    return found.touched()


def touched_cells(program: Program, blocks: Blocks) -> tuple[Cells, Cells, set[str]]:
    """The memory that blocks read, the memory they write, and their local arrays, as `touched` finds them."""
    found = _Finding(program, {})
    found.blocks(blocks, [])
    masks = []
    for spans, cells in zip(found.spans, (found.found.reads, found.found.writes), strict=True):
        rows = np.zeros(program.n_scratch + 1, np.bool_)
        rows[[row for arena, row in cells if arena == SCRATCH]] = True
        for end, start in spans.items():
            rows[start:end] = True
        masks.append(Cells(rows, {cell for cell in cells if cell[0] != SCRATCH}))
    return masks[0], masks[1], found.found.locals


def touched_by_row(program: Program, loop: Loop) -> list[Touched]:
    """What each row of a loop touches."""
    uses: dict[int, _Uses] = {}
    rows = []
    for i in range(len(loop.ints)):
        found = _Finding(program, uses)
        found.rows(loop, [i], [])
        rows.append(found.touched())
    return rows


_Uses = Mapping[str, Collection[tuple[int, bool, bool]]]
"""Of each array that lines name: which items, whether further on by an index, and whether they are written."""


@dataclass(slots=True, eq=False)
class _Level:
    """Rows that are run, of one kind, one for each time that the code within them runs."""

    arrays: Mapping[str, tuple[str, int]]
    ints: npt.NDArray[np.int32]
    rows: list[int]
    _places: dict[str, list[int]] = field(default_factory=dict)

    def column(self, array: str) -> list[int]:
        """A column of the rows."""
        return self.ints[self.rows, self.arrays[array][1]].tolist()

    def places(self, array: str) -> list[int]:
        """Where an array may be: many rows have it in the same place."""
        if array not in self._places:
            self._places[array] = list(dict.fromkeys(self.column(array)))
        return self._places[array]

    def of(self, which: list[int]) -> _Level:
        """The same for code within, which runs in these of the rows."""
        return _Level(self.arrays, self.ints, [self.rows[i] for i in which])


@dataclass(slots=True, eq=False)
class _Finding:
    """What rows touch, all rows of a kind at once: a line is looked at once for each kind, and not for each row."""

    program: Program
    uses: dict[int, _Uses]
    """Of blocks that were looked at before, by their identity."""
    found: Touched = field(default_factory=Touched)
    spans: tuple[dict[int, int], dict[int, int]] = field(default_factory=lambda: ({}, {}))
    """Of pieces of the scratch memory that are looked up, read and written: their end -> from where on."""

    def touched(self) -> Touched:
        for spans, cells in zip(self.spans, (self.found.reads, self.found.writes), strict=True):
            for end, start in spans.items():
                cells.update(zip(repeat(SCRATCH), range(start, end)))
        return self.found

    def blocks(self, blocks: Blocks, around: list[_Level]) -> None:
        if id(blocks) not in self.uses:
            self.uses[id(blocks)] = _uses(blocks)
        for array, uses in self.uses[id(blocks)].items():
            self._note(array, uses, around)
        n_times = len(around[-1].rows) if around else 1
        for nested in loops_in(blocks):
            if not nested.within:
                times = [(i, row) for i in range(n_times) for row in range(len(nested.ints))]
            else:
                own = zip(*(around[-1].column(word + nested.within) for word in (FIRST, MANY)), strict=True)
                times = [(i, row) for i, (first, many) in enumerate(own) for row in range(first, first + many)]
            which, rows = [i for i, _ in times], [row for _, row in times]
            self.rows(nested, rows, [level.of(which) for level in around])

    def rows(self, loop: Loop, rows: Sequence[int], around: list[_Level]) -> None:
        kinds = loop.case_of_row()[list(rows)].tolist()
        for kind in sorted(set(kinds)):
            case, own = loop.cases[kind], [i for i, k in enumerate(kinds) if k == kind]
            level = _Level(case.arrays, loop.ints, [rows[i] for i in own])
            self.blocks(case.blocks, [*(outer.of(own) for outer in around), level])

    def _note(self, array: str, uses: Collection[tuple[int, bool, bool]], around: list[_Level]) -> None:
        if array.startswith(NUMBER):
            return
        level = next((level for level in reversed(around) if array in level.arrays), None)
        arena, places = (array, [0]) if level is None else (level.arrays[array][0], level.places(array))
        if arena in self.program.locals:
            self.found.locals.add(arena)
            return
        for item, indexed, written in uses:
            to = self.found.writes if written else self.found.reads
            if arena in (FAR, COMMON):  # a list is one thing
                to.update((arena, row) for row in places)
            elif arena == SCRATCH and (indexed or self.program.distant):
                self._note_pieces((row + item for row in places), indexed, written)
            elif not indexed:
                to.update((arena, row + item) for row in places)

    def _note_pieces(self, starts: Iterable[int], indexed: bool, written: bool) -> None:
        """Of the scratch memory: what lies far away is one thing, and an index may reach to the end of its piece."""
        program, spans = self.program, self.spans[written]
        to = self.found.writes if written else self.found.reads
        for start in starts:
            if program.distant and start_of(program, start) in program.distant:
                to.add((SCRATCH, start_of(program, start)))
            elif indexed:
                end = end_of(program, start)
                spans[end] = min(spans.get(end, end), start)
            else:
                to.add((SCRATCH, start))


def _uses(blocks: Blocks) -> _Uses:
    """What lines name, but for those of loops within."""
    uses: dict[str, set[tuple[int, bool, bool]]] = {}
    for slot, written in _slots(blocks):
        uses.setdefault(slot.array, set()).add((slot.item, slot.index is not None, written))
    return uses


def _slots(blocks: Blocks) -> Iterator[tuple[Slot, bool]]:
    """The same one by one, and whether it is written."""
    for block in blocks:
        match block:
            case Line():
                yield from ((i.slot, False) for i in block.instructions if i.slot is not None)
                yield from ((s.slot, True) for s in block.stores)
                continue
            case Loop() | Spread():
                continue
            case Choose():
                yield block.used, False
                continue
            case Next():
                yield from ((block.counter, False), (block.counter, True), (block.to, True))
                continue
            case Solve():
                yield from ((Slot(x.array, x.item, 0), False) for x in block.reads)
                yield from ((Slot(x.array, x.item, 0), True) for x in (block.result, block.work))
                continue
            case Arrange():
                yield from ((Slot(x.array, x.item, 0), False) for x in block.reads)
                yield from ((Slot(x.array, x.item, 0), True) for x in block.writes)
                continue
            case Count():
                yield block.count, False
            case Repeat():
                yield block.again, False
            case If():
                yield block.flag, False
            case Team():
                pass
        yield from _slots(block.body)


def loops_in(blocks: Blocks) -> Iterator[Loop]:
    """The outermost loops over tables."""
    for block in blocks:
        if isinstance(block, Loop):
            yield block
        else:
            for body in inner(block):
                yield from loops_in(body)


def start_of(program: Program, row: int) -> int:
    """Where what a row of the scratch memory was taken with starts."""
    return program.taken[bisect_right(program.taken, row) - 1] if program.taken else 0


def end_of(program: Program, row: int) -> int:
    """Where what a row of the scratch memory was taken with ends."""
    after = bisect_right(program.taken, row)
    return program.taken[after] if after < len(program.taken) else program.n_scratch

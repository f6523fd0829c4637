"""Programs in parts: what a team of threads does is a launch of its own, between others of a thread each.

Between the parts only memory lasts. A thread's scratch memory lies beside that of its neighbours, so that they read it
together; a team's lies in one piece, as its threads look at many places at once. What one part leaves to another is
copied when a team begins and when it ends. Each has only the memory it touches.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from .blocks import SCRATCH, Block, Blocks, Count, If, Line, Loop, Repeat, Slot, Team
from .program import Program, outside_loops
from .staying import Touched, loops_in, touched


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One launch of a program."""

    program: Program
    is_team: bool = False
    into: tuple[tuple[int, int], ...] = ()
    """What a team begins with: rows of the common scratch memory, and where they go in its own."""
    back: tuple[tuple[int, int], ...] = ()
    """What others read: where it is in the team's memory, and where it goes."""


def cut(program: Program) -> list[Part]:
    """The launches of a program, in order."""
    program = _share_locals(program)
    pieces = _pieces(program)
    touches = [touched(program, blocks) for blocks, _ in pieces]
    plain = [touch for touch, (_, team) in zip(touches, pieces, strict=True) if not team]
    exchanged = [_exchanged(touch, touches) for touch, (_, team) in zip(touches, pieces, strict=True) if team]
    common = _Packing(program, {row for t in plain for row in _rows(t.reads | t.writes)} | set().union(*map(set, exchanged)))
    parts = []
    for (blocks, team), touch in zip(pieces, touches, strict=True):
        own = {name: program.locals[name] for name in sorted(touch.locals)}
        packing = _Packing(program, set(_rows(touch.reads | touch.writes))) if team else common
        made = Program(_moved(blocks, packing.row), own, packing.count, packing.taken)
        if not team:
            parts.append(Part(made))
            continue
        read = _written_elsewhere(touch, touches)
        back = sorted(set(_rows(touch.writes)) & _read_elsewhere(touch, touches))
        into = sorted(read & (set(_rows(touch.reads)) | set(back)))
        parts.append(
            Part(
                made,
                True,
                tuple((common.row(r), packing.row(r)) for r in into),
                tuple((packing.row(r), common.row(r)) for r in back),
            )
        )
    return parts


def _pieces(program: Program) -> list[tuple[Blocks, bool]]:
    """The blocks between teams, and teams."""
    pieces: list[tuple[list[Block], bool]] = [([], False)]
    for block in program.blocks:
        if isinstance(block, Team):
            pieces += [(list(block.body), True), ([], False)]
        else:
            pieces[-1][0].append(block)
    return [(tuple(blocks), team) for blocks, team in pieces if blocks]


def _rows(cells: set[tuple[str, int]]) -> Iterator[int]:
    return (row for arena, row in cells if arena == SCRATCH)


def _written_elsewhere(own: Touched, touches: Sequence[Touched]) -> set[int]:
    return {row for t in touches if t is not own for row in _rows(t.writes)}


def _read_elsewhere(own: Touched, touches: Sequence[Touched]) -> set[int]:
    return {row for t in touches if t is not own for row in _rows(t.reads)}


def _exchanged(own: Touched, touches: Sequence[Touched]) -> set[int]:
    """Rows through which a team and others speak to each other."""
    mine = set(_rows(own.reads | own.writes))
    return mine & (_written_elsewhere(own, touches) | _read_elsewhere(own, touches))


def _share_locals(program: Program) -> Program:
    """Local arrays that several parts have become scratch memory, and those that the rows of a team's loops share."""
    users = Counter(name for blocks, _ in _pieces(program) for name in touched(program, blocks).locals)
    for blocks, team in _pieces(program):
        if team:
            users.update(2 * _seen_by_rows(program, blocks))
    starts: dict[str, int] = {}
    end = program.n_scratch
    for name, count in program.locals.items():
        if users[name] > 1:
            starts[name], end = end, end + count
    blocks = _moved(program.blocks, lambda row: row, starts)
    left = {name: count for name, count in program.locals.items() if name not in starts}
    return Program(blocks, left, end, (*(program.taken or (0,)), *starts.values()))


def _seen_by_rows(program: Program, blocks: Blocks) -> list[str]:
    """Local arrays that the rows of a loop have in common with each other, or with what is around the loop."""
    around = {slot.array for line in outside_loops(blocks) for slot in line.slots()}
    users = Counter(name for loop in loops_in(blocks) for name in touched(program, (loop,)).locals)
    named = {arena for loop in loops_in(blocks) for case in loop.cases for arena, _ in case.arrays.values()}
    return [name for name, count in users.items() if name in around or name in named or count > 1]


class _Packing:
    """The pieces of a program's scratch memory that are touched, without the others."""

    def __init__(self, program: Program, rows: set[int]) -> None:
        self._old = list(program.taken) or [0]
        ends = [*self._old[1:], program.n_scratch]
        used = sorted({bisect_right(self._old, row) - 1 for row in rows})
        self._new: dict[int, int] = {}
        self.count = 0
        for piece in used:
            self._new[piece] = self.count
            self.count += ends[piece] - self._old[piece]
        self.taken = tuple(self._new.values())

    def row(self, row: int) -> int:
        """Where a row has moved to; what is never touched may go anywhere."""
        piece = bisect_right(self._old, row) - 1
        return self._new.get(piece, 0) + row - self._old[piece]


def _moved(blocks: Blocks, row: Callable[[int], int], shared: Mapping[str, int] | None = None) -> Blocks:
    """Blocks with their scratch memory elsewhere; some local arrays become part of it."""
    shared = shared or {}

    def slot(old: Slot) -> Slot:
        if old.array in shared:
            return Slot(SCRATCH, shared[old.array] + old.item, old.index)
        return Slot(SCRATCH, row(old.item), old.index) if old.array == SCRATCH else old

    def line(old: Line) -> Line:
        instructions = tuple(i if i.slot is None else replace(i, slot=slot(i.slot)) for i in old.instructions)
        return Line(instructions, tuple(replace(s, slot=slot(s.slot)) for s in old.stores))

    result: list[Block] = []
    for block in blocks:
        match block:
            case Line():
                result.append(line(block))
            case Loop():
                result.append(_moved_loop(block, row, shared))
            case Count():
                result.append(replace(block, count=slot(block.count), body=_moved(block.body, row, shared)))
            case Repeat():
                result.append(replace(block, again=slot(block.again), body=_moved(block.body, row, shared)))
            case If():
                result.append(replace(block, flag=slot(block.flag), body=_moved(block.body, row, shared)))
            case Team():
                result.append(replace(block, body=_moved(block.body, row, shared)))
    return tuple(result)


def _moved_loop(loop: Loop, row: Callable[[int], int], shared: Mapping[str, int]) -> Loop:
    ints, kinds = loop.ints.copy(), loop.case_of_row()
    for number, case in enumerate(loop.cases):
        chosen = np.flatnonzero(kinds == number)
        for arena, column in case.arrays.values():
            if arena == SCRATCH:
                ints[chosen, column] = [row(int(x)) for x in loop.ints[chosen, column]]
            elif arena in shared:
                ints[chosen, column] += shared[arena]
    cases = []
    for case in loop.cases:
        arrays = {a: (SCRATCH if arena in shared else arena, c) for a, (arena, c) in case.arrays.items()}
        cases.append(replace(case, blocks=_moved(case.blocks, row, shared), arrays=arrays))
    return replace(loop, ints=ints, cases=tuple(cases))

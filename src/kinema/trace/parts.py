"""Programs in parts: what a team of threads does is a launch of its own, between others of a thread each.

Between the parts only memory lasts. A thread's scratch memory lies beside that of its neighbours, so that they read it
together; a team's lies in one piece, as its threads look at many places at once. What one part leaves to another is
copied when a team begins and when it ends. Each has only the memory it touches.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from .beginnings import with_beginnings
from .blocks import Block, Blocks, Count, If, Line, Loop, Repeat, Spread, Team, lines
from .equations import Arrange, Choose, Next, Solve
from .given import NOTHING, Given, given, is_straight
from .lifetimes import Span, spans
from .packing import Packing
from .program import Program, every_loop, outside_loops
from .rounds import in_rounds
from .slots import COMMON, FAR, SCRATCH, Slot
from .staying import Touched, end_of, loops_in, touched

Elsewhere = Sequence[tuple[str, Packing]]
"""Other memory, by the name of its arena, and what has gone there."""
LONG = 64
"""Numbers beyond which a list is long."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One launch of a program."""

    program: Program
    is_team: bool = False
    into: tuple[tuple[int, int], ...] = ()
    """What a team begins with: rows of the common scratch memory, and where they go in its own."""
    back: tuple[tuple[int, int], ...] = ()
    """What others read: where it is in the team's memory, and where it goes."""
    n_far: int = 0
    """Numbers of the team's memory that are far away: lists that have room for more than they mostly hold."""
    weights: tuple[int, ...] = ()
    """Rows of the common scratch memory that say, all together, how much a team has to do."""
    beside: bool = False
    """Whether it may run at the same time as what all threads share before it."""
    given: Given = NOTHING
    """What else a team begins with, four numbers at a time."""

    @property
    def spread(self) -> Spread | None:
        """What all threads share, if it is that."""
        (block, *others) = self.program.blocks
        return block if isinstance(block, Spread) and not others else None


def cut(program: Program, size: int) -> list[Part]:
    """The launches of a program, in order; teams have so many threads, which share the rows of loops in rounds."""
    program = _share_locals(program)
    pieces = _pieces(program)
    touches = [touched(program, piece.blocks) for piece in pieces]
    teams = {i: _team(program, pieces, touches, i, size) for i, piece in enumerate(pieces) if piece.team}
    left: dict[int, Given] = {}
    end = 0
    for i, team in teams.items():
        others = [(p, t) for k, (p, t) in enumerate(zip(pieces, touches, strict=True)) if k != i]
        loose = {r for p, t in others if p.team or not is_straight(p.blocks) for r in t.rows()}
        loose |= team.back | team.lists | {slot.item for slot in pieces[i].weights}
        left[i] = given(program, team.into, loose, team.near, end)
        end = left[i].end
    known = {piece: start for own in left.values() for piece, start in own.starts}
    plain = [touch for touch, piece in zip(touches, pieces, strict=True) if not piece.team]
    used = {row for touch in plain for row in touch.rows()}
    common = Packing(program, used.union(*(_exchanged(touches[i], touches) for i in teams)), known=known, first=end)
    parts = []
    for i, (piece, touch) in enumerate(zip(pieces, touches, strict=True)):
        if piece.team:
            parts.append(_part_of_team(teams[i], piece, common, left[i]))
            continue
        own = {name: program.locals[name] for name in sorted(touch.locals)}
        made = Program(_moved(piece.blocks, common.row), own, common.count, common.taken)
        parts.append(Part(made, beside=i > 0 and _may_run_beside(pieces[i - 1], pieces[i], touches[i - 1 : i + 1])))
    return parts


class _Team(NamedTuple):
    """A team's program, and the scratch memory it touches."""

    program: Program
    near: Packing
    far: Packing
    into: set[int]
    """Rows that others write and it has near at hand."""
    back: set[int]
    """Rows near at hand that others read."""
    lists: set[int]
    """Rows of lists that it looks up where others left them."""


def _team(program: Program, pieces: Sequence[_Piece], touches: Sequence[Touched], number: int, size: int) -> _Team:
    """What a team has where, with threads that share rows in rounds."""
    blocks, touch = pieces[number].blocks, touches[number]
    own = {name: program.locals[name] for name in sorted(touch.locals)}
    rows = touch.rows()
    distant = far_rows(program, blocks)
    back = set(_rows(touch.writes)) & _read_elsewhere(touch, touches) - distant
    into = _written_elsewhere(touch, touches) & (set(_rows(touch.reads)) | back) - distant
    lists = far_rows(program, blocks, _exchanged(touch, touches))
    far = Packing(program, rows & distant - lists)
    lasting = spans(replace(program, blocks=blocks), into, back)
    shared = in_rounds(replace(program, blocks=blocks, locals=own), size)
    nowhere = len(shared.taken) - 1
    lasting[nowhere] = Span(0, max((span.last for span in lasting.values()), default=0))
    near = Packing(shared, rows - distant | {shared.taken[nowhere]}, lasting)
    return _Team(shared, near, far, into, back, lists & rows)


def _part_of_team(team: _Team, piece: _Piece, common: Packing, left: Given) -> Part:
    near, taken = team.near, team.program.taken
    elsewhere = ((FAR, team.far), (COMMON, Packing.some(common, team.lists)))
    moved = _moved(team.program.blocks, near.row, elsewhere=elsewhere)
    moved, n_near = with_beginnings(moved, near.count)
    made = Program(moved, team.program.locals, n_near, near.taken)
    given_pieces = {own for own, _ in left.starts}
    copied = [r for r in sorted(team.into) if bisect_right(taken, r) - 1 not in given_pieces]
    return Part(
        made,
        True,
        tuple((common.row(r), near.row(r)) for r in copied),
        tuple((near.row(r), common.row(r)) for r in sorted(team.back)),
        team.far.count,
        tuple(common.row(slot.item) for slot in piece.weights),
        given=left,
    )


class _Piece(NamedTuple):
    """Some blocks, and whether a team does what they say."""

    blocks: Blocks
    team: bool = False
    weights: tuple[Slot, ...] = ()


def _pieces(program: Program) -> list[_Piece]:
    """The blocks between teams, and teams."""
    pieces, own = list[_Piece](), list[Block]()
    for block in program.blocks:
        if isinstance(block, Team | Spread):
            pieces += [_Piece(tuple(own))]
            own = []
            pieces += [_Piece((block,)) if isinstance(block, Spread) else _Piece(block.body, True, block.weights)]
        else:
            own.append(block)
    return [piece for piece in (*pieces, _Piece(tuple(own))) if piece.blocks]


def _may_run_beside(before: _Piece, own: _Piece, touches: Sequence[Touched]) -> bool:
    """Whether what comes after something that all threads share has nothing to do with it."""
    if not isinstance(before.blocks[0], Spread) or isinstance(own.blocks[0], Spread):
        return False
    first, second = touches
    return not (second.reads & first.writes or second.writes & (first.reads | first.writes))


def _rows(cells: set[tuple[str, int]]) -> Iterator[int]:
    return (row for arena, row in cells if arena == SCRATCH)


def _written_elsewhere(own: Touched, touches: Sequence[Touched]) -> set[int]:
    return {row for t in touches if t is not own for row in _rows(t.writes)}


def _read_elsewhere(own: Touched, touches: Sequence[Touched]) -> set[int]:
    return {row for t in touches if t is not own for row in _rows(t.reads)}


def _exchanged(own: Touched, touches: Sequence[Touched]) -> set[int]:
    """Rows through which a team and others speak to each other."""
    return own.rows() & (_written_elsewhere(own, touches) | _read_elsewhere(own, touches))


def _share_locals(program: Program) -> Program:
    """Local arrays that several parts have become scratch memory, and those that the rows of a team's loops share."""
    users = Counter(name for piece in _pieces(program) for name in touched(program, piece.blocks).locals)
    for piece in _pieces(program):
        if piece.team:
            users.update(2 * _seen_by_rows(program, piece.blocks))
    starts: dict[str, int] = {}
    end = program.n_scratch
    for name, count in program.locals.items():
        if users[name] > 1:
            starts[name], end = end, end + count
    blocks = _moved(program.blocks, lambda row: row, starts)
    left = {name: count for name, count in program.locals.items() if name not in starts}
    return replace(
        program, blocks=blocks, locals=left, n_scratch=end, taken=(*(program.taken or (0,)), *starts.values())
    )


def _seen_by_rows(program: Program, blocks: Blocks) -> list[str]:
    """Local arrays that the rows of a loop have in common with each other, or with what is around the loop."""
    around = {slot.array for line in outside_loops(blocks) for slot in line.slots()}
    users = Counter(name for loop in loops_in(blocks) for name in touched(program, (loop,)).locals)
    named = {arena for loop in loops_in(blocks) for case in loop.cases for arena, _ in case.arrays.values()}
    return [name for name, count in users.items() if name in around or name in named or count > 1]


def _moved(
    blocks: Blocks,
    row: Callable[[int], int],
    shared: Mapping[str, int] | None = None,
    elsewhere: Elsewhere = (),
) -> Blocks:
    """Blocks with their scratch memory elsewhere, some of it far away; some local arrays become part of it."""
    shared = shared or {}

    def slot(old: Slot) -> Slot:
        if old.array in shared:
            return Slot(SCRATCH, shared[old.array] + old.item, old.index)
        if old.array != SCRATCH:
            return old
        name, move = next(((n, p.row) for n, p in elsewhere if p.has(old.item)), (SCRATCH, row))
        return Slot(name, move(old.item), old.index)

    def line(old: Line) -> Line:
        instructions = tuple(i if i.slot is None else i._replace(slot=slot(i.slot)) for i in old.instructions)
        return Line(instructions, tuple(s._replace(slot=slot(s.slot)) for s in old.stores))

    result: list[Block] = []
    for block in blocks:
        match block:
            case Line():
                result.append(line(block))
            case Loop():
                result.append(_moved_loop(block, row, shared, elsewhere))
            case Count():
                result.append(replace(block, count=slot(block.count), body=_moved(block.body, row, shared, elsewhere)))
            case Repeat():
                result.append(replace(block, again=slot(block.again), body=_moved(block.body, row, shared, elsewhere)))
            case If():
                result.append(replace(block, flag=slot(block.flag), body=_moved(block.body, row, shared, elsewhere)))
            case Solve() | Arrange():
                result.append(block.moved(slot))
            case Choose():
                result.append(replace(block, list=slot(block.list), used=slot(block.used)))
            case Next():
                result.append(replace(block, counter=slot(block.counter), to=slot(block.to)))
            case Spread():
                *tests, work = (_moved_loop(loop, row, shared, elsewhere) for loop in block.loops)
                result.append(replace(block, tests=tuple(tests), work=work))
            case Team():
                own = tuple(map(slot, block.weights))
                result.append(replace(block, body=_moved(block.body, row, shared, elsewhere), weights=own))
    return tuple(result)


def _moved_loop(loop: Loop, row: Callable[[int], int], shared: Mapping[str, int], elsewhere: Elsewhere) -> Loop:
    ints, kinds = loop.ints.copy(), loop.case_of_row()
    cases = []
    for number, case in enumerate(loop.cases):
        chosen = np.flatnonzero(kinds == number)
        arrays = dict(case.arrays)
        for array, (arena, column) in case.arrays.items():
            old = loop.ints[chosen, column].tolist()
            if arena in shared:
                ints[chosen, column] += shared[arena]
                arrays[array] = SCRATCH, column
            elif arena == SCRATCH:
                name, move = next(((n, p.row) for n, p in elsewhere if old and p.has(old[0])), (SCRATCH, row))
                ints[chosen, column] = [move(x) for x in old]
                arrays[array] = name, column
        cases.append(replace(case, blocks=_moved(case.blocks, row, shared, elsewhere), arrays=arrays))
    sums = tuple((own, total._replace(item=row(total.item))) for own, total in loop.sums)
    return replace(loop, ints=ints, cases=tuple(cases), sums=sums)


def far_rows(program: Program, blocks: Blocks, only: set[int] | None = None) -> set[int]:
    """Rows of lists that are looked up at computed indices, if these are long; all that the same code may look at.

    With `only`, of lists that have some of these rows.
    """
    taken = list(program.taken) or [0]
    groups = _Groups(len(taken))
    distant = {bisect_right(taken, row) - 1 for row in program.distant}
    long = set(distant)
    near: set[int] = set()
    for line in outside_loops(blocks):
        near |= {bisect_right(taken, slot.item) - 1 for slot in line.slots() if slot.array == SCRATCH} - distant
    for loop in every_loop(blocks):
        kinds = loop.case_of_row()
        for number, case in enumerate(loop.cases):
            indexed = {slot.array for line in lines(case.blocks) for slot in line.slots() if slot.index is not None}
            for array, (arena, column) in case.arrays.items():
                pieces = {bisect_right(taken, x) - 1 for x in loop.ints[kinds == number, column].tolist()}
                if arena == SCRATCH and pieces:
                    groups.join(pieces)
                    wide = (end_of(program, taken[piece]) - taken[piece] > LONG for piece in pieces)
                    long |= pieces if array in indexed and any(wide) else set()
    kept = {groups.of(piece) for piece in near}
    chosen = {groups.of(piece) for piece in long} - kept
    if only is not None:
        chosen &= {groups.of(bisect_right(taken, row) - 1) for row in only}
    return {
        row
        for piece in range(len(taken))
        if groups.of(piece) in chosen
        for row in range(taken[piece], end_of(program, taken[piece]))
    }


class _Groups:
    """Things that belong together."""

    def __init__(self, count: int) -> None:
        self._above = list(range(count))

    def of(self, item: int) -> int:
        """One that stands for all of its group."""
        while self._above[item] != item:
            self._above[item] = item = self._above[self._above[item]]
        return item

    def join(self, items: Iterable[int]) -> None:
        """Make some of one group."""
        first, *others = [self.of(item) for item in items]
        for other in others:
            self._above[self.of(other)] = self.of(first)

"""How long the pieces of a program's scratch memory are needed, so that one can take the place of another.

Time is the order of the blocks. What a repeated body reads before it has written all of it came from the turn before,
and is needed all the while.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from .blocks import Blocks, Count, If, Line, Loop, Repeat
from .equations import Arrange, Choose, Solve, whole
from .program import Program
from .slots import SCRATCH
from .staying import Touched, touched

LONG = 8
"""Numbers of a piece of which four may be read at once."""


@dataclass(slots=True)
class Span:
    """When a piece is touched first, and last."""

    first: int
    last: int

    def reach(self, first: int, last: int) -> None:
        """From there, or to there, too."""
        self.first, self.last = min(self.first, first), max(self.last, last)


@dataclass(slots=True)
class _Moment:
    """A line or a loop, and what it touches."""

    touched: Touched
    surely: set[int]
    """Rows of the scratch memory that it writes whenever it comes to it."""
    conditions: int
    """That have to hold for that."""


@dataclass(slots=True)
class _Body:
    """What is repeated: its moments, from the first to the last."""

    first: int
    last: int
    conditions: int


def spans(program: Program, given: set[int], wanted: set[int]) -> dict[int, Span]:
    """Of each piece, by its number, when it is needed: what is `given` from the start, `wanted` to the end."""
    moments: list[_Moment] = []
    bodies: list[_Body] = []
    _walk(program, program.blocks, moments, bodies, 0)
    taken = list(program.taken) or [0]
    found: dict[int, Span] = {}
    for time, moment in enumerate(moments):
        for arena, row in moment.touched.reads | moment.touched.writes:
            if arena == SCRATCH:
                piece = bisect_right(taken, row) - 1
                found.setdefault(piece, Span(time, time)).reach(time, time)
    for body in bodies:  # inner ones first
        _stretch(body, moments, taken, found)
    for rows, time in ((given, 0), (wanted, len(moments))):
        for piece in {bisect_right(taken, row) - 1 for row in rows} & found.keys():
            found[piece].reach(time, time)
    return found


def _walk(program: Program, blocks: Blocks, moments: list[_Moment], bodies: list[_Body], conditions: int) -> None:
    for block in blocks:
        if isinstance(block, Line | Loop | Solve | Arrange | Choose):
            moments.append(_Moment(touched(program, (block,)), set(_surely((block,))), conditions))
            continue
        assert isinstance(block, Repeat | Count | If), "that is not part of a team"
        first, decides = len(moments), _Moment(touched(program, (_condition(block),)), set(), conditions)
        moments.append(decides)
        _walk(program, block.body, moments, bodies, conditions + (not isinstance(block, Repeat)))
        moments.append(decides)
        if isinstance(block, Repeat | Count):
            bodies.append(_Body(first, len(moments) - 1, conditions + isinstance(block, Count)))


def _condition(block: Repeat | Count | If) -> Repeat | Count | If:
    """What decides, without what is done."""
    return replace(block, body=())


def _surely(blocks: Blocks) -> Iterator[int]:
    """Rows that are written whatever happens: not within conditions, and not at a computed index."""
    for block in blocks:
        if isinstance(block, Line):
            yield from (s.slot.item for s in block.stores if s.slot.array == SCRATCH and s.slot.index is None)
        elif isinstance(block, Solve):
            yield from range(block.result.item, block.result.item + block.size)
            yield from range(block.work.item, block.work.item + max(2 * whole(block.size), block.n_work))
        elif isinstance(block, Loop) and not block.within:
            kinds = block.case_of_row()
            for number, case in enumerate(block.cases):
                stores = [s.slot for line in case.blocks if isinstance(line, Line) for s in line.stores]
                for slot in stores:
                    arena, column = case.arrays.get(slot.array, ("", 0))
                    if arena == SCRATCH and slot.index is None:
                        yield from (block.ints[kinds == number, column] + slot.item).tolist()


def _stretch(body: _Body, moments: Sequence[_Moment], taken: list[int], found: dict[int, Span]) -> None:
    """What lasts from turn to turn lasts as long as the turns do."""
    written: set[int] = set()
    lasting: set[int] = set()
    for moment in moments[body.first : body.last + 1]:
        lasting |= {row for arena, row in moment.touched.reads if arena == SCRATCH and row not in written}
        written |= moment.surely if moment.conditions == body.conditions else set()
    # what is written only now and then keeps what it had
    lasting |= {
        row
        for moment in moments[body.first : body.last + 1]
        for arena, row in moment.touched.writes
        if arena == SCRATCH and row not in written
    }
    for piece in {bisect_right(taken, row) - 1 for row in lasting}:
        found[piece].reach(body.first, body.last)
    for span in found.values():  # what is used outside as well is there all the while
        touches_inside = span.first <= body.last and span.last >= body.first
        if touches_inside and (span.first < body.first or span.last > body.last):
            span.reach(body.first, body.last)


def placed(sizes: dict[int, int], found: dict[int, Span]) -> tuple[dict[int, int], int]:
    """Where each piece goes, and how much that takes: in the first gap among those that are needed meanwhile."""
    starts: dict[int, int] = {}
    end = 0
    # what is needed equally long lies in the order in which it was taken: mostly that in which it is computed
    order = sorted(found, key=lambda piece: (found[piece].first - found[piece].last, sizes[piece] < LONG, piece))
    busy: list[tuple[int, int, int, int]] = []
    for piece in order:
        span, start, size = found[piece], 0, sizes[piece]
        others = sorted((a, b) for a, b, first, last in busy if first <= span.last and last >= span.first)
        for a, b in others:
            if a - start >= size:
                break
            start = max(start, whole(b) if size >= LONG else b)
        starts[piece] = start
        busy.append((start, start + size, span.first, span.last))
        end = max(end, start + size)
    return starts, end

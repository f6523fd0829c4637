"""What lines leave to a team, and where it lies: so that a team reads it four numbers at a time.

A team reads one environment, and so one number of each row of what 32 environments left row by row: as many lines of
the cache as there are numbers. Of rows in groups of eight, an environment's numbers lie together instead. They are in
the order in which they lie in the team's own memory, so that four at a time go there as they are.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from .blocks import Blocks, Line, lines
from .packing import Packing
from .program import Program
from .slots import SCRATCH

FOUR, GROUP = 4, 8
"""Numbers that are read or written at once, and rows of which those of an environment lie together: a sector of the
cache."""
WIDEST = 16
"""Bytes that a thread reads or writes at once, at most."""


@dataclass(frozen=True, slots=True)
class Given:
    """Where pieces are that lines leave to a team."""

    first: int = 0
    """The row of the common scratch memory at which they begin."""
    starts: tuple[tuple[int, int], ...] = ()
    """Pieces, and the rows at which they are."""
    fours: tuple[int, ...] = ()
    """Where each four rows go in the team's memory."""

    @property
    def end(self) -> int:
        """The row behind them."""
        return self.first + -(-len(self.fours) * FOUR // GROUP) * GROUP


NOTHING = Given()


def given(program: Program, rows: set[int], others: set[int], near: Packing, first: int) -> Given:
    """Some rows that lines leave to a team, as far as all of a piece may be among them.

    Args:
        program: what has the pieces.
        rows: those that others write, and a team reads.
        others: rows that are touched in other ways than by lines and the team.
        near: where the team has them.
        first: the row at which they are to begin.
    """
    taken = list(program.taken) or [0]
    pieces = {bisect_right(taken, row) - 1 for row in rows} - {bisect_right(taken, row) - 1 for row in others}
    ends = [*taken[1:], program.n_scratch]
    places = {piece: near.row(taken[piece]) for piece in sorted(pieces)}
    sizes = {piece: ends[piece] - taken[piece] for piece in pieces}
    fours = sorted({place // FOUR for piece, start in places.items() for place in range(start, start + sizes[piece])})
    number = {four: i for i, four in enumerate(fours)}
    starts = ((piece, first + number[start // FOUR] * FOUR + start % FOUR) for piece, start in places.items())
    return Given(first, tuple(starts), tuple(four * FOUR for four in fours))


def is_straight(blocks: Blocks) -> bool:
    """Whether it is known where in the scratch memory each number is that blocks name."""
    if not all(isinstance(block, Line) for block in blocks):
        return False
    slots = (slot for line in lines(blocks) for slot in line.slots())
    return all(slot.index is None for slot in slots if slot.array == SCRATCH)


def offset(row: int, width: int) -> int:
    """How many numbers a row is from where an environment's first is, among so many environments."""
    return row // GROUP * GROUP * width + row % GROUP

"""The pieces of scratch memory that something touches, one behind the other."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from copy import copy

from .lifetimes import Span, placed
from .program import Program


class Packing:
    """The pieces of a program's scratch memory that are touched, without the others.

    Where it is known when each of them is needed, one takes the place of another.
    """

    def __init__(
        self,
        program: Program,
        rows: set[int],
        lasting: Mapping[int, Span] | None = None,
        *,
        known: Mapping[int, int] | None = None,
        first: int = 0,
    ) -> None:
        """Where some pieces go may be `known`, by their numbers; the others come behind the `first` rows."""
        known = known or {}
        self._old = list(program.taken) or [0]
        ends = [*self._old[1:], program.n_scratch]
        used = sorted({bisect_right(self._old, row) - 1 for row in rows} - known.keys())
        sizes = {piece: ends[piece] - self._old[piece] for piece in used}
        always = {piece: Span(0, 0) for piece in used}
        found, count = placed(sizes, always if lasting is None else {piece: lasting[piece] for piece in used})
        self._new = {**known, **{piece: first + start for piece, start in found.items()}}
        self.count = first + count
        self.taken = tuple(sorted(set(self._new.values())))

    @classmethod
    def some(cls, other: Packing, rows: set[int]) -> Packing:
        """Another one's, of some pieces alone."""
        made = copy(other)
        kept = {bisect_right(other._old, row) - 1 for row in rows}
        made._new = {piece: start for piece, start in other._new.items() if piece in kept}
        return made

    def has(self, row: int) -> bool:
        """Whether it is among them."""
        return bisect_right(self._old, row) - 1 in self._new

    def row(self, row: int) -> int:
        """Where a row has moved to; what is never touched may go anywhere."""
        piece = bisect_right(self._old, row) - 1
        return self._new.get(piece, 0) + row - self._old[piece]

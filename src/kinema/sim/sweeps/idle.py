"""Trees for which nothing is to be computed: those that sleep, or whose forces are found already.

Each tree has a mark; rows of a table that belong to a tree look there first. Only what others may need to know of a
tree, where it is, is always computed (`Idle.everybody`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kinema.model import Model
from kinema.trace import Column, Place, RowCode, Value

from ..frames import WORLD, trees_of_frames
from .tree import Ints

IDLE = "idle"
"""What rows call the mark of their tree."""


class Idle:
    """The marks of all trees, one after the other from a place on."""

    def __init__(self, model: Model, first: Place) -> None:
        self._tree_of = trees_of_frames(model)
        self._first = first
        self.paused = False
        """Whether rows look at no marks for now."""

    def of(self, tree: int) -> Place:
        """The mark of a tree."""
        return Place(self._first.arena, self._first.row + tree)

    def of_each(self, trees: Ints) -> Column:
        """The marks of many trees."""
        return Column(self._first.arena, self._first.row + trees)

    def of_frame(self, frame: int) -> dict[str, Place]:
        """The mark that a frame's rows look at."""
        return {} if self.paused or frame == WORLD else {IDLE: self.of(self._tree_of[frame])}

    @contextmanager
    def everybody(self) -> Iterator[None]:
        """What is recorded meanwhile is computed for all trees."""
        self.paused = True
        yield
        self.paused = False


def guarded(code: RowCode, body: Callable[[RowCode], None]) -> None:
    """Run the code of a row unless its tree is idle."""
    if not code.holds(IDLE):
        body(code)
        return

    def run() -> list[Value]:
        body(code)
        return []

    code.recorder.where("not idle", code.read(IDLE), 0.5, run, [])

"""Sets that grow together."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class DisjointSets(Generic[T]):
    """Which of some things belong together; each thing starts alone."""

    def __init__(self, things: Iterable[T]) -> None:
        self._above = {thing: thing for thing in things}

    def find(self, thing: T) -> T:
        """The one thing that stands for the whole set."""
        above = self._above
        while above[thing] != thing:
            above[thing] = above[above[thing]]
            thing = above[thing]
        return thing

    def unite(self, a: T, b: T) -> None:
        """Make one set of two; the first one's representative stays."""
        self._above[self.find(b)] = self.find(a)

    def same(self, a: T, b: T) -> bool:
        """Whether two things are in one set."""
        return self.find(a) == self.find(b)

    def sets(self) -> list[list[T]]:
        """All sets, and their things, in the order in which the things were given."""
        gathered: dict[T, list[T]] = {}
        for thing in self._above:
            gathered.setdefault(self.find(thing), []).append(thing)
        return list(gathered.values())

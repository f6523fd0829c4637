"""Where what parts have is, under the names that rows call it by: rows of large models look for it, never list it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from itertools import takewhile

import numpy as np
import numpy.typing as npt

from kinema.trace import Column, Place

from .tree import Forest, Parts, Ref


class _Having:
    """The parts that have something, and where."""

    def __init__(self, arena: str) -> None:
        self.arena = arena
        self.rows: dict[int, int] = {}
        self._starts: npt.NDArray[np.int64] | None = None

    def note(self, part: int, place: Place) -> None:
        assert place.arena == self.arena, "one arena for each array"
        self.rows[part] = place.row
        self._starts = None

    def starts(self) -> npt.NDArray[np.int64]:
        """Of all parts, the world first: where it is, or -1."""
        if self._starts is None:
            self._starts = np.full(max(self.rows) + 2, -1, np.int64)
            self._starts[np.array([*self.rows]) + 1] = [*self.rows.values()]
        return self._starts


class KnownPlaces:
    """Of each part the places of all that it has."""

    def __init__(self) -> None:
        self._of: dict[Ref, dict[str, Place]] = {}
        self._numbers: dict[Ref, dict[str, int]] = {}
        self._having: dict[tuple[bool, str], _Having] = {}
        self.count = 0
        """How many places there are."""

    def note(self, ref: Ref, name: str, place: Place) -> None:
        """A part has something new."""
        self._of.setdefault(ref, {})[name] = place
        self._numbers.setdefault(ref, {})[name] = self.count
        self.count += 1
        if isinstance(ref.index, int):
            key = ref.forest is Forest.FRAMES, name
            having = self._having.get(key)
            if having is None:
                having = self._having[key] = _Having(place.arena)
            having.note(ref.index, place)

    def first(self, ref: Ref, count: int) -> Iterator[str]:
        """What a part had when there were so many places."""
        numbers = self._numbers.get(ref, {})
        return takewhile(lambda name: numbers[name] < count, self.of(ref))

    def of(self, ref: Ref) -> Mapping[str, Place]:
        """All that a part has."""
        return self._of.get(ref, {})

    def column(self, parts: Parts, name: str) -> Column | None:
        """Where each of some parts has something; None unless all of them have it."""
        having = self._having.get((parts.forest is Forest.FRAMES, name))
        if having is None:
            return None
        starts = having.starts()
        if parts.last + 2 > len(starts):
            return None
        rows = starts[parts.index + 1]
        return Column(having.arena, rows) if (rows >= 0).all() else None


class RowPlaces(MutableMapping[str, Place]):
    """Where a row finds arrays: its own, all that the parts have that it speaks of, and those of the environment."""

    __slots__ = ("_count", "_known", "_later", "_of_all", "_own", "_targets")

    def __init__(
        self, own: Mapping[str, Place], targets: Mapping[str, Ref], known: KnownPlaces, of_all: Mapping[str, Place]
    ) -> None:
        self._own = dict(own)
        self._targets = targets
        self._known = known
        self._of_all = of_all
        self._count = known.count
        self._later: dict[str, Place] = {}

    @property
    def own(self) -> Mapping[str, Place]:
        """The row's own."""
        return self._own

    def _found(self, name: str) -> Place | None:
        place = self._later.get(name) or self._own.get(name) or self._of_all.get(name)
        if place is not None:
            return place
        for word, ref in self._targets.items():
            if name.startswith(word):
                place = self._known.of(ref).get(name[len(word) :])
                if place is not None:
                    return place
        return None

    def __getitem__(self, name: str) -> Place:
        place = self._found(name)
        if place is None:
            raise KeyError(name)
        return place

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._found(name) is not None

    def __setitem__(self, name: str, place: Place) -> None:
        self._later[name] = place

    def __delitem__(self, name: str) -> None:
        del self._later[name]

    def __iter__(self) -> Iterator[str]:
        """In the order in which they came to be known."""
        yield from dict.fromkeys(self._names())

    def _names(self) -> Iterator[str]:
        yield from self._own
        for word, ref in self._targets.items():
            yield from (word + name for name in self._known.first(ref, self._count))
        yield from self._of_all
        yield from self._later

    def __len__(self) -> int:
        return sum(1 for _ in self)

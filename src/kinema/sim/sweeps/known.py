"""Where what parts have is, under the names that rows call it by; gathered as it comes, for rows ask often."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from kinema.trace import Place

from .tree import Ref


class KnownPlaces:
    """Of each part the places of all that it has."""

    def __init__(self) -> None:
        self._of: dict[Ref, dict[str, Place]] = {}
        self._called: dict[tuple[str, Ref], dict[str, Place]] = {}

    def note(self, ref: Ref, name: str, place: Place) -> None:
        """A part has something new."""
        self._of.setdefault(ref, {})[name] = place

    def under(self, word: str, ref: Ref) -> Mapping[str, Place]:
        """All that a part has, under names that start with a word."""
        own = self._of.get(ref, {})
        if not word:
            return own
        made = self._called.setdefault((word, ref), {})
        for name, place in islice(own.items(), len(made), None):
            made[word + name] = place
        return made

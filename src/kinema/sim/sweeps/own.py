"""Numbers of rows, or where each environment has its own of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from kinema.model import Model
from kinema.trace import Own, Place

from ..arrays import OWN as ARRAY


class Placed(Protocol):
    """A model, and where its arrays are."""

    model: Model
    places: Mapping[str, Place]


def with_own(s: Placed, table: str, part: int | str, numbers: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers of a part, those that are read from the array replaced by where they are there."""
    result = dict(numbers)
    own, place = s.model.own, s.places.get(ARRAY)
    if own is None or place is None:
        return result
    for word in result:
        found = own.words.get((table, part, word))
        if found is not None:
            result[word] = Own(Place(place.arena, place.row + found.start), found.known)
    return result

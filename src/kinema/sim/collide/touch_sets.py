"""What may touch between two frames, with the places of it: one by one, and by column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kinema.trace import Column, Place

from ..sweeps.tree import Forest, Ints, Parts
from .planned import PlannedSet, SetKind


@dataclass(frozen=True, slots=True, eq=False)
class TouchSet:
    """A set, and where it is."""

    plan: PlannedSet
    contacts: Place
    count: Place
    near: Place
    """Whether the frames are near enough to look closer."""
    lost: Place
    """How many contacts there was no room for."""
    held: Place | None = None
    """Of each contact what it keeps where friction is to hold without slip (`n_held`)."""

    @property
    def kind(self) -> SetKind:
        """What decides which code it runs."""
        return self.plan.kind


@dataclass(frozen=True, slots=True, eq=False)
class SetColumns:
    """Sets of one kind: which they are, and where."""

    kind: SetKind
    at: npt.NDArray[np.intp]
    sets: Sequence[TouchSet]
    places: Mapping[str, Column]
    frames: Sequence[Parts]
    """The first and second of each."""
    trees: Ints
    """Of the second."""


def set_columns(kind: SetKind, at: Sequence[int], sets: Sequence[TouchSet], trees: Sequence[int]) -> SetColumns:
    """Those of some sets of a kind, which are at some places of a loop; `trees` are those of all frames."""
    columns = {
        "contacts": [x.contacts for x in sets],
        "count": [x.count for x in sets],
        "near": [x.near for x in sets],
        "own lost": [x.lost for x in sets],
        "held": [x.held for x in sets if x.held is not None],
    }
    places = {name: Column.of(own) for name, own in columns.items() if own}
    ends = np.array([x.plan.frames for x in sets], np.int64)
    frames = [Parts(Forest.FRAMES, ends[:, i]) for i in range(2)]
    return SetColumns(kind, np.array(at, np.intp), sets, places, frames, np.array(trees)[ends[:, 1]])

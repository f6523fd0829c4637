"""The scratch memory of a run: who has which rows of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kinema.trace import SCRATCH, Place

N_FIXED = 128
"""Rows at the start of the scratch memory that are kept for what is named outside of loops."""


class Scratch:
    """Memory that is taken piece by piece, and never given back."""

    def __init__(self) -> None:
        self.n_scratch = N_FIXED
        self._n_taken = 0
        self.taken = [0]
        """Where pieces of the scratch memory start."""
        self.distant: set[int] = set()
        """Those of them that are lists with room for more than they mostly hold."""

    def take(self, count: int, *, distant: bool = False) -> Place:
        """Rows of the scratch memory that nobody has; what is distant is a list that is mostly not full."""
        place = Place(SCRATCH, self.n_scratch)
        if distant:
            self.distant.add(place.row)
        self.taken.append(self.n_scratch)
        self.n_scratch += count
        return place

    def take_many(self, counts: Sequence[int]) -> list[Place]:
        """Likewise, many pieces one behind the other."""
        ends = np.cumsum([self.n_scratch, *counts]).tolist()
        self.taken += ends[:-1]
        self.n_scratch = ends[-1]
        return [Place(SCRATCH, row) for row in ends[:-1]]

    def take_fixed(self, count: int) -> Place:
        """Rows that code outside of loops names: the same for all models, so that these share the code."""
        if self._n_taken + count > N_FIXED:
            return self.take(count)
        self._n_taken += count
        return Place(SCRATCH, self._n_taken - count)

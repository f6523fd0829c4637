"""Which shapes are found by a grid of cells, and the table of their pairs: arrays of a model, nothing of a step.

Shapes of about the same size are in cells as wide as the largest of them, so that those that touch are in cells beside
each other. What is much larger, and what has no end, is looked at pair by pair.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from kinema.foundation import Array
from kinema.model import ABSENT, Model

LARGER = 3.0
"""How much larger than the usual one a shape is at most."""
MOST_SHAPES = 1500
"""For how many there is a table: it has a number for each two."""
WORTH_CELLS = 10_000
"""Pairs from which on cells are quicker than a look at each pair's boxes."""
NEARLY_ALL = 0.9
"""Share of the pairs that cells must be good for."""
ENDLESS = ("plane", "height field")
"""Kinds that a box says nothing about."""


def gridded(model: Model) -> list[int]:
    """The shapes that are in cells, in order; none where there are too many."""
    geoms, pairs = model.geoms, model.pairs
    own = np.unique(np.concatenate([pairs.geom_a, pairs.geom_b])).tolist()
    sizes = {g: float(geoms.radius[g]) for g in own if geoms.kinds[g] not in ENDLESS}
    sizes = {g: size for g, size in sizes.items() if math.isfinite(size) and size != ABSENT}
    most = LARGER * float(np.median([*sizes.values()])) if sizes else 0.0
    found = [g for g, size in sizes.items() if size <= most]
    return found if len(found) <= MOST_SHAPES else []


def pair_table(model: Model) -> Array:
    """For each two of the shapes in cells the number of their pair; -1 where there is none."""
    shapes = gridded(model)
    place = np.full(len(model.geoms.names), -1, np.intp)
    place[shapes] = np.arange(len(shapes))
    a, b = place[model.pairs.geom_a], place[model.pairs.geom_b]
    both = np.flatnonzero((a >= 0) & (b >= 0))
    table = np.full((len(shapes), len(shapes)), -1.0)
    table[a[both], b[both]] = table[b[both], a[both]] = both
    return table.ravel()


def is_gridded(model: Model) -> npt.NDArray[np.bool_]:
    """Of each pair whether both of its shapes are in cells."""
    own = np.zeros(len(model.geoms.names), np.bool_)
    own[gridded(model)] = True
    return own[model.pairs.geom_a] & own[model.pairs.geom_b]


def is_worth_cells(model: Model) -> bool:
    """Whether there are so many pairs, nearly all of shapes that are in cells, that cells pay."""
    return len(model.pairs.geom_a) >= WORTH_CELLS and bool(is_gridded(model).mean() >= NEARLY_ALL)


def can_be_gridded(model: Model) -> bool:
    """Whether cells can find all pairs: the table of pairs has room for one of each two shapes."""
    keys = np.sort(np.stack([model.pairs.geom_a, model.pairs.geom_b], axis=1), axis=1)
    return bool(gridded(model)) and len(np.unique(keys, axis=0)) == len(keys)

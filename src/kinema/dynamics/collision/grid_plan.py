"""Plan of the grid of the broad phase from the model alone: levels of geoms of similar size, and excluded pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kinema.core import Array
from kinema.model import Model

LEVEL_RATIO = 2.0
"""Ratio of the sizes of the geoms of a level."""
MIN_GEOMS_OF_LEVEL = 24
"""Number of geoms of a level from which on it has cells."""
MIN_GRID_SIZE, MAX_GRID_SIZE = 4, 32
"""Cells of a grid along an axis: powers of two; from 4 on, the neighbours of a cell are distinct."""
GEOM_ARRAY, CLASS_ARRAY, EXCLUDED_ARRAY = "broad_phase_geoms", "broad_phase_classes", "broad_phase_excluded"
"""Names of the arrays with the values of geoms, of every two classes, and the excluded pairs."""


@dataclass(frozen=True, slots=True)
class GridLevel:
    """Geoms of similar size, consecutive in the order of the broad phase."""

    first: int
    end: int
    """Positions of the geoms of the level."""
    half_extent: float
    """Upper bound of the half extent of their AABBs along any axis [m]."""

    @property
    def size(self) -> int:
        """Cells of the grid along an axis."""
        size = 2 ** math.ceil(math.log2(max(self.end - self.first, 1)) / 3.0)
        return min(max(size, MIN_GRID_SIZE), MAX_GRID_SIZE)


def plan_levels(half_extents: Sequence[float]) -> tuple[list[int], list[GridLevel]]:
    """Order of geoms for the broad phase, and levels of those in a grid; the others follow at the end.

    `half_extents` are upper bounds of the half extents of the AABBs [m]; infinite for geoms without bounds.
    """
    finite = [x for x in half_extents if math.isfinite(x) and x > 0.0]
    smallest = min(finite, default=1.0)
    by_level: dict[int, list[int]] = {}
    direct = []
    for geom, half in enumerate(half_extents):
        if math.isfinite(half) and half > 0.0:
            by_level.setdefault(int(math.log(half / smallest, LEVEL_RATIO)), []).append(geom)
        else:
            direct.append(geom)
    order: list[int] = []
    levels = []
    for _, geoms in sorted(by_level.items()):
        if len(geoms) < MIN_GEOMS_OF_LEVEL:
            direct += geoms
            continue
        levels.append(GridLevel(len(order), len(order) + len(geoms), max(half_extents[g] for g in geoms)))
        order += geoms
    return order + sorted(direct), levels


def broad_phase_order(model: Model) -> tuple[list[int], list[GridLevel]]:
    """Order of the geoms of a model for the broad phase, and the levels of its grid."""
    from .local_aabbs import UNBOUNDED_TYPES, max_aabb_half_extent  # needs the tracer, which a cached start does not

    geoms = range(len(model.geoms.names))
    return plan_levels(
        [math.inf if model.geoms.types[g] in UNBOUNDED_TYPES else max_aabb_half_extent(model, g) for g in geoms]
    )


def excluded_values(model: Model) -> Array:
    """For each geom the range of its excluded partners in the list that follows; empty if no pair is excluded."""
    excluded = model.pair_rules.excluded
    if not len(excluded):
        return np.zeros(0)
    n = len(model.geoms.names)
    both = np.concatenate([excluded, excluded[:, ::-1]])
    both = both[np.lexsort((both[:, 1], both[:, 0]))]
    counts = np.bincount(both[:, 0], minlength=n)
    starts = 2 * n + np.cumsum(counts) - counts
    return np.concatenate([np.column_stack([starts, counts]).ravel(), both[:, 1]]).astype(np.float64)

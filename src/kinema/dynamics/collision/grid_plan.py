"""Plan of the grid of the broad phase from the model alone: levels of geoms of similar size, and excluded pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from kinema.core import Array
from kinema.model import Model

LEVEL_RATIO = 2.0
"""Ratio of the sizes of the geoms of a level."""
MIN_GEOMS_OF_LEVEL = 24
"""Number of geoms of a level from which on it has cells."""
MIN_CELLS, MAX_CELLS = 64, 65536
"""Entries of the table of cells, a power of two: at least two per geom, up to the limit, below which products of cell
coordinates and steps are exact in single precision."""
N_CELLS_OF_ROW = 3
"""Neighbouring cells along x, which have consecutive indices."""
STEP_RATIOS = 0.618034, 0.754878
"""Steps of the index of a cell along y and z, relative to the number of cells; irrational, so that rows of cells are
spread evenly whatever the shape of the scene."""
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
    def n_cells(self) -> int:
        """Entries of the table of cells."""
        return min(max(2 ** math.ceil(math.log2(2 * (self.end - self.first))), MIN_CELLS), MAX_CELLS)

    @property
    def steps(self) -> tuple[int, int]:
        """Steps of the index of a cell along y and z; rows of three cells around a cell have distinct indices."""
        return _find_steps(self.n_cells)


@lru_cache(32)
def _find_steps(n_cells: int) -> tuple[int, int]:
    offsets = [(i, j) for i in range(-2, 3) for j in range(-2, 3) if i or j]
    for distance in range(n_cells):
        for y, z in ((distance, 0), (0, distance), (distance, distance)):
            along_y, along_z = (int(ratio * n_cells) + x for ratio, x in zip(STEP_RATIOS, (y, z), strict=True))
            apart = [(i * along_y + j * along_z) % n_cells for i, j in offsets]
            if min(min(x, n_cells - x) for x in apart) >= N_CELLS_OF_ROW:
                return along_y % n_cells, along_z % n_cells
    raise AssertionError("no steps keep the neighbours of a cell apart")


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

    geoms = model.geoms
    columns = (map(tuple, geoms.size.tolist()), geoms.radius.tolist(), geoms.data_start.tolist())
    shapes = zip(geoms.types, *columns, strict=True)
    half_extents: list[float] = []
    half_extent_of_shape: dict[tuple, float] = {}
    for geom, shape in enumerate(shapes):
        if shape not in half_extent_of_shape:
            is_bounded = geoms.types[geom] not in UNBOUNDED_TYPES
            half_extent_of_shape[shape] = max_aabb_half_extent(model, geom) if is_bounded else math.inf
        half_extents.append(half_extent_of_shape[shape])
    return plan_levels(half_extents)


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

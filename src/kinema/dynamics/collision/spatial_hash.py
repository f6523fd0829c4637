"""Selection of the geoms, and the pair table, of the spatial-hash broad phase, from the model alone.

Geoms of similar size are assigned to grid cells as wide as the largest of them, so that overlapping geoms are in
neighbouring cells. Pairs with much larger or unbounded geoms are tested individually.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from kinema.core import Array
from kinema.model import ABSENT_RADIUS, Model

MAX_SIZE_RATIO = 3.0
"""Maximum bounding radius of a hashed geom, relative to the median radius."""
MAX_HASHED_GEOMS = 1500
"""Maximum number of hashed geoms; the pair table has n^2 entries."""
MIN_PAIRS_FOR_HASH = 10_000
"""Number of pairs above which the spatial hash is faster than testing the AABBs of all pairs."""
MIN_HASHED_PAIR_FRACTION = 0.9
"""Minimum fraction of all pairs that the spatial hash must cover."""
UNBOUNDED_TYPES = ("plane", "height field")
"""Geom types without a useful bounding box."""


def select_hashed_geoms(model: Model) -> list[int]:
    """Indices of the geoms in the spatial hash, sorted; empty if there are more than `MAX_HASHED_GEOMS`.

    A geom is selected if it is part of a collision pair, is of a bounded type, exists in this model variant, is not
    fast, and its bounding radius is at most `MAX_SIZE_RATIO` times the median.
    """
    geoms, pairs = model.geoms, model.pairs
    colliding = np.unique(np.concatenate([pairs.geom_a, pairs.geom_b])).tolist()
    radii = {g: float(geoms.radius[g]) for g in colliding if geoms.types[g] not in UNBOUNDED_TYPES}
    radii = {g: radius for g, radius in radii.items() if math.isfinite(radius) and radius != ABSENT_RADIUS}
    if geoms.fast.any():
        radii = {g: radius for g, radius in radii.items() if not geoms.fast[g]}
    max_radius = MAX_SIZE_RATIO * float(np.median([*radii.values()])) if radii else 0.0
    selected = [g for g, radius in radii.items() if radius <= max_radius]
    return selected if len(selected) <= MAX_HASHED_GEOMS else []


def build_pair_table(model: Model) -> Array:
    """Collision-pair index of every two geoms in the spatial hash: flattened symmetric (n, n) matrix, -1 if no pair."""
    hashed = select_hashed_geoms(model)
    position = np.full(len(model.geoms.names), -1, np.intp)
    position[hashed] = np.arange(len(hashed))
    a, b = position[model.pairs.geom_a], position[model.pairs.geom_b]
    hashed_pairs = np.flatnonzero((a >= 0) & (b >= 0))
    table = np.full((len(hashed), len(hashed)), -1.0)
    table[a[hashed_pairs], b[hashed_pairs]] = table[b[hashed_pairs], a[hashed_pairs]] = hashed_pairs
    return table.ravel()


def hashed_pair_mask(model: Model) -> npt.NDArray[np.bool_]:
    """Boolean mask over all collision pairs: whether both geoms are in the spatial hash."""
    is_hashed = np.zeros(len(model.geoms.names), np.bool_)
    is_hashed[select_hashed_geoms(model)] = True
    return is_hashed[model.pairs.geom_a] & is_hashed[model.pairs.geom_b]


def is_hash_worthwhile(model: Model) -> bool:
    """Whether there are enough pairs, nearly all of hashed geoms, for the spatial hash to be faster than AABB tests."""
    return len(model.pairs.geom_a) >= MIN_PAIRS_FOR_HASH and bool(
        hashed_pair_mask(model).mean() >= MIN_HASHED_PAIR_FRACTION
    )


def can_use_hash(model: Model) -> bool:
    """Whether the pair table can hold all pairs: there are hashed geoms, and no two geoms form more than one pair."""
    keys = np.sort(np.stack([model.pairs.geom_a, model.pairs.geom_b], axis=1), axis=1)
    return bool(select_hashed_geoms(model)) and len(np.unique(keys, axis=0)) == len(keys)

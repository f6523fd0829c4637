"""How a distance field lies in the flat array of numbers: its grid, the points that touch, the distances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinema.foundation import Array

FIELD_HEAD = 7
"""Numbers before all others: nodes along each axis, how far they are apart [m], and where the first one is [m]."""


@dataclass(frozen=True, slots=True, eq=False)
class SampledField:
    """Signed distances on a grid, and points of the surface, in the axes of the shape."""

    res: tuple[int, int, int]
    """Nodes along each axis."""
    cell_size: float
    """[m]"""
    origin: Array
    """The first node [m], (3,)."""
    values: Array
    """Distances, negative inside [m]: along z within a row, then along y, then along x."""
    gradients: Array
    """The direction in which they grow, (n, 3)."""
    nearest: np.ndarray
    """The vertex of the mesh that is nearest to each node."""
    points: Array
    """Of the surface, that can be the first to touch [m], (n, 3)."""


def pack_field(field: SampledField) -> Array:
    """Its numbers, one after the other."""
    head = np.array([*field.res, field.cell_size, *field.origin], np.float64)
    return np.concatenate([head, field.points.ravel(), field.values])

"""How often a mesh goes around a point: one inside, zero outside, and sensible for a mesh with small holes.

Triangles that are near each other are kept in groups with a ball around each. Seen from far away a group counts as one
small triangle, so that a point costs little however fine the mesh is.
"""

from __future__ import annotations

import numpy as np

from kinema.foundation import Array

_GROUP = 48
"""Triangles in a group."""
_FAR = 3.0
"""A group counts as one triangle from so many radii on; what is left out is a few thousandths of a turn."""


class Winding:
    """The triangles of a mesh, in groups."""

    def __init__(self, corners: Array) -> None:
        """Sort triangles, shape (n, 3, 3), so that neighbours are near each other, and group them."""
        corners = corners[_along_a_curve(corners.mean(axis=1))]
        starts = np.arange(0, len(corners), _GROUP)
        areas = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]) / 2
        weights = np.linalg.norm(areas, axis=1) + 1e-300
        totals = np.add.reduceat(weights, starts)
        self._corners = corners
        group = np.arange(len(corners)) // _GROUP
        self._areas = np.add.reduceat(areas, starts)
        """The area of each group times its normal, shape (groups, 3)."""
        self._centers = np.add.reduceat(weights[:, None] * corners.mean(axis=1), starts) / totals[:, None]
        apart = np.linalg.norm(corners - self._centers[group][:, None], axis=2).max(axis=1)
        self._radii = np.maximum.reduceat(apart, starts)

    def around(self, point: Array) -> float:
        """How often the mesh goes around a point."""
        offsets = self._centers - point
        distances = np.linalg.norm(offsets, axis=1)
        near = distances <= _FAR * self._radii
        far = ~near
        angle = float((np.einsum("ij,ij->i", self._areas[far], offsets[far]) / distances[far] ** 3).sum())
        members = (np.flatnonzero(near)[:, None] * _GROUP + np.arange(_GROUP)).reshape(-1)
        members = members[members < len(self._corners)]
        return abs(angle + _solid_angle(self._corners[members] - point)) / (4 * np.pi)


def _along_a_curve(points: Array) -> np.ndarray:
    """An order in which points that follow each other are near each other (Morton's)."""
    low, size = points.min(axis=0), float(np.ptp(points, axis=0).max()) or 1.0
    cells = np.clip((points - low) / size * 1023, 0, 1023).astype(np.int64)
    code = np.zeros(len(points), dtype=np.int64)
    for bit in range(10):
        for axis in range(3):
            code |= ((cells[:, axis] >> bit) & 1) << (3 * bit + axis)
    return np.argsort(code, kind="stable")


def _solid_angle(corners: Array) -> float:
    """The solid angle of triangles as the origin sees them (van Oosterom and Strackee)."""
    a, b, c = corners[:, 0], corners[:, 1], corners[:, 2]
    la, lb, lc = (np.linalg.norm(x, axis=1) for x in (a, b, c))
    above = np.einsum("ij,ij->i", a, np.cross(b, c))
    ab, bc, ca = (np.einsum("ij,ij->i", x, y) for x, y in ((a, b), (b, c), (c, a)))
    below = la * lb * lc + ab * lc + bc * la + ca * lb
    return 2 * float(np.arctan2(above, below).sum())

"""Whether shapes that may be hollow are inside each other, beyond their convex hulls."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinema.foundation import Array, Pose
from kinema.shapes import MeshData

from .separation import PlacedSolid
from .winding import Winding

_MOST_SAMPLES = 6_000
"""Points of a surface that are held against the other's hull."""
_MOST_POINTS = 200
"""Of those inside it, points that are looked at in full."""
_PLANES = 64
"""How many planes points are held against at once."""


@dataclass(frozen=True, slots=True, eq=False)
class HollowMesh:
    """A mesh that differs from its hull."""

    data: MeshData
    winding: Winding


@dataclass(frozen=True, slots=True, eq=False)
class PlacedMesh:
    """A shape in the world, with its convex hull."""

    hollow: HollowMesh | None
    """None for a convex shape, which is its own hull."""
    hull: PlacedSolid
    pose: Pose

    def samples(self, low: Array, high: Array) -> Array:
        """Points on the surface within a box: corners and middles of its triangles, or an even selection of them."""
        if self.hollow is None:
            return _even(_within(self.hull.points, low, high))
        vertices = self.pose.apply(self.hollow.data.vertices)
        corners = _even(_within(vertices, low, high))
        faces = self.hollow.data.faces
        middles = (vertices[faces[:, 0]] + vertices[faces[:, 1]] + vertices[faces[:, 2]]) / 3
        return np.concatenate([corners, _even(_within(middles, low, high))])

    def holds_any(self, points: Array, margin: float) -> bool:
        """Whether any of the points is inside, and `margin` inside the hull [m]."""
        normals, offsets = self.hull.normals, self.hull.offsets - margin
        for first in range(0, len(normals), _PLANES):
            some = slice(first, first + _PLANES)
            points = points[(points @ normals[some].T < offsets[some]).all(axis=1)]
            if not len(points):
                return False
        if self.hollow is None:
            return True
        chosen = self.pose.inverse().apply(points[:: max(1, len(points) // _MOST_POINTS)])
        return any(self.hollow.winding.around(point) > 0.75 for point in chosen)


def _within(points: Array, low: Array, high: Array) -> Array:
    return points[((points >= low) & (points <= high)).all(axis=1)]


def _even(points: Array) -> Array:
    return points[:: max(1, len(points) // _MOST_SAMPLES)]


def share_volume(a: PlacedMesh, b: PlacedMesh, margin: float) -> bool:
    """Whether a point on the surface of one is inside the other; thin parts that cross may be missed.

    Only where their boxes overlap can there be one.
    """
    low, high = np.maximum(a.hull.low, b.hull.low), np.minimum(a.hull.high, b.hull.high)
    return a.holds_any(b.samples(low, high), margin) or b.holds_any(a.samples(low, high), margin)

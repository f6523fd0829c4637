"""Whether shapes that may be hollow are inside each other, beyond their convex hulls."""

from __future__ import annotations

import numpy as np

from kinema.foundation import Array
from kinema.shapes import MeshData

from .separation import PlacedSolid

_MOST_POINTS = 200
_MOST_WORK = 10_000_000
"""Points times triangles: a second or so."""


class PlacedMesh:
    """A mesh in the world, with its convex hull."""

    def __init__(self, mesh: MeshData | None, hull: PlacedSolid, vertices: Array) -> None:
        self.mesh = mesh
        """None for a convex shape, which is its own hull."""
        self.hull = hull
        self.vertices = vertices

    def samples(self) -> Array:
        """Points on the surface: corners and middles of its triangles, shape (n, 3)."""
        if self.mesh is None:
            return self.vertices
        return np.concatenate([self.vertices, self.vertices[self.mesh.faces].mean(axis=1)])

    def holds_any(self, points: Array, margin: float) -> bool:
        """Whether any of the points, or of an even selection of them, is inside, and `margin` inside the hull [m]."""
        # many points against many planes: in slices, so that memory stays small
        inside = np.ones(len(points), dtype=bool)
        for normal, offset in zip(self.hull.normals, self.hull.offsets, strict=True):
            inside[inside] = points[inside] @ normal < offset - margin
            if not inside.any():
                return False
        if self.mesh is None:
            return True
        corners = self.vertices[self.mesh.faces]
        most = max(1, min(_MOST_POINTS, _MOST_WORK // max(1, len(corners))))
        chosen = points[inside]
        chosen = chosen[:: max(1, len(chosen) // most)]
        return any(_winding(corners - point) > 0.75 for point in chosen)


def share_volume(a: PlacedMesh, b: PlacedMesh, margin: float) -> bool:
    """Whether a point on the surface of one is inside the other; thin parts that cross may be missed."""
    return a.holds_any(b.samples(), margin) or b.holds_any(a.samples(), margin)


def _winding(corners: Array) -> float:
    """How often a mesh goes around the origin: one inside, zero outside, and sensible for a mesh with small holes."""
    a, b, c = corners[:, 0], corners[:, 1], corners[:, 2]
    la, lb, lc = (np.linalg.norm(x, axis=1) for x in (a, b, c))
    # the solid angle of each triangle (van Oosterom and Strackee)
    above = np.einsum("ij,ij->i", a, np.cross(b, c))
    ab, bc, ca = (np.einsum("ij,ij->i", x, y) for x, y in ((a, b), (b, c), (c, a)))
    below = la * lb * lc + ab * lc + bc * la + ca * lb
    return abs(float(np.arctan2(above, below).sum())) / (2 * np.pi)

"""Spheres and boxes around a mesh."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, permutations, product

import numpy as np

from kinema.shapes.hull import solid_points
from kinema.shapes.mesh_data import FloatArray, IntArray, MeshData
from kinema.shapes.polytope import Polytope, polytope


@dataclass(frozen=True, eq=False)
class BoundingSphere:
    """A sphere around something."""

    center: FloatArray
    """[m], shape (3,)."""
    radius: float
    """[m]."""


@dataclass(frozen=True, eq=False)
class BoundingBox:
    """A box around something, turned in any way."""

    center: FloatArray
    """[m], shape (3,)."""
    rotation: FloatArray
    """The box's axes in its columns, shape (3, 3), right-handed."""
    size: FloatArray
    """Full edge lengths along these axes [m], shape (3,)."""

    @property
    def volume(self) -> float:
        """[m^3]."""
        return float(np.prod(self.size))


def bounding_sphere(mesh: MeshData) -> BoundingSphere:
    """The smallest sphere around the faces of `mesh`, or around its vertices when it has none.

    Exact to rounding: as long as a point is outside, the farthest becomes one of the two to four that hold the sphere.
    """
    points = solid_points(mesh)
    scale = float(np.ptp(points, axis=0).max()) or 1.0
    middle = points.min(axis=0) / 2 + points.max(axis=0) / 2
    points = (points - middle) / scale
    holding = points[:1]
    center, radius = holding[0], 0.0
    # The radius grows each time and there are finitely many spheres; rounding could still bring one back.
    for _ in range(1000):
        distances = np.linalg.norm(points - center, axis=1)
        farthest = int(distances.argmax())
        if distances[farthest] <= radius * (1 + 1e-14):
            break
        holding, center, grown = _smallest_around(np.concatenate([holding, points[farthest : farthest + 1]]))
        if grown <= radius:
            break
        radius = grown
    # Rounding may leave a point outside by a digit: it is inside of what is given back.
    radius = float(np.linalg.norm(points - center, axis=1).max())
    return BoundingSphere(center * scale + middle, radius * scale * (1 + 1e-15))


def _smallest_around(points: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Smallest sphere around up to five points, the last of which it touches: what holds it, centre, radius."""
    best: tuple[FloatArray, FloatArray, float] = (points, points.mean(axis=0), np.inf)
    others = range(len(points) - 1)
    for count in range(1, min(len(points), 4)):
        for chosen in combinations(others, count):
            holding = points[[*chosen, len(points) - 1]]
            center = _equidistant(holding)
            radius = float(np.linalg.norm(holding - center, axis=1).max())
            inside = np.linalg.norm(points - center, axis=1).max() <= radius * (1 + 1e-12)
            if inside and radius < best[2]:
                best = (holding, center, radius)
    return best


def _equidistant(points: FloatArray) -> FloatArray:
    """The point among those spanned by `points` that is equally far from all of them [m]."""
    spokes = points[1:] - points[0]
    weights, *_ = np.linalg.lstsq(spokes @ spokes.T, (spokes**2).sum(axis=1) / 2, rcond=None)
    return points[0] + weights @ spokes


def axis_box(mesh: MeshData) -> BoundingBox:
    """The smallest box along the coordinate axes around the faces of `mesh`."""
    points = solid_points(mesh)
    low, high = points.min(axis=0), points.max(axis=0)
    return BoundingBox(low / 2 + high / 2, np.eye(3), high - low)


def oriented_box(mesh: MeshData) -> BoundingBox:
    """A box of least volume around `mesh`, among those with a side on a face of its convex hull and along an edge.

    Exact for most solids; where the best box touches the hull with edges only, this one is a little larger. Its axes
    are those nearest to the coordinate axes. Raises `MeshError` for a flat mesh, as `convex_hull` does.
    """
    hull = polytope(mesh)
    best, least = np.eye(3), float(np.prod(np.ptp(hull.vertices, axis=0)))
    for normal in _different_directions(hull.normals):
        turn, volume = _best_around(hull, normal)
        if volume < least * (1 - 1e-9):  # the box along the axes wins a tie
            best, least = turn, volume
    rotation = _nearest_to_axes(best)
    along = hull.vertices @ rotation
    low, high = along.min(axis=0), along.max(axis=0)
    return BoundingBox(rotation @ (low / 2 + high / 2), rotation, high - low)


def _different_directions(normals: FloatArray) -> FloatArray:
    """Opposite faces give the same boxes: one of each pair."""
    leading = np.abs(normals) > 1e-9
    first = normals[np.arange(len(normals)), leading.argmax(axis=1)]
    _, chosen = np.unique(np.round(normals * np.sign(first)[:, None], 9), axis=0, return_index=True)
    return normals[chosen]


def _best_around(hull: Polytope, normal: FloatArray) -> tuple[FloatArray, float]:
    """The best box with a side of this normal: its axes, and its volume [m^3]."""
    rim = _silhouette(hull, normal)
    sides = hull.vertices[rim[:, 1]] - hull.vertices[rim[:, 0]]
    sides -= np.outer(sides @ normal, normal)
    lengths = np.linalg.norm(sides, axis=1)
    usable = lengths > 1e-9 * lengths.max()
    along = sides[usable] / lengths[usable, None]
    across = np.cross(normal, along)
    points = hull.vertices[np.unique(rim)]
    areas = np.ptp(points @ along.T, axis=0) * np.ptp(points @ across.T, axis=0)
    best = int(areas.argmin())
    turn = np.stack([along[best], across[best], normal], axis=1)
    return turn, float(areas[best] * np.ptp(hull.vertices @ normal))


def _silhouette(hull: Polytope, direction: FloatArray) -> IntArray:
    """Edges between what faces `direction` and what does not: the outline of the shadow, shape (n, 2)."""
    facing = hull.normals @ direction > 1e-9
    return hull.edges[facing[hull.edge_faces[:, 0]] != facing[hull.edge_faces[:, 1]]]


def _nearest_to_axes(rotation: FloatArray) -> FloatArray:
    """The same box's axes in the order and with the signs that turn them least."""
    turns = [
        rotation[:, order] * signs
        for order in permutations(range(3))
        for signs in product((1.0, -1.0), repeat=3)
        if np.linalg.det(rotation[:, order] * signs) > 0
    ]
    return max(turns, key=lambda turn: round(float(np.trace(turn)), 9))

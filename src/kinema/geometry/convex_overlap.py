"""Penetration depth of convex bodies: GJK distance of their cores, separating axes along face normals.

A convex body is the convex hull of a point set, its *core*, swept by a sphere: a capsule is a segment with a radius.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinema.core import Array, Pose

MAX_ITERATIONS = 64
"""Iterations after which GJK returns its best distance so far."""
RELATIVE_TOLERANCE = 1e-9
"""Relative accuracy of GJK distances."""


@dataclass(frozen=True, slots=True, eq=False)
class ConvexBody:
    """Convex hull of points, swept by a sphere."""

    points: Array
    """Points of the core [m], (n, 3)."""
    normals: Array
    """Outward unit normals of the faces of the core, (m, 3); none for segments and points."""
    radius: float = 0.0
    """Radius of the sphere [m]."""

    def transformed(self, pose: Pose) -> ConvexBody:
        """The body at a pose."""
        return ConvexBody(pose.apply(self.points), self.normals @ pose.rotation.T, self.radius)


def penetration_depth(a: ConvexBody, b: ConvexBody) -> float:
    """Penetration depth of two convex bodies [m]; 0 if they are disjoint.

    Exact if their cores are disjoint; else an upper bound, the least overlap along the face normals of both and along
    the line between the centres of the cores.
    """
    distance = core_distance(a.points, b.points)
    if distance > 0.0:
        return max(a.radius + b.radius - distance, 0.0)
    between = b.points.mean(axis=0) - a.points.mean(axis=0)
    length = float(np.linalg.norm(between))
    directions = [a.normals, -b.normals, between[None] / length if length > 0.0 else np.eye(3)]
    axes = np.concatenate(directions)
    overlap = (axes @ a.points.T).max(axis=1) - (axes @ b.points.T).min(axis=1)
    return float(overlap.min()) + a.radius + b.radius


def core_distance(a: Array, b: Array) -> float:
    """Distance of the convex hulls of two point sets by the algorithm of Gilbert, Johnson and Keerthi [m].

    0 if the hulls intersect.
    """
    closest = a[0] - b[0]
    simplex: list[Array] = []
    for _ in range(MAX_ITERATIONS):
        squared = float(closest @ closest)
        if squared <= RELATIVE_TOLERANCE**2:
            return 0.0
        support = a[np.argmin(a @ closest)] - b[np.argmax(b @ closest)]
        if squared - float(support @ closest) <= RELATIVE_TOLERANCE * squared:
            return float(np.sqrt(squared))
        if any(np.array_equal(support, vertex) for vertex in simplex):
            return float(np.sqrt(squared))
        simplex, closest = _closest_on_simplex([*simplex, support])
        if len(simplex) == 4:
            return 0.0
    return float(np.linalg.norm(closest))


def _closest_on_simplex(vertices: list[Array]) -> tuple[list[Array], Array]:
    """Smallest face of a simplex that contains its point closest to the origin, and that point.

    The sub-simplices are searched for the one whose affine hull has its closest point inside, and none of the other
    vertices beyond it.
    """
    best: tuple[float, list[Array], Array] | None = None
    n = len(vertices)
    for subset in range(1, 1 << n):
        chosen = [vertices[i] for i in range(n) if subset >> i & 1]
        origin, edges = chosen[0], np.array([v - chosen[0] for v in chosen[1:]]).reshape(-1, 3)
        weights = np.linalg.lstsq(edges @ edges.T, -edges @ origin, rcond=None)[0] if len(edges) else np.zeros(0)
        if (weights < 0.0).any() or weights.sum() > 1.0:
            continue
        point = origin + weights @ edges
        squared = float(point @ point)
        if best is None or squared < best[0]:
            best = squared, chosen, point
    assert best is not None  # single vertices always qualify
    return best[1], best[2]

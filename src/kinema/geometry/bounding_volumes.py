"""Minimum bounding spheres, axis-aligned bounding boxes and oriented bounding boxes of meshes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, permutations, product

import numpy as np

from kinema.core import determinant3, reproducible_product, symmetric_eigen

from .convex import Polytope, convex_polytope, unique_face_points
from .mesh import FloatArray, IntArray, MeshData


@dataclass(frozen=True, eq=False)
class BoundingSphere:
    """A sphere that contains a mesh."""

    center: FloatArray
    """Centre [m], shape (3,)."""
    radius: float
    """Radius [m]."""


@dataclass(frozen=True, eq=False)
class OrientedBoundingBox:
    """A box with arbitrary orientation that contains a mesh."""

    center: FloatArray
    """Centre [m], shape (3,)."""
    rotation: FloatArray
    """Right-handed rotation matrix whose columns are the box axes, shape (3, 3)."""
    size: FloatArray
    """Full edge lengths along the box axes [m], shape (3,)."""

    @property
    def volume(self) -> float:
        """Volume of the box [m^3]."""
        return float(np.prod(self.size))


def bounding_sphere(mesh: MeshData) -> BoundingSphere:
    """Minimum bounding sphere of the faces of `mesh`, or of its vertices if the mesh has no faces.

    Active-set iteration: while a point lies outside the current sphere, the farthest point is added to the (at most
    four) support points and the minimum sphere of these points is recomputed (`_minimum_sphere`). Exact up to rounding;
    the final radius is the largest distance of any point from the centre, so that every point is inside.
    """
    points = unique_face_points(mesh)
    scale = float(np.ptp(points, axis=0).max()) or 1.0
    box_center = points.min(axis=0) / 2 + points.max(axis=0) / 2
    points = (points - box_center) / scale
    support = points[:1]
    center, radius = support[0], 0.0
    # The radius grows in every iteration, so the loop is finite; the limit guards against cycling by rounding.
    for _ in range(1000):
        distances = np.linalg.norm(points - center, axis=1)
        farthest = int(distances.argmax())
        if distances[farthest] <= radius * (1 + 1e-14):
            break
        support, center, new_radius = _minimum_sphere(np.concatenate([support, points[farthest : farthest + 1]]))
        if new_radius <= radius:
            break
        radius = new_radius
    # Rounding may leave a point slightly outside: enlarge the radius to the farthest point.
    radius = float(np.linalg.norm(points - center, axis=1).max())
    return BoundingSphere(center * scale + box_center, radius * scale * (1 + 1e-15))


def _minimum_sphere(points: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Minimum bounding sphere of two to five points that passes through the last point.

    Enumerates all subsets of two to four points that include the last one and keeps the smallest circumsphere that
    contains all `points` (n, 3). Returns the support points on the sphere, the centre and the radius, which is infinite
    if no circumsphere contains all points.
    """
    best: tuple[FloatArray, FloatArray, float] = (points, points.mean(axis=0), np.inf)
    others = range(len(points) - 1)
    for count in range(1, min(len(points), 4)):
        for chosen in combinations(others, count):
            support = points[[*chosen, len(points) - 1]]
            center = _circumcenter(support)
            radius = float(np.linalg.norm(support - center, axis=1).max())
            inside = np.linalg.norm(points - center, axis=1).max() <= radius * (1 + 1e-12)
            if inside and radius < best[2]:
                best = (support, center, radius)
    return best


def _circumcenter(points: FloatArray) -> FloatArray:
    """Circumcentre of `points` (n, 3): the point of their affine hull equidistant from all of them, shape (3,)."""
    edges = points[1:] - points[0]
    values, axes = symmetric_eigen(reproducible_product(edges, edges.T))
    rhs = reproducible_product(axes.T, (edges**2).sum(axis=1) / 2)
    is_regular = values > len(values) * np.finfo(np.float64).eps * values.max(initial=0.0)
    weights = reproducible_product(axes[:, is_regular], rhs[is_regular] / values[is_regular])
    return points[0] + reproducible_product(weights, edges)


def axis_aligned_bounding_box(mesh: MeshData) -> OrientedBoundingBox:
    """Axis-aligned bounding box of the faces of `mesh`, or of its vertices if the mesh has no faces."""
    points = unique_face_points(mesh)
    low, high = points.min(axis=0), points.max(axis=0)
    return OrientedBoundingBox(low / 2 + high / 2, np.eye(3), high - low)


def oriented_bounding_box(mesh: MeshData) -> OrientedBoundingBox:
    """Minimum-volume oriented bounding box of `mesh` among boxes flush with a hull face and a hull edge.

    For every distinct face normal of the convex hull, the in-plane axes are aligned with the silhouette edges of the
    hull. Optimal for most solids; if the true minimum box touches the hull with edges only, the result is slightly
    larger. The axis-aligned box wins ties, and the axes are ordered and signed to be as close as possible to the
    coordinate axes. Raises `MeshError` for a planar mesh, as `convex_hull` does.
    """
    hull = convex_polytope(mesh)
    best_axes, min_volume = np.eye(3), float(np.prod(np.ptp(hull.vertices, axis=0)))
    for normal in _unique_directions(hull.normals):
        axes, volume = _best_box_with_normal(hull, normal)
        if volume < min_volume * (1 - 1e-9):  # the axis-aligned box wins ties
            best_axes, min_volume = axes, volume
    rotation = _align_to_coordinate_axes(best_axes)
    projected = reproducible_product(hull.vertices, rotation)
    low, high = projected.min(axis=0), projected.max(axis=0)
    return OrientedBoundingBox(reproducible_product(rotation, low / 2 + high / 2), rotation, high - low)


def _unique_directions(normals: FloatArray) -> FloatArray:
    """Subset of unit `normals` (n, 3) with one representative of every direction up to sign."""
    leading = np.abs(normals) > 1e-9
    first = normals[np.arange(len(normals)), leading.argmax(axis=1)]
    _, chosen = np.unique(np.round(normals * np.sign(first)[:, None], 9), axis=0, return_index=True)
    return normals[chosen]


def _best_box_with_normal(hull: Polytope, normal: FloatArray) -> tuple[FloatArray, float]:
    """Minimum-volume bounding box of `hull` with one axis along `normal`: axes (3, 3) and volume [m^3].

    The in-plane axes are chosen among the silhouette edges of the hull, projected onto the plane perpendicular to
    `normal`, as the pair of directions with the smallest bounding rectangle. The axes are the columns of the result,
    `normal` last.
    """
    silhouette = _silhouette_edges(hull, normal)
    edges = hull.vertices[silhouette[:, 1]] - hull.vertices[silhouette[:, 0]]
    edges -= np.outer(reproducible_product(edges, normal), normal)
    lengths = np.linalg.norm(edges, axis=1)
    usable = lengths > 1e-9 * lengths.max()
    along = edges[usable] / lengths[usable, None]
    across = np.cross(normal, along)
    points = hull.vertices[np.unique(silhouette)]
    areas = np.ptp(reproducible_product(points, along.T), axis=0) * np.ptp(
        reproducible_product(points, across.T), axis=0
    )
    best = int(areas.argmin())
    axes = np.stack([along[best], across[best], normal], axis=1)
    return axes, float(areas[best] * np.ptp(reproducible_product(hull.vertices, normal)))


def _silhouette_edges(hull: Polytope, direction: FloatArray) -> IntArray:
    """Silhouette of `hull` seen along `direction`: edges between front and back faces, shape (n, 2)."""
    facing = reproducible_product(hull.normals, direction) > 1e-9
    return hull.edges[facing[hull.edge_faces[:, 0]] != facing[hull.edge_faces[:, 1]]]


def _align_to_coordinate_axes(rotation: FloatArray) -> FloatArray:
    """Permute and negate the columns of `rotation` (3, 3) to be as close as possible to the identity.

    Among the 24 right-handed combinations, which describe the same box, the one with the largest trace is returned.
    """
    candidates = [
        rotation[:, order] * signs
        for order in permutations(range(3))
        for signs in product((1.0, -1.0), repeat=3)
        if determinant3(rotation[:, order] * signs) > 0
    ]
    return max(candidates, key=lambda candidate: round(float(np.trace(candidate)), 9))

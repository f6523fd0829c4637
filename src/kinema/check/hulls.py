"""Convex hulls of geometries (cached), winding numbers.

And penetration tests between convex hulls and non-convex meshes.

Distant groups of triangles contribute to a winding number as one dipole (Barill et al., Fast Winding Numbers for Soups
and Clouds, 2018).
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from kinema.core import Array, Pose
from kinema.description import Geometry, HeightField, Mesh, Plane, mesh_data, tessellate
from kinema.geometry import (
    GeometryError,
    MeshData,
    MeshError,
    MeshQuality,
    convex_hull,
    measure_mesh_quality,
    signed_volume,
    validate_mesh,
)

# ------------------------------------------------------------------------------------------------------ winding numbers

_TRIANGLES_PER_GROUP = 48
"""Number of triangles in a group."""
_FAR_FIELD_RADII = 3.0
"""Distance in group radii from which on a group counts as one dipole; the error is a few 1e-3."""


class FastWindingNumber:
    """Generalized winding number of a triangle mesh with far-field approximation by groups."""

    def __init__(self, corners: Array) -> None:
        """Group triangles, shape (n, 3, 3), along a Morton curve."""
        corners = corners[_morton_order(corners.mean(axis=1))]
        starts = np.arange(0, len(corners), _TRIANGLES_PER_GROUP)
        areas = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]) / 2
        weights = np.linalg.norm(areas, axis=1) + 1e-300
        totals = np.add.reduceat(weights, starts)
        self._corners = corners
        group = np.arange(len(corners)) // _TRIANGLES_PER_GROUP
        self._areas = np.add.reduceat(areas, starts)
        """Sum of area vectors of each group, shape (groups, 3)."""
        self._centers = np.add.reduceat(weights[:, None] * corners.mean(axis=1), starts) / totals[:, None]
        distances = np.linalg.norm(corners - self._centers[group][:, None], axis=2).max(axis=1)
        self._radii = np.maximum.reduceat(distances, starts)

    def evaluate(self, point: Array) -> float:
        """Absolute winding number of the mesh at a point: 1 inside, 0 outside; robust against small holes."""
        offsets = self._centers - point
        distances = np.linalg.norm(offsets, axis=1)
        near = distances <= _FAR_FIELD_RADII * self._radii
        far = ~near
        angle = float((np.einsum("ij,ij->i", self._areas[far], offsets[far]) / distances[far] ** 3).sum())
        members = (np.flatnonzero(near)[:, None] * _TRIANGLES_PER_GROUP + np.arange(_TRIANGLES_PER_GROUP)).reshape(-1)
        members = members[members < len(self._corners)]
        return abs(angle + _total_solid_angle(self._corners[members] - point)) / (4 * np.pi)


def _morton_order(points: Array) -> np.ndarray:
    """Indices that sort points along a Morton (Z-order) curve with 10 bits per axis."""
    low, size = points.min(axis=0), float(np.ptp(points, axis=0).max()) or 1.0
    cells = np.clip((points - low) / size * 1023, 0, 1023).astype(np.int64)
    code = np.zeros(len(points), dtype=np.int64)
    for bit in range(10):
        for axis in range(3):
            code |= ((cells[:, axis] >> bit) & 1) << (3 * bit + axis)
    return np.argsort(code, kind="stable")


def _total_solid_angle(corners: Array) -> float:
    """Total signed solid angle of triangles seen from the origin (van Oosterom and Strackee 1983)."""
    a, b, c = corners[:, 0], corners[:, 1], corners[:, 2]
    la, lb, lc = (np.linalg.norm(x, axis=1) for x in (a, b, c))
    above = np.einsum("ij,ij->i", a, np.cross(b, c))
    ab, bc, ca = (np.einsum("ij,ij->i", x, y) for x, y in ((a, b), (b, c), (c, a)))
    below = la * lb * lc + ab * lc + bc * la + ca * lb
    return 2 * float(np.arctan2(above, below).sum())


# -------------------------------------------------------------------------------- meshes and convex hulls of geometries

_MAX_HULL_VERTICES = 800
"""Maximum number of hull vertices; larger hulls are replaced by an inner approximation."""

_MIN_COORDINATE, _MAX_COORDINATE = 1e-9, 1e12
"""Coordinates [m] of what can be a solid."""


@dataclass(frozen=True, slots=True, eq=False)
class ConvexHull:
    """The convex hull of a geometry, in the geometry's frame."""

    points: Array
    """Its corners [m], shape (n, 3); round shapes are tessellated."""
    normals: Array
    """Outward unit normals of its faces, shape (m, 3); none where all points lie in a plane."""
    offsets: Array
    """A point x is inside where `normals @ x <= offsets` [m], shape (m,)."""
    volume: float
    """[m3]"""

    @property
    def is_planar(self) -> bool:
        """Whether the hull has no volume."""
        return len(self.normals) == 0


@dataclass(frozen=True, slots=True, eq=False)
class MeshAnalysis:
    """Triangles and quality of a mesh, or the reason why it cannot be loaded."""

    data: MeshData | None = None
    quality: MeshQuality | None = None
    error: str = ""
    """Why it could not be loaded, in a sentence; empty too where no file was found."""


class HullCache:
    """Cache of loaded meshes, convex hulls and winding numbers by geometry."""

    def __init__(self) -> None:
        self._meshes: dict[Hashable, MeshAnalysis] = {}
        self._hulls: dict[Hashable, ConvexHull | None] = {}
        self._windings: dict[Hashable, FastWindingNumber] = {}
        self._keys: dict[int, tuple[Hashable, Geometry]] = {}

    def analyze_mesh(self, mesh: Mesh) -> MeshAnalysis:
        """Triangles of a mesh with its scale applied, or the reason why there are none."""
        key = self.geometry_key(mesh)
        if key not in self._meshes:
            self._meshes[key] = _load_and_analyze(mesh)
        return self._meshes[key]

    def convex_hull(self, geometry: Geometry) -> ConvexHull | None:
        """Convex hull of a geometry; None for planes, height fields and invalid geometries."""
        key = self.geometry_key(geometry)
        if key not in self._hulls:
            self._hulls[key] = self._build_hull(geometry)
        return self._hulls[key]

    def winding_number(self, mesh: Mesh) -> FastWindingNumber:
        """Winding number evaluator of a mesh that could be loaded."""
        key, data = self.geometry_key(mesh), self.analyze_mesh(mesh).data
        assert data is not None  # it was loaded
        if key not in self._windings:
            self._windings[key] = FastWindingNumber(data.vertices[data.faces])
        return self._windings[key]

    def geometry_key(self, geometry: Geometry) -> Hashable:
        """Hashable key, equal for geometries with equal triangles."""
        known = self._keys.get(id(geometry))
        if known is None:
            # the geometry is kept, so that its id is not given to another one
            known = self._keys[id(geometry)] = (self._compute_key(geometry), geometry)
        return known[0]

    def _compute_key(self, geometry: Geometry) -> Hashable:
        if isinstance(geometry, HeightField | Plane):
            return id(geometry)
        if isinstance(geometry, Mesh):
            scale = tuple(float(s) for s in geometry.scale)
            if geometry.vertices is None or geometry.faces is None:
                return ("file", geometry.path, geometry.submesh, geometry.center_submesh, scale)
            return ("given", _array_digest(geometry.vertices), _array_digest(geometry.faces), scale)
        values = (np.ravel(getattr(geometry, name)) for name in geometry.__slots__)
        return (type(geometry), *(float(v) for value in values for v in value))

    def _build_hull(self, geometry: Geometry) -> ConvexHull | None:
        if isinstance(geometry, Plane | HeightField):
            return None
        if isinstance(geometry, Mesh):
            data = self.analyze_mesh(geometry).data
        else:
            try:
                data = tessellate(geometry)
            except GeometryError:
                return None  # a size that is not positive: see shapes.size
        return _hull_with_planes(data) if data is not None and _has_computable_size(data) else None


def _array_digest(values: np.ndarray) -> bytes:
    """Digest of the content of an array."""
    return hashlib.blake2b(np.ascontiguousarray(values).tobytes(), digest_size=16).digest()


def _has_computable_size(data: MeshData) -> bool:
    """Whether the extent is within a range that Qhull can handle (it crashes on spheres of 1e300 m)."""
    largest = float(np.abs(data.vertices).max(initial=0.0))
    return _MIN_COORDINATE <= largest <= _MAX_COORDINATE


def _load_and_analyze(mesh: Mesh) -> MeshAnalysis:
    try:
        data = mesh_data(mesh)
        if data is None:
            return MeshAnalysis()
        validate_mesh(data)
        return MeshAnalysis(data, measure_mesh_quality(data))
    except MeshError as error:
        return MeshAnalysis(error=error.reason)
    except GeometryError as error:
        return MeshAnalysis(error=str(error))


def _hull_with_planes(data: MeshData) -> ConvexHull:
    try:
        hull = convex_hull(data)
    except MeshError:
        used = np.unique(data.faces)
        return ConvexHull(data.vertices[used], np.zeros((0, 3)), np.zeros(0), 0.0)
    volume = max(0.0, signed_volume(hull))
    if hull.n_vertices > _MAX_HULL_VERTICES:
        hull = _reduce_hull_vertices(hull)
    normals, offsets = _hull_planes(hull)
    return ConvexHull(hull.vertices, normals, offsets, volume)


def _reduce_hull_vertices(hull: MeshData) -> MeshData:
    """Hull of the support points along evenly spread directions, including the coordinate axes."""
    directions = np.concatenate([np.eye(3), -np.eye(3), _fibonacci_sphere(_MAX_HULL_VERTICES)])
    farthest = np.concatenate([np.argmax(hull.vertices @ some.T, axis=0) for some in np.array_split(directions, 16)])
    return convex_hull(MeshData(hull.vertices[np.unique(farthest)], np.zeros((0, 3), dtype=np.int64)))


def _fibonacci_sphere(count: int) -> Array:
    """Unit vectors spread evenly over the sphere (a Fibonacci spiral), shape (count, 3)."""
    index = np.arange(count) + 0.5
    z = 1 - 2 * index / count
    turn = np.pi * (1 + 5**0.5) * index
    across = np.sqrt(1 - z * z)
    return np.stack([across * np.cos(turn), across * np.sin(turn), z], axis=1)


def _hull_planes(hull: MeshData) -> tuple[Array, Array]:
    """Unit normals and offsets of the hull's faces, each plane once."""
    corners = hull.triangles()
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    lengths = np.linalg.norm(normals, axis=1)
    size = float(np.ptp(hull.vertices, axis=0).max())
    # a sliver's normal points anywhere; its neighbours span the same plane
    real = lengths > 1e-9 * size * size
    normals = normals[real] / lengths[real, None]
    _, first = np.unique(np.round(normals, 6), axis=0, return_index=True)
    first.sort()
    return normals[first], np.einsum("ij,ij->i", normals[first], corners[real][first, 0])


# ------------------------------------------------------------------------------------ penetration depth of convex hulls


class PlacedHull:
    """Convex hull at a world pose."""

    def __init__(self, hull: ConvexHull, pose: Pose) -> None:
        self.points = pose.apply(hull.points)
        self.normals = hull.normals @ pose.rotation.T
        self.offsets = hull.offsets + self.normals @ pose.position
        self.lower = self.points.min(axis=0)
        self.upper = self.points.max(axis=0)
        self.center = self.points.mean(axis=0)
        """A point inside [m], shape (3,)."""

    @property
    def is_valid(self) -> bool:
        """Whether the hull has a volume and no value too large to compute with."""
        return len(self.normals) > 0 and bool(np.isfinite(self.points).all()) and bool(np.isfinite(self.offsets).all())


def depth_below_plane(hull: PlacedHull, plane: Pose) -> float:
    """Depth of a hull below a plane through the pose's origin with normal z [m]."""
    normal = plane.rotation[:, 2]
    return float((plane.position @ normal - hull.points @ normal).max())


def penetration_depth(a: PlacedHull, b: PlacedHull, tolerance: float) -> float:
    """Approximate penetration depth of two convex hulls [m]; 0 if the overlap is at most `tolerance`.

    Separating-axis test along face normals and the line between the centres: the least overlap is an upper bound of the
    depth. Edge-edge axes are not tested; if neither centre is inside the other hull, a linear program for the largest
    ball inside both decides.
    """
    depth = np.inf
    # the cheapest first: most pairs part along the line between their centres
    for overlap in (lambda: _overlap_along(b.center - a.center, a, b), lambda: _min_overlap_along_normals(a, b)):
        depth = min(depth, overlap())
        if depth <= tolerance:
            return 0.0
    depth = min(depth, _min_overlap_along_normals(b, a))
    if depth <= tolerance:
        return 0.0
    ball = tolerance / 8
    if _contains(a, b.center, ball) or _contains(b, a.center, ball) or _intersection_inradius(a, b) > ball:
        return depth
    return 0.0


def _contains(hull: PlacedHull, point: Array, margin: float) -> bool:
    """Whether a point, given inside another hull, is inside this hull by a margin."""
    return bool((hull.normals @ point < hull.offsets - margin).all())


def _min_overlap_along_normals(a: PlacedHull, b: PlacedHull) -> float:
    """Least overlap along the face normals of `a`."""
    return float((a.offsets - (a.normals @ b.points.T).min(axis=1)).min())


def _overlap_along(direction: Array, a: PlacedHull, b: PlacedHull) -> float:
    length = float(np.linalg.norm(direction))
    if length == 0:
        return np.inf
    unit = direction / length
    return float((a.points @ unit).max() - (b.points @ unit).min())


def _intersection_inradius(a: PlacedHull, b: PlacedHull) -> float:
    """Radius of the largest ball inside both hulls, by linear programming [m]; not positive if disjoint."""
    from scipy.optimize import linprog

    # far from the origin the program would lose digits
    low, high = np.maximum(a.lower, b.lower), np.minimum(a.upper, b.upper)
    middle = (low + high) / 2
    scale = max(float((high - low).max()), 1e-9)
    rows, bounds = [], []
    for solid in (a, b):
        offsets = (solid.offsets - solid.normals @ middle) / scale
        # planes that do not cut the box in which the two may meet say nothing
        reach = np.abs(solid.normals) @ ((high - low) / 2) / scale
        cuts = offsets < reach + 1.0
        rows.append(solid.normals[cuts])
        bounds.append(offsets[cuts])
    normals, limits = np.concatenate(rows), np.concatenate(bounds)
    if not len(normals):
        return scale
    table = np.column_stack([normals, np.ones(len(normals))])
    box = [(-1.0, 1.0)] * 3 + [(-1.0, 1.0)]
    result = linprog([0.0, 0.0, 0.0, -1.0], A_ub=table, b_ub=limits, bounds=box, method="highs")
    # two solids that no ball of radius -scale fits are far apart
    return float(result.x[3]) * scale if result.status == 0 else -scale


# ------------------------------------------------------------------------------------- penetration of non-convex meshes

_MAX_SURFACE_SAMPLES = 6_000
"""Points of a surface that are held against the other's hull."""
_MAX_WINDING_TESTS = 200
"""Of those inside it, points that are looked at in full."""
_PLANES_PER_BATCH = 64
"""How many planes points are held against at once."""


@dataclass(frozen=True, slots=True, eq=False)
class NonconvexMesh:
    """Mesh that differs from its convex hull, with its winding number evaluator."""

    data: MeshData
    winding_number: FastWindingNumber


@dataclass(frozen=True, slots=True, eq=False)
class PlacedMesh:
    """Shape at a world pose, with its convex hull."""

    nonconvex: NonconvexMesh | None
    """None for a convex shape, which is its own hull."""
    hull: PlacedHull
    pose: Pose

    def surface_samples(self, lower: Array, upper: Array) -> Array:
        """Vertices and triangle centres of the surface within a box, or an even selection of them."""
        if self.nonconvex is None:
            return _subsample(_points_in_box(self.hull.points, lower, upper))
        vertices = self.pose.apply(self.nonconvex.data.vertices)
        corners = _subsample(_points_in_box(vertices, lower, upper))
        faces = self.nonconvex.data.faces
        middles = (vertices[faces[:, 0]] + vertices[faces[:, 1]] + vertices[faces[:, 2]]) / 3
        return np.concatenate([corners, _subsample(_points_in_box(middles, lower, upper))])

    def contains_any(self, points: Array, margin: float) -> bool:
        """Whether any point is inside the shape, and inside its hull by `margin` [m]."""
        normals, offsets = self.hull.normals, self.hull.offsets - margin
        for first in range(0, len(normals), _PLANES_PER_BATCH):
            some = slice(first, first + _PLANES_PER_BATCH)
            points = points[(points @ normals[some].T < offsets[some]).all(axis=1)]
            if not len(points):
                return False
        if self.nonconvex is None:
            return True
        chosen = self.pose.inverse().apply(points[:: max(1, len(points) // _MAX_WINDING_TESTS)])
        return any(self.nonconvex.winding_number.evaluate(point) > 0.75 for point in chosen)


def _points_in_box(points: Array, lower: Array, upper: Array) -> Array:
    return points[((points >= lower) & (points <= upper)).all(axis=1)]


def _subsample(points: Array) -> Array:
    return points[:: max(1, len(points) // _MAX_SURFACE_SAMPLES)]


def volumes_intersect(a: PlacedMesh, b: PlacedMesh, margin: float) -> bool:
    """Whether a surface point of one shape is inside the other; intersections of thin parts may be missed.

    Only points in the intersection of the bounding boxes are tested.
    """
    low, high = np.maximum(a.hull.lower, b.hull.lower), np.minimum(a.hull.upper, b.hull.upper)
    return a.contains_any(b.surface_samples(low, high), margin) or b.contains_any(a.surface_samples(low, high), margin)

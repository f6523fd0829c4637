"""Meshes and convex solids of geometries, each loaded and measured once per check."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from kinema.description import Geometry, HeightField, Mesh, Plane, mesh_data, tessellate
from kinema.foundation import Array
from kinema.shapes import (
    MeshData,
    MeshError,
    MeshQuality,
    ShapeError,
    check_mesh,
    convex_hull,
    mesh_quality,
    signed_volume,
)

from .winding import Winding

_MOST_POINTS = 800
"""A hull with more corners is simplified (from inside), so that no two shapes take long to compare."""

_SMALLEST, _LARGEST = 1e-9, 1e12
"""Coordinates [m] of what can be a solid."""


@dataclass(frozen=True, slots=True, eq=False)
class Solid:
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
    def is_flat(self) -> bool:
        """Whether it has no inside."""
        return len(self.normals) == 0


@dataclass(frozen=True, slots=True, eq=False)
class LoadedMesh:
    """What became of a mesh: its triangles and what they are like, or why there are none."""

    data: MeshData | None = None
    quality: MeshQuality | None = None
    problem: str = ""
    """Why it could not be loaded, in a sentence; empty too where no file was found."""


class Solids:
    """The cache."""

    def __init__(self) -> None:
        self._meshes: dict[Hashable, LoadedMesh] = {}
        self._solids: dict[Hashable, Solid | None] = {}
        self._windings: dict[Hashable, Winding] = {}
        self._keys: dict[int, tuple[Hashable, Geometry]] = {}

    def mesh(self, mesh: Mesh) -> LoadedMesh:
        """The triangles of a mesh, scale applied, or why there are none."""
        key = self.key(mesh)
        if key not in self._meshes:
            self._meshes[key] = _load(mesh)
        return self._meshes[key]

    def solid(self, geometry: Geometry) -> Solid | None:
        """The geometry's convex hull; None for planes, terrain, and what cannot be built."""
        key = self.key(geometry)
        if key not in self._solids:
            self._solids[key] = self._build(geometry)
        return self._solids[key]

    def winding(self, mesh: Mesh) -> Winding:
        """The triangles of a mesh that could be loaded, as points inside and outside see them."""
        key, data = self.key(mesh), self.mesh(mesh).data
        assert data is not None  # it was loaded
        if key not in self._windings:
            self._windings[key] = Winding(data.vertices[data.faces])
        return self._windings[key]

    def key(self, geometry: Geometry) -> Hashable:
        """The same for geometries with the same triangles."""
        known = self._keys.get(id(geometry))
        if known is None:
            # the geometry is kept, so that its id is not given to another one
            known = self._keys[id(geometry)] = (self._new_key(geometry), geometry)
        return known[0]

    def _new_key(self, geometry: Geometry) -> Hashable:
        if isinstance(geometry, HeightField | Plane):
            return id(geometry)
        if isinstance(geometry, Mesh):
            scale = tuple(float(s) for s in geometry.scale)
            if geometry.vertices is None or geometry.faces is None:
                return ("file", geometry.path, geometry.submesh, geometry.center_submesh, scale)
            return ("given", _digest(geometry.vertices), _digest(geometry.faces), scale)
        values = (np.ravel(getattr(geometry, name)) for name in geometry.__slots__)
        return (type(geometry), *(float(v) for value in values for v in value))

    def _build(self, geometry: Geometry) -> Solid | None:
        if isinstance(geometry, Plane | HeightField):
            return None
        if isinstance(geometry, Mesh):
            data = self.mesh(geometry).data
        else:
            try:
                data = tessellate(geometry)
            except ShapeError:
                return None  # a size that is not positive: see shapes.size
        return _hull(data) if data is not None and _is_of_this_world(data) else None


def _digest(values: np.ndarray) -> bytes:
    """The same for arrays that hold the same."""
    return hashlib.blake2b(np.ascontiguousarray(values).tobytes(), digest_size=16).digest()


def _is_of_this_world(data: MeshData) -> bool:
    """Whether the size is one that can be computed with: Qhull crashes on spheres of 1e300 m."""
    largest = float(np.abs(data.vertices).max(initial=0.0))
    return _SMALLEST <= largest <= _LARGEST


def _load(mesh: Mesh) -> LoadedMesh:
    try:
        data = mesh_data(mesh)
        if data is None:
            return LoadedMesh()
        check_mesh(data)
        return LoadedMesh(data, mesh_quality(data))
    except MeshError as error:
        return LoadedMesh(problem=error.reason)
    except ShapeError as error:
        return LoadedMesh(problem=str(error))


def _hull(data: MeshData) -> Solid:
    try:
        hull = convex_hull(data)
    except MeshError:
        used = np.unique(data.faces)
        return Solid(data.vertices[used], np.zeros((0, 3)), np.zeros(0), 0.0)
    volume = max(0.0, signed_volume(hull))
    if hull.n_vertices > _MOST_POINTS:
        hull = _simplified(hull)
    normals, offsets = _faces(hull)
    return Solid(hull.vertices, normals, offsets, volume)


def _simplified(hull: MeshData) -> MeshData:
    """The hull of the points that are farthest along many directions, those of the axes among them."""
    directions = np.concatenate([np.eye(3), -np.eye(3), _even_directions(_MOST_POINTS)])
    farthest = np.concatenate([np.argmax(hull.vertices @ some.T, axis=0) for some in np.array_split(directions, 16)])
    return convex_hull(MeshData(hull.vertices[np.unique(farthest)], np.zeros((0, 3), dtype=np.int64)))


def _even_directions(count: int) -> Array:
    """Unit vectors spread evenly over the sphere (a Fibonacci spiral), shape (count, 3)."""
    index = np.arange(count) + 0.5
    z = 1 - 2 * index / count
    turn = np.pi * (1 + 5**0.5) * index
    across = np.sqrt(1 - z * z)
    return np.stack([across * np.cos(turn), across * np.sin(turn), z], axis=1)


def _faces(hull: MeshData) -> tuple[Array, Array]:
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

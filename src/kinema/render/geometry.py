"""Render geometries: exact primitives and triangle meshes with crease-angle vertex normals."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

import numpy as np

from kinema.core import Array, KinemaError
from kinema.geometry import Appearance, CornerAttribute, MeshData

from .surfaces import Surface, make_surface

# Vertex normals -------------------------------------------------------------------------------------------------------

CREASE_ANGLE = np.radians(35.0)
"""Dihedral angle above which an edge stays sharp [rad]."""
_MAX_FACES_PER_VERTEX = 32
"""Maximum number of faces considered at one vertex."""


def crease_normals(mesh: MeshData, crease_angle: float = CREASE_ANGLE) -> CornerAttribute:
    """Corner normals with a crease angle: smooth across blunt edges, sharp at edges above `crease_angle` [rad].

    Each corner gets the area-weighted mean normal of the faces around its vertex that deviate by at most `crease_angle`
    from its own face. Vertices are matched by position.
    """
    area_normals = area_weighted_normals(mesh)
    lengths = np.linalg.norm(area_normals, axis=1, keepdims=True)
    unit_normals = area_normals / np.where(lengths > 0, lengths, 1.0)
    _, position_index = np.unique(mesh.vertices.round(9), axis=0, return_inverse=True)
    corners = position_index.reshape(-1)[mesh.faces].ravel()  # files often duplicate vertices per face
    faces = np.repeat(np.arange(mesh.n_faces), 3)
    corner, neighbor = _corner_pairs_at_vertices(corners)
    is_smooth = np.einsum("ij,ij->i", unit_normals[faces[corner]], unit_normals[faces[neighbor]]) >= np.cos(
        crease_angle
    )
    result = np.zeros((len(corners), 3))
    np.add.at(result, corner[is_smooth], area_normals[faces[neighbor[is_smooth]]])
    length = np.linalg.norm(result, axis=1, keepdims=True)
    result = np.where(length > 0, result / np.where(length > 0, length, 1.0), [0.0, 0.0, 1.0])
    return CornerAttribute(result, np.arange(len(corners)).reshape(-1, 3))


def area_weighted_normals(mesh: MeshData) -> Array:
    """Face normals with a length of twice the face area, shape (n_faces, 3)."""
    a, b, c = (mesh.triangles()[:, i] for i in range(3))
    return np.cross(b - a, c - a)


def _corner_pairs_at_vertices(corners: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All ordered pairs of corners at the same vertex, including each corner with itself.

    At vertices with more than `_MAX_FACES_PER_VERTEX` corners, each is paired with that many others only. `corners`
    holds the vertex of each corner; the results are the corner indices of both sides.
    """
    order = np.argsort(corners, kind="stable")
    _, starts, counts = np.unique(corners[order], return_index=True, return_counts=True)
    n_partners = np.repeat(np.minimum(counts, _MAX_FACES_PER_VERTEX), counts)
    first = np.repeat(order, n_partners)
    second = order[np.repeat(np.repeat(starts, counts), n_partners) + _concatenated_ranges(n_partners)]
    return np.concatenate([first, order]), np.concatenate([second, order])


def _concatenated_ranges(counts: np.ndarray) -> np.ndarray:
    """Concatenation of the ranges 0 to count - 1 for all `counts`."""
    ends = np.cumsum(counts)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts)


# Geometries -----------------------------------------------------------------------------------------------------------


class GeometryKind(enum.IntEnum):
    """Geometry type, in the order of the kernel constants."""

    PLANE = 0
    SPHERE = 1
    BOX = 2
    CAPSULE = 3
    CYLINDER = 4
    ELLIPSOID = 5
    CONE = 6
    MESH = 7


@dataclass(frozen=True, eq=False, slots=True)
class TriangleMesh:
    """Triangle mesh with vertex attributes; vertices with several normals or texture coordinates are duplicated."""

    vertices: Array
    faces: np.ndarray
    normals: Array
    uvs: Array
    colors: Array
    surfaces: list[Surface] = field(default_factory=list)
    surface_of_face: np.ndarray | None = None
    """Index into `surfaces` of each face, -1 for none; None if no face has its own surface."""


@dataclass(frozen=True, eq=False, slots=True)
class Geometry:
    """A primitive or triangle mesh in its own frame."""

    kind: GeometryKind
    size: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Dimensions [m]: radius and half length (along z); half extents of a box or rectangle (zero for an infinite
    plane); semi-axes of an ellipsoid."""
    triangles: TriangleMesh | None = None

    @property
    def is_infinite(self) -> bool:
        """Whether the geometry is an infinite plane."""
        return self.kind is GeometryKind.PLANE and self.size[0] <= 0.0

    def bounds(self) -> tuple[Array, Array]:
        """Lower and upper corner of the axis-aligned bounding box [m]."""
        x, y, z = self.size
        match self.kind:
            case GeometryKind.MESH if self.triangles is not None:
                return self.triangles.vertices.min(axis=0), self.triangles.vertices.max(axis=0)
            case GeometryKind.SPHERE:
                half = np.array([x, x, x])
            case GeometryKind.CAPSULE:
                half = np.array([x, x, x + y])
            case GeometryKind.CYLINDER | GeometryKind.CONE:
                half = np.array([x, x, y])
            case GeometryKind.PLANE:
                half = np.array([x, y, 0.0])
            case _:
                half = np.array([x, y, z])
        return -half, half


def mesh_geometry(mesh: MeshData, appearance: Appearance | None = None, *, linear_colors: bool = False) -> Geometry:
    """Render geometry of a mesh with its normals, texture coordinates, vertex colours and materials.

    Missing normals are computed with a crease angle.

    Args:
        mesh: the triangles.
        appearance: corner attributes and materials of the mesh.
        linear_colors: whether the colours of its materials are linear (USD, glTF) instead of sRGB.
    """
    if not mesh.n_faces:
        raise KinemaError("a mesh without triangles cannot be rendered")
    attributes = appearance or Appearance()
    normals = attributes.normals or crease_normals(mesh)
    uvs = (
        attributes.texture_coordinates[0]
        if attributes.texture_coordinates
        else _constant_corner_values(np.zeros((1, 2)), mesh)
    )
    colors = attributes.colors or _constant_corner_values(np.ones((1, 4)), mesh)
    corners = np.stack([mesh.faces, normals.indices, uvs.indices, colors.indices], axis=-1).reshape(-1, 4)
    unique_corners, faces = np.unique(corners, axis=0, return_inverse=True)
    surfaces = [make_surface(material, linear_colors=linear_colors) for material in attributes.materials]
    face_surfaces = attributes.face_material_indices
    if face_surfaces is None and surfaces:
        face_surfaces = np.zeros(mesh.n_faces, np.int64)
    return Geometry(
        GeometryKind.MESH,
        triangles=TriangleMesh(
            mesh.vertices[unique_corners[:, 0]],
            faces.reshape(-1, 3),
            normals.values[unique_corners[:, 1]],
            uvs.values[unique_corners[:, 2]],
            colors.values[unique_corners[:, 3]],
            surfaces,
            None if face_surfaces is None else np.where(face_surfaces < len(surfaces), face_surfaces, -1),
        ),
    )


def _constant_corner_values(value: Array, mesh: MeshData) -> CornerAttribute:
    return CornerAttribute(value, np.zeros((mesh.n_faces, 3), np.int64))

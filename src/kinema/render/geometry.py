"""Geometries that rays meet: primitive shapes exactly, everything else as triangles."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

import numpy as np

from kinema.foundation import Array, KinemaError
from kinema.shapes import Appearance, CornerValues, MeshData

from .normals import crease_normals
from .surfaces import Surface, surface_of


class Kind(enum.IntEnum):
    """In the order of the kernels."""

    PLANE = 0
    SPHERE = 1
    BOX = 2
    CAPSULE = 3
    CYLINDER = 4
    ELLIPSOID = 5
    CONE = 6
    MESH = 7


@dataclass(frozen=True, eq=False, slots=True)
class Triangles:
    """A mesh with what is laid on it, by vertex; a vertex where several normals meet is there several times."""

    vertices: Array
    faces: np.ndarray
    normals: Array
    uvs: Array
    colors: Array
    surfaces: list[Surface] = field(default_factory=list)
    surface_of_face: np.ndarray | None = None
    """-1 for faces without one of their own; None where none has."""


@dataclass(frozen=True, eq=False, slots=True)
class Geometry:
    """A shape in its own frame."""

    kind: Kind
    size: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Radius, half length (along z); half edges of a box or rectangle (zero: endless); radii of an ellipsoid [m]."""
    triangles: Triangles | None = None

    @property
    def is_endless(self) -> bool:
        """Whether it is an infinite plane."""
        return self.kind is Kind.PLANE and self.size[0] <= 0.0

    def bounds(self) -> tuple[Array, Array]:
        """Lower and upper corner of the box around it [m]."""
        x, y, z = self.size
        match self.kind:
            case Kind.MESH if self.triangles is not None:
                return self.triangles.vertices.min(axis=0), self.triangles.vertices.max(axis=0)
            case Kind.SPHERE:
                half = np.array([x, x, x])
            case Kind.CAPSULE:
                half = np.array([x, x, x + y])
            case Kind.CYLINDER | Kind.CONE:
                half = np.array([x, x, y])
            case Kind.PLANE:
                half = np.array([x, y, 0.0])
            case _:
                half = np.array([x, y, z])
        return -half, half


def triangles(mesh: MeshData, appearance: Appearance | None = None, *, linear: bool = False) -> Geometry:
    """A mesh, with its own normals, texture coordinates, colours and materials where it has any.

    Args:
        mesh: the triangles.
        appearance: what is laid on them.
        linear: whether colours of its materials are in proportion to light (USD, glTF).
    """
    if not mesh.n_faces:
        raise KinemaError("a mesh without triangles cannot be seen")
    own = appearance or Appearance()
    normals = own.normals or crease_normals(mesh)
    uvs = own.coordinates[0] if own.coordinates else _same(np.zeros((1, 2)), mesh)
    colors = own.colors or _same(np.ones((1, 4)), mesh)
    corners = np.stack([mesh.faces, normals.corners, uvs.corners, colors.corners], axis=-1).reshape(-1, 4)
    kept, faces = np.unique(corners, axis=0, return_inverse=True)
    surfaces = [surface_of(look, linear=linear) for look in own.materials]
    numbers = own.material_of_face
    if numbers is None and surfaces:
        numbers = np.zeros(mesh.n_faces, np.int64)
    return Geometry(
        Kind.MESH,
        triangles=Triangles(
            mesh.vertices[kept[:, 0]],
            faces.reshape(-1, 3),
            normals.values[kept[:, 1]],
            uvs.values[kept[:, 2]],
            colors.values[kept[:, 3]],
            surfaces,
            None if numbers is None else np.where(numbers < len(surfaces), numbers, -1),
        ),
    )


def _same(value: Array, mesh: MeshData) -> CornerValues:
    return CornerValues(value, np.zeros((mesh.n_faces, 3), np.int64))

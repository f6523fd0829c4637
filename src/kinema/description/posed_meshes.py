"""Shapes as triangles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kinema import shapes
from kinema.foundation import Array, KinemaError, Pose

from .shape import Box, Capsule, Cone, Cylinder, Ellipsoid, Geometry, HeightField, Mesh, Plane, Shape, Sphere

_DRAWN_PLANE = (10.0, 10.0)
"""Edge lengths [m] an infinite plane is drawn with."""


class PosedMesh(NamedTuple):
    """The triangles of one shape, in the world."""

    link: str
    shape: str
    vertices: Array
    faces: np.ndarray


def posed_meshes(link: str, shapes_of_link: Sequence[Shape], pose: Pose, kind: str) -> list[PosedMesh]:
    """The link's shapes of a kind (`collision` or `visual`) as triangles in the world; missing meshes are left out."""
    if kind not in ("collision", "visual"):
        raise KinemaError(f"kind is 'collision' or 'visual', not {kind!r}")
    result: list[PosedMesh] = []
    for shape in shapes_of_link:
        if not (shape.collision if kind == "collision" else shape.visual):
            continue
        mesh = tessellate(shape.geometry)
        if mesh is not None:
            result.append(PosedMesh(link, shape.name, (pose @ shape.pose).apply(mesh.vertices), mesh.faces))
    return result


def tessellate(geometry: Geometry) -> shapes.MeshData | None:
    """The geometry's triangles in its own frame; None for a mesh whose file was not found."""
    match geometry:
        case Box():
            return shapes.box(geometry.size)
        case Sphere():
            return shapes.sphere(geometry.radius)
        case Ellipsoid():
            return shapes.ellipsoid(geometry.radii)
        case Capsule():
            return shapes.capsule(geometry.radius, geometry.length)
        case Cylinder():
            return shapes.cylinder(geometry.radius, geometry.length)
        case Cone():
            return shapes.cone(geometry.radius, geometry.length)
        case Plane():
            return shapes.plane(*(geometry.size or _DRAWN_PLANE))
        case HeightField():
            return shapes.height_field(geometry.heights, geometry.size[0], geometry.size[1], geometry.base)
        case Mesh():
            return mesh_data(geometry)


def mesh_data(mesh: Mesh) -> shapes.MeshData | None:
    """The mesh's triangles with its scale applied; of the whole file where it has no part of the name asked for."""
    if mesh.vertices is not None and mesh.faces is not None:
        data = shapes.MeshData(mesh.vertices, mesh.faces)
    elif mesh.path:
        data = mesh_part(mesh) if mesh.submesh else None
        data = shapes.load_mesh(mesh.path) if data is None else data
    else:
        return None
    return shapes.apply_linear(data, np.diag(mesh.scale))


def mesh_part(mesh: Mesh) -> shapes.MeshData | None:
    """The triangles of the part of its file that a mesh is, before its scale; None where the file has no such part."""
    if not (mesh.path and mesh.submesh) or mesh.vertices is not None:
        return None
    part = shapes.load_mesh_with_notes(mesh.path).part(mesh.submesh)
    if part is None or not mesh.center_submesh:
        return part
    middle = (part.vertices.min(axis=0) + part.vertices.max(axis=0)) / 2
    return shapes.MeshData(part.vertices - middle, part.faces)

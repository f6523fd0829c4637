"""Shapes as triangles."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kinema import shapes
from kinema.foundation import Array, KinemaError, Pose, content_digest

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


def tessellate(geometry: Geometry, segments: int = shapes.DEFAULT_SEGMENTS) -> shapes.MeshData | None:
    """The geometry's triangles in its own frame; None for a mesh whose file was not found.

    Args:
        geometry: what to cut into triangles.
        segments: of a full circle, for round ones.
    """
    match geometry:
        case Box():
            return shapes.box(geometry.size)
        case Sphere():
            return shapes.sphere(geometry.radius, segments)
        case Ellipsoid():
            return shapes.ellipsoid(geometry.radii, segments)
        case Capsule():
            return shapes.capsule(geometry.radius, geometry.length, segments)
        case Cylinder():
            return shapes.cylinder(geometry.radius, geometry.length, segments)
        case Cone():
            return shapes.cone(geometry.radius, geometry.length, segments)
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
        data = _parsed(mesh)
    else:
        return None
    return shapes.apply_linear(data, np.diag(mesh.scale))


def _parsed(mesh: Mesh) -> shapes.MeshData:
    data = mesh_part(mesh) if mesh.submesh else None
    return shapes.load_mesh(mesh.path) if data is None else data


def mesh_digest(mesh: Mesh) -> str | None:
    """A digest of all that decides the triangles of `mesh_data`, without parsing its file; None where it has none.

    Raises `shapes.MeshError` where the file cannot be read.
    """
    if mesh.vertices is not None and mesh.faces is not None:
        found: object = (mesh.vertices, mesh.faces)
    elif mesh.path and Path(mesh.path).suffix.lower() == ".gltf":  # the triangles are in other files
        found = _parsed(mesh)
    elif mesh.path:
        found = (Path(mesh.path).suffix.lower(), shapes.mesh_bytes(mesh.path), mesh.submesh, mesh.center_submesh)
    else:
        return None
    return content_digest(found, mesh.scale)


def mesh_part(mesh: Mesh) -> shapes.MeshData | None:
    """The triangles of the part of its file that a mesh is, before its scale; None where the file has no such part."""
    part = _loaded_part(mesh, looks=False)
    return None if part is None else part.mesh


def _loaded_part(mesh: Mesh, *, looks: bool) -> shapes.LoadedMesh | None:
    if not (mesh.path and mesh.submesh) or mesh.vertices is not None:
        return None
    part = shapes.load_mesh_with_notes(mesh.path, looks=looks).whole_part(mesh.submesh)
    if part is None or not mesh.center_submesh:
        return part
    vertices = part.mesh.vertices
    middle = (vertices.min(axis=0) + vertices.max(axis=0)) / 2
    return dataclasses.replace(part, mesh=shapes.MeshData(vertices - middle, part.mesh.faces))


def dressed_mesh(mesh: Mesh) -> shapes.LoadedMesh | None:
    """The mesh's triangles before its scale, with what is laid on them; None where they are not there.

    They are cut into smaller ones where images are laid around them (`CubeProjection`).
    """
    if mesh.vertices is not None and mesh.faces is not None:
        found = shapes.LoadedMesh(shapes.MeshData(mesh.vertices, mesh.faces), appearance=mesh.appearance)
    elif mesh.path:
        found = _loaded_part(mesh, looks=True) or shapes.load_mesh_with_notes(mesh.path, looks=True)
    else:
        return None
    own = found.appearance or shapes.Appearance()
    if mesh.projection is None or own.coordinates:
        return found
    triangles, laid = mesh.projection.laid(found.mesh, own)
    return dataclasses.replace(found, mesh=triangles, appearance=laid)


def worn_appearance(shape: Shape, dressed: shapes.LoadedMesh) -> shapes.Appearance:
    """What is seen on the triangles of a shape that is a mesh.

    A material that the description gives the shape hides the materials and colours in the mesh's file, as all programs
    show it, unless the file has the same one and says more of it. Of a mesh given in place, it is on the faces that
    have no material of their own.
    """
    own = dressed.appearance or shapes.Appearance()
    material = shape.material
    if material is None or not material.says_anything:
        return own
    if isinstance(shape.geometry, Mesh) and shape.geometry.vertices is None:
        if len(own.materials) == 1 and own.material_of_face is None and _says_more(own.materials[0], material):
            return own
        return dataclasses.replace(own, materials=(material,), material_of_face=None, colors=None)
    if own.material_of_face is None:
        return own if own.materials else dataclasses.replace(own, materials=(material,))
    numbers = np.where(own.material_of_face < 0, len(own.materials), own.material_of_face)
    return dataclasses.replace(own, materials=(*own.materials, material), material_of_face=numbers)


def _says_more(look: shapes.Look, material: shapes.Look) -> bool:
    """Whether a look says all that a material says: formats that know only colours leave the rest to the mesh."""
    if look.name and material.name and look.name != "_".join(material.name.split()):
        return False
    if not _is_same_image(look.texture, material.texture):
        return False
    fields = ("color", "emission", "metallic", "roughness", "specular", "clearcoat", "reflectance", "double_sided")
    said = ((getattr(material, name), getattr(look, name)) for name in fields)
    return material.maps.keys() <= look.maps.keys() and all(
        a is None or (b is not None and np.allclose(a, b, rtol=0.0, atol=1e-6)) for a, b in said
    )


def _is_same_image(one: str, other: str) -> bool:
    """Whether two images are one file, or have the same content: that of a mesh may be inside of its file."""
    if not one or not other:
        return one == other
    if Path(one).resolve() == Path(other).resolve():
        return True
    try:
        return shapes.read_image(one)[0] == shapes.read_image(other)[0]
    except shapes.MeshError:
        return False

"""Shapes as triangle meshes: tessellation of geometries, loading of mesh files with scale, submesh and appearance."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kinema import geometry as geo
from kinema.core import Array, KinemaError, Pose, content_digest

from .shape import Box, Capsule, Cone, Cylinder, Ellipsoid, Geometry, HeightField, Mesh, Plane, Shape, Sphere

_INFINITE_PLANE_SIZE = (10.0, 10.0)
"""Edge lengths [m] of the mesh of an infinite plane."""


class PosedMesh(NamedTuple):
    """Triangle mesh of one shape in world coordinates."""

    link: str
    shape: str
    vertices: Array
    """[m], (n, 3)"""
    faces: np.ndarray
    """(m, 3)"""


def posed_meshes(link: str, link_shapes: Sequence[Shape], pose: Pose, kind: str) -> list[PosedMesh]:
    """Triangle meshes of the collision or visual shapes of a link in world coordinates; missing meshes are skipped.

    Args:
        link: name of the link.
        link_shapes: shapes of the link.
        pose: world pose of the link.
        kind: `collision` or `visual`.
    """
    if kind not in ("collision", "visual"):
        raise KinemaError(f"kind is 'collision' or 'visual', not {kind!r}")
    result: list[PosedMesh] = []
    for shape in link_shapes:
        if not (shape.collision if kind == "collision" else shape.visual):
            continue
        mesh = tessellate(shape.geometry)
        if mesh is not None:
            result.append(PosedMesh(link, shape.name, (pose @ shape.pose).apply(mesh.vertices), mesh.faces))
    return result


def tessellate(geometry: Geometry, segments: int = geo.DEFAULT_SEGMENTS) -> geo.MeshData | None:
    """Triangle mesh of a geometry in its own frame; None for a mesh whose file was not found.

    Args:
        geometry: the geometry.
        segments: number of segments of a full circle for curved geometries.
    """
    match geometry:
        case Box():
            return geo.box(geometry.size)
        case Sphere():
            return geo.sphere(geometry.radius, segments)
        case Ellipsoid():
            return geo.ellipsoid(geometry.radii, segments)
        case Capsule():
            return geo.capsule(geometry.radius, geometry.length, segments)
        case Cylinder():
            return geo.cylinder(geometry.radius, geometry.length, segments)
        case Cone():
            return geo.cone(geometry.radius, geometry.length, segments)
        case Plane():
            return geo.plane(*(geometry.size or _INFINITE_PLANE_SIZE))
        case HeightField():
            return geo.height_field(geometry.heights, geometry.size[0], geometry.size[1], geometry.base)
        case Mesh():
            return mesh_data(geometry)


def mesh_data(mesh: Mesh) -> geo.MeshData | None:
    """Scaled triangles of a mesh, from arrays or its file; None without either.

    If the file has no submesh of the given name, the whole file is used.
    """
    if mesh.vertices is not None and mesh.faces is not None:
        data = geo.MeshData(mesh.vertices, mesh.faces)
    elif mesh.path:
        data = _load_triangles(mesh)
    else:
        return None
    return geo.apply_affine(data, np.diag(mesh.scale))


def _load_triangles(mesh: Mesh) -> geo.MeshData:
    data = submesh_data(mesh) if mesh.submesh else None
    return geo.load_mesh(mesh.path) if data is None else data


def mesh_digest(mesh: Mesh) -> str | None:
    """Content digest of everything that determines the triangles of `mesh_data`, without parsing the file.

    None without a mesh. Raises `geometry.MeshError` if the file cannot be read. glTF files are loaded, because their
    triangles are in other files.
    """
    if mesh.vertices is not None and mesh.faces is not None:
        content: object = (mesh.vertices, mesh.faces)
    elif mesh.path and Path(mesh.path).suffix.lower() == ".gltf":  # the triangles are in separate files
        content = _load_triangles(mesh)
    elif mesh.path:
        content = (Path(mesh.path).suffix.lower(), geo.read_mesh_bytes(mesh.path), mesh.submesh, mesh.center_submesh)
    else:
        return None
    return content_digest(content, mesh.scale)


def submesh_data(mesh: Mesh) -> geo.MeshData | None:
    """Triangles of the submesh that a mesh refers to, before scaling; None if the file has no such part."""
    part = _load_submesh(mesh, with_appearance=False)
    return None if part is None else part.mesh


def _load_submesh(mesh: Mesh, *, with_appearance: bool) -> geo.LoadedMesh | None:
    """Load the submesh of a mesh file, optionally with materials, centred if requested.

    None if there is no such part.
    """
    if not (mesh.path and mesh.submesh) or mesh.vertices is not None:
        return None
    part = geo.load_mesh_with_metadata(mesh.path, with_appearance=with_appearance).part_with_appearance(mesh.submesh)
    if part is None or not mesh.center_submesh:
        return part
    vertices = part.mesh.vertices
    center = (vertices.min(axis=0) + vertices.max(axis=0)) / 2
    return dataclasses.replace(part, mesh=geo.MeshData(vertices - center, part.mesh.faces))


def load_textured_mesh(mesh: Mesh) -> geo.LoadedMesh | None:
    """Triangles of a mesh before scaling, with materials and texture coordinates; None if there is no mesh.

    Textures without coordinates are projected (`Mesh.projection`); a cube map projection subdivides triangles.
    """
    if mesh.vertices is not None and mesh.faces is not None:
        loaded = geo.LoadedMesh(geo.MeshData(mesh.vertices, mesh.faces), appearance=mesh.appearance)
    elif mesh.path:
        loaded = _load_submesh(mesh, with_appearance=True) or geo.load_mesh_with_metadata(
            mesh.path, with_appearance=True
        )
    else:
        return None
    appearance = loaded.appearance or geo.Appearance()
    if mesh.projection is None or appearance.texture_coordinates:
        return loaded
    triangles, projected = mesh.projection.apply(loaded.mesh, appearance)
    return dataclasses.replace(loaded, mesh=triangles, appearance=projected)


def effective_appearance(shape: Shape, textured_mesh: geo.LoadedMesh) -> geo.Appearance:
    """Materials and colors with which a mesh shape is rendered.

    A material of the shape replaces the materials and colors of the mesh file, unless the file has a single material
    that agrees with it and is more detailed. For meshes given as arrays it applies to faces without a material.

    Args:
        shape: the shape.
        textured_mesh: its mesh, as returned by `load_textured_mesh`.
    """
    appearance = textured_mesh.appearance or geo.Appearance()
    material = shape.material
    if material is None or not material.has_properties:
        return appearance
    if isinstance(shape.geometry, Mesh) and shape.geometry.vertices is None:
        if (
            len(appearance.materials) == 1
            and appearance.face_material_indices is None
            and _covers_material(appearance.materials[0], material)
        ):
            return appearance
        return dataclasses.replace(appearance, materials=(material,), face_material_indices=None, colors=None)
    if appearance.face_material_indices is None:
        return appearance if appearance.materials else dataclasses.replace(appearance, materials=(material,))
    face_indices = np.where(
        appearance.face_material_indices < 0, len(appearance.materials), appearance.face_material_indices
    )
    return dataclasses.replace(
        appearance, materials=(*appearance.materials, material), face_material_indices=face_indices
    )


def _covers_material(mesh_material: geo.PbrMaterial, material: geo.PbrMaterial) -> bool:
    """Whether the material of a mesh file agrees with a shape's material in all properties that the latter sets.

    Formats that store only colors leave the other properties to the mesh file.
    """
    if mesh_material.name and material.name and mesh_material.name != "_".join(material.name.split()):
        return False
    if not _is_same_image(mesh_material.texture, material.texture):
        return False
    fields = ("color", "emission", "metallic", "roughness", "specular", "clearcoat", "reflectance", "double_sided")
    pairs = ((getattr(material, name), getattr(mesh_material, name)) for name in fields)
    return material.maps.keys() <= mesh_material.maps.keys() and all(
        a is None or (b is not None and np.allclose(a, b, rtol=0.0, atol=1e-6)) for a, b in pairs
    )


def _is_same_image(path_a: str, path_b: str) -> bool:
    """Whether two image paths are the same file, or files of equal content (images may be embedded in mesh files)."""
    if not path_a or not path_b:
        return path_a == path_b
    if Path(path_a).resolve() == Path(path_b).resolve():
        return True
    try:
        return geo.read_image(path_a)[0] == geo.read_image(path_b)[0]
    except geo.MeshError:
        return False

"""What is seen of a mesh: MuJoCo has one material for a geom, so that a mesh with several becomes several geoms."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kinema import shapes
from kinema.description import Mesh, Shape, VisualMaterial, worn_appearance
from kinema.shapes import Appearance, CubeProjection, Look

from ..texture_placement import laid_coordinates, lies_plainly
from .materials import known_layers
from .meshes import SUFFIXES
from .writing import Writing

_MOST_COLORS = 64
"""Of how many colours of faces a mesh is split into parts."""


class Part(NamedTuple):
    """A mesh with one material."""

    mesh: Mesh
    material: VisualMaterial | None


def parts_of(writing: Writing, shape: Shape) -> list[Part]:
    """The parts of a shape by their materials; none where the shape is what it is, and has its own."""
    mesh = shape.geometry
    if not shape.visual or not isinstance(mesh, Mesh) or _is_its_own(writing, shape, mesh):
        return []
    if not isinstance(mesh.projection, CubeProjection) or known_layers(writing, shape.material or VisualMaterial()):
        mesh = dataclasses.replace(mesh, projection=None)  # MuJoCo lays images so by itself
    try:
        dressed = writing.meshes.dressed.get(mesh)
        if dressed is None or len(dressed.mesh.faces) == 0:
            return []
        shapes.check_mesh(dressed.mesh)
    except shapes.ShapeError:
        return []
    for sentence in dressed.unseen:
        writing.drop(shape, "a part of the look of its mesh", sentence.rstrip("."))
    appearance = _with_colors_as_materials(writing, shape, worn_appearance(shape, dressed))
    groups = appearance.faces_of_materials(dressed.mesh.n_faces)
    if len(groups) == 1:
        return [Part(_whole(writing, mesh, dressed.mesh, appearance, groups[0][0]), _material(groups[0][0]))]
    return list(_split(writing, mesh, dressed.mesh, appearance))


def _is_its_own(writing: Writing, shape: Shape, mesh: Mesh) -> bool:
    """Whether the mesh's file is one that MuJoCo reads, and its materials, if it has any, do not count."""
    is_plain = mesh.vertices is not None and mesh.appearance is None
    is_read = mesh.vertices is None and Path(mesh.path).suffix.lower() in SUFFIXES and not mesh.submesh
    is_painted = shape.material is not None and shape.material.says_anything
    has_none = is_read and Path(mesh.path).suffix.lower() == ".msh"
    return is_plain or has_none or (is_read and is_painted and not _is_placed(writing, shape.material))


def _is_placed(writing: Writing, look: Look | None) -> bool:
    """Whether the mesh's coordinates have to say how an image lies."""
    return _placed_look(writing, look) is not None and look is not None and not lies_plainly(look.placement)


def _placed_look(writing: Writing, look: Look | None) -> Look | None:
    """The look whose image is new to MuJoCo; the textures of an MJCF file say themselves how they lie."""
    is_own = isinstance(look, VisualMaterial) and bool(known_layers(writing, look))
    return None if look is None or not look.texture or is_own else look


def _whole(writing: Writing, mesh: Mesh, data: shapes.MeshData, appearance: Appearance, look: Look | None) -> Mesh:
    """All faces; the file itself where MuJoCo reads it as it is."""
    is_read = mesh.vertices is None and not mesh.submesh and Path(mesh.path).suffix.lower() in SUFFIXES
    if is_read and not _is_placed(writing, look):
        return mesh
    return _in_place(writing, mesh, data, appearance, look)


def _split(writing: Writing, mesh: Mesh, data: shapes.MeshData, appearance: Appearance) -> Iterator[Part]:
    for look, faces in appearance.faces_of_materials(data.n_faces):
        part = _in_place(writing, mesh, shapes.faces_alone(data, faces), appearance.of_faces(faces), look)
        yield Part(part, _material(look))


def _in_place(writing: Writing, mesh: Mesh, data: shapes.MeshData, appearance: Appearance, look: Look | None) -> Mesh:
    coordinates = laid_coordinates(
        appearance.coordinates, _placed_look(writing, look)
    )  # MuJoCo has no other way to say how an image lies
    layers = Appearance(normals=appearance.normals, coordinates=() if coordinates is None else (coordinates,))
    return dataclasses.replace(
        mesh,
        path=mesh.path,
        vertices=data.vertices,
        faces=data.faces,
        appearance=None if layers.is_empty else layers,
        submesh="",
        center_submesh=False,
    )


def _material(look: Look | None) -> VisualMaterial | None:
    if look is None or isinstance(look, VisualMaterial):
        return look
    fields = {field.name: getattr(look, field.name) for field in dataclasses.fields(Look)}
    return VisualMaterial(**fields)


def _with_colors_as_materials(writing: Writing, shape: Shape, appearance: Appearance) -> Appearance:
    """Colours of whole faces as a material each; colours that run across faces cannot be said."""
    colors = appearance.colors
    if colors is None:
        return appearance
    plain = dataclasses.replace(appearance, colors=None)
    kinds = np.unique(colors.values, axis=0)
    of_corner = colors.expanded()
    is_flat = (of_corner == of_corner[:, :1]).all()
    if not is_flat or len(kinds) > _MOST_COLORS or any(look.texture for look in appearance.materials):
        writing.drop(shape, "the colours of its vertices", "MuJoCo paints a mesh in one colour, or with a texture")
        return plain
    found, numbers = np.unique(of_corner[:, 0], axis=0, return_inverse=True)
    looks = tuple(VisualMaterial(color=(r, g, b, a)) for r, g, b, a in found.tolist())
    return dataclasses.replace(plain, materials=looks, material_of_face=numbers.reshape(-1))

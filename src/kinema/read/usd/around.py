"""Six images of MuJoCo's around a mesh: in a stage they are one, laid by texture coordinates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kinema.description import Mesh, VisualMaterial
from kinema.shapes import CornerValues, CubeProjection, MeshData, ShapeError, mesh_mass_properties
from kinema.words import mjcf, ours

from . import pxr
from .own_settings import own
from .polar import Affine, polar
from .stage_index import StageIndex

_SAME = 1e-4
"""How far texture coordinates may be from what the rule says."""
_APART = 1e-3
"""How far moments of inertia are from each other where their axes are clear, against the largest."""


def with_images_around(
    index: StageIndex, prim: pxr.Prim, mesh: Mesh, material: VisualMaterial, into_link: Affine
) -> tuple[Mesh, VisualMaterial]:
    """A mesh with the rule that its texture coordinates follow from, where they do.

    Args:
        index: the stage.
        prim: the mesh's.
        mesh: with its appearance.
        material: the mesh's, with the mean colour of six images.
        into_link: from the prim's own coordinates into its link's frame.
    """
    numbers, appearance = own(index, prim, ours.AROUND), mesh.appearance
    if not material.texture or appearance is None or not appearance.coordinates:
        return mesh, material
    rule = None if numbers is None else CubeProjection.of_numbers(numbers)
    if rule is not None and mesh.vertices is not None and mesh.faces is not None:
        rule = rule.under(polar(into_link.linear)[1])
        triangles = MeshData(mesh.vertices, mesh.faces)
        if _are_same(rule.coordinates(triangles), appearance.coordinates[0]) and _has_axes(triangles):
            bare = replace(appearance, coordinates=())
            return replace(mesh, projection=rule, appearance=None if bare.is_empty else bare), material
    # somebody has moved the image since, or MuJoCo would turn it: it is one like any other
    names = mjcf.key(mjcf.TEXTURES)
    attributes = {key: value for key, value in material.attributes.items() if key != names}
    return mesh, replace(material, image_color=None, attributes=attributes)


def _has_axes(mesh: MeshData) -> bool:
    """Whether the shape says how MuJoCo turns it: six images lie along the axes of inertia, whichever those are."""
    try:
        moments = np.linalg.eigvalsh(mesh_mass_properties(mesh, 1.0).inertia)
    except (ShapeError, np.linalg.LinAlgError):
        return False
    return bool((np.diff(moments) > _APART * np.abs(moments).max()).all())


def _are_same(one: CornerValues, other: CornerValues) -> bool:
    return bool(np.abs(one.expanded() - other.expanded()).max(initial=0.0) < _SAME)

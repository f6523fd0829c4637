"""Six images of MuJoCo's around a mesh: in a stage they are one, laid by texture coordinates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kinema.description import Mesh, VisualMaterial
from kinema.shapes import CornerValues, CubeProjection, MeshData
from kinema.words import mjcf, ours

from . import pxr
from .own_settings import own
from .polar import Affine, polar
from .stage_index import StageIndex

_SAME = 1e-4
"""How far texture coordinates may be from what the rule says."""


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
        if _are_same(rule.coordinates(MeshData(mesh.vertices, mesh.faces)), appearance.coordinates[0]):
            bare = replace(appearance, coordinates=())
            return replace(mesh, projection=rule, appearance=None if bare.is_empty else bare), material
    # somebody has moved the image since: it is one like any other
    names = mjcf.key(mjcf.TEXTURES)
    attributes = {key: value for key, value in material.attributes.items() if key != names}
    return mesh, replace(material, image_color=None, attributes=attributes)


def _are_same(one: CornerValues, other: CornerValues) -> bool:
    return bool(np.abs(one.expanded() - other.expanded()).max(initial=0.0) < _SAME)

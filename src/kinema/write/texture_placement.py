"""Texture coordinates moved as a material says, for formats that have no word for how an image lies."""

from __future__ import annotations

import math
from dataclasses import fields, replace

import numpy as np

from kinema.shapes import Appearance, CornerValues, Look, Placement


def lies_plainly(placement: Placement) -> bool:
    """Whether an image lies by the first set of coordinates as they are."""
    return replace(placement, wrap=Placement().wrap) == Placement()


def laid_coordinates(sets: tuple[CornerValues, ...], look: Look | None) -> CornerValues | None:
    """The coordinates that a material's texture uses, moved as it says; None where there are none."""
    if not sets:
        return None
    placement = Placement() if look is None or not look.texture else look.placement
    chosen = sets[min(placement.coordinates, len(sets) - 1)]
    if lies_plainly(replace(placement, coordinates=0)):
        return chosen
    cosine, sine = math.cos(placement.rotation), math.sin(placement.rotation)
    turn = np.array([[cosine, -sine], [sine, cosine]])
    return CornerValues((chosen.values * placement.scale) @ turn.T + placement.offset, chosen.corners)


def with_laid_textures(appearance: Appearance) -> Appearance:
    """The same with all images lying plainly, where the images of each material lie alike; else as it is."""
    sets, materials = appearance.coordinates, appearance.materials
    textured = [look for look in materials if look.images]
    if not sets or all(lies_plainly(look.placement) for look in textured) or not all(map(_lie_alike, textured)):
        return appearance
    of_corner = np.zeros((len(sets[0].corners), 3, 2))
    for look, faces in appearance.faces_of_materials(len(of_corner)):
        laid = laid_coordinates(sets, look)
        assert laid is not None  # there are sets
        of_corner[faces] = laid.expanded()[faces]
    corners = np.arange(3 * len(of_corner)).reshape(-1, 3)
    plain = tuple(_laid(look) if look in textured else look for look in materials)
    return replace(appearance, coordinates=(CornerValues(of_corner.reshape(-1, 2), corners),), materials=plain)


def _lie_alike(look: Look) -> bool:
    return bool(look.texture) and all(image.placement == look.placement for image in look.maps.values())


def _laid(look: Look) -> Look:
    placement = Placement(wrap=look.placement.wrap)
    given = {field.name: getattr(look, field.name) for field in fields(Look)}
    maps = {role: replace(image, placement=placement) for role, image in look.maps.items()}
    return Look(**{**given, "placement": placement, "maps": maps})

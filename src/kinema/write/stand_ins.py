"""Colours that stand for images where these cannot be seen: the mean of what they show."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from kinema.shapes import Color, Look, MeshError, mean_color

AnyLook = TypeVar("AnyLook", bound=Look)
_AROUND = "no other format has cubes of images; its colour is the mean of them"
_UNFOLDED = "no other format has cubes of images; they are in one image, laid by texture coordinates"
_WHITE = (1.0, 1.0, 1.0, 1.0)


def how_around(look: Look) -> str:
    """What becomes of six images around a shape."""
    return _UNFOLDED if look.texture else _AROUND


def color_without_image(look: Look) -> Color | None:
    """The colour of a surface whose image is not shown; its own where there is none, or none that can be read."""
    try:
        mean = mean_color(look.texture) if look.texture else look.image_color
    except MeshError:
        mean = None
    if mean is None:
        return look.color
    red, green, blue, alpha = look.color or _WHITE
    return red * mean[0], green * mean[1], blue * mean[2], alpha


def with_mean_color(look: AnyLook) -> AnyLook:
    """The look for a format that has no way to show what `image_color` stands for."""
    if look.image_color is None or look.texture:
        return look
    return replace(look, color=color_without_image(look), image_color=None)


def without_images(look: Look) -> Look:
    """The look for triangles that have no texture coordinates."""
    return replace(look, color=color_without_image(look), texture="", maps={}, image_color=None)

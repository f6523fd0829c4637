"""`<heightmap>`: terrain whose heights are the brightness of a picture."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from kinema.description import Extra, HeightField
from kinema.foundation import NOWHERE, Array, Origin
from kinema.shapes import ShapeError, read_image, terrain_from_image

from ..resolve import Resolver

GROUND = 1.0
"""How far the ground reaches below the darkest pixel [m]."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class HeightmapShape:
    """`<heightmap>`: a picture, what it is stretched to, and where its middle is."""

    uri: str
    size: Array
    position: Array
    extras: list[Extra] = field(default_factory=list)
    origin: Origin = NOWHERE


def height_field_of(shape: HeightmapShape, resolver: Resolver) -> HeightField | str:
    """The terrain, or why there is none. As in Gazebo the brightest pixel is as high as `<size>` says."""
    found = resolver.resolve(shape.uri, shape.origin.file)
    if found.path is None or not Path(found.path).is_file():
        return f"{shape.uri!r} was not found: {found.reason or 'it is not a file'}"
    if not (np.isfinite(shape.size).all() and (shape.size[:2] > 0.0).all() and shape.size[2] >= 0.0):
        return "its size is none"
    try:
        data, suffix = read_image(str(found.path))
        if suffix != ".png":
            return f"{shape.uri!r} is no PNG picture"
        terrain = terrain_from_image(data, (float(shape.size[0]), float(shape.size[1])), 1.0, GROUND)
    except ShapeError as error:
        return f"{shape.uri!r} cannot be used: {error}"
    brightest = float(terrain.heights.max())
    heights = terrain.heights * (float(shape.size[2]) / brightest if brightest > 0.0 else 0.0)
    return HeightField(heights=heights, size=terrain.size, base=GROUND, path=str(found.path))

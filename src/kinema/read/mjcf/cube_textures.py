"""Textures of six images around a shape: on meshes one image can have them all, elsewhere their mean colour is told."""

from __future__ import annotations

import numpy as np

from kinema.foundation import cache_dir, clean_name, content_digest, write_atomically
from kinema.read.cursor import parse_float
from kinema.shapes import MeshError, image_pixels, png_bytes, unfolded_cube
from kinema.words import mjcf

from .engine import mujoco
from .reading import Reading
from .xml_out import quoted

_VERSION = 1
"""Of how six images become one."""
_ATTRIBUTES = (
    *("type", "builtin", "rgb1", "rgb2", "mark", "markrgb", "random", "width", "height"),
    *("gridsize", "gridlayout", "hflip", "vflip"),
)
"""What of a texture its pixels follow from, beside files."""
_MOST_PIXELS = 4096 * 3072
_MOST_WIDTH = 1024
"""Of sides that MuJoCo draws."""


def mean_of_cube(reading: Reading, texture: int) -> tuple[float, float, float] | None:
    """The mean colour of a texture of six sides; None where it is not known."""
    if texture not in reading.means:
        sides = cube_sides(reading, texture)
        reading.means[texture] = None if sides is None else _mean(sides)
    return reading.means[texture]


def _mean(sides: np.ndarray) -> tuple[float, float, float]:
    red, green, blue = (sides[..., :3].mean(axis=(0, 1, 2), dtype=np.float64) / 255.0).tolist()
    return red, green, blue


def unfolded(reading: Reading, texture: int) -> str:
    """The file with all six sides of a texture in one image, made once for each content; empty where there is none."""
    sides = cube_sides(reading, texture)
    if sides is None:
        return ""
    name = clean_name(reading.name(mjcf.TEXTURE, texture)) or "cube"
    file = cache_dir() / "images" / content_digest(_VERSION, sides) / f"{name}.png"
    if not file.is_file():
        write_atomically(file, png_bytes(unfolded_cube(np.broadcast_to(sides, (6, *sides.shape[1:])))))
    return str(file) if file.is_file() else ""


def cube_sides(reading: Reading, texture: int) -> np.ndarray | None:
    """The pixels of a texture of six sides, shape (1 or 6, width, width, channels); None where they cannot be had.

    MuJoCo makes them, in a model of its own, of nothing but colours and of images that we have read.
    """
    if texture not in reading.cubes:
        reading.cubes[texture] = _compiled(reading, texture)
    return reading.cubes[texture]


def _compiled(reading: Reading, texture: int) -> np.ndarray | None:
    element = reading.element("textures", texture)
    if element is None:
        return None
    given, images = _wanted(reading, element.attributes)
    if given is None:
        return None
    text = "".join(f" {name}={quoted(value)}" for name, value in given.items())
    try:
        model = mujoco().MjModel.from_xml_string(f'<mujoco><asset><texture name="t"{text}/></asset></mujoco>', images)
    except ValueError:
        return None
    width, height, channels = int(model.tex_width[0]), int(model.tex_height[0]), int(model.tex_nchannel[0])
    if height not in (width, 6 * width) or channels not in (3, 4):
        return None
    return np.array(model.tex_data[: width * height * channels]).reshape(-1, width, width, channels)


def _wanted(reading: Reading, given: dict[str, str]) -> tuple[dict[str, str] | None, dict[str, bytes]]:
    """The attributes for MuJoCo and the images that they name; None where one cannot be had, or is too large."""
    wanted, images = {name: text for name, text in given.items() if name in _ATTRIBUTES and text.strip()}, {}
    for name in mjcf.TEXTURE_FILES:
        if given.get(name):
            try:
                pixels = image_pixels(reading.compiled.prepared.paths.get(given[name], ""), _MOST_PIXELS)
            except MeshError:
                return None, {}
            images[f"{name}.png"] = png_bytes(pixels[..., :3])
            wanted[name] = f"{name}.png"
    width = parse_float(given.get("width", "0"))
    if not images and (width is None or not 1 <= width <= _MOST_WIDTH):
        return None, {}
    return wanted, images

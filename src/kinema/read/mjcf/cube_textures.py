"""Textures of six images around a shape: no surface can have them elsewhere than in MuJoCo, but their mean colour."""

from __future__ import annotations

import numpy as np

from kinema.read.cursor import parse_float
from kinema.shapes import MeshError

from .reading import Reading

_DEFAULTS = {"rgb1": (0.8, 0.8, 0.8), "rgb2": (0.5, 0.5, 0.5), "markrgb": (0.0, 0.0, 0.0)}
_BOTTOM = 1.0 / 6.0
"""One of the six sides of a plain cube has the second colour."""
_SECOND = {"flat": _BOTTOM, "gradient": 0.5, "checker": 0.5}
"""How much of a cube that MuJoCo draws has the second colour."""


def mean_of_cube(reading: Reading, texture: int) -> tuple[float, float, float] | None:
    """The mean colour of a texture of six sides; None where it is not known."""
    element = reading.element("textures", texture)
    if element is None:
        return None
    asset, given = reading.asset(element), element.attributes
    if asset is not None:
        if not asset.path or not given.get("file"):
            return None
        try:
            return reading.cached_mean(asset.path)
        except MeshError:
            return None
    second = _SECOND.get(given.get("builtin", "none"))
    if second is None:
        return None
    marked = _marked(given)
    plain = (1.0 - second) * _color(given, "rgb1") + second * _color(given, "rgb2")
    red, green, blue = ((1.0 - marked) * plain + marked * _color(given, "markrgb")).tolist()
    return red, green, blue


def _color(given: dict[str, str], name: str) -> np.ndarray:
    values = [v for v in map(parse_float, given.get(name, "").split()) if v is not None]
    return np.array(values if len(values) == len(_DEFAULTS[name]) else _DEFAULTS[name])


def _marked(given: dict[str, str]) -> float:
    """The share of pixels that marks cover."""
    edge = max(parse_float(given.get("width", "0")) or 0.0, 1.0)
    share = parse_float(given.get("random", "0.01"))
    shares = {
        "edge": (4.0 * edge - 4.0) / edge**2,
        "cross": (2.0 * edge - 1.0) / edge**2,
        "random": 0.01 if share is None else share,
    }
    return min(max(shares.get(given.get("mark", "none"), 0.0), 0.0), 1.0)

"""The images that MuJoCo draws by itself, for formats that have no such thing.

One is called `builtin[kind width height rgb1 rgb2 mark markrgb]`, colours as three numbers with commas between.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from kinema.shapes.images import png_bytes
from kinema.shapes.mesh_data import MeshError

BUILTIN = "builtin"
MAX_EDGE = 512
"""Pixels along an edge: these images are smooth or plain, and stay what they are when made smaller."""
_WORDS = 7


def builtin_reference(
    kind: str,
    size: tuple[int, int],
    rgb1: tuple[float, ...],
    rgb2: tuple[float, ...],
    mark: str = "none",
    mark_rgb: tuple[float, ...] = (0.0, 0.0, 0.0),
) -> str:
    """What an image is called that is drawn when it is asked for."""
    width, height = (min(max(edge, 1), MAX_EDGE) for edge in size)
    colors = [",".join(f"{value:.6g}" for value in color[:3]) for color in (rgb1, rgb2, mark_rgb)]
    return f"{BUILTIN}[{kind} {width} {height} {colors[0]} {colors[1]} {mark} {colors[2]}]"


@lru_cache(maxsize=8)  # one that is shown and kept is asked for twice
def draw_builtin(words: str) -> bytes:
    """The image as a PNG."""
    parts = words.split()
    if len(parts) != _WORDS:
        raise MeshError("The builtin image is not described in full.")
    kind, width, height, *rest = parts
    columns, rows = int(width), int(height)
    if not (0 < columns <= MAX_EDGE and 0 < rows <= MAX_EDGE):
        raise MeshError("The builtin image is too large.")
    first, second, mark_rgb = (_color(text) for text in (rest[0], rest[1], rest[3]))
    share = _share(kind, rows, columns)[:, :, None]
    pixels = first * (1.0 - share) + second * share
    _mark(pixels, rest[2], mark_rgb)
    return png_bytes((255.0 * np.clip(pixels, 0.0, 1.0)).astype(np.uint8))


def _color(text: str) -> np.ndarray:
    return np.array([float(value) for value in text.split(",")], dtype=np.float64)


def _share(kind: str, rows: int, columns: int) -> np.ndarray:
    """How much of the second colour each pixel has."""
    y, x = np.mgrid[:rows, :columns]
    if kind == "checker":
        # the first colour in the upper left and lower right quarter
        return ((y < rows // 2) != (x < columns // 2)).astype(np.float64)
    if kind == "gradient":
        across = 2.0 * x / max(columns - 1, 1) - 1.0
        down = 2.0 * y / max(rows - 1, 1) - 1.0
        place = 2.0 * np.hypot(across, down) - 1.0
        return np.clip(0.5 * (1.0 + np.sqrt(2.0) * place / np.sqrt(1.0 + place**2)), 0.0, 1.0)
    return np.zeros((rows, columns))


def _mark(pixels: np.ndarray, mark: str, color: np.ndarray) -> None:
    if mark == "edge":
        pixels[[0, -1]] = color
        pixels[:, [0, -1]] = color
    elif mark == "cross":
        pixels[pixels.shape[0] // 2] = color
        pixels[:, pixels.shape[1] // 2] = color

"""Six images around a shape as one that is laid on it by texture coordinates.

The six sides of a cube are what is seen from its middle; where a direction meets which of them is as OpenGL has it. In
the one image they lie side by side in two rows, each with an edge of what its neighbours show, so that a triangle may
reach a little over the edge of the side that it is on.
"""

from __future__ import annotations

import numpy as np

from kinema.shapes.mesh_data import FloatArray, IntArray

_EDGE = 8
"""A side's width against that of the edge around it."""
_COLUMNS, _ROWS = 3, 2
_MOST_PIXELS = 1024
"""Along a side."""
_ACROSS = np.array([[0, 0, -1], [0, 0, 1], [1, 0, 0], [1, 0, 0], [1, 0, 0], [-1, 0, 0]], dtype=np.float64)
_DOWN = np.array([[0, -1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1], [0, -1, 0], [0, -1, 0]], dtype=np.float64)
_OUT = np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]], dtype=np.float64)
"""Of the sides +x, -x, +y, -y, +z and -z: where their columns and rows run to, and where they are."""


def cube_reach(width: int) -> float:
    """How far the part of the image for a side reaches, against half the side.

    Args:
        width: pixels along a side.
    """
    width = min(width, _MOST_PIXELS)
    return (width + 2 * _edge(width)) / width


def unfolded_cube(sides: np.ndarray) -> np.ndarray:
    """The one image of six, shape (6, width, width, channels) of 8 bits."""
    sides = _smaller(sides)
    width = sides.shape[1]
    edge = _edge(width)
    places = (np.arange(-edge, width + edge) + 0.5) / width * 2.0 - 1.0
    rows = []
    for row in range(_ROWS):
        tiles = [_tile(sides, row * _COLUMNS + column, places) for column in range(_COLUMNS)]
        rows.append(np.concatenate(tiles, axis=1))
    return np.concatenate(rows, axis=0)


def sides_of(directions: FloatArray) -> IntArray:
    """The side that each direction, shape (n, 3), meets."""
    axis = np.abs(directions).argmax(axis=1)
    return 2 * axis + (directions[np.arange(len(axis)), axis] < 0)


def on_sides(directions: FloatArray, sides: IntArray) -> FloatArray:
    """Where directions meet the planes of sides: columns and rows, each -1 to 1 on the side itself.

    Args:
        directions: shape (..., 3); those that do not come near the plane are far away on it.
        sides: shape (...).
    """
    depth = np.maximum((directions * _OUT[sides]).sum(axis=-1), 1e-9 * np.abs(directions).max(axis=-1, initial=0.0))
    depth = np.where(depth > 0, depth, 1.0)
    across, down = (directions * _ACROSS[sides]).sum(axis=-1), (directions * _DOWN[sides]).sum(axis=-1)
    return np.stack([across, down], axis=-1) / depth[..., None]


def in_image(places: FloatArray, sides: IntArray, reach: float) -> FloatArray:
    """Texture coordinates, v counted upwards, of places on sides.

    Args:
        places: what `on_sides` gives.
        sides: shape (...).
        reach: see `cube_reach`.
    """
    within = 0.5 + 0.5 * np.clip(places / reach, -1.0, 1.0)
    across = (sides % _COLUMNS + within[..., 0]) / _COLUMNS
    down = (sides // _COLUMNS + within[..., 1]) / _ROWS
    return np.stack([across, 1.0 - down], axis=-1)


def _edge(width: int) -> int:
    return -(-width // _EDGE)


def _tile(sides: np.ndarray, side: int, places: FloatArray) -> np.ndarray:
    """What is seen through a side and a little beyond; on the side itself its pixels as they are."""
    down, across = np.meshgrid(places, places, indexing="ij")
    directions = (_OUT[side] + across[..., None] * _ACROSS[side] + down[..., None] * _DOWN[side]).reshape(-1, 3)
    met = sides_of(directions)
    width = sides.shape[1]
    pixels = np.clip(((on_sides(directions, met) + 1.0) / 2.0 * width).astype(int), 0, width - 1)
    return sides[met, pixels[:, 1], pixels[:, 0]].reshape(len(places), len(places), -1)


def _smaller(sides: np.ndarray) -> np.ndarray:
    """The same with no more pixels along a side than are wanted."""
    width = sides.shape[1]
    if width <= _MOST_PIXELS:
        return sides
    chosen = ((np.arange(_MOST_PIXELS) + 0.5) * width / _MOST_PIXELS).astype(int)
    return sides[:, chosen][:, :, chosen]

"""Meshes with hollows, as plain arrays: what is turned on a lathe, and what has a thread."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kinema.core import Array

Triangles = tuple[Array, np.ndarray]
"""Vertices [m], (n, 3), and faces, (m, 3), outwards."""


def turned(profile: Sequence[tuple[float, float]], sides: int = 16) -> Triangles:
    """A closed outline (radius, height), counter-clockwise, turned about z."""
    rings = [np.array([radius_height]) for radius_height in profile]
    return _swept([np.repeat(ring, sides, axis=0) for ring in rings], closed=True)


def cup(radius: float = 0.05, height: float = 0.1, wall: float = 0.01, sides: int = 16) -> Triangles:
    """A cup that stands on z = 0."""
    inner, floor = radius - wall, wall
    outline = [(1e-6, 0.0), (radius, 0.0), (radius, height), (inner, height), (inner, floor), (1e-6, floor)]
    return turned(outline, sides)


def tray(half: tuple[float, float, float], hole: tuple[float, float], floor: float) -> Triangles:
    """A box about the origin with a rectangular hole from above, down to so far above its lower side."""
    x, y, z = half
    levels = [(x, y, -z), (x, y, z), (*hole, z), (*hole, floor - z)]
    signs = [(-1, -1), (1, -1), (1, 1), (-1, 1)]
    vertices = np.array([[a * sx, b * sy, c] for a, b, c in levels for sx, sy in signs])
    faces = []
    for level in range(3):
        for i in range(4):
            j, low, high = (i + 1) % 4, 4 * level, 4 * level + 4
            faces += [[low + i, low + j, high + j], [low + i, high + j, high + i]]
    faces += [[0, 2, 1], [0, 3, 2], [12, 13, 14], [12, 14, 15]]
    return vertices, np.array(faces)


def bolt(radius: float, depth: float, pitch: float, turns: float, sides: int = 20) -> Triangles:
    """A rod along z about the origin; its surface goes in and out by half the depth, once in a pitch."""
    heights = _heights(pitch, turns)
    rings = [_thread(radius, depth, pitch, z, sides) for z in heights]
    ends = [np.column_stack([np.full(sides, 1e-6), np.full(sides, z)]) for z in (heights[0], heights[-1])]
    return _swept([ends[0], *rings, ends[1]], closed=False)


def nut(radius: float, depth: float, pitch: float, turns: float, outer: float, sides: int = 20) -> Triangles:
    """A ring about a thread of this mean radius."""
    heights = _heights(pitch, turns)
    inside = [_thread(radius, depth, pitch, z, sides) for z in reversed(heights)]
    outside = [np.column_stack([np.full(sides, outer), np.full(sides, z)]) for z in (heights[0], heights[-1])]
    return _swept([*outside, *inside], closed=True)


def _heights(pitch: float, turns: float) -> list[float]:
    count = int(8 * turns)
    return [float(z) for z in np.linspace(-0.5, 0.5, count + 1) * pitch * turns]


def _thread(radius: float, depth: float, pitch: float, z: float, sides: int) -> Array:
    phase = 2.0 * np.pi * (z / pitch - np.arange(sides) / sides)
    return np.column_stack([radius + 0.5 * depth * np.cos(phase), np.full(sides, z)])


def _swept(rings: list[Array], *, closed: bool) -> Triangles:
    """Rings of (radius, height) about z, each joined to the next, and the last to the first if closed."""
    sides = len(rings[0])
    turns = 2.0 * np.pi * np.arange(sides) / sides
    vertices = np.concatenate(
        [np.column_stack([r[:, 0] * np.cos(turns), r[:, 0] * np.sin(turns), r[:, 1]]) for r in rings]
    )
    faces = []
    for k in range(len(rings) if closed else len(rings) - 1):
        low, high = k * sides, (k + 1) % len(rings) * sides
        for i in range(sides):
            j = (i + 1) % sides
            faces += [[low + i, low + j, high + j], [low + i, high + j, high + i]]
    if not closed:
        last = (len(rings) - 1) * sides
        faces += [[0, i + 1, i] for i in range(1, sides - 1)] + [
            [last, last + i, last + i + 1] for i in range(1, sides - 1)
        ]
    return vertices, np.array(faces)

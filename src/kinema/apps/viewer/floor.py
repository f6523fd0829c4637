"""The floor under everything: a grid without an end; for browsers without a GPU a few lines."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kinema.foundation import Pose

from .glb import Painted, glb

_PLANE, _CELL, _SECTION = (238, 240, 243), (205, 208, 214), (168, 173, 182)
_FADE, _FAR = 16.0, 7.0
"""How far the grid is seen, and the lines, in sizes of what stands on it."""
_PIECES = 12
_WHITE = 6.0
"""The light that comes out white on the page, where one is light grey."""


def add_floor(scene: Any, pose: Pose, size: float, *, plain: bool) -> Any:
    """Lay it, a little below, so that it does not flicker with what lies on it; the node that it is.

    Args:
        scene: the page's.
        pose: its frame, z upwards.
        size: of what stands on it [m].
        plain: lines alone: most of a page is floor, and filling it takes software half of the time of a frame.
    """
    cell = 10.0 ** math.floor(math.log10(size))
    place = pose.position - 1e-3 * size * pose.rotation[:, 2]
    if plain:
        apart = cell * (0.5 if size < 2.5 * cell else 1.0 if size < 5.0 * cell else 2.0)
        lines = _lines(_FAR * size, apart, 1e-3 * size)
        return scene.add_glb("/floor/0", glb([lines]), position=place, wxyz=pose.quaternion, cast_shadow=False)
    return scene.add_grid(
        "/floor/0",
        infinite_grid=True,
        cell_size=cell / 2,
        section_size=cell * 2,
        fade_distance=_FADE * size,
        fade_strength=2.0,
        position=place,
        wxyz=pose.quaternion,
        cell_color=_CELL,
        section_color=_SECTION,
        plane_color=_PLANE,
        plane_opacity=1.0,
        shadow_opacity=0.25,
    )


def _lines(radius: float, cell: float, width: float) -> Painted:
    """Lines at every cell, as thin strips, in pieces so that they can fade into the white behind them."""
    count = math.floor(radius / cell)
    points, faces = [], []
    for number, swap in ((n, s) for n in range(-count, count + 1) for s in (False, True)):
        at = number * cell
        along = math.sqrt(radius**2 - at**2) * np.linspace(-1.0, 1.0, _PIECES + 1)
        sides = [np.stack([along, np.full_like(along, at + side), np.zeros_like(along)], 1) for side in (-width, width)]
        strip = np.concatenate(sides)
        i = 2 * (_PIECES + 1) * len(points) + np.arange(_PIECES)
        turned = np.concatenate(
            [np.stack([i, i + 1, i + _PIECES + 1], 1), np.stack([i + 1, i + _PIECES + 2, i + _PIECES + 1], 1)]
        )
        points.append(strip[:, [1, 0, 2]] if swap else strip)
        faces.append(turned[:, ::-1] if swap else turned)
    places = np.concatenate(points)
    fade = np.clip(np.linalg.norm(places, axis=1) / radius, 0.0, 1.0)[:, None] ** 2
    light = (np.array(_SECTION) / 255.0) ** 2.2 * (1.0 - fade) + _WHITE * fade
    colors = np.concatenate([light, np.ones_like(fade)], axis=1)
    normals = np.tile([0.0, 0.0, 1.0], (len(places), 1))
    return Painted(places, normals, np.concatenate(faces), colors=colors, closed=True, lit=False)

"""Geometry generated for `<polyline>` (extruded polygon, ear clipping) and `<heightmap>` (height field of an image)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from kinema.core import UNKNOWN_ORIGIN, Array, Origin
from kinema.description import Extra, HeightField
from kinema.geometry import GeometryError, read_image, terrain_from_image

from ..resolve import Resolver

# -- polylines ---------------------------------------------------------------------------------------------------------


def extrude_polygon(points: Array, height: float) -> tuple[Array, np.ndarray] | None:
    """Closed mesh of a simple polygon, shape (n, 2), extruded from z = 0 to `height`.

    Returns vertices and outward-facing triangles; None if the polygon is degenerate or not simple.
    """
    outline = _without_repeats(points)
    n = len(outline)
    if n < 3 or not height > 0.0 or is_self_intersecting(outline):
        return None
    if _signed_area(outline) < 0.0:
        outline = outline[::-1]
    top = triangulate_polygon(outline)
    if top is None:
        return None
    vertices = np.zeros((2 * n, 3))
    vertices[:n, :2] = vertices[n:, :2] = outline
    vertices[n:, 2] = height
    current = np.arange(n)
    following = (current + 1) % n
    sides = np.concatenate(
        [np.stack([current, following, following + n], axis=1), np.stack([current, following + n, current + n], axis=1)]
    )
    return vertices, np.concatenate([top[:, ::-1], top + n, sides])


def triangulate_polygon(outline: Array) -> np.ndarray | None:
    """Triangulate a simple counter-clockwise polygon by ear clipping; None if no ear is found."""
    remaining = list(range(len(outline)))
    triangles: list[tuple[int, int, int]] = []
    while len(remaining) > 3:
        ear = next((i for i in range(len(remaining)) if _is_ear(outline, remaining, i)), None)
        if ear is None:
            return None
        triangles.append((remaining[ear - 1], remaining[ear], remaining[(ear + 1) % len(remaining)]))
        del remaining[ear]
    triangles.append((remaining[0], remaining[1], remaining[2]))
    return np.array(triangles, dtype=np.int64)


def is_self_intersecting(outline: Array) -> bool:
    """Whether non-adjacent edges intersect or adjacent edges fold back."""
    a, b = outline, np.roll(outline, -1, axis=0)
    n = len(outline)
    for i in range(n):
        others = np.array([j for j in range(n) if j not in (i, (i + 1) % n, (i - 1) % n)], dtype=np.int64)
        if len(others) and _segments_intersect(a[i], b[i], a[others], b[others]).any():
            return True
        back, forth = a[i] - a[i - 1], b[i] - a[i]
        if _cross_2d(back, forth) == 0.0 and float(back @ forth) < 0.0:
            return True
    return False


def _without_repeats(points: Array) -> Array:
    """Corners without repeated consecutive points, including a closing point."""
    if not len(points):
        return points
    keep = np.linalg.norm(points - np.roll(points, -1, axis=0), axis=1) > 1e-12
    return points[keep]


def _signed_area(outline: Array) -> float:
    x, y = outline.T
    return 0.5 * float(x @ np.roll(y, -1) - y @ np.roll(x, -1))


def _is_ear(outline: Array, remaining: list[int], i: int) -> bool:
    """Whether corner i is convex and its triangle contains no other remaining corner."""
    a, b, c = outline[remaining[i - 1]], outline[remaining[i]], outline[remaining[(i + 1) % len(remaining)]]
    if _cross_2d(b - a, c - b) <= 0.0:
        return False
    rest = outline[
        [
            remaining[j]
            for j in range(len(remaining))
            if j not in (i, (i - 1) % len(remaining), (i + 1) % len(remaining))
        ]
    ]
    inside = (_cross_2d(b - a, rest - a) >= 0) & (_cross_2d(c - b, rest - b) >= 0) & (_cross_2d(a - c, rest - c) >= 0)
    return not bool(inside.any())


def _segments_intersect(a: Array, b: Array, c: Array, d: Array) -> np.ndarray:
    """Whether segment ab intersects each of the segments cd."""
    ab_c, ab_d = _cross_2d(b - a, c - a), _cross_2d(b - a, d - a)
    cd_a, cd_b = _cross_2d(d - c, a - c), _cross_2d(d - c, b - c)
    low, high = np.minimum(a, b), np.maximum(a, b)
    boxes = ((np.minimum(c, d) <= high) & (np.maximum(c, d) >= low)).all(axis=1)
    return boxes & (ab_c * ab_d <= 0) & (cd_a * cd_b <= 0)


def _cross_2d(u: Array, v: Array) -> Array:
    return u[..., 0] * v[..., 1] - u[..., 1] * v[..., 0]


# -- height maps -------------------------------------------------------------------------------------------------------

GROUND_DEPTH = 1.0
"""Depth of the ground below the darkest pixel [m]."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class HeightmapShape:
    """`<heightmap>`: image, size and position of the centre."""

    uri: str
    size: Array
    position: Array
    extras: list[Extra] = field(default_factory=list)
    origin: Origin = UNKNOWN_ORIGIN


def load_height_field(shape: HeightmapShape, resolver: Resolver) -> HeightField | str:
    """Height field of a PNG image, or the reason for a failure.

    As in Gazebo the brightest pixel has the height of `<size>`.
    """
    found = resolver.resolve(shape.uri, shape.origin.file)
    if found.path is None or not Path(found.path).is_file():
        return f"{shape.uri!r} was not found: {found.reason or 'it is not a file'}"
    if not (np.isfinite(shape.size).all() and (shape.size[:2] > 0.0).all() and shape.size[2] >= 0.0):
        return "its size is none"
    try:
        data, suffix = read_image(str(found.path))
        if suffix != ".png":
            return f"{shape.uri!r} is no PNG picture"
        terrain = terrain_from_image(data, (float(shape.size[0]), float(shape.size[1])), 1.0, GROUND_DEPTH)
    except GeometryError as error:
        return f"{shape.uri!r} cannot be used: {error}"
    brightest = float(terrain.heights.max())
    heights = terrain.heights * (float(shape.size[2]) / brightest if brightest > 0.0 else 0.0)
    return HeightField(heights=heights, size=terrain.size, base=GROUND_DEPTH, path=str(found.path))

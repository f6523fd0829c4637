"""A polygon, extruded: the mesh of a `<polyline>`."""

from __future__ import annotations

import numpy as np

from kinema.foundation import Array


def extrude(points: Array, height: float) -> tuple[Array, np.ndarray] | None:
    """Vertices and triangles, facing outward, of a simple polygon (n, 2) between z = 0 and a height; else None."""
    outline = _without_repeats(points)
    n = len(outline)
    if n < 3 or not height > 0.0 or crosses_itself(outline):
        return None
    if _area(outline) < 0.0:
        outline = outline[::-1]
    top = triangulate(outline)
    if top is None:
        return None
    vertices = np.zeros((2 * n, 3))
    vertices[:n, :2] = vertices[n:, :2] = outline
    vertices[n:, 2] = height
    here = np.arange(n)
    there = (here + 1) % n
    sides = np.concatenate([np.stack([here, there, there + n], axis=1), np.stack([here, there + n, here + n], axis=1)])
    return vertices, np.concatenate([top[:, ::-1], top + n, sides])


def triangulate(outline: Array) -> np.ndarray | None:
    """Triangles of a simple polygon given counter-clockwise, by cutting off ears; None where none can be found."""
    left = list(range(len(outline)))
    triangles: list[tuple[int, int, int]] = []
    while len(left) > 3:
        ear = next((i for i in range(len(left)) if _is_ear(outline, left, i)), None)
        if ear is None:
            return None
        triangles.append((left[ear - 1], left[ear], left[(ear + 1) % len(left)]))
        del left[ear]
    triangles.append((left[0], left[1], left[2]))
    return np.array(triangles, dtype=np.int64)


def crosses_itself(outline: Array) -> bool:
    """Whether two edges that are not neighbours meet, or two neighbours fold back on each other."""
    a, b = outline, np.roll(outline, -1, axis=0)
    n = len(outline)
    for i in range(n):
        others = np.array([j for j in range(n) if j not in (i, (i + 1) % n, (i - 1) % n)], dtype=np.int64)
        if len(others) and _meet(a[i], b[i], a[others], b[others]).any():
            return True
        back, forth = a[i] - a[i - 1], b[i] - a[i]
        if _cross(back, forth) == 0.0 and float(back @ forth) < 0.0:
            return True
    return False


def _without_repeats(points: Array) -> Array:
    """The corners without a last point that closes the polygon and without points given twice in a row."""
    if not len(points):
        return points
    keep = np.linalg.norm(points - np.roll(points, -1, axis=0), axis=1) > 1e-12
    return points[keep]


def _area(outline: Array) -> float:
    x, y = outline.T
    return 0.5 * float(x @ np.roll(y, -1) - y @ np.roll(x, -1))


def _is_ear(outline: Array, left: list[int], i: int) -> bool:
    a, b, c = outline[left[i - 1]], outline[left[i]], outline[left[(i + 1) % len(left)]]
    if _cross(b - a, c - b) <= 0.0:
        return False
    rest = outline[[left[j] for j in range(len(left)) if j not in (i, (i - 1) % len(left), (i + 1) % len(left))]]
    inside = (_cross(b - a, rest - a) >= 0) & (_cross(c - b, rest - b) >= 0) & (_cross(a - c, rest - c) >= 0)
    return not bool(inside.any())


def _meet(a: Array, b: Array, c: Array, d: Array) -> np.ndarray:
    """Whether the segment ab shares a point with each of the segments cd."""
    ab_c, ab_d = _cross(b - a, c - a), _cross(b - a, d - a)
    cd_a, cd_b = _cross(d - c, a - c), _cross(d - c, b - c)
    low, high = np.minimum(a, b), np.maximum(a, b)
    boxes = ((np.minimum(c, d) <= high) & (np.maximum(c, d) >= low)).all(axis=1)
    return boxes & (ab_c * ab_d <= 0) & (cd_a * cd_b <= 0)


def _cross(u: Array, v: Array) -> Array:
    return u[..., 0] * v[..., 1] - u[..., 1] * v[..., 0]

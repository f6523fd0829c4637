"""How far points are from the surfaces of shapes, by plain geometry."""

from __future__ import annotations

import numpy as np

from kinema.core import Array


def beyond_surface(kind: str, size: Array, points: Array) -> Array:
    """Signed distances of points (n, 3) in the axes of a shape, negative inside."""
    out = np.hypot(points[:, 0], points[:, 1])
    match kind:
        case "plane":
            return points[:, 2]
        case "sphere":
            return np.linalg.norm(points, axis=1) - size[0]
        case "capsule":
            nearest = np.clip(points[:, 2], -size[1], size[1])
            return np.hypot(out, points[:, 2] - nearest) - size[0]
        case "cylinder":
            return _beyond_edges(np.array([out - size[0], np.abs(points[:, 2]) - size[1]]))
        case "box":
            return _beyond_edges((np.abs(points) - size).T)
        case "ellipsoid":  # no distance, but zero where that is, and of its sign
            return np.linalg.norm(points / size, axis=1) - 1.0
        case "cone":
            return _beyond_cone(size, out, points[:, 2])
    raise AssertionError(kind)


def _beyond_edges(beyond: Array) -> Array:
    """Of what is bounded by faces at right angles, from how far it is beyond each."""
    return np.linalg.norm(np.maximum(beyond, 0.0), axis=0) + np.minimum(beyond.max(axis=0), 0.0)


def _beyond_cone(size: Array, out: Array, z: Array) -> Array:
    """From the nearest point of its base and of its slope, in the half plane of a point; the tip is at +z."""
    radius, half = size[0], size[1]
    on_base = np.array([np.minimum(out, radius), np.full_like(z, -half)])
    slope = np.array([-radius, 2.0 * half])
    share = np.clip(((out - radius) * slope[0] + (z + half) * slope[1]) / (slope @ slope), 0.0, 1.0)
    on_slope = np.array([radius + share * slope[0], -half + share * slope[1]])
    nearest = np.minimum(*(np.hypot(out - p[0], z - p[1]) for p in (on_base, on_slope)))
    inside = (z > -half) & ((out - radius) * slope[1] - (z + half) * slope[0] < 0.0)
    return np.where(inside, -nearest, nearest)

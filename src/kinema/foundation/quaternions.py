"""Many quaternions (w, x, y, z) at a time: arrays (..., 4), and of rotation vectors [rad] (..., 3)."""

from __future__ import annotations

import numpy as np

from .spatial import Array

NO_ANGLE = 1e-12
"""Sines below this are those of no rotation at all."""


def quaternions_of(vectors: Array) -> Array:
    """Of rotation vectors."""
    half = 0.5 * np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.concatenate([np.cos(half), 0.5 * np.sinc(half / np.pi) * vectors], axis=-1)


def rotation_vectors(quaternions: Array) -> Array:
    """Of unit quaternions, the shorter way round."""
    own = quaternions * np.where(quaternions[..., :1] < 0, -1.0, 1.0)
    sine = np.linalg.norm(own[..., 1:], axis=-1)
    angle = 2.0 * np.arctan2(sine, own[..., 0])
    scale = np.where(sine > NO_ANGLE, angle / np.where(sine > NO_ANGLE, sine, 1.0), 2.0)
    return own[..., 1:] * scale[..., None]


def quaternion_products(a: Array, b: Array) -> Array:
    """First b's rotation, then a's."""
    w, v, x, u = a[..., :1], a[..., 1:], b[..., :1], b[..., 1:]
    scalar = w * x - (v * u).sum(axis=-1, keepdims=True)
    return np.concatenate([scalar, w * u + x * v + np.cross(v, u)], axis=-1)


def conjugates(quaternions: Array) -> Array:
    """The rotations back, of unit quaternions."""
    return quaternions * np.array([1.0, -1.0, -1.0, -1.0])


def turned(quaternions: Array, vectors: Array) -> Array:
    """Vectors (..., 3), turned by unit quaternions."""
    w, u = quaternions[..., :1], quaternions[..., 1:]
    across = 2.0 * np.cross(u, vectors)
    return vectors + w * across + np.cross(u, across)

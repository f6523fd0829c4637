"""How far things reach along the world's axes, from what their shapes are: exact, whatever way they are turned."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kinema.description import (
    Box,
    Capsule,
    Cone,
    Cylinder,
    Ellipsoid,
    Geometry,
    HeightField,
    Mesh,
    Plane,
    Shape,
    Sphere,
    mesh_data,
    tessellate,
)
from kinema.foundation import Pose


def reach(shapes: Sequence[Shape], position: np.ndarray, rotation: np.ndarray) -> np.ndarray:
    """The box around a link's shapes that touch, (n_envs, 2, 3): least, then greatest [m]; inside out for none.

    Args:
        shapes: those of the link.
        position: where the link is [m], (n_envs, 3).
        rotation: its axes, (n_envs, 3, 3).
    """
    around = np.full((len(position), 2, 3), np.inf)
    around[:, 1] = -np.inf
    for shape in shapes:
        if shape.collision and shape.enabled:
            low, high = _bounds(shape.geometry, shape.pose, position, rotation)
            around[:, 0] = np.minimum(around[:, 0], low)
            around[:, 1] = np.maximum(around[:, 1], high)
    return around


def _bounds(form: Geometry, pose: Pose, position: np.ndarray, rotation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    turned = rotation @ pose.rotation
    middle = position + rotation @ pose.position
    match form:
        case Sphere():
            half = np.full(3, form.radius)
        case Box():
            half = np.abs(turned) @ (form.size / 2)
        case Ellipsoid():
            half = np.sqrt(turned**2 @ form.radii**2)
        case Capsule():
            half = np.abs(turned[:, :, 2]) * (form.length / 2) + form.radius
        case Cylinder():
            half = np.abs(turned[:, :, 2]) * (form.length / 2) + _rim(turned, form.radius)
        case Cone():
            apex = middle + turned[:, :, 2] * (form.length / 2)
            base, rim = middle - turned[:, :, 2] * (form.length / 2), _rim(turned, form.radius)
            return np.minimum(apex, base - rim), np.maximum(apex, base + rim)
        case Plane():
            half = np.full(3, np.inf)
        case Mesh() | HeightField():
            data = mesh_data(form) if isinstance(form, Mesh) else tessellate(form)
            if data is None or not len(data.vertices):
                return np.full_like(middle, np.inf), np.full_like(middle, -np.inf)
            points = np.einsum("nij,kj->nki", turned, data.vertices) + middle[:, None]
            return points.min(axis=1), points.max(axis=1)
    return middle - half, middle + half


def _rim(turned: np.ndarray, radius: float) -> np.ndarray:
    """How far a circle about the shape's z reaches."""
    return radius * np.sqrt(np.maximum(1.0 - turned[:, :, 2] ** 2, 0.0))

"""Poses as URDF writes them."""

from __future__ import annotations

import math

from kinema.foundation import Array, Pose

from ..text import Element, number, numbers
from .writing import finite

_NOISE = 5e-16
"""Angles [rad] and parts of unit vectors this close are the same: the rounding of a rotation matrix is as large."""
_EIGHTH = math.pi / 4


def add_origin(element: Element, pose: Pose, owner: str, *, computed: bool = False) -> None:
    """An `<origin>`, unless it would say nothing; the rounding of a computed position is hidden where it shows."""
    position = [finite(x, owner, "position") for x in pose.position.tolist()]
    if computed:
        position = [tidy(x) for x in position]
    angles = [tidy(finite(a, owner, "rotation")) for a in pose.rpy.tolist()]
    if any(position) or any(angles):
        xyz = numbers(position) if any(position) else None
        element.child("origin", xyz=xyz, rpy=numbers(angles) if any(angles) else None)


def direction_text(direction: Array, owner: str) -> str:
    """A unit vector."""
    return " ".join(number(tidy(finite(x, owner, "axis"))) for x in direction.tolist())


def tidy(value: float) -> float:
    """The value, or the shorter decimal that it was before rotation matrices rounded it."""
    if abs(value) < _NOISE:
        return 0.0
    candidates = (float(f"{value:.15g}"), round(value / _EIGHTH) * _EIGHTH)
    return next((c for c in candidates if abs(c - value) < _NOISE), value)

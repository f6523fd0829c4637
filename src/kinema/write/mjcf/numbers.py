"""Poses, directions and ranges as MJCF attributes: exact, and as a person would write them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from kinema.foundation import Array, Pose

from ..text import number, numbers

NOISE = 1e-15
"""Parts of a vector [m] or of a unit vector below this are what is left of a zero."""
_HARDLY_ANY = 1e-12


def vector_text(values: Iterable[float]) -> str:
    """Numbers with the remains of zeros made zero."""
    return numbers(0.0 if abs(v) < NOISE else v for v in map(float, values))


def direction_text(values: Array) -> str:
    """A vector whose length does not matter: in whole numbers where that says the same, as `0 1 -1` does."""
    largest = float(np.abs(values).max())
    scaled = values / largest if largest > 0 else values
    whole = np.round(scaled)
    if largest > 0 and float(np.abs(scaled - whole).max()) < NOISE:
        return numbers(whole.tolist())
    return vector_text(values)


def is_identity(rotation: Array) -> bool:
    """Whether a rotation is none, but for rounding."""
    return bool(np.abs(rotation - np.eye(3)).max() < NOISE)


def quaternion_text(rotation: Array) -> str:
    """A rotation as `quat`; MuJoCo normalises it, so that whole numbers are as exact as any."""
    quaternion = Pose(rotation=rotation).quaternion
    # what is no rotation has none; a unit quaternion has a part that is at least a half
    return direction_text(quaternion) if float(np.abs(quaternion).max()) >= 0.5 else "1 0 0 0"


def pose_attributes(pose: Pose) -> dict[str, str | None]:
    """`pos` and `quat`, each left out where it is the default."""
    moved = bool((np.abs(pose.position) >= NOISE).any())
    return {
        "pos": vector_text(pose.position) if moved else None,
        "quat": None if is_identity(pose.rotation) else quaternion_text(pose.rotation),
    }


def proper_range(low: float, high: float) -> tuple[float, float] | None:
    """A range that MuJoCo accepts, or None where there is none to write.

    It takes a range of no width for none at all; one that is hardly wider is as good as that.
    """
    if math.isnan(low) or math.isnan(high) or low > high or (math.isinf(low) and math.isinf(high)):
        return None
    return (low, math.nextafter(low, math.inf) if low else _HARDLY_ANY) if low == high else (low, high)


def text_or_none(value: float, default: float = 0.0) -> str | None:
    """A number, or None where it is the default that need not be written."""
    return None if value == default or math.isnan(value) else number(value)


def trimmed(values: Sequence[float], least: int = 1) -> str:
    """Numbers without the zeros at their end, which MuJoCo fills in."""
    count = len(values)
    while count > least and values[count - 1] == 0.0:
        count -= 1
    return numbers(values[:count])


def degrees_text(radians: float) -> str:
    """An angle in degrees: the shortest decimal that gives back the same radians, where there is one."""
    degrees = math.degrees(radians)
    for digits in range(16):
        rounded = round(degrees, digits)
        if math.radians(rounded) == radians:
            return number(rounded)
    return number(degrees)

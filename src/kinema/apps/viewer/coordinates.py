"""Joint coordinates as numbers that sliders can have: those of a quaternion as a rotation vector."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kinema.description import AxisMotion, Joint, JointKind
from kinema.foundation import Array, axis_angle_to_matrix, matrix_to_quaternion, quaternion_to_matrix

REACH = {AxisMotion.ROTATION: math.pi, AxisMotion.TRANSLATION: 1.0}
"""How far sliders of joints without limits go [rad or m]."""
_TURNS = (JointKind.SPHERICAL, JointKind.FREE)


@dataclass(frozen=True, slots=True, eq=False)
class Slide:
    """One degree of freedom of a joint."""

    joint: str
    """The joint's name, unique among all that is shown."""
    index: int
    label: str
    lower: float
    upper: float
    is_angle: bool
    follows: str
    """The joint that it mimics; empty where it moves by itself."""


def slides_of(name: str, joint: Joint) -> list[Slide]:
    """The degrees of freedom of a joint, each with its limits; those without are given a reach around the start."""
    start = flat(joint, joint.start)
    result = []
    for i, axis in enumerate(joint.moving_axes):
        label = name if joint.n_dofs == 1 else f"{name}[{i}]"
        reach = REACH[axis.motion]
        lower, upper = axis.lower, axis.upper
        if joint.kind in _TURNS and axis.motion is AxisMotion.ROTATION:
            lower, upper = -math.pi, math.pi
        lower = lower if math.isfinite(lower) else min(start[i] - reach, upper - 2 * reach)
        upper = upper if math.isfinite(upper) else max(start[i] + reach, lower + 2 * reach)
        if not (math.isfinite(lower) and math.isfinite(upper) and lower <= upper):
            lower, upper = -reach, reach
        followed = axis.mimic.joint if axis.mimic is not None else ""
        result.append(Slide(name, i, label, lower, upper, axis.motion is AxisMotion.ROTATION, followed))
    return result


def flat(joint: Joint, q: Array) -> Array:
    """Coordinates as one number for each degree of freedom."""
    if joint.kind not in _TURNS:
        return np.array(q, dtype=np.float64)
    return np.concatenate([q[:-4], rotation_vector(quaternion_to_matrix(q[-4:]))])


def unflat(joint: Joint, values: Array) -> Array:
    """The coordinates that such numbers stand for."""
    if joint.kind not in _TURNS:
        return np.array(values, dtype=np.float64)
    return np.concatenate([values[:-3], matrix_to_quaternion(rotation_matrix(values[-3:]))])


def rotation_matrix(vector: Array) -> Array:
    """The rotation about a vector by its length [rad]."""
    angle = float(np.linalg.norm(vector))
    return axis_angle_to_matrix(vector / angle, angle) if angle > 1e-12 else np.eye(3)


def rotation_vector(matrix: Array) -> Array:
    """The axis of a rotation times its angle [rad]."""
    q = matrix_to_quaternion(matrix)
    sine = float(np.linalg.norm(q[1:]))
    return q[1:] * (2.0 * math.atan2(sine, q[0]) / sine if sine > 1e-12 else 2.0)

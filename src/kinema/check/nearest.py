"""How near a joint can bring its two frames to a given placement."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from kinema.description import Joint, JointKind, joint_motion
from kinema.foundation import Array, Pose

_STEP = 1e-6
"""Of the numerical derivative [m or rad]."""


class Nearest(NamedTuple):
    """The nearest that the joint's motion comes to a placement."""

    coordinates: Array
    """Where the joint is then."""
    metres: float
    """What is left between the two."""
    radians: float


def nearest_motion(joint: Joint, relative: Pose) -> Nearest:
    """The coordinates at which the joint's motion comes nearest to a pose of its child frame in its parent frame."""
    if joint.kind is JointKind.FREE:
        return Nearest(np.concatenate([relative.position, relative.quaternion]), 0.0, 0.0)
    if joint.kind is JointKind.SPHERICAL:
        return Nearest(relative.quaternion, float(np.linalg.norm(relative.position)), 0.0)
    if joint.kind is JointKind.DISTANCE:
        apart = float(np.linalg.norm(relative.position))
        low, high = joint.distance
        return Nearest(np.zeros(0), max(0.0, low - apart, apart - high), 0.0)
    if not all(math.isfinite(a.reference) and np.isfinite(a.direction).all() for a in joint.moving_axes):
        return Nearest(np.zeros(joint.n_qs), 0.0, 0.0)
    q = _solve(joint, relative)
    metres, radians = joint_motion(joint, q).distance(relative)
    return Nearest(q, metres, radians)


def _solve(joint: Joint, relative: Pose) -> Array:
    """Gauss-Newton; one step is exact for a single axis, and a few are enough for several."""
    q = np.array([a.reference for a in joint.moving_axes], dtype=np.float64)
    if joint.state is not None and joint.state.shape == q.shape and np.isfinite(joint.state).all():
        q = joint.state.astype(np.float64)  # where the file shows it: from afar, several turns may not be found
    if not q.size:
        return q
    best, left = q, _difference(joint, q, relative)
    for _ in range(12):
        jacobian = (
            np.stack([_difference(joint, q + _STEP * e, relative) - left for e in np.eye(q.size)], axis=1) / _STEP
        )
        if not np.isfinite(jacobian).all():
            break
        q = best - np.linalg.lstsq(jacobian, left, rcond=1e-9)[0]
        if not np.isfinite(q).all():
            break
        now = _difference(joint, q, relative)
        if not np.linalg.norm(now) < np.linalg.norm(left) * (1 - 1e-9):
            break
        best, left = q, now
    return best


def _difference(joint: Joint, q: Array, relative: Pose) -> Array:
    """What is left to go from the joint's motion to the pose: a translation and a rotation vector, shape (6,)."""
    rest = joint_motion(joint, q).inverse() @ relative
    quaternion = rest.quaternion
    sine = float(np.linalg.norm(quaternion[1:]))
    turn = 2.0 * math.atan2(sine, float(quaternion[0]))
    vector = quaternion[1:] * (turn / sine if sine > 1e-12 else 2.0)
    return np.concatenate([rest.position, vector])

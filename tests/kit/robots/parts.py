"""Random parts that the random robots of several tests are made of."""

from __future__ import annotations

import math

import numpy as np

from kinema.foundation import Pose, quaternion_to_matrix


def random_pose(rng: np.random.Generator) -> Pose:
    """A pose near the origin; now and then the identity, a plain offset, or quarter turns (gimbal lock)."""
    kind = rng.integers(5)
    if kind == 0:
        return Pose()
    position = rng.normal(size=3)
    if kind == 1:
        return Pose.translation(position.round(3))
    if kind == 2:
        return Pose.from_rpy(position, rng.integers(-2, 3, size=3) * math.pi / 2)
    return Pose(position, quaternion_to_matrix(rng.normal(size=4)))

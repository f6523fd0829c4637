"""Coordinates of the joints of robots and of models."""

from __future__ import annotations

import numpy as np

from kinema.core import Array
from kinema.description import Constraint, ConstraintKind, Joint, JointKind, Robot
from kinema.model import Model

Generator = np.random.Generator
_TURNING = (JointKind.FREE, JointKind.SPHERICAL)
"""Kinds whose last four coordinates are a quaternion."""


def joint_coordinates(joint: Joint, rng: Generator, reach: float = 2.0) -> Array:
    """Coordinates of a joint, without regard to its limits; any rotation."""
    q = rng.uniform(-reach, reach, joint.n_qs)
    if joint.kind in _TURNING:
        q[-4:] = rng.normal(size=4)
        q[-4:] /= np.linalg.norm(q[-4:])
    return q


def random_coordinates(
    robot: Robot, rng: Generator, reach: float = 2.0, *, free: bool = True, follow: bool = True
) -> dict[str, Array]:
    """Coordinates of every joint.

    Args:
        robot: whose joints.
        rng: where they come from.
        reach: how far [m or rad] from zero they may be.
        free: whether what is free moves; it is where it rests otherwise.
        follow: whether followers are where their leaders, and joint constraints, want them.
    """
    values = {
        j.name: j.rest if j.kind is JointKind.FREE and not free else joint_coordinates(j, rng, reach)
        for j in robot.joints
    }
    for _ in range(3 if follow else 0):  # what follows a follower is right after as many rounds
        for joint in robot.joints:
            for i, axis in enumerate(joint.moving_axes):
                mimic = axis.mimic
                if mimic is not None and mimic.joint in values and mimic.axis < len(values[mimic.joint]):
                    lead = values[mimic.joint][mimic.axis]
                    values[joint.name][i] = mimic.multiplier * (lead - mimic.reference) + mimic.offset
        for constraint in robot.constraints:
            _obey(robot, constraint, values)
    return values


def _obey(robot: Robot, constraint: Constraint, values: dict[str, Array]) -> None:
    """Let a joint follow the one that a constraint couples it to: some formats say it with a mimic."""
    joints = {j.name: j for j in robot.joints}
    if constraint.kind is not ConstraintKind.JOINT or not {constraint.a, constraint.b} <= joints.keys():
        return
    assert constraint.a is not None and constraint.b is not None  # noqa: PT018  they are joints
    follower = joints[constraint.a].moving_axes[constraint.axis_a]
    leader = joints[constraint.b].moving_axes[constraint.axis_b]
    distance = values[constraint.b][constraint.axis_b] - leader.reference
    value = sum(c * distance**power for power, c in enumerate(constraint.polynomial))
    values[constraint.a][constraint.axis_a] = follower.reference + value


def rest_coordinates(robot: Robot) -> dict[str, Array]:
    """All joints at zero, followers too."""
    return {j.name: j.rest for j in robot.joints}


def model_coordinates(model: Model, rng: Generator, count: int, reach: float = 1.2) -> Array:
    """Coordinates (n_qs, count) of a model, far from zero, with unit quaternions."""
    q = rng.uniform(-reach, reach, (model.n_qs, count))
    for kind, end in zip(model.joints.kinds, model.joints.q_end, strict=True):
        if kind in {k.value for k in _TURNING}:
            q[end - 4 : end] /= np.linalg.norm(q[end - 4 : end], axis=0)
    return q


def by_joint(model: Model, q: Array) -> dict[str, Array]:
    """A model's coordinates by joint, for `Robot.forward_kinematics`."""
    joints = model.joints
    return {n: q[a:b] for n, a, b in zip(joints.names, joints.q_start, joints.q_end, strict=True)}

"""Chains of motions that URDF's three simple joints can say."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace

import numpy as np

from kinema.description import Axis, AxisMotion, Joint, JointKind, TreeEdge, joint_motion, rotation, translation
from kinema.foundation import Pose

from ..chains import Motion, chained, inverted, motion_along, suffixes
from .writing import NO_LIMIT

ON_THE_AXIS = 1e-10
"""How far [m] a link's origin may be from an axis and still count as on it."""


@dataclass(frozen=True, slots=True, eq=False)
class Step(Motion):
    """One motion of a chain."""

    coordinate: int | None
    """Which of the joint's coordinates moves it; None where its coordinates are others (spherical, free)."""
    axis: Axis | None
    """The line, through the origin that `before` leads to; None for a free motion."""
    suffix: str = ""
    """What makes the name of the step out of the joint's."""
    follows: float | None = None
    """For the travel of a screw: how far [m] it goes per radian of the step before."""

    def absorb(self, tail: Pose) -> Step | None:
        """This step so that nothing comes after it, where a chain ends with a constant pose; None if it cannot be."""
        before = self.before @ tail
        if self.axis is None:
            return replace(self, before=before)
        along = float(self.axis.direction @ tail.position) * self.axis.direction
        is_on_axis = float(np.linalg.norm(tail.position - along)) <= ON_THE_AXIS
        if self.axis.motion is AxisMotion.ROTATION and not is_on_axis:
            return None
        axis = copy.copy(self.axis)
        axis.direction = tail.rotation.T @ self.axis.direction
        return replace(self, before=before, axis=axis)


def steps_of(edge: TreeEdge) -> tuple[list[Step], Pose]:
    """The motions from an edge's parent to its child, and the constant pose after the last one."""
    steps, tail = chained(edge.joints, _steps_of_joint)
    if edge.reversed:
        steps, frame = inverted(steps, tail.inverse(), _reversed)
        tail = frame.inverse()
    return _translation_last(steps), tail


def _steps_of_joint(joint: Joint) -> list[Step]:
    match joint.kind:
        case JointKind.FREE:
            return [Step(joint, None, None, before=joint_motion(joint, joint.rest))]
        case JointKind.SPHERICAL:
            return _spherical(joint)
        case JointKind.SCREW if joint.moving_axes:
            return _screw(joint, joint.moving_axes[0])
    moving = [axis for axis in joint.moving_axes if axis.direction.any()]
    # The reference coordinate is where the frames coincide: a motion by its negative, before the motion itself.
    return [
        Step(joint, joint.moving_axes.index(axis), axis, suffix, before=motion_along(axis, -axis.reference))
        for axis, suffix in zip(moving, suffixes(moving), strict=True)
    ]


def _spherical(joint: Joint) -> list[Step]:
    steps = []
    for i, direction in enumerate(np.eye(3)):
        # the directions of a spherical joint are x, y, z whatever its axes say; their settings count
        axis = copy.copy(joint.axes[i]) if len(joint.axes) == 3 else rotation(direction)
        axis.direction = direction
        before = joint_motion(joint, joint.rest) if i == 0 else Pose()
        steps.append(Step(joint, None, axis, f"_rotation_{'xyz'[i]}", before=before))
    return steps


def _screw(joint: Joint, axis: Axis) -> list[Step]:
    """Rotation, then travel along the same line: the two commute."""
    per_radian = joint.pitch / (2 * math.pi)
    travel = translation(axis.direction)
    before = motion_along(axis, -axis.reference) @ motion_along(travel, -axis.reference * per_radian)
    turn = Step(joint, 0, axis, before=before)
    if per_radian == 0:
        return [turn]
    # URDF wants numbers; what bounds the travel is that it follows
    limits = (axis.lower * per_radian, axis.upper * per_radian, axis.velocity * abs(per_radian), math.inf)
    first, second, travel.velocity, travel.effort = (min(max(v, -NO_LIMIT), NO_LIMIT) for v in limits)
    travel.lower, travel.upper = sorted((first, second))
    return [turn, Step(joint, None, travel, "_travel", per_radian)]


def _reversed(step: Step) -> Step:
    """The inverse motion at the same coordinate."""
    axis = copy.copy(step.axis)
    if axis is not None:
        axis.direction = -axis.direction
    return replace(step, axis=axis)


def _translation_last(steps: list[Step]) -> list[Step]:
    """The two motions of a cylindrical joint or screw swapped where the rotation is last: it may have to be on axis."""
    if len(steps) < 2:
        return steps
    *others, first, second = steps
    if not (_is(first, AxisMotion.TRANSLATION) and _is(second, AxisMotion.ROTATION) and _is_identity(second.before)):
        return steps
    assert first.axis is not None and second.axis is not None  # noqa: PT018  their motions are known
    if np.linalg.norm(np.cross(first.axis.direction, second.axis.direction)) > 1e-15:
        return steps
    return [*others, replace(second, before=first.before), replace(first, before=second.before)]


def _is(step: Step, motion: AxisMotion) -> bool:
    return step.axis is not None and step.axis.motion is motion


def _is_identity(pose: Pose) -> bool:
    return not pose.position.any() and bool((pose.rotation == np.eye(3)).all())

"""What holds a link as a chain of simple motions: constant pose, motion along or about one line, constant pose, ...

Every joint, and every pile of joints, is such a chain, and the inverse of a chain is one with the same coordinates:
so all of them can be said with URDF's three simple joints, whichever way the tree runs along them.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from kinema.description import Axis, AxisMotion, Joint, JointKind, TreeEdge, joint_motion, rotation, translation
from kinema.foundation import Pose, axis_angle_to_matrix

from .writing import NO_LIMIT

ON_THE_AXIS = 1e-10
"""How far [m] a link's origin may be from an axis and still count as on it."""


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One motion of a chain."""

    joint: Joint
    """The joint it comes from."""
    coordinate: int | None
    """Which of the joint's coordinates moves it; None where its coordinates are others (spherical, free)."""
    before: Pose
    """From where the motion before ends to where this one takes place."""
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
    steps: list[Step] = []
    here = edge.joints[0].parent_pose
    for number, joint in enumerate(edge.joints):
        if number:
            here = here @ joint.child_pose
        for step in _steps_of_joint(joint):
            steps.append(replace(step, before=here @ step.before))
            here = Pose()
        here = here @ joint.child_pose.inverse()
    if edge.reversed:
        steps, here = _reversed(steps, here)
    return _translation_last(steps), here


def _steps_of_joint(joint: Joint) -> list[Step]:
    match joint.kind:
        case JointKind.FREE:
            return [Step(joint, None, joint_motion(joint, joint.rest), None)]
        case JointKind.SPHERICAL:
            return _spherical(joint)
        case JointKind.SCREW if joint.moving_axes:
            return _screw(joint, joint.moving_axes[0])
    moving = [axis for axis in joint.moving_axes if axis.direction.any()]
    suffixes = [""] if len(moving) == 1 else _suffixes(moving)
    # The reference coordinate is where the frames coincide: a motion by its negative, before the motion itself.
    return [
        Step(joint, joint.moving_axes.index(axis), _moved(axis, -axis.reference), axis, suffix)
        for axis, suffix in zip(moving, suffixes, strict=True)
    ]


def _spherical(joint: Joint) -> list[Step]:
    steps = []
    for i, direction in enumerate(np.eye(3)):
        # the directions of a spherical joint are x, y, z whatever its axes say; their settings count
        axis = copy.copy(joint.axes[i]) if len(joint.axes) == 3 else rotation(direction)
        axis.direction = direction
        before = joint_motion(joint, joint.rest) if i == 0 else Pose()
        steps.append(Step(joint, None, before, axis, f"_rotation_{'xyz'[i]}"))
    return steps


def _screw(joint: Joint, axis: Axis) -> list[Step]:
    """Rotation, then travel along the same line: the two commute."""
    per_radian = joint.pitch / (2 * math.pi)
    travel = translation(axis.direction)
    before = _moved(axis, -axis.reference) @ _moved(travel, -axis.reference * per_radian)
    turn = Step(joint, 0, before, axis)
    if per_radian == 0:
        return [turn]
    # URDF wants numbers; what bounds the travel is that it follows
    limits = (axis.lower * per_radian, axis.upper * per_radian, axis.velocity * abs(per_radian), math.inf)
    first, second, travel.velocity, travel.effort = (min(max(v, -NO_LIMIT), NO_LIMIT) for v in limits)
    travel.lower, travel.upper = sorted((first, second))
    return [turn, Step(joint, None, Pose(), travel, "_travel", per_radian)]


def _suffixes(axes: Iterable[Axis]) -> list[str]:
    """`_translation` and `_rotation`, with a number where there are several."""
    kinds = [a.motion.value for a in axes]
    return [
        f"_{kind}" if kinds.count(kind) == 1 else f"_{kind}_{kinds[: i + 1].count(kind)}"
        for i, kind in enumerate(kinds)
    ]


def _moved(axis: Axis, value: float) -> Pose:
    if value == 0:
        return Pose()
    if axis.motion is AxisMotion.ROTATION:
        return Pose(rotation=axis_angle_to_matrix(axis.direction, value))
    return Pose.translation(value * axis.direction)


def _reversed(steps: list[Step], tail: Pose) -> tuple[list[Step], Pose]:
    """The inverse of a chain: the inverse motions in the opposite order, at the same coordinates."""
    result: list[Step] = []
    after = tail
    for step in reversed(steps):
        axis = copy.copy(step.axis)
        if axis is not None:
            axis.direction = -axis.direction
        result.append(replace(step, before=after.inverse(), axis=axis))
        after = step.before
    return result, after.inverse()


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

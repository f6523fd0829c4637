"""What a joint's coordinates do: the pose of the child's joint frame in the parent's."""

from __future__ import annotations

import copy
import math

from kinema.foundation import Array, Pose, axis_angle_to_matrix

from .joint import Axis, AxisMotion, Joint, JointKind


def joint_motion(joint: Joint, q: Array) -> Pose:
    """Pose of the joint frame on the child in the joint frame on the parent, at the coordinates q, shape (n_qs,)."""
    if joint.kind is JointKind.FREE:
        return Pose.from_quaternion(q[:3], q[3:7])
    if joint.kind is JointKind.SPHERICAL:
        return Pose.from_quaternion((0.0, 0.0, 0.0), q)
    pose = Pose()
    for axis, value in zip(joint.moving_axes, q, strict=True):
        pose = pose @ _axis_motion(axis, float(value) - axis.reference)
    if joint.kind is JointKind.SCREW:
        axis = joint.axes[0]
        travel = joint.pitch * (float(q[0]) - axis.reference) / (2 * math.pi)
        pose = Pose.translation(travel * axis.direction) @ pose
    return pose


def _axis_motion(axis: Axis, value: float) -> Pose:
    if axis.motion is AxisMotion.ROTATION:
        return Pose(rotation=axis_angle_to_matrix(axis.direction, value))
    return Pose.translation(value * axis.direction)


_REVERSIBLE = {
    JointKind.FIXED,
    JointKind.REVOLUTE,
    JointKind.CONTINUOUS,
    JointKind.PRISMATIC,
    JointKind.CYLINDRICAL,
    JointKind.SCREW,
    JointKind.UNIVERSAL,
    JointKind.DISTANCE,
}


def can_reverse(joint: Joint) -> bool:
    """Whether `reverse_joint` gives a joint of the same kind with the same coordinates."""
    return joint.kind in _REVERSIBLE


def reverse_joint(joint: Joint) -> Joint:
    """The same joint seen from the child: frames swapped, axes negated, coordinates and limits unchanged.

    A universal joint's axes, and so its coordinates, come in the opposite order. Kinds whose inverse motion is not
    of the same kind (planar, six-axis with several axes, spherical, free) are refused: see `can_reverse`.
    """
    if not can_reverse(joint):
        raise ValueError(f"a {joint.kind.value} joint cannot be reversed without changing its coordinates")
    result = copy.copy(joint)
    result.parent, result.child = joint.child, joint.parent
    result.parent_pose, result.child_pose = joint.child_pose, joint.parent_pose
    result.axes = [_negated(axis) for axis in reversed(joint.axes)]
    if joint.kind is JointKind.CYLINDRICAL:
        result.axes.reverse()  # rotation stays first: the two commute
    return result


def _negated(axis: Axis) -> Axis:
    result = copy.copy(axis)
    result.direction = -axis.direction
    return result

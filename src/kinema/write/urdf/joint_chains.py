"""Joints and stacked joints as chains of revolute, prismatic and floating joints, or as a planar joint of URDF."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace

import numpy as np

from kinema.core import Array, Pose, axis_angle_to_matrix, float64_array
from kinema.description import Axis, AxisMotion, Joint, JointKind, TreeEdge, joint_transform, rotation, translation

from ..joint_chains import ChainJoint, axis_transform, build_chain, chain_joint_suffixes, invert_chain
from .context import UNLIMITED_VALUE

# ------------------------------------------------------------------------------------------------ chains of URDF joints

ON_AXIS_TOLERANCE = 1e-10
"""Distance [m] up to which a link origin counts as lying on an axis."""


@dataclass(frozen=True, slots=True, eq=False)
class UrdfChainJoint(ChainJoint):
    """One revolute, prismatic or floating joint of a chain."""

    coordinate: int | None
    """Index of its coordinate in the source joint; None for spherical and free joints and the travel of a screw."""
    axis: Axis | None
    """Axis through the origin of the joint frame; None for a free joint."""
    suffix: str = ""
    """Suffix of the joint name."""
    travel_per_radian: float | None = None
    """Travel of a screw: displacement [m] per radian of the preceding revolute joint."""

    def absorb_end_pose(self, end_pose: Pose) -> UrdfChainJoint | None:
        """Copy whose child frame includes a constant pose after the joint.

        Returns:
            None if the pose moves the origin off the axis of a rotation, which would change the motion.
        """
        before = self.before @ end_pose
        if self.axis is None:
            return replace(self, before=before)
        along = float(self.axis.direction @ end_pose.position) * self.axis.direction
        is_on_axis = float(np.linalg.norm(end_pose.position - along)) <= ON_AXIS_TOLERANCE
        if self.axis.motion is AxisMotion.ROTATION and not is_on_axis:
            return None
        axis = copy.copy(self.axis)
        axis.direction = end_pose.rotation.T @ self.axis.direction
        return replace(self, before=before, axis=axis)


def decompose_edge(edge: TreeEdge) -> tuple[list[UrdfChainJoint], Pose]:
    """Chain of URDF joints from an edge's parent to its child, and the constant pose after the last joint."""
    steps, tail = build_chain(edge.joints, _decompose_joint)
    if edge.reversed:
        steps, frame = invert_chain(steps, tail.inverse(), _invert)
        tail = frame.inverse()
    return _move_translation_last(steps), tail


def _decompose_joint(joint: Joint) -> list[UrdfChainJoint]:
    """URDF joints of a joint of the description, with the reference coordinates shifted to zero."""
    match joint.kind:
        case JointKind.FREE:
            return [UrdfChainJoint(joint, None, None, before=joint_transform(joint, joint.rest))]
        case JointKind.SPHERICAL:
            return _decompose_spherical(joint)
        case JointKind.SCREW if joint.moving_axes:
            return _decompose_screw(joint, joint.moving_axes[0])
    moving = [axis for axis in joint.moving_axes if axis.direction.any()]
    # The reference coordinate is where the frames coincide: a motion by its negative, before the motion itself.
    return [
        UrdfChainJoint(joint, joint.moving_axes.index(axis), axis, suffix, before=axis_transform(axis, -axis.reference))
        for axis, suffix in zip(moving, chain_joint_suffixes(moving), strict=True)
    ]


def _decompose_spherical(joint: Joint) -> list[UrdfChainJoint]:
    """Three revolute joints about x, y and z for a spherical joint."""
    steps = []
    for i, direction in enumerate(np.eye(3)):
        # the directions of a spherical joint are x, y, z whatever its axes say; their settings count
        axis = copy.copy(joint.axes[i]) if len(joint.axes) == 3 else rotation(direction)
        axis.direction = direction
        before = joint_transform(joint, joint.rest) if i == 0 else Pose()
        steps.append(UrdfChainJoint(joint, None, axis, f"_rotation_{'xyz'[i]}", before=before))
    return steps


def _decompose_screw(joint: Joint, axis: Axis) -> list[UrdfChainJoint]:
    """Revolute and prismatic joint along the axis of a screw; the two commute."""
    per_radian = joint.pitch / (2 * math.pi)
    travel = translation(axis.direction)
    before = axis_transform(axis, -axis.reference) @ axis_transform(travel, -axis.reference * per_radian)
    turn = UrdfChainJoint(joint, 0, axis, before=before)
    if per_radian == 0:
        return [turn]
    # URDF wants numbers; what bounds the travel is that it follows
    limits = (axis.lower * per_radian, axis.upper * per_radian, axis.velocity * abs(per_radian), math.inf)
    first, second, travel.velocity, travel.effort = (min(max(v, -UNLIMITED_VALUE), UNLIMITED_VALUE) for v in limits)
    travel.lower, travel.upper = sorted((first, second))
    return [turn, UrdfChainJoint(joint, None, travel, "_travel", per_radian)]


def _invert(chain_joint: UrdfChainJoint) -> UrdfChainJoint:
    """Primitive joint with the inverse motion at the same coordinate (negated axis)."""
    axis = copy.copy(chain_joint.axis)
    if axis is not None:
        axis.direction = -axis.direction
    return replace(chain_joint, axis=axis)


def _move_translation_last(chain_joints: list[UrdfChainJoint]) -> list[UrdfChainJoint]:
    """Chain with the last translation and rotation swapped if they share an axis, so that the translation is last.

    A last rotation would need the link origin on its axis; the two motions of a cylindrical joint or screw commute.
    """
    if len(chain_joints) < 2:
        return chain_joints
    *others, first, second = chain_joints
    if not (
        _has_motion(first, AxisMotion.TRANSLATION)
        and _has_motion(second, AxisMotion.ROTATION)
        and _is_identity(second.before)
    ):
        return chain_joints
    assert first.axis is not None and second.axis is not None  # noqa: PT018  their motions are known
    if np.linalg.norm(np.cross(first.axis.direction, second.axis.direction)) > 1e-15:
        return chain_joints
    return [*others, replace(second, before=first.before), replace(first, before=second.before)]


def _has_motion(chain_joint: UrdfChainJoint, motion: AxisMotion) -> bool:
    return chain_joint.axis is not None and chain_joint.axis.motion is motion


def _is_identity(pose: Pose) -> bool:
    return not pose.position.any() and bool((pose.rotation == np.eye(3)).all())


# -------------------------------------------------------------------------------------------------------- planar joints

_DIRECTION_TOLERANCE = 1e-12


def as_urdf_planar_joint(edge: TreeEdge, allow_any_normal: bool) -> Joint | None:
    """The edge as a URDF planar joint: two unlimited translations, then a rotation about the plane normal.

    Args:
        edge: edge of the kinematic tree.
        allow_any_normal: whether the normal may differ from z, which URDF allows but not all readers support.

    Returns:
        The planar joint; None if the edge is not equivalent to one.
    """
    source = edge.joints[0]
    if (
        source.kind is not JointKind.PLANAR
        or len(edge.joints) > 1
        or edge.reversed
        or not _is_unlimited_planar(source.axes)
    ):
        return None
    steps, tail = decompose_edge(edge)
    last = steps[-1].absorb_end_pose(tail) if len(steps) == 3 else None
    if last is None or last.axis is None:
        return None
    normal = last.axis.direction
    x, y = (tail.rotation.T @ a.direction for a in source.axes[:2])
    wanted = _plane_axes(normal)
    if not (np.abs(x - wanted[0]).max() < _DIRECTION_TOLERANCE and np.abs(y - wanted[1]).max() < _DIRECTION_TOLERANCE):
        return None
    if not allow_any_normal and abs(normal[2] - 1) > _DIRECTION_TOLERANCE:
        return None
    result = copy.copy(source)
    result.parent_pose, result.child_pose = source.parent_pose @ tail, type(tail)()
    axis = rotation(normal, damping=source.axes[2].damping, friction=source.axes[2].friction)
    result.axes = [*(copy.copy(a) for a in source.axes[:2]), axis]
    result.axes[0].direction, result.axes[1].direction = wanted
    return result


def _is_unlimited_planar(axes: list[Axis]) -> bool:
    """Whether axes are two translations and a rotation without limits, references and mimics, with equal dynamics."""
    if [a.motion for a in axes] != [AxisMotion.TRANSLATION] * 2 + [AxisMotion.ROTATION]:
        return False
    first = axes[0]
    return all(
        not a.locked
        and a.reference == 0
        and a.mimic is None
        and math.isinf(a.lower)
        and math.isinf(a.upper)
        and math.isinf(a.effort)
        and math.isinf(a.velocity)
        and (a.damping, a.friction) == (first.damping, first.friction)
        for a in axes
    )


def _plane_axes(normal: Array) -> tuple[Array, Array]:
    """Directions of the two translations: x and y after the shortest rotation that takes z to the normal."""
    sine = math.hypot(normal[0], normal[1])
    about = float64_array((1, 0, 0)) if sine < 1e-10 else np.array([-normal[1], normal[0], 0.0]) / sine
    turn = axis_angle_to_matrix(about, math.atan2(sine, float(normal[2])))
    return turn[:, 0], turn[:, 1]

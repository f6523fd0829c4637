"""Decomposition of joints into MuJoCo hinge, slide, ball and free joints; conversion of coordinates to qpos and qvel.

Every joint is a chain of these joint types with the same coordinates. A joint that is traversed from child to parent
is the reversed chain of inverse transforms. MuJoCo applies each joint of a body in the frame produced by the joints
before it, so the pose of a body in its parent is `B @ A1 @ m1 @ A1^-1 @ A2 @ m2 @ ...`: B is the pose of the body at
the reference configuration and A1, A2, ... are the joint frames in the body.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kinema.core import Array, Pose, axis_angle_to_matrix, quaternion_to_matrix
from kinema.description import Axis, AxisMotion, Joint, JointKind, TreeEdge

from ..joint_chains import START_TOLERANCE

MAX_BODY_DOFS = 6
"""Maximum degrees of freedom of one MuJoCo body."""


@dataclass(slots=True, eq=False)
class MjcfJoint:
    """One MuJoCo joint and its correspondence to the coordinates of a joint of the description."""

    joint: Joint
    kind: str
    """MuJoCo joint type: `hinge`, `slide`, `ball` or `free`."""
    coordinate_index: int
    """Index of its first coordinate among the coordinates of `joint`."""
    axis: Axis | None = None
    """Axis with the limits and dynamics of a hinge or slide; None for balls, free joints and the slide of a screw."""
    direction: Array | None = None
    """Axis direction (3,) in the body frame; None for ball and free joints."""
    frame: Pose = Pose()  # noqa: RUF009  a pose is never changed
    """Joint frame in the body."""
    inverted: bool = False
    """Whether the rotation of a ball is inverted; hinges and slides have negated axes instead."""
    travel_per_radian: float | None = None
    """Slide of a screw: travel per radian of the screw coordinate [m/rad]; None for other joints."""
    name: str = ""
    """Name in the file; empty if it has none."""
    free_pose: FreeJointPose | None = None
    """Pose of a free joint; None for other joints."""
    reference: float = 0.0
    """Coordinate of a hinge or slide at the reference configuration (MuJoCo's `ref`): its initial coordinate."""

    @property
    def reference_offset(self) -> float:
        """Coordinate at the reference configuration relative to the coordinate at which the joint frames coincide."""
        if self.axis is None:
            return self.reference
        return self.reference - self.axis.reference

    @property
    def n_dofs(self) -> int:
        """Number of degrees of freedom: 1, 3 (ball) or 6 (free)."""
        return {"ball": 3, "free": 6}.get(self.kind, 1)

    @property
    def preserves_coordinates(self) -> bool:
        """Whether qpos values equal the coordinates of the description."""
        if self.kind == "free":
            return self.free_pose is not None and self.free_pose.is_identity
        if self.kind == "ball":
            return not self.inverted and bool(np.abs(self.frame.rotation - np.eye(3)).max() < 1e-15)
        return self.travel_per_radian is None

    def to_qpos(self, q: Array) -> list[float]:
        """MuJoCo's qpos of this joint at the coordinates q of the description's joint."""
        if self.kind == "free":
            assert self.free_pose is not None
            if self.free_pose.is_identity:
                return q.tolist()
            pose = self.free_pose.pose_at(q)
            return [*pose.position.tolist(), *pose.quaternion.tolist()]
        if self.kind == "ball":
            w, *v = q[self.coordinate_index : self.coordinate_index + 4].tolist()
            turned = self.frame.rotation @ np.array(v) if not self.preserves_coordinates else np.array(v)
            return [w, *(-turned if self.inverted else turned).tolist()]
        value = float(q[self.coordinate_index])
        if self.travel_per_radian is not None:
            return [self.travel_per_radian * (value - self.joint.moving_axes[self.coordinate_index].reference)]
        return [value]

    def to_qvel(self, q: Array, v: Array) -> list[float]:
        """MuJoCo's qvel of this joint at the coordinates q and velocities v of the description's joint."""
        if self.kind == "free":
            assert self.free_pose is not None
            return self.free_pose.to_qvel(q, v)
        if self.kind == "ball":
            spin = v[self.coordinate_index : self.coordinate_index + 3]
            if self.inverted:
                spin = -quaternion_to_matrix(q[self.coordinate_index : self.coordinate_index + 4]) @ spin
            return (spin if self.preserves_coordinates else self.frame.rotation @ spin).tolist()
        return [float(v[self.coordinate_index]) * (1.0 if self.travel_per_radian is None else self.travel_per_radian)]


@dataclass(frozen=True, slots=True, eq=False)
class FreeJointPose:
    """World pose of the body of a free joint: `before @ T(q) @ after`, with T inverted if `inverted`."""

    before: Pose
    after: Pose
    inverted: bool = False

    @property
    def is_identity(self) -> bool:
        """Whether the body pose equals the transform T(q) of the joint."""
        identity = Pose()
        return not self.inverted and self.before.is_close(identity, 0.0) and self.after.is_close(identity, 0.0)

    def pose_at(self, q: Array) -> Pose:
        """World pose of the body at the coordinates q (position, quaternion)."""
        motion = Pose.from_quaternion(q[:3], q[3:7])
        return self.before @ (motion.inverse() if self.inverted else motion) @ self.after

    def to_qvel(self, q: Array, v: Array) -> list[float]:
        """MuJoCo's qvel (6): velocity of the body origin in world axes, angular velocity in body axes."""
        motion = Pose.from_quaternion(q[:3], q[3:7])
        linear, spin = v[:3], v[3:6]
        if self.inverted:
            # of the inverse motion: its origin is -R' p, its spin about its own axes -R w
            linear = -motion.rotation.T @ linear + np.cross(spin, motion.rotation.T @ motion.position)
            spin = -motion.rotation @ spin
            motion = motion.inverse()
        lever = motion.rotation @ np.cross(spin, self.after.position)
        return [*(self.before.rotation @ (linear + lever)).tolist(), *(self.after.rotation.T @ spin).tolist()]


class _PrimitiveJoint(NamedTuple):
    """Hinge, slide or ball of a joint in the joint frame, before placement in a body."""

    kind: str
    coordinate_index: int
    axis: Axis | None
    direction: Array | None
    travel_per_radian: float | None = None


def _primitive_joints(joint: Joint) -> list[_PrimitiveJoint]:
    """Hinges, slides and balls whose product is the transform of a joint, in order."""
    match joint.kind:
        case JointKind.SPHERICAL:
            return [_PrimitiveJoint("ball", 0, None, None)]
        case JointKind.FREE:
            return [
                *(_PrimitiveJoint("slide", i, None, e) for i, e in enumerate(np.eye(3))),
                _PrimitiveJoint("ball", 3, None, None),
            ]
        case JointKind.SCREW if joint.moving_axes:
            axis = joint.moving_axes[0]
            travel = joint.pitch / (2 * math.pi)
            return [
                _PrimitiveJoint("slide", 0, None, axis.direction, travel),
                _PrimitiveJoint("hinge", 0, axis, axis.direction),
            ]
    return [
        _PrimitiveJoint("hinge" if axis.motion is AxisMotion.ROTATION else "slide", i, axis, axis.direction)
        for i, axis in enumerate(joint.moving_axes)
    ]


def decompose_edge(edge: TreeEdge, initial_coordinates: Mapping[str, Array]) -> tuple[Pose, list[MjcfJoint]]:
    """Pose of an edge's child body in its parent at the reference configuration, and its MuJoCo joints.

    Args:
        edge: edge of the kinematic tree with one or more stacked joints.
        initial_coordinates: initial coordinates by joint name; the reference configuration.
    """
    return decompose_joints(edge.joints, initial_coordinates, is_reversed=edge.reversed)


def decompose_joints(
    joints: Sequence[Joint], initial_coordinates: Mapping[str, Array], *, is_reversed: bool = False
) -> tuple[Pose, list[MjcfJoint]]:
    """Pose of a body in its parent at the reference configuration, and its MuJoCo joints, for stacked joints.

    Args:
        joints: stacked joints between two links.
        initial_coordinates: initial coordinates by joint name; the reference configuration.
        is_reversed: whether the child body is the parent link of the joints.
    """
    pose, parts = _decompose_unshifted(joints, is_reversed=is_reversed)
    for part in parts:
        part.reference = _reference_coordinate(part, initial_coordinates.get(part.joint.name))
    # B C1 m1 C2 m2 ..., with constant motions C up to the start, is B C1 C2 ... m1' m2' ... in frames moved by those C
    after = Pose()
    for part in reversed(parts):
        if part.reference_offset and part.direction is not None:
            back = after.inverse()
            constant = _reference_transform(part)
            part.frame, part.direction = back @ part.frame, back.rotation @ part.direction
            after = constant @ after
        elif not _is_identity(after):
            back = after.inverse()
            part.frame = back @ part.frame
            part.direction = None if part.direction is None else back.rotation @ part.direction
    return (pose if _is_identity(after) else pose @ after), parts


def _reference_coordinate(mjcf_joint: MjcfJoint, start: Array | None) -> float:
    """Initial coordinate of a hinge or slide, or the coordinate of coinciding frames if the two differ by rounding."""
    here = 0.0 if mjcf_joint.axis is None else mjcf_joint.axis.reference
    if mjcf_joint.kind not in ("hinge", "slide") or start is None:
        return here
    if start.shape != (mjcf_joint.joint.n_qs,) or not np.isfinite(start).all():
        return here
    wanted = mjcf_joint.to_qpos(start)[0]
    return wanted if abs(wanted - here) > START_TOLERANCE else here


def _reference_transform(mjcf_joint: MjcfJoint) -> Pose:
    """Transform of a hinge or slide, in the body frame, from coinciding frames to the reference configuration."""
    assert mjcf_joint.direction is not None  # hinges and slides have one
    if mjcf_joint.kind == "slide":
        return Pose.translation(mjcf_joint.reference_offset * mjcf_joint.direction)
    around = Pose.translation(mjcf_joint.frame.position)
    return (
        around
        @ Pose(rotation=axis_angle_to_matrix(mjcf_joint.direction, mjcf_joint.reference_offset))
        @ around.inverse()
    )


def _is_identity(pose: Pose) -> bool:
    return not pose.position.any() and bool((pose.rotation == np.eye(3)).all())


def _decompose_unshifted(joints: Sequence[Joint], *, is_reversed: bool) -> tuple[Pose, list[MjcfJoint]]:
    """Pose and MuJoCo joints of a body with all joint frames coinciding (reference offsets of zero)."""
    first = joints[0]
    pose = first.parent_pose @ first.child_pose.inverse()
    parts: list[MjcfJoint] = []
    for joint in joints:
        place = pose @ joint.child_pose if is_reversed else joint.child_pose
        if joint is first and is_reversed:
            place = joint.parent_pose
        parts += [_place_joint(joint, atom, place, is_reversed) for atom in _primitive_joints(joint)]
    if is_reversed:
        parts.reverse()
        pose = first.child_pose @ first.parent_pose.inverse()
    return pose, parts


def _place_joint(joint: Joint, primitive: _PrimitiveJoint, frame: Pose, is_reversed: bool) -> MjcfJoint:
    """MuJoCo joint of a primitive joint with the given joint frame in the body; reversed joints have negated axes."""
    direction = None
    if primitive.direction is not None:
        direction = frame.rotation @ primitive.direction * (-1.0 if is_reversed else 1.0)
    return MjcfJoint(
        joint,
        primitive.kind,
        primitive.coordinate_index,
        primitive.axis,
        direction,
        frame,
        is_reversed,
        primitive.travel_per_radian,
    )


def split_by_body(mjcf_joints: Sequence[MjcfJoint]) -> list[list[MjcfJoint]]:
    """Partition of joints into runs for one body each: at most six dofs, and no rotation after a ball."""
    result: list[list[MjcfJoint]] = [[]]
    for part in mjcf_joints:
        current = result[-1]
        after_ball = any(p.kind == "ball" for p in current) and part.kind != "slide"
        if after_ball or sum(p.n_dofs for p in current) + part.n_dofs > MAX_BODY_DOFS:
            result.append([])
        result[-1].append(part)
    return result


def joint_name_suffixes(mjcf_joints: Sequence[MjcfJoint]) -> list[str]:
    """Name suffixes of the MuJoCo joints of one joint; empty for a single joint and for the hinge of a screw."""
    if len(mjcf_joints) == 1:
        return [""]
    result: list[str] = []
    for part in mjcf_joints:
        if part.travel_per_radian is not None:
            suffix = "_travel"
        elif part.joint.kind is JointKind.SCREW:
            suffix = ""
        elif part.kind == "ball":
            suffix = "_ball"
        else:
            suffix = f"_{'r' if part.kind == 'hinge' else ''}{_axis_letter(part)}"
        result.append(suffix)
    return result


def _axis_letter(mjcf_joint: MjcfJoint) -> str:
    """The letter x, y or z of an axis along a coordinate axis, else the index of the axis from 1."""
    own = mjcf_joint.axis.direction if mjcf_joint.axis is not None else np.eye(3)[mjcf_joint.coordinate_index]
    along = int(np.argmax(np.abs(own)))
    return "xyz"[along] if abs(abs(float(own[along])) - 1) < 1e-12 else str(mjcf_joint.coordinate_index + 1)

"""Rules about inconsistent poses: joint frames that disagree with link poses, open loops and violated constraints."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

import numpy as np

from kinema.core import Array, Pose, Severity
from kinema.description import Constraint, ConstraintKind, Joint, JointKind, Link, joint_transform

from .context import CheckContext, has_valid_axes
from .messages import format_angle, format_coordinate, format_length, label
from .rule import Finding, rule

# -------------------------------------------------------------------------------------------- alignment of joint frames

_DERIVATIVE_STEP = 1e-6
"""Of the numerical derivative [m or rad]."""


class JointFit(NamedTuple):
    """Joint coordinates closest to a target pose, and the remaining error."""

    coordinates: Array
    """Joint coordinates at the closest pose."""
    position_error: float
    """Remaining distance [m]; `angle_error` is the remaining angle [rad]."""
    angle_error: float


def fit_joint_coordinates(joint: Joint, target: Pose) -> JointFit:
    """Joint coordinates whose transform is closest to a target pose of the child frame in the parent frame."""
    if joint.kind is JointKind.FREE:
        return JointFit(np.concatenate([target.position, target.quaternion]), 0.0, 0.0)
    if joint.kind is JointKind.SPHERICAL:
        return JointFit(target.quaternion, float(np.linalg.norm(target.position)), 0.0)
    if joint.kind is JointKind.DISTANCE:
        apart = float(np.linalg.norm(target.position))
        low, high = joint.distance
        return JointFit(np.zeros(0), max(0.0, low - apart, apart - high), 0.0)
    if not all(math.isfinite(a.reference) and np.isfinite(a.direction).all() for a in joint.moving_axes):
        return JointFit(np.zeros(joint.n_qs), 0.0, 0.0)
    q = _gauss_newton(joint, target)
    metres, radians = joint_transform(joint, q).distance(target)
    return JointFit(q, metres, radians)


def _gauss_newton(joint: Joint, target: Pose) -> Array:
    """Gauss-Newton iteration; one step is exact for a single axis."""
    q = np.array([a.reference for a in joint.moving_axes], dtype=np.float64)
    if joint.state is not None and joint.state.shape == q.shape and np.isfinite(joint.state).all():
        q = joint.state.astype(np.float64)  # where the file shows it: from afar, several turns may not be found
    if not q.size:
        return q
    best, left = q, _pose_error(joint, q, target)
    for _ in range(12):
        jacobian = (
            np.stack([_pose_error(joint, q + _DERIVATIVE_STEP * e, target) - left for e in np.eye(q.size)], axis=1)
            / _DERIVATIVE_STEP
        )
        if not np.isfinite(jacobian).all():
            break
        q = best - np.linalg.lstsq(jacobian, left, rcond=1e-9)[0]
        if not np.isfinite(q).all():
            break
        now = _pose_error(joint, q, target)
        if not np.linalg.norm(now) < np.linalg.norm(left) * (1 - 1e-9):
            break
        best, left = q, now
    return best


def _pose_error(joint: Joint, q: Array, target: Pose) -> Array:
    """Translation and rotation vector from the joint transform to the target pose, shape (6,) [m, rad]."""
    rest = joint_transform(joint, q).inverse() @ target
    quaternion = rest.quaternion
    sine = float(np.linalg.norm(quaternion[1:]))
    turn = 2.0 * math.atan2(sine, float(quaternion[0]))
    vector = quaternion[1:] * (turn / sine if sine > 1e-12 else 2.0)
    return np.concatenate([rest.position, vector])


# ---------------------------------------------------------------------------------------------------------------- rules

_TOLERANCE = 1e-6
"""Differences [m or rad] up to this are not reported."""
_ROUNDING_TOLERANCE = 1e-4
"""Up to this they are put down to rounding, and are notes."""
_ERROR_TOLERANCE = 1e-3
"""Beyond this they are errors."""


@rule("frames.not-a-rotation", Severity.ERROR)
def invalid_rotation_matrix(context: CheckContext) -> Iterable[Finding]:
    """The rotation of a pose is scaled, sheared or mirrored: it is not a rotation."""
    for leaf in context.field_values:
        if not (isinstance(leaf.container, Pose) and leaf.field == "rotation") or not np.isfinite(leaf.value).all():
            continue
        error = float(np.abs(leaf.value.T @ leaf.value - np.eye(3)).max())
        mirrored = float(np.linalg.det(leaf.value)) < 0
        if error > _TOLERANCE or mirrored:
            how = "mirrors" if mirrored else f"is off by {error:.2g}"
            message = f"{leaf.label}: {leaf.path} is not a rotation, it {how}"
            yield Finding(leaf.origin, message, "normalise it; put scale and mirroring into the meshes")


def _authored_pose(link: Link | None, is_world: bool) -> Pose | None:
    """Pose of a link in the robot frame as given by the file."""
    if is_world:
        return Pose()
    pose = link.pose if link is not None else None
    return pose if pose is not None and pose.is_finite else None


def _relative_joint_pose(parent: Pose | None, child: Pose | None, joint: Joint) -> Pose | None:
    """Joint frame on the child relative to the joint frame on the parent."""
    if parent is None or child is None or not (joint.parent_pose.is_finite and joint.child_pose.is_finite):
        return None
    return (parent @ joint.parent_pose).inverse() @ (child @ joint.child_pose)


def _joints_between_placed_links(context: CheckContext) -> Iterator[tuple[Joint, Pose]]:
    """Joints between links whose poses the file gives, with the relative pose of their frames."""
    links = context.link_by_name
    bundles = groupby(context.joints, key=lambda j: (j.parent, j.child))
    stacked = {id(j) for _, group in bundles for j in _stacked_joints(list(group))}
    for joint in context.joints:
        if id(joint) in stacked or not joint.enabled or not has_valid_axes(joint):
            continue
        parent, child = (_authored_pose(links.get(end or ""), end is None) for end in (joint.parent, joint.child))
        relative = _relative_joint_pose(parent, child, joint)
        if relative is not None and joint.parent != joint.child:
            yield joint, relative


def _stacked_joints(joints: list[Joint]) -> list[Joint]:
    """The joints of a parent-child pair if any of them is marked `stacked` (composed); otherwise empty."""
    return joints if any(j.stacked for j in joints) else []


def _format_gap(metres: float, radians: float) -> str:
    parts = [format_length(metres)] if metres > _TOLERANCE else []
    parts += [format_angle(radians)] if radians > _TOLERANCE else []
    return " and ".join(parts)


@rule("frames.disagree", Severity.WARNING)
def inconsistent_joint_frames(context: CheckContext) -> Iterable[Finding]:
    """A joint's frames on its two links are not where the file puts those links.

    The file places both links itself, and its joint says otherwise: along what the joint leaves free they may differ
    (see `frames.parked`), across it they may not. A simulator that trusts the joint makes the robot jump at the start.
    Up to 0.1 mm or 0.0001 rad is rounding and a note, more than 1 mm or 0.001 rad is an error, except for a fixed joint
    to the world, which only moves the robot as a whole.
    """
    for joint, relative in _joints_between_placed_links(context):
        nearest = fit_joint_coordinates(joint, relative)
        worst = max(nearest.position_error, nearest.angle_error)
        if worst <= _TOLERANCE:
            continue
        severity = Severity.NOTE if worst <= _ROUNDING_TOLERANCE else None
        if worst > _ERROR_TOLERANCE and not (joint.kind is JointKind.FIXED and None in (joint.parent, joint.child)):
            severity = Severity.ERROR
        message = (
            f"the two frames of {label(joint)} are {_format_gap(nearest.position_error, nearest.angle_error)} "
            "apart where the links are"
        )
        yield Finding(joint, message, "move one of the links, or correct the joint's frame on one of them", severity)


@rule("frames.parked", Severity.NOTE)
def nonzero_authored_position(context: CheckContext) -> Iterable[Finding]:
    """The file places two links at another position of their joint than the one where its frames coincide.

    The robot starts there; programs that start all joints at zero show it otherwise than it is drawn.
    """
    for joint, relative in _joints_between_placed_links(context):
        nearest = fit_joint_coordinates(joint, relative)
        if joint.initial is not None or max(nearest.position_error, nearest.angle_error) > _ERROR_TOLERANCE:
            continue
        for axis, value in zip(joint.moving_axes, nearest.coordinates, strict=False):
            if abs(value - axis.reference) > _ROUNDING_TOLERANCE and joint.kind not in (
                JointKind.SPHERICAL,
                JointKind.FREE,
            ):
                yield Finding(
                    joint, f"{label(joint)} stands at {format_coordinate(axis, value)} where the file puts its links"
                )
                break


@rule("frames.open-loop", Severity.WARNING)
def open_loop(context: CheckContext) -> Iterable[Finding]:
    """A joint that closes a loop does not close it at rest.

    A simulation that starts there begins by pulling the two ends together. Up to 0.1 mm or 0.0001 rad is a note.
    """
    placed = {id(joint) for joint, _ in _joints_between_placed_links(context)}
    base = context.robot.pose if context.robot is not None else Pose()
    for joint in context.tree.loops:
        if id(joint) in placed or not has_valid_axes(joint):
            continue  # frames.disagree has looked at it
        parent, child = (base if end is None else context.initial_poses.get(end) for end in (joint.parent, joint.child))
        relative = _relative_joint_pose(parent, child, joint)
        if relative is None:
            continue
        nearest = fit_joint_coordinates(joint, relative)
        worst = max(nearest.position_error, nearest.angle_error)
        if worst > _TOLERANCE:
            severity = Severity.NOTE if worst <= _ROUNDING_TOLERANCE else None
            gap = _format_gap(nearest.position_error, nearest.angle_error)
            message = f"{label(joint)} does not close its loop at rest: its ends are {gap} apart"
            yield Finding(joint, message, "start at a configuration that closes it, or correct its frames", severity)


@rule("frames.open-constraint", Severity.NOTE)
def violated_constraint(context: CheckContext) -> Iterable[Finding]:
    """A constraint between two links is not met at rest."""
    base = context.robot.pose if context.robot is not None else Pose()
    for constraint in context.assembly.constraints:
        ends = [base if e is None else context.initial_poses.get(e) for e in (constraint.a, constraint.b)]
        if None in ends or not constraint.active:
            continue
        a, b = (end @ pose for end, pose in zip(ends, (constraint.pose_a, constraint.pose_b), strict=True) if end)
        if not (a.is_finite and b.is_finite):
            continue
        metres, radians = _constraint_violation(constraint, a, b)
        if max(metres, radians) > _ROUNDING_TOLERANCE:
            message = f"{label(constraint)} is not met at rest: it is off by {_format_gap(metres, radians)}"
            yield Finding(constraint, message, "start at a configuration that meets it")


def _constraint_violation(constraint: Constraint, a: Pose, b: Pose) -> tuple[float, float]:
    metres, radians = a.distance(b)
    match constraint.kind:
        case ConstraintKind.CONNECT:
            return metres, 0.0
        case ConstraintKind.WELD:
            return metres, radians
        case ConstraintKind.DISTANCE:
            return (abs(metres - constraint.distance), 0.0) if math.isfinite(constraint.distance) else (0.0, 0.0)
        case _:
            return 0.0, 0.0

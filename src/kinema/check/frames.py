"""Rules about poses that contradict each other."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import groupby

import numpy as np

from kinema.description import Constraint, ConstraintKind, Joint, JointKind, Link
from kinema.foundation import Pose, Severity

from .context import Context, has_sound_axes
from .nearest import nearest_motion
from .rule import Finding, rule
from .words import angle, coordinate, label, length

_TOLERANCE = 1e-6
"""Differences [m or rad] up to this are not reported."""
_ROUNDING = 1e-4
"""Up to this they are put down to rounding, and are notes."""
_SEVERE = 1e-3
"""Beyond this they are errors."""


@rule("frames.not-a-rotation", Severity.ERROR)
def not_a_rotation(context: Context) -> Iterable[Finding]:
    """The rotation of a pose is scaled, sheared or mirrored: it is not a rotation."""
    for leaf in context.leaves:
        if not (isinstance(leaf.holder, Pose) and leaf.field == "rotation") or not np.isfinite(leaf.value).all():
            continue
        error = float(np.abs(leaf.value.T @ leaf.value - np.eye(3)).max())
        mirrored = float(np.linalg.det(leaf.value)) < 0
        if error > _TOLERANCE or mirrored:
            how = "mirrors" if mirrored else f"is off by {error:.2g}"
            message = f"{leaf.label}: {leaf.path} is not a rotation, it {how}"
            yield Finding(leaf.origin, message, "normalise it; put scale and mirroring into the meshes")


def _authored(link: Link | None, is_world: bool) -> Pose | None:
    """Where the file puts a link, in the robot's frame."""
    if is_world:
        return Pose()
    pose = link.pose if link is not None else None
    return pose if pose is not None and pose.is_finite else None


def _relative(parent: Pose | None, child: Pose | None, joint: Joint) -> Pose | None:
    """The joint's frame on the child, seen from its frame on the parent."""
    if parent is None or child is None or not (joint.parent_pose.is_finite and joint.child_pose.is_finite):
        return None
    return (parent @ joint.parent_pose).inverse() @ (child @ joint.child_pose)


def _placed_joints(context: Context) -> Iterator[tuple[Joint, Pose]]:
    """Joints between links that the file places itself, and how it places them against each other."""
    links = context.link_by_name
    bundles = groupby(context.joints, key=lambda j: (j.parent, j.child))
    stacked = {id(j) for _, group in bundles for j in _stack(list(group))}
    for joint in context.joints:
        if id(joint) in stacked or not joint.enabled or not has_sound_axes(joint):
            continue
        parent, child = (_authored(links.get(end or ""), end is None) for end in (joint.parent, joint.child))
        relative = _relative(parent, child, joint)
        if relative is not None and joint.parent != joint.child:
            yield joint, relative


def _stack(joints: list[Joint]) -> list[Joint]:
    """Joints that share their motion with others, so that none of them says it alone."""
    return joints if any(j.stacked for j in joints) else []


def _gap(metres: float, radians: float) -> str:
    parts = [length(metres)] if metres > _TOLERANCE else []
    parts += [angle(radians)] if radians > _TOLERANCE else []
    return " and ".join(parts)


@rule("frames.disagree", Severity.WARNING)
def disagree(context: Context) -> Iterable[Finding]:
    """A joint's frames on its two links are not where the file puts those links.

    The file places both links itself, and its joint says otherwise: along what the joint leaves free they may differ
    (see `frames.parked`), across it they may not. A simulator that trusts the joint makes the robot jump at the start.
    Up to 0.1 mm or 0.0001 rad is rounding and a note, more than 1 mm or 0.001 rad is an error, except for a fixed joint
    to the world, which only moves the robot as a whole.
    """
    for joint, relative in _placed_joints(context):
        nearest = nearest_motion(joint, relative)
        worst = max(nearest.metres, nearest.radians)
        if worst <= _TOLERANCE:
            continue
        severity = Severity.NOTE if worst <= _ROUNDING else None
        if worst > _SEVERE and not (joint.kind is JointKind.FIXED and None in (joint.parent, joint.child)):
            severity = Severity.ERROR
        message = (
            f"the two frames of {label(joint)} are {_gap(nearest.metres, nearest.radians)} apart where the links are"
        )
        yield Finding(joint, message, "move one of the links, or correct the joint's frame on one of them", severity)


@rule("frames.parked", Severity.NOTE)
def parked(context: Context) -> Iterable[Finding]:
    """The file places two links at another position of their joint than the one where its frames coincide.

    The robot starts there; programs that start all joints at zero show it otherwise than it is drawn.
    """
    for joint, relative in _placed_joints(context):
        nearest = nearest_motion(joint, relative)
        if joint.initial is not None or max(nearest.metres, nearest.radians) > _SEVERE:
            continue
        for axis, value in zip(joint.moving_axes, nearest.coordinates, strict=False):
            if abs(value - axis.reference) > _ROUNDING and joint.kind not in (JointKind.SPHERICAL, JointKind.FREE):
                yield Finding(
                    joint, f"{label(joint)} stands at {coordinate(axis, value)} where the file puts its links"
                )
                break


@rule("frames.open-loop", Severity.WARNING)
def open_loop(context: Context) -> Iterable[Finding]:
    """A joint that closes a loop does not close it at rest.

    A simulation that starts there begins by pulling the two ends together. Up to 0.1 mm or 0.0001 rad is a note.
    """
    placed = {id(joint) for joint, _ in _placed_joints(context)}
    base = context.robot.pose if context.robot is not None else Pose()
    for joint in context.tree.loops:
        if id(joint) in placed or not has_sound_axes(joint):
            continue  # frames.disagree has looked at it
        parent, child = (base if end is None else context.rest.get(end) for end in (joint.parent, joint.child))
        relative = _relative(parent, child, joint)
        if relative is None:
            continue
        nearest = nearest_motion(joint, relative)
        worst = max(nearest.metres, nearest.radians)
        if worst > _TOLERANCE:
            severity = Severity.NOTE if worst <= _ROUNDING else None
            gap = _gap(nearest.metres, nearest.radians)
            message = f"{label(joint)} does not close its loop at rest: its ends are {gap} apart"
            yield Finding(joint, message, "start at a configuration that closes it, or correct its frames", severity)


@rule("frames.open-constraint", Severity.NOTE)
def open_constraint(context: Context) -> Iterable[Finding]:
    """A constraint between two links is not met at rest."""
    base = context.robot.pose if context.robot is not None else Pose()
    for constraint in context.assembly.constraints:
        ends = [base if e is None else context.rest.get(e) for e in (constraint.a, constraint.b)]
        if None in ends or not constraint.active:
            continue
        a, b = (end @ pose for end, pose in zip(ends, (constraint.pose_a, constraint.pose_b), strict=True) if end)
        if not (a.is_finite and b.is_finite):
            continue
        metres, radians = _violation(constraint, a, b)
        if max(metres, radians) > _ROUNDING:
            message = f"{label(constraint)} is not met at rest: it is off by {_gap(metres, radians)}"
            yield Finding(constraint, message, "start at a configuration that meets it")


def _violation(constraint: Constraint, a: Pose, b: Pose) -> tuple[float, float]:
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

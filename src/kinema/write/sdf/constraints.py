"""Constraints that SDFormat can say: with a joint that closes a loop, or with an axis that follows another."""

from __future__ import annotations

import copy

from kinema.description import Constraint, ConstraintKind, Joint, JointKind, Mimic, Robot, spherical_axes
from kinema.foundation import Pose, unique_name
from kinema.words import sdf

from ..following import leads_to, line_of
from .lowered import Lowered
from .start import CLOSED
from .writing import Writing

_KINDS = {ConstraintKind.CONNECT: JointKind.SPHERICAL, ConstraintKind.WELD: JointKind.FIXED}


def joints_of_constraints(
    writing: Writing, source: Robot, lowered: Lowered, poses: dict[str, Pose], taken: set[str]
) -> None:
    """Put every constraint into the lowered robot, as a joint, a mimic or a gear, or on record as not there."""
    for constraint in source.constraints:
        what = f"the {constraint.kind.value} constraint"
        if not constraint.active:
            writing.drop(constraint, what, "it is not active")
        elif constraint.kind in _KINDS:
            _joint(writing, lowered, constraint, poses, taken)
        elif constraint.kind is ConstraintKind.GEAR:
            _gear(writing, lowered, constraint, poses)
        elif not _mimic(writing, source, lowered, constraint):
            writing.drop(constraint, what, "SDFormat has no such constraint")


def _joint(writing: Writing, lowered: Lowered, constraint: Constraint, poses: dict[str, Pose], taken: set[str]) -> None:
    parent, child = (constraint.a, constraint.pose_a), (constraint.b, constraint.pose_b)
    if child[0] is None:
        parent, child = child, parent
    known = all(end is None or end in poses for end, _ in (parent, child))
    if not known or parent[0] == child[0]:
        writing.drop(constraint, f"the {constraint.kind.value} constraint", "it does not connect two links")
        return
    kind = _KINDS[constraint.kind]
    wanted, frame = (_at(poses, end) @ pose for end, pose in (parent, child))
    name = unique_name(constraint.name or constraint.kind.value, taken)
    joint = Joint(
        name=name,
        origin=constraint.origin,
        kind=kind,
        parent=parent[0],
        child=child[0],
        parent_pose=_at(poses, parent[0]).inverse() @ frame,
        child_pose=child[1],
        axes=spherical_axes() if kind is JointKind.SPHERICAL else [],
        closes_loop=True,
        attributes={k: v for k, v in constraint.attributes.items() if k.startswith(sdf.NAMESPACE_OF_KEYS)},
    )
    lowered.robot.joints.append(joint)
    lowered.said.add(id(constraint))
    word = "ball" if kind is JointKind.SPHERICAL else "fixed"
    writing.approximate(constraint, f"the {constraint.kind.value} constraint", f'it is the {word} joint "{name}"')
    metres, radians = wanted.distance(frame)
    if metres > CLOSED or (radians > CLOSED and kind is JointKind.FIXED):
        how = f"its frames are {metres:.3g} m and {radians:.3g} rad apart where the links stand, and meet there"
        writing.approximate(constraint, "where it is on its first link", how)


def _gear(writing: Writing, lowered: Lowered, constraint: Constraint, poses: dict[str, Pose]) -> None:
    ends = (constraint.a, constraint.b, constraint.reference)
    if constraint.b is None or constraint.a == constraint.b or any(e is not None and e not in poses for e in ends):
        writing.drop(constraint, "the gear constraint", "its second link is none that can turn")
        return
    named = copy.copy(constraint)
    named.name = constraint.name or "gear"
    lowered.robot.constraints.append(named)
    lowered.said.add(id(constraint))


def _mimic(writing: Writing, source: Robot, lowered: Lowered, constraint: Constraint) -> bool:
    """Whether a constraint that makes a joint follow a straight line of another was said as a mimic."""
    line = line_of(source, constraint)
    if line is None or constraint.a is None or constraint.b is None:
        return False
    keys = (constraint.a, constraint.axis_a), (constraint.b, constraint.axis_b)
    follower, leader = (lowered.coordinates.get(joint, {}).get(axis) for joint, axis in keys)
    if follower is None or leader is None or follower == leader:
        return False
    joints = {j.name: j for j in lowered.robot.joints}
    axis = joints[follower[0]].axes[follower[1]]
    if axis.mimic is not None or leads_to(leader, follower, lambda key: _leader(joints, key)):
        return False
    zeros = [lowered.offsets.get(key, 0.0) for key in keys]
    offset, factor = line[0] - zeros[0], line[1]
    axis.mimic = Mimic(joint=leader[0], axis=leader[1], multiplier=factor, offset=offset, reference=-zeros[1])
    lowered.said.add(id(constraint))
    how = f'joint "{follower[0]}" follows "{leader[0]}" in the file'
    writing.approximate(constraint, "the joint constraint", how)
    return True


def _leader(joints: dict[str, Joint], axis: tuple[str, int]) -> tuple[str, int] | None:
    mimic = joints[axis[0]].axes[axis[1]].mimic
    return None if mimic is None else (mimic.joint, mimic.axis)


def _at(poses: dict[str, Pose], link: str | None) -> Pose:
    return Pose() if link is None else poses[link]

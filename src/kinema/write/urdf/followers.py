"""Which joint follows which: mimicry, and constraints that say the same."""

from __future__ import annotations

from collections.abc import Mapping

from kinema.description import Constraint, Joint, Mimic

from ..following import leads_to, line_of
from .lower import Lowered
from .writing import Writing


def resolve_followers(writing: Writing, lowered: Lowered) -> set[int]:
    """Let every following joint of the file name the joint of the file that it follows.

    Returns:
        The ids of the constraints that are said this way.
    """
    _mimics(writing, lowered)
    _travels(writing, lowered)
    said = {id(c): follower for c in writing.robot.constraints if (follower := _constraint(writing, lowered, c))}
    by_name = {j.name: j for j in lowered.robot.joints}
    for follower in said.values():
        _shorten(by_name, by_name[follower])
    return set(said)


def _mimics(writing: Writing, lowered: Lowered) -> None:
    for joint in lowered.robot.joints:
        mimic = joint.axes[0].mimic if joint.axes else None
        if mimic is None:
            continue
        leader = lowered.coordinates.get(mimic.joint, {}).get(mimic.axis)
        joint.axes[0].mimic = None
        if leader is None:
            how = f'the file has no joint with the coordinate {mimic.axis} of "{mimic.joint}"'
            writing.drop(writing.source_of[joint.name], f'that it follows "{mimic.joint}"', how)
            continue
        offset = mimic.offset - mimic.multiplier * mimic.reference if mimic.reference else mimic.offset
        joint.axes[0].mimic = Mimic(joint=leader, multiplier=mimic.multiplier, offset=offset)


def _travels(writing: Writing, lowered: Lowered) -> None:
    """The travel of a screw follows its turn, or what that follows: chains of mimicry are not understood everywhere."""
    made = {j.name: j for j in lowered.robot.joints}
    for source in writing.robot.joints:
        names = lowered.chains.get(source.name, [])
        per_radian = lowered.travels.get(source.name)
        if per_radian is None:
            continue
        turn = made[lowered.coordinates[source.name][0]]
        (travel,) = (made[n] for n in names if n != turn.name)
        leader = turn.axes[0].mimic
        if leader is None:
            travel.axes[0].mimic = Mimic(joint=turn.name, multiplier=per_radian)
        else:
            multiplier, offset = per_radian * leader.multiplier, per_radian * leader.offset
            travel.axes[0].mimic = Mimic(joint=leader.joint, multiplier=multiplier, offset=offset)


def _shorten(by_name: Mapping[str, Joint], joint: Joint) -> None:
    """Let a joint follow what its leader follows: many programs have no followers of followers."""
    mimic, seen = joint.axes[0].mimic, {joint.name}
    while mimic is not None and (above := by_name[mimic.joint].axes[0].mimic) is not None:
        if above.joint in seen:
            return  # the robot's own mimics go round in a circle
        seen.add(above.joint)
        offset = mimic.multiplier * above.offset + mimic.offset
        mimic = Mimic(joint=above.joint, multiplier=mimic.multiplier * above.multiplier, offset=offset)
    joint.axes[0].mimic = mimic


def _constraint(writing: Writing, lowered: Lowered, constraint: Constraint) -> str:
    """The joint of the file that follows another by mimicry, where a constraint says just that; else empty."""
    line = line_of(writing.robot, constraint)
    if line is None:
        return ""
    follower = lowered.coordinates.get(constraint.a or "", {}).get(constraint.axis_a)
    leader = lowered.coordinates.get(constraint.b or "", {}).get(constraint.axis_b)
    if follower is None or leader is None or follower == leader:
        return ""
    joints = {j.name: j for j in lowered.robot.joints}
    axis = joints[follower].axes[0]
    if axis.mimic is not None or leads_to(leader, follower, lambda name: _leader(joints[name])):
        return ""
    axis.mimic = Mimic(joint=leader, multiplier=line[1], offset=line[0])
    how = f'it is written as joint "{follower}" following "{leader}", which is not soft and needs no solver'
    writing.approximate(constraint, "a constraint between joints", how)
    return follower


def _leader(joint: Joint) -> str | None:
    mimic = joint.axes[0].mimic if joint.axes else None
    return None if mimic is None else mimic.joint

"""Constraints as joints that close loops, and what USD has no word for at all."""

from __future__ import annotations

from dataclasses import replace

from kinema.description import Assembly, Constraint, ConstraintKind, Joint, JointKind
from kinema.words import newton, ours, physics

from ..report import Action
from .names import author_name, give_back
from .plan import RobotPlan
from .records import author_fields, author_record, author_records
from .writing import Writing

_AS_JOINT = {
    ConstraintKind.CONNECT: physics.SPHERICAL_JOINT,
    ConstraintKind.WELD: physics.FIXED_JOINT,
    ConstraintKind.DISTANCE: physics.DISTANCE_JOINT,
}
_SAID_BY_JOINT = ("kind", "a", "b", "pose_a", "pose_b", "distance", "active")
_SAID_BY_MIMIC = ("kind", "a", "b", "polynomial", "active")


def author_leftovers(writing: Writing, assembly: Assembly, robots: list[RobotPlan], home: str) -> None:
    """What a robot or world, whose prim is `home`, has beside links, joints and shapes."""
    for number, constraint in enumerate(assembly.constraints):
        # joints and records stand in different places: without numbers their order would be lost
        constraint = replace(constraint, order=number) if constraint.order is None else constraint
        if constraint.kind in _AS_JOINT:
            _as_joint(writing, constraint, robots)
        elif not (constraint.kind is ConstraintKind.JOINT and _as_mimic(writing, constraint, robots)):
            author_record(writing, constraint, ours.RECORD_CONSTRAINT, home)
    author_records(writing, assembly, home)


def _as_joint(writing: Writing, constraint: Constraint, robots: list[RobotPlan]) -> None:
    """A joint outside the articulation holds what the constraint holds."""
    homes = [next((p for p in robots if end in p.links), None) for end in (constraint.a, constraint.b)]
    lost = [e for e, home in zip((constraint.a, constraint.b), homes, strict=True) if e is not None and home is None]
    home = homes[0] or homes[1]
    if lost or home is None or any(h is not None and h.robot.static for h in homes):
        writing.lose(Action.DROPPED, constraint, "the constraint", "it does not hold a moving link to another")
        return
    path = writing.plan.names.child(
        writing.draft.scope(f"{home.path}/PhysicsConstraints"), constraint.name, "constraint"
    )
    prim = writing.draft.prim(path, _AS_JOINT[constraint.kind])
    ends = ((constraint.a, constraint.pose_a, homes[0]), (constraint.b, constraint.pose_b, homes[1]))
    for side, (link, pose, own) in enumerate(ends):
        prim.relate(physics.BODIES[side], [home.path if link is None or own is None else own.links[link]])
        frame = home.robot.pose.inverse() @ pose if link is None else pose
        prim.number(physics.LOCAL_POSITIONS[side], "point3f", frame.position)
        prim.number(physics.LOCAL_ROTATIONS[side], "quatf", frame.quaternion)
    prim.set(physics.EXCLUDE_FROM_ARTICULATION, "bool", True, uniform=True)
    prim.set(physics.COLLISION_ENABLED, "bool", True)
    if not constraint.active:
        prim.set(physics.JOINT_ENABLED, "bool", False)
    if constraint.kind is ConstraintKind.DISTANCE:
        prim.number(physics.MIN_DISTANCE, "float", constraint.distance)
        prim.number(physics.MAX_DISTANCE, "float", constraint.distance)
    prim.keep(ours.CONSTRAINT, constraint.kind.value)
    author_name(writing, prim, constraint)
    author_fields(writing, prim, constraint, ours.RECORD_CONSTRAINT, said=_SAID_BY_JOINT)
    give_back(writing, prim, constraint)
    how = f"it is a {_AS_JOINT[constraint.kind].removeprefix(physics.SCHEMAS)} outside the articulation, and hard"
    writing.lose(Action.APPROXIMATED, constraint, f"a {constraint.kind.value} constraint", how)


def _as_mimic(writing: Writing, constraint: Constraint, robots: list[RobotPlan]) -> bool:
    """A joint that follows a straight line of another can be said as mimicry."""
    offset, factor, *higher = constraint.polynomial
    if constraint.b is None or any(higher) or not constraint.active:
        return False
    for parts in robots:
        follower, leader = (parts.joint_by_name.get(name or "") for name in (constraint.a, constraint.b))
        if not (_may_follow(follower, parts) and _may_follow(leader, parts)):
            continue
        assert follower is not None and leader is not None  # noqa: PT018  they may follow
        prim = writing.draft.prims[parts.joints[id(follower)]]
        if newton.MIMIC_API in prim.schemas or follower.axes[0].motion is not leader.axes[0].motion:
            return False
        prim.apply(newton.MIMIC_API)
        prim.relate(newton.MIMIC_JOINT, [parts.joints[id(leader)]])
        degrees = 57.29577951308232 if follower.kind in (JointKind.REVOLUTE, JointKind.CONTINUOUS) else 1.0
        if offset:
            prim.number(newton.MIMIC_OFFSET, "float", offset * degrees)
        prim.number(newton.MIMIC_FACTOR, "float", factor)
        prim.keep(ours.MIMIC_IS_CONSTRAINT, constraint.name)
        author_fields(writing, prim, constraint, ours.RECORD_CONSTRAINT, said=_SAID_BY_MIMIC)
        if constraint.name_is_generated:
            prim.keep(ours.MIMIC_NAME_IS_GENERATED, True)
        how = f'it is written as joint "{follower.name}" following "{leader.name}" (NewtonMimicAPI)'
        writing.lose(Action.APPROXIMATED, constraint, "a joint constraint", how)
        return True
    return False


def _may_follow(joint: Joint | None, parts: RobotPlan) -> bool:
    return joint is not None and len(joint.axes) == 1 and id(joint) in parts.joints

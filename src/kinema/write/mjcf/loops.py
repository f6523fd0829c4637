"""Joints that are not in the tree of bodies: they close loops.

A rigid one is a weld, a ball a point, a plain hinge two points on its axis, a distance the range of a tendon. Any other
joint, and any with limits, a drive or friction, is kept whole: it carries a body of hardly any mass in the place of its
child, which is welded to the child.
"""

from __future__ import annotations

import math

from kinema.description import Joint, JointKind, Robot
from kinema.foundation import Pose

from .bodies import carrier
from .body_plan import BodyPlan
from .equalities import join, new_site, plain_equality
from .tendons import distance_tendon
from .writing import Writing

_LEVER = 0.1
"""How far apart two points on the axis of a hinge are held [m]."""
_PLAIN = {JointKind.REVOLUTE, JointKind.CONTINUOUS}


def plan_loops(writing: Writing) -> None:
    """Make the bodies that carry the loops' joints; must come before bodies are written."""
    for robot in writing.robots:
        for joint in robot.tree().loops:
            if robot.static or joint.kind is JointKind.FREE:
                writing.drop(joint, "the joint", "it holds nothing together that could move apart")
        for joint in _loops(robot):
            if _needs_body(joint):
                body = carrier(writing, robot, joint)
                how = f"it moves the body {body.name!r}, of hardly any mass, which is welded to its child"
                writing.approximate(joint, "a joint that closes a loop", how)


def _loops(robot: Robot) -> list[Joint]:
    return [] if robot.static else [j for j in robot.tree().loops if j.kind is not JointKind.FREE]


def _needs_body(joint: Joint) -> bool:
    if joint.kind in (JointKind.FIXED, JointKind.DISTANCE) or not joint.moving_axes:
        return False
    if joint.kind not in _PLAIN and joint.kind is not JointKind.SPHERICAL:
        return True
    return joint.cone is not None or any(
        math.isfinite(a.lower)
        or math.isfinite(a.upper)
        or a.drive is not None
        or a.mimic is not None
        or any((a.stiffness, a.damping, a.friction, a.armature))
        for a in joint.axes
    )


def write_loops(writing: Writing) -> None:
    """The constraints that close the loops, and distances that joints of the tree keep."""
    for robot in writing.robots:
        for joint in _loops(robot):
            _close(writing, robot, joint)
        tree_joints = [j for edge in robot.tree().edges for j in edge.joints]
        for joint in tree_joints:
            if joint.distance != (0.0, math.inf) and not robot.static:
                _distance(writing, robot, joint)


def _close(writing: Writing, robot: Robot, joint: Joint) -> None:
    bodies = [_body(writing, robot, name) for name in (joint.parent, joint.child)]
    poses = [_held(robot, name, pose) for name, pose in _ends(joint)]
    parts = writing.parts_of.get(id(joint))
    if parts:
        held = next(b for b in _all(writing) if b.parts and b.parts[0].joint is joint)
        # the carrier is in the child's place: the two frames are one
        weld = plain_equality(writing, "weld")
        own = Pose.translation(joint.child_pose.position)
        join(writing, weld, [held, bodies[1]], [own, _held(robot, joint.child, own)], joint.name)
        return
    if joint.kind is JointKind.DISTANCE:
        _distance(writing, robot, joint)
        return
    if joint.kind is JointKind.FIXED or not joint.moving_axes:
        join(writing, plain_equality(writing, "weld"), bodies, poses, joint.name)
        writing.approximate(joint, "a joint that closes a loop", "it is a weld constraint")
        return
    join(writing, plain_equality(writing, "connect"), bodies, poses, joint.name)
    how = "it is a constraint that holds its centre together"
    if joint.kind is not JointKind.SPHERICAL:
        along = Pose.translation(_LEVER * joint.moving_axes[0].direction)
        join(writing, plain_equality(writing, "connect"), bodies, [p @ along for p in poses], f"{joint.name}_axis")
        how = "it is two constraints that hold points of its axis together"
    writing.approximate(joint, "a joint that closes a loop", how)


def _distance(writing: Writing, robot: Robot, joint: Joint) -> None:
    """A tendon between the origins of the joint's frames, whose length is limited."""
    sites = [
        new_site(writing, _body(writing, robot, name), Pose.translation(_held(robot, name, pose).position), label)
        for (name, pose), label in zip(_ends(joint), (f"{joint.name}_1", f"{joint.name}_2"), strict=True)
    ]
    tendon = distance_tendon(writing, joint.name, (sites[0], sites[1]), joint.distance)
    writing.approximate(joint, "the distance that it keeps", f"it is the range of the tendon {tendon!r}")


def _ends(joint: Joint) -> tuple[tuple[str | None, Pose], tuple[str | None, Pose]]:
    return (joint.parent, joint.parent_pose), (joint.child, joint.child_pose)


def _held(robot: Robot, link: str | None, pose: Pose) -> Pose:
    """A frame on a link; one on the robot's base is in the world."""
    return robot.pose @ pose if link is None else pose


def _body(writing: Writing, robot: Robot, name: str | None) -> BodyPlan | None:
    return None if name is None else writing.body_of[id(robot.link(name))]


def _all(writing: Writing) -> list[BodyPlan]:
    return [body for top in writing.bodies for body in top.walk()]

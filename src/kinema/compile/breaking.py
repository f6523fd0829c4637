"""Joints that may break: they hold by a tie, in the tree or not, because what a tree holds it holds for ever."""

from __future__ import annotations

from dataclasses import replace

from kinema.description import Joint, JointKind, KinematicTree, Robot, spanning_tree

NEVER = 1e30
"""A force that nothing breaks at: formats in single precision write infinity as their greatest number."""


def may_break(joint: Joint) -> bool:
    """Whether some force breaks it."""
    return min(joint.break_force, joint.break_torque) < NEVER and joint.kind is not JointKind.FREE


def is_stacked(robot: Robot, joint: Joint) -> bool:
    """Whether it shares its two links with joints that add their motion: then it stays in the tree."""
    ends = (joint.parent, joint.child)
    return any(j.stacked for j in robot.joints if (j.parent, j.child) == ends)


def simulated_tree(robot: Robot) -> KinematicTree:
    """The tree of a robot, in which joints that may break close loops."""
    loose = [j for j in robot.joints if j.enabled and may_break(j) and not robot.static and not is_stacked(robot, j)]
    if not loose:
        return robot.tree()
    own = {id(j) for j in loose}
    joints = [replace(j, closes_loop=True) if id(j) in own else j for j in robot.joints]
    return spanning_tree(robot.links, joints, robot.root)


def in_tree_otherwise(robot: Robot) -> list[Joint]:
    """Joints that would be in the tree if they could not break."""
    if not any(map(may_break, robot.joints)):
        return []
    return [j for edge in robot.tree().edges for j in edge.joints if may_break(j)]

"""What holds a robot's base, decided by the user."""

from __future__ import annotations

import copy

from .joint import JointKind
from .kinematics import coordinates
from .robot import Base, Robot
from .tree import TreeEdge
from .world import World


def with_base(described: Robot | World, base: Base) -> Robot | World:
    """The description with another thing said of what holds its robots' bases; nothing else of it changes.

    A joint to the world that only says so goes: one without any freedom, and the free joint of a floating base. Other
    joints to the world are part of the mechanism and stay, and so does scenery.
    """
    if isinstance(described, Robot):
        return _with_base(described, base)
    world = copy.copy(described)
    world.robots = [_with_base(robot, base) for robot in described.robots]
    return world


def _with_base(robot: Robot, base: Base) -> Robot:
    if robot.static:
        return robot
    result = copy.copy(robot)
    result.base = base
    start = coordinates(robot.joints, {})
    for edge in robot.tree().edges:
        if edge.parent is None and _only_holds(edge):
            gone = {id(joint) for joint in edge.joints}
            result.joints = [joint for joint in result.joints if id(joint) not in gone]
            result.links = [link if link.name != edge.child else copy.copy(link) for link in result.links]
            result.link(edge.child).pose = edge.pose(start)
    return result


def _only_holds(edge: TreeEdge) -> bool:
    """Whether joints to the world say no more than that their link is fixed, or free."""
    return not any(joint.n_dofs for joint in edge.joints) or (
        len(edge.joints) == 1 and edge.joints[0].kind is JointKind.FREE
    )

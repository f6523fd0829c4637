"""Where everything goes: the prim path of every link, joint and shape, and the pose each link is shown at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from kinema.description import Joint, JointKind, KinematicTree, Link, Robot, Shape, TreeEdge, World, coordinates
from kinema.foundation import Array, Pose, clean_name, unique_name

MAX_NESTING = 200
"""Links inside each other; deeper ones stand beside the link at this depth, because OpenUSD is slow with long paths."""


class PrimNames:
    """Names of prims, unique among siblings."""

    def __init__(self) -> None:
        self._taken: dict[str, set[str]] = {}

    def child(self, parent: str, wanted: str, fallback: str) -> str:
        """The path of a child whose name is as close to the wanted one as USD allows."""
        plain = clean_name(wanted.rstrip("/").rpartition("/")[2])
        name = plain if plain.strip("_") else fallback
        return f"{parent}/{unique_name(name, self._taken.setdefault(parent, set()))}"


@dataclass(slots=True, eq=False)
class RobotPlan:
    """The paths of one robot's parts."""

    robot: Robot
    path: str
    tree: KinematicTree
    poses: dict[str, Pose]
    """Link -> pose in the robot's frame."""
    links: dict[str, str] = field(default_factory=dict)
    """Link -> prim path."""
    inside: dict[str, str | None] = field(default_factory=dict)
    """Link -> the link its prim is in; None for one that is in none."""
    joints: dict[int, str] = field(default_factory=dict)
    """id of a joint -> prim path; joints that have no prim are not in it."""
    held: dict[str, list[Joint]] = field(default_factory=dict)
    """Link -> the joints whose prims are in its prim."""
    body_scope: str = ""
    """Where flat links stand."""
    joint_scope: str = ""
    """Where flat joints stand."""
    joint_by_name: dict[str, Joint] = field(default_factory=dict)
    link_by_name: dict[str, Link] = field(default_factory=dict)
    loops: frozenset[int] = frozenset()
    """ids of the joints that are not in the tree."""

    def place(self, link: str) -> Pose:
        """The pose of a link in the prim that it is in."""
        outer = self.inside[link]
        return self.poses[link] if outer is None else self.poses[outer].inverse() @ self.poses[link]


@dataclass(slots=True, eq=False)
class Plan:
    """The paths of everything."""

    described: Robot | World
    root: str
    layout: str
    names: PrimNames
    robots: list[RobotPlan] = field(default_factory=list)
    shapes: dict[int, str] = field(default_factory=dict)
    """id of a shape -> prim path."""

    @property
    def is_world(self) -> bool:
        """Whether there may be several robots and scenery."""
        return isinstance(self.described, World)

    @property
    def scenery(self) -> Sequence[Shape]:
        """The static shapes."""
        return self.described.shapes if isinstance(self.described, World) else ()


def make_plan(described: Robot | World, layout: str) -> Plan:
    """Give every robot, link, joint and shape its path."""
    names = PrimNames()
    fallback = "World" if isinstance(described, World) else "Robot"
    root = names.child("", described.name, fallback)
    plan = Plan(described, root, layout, names)
    if isinstance(described, World):
        plan.robots = [_robot(plan, r, names.child(root, r.name, "robot")) for r in described.robots]
    else:
        plan.robots = [_robot(plan, described, root)]
    return plan


def _robot(plan: Plan, robot: Robot, path: str) -> RobotPlan:
    tree = robot.tree()
    parts = RobotPlan(robot, path, tree, shown_poses(robot, tree))
    parts.loops = frozenset(id(j) for j in tree.loops)
    parts.joint_by_name = {j.name: j for j in reversed(robot.joints)}
    parts.link_by_name = {link.name: link for link in reversed(robot.links)}
    if plan.layout == "nested":
        _nest(plan, parts)
    else:
        parts.body_scope = plan.names.child(path, "PhysicsBodies", "PhysicsBodies")
        for link in robot.links:
            parts.links[link.name] = plan.names.child(parts.body_scope, link.name, "link")
            parts.inside[link.name] = None
    _place_joints(plan, parts)
    return parts


def _nest(plan: Plan, parts: RobotPlan) -> None:
    depth: dict[str, int] = {}
    for root in parts.tree.roots:
        _put_inside(plan, parts, root, None, depth)
    for edge in parts.tree.edges:
        # what a free joint carries stands by itself: in USD nothing connects the two
        outer = None if is_free(edge) else edge.parent
        while outer is not None and depth[outer] >= MAX_NESTING:
            outer = parts.inside[outer]
        _put_inside(plan, parts, edge.child, outer, depth)


def _put_inside(plan: Plan, parts: RobotPlan, link: str, outer: str | None, depth: dict[str, int]) -> None:
    parent = parts.path if outer is None else parts.links[outer]
    parts.links[link] = plan.names.child(parent, link, "link")
    parts.inside[link] = outer
    depth[link] = 0 if outer is None else depth[outer] + 1


def _place_joints(plan: Plan, parts: RobotPlan) -> None:
    """A nested joint stands in the link it carries; flat ones stand together."""
    lost = {id(j) for j in parts.tree.dangling}
    written = [j for j in parts.robot.joints if id(j) not in lost and j.kind is not JointKind.FREE]
    carried = {id(j): e.child for e in parts.tree.edges for j in e.joints}
    if plan.layout != "nested" and written:
        parts.joint_scope = plan.names.child(parts.path, "PhysicsJoints", "PhysicsJoints")
    for joint in written:
        holder = carried.get(id(joint)) or joint.child or joint.parent or ""
        if not parts.joint_scope:
            parts.held.setdefault(holder, []).append(joint)
        parts.joints[id(joint)] = plan.names.child(parts.joint_scope or parts.links[holder], joint.name, "joint")


# -- poses ------------------------------------------------------------------------------------------------------------


def shown_poses(robot: Robot, tree: KinematicTree) -> dict[str, Pose]:
    """Poses in the robot's frame where it starts: as authored, else as the joints say."""
    by_name: dict[str, Link] = {link.name: link for link in robot.links}
    values = coordinates(robot.joints, {})
    values |= {j.name: j.rest for j in robot.joints if not _is_sound(j, values[j.name])}
    poses: dict[str, Pose] = {}
    for root in tree.roots:
        poses[root] = by_name[root].pose or Pose()
    moved: set[str | None] = set()
    """Links that start elsewhere than the file poses them."""
    for edge in tree.edges:
        own = by_name[edge.child].pose
        if edge.parent in moved or any(j.initial is not None and j.kind is not JointKind.FREE for j in edge.joints):
            moved.add(edge.child)
        shown = own is not None and edge.child not in moved
        poses[edge.child] = own if shown and own is not None else _carried(edge, poses) @ edge.pose(values)
    return poses


def _is_sound(joint: Joint, start: Array) -> bool:
    return start.shape == (joint.n_qs,) and bool(np.isfinite(start).all())


def is_free(edge: TreeEdge) -> bool:
    """Whether nothing holds the child of an edge to its parent."""
    return all(j.kind is JointKind.FREE for j in edge.joints)


def _carried(edge: TreeEdge, poses: dict[str, Pose]) -> Pose:
    return Pose() if edge.parent is None else poses[edge.parent]

"""Prim paths of robots, links, joints and shapes, and the initial poses of links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from kinema.core import Array, Pose, to_identifier, unique_name
from kinema.description import Joint, JointKind, KinematicTree, Link, Robot, Shape, TreeEdge, World, joint_coordinates

# ----------------------------------------------------------------------------------------------------------- prim paths

MAX_NESTING = 200
"""Maximum nesting of links; deeper links are siblings because OpenUSD is slow with long paths."""


class PrimNames:
    """Prim names, unique among siblings."""

    def __init__(self) -> None:
        self._taken_names: dict[str, set[str]] = {}

    def child_path(self, parent: str, preferred_name: str, fallback: str) -> str:
        """Path of a new child with the nearest valid and unique name."""
        plain = to_identifier(preferred_name.rstrip("/").rpartition("/")[2])
        name = plain if plain.strip("_") else fallback
        return f"{parent}/{unique_name(name, self._taken_names.setdefault(parent, set()))}"


@dataclass(slots=True, eq=False)
class RobotPaths:
    """Prim paths and initial poses of one robot's links and joints."""

    robot: Robot
    path: str
    tree: KinematicTree
    poses: dict[str, Pose]
    """Link -> initial pose in the robot frame."""
    links: dict[str, str] = field(default_factory=dict)
    """Link -> prim path."""
    parent_links: dict[str, str | None] = field(default_factory=dict)
    """Link -> link of its parent prim; None for top-level links."""
    joints: dict[int, str] = field(default_factory=dict)
    """`id` of a joint -> prim path; joints without prim are missing."""
    joints_by_link: dict[str, list[Joint]] = field(default_factory=dict)
    """Link -> joints whose prims are its children."""
    body_scope: str = ""
    """Scope of the links in the flat layout."""
    joint_scope: str = ""
    """Scope of the joints in the flat layout."""
    joint_by_name: dict[str, Joint] = field(default_factory=dict)
    link_by_name: dict[str, Link] = field(default_factory=dict)
    loop_joint_ids: frozenset[int] = frozenset()
    """`id`s of the loop-closing joints."""

    def local_pose(self, link: str) -> Pose:
        """Initial pose of a link in its parent prim."""
        outer = self.parent_links[link]
        return self.poses[link] if outer is None else self.poses[outer].inverse() @ self.poses[link]


@dataclass(slots=True, eq=False)
class StagePaths:
    """Prim paths of a stage."""

    description: Robot | World
    root: str
    layout: str
    names: PrimNames
    robots: list[RobotPaths] = field(default_factory=list)
    shapes: dict[int, str] = field(default_factory=dict)
    """`id` of a shape -> prim path."""

    @property
    def is_world(self) -> bool:
        """Whether the description is a world."""
        return isinstance(self.description, World)

    @property
    def static_shapes(self) -> Sequence[Shape]:
        """Static shapes of a world."""
        return self.description.shapes if isinstance(self.description, World) else ()


def assign_prim_paths(description: Robot | World, layout: str) -> StagePaths:
    """Assign prim paths to all robots, links and joints; paths of shapes are added when they are written."""
    names = PrimNames()
    fallback = "World" if isinstance(description, World) else "Robot"
    root = names.child_path("", description.name, fallback)
    plan = StagePaths(description, root, layout, names)
    if isinstance(description, World):
        plan.robots = [
            _assign_robot_paths(plan, r, names.child_path(root, r.name, "robot")) for r in description.robots
        ]
    else:
        plan.robots = [_assign_robot_paths(plan, description, root)]
    return plan


def _assign_robot_paths(paths: StagePaths, robot: Robot, path: str) -> RobotPaths:
    """Assign prim paths to the links and joints of a robot, nested or flat."""
    tree = robot.tree()
    parts = RobotPaths(robot, path, tree, initial_link_poses(robot, tree))
    parts.loop_joint_ids = frozenset(id(j) for j in tree.loops)
    parts.joint_by_name = {j.name: j for j in reversed(robot.joints)}
    parts.link_by_name = {link.name: link for link in reversed(robot.links)}
    if paths.layout == "nested":
        _nest_links(paths, parts)
    else:
        parts.body_scope = paths.names.child_path(path, "PhysicsBodies", "PhysicsBodies")
        for link in robot.links:
            parts.links[link.name] = paths.names.child_path(parts.body_scope, link.name, "link")
            parts.parent_links[link.name] = None
    _assign_joint_paths(paths, parts)
    return parts


def _nest_links(paths: StagePaths, robot_paths: RobotPaths) -> None:
    """Assign nested paths to all links; children of free joints are top-level prims."""
    depth: dict[str, int] = {}
    for root in robot_paths.tree.roots:
        _assign_link_path(paths, robot_paths, root, None, depth)
    for edge in robot_paths.tree.edges:
        # what a free joint carries stands by itself: in USD nothing connects the two
        outer = None if is_free_edge(edge) else edge.parent
        while outer is not None and depth[outer] >= MAX_NESTING:
            outer = robot_paths.parent_links[outer]
        _assign_link_path(paths, robot_paths, edge.child, outer, depth)


def _assign_link_path(
    paths: StagePaths, robot_paths: RobotPaths, link: str, parent_link: str | None, depth: dict[str, int]
) -> None:
    parent = robot_paths.path if parent_link is None else robot_paths.links[parent_link]
    robot_paths.links[link] = paths.names.child_path(parent, link, "link")
    robot_paths.parent_links[link] = parent_link
    depth[link] = 0 if parent_link is None else depth[parent_link] + 1


def _assign_joint_paths(paths: StagePaths, robot_paths: RobotPaths) -> None:
    """Assign paths to joints: below their child link if nested, in one scope if flat."""
    lost = {id(j) for j in robot_paths.tree.dangling}
    written = [j for j in robot_paths.robot.joints if id(j) not in lost and j.kind is not JointKind.FREE]
    carried = {id(j): e.child for e in robot_paths.tree.edges for j in e.joints}
    if paths.layout != "nested" and written:
        robot_paths.joint_scope = paths.names.child_path(robot_paths.path, "PhysicsJoints", "PhysicsJoints")
    for joint in written:
        holder = carried.get(id(joint)) or joint.child or joint.parent or ""
        if not robot_paths.joint_scope:
            robot_paths.joints_by_link.setdefault(holder, []).append(joint)
        robot_paths.joints[id(joint)] = paths.names.child_path(
            robot_paths.joint_scope or robot_paths.links[holder], joint.name, "joint"
        )


# --------------------------------------------------------------------------------------------------- initial link poses


def initial_link_poses(robot: Robot, tree: KinematicTree) -> dict[str, Pose]:
    """Initial poses of all links in the robot frame: authored poses, else forward kinematics."""
    by_name: dict[str, Link] = {link.name: link for link in robot.links}
    values = joint_coordinates(robot.joints, {})
    values |= {j.name: j.rest for j in robot.joints if not _is_valid_start(j, values[j.name])}
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
        poses[edge.child] = own if shown and own is not None else _parent_pose(edge, poses) @ edge.pose(values)
    return poses


def _is_valid_start(joint: Joint, start: Array) -> bool:
    return start.shape == (joint.n_qs,) and bool(np.isfinite(start).all())


def is_free_edge(edge: TreeEdge) -> bool:
    """Whether all joints of an edge are free."""
    return all(j.kind is JointKind.FREE for j in edge.joints)


def _parent_pose(edge: TreeEdge, poses: dict[str, Pose]) -> Pose:
    return Pose() if edge.parent is None else poses[edge.parent]


# --------------------------------------------------------------------------------- prim paths of links for other layers


def link_prim_paths(description: Robot | World, layout: str) -> tuple[str, list[str]]:
    """Path of the root prim and of each link's prim, in the order of the description's links."""
    plan = assign_prim_paths(description, layout)
    by_link = {id(link): parts.links[link.name] for parts in plan.robots for link in parts.robot.links}
    return plan.root, [by_link[id(link)] for link in description.links]

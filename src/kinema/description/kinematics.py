"""Spanning tree of the graph of links and joints, joint coordinates with mimics, forward kinematics of link poses.

The tree prefers joints to the world, then the declared root, then nesting of links, then the direction parent to child;
ties are broken by the order of the links, never by the order of the joints. Joints that are not in the tree close
loops.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np

from kinema.core import Array, ArrayLike, KinemaError, Pose, float64_array

from .joint import Joint, JointKind, joint_transform
from .link import Link

# ------------------------------------------------------------------------------------------------- spanning tree


@dataclass(frozen=True, slots=True, eq=False)
class TreeEdge:
    """Edge of the kinematic tree: one joint, or several stacked joints, between a parent link and a child link."""

    parent: str | None
    """None for the world."""
    child: str
    joints: tuple[Joint, ...]
    reversed: bool
    """Whether the joints are defined from this edge's child to its parent."""

    def pose(self, coordinates: dict[str, Array]) -> Pose:
        """Pose of the child link in the parent link at given coordinates, by joint name."""
        first = self.joints[0]
        pose = first.parent_pose @ joint_transform(first, coordinates[first.name]) @ first.child_pose.inverse()
        for joint in self.joints[1:]:
            pose = (
                pose @ joint.child_pose @ joint_transform(joint, coordinates[joint.name]) @ joint.child_pose.inverse()
            )
        return pose.inverse() if self.reversed else pose


@dataclass(frozen=True, slots=True, eq=False)
class KinematicTree:
    """Spanning tree of a robot; parents precede children."""

    roots: tuple[str, ...]
    """Names of links without an incoming edge; placed by their own pose."""
    edges: tuple[TreeEdge, ...]
    loops: tuple[Joint, ...]
    """Enabled joints that are not in the tree (loop closures)."""
    dangling: tuple[Joint, ...]
    """Joints that refer to a missing link, or to one link twice; ignored."""

    def edge_by_child(self) -> dict[str, TreeEdge]:
        """Incoming edge of each link that has one, by link name."""
        return {e.child: e for e in self.edges}


def spanning_tree(links: Sequence[Link], joints: Sequence[Joint], root: str | None = None) -> KinematicTree:
    """Spanning tree of links and joints by a best-first search; disabled and loop-closing joints are never part of it.

    Args:
        links: links of the robot.
        joints: joints of the robot.
        root: name of the declared root link; None if there is none.
    """
    if len(links) == 1 and len(joints) <= 1:
        tree = _tree_of_body(links[0], joints)
        if tree is not None:
            return tree
    return _SpanningTreeSearch(links, joints, root).run()


def _tree_of_body(link: Link, joints: Sequence[Joint]) -> KinematicTree | None:
    """Tree of a single link, without joint or with one from the world to it; None for other joints."""
    if not joints:
        return KinematicTree((link.name,), (), (), ())
    joint = joints[0]
    is_tree_joint = joint.enabled and not joint.closes_loop and joint.kind is not JointKind.DISTANCE
    if not is_tree_joint or joint.stacked or joint.parent is not None or joint.child != link.name:
        return None
    return KinematicTree((), (TreeEdge(None, link.name, (joint,), reversed=False),), (), ())


class _SpanningTreeSearch:
    """Best-first search of the spanning tree: always extends the tree by the joint of highest priority."""

    def __init__(self, links: Sequence[Link], joints: Sequence[Joint], root: str | None) -> None:
        """Prepare the search: discard dangling and disabled joints, group stacked joints, and index the groups by link.

        Args:
            links: links of the robot.
            joints: joints of the robot.
            root: name of the declared root link; None if there is none.
        """
        self.order = {link.name: i for i, link in reversed(list(enumerate(links)))}
        self.nested_in = {link.name: link.nested_in for link in links}
        self.declared_root = root if root in self.order else None
        self.dangling = [j for j in joints if not self._connects(j)]
        dangling_ids = {id(j) for j in self.dangling}
        self.joints = [j for j in joints if j.enabled and id(j) not in dangling_ids]
        self.bundles = _group_stacked_joints(j for j in self.joints if self._may_be_tree_joint(j))
        self.bundles_at_link: dict[str | None, list[_StackedJoints]] = {}
        for bundle in self.bundles:
            self.bundles_at_link.setdefault(bundle.parent, []).append(bundle)
            self.bundles_at_link.setdefault(bundle.child, []).append(bundle)
        self.visited: set[str] = set()
        self.edges: list[TreeEdge] = []
        self.roots: list[str] = []

    def _connects(self, joint: Joint) -> bool:
        known = all(end is None or end in self.order for end in (joint.parent, joint.child))
        return known and joint.parent != joint.child

    @staticmethod
    def _may_be_tree_joint(joint: Joint) -> bool:
        return not joint.closes_loop and joint.kind is not JointKind.DISTANCE

    def run(self) -> KinematicTree:
        """Extend the tree from the world, the declared root and other root candidates; joints left over are loops."""
        self._extend_from([None])
        if self.declared_root is not None:
            self._add_root(self.declared_root)
        for name in self._root_candidates():
            self._add_root(name)
        used = {id(j) for e in self.edges for j in e.joints}
        loops = [j for j in self.joints if id(j) not in used]
        return KinematicTree(tuple(self.roots), tuple(self.edges), tuple(loops), tuple(self.dangling))

    def _add_root(self, root: str) -> None:
        if root not in self.visited:
            self.visited.add(root)
            self.roots.append(root)
            self._extend_from([root])

    def _root_candidates(self) -> list[str]:
        """All links sorted as root candidates: outermost of a nesting, then child of no joint, then link order."""
        is_child = {b.child for b in self.bundles}
        contains = {parent for parent in self.nested_in.values() if parent is not None}

        def rank(name: str) -> tuple[bool, bool, int]:
            tops_a_nesting = name in contains and self.nested_in[name] is None
            return (not tops_a_nesting, name in is_child, self.order[name])

        return sorted(self.order, key=rank)

    def _extend_from(self, start: list[str | None]) -> None:
        """Add all links reachable from `start` (None is the world) to the tree, by joints of highest priority first."""
        frontier: list[tuple[tuple[int, int, int, int], TreeEdge]] = []
        position = 0
        for link in start:
            self._push_candidates(frontier, link, position)
        while frontier:
            _, edge = heapq.heappop(frontier)
            if edge.child in self.visited:
                continue
            self.visited.add(edge.child)
            self.edges.append(edge)
            position += 1
            self._push_candidates(frontier, edge.child, position)

    def _push_candidates(
        self, frontier: list[tuple[tuple[int, int, int, int], TreeEdge]], link: str | None, position: int
    ) -> None:
        """Push the edges from a link to unvisited links to the frontier heap.

        Args:
            frontier: heap of (priority, visiting order of the parent, link order, joint order) and edge.
            link: link that was visited; None for the world.
            position: visiting order of the link.
        """
        for bundle in self.bundles_at_link.get(link, ()):
            other = bundle.child if bundle.parent == link else bundle.parent
            if other is not None and other not in self.visited:
                key = (self._priority(bundle, link, other), position, self.order[other], bundle.index)
                edge = TreeEdge(link, other, tuple(bundle.joints), reversed=bundle.parent != link)
                heapq.heappush(frontier, (key, edge))

    def _priority(self, bundle: _StackedJoints, parent: str | None, child: str) -> int:
        """Priority of an edge: 0 from the world, 1 along the nesting, 2 parent to child, 3 child to parent."""
        if parent is None:
            return 0
        if self.nested_in.get(child) == parent:
            return 1
        return 2 if bundle.parent == parent else 3


@dataclass(slots=True, eq=False)
class _StackedJoints:
    """A joint with the stacked joints that follow it between the same two links."""

    parent: str | None
    child: str | None
    joints: list[Joint]
    index: int


def _group_stacked_joints(joints: Iterable[Joint]) -> list[_StackedJoints]:
    """Group joints: each joint by itself, or with the stacked joints that follow it between the same two links."""
    open_bundles: dict[tuple[str | None, str | None], _StackedJoints] = {}
    bundles: list[_StackedJoints] = []
    for joint in joints:
        key = (joint.parent, joint.child)
        if joint.stacked and key in open_bundles:
            open_bundles[key].joints.append(joint)
            continue
        bundle = _StackedJoints(joint.parent, joint.child, [joint], len(bundles))
        open_bundles[key] = bundle
        bundles.append(bundle)
    return bundles


# ---------------------------------------------------------------------- joint coordinates and forward kinematics

Configuration = Mapping[str, ArrayLike]
"""Joint coordinates by joint name: a number for joints with one coordinate, a sequence for others."""


def joint_coordinates(joints: Sequence[Joint], configuration: Configuration) -> dict[str, Array]:
    """Coordinates of all joints by name, (n_qs,) each: given, else computed from the mimic leader, else authored.

    A mimic joint with authored coordinates keeps them unless a joint that it follows is moved.

    Args:
        joints: joints of the robot.
        configuration: coordinates of some joints by name; unknown names raise `KinemaError`.
    """
    by_name = {j.name: j for j in joints}
    for name in configuration:
        if name not in by_name:
            raise KinemaError(f"there is no joint {name!r}; the joints are: {', '.join(by_name) or 'none'}")
    values = {name: _checked_coordinates(by_name[name], value) for name, value in configuration.items()}
    moved = set(values)
    for joint in joints:
        if joint.name not in values:
            for dependency in _mimic_order(joint, by_name, values):
                values[dependency.name] = _mimic_coordinates(dependency, values, moved)
                if not moved.isdisjoint(_mimic_leaders(dependency)):
                    moved.add(dependency.name)
    return values


def zero_coordinates(joints: Sequence[Joint]) -> dict[str, Array]:
    """Coordinates of the zero configuration by joint name; free joints at their authored pose, mimic joints follow."""
    leading = [j for j in joints if not any(a.mimic is not None for a in j.moving_axes)]
    return joint_coordinates(joints, {j.name: j.rest for j in leading})


def _checked_coordinates(joint: Joint, value: ArrayLike) -> Array:
    """Validate the number of coordinates of a joint and return them as an array (n_qs,)."""
    q = np.atleast_1d(float64_array(value))
    if q.shape != (joint.n_qs,):
        raise KinemaError(f"joint {joint.name!r} ({joint.kind.value}) takes {joint.n_qs} coordinate(s), not {q.size}")
    return q


def _mimic_order(joint: Joint, by_name: Mapping[str, Joint], known: Mapping[str, Array]) -> list[Joint]:
    """Order in which coordinates are computed for a joint: leaders not yet known, then the joint (depth-first).

    A cycle of mimic relations is cut where it closes.

    Args:
        joint: the joint.
        by_name: all joints by name.
        known: coordinates already computed, by name.
    """
    order: list[Joint] = []
    visited = {joint.name}
    stack = [(joint, _mimic_leaders(joint))]
    while stack:
        current, leaders = stack[-1]
        name = next(leaders, None)
        if name is None:
            order.append(current)
            stack.pop()
        elif name in by_name and name not in known and name not in visited:
            visited.add(name)
            stack.append((by_name[name], _mimic_leaders(by_name[name])))
    return order


def _mimic_leaders(joint: Joint) -> Iterator[str]:
    return iter([a.mimic.joint for a in joint.moving_axes if a.mimic is not None])


def _mimic_coordinates(joint: Joint, values: Mapping[str, Array], moved: Set[str]) -> Array:
    """Coordinates of a joint, (n_qs,), with mimic axes computed from their leaders.

    Axes whose leader is unknown, or has not moved while the joint has authored coordinates, keep their initial value.

    Args:
        joint: the joint.
        values: coordinates of the joints computed so far, by name.
        moved: names of joints that were given or follow given ones.
    """
    q = joint.start.copy()
    for i, axis in enumerate(joint.moving_axes):
        mimic = axis.mimic
        if mimic is None or (joint.has_authored_start and mimic.joint not in moved):
            continue
        leader = values.get(mimic.joint)
        if leader is not None and 0 <= mimic.axis < leader.size:
            q[i] = mimic.multiplier * (leader[mimic.axis] - mimic.reference) + mimic.offset
    return q


def link_poses(
    links: Sequence[Link], tree: KinematicTree, base_pose: Pose, coordinates: dict[str, Array]
) -> dict[str, Pose]:
    """Forward kinematics: world poses of all links by name.

    Args:
        links: links of the robot.
        tree: kinematic tree.
        base_pose: world pose of the base frame.
        coordinates: coordinates of all joints by name.
    """
    by_name = {link.name: link for link in links}
    poses: dict[str, Pose] = {}
    for root in tree.roots:
        pose = by_name[root].pose
        poses[root] = base_pose if pose is None else base_pose @ pose
    with np.errstate(all="ignore"):  # non-finite poses are reported by the checks
        for edge in tree.edges:
            parent = base_pose if edge.parent is None else poses[edge.parent]
            poses[edge.child] = parent @ edge.pose(coordinates)
    return poses

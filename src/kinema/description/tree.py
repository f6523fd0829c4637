"""From a graph of links and joints, one spanning tree, and the joints that close loops.

The rule: joints to the world first, then the declared root, then nesting, then the direction parent to child.
Where the rule leaves a choice the order of the links decides, never the order of the joints.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kinema.foundation import Array, Pose

from .joint import Joint, JointKind
from .link import Link
from .motion import joint_motion


@dataclass(frozen=True, slots=True, eq=False)
class TreeEdge:
    """How a link hangs on its parent: one joint, or several that add their motion."""

    parent: str | None
    """None for the world."""
    child: str
    joints: tuple[Joint, ...]
    reversed: bool
    """True where the joints run from this edge's child to its parent."""

    def pose(self, coordinates: dict[str, Array]) -> Pose:
        """Pose of the child link in the parent link, at coordinates given by joint name."""
        first = self.joints[0]
        pose = first.parent_pose @ joint_motion(first, coordinates[first.name]) @ first.child_pose.inverse()
        for joint in self.joints[1:]:
            pose = pose @ joint.child_pose @ joint_motion(joint, coordinates[joint.name]) @ joint.child_pose.inverse()
        return pose.inverse() if self.reversed else pose


@dataclass(frozen=True, slots=True, eq=False)
class KinematicTree:
    """The spanning tree of a robot, parents before children."""

    roots: tuple[str, ...]
    """Links that no joint holds: they are placed by their own pose."""
    edges: tuple[TreeEdge, ...]
    loops: tuple[Joint, ...]
    """Enabled joints that are not in the tree."""
    dangling: tuple[Joint, ...]
    """Joints that name a link which does not exist, or one link twice: left out of everything."""

    def edge_to(self) -> dict[str, TreeEdge]:
        """The edge that holds each link, by the link's name."""
        return {e.child: e for e in self.edges}


def spanning_tree(links: Sequence[Link], joints: Sequence[Joint], root: str | None = None) -> KinematicTree:
    """Choose the tree by the rule of this module; disabled joints and joints that close loops are never in it."""
    return _Growth(links, joints, root).grow()


class _Growth:
    """One run of the search; it visits links class by class of the rule."""

    def __init__(self, links: Sequence[Link], joints: Sequence[Joint], root: str | None) -> None:
        self.order = {link.name: i for i, link in reversed(list(enumerate(links)))}
        self.nested_in = {link.name: link.nested_in for link in links}
        self.declared_root = root if root in self.order else None
        self.dangling = [j for j in joints if not self._connects(j)]
        lost = {id(j) for j in self.dangling}
        self.joints = [j for j in joints if j.enabled and id(j) not in lost]
        self.bundles = _bundles(j for j in self.joints if self._may_carry(j))
        self.at: dict[str | None, list[_Bundle]] = {}
        for bundle in self.bundles:
            self.at.setdefault(bundle.parent, []).append(bundle)
            self.at.setdefault(bundle.child, []).append(bundle)
        self.visited: set[str] = set()
        self.edges: list[TreeEdge] = []
        self.roots: list[str] = []

    def _connects(self, joint: Joint) -> bool:
        known = all(end is None or end in self.order for end in (joint.parent, joint.child))
        return known and joint.parent != joint.child

    @staticmethod
    def _may_carry(joint: Joint) -> bool:
        return not joint.closes_loop and joint.kind is not JointKind.DISTANCE

    def grow(self) -> KinematicTree:
        self._extend([None])
        if self.declared_root is not None:
            self._plant(self.declared_root)
        for name in self._root_candidates():
            self._plant(name)
        used = {id(j) for e in self.edges for j in e.joints}
        loops = [j for j in self.joints if id(j) not in used]
        return KinematicTree(tuple(self.roots), tuple(self.edges), tuple(loops), tuple(self.dangling))

    def _plant(self, root: str) -> None:
        if root not in self.visited:
            self.visited.add(root)
            self.roots.append(root)
            self._extend([root])

    def _root_candidates(self) -> list[str]:
        """All links, the most root-like first: top of a nesting, then child of no joint, then the order of links."""
        is_child = {b.child for b in self.bundles}
        contains = {parent for parent in self.nested_in.values() if parent is not None}

        def rank(name: str) -> tuple[bool, bool, int]:
            tops_a_nesting = name in contains and self.nested_in[name] is None
            return (not tops_a_nesting, name in is_child, self.order[name])

        return sorted(self.order, key=rank)

    def _extend(self, start: list[str | None]) -> None:
        """Visit everything that can be reached, always by the best class of joint that the frontier offers."""
        frontier: list[tuple[tuple[int, int, int, int], TreeEdge]] = []
        position = 0
        for here in start:
            self._offer(frontier, here, position)
        while frontier:
            _, edge = heapq.heappop(frontier)
            if edge.child in self.visited:
                continue
            self.visited.add(edge.child)
            self.edges.append(edge)
            position += 1
            self._offer(frontier, edge.child, position)

    def _offer(
        self, frontier: list[tuple[tuple[int, int, int, int], TreeEdge]], here: str | None, position: int
    ) -> None:
        """Put what can be reached from here on the frontier; links visited early come first."""
        for bundle in self.at.get(here, ()):
            there = bundle.child if bundle.parent == here else bundle.parent
            if there is not None and there not in self.visited:
                key = (self._joint_class(bundle, here, there), position, self.order[there], bundle.index)
                edge = TreeEdge(here, there, tuple(bundle.joints), reversed=bundle.parent != here)
                heapq.heappush(frontier, (key, edge))

    def _joint_class(self, bundle: _Bundle, here: str | None, there: str) -> int:
        """0 to the world, 1 along the nesting, 2 parent to child, 3 against it."""
        if here is None:
            return 0
        if self.nested_in.get(there) == here:
            return 1
        return 2 if bundle.parent == here else 3


@dataclass(slots=True, eq=False)
class _Bundle:
    parent: str | None
    child: str | None
    joints: list[Joint]
    index: int


def _bundles(joints: Iterable[Joint]) -> list[_Bundle]:
    """Each joint by itself, or with the stacked joints that follow it between the same two links."""
    open_bundles: dict[tuple[str | None, str | None], _Bundle] = {}
    bundles: list[_Bundle] = []
    for joint in joints:
        key = (joint.parent, joint.child)
        if joint.stacked and key in open_bundles:
            open_bundles[key].joints.append(joint)
            continue
        bundle = _Bundle(joint.parent, joint.child, [joint], len(bundles))
        open_bundles[key] = bundle
        bundles.append(bundle)
    return bundles

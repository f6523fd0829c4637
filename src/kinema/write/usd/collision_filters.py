"""Collision rules of a description as joints, filtered pairs and a minimal set of USD collision groups.

USD has no bit masks, no self-collision flag and no pairs that collide against other rules. Colliders with equal
collision behaviour form a class; classes that must not collide become collision groups that filter each other.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

from kinema.description import (
    Collider,
    CollisionGroup,
    CollisionPair,
    CollisionRules,
    Joint,
    Neighbours,
    Robot,
    ScopedRules,
    Shape,
    World,
    colliders,
    collision_rules,
    may_collide,
    rigid_body_indices,
)

from .prim_paths import RobotPaths

_NO_NEIGHBOURS = Neighbours({})


class ScopedPair(NamedTuple):
    """Collision pair and the robot in which its names are resolved; None for the world."""

    pair: CollisionPair
    robot: str | None

    def matching_names(self, collider: Collider) -> set[str]:
        """Names of the pair that match a collider."""
        if self.robot is not None and collider.robot != self.robot:
            return set()
        own = collider.shape.name if self.pair.between == "shapes" else collider.link or "world"
        return {n for n in (self.pair.a, self.pair.b) if n == own}


@dataclass(slots=True, eq=False)
class ColliderClass:
    """Colliders with equal collision behaviour."""

    members: list[Collider]
    collides_with: list[bool] = field(default_factory=list)
    """Whether the class collides with each class of the list."""

    def two_on_different_bodies(self) -> tuple[Collider, Collider] | None:
        """Two members on different bodies; None if all are on one body."""
        first = self.members[0]
        other = next((c for c in self.members if c.body != first.body), None)
        return None if other is None else (first, other)


class CollisionFilters:
    """Collision rules of a description in terms of USD: joints, groups and pairs."""

    def __init__(self, description: Robot | World) -> None:
        every, self.neighbours = colliders(description)
        self.colliders = [c for c in every if c.shape.enabled]
        self.rules = collision_rules(description)
        pairs = [ScopedPair(p, r.robot) for r in self.rules for p in r.rules.pairs]
        self.forced_pairs = [p for p in pairs if p.pair.collide]
        self.excluded_pairs = [p for p in pairs if not p.pair.collide]
        self._forced_pair_rules = [ScopedRules(_with_forced_pairs_only(r), r.robot) for r in self.rules]
        self._robots_without_self_collision = {c.robot for c in self.colliders if not c.self_collide}
        self._disabled_shapes = {id(c.shape) for c in self.colliders if self._never_collides(c)}
        self._rigid_bodies: dict[int, dict[str, int]] = {}

    # -- joints ---------------------------------------------------------------------------------------------------

    def joined_links_collide(self, robot_paths: RobotPaths, joint: Joint) -> bool:
        """Whether the links of a joint may collide with each other."""
        if joint.collision_enabled is not None:
            return joint.collision_enabled
        if joint.parent is None or joint.child is None:
            return False  # there is nothing on the world's side to keep apart from
        if id(robot_paths) not in self._rigid_bodies:
            self._rigid_bodies[id(robot_paths)] = rigid_body_indices(robot_paths.robot)
        body_of = self._rigid_bodies[id(robot_paths)]
        bodies = [body_of.get(end) for end in (joint.parent, joint.child)]
        if None in bodies:
            return False  # it names a link that does not exist, and is not written
        # what hangs on the ground may touch it, as in the description's own rule
        return robot_paths.robot.collision.neighbours_collide or (-1 in bodies and bodies[0] != bodies[1])

    # -- groups ---------------------------------------------------------------------------------------------------

    def groups(self) -> list[tuple[CollisionGroup, list[Collider]]]:
        """Collision groups of the description with their colliders."""
        return [(g, self._group_members(g, r.robot)) for r in self.rules for g in r.rules.groups]

    def _group_members(self, group: CollisionGroup, robot_name: str | None) -> list[Collider]:
        names = set(group.members)
        by_shape, by_link = group.between != "links", group.between != "shapes"
        return [
            c
            for c in self.colliders
            if robot_name in (None, c.robot)
            and ((by_shape and c.shape.name in names) or (by_link and c.link is not None and c.link in names))
        ]

    def collider_classes(self) -> list[ColliderClass]:
        """Minimal classes of colliders by masks and self-collision; empty if all classes collide."""
        found: dict[Hashable, ColliderClass] = {}
        for collider in self.colliders:
            if not self.is_disabled(collider.shape):
                found.setdefault(self._class_key(collider), ColliderClass([])).members.append(collider)
        merged = _merge_equivalent_classes(list(found.values()), self._masks_allow)
        return merged if any(not all(c.collides_with) for c in merged) else []

    def is_disabled(self, shape: Shape) -> bool:
        """Whether a collider can be disabled: its masks exclude all contacts and no pair forces one."""
        return id(shape) in self._disabled_shapes

    def _never_collides(self, collider: Collider) -> bool:
        shape = collider.shape
        return not (shape.contype or shape.conaffinity or any(p.matching_names(collider) for p in self.forced_pairs))

    def _class_key(self, collider: Collider) -> Hashable:
        """Key of a collider by masks, self-collision and forced pairs; equal keys form a class."""
        shape = collider.shape
        robot = (
            collider.robot
            if collider.robot in self._robots_without_self_collision and collider.link is not None
            else ""
        )
        pairs = tuple(
            (i, *sorted(p.matching_names(collider)))
            for i, p in enumerate(self.forced_pairs)
            if p.matching_names(collider)
        )
        return (shape.contype, shape.conaffinity, robot, bool(robot) and collider.self_collide, pairs)

    def _masks_allow(self, a: Collider, b: Collider) -> bool:
        """Whether masks, self-collision and forced pairs let two colliders collide if they were on free bodies."""
        loose = [dataclasses.replace(c, body=i, movable=True) for i, c in enumerate((a, b))]
        return may_collide(loose[0], loose[1], self._forced_pair_rules, _NO_NEIGHBOURS)

    # -- pairs ----------------------------------------------------------------------------------------------------

    def colliders_of_pair(self, scoped: ScopedPair) -> tuple[list[Collider], list[Collider]]:
        """Colliders on either side of a pair."""
        a = [c for c in self.colliders if scoped.pair.a in scoped.matching_names(c)]
        return a, [c for c in self.colliders if scoped.pair.b in scoped.matching_names(c)]

    def rigid_neighbours(self, robot_paths: RobotPaths) -> list[tuple[str, str]]:
        """Link pairs that must be filtered because they are rigidly connected or neighbours of such links.

        The description treats rigidly joined links as one body; USD filters only the two links of a joint.
        """
        robot = robot_paths.robot
        bodies: dict[int, list[str]] = {}
        for c in self.colliders:
            if c.robot == robot.name and c.link is not None and c.link not in bodies.setdefault(c.body, []):
                bodies[c.body].append(c.link)
        wanted = [pair for links in bodies.values() for pair in combinations(links, 2)]
        for pair, allowed in self.neighbours.joined.items():
            if not allowed and len(pair) == 2:
                a, b = sorted(pair)
                wanted += [(x, y) for x in bodies.get(a, ()) for y in bodies.get(b, ())]
        said = {
            frozenset((j.parent, j.child))
            for j in robot.joints
            if j.enabled and not self.joined_links_collide(robot_paths, j)
        }
        said |= {frozenset((p.pair.a, p.pair.b)) for p in self.excluded_pairs if p.pair.between == "links"}
        return [(a, b) for a, b in wanted if frozenset((a, b)) not in said]

    def blocked_forced_pairs(self) -> list[ScopedPair]:
        """Forced pairs that joints, groups or other pairs of the stage exclude."""
        without = [ScopedRules(_without_forced_pairs(r), r.robot) for r in self.rules]
        return [p for p in self.forced_pairs if self._is_blocked(p, without)]

    def _is_blocked(self, scoped: ScopedPair, rules: list[ScopedRules]) -> bool:
        """Whether rules other than masks exclude any collider pair of a forced pair."""
        for a in self.colliders_of_pair(scoped)[0]:
            for b in self.colliders_of_pair(scoped)[1]:
                shapes = [dataclasses.replace(c.shape, contype=1, conaffinity=1) for c in (a, b)]
                pair = [
                    dataclasses.replace(c, shape=s, self_collide=True, movable=True)
                    for c, s in zip((a, b), shapes, strict=True)
                ]
                if a.body != b.body and not may_collide(pair[0], pair[1], rules, self.neighbours):
                    return True
        return False


def _with_forced_pairs_only(scoped: ScopedRules) -> CollisionRules:
    pairs = [p for p in scoped.rules.pairs if p.collide]
    return dataclasses.replace(scoped.rules, groups=[], pairs=pairs)


def _without_forced_pairs(scoped: ScopedRules) -> CollisionRules:
    return dataclasses.replace(scoped.rules, pairs=[p for p in scoped.rules.pairs if not p.collide])


def _merge_equivalent_classes(
    classes: list[ColliderClass], may_meet: Callable[[Collider, Collider], bool]
) -> list[ColliderClass]:
    """Greedily merge classes that collide with the same other classes, and fill in `collides_with`."""
    table = {(id(c), id(d)): _classes_collide(c, d, may_meet) for c in classes for d in classes}
    merged: list[ColliderClass] = []
    for c in classes:
        same = next((m for m in merged if _are_equivalent(m, c, classes, table)), None)
        if same is None:
            merged.append(c)
            continue
        answers = [table[id(x), id(y)] for x, y in ((same, same), (same, c), (c, c))]
        table[id(same), id(same)] = next((a for a in answers if a is not None), None)
        for d in classes:
            if d is not same and table[id(same), id(d)] is None:
                table[id(same), id(d)] = table[id(d), id(same)] = table[id(c), id(d)]
        same.members += c.members
    for c in merged:
        c.collides_with = [table[id(c), id(d)] is not False for d in merged]
    return merged


def _are_equivalent(
    c: ColliderClass, d: ColliderClass, classes: list[ColliderClass], class_collides: dict[tuple[int, int], bool | None]
) -> bool:
    """Whether two classes collide with the same classes and consistently with each other."""
    inner = {class_collides[id(x), id(y)] for x, y in ((c, c), (c, d), (d, d))}
    if {True, False} <= inner:
        return False
    return all(
        None in (class_collides[id(c), id(e)], class_collides[id(d), id(e)])
        or class_collides[id(c), id(e)] == class_collides[id(d), id(e)]
        for e in classes
        if e is not c and e is not d
    )


def _classes_collide(c: ColliderClass, d: ColliderClass, may_meet: Callable[[Collider, Collider], bool]) -> bool | None:
    """Whether two classes collide; None if all members are on one body."""
    if c is d:
        two = c.two_on_different_bodies()
        return None if two is None else may_meet(*two)
    if len({x.body for x in c.members} | {x.body for x in d.members}) == 1:
        return None
    return may_meet(c.members[0], d.members[0])

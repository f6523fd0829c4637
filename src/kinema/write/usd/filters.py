"""Who may collide with whom: joints, filtered pairs and collision groups.

USD has no bit masks, no switch for self-collision and no pairs that collide against other rules. Colliders that behave
alike form a class; classes that must not meet become collision groups that filter each other, as few as there are
classes that behave differently.
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
    rigid_bodies,
)

from .plan import RobotPlan

_NOBODY = Neighbours({})


class ScopedPair(NamedTuple):
    """A pair and the robot that its names are of; None for the world's."""

    pair: CollisionPair
    robot: str | None

    def names(self, collider: Collider) -> set[str]:
        """Which of the pair's two names a collider goes by."""
        if self.robot is not None and collider.robot != self.robot:
            return set()
        own = collider.shape.name if self.pair.between == "shapes" else collider.link or "world"
        return {n for n in (self.pair.a, self.pair.b) if n == own}


@dataclass(slots=True, eq=False)
class ColliderClass:
    """Colliders that the same rules apply to."""

    members: list[Collider]
    row: list[bool] = field(default_factory=list)
    """For each class whether it collides with that one."""

    def two_bodies(self) -> tuple[Collider, Collider] | None:
        """Two of them that could meet."""
        first = self.members[0]
        other = next((c for c in self.members if c.body != first.body), None)
        return None if other is None else (first, other)


class Filters:
    """The rules of a description, as USD can say them."""

    def __init__(self, described: Robot | World) -> None:
        every, self.neighbours = colliders(described)
        self.colliders = [c for c in every if c.shape.enabled]
        self.rules = collision_rules(described)
        pairs = [ScopedPair(p, r.robot) for r in self.rules for p in r.rules.pairs]
        self.forced = [p for p in pairs if p.pair.collide]
        self.excluded = [p for p in pairs if not p.pair.collide]
        self._only_forced = [ScopedRules(_forced_only(r), r.robot) for r in self.rules]
        self._selective = {c.robot for c in self.colliders if not c.self_collide}
        self._off = {id(c.shape) for c in self.colliders if self._touches_nothing(c)}
        self._body_of: dict[int, dict[str, int]] = {}

    # -- joints ---------------------------------------------------------------------------------------------------

    def joint_collides(self, parts: RobotPlan, joint: Joint) -> bool:
        """Whether the links of a joint may collide with each other."""
        if joint.collision_enabled is not None:
            return joint.collision_enabled
        if joint.parent is None or joint.child is None:
            return False  # there is nothing on the world's side to keep apart from
        if id(parts) not in self._body_of:
            self._body_of[id(parts)] = rigid_bodies(parts.robot)
        body_of = self._body_of[id(parts)]
        bodies = [body_of.get(end) for end in (joint.parent, joint.child)]
        if None in bodies:
            return False  # it names a link that does not exist, and is not written
        # what hangs on the ground may touch it, as in the description's own rule
        return parts.robot.collision.neighbours_collide or (-1 in bodies and bodies[0] != bodies[1])

    # -- groups ---------------------------------------------------------------------------------------------------

    def groups(self) -> list[tuple[CollisionGroup, list[Collider]]]:
        """The groups that the description has, with their colliders."""
        return [(g, self._members(g, r.robot)) for r in self.rules for g in r.rules.groups]

    def _members(self, group: CollisionGroup, robot: str | None) -> list[Collider]:
        names = set(group.members)
        by_shape, by_link = group.between != "links", group.between != "shapes"
        return [
            c
            for c in self.colliders
            if robot in (None, c.robot)
            and ((by_shape and c.shape.name in names) or (by_link and c.link is not None and c.link in names))
        ]

    def classes(self) -> list[ColliderClass]:
        """The fewest classes of colliders whose masks and self-collision differ; none where all meet all."""
        found: dict[Hashable, ColliderClass] = {}
        for collider in self.colliders:
            if not self.is_off(collider.shape):
                found.setdefault(self._key(collider), ColliderClass([])).members.append(collider)
        merged = _merge_alike(list(found.values()), self._meet)
        return merged if any(not all(c.row) for c in merged) else []

    def is_off(self, shape: Shape) -> bool:
        """Whether a collider can be switched off: its masks let it touch nothing, and no pair says otherwise."""
        return id(shape) in self._off

    def _touches_nothing(self, collider: Collider) -> bool:
        shape = collider.shape
        return not (shape.contype or shape.conaffinity or any(p.names(collider) for p in self.forced))

    def _key(self, collider: Collider) -> Hashable:
        shape = collider.shape
        robot = collider.robot if collider.robot in self._selective and collider.link is not None else ""
        pairs = tuple((i, *sorted(p.names(collider))) for i, p in enumerate(self.forced) if p.names(collider))
        return (shape.contype, shape.conaffinity, robot, bool(robot) and collider.self_collide, pairs)

    def _meet(self, a: Collider, b: Collider) -> bool:
        """Whether masks, self-collision and forced pairs let two colliders meet, were they on free bodies."""
        loose = [dataclasses.replace(c, body=i, movable=True) for i, c in enumerate((a, b))]
        return may_collide(loose[0], loose[1], self._only_forced, _NOBODY)

    # -- pairs ----------------------------------------------------------------------------------------------------

    def sides(self, scoped: ScopedPair) -> tuple[list[Collider], list[Collider]]:
        """The colliders on either side of a pair."""
        a = [c for c in self.colliders if scoped.pair.a in scoped.names(c)]
        return a, [c for c in self.colliders if scoped.pair.b in scoped.names(c)]

    def held_together(self, parts: RobotPlan) -> list[tuple[str, str]]:
        """Links with colliders that never meet because they are held together, or to neighbours, without freedom.

        The description knows that links joined rigidly are one body. USD's rule is only about the two links of a
        joint, so that the others have to be named.
        """
        robot = parts.robot
        bodies: dict[int, list[str]] = {}
        for c in self.colliders:
            if c.robot == robot.name and c.link is not None and c.link not in bodies.setdefault(c.body, []):
                bodies[c.body].append(c.link)
        wanted = [pair for links in bodies.values() for pair in combinations(links, 2)]
        for pair, allowed in self.neighbours.joined.items():
            if not allowed and len(pair) == 2:
                a, b = sorted(pair)
                wanted += [(x, y) for x in bodies.get(a, ()) for y in bodies.get(b, ())]
        said = {frozenset((j.parent, j.child)) for j in robot.joints if j.enabled and not self.joint_collides(parts, j)}
        said |= {frozenset((p.pair.a, p.pair.b)) for p in self.excluded if p.pair.between == "links"}
        return [(a, b) for a, b in wanted if frozenset((a, b)) not in said]

    def kept_apart(self) -> list[ScopedPair]:
        """Pairs that must collide, but that joints, groups or other pairs of the stage keep apart."""
        without = [ScopedRules(_unforced(r), r.robot) for r in self.rules]
        return [p for p in self.forced if self._is_kept_apart(p, without)]

    def _is_kept_apart(self, scoped: ScopedPair, rules: list[ScopedRules]) -> bool:
        for a in self.sides(scoped)[0]:
            for b in self.sides(scoped)[1]:
                shapes = [dataclasses.replace(c.shape, contype=1, conaffinity=1) for c in (a, b)]
                pair = [
                    dataclasses.replace(c, shape=s, self_collide=True, movable=True)
                    for c, s in zip((a, b), shapes, strict=True)
                ]
                if a.body != b.body and not may_collide(pair[0], pair[1], rules, self.neighbours):
                    return True
        return False


def _forced_only(scoped: ScopedRules) -> CollisionRules:
    pairs = [p for p in scoped.rules.pairs if p.collide]
    return dataclasses.replace(scoped.rules, groups=[], pairs=pairs)


def _unforced(scoped: ScopedRules) -> CollisionRules:
    return dataclasses.replace(scoped.rules, pairs=[p for p in scoped.rules.pairs if not p.collide])


def _merge_alike(classes: list[ColliderClass], meet: Callable[[Collider, Collider], bool]) -> list[ColliderClass]:
    """Classes that meet the same others become one; the order decides where there is a choice."""
    table = {(id(c), id(d)): _classes_meet(c, d, meet) for c in classes for d in classes}
    merged: list[ColliderClass] = []
    for c in classes:
        same = next((m for m in merged if _alike(m, c, classes, table)), None)
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
        c.row = [table[id(c), id(d)] is not False for d in merged]
    return merged


def _alike(
    c: ColliderClass, d: ColliderClass, classes: list[ColliderClass], table: dict[tuple[int, int], bool | None]
) -> bool:
    """Whether two classes meet the same others and, if they meet at all, each other as their own."""
    inner = {table[id(x), id(y)] for x, y in ((c, c), (c, d), (d, d))}
    if {True, False} <= inner:
        return False
    return all(
        None in (table[id(c), id(e)], table[id(d), id(e)]) or table[id(c), id(e)] == table[id(d), id(e)]
        for e in classes
        if e is not c and e is not d
    )


def _classes_meet(c: ColliderClass, d: ColliderClass, meet: Callable[[Collider, Collider], bool]) -> bool | None:
    """Whether colliders of two classes meet; None where all of them are on one body and the question does not arise."""
    if c is d:
        two = c.two_bodies()
        return None if two is None else meet(*two)
    if len({x.body for x in c.members} | {x.body for x in d.members}) == 1:
        return None
    return meet(c.members[0], d.members[0])

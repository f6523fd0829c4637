"""The shapes of a robot or world that may collide, and with which others."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from .collision import Collider, Neighbours, ScopedRules, may_collide
from .robot import Base, Robot
from .world import World

STATIC = -1
"""The body of everything that never moves."""


def colliders(described: Robot | World) -> tuple[list[Collider], Neighbours]:
    """Every collision shape with its body, and which bodies are neighbours."""
    robots = described.robots if isinstance(described, World) else [described]
    result: list[Collider] = []
    joined: dict[frozenset[int], bool] = {}
    if isinstance(described, World):
        result += [Collider(s, None, body=STATIC, movable=False) for s in described.shapes if s.collision]
    first_body = 0
    for robot in robots:
        body_of = rigid_bodies(robot, first_body)
        first_body = max([first_body, *(b + 1 for b in body_of.values())])
        joined.update(_joined_bodies(robot, body_of))
        held = {STATIC, *(body_of[link.name] for link in robot.links if link.kinematic)}
        for link in robot.links:
            collides = robot.collision.self_collide if link.self_collide is None else link.self_collide
            body = body_of[link.name]
            result += [
                Collider(s, link.name, robot.name, body, self_collide=collides, movable=body not in held)
                for s in link.shapes
                if s.collision
            ]
    return result, Neighbours(joined)


def rigid_bodies(robot: Robot, first: int = 0) -> dict[str, int]:
    """For each link the number of its rigid body: links held together without any freedom share one.

    A kinematic link, which the user moves, begins a body of its own.
    """
    tree = robot.tree()
    kinematic = {link.name for link in robot.links if link.kinematic and not robot.static}
    body_of: dict[str, int] = {}
    fresh = first
    for root in tree.roots:
        if robot.static or (robot.base is Base.FIXED and root not in kinematic):
            body_of[root] = STATIC
        else:
            body_of[root], fresh = fresh, fresh + 1
    for edge in tree.edges:
        moves = not robot.static and any(j.n_dofs for j in edge.joints)
        if moves or edge.child in kinematic:
            body_of[edge.child], fresh = fresh, fresh + 1
        else:
            body_of[edge.child] = STATIC if edge.parent is None else body_of[edge.parent]
    return body_of


def _joined_bodies(robot: Robot, body_of: dict[str, int]) -> dict[frozenset[int], bool]:
    """Pairs of bodies that a joint connects; one joint that forbids collision is enough."""
    joined: dict[frozenset[int], bool] = {}
    for joint in robot.joints:
        if not joint.enabled or not (_known(joint.parent, body_of) and _known(joint.child, body_of)):
            continue
        a, b = (STATIC if end is None else body_of[end] for end in (joint.parent, joint.child))
        if a == b:
            continue
        allowed = joint.collision_enabled
        if allowed is None:
            # what hangs on the ground may still touch it: a base would otherwise fall through the floor it stands on
            allowed = robot.collision.neighbours_collide or STATIC in (a, b)
        pair = frozenset((a, b))
        joined[pair] = joined.get(pair, True) and allowed
    return joined


def _known(end: str | None, body_of: dict[str, int]) -> bool:
    return end is None or end in body_of


def collision_rules(described: Robot | World) -> list[ScopedRules]:
    """The rules that apply: the world's everywhere, each robot's among its own links."""
    robots = described.robots if isinstance(described, World) else []
    return [ScopedRules(described.collision), *(ScopedRules(r.collision, r.name) for r in robots)]


def colliding_pairs(described: Robot | World) -> Iterator[tuple[Collider, Collider]]:
    """All pairs of shapes that may collide."""
    items, neighbours = colliders(described)
    rules = [r for r in collision_rules(described) if r.rules.pairs or r.rules.groups]  # the others have no say
    for a, b in combinations(items, 2):
        if may_collide(a, b, rules, neighbours):
            yield a, b

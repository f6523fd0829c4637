"""Collision shapes of a robot or world, assigned to rigid bodies, and the pairs of shapes that may collide."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from .collision_filter import Collider, Neighbours, ScopedRules, may_collide
from .link import Link
from .node import file_order
from .robot import Base, Robot
from .world import World

STATIC_BODY = -1
"""Body index of everything that never moves."""


def colliders(description: Robot | World) -> tuple[list[Collider], Neighbours]:
    """Collision shapes with their rigid bodies, in file order, and the pairs of bodies connected by joints."""
    robots = description.robots if isinstance(description, World) else [description]
    result: list[Collider] = []
    joined: dict[frozenset[int], bool] = {}
    if isinstance(description, World):
        result += [Collider(s, None, body=STATIC_BODY, movable=False) for s in description.shapes if s.collision]
    first_body = 0
    of_links: list[tuple[Link, Collider]] = []
    for robot in robots:
        body_of = rigid_body_indices(robot, first_body)
        first_body = max([first_body, *(b + 1 for b in body_of.values())])
        joined.update(_adjacent_bodies(robot, body_of))
        immovable = {STATIC_BODY, *(body_of[link.name] for link in robot.links if link.kinematic)}
        for link in robot.links:
            collides = robot.collision.self_collide if link.self_collide is None else link.self_collide
            body = body_of[link.name]
            of_links += [
                (link, Collider(s, link.name, robot.name, body, self_collide=collides, movable=body not in immovable))
                for s in link.shapes
                if s.collision
            ]
    of_links.sort(key=lambda item: file_order(item[0]))
    return [*result, *(collider for _, collider in of_links)], Neighbours(joined)


def rigid_body_indices(robot: Robot, first_index: int = 0) -> dict[str, int]:
    """Index of the rigid body of each link by name; links connected without degrees of freedom share a body.

    Links fixed to the world have the index `STATIC_BODY`. A kinematic link starts a body of its own.

    Args:
        robot: the robot.
        first_index: index of the first movable body; default 0.
    """
    tree = robot.tree()
    kinematic = {link.name for link in robot.links if link.kinematic and not robot.static}
    body_of: dict[str, int] = {}
    next_index = first_index
    for root in tree.roots:
        if robot.static or (robot.base is Base.FIXED and root not in kinematic):
            body_of[root] = STATIC_BODY
        else:
            body_of[root], next_index = next_index, next_index + 1
    for edge in tree.edges:
        moves = not robot.static and any(j.n_dofs for j in edge.joints)
        if moves or edge.child in kinematic:
            body_of[edge.child], next_index = next_index, next_index + 1
        else:
            body_of[edge.child] = STATIC_BODY if edge.parent is None else body_of[edge.parent]
    return body_of


def _adjacent_bodies(robot: Robot, body_of: dict[str, int]) -> dict[frozenset[int], bool]:
    """Pairs of bodies connected by enabled joints, and whether they may collide; one joint that forbids it suffices.

    If a joint does not specify it, the rule of the robot applies; bodies connected to the static body may collide with
    it.

    Args:
        robot: the robot.
        body_of: body index of each link.
    """
    joined: dict[frozenset[int], bool] = {}
    for joint in robot.joints:
        if not joint.enabled or not (_is_known_link(joint.parent, body_of) and _is_known_link(joint.child, body_of)):
            continue
        a, b = (STATIC_BODY if end is None else body_of[end] for end in (joint.parent, joint.child))
        if a == b:
            continue
        allowed = joint.collision_enabled
        if allowed is None:
            # joints to the world do not disable contacts with the ground
            allowed = robot.collision.neighbours_collide or STATIC_BODY in (a, b)
        pair = frozenset((a, b))
        joined[pair] = joined.get(pair, True) and allowed
    return joined


def _is_known_link(link_name: str | None, body_of: dict[str, int]) -> bool:
    return link_name is None or link_name in body_of


def collision_rules(description: Robot | World) -> list[ScopedRules]:
    """Collision rules with scope: those of the description everywhere, those of a world's robots among their links."""
    robots = description.robots if isinstance(description, World) else []
    return [ScopedRules(description.collision), *(ScopedRules(r.collision, r.name) for r in robots)]


def colliding_pairs(description: Robot | World) -> Iterator[tuple[Collider, Collider]]:
    """All pairs of collision shapes that may collide."""
    items, neighbours = colliders(description)
    rules = [r for r in collision_rules(description) if r.rules.pairs or r.rules.groups]  # the others filter nothing
    for a, b in combinations(items, 2):
        if may_collide(a, b, rules, neighbours):
            yield a, b

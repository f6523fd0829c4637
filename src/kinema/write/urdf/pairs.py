"""Which links may collide according to the file, against what the description says."""

from __future__ import annotations

import copy

from kinema.description import CollisionRules, Robot, Shape, World, colliding_pairs

from .lower import Lowered
from .writing import Writing


def report_pairs(writing: Writing, lowered: Lowered, described: Robot | World) -> None:
    """Name for each link the links that it collides with in one of the two only.

    A reader of URDF lets all links collide but those that a joint connects.
    """
    robot = writing.robot
    if _is_usual(robot, described) and len(lowered.robot.joints) == len(robot.joints):
        return
    alone: Robot | World = _thinned(robot, [robot.collision, described.collision])
    if isinstance(described, World):
        alone = World(robots=[alone], collision=described.collision)
    order = {link.name: i for i, link in enumerate(robot.links)}
    before, after = _pairs(alone, order), _pairs(_as_read(lowered), order)
    _report(writing, robot, after - before, "it may collide with {} here", "URDF cannot say that they do not")
    _report(writing, robot, before - after, "it does not collide with {} here", "links next to each other do not")


def _report(writing: Writing, robot: Robot, pairs: set[int], words: str, why: str) -> None:
    count = len(robot.links)
    partners: dict[int, list[int]] = {}
    for pair in sorted(pairs):
        partners.setdefault(pair // count, []).append(pair % count)
    for number, others in partners.items():
        names = ", ".join(f'"{robot.links[o].name}"' for o in others)
        writing.approximate(robot.links[number], "which links it collides with", f"{words.format(names)}: {why}")


def _is_usual(robot: Robot, described: Robot | World) -> bool:
    """Whether nothing is filtered in a way of its own, so that there is nothing to compare."""
    rules = [robot.collision, described.collision]
    return (
        all(r.is_default for r in rules)
        and not robot.static
        and robot.base is type(robot.base).UNSPECIFIED
        and all(j.collision_enabled is None and j.enabled for j in robot.joints)
        and not any(e.parent is None for e in robot.tree().edges)
        and not robot.tree().loops
        and all(link.self_collide is None and not link.kinematic for link in robot.links)
        and all(s.contype == 1 and s.conaffinity == 1 for link in robot.links for s in link.shapes)
    )


def _as_read(lowered: Lowered) -> Robot:
    """The robot as a reader of the file takes it to be."""
    robot = copy.copy(lowered.robot)
    robot.links = []
    for link in lowered.robot.links:
        plain = copy.copy(link)
        plain.kinematic, plain.self_collide, plain.pose = False, None, None
        shapes = [s for s in link.shapes if s.enabled and s.collision]
        plain.shapes = [Shape(geometry=shapes[0].geometry)] if shapes else []  # all of them collide alike
        robot.links.append(plain)
    return robot


def _thinned(robot: Robot, rules: list[CollisionRules]) -> Robot:
    """The robot with only one of the shapes of a link that the rules cannot tell apart."""
    named = {name for r in rules for g in r.groups for name in g.members}
    named |= {name for r in rules for p in r.pairs for name in (p.a, p.b)}
    thin = copy.copy(robot)
    thin.links = []
    for link in robot.links:
        plain = copy.copy(link)
        shapes = [s for s in link.shapes if s.enabled and s.collision]
        alike = {(s.contype, s.conaffinity, s.name if s.name in named else ""): s for s in shapes}
        plain.shapes = list(alike.values())
        thin.links.append(plain)
    return thin


def _pairs(described: Robot | World, order: dict[str, int]) -> set[int]:
    """Pairs of links that may collide, each as one number: there may be millions."""
    found: set[int] = set()
    for a, b in colliding_pairs(described):
        if a.link is not None and b.link is not None:
            first, second = sorted((order[a.link], order[b.link]))
            found.add(first * len(order) + second)
    return found

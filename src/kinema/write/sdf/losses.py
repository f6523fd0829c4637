"""What SDFormat has no word for: every part of a robot or world that is not in the file is put on record here."""

from __future__ import annotations

import copy
from collections import Counter

from kinema.description import Assembly, Base, CollisionRules, Joint, Robot, World, colliding_pairs

from ..bookkeeping import missed_gravity, missed_options
from ..losing import AXIS_FIELDS, JOINT_FIELDS, Fields, differing
from .writing import Writing

_INFINITY = float("inf")
_LINK: Fields = {
    "density": (None, "its density"),
    "enabled": (True, "that it is disabled"),
    "starts_asleep": (False, "that it starts asleep"),
}
_LISTS = ("actuators", "tendons", "keyframes")


def report_robot(writing: Writing, robot: Robot) -> None:
    """Put on record what of a robot is not in the file."""
    for link in robot.links:
        unsaid = differing(link, _LINK)
        if link.linear_velocity.any() or link.angular_velocity.any():
            unsaid.append("its initial velocity")
        if unsaid:
            writing.drop(link, ", ".join(unsaid))
        if link.inertial_is_computed:
            writing.approximate(link, "that its inertia is computed from its shapes", "it is written as it came out")
    for joint in robot.joints:
        if joint.enabled:
            _joint(writing, joint)
    if missed_gravity(robot.gravity):
        writing.drop(robot, "gravity", "it belongs to the world")
    options = missed_options(robot.options)
    if options:
        writing.drop(robot, f"the simulation settings {', '.join(options)}", "they belong to the world")
    report_lists(writing, robot)


def report_lists(writing: Writing, assembly: Assembly) -> None:
    """What a robot or world has that SDFormat has not at all."""
    for kind in _LISTS:
        for node in getattr(assembly, kind):
            writing.drop(node, f"the {kind.removesuffix('s')}", "SDFormat has none")
    rules = assembly.collision
    for group in rules.groups:
        writing.drop(group, "the collision group", "SDFormat has bit masks only")
    for pair in rules.pairs:
        kind = "that they always collide" if pair.collide else "that they never collide"
        writing.drop(("collisionpair", pair.name or f"{pair.a} and {pair.b}"), f"{kind}: {pair.a} and {pair.b}")
    if rules.neighbours_collide:
        writing.drop(assembly, "that links joined by a joint may collide")


def _joint(writing: Writing, joint: Joint) -> None:
    unsaid = differing(joint, JOINT_FIELDS)
    if joint.collision_enabled is not None:
        may = "may" if joint.collision_enabled else "may not"
        unsaid.append(f"that the links it joins {may} collide")
    if joint.distance != (0.0, _INFINITY) and joint.kind.value != "distance":
        unsaid.append("its limits of distance")
    for i, axis in enumerate(joint.axes):
        if not axis.locked:
            which = "" if len(joint.axes) == 1 else f" (axis {i + 1})"
            unsaid += [f"{words}{which}" for words in differing(axis, AXIS_FIELDS)]
            if not axis.direction.any():
                unsaid.append(f"its motion: the direction of the axis is zero{which}")
    if unsaid:
        writing.drop(joint, ", ".join(unsaid))


# -- who collides with whom -------------------------------------------------------------------------------------------


def report_pairs(writing: Writing, described: Robot | World, lowered: list[Robot]) -> None:
    """Name for each link the links that it collides with in only one of the file and the description."""
    file: Robot | World = as_read(lowered[0]) if isinstance(described, Robot) else World()
    if isinstance(described, World):
        assert isinstance(file, World)
        file.robots = [as_read(r) for r in lowered]
        file.shapes = [s for s in described.shapes if s.enabled]
    before, after = _pairs(described), _pairs(file)
    for pair in sorted((before.keys() | after.keys()), key=lambda p: sorted(map(str, p))):
        if before[pair] == after[pair]:
            continue
        first, *rest = sorted(pair, key=str)
        second = rest[0] if rest else first
        more = "more" if after[pair] > before[pair] else "fewer"
        how = f"{more} of their shapes may collide here: {after[pair]} pairs, not {before[pair]}"
        writing.approximate(("link", first[1]), f'which links it collides with: "{second[1]}"', how)


def as_read(robot: Robot) -> Robot:
    """The lowered robot as a reader of the file takes it to be."""
    result = copy.copy(robot)
    result.collision = CollisionRules(self_collide=robot.collision.self_collide)
    result.joints = []
    for joint in robot.joints:
        plain = copy.copy(joint)
        plain.collision_enabled = None
        result.joints.append(plain)
    result.base = Base.FREE if result.tree().roots and not robot.static else Base.FIXED
    return result


def _pairs(described: Robot | World) -> Counter[frozenset[tuple[str, str]]]:
    return Counter(
        frozenset(((a.robot, a.link or "world"), (b.robot, b.link or "world"))) for a, b in colliding_pairs(described)
    )

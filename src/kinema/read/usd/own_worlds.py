"""Worlds as they were: static robots, names that are unique in a robot only, and rules where they belong."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence

from kinema.description import Base, CollisionRules, Joint, JointKind, Link, Robot, World
from kinema.foundation import Origin, Pose
from kinema.words import ours, usd

from . import pxr
from .own_names import weightless
from .own_robots import OwnRobots
from .own_settings import own
from .polar import rigid
from .shapes_on_links import StageShape
from .stage_index import StageIndex


def static_robots(index: StageIndex, robots: OwnRobots, shapes: Sequence[StageShape]) -> tuple[list[Robot], set[int]]:
    """Robots of which nothing moves, and the ids of their shapes, which are then no scenery."""
    found: dict[str, dict[str, Link]] = {}
    taken: set[int] = set()
    if index.values.stamp is None:
        return [], taken
    every: dict[str, Link] = {}
    for prim in index.standing:
        path = str(prim.GetPath())
        if own(index, prim, ours.STATIC_LINK):
            every[path] = found.setdefault(robots.marker(path), {})[path] = _standing(index, prim, path)
    for part in shapes:
        link = every.get(str(part.prim.GetParent().GetPath()))
        if part.body is not None or link is None:
            continue
        part.shape.pose = (link.pose or Pose()).inverse() @ part.shape.pose
        link.shapes.append(part.shape)
        taken.add(id(part.shape))
    result = [_static(index, list(links.values())) for links in found.values()]
    for robot, links in zip(result, found.values(), strict=True):
        robots.restore(robot, next(iter(links)))
        robot.base = Base.FIXED
    return result, taken


def _standing(index: StageIndex, prim: pxr.Prim, path: str) -> Link:
    return Link(
        name=str(own(index, prim, ours.NAME) or prim.GetName()),
        origin=Origin(index.file, None, path),
        pose=rigid(index.world(prim)),
        inertial=weightless(index, prim),
    )


def _static(index: StageIndex, links: list[Link]) -> Robot:
    return Robot(
        name=links[0].name, format=usd.FORMAT, source=index.file, origin=links[0].origin, links=links, static=True
    )


def restore_world(index: StageIndex, world: World, robots: OwnRobots) -> None:
    """Robots in their order and with their own names, and the rules that are about one robot on that robot."""
    if index.values.stamp is None:
        return
    siblings = [str(p.GetPath()) for p in index.stage.GetDefaultPrim().GetChildren()] if index.stage else []
    place = {path: i for i, path in enumerate(siblings)}
    world.robots.sort(key=lambda r: place.get(robots.marker(r.links[0].origin.path), len(place)))
    _share_rules(world)
    _rename(index, world)
    _share_parts(world, robots)


def _share_parts(world: World, robots: OwnRobots) -> None:
    """What stands in the prim of a robot belongs to that robot."""
    home = {robots.marker(robot.links[0].origin.path): robot for robot in world.robots if robot.links}
    home.pop("", None)
    for kind in ("constraints", "frames", "tendons", "actuators", "sensors", "keyframes", "cameras", "lights"):
        left = []
        for node in getattr(world, kind):
            owner = home.get(robots.marker(node.origin.path))
            (left if owner is None else getattr(owner, kind)).append(node)
        setattr(world, kind, left)


def _share_rules(world: World) -> None:
    """Pairs and constraints that are about one robot belong to it."""
    home = {link.name: robot for robot in world.robots for link in robot.links}
    pairs = []
    for pair in world.collision.pairs:
        owner = home.get(pair.a)
        if pair.between == "links" and owner is not None and home.get(pair.b) is owner:
            owner.collision.pairs.append(pair)
        else:
            pairs.append(pair)
    world.collision.pairs = pairs
    constraints = []
    for constraint in world.constraints:
        owners = {id(home.get(end)): home.get(end) for end in (constraint.a, constraint.b) if end is not None}
        owner = next(iter(owners.values())) if len(owners) == 1 else None
        (constraints if owner is None else owner.constraints).append(constraint)
    world.constraints = constraints


def _rename(index: StageIndex, world: World) -> None:
    """Call links and joints as their robot does, where other robots of the world have some of the same name."""
    said = {n for p in world.collision.pairs for n in (p.a, p.b)}
    said |= {n for g in world.collision.groups for n in g.members}
    said |= {str(x.link) for x in (*world.cameras, *world.lights, *world.frames)}
    said |= {str(end) for c in world.constraints for end in (c.a, c.b)}
    for robot in world.robots:
        links = _kept(index, [(x.name, x.origin.path) for x in robot.links], said)
        with_prim = [(x.name, x.origin.path) for x in robot.joints if x.kind is not JointKind.FREE]
        joints = _kept(index, with_prim, set())
        _call_links(robot, links)
        for joint in robot.joints:
            _call_joint(joint, joints, links)


def _kept(index: StageIndex, named: list[tuple[str, str]], said: set[str]) -> dict[str, str]:
    """Name -> the name that is kept on the prim, where a robot has no other of that name."""
    wanted: dict[str, str] = {}
    for name, path in named:
        prim = index.stage.GetPrimAtPath(path)
        kept = (own(index, prim, ours.NAME) or prim.GetName()) if prim else name
        wanted[name] = name if name in said else str(kept)
    counts = Counter(wanted.values())
    return {name: new if counts[new] == 1 else name for name, new in wanted.items()}


def _call_links(robot: Robot, names: Mapping[str, str]) -> None:
    for link in robot.links:
        link.name = names[link.name]
        link.nested_in = names.get(link.nested_in or "", link.nested_in)
    robot.root = names.get(robot.root or "", robot.root)
    robot.collision.pairs = [
        dataclasses.replace(p, a=names.get(p.a, p.a), b=names.get(p.b, p.b)) if p.between == "links" else p
        for p in robot.collision.pairs
    ]
    for constraint in robot.constraints:
        constraint.a, constraint.b = (names.get(e or "", e) for e in (constraint.a, constraint.b))


def _call_joint(joint: Joint, joints: Mapping[str, str], links: Mapping[str, str]) -> None:
    joint.name = joints.get(joint.name, joint.name)
    joint.parent, joint.child = (links.get(e or "", e) for e in (joint.parent, joint.child))
    for axis in joint.axes:
        if axis.mimic is not None:
            axis.mimic.joint = joints.get(axis.mimic.joint, axis.mimic.joint)


def restore_shape_names(index: StageIndex, shapes: Sequence[StageShape], rules: CollisionRules) -> None:
    """The shapes' own names, which need not differ, unless a rule calls a shape by its name."""
    if index.values.stamp is None:
        return
    said = {name for group in rules.groups for name in group.members}
    said |= {name for pair in rules.pairs if pair.between == "shapes" for name in (pair.a, pair.b)}
    for part in shapes:
        kept = own(index, part.prim, ours.NAME)
        if kept is not None and part.shape.name not in said and kept not in said:
            part.shape.name = str(kept)


def restore_self_collision(index: StageIndex, robots: Sequence[Robot], rules: CollisionRules) -> None:
    """Robots whose links do not collide with each other: they were written as a group that filters itself."""
    if index.values.stamp is None:
        return
    for group in list(rules.groups):
        prim = index.stage.GetPrimAtPath(group.origin.path)
        if not prim or not own(index, prim, ours.IS_SELF_COLLISION) or group.filtered != [group.name]:
            continue
        for robot in robots:
            colliding = {s.name for link in robot.links for s in link.shapes if s.collision and s.enabled}
            if colliding and colliding == set(group.members):
                robot.collision.self_collide = False
                rules.groups.remove(group)

"""From a composed stage to the description: the story."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from kinema.description import Base, CollisionRules, Joint, Link, Robot, World
from kinema.foundation import Diagnostics, Origin

from . import pxr
from .articulation import declared_roots
from .components import connected_components
from .filters import read_filtered_pairs, read_groups
from .instancers import expand_instancers
from .joints import read_joint
from .masses import body_density, body_inertial
from .names import unique_names
from .polar import polar
from .scenery import read_cameras, read_lights, read_options
from .scenes import read_scenes
from .shapes_on_links import StageShape, read_shapes
from .stage_index import Body, StageIndex, index_stage, say_animation
from .units import DEGREE, stage_units
from .vendor import apply_mimic, keep_vendor_data


@dataclass(slots=True, eq=False)
class _Parts:
    """What was made of the stage's prims."""

    links: dict[str, Link] = field(default_factory=dict)
    """By name."""
    joints: list[Joint] = field(default_factory=list)
    shapes: list[StageShape] = field(default_factory=list)


def convert_stage(stage: pxr.Stage, file: str, diagnostics: Diagnostics, stack_joints: bool | None) -> Robot | World:
    """One robot, or a world of several robots and scenery."""
    index = index_stage(stage, file, stage_units(stage), diagnostics)
    _say_units(index)
    instances = expand_instancers(index)
    _name_bodies(index)
    parts = _Parts()
    parts.shapes = [*read_shapes(index), *(s for i in instances for s in i.shapes)]
    _name_shapes(parts.shapes)
    parts.links = _links(index, parts.shapes)
    parts.joints = _joints(index, stack_joints)
    described = _assemble(index, parts)
    say_animation(index)
    return described


def _say_units(index: StageIndex) -> None:
    units = index.units
    if units.length != 1 or units.mass != 1 or units.up_axis != "Z":
        message = f"units of {units.length:g} m and {units.mass:g} kg, {units.up_axis} up, are read as SI with Z up"
        index.diagnostics.note("usd.units", message, origin=Origin(index.file))


def _name_bodies(index: StageIndex) -> None:
    for path, name in unique_names(index.bodies).items():
        index.bodies[path].name = name


def _name_shapes(shapes: Sequence[StageShape]) -> None:
    names = unique_names(s.shape.origin.path for s in shapes)
    for s in shapes:
        s.shape.name = names[s.shape.origin.path]


# -- links ------------------------------------------------------------------------------------------------------------


def _links(index: StageIndex, shapes: Sequence[StageShape]) -> dict[str, Link]:
    on_body: defaultdict[str, list[StageShape]] = defaultdict(list)
    for part in shapes:
        if part.body is not None:
            on_body[part.body.path].append(part)
    return {body.name: _link(index, body, on_body[path]) for path, body in index.bodies.items()}


def _link(index: StageIndex, body: Body, parts: Sequence[StageShape]) -> Link:
    prim = body.prim
    density = body_density(index, body)
    inertial, computed = body_inertial(index, body, parts, density)
    link = Link(
        name=body.name,
        origin=Origin(index.file, None, body.path),
        inertial=inertial,
        inertial_is_computed=computed,
        density=density,
        shapes=[p.shape for p in parts],
        pose=body.pose,
        nested_in=None if body.parent is None else index.bodies[body.parent].name,
        kinematic=bool(index.value(prim, "physics:kinematicEnabled")),
        starts_asleep=bool(index.value(prim, "physics:startsAsleep")),
    )
    _velocities(index, body, link)
    keep_vendor_data(index, prim, link, known={"newton:inertia", "newton:jointsAddMobility"})
    return link


def _velocities(index: StageIndex, body: Body, link: Link) -> None:
    """Initial velocities are given in the space of the body's own transform: that of its parent."""
    if index.values.facts(body.prim).authored.isdisjoint(("physics:velocity", "physics:angularVelocity")):
        return
    linear, angular = (index.value(body.prim, f"physics:{n}") for n in ("velocity", "angularVelocity"))
    resets = pxr.UsdGeom.Xformable(body.prim).GetResetXformStack()
    parent = body.prim.GetParent()
    if resets or parent.IsPseudoRoot():
        frame = index.units.length * index.units.up
    else:
        frame = index.world(parent).linear
    link.linear_velocity = frame @ np.array(linear, dtype=np.float64)
    # an angular velocity turns with its frame but is not stretched by it
    link.angular_velocity = polar(frame)[0] @ (np.array(angular, dtype=np.float64) * DEGREE)


# -- joints -----------------------------------------------------------------------------------------------------------


def _joints(index: StageIndex, stack_joints: bool | None) -> list[Joint]:
    paths = [index.values.facts(prim).path for prim in index.joints]
    names = unique_names(paths)
    read = [(prim, read_joint(index, prim, names[path])) for prim, path in zip(index.joints, paths, strict=True)]
    joints = [(prim, joint) for prim, joint in read if joint is not None]
    for prim, joint in joints:
        apply_mimic(index, prim, joint, names)
    result = [joint for _, joint in joints]
    if stack_joints or (stack_joints is None and _says_mobility(index)):
        _stack(result)
    return result


def _says_mobility(index: StageIndex) -> bool:
    """Whether the stage says that several joints between two bodies add their motion (as MJCF's do)."""
    return any(index.authored(b.prim, "newton:jointsAddMobility") for b in index.bodies.values()) or any(
        index.authored(p, "newton:jointsAddMobility") for p in [*index.scenes, *index.articulations]
    )


def _stack(joints: Sequence[Joint]) -> None:
    seen: set[tuple[str | None, str | None]] = set()
    for joint in joints:
        pair = (joint.parent, joint.child)
        if pair in seen and not joint.closes_loop and joint.enabled:
            joint.stacked = True
        if not joint.closes_loop and joint.enabled:
            seen.add(pair)


# -- robots -----------------------------------------------------------------------------------------------------------


def _assemble(index: StageIndex, parts: _Parts) -> Robot | World:
    roots = declared_roots(index, parts.joints)
    robots = _robots(index, parts, roots)
    scenery = [s.shape for s in parts.shapes if s.body is None]
    default = index.stage.GetDefaultPrim()
    name = default.GetName() if default else ""
    gravity, scene_groups = read_scenes(index, parts.links, parts.shapes)
    rules = CollisionRules(
        groups=[*read_groups(index, parts.shapes), *scene_groups],
        pairs=read_filtered_pairs(index, parts.shapes, _articulated(parts)),
    )
    described: Robot | World
    if len(robots) == 1 and not scenery:
        described = robots[0]
        described.name = name or described.name
    else:
        described = World(name=name, robots=robots, shapes=scenery)
        _name_robots(robots)
    described.collision = rules
    described.cameras, described.lights = read_cameras(index), read_lights(index)
    described.gravity, described.options = gravity, read_options(index)
    described.format, described.source = "usd", index.file
    described.diagnostics = index.diagnostics
    described.origin = Origin(index.file)
    return described


def _articulated(parts: _Parts) -> dict[str, list[str]]:
    """For each link, the links of its articulation."""
    carrying = [j for j in parts.joints if j.enabled and not j.closes_loop]
    return {name: names for names in connected_components(list(parts.links), carrying) for name in names}


def _robots(index: StageIndex, parts: _Parts, roots: Sequence[str]) -> list[Robot]:
    """The links that joints connect, with these joints, make one robot."""
    components = connected_components(list(parts.links), parts.joints)
    component_of = {name: i for i, names in enumerate(components) for name in names}
    joints: list[list[Joint]] = [[] for _ in components]
    for joint in parts.joints:
        end = joint.parent if joint.parent is not None else joint.child
        if end is not None:
            joints[component_of[end]].append(joint)
    root_of: dict[int, str] = {}
    for root in roots:
        root_of.setdefault(component_of[root], root)
    return [
        _robot(index, [parts.links[n] for n in names], joints[i], root_of.get(i)) for i, names in enumerate(components)
    ]


def _robot(index: StageIndex, links: list[Link], joints: list[Joint], root: str | None) -> Robot:
    return Robot(
        name=links[0].name if root is None else root,
        format="usd",
        source=index.file,
        origin=links[0].origin,
        links=links,
        joints=joints,
        root=root,
        base=Base.FREE,
    )


def _name_robots(robots: Sequence[Robot]) -> None:
    taken: set[str] = set()
    for robot in robots:
        name, n = robot.name, 1
        while robot.name in taken:
            n += 1
            robot.name = f"{name}_{n}"
        taken.add(robot.name)

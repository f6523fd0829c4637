"""From a composed stage to the description: the story."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from kinema.description import Base, CollisionRules, Constraint, Joint, Keyframe, Link, Robot, Sensor, World
from kinema.foundation import Diagnostics, Origin
from kinema.words import ours, physics, usd

from ..resolve import Resolver
from . import pxr
from .articulation import apply_self_collision, articulation_names, declared_roots
from .components import connected_components
from .filters import read_filtered_pairs, read_groups
from .joints import read_joints
from .masses import body_density, body_inertial
from .mimic import apply_mimic
from .mjc import MjcParts, read_mjc
from .names import unique_names
from .own_assets import kept_assets
from .own_names import kept_attributes, mark_generated, own_names, own_order, restore_link
from .own_records import read_records
from .own_robots import OwnRobots
from .own_settings import own
from .own_worlds import restore_self_collision, restore_shape_names, restore_world, static_robots
from .polar import polar
from .scenery import OPTION_SETTINGS, read_cameras, read_lights, read_options
from .scenes import read_scenes
from .shapes_on_links import StageShape, read_shapes
from .stacking import stack_joints
from .stage_checks import check_stage
from .stage_index import Body, StageIndex, index_stage, say_animation
from .units import DEGREE, stage_units
from .vendor import ARTICULATION_SETTINGS, apply_link_settings, keep_vendor_data


@dataclass(slots=True, eq=False)
class _Parts:
    """What was made of the stage's prims."""

    links: dict[str, Link] = field(default_factory=dict)
    """By name."""
    joints: list[Joint] = field(default_factory=list)
    articulated: dict[str, list[str]] = field(default_factory=dict)
    """Link name -> all links of its articulation."""
    shapes: list[StageShape] = field(default_factory=list)
    mjc: MjcParts = field(default_factory=MjcParts)
    robots: OwnRobots = field(init=False)


def convert_stage(
    stage: pxr.Stage, file: str, diagnostics: Diagnostics, stack: bool | None, resolve: Resolver
) -> Robot | World:
    """One robot, or a world of several robots and scenery."""
    index = index_stage(stage, file, stage_units(stage, file, diagnostics), diagnostics)
    index.resolve = resolve
    _say_units(index)
    _name_bodies(index)
    parts = _Parts()
    parts.shapes = read_shapes(index)
    _name_shapes(index, parts.shapes)
    parts.links = _links(index, parts.shapes)
    parts.robots, parts.joints, parts.articulated = _joints(index, list(parts.links), stack)
    apply_self_collision(index, parts.links, parts.articulated)
    parts.mjc = read_mjc(index, parts.joints, {s.shape.origin.path: s.shape.name for s in parts.shapes})
    check_stage(index, parts.shapes, parts.links, parts.articulated)
    described = _assemble(index, parts)
    say_animation(index)
    return described


def _say_units(index: StageIndex) -> None:
    units = index.units
    if units.length != 1 or units.mass != 1 or units.up_axis != "Z":
        message = f"units of {units.length:g} m and {units.mass:g} kg, {units.up_axis} up, are read as SI with Z up"
        index.diagnostics.note("usd.units", message, origin=Origin(index.file))


def _name_bodies(index: StageIndex) -> None:
    prims = [body.prim for body in index.bodies.values()]
    names = own_names(index, dict(zip(index.bodies, prims, strict=True)), unique_names(index.bodies))
    for path, name in names.items():
        index.bodies[path].name = name
    index.bodies = dict(own_order(index, list(index.bodies.items()), prims))


def _name_shapes(index: StageIndex, shapes: Sequence[StageShape]) -> None:
    prims = {s.shape.origin.path: s.prim for s in shapes}
    names = own_names(index, prims, unique_names(prims))
    for s in shapes:
        s.shape.name = names[s.shape.origin.path]
        mark_generated(index, s.prim, s.shape)


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
        kinematic=bool(index.value(prim, physics.KINEMATIC_ENABLED)),
        starts_asleep=bool(index.value(prim, physics.STARTS_ASLEEP)),
    )
    _velocities(index, body, link)
    apply_link_settings(index, prim, link)
    restore_link(index, prim, link)
    return link


def _velocities(index: StageIndex, body: Body, link: Link) -> None:
    """Initial velocities are given in the space of the body's own transform: that of its parent."""
    if index.values.facts(body.prim).authored.isdisjoint((physics.VELOCITY, physics.ANGULAR_VELOCITY)):
        return
    linear, angular = (index.value(body.prim, name) for name in (physics.VELOCITY, physics.ANGULAR_VELOCITY))
    resets = pxr.UsdGeom.Xformable(body.prim).GetResetXformStack()
    parent = body.prim.GetParent()
    if resets or parent.IsPseudoRoot():
        frame = index.units.length * index.units.up
    else:
        frame = index.world(parent).linear
    velocity = frame @ np.array(linear, dtype=np.float64)
    # an angular velocity turns with its frame but is not stretched by it
    spin = polar(frame)[0] @ (np.array(angular, dtype=np.float64) * DEGREE)
    if np.isfinite(velocity).all() and np.isfinite(spin).all():
        link.linear_velocity, link.angular_velocity = velocity, spin
    else:
        message = f"the velocities of body {link.name!r} hold NaN or infinity; it starts at rest"
        index.complain_once(body.prim, "usd.velocity-not-finite", message)


# -- joints -----------------------------------------------------------------------------------------------------------


def _joints(
    index: StageIndex, links: Sequence[str], stack: bool | None
) -> tuple[OwnRobots, list[Joint], dict[str, list[str]]]:
    """What the stage keeps of its robots, the joints, and for each link the links of its articulation."""
    paths = [index.values.facts(prim).path for prim in index.joints]
    names = own_names(index, dict(zip(paths, index.joints, strict=True)), unique_names(paths))
    joints = read_joints(index, names)
    joints = own_order(index, joints, [prim for prim, _ in joints])
    for prim, joint in joints:
        apply_mimic(index, prim, joint, names)
    carrying = [joint for _, joint in joints if joint.enabled and not joint.closes_loop]
    articulated = {name: group for group in connected_components(links, carrying) for name in group}
    stack_joints(index, joints, articulated, stack)
    robots, kept = OwnRobots.sort_out(index, joints)
    return robots, kept, articulated


# -- robots -----------------------------------------------------------------------------------------------------------


def _assemble(index: StageIndex, parts: _Parts) -> Robot | World:
    roots = declared_roots(index, [*parts.joints, *parts.robots.bases])
    standing, taken = static_robots(index, parts.robots, parts.shapes)
    robots = [*_robots(index, parts, roots), *standing]
    scenery = [s.shape for s in parts.shapes if s.body is None and id(s.shape) not in taken]
    default = index.stage.GetDefaultPrim()
    kept = own(index, default, ours.NAME) if default else None
    name = kept if kept is not None else default.GetName() if default else ""
    gravity, scene_groups = read_scenes(index, parts.links, parts.shapes)
    rules = CollisionRules(
        groups=[*read_groups(index, parts.shapes), *scene_groups],
        pairs=read_filtered_pairs(index, parts.shapes, parts.articulated),
    )
    described: Robot | World
    if len(robots) == 1 and not scenery and not index.values.says_world:
        described = robots[0]
        carried = {link.name for link in described.links} & articulation_names(index).keys()
        described.name = described.name if carried else name or described.name
    else:
        described = World(name=name, robots=robots, shapes=scenery)
        _name_robots(robots)
    described.collision = rules
    described.constraints = parts.robots.constraints
    records = read_records(index)
    described.sensors = [record for record in records if isinstance(record, Sensor)]
    described.keyframes = [record for record in records if isinstance(record, Keyframe)]
    described.constraints += [record for record in records if isinstance(record, Constraint)]
    described.constraints.sort(key=lambda c: -1 if c.order is None else c.order)
    described.cameras, described.lights = read_cameras(index), read_lights(index)
    described.gravity, described.options = gravity, read_options(index)
    _put_mjc(described, parts.mjc)
    for scene in index.scenes:
        keep_vendor_data(index, scene, described, OPTION_SETTINGS)
        described.attributes |= kept_attributes(index, scene)
        described.extras += kept_assets(index, scene)
    for prim in index.articulations:
        facts = index.values.facts(prim)
        if facts.path not in index.bodies and not facts.kind.is_joint:
            keep_vendor_data(index, prim, described, ARTICULATION_SETTINGS)
    described.format, described.source = usd.FORMAT, index.file
    described.diagnostics = index.diagnostics
    described.origin = Origin(index.file)
    restore_self_collision(index, robots, rules)
    restore_shape_names(index, parts.shapes, rules)
    if isinstance(described, World):
        restore_world(index, described, parts.robots)
    return described


def _put_mjc(described: Robot | World, mjc: MjcParts) -> None:
    described.frames, described.tendons, described.actuators = mjc.frames, mjc.tendons, mjc.actuators
    described.extras += mjc.extras


def _robots(index: StageIndex, parts: _Parts, roots: Sequence[str]) -> list[Robot]:
    """The links that joints connect, with these joints, make one robot."""
    paths = {body.name: path for path, body in index.bodies.items()}
    components = parts.robots.together(connected_components(list(parts.links), parts.joints), paths)
    component_of = {name: i for i, names in enumerate(components) for name in names}
    joints: list[list[Joint]] = [[] for _ in components]
    for joint in parts.joints:
        end = joint.parent if joint.parent is not None else joint.child
        if end is not None:
            joints[component_of[end]].append(joint)
    root_of: dict[int, str] = {}
    for root in roots:
        root_of.setdefault(component_of[root], root)
    called = articulation_names(index)
    robots = [
        _robot(index, [parts.links[n] for n in names], joints[i], root_of.get(i)) for i, names in enumerate(components)
    ]
    for robot, names in zip(robots, components, strict=True):
        robot.name = next((called[n] for n in names if n in called), robot.name)
    for robot, names in zip(robots, components, strict=True):
        parts.robots.restore(robot, paths[names[0]])
    return robots


def _robot(index: StageIndex, links: list[Link], joints: list[Joint], root: str | None) -> Robot:
    return Robot(
        name=links[0].name if root is None else root,
        format=usd.FORMAT,
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

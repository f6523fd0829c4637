"""Converts a composed stage to a robot or a world."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from kinema.core import Diagnostics, Origin, reproducible_product
from kinema.description import Base, CollisionRules, Constraint, Joint, Keyframe, Link, Robot, Sensor, World
from kinema.tokens import kinema_usd, usd, usd_physics

from ..resolve import Resolver
from . import pxr
from .articulations import apply_self_collision, articulation_robot_names, connected_components, declared_root_links
from .collision_filters import read_collision_groups, read_filtered_pairs
from .joints import apply_mimic, read_joints, stack_joints
from .kinema_attributes import (
    preserved_assets,
    preserved_attributes,
    read_kinema_attributes,
    read_records,
    restored_names,
    restored_order,
)
from .kinema_round_trip import (
    RobotRestorer,
    restore_self_collision,
    restore_shape_names,
    restore_static_robots,
    restore_world,
)
from .mass_properties import body_density, body_inertial
from .motion import apply_surface_velocity, read_motion
from .mujoco_schema import MujocoElements, read_mujoco_prims
from .scenes import KNOWN_SCENE_ATTRIBUTES, read_cameras, read_lights, read_options, read_scenes
from .shapes import StageShape, read_shapes
from .stage_index import Body, StageIndex, index_stage, report_animation, unique_names
from .transforms import DEGREE, polar_decomposition, stage_units
from .validation import check_stage
from .vendor_schemas import ARTICULATION_ATTRIBUTES, apply_link_attributes, preserve_vendor_attributes


@dataclass(slots=True, eq=False)
class _StageContents:
    """Elements read from a stage before assembly."""

    links: dict[str, Link] = field(default_factory=dict)
    """Link name -> link."""
    joints: list[Joint] = field(default_factory=list)
    articulated: dict[str, list[str]] = field(default_factory=dict)
    """Link name -> all links of its articulation."""
    shapes: list[StageShape] = field(default_factory=list)
    mujoco: MujocoElements = field(default_factory=MujocoElements)
    restorer: RobotRestorer = field(init=False)


def convert_stage(
    stage: pxr.Stage, file: str, diagnostics: Diagnostics, stacking: bool | None, resolve: Resolver
) -> Robot | World:
    """Convert a composed stage to a robot, or to a world of several robots and scenery."""
    index = index_stage(stage, file, stage_units(stage, file, diagnostics), diagnostics)
    index.resolve = resolve
    _report_units(index)
    _name_bodies(index)
    contents = _StageContents()
    contents.shapes = read_shapes(index)
    _name_shapes(index, contents.shapes)
    contents.links = _read_links(index, contents.shapes)
    contents.restorer, contents.joints, contents.articulated = _read_joints(index, list(contents.links), stacking)
    apply_self_collision(index, contents.links, contents.articulated)
    contents.mujoco = read_mujoco_prims(
        index, contents.joints, {s.shape.origin.path: s.shape.name for s in contents.shapes}
    )
    check_stage(index, contents.shapes, contents.links, contents.articulated)
    description = _assemble(index, contents)
    report_animation(index)
    return description


def _report_units(index: StageIndex) -> None:
    units = index.units
    if units.length != 1 or units.mass != 1 or units.up_axis != "Z":
        message = f"units of {units.length:g} m and {units.mass:g} kg, {units.up_axis} up, are read as SI with Z up"
        index.diagnostics.note("usd.units", message, origin=Origin(index.file))


def _name_bodies(index: StageIndex) -> None:
    prims = [body.prim for body in index.bodies.values()]
    names = restored_names(index, dict(zip(index.bodies, prims, strict=True)), unique_names(index.bodies))
    for path, name in names.items():
        index.bodies[path].name = name
    index.bodies = dict(restored_order(index, list(index.bodies.items()), prims))


def _name_shapes(index: StageIndex, shapes: Sequence[StageShape]) -> None:
    prims = {s.shape.origin.path: s.prim for s in shapes}
    names = restored_names(index, prims, unique_names(prims))
    for s in shapes:
        s.shape.name = names[s.shape.origin.path]
        read_kinema_attributes(index, s.prim, s.shape)


# -- links ------------------------------------------------------------------------------------------------------------


def _read_links(index: StageIndex, shapes: Sequence[StageShape]) -> dict[str, Link]:
    on_body: defaultdict[str, list[StageShape]] = defaultdict(list)
    for part in shapes:
        if part.body is not None:
            on_body[part.body.path].append(part)
    return {body.name: _read_link(index, body, on_body[path]) for path, body in index.bodies.items()}


def _read_link(index: StageIndex, body: Body, stage_shapes: Sequence[StageShape]) -> Link:
    """Convert a body to a link with inertial, shapes and initial velocities."""
    prim = body.prim
    density = body_density(index, body)
    inertial, computed = body_inertial(index, body, stage_shapes, density)
    link = Link(
        name=body.name,
        origin=Origin(index.file, None, body.path),
        inertial=inertial,
        inertial_is_computed=computed,
        density=density,
        shapes=[p.shape for p in stage_shapes],
        pose=body.pose,
        nested_in=None if body.parent is None else index.bodies[body.parent].name,
        kinematic=bool(index.value(prim, usd_physics.KINEMATIC_ENABLED)),
        starts_asleep=bool(index.value(prim, usd_physics.STARTS_ASLEEP)),
    )
    _set_initial_velocities(index, body, link)
    apply_link_attributes(index, prim, link)
    apply_surface_velocity(index, body, link)
    read_kinema_attributes(index, prim, link)
    if link.kinematic:
        read_motion(index, body, link)
    return link


def _set_initial_velocities(index: StageIndex, body: Body, link: Link) -> None:
    """Initial velocities of a link, transformed from the parent space of the body to SI world axes."""
    if index.values.facts(body.prim).authored.isdisjoint((usd_physics.VELOCITY, usd_physics.ANGULAR_VELOCITY)):
        return
    linear, angular = (index.value(body.prim, name) for name in (usd_physics.VELOCITY, usd_physics.ANGULAR_VELOCITY))
    resets = pxr.UsdGeom.Xformable(body.prim).GetResetXformStack()
    parent = body.prim.GetParent()
    if resets or parent.IsPseudoRoot():
        frame = index.units.length * index.units.up
    else:
        frame = index.world_transform(parent).linear
    velocity = reproducible_product(frame, np.array(linear, dtype=np.float64))
    # angular velocities are rotated, not scaled
    angular_velocity = reproducible_product(polar_decomposition(frame)[0], np.array(angular, dtype=np.float64) * DEGREE)
    if np.isfinite(velocity).all() and np.isfinite(angular_velocity).all():
        link.linear_velocity, link.angular_velocity = velocity, angular_velocity
    else:
        message = f"the velocities of body {link.name!r} hold NaN or infinity; it starts at rest"
        index.report_once(body.prim, "usd.velocity-not-finite", message)


# -- joints -----------------------------------------------------------------------------------------------------------


def _read_joints(
    index: StageIndex, links: Sequence[str], stacking: bool | None
) -> tuple[RobotRestorer, list[Joint], dict[str, list[str]]]:
    """Robot restorer, joints, and link -> links of its articulation."""
    paths = [index.values.facts(prim).path for prim in index.joints]
    names = restored_names(index, dict(zip(paths, index.joints, strict=True)), unique_names(paths))
    joints = read_joints(index, names)
    joints = restored_order(index, joints, [prim for prim, _ in joints])
    for prim, joint in joints:
        apply_mimic(index, prim, joint, names)
    tree_joints = [joint for _, joint in joints if joint.enabled and not joint.closes_loop]
    articulated = {name: group for group in connected_components(links, tree_joints) for name in group}
    stack_joints(index, joints, articulated, stacking)
    robots, remaining = RobotRestorer.from_joints(index, joints)
    return robots, remaining, articulated


# -- robots -----------------------------------------------------------------------------------------------------------


def _assemble(index: StageIndex, contents: _StageContents) -> Robot | World:
    """Build the robot or world from the stage contents: robots, scenery, collision rules and other elements."""
    roots = declared_root_links(index, [*contents.joints, *contents.restorer.fixed_base_joints])
    static_robots, taken = restore_static_robots(index, contents.restorer, contents.shapes)
    robots = [*_connected_robots(index, contents, roots), *static_robots]
    scenery = [s.shape for s in contents.shapes if s.body is None and id(s.shape) not in taken]
    default = index.stage.GetDefaultPrim()
    stored_name = index.custom_value(default, kinema_usd.NAME) if default else None
    name = stored_name if stored_name is not None else default.GetName() if default else ""
    gravity, scene_groups = read_scenes(index, contents.links, contents.shapes)
    rules = CollisionRules(
        groups=[*read_collision_groups(index, contents.shapes), *scene_groups],
        pairs=read_filtered_pairs(index, contents.shapes, contents.articulated),
    )
    description: Robot | World
    if len(robots) == 1 and not scenery and not index.values.is_world:
        description = robots[0]
        carried = {link.name for link in description.links} & articulation_robot_names(index).keys()
        description.name = description.name if carried else name or description.name
    else:
        description = World(name=name, robots=robots, shapes=scenery)
        _make_robot_names_unique(robots)
    description.collision = rules
    description.constraints = contents.restorer.constraints
    records = read_records(index)
    description.sensors = [record for record in records if isinstance(record, Sensor)]
    description.keyframes = [record for record in records if isinstance(record, Keyframe)]
    description.constraints += [record for record in records if isinstance(record, Constraint)]
    description.constraints.sort(key=lambda c: -1 if c.order is None else c.order)
    description.cameras, description.lights = read_cameras(index), read_lights(index)
    description.gravity, description.options = gravity, read_options(index)
    _add_mujoco_elements(description, contents.mujoco)
    for scene in index.scenes:
        preserve_vendor_attributes(index, scene, description, KNOWN_SCENE_ATTRIBUTES)
        description.attributes |= preserved_attributes(index, scene)
        description.extras += preserved_assets(index, scene)
    for prim in index.articulations:
        facts = index.values.facts(prim)
        if facts.path not in index.bodies and not facts.kind.is_joint:
            preserve_vendor_attributes(index, prim, description, ARTICULATION_ATTRIBUTES)
    description.format, description.source = usd.FORMAT, index.file
    description.diagnostics = index.diagnostics
    description.origin = Origin(index.file)
    restore_self_collision(index, robots, rules)
    restore_shape_names(index, contents.shapes, rules)
    if isinstance(description, World):
        restore_world(index, description, contents.restorer)
    return description


def _add_mujoco_elements(described: Robot | World, mujoco: MujocoElements) -> None:
    described.frames, described.tendons, described.actuators = mujoco.frames, mujoco.tendons, mujoco.actuators
    described.extras += mujoco.extras


def _connected_robots(index: StageIndex, contents: _StageContents, roots: Sequence[str]) -> list[Robot]:
    """One robot per connected component of links."""
    paths = {body.name: path for path, body in index.bodies.items()}
    components = contents.restorer.merge_components(connected_components(list(contents.links), contents.joints), paths)
    component_of = {name: i for i, names in enumerate(components) for name in names}
    joints: list[list[Joint]] = [[] for _ in components]
    for joint in contents.joints:
        end = joint.parent if joint.parent is not None else joint.child
        if end is not None:
            joints[component_of[end]].append(joint)
    root_of: dict[int, str] = {}
    for root in roots:
        root_of.setdefault(component_of[root], root)
    robot_names = articulation_robot_names(index)
    robots = [
        _new_robot(index, [contents.links[n] for n in names], joints[i], root_of.get(i))
        for i, names in enumerate(components)
    ]
    for robot, names in zip(robots, components, strict=True):
        robot.name = next((robot_names[n] for n in names if n in robot_names), robot.name)
    for robot, names in zip(robots, components, strict=True):
        contents.restorer.restore_robot(robot, paths[names[0]])
    return robots


def _new_robot(index: StageIndex, links: list[Link], joints: list[Joint], root: str | None) -> Robot:
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


def _make_robot_names_unique(robots: Sequence[Robot]) -> None:
    taken: set[str] = set()
    for robot in robots:
        name, n = robot.name, 1
        while robot.name in taken:
            n += 1
            robot.name = f"{name}_{n}"
        taken.add(robot.name)

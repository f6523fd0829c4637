"""The elements `<model>` and `<world>`, and the losses of whole robots and worlds."""

from __future__ import annotations

import copy
from collections import Counter

from kinema.core import WriteError, unique_name
from kinema.description import Assembly, Base, CollisionRules, Cone, Joint, Link, Robot, World, colliding_pairs
from kinema.tokens import sdf

from ..loss_report import (
    COMMON_AXIS_FIELDS,
    COMMON_JOINT_FIELDS,
    ReportedFields,
    is_non_default_gravity,
    non_default_fields,
    non_default_options,
)
from ..xml_document import Element, format_number, format_numbers
from .context import (
    ModelNames,
    SdfContext,
    add_pose,
    bool_text,
    names_in_extras,
    require_finite,
    sdf_setting,
    to_sdf_name,
    write_preserved,
)
from .joints import add_gear, add_joint
from .links import add_link
from .lowering import LoweredSdfRobot
from .sensors import MountedElementWriter, add_frame, add_light

# ------------------------------------------------------------------------------------------ losses of robots and worlds

_INFINITY = float("inf")
_LINK_FIELDS: ReportedFields = {
    "density": (None, "its density"),
    "enabled": (True, "that it is disabled"),
    "continuous_collision": (False, "that its contacts are found along its motion"),
    "starts_asleep": (False, "that it starts asleep"),
}
_UNSUPPORTED_LISTS = ("actuators", "tendons", "keyframes")


def report_robot_losses(ctx: SdfContext, robot: Robot) -> None:
    """Report everything of a robot that is not in the file."""
    for link in robot.links:
        unsaid = non_default_fields(link, _LINK_FIELDS)
        if link.linear_velocity.any() or link.angular_velocity.any():
            unsaid.append("its initial velocity")
        if unsaid:
            ctx.report_dropped(link, ", ".join(unsaid))
        if link.inertial_is_computed:
            ctx.report_approximated(
                link, "that its inertia is computed from its shapes", "it is written as it came out"
            )
    for joint in robot.joints:
        if joint.enabled:
            _report_joint_losses(ctx, joint)
    if is_non_default_gravity(robot.gravity):
        ctx.report_dropped(robot, "gravity", "it belongs to the world")
    options = non_default_options(robot.options)
    if options:
        ctx.report_dropped(robot, f"the simulation settings {', '.join(options)}", "they belong to the world")
    report_unsupported_elements(ctx, robot)


def report_unsupported_elements(ctx: SdfContext, assembly: Assembly) -> None:
    """Report actuators, tendons, keyframes and collision rules of a robot or world, which SDFormat lacks."""
    for kind in _UNSUPPORTED_LISTS:
        for node in getattr(assembly, kind):
            ctx.report_dropped(node, f"the {kind.removesuffix('s')}", "SDFormat has none")
    rules = assembly.collision
    for group in rules.groups:
        ctx.report_dropped(group, "the collision group", "SDFormat has bit masks only")
    for pair in rules.pairs:
        kind = "that they always collide" if pair.collide else "that they never collide"
        ctx.report_dropped(("collisionpair", pair.name or f"{pair.a} and {pair.b}"), f"{kind}: {pair.a} and {pair.b}")
    if rules.neighbours_collide:
        ctx.report_dropped(assembly, "that links joined by a joint may collide")


def _report_joint_losses(ctx: SdfContext, joint: Joint) -> None:
    """Report properties of a joint and its axes that SDFormat lacks."""
    unsaid = non_default_fields(joint, COMMON_JOINT_FIELDS)
    if joint.collision_enabled is not None:
        may = "may" if joint.collision_enabled else "may not"
        unsaid.append(f"that the links it joins {may} collide")
    if joint.distance != (0.0, _INFINITY) and joint.kind.value != "distance":
        unsaid.append("its limits of distance")
    for i, axis in enumerate(joint.axes):
        if not axis.locked:
            which = "" if len(joint.axes) == 1 else f" (axis {i + 1})"
            unsaid += [f"{words}{which}" for words in non_default_fields(axis, COMMON_AXIS_FIELDS)]
            if not axis.direction.any():
                unsaid.append(f"its motion: the direction of the axis is zero{which}")
    if unsaid:
        ctx.report_dropped(joint, ", ".join(unsaid))


# -------------------------------------------------------------------------------------------------- collision filtering


def report_collision_differences(ctx: SdfContext, description: Robot | World, lowered: list[Robot]) -> None:
    """Report link pairs whose number of colliding shape pairs differs between file and description."""
    file: Robot | World = as_read_back(lowered[0]) if isinstance(description, Robot) else World()
    if isinstance(description, World):
        assert isinstance(file, World)
        file.robots = [as_read_back(r) for r in lowered]
        file.shapes = [s for s in description.shapes if s.enabled]
    before, after = _colliding_link_pairs(description), _colliding_link_pairs(file)
    for pair in sorted((before.keys() | after.keys()), key=lambda p: sorted(map(str, p))):
        if before[pair] == after[pair]:
            continue
        first, *rest = sorted(pair, key=str)
        second = rest[0] if rest else first
        more = "more" if after[pair] > before[pair] else "fewer"
        how = f"{more} of their shapes may collide here: {after[pair]} pairs, not {before[pair]}"
        ctx.report_approximated(("link", first[1]), f'which links it collides with: "{second[1]}"', how)


def as_read_back(robot: Robot) -> Robot:
    """The lowered robot as a reader of the file interprets it."""
    result = copy.copy(robot)
    result.collision = CollisionRules(self_collide=robot.collision.self_collide)
    result.joints = []
    for joint in robot.joints:
        plain = copy.copy(joint)
        plain.collision_enabled = None
        result.joints.append(plain)
    result.base = Base.FREE if result.tree().roots and not robot.static else Base.FIXED
    return result


def _colliding_link_pairs(description: Robot | World) -> Counter[frozenset[tuple[str, str]]]:
    return Counter(
        frozenset(((a.robot, a.link or "world"), (b.robot, b.link or "world"))) for a, b in colliding_pairs(description)
    )


# --------------------------------------------------------------------------------------------------------------- models


def needs_mimic_version(lowered: list[LoweredSdfRobot]) -> bool:
    """Whether lowered robots contain mimics or cones, which need `MIMIC_VERSION`."""
    robots = [x.robot for x in lowered]
    mimics = any(a.mimic is not None for r in robots for j in r.joints for a in j.axes)
    return mimics or any(isinstance(s.geometry, Cone) and s.enabled for r in robots for x in r.links for s in x.shapes)


def add_model(
    ctx: SdfContext, holder: Element, robot: Robot, lowered: LoweredSdfRobot, name: str, *, with_masks: bool
) -> None:
    """Append the `<model>` of a lowered robot with links, joints, frames and sensors; reports its losses."""
    made = lowered.robot
    if not made.links:
        raise WriteError(f'robot "{robot.name}" has no links, and SDFormat needs one')
    _drop_unsupported_mimics(ctx, lowered)
    model = holder.add_child("model", name=name)
    names = _register_names(lowered)
    root = robot.root or sdf_setting(robot, sdf.CANONICAL_LINK)
    if isinstance(root, str) and root in names.links:
        model.set_attributes({"canonical_link": names.links[root]})
    if ctx.supports("1.12") and isinstance(sdf_setting(robot, sdf.NAMESPACE), str):
        model.set_attributes({"namespace": str(sdf_setting(robot, sdf.NAMESPACE))})
    add_pose(model, robot.pose, f'robot "{robot.name}"')
    if robot.static:
        model.add_child("static", "true")
    model.add_child("self_collide", bool_text(robot.collision.self_collide))
    if lowered.base_is_unspecified:
        model.add_child(sdf.KINEMA_BASE, Base.UNSPECIFIED.value)
    links = {
        link.name: add_link(ctx, model, link, names.links[link.name], with_masks=with_masks) for link in made.links
    }
    joints = {joint.name: add_joint(ctx, names, model, joint) for joint in made.joints}
    poses = {link.name: link.pose for link in made.links if link.pose is not None}
    for constraint in made.constraints:
        joints[constraint.name] = add_gear(ctx, names, model, constraint, poses)
    for frame, written in zip(robot.frames, _register_frame_names(names, robot), strict=True):
        add_frame(ctx, model, frame, written, names)
    by_source = {source: joints[parts[-1]] for source, parts in lowered.joint_chains.items()}
    MountedElementWriter(ctx, links, {**joints, **by_source}).write(robot)
    said = [sdf.VERSION, sdf.CANONICAL_LINK, *([sdf.NAMESPACE] if ctx.supports("1.12") else [])]
    write_preserved(ctx, robot, model, already_written=said, simple_settings=sdf.MODEL_FLAGS)
    for kind, table in (("link", names.links), ("joint", names.joints), ("constraint", names.constraints)):
        ctx.report_renamed(kind, table)
    ctx.report_renamed("frame", names.frames)
    report_robot_losses(ctx, robot)


def _register_names(lowered: LoweredSdfRobot) -> ModelNames:
    """Register the names of links, joints and constraints."""
    names = ModelNames()
    for link in lowered.robot.links:
        names.links.add(link.name)
    for joint in lowered.robot.joints:
        names.joints.add(joint.name)
    for constraint in lowered.robot.constraints:
        names.constraints.add(constraint.name)
    return names


def _register_frame_names(names: ModelNames, robot: Robot) -> list[str]:
    return [names.frames.add(frame.name or "frame") for frame in robot.frames]


def _drop_unsupported_mimics(ctx: SdfContext, lowered: LoweredSdfRobot) -> None:
    """Remove mimics, with a report, from versions before 1.11."""
    if ctx.supports("1.11"):
        return
    for joint in lowered.robot.joints:
        for axis in joint.axes:
            if axis.mimic is not None:
                source = lowered.source_joints.get(joint.name, joint)
                ctx.report_dropped(source, f'that it follows "{axis.mimic.joint}"', "SDFormat has it since 1.11")
                axis.mimic = None


def unique_model_name(robot: Robot, taken: set[str]) -> str:
    """Unique model name of a robot."""
    return unique_name(to_sdf_name(robot.name) or "robot", taken)


# --------------------------------------------------------------------------------------------------------------- worlds

_DEFAULT_GRAVITY = (0.0, 0.0, -9.81)
_WRITTEN_WORLD_SETTINGS = (sdf.VERSION, *sdf.PHYSICS_PARAMETERS, sdf.PHYSICS_TYPE)


def static_shapes_robot(world: World) -> Robot | None:
    """Static robot with the shapes of a world; None if there are none."""
    if not world.shapes:
        return None
    link = Link(name="scenery", name_is_generated=True, shapes=world.shapes)
    return Robot(name="scenery", name_is_generated=True, links=[link], static=True, format=world.format)


def add_world(
    ctx: SdfContext, holder: Element, world: World, models: list[tuple[Robot, LoweredSdfRobot]], *, with_masks: bool
) -> None:
    """Append the `<world>` with physics, lights, one model per robot, and frames."""
    name = to_sdf_name(world.name) or "default"
    if world.name and name != world.name:
        ctx.report_approximated(world, "its name", f'it is called "{name}"')
    element = holder.add_child("world", name=name)
    _write_physics(ctx, element, world)
    gravity = _DEFAULT_GRAVITY if world.gravity is None else world.gravity.tolist()
    element.add_child("gravity", format_numbers(require_finite(g, "the world", "gravity") for g in gravity))
    taken = {"world", *names_in_extras(world.extras, "actor", "model", "light", "frame")}
    for light in world.lights:
        if light.link is None:
            add_light(ctx, element, light, unique_name(to_sdf_name(light.name) or "light", taken))
        else:
            ctx.report_dropped(light, "the light", "it is on a link, but belongs to no robot")
    for robot, lowered in models:
        written = unique_model_name(robot, taken)
        if robot.name and written != robot.name:
            ctx.report_approximated(robot, "its name", f'it is called "{written}"')
        add_model(ctx, element, robot, lowered, written, with_masks=with_masks)
    for frame in world.frames:
        written = unique_name(to_sdf_name(frame.name) or "frame", taken)
        if frame.name and written != frame.name:
            ctx.report_approximated(frame, "its name", f'it is called "{written}"')
        add_frame(ctx, element, frame, written, None)
    write_preserved(ctx, world, element, already_written=_WRITTEN_WORLD_SETTINGS)
    _report_world_losses(ctx, world)


def _write_physics(ctx: SdfContext, element: Element, world: World) -> None:
    """Write the time step unless a preserved `<physics>` exists; reports other simulation options."""
    options = dict(world.options)
    step = options.pop("timestep", None)
    kept = any(e.tag == "physics" and e.format == sdf.FORMAT for e in world.extras)
    if step is not None and not kept:
        physics = element.add_child("physics", name="default", type="ode")
        physics.add_child("max_step_size", format_number(require_finite(step, "the world", "time step")))
        physics.add_child("real_time_factor", "1")
    options = non_default_options(options)
    if options:
        ctx.report_dropped(world, f"the simulation settings {', '.join(options)}")


def _report_world_losses(ctx: SdfContext, world: World) -> None:
    """Report constraints, sensors, cameras and shapes of the world that belong to no robot."""
    for constraint in world.constraints:
        ctx.report_dropped(constraint, f"the {constraint.kind.value} constraint", "it belongs to no robot")
    for sensor in world.sensors:
        ctx.report_dropped(sensor, "the sensor", "it belongs to no robot")
    for camera in world.cameras:
        ctx.report_dropped(camera, "the camera", "it belongs to no robot")
    if world.shapes:
        how = 'they are the static model "scenery"'
        for shape in world.shapes:
            ctx.report_approximated(shape, "that it belongs to the world", how)
    report_unsupported_elements(ctx, world)

"""Report of the properties of links, joints, shapes and collision filters that URDF cannot represent."""

from __future__ import annotations

import copy

import numpy as np

from kinema.core import Array
from kinema.description import (
    Assembly,
    Axis,
    CollisionRules,
    Joint,
    Link,
    Robot,
    Shape,
    World,
    colliding_pairs,
    joint_coordinates,
    zero_coordinates,
)

from ..joint_chains import START_TOLERANCE
from ..loss_report import (
    COMMON_AXIS_FIELDS,
    COMMON_JOINT_FIELDS,
    ReportedFields,
    is_non_default_gravity,
    non_default_fields,
    non_default_options,
    with_report_name,
)
from .context import UrdfContext
from .lowering import LoweredUrdfRobot

# ------------------------------------------------------------------------------------------ losses of robots and worlds

_INFINITY = float("inf")

_LINK_FIELDS: ReportedFields = {
    "density": (None, "its density"),
    "inertial_is_computed": (False, "that its inertia is computed from its shapes"),
    "enabled": (True, "that it is disabled"),
    "kinematic": (False, "that it is moved by the user"),
    "continuous_collision": (False, "that its contacts are found along its motion"),
    "starts_asleep": (False, "that it starts asleep"),
    "gravity_scale": (1.0, "its share of gravity"),
    "self_collide": (None, "whether it collides with its own robot"),
}
_AXIS_FIELDS: ReportedFields = {
    **COMMON_AXIS_FIELDS,
    "stiffness": (0.0, "its spring"),
    "spring_reference": (0.0, "where its spring is at rest"),
}
_JOINT_FIELDS: ReportedFields = {**COMMON_JOINT_FIELDS, "distance": ((0.0, _INFINITY), "its limits of distance")}
_SHAPE_FIELDS: ReportedFields = {
    "surface": (None, "its surface"),
    "mass": (None, "its mass"),
    "density": (None, "its density"),
    "contype": (1, "its contype"),
    "conaffinity": (1, "its conaffinity"),
    "group": (0, "its group"),
}
_AXIS_FIELDS_IN_1_2 = ("acceleration", "deceleration", "jerk")
_UNSUPPORTED_LISTS = ("actuators", "tendons", "sensors", "cameras", "lights", "keyframes")


def report_losses(ctx: UrdfContext, lowered: LoweredUrdfRobot, written_constraints: set[int]) -> None:
    """Report everything of the robot that is not in the file.

    Args:
        ctx: the writer context.
        lowered: the lowered robot.
        written_constraints: ids of the constraints that are in the file in another form.
    """
    robot = ctx.robot
    for link in robot.links:
        _report_link(ctx, link)
        for shape in link.shapes:
            _report_shape(ctx, link, shape)
    _report_joints(ctx, lowered)
    if robot.static:
        ctx.report_dropped(robot, "that it never moves")
    report_assembly_losses(ctx, robot, written_constraints)
    for names, kind in ((ctx.links, "link"), (ctx.joints, "joint")):
        for name, written in names.renamed.items():
            if (kind, name) == ("link", lowered.world_link):
                continue  # it was added, and is reported
            why = ": MuJoCo takes a link of that name for the world" if (kind, name) == ("link", "world") else ""
            ctx.report_approximated((kind, name), "its name", f'it is called "{written}"{why}')


def report_assembly_losses(ctx: UrdfContext, assembly: Assembly, written_constraints: set[int]) -> None:
    """Report gravity, options, constraints, actuators, sensors and other elements of a robot or world."""
    if is_non_default_gravity(assembly.gravity):
        ctx.report_dropped(assembly, "gravity")
    options = non_default_options(assembly.options)
    if options:
        ctx.report_dropped(assembly, f"the simulation settings {', '.join(options)}")
    for constraint in assembly.constraints:
        if id(constraint) not in written_constraints:
            ctx.report_dropped(constraint, f"a {constraint.kind.value} constraint")
    for kind in _UNSUPPORTED_LISTS:
        for node in getattr(assembly, kind):
            ctx.report_dropped(node, f"the {kind.removesuffix('s')}")
    for frame in assembly.frames:
        if not ctx.options.frames or isinstance(assembly, World):
            ctx.report_dropped(frame, "the frame", "it could be a link without mass: see the option `frames`")
        elif frame.marker is not None or frame.color is not None or frame.extras or frame.attributes:
            ctx.report_dropped(frame, "its marker, colour and settings", "it is a link without mass")
    _report_collision_rules(ctx, assembly)


def _report_collision_rules(ctx: UrdfContext, assembly: Assembly) -> None:
    """Report collision groups, pairs and flags of an assembly."""
    rules = assembly.collision
    for group in rules.groups:
        ctx.report_dropped(group, "the collision group")
    for pair in rules.pairs:
        kind = "that they always collide" if pair.collide else "that they never collide"
        ctx.report_dropped(("collisionpair", pair.name or f"{pair.a} and {pair.b}"), f"{kind}: {pair.a} and {pair.b}")
    if not rules.self_collide:
        ctx.report_dropped(assembly, "that its links do not collide with each other")
    if rules.neighbours_collide:
        ctx.report_dropped(assembly, "that links joined by a joint may collide")


# ---------------------------------------------------------------------------------------------------------------- links


def _report_link(ctx: UrdfContext, link: Link) -> None:
    unsaid = non_default_fields(link, _LINK_FIELDS)
    if link.linear_velocity.any() or link.angular_velocity.any():
        unsaid.append("its initial velocity")
    if unsaid:
        ctx.report_dropped(link, ", ".join(unsaid))


def _report_shape(ctx: UrdfContext, link: Link, shape: Shape) -> None:
    unsaid = non_default_fields(shape, _SHAPE_FIELDS)
    if unsaid:
        ctx.report_dropped(with_report_name(link, shape), ", ".join(unsaid))


# --------------------------------------------------------------------------------------------------------------- joints


def _report_joints(ctx: UrdfContext, lowered: LoweredUrdfRobot) -> None:
    """Report loop-closing, dangling and disabled joints, and lost properties of the written joints."""
    tree = ctx.robot.tree()
    loops = {id(j) for j in tree.loops}
    dangling = {id(j) for j in tree.dangling}
    in_tree = {id(j) for e in tree.edges for j in e.joints}
    start, zero = joint_coordinates(ctx.robot.joints, {}), zero_coordinates(ctx.robot.joints)
    for joint in ctx.robot.joints:
        if id(joint) in loops:
            ctx.report_dropped(joint, f"the {joint.kind.value} joint", "it closes a loop, and URDF has only trees")
        elif id(joint) in dangling:
            ctx.report_dropped(joint, f"the {joint.kind.value} joint", "a link that it names does not exist")
        elif id(joint) not in in_tree:
            ctx.report_dropped(
                joint, f"the {joint.kind.value} joint", "it is disabled, and URDF has no disabled joints"
            )
        else:
            _report_joint(ctx, joint, starts_elsewhere=_coordinates_differ(start[joint.name], zero[joint.name]))
    _report_displaced_links(ctx, ctx.robot)


def _coordinates_differ(start: Array, zero: Array) -> bool:
    return start.shape != zero.shape or bool((np.abs(start - zero) > START_TOLERANCE).any())


def _report_joint(ctx: UrdfContext, joint: Joint, *, starts_elsewhere: bool) -> None:
    """Report properties of a joint and its axes that URDF lacks."""
    unsaid = non_default_fields(joint, _JOINT_FIELDS)
    if starts_elsewhere:
        unsaid.append("the coordinates it starts at")
    if joint.collision_enabled:
        unsaid.append("that the links it joins may collide")
    for i, axis in enumerate(joint.axes):
        which = "" if len(joint.axes) == 1 else f" (axis {i + 1})"
        unsaid += [f"{words}{which}" for words in _axis_losses(ctx, axis)]
        if not axis.locked and not axis.direction.any():
            unsaid.append(f"its motion: the direction of the axis is zero{which}")
    if unsaid:
        ctx.report_dropped(joint, ", ".join(unsaid))


def _axis_losses(ctx: UrdfContext, axis: Axis) -> list[str]:
    said = _AXIS_FIELDS_IN_1_2 if ctx.version == "1.2" else ()
    if axis.locked:
        return []
    return non_default_fields(axis, {name: words for name, words in _AXIS_FIELDS.items() if name not in said})


def _report_displaced_links(ctx: UrdfContext, robot: Robot) -> None:
    """Report links whose authored pose differs from the pose at the zero configuration."""
    if not any(link.pose is not None for link in robot.links):
        return
    zero = robot.link_poses(zero_coordinates(robot.joints))
    for link in robot.links:
        if link.pose is not None and not (robot.pose @ link.pose).is_close(zero[link.name], 1e-6):
            x, y, z = link.pose.position.tolist()
            ctx.report_dropped(link, f"where it is shown, {x:g} {y:g} {z:g}", "its joints place it")


# ------------------------------------------------------------------------------------------------- colliding link pairs


def report_collision_differences(ctx: UrdfContext, lowered: LoweredUrdfRobot, description: Robot | World) -> None:
    """Report for each link the links with which it collides in only one of file and description.

    Readers of URDF let all link pairs collide except those connected by a joint.
    """
    robot = ctx.robot
    if _has_default_filtering(robot, description) and len(lowered.robot.joints) == len(robot.joints):
        return
    alone: Robot | World = _one_shape_per_filter(robot, [robot.collision, description.collision])
    if isinstance(description, World):
        alone = World(robots=[alone], collision=description.collision)
    order = {link.name: i for i, link in enumerate(robot.links)}
    before, after = _colliding_link_pairs(alone, order), _colliding_link_pairs(_as_read_back(lowered), order)
    _report_partners(ctx, robot, after - before, "it may collide with {} here", "URDF cannot say that they do not")
    _report_partners(ctx, robot, before - after, "it does not collide with {} here", "links next to each other do not")


def _report_partners(ctx: UrdfContext, robot: Robot, pairs: set[int], sentence: str, reason: str) -> None:
    """Report the partners of each link in a set of link pairs coded as first * n_links + second."""
    count = len(robot.links)
    partners: dict[int, list[int]] = {}
    for pair in sorted(pairs):
        partners.setdefault(pair // count, []).append(pair % count)
    for number, others in partners.items():
        names = ", ".join(f'"{robot.links[o].name}"' for o in others)
        ctx.report_approximated(
            robot.links[number], "which links it collides with", f"{sentence.format(names)}: {reason}"
        )


def _has_default_filtering(robot: Robot, description: Robot | World) -> bool:
    """Whether the robot has no collision filtering of its own, so that no comparison is needed."""
    rules = [robot.collision, description.collision]
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


def _as_read_back(lowered: LoweredUrdfRobot) -> Robot:
    """The lowered robot as read from the file, with at most one collision shape per link."""
    robot = copy.copy(lowered.robot)
    robot.links = []
    for link in lowered.robot.links:
        plain = copy.copy(link)
        plain.kinematic, plain.self_collide, plain.pose = False, None, None
        shapes = [s for s in link.shapes if s.enabled and s.collision]
        plain.shapes = [Shape(geometry=shapes[0].geometry)] if shapes else []  # all of them collide alike
        robot.links.append(plain)
    return robot


def _one_shape_per_filter(robot: Robot, rules: list[CollisionRules]) -> Robot:
    """The robot with one shape per link and distinguishable collision behaviour, to reduce the number of pairs."""
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


def _colliding_link_pairs(description: Robot | World, link_indices: dict[str, int]) -> set[int]:
    """Colliding link pairs coded as first * n_links + second (there may be millions)."""
    found: set[int] = set()
    for a, b in colliding_pairs(description):
        if a.link is not None and b.link is not None:
            first, second = sorted((link_indices[a.link], link_indices[b.link]))
            found.add(first * len(link_indices) + second)
    return found

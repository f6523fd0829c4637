"""What URDF has no word for: every part of a robot or world that is not in the file is put on record here."""

from __future__ import annotations

import numpy as np

from kinema.description import Assembly, Axis, Joint, Link, Robot, Shape, World, coordinates, zero_coordinates
from kinema.foundation import Array

from ..bookkeeping import missed_gravity, missed_options
from ..chains import NO_START
from ..losing import AXIS_FIELDS, JOINT_FIELDS, Fields, differing, named_shape
from .lower import Lowered
from .writing import Writing

_INFINITY = float("inf")

_LINK: Fields = {
    "density": (None, "its density"),
    "inertial_is_computed": (False, "that its inertia is computed from its shapes"),
    "enabled": (True, "that it is disabled"),
    "kinematic": (False, "that it is moved by the user"),
    "starts_asleep": (False, "that it starts asleep"),
    "gravity_scale": (1.0, "its share of gravity"),
    "self_collide": (None, "whether it collides with its own robot"),
}
_AXIS: Fields = {
    **AXIS_FIELDS,
    "stiffness": (0.0, "its spring"),
    "spring_reference": (0.0, "where its spring is at rest"),
}
_JOINT: Fields = {**JOINT_FIELDS, "distance": ((0.0, _INFINITY), "its limits of distance")}
_SHAPE: Fields = {
    "surface": (None, "its surface"),
    "mass": (None, "its mass"),
    "density": (None, "its density"),
    "contype": (1, "its contype"),
    "conaffinity": (1, "its conaffinity"),
    "group": (0, "its group"),
}
_SAID_IN_12 = ("acceleration", "deceleration", "jerk")
_LISTS = ("actuators", "tendons", "sensors", "cameras", "lights", "keyframes")


def report_losses(writing: Writing, lowered: Lowered, said: set[int]) -> None:
    """Put on record what of the robot is not in the file.

    Args:
        writing: the run.
        lowered: the robot in URDF's terms.
        said: ids of the constraints that are in the file in another form.
    """
    robot = writing.robot
    for link in robot.links:
        _link(writing, link)
        for shape in link.shapes:
            _shape(writing, link, shape)
    _joints(writing, lowered)
    if robot.static:
        writing.drop(robot, "that it never moves")
    report_assembly(writing, robot, said)
    for names, kind in ((writing.links, "link"), (writing.joints, "joint")):
        for name, written in names.changed.items():
            if (kind, name) == ("link", lowered.world):
                continue  # it was added, and is reported
            why = ": MuJoCo takes a link of that name for the world" if (kind, name) == ("link", "world") else ""
            writing.approximate((kind, name), "its name", f'it is called "{written}"{why}')


def report_assembly(writing: Writing, assembly: Assembly, said: set[int]) -> None:
    """What a robot or world has beside links, joints and shapes."""
    if missed_gravity(assembly.gravity):
        writing.drop(assembly, "gravity")
    options = missed_options(assembly.options)
    if options:
        writing.drop(assembly, f"the simulation settings {', '.join(options)}")
    for constraint in assembly.constraints:
        if id(constraint) not in said:
            writing.drop(constraint, f"a {constraint.kind.value} constraint")
    for kind in _LISTS:
        for node in getattr(assembly, kind):
            writing.drop(node, f"the {kind.removesuffix('s')}")
    for frame in assembly.frames:
        if not writing.options.frames or isinstance(assembly, World):
            writing.drop(frame, "the frame", "it could be a link without mass: see the option `frames`")
        elif frame.marker is not None or frame.color is not None or frame.extras or frame.attributes:
            writing.drop(frame, "its marker, colour and settings", "it is a link without mass")
    _collision(writing, assembly)


def _collision(writing: Writing, assembly: Assembly) -> None:
    rules = assembly.collision
    for group in rules.groups:
        writing.drop(group, "the collision group")
    for pair in rules.pairs:
        kind = "that they always collide" if pair.collide else "that they never collide"
        writing.drop(("collisionpair", pair.name or f"{pair.a} and {pair.b}"), f"{kind}: {pair.a} and {pair.b}")
    if not rules.self_collide:
        writing.drop(assembly, "that its links do not collide with each other")
    if rules.neighbours_collide:
        writing.drop(assembly, "that links joined by a joint may collide")


# -- links ------------------------------------------------------------------------------------------------------------


def _link(writing: Writing, link: Link) -> None:
    unsaid = differing(link, _LINK)
    if link.linear_velocity.any() or link.angular_velocity.any():
        unsaid.append("its initial velocity")
    if unsaid:
        writing.drop(link, ", ".join(unsaid))


def _shape(writing: Writing, link: Link, shape: Shape) -> None:
    unsaid = differing(shape, _SHAPE)
    if unsaid:
        writing.drop(named_shape(link, shape), ", ".join(unsaid))


# -- joints -----------------------------------------------------------------------------------------------------------


def _joints(writing: Writing, lowered: Lowered) -> None:
    tree = writing.robot.tree()
    loops = {id(j) for j in tree.loops}
    dangling = {id(j) for j in tree.dangling}
    in_tree = {id(j) for e in tree.edges for j in e.joints}
    start, zero = coordinates(writing.robot.joints, {}), zero_coordinates(writing.robot.joints)
    for joint in writing.robot.joints:
        if id(joint) in loops:
            writing.drop(joint, f"the {joint.kind.value} joint", "it closes a loop, and URDF has only trees")
        elif id(joint) in dangling:
            writing.drop(joint, f"the {joint.kind.value} joint", "a link that it names does not exist")
        elif id(joint) not in in_tree:
            writing.drop(joint, f"the {joint.kind.value} joint", "it is disabled, and URDF has no disabled joints")
        else:
            _joint(writing, joint, starts_elsewhere=_differ(start[joint.name], zero[joint.name]))
    _shown(writing, writing.robot)


def _differ(start: Array, zero: Array) -> bool:
    return start.shape != zero.shape or bool((np.abs(start - zero) > NO_START).any())


def _joint(writing: Writing, joint: Joint, *, starts_elsewhere: bool) -> None:
    unsaid = differing(joint, _JOINT)
    if starts_elsewhere:
        unsaid.append("the coordinates it starts at")
    if joint.collision_enabled:
        unsaid.append("that the links it joins may collide")
    for i, axis in enumerate(joint.axes):
        which = "" if len(joint.axes) == 1 else f" (axis {i + 1})"
        unsaid += [f"{words}{which}" for words in _axis(writing, axis)]
        if not axis.locked and not axis.direction.any():
            unsaid.append(f"its motion: the direction of the axis is zero{which}")
    if unsaid:
        writing.drop(joint, ", ".join(unsaid))


def _axis(writing: Writing, axis: Axis) -> list[str]:
    said = _SAID_IN_12 if writing.version == "1.2" else ()
    if axis.locked:
        return []
    return differing(axis, {name: words for name, words in _AXIS.items() if name not in said})


def _shown(writing: Writing, robot: Robot) -> None:
    """Poses at which the file shows links away from where they are at zero."""
    if not any(link.pose is not None for link in robot.links):
        return
    zero = robot.link_poses(zero_coordinates(robot.joints))
    for link in robot.links:
        if link.pose is not None and not (robot.pose @ link.pose).is_close(zero[link.name], 1e-6):
            x, y, z = link.pose.position.tolist()
            writing.drop(link, f"where it is shown, {x:g} {y:g} {z:g}", "its joints place it")

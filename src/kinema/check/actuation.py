"""Rules about actuators, drives, tendons and keyframes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from kinema.core import Severity
from kinema.description import Joint, Robot

from .context import CheckContext
from .messages import axis_label, format_coordinate, format_names, format_number, label, pluralize
from .rule import Finding, rule


@rule("actuation.range", Severity.ERROR)
def reversed_actuator_range(context: CheckContext) -> Iterable[Finding]:
    """A range of an actuator or tendon has its lower end above the upper one."""
    for node in context.assembly.actuators:
        ranges = {
            "control": node.control_range,
            "force": node.force_range,
            "activation": node.activation_range,
            "length": node.length_range,
        }
        for what, (low, high) in ranges.items():
            if low > high:
                message = f"{label(node)} has a {what} range from {format_number(low)} to {format_number(high)}"
                yield Finding(node, message, "swap the two")
    for tendon in context.assembly.tendons:
        for what, (low, high) in {"length": (tendon.lower, tendon.upper), "force": tendon.force_range}.items():
            if low > high:
                message = f"{label(tendon)} has a {what} range from {format_number(low)} to {format_number(high)}"
                yield Finding(tendon, message, "swap the two")


@rule("actuation.no-effect", Severity.WARNING)
def ineffective_actuator(context: CheckContext) -> Iterable[Finding]:
    """An actuator can do nothing: all of its gears are zero, or its force or control range is just zero."""
    for node in context.assembly.actuators:
        if not any(node.gear):
            yield Finding(node, f"{label(node)} has no gear that is not zero", "give the gear")
        elif node.force_range == (0.0, 0.0):
            yield Finding(node, f"{label(node)} may make no force: its force range is zero", "give the range")
        elif node.control_range == (0.0, 0.0):
            yield Finding(node, f"{label(node)} takes no command: its control range is zero", "give the range")


@rule("actuation.empty-tendon", Severity.WARNING)
def empty_tendon(context: CheckContext) -> Iterable[Finding]:
    """A tendon has no path."""
    for node in context.assembly.tendons:
        if not node.path:
            yield Finding(node, f"{label(node)} has no path", "give the joints or frames it runs over, or remove it")


@rule("actuation.drive-without-gains", Severity.NOTE)
def drive_without_gains(context: CheckContext) -> Iterable[Finding]:
    """Drives have neither stiffness nor damping: whatever their target, they make no force.

    Where one has a target other than zero that is surely not meant, and a warning.
    """
    idle: list[Joint] = []
    for joint in context.joints:
        for axis in joint.axes:
            drive = axis.drive
            if drive is None or drive.stiffness != 0 or drive.damping != 0:
                continue
            if drive.target_position == 0 and drive.target_velocity == 0:
                idle.append(joint)
                continue
            message = f"the drive of {axis_label(joint, axis)} has a target but neither stiffness nor damping"
            yield Finding(joint, message, "give its gains", Severity.WARNING)
    if idle:
        names = list(dict.fromkeys(joint.name for joint in idle))
        message = (
            f"{pluralize(len(idle), 'drive has', 'drives have')} neither stiffness nor damping, on: "
            f"{format_names(names)}"
        )
        yield Finding(idle[0], message, "give gains where a drive should hold a position or speed")


@rule("actuation.negative-gain", Severity.WARNING)
def negative_drive_gain(context: CheckContext) -> Iterable[Finding]:
    """A drive has a negative stiffness, damping or force limit: it drives away from its target."""
    for joint in context.joints:
        for axis in joint.axes:
            if axis.drive is None:
                continue
            for what in ("stiffness", "damping", "max_force"):
                value = getattr(axis.drive, what)
                if value < 0:
                    name = what.replace("max_force", "force limit")
                    message = f"the drive of {axis_label(joint, axis)} has a {name} of {format_number(value)}"
                    yield Finding(joint, message, "make it positive")


@rule("actuation.target-outside", Severity.WARNING)
def drive_target_outside_limits(context: CheckContext) -> Iterable[Finding]:
    """A drive pulls towards a position outside the joint's limits."""
    for joint in context.joints:
        for axis in joint.moving_axes:
            drive = axis.drive
            if drive is None or drive.stiffness <= 0 or not axis.lower <= axis.upper:
                continue
            slack = 1e-6 * max(1.0, abs(drive.target_position))
            if drive.target_position < axis.lower - slack or drive.target_position > axis.upper + slack:
                target = format_coordinate(axis, drive.target_position)
                own = f"{format_coordinate(axis, axis.lower)} to {format_coordinate(axis, axis.upper)}"
                message = f"the drive of {axis_label(joint, axis)} has the target {target}, outside the limits {own}"
                yield Finding(joint, message, "move the target into the limits; check that both are in one unit")


@rule("actuation.keyframe-size", Severity.ERROR)
def keyframe_size_mismatch(context: CheckContext) -> Iterable[Finding]:
    """A keyframe gives a joint too few or too many coordinates or velocities."""
    assembly = context.assembly
    robots = [assembly] if isinstance(assembly, Robot) else assembly.robots
    joints = {joint.name: joint for robot in robots for joint in robot.joints}
    for node in assembly.keyframes:
        for name, joint in joints.items():
            for values, what, count in (
                (node.positions.get(name), "coordinate", joint.n_qs),
                (node.velocities.get(name), "velocity", joint.n_dofs),
            ):
                if values is not None and np.shape(np.atleast_1d(values)) != (count,):
                    need = pluralize(count, what, "velocities" if what == "velocity" else "")
                    message = f"{label(node)} gives {label(joint)} {np.size(values)} of {need}"
                    yield Finding(node, message, f"give {count}")

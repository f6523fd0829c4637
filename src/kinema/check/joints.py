"""Rules about joint axes, limits and mimic joints."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import combinations

import numpy as np

from kinema.core import Severity
from kinema.description import Axis, AxisMotion, Joint, JointKind, Mimic

from .context import REQUIRED_AXES, CheckContext, has_valid_axes
from .messages import (
    axis_label,
    format_angle,
    format_coordinate,
    format_length,
    format_names,
    format_number,
    format_vector,
    label,
)
from .rule import Finding, rule

# ----------------------------------------------------------------------------------------------------------------- axes

_MIN_AXIS_LENGTH = 1e-9
"""A direction shorter than this says nothing."""
_UNIT_LENGTH_TOLERANCE = 1e-6
"""How far a unit vector's length may be from one."""
_PARALLEL_SINE = 1e-4
"""Sine of the angle below which two axes count as parallel."""


def _axes_with_length(context: CheckContext) -> Iterable[tuple[Joint, Axis, float]]:
    """Every used axis with its length, without non-finite axes (reported by other rules)."""
    for joint in context.joints:
        for axis in joint.axes:
            length = float(np.linalg.norm(axis.direction))
            if np.isfinite(axis.direction).all():
                yield joint, axis, length


@rule("axes.count", Severity.ERROR)
def wrong_axis_count(context: CheckContext) -> Iterable[Finding]:
    """A joint does not have the axes that its kind needs, or one is locked that cannot be."""
    for joint in context.joints:
        if not has_valid_axes(joint):
            have = ", ".join(a.motion.value + " (locked)" * a.locked for a in joint.axes) or "none"
            need = ", ".join(m.value for m in REQUIRED_AXES[joint.kind]) or "none"
            message = f"{label(joint)} ({joint.kind.value}) has the axes: {have}; it needs: {need}"
            yield Finding(joint, message, "choose another kind of joint, or correct the axes")


@rule("axes.coordinates", Severity.ERROR)
def wrong_initial_coordinates(context: CheckContext) -> Iterable[Finding]:
    """A joint's initial coordinates are too few, too many, or hold a quaternion of length zero."""
    for joint in context.joints:
        if joint.initial is None or not has_valid_axes(joint):
            continue
        if joint.initial.shape != (joint.n_qs,):
            message = f"{label(joint)} takes {joint.n_qs} coordinates, but its initial ones are {joint.initial.size}"
            yield Finding(joint, message, f"give {joint.n_qs}")
        elif joint.kind in (JointKind.SPHERICAL, JointKind.FREE) and not joint.initial[-4:].any():
            yield Finding(joint, f"the initial quaternion of {label(joint)} is zero", "write 1 0 0 0 for no rotation")


@rule("axes.zero", Severity.ERROR)
def zero_axis(context: CheckContext) -> Iterable[Finding]:
    """An axis has no direction: all three numbers are zero."""
    for joint, axis, length in _axes_with_length(context):
        if length < _MIN_AXIS_LENGTH:
            message = f"{axis_label(joint, axis)} has the axis {format_vector(axis.direction)}, which has no direction"
            yield Finding(joint, message, "write the direction, such as 0 0 1")


@rule("axes.not-unit", Severity.WARNING)
def non_unit_axis(context: CheckContext) -> Iterable[Finding]:
    """An axis is not of length one.

    Programs that do not normalise it turn or move the joint by too much or too little.
    """
    for joint, axis, length in _axes_with_length(context):
        if length >= _MIN_AXIS_LENGTH and abs(length - 1.0) > _UNIT_LENGTH_TOLERANCE:
            message = (
                f"{axis_label(joint, axis)} has the axis {format_vector(axis.direction)} of length "
                f"{format_number(length)}"
            )
            yield Finding(joint, message, f"write {format_vector(axis.direction / length)}")


@rule("axes.parallel", Severity.WARNING)
def parallel_axes(context: CheckContext) -> Iterable[Finding]:
    """Two axes of one joint that move in the same way are parallel: a degree of freedom is lost."""
    for joint in context.joints:
        for a, b in combinations(joint.moving_axes, 2):
            lengths = float(np.linalg.norm(a.direction)) * float(np.linalg.norm(b.direction))
            if a.motion is not b.motion or not np.isfinite(lengths) or lengths < _MIN_AXIS_LENGTH * _MIN_AXIS_LENGTH:
                continue
            if float(np.linalg.norm(np.cross(a.direction, b.direction))) < _PARALLEL_SINE * lengths:
                message = f"{label(joint)} has two parallel axes of {a.motion.value}, {format_vector(a.direction)}"
                yield Finding(joint, message, "turn one of them, or use a joint with fewer axes")


@rule("axes.screw-pitch", Severity.WARNING)
def zero_screw_pitch(context: CheckContext) -> Iterable[Finding]:
    """A screw does not travel when it turns."""
    for joint in context.joints:
        if joint.kind is JointKind.SCREW and joint.pitch == 0:
            yield Finding(joint, f"{label(joint)} is a screw with a pitch of zero", "give the pitch, or use a revolute")


@rule("axes.negative-dynamics", Severity.WARNING)
def negative_joint_dynamics(context: CheckContext) -> Iterable[Finding]:
    """A joint's damping, friction, stiffness or armature is negative: it would push instead of resist."""
    for joint in context.joints:
        for axis in joint.axes:
            for what in ("damping", "friction", "stiffness", "armature"):
                value = getattr(axis, what)
                if value < 0:
                    yield Finding(
                        joint, f"{axis_label(joint, axis)} has a {what} of {format_number(value)}", "make it positive"
                    )


# --------------------------------------------------------------------------------------------------------------- limits

_IMPLAUSIBLE_ANGLE = 4 * math.pi + 0.1
"""Two turns each way: more than real joints with stops have, less than what degrees read as radians mostly give."""
_IMPLAUSIBLE_TRAVEL = 100.0
"""[m]"""
_EFFECTIVELY_UNLIMITED = 1000.0
"""Beyond this [rad or m] a limit is no mistake but a way of writing "none"."""


def _moving_axes(context: CheckContext) -> Iterable[tuple[Joint, Axis]]:
    for joint in context.joints:
        for axis in joint.moving_axes:
            yield joint, axis


@rule("limits.reversed", Severity.ERROR)
def reversed_limits(context: CheckContext) -> Iterable[Finding]:
    """The lower limit of a joint is above the upper one: there is no position it could be in."""
    for joint, axis in _moving_axes(context):
        if axis.lower > axis.upper:
            low, high = format_coordinate(axis, axis.lower), format_coordinate(axis, axis.upper)
            yield Finding(
                joint, f"{axis_label(joint, axis)} has the lower limit {low} above the upper {high}", "swap them"
            )


@rule("limits.frozen", Severity.WARNING)
def equal_limits(context: CheckContext) -> Iterable[Finding]:
    """Both limits of a joint are the same: it cannot move.

    In URDF this happens when a limit gives effort and velocity but neither lower nor upper, which are then zero.
    """
    for joint, axis in _moving_axes(context):
        if axis.lower == axis.upper:
            message = f"{axis_label(joint, axis)} cannot move: both limits are {format_number(axis.lower)}"
            yield Finding(joint, message, "give different limits, or make it a fixed joint")


@rule("limits.missing", Severity.NOTE)
def missing_limits(context: CheckContext) -> Iterable[Finding]:
    """A sliding joint has no limits: nothing keeps its parts together.

    URDF demands limits of revolute and prismatic joints, so there both are warnings. Elsewhere a revolute joint without
    limits is common and not reported.
    """
    is_urdf = context.format == "urdf"
    for joint, axis in _moving_axes(context):
        bounded = math.isfinite(axis.lower) or math.isfinite(axis.upper) or axis.mimic is not None
        wanted = joint.kind is JointKind.PRISMATIC or (is_urdf and joint.kind is JointKind.REVOLUTE)
        if wanted and not bounded and not (math.isnan(axis.lower) or math.isnan(axis.upper)):
            severity = Severity.WARNING if is_urdf else None
            hint = "give a lower and an upper limit" + ", or make it continuous" * (joint.kind is JointKind.REVOLUTE)
            yield Finding(joint, f"{label(joint)} ({joint.kind.value}) has no limits", hint, severity)


@rule("limits.absurd", Severity.WARNING)
def implausible_limits(context: CheckContext) -> Iterable[Finding]:
    """A limit is larger than real joints have: more than two turns each way, or more than 100 m.

    Mostly degrees were written for radians, or millimetres for metres. Beyond 1000 it is no mistake but a way of
    writing "no limit", and only a note.
    """
    for joint, axis in _moving_axes(context):
        turns = axis.motion is AxisMotion.ROTATION
        largest = max((abs(v) for v in (axis.lower, axis.upper) if math.isfinite(v)), default=0.0)
        if largest <= (_IMPLAUSIBLE_ANGLE if turns else _IMPLAUSIBLE_TRAVEL):
            continue
        what = f"{axis_label(joint, axis)} has a limit of {f'{largest:.4g} rad' if turns else format_length(largest)}"
        if largest >= _EFFECTIVELY_UNLIMITED:
            hint = "leave it out, or make the joint continuous" if turns else "leave it out"
            yield Finding(joint, f"{what}, as good as none", hint, Severity.NOTE)
        elif turns:
            hint = f"if it is in degrees, write {math.radians(largest):.6g}"
            yield Finding(joint, f"{what}, {largest / (2 * math.pi):.3g} turns", hint)
        else:
            yield Finding(joint, what, f"if it is in millimetres, write {largest / 1000:.6g}")


@rule("limits.effort", Severity.WARNING)
def nonpositive_effort_limit(context: CheckContext) -> Iterable[Finding]:
    """The greatest force of a joint is zero or negative: no motor could move it."""
    for joint, axis in _moving_axes(context):
        if axis.effort <= 0 and axis.mimic is None:
            message = f"{axis_label(joint, axis)} has an effort limit of {format_number(axis.effort)}"
            yield Finding(joint, message, "give the greatest force or torque, or leave the limit out")


@rule("limits.velocity", Severity.WARNING)
def nonpositive_velocity_limit(context: CheckContext) -> Iterable[Finding]:
    """The greatest speed of a joint is zero or negative: it could never move."""
    for joint, axis in _moving_axes(context):
        if axis.velocity <= 0 and axis.mimic is None:
            message = f"{axis_label(joint, axis)} has a velocity limit of {format_number(axis.velocity)}"
            yield Finding(joint, message, "give the greatest speed, or leave the limit out")


@rule("limits.rest-outside", Severity.NOTE)
def initial_position_outside_limits(context: CheckContext) -> Iterable[Finding]:
    """Joints are outside their limits at rest: a simulation that starts there starts with a jerk.

    At rest a joint is where its file shows it.
    """
    found: list[tuple[Joint, Axis, float]] = []
    for joint in context.joints:
        if not has_valid_axes(joint) or joint.n_qs != joint.n_dofs:
            continue
        for axis, value in zip(joint.moving_axes, joint.start.ravel(), strict=False):
            outside = max(axis.lower - value, value - axis.upper)
            if outside > 1e-9 and axis.lower <= axis.upper and axis.mimic is None:
                found.append((joint, axis, float(value)))
    if len(found) == 1:
        joint, axis, value = found[0]
        low, high = format_coordinate(axis, axis.lower), format_coordinate(axis, axis.upper)
        message = (
            f"{axis_label(joint, axis)} moves from {low} to {high}, but is at {format_coordinate(axis, value)} at rest"
        )
        yield Finding(joint, message, "start it at another position")
    elif found:
        names = format_names([joint.name for joint, _, _ in found])
        message = f"{len(found)} joints are outside their limits at rest: {names}"
        yield Finding(found[0][0], message, "start them at other positions")


@rule("limits.cone", Severity.WARNING)
def invalid_cone_limit(context: CheckContext) -> Iterable[Finding]:
    """The cone of a spherical joint is closed, or wider than a half turn."""
    for joint in context.joints:
        if joint.cone is None:
            continue
        for value in (joint.cone.angle_y, joint.cone.angle_z):
            if math.isfinite(value) and not 0 < value <= math.pi + 1e-6:
                message = f"{label(joint)} has a cone limit of {format_angle(value)}"
                yield Finding(joint, message, "give an angle above zero and up to half a turn")
                break


@rule("limits.distance", Severity.ERROR)
def invalid_distance_limits(context: CheckContext) -> Iterable[Finding]:
    """The least distance of a distance joint is above the greatest, or the greatest is negative."""
    for joint in context.joints:
        low, high = joint.distance
        if joint.kind is JointKind.DISTANCE and (low > high or high < 0):
            message = (
                f"{label(joint)} keeps a distance of at least {format_length(low)} and at most {format_length(high)}"
            )
            yield Finding(joint, message, "swap them")


# --------------------------------------------------------------------------------------------------------- mimic joints


def _mimic_axes(context: CheckContext) -> Iterator[tuple[Joint, Axis, Mimic]]:
    for joint in context.joints:
        for axis in joint.axes:
            if axis.mimic is not None:
                yield joint, axis, axis.mimic


def _resolved_mimic_axes(context: CheckContext) -> Iterator[tuple[Joint, Axis, Mimic, Joint, Axis]]:
    """Mimic axes whose leader exists and is another joint, with the leader."""
    for joint, axis, mimic in _mimic_axes(context):
        leader = context.joint_by_name.get(mimic.joint)
        if leader is not None and leader is not joint and 0 <= mimic.axis < len(leader.moving_axes):
            yield joint, axis, mimic, leader, leader.moving_axes[mimic.axis]


@rule("mimic.unknown-joint", Severity.ERROR)
def mimic_of_unknown_joint(context: CheckContext) -> Iterable[Finding]:
    """A joint follows one that does not exist."""
    for joint, axis, mimic in _mimic_axes(context):
        if mimic.joint not in context.joint_by_name:
            message = f'{axis_label(joint, axis)} follows the joint "{mimic.joint}", which does not exist'
            yield Finding(joint, message, "correct the name, or remove the mimic")


@rule("mimic.unknown-axis", Severity.ERROR)
def mimic_of_unknown_axis(context: CheckContext) -> Iterable[Finding]:
    """A joint follows an axis that the leading joint does not have, or that is locked."""
    for joint, axis, mimic in _mimic_axes(context):
        leader = context.joint_by_name.get(mimic.joint)
        if leader is not None and not 0 <= mimic.axis < len(leader.moving_axes):
            have = f"{leader.n_dofs} moving {'axis' if leader.n_dofs == 1 else 'axes'}"
            message = f"{axis_label(joint, axis)} follows axis {mimic.axis + 1} of {label(leader)}, which has {have}"
            yield Finding(joint, message, "follow a joint that moves")


@rule("mimic.self", Severity.ERROR)
def mimic_of_itself(context: CheckContext) -> Iterable[Finding]:
    """A joint follows itself."""
    for joint, axis, mimic in _mimic_axes(context):
        if mimic.joint == joint.name:
            yield Finding(joint, f"{axis_label(joint, axis)} follows itself", "name another joint, or remove the mimic")


@rule("mimic.circle", Severity.ERROR)
def mimic_cycle(context: CheckContext) -> Iterable[Finding]:
    """Joints follow each other in a circle, so that none of them leads."""
    leaders: dict[str, list[str]] = {}
    for joint, _, mimic in _mimic_axes(context):
        if mimic.joint in context.joint_by_name and mimic.joint != joint.name:
            leaders.setdefault(joint.name, []).append(mimic.joint)
    for names in _find_cycles(leaders):
        message = f"the joints {format_names(names)} follow each other in a circle"
        yield Finding(context.joint_by_name[names[0]], message, "remove the mimic of the one that should lead")


def _find_cycles(leaders: dict[str, list[str]]) -> list[list[str]]:
    """Cycles in the graph of mimic joints, each once, by depth-first search."""
    circles: list[list[str]] = []
    done: set[str] = set()
    for start in leaders:
        path: list[str] = []
        place: dict[str, int] = {}
        waiting = [(start, 0)]
        while waiting:
            name, depth = waiting.pop()
            for gone in path[depth:]:
                done.add(gone)
                place.pop(gone, None)
            del path[depth:]
            if name in place:
                circles.append(path[place[name] :])
                continue
            if name in done:
                continue
            place[name] = depth
            path.append(name)
            waiting.extend((leader, depth + 1) for leader in leaders.get(name, ()))
        done.update(path)
    return circles


@rule("mimic.chain", Severity.NOTE)
def mimic_chain(context: CheckContext) -> Iterable[Finding]:
    """A joint follows one that follows another itself: some programs do not support that."""
    for joint, axis, _, leader, leading in _resolved_mimic_axes(context):
        if leading.mimic is not None:
            message = f'{axis_label(joint, axis)} follows {label(leader)}, which itself follows "{leading.mimic.joint}"'
            yield Finding(joint, message, f'let it follow "{leading.mimic.joint}" directly')


@rule("mimic.zero-multiplier", Severity.WARNING)
def zero_mimic_multiplier(context: CheckContext) -> Iterable[Finding]:
    """A joint follows another with a multiplier of zero: it never moves."""
    for joint, axis, mimic in _mimic_axes(context):
        if mimic.multiplier == 0:
            message = f'{axis_label(joint, axis)} follows "{mimic.joint}" with a multiplier of zero'
            yield Finding(joint, message, "give the multiplier, or make it a fixed joint")


@rule("mimic.kinds", Severity.NOTE)
def mimic_motion_mismatch(context: CheckContext) -> Iterable[Finding]:
    """A sliding joint follows a turning one, or the reverse: right for a rack and pinion, else a mistake.

    The multiplier is then in metres per radian, or radians per metre.
    """
    for joint, axis, _, leader, leading in _resolved_mimic_axes(context):
        if axis.motion is not leading.motion:
            message = f"{label(joint)} ({axis.motion.value}) follows {label(leader)} ({leading.motion.value})"
            yield Finding(joint, message, "check that the multiplier is in m/rad, or rad/m")


@rule("mimic.limits", Severity.WARNING)
def mimic_limits_exceeded(context: CheckContext) -> Iterable[Finding]:
    """Where its leader may go, a following joint would have to leave its own limits.

    One of the two then stops before its limit, or the two fight each other.
    """
    for joint, axis, mimic, _, leading in _resolved_mimic_axes(context):
        ends = [mimic.multiplier * (v - mimic.reference) + mimic.offset for v in (leading.lower, leading.upper)]
        if not all(math.isfinite(v) for v in ends) or not axis.lower <= axis.upper:
            continue
        low, high = min(ends), max(ends)
        slack = 0.01 * max(high - low, 1e-6)
        if low < axis.lower - slack or high > axis.upper + slack:
            reach = f"{format_coordinate(axis, low)} to {format_coordinate(axis, high)}"
            own = f"{format_coordinate(axis, axis.lower)} to {format_coordinate(axis, axis.upper)}"
            message = f'{axis_label(joint, axis)} follows "{mimic.joint}" from {reach}, but its limits are {own}'
            yield Finding(joint, message, "widen its limits, or narrow those of its leader")

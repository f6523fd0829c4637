"""Rules about how far, how fast and how strongly joints move."""

from __future__ import annotations

import math
from collections.abc import Iterable

from kinema.description import Axis, AxisMotion, Joint, JointKind
from kinema.foundation import Severity

from .context import Context, has_sound_axes
from .rule import Finding, rule
from .words import angle, axis_label, coordinate, label, length, listing, number

_LARGE_ANGLE = 4 * math.pi + 0.1
"""Two turns each way: more than real joints with stops have, less than what degrees read as radians mostly give."""
_LARGE_TRAVEL = 100.0
"""[m]"""
_AS_GOOD_AS_NONE = 1000.0
"""Beyond this [rad or m] a limit is no mistake but a way of writing "none"."""


def _axes(context: Context) -> Iterable[tuple[Joint, Axis]]:
    for joint in context.joints:
        for axis in joint.moving_axes:
            yield joint, axis


@rule("limits.reversed", Severity.ERROR)
def reversed_limits(context: Context) -> Iterable[Finding]:
    """The lower limit of a joint is above the upper one: there is no position it could be in."""
    for joint, axis in _axes(context):
        if axis.lower > axis.upper:
            low, high = coordinate(axis, axis.lower), coordinate(axis, axis.upper)
            yield Finding(
                joint, f"{axis_label(joint, axis)} has the lower limit {low} above the upper {high}", "swap them"
            )


@rule("limits.frozen", Severity.WARNING)
def frozen(context: Context) -> Iterable[Finding]:
    """Both limits of a joint are the same: it cannot move.

    In URDF this happens when a limit gives effort and velocity but neither lower nor upper, which are then zero.
    """
    for joint, axis in _axes(context):
        if axis.lower == axis.upper:
            message = f"{axis_label(joint, axis)} cannot move: both limits are {number(axis.lower)}"
            yield Finding(joint, message, "give different limits, or make it a fixed joint")


@rule("limits.missing", Severity.NOTE)
def missing(context: Context) -> Iterable[Finding]:
    """A sliding joint has no limits: nothing keeps its parts together.

    URDF demands limits of revolute and prismatic joints, so there both are warnings. Elsewhere a revolute joint without
    limits is common and not reported.
    """
    is_urdf = context.format == "urdf"
    for joint, axis in _axes(context):
        bounded = math.isfinite(axis.lower) or math.isfinite(axis.upper) or axis.mimic is not None
        wanted = joint.kind is JointKind.PRISMATIC or (is_urdf and joint.kind is JointKind.REVOLUTE)
        if wanted and not bounded and not (math.isnan(axis.lower) or math.isnan(axis.upper)):
            severity = Severity.WARNING if is_urdf else None
            hint = "give a lower and an upper limit" + ", or make it continuous" * (joint.kind is JointKind.REVOLUTE)
            yield Finding(joint, f"{label(joint)} ({joint.kind.value}) has no limits", hint, severity)


@rule("limits.absurd", Severity.WARNING)
def absurd(context: Context) -> Iterable[Finding]:
    """A limit is larger than real joints have: more than two turns each way, or more than 100 m.

    Mostly degrees were written for radians, or millimetres for metres. Beyond 1000 it is no mistake but a way of
    writing "no limit", and only a note.
    """
    for joint, axis in _axes(context):
        turns = axis.motion is AxisMotion.ROTATION
        largest = max((abs(v) for v in (axis.lower, axis.upper) if math.isfinite(v)), default=0.0)
        if largest <= (_LARGE_ANGLE if turns else _LARGE_TRAVEL):
            continue
        what = f"{axis_label(joint, axis)} has a limit of {f'{largest:.4g} rad' if turns else length(largest)}"
        if largest >= _AS_GOOD_AS_NONE:
            hint = "leave it out, or make the joint continuous" if turns else "leave it out"
            yield Finding(joint, f"{what}, as good as none", hint, Severity.NOTE)
        elif turns:
            hint = f"if it is in degrees, write {math.radians(largest):.6g}"
            yield Finding(joint, f"{what}, {largest / (2 * math.pi):.3g} turns", hint)
        else:
            yield Finding(joint, what, f"if it is in millimetres, write {largest / 1000:.6g}")


@rule("limits.effort", Severity.WARNING)
def effort(context: Context) -> Iterable[Finding]:
    """The greatest force of a joint is zero or negative: no motor could move it."""
    for joint, axis in _axes(context):
        if axis.effort <= 0 and axis.mimic is None:
            message = f"{axis_label(joint, axis)} has an effort limit of {number(axis.effort)}"
            yield Finding(joint, message, "give the greatest force or torque, or leave the limit out")


@rule("limits.velocity", Severity.WARNING)
def velocity(context: Context) -> Iterable[Finding]:
    """The greatest speed of a joint is zero or negative: it could never move."""
    for joint, axis in _axes(context):
        if axis.velocity <= 0 and axis.mimic is None:
            message = f"{axis_label(joint, axis)} has a velocity limit of {number(axis.velocity)}"
            yield Finding(joint, message, "give the greatest speed, or leave the limit out")


@rule("limits.rest-outside", Severity.NOTE)
def rest_outside(context: Context) -> Iterable[Finding]:
    """Joints are outside their limits at rest: a simulation that starts there starts with a jerk.

    At rest a joint is where its file shows it.
    """
    found: list[tuple[Joint, Axis, float]] = []
    for joint in context.joints:
        if not has_sound_axes(joint) or joint.n_qs != joint.n_dofs:
            continue
        for axis, value in zip(joint.moving_axes, joint.start.ravel(), strict=False):
            outside = max(axis.lower - value, value - axis.upper)
            if outside > 1e-9 and axis.lower <= axis.upper and axis.mimic is None:
                found.append((joint, axis, float(value)))
    if len(found) == 1:
        joint, axis, value = found[0]
        low, high = coordinate(axis, axis.lower), coordinate(axis, axis.upper)
        message = f"{axis_label(joint, axis)} moves from {low} to {high}, but is at {coordinate(axis, value)} at rest"
        yield Finding(joint, message, "start it at another position")
    elif found:
        names = listing([joint.name for joint, _, _ in found])
        message = f"{len(found)} joints are outside their limits at rest: {names}"
        yield Finding(found[0][0], message, "start them at other positions")


@rule("limits.cone", Severity.WARNING)
def cone(context: Context) -> Iterable[Finding]:
    """The cone of a spherical joint is closed, or wider than a half turn."""
    for joint in context.joints:
        if joint.cone is None:
            continue
        for value in (joint.cone.angle_y, joint.cone.angle_z):
            if math.isfinite(value) and not 0 < value <= math.pi + 1e-6:
                message = f"{label(joint)} has a cone limit of {angle(value)}"
                yield Finding(joint, message, "give an angle above zero and up to half a turn")
                break


@rule("limits.distance", Severity.ERROR)
def distance(context: Context) -> Iterable[Finding]:
    """The least distance of a distance joint is above the greatest, or the greatest is negative."""
    for joint in context.joints:
        low, high = joint.distance
        if joint.kind is JointKind.DISTANCE and (low > high or high < 0):
            message = f"{label(joint)} keeps a distance of at least {length(low)} and at most {length(high)}"
            yield Finding(joint, message, "swap them")

"""Rules about the axes of joints."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

import numpy as np

from kinema.description import Axis, Joint, JointKind
from kinema.foundation import Severity

from .context import AXES_OF_KIND, Context, has_sound_axes
from .rule import Finding, rule
from .words import axis_label, label, number, numbers

_ZERO = 1e-9
"""A direction shorter than this says nothing."""
_UNIT = 1e-6
"""How far a unit vector's length may be from one."""
_PARALLEL = 1e-4
"""Sine of the angle below which two axes count as parallel."""


def _axes(context: Context) -> Iterable[tuple[Joint, Axis, float]]:
    """Every axis that is used, with its length; NaN and infinity are the numbers' rules business."""
    for joint in context.joints:
        for axis in joint.axes:
            length = float(np.linalg.norm(axis.direction))
            if np.isfinite(axis.direction).all():
                yield joint, axis, length


@rule("axes.count", Severity.ERROR)
def count(context: Context) -> Iterable[Finding]:
    """A joint does not have the axes that its kind needs, or one is locked that cannot be."""
    for joint in context.joints:
        if not has_sound_axes(joint):
            have = ", ".join(a.motion.value + " (locked)" * a.locked for a in joint.axes) or "none"
            need = ", ".join(m.value for m in AXES_OF_KIND[joint.kind]) or "none"
            message = f"{label(joint)} ({joint.kind.value}) has the axes: {have}; it needs: {need}"
            yield Finding(joint, message, "choose another kind of joint, or correct the axes")


@rule("axes.coordinates", Severity.ERROR)
def coordinates(context: Context) -> Iterable[Finding]:
    """A joint's initial coordinates are too few, too many, or hold a quaternion of length zero."""
    for joint in context.joints:
        if joint.initial is None or not has_sound_axes(joint):
            continue
        if joint.initial.shape != (joint.n_qs,):
            message = f"{label(joint)} takes {joint.n_qs} coordinates, but its initial ones are {joint.initial.size}"
            yield Finding(joint, message, f"give {joint.n_qs}")
        elif joint.kind in (JointKind.SPHERICAL, JointKind.FREE) and not joint.initial[-4:].any():
            yield Finding(joint, f"the initial quaternion of {label(joint)} is zero", "write 1 0 0 0 for no rotation")


@rule("axes.zero", Severity.ERROR)
def zero(context: Context) -> Iterable[Finding]:
    """An axis has no direction: all three numbers are zero."""
    for joint, axis, length in _axes(context):
        if length < _ZERO:
            message = f"{axis_label(joint, axis)} has the axis {numbers(axis.direction)}, which has no direction"
            yield Finding(joint, message, "write the direction, such as 0 0 1")


@rule("axes.not-unit", Severity.WARNING)
def not_unit(context: Context) -> Iterable[Finding]:
    """An axis is not of length one.

    Programs that do not normalise it turn or move the joint by too much or too little.
    """
    for joint, axis, length in _axes(context):
        if length >= _ZERO and abs(length - 1.0) > _UNIT:
            message = f"{axis_label(joint, axis)} has the axis {numbers(axis.direction)} of length {number(length)}"
            yield Finding(joint, message, f"write {numbers(axis.direction / length)}")


@rule("axes.parallel", Severity.WARNING)
def parallel(context: Context) -> Iterable[Finding]:
    """Two axes of one joint that move in the same way are parallel: a degree of freedom is lost."""
    for joint in context.joints:
        for a, b in combinations(joint.moving_axes, 2):
            lengths = float(np.linalg.norm(a.direction)) * float(np.linalg.norm(b.direction))
            if a.motion is not b.motion or not np.isfinite(lengths) or lengths < _ZERO * _ZERO:
                continue
            if float(np.linalg.norm(np.cross(a.direction, b.direction))) < _PARALLEL * lengths:
                message = f"{label(joint)} has two parallel axes of {a.motion.value}, {numbers(a.direction)}"
                yield Finding(joint, message, "turn one of them, or use a joint with fewer axes")


@rule("axes.screw-pitch", Severity.WARNING)
def screw_pitch(context: Context) -> Iterable[Finding]:
    """A screw does not travel when it turns."""
    for joint in context.joints:
        if joint.kind is JointKind.SCREW and joint.pitch == 0:
            yield Finding(joint, f"{label(joint)} is a screw with a pitch of zero", "give the pitch, or use a revolute")


@rule("axes.negative-dynamics", Severity.WARNING)
def negative_dynamics(context: Context) -> Iterable[Finding]:
    """A joint's damping, friction, stiffness or armature is negative: it would push instead of resist."""
    for joint in context.joints:
        for axis in joint.axes:
            for what in ("damping", "friction", "stiffness", "armature"):
                value = getattr(axis, what)
                if value < 0:
                    yield Finding(
                        joint, f"{axis_label(joint, axis)} has a {what} of {number(value)}", "make it positive"
                    )

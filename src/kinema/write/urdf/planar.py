"""Planar joints that URDF's own planar joint says exactly."""

from __future__ import annotations

import copy
import math

import numpy as np

from kinema.description import Axis, AxisMotion, Joint, JointKind, TreeEdge, rotation
from kinema.foundation import Array, axis_angle_to_matrix, vector

from .steps import steps_of

_SAME = 1e-12


def as_planar(edge: TreeEdge, any_normal: bool) -> Joint | None:
    """The edge as a planar joint of URDF: two slides, then a turn about the link's own z axis, without limits.

    Args:
        edge: how a link is held.
        any_normal: whether the normal may be another axis, as URDF allows. Not all readers look at it.
    """
    source = edge.joints[0]
    if source.kind is not JointKind.PLANAR or len(edge.joints) > 1 or edge.reversed or not _is_plain(source.axes):
        return None
    steps, tail = steps_of(edge)
    last = steps[-1].absorb(tail) if len(steps) == 3 else None
    if last is None or last.axis is None:
        return None
    normal = last.axis.direction
    x, y = (tail.rotation.T @ a.direction for a in source.axes[:2])
    wanted = _plane_axes(normal)
    if not (np.abs(x - wanted[0]).max() < _SAME and np.abs(y - wanted[1]).max() < _SAME):
        return None
    if not any_normal and abs(normal[2] - 1) > _SAME:
        return None
    result = copy.copy(source)
    result.parent_pose, result.child_pose = source.parent_pose @ tail, type(tail)()
    axis = rotation(normal, damping=source.axes[2].damping, friction=source.axes[2].friction)
    result.axes = [*(copy.copy(a) for a in source.axes[:2]), axis]
    result.axes[0].direction, result.axes[1].direction = wanted
    return result


def _is_plain(axes: list[Axis]) -> bool:
    """Two slides and a turn with one damping and friction, and nothing that URDF's planar joint cannot say."""
    if [a.motion for a in axes] != [AxisMotion.TRANSLATION] * 2 + [AxisMotion.ROTATION]:
        return False
    first = axes[0]
    return all(
        not a.locked
        and a.reference == 0
        and a.mimic is None
        and math.isinf(a.lower)
        and math.isinf(a.upper)
        and math.isinf(a.effort)
        and math.isinf(a.velocity)
        and (a.damping, a.friction) == (first.damping, first.friction)
        for a in axes
    )


def _plane_axes(normal: Array) -> tuple[Array, Array]:
    """The directions of the two slides: x and y after the shortest rotation that takes z to the normal."""
    sine = math.hypot(normal[0], normal[1])
    about = vector((1, 0, 0)) if sine < 1e-10 else np.array([-normal[1], normal[0], 0.0]) / sine
    turn = axis_angle_to_matrix(about, math.atan2(sine, float(normal[2])))
    return turn[:, 0], turn[:, 1]

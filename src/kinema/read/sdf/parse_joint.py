"""Joints: `<joint>` to format objects."""

from __future__ import annotations

import math

import numpy as np

from kinema.words import sdf

from ..cursor import Cursor
from .context import (
    Context,
    child_number,
    child_vector,
    keep,
    label,
    number,
    optional_flag,
    optional_number,
    read_name,
    read_pose,
    read_settings,
    verbatim,
)
from .elements import MODEL_FRAME, AxisElement, JointElement, MimicElement
from .parse_link import parse_sensor
from .version import thread_pitch_to_travel

KINDS = ("revolute", "continuous", "prismatic", "fixed", "ball", "universal", "revolute2", "screw", "gearbox")
_NO_LIMIT = 1e16
"""Up to 1.9 a limit of this size stands for none."""


def parse_joint(cursor: Cursor, context: Context) -> JointElement:
    """`<joint>`."""
    name, generated = read_name(cursor, context)
    joint = JointElement(
        name=name,
        name_is_generated=generated,
        origin=cursor.origin,
        kind=_read_kind(cursor),
        parent=_read_end(cursor, "parent"),
        child=_read_end(cursor, "child"),
        pose=read_pose(cursor, context),
        pitch=_read_pitch(cursor, context),
        gearbox_ratio=child_number(cursor, "gearbox_ratio", 1.0),
        gearbox_reference=cursor.child_text("gearbox_reference_body").strip(),
        verbatim=cursor.element.verbatim,
    )
    axis, axis2 = cursor.child("axis"), cursor.child("axis2")
    joint.axis = None if axis is None else _parse_axis(axis, context, label(cursor))
    joint.axis2 = None if axis2 is None else _parse_axis(axis2, context, label(cursor))
    own = context.loose[:]  # the sensors below take what is theirs
    context.loose.clear()
    joint.sensors = [parse_sensor(c, context) for c in cursor.children("sensor")]
    physics = cursor.child("physics")
    if physics is not None:
        simbody = physics.child("simbody")
        if simbody is not None:
            joint.must_be_loop_joint = bool(optional_flag(simbody, "must_be_loop_joint"))
        physics.note("kept", f"<physics> of {label(cursor)} is kept as it is: it is for particular engines")
        own.append(verbatim(physics))
    joint.extras = own + keep(cursor, "plugin")
    joint.extras += keep(cursor, "frame", why="frames inside a joint were never used")
    joint.extras += context.finish(cursor)
    return joint


def _read_kind(cursor: Cursor) -> str:
    text = cursor.text_of("type")
    kind = (text or "").strip().lower()
    if kind in KINDS:
        return kind
    if text is None:
        problem = f"{label(cursor)} has no type"
    else:
        problem = f"{label(cursor)}: {text[:40]!r} is not a type of joint"
    cursor.error("joint-type", problem, f"a fixed joint is assumed; known are {', '.join(KINDS)}")
    return "fixed"


def _read_end(cursor: Cursor, tag: str) -> str:
    """The name of the parent or child; very old files may have it in a `<link_name>`."""
    child = cursor.child(tag)
    if child is None:
        return ""
    name = child.child_text("link_name").strip()
    return name or child.text


def _read_pitch(cursor: Cursor, context: Context) -> float:
    """Travel of a screw [m per revolution], right-handed; the old element is in radians per metre, left-handed."""
    old, new = optional_number(cursor, "thread_pitch"), optional_number(cursor, "screw_thread_pitch")
    if new is not None:
        return new
    if old is None:
        return context.version.default_screw_pitch
    if old == 0.0:
        cursor.error("thread-pitch", f"{label(cursor)} has a thread pitch of zero radians per metre", "1 is assumed")
        old = 1.0
    return thread_pitch_to_travel(old)


def _parse_axis(cursor: Cursor, context: Context, owner: str) -> AxisElement:
    axis = AxisElement(origin=cursor.origin)
    xyz = cursor.child("xyz")
    if xyz is not None:
        axis.expressed_in = (xyz.text_of("expressed_in") or "").strip()
        context.close(xyz)
    direction = child_vector(cursor, "xyz", (0.0, 0.0, 1.0))
    if np.linalg.norm(direction) > 0.0:
        axis.xyz = direction
    else:
        cursor.error("zero-axis", f"the axis of {owner} has no direction", "0 0 1 is assumed")
    _read_model_frame_flag(cursor, context, axis)
    dynamics, limit, mimic = cursor.child("dynamics"), cursor.child("limit"), cursor.child("mimic")
    if dynamics is not None:
        axis.damping = child_number(dynamics, "damping", 0.0)
        axis.friction = child_number(dynamics, "friction", 0.0)
        axis.spring_reference = child_number(dynamics, "spring_reference", 0.0)
        axis.spring_stiffness = child_number(dynamics, "spring_stiffness", 0.0)
        context.close(dynamics)
    if limit is not None:
        _parse_limit(limit, context, axis)
    if mimic is not None:
        axis.mimic = _parse_mimic(mimic, context)
    initial, own = cursor.child(sdf.INITIAL_POSITION), cursor.child(sdf.OWN_INITIAL_POSITION)
    if initial is not None:
        axis.initial_position = number(initial, 0.0)
        message = f"<initial_position> of {owner} says where it starts; libsdformat and Gazebo never put it to use"
        initial.note("initial-position", message)
    if own is not None:
        axis.initial_position = number(own, 0.0)
    context.close(cursor)
    return axis


def _read_model_frame_flag(cursor: Cursor, context: Context, axis: AxisElement) -> None:
    """The old ways to say that an axis is in the model's frame."""
    if not context.version.knows_use_parent_model_frame:
        return
    flag = optional_flag(cursor, "use_parent_model_frame")
    if flag is None:
        flag = context.version.axes_are_in_the_model_frame
    if flag and not axis.expressed_in:
        axis.expressed_in = MODEL_FRAME


def _parse_limit(cursor: Cursor, context: Context, axis: AxisElement) -> None:
    lower = child_number(cursor, "lower", -math.inf, finite=False)
    upper = child_number(cursor, "upper", math.inf, finite=False)
    effort = child_number(cursor, "effort", math.inf, finite=False)
    velocity = child_number(cursor, "velocity", math.inf, finite=False)
    axis.lower = -math.inf if lower <= -_NO_LIMIT else lower
    axis.upper = math.inf if upper >= _NO_LIMIT else upper
    axis.effort = math.inf if effort < 0.0 or effort >= _NO_LIMIT else effort
    axis.velocity = math.inf if velocity < 0.0 or velocity >= _NO_LIMIT else velocity
    found = read_settings(cursor, numbers=sdf.LIMIT_SETTINGS)
    axis.settings |= {sdf.limit(tag): value for tag, value in found.items()}
    context.close(cursor)


def _parse_mimic(cursor: Cursor, context: Context) -> MimicElement | None:
    joint = cursor.required("joint").strip()
    axis = (cursor.text_of("axis") or "axis").strip()
    if axis not in ("axis", "axis2"):
        cursor.error("mimic", f"<mimic> follows the axis {axis[:40]!r}", "it is 'axis' or 'axis2'; 'axis' is assumed")
    mimic = MimicElement(
        joint=joint,
        axis=1 if axis == "axis2" else 0,
        multiplier=child_number(cursor, "multiplier", 1.0),
        offset=child_number(cursor, "offset", 0.0),
        reference=child_number(cursor, "reference", 0.0),
        origin=cursor.origin,
    )
    context.close(cursor)
    return mimic if joint else None

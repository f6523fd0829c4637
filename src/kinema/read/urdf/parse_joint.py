"""`<joint>`, with its limits, dynamics and the rest."""

from __future__ import annotations

from ..cursor import Cursor
from .context import Context, finite, numbers_of, parse_placement, under
from .elements import DynamicsElement, JointElement, LimitElement, MimicElement

_LIMITS = ("lower", "upper", "effort", "velocity")
_LIMITS_12 = ("acceleration", "deceleration", "jerk")


def parse_joint(cursor: Cursor, context: Context) -> JointElement:
    """A joint."""
    joint = JointElement(
        place=cursor.origin,
        name=cursor.required("name"),
        type=cursor.required("type"),
        is_drake=cursor.tag == "drake:joint",
        placement=parse_placement(cursor, context),
        source=cursor.element,
    )
    joint.extras += under("origin", joint.placement)
    joint.parent, joint.child = _end(cursor, context, joint, "parent"), _end(cursor, context, joint, "child")
    axis = _child(cursor, joint, "axis")
    if axis is not None and axis.required("xyz"):
        joint.axis = finite(axis, "xyz", (1, 0, 0))
    limit = _child(cursor, joint, "limit")
    if limit is not None:
        joint.limit = _limit(limit, context)
    dynamics = _child(cursor, joint, "dynamics")
    if dynamics is not None:
        n = len((dynamics.text_of("damping") or "0").split())
        damping = finite(dynamics, "damping", [0.0] * (3 if joint.is_drake and n == 3 else 1))
        friction = float(finite(dynamics, "friction", [0.0])[0])
        joint.dynamics = DynamicsElement(place=dynamics.origin, damping=damping, friction=friction)
    mimic = _child(cursor, joint, "mimic")
    if mimic is not None and mimic.required("joint"):
        joint.mimic = MimicElement(
            place=mimic.origin,
            joint=mimic.required("joint"),
            multiplier=float(finite(mimic, "multiplier", [1.0])[0]),
            offset=float(finite(mimic, "offset", [0.0])[0]),
        )
    safety = _child(cursor, joint, "safety_controller")
    if safety is not None:
        safety.required("k_velocity")
        joint.safety = numbers_of(safety, ("soft_lower_limit", "soft_upper_limit", "k_position", "k_velocity"))
    calibration = _child(cursor, joint, "calibration")
    if calibration is not None:
        joint.calibration = numbers_of(calibration, ("rising", "falling", "reference_position"))
    pitch = _child(cursor, joint, "drake:screw_thread_pitch") if joint.is_drake else None
    if pitch is not None and pitch.required("value"):
        joint.thread_pitch = float(finite(pitch, "value", [0.0])[0])
    for child in (axis, limit, dynamics, mimic, safety, calibration, pitch):
        if child is not None:
            joint.extras += context.leftovers(child, child.tag)
    joint.extras += context.leftovers(cursor)
    return joint


def _child(cursor: Cursor, joint: JointElement, tag: str) -> Cursor | None:
    child = cursor.child(tag)
    if child is not None:
        joint.children[tag] = child.element
    return child


def _end(cursor: Cursor, context: Context, joint: JointElement, tag: str) -> str:
    """The name of the parent or child link; empty, and an error, where there is none."""
    child = cursor.child(tag)
    if child is None:
        cursor.error("missing-element", f'joint "{joint.name}" has no <{tag}>; it is left out')
        return ""
    name = child.required("link")
    joint.extras += context.leftovers(child, tag)
    return name


def _limit(cursor: Cursor, context: Context) -> LimitElement:
    values = numbers_of(cursor, (*_LIMITS, *_LIMITS_12))
    newer = [name for name in _LIMITS_12 if name in values]
    if newer:
        context.needs_version(cursor, f"{newer[0]!r} of <limit>", (1, 2))
    drake = numbers_of(cursor, ("drake:acceleration",))
    if "acceleration" not in values and drake:
        values["acceleration"] = drake["drake:acceleration"]
    for name in ("effort", "velocity", *_LIMITS_12):
        if values.get(name, 0.0) < 0:
            cursor.error("negative-limit", f"{name!r} of <limit> is negative", "its absolute value is assumed")
            values[name] = abs(values[name])
    result = LimitElement(place=cursor.origin)
    for name, value in values.items():
        setattr(result, name, value)
    return result

"""Joints with their motions and what was measured of them, rigid groups, and motion links."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from kinema.description import AxisMotion
from kinema.foundation import Array, Pose

from .elements import JointElement, MotionElement, MotionLinkElement, ProbeElement, RigidGroupElement
from .json_text import JsonCursor
from .schema import KINDS, MOTIONS, ROOT


def parse_joint(cursor: JsonCursor) -> JointElement:
    """A joint."""
    if cursor.get("type") is None:
        cursor.missing("type")
    type_ = cursor.choice("type", tuple(MOTIONS), "rigid")
    return JointElement(
        place=cursor.place(),
        name=cursor.text("name"),
        type=type_,
        kind=cursor.choice("kind", KINDS, "joint"),
        context=cursor.text("context"),
        one=_end(cursor, "one"),
        two=_end(cursor, "two"),
        frame1=cursor.pose("frame1"),
        frame2=cursor.pose("frame2"),
        motions=_motions(cursor, type_),
        offset=cursor.number("offset", scale=cursor.scale),
        angle=cursor.number("angle"),
        flipped=cursor.flag("flipped"),
        locked=cursor.flag("locked"),
        suppressed=cursor.flag("suppressed"),
        problem=cursor.text("problem"),
        probes=_probes(cursor, type_),
        extras=cursor.finish(),
    )


def _end(cursor: JsonCursor, key: str) -> str:
    """The path of an occurrence; null, which must be said, is the root component."""
    if key not in cursor.value:
        cursor.missing(key)
    return cursor.text(key, ROOT)


def _motions(owner: JsonCursor, type_: str) -> dict[str, MotionElement]:
    cursor = owner.object("motions")
    expected = MOTIONS[type_]
    if cursor is None:
        if expected:
            owner.missing("motions")
        return {}
    motions: dict[str, MotionElement] = {}
    for name, motion in expected.items():
        inside = cursor.object(name)
        if inside is None:
            if cursor.value.get(name) is None:
                cursor.missing(name)
            continue
        motions[name] = _motion(inside, 1.0 if motion is AxisMotion.ROTATION else cursor.scale)
    cursor.finish()
    return motions


def _motion(cursor: JsonCursor, scale: float) -> MotionElement:
    element = MotionElement(
        place=cursor.place(),
        axis=_direction(cursor),
        value=cursor.number("value", scale=scale),
        lower=cursor.optional_number("lower", scale),
        upper=cursor.optional_number("upper", scale),
        rest=cursor.optional_number("rest", scale),
    )
    if element.lower is not None and element.upper is not None and element.lower > element.upper:
        path = cursor.place().path
        cursor.error("limits-crossed", f"{path}: the lower limit is above the upper one; neither is used")
        element.lower = element.upper = None
    cursor.finish()
    return element


def _direction(cursor: JsonCursor) -> Array | None:
    axis = cursor.numbers("axis", 3)
    if axis is None:
        return None
    length = float(np.linalg.norm(axis))
    if length < 1e-9:
        cursor.error("zero-axis", f"{cursor.place('axis').path} has no direction", "axis")
        return None
    return axis / length if abs(length - 1.0) > 1e-15 else axis


def _probes(owner: JsonCursor, type_: str) -> list[ProbeElement]:
    probes: list[ProbeElement] = []
    for cursor in owner.objects("probe"):
        values = cursor.object("values")
        measured: dict[str, float] = {}
        if values is None:
            cursor.missing("values")
        else:
            for name, motion in MOTIONS[type_].items():
                value = values.optional_number(name, 1.0 if motion is AxisMotion.ROTATION else cursor.scale)
                if value is not None:
                    measured[name] = value
            values.finish()
        pose1, pose2 = cursor.pose("pose1"), cursor.pose("pose2")
        owner.kept += cursor.finish()
        if measured:
            # the root component, which has no pose, stays where it is
            probes.append(
                ProbeElement(place=cursor.place(), values=measured, pose1=pose1 or Pose(), pose2=pose2 or Pose())
            )
    return probes


def parse_rigid_group(cursor: JsonCursor) -> RigidGroupElement:
    """Occurrences that do not move against each other."""
    return RigidGroupElement(
        place=cursor.place(),
        name=cursor.text("name"),
        occurrences=cursor.texts("occurrences"),
        suppressed=cursor.flag("suppressed"),
        extras=cursor.finish(),
    )


def parse_motion_link(cursor: JsonCursor, joints: Mapping[int, JointElement]) -> MotionLinkElement | None:
    """Two motions that go together; None, with an error, where they cannot. `joints` are those of the snapshot."""
    first = _linked(cursor, 1, joints)
    second = first if cursor.get("joint2") is None else _linked(cursor, 2, joints)
    if first is None or second is None:
        return None
    element = MotionLinkElement(
        place=cursor.place(),
        name=cursor.text("name"),
        joint1=first,
        motion1=cursor.text("motion1"),
        joint2=second,
        motion2=cursor.text("motion2"),
        value1=cursor.number("value1", 1.0),
        value2=cursor.number("value2", 1.0),
        reversed=cursor.flag("reversed"),
        suppressed=cursor.flag("suppressed"),
        extras=cursor.finish(),
    )
    for n, joint, motion in ((1, first, element.motion1), (2, second, element.motion2)):
        if motion not in MOTIONS[joint.type]:
            known = ", ".join(MOTIONS[joint.type]) or "none"
            message = f'joint "{joint.name}" has no motion {motion!r:.40}; its motions are: {known}'
            cursor.error("unknown-motion", message, f"motion{n}")
            return None
    if element.value1 == 0 or not math.isfinite(element.value2 / element.value1):
        cursor.error(
            "zero-motion-link", f"{cursor.place('value1').path} is zero; the motion link is left out", "value1"
        )
        return None
    element.value1 *= _length_scale(first, element.motion1, cursor.scale)
    element.value2 *= _length_scale(second, element.motion2, cursor.scale)
    return element


def _linked(cursor: JsonCursor, number: int, joints: Mapping[int, JointElement]) -> JointElement | None:
    index = cursor.index(f"joint{number}")
    if index is None:
        return None
    if index not in joints:
        message = f"{cursor.place(f'joint{number}').path} is {index}, which is none of the {len(joints)} joints"
        cursor.error("unknown-joint", message, f"joint{number}")
        return None
    return joints[index]


def _length_scale(joint: JointElement, motion: str, scale: float) -> float:
    return 1.0 if MOTIONS[joint.type][motion] is AxisMotion.ROTATION else scale

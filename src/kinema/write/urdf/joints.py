"""Joints to `<joint>`."""

from __future__ import annotations

import math
from collections.abc import Mapping

from kinema.description import Axis, Joint, JointKind
from kinema.words import urdf

from ..text import Element, number
from .extras import give_back
from .placing import add_origin, direction_text
from .writing import NO_LIMIT, Writing, finite

_TYPES = {
    JointKind.FIXED: "fixed",
    JointKind.REVOLUTE: "revolute",
    JointKind.CONTINUOUS: "continuous",
    JointKind.PRISMATIC: "prismatic",
    JointKind.PLANAR: "planar",
    JointKind.FREE: "floating",
}
_SAFETY = ("soft_lower_limit", "soft_upper_limit", "k_position", "k_velocity")
_CALIBRATION = ("rising", "falling", "reference_position")


def add_joint(writing: Writing, root: Element, joint: Joint) -> None:
    """The element of a joint that is in URDF's terms."""
    owner = f'joint "{joint.name}"'
    element = root.child("joint", name=writing.joints[joint.name], type=_TYPES[joint.kind])
    add_origin(element, joint.parent_pose, owner)
    assert joint.parent is not None and joint.child is not None  # noqa: PT018  the world is a link by now
    element.child("parent", link=writing.links[joint.parent])
    element.child("child", link=writing.links[joint.child])
    if joint.axes:
        axis = joint.axes[-1]  # of a planar joint, its normal
        element.child("axis", xyz=direction_text(axis.direction, owner))
        if joint.kind is not JointKind.PLANAR:
            _limit(writing, element, joint, axis)
        _dynamics(element, axis, owner)
        if axis.mimic is not None:
            mimic = axis.mimic
            multiplier, offset = finite(mimic.multiplier, owner, "multiplier"), finite(mimic.offset, owner, "offset")
            element.child(
                "mimic",
                joint=writing.joints[mimic.joint],
                multiplier=None if multiplier == 1 else number(multiplier),
                offset=None if offset == 0 else number(offset),
            )
    _numbers(element, "safety_controller", joint.attributes.get(urdf.SAFETY_CONTROLLER), _SAFETY)
    _numbers(element, "calibration", joint.attributes.get(urdf.CALIBRATION), _CALIBRATION)
    give_back(writing, joint, element, root)


def _limit(writing: Writing, element: Element, joint: Joint, axis: Axis) -> None:
    """The limits; in version 1.0 those that are absent have to be numbers all the same."""
    given = {"lower": axis.lower, "upper": axis.upper, "effort": axis.effort, "velocity": axis.velocity}
    if joint.kind is JointKind.CONTINUOUS:
        aside = joint.attributes.get(urdf.LIMIT, {})
        given |= {"lower": aside.get("lower", math.inf), "upper": aside.get("upper", math.inf)}
        optional = {"lower", "upper"}
    else:
        optional = set()
    if writing.version == "1.2":
        given |= {n: getattr(axis, n) for n in ("acceleration", "deceleration", "jerk")}
        optional = set(given)
    is_needed = joint.kind is not JointKind.CONTINUOUS or any(math.isfinite(v) for v in given.values())
    if not is_needed:
        return
    attributes: dict[str, str] = {}
    unlimited: list[str] = []
    for name, value in given.items():
        if math.isnan(value):
            finite(value, f'joint "{joint.name}"', f"{name} limit")
        if math.isfinite(value):
            attributes[name] = number(value)
        elif name not in optional:
            attributes[name] = number(math.copysign(NO_LIMIT, value))
            unlimited.append(name)
    if unlimited:
        how = f"URDF wants a number; it is {NO_LIMIT:g}, which Kinema reads as none"
        writing.approximate(
            writing.source_of.get(joint.name, joint), f"that it has no limit of {', '.join(unlimited)}", how
        )
    element.child("limit").set(attributes)


def _dynamics(element: Element, axis: Axis, owner: str) -> None:
    values = {"damping": axis.damping, "friction": axis.friction}
    given = {name: number(finite(v, owner, name)) for name, v in values.items() if v != 0}
    if given:
        element.child("dynamics").set(given)


def _numbers(element: Element, tag: str, values: Mapping[str, float] | None, order: tuple[str, ...]) -> None:
    if values:
        element.child(tag).set({name: number(values[name]) for name in order if name in values})

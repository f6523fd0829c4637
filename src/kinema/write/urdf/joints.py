"""The element `<joint>` of a lowered joint."""

from __future__ import annotations

import math
from collections.abc import Mapping

from kinema.description import Axis, Joint, JointKind
from kinema.tokens import urdf

from ..xml_document import Element, format_number
from .context import UNLIMITED_VALUE, UrdfContext, add_origin, direction_text, require_finite, write_preserved

_JOINT_TYPES = {
    JointKind.FIXED: "fixed",
    JointKind.REVOLUTE: "revolute",
    JointKind.CONTINUOUS: "continuous",
    JointKind.PRISMATIC: "prismatic",
    JointKind.PLANAR: "planar",
    JointKind.FREE: "floating",
}
_SAFETY_ATTRIBUTES = ("soft_lower_limit", "soft_upper_limit", "k_position", "k_velocity")
_CALIBRATION_ATTRIBUTES = ("rising", "falling", "reference_position")


def add_joint(ctx: UrdfContext, root: Element, joint: Joint) -> None:
    """Append the `<joint>` element of a lowered joint to the root element."""
    owner = f'joint "{joint.name}"'
    element = root.add_child("joint", name=ctx.joints[joint.name], type=_JOINT_TYPES[joint.kind])
    add_origin(element, joint.parent_pose, owner)
    assert joint.parent is not None and joint.child is not None  # noqa: PT018  the world is a link by now
    element.add_child("parent", link=ctx.links[joint.parent])
    element.add_child("child", link=ctx.links[joint.child])
    if joint.axes:
        axis = joint.axes[-1]  # of a planar joint, its normal
        element.add_child("axis", xyz=direction_text(axis.direction, owner))
        if joint.kind is not JointKind.PLANAR:
            _write_limit(ctx, element, joint, axis)
        _write_dynamics(element, axis, owner)
        if axis.mimic is not None:
            mimic = axis.mimic
            multiplier, offset = (
                require_finite(mimic.multiplier, owner, "multiplier"),
                require_finite(mimic.offset, owner, "offset"),
            )
            element.add_child(
                "mimic",
                joint=ctx.joints[mimic.joint],
                multiplier=None if multiplier == 1 else format_number(multiplier),
                offset=None if offset == 0 else format_number(offset),
            )
    _write_attribute_element(
        element, "safety_controller", joint.attributes.get(urdf.SAFETY_CONTROLLER), _SAFETY_ATTRIBUTES
    )
    _write_attribute_element(element, "calibration", joint.attributes.get(urdf.CALIBRATION), _CALIBRATION_ATTRIBUTES)
    write_preserved(ctx, joint, element, root)


def _write_limit(ctx: UrdfContext, element: Element, joint: Joint, axis: Axis) -> None:
    """Write the `<limit>` of an axis; limits required by version 1.0 but absent become `UNLIMITED_VALUE`."""
    given = {"lower": axis.lower, "upper": axis.upper, "effort": axis.effort, "velocity": axis.velocity}
    if joint.kind is JointKind.CONTINUOUS:
        aside = joint.attributes.get(urdf.CONTINUOUS_JOINT_LIMIT, {})
        given |= {"lower": aside.get("lower", math.inf), "upper": aside.get("upper", math.inf)}
        optional = {"lower", "upper"}
    else:
        optional = set()
    if ctx.version == "1.2":
        given |= {n: getattr(axis, n) for n in ("acceleration", "deceleration", "jerk")}
        optional = set(given)
    is_needed = joint.kind is not JointKind.CONTINUOUS or any(math.isfinite(v) for v in given.values())
    if not is_needed:
        return
    attributes: dict[str, str] = {}
    unlimited: list[str] = []
    for name, value in given.items():
        if math.isnan(value):
            require_finite(value, f'joint "{joint.name}"', f"{name} limit")
        if math.isfinite(value):
            attributes[name] = format_number(value)
        elif name not in optional:
            attributes[name] = format_number(math.copysign(UNLIMITED_VALUE, value))
            unlimited.append(name)
    if unlimited:
        how = f"URDF wants a number; it is {UNLIMITED_VALUE:g}, which Kinema reads as none"
        ctx.report_approximated(
            ctx.source_joints.get(joint.name, joint), f"that it has no limit of {', '.join(unlimited)}", how
        )
    element.add_child("limit").set_attributes(attributes)


def _write_dynamics(element: Element, axis: Axis, owner: str) -> None:
    values = {"damping": axis.damping, "friction": axis.friction}
    given = {name: format_number(require_finite(v, owner, name)) for name, v in values.items() if v != 0}
    if given:
        element.add_child("dynamics").set_attributes(given)


def _write_attribute_element(
    element: Element, tag: str, values: Mapping[str, float] | None, attribute_order: tuple[str, ...]
) -> None:
    if values:
        element.add_child(tag).set_attributes(
            {name: format_number(values[name]) for name in attribute_order if name in values}
        )

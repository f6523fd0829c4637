"""The element `<joint>` of a lowered joint or gear."""

from __future__ import annotations

import math

import numpy as np

from kinema.core import Pose
from kinema.description import Axis, Constraint, Joint, JointKind
from kinema.tokens import sdf

from ..xml_document import Element, format_number, format_numbers
from .context import (
    ROUNDING_NOISE,
    ModelNames,
    SdfContext,
    add_pose,
    require_finite,
    sdf_setting,
    setting_text,
    write_preserved,
)

_JOINT_TYPES = {
    JointKind.FIXED: "fixed",
    JointKind.REVOLUTE: "revolute",
    JointKind.CONTINUOUS: "continuous",
    JointKind.PRISMATIC: "prismatic",
    JointKind.SPHERICAL: "ball",
    JointKind.UNIVERSAL: "universal",
    JointKind.SCREW: "screw",
}
_WRITTEN_SETTINGS = (
    sdf.TYPE,
    *(sdf.axis_key(tag, sdf.limit_key(name)) for tag in sdf.AXES for name in sdf.LIMIT_SETTINGS),
)
_DYNAMICS_FIELDS = (
    ("damping", "damping"),
    ("friction", "friction"),
    ("spring_reference", "spring_reference"),
    ("spring_stiffness", "stiffness"),
)


def add_joint(ctx: SdfContext, names: ModelNames, model: Element, joint: Joint) -> Element:
    """Append the `<joint>` element of a lowered joint."""
    kind = _JOINT_TYPES[joint.kind]
    if joint.kind is JointKind.UNIVERSAL and sdf_setting(joint, sdf.TYPE) == "revolute2":
        kind = "revolute2"
    element = model.add_child("joint", name=names.joints[joint.name], type=kind)
    owner = f'joint "{joint.name}"'
    add_pose(element, joint.child_pose, owner, computed=True)
    element.add_child("parent", "world" if joint.parent is None else names.links[joint.parent])
    assert joint.child is not None  # the lowering sees to that
    element.add_child("child", names.links[joint.child])
    if joint.kind is JointKind.SCREW:
        _write_pitch(ctx, element, joint)
    if joint.kind is JointKind.SPHERICAL:
        _write_ball_dynamics(ctx, element, joint)
    else:
        for number_of_axis, (tag, axis) in enumerate(zip(sdf.AXES, joint.axes, strict=False)):
            made = _write_axis(names, element, tag, joint, axis)
            if joint.initial is not None:
                start = require_finite(float(joint.initial[number_of_axis]), owner, "initial position")
                made.add_child(sdf.KINEMA_INITIAL_POSITION, format_number(start))
    if joint.closes_loop and not any("must_be_loop_joint" in e.text for e in joint.extras):
        element.add_child("physics").add_child("simbody").add_child("must_be_loop_joint", "true")
    write_preserved(ctx, joint, element, already_written=_WRITTEN_SETTINGS)
    return element


def _write_pitch(ctx: SdfContext, element: Element, joint: Joint) -> None:
    """Write the thread pitch [m/rev], right-handed; before version 1.10 [rad/m], left-handed."""
    if ctx.supports("1.10"):
        element.add_child(
            "screw_thread_pitch", format_number(require_finite(joint.pitch, f'joint "{joint.name}"', "pitch"))
        )
    else:
        element.add_child(
            "thread_pitch", format_number(require_finite(-2 * math.pi / joint.pitch, f'joint "{joint.name}"', "pitch"))
        )


def _write_ball_dynamics(ctx: SdfContext, element: Element, joint: Joint) -> None:
    """Write damping and friction of a ball joint on a nominal axis; reports limits and springs as dropped."""
    values = {(a.damping, a.friction) for a in joint.axes}
    if len(values) > 1:
        ctx.report_approximated(joint, "its damping and friction", "all of its axes have those of the first")
    if joint.axes and any((joint.axes[0].damping, joint.axes[0].friction)):
        axis = element.add_child("axis")
        axis.add_child("xyz", "0 0 1")
        dynamics = axis.add_child("dynamics")
        dynamics.add_child("damping", format_number(joint.axes[0].damping))
        dynamics.add_child("friction", format_number(joint.axes[0].friction))
    said = Axis(direction=np.zeros(3), motion=joint.axes[0].motion) if joint.axes else None
    for axis in joint.axes:
        if said is not None and any(getattr(axis, f) != getattr(said, f) for f in _UNSUPPORTED_BALL_FIELDS):
            ctx.report_dropped(joint, "its limits and springs", "a ball has no axes of its own")


_UNSUPPORTED_BALL_FIELDS = ("lower", "upper", "effort", "velocity", "stiffness", "spring_reference")


def _write_axis(names: ModelNames, element: Element, tag: str, joint: Joint, axis: Axis) -> Element:
    """Write an axis with direction, limits, dynamics and mimic, and return its element."""
    owner = f'joint "{joint.name}"'
    made = element.add_child(tag)
    made.add_child("xyz", format_numbers(_clean_direction(axis.direction.tolist(), owner)))
    limit = Element("limit")
    limits = {"lower": axis.lower, "upper": axis.upper, "effort": axis.effort, "velocity": axis.velocity}
    for name, value in limits.items():
        if not math.isinf(value):  # what is left out is no limit
            limit.add_child(name, format_number(require_finite(value, owner, name)))
    for name in sdf.LIMIT_SETTINGS:
        kept = sdf_setting(joint, sdf.axis_key(tag, sdf.limit_key(name)))
        if kept is not None:
            limit.add_child(name, setting_text(kept))
    if limit.children:
        made.children.append(limit)
    dynamics = Element("dynamics")
    for name, field in _DYNAMICS_FIELDS:
        value = getattr(axis, field)
        if value:
            dynamics.add_child(name, format_number(require_finite(value, owner, field)))
    if dynamics.children:
        made.children.append(dynamics)
    if axis.mimic is not None:
        mimic = made.add_child("mimic", joint=names.joints[axis.mimic.joint])
        if axis.mimic.axis == 1:
            mimic.set_attributes({"axis": "axis2"})
        mimic.add_child("multiplier", format_number(require_finite(axis.mimic.multiplier, owner, "mimic")))
        mimic.add_child("offset", format_number(require_finite(axis.mimic.offset, owner, "mimic")))
        mimic.add_child("reference", format_number(require_finite(axis.mimic.reference, owner, "mimic")))
    return made


def add_gear(
    ctx: SdfContext, names: ModelNames, model: Element, constraint: Constraint, poses: dict[str, Pose]
) -> Element:
    """Append a gear constraint as a `<joint>` of type gearbox."""
    owner = f'constraint "{constraint.name}"'
    element = model.add_child("joint", name=names.constraints[constraint.name], type="gearbox")
    add_pose(element, constraint.pose_b, owner)
    assert constraint.b is not None  # the lowering sees to that
    element.add_child("parent", "world" if constraint.a is None else names.links[constraint.a])
    element.add_child("child", names.links[constraint.b])
    element.add_child("gearbox_ratio", format_number(require_finite(constraint.ratio, owner, "ratio")))
    reference = constraint.reference
    element.add_child("gearbox_reference_body", "world" if reference is None else names.links[reference])
    frame = poses[constraint.b] @ constraint.pose_b
    parent = Pose() if constraint.a is None else poses[constraint.a]
    for tag, link, axis in (
        ("axis", parent, constraint.gear_axis_a),
        ("axis2", poses[constraint.b], constraint.gear_axis_b),
    ):
        direction = frame.rotation.T @ link.rotation @ axis
        element.add_child(tag).add_child("xyz", format_numbers(_clean_direction(direction.tolist(), owner)))
    write_preserved(ctx, constraint, element, already_written=(sdf.TYPE,), skipped_tags=("joint",))
    return element


def _clean_direction(direction: list[float], owner: str) -> list[float]:
    return [0.0 if abs(x) < ROUNDING_NOISE else require_finite(x, owner, "axis") for x in direction]

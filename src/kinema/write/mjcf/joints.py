"""Joint elements: hinge, slide, ball and free joints with limits, dynamics and solver parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from kinema.core import Array
from kinema.description import Axis, Joint, JointKind, SolverParameters
from kinema.tokens import mjcf

from ..xml_document import Element, format_number, format_numbers
from .attributes import ROUNDING_NOISE, direction_text, text_unless_default, trimmed_text, valid_range, vector_text
from .context import MjcfBody, MjcfContext
from .joint_decomposition import MjcfJoint

_DYNAMICS_ATTRIBUTES = {
    "damping": "damping",
    "armature": "armature",
    "friction": "frictionloss",
    "stiffness": "stiffness",
}


def write_joints(ctx: MjcfContext, body: MjcfBody, parent: Element) -> None:
    """Append the joint elements of a body to its element and report unsupported joint properties."""
    for part in body.joints:
        element = Element(mjcf.JOINT)
        if part.kind == "free":
            _write_free_joint(ctx, part, element)
        else:
            _write_joint(ctx, part, element)
        parent.children.append(element)
        entry = ctx.names.by_node.get((mjcf.JOINT, id(part.joint)))
        if entry is not None and len(ctx.joints_by_source.get(id(part.joint), ())) == 1:
            entry.element = element
        elif part.name:
            element.attributes = {"name": part.name, **element.attributes}
    for joint in dict.fromkeys(p.joint for p in body.joints):
        _report_unsupported(ctx, joint)


def _write_free_joint(ctx: MjcfContext, mjcf_joint: MjcfJoint, element: Element) -> None:
    """Write a free joint, as `<freejoint>` if it has no dynamics attributes."""
    settings = _shared_axis_attributes(ctx, mjcf_joint.joint, mjcf_joint.joint.axes)
    if settings:
        element.set_attributes({"type": "free", **settings})
    else:
        element.tag = mjcf.FREEJOINT
    element.set_attributes({"group": _group_text(ctx, mjcf_joint.joint)})
    _set_mujoco_attributes(ctx, mjcf_joint.joint, element)


def _write_joint(ctx: MjcfContext, mjcf_joint: MjcfJoint, element: Element) -> None:
    """Write type, position, axis, reference and dynamics of a hinge, slide or ball joint."""
    if mjcf_joint.kind != "hinge":
        element.set_attributes({"type": mjcf_joint.kind})
    if (np.abs(mjcf_joint.frame.position) >= ROUNDING_NOISE).any():
        element.set_attributes({"pos": vector_text(mjcf_joint.frame.position)})
    if mjcf_joint.kind == "ball":
        _set_ball_attributes(ctx, mjcf_joint, element)
    else:
        element.set_attributes({"axis": direction_text(_axis_direction(ctx, mjcf_joint))})
        element.set_attributes({"ref": text_unless_default(mjcf_joint.reference)})
        if mjcf_joint.axis is not None:
            _set_axis_attributes(ctx, mjcf_joint, mjcf_joint.axis, element)
        elif mjcf_joint.joint.kind is JointKind.FREE:
            element.set_attributes(_dynamics_attributes(mjcf_joint.joint.axes[mjcf_joint.coordinate_index]))
    if mjcf_joint.travel_per_radian is None:
        element.set_attributes({"group": _group_text(ctx, mjcf_joint.joint)})
        _set_mujoco_attributes(ctx, mjcf_joint.joint, element)


def _axis_direction(ctx: MjcfContext, mjcf_joint: MjcfJoint) -> Array:
    direction = mjcf_joint.direction
    if direction is None or not np.isfinite(direction).all() or float(np.abs(direction).max()) < 1e-10:
        ctx.report_approximated(mjcf_joint.joint, "its axis", "it has no direction; it is written along z")
        return np.array([0.0, 0.0, 1.0])
    return direction


# ----------------------------------------------------------------------------------------------- hinge and slide joints


def _set_axis_attributes(ctx: MjcfContext, mjcf_joint: MjcfJoint, axis: Axis, element: Element) -> None:
    element.set_attributes({"range": range_text(ctx, mjcf_joint.joint, axis.lower, axis.upper)})
    element.set_attributes({**_dynamics_attributes(axis), "springref": text_unless_default(axis.spring_reference)})
    element.set_attributes({"actuatorfrcrange": _actuator_force_range(ctx, mjcf_joint, axis.effort)})


def range_text(ctx: MjcfContext, joint: Joint, lower: float, upper: float) -> str | None:
    """Text of the `range` of joint limits; None for no limits or, with a report, for reversed limits."""
    bounds = valid_range(lower, upper)
    if bounds is None:
        if lower > upper:
            ctx.report_dropped(joint, "its limits", f"the lower one, {lower:g}, is above the upper one, {upper:g}")
        return None
    return format_numbers(bounds)


def unused_range_attributes(
    bounds: Sequence[float] | None, element: Element, prefix: str = ""
) -> dict[str, str | None]:
    """Attributes of a disabled range (`limited="false"`), for elements without another range."""
    if not bounds or f"{prefix}range" in element.attributes or element.tag == mjcf.FREEJOINT:
        return {}
    return {f"{prefix}limited": "false", f"{prefix}range": format_numbers(bounds)}


def _dynamics_attributes(axis: Axis) -> dict[str, str | None]:
    given: dict[str, str | None] = {
        attribute: text_unless_default(getattr(axis, name)) for name, attribute in _DYNAMICS_ATTRIBUTES.items()
    }
    given |= solver_attributes(axis.limit_solver, "limit", with_margin=True)
    return given | solver_attributes(axis.friction_solver, "friction")


def solver_attributes(
    solver: SolverParameters, suffix: str = "", *, with_margin: bool = False
) -> dict[str, str | None]:
    """Attributes `solref`, `solimp` and optionally `margin` of solver parameters."""
    given: dict[str, str | None] = {
        f"solref{suffix}": None if solver.solref is None else format_numbers(solver.solref),
        f"solimp{suffix}": None if solver.solimp is None else format_numbers(solver.solimp),
    }
    return given | ({"margin": text_unless_default(solver.margin)} if with_margin else {})


def _actuator_force_range(ctx: MjcfContext, mjcf_joint: MjcfJoint, effort: float) -> str | None:
    """Text of `actuatorfrcrange` from the effort limit of a joint; the source's range if it agrees."""
    own = ctx.use_attribute(mjcf_joint.joint, mjcf.ACTUATORFRCRANGE)
    if own is not None and max(abs(f) for f in own) == effort:
        return format_numbers(own)
    return f"{format_number(-effort)} {format_number(effort)}" if math.isfinite(effort) and effort > 0 else None


# ------------------------------------------------------------------------------------------------- ball and free joints


def _set_ball_attributes(ctx: MjcfContext, mjcf_joint: MjcfJoint, element: Element) -> None:
    joint = mjcf_joint.joint
    axes = joint.axes[mjcf_joint.coordinate_index :] if joint.kind is JointKind.FREE else joint.axes
    element.set_attributes({"range": _ball_range_text(ctx, joint)})
    element.set_attributes(_shared_axis_attributes(ctx, joint, axes))


def _ball_range_text(ctx: MjcfContext, joint: Joint) -> str | None:
    """Text of the `range` of a ball joint from its cone limit; a swing cone becomes a limit of the whole rotation."""
    cone = joint.cone
    if cone is None:
        return None
    angle = cone.angle_y
    if not cone.total:
        angle = max(a for a in (cone.angle_y, cone.angle_z, 0.0) if math.isfinite(a))
        how = f"MuJoCo limits the whole rotation of a ball, which is written as {angle:g} rad; the twist is limited too"
        ctx.report_approximated(joint, "the cone that its axis stays in", how)
    return f"0 {format_number(angle)}" if math.isfinite(angle) and angle > 0 else None


def _shared_axis_attributes(ctx: MjcfContext, joint: Joint, axes: Sequence[Axis]) -> dict[str, str | None]:
    """Dynamics attributes of a ball or free joint, which MuJoCo has once for all axes; reports differing axes."""
    tables = [_dynamics_attributes(axis) for axis in axes]
    if any(table != tables[0] for table in tables):
        how = "MuJoCo has one number for all axes of such a joint; the first axis' are written"
        ctx.report_approximated(joint, "dynamics of single axes", how)
    settings: dict[str, str | None] = {k: v for k, v in (tables[0] if tables else {}).items() if v is not None}
    effort = min((a.effort for a in axes), default=math.inf)
    own = ctx.use_attribute(joint, mjcf.ACTUATORFRCRANGE)
    if math.isfinite(effort):
        settings["actuatorfrcrange"] = (
            format_numbers(own) if own is not None else f"{format_number(-effort)} {format_number(effort)}"
        )
    if any(math.isfinite(a.lower) or math.isfinite(a.upper) for a in axes):
        ctx.report_dropped(joint, "limits of single axes", "a ball of MuJoCo's has one limit for the whole rotation")
    if any(a.reference for a in axes):
        ctx.report_dropped(joint, "the coordinates at which its frames coincide", "a ball of MuJoCo's has none")
    return settings


# --------------------------------------------------------------------------------- attributes common to all joint types


def _group_text(ctx: MjcfContext, joint: Joint) -> str | None:
    group = ctx.use_attribute(joint, mjcf.GROUP, 0)
    return str(group) if group else None


def _set_mujoco_attributes(ctx: MjcfContext, joint: Joint, element: Element) -> None:
    """Set attributes that only MuJoCo has: class, polynomial stiffness and damping, gravity compensation, user data."""
    label = ctx.use_attribute(joint, mjcf.CLASS, "")
    element.set_attributes(unused_range_attributes(ctx.use_attribute(joint, mjcf.UNUSED_RANGE), element))
    if element.tag == mjcf.FREEJOINT:
        return
    for attribute, own in (("stiffness", mjcf.STIFFNESSPOLY), ("damping", mjcf.DAMPINGPOLY)):
        higher = ctx.use_attribute(joint, own)
        if higher:
            element.set_attributes({attribute: f"{element.attributes.get(attribute, '0')} {trimmed_text(higher)}"})
    springyield = ctx.use_attribute(joint, mjcf.SPRINGYIELD, 0.0)
    user = ctx.use_attribute(joint, mjcf.USER)
    element.set_attributes(
        {
            "actuatorgravcomp": "true" if ctx.use_attribute(joint, mjcf.ACTUATORGRAVCOMP) else None,
            "springyield": text_unless_default(springyield),
            "user": None if user is None else trimmed_text(user),
            "class": label or None,
        }
    )


def _report_unsupported(ctx: MjcfContext, joint: Joint) -> None:
    """Report velocity, acceleration and jerk limits, break forces and cone limits that MuJoCo lacks."""
    for what in ("velocity", "acceleration", "deceleration", "jerk"):
        if any(math.isfinite(getattr(axis, what)) for axis in joint.axes):
            ctx.report_dropped(joint, f"the {what} limit", "MuJoCo has none")
    if math.isfinite(joint.break_force) or math.isfinite(joint.break_torque):
        ctx.report_dropped(joint, "the force that breaks it", "joints of MuJoCo's do not break")
    if joint.cone is not None and joint.kind is not JointKind.SPHERICAL:
        ctx.report_dropped(joint, "the cone that its axis stays in", "only a ball of MuJoCo's may have one")

"""Hinges, slides, balls and free joints: their elements."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from kinema.description import Axis, Joint, JointKind, SolverParameters
from kinema.foundation import Array
from kinema.words import mjcf

from ..text import Element, number, numbers
from .body_plan import BodyPlan
from .joint_parts import JointPart
from .numbers import NOISE, direction_text, proper_range, text_or_none, trimmed, vector_text
from .writing import Writing

_DYNAMICS = {"damping": "damping", "armature": "armature", "friction": "frictionloss", "stiffness": "stiffness"}


def write_joints(writing: Writing, body: BodyPlan, parent: Element) -> None:
    """The joints of a body, into its element."""
    for part in body.parts:
        element = Element(mjcf.JOINT)
        if part.kind == "free":
            _free(writing, part, element)
        else:
            _placed(writing, part, element)
        parent.children.append(element)
        entry = writing.names.by_node.get((mjcf.JOINT, id(part.joint)))
        if entry is not None and len(writing.parts_of.get(id(part.joint), ())) == 1:
            entry.element = element
        elif part.name:
            element.attributes = {"name": part.name, **element.attributes}
    for joint in dict.fromkeys(p.joint for p in body.parts):
        _report(writing, joint)


def _free(writing: Writing, part: JointPart, element: Element) -> None:
    settings = _shared(writing, part.joint, part.joint.axes)
    if settings:
        element.set({"type": "free", **settings})
    else:
        element.tag = mjcf.FREEJOINT
    element.set({"group": _group(writing, part.joint)})
    _own_settings(writing, part.joint, element)


def _placed(writing: Writing, part: JointPart, element: Element) -> None:
    if part.kind != "hinge":
        element.set({"type": part.kind})
    if (np.abs(part.place.position) >= NOISE).any():
        element.set({"pos": vector_text(part.place.position)})
    if part.kind == "ball":
        _ball(writing, part, element)
    else:
        element.set({"axis": direction_text(_direction(writing, part))})
        element.set({"ref": text_or_none(part.reference)})
        if part.axis is not None:
            _one_axis(writing, part, part.axis, element)
        elif part.joint.kind is JointKind.FREE:
            element.set(_dynamics(part.joint.axes[part.number]))
    if part.travel is None:
        element.set({"group": _group(writing, part.joint)})
        _own_settings(writing, part.joint, element)


def _direction(writing: Writing, part: JointPart) -> Array:
    direction = part.direction
    if direction is None or not np.isfinite(direction).all() or float(np.abs(direction).max()) < 1e-10:
        writing.approximate(part.joint, "its axis", "it has no direction; it is written along z")
        return np.array([0.0, 0.0, 1.0])
    return direction


# -- one axis ---------------------------------------------------------------------------------------------------------


def _one_axis(writing: Writing, part: JointPart, axis: Axis, element: Element) -> None:
    element.set({"range": limit_text(writing, part.joint, axis.lower, axis.upper)})
    element.set({**_dynamics(axis), "springref": text_or_none(axis.spring_reference)})
    element.set({"actuatorfrcrange": _force_range(writing, part, axis.effort)})


def limit_text(writing: Writing, joint: Joint, lower: float, upper: float) -> str | None:
    """The `range` of limits; a range that ends before it begins is left out."""
    bounds = proper_range(lower, upper)
    if bounds is None:
        if lower > upper:
            writing.drop(joint, "its limits", f"the lower one, {lower:g}, is above the upper one, {upper:g}")
        return None
    return numbers(bounds)


def unused_range(bounds: Sequence[float] | None, element: Element, what: str = "") -> dict[str, str | None]:
    """Limits that the file has and switches off, for an element that has no others; `what` is `ctrl`, say."""
    if not bounds or f"{what}range" in element.attributes or element.tag == mjcf.FREEJOINT:
        return {}
    return {f"{what}limited": "false", f"{what}range": numbers(bounds)}


def _dynamics(axis: Axis) -> dict[str, str | None]:
    given: dict[str, str | None] = {
        attribute: text_or_none(getattr(axis, name)) for name, attribute in _DYNAMICS.items()
    }
    given |= solver_attributes(axis.limit_solver, "limit", margin=True)
    return given | solver_attributes(axis.friction_solver, "friction")


def solver_attributes(solver: SolverParameters, suffix: str = "", *, margin: bool = False) -> dict[str, str | None]:
    """`solref`, `solimp` and, perhaps, `margin`."""
    given: dict[str, str | None] = {
        f"solref{suffix}": None if solver.solref is None else numbers(solver.solref),
        f"solimp{suffix}": None if solver.solimp is None else numbers(solver.solimp),
    }
    return given | ({"margin": text_or_none(solver.margin)} if margin else {})


def _force_range(writing: Writing, part: JointPart, effort: float) -> str | None:
    """What all actuators together may do at the joint."""
    own = writing.take(part.joint, mjcf.ACTUATORFRCRANGE)
    if own is not None and max(abs(f) for f in own) == effort:
        return numbers(own)
    return f"{number(-effort)} {number(effort)}" if math.isfinite(effort) and effort > 0 else None


# -- balls and free joints --------------------------------------------------------------------------------------------


def _ball(writing: Writing, part: JointPart, element: Element) -> None:
    joint = part.joint
    axes = joint.axes[part.number :] if joint.kind is JointKind.FREE else joint.axes
    element.set({"range": _cone_text(writing, joint)})
    element.set(_shared(writing, joint, axes))


def _cone_text(writing: Writing, joint: Joint) -> str | None:
    cone = joint.cone
    if cone is None:
        return None
    angle = cone.angle_y
    if not cone.total:
        angle = max(a for a in (cone.angle_y, cone.angle_z, 0.0) if math.isfinite(a))
        how = f"MuJoCo limits the whole rotation of a ball, which is written as {angle:g} rad; the twist is limited too"
        writing.approximate(joint, "the cone that its axis stays in", how)
    return f"0 {number(angle)}" if math.isfinite(angle) and angle > 0 else None


def _shared(writing: Writing, joint: Joint, axes: Sequence[Axis]) -> dict[str, str | None]:
    """What MuJoCo has once for all axes of a ball or a free joint."""
    tables = [_dynamics(axis) for axis in axes]
    if any(table != tables[0] for table in tables):
        how = "MuJoCo has one number for all axes of such a joint; the first axis' are written"
        writing.approximate(joint, "dynamics of single axes", how)
    settings: dict[str, str | None] = {k: v for k, v in (tables[0] if tables else {}).items() if v is not None}
    effort = min((a.effort for a in axes), default=math.inf)
    own = writing.take(joint, mjcf.ACTUATORFRCRANGE)
    if math.isfinite(effort):
        settings["actuatorfrcrange"] = numbers(own) if own is not None else f"{number(-effort)} {number(effort)}"
    if any(math.isfinite(a.lower) or math.isfinite(a.upper) for a in axes):
        writing.drop(joint, "limits of single axes", "a ball of MuJoCo's has one limit for the whole rotation")
    if any(a.reference for a in axes):
        writing.drop(joint, "the coordinates at which its frames coincide", "a ball of MuJoCo's has none")
    return settings


# -- the rest ---------------------------------------------------------------------------------------------------------


def _group(writing: Writing, joint: Joint) -> str | None:
    group = writing.take(joint, mjcf.GROUP, 0)
    return str(group) if group else None


def _own_settings(writing: Writing, joint: Joint, element: Element) -> None:
    """What only MuJoCo has."""
    label = writing.take(joint, mjcf.CLASS, "")
    element.set(unused_range(writing.take(joint, mjcf.UNUSED_RANGE), element))
    if element.tag == mjcf.FREEJOINT:
        return
    for attribute, own in (("stiffness", mjcf.STIFFNESSPOLY), ("damping", mjcf.DAMPINGPOLY)):
        higher = writing.take(joint, own)
        if higher:
            element.set({attribute: f"{element.attributes.get(attribute, '0')} {trimmed(higher)}"})
    springyield = writing.take(joint, mjcf.SPRINGYIELD, 0.0)
    user = writing.take(joint, mjcf.USER)
    element.set(
        {
            "actuatorgravcomp": "true" if writing.take(joint, mjcf.ACTUATORGRAVCOMP) else None,
            "springyield": text_or_none(springyield),
            "user": None if user is None else trimmed(user),
            "class": label or None,
        }
    )


def _report(writing: Writing, joint: Joint) -> None:
    """What MuJoCo has no word for."""
    for what in ("velocity", "acceleration", "deceleration", "jerk"):
        if any(math.isfinite(getattr(axis, what)) for axis in joint.axes):
            writing.drop(joint, f"the {what} limit", "MuJoCo has none")
    if math.isfinite(joint.break_force) or math.isfinite(joint.break_torque):
        writing.drop(joint, "the force that breaks it", "joints of MuJoCo's do not break")
    if joint.cone is not None and joint.kind is not JointKind.SPHERICAL:
        writing.drop(joint, "the cone that its axis stays in", "only a ball of MuJoCo's may have one")

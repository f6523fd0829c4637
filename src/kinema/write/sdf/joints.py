"""Joints of the lowered robot to `<joint>`, and gears."""

from __future__ import annotations

import math

import numpy as np

from kinema.description import Axis, Constraint, Joint, JointKind
from kinema.foundation import Pose
from kinema.words import sdf

from ..text import Element, number, numbers
from .extras import give_back, setting
from .writing import NOISE, Names, Writing, add_pose, finite, plain_text

_TYPES = {
    JointKind.FIXED: "fixed",
    JointKind.REVOLUTE: "revolute",
    JointKind.CONTINUOUS: "continuous",
    JointKind.PRISMATIC: "prismatic",
    JointKind.SPHERICAL: "ball",
    JointKind.UNIVERSAL: "universal",
    JointKind.SCREW: "screw",
}
_SAID = (sdf.TYPE, *(sdf.of_axis(tag, sdf.limit(name)) for tag in sdf.AXES for name in sdf.LIMIT_SETTINGS))
_DYNAMICS = (
    ("damping", "damping"),
    ("friction", "friction"),
    ("spring_reference", "spring_reference"),
    ("spring_stiffness", "stiffness"),
)


def add_joint(writing: Writing, names: Names, model: Element, joint: Joint) -> Element:
    """The `<joint>` of a joint of the lowered robot."""
    kind = _TYPES[joint.kind]
    if joint.kind is JointKind.UNIVERSAL and setting(joint, sdf.TYPE) == "revolute2":
        kind = "revolute2"
    element = model.child("joint", name=names.joints[joint.name], type=kind)
    owner = f'joint "{joint.name}"'
    add_pose(element, joint.child_pose, owner, computed=True)
    element.child("parent", "world" if joint.parent is None else names.links[joint.parent])
    assert joint.child is not None  # the lowering sees to that
    element.child("child", names.links[joint.child])
    if joint.kind is JointKind.SCREW:
        _pitch(writing, element, joint)
    if joint.kind is JointKind.SPHERICAL:
        _ball(writing, element, joint)
    else:
        for number_of_axis, (tag, axis) in enumerate(zip(sdf.AXES, joint.axes, strict=False)):
            made = _axis(names, element, tag, joint, axis)
            if joint.initial is not None:
                start = finite(float(joint.initial[number_of_axis]), owner, "initial position")
                made.child(sdf.OWN_INITIAL_POSITION, number(start))
    if joint.closes_loop and not any("must_be_loop_joint" in e.text for e in joint.extras):
        element.child("physics").child("simbody").child("must_be_loop_joint", "true")
    give_back(writing, joint, element, said=_SAID)
    return element


def _pitch(writing: Writing, element: Element, joint: Joint) -> None:
    """Metres per revolution, right-handed; before 1.10 radians per metre, left-handed."""
    if writing.has("1.10"):
        element.child("screw_thread_pitch", number(finite(joint.pitch, f'joint "{joint.name}"', "pitch")))
    else:
        element.child("thread_pitch", number(finite(-2 * math.pi / joint.pitch, f'joint "{joint.name}"', "pitch")))


def _ball(writing: Writing, element: Element, joint: Joint) -> None:
    """A ball has no axes, but damping and friction are written as if it had one."""
    values = {(a.damping, a.friction) for a in joint.axes}
    if len(values) > 1:
        writing.approximate(joint, "its damping and friction", "all of its axes have those of the first")
    if joint.axes and any((joint.axes[0].damping, joint.axes[0].friction)):
        axis = element.child("axis")
        axis.child("xyz", "0 0 1")
        dynamics = axis.child("dynamics")
        dynamics.child("damping", number(joint.axes[0].damping))
        dynamics.child("friction", number(joint.axes[0].friction))
    said = Axis(direction=np.zeros(3), motion=joint.axes[0].motion) if joint.axes else None
    for axis in joint.axes:
        if said is not None and any(getattr(axis, f) != getattr(said, f) for f in _NOT_OF_A_BALL):
            writing.drop(joint, "its limits and springs", "a ball has no axes of its own")


_NOT_OF_A_BALL = ("lower", "upper", "effort", "velocity", "stiffness", "spring_reference")


def _axis(names: Names, element: Element, tag: str, joint: Joint, axis: Axis) -> Element:
    owner = f'joint "{joint.name}"'
    made = element.child(tag)
    made.child("xyz", numbers(_unit(axis.direction.tolist(), owner)))
    limit = Element("limit")
    limits = {"lower": axis.lower, "upper": axis.upper, "effort": axis.effort, "velocity": axis.velocity}
    for name, value in limits.items():
        if not math.isinf(value):  # what is left out is no limit
            limit.child(name, number(finite(value, owner, name)))
    for name in sdf.LIMIT_SETTINGS:
        kept = setting(joint, sdf.of_axis(tag, sdf.limit(name)))
        if kept is not None:
            limit.child(name, plain_text(kept))
    if limit.children:
        made.children.append(limit)
    dynamics = Element("dynamics")
    for name, field in _DYNAMICS:
        value = getattr(axis, field)
        if value:
            dynamics.child(name, number(finite(value, owner, field)))
    if dynamics.children:
        made.children.append(dynamics)
    if axis.mimic is not None:
        mimic = made.child("mimic", joint=names.joints[axis.mimic.joint])
        if axis.mimic.axis == 1:
            mimic.set({"axis": "axis2"})
        mimic.child("multiplier", number(finite(axis.mimic.multiplier, owner, "mimic")))
        mimic.child("offset", number(finite(axis.mimic.offset, owner, "mimic")))
        mimic.child("reference", number(finite(axis.mimic.reference, owner, "mimic")))
    return made


def add_gear(writing: Writing, names: Names, model: Element, constraint: Constraint, poses: dict[str, Pose]) -> Element:
    """A gear as the `<joint>` of type gearbox."""
    owner = f'constraint "{constraint.name}"'
    element = model.child("joint", name=names.constraints[constraint.name], type="gearbox")
    add_pose(element, constraint.pose_b, owner)
    assert constraint.b is not None  # the lowering sees to that
    element.child("parent", "world" if constraint.a is None else names.links[constraint.a])
    element.child("child", names.links[constraint.b])
    element.child("gearbox_ratio", number(finite(constraint.ratio, owner, "ratio")))
    reference = constraint.reference
    element.child("gearbox_reference_body", "world" if reference is None else names.links[reference])
    frame = poses[constraint.b] @ constraint.pose_b
    parent = Pose() if constraint.a is None else poses[constraint.a]
    for tag, link, axis in (
        ("axis", parent, constraint.gear_axis_a),
        ("axis2", poses[constraint.b], constraint.gear_axis_b),
    ):
        direction = frame.rotation.T @ link.rotation @ axis
        element.child(tag).child("xyz", numbers(_unit(direction.tolist(), owner)))
    give_back(writing, constraint, element, said=(sdf.TYPE,), skip=("joint",))
    return element


def _unit(direction: list[float], owner: str) -> list[float]:
    return [0.0 if abs(x) < NOISE else finite(x, owner, "axis") for x in direction]

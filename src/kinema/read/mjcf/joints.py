"""Joints. MuJoCo's are frames on the child body; several on one body add their motion one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinema.description import Axis, ConeLimit, Joint, JointKind, free_axes, rotation, spherical_axes, translation
from kinema.foundation import Pose, unique_name
from kinema.words import mjcf

from .engine import mujoco
from .reading import Reading, floats, polynomial, pose_of, set_given, solver_parameters


def joints_of(reading: Reading, body: int, taken: set[str]) -> list[Joint]:
    """The joints that hold a body, in order: its own, or an implicit fixed one. `taken` are names in use."""
    model = reading.model
    first, count = int(model.body_jntadr[body]), int(model.body_jntnum[body])
    if count == 0:
        return [_implicit(reading, body, taken)]
    return [_joint(reading, number, stacked=number > first) for number in range(first, first + count)]


def _implicit(reading: Reading, body: int, taken: set[str]) -> Joint:
    model = reading.model
    return Joint(
        name=unique_name(f"{reading.name(mjcf.BODY, body)}_fixed", taken),
        name_is_generated=True,
        origin=reading.origin("bodies", body),
        kind=JointKind.FIXED,
        parent=reading.link(int(model.body_parentid[body])),
        child=reading.link(body),
        parent_pose=pose_of(model.body_pos[body], model.body_quat[body]),
        implicit=True,
    )


def _joint(reading: Reading, number: int, *, stacked: bool) -> Joint:
    mj, model = mujoco(), reading.model
    body = int(model.jnt_bodyid[number])
    kind = int(model.jnt_type[number])
    joint = Joint(
        **reading.node(mjcf.JOINT, "joints", number),
        kind=JointKind.FREE,
        parent=reading.link(int(model.body_parentid[body])),
        child=reading.link(body),
        stacked=stacked,
    )
    _fill_origin(reading, joint, body)
    if kind == mj.mjtJoint.mjJNT_FREE:
        joint.axes = free_axes()
        # qpos0 of a free joint is the pose its body is written with
        address = int(model.jnt_qposadr[number])
        joint.initial = np.array(model.qpos0[address : address + 7])
    else:
        anchor = Pose.translation(model.jnt_pos[number])
        joint.parent_pose = pose_of(model.body_pos[body], model.body_quat[body]) @ anchor
        joint.child_pose = anchor
        if kind == mj.mjtJoint.mjJNT_BALL:
            joint.kind, joint.axes = JointKind.SPHERICAL, spherical_axes()
            if model.jnt_limited[number]:
                angle = float(model.jnt_range[number][1])
                joint.cone = ConeLimit(angle_y=angle, angle_z=angle, total=True)
        else:
            _one_axis(model, number, joint, hinge=kind == mj.mjtJoint.mjJNT_HINGE)
    for index, axis in enumerate(joint.axes):
        _dynamics(model, number, index, axis)
    _settings(reading, number, joint)
    return joint


def _fill_origin(reading: Reading, joint: Joint, body: int) -> None:
    """MuJoCo does not tell the line of a `<freejoint>`; its body's element does."""
    element = reading.element("bodies", body)
    if joint.origin == reading.main_origin and element is not None:
        own = next((e for e in element.iterate() if e.tag in (mjcf.FREEJOINT, mjcf.JOINT)), element)
        joint.origin = own.origin


def _one_axis(model: Any, number: int, joint: Joint, *, hinge: bool) -> None:
    direction = model.jnt_axis[number]
    axis = rotation(direction) if hinge else translation(direction)
    limited = bool(model.jnt_limited[number])
    if limited:
        axis.lower, axis.upper = floats(model.jnt_range[number])
    address = int(model.jnt_qposadr[number])
    axis.reference = float(model.qpos0[address])
    if axis.reference:
        joint.state = np.array([axis.reference])
    axis.spring_reference = float(model.qpos_spring[address])
    joint.axes = [axis]
    if hinge:
        joint.kind = JointKind.REVOLUTE if limited else JointKind.CONTINUOUS
    else:
        joint.kind = JointKind.PRISMATIC


def _dynamics(model: Any, number: int, index: int, axis: Axis) -> None:
    dof = int(model.jnt_dofadr[number]) + index
    axis.stiffness = float(model.jnt_stiffness[number])
    axis.damping = float(model.dof_damping[dof])
    axis.armature = float(model.dof_armature[dof])
    axis.friction = float(model.dof_frictionloss[dof])
    axis.limit_solver = solver_parameters(model.jnt_solref[number], model.jnt_solimp[number], model.jnt_margin[number])
    axis.friction_solver = solver_parameters(model.dof_solref[dof], model.dof_solimp[dof])
    if model.jnt_actfrclimited[number]:
        axis.effort = max(abs(f) for f in floats(model.jnt_actfrcrange[number]))


def _settings(reading: Reading, number: int, joint: Joint) -> None:
    """What only MuJoCo has."""
    model = reading.model
    force_range = floats(model.jnt_actfrcrange[number]) if model.jnt_actfrclimited[number] else ()
    set_given(
        joint.attributes,
        {
            mjcf.GROUP: int(model.jnt_group[number]),
            mjcf.UNUSED_RANGE: () if model.jnt_limited[number] else floats(model.jnt_range[number]),
            mjcf.ACTUATORFRCRANGE: force_range,
            mjcf.ACTUATORGRAVCOMP: bool(model.jnt_actgravcomp[number]),
            mjcf.STIFFNESSPOLY: polynomial(model, "jnt_stiffnesspoly", number),
            mjcf.DAMPINGPOLY: polynomial(model, "dof_dampingpoly", int(model.jnt_dofadr[number])),
            mjcf.SPRINGYIELD: float(getattr(model, "jnt_springyield", (0.0,) * model.njnt)[number]),
            mjcf.USER: model.jnt_user[number] if model.nuser_jnt else (),
            mjcf.CLASS: class_of(reading, "joints", number),
        },
    )


def class_of(reading: Reading, kind: str, number: int) -> str:
    """The default class an object was made with; empty for the main one."""
    found = reading.spec(kind, number)
    name = "" if found is None else found.classname.name
    return "" if name == "main" else name

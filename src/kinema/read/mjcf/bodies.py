"""Converts MuJoCo bodies to links with their inertia, and their joints.

MuJoCo's joints are frames on the child body; the motions of several joints on one body are composed in order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kinema.core import Array, Pose, quaternion_to_matrix, unique_name
from kinema.description import (
    Axis,
    ConeLimit,
    Joint,
    JointKind,
    Link,
    Shape,
    free_axes,
    rotation,
    spherical_axes,
    translation,
)
from kinema.tokens import mjcf

from .extras import plugin_extras
from .inertials import inertia_axes, is_inertia_from_geoms, read_inertial
from .model_reader import (
    ModelReader,
    enum_name,
    polynomial_coefficients,
    solver_parameters,
    store_nonempty_settings,
    to_floats,
)
from .mujoco_compiler import mujoco

# -- bodies ------------------------------------------------------------------------------------------------------------

_MOMENT_TOLERANCE = 1e-9
"""Relative difference below which moments of inertia count as equal."""

_SIMPLE_SLIDER = 2
"""Value of MuJoCo's `body_simple` for a body with sliders only."""


def read_link(reader: ModelReader, body: int, shapes: list[Shape]) -> Link:
    """Convert a body to a link with the given shapes.

    The inertial is omitted with a warning if it would be computed from an unreadable mesh.
    """
    model = reader.model
    computed = is_inertia_from_geoms(reader, body)
    unknown = computed and any(_has_unknown_mass(shape) for shape in shapes)
    inertial = None if unknown else read_inertial(reader, body, shapes, computed=computed)
    if inertial is not None:
        reader.inertials[body] = inertial
    link = Link(
        **reader.node_arguments(mjcf.BODY, "bodies", body),
        inertial=inertial,
        inertial_is_computed=computed,
        shapes=shapes,
        extras=plugin_extras(reader, "bodies", body),
        nested_in=reader.link_name(int(model.body_parentid[body])),
        kinematic=int(model.body_mocapid[body]) >= 0,
        gravity_scale=1.0 - float(model.body_gravcomp[body]),
    )
    if unknown:
        message = f'the inertia of body "{link.name}" would come from a mesh that could not be read; it is left out'
        reader.warning("no-inertia", message, link.origin, "give the file, or an <inertial>")
    _store_body_attributes(reader, body, link)
    return link


def _has_unknown_mass(shape: Shape) -> bool:
    return (
        bool(shape.attributes.get(mjcf.attribute_key(mjcf.UNREADABLE_MESH)))
        and shape.mass is None
        and shape.density != 0.0
    )


def _store_body_attributes(reader: ModelReader, body: int, link: Link) -> None:
    """Store the MuJoCo attributes of a body that the description has no field for."""
    model = reader.model
    spec = reader.spec_element("bodies", body)
    sleep = getattr(spec, "sleep", None)
    policy = "" if sleep is None else enum_name(sleep, "mjtSleepPolicy")
    link.starts_asleep = policy == "init"
    store_nonempty_settings(
        link.attributes,
        {
            mjcf.SLEEP: "" if policy.startswith("auto") else policy,
            mjcf.INERTIA_AXES: _undetermined_inertia_axes(reader, body),
            mjcf.SIMPLE_SLIDER_BODY: int(model.body_simple[body]) == _SIMPLE_SLIDER,
            mjcf.USER: model.body_user[body] if model.nuser_body else (),
            mjcf.CHILDCLASS: "" if spec is None or spec.childclass == "main" else spec.childclass,
        },
    )


def _undetermined_inertia_axes(reader: ModelReader, body: int) -> tuple[float, ...]:
    """Quaternion of the principal axes if they affect the simulation but do not follow from the inertia.

    That is the case if a sensor refers to the inertial frame, or if a fluid medium acts on a body with equal moments,
    where the choice of axes decides the fluid forces. Empty otherwise.
    """
    model = reader.model
    if not model.body_mass[body]:
        return ()
    if _is_inertial_frame_sensed(model, body):
        return inertia_axes(reader, body)
    if not (model.opt.density or model.opt.viscosity):
        return ()
    a, b, c = sorted(to_floats(model.body_inertia[body]))
    axes = np.abs(quaternion_to_matrix(model.body_iquat[body]))
    determined = min(b - a, c - b) > _MOMENT_TOLERANCE * c or np.abs(axes - axes.round()).max() < _MOMENT_TOLERANCE
    return () if determined else inertia_axes(reader, body)


def _is_inertial_frame_sensed(model: Any, body: int) -> bool:
    """Whether a sensor has the inertial frame of a body as object or reference."""
    kind = int(mujoco().mjtObj.mjOBJ_BODY)
    is_object = (model.sensor_objtype == kind) & (model.sensor_objid == body)
    return bool((is_object | ((model.sensor_reftype == kind) & (model.sensor_refid == body))).any())


# -- joints ------------------------------------------------------------------------------------------------------------


def read_joints(reader: ModelReader, body: int, used_names: set[str]) -> list[Joint]:
    """Joints of a body in order, or an implicit fixed joint; `used_names` are the joint names in use."""
    model = reader.model
    first, count = int(model.body_jntadr[body]), int(model.body_jntnum[body])
    if count == 0:
        return [_implicit_fixed_joint(reader, body, used_names)]
    return [_read_joint(reader, index, stacked=index > first) for index in range(first, first + count)]


def _implicit_fixed_joint(reader: ModelReader, body: int, used_names: set[str]) -> Joint:
    model = reader.model
    return Joint(
        name=unique_name(f"{reader.name(mjcf.BODY, body)}_fixed", used_names),
        name_is_generated=True,
        origin=reader.origin("bodies", body),
        kind=JointKind.FIXED,
        parent=reader.link_name(int(model.body_parentid[body])),
        child=reader.link_name(body),
        parent_pose=reader.placements.pose("bodies", body),
        implicit=True,
    )


def _read_joint(reader: ModelReader, number: int, *, stacked: bool) -> Joint:
    """Convert one joint; `stacked` marks the second and later joints of a body."""
    mj, model = mujoco(), reader.model
    body = int(model.jnt_bodyid[number])
    kind = int(model.jnt_type[number])
    joint = Joint(
        **reader.node_arguments(mjcf.JOINT, "joints", number),
        kind=JointKind.FREE,
        parent=reader.link_name(int(model.body_parentid[body])),
        child=reader.link_name(body),
        stacked=stacked,
    )
    _fill_origin(reader, joint, body)
    if kind == mj.mjtJoint.mjJNT_FREE:
        joint.axes = free_axes()
        placement = reader.placements.placement("bodies", body)
        joint.initial = np.array([*placement.position, *placement.quaternion])
    else:
        position, direction = reader.placements.joint_anchor_and_axis(number)
        anchor = Pose.translation(position)
        joint.parent_pose = reader.placements.pose("bodies", body) @ anchor
        joint.child_pose = anchor
        if kind == mj.mjtJoint.mjJNT_BALL:
            joint.kind, joint.axes = JointKind.SPHERICAL, spherical_axes()
            if model.jnt_limited[number]:
                angle = float(model.jnt_range[number][1])
                joint.cone = ConeLimit(angle_y=angle, angle_z=angle, total=True)
        else:
            _read_axis(model, number, joint, direction, hinge=kind == mj.mjtJoint.mjJNT_HINGE)
    for index, axis in enumerate(joint.axes):
        _read_dof_dynamics(model, number, index, axis)
    _store_joint_attributes(reader, number, joint)
    return joint


def _fill_origin(reader: ModelReader, joint: Joint, body: int) -> None:
    """Origin of a `<freejoint>` from the element of its body, because MuJoCo does not report its line."""
    element = reader.xml_element("bodies", body)
    if joint.origin == reader.main_origin and element is not None:
        joint_element = next((e for e in element.iterate() if e.tag in (mjcf.FREEJOINT, mjcf.JOINT)), element)
        joint.origin = joint_element.origin


def _read_axis(model: Any, index: int, joint: Joint, direction: Array, *, hinge: bool) -> None:
    """Set kind, axis, limits, reference and spring reference of a hinge or slide joint."""
    axis = rotation(direction) if hinge else translation(direction)
    limited = bool(model.jnt_limited[index])
    if limited:
        axis.lower, axis.upper = to_floats(model.jnt_range[index])
    address = int(model.jnt_qposadr[index])
    axis.reference = float(model.qpos0[address])
    if axis.reference:
        joint.state = np.array([axis.reference])
    axis.spring_reference = float(model.qpos_spring[address])
    joint.axes = [axis]
    if hinge:
        joint.kind = JointKind.REVOLUTE if limited else JointKind.CONTINUOUS
    else:
        joint.kind = JointKind.PRISMATIC


def _read_dof_dynamics(model: Any, number: int, index: int, axis: Axis) -> None:
    """Copy stiffness, damping, armature, friction and solver parameters of one dof to an axis."""
    dof = int(model.jnt_dofadr[number]) + index
    axis.stiffness = float(model.jnt_stiffness[number])
    axis.damping = float(model.dof_damping[dof])
    axis.armature = float(model.dof_armature[dof])
    axis.friction = float(model.dof_frictionloss[dof])
    axis.limit_solver = solver_parameters(model.jnt_solref[number], model.jnt_solimp[number], model.jnt_margin[number])
    axis.friction_solver = solver_parameters(model.dof_solref[dof], model.dof_solimp[dof])
    if model.jnt_actfrclimited[number]:
        axis.effort = max(abs(f) for f in to_floats(model.jnt_actfrcrange[number]))


def _store_joint_attributes(reader: ModelReader, index: int, joint: Joint) -> None:
    """Store the MuJoCo attributes of a joint that the description has no field for."""
    model = reader.model
    force_range = to_floats(model.jnt_actfrcrange[index]) if model.jnt_actfrclimited[index] else ()
    store_nonempty_settings(
        joint.attributes,
        {
            mjcf.GROUP: int(model.jnt_group[index]),
            mjcf.UNUSED_RANGE: () if model.jnt_limited[index] else to_floats(model.jnt_range[index]),
            mjcf.ACTUATORFRCRANGE: force_range,
            mjcf.ACTUATORGRAVCOMP: bool(model.jnt_actgravcomp[index]),
            mjcf.STIFFNESSPOLY: polynomial_coefficients(model, "jnt_stiffnesspoly", index),
            mjcf.DAMPINGPOLY: polynomial_coefficients(model, "dof_dampingpoly", int(model.jnt_dofadr[index])),
            mjcf.SPRINGYIELD: float(model.jnt_springyield[index]) if hasattr(model, "jnt_springyield") else 0.0,
            mjcf.USER: model.jnt_user[index] if model.nuser_jnt else (),
            mjcf.CLASS: default_class(reader, "joints", index),
        },
    )


def default_class(reader: ModelReader, kind: str, index: int) -> str:
    """Name of the default class of an object; empty for the main class."""
    found = reader.spec_element(kind, index)
    name = "" if found is None else found.classname.name
    return "" if name == "main" else name

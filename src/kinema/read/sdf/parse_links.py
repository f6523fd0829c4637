"""Parses `<link>` with its inertia, sensors and lights, and `<joint>` with its axes, limits and mimic."""

from __future__ import annotations

import math

import numpy as np

from kinema.tokens import sdf

from ..cursor import Cursor
from .context import (
    ParseContext,
    child_color,
    child_float,
    child_floats,
    child_integer,
    child_settings,
    collect_unread_extras,
    element_label,
    keep_verbatim,
    optional_flag,
    optional_float,
    parse_child_pose,
    parse_header,
    parse_number,
    parse_pose,
    to_extra,
    to_plain_tree,
)
from .elements import (
    MODEL_FRAME,
    AxisElement,
    CameraElement,
    InertialElement,
    JointElement,
    LightElement,
    LinkElement,
    MimicElement,
    SensorElement,
    thread_pitch_to_travel,
)
from .parse_geometry import parse_collision, parse_visual

# -- links, inertia, sensors and lights --------------------------------------------------------------------------------

_VERBATIM_LINK_TAGS = ("projector", "audio_sink", "audio_source", "battery", "particle_emitter", "plugin")
_SENSOR_TAGS = (
    *("air_pressure", "air_speed", "air_flow", "altimeter", "camera", "contact", "force_torque", "gps", "imu", "lidar"),
    *("logical_camera", "magnetometer", "navsat", "ray", "rfid", "rfidtag", "sonar", "transceiver"),
)
_ADDED_MASS_TAGS = tuple(a + b for i, a in enumerate("xyzpqr") for b in "xyzpqr"[i:])


def parse_link(cursor: Cursor, context: ParseContext) -> LinkElement:
    """Parse `<link>` with inertia, shapes, sensors and lights."""
    link = LinkElement(
        **parse_header(cursor, context),
        gravity=cursor.child_flag("gravity", True),
        self_collide=optional_flag(cursor, "self_collide"),
        kinematic=cursor.child_flag("kinematic", False),
        settings=child_settings(cursor, flags=sdf.LINK_FLAGS),
    )
    decay = cursor.child(sdf.VELOCITY_DECAY)
    if decay is not None:
        link.settings[sdf.VELOCITY_DECAY] = (child_float(decay, "linear", 0.0), child_float(decay, "angular", 0.0))
        context.defer_unread(decay)
    inertial = cursor.child("inertial")
    if inertial is not None:
        link.inertial = _parse_inertial(inertial, context)
    pending = context.pending_extras[:]  # shapes collect their own extras
    context.pending_extras.clear()
    link.collisions = [parse_collision(c, context) for c in cursor.children("collision")]
    link.visuals = [parse_visual(c, context) for c in cursor.children("visual")]
    link.sensors = [parse_sensor(c, context) for c in cursor.children("sensor")]
    link.lights = [parse_light(c, context) for c in cursor.children("light")]
    link.extras = pending + keep_verbatim(cursor, *_VERBATIM_LINK_TAGS)
    link.extras += keep_verbatim(cursor, "frame", reason="frames inside a link were never used")
    link.extras += context.collect_unread(cursor)
    return link


def _parse_inertial(cursor: Cursor, context: ParseContext) -> InertialElement:
    """Parse `<inertial>` with the format's defaults."""
    inertial = InertialElement(
        auto=cursor.parse_flag(cursor.attribute_text("auto"), False),
        density=optional_float(cursor, "density"),
        origin=cursor.origin,
    )
    pose = cursor.child("pose")
    if pose is not None:
        parsed = parse_pose(pose, context)
        inertial.pose = parsed.pose
        if parsed.relative_to:
            problem = f"the pose of <inertial> is relative to {parsed.relative_to!r}, which it cannot be"
            pose.warning("inertial-frame", problem, "it is read relative to its link")
    mass = optional_float(cursor, "mass")
    if mass is not None:
        inertial.mass, inertial.mass_is_given = mass, True
    tensor = cursor.child("inertia")
    if tensor is not None:
        ixx, iyy, izz = (child_float(tensor, tag, 1.0) for tag in ("ixx", "iyy", "izz"))
        ixy, ixz, iyz = (child_float(tensor, tag, 0.0) for tag in ("ixy", "ixz", "iyz"))
        inertial.inertia = np.array([[ixx, ixy, ixz], [ixy, iyy, iyz], [ixz, iyz, izz]])
        context.defer_unread(tensor)
    elif not inertial.auto:
        cursor.note("default-inertial", "<inertial> has no <inertia>: 1 kg m2 about every axis, the format's default")
    added = cursor.child("fluid_added_mass")
    if added is not None:
        inertial.settings[sdf.FLUID_ADDED_MASS] = child_settings(added, numbers=_ADDED_MASS_TAGS)
        added.note("kept", "<fluid_added_mass> is kept as it is: fluids are not simulated")
        context.defer_unread(added)
    inertial.extras = keep_verbatim(cursor, "auto_inertia_params", reason="it is for a program that computes inertias")
    inertial.extras += keep_verbatim(cursor, "frame", reason="frames inside an inertial were never used")
    context.defer_unread(cursor)
    return inertial


def parse_sensor(cursor: Cursor, context: ParseContext) -> SensorElement:
    """Parse `<sensor>`; type-specific content is preserved as plain values and verbatim."""
    kind = (cursor.attribute_text("type") or "").strip()
    if not kind:
        cursor.error("missing-attribute", f"{element_label(cursor)} has no type")
    header = parse_header(cursor, context)
    sensor = SensorElement(
        **header,
        kind=kind,
        update_rate=child_float(cursor, "update_rate", 0.0),
        settings=child_settings(cursor, flags=sdf.SENSOR_FLAGS, texts=sdf.SENSOR_STRINGS),
        cameras=[_parse_camera(c, context, header["name"]) for c in cursor.children("camera")],
    )
    sensor.extras = keep_verbatim(cursor, "plugin")
    sensor.extras += keep_verbatim(cursor, "frame", reason="frames inside a sensor were never used")
    for tag in _SENSOR_TAGS:
        found = cursor.children(tag)
        if found:
            trees = [to_plain_tree(c.element) for c in found]
            sensor.settings[tag] = trees[0] if len(trees) == 1 else trees
            sensor.extras += [to_extra(c) for c in found]
    sensor.extras += context.collect_unread(cursor)
    return sensor


def _parse_camera(cursor: Cursor, context: ParseContext, sensor: str) -> CameraElement:
    """Parse field of view, resolution and clipping of a camera."""
    camera = CameraElement(name=cursor.attribute_text("name") or sensor, pose=parse_child_pose(cursor, context))
    camera.horizontal_fov = child_float(cursor, "horizontal_fov", camera.horizontal_fov)
    image, clip = cursor.child("image"), cursor.child("clip")
    if image is not None:
        width, height = child_integer(image, "width"), child_integer(image, "height")
        camera.resolution = (max(width or camera.resolution[0], 1), max(height or camera.resolution[1], 1))
    if clip is not None:
        near, far = camera.clip
        camera.clip = (child_float(clip, "near", near), child_float(clip, "far", far, must_be_finite=False))
    return camera


def parse_light(cursor: Cursor, context: ParseContext) -> LightElement:
    """Parse `<light>`."""
    kind = (cursor.attribute_text("type") or "point").strip()
    if kind not in ("point", "directional", "spot"):
        cursor.warning(
            "light-type", f"{element_label(cursor)}: {kind!r} is not a type of light", "a point light is assumed"
        )
        kind = "point"
    light = LightElement(
        **parse_header(cursor, context),
        kind=kind,
        color=child_color(cursor, "diffuse") or (1.0, 1.0, 1.0, 1.0),
        direction=child_floats(cursor, "direction", (0.0, 0.0, -1.0)),
        casts_shadow=cursor.child_flag("cast_shadows", False),
        settings=child_settings(cursor, numbers=sdf.LIGHT_PARAMETERS, flags=sdf.LIGHT_FLAGS),
    )
    specular = child_color(cursor, "specular")
    if specular is not None:
        light.settings[sdf.SPECULAR] = specular
    for tag in sdf.LIGHT_ELEMENTS:
        child = cursor.child(tag)
        if child is not None:
            light.settings[tag] = child_settings(
                child,
                numbers=("range", "linear", "constant", "quadratic", "inner_angle", "outer_angle", "falloff"),
            )
            light.extras += collect_unread_extras(child)
    light.extras += keep_verbatim(cursor, "plugin")
    light.extras += keep_verbatim(cursor, "frame", reason="frames inside a light were never used")
    light.extras += context.collect_unread(cursor)
    return light


# -- joints ------------------------------------------------------------------------------------------------------------

JOINT_TYPES = ("revolute", "continuous", "prismatic", "fixed", "ball", "universal", "revolute2", "screw", "gearbox")
_UNLIMITED = 1e16
"""Magnitude of a limit that means unlimited (up to 1.9)."""


def parse_joint(cursor: Cursor, context: ParseContext) -> JointElement:
    """Parse `<joint>` with axes and sensors."""
    joint = JointElement(
        **parse_header(cursor, context),
        kind=_parse_joint_type(cursor),
        parent=_parse_end(cursor, "parent"),
        child=_parse_end(cursor, "child"),
        pitch=_parse_pitch(cursor, context),
        gearbox_ratio=child_float(cursor, "gearbox_ratio", 1.0),
        gearbox_reference=cursor.child_text("gearbox_reference_body").strip(),
        verbatim=cursor.element.verbatim,
    )
    axis, axis2 = cursor.child("axis"), cursor.child("axis2")
    joint.axis = None if axis is None else _parse_axis(axis, context, element_label(cursor))
    joint.axis2 = None if axis2 is None else _parse_axis(axis2, context, element_label(cursor))
    pending = context.pending_extras[:]  # sensors collect their own extras
    context.pending_extras.clear()
    joint.sensors = [parse_sensor(c, context) for c in cursor.children("sensor")]
    physics = cursor.child("physics")
    if physics is not None:
        simbody = physics.child("simbody")
        if simbody is not None:
            joint.must_be_loop_joint = bool(optional_flag(simbody, "must_be_loop_joint"))
        physics.note("kept", f"<physics> of {element_label(cursor)} is kept as it is: it is for particular engines")
        pending.append(to_extra(physics))
    joint.extras = pending + keep_verbatim(cursor, "plugin")
    joint.extras += keep_verbatim(cursor, "frame", reason="frames inside a joint were never used")
    joint.extras += context.collect_unread(cursor)
    return joint


def _parse_joint_type(cursor: Cursor) -> str:
    """Joint type; unknown types are an error and become fixed."""
    text = cursor.attribute_text("type")
    kind = (text or "").strip().lower()
    if kind in JOINT_TYPES:
        return kind
    if text is None:
        problem = f"{element_label(cursor)} has no type"
    else:
        problem = f"{element_label(cursor)}: {text[:40]!r} is not a type of joint"
    cursor.error("joint-type", problem, f"a fixed joint is assumed; known are {', '.join(JOINT_TYPES)}")
    return "fixed"


def _parse_end(cursor: Cursor, tag: str) -> str:
    """Name of parent or child; in very old files inside of `<link_name>`."""
    child = cursor.child(tag)
    if child is None:
        return ""
    name = child.child_text("link_name").strip()
    return name or child.text


def _parse_pitch(cursor: Cursor, context: ParseContext) -> float:
    """Pitch of a screw [m per revolution], right-handed; the old element is in rad/m, left-handed."""
    old, new = optional_float(cursor, "thread_pitch"), optional_float(cursor, "screw_thread_pitch")
    if new is not None:
        return new
    if old is None:
        return context.version.default_screw_pitch
    if old == 0.0:
        cursor.error(
            "thread-pitch", f"{element_label(cursor)} has a thread pitch of zero radians per metre", "1 is assumed"
        )
        old = 1.0
    return thread_pitch_to_travel(old)


def _parse_axis(cursor: Cursor, context: ParseContext, owner: str) -> AxisElement:
    """Parse `<axis>` or `<axis2>`: direction, dynamics, limits, mimic and initial position."""
    axis = AxisElement(origin=cursor.origin)
    xyz = cursor.child("xyz")
    if xyz is not None:
        axis.expressed_in = (xyz.attribute_text("expressed_in") or "").strip()
        context.defer_unread(xyz)
    direction = child_floats(cursor, "xyz", (0.0, 0.0, 1.0))
    if np.linalg.norm(direction) > 0.0:
        axis.xyz = direction
    else:
        cursor.error("zero-axis", f"the axis of {owner} has no direction", "0 0 1 is assumed")
    _parse_model_frame_flag(cursor, context, axis)
    dynamics, limit, mimic = cursor.child("dynamics"), cursor.child("limit"), cursor.child("mimic")
    if dynamics is not None:
        axis.damping = child_float(dynamics, "damping", 0.0)
        axis.friction = child_float(dynamics, "friction", 0.0)
        axis.spring_reference = child_float(dynamics, "spring_reference", 0.0)
        axis.spring_stiffness = child_float(dynamics, "spring_stiffness", 0.0)
        context.defer_unread(dynamics)
    if limit is not None:
        _parse_limit(limit, context, axis)
    if mimic is not None:
        axis.mimic = _parse_mimic(mimic, context)
    initial, own = cursor.child(sdf.INITIAL_POSITION), cursor.child(sdf.KINEMA_INITIAL_POSITION)
    if initial is not None:
        axis.initial_position = parse_number(initial, 0.0)
        message = f"<initial_position> of {owner} says where it starts; libsdformat and Gazebo never put it to use"
        initial.note("initial-position", message)
    if own is not None:
        axis.initial_position = parse_number(own, 0.0)
    context.defer_unread(cursor)
    return axis


def _parse_model_frame_flag(cursor: Cursor, context: ParseContext, axis: AxisElement) -> None:
    """Set `expressed_in` to the model frame for versions with `use_parent_model_frame`."""
    if not context.version.knows_use_parent_model_frame:
        return
    flag = optional_flag(cursor, "use_parent_model_frame")
    if flag is None:
        flag = context.version.axes_are_in_model_frame
    if flag and not axis.expressed_in:
        axis.expressed_in = MODEL_FRAME


def _parse_limit(cursor: Cursor, context: ParseContext, axis: AxisElement) -> None:
    """Parse limits of position, effort and velocity; huge and negative ones mean unlimited."""
    lower = child_float(cursor, "lower", -math.inf, must_be_finite=False)
    upper = child_float(cursor, "upper", math.inf, must_be_finite=False)
    effort = child_float(cursor, "effort", math.inf, must_be_finite=False)
    velocity = child_float(cursor, "velocity", math.inf, must_be_finite=False)
    axis.lower = -math.inf if lower <= -_UNLIMITED else lower
    axis.upper = math.inf if upper >= _UNLIMITED else upper
    axis.effort = math.inf if effort < 0.0 or effort >= _UNLIMITED else effort
    axis.velocity = math.inf if velocity < 0.0 or velocity >= _UNLIMITED else velocity
    found = child_settings(cursor, numbers=sdf.LIMIT_SETTINGS)
    axis.settings |= {sdf.limit_key(tag): value for tag, value in found.items()}
    context.defer_unread(cursor)


def _parse_mimic(cursor: Cursor, context: ParseContext) -> MimicElement | None:
    """Parse `<mimic>`; None without a joint."""
    joint = cursor.required_attribute("joint").strip()
    axis = (cursor.attribute_text("axis") or "axis").strip()
    if axis not in ("axis", "axis2"):
        cursor.error("mimic", f"<mimic> follows the axis {axis[:40]!r}", "it is 'axis' or 'axis2'; 'axis' is assumed")
    mimic = MimicElement(
        joint=joint,
        axis=1 if axis == "axis2" else 0,
        multiplier=child_float(cursor, "multiplier", 1.0),
        offset=child_float(cursor, "offset", 0.0),
        reference=child_float(cursor, "reference", 0.0),
        origin=cursor.origin,
    )
    context.defer_unread(cursor)
    return mimic if joint else None

"""Links and what they carry beside shapes: inertia, sensors, lights."""

from __future__ import annotations

import numpy as np

from kinema.words import sdf

from ..cursor import Cursor
from .context import (
    Context,
    as_tree,
    child_color,
    child_integer,
    child_number,
    child_vector,
    finish,
    keep,
    label,
    optional_flag,
    optional_number,
    pose_of,
    read_name,
    read_pose,
    read_settings,
    verbatim,
)
from .elements import CameraElement, InertialElement, LightElement, LinkElement, SensorElement
from .parse_geometry import parse_collision, parse_visual

_CARRIED = ("projector", "audio_sink", "audio_source", "battery", "particle_emitter", "plugin")
_SENSOR_DATA = (
    *("air_pressure", "air_speed", "air_flow", "altimeter", "camera", "contact", "force_torque", "gps", "imu", "lidar"),
    *("logical_camera", "magnetometer", "navsat", "ray", "rfid", "rfidtag", "sonar", "transceiver"),
)
_ADDED_MASS = tuple(a + b for i, a in enumerate("xyzpqr") for b in "xyzpqr"[i:])


def parse_link(cursor: Cursor, context: Context) -> LinkElement:
    """`<link>`."""
    name, generated = read_name(cursor, context)
    link = LinkElement(
        name=name,
        name_is_generated=generated,
        origin=cursor.origin,
        pose=read_pose(cursor, context),
        gravity=cursor.child_flag("gravity", True),
        self_collide=optional_flag(cursor, "self_collide"),
        kinematic=cursor.child_flag("kinematic", False),
        settings=read_settings(cursor, flags=sdf.LINK_FLAGS),
    )
    decay = cursor.child(sdf.VELOCITY_DECAY)
    if decay is not None:
        link.settings[sdf.VELOCITY_DECAY] = (child_number(decay, "linear", 0.0), child_number(decay, "angular", 0.0))
        context.close(decay)
    inertial = cursor.child("inertial")
    if inertial is not None:
        link.inertial = _parse_inertial(inertial, context)
    own = context.loose[:]  # the shapes below take what is theirs
    context.loose.clear()
    link.collisions = [parse_collision(c, context) for c in cursor.children("collision")]
    link.visuals = [parse_visual(c, context) for c in cursor.children("visual")]
    link.sensors = [parse_sensor(c, context) for c in cursor.children("sensor")]
    link.lights = [parse_light(c, context) for c in cursor.children("light")]
    link.extras = own + keep(cursor, *_CARRIED)
    link.extras += keep(cursor, "frame", why="frames inside a link were never used")
    link.extras += context.finish(cursor)
    return link


def _parse_inertial(cursor: Cursor, context: Context) -> InertialElement:
    inertial = InertialElement(
        auto=cursor.flag(cursor.text_of("auto"), False),
        density=optional_number(cursor, "density"),
        origin=cursor.origin,
    )
    pose = cursor.child("pose")
    if pose is not None:
        parsed = pose_of(pose, context)
        inertial.pose = parsed.pose
        if parsed.relative_to:
            problem = f"the pose of <inertial> is relative to {parsed.relative_to!r}, which it cannot be"
            pose.warning("inertial-frame", problem, "it is read relative to its link")
    mass = optional_number(cursor, "mass")
    if mass is not None:
        inertial.mass, inertial.mass_is_given = mass, True
    tensor = cursor.child("inertia")
    if tensor is not None:
        ixx, iyy, izz = (child_number(tensor, tag, 1.0) for tag in ("ixx", "iyy", "izz"))
        ixy, ixz, iyz = (child_number(tensor, tag, 0.0) for tag in ("ixy", "ixz", "iyz"))
        inertial.inertia = np.array([[ixx, ixy, ixz], [ixy, iyy, iyz], [ixz, iyz, izz]])
        context.close(tensor)
    elif not inertial.auto:
        cursor.note("default-inertial", "<inertial> has no <inertia>: 1 kg m2 about every axis, the format's default")
    added = cursor.child("fluid_added_mass")
    if added is not None:
        inertial.settings[sdf.FLUID_ADDED_MASS] = read_settings(added, numbers=_ADDED_MASS)
        added.note("kept", "<fluid_added_mass> is kept as it is: fluids are not simulated")
        context.close(added)
    inertial.extras = keep(cursor, "auto_inertia_params", why="it is for a program that computes inertias")
    inertial.extras += keep(cursor, "frame", why="frames inside an inertial were never used")
    context.close(cursor)
    return inertial


def parse_sensor(cursor: Cursor, context: Context) -> SensorElement:
    """`<sensor>`; everything that depends on its type is kept as plain values and verbatim."""
    name, generated = read_name(cursor, context)
    kind = (cursor.text_of("type") or "").strip()
    if not kind:
        cursor.error("missing-attribute", f"{label(cursor)} has no type")
    sensor = SensorElement(
        name=name,
        name_is_generated=generated,
        origin=cursor.origin,
        pose=read_pose(cursor, context),
        kind=kind,
        update_rate=child_number(cursor, "update_rate", 0.0),
        settings=read_settings(cursor, flags=sdf.SENSOR_FLAGS, texts=sdf.SENSOR_TEXTS),
        cameras=[_parse_camera(c, context, name) for c in cursor.children("camera")],
    )
    sensor.extras = keep(cursor, "plugin")
    sensor.extras += keep(cursor, "frame", why="frames inside a sensor were never used")
    for tag in _SENSOR_DATA:
        found = cursor.children(tag)
        if found:
            trees = [as_tree(c.element) for c in found]
            sensor.settings[tag] = trees[0] if len(trees) == 1 else trees
            sensor.extras += [verbatim(c) for c in found]
    sensor.extras += context.finish(cursor)
    return sensor


def _parse_camera(cursor: Cursor, context: Context, sensor: str) -> CameraElement:
    """What rendering needs; the whole element is kept beside it."""
    camera = CameraElement(name=cursor.text_of("name") or sensor, pose=read_pose(cursor, context))
    camera.horizontal_fov = child_number(cursor, "horizontal_fov", camera.horizontal_fov)
    image, clip = cursor.child("image"), cursor.child("clip")
    if image is not None:
        width, height = child_integer(image, "width"), child_integer(image, "height")
        camera.resolution = (max(width or camera.resolution[0], 1), max(height or camera.resolution[1], 1))
    if clip is not None:
        near, far = camera.clip
        camera.clip = (child_number(clip, "near", near), child_number(clip, "far", far, finite=False))
    return camera


def parse_light(cursor: Cursor, context: Context) -> LightElement:
    """`<light>`."""
    name, generated = read_name(cursor, context)
    kind = (cursor.text_of("type") or "point").strip()
    if kind not in ("point", "directional", "spot"):
        cursor.warning("light-type", f"{label(cursor)}: {kind!r} is not a type of light", "a point light is assumed")
        kind = "point"
    light = LightElement(
        name=name,
        name_is_generated=generated,
        origin=cursor.origin,
        pose=read_pose(cursor, context),
        kind=kind,
        color=child_color(cursor, "diffuse") or (1.0, 1.0, 1.0, 1.0),
        direction=child_vector(cursor, "direction", (0.0, 0.0, -1.0)),
        casts_shadow=cursor.child_flag("cast_shadows", False),
        settings=read_settings(cursor, numbers=sdf.LIGHT_NUMBERS, flags=sdf.LIGHT_FLAGS),
    )
    specular = child_color(cursor, "specular")
    if specular is not None:
        light.settings[sdf.SPECULAR] = specular
    for tag in sdf.LIGHT_PARTS:
        child = cursor.child(tag)
        if child is not None:
            light.settings[tag] = read_settings(
                child,
                numbers=("range", "linear", "constant", "quadratic", "inner_angle", "outer_angle", "falloff"),
            )
            light.extras += finish(child)
    light.extras += keep(cursor, "plugin")
    light.extras += keep(cursor, "frame", why="frames inside a light were never used")
    light.extras += context.finish(cursor)
    return light

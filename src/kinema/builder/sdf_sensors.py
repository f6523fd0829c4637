"""Outputs and noise models of SDFormat sensors: IMU, magnetometer, altimeter, navsat, force-torque, contact, lidar."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from kinema.core import Pose, sines_cosines
from kinema.description import Robot, World
from kinema.tokens import sdf

from .context import AttachmentFrame
from .sensor_outputs import (
    MAX_RANGE,
    NoiseModel,
    ResolvedFrame,
    SensorContext,
    SensorOutputFactory,
    SensorOutputRecord,
    UnsupportedSensorError,
    make_ray_output,
    require_frame,
)

_AXES = ("x", "y", "z")
_MAX_RAYS = 1_000_000
"""Largest number of rays of one lidar."""


def _nested_setting(settings: Any, *path: str) -> Any:
    """Value under a path of tags in nested settings; None if any tag is missing."""
    for tag in path:
        settings = settings.get(tag) if isinstance(settings, dict) else None
    return settings


def _float_setting(sensor_ctx: SensorContext, settings: Any, default: float, *path: str) -> float:
    """Number under a path of tags in nested settings; `default` if missing, and with a warning if it is no number."""
    text = _nested_setting(settings, *path)
    try:
        return default if text is None else float(text)
    except (TypeError, ValueError):
        message = f'sensor "{sensor_ctx.sensor.name}": {path[-1]} is not a number; {default:g} is used'
        sensor_ctx.build.diagnostics.warning("sim.sensor-part", message, origin=sensor_ctx.sensor.origin)
        return default


def _noise_model(sensor_ctx: SensorContext, noise: Any) -> NoiseModel:
    """Error model of an SDFormat `<noise>` element: Gaussian with constant bias, optionally quantised.

    Warns of unsupported noise types and of drifting bias.
    """
    if not isinstance(noise, dict):
        return NoiseModel()
    noise_type = str(noise.get(f"@{sdf.TYPE}", noise.get(sdf.TYPE, "none")))
    if noise_type == "none":
        return NoiseModel()
    if noise_type not in ("gaussian", "gaussian_quantized"):
        message = f'noise of type "{noise_type}" of sensor "{sensor_ctx.sensor.name}" is not simulated'
        sensor_ctx.build.diagnostics.warning("sim.sensor-part", message, origin=sensor_ctx.sensor.origin)
        return NoiseModel()
    if _float_setting(sensor_ctx, noise, 0.0, "dynamic_bias_stddev"):
        message = f'the bias of sensor "{sensor_ctx.sensor.name}" is constant: its drift is not simulated'
        sensor_ctx.build.diagnostics.warning("sim.sensor-part", message, origin=sensor_ctx.sensor.origin)
    return NoiseModel(
        noise=_float_setting(sensor_ctx, noise, 0.0, "stddev"),
        bias_mean=_float_setting(sensor_ctx, noise, 0.0, "mean") + _float_setting(sensor_ctx, noise, 0.0, "bias_mean"),
        bias_std=_float_setting(sensor_ctx, noise, 0.0, "bias_stddev"),
        resolution=_float_setting(sensor_ctx, noise, 0.0, "precision") if noise_type == "gaussian_quantized" else 0.0,
    )


def _axis_noise_models(sensor_ctx: SensorContext, settings: Any) -> Sequence[NoiseModel]:
    """Error models of the x, y and z axis of a sensor."""
    return [_noise_model(sensor_ctx, _nested_setting(settings, axis, "noise")) for axis in _AXES]


def _mount_frame(sensor_ctx: SensorContext) -> tuple[AttachmentFrame, ResolvedFrame]:
    """Attachment frame of a sensor, and the frame with its link; UnsupportedSensorError if the link is missing."""
    frame = require_frame(sensor_ctx.target_frame(), f'its link "{sensor_ctx.sensor.target}"')
    return frame.attachment, frame


def _imu_outputs(sensor_ctx: SensorContext) -> list[SensorOutputRecord]:
    """Outputs (measured quantities) of an SDFormat IMU: orientation, angular velocity and linear acceleration.

    With the error models of the file; the orientation is a quaternion.
    """
    (frame, link), settings = _mount_frame(sensor_ctx), sensor_ctx.sensor.settings.get("imu")
    channels = (("orientation", "framequat", 4), ("angular_velocity", "gyro", 3))
    channels = (*channels, ("linear_acceleration", "accelerometer", 3))
    return [
        SensorOutputRecord(
            kind,
            dim,
            frame,
            target_idx=link.link_idx,
            channel=channel_name,
            noise_models=[NoiseModel()]
            if dim == 4
            else _axis_noise_models(sensor_ctx, _nested_setting(settings, channel_name)),
        )
        for channel_name, kind, dim in channels
    ]


def _magnetometer_outputs(sensor_ctx: SensorContext) -> list[SensorOutputRecord]:
    """Output of a magnetometer: magnetic field in the sensor frame, with error models per axis."""
    (frame, link), settings = _mount_frame(sensor_ctx), sensor_ctx.sensor.settings.get("magnetometer")
    return [
        SensorOutputRecord(
            "magnetometer", 3, frame, target_idx=link.link_idx, noise_models=_axis_noise_models(sensor_ctx, settings)
        )
    ]


def _altimeter_outputs(sensor_ctx: SensorContext) -> list[SensorOutputRecord]:
    """Outputs (measured quantities) of an SDFormat altimeter: vertical position and velocity, with error models."""
    (frame, link), settings = _mount_frame(sensor_ctx), sensor_ctx.sensor.settings.get("altimeter")
    models = [
        _noise_model(sensor_ctx, _nested_setting(settings, channel_name, "noise"))
        for channel_name in ("vertical_position", "vertical_velocity")
    ]
    return [
        SensorOutputRecord(
            f"{prefix}height", 1, frame, target_idx=link.link_idx, channel=channel_name, noise_models=[model]
        )
        for prefix, channel_name, model in zip(
            ("", "speed of "), ("vertical_position", "vertical_velocity"), models, strict=True
        )
    ]


def _force_torque_outputs(sensor_ctx: SensorContext) -> list[SensorOutputRecord]:
    """Outputs (measured quantities) of an SDFormat force-torque sensor: force and torque transmitted by a joint.

    At the sensor frame. `measure_direction` selects the wrench of the child on the parent or the reverse, `frame` the
    axes (child, parent, sensor). Raises UnsupportedSensorError for joints to the world, loop joints and missing joints.
    """
    sensor, settings = sensor_ctx.sensor, sensor_ctx.sensor.settings.get("force_torque")
    found = sensor_ctx.find_element("joints", sensor.target)
    if sensor.target_kind != "joint" or found is None:
        raise UnsupportedSensorError(f'the joint "{sensor.target}" does not exist')
    joint, owner = found
    links = [None if name is None else sensor_ctx.find_link(name, owner) for name in (joint.child, joint.parent)]  # type: ignore[attr-defined]  # ty: ignore[missing-attribute]
    child, parent = links
    if child is None:
        raise UnsupportedSensorError("the child of its joint is the world")
    outer_link, sign = (child, 1.0) if child.parent is parent else (parent, -1.0)
    if outer_link is None or (outer_link is parent and outer_link.parent is not child):
        raise UnsupportedSensorError("its joint closes a loop")
    if str(_nested_setting(settings, "measure_direction") or "child_to_parent").strip() != "parent_to_child":
        sign = -sign
    pose = child.pose_in_frame @ joint.child_pose @ sensor.pose  # type: ignore[attr-defined]  # ty: ignore[missing-attribute]
    rotations = {"child": child.pose_in_frame.rotation, "sensor": pose.rotation}
    frame_idx, axes_of = child.frame_idx, str(_nested_setting(settings, "frame") or "child").strip()
    reference = None
    if axes_of == "parent":
        reference = (
            AttachmentFrame(-1, Pose()) if parent is None else AttachmentFrame(parent.frame_idx, parent.pose_in_frame)
        )
    mount = AttachmentFrame(frame_idx, Pose(pose.position, rotations.get(axes_of, rotations["child"])))
    return [
        SensorOutputRecord(
            kind,
            3,
            mount,
            reference,
            target_idx=outer_link.index,
            params=(sign,),
            channel=kind,
            noise_models=_axis_noise_models(sensor_ctx, _nested_setting(settings, kind)),
        )
        for kind in ("force", "torque")
    ]


def _contact_outputs(sensor_ctx: SensorContext) -> list[SensorOutputRecord]:
    """Outputs of an SDFormat contact sensor: per collision, number of contacts and net contact force in world axes.

    Raises UnsupportedSensorError if the link lacks a named collision.
    """
    link = sensor_ctx.find_link(sensor_ctx.sensor.target)
    if link is None:
        raise UnsupportedSensorError(f'its link "{sensor_ctx.sensor.target}" does not exist')
    setting = _nested_setting(sensor_ctx.sensor.settings.get(sensor_ctx.sensor.kind), "collision")
    names = [str(x).strip() for x in (setting if isinstance(setting, list) else [setting]) if x]
    collisions = {shape.name for shape in link.description.shapes if shape.collision}
    missing = [name for name in names if name not in collisions]
    if missing or not names:
        raise UnsupportedSensorError(f"its link has no collision {', '.join(missing) or 'that it names'}")
    return [
        SensorOutputRecord(
            "contact",
            4,
            options=("found force", "netforce", ""),
            params=(1.0, 0.0, 0.0, 0.0),
            contact_filters=("any -1 ", f"shape {link.index} {name}"),
            channel=name,
        )
        for name in names
    ]


def _scan_angles(sensor_ctx: SensorContext, scan: Any, direction: str) -> np.ndarray:
    """Angles [rad] of the horizontal or vertical scan of a lidar; zero if the scan is not given."""
    settings = _nested_setting(scan, direction)
    if settings is None:
        return np.zeros(1)
    count = int(
        _float_setting(sensor_ctx, settings, 1.0, "samples") * _float_setting(sensor_ctx, settings, 1.0, "resolution")
    )
    lower, upper = (
        _float_setting(sensor_ctx, settings, 0.0, "min_angle"),
        _float_setting(sensor_ctx, settings, 0.0, "max_angle"),
    )
    if not 1 <= count <= _MAX_RAYS:
        raise UnsupportedSensorError(f"it has {count} rays")
    return np.linspace(lower, upper, count) if count > 1 else np.array([(lower + upper) / 2])


def scan_directions(azimuths: np.ndarray, elevations: np.ndarray) -> np.ndarray:
    """Unit directions of a scan about the x axis, elevation by elevation, (n_elevations * n_azimuths, 3).

    Args:
        azimuths: angles about z, from +x towards +y [rad].
        elevations: angles above the xy plane [rad].
    """
    rise, level = (values[:, None] for values in sines_cosines(elevations))
    sine, cosine = sines_cosines(azimuths)
    heights = np.broadcast_to(rise, (len(rise), len(sine)))
    return np.stack([level * cosine, level * sine, heights], axis=-1).reshape(-1, 3)


def _lidar_outputs(sensor_ctx: SensorContext) -> list[SensorOutputRecord]:
    """Output of an SDFormat lidar: distances along rays on a grid of azimuth and elevation angles about the x axis.

    Rays are ordered by elevation, then azimuth, both increasing. `gpu` variants hit visual geoms, others collision
    geoms.
    """
    (frame, link), sensor = _mount_frame(sensor_ctx), sensor_ctx.sensor
    settings = sensor.settings.get("lidar", sensor.settings.get("ray"))
    azimuths, elevations = (
        _scan_angles(sensor_ctx, _nested_setting(settings, "scan"), direction)
        for direction in ("horizontal", "vertical")
    )
    if len(azimuths) * len(elevations) > _MAX_RAYS:
        raise UnsupportedSensorError(f"it has {len(azimuths) * len(elevations)} rays")
    directions = scan_directions(azimuths, elevations)
    min_range, max_range = (
        _float_setting(sensor_ctx, settings, 0.0, "range", "min"),
        _float_setting(sensor_ctx, settings, np.inf, "range", "max"),
    )
    noise_model = _noise_model(sensor_ctx, _nested_setting(settings, "noise"))
    noise_model.resolution = noise_model.resolution or _float_setting(sensor_ctx, settings, 0.0, "range", "resolution")
    output = SensorOutputRecord(
        "rays",
        0,
        frame,
        target_idx=link.link_idx,
        params=(min_range, min(max_range, MAX_RANGE)),
        noise_models=[noise_model],
    )
    return [
        make_ray_output(
            sensor_ctx, output, directions, ("inf", "visual" if sensor.kind.startswith("gpu") else "collision")
        )
    ]


def _navsat_outputs(sensor_ctx: SensorContext) -> list[SensorOutputRecord]:
    """Outputs of a satellite navigation receiver: position [m] and velocity [m/s], each east, north, up.

    The origin and the heading are those of the world's `<spherical_coordinates>`. Error models of the file: horizontal
    for east and north, vertical for up.
    """
    origin = _spherical_coordinates(sensor_ctx.description)
    outputs = make_navsat_outputs(sensor_ctx, origin)
    settings = sensor_ctx.sensor.settings
    settings = settings.get("navsat", settings.get("gps"))
    for output, channel in zip(outputs, ("position_sensing", "velocity_sensing"), strict=True):
        directions = ("horizontal", "horizontal", "vertical")
        output.noise_models = [
            _noise_model(sensor_ctx, _nested_setting(settings, channel, direction, "noise")) for direction in directions
        ]
    return outputs


def make_navsat_outputs(sensor_ctx: SensorContext, origin: tuple[float, ...]) -> list[SensorOutputRecord]:
    """Outputs `position` and `velocity` of a satellite navigation receiver, along east, north and up.

    Args:
        sensor_ctx: the sensor.
        origin: latitude and longitude [deg], elevation [m] and heading of the world's x axis from east [rad,
            counter-clockwise] of the world origin.
    """
    frame, _ = _mount_frame(sensor_ctx)
    east_north_up = AttachmentFrame(-1, Pose.from_rpy(np.zeros(3), np.array([0.0, 0.0, -origin[3]])))
    return [
        SensorOutputRecord(kind, 3, frame, east_north_up, params=origin, channel=channel)
        for kind, channel in (("framepos", "position"), ("framelinvel", "velocity"))
    ]


def _spherical_coordinates(description: Robot | World) -> tuple[float, ...]:
    """Latitude and longitude [deg], elevation [m] and heading [rad] of the world origin; zeros if not given."""
    text = next((extra.text for extra in description.extras if extra.tag == "spherical_coordinates"), "")

    def number(tag: str) -> float:
        match = re.search(rf"<{tag}>\s*([-+.\deE]+)\s*</{tag}>", text)
        return float(match[1]) if match else 0.0

    latitude, longitude, elevation = (number(tag) for tag in ("latitude_deg", "longitude_deg", "elevation"))
    return latitude, longitude, elevation, math.radians(number("heading_deg"))


def _unsupported_camera(sensor_ctx: SensorContext) -> list[SensorOutputRecord]:
    raise UnsupportedSensorError("images are read by scene.add_camera")


def _unsupported_sensor(sensor_ctx: SensorContext) -> list[SensorOutputRecord]:
    raise UnsupportedSensorError("its measurement is not supported")


SDF_OUTPUT_FACTORIES: dict[str, SensorOutputFactory] = {
    "imu": _imu_outputs,
    "magnetometer": _magnetometer_outputs,
    "altimeter": _altimeter_outputs,
    **dict.fromkeys(("gps", "navsat"), _navsat_outputs),
    "force_torque": _force_torque_outputs,
    "contact": _contact_outputs,
    **dict.fromkeys(("lidar", "ray", "gpu_lidar", "gpu_ray"), _lidar_outputs),
    **dict.fromkeys(
        (
            *("camera", "depth", "depth_camera", "multicamera", "rgbd", "rgbd_camera", "thermal", "thermal_camera"),
            *("boundingbox_camera", "segmentation_camera", "wide_angle_camera", "logical_camera"),
        ),
        _unsupported_camera,
    ),
    **dict.fromkeys(("air_pressure", "air_speed", "rfid", "rfidtag", "sonar"), _unsupported_sensor),
    **dict.fromkeys(("wireless_receiver", "wireless_transmitter", "custom", "none"), _unsupported_sensor),
}
"""Function that makes the outputs of a sensor, by SDFormat sensor type."""


def world_magnetic_field(description: Robot | World) -> tuple[float, ...] | None:
    """Magnetic field [T] of an SDFormat world (`<magnetic_field>`); None if its file has none."""
    for extra in description.extras:
        if extra.tag == "magnetic_field":
            numbers = re.findall(r"[-+.\deE]+", re.sub(r"<[^>]*>", " ", extra.text))
            if len(numbers) == 3:
                return tuple(float(number) for number in numbers)
    return None

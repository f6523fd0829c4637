"""Sensors, cameras and lights on links and joints, and named frames."""

from __future__ import annotations

import math

import numpy as np

from kinema.core import Pose, unique_name
from kinema.description import Assembly, Camera, Frame, Light, Sensor
from kinema.tokens import sdf

from ..xml_document import Element, format_number, format_numbers
from .context import (
    ModelNames,
    SdfContext,
    add_pose,
    bool_text,
    require_finite,
    setting_text,
    to_sdf_name,
    write_preserved,
)

_CAMERA_ROTATION = np.array([[0.0, 0.0, -1.0], [-1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
"""Rotation between camera conventions: SDFormat looks along x with z up, the description along -z with y up."""
_DEFAULT_RESOLUTION, _DEFAULT_CLIP = (320, 240), (0.1, 100.0)
SENSOR_TYPES = (
    *("air_pressure", "air_speed", "altimeter", "boundingbox_camera", "camera", "contact", "custom", "depth"),
    *("depth_camera", "force_torque", "gps", "gpu_lidar", "gpu_ray", "imu", "lidar", "logical_camera"),
    *("magnetometer", "multicamera", "navsat", "none", "ray", "rfid", "rfidtag", "rgbd", "rgbd_camera"),
    *("segmentation_camera", "sonar", "thermal", "thermal_camera", "wide_angle_camera", "wireless_receiver"),
    "wireless_transmitter",
)
"""Sensor types of SDFormat."""
_SIMPLE_SENSOR_SETTINGS = (*sdf.SENSOR_FLAGS, *sdf.SENSOR_STRINGS)
_SIMPLE_LIGHT_SETTINGS = (*sdf.LIGHT_PARAMETERS, *sdf.LIGHT_FLAGS, sdf.SPECULAR)


class MountedElementWriter:
    """Writer of sensors, cameras and lights on the links and joints of one model."""

    def __init__(self, ctx: SdfContext, links: dict[str, Element], joints: dict[str, Element]) -> None:
        self.ctx, self.links, self.joints = ctx, links, joints
        self.taken_names: dict[int, set[str]] = {}
        self.written_sensors: set[tuple[str, str]] = set()
        """Link and name of the sensors that are in the file."""

    def write(self, assembly: Assembly) -> None:
        """Write all sensors, cameras and lights of a robot."""
        for sensor in assembly.sensors:
            self._write_sensor(sensor)
        for camera in assembly.cameras:
            self._write_camera(camera)
        for light in assembly.lights:
            holder = None if light.link is None else self.links.get(light.link)
            if holder is None:
                self.ctx.report_dropped(light, "the light", "a model has lights on its links only")
            else:
                add_light(self.ctx, holder, light, self._unique_name(holder, light.name or "light"))

    def _unique_name(self, holder: Element, name: str) -> str:
        return unique_name(to_sdf_name(name), self.taken_names.setdefault(id(holder), set()))

    def _write_sensor(self, sensor: Sensor) -> None:
        """Write a sensor into its link or joint; reports unsupported types and settings."""
        holders = {"link": self.links, "joint": self.joints}.get(sensor.target_kind, {})
        holder = holders.get(sensor.target)
        if holder is None or sensor.kind not in SENSOR_TYPES:
            on = f"on a {sensor.target_kind or 'world'}"
            self.ctx.report_dropped(sensor, "the sensor", f'SDFormat has no sensor "{sensor.kind}" {on}')
            return
        name = self._unique_name(holder, sensor.name or "sensor")
        if sensor.name and name != sensor.name:
            self.ctx.report_approximated(sensor, "its name", f'it is called "{name}"')
        element = holder.add_child("sensor", name=name, type=sensor.kind)
        add_pose(element, sensor.pose, f'sensor "{sensor.name}"')
        if sensor.update_rate:
            element.add_child("update_rate", format_number(require_finite(sensor.update_rate, sensor.name, "rate")))
        verbatim = {e.tag for e in sensor.extras if e.format == sdf.FORMAT}
        lost = [key for key in sensor.settings if key not in _SIMPLE_SENSOR_SETTINGS and key not in verbatim]
        for key in _SIMPLE_SENSOR_SETTINGS:
            if key in sensor.settings:
                element.add_child(key, setting_text(sensor.settings[key]))
        lost += [name for name in ("noise", "cutoff", "reference") if getattr(sensor, name)]
        if lost:
            self.ctx.report_dropped(sensor, f"its settings {', '.join(lost)}")
        write_preserved(self.ctx, sensor, element)
        if sensor.target_kind == "link":
            self.written_sensors.add((sensor.target, sensor.name))

    def _write_camera(self, camera: Camera) -> None:
        """Write a camera as a camera sensor unless its sensor is already written."""
        if (camera.link or "", str(camera.settings.get(sdf.SENSOR, ""))) in self.written_sensors:
            return
        holder = None if camera.link is None else self.links.get(camera.link)
        if holder is None:
            self.ctx.report_dropped(camera, "the camera", "a model has cameras on its links only")
            return
        name = self._unique_name(holder, camera.name or "camera")
        if camera.name and name != camera.name:
            self.ctx.report_approximated(camera, "its name", f'it is called "{name}"')
        element = holder.add_child("sensor", name=name, type="camera")
        add_pose(element, camera.pose @ Pose(rotation=_CAMERA_ROTATION.T), f'camera "{camera.name}"')
        width, height = camera.resolution or _DEFAULT_RESOLUTION
        near, far = camera.clip or _DEFAULT_CLIP
        made = element.add_child("camera", name=name)
        half = math.tan(min(max(camera.vertical_fov, 1e-6), 3.1) / 2) * width / height
        made.add_child(sdf.HORIZONTAL_FOV, format_number(2 * math.atan(half)))
        image = made.add_child("image")
        image.add_child("width", str(int(width)))
        image.add_child("height", str(int(height)))
        clip = made.add_child("clip")
        clip.add_child("near", format_number(require_finite(near, camera.name, "near distance")))
        clip.add_child("far", format_number(require_finite(far, camera.name, "far distance")))
        guessed = [w for w, v in (("resolution", camera.resolution), ("clip distances", camera.clip)) if v is None]
        if guessed:
            self.ctx.report_approximated(
                camera, f"its {' and '.join(guessed)}", "they are those that the format assumes"
            )
        if camera.settings:
            self.ctx.report_dropped(camera, f"its settings {', '.join(camera.settings)}")
        write_preserved(self.ctx, camera, element)


def add_light(ctx: SdfContext, holder: Element, light: Light, name: str) -> None:
    """Append a `<light>` to a link or the world."""
    if light.name and name != light.name:
        ctx.report_approximated(light, "its name", f'it is called "{name}"')
    kind = light.kind
    if kind not in ("point", "directional", "spot"):
        ctx.report_approximated(light, f"its kind, {kind}", "it is a point light")
        kind = "point"
    element = holder.add_child("light", name=name, type=kind)
    add_pose(element, light.pose, f'light "{light.name}"')
    color = tuple(min(max(c, 0.0), 1.0) for c in light.color)
    if color != tuple(light.color):
        ctx.report_approximated(light, "its colour", f"{format_numbers(light.color)} is not from 0 to 1: it is cut off")
    element.add_child("diffuse", format_numbers((*color, 1.0)))
    element.add_child("cast_shadows", bool_text(light.casts_shadow))
    if kind != "point":
        element.add_child("direction", "0 0 -1")
    lost = []
    for key, value in light.settings.items():
        if key in _SIMPLE_LIGHT_SETTINGS:
            element.add_child(key, setting_text(value))
        elif key in sdf.LIGHT_ELEMENTS and isinstance(value, dict):
            made = element.add_child(key)
            for tag, number_ in value.items():
                made.add_child(tag, setting_text(number_))
        elif key != sdf.DIRECTION:  # it is in the pose
            lost.append(key)
    if kind == "spot" and "spot" not in light.settings:
        made = element.add_child("spot")
        made.add_child("inner_angle", "0")
        made.add_child("outer_angle", format_number(math.pi / 4))
        made.add_child("falloff", "0")
    if lost:
        ctx.report_dropped(light, f"its settings {', '.join(lost)}")
    write_preserved(ctx, light, element)


def add_frame(ctx: SdfContext, holder: Element, frame: Frame, name: str, names: ModelNames | None) -> None:
    """Append a `<frame>` to a model, or to the world if `names` is None."""
    attached = None
    if frame.link is not None:
        attached = None if names is None else names.links.written_names.get(frame.link)
        if attached is None:
            ctx.report_dropped(frame, "the frame", f'there is no link "{frame.link}"')
            return
    elif names is not None:
        ctx.report_approximated(frame, "that it is fixed in the world", "it is fixed to the model")
    element = holder.add_child("frame", name=name, attached_to=attached)
    add_pose(element, frame.pose, f'frame "{frame.name}"')
    unsaid = [w for w, v in (("its marker", frame.marker), ("its colour", frame.color)) if v is not None]
    if unsaid:
        ctx.report_dropped(frame, " and ".join(unsaid))
    write_preserved(ctx, frame, element, already_written=(sdf.SCOPE,))

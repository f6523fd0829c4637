"""What is mounted on links and joints: sensors, cameras, lights; and named frames."""

from __future__ import annotations

import math

import numpy as np

from kinema.description import Assembly, Camera, Frame, Light, Sensor
from kinema.foundation import Pose, unique_name
from kinema.words import sdf

from ..text import Element, number, numbers
from .extras import give_back
from .writing import Names, Writing, add_pose, finite, flag, plain_text, sdf_name

_CAMERA_TURN = np.array([[0.0, 0.0, -1.0], [-1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
"""SDFormat's cameras look along x with z up; the description's along -z with y up."""
_RESOLUTION, _CLIP = (320, 240), (0.1, 100.0)
SENSORS = (
    *("air_pressure", "air_speed", "altimeter", "boundingbox_camera", "camera", "contact", "custom", "depth"),
    *("depth_camera", "force_torque", "gps", "gpu_lidar", "gpu_ray", "imu", "lidar", "logical_camera"),
    *("magnetometer", "multicamera", "navsat", "none", "ray", "rfid", "rfidtag", "rgbd", "rgbd_camera"),
    *("segmentation_camera", "sonar", "thermal", "thermal_camera", "wide_angle_camera", "wireless_receiver"),
    "wireless_transmitter",
)
"""The format's own kinds of sensors."""
_SENSOR_SIMPLE = (*sdf.SENSOR_FLAGS, *sdf.SENSOR_TEXTS)
_LIGHT_SIMPLE = (*sdf.LIGHT_NUMBERS, *sdf.LIGHT_FLAGS, sdf.SPECULAR)


class Mounted:
    """Writes what is mounted on the links and joints of one model, whose elements are known."""

    def __init__(self, writing: Writing, links: dict[str, Element], joints: dict[str, Element]) -> None:
        self.writing, self.links, self.joints = writing, links, joints
        self.taken: dict[int, set[str]] = {}
        self.sensors: set[tuple[str, str]] = set()
        """Link and name of the sensors that are in the file."""

    def add(self, assembly: Assembly) -> None:
        """Everything of a robot."""
        for sensor in assembly.sensors:
            self._sensor(sensor)
        for camera in assembly.cameras:
            self._camera(camera)
        for light in assembly.lights:
            holder = None if light.link is None else self.links.get(light.link)
            if holder is None:
                self.writing.drop(light, "the light", "a model has lights on its links only")
            else:
                add_light(self.writing, holder, light, self._name(holder, light.name or "light"))

    def _name(self, holder: Element, name: str) -> str:
        return unique_name(sdf_name(name), self.taken.setdefault(id(holder), set()))

    def _sensor(self, sensor: Sensor) -> None:
        holders = {"link": self.links, "joint": self.joints}.get(sensor.target_kind, {})
        holder = holders.get(sensor.target)
        if holder is None or sensor.kind not in SENSORS:
            on = f"on a {sensor.target_kind or 'world'}"
            self.writing.drop(sensor, "the sensor", f'SDFormat has no sensor "{sensor.kind}" {on}')
            return
        name = self._name(holder, sensor.name or "sensor")
        if sensor.name and name != sensor.name:
            self.writing.approximate(sensor, "its name", f'it is called "{name}"')
        element = holder.child("sensor", name=name, type=sensor.kind)
        add_pose(element, sensor.pose, f'sensor "{sensor.name}"')
        if sensor.update_rate:
            element.child("update_rate", number(finite(sensor.update_rate, sensor.name, "rate")))
        verbatim = {e.tag for e in sensor.extras if e.format == sdf.FORMAT}
        lost = [key for key in sensor.settings if key not in _SENSOR_SIMPLE and key not in verbatim]
        for key in _SENSOR_SIMPLE:
            if key in sensor.settings:
                element.child(key, plain_text(sensor.settings[key]))
        lost += [name for name in ("noise", "cutoff", "reference") if getattr(sensor, name)]
        if lost:
            self.writing.drop(sensor, f"its settings {', '.join(lost)}")
        give_back(self.writing, sensor, element)
        if sensor.target_kind == "link":
            self.sensors.add((sensor.target, sensor.name))

    def _camera(self, camera: Camera) -> None:
        """A camera is a sensor, or part of one that is there already."""
        if (camera.link or "", str(camera.settings.get(sdf.SENSOR, ""))) in self.sensors:
            return
        holder = None if camera.link is None else self.links.get(camera.link)
        if holder is None:
            self.writing.drop(camera, "the camera", "a model has cameras on its links only")
            return
        name = self._name(holder, camera.name or "camera")
        if camera.name and name != camera.name:
            self.writing.approximate(camera, "its name", f'it is called "{name}"')
        element = holder.child("sensor", name=name, type="camera")
        add_pose(element, camera.pose @ Pose(rotation=_CAMERA_TURN.T), f'camera "{camera.name}"')
        width, height = camera.resolution or _RESOLUTION
        near, far = camera.clip or _CLIP
        made = element.child("camera", name=name)
        half = math.tan(min(max(camera.vertical_fov, 1e-6), 3.1) / 2) * width / height
        made.child(sdf.HORIZONTAL_FOV, number(2 * math.atan(half)))
        image = made.child("image")
        image.child("width", str(int(width)))
        image.child("height", str(int(height)))
        clip = made.child("clip")
        clip.child("near", number(finite(near, camera.name, "near distance")))
        clip.child("far", number(finite(far, camera.name, "far distance")))
        guessed = [w for w, v in (("resolution", camera.resolution), ("clip distances", camera.clip)) if v is None]
        if guessed:
            self.writing.approximate(camera, f"its {' and '.join(guessed)}", "they are those that the format assumes")
        if camera.settings:
            self.writing.drop(camera, f"its settings {', '.join(camera.settings)}")
        give_back(self.writing, camera, element)


def add_light(writing: Writing, holder: Element, light: Light, name: str) -> None:
    """A `<light>` of a link or the world."""
    if light.name and name != light.name:
        writing.approximate(light, "its name", f'it is called "{name}"')
    kind = light.kind
    if kind not in ("point", "directional", "spot"):
        writing.approximate(light, f"its kind, {kind}", "it is a point light")
        kind = "point"
    element = holder.child("light", name=name, type=kind)
    add_pose(element, light.pose, f'light "{light.name}"')
    color = tuple(min(max(c, 0.0), 1.0) for c in light.color)
    if color != tuple(light.color):
        writing.approximate(light, "its colour", f"{numbers(light.color)} is not from 0 to 1: it is cut off")
    element.child("diffuse", numbers((*color, 1.0)))
    element.child("cast_shadows", flag(light.casts_shadow))
    if kind != "point":
        element.child("direction", "0 0 -1")
    lost = []
    for key, value in light.settings.items():
        if key in _LIGHT_SIMPLE:
            element.child(key, plain_text(value))
        elif key in sdf.LIGHT_PARTS and isinstance(value, dict):
            made = element.child(key)
            for tag, number_ in value.items():
                made.child(tag, plain_text(number_))
        elif key != sdf.DIRECTION:  # it is in the pose
            lost.append(key)
    if kind == "spot" and "spot" not in light.settings:
        made = element.child("spot")
        made.child("inner_angle", "0")
        made.child("outer_angle", number(math.pi / 4))
        made.child("falloff", "0")
    if lost:
        writing.drop(light, f"its settings {', '.join(lost)}")
    give_back(writing, light, element)


def add_frame(writing: Writing, holder: Element, frame: Frame, name: str, names: Names | None) -> None:
    """A `<frame>` of a model, or of the world where there are no names of links."""
    attached = None
    if frame.link is not None:
        attached = None if names is None else names.links.given.get(frame.link)
        if attached is None:
            writing.drop(frame, "the frame", f'there is no link "{frame.link}"')
            return
    elif names is not None:
        writing.approximate(frame, "that it is fixed in the world", "it is fixed to the model")
    element = holder.child("frame", name=name, attached_to=attached)
    add_pose(element, frame.pose, f'frame "{frame.name}"')
    unsaid = [w for w, v in (("its marker", frame.marker), ("its colour", frame.color)) if v is not None]
    if unsaid:
        writing.drop(frame, " and ".join(unsaid))
    give_back(writing, frame, element, said=(sdf.SCOPE,))

"""Sensors for `Scene.add_sensor`: IMU, force, contact, touch, tactile, rays, frame, joint, magnetometer, GPS.

Example: `scene.add_sensor(km.Imu(link=arm.get_link("hand"), pos=(0, 0, 0.05), noise=0.01))`. Units are SI: m, rad, m/s,
rad/s, m/s², N, N m, T. Quaternions are (w, x, y, z). *Sensor axes* are those of `quat` or `euler` on the link.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kinema.builder import COLLISION_ONLY, CONTACT_FIELDS, CONTACT_REDUCTIONS, VOLUME, AddedSensor, scan_directions
from kinema.core import ArrayLike, KinemaError
from kinema.description import TAXELS, Sensor
from kinema.tokens import mjcf

from .arguments import (
    as_array,
    finite_float,
    finite_vector,
    nonnegative_float,
    one_of,
    pose_from_arguments,
    positive_int,
)
from .element_selection import HasEntities, entity_named, select_joint, select_link, select_shape
from .morphs import Morph
from .sensors import ERROR_PARAMETERS, error_parameter

WORLD_KIND = "world"
"""Kind of a target that is fixed in the world."""
ElementReference = tuple[int, str, str]
"""Entity, kind (`link`, `shape`, `joint`, `world`) and name of the element that a sensor measures or refers to."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SensorType(ABC):
    """Base class of the sensors of `Scene.add_sensor`, with their mounting and error model.

    A value of the error model is one number, or numbers by component: `noise={"angular_velocity": 0.01}`.
    """

    kind: ClassVar[str] = ""
    """Sensor type, also the default name."""
    link: Any = None
    """Link that carries the sensor: a handle, (entity, name or index), or a name that no other entity has; -1 for the
    world. None for the base link of `entity`, or the world without an entity."""
    entity: Any = None
    """Entity of `link`, if that is a name or index within it."""
    pos: ArrayLike = (0.0, 0.0, 0.0)
    """Position on the link, or in the world [m], (3,)."""
    quat: ArrayLike | None = None
    """Orientation on the link (w, x, y, z); None for the identity."""
    euler: ArrayLike | None = None
    """Orientation as angles about the fixed x, then y, then z axis [rad], instead of `quat`."""
    name: str = ""
    """Name in `scene.sensors`; a number is appended if it is taken. Empty for the sensor type."""
    noise: float | ArrayLike | Mapping[str, Any] = 0.0
    """Standard deviation of the Gaussian noise, drawn at each measurement."""
    bias: float | ArrayLike | Mapping[str, Any] = 0.0
    """Constant offset."""
    bias_std: float | ArrayLike | Mapping[str, Any] = 0.0
    """Standard deviation of the offset between environments."""
    resolution: float | ArrayLike | Mapping[str, Any] = 0.0
    """Quantization step; 0 for none."""
    rate: float = 0.0
    """Sampling rate [Hz]; 0 for every step."""
    delay: float = 0.0
    """Delay of the readings [s]."""

    @abstractmethod
    def components(self, scene: HasEntities) -> tuple[ElementReference, Mapping[str, Sensor]]:
        """Reference element, and measured quantities by component; an empty component name for a single quantity."""

    def resolve(self, scene: HasEntities) -> AddedSensor:
        """Sensor for the builder, with links, joints and shapes looked up; `KinemaError` if one is unknown."""
        (reference_entity, _, _), components = self.components(scene)
        entity = self._target(scene)[0]
        self._check_error_model(components)
        name = self.name or self.kind
        return AddedSensor(
            kind=self.kind, name=name, entity=entity, reference_entity=reference_entity, components=components
        )

    def error_model(self) -> dict[str | None, dict[str, Any]]:
        """Error parameters that are not zero, by component (None for all), for `Sensor.set_error_model`."""
        result: dict[str | None, dict[str, Any]] = {}
        for name in ERROR_PARAMETERS:
            value = getattr(self, name)
            values = value if isinstance(value, Mapping) else {None: value}
            for component, number in values.items():
                if np.any(number):
                    result.setdefault(component, {})[name] = number
        return result

    def _check_error_model(self, components: Mapping[str, Sensor]) -> None:
        """Raise `KinemaError` if the error model names an unknown component, or has values out of range."""
        label = type(self).__name__
        for component, parameters in self.error_model().items():
            for parameter, value in parameters.items():
                if component is not None and component not in components:
                    known = ", ".join(components) or "no components"
                    raise KinemaError(f"{label}: {parameter}: there is no component {component!r}; there are: {known}")
                error_parameter(parameter, value, f"{label}: {parameter}")

    @property
    def _label(self) -> str:
        return f"{type(self).__name__}: link"

    def _target(self, scene: HasEntities) -> ElementReference:
        """Entity, kind and name of the element that carries the sensor."""
        link = self.link
        if self.entity is not None:
            entity = (
                entity_named(scene, self.entity, f"{type(self).__name__}: entity")
                if isinstance(self.entity, str)
                else self.entity
            )
            link = (entity, entity.base_link.idx if link is None else link)
        return _link_reference(scene, link, self._label)

    def _sensor(self, scene: HasEntities, kind: str, **settings: Any) -> Sensor:
        """Measured quantity of a kind at the mounting pose, with settings of its format."""
        _, target_kind, target = self._target(scene)
        pose = pose_from_arguments(self.pos, self.quat, self.euler)
        return Sensor(kind=kind, target_kind=target_kind, target=target, pose=pose, settings=settings)


def _link_reference(scene: HasEntities, link: Any, label: str) -> ElementReference:
    """Entity, kind and name of a link, or of the world for None and -1."""
    found = None if link is None else select_link(scene, link, label)
    if found is None:
        return 0, WORLD_KIND, ""
    entity, idx = found
    return scene.entities.index(entity), "link", entity.links[idx].name


NO_REFERENCE: ElementReference = (0, "", "")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Imu(SensorType):
    """Inertial measurement unit: gyroscope, accelerometer and orientation.

    Components: `orientation` (4) in the world, `angular_velocity` (3) [rad/s] and `linear_acceleration` (3) [m/s²], the
    proper acceleration (9.81 upwards at rest), both along the sensor axes.
    """

    kind: ClassVar[str] = "imu"

    def components(self, scene: HasEntities) -> tuple[ElementReference, Mapping[str, Sensor]]:
        """Orientation, angular velocity and proper acceleration."""
        kinds = {"orientation": "framequat", "angular_velocity": "gyro", "linear_acceleration": "accelerometer"}
        return NO_REFERENCE, {name: self._sensor(scene, kind) for name, kind in kinds.items()}


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ForceTorque(SensorType):
    """Force-torque sensor: wrench between a link and its parent, at the sensor's position and along its axes.

    Components: `force` (3) [N] and `torque` (3) [N m] of the link and its subtree on the parent; contact, constraint,
    tendon and external forces on the subtree are included in the load.
    """

    kind: ClassVar[str] = "force_torque"

    def components(self, scene: HasEntities) -> tuple[ElementReference, Mapping[str, Sensor]]:
        """Force and torque."""
        if self._target(scene)[1] == WORLD_KIND:
            raise KinemaError("ForceTorque: the link that carries the sensor is missing")
        return NO_REFERENCE, {name: self._sensor(scene, name) for name in ("force", "torque")}


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TouchSensor(SensorType):
    """Touch sensor: sum of the normal forces [N], (1,), of the link's contacts inside a volume, as in MuJoCo."""

    kind: ClassVar[str] = "touch"
    volume: Morph | None = None
    """Volume centred at the sensor: `km.Box`, `Sphere`, `Capsule`, `Cylinder` or `Ellipsoid`."""

    def components(self, scene: HasEntities) -> tuple[ElementReference, Mapping[str, Sensor]]:
        """Normal force."""
        if not isinstance(self.volume, Morph):
            raise KinemaError(f"TouchSensor: volume: expected a body such as km.Sphere(0.02), not {self.volume!r}")
        return NO_REFERENCE, {"": self._sensor(scene, "touch", **{VOLUME: self.volume.geometry(np.ones(3))})}


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TactileSensor(SensorType):
    """Tactile sensor: penetration depths and sliding speeds at points of a link (taxels), as MuJoCo's `tactile`.

    Components: `depth` (n) [m], in the geoms of other bodies that are in contact with the body of the link; with
    `normals` also `slip_1` and `slip_2` (n) [m/s], speeds of the link on these geoms along two directions perpendicular
    to the normal and to each other, else 0. Planes, spheres, capsules, ellipsoids, cylinders and boxes are felt.
    """

    kind: ClassVar[str] = "tactile"
    points: ArrayLike = ()
    """Positions of the taxels along the sensor axes [m], (n, 3)."""
    normals: ArrayLike | None = None
    """Outward normals of the surface at the taxels, (n, 3) or (3,) for all of them; None for depths alone."""

    def components(self, scene: HasEntities) -> tuple[ElementReference, Mapping[str, Sensor]]:
        """Sensor description of all taxels (depths, and sliding speeds with normals), without reference element."""
        if self._target(scene)[1] == WORLD_KIND:
            raise KinemaError("TactileSensor: the link that carries the sensor is missing")
        columns = [_finite_rows(self.points, "points")]
        if self.normals is not None:
            rows = _finite_rows(self.normals, "normals")
            if len(rows) not in (1, len(columns[0])):
                raise KinemaError(f"TactileSensor: normals: expected (3,) or {columns[0].shape}, not {rows.shape}")
            normals = np.broadcast_to(rows, columns[0].shape)
            lengths = np.linalg.norm(normals, axis=1, keepdims=True)
            if not lengths.all():
                raise KinemaError("TactileSensor: normals: expected normals that are not zero")
            aside = np.eye(3)[np.abs(normals).argmin(axis=1)]
            first = np.cross(normals, aside)
            first /= np.linalg.norm(first, axis=1, keepdims=True)
            columns += [first, np.cross(normals / lengths, first)]
        taxels = np.concatenate(columns, axis=1)
        settings = {mjcf.DIM: 3 * len(taxels), TAXELS: tuple(taxels.ravel().tolist())}
        return NO_REFERENCE, {"": self._sensor(scene, "tactile", **settings)}


def _finite_rows(values: ArrayLike, name: str) -> np.ndarray:
    """Validated vectors, (n, 3), at least one."""
    rows = np.atleast_2d(as_array(values, np.float64, f"TactileSensor: {name}"))
    if rows.ndim != 2 or rows.shape[1] != 3 or not np.isfinite(rows).all():
        raise KinemaError(f"TactileSensor: {name}: expected finite vectors (n, 3), not {rows.shape}")
    return rows


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ContactSensor(SensorType):
    """Contacts of a link or shape, with everything or with one other link or shape; MuJoCo's contact sensor.

    Components (with `num=1`) are the fields: `found` (1), number of contacts; `force` and `torque` (3) [N, N m], on the
    other object, in the contact frame (normal first), with `netforce` in world axes; `dist` (1) [m], negative for
    penetration; `pos`, `normal` (towards the other object) and `tangent` (3) in world axes. All are 0 without contacts.
    """

    kind: ClassVar[str] = "contact"
    shape: Any = None
    """Shape instead of the link: (entity, name), or a name that no other entity has."""
    other: Any = None
    """Other link; -1 for the world, None for everything."""
    other_shape: Any = None
    """Other shape instead of the other link."""
    fields: Sequence[str] = ("found", "force")
    """Fields, in MuJoCo's order."""
    reduce: str = "netforce"
    """`netforce` for the sum, or the order of the contacts that are returned: `mindist` (smallest distance first),
    `maxforce` (largest force first), `none` (in MuJoCo's order of geoms)."""
    num: int = 1
    """Number of contacts that are returned; one after the other, zeros if there are fewer."""
    subtree: bool = False
    """Whether contacts of the link's descendants are included."""

    def components(self, scene: HasEntities) -> tuple[ElementReference, Mapping[str, Sensor]]:
        """Reference element (other link or shape) and one sensor description with the selected contact fields."""
        for name in self.fields:
            one_of(name, "ContactSensor: fields", CONTACT_FIELDS)
        reduction = CONTACT_REDUCTIONS.index(one_of(self.reduce, "ContactSensor: reduce", CONTACT_REDUCTIONS))
        mask = sum(1 << i for i, name in enumerate(CONTACT_FIELDS) if name in self.fields)
        reference = NO_REFERENCE
        if self.other_shape is not None:
            reference = _shape_reference(scene, self.other_shape, "ContactSensor: other_shape")
        elif self.other is not None:
            reference = _link_reference(scene, self.other, "ContactSensor: other")
        settings = {mjcf.INTPRM: (mask, reduction, positive_int(self.num, "ContactSensor: num", "contact"))}
        sensor = self._sensor(scene, "contact", **settings, **{mjcf.OBJTYPE: mjcf.XBODY if self.subtree else mjcf.BODY})
        sensor.settings[mjcf.DIM] = 0
        _, sensor.reference_kind, sensor.reference = reference
        return reference, {"": sensor}

    def _target(self, scene: HasEntities) -> ElementReference:
        return _shape_or_link(self, scene)


def _shape_or_link(sensor: ContactSensor | DistanceSensor, scene: HasEntities) -> ElementReference:
    """Shape of a sensor if it has one, else its link."""
    if sensor.shape is not None:
        return _shape_reference(scene, sensor.shape, f"{type(sensor).__name__}: shape")
    return SensorType._target(sensor, scene)


def _shape_reference(scene: HasEntities, shape: Any, label: str) -> ElementReference:
    entity, name = select_shape(scene, shape, label)
    return scene.entities.index(entity), "shape", name


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class DistanceSensor(SensorType):
    """Distance between the collision shapes of two links, or two shapes, whether or not they may collide.

    Components: `distance` (1) [m], negative for penetration; `normal` (3), unit vector from the first to the second
    closest point; `fromto` (6), the closest points on both [m], in world axes. Beyond `max_distance` the distance is
    `max_distance`, the others are 0.
    """

    kind: ClassVar[str] = "distance"
    shape: Any = None
    """Shape instead of the link: (entity, name), or a name that no other entity has."""
    other: Any = None
    """Other link; -1 or None for the world."""
    other_shape: Any = None
    """Other shape instead of the other link."""
    max_distance: float = 100.0
    """Distance beyond which nothing is measured [m]."""

    def components(self, scene: HasEntities) -> tuple[ElementReference, Mapping[str, Sensor]]:
        """Reference element (other link or shape) and sensor descriptions of distance, normal and segment, by name."""
        reference = (
            _link_reference(scene, self.other, "DistanceSensor: other")
            if self.other_shape is None
            else _shape_reference(scene, self.other_shape, "DistanceSensor: other_shape")
        )
        cutoff = nonnegative_float(self.max_distance, "DistanceSensor: max_distance")
        names = ("distance", "normal", "fromto")
        result = {name: self._sensor(scene, name, **{COLLISION_ONLY: True}) for name in names}
        for sensor in result.values():
            sensor.cutoff = cutoff
            _, sensor.reference_kind, sensor.reference = reference
        return reference, result

    def _target(self, scene: HasEntities) -> ElementReference:
        return _shape_or_link(self, scene)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RayFan(SensorType):
    """Distances along rays [m], (n_rays,): `inf` beyond the range, `-inf` below it.

    Rays leave the position of the sensor. Shapes of the sensor's own link are not hit. A single ray along x is a
    rangefinder, `RayFan(n_rays=1)`.
    """

    kind: ClassVar[str] = "ray_fan"
    n_rays: int = 1
    """Number of rays, evenly over the angle."""
    angle: float = math.pi / 2
    """Angle of the fan in the xy plane of the sensor, centred at x [rad]; rays follow from right to left."""
    directions: ArrayLike | None = None
    """Directions of the rays along the sensor axes, (n, 3), instead of a fan."""
    range: tuple[float, float] = (0.0, math.inf)
    """Smallest and largest distance [m]."""
    hits: str = "all"
    """Shapes that rays hit: `visual`, `collision` or `all`."""

    def components(self, scene: HasEntities) -> tuple[ElementReference, Mapping[str, Sensor]]:
        """Distances."""
        return NO_REFERENCE, {"": _ranges(self, scene, self._unit_directions())}

    def _unit_directions(self) -> np.ndarray:
        """Unit direction of each ray along the sensor axes, (n_rays, 3)."""
        if self.directions is None:
            count, half = (
                positive_int(self.n_rays, "RayFan: n_rays", "ray"),
                finite_float(self.angle, "RayFan: angle") / 2,
            )
            return scan_directions(np.linspace(-half, half, count) if count > 1 else np.zeros(1), np.zeros(1))
        rays = np.atleast_2d(as_array(self.directions, np.float64, "RayFan: directions"))
        lengths = np.linalg.norm(rays, axis=-1, keepdims=True)
        if rays.ndim != 2 or rays.shape[1] != 3 or not (np.isfinite(lengths).all() and (lengths > 0.0).all()):
            raise KinemaError("RayFan: directions: expected directions (n, 3) that are not zero")
        return rays / lengths


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Lidar(SensorType):
    """Lidar: distances along a grid of rays [m], row by row upwards, each from right to left; misses as `RayFan`."""

    kind: ClassVar[str] = "lidar"
    n_rays: int = 360
    """Rays per row."""
    angle: float = 2 * math.pi * 359 / 360
    """Horizontal angle, centred at x [rad]."""
    n_rows: int = 1
    """Number of rows."""
    rows_angle: float = 0.0
    """Vertical angle between the lowest and highest row, centred at the xy plane [rad]."""
    range: tuple[float, float] = (0.0, math.inf)
    """Smallest and largest distance [m]."""
    hits: str = "all"
    """Shapes that rays hit: `visual`, `collision` or `all`."""

    def components(self, scene: HasEntities) -> tuple[ElementReference, Mapping[str, Sensor]]:
        """Distances."""
        counts = (positive_int(self.n_rays, "Lidar: n_rays", "ray"), positive_int(self.n_rows, "Lidar: n_rows", "row"))
        angles = (finite_float(self.angle, "Lidar: angle"), finite_float(self.rows_angle, "Lidar: rows_angle"))
        azimuths, elevations = (
            np.linspace(-angle / 2, angle / 2, n) if n > 1 else np.zeros(1)
            for n, angle in zip(counts, angles, strict=True)
        )
        return NO_REFERENCE, {"": _ranges(self, scene, scan_directions(azimuths, elevations))}


def _ranges(sensor: RayFan | Lidar, scene: HasEntities, directions: np.ndarray) -> Sensor:
    """Measured quantity of the distances along unit directions in sensor axes, (n, 3)."""
    label = type(sensor).__name__
    interval = as_array(sensor.range, np.float64, f"{label}: range")
    lower, upper = interval.tolist() if interval.shape == (2,) else (math.nan, math.nan)
    if not 0.0 <= lower < upper:
        raise KinemaError(f"{label}: range: expected 0 <= lower < upper, not {sensor.range!r}")
    hits = one_of(sensor.hits, f"{label}: hits", ("all", "visual", "collision"))
    settings = {"hits": () if hits == "all" else (hits,)}
    return sensor._sensor(scene, "ranges", directions=directions, range=(lower, upper), **settings)


FRAME_QUANTITIES = {
    "pos": "framepos",
    "quat": "framequat",
    "vel": "framelinvel",
    "ang": "frameangvel",
    "acc": "framelinacc",
    "acc_ang": "frameangacc",
}
"""Components of a frame sensor, and MuJoCo's sensor types."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class FrameSensor(SensorType):
    """Pose, velocity and acceleration of a frame on a link, along the world axes or relative to another link.

    Components: `pos` (3) [m], `quat` (4), `vel` (3) [m/s], `ang` (3) [rad/s], `acc` (3) [m/s²], the proper acceleration
    (gravity included), `acc_ang` (3) [rad/s²]. Accelerations are always along the world axes.
    """

    kind: ClassVar[str] = "frame"
    quantities: Sequence[str] = ("pos", "quat", "vel", "ang")
    """Components that are measured, in this order."""
    relative_to: Any = None
    """Link whose moving frame positions, orientations and velocities refer to; None for the world."""

    def components(self, scene: HasEntities) -> tuple[ElementReference, Mapping[str, Sensor]]:
        """Reference element (`relative_to`) and sensor descriptions of the selected quantities, by component."""
        reference = NO_REFERENCE
        if self.relative_to is not None:
            reference = _link_reference(scene, self.relative_to, "FrameSensor: relative_to")
        result = {}
        for name in self.quantities:
            kind = FRAME_QUANTITIES[one_of(name, "FrameSensor: quantities", FRAME_QUANTITIES)]
            sensor = result[name] = self._sensor(scene, kind)
            if not name.startswith("acc"):
                _, sensor.reference_kind, sensor.reference = reference
        return reference, result


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class JointSensor(SensorType):
    """Joint sensor: `position` (1) [rad, m], `velocity` (1) and actuator `force` on the joint (1).

    A ball joint has `position` (4), a quaternion, and `velocity` (3) along the axes of the child link.
    """

    kind: ClassVar[str] = "joint"
    joint: Any = None
    """Joint: a handle, (entity, name), or a name that no other entity has."""

    def components(self, scene: HasEntities) -> tuple[ElementReference, Mapping[str, Sensor]]:
        """Position, velocity and actuator force."""
        joint = select_joint(scene, self.joint, "JointSensor: joint")
        if joint.n_dofs not in (1, 3):
            raise KinemaError(f'JointSensor: the joint "{joint.name}" has {joint.n_dofs} dofs; use km.FrameSensor')
        kinds = {"position": "jointpos", "velocity": "jointvel", "force": "jointactuatorfrc"}
        if joint.n_dofs == 3:
            kinds = {"position": "ballquat", "velocity": "ballangvel"}
        return NO_REFERENCE, {name: self._sensor(scene, kind) for name, kind in kinds.items()}

    def _target(self, scene: HasEntities) -> ElementReference:
        joint = select_joint(scene, self.joint, "JointSensor: joint")
        return scene.entities.index(joint.entity), "joint", joint.name


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Magnetometer(SensorType):
    """Magnetometer: magnetic field of the world along the sensor axes [T], (3,).

    The field is that of the first file that sets it, else MuJoCo's default (0, -0.5, 0).
    """

    kind: ClassVar[str] = "magnetometer"

    def components(self, scene: HasEntities) -> tuple[ElementReference, Mapping[str, Sensor]]:
        """Magnetic field."""
        return NO_REFERENCE, {"": self._sensor(scene, "magnetometer")}


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Altimeter(SensorType):
    """Altimeter: `vertical_position` (1), height above the world origin [m], and `vertical_velocity` (1) [m/s]."""

    kind: ClassVar[str] = "altimeter"

    def components(self, scene: HasEntities) -> tuple[ElementReference, Mapping[str, Sensor]]:
        """Height and vertical velocity."""
        return NO_REFERENCE, {"": self._sensor(scene, "altimeter")}


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Gps(SensorType):
    """Satellite navigation receiver: `position` (3) [m] and `velocity` (3) [m/s] along east, north and up.

    `scene.sensors[name].read_geodetic()` converts the position to latitude, longitude [deg] and height [m] (WGS 84).
    """

    kind: ClassVar[str] = "gps"
    origin: ArrayLike = (0.0, 0.0, 0.0)
    """Latitude and longitude [deg] and height [m] of the world origin, (3,)."""
    heading: float = 0.0
    """Angle of the world's x axis from east, counter-clockwise [rad]."""

    def components(self, scene: HasEntities) -> tuple[ElementReference, Mapping[str, Sensor]]:
        """Position and velocity."""
        origin = finite_vector(self.origin, "Gps: origin", "three")
        if abs(origin[0]) > 90.0:
            raise KinemaError(f"Gps: origin: the latitude is between -90 and 90 degrees, not {origin[0]:g}")
        origin = (*origin.tolist(), finite_float(self.heading, "Gps: heading"))
        return NO_REFERENCE, {"": self._sensor(scene, "navsat of scene", origin=origin)}

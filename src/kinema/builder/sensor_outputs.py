"""Outputs of MJCF sensors: the quantity that each sensor type measures, and the frames and links that it refers to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kinema.core import Array, Pose, determinant3, sine_cosine, symmetric_eigen
from kinema.description import (
    TAXELS,
    Box,
    Camera,
    Capsule,
    Cylinder,
    Ellipsoid,
    Frame,
    Geometry,
    Link,
    Mesh,
    Robot,
    Sensor,
    Shape,
    Sphere,
    Tendon,
    Transmission,
    World,
)
from kinema.model import CONTROL_INPUTS, SENSOR_KINDS, ActuatorsInfo, SensorTarget
from kinema.tokens import mjcf

from .actuators import INPUT_ROW
from .context import AttachmentFrame, BuildContext, LinkRecord, all_elements, find_joint
from .distance_geoms import DistanceGeoms
from .paths import tendon_path_idx
from .tendons import fixed_tendon_moment

# ------------------------------------------------------------------------------------------ outputs and sensor context

WORLD_FRAME = AttachmentFrame(-1, Pose())
COLLISION_ONLY = "collision_only"
"""Setting of a distance sensor added to a scene: only shapes that collide are measured."""


@dataclass(slots=True, eq=False)
class NoiseModel:
    """Error model of a sensor value: Gaussian noise, constant random bias and quantisation."""

    noise: float = 0.0
    """Standard deviation of the noise."""
    bias_mean: float = 0.0
    bias_std: float = 0.0
    """Mean and standard deviation of the bias, which is constant over time."""
    resolution: float = 0.0
    """Quantisation step; 0 for none."""


@dataclass(slots=True, eq=False)
class SensorOutputRecord:
    """One measured quantity of a sensor: the content of a row of `SensorOutputsInfo`."""

    kind: str
    """Measured quantity: a name of `SENSOR_KINDS` or `dynamics/sensors/registry.py`."""
    dim: int
    """Number of values."""
    frame: AttachmentFrame = WORLD_FRAME
    """Frame of the measured object."""
    reference_frame: AttachmentFrame | None = None
    """Frame that the measurement is relative to; None for the world."""
    target_idx: int = -1
    """Joint coordinate, dof, actuator, tendon, path or link that is measured; -1 for none."""
    params: tuple[float, ...] = ()
    """Numeric parameters of the kind."""
    options: tuple[str, ...] = ()
    """String parameters of the kind, which select the generated code."""
    contact_filters: tuple[str, ...] = ()
    """Which contacts are measured, per side (see `SensorOutputsInfo.contact_filters`)."""
    positive: bool = False
    """Whether values are never negative."""
    channel: str = ""
    """Public name, for sensors with several outputs."""
    fields: tuple[tuple[str, int], ...] = ()
    """Public names and numbers of values of the parts of the output, if it has several."""
    noise_models: Sequence[NoiseModel] = ()
    """Error model per value, or one for all values."""


@dataclass(slots=True, eq=False)
class ResolvedFrame:
    """Attachment frame of a sensor target, with its link."""

    attachment: AttachmentFrame
    link: LinkRecord | None
    """None for the world."""
    approximation_note: str = ""
    """How the frame differs from that of the file; empty if it does not."""

    @property
    def link_idx(self) -> int:
        """Index of the link; -1 for the world."""
        return -1 if self.link is None else self.link.index


@dataclass(slots=True, eq=False)
class SensorContext:
    """A sensor to be built, and lookup of the elements that it refers to."""

    build: BuildContext
    entity: int
    sensor: Sensor
    actuators: ActuatorsInfo
    actuator_entities: list[int]
    """Entity index of each row of `actuators`."""
    ray_directions: list[Array] = field(default_factory=list)
    """Ray directions of all ray outputs so far, (n, 3) each; shared by all sensors of a build."""
    distance_geoms: DistanceGeoms = field(default_factory=DistanceGeoms)
    """Geoms of all distance sensors so far; shared by all sensors of a build."""
    reference_entity: int | None = None
    """Entity of the reference element; None for that of the sensor."""

    @property
    def description(self) -> Robot | World:
        """Description (robot or world) that the sensor belongs to."""
        return self.build.entities[self.entity].description

    def find_element(self, collection: str, name: str) -> tuple[object, Robot | World] | None:
        """Element of a collection (`frames`, `cameras`, `links`, ...) by name, and its owner; None if not found."""
        description = self.description
        owners = [description, *(description.robots if isinstance(description, World) else [])]
        for owner in owners:
            for element in getattr(owner, collection, ()):
                if element.name == name:
                    return element, owner
        return None

    def find_link(self, name: str, owner: Robot | World | None = None) -> LinkRecord | None:
        """Link record by name, preferably of the robot `owner`; None if not found."""
        candidates = [
            link
            for link in self.build.links
            if link.entity == self.entity and name in (link.description.name, link.name)
        ]
        return next((link for link in candidates if link.robot is owner), candidates[0] if candidates else None)

    def target_frame(self) -> ResolvedFrame | None:
        """Frame of the measured object (MuJoCo's `obj`), at the pose of the sensor on a link; None if not found."""
        sensor = self.sensor
        frame = self.resolve_frame(sensor.target_kind, sensor.target, str(sensor.settings.get(mjcf.OBJTYPE, "")))
        if frame is not None and sensor.target_kind in ("link", "world"):
            frame.attachment = AttachmentFrame(frame.attachment.frame_idx, frame.attachment.pose @ sensor.pose)
        return frame

    def reference_frame(self) -> ResolvedFrame | None:
        """Reference frame of the measurement (MuJoCo's `ref`); None if none is named or it is not found."""
        sensor = self.sensor
        owner = self if self.reference_entity is None else replace(self, entity=self.reference_entity)
        return owner.resolve_frame(sensor.reference_kind, sensor.reference, str(sensor.settings.get(mjcf.REFTYPE, "")))

    def resolve_frame(self, kind: str, name: str, objtype: str = "") -> ResolvedFrame | None:
        """Moving frame, constant pose in it and link of a named link, frame (site), camera or shape; None if not found.

        The kind `world` is the world frame. `objtype` `body` selects the inertial frame of a link instead of its link
        frame.
        """
        match kind:
            case "world":
                return ResolvedFrame(WORLD_FRAME, None)
            case "link":
                link = self.find_link(name)
                if link is None:
                    return ResolvedFrame(WORLD_FRAME, None) if name == "world" else None
                return _frame_of_link(link, at_inertial_frame=objtype == mjcf.BODY)
            case "frame" | "camera":
                found = self.find_element(f"{kind}s", name)
                if found is None:
                    return None
                element, owner = found
                assert isinstance(element, Frame | Camera)
                return self.attach_to_link(owner, element.link, element.pose)
            case "shape":
                return self._resolve_shape(name)
        return None

    def attach_to_link(self, owner: Robot | World, link_name: str | None, pose: Pose) -> ResolvedFrame | None:
        """Frame at `pose` relative to a named link, or to the base of `owner` for `link_name` None.

        None if not found.
        """
        if link_name is None:
            return ResolvedFrame(AttachmentFrame(-1, self._base_pose(owner) @ pose), None)
        link = self.find_link(link_name, owner)
        return None if link is None else ResolvedFrame(AttachmentFrame(link.frame_idx, link.pose_in_frame @ pose), link)

    def _base_pose(self, owner: Robot | World) -> Pose:
        """World pose of the base frame of a robot, or of the world itself, within the entity."""
        spec = self.build.entities[self.entity]
        file_pose = owner.pose if isinstance(owner, Robot) else Pose()
        if spec.pose is None:
            return file_pose
        return spec.pose if isinstance(spec.description, Robot) else spec.pose @ file_pose

    def _resolve_shape(self, name: str) -> ResolvedFrame | None:
        """Moving frame, constant pose in it and link of a named shape; None if not found.

        For a mesh, a note says that MuJoCo's geom frame (the inertial frame of the mesh) differs from the frame of the
        file.
        """
        for owner, link, shape in self.all_shapes():
            if shape.name == name:
                frame = self.attach_to_link(owner, None if link is None else link.name, shape.pose)
                if frame is not None and isinstance(shape.geometry, Mesh):
                    frame.approximation_note = "the frame of a mesh is that of its file, not its inertial frame"
                return frame
        return None

    def all_shapes(self) -> list[tuple[Robot | World, Link | None, Shape]]:
        """All shapes of the description, with their robot or world and link (None for static shapes of a world)."""
        description = self.description
        static_shapes: list[tuple[Robot | World, Link | None, Shape]] = []
        if isinstance(description, World):
            static_shapes += [(description, None, shape) for shape in description.shapes]
        robots = description.robots if isinstance(description, World) else [description]
        return static_shapes + [
            (robot, link, shape) for robot in robots for link in robot.links for shape in link.shapes
        ]

    def geoms_of(self, kind: str, name: str) -> list[int]:
        """Rows in the table of distance geoms of the geoms of a shape, or of all shapes of a link or the world."""
        frame_and_shapes: list[tuple[AttachmentFrame, Shape]] = []
        is_world = kind == "world" or (kind == "link" and name == "world" and self.find_link(name) is None)
        for owner, link, shape in self.all_shapes():
            is_of_link = kind == "link" and link is not None and name in (link.name, self._record_name(link, owner))
            if (shape.name == name if kind == "shape" else link is None if is_world else is_of_link) and shape.enabled:
                frame = self.attach_to_link(owner, None if link is None else link.name, shape.pose)
                if frame is not None:
                    frame_and_shapes.append((frame.attachment, shape))
        only_collision = self.sensor.settings.get(COLLISION_ONLY, False)
        return [
            row
            for attachment, shape in frame_and_shapes
            if shape.collision or not only_collision
            for row in self.distance_geoms.add(self.build, self.entity, shape, attachment)
        ]

    def _record_name(self, link: Link, owner: Robot | World) -> str:
        record = self.find_link(link.name, owner)
        return "" if record is None else record.name

    def target_tendon(self) -> object | None:
        """Tendon that the sensor measures; None if not found."""
        return next(
            (tendon for tendon in all_elements(self.description, "tendons") if tendon.name == self.sensor.target), None
        )

    def links_of_spatial_tendons(self) -> list[set[int]]:
        """Indices of the links that each spatial tendon passes, one set per tendon."""
        tendons = [tendon for tendon in all_elements(self.description, "tendons") if not tendon.is_fixed]
        frames_of_tendon = [[self.resolve_frame("frame", item.target) for item in tendon.path] for tendon in tendons]
        return [{frame.link_idx for frame in frames if frame is not None} for frames in frames_of_tendon]

    def find_actuator_idx(self, name: str) -> int | None:
        """Row of the named actuator of the entity in the table of actuators; None if it is not simulated.

        The first row of a PID controller or DC motor with several controls, which are named `<name> <input>`.
        """
        own = {n: i for i, n in enumerate(self.actuators.names) if self.actuator_entities[i] == self.entity}
        names = [name, *(n for x in CONTROL_INPUTS if (n := f"{name} {x}") in own)]
        rows = [own[n] for n in names if n in own and self.actuators.kinds[own[n]] != INPUT_ROW]
        return rows[0] if rows else None


def _frame_of_link(link: LinkRecord, *, at_inertial_frame: bool) -> ResolvedFrame:
    """Moving frame and pose in it of a link's frame, or its inertial frame (centre of mass, principal axes)."""
    if not at_inertial_frame:
        return ResolvedFrame(AttachmentFrame(link.frame_idx, link.pose_in_frame), link)
    inertial = link.description.inertial
    if inertial is None:
        return ResolvedFrame(AttachmentFrame(link.frame_idx, link.pose_in_frame), link)
    inertia_axes = link.description.attributes.get(mjcf.attribute_key(mjcf.INERTIA_AXES))
    inertial_pose = (
        Pose.from_quaternion(inertial.center, inertia_axes)
        if inertia_axes
        else Pose(inertial.center, _principal_axes(inertial.inertia))
    )
    return ResolvedFrame(AttachmentFrame(link.frame_idx, link.pose_in_frame @ inertial_pose), link)


def _principal_axes(inertia: Array) -> Array:
    """Principal axes of an inertia tensor as columns, in the order of decreasing moments (as in MuJoCo)."""
    values, axes = symmetric_eigen(inertia)
    axes = axes[:, np.argsort(-values, kind="stable")]
    return axes if determinant3(axes) > 0 else -axes


# ---------------------------------------------------------------------------------------------------- MJCF sensor types


class UnsupportedSensorError(Exception):
    """A sensor cannot be simulated; the message is the reason."""


SensorOutputFactory = Callable[[SensorContext], list[SensorOutputRecord]]
SENSOR_OUTPUT_DIMS = {"framequat": 4, "ballquat": 4, "camprojection": 2}
"""Number of values of the frame outputs that are not three-dimensional."""
RELATIVE_FRAME_SENSORS = (
    "framepos",
    "framequat",
    "framexaxis",
    "frameyaxis",
    "framezaxis",
    "framelinvel",
    "frameangvel",
)
"""Sensor types that can be relative to a reference frame."""


def require_frame(frame: ResolvedFrame | None, label: str) -> ResolvedFrame:
    """The frame, or UnsupportedSensorError naming `label` if it is None."""
    if frame is None:
        raise UnsupportedSensorError(f"{label} does not exist")
    return frame


def _target_label(sensor_ctx: SensorContext) -> str:
    return f'its target, the {sensor_ctx.sensor.target_kind or "object"} "{sensor_ctx.sensor.target}",'


def _frame_output(sensor_ctx: SensorContext) -> list[SensorOutputRecord]:
    """Output of a quantity of the target frame (position, axis, velocity, acceleration, ...)."""
    kind, frame = sensor_ctx.sensor.kind, require_frame(sensor_ctx.target_frame(), _target_label(sensor_ctx))
    return [SensorOutputRecord(kind, SENSOR_OUTPUT_DIMS.get(kind, 3), frame.attachment, target_idx=frame.link_idx)]


def _relative_frame_output(sensor_ctx: SensorContext) -> list[SensorOutputRecord]:
    """Output of a quantity of the target frame, relative to the reference frame if the sensor names one."""
    (output,) = _frame_output(sensor_ctx)
    if sensor_ctx.sensor.reference and sensor_ctx.sensor.kind in RELATIVE_FRAME_SENSORS:
        output.reference_frame = require_frame(
            sensor_ctx.reference_frame(), f'its reference "{sensor_ctx.sensor.reference}"'
        ).attachment
    return [output]


def _joint_output(sensor_ctx: SensorContext) -> list[SensorOutputRecord]:
    """Output of an MJCF joint sensor: position, velocity, actuator force, quaternion or limit quantities.

    Refers to the first coordinate (jointpos, ballquat) or the first dof of the joint. Raises UnsupportedSensorError if
    the joint has no coordinates or an unsuitable number of dofs.
    """
    kind, joint = sensor_ctx.sensor.kind, find_joint(sensor_ctx.build, sensor_ctx.entity, sensor_ctx.sensor.target)
    if joint is None:
        raise UnsupportedSensorError(f'the joint "{sensor_ctx.sensor.target}" has no simulated coordinate')
    is_ball_sensor, is_ball_joint = kind.startswith("ball"), joint.description.n_qs == 4
    if not (is_ball_joint if is_ball_sensor else joint.description.n_dofs == 1 or (is_ball_joint and "limit" in kind)):
        raise UnsupportedSensorError(
            f'the joint "{sensor_ctx.sensor.target}" has {joint.description.n_dofs} degrees of freedom'
        )
    target_idx = joint.q_start if kind in ("jointpos", "ballquat") else joint.dof_start
    dim = 4 if kind == "ballquat" else 3 if is_ball_sensor else 1
    return [SensorOutputRecord(kind, dim, target_idx=target_idx)]


def _actuator_output(sensor_ctx: SensorContext) -> list[SensorOutputRecord]:
    """Output of the length, velocity or force of an actuator; UnsupportedSensorError if it is not simulated."""
    actuator_idx = sensor_ctx.find_actuator_idx(sensor_ctx.sensor.target)
    if actuator_idx is None:
        raise UnsupportedSensorError(f'the actuator "{sensor_ctx.sensor.target}" is not simulated')
    return [SensorOutputRecord(sensor_ctx.sensor.kind, 1, target_idx=actuator_idx)]


def _require_tendon(sensor_ctx: SensorContext) -> Tendon:
    tendon = sensor_ctx.target_tendon()
    if not isinstance(tendon, Tendon):
        raise UnsupportedSensorError(f'there is no tendon "{sensor_ctx.sensor.target}"')
    return tendon


def _tendon_length_output(sensor_ctx: SensorContext) -> list[SensorOutputRecord]:
    """Output of an MJCF sensor of tendon length or velocity.

    Holds the coefficients of a fixed tendon as parameters, or the path index of a spatial tendon as target.
    """
    tendon, ctx = _require_tendon(sensor_ctx), sensor_ctx.build
    if tendon.is_fixed:
        moment = fixed_tendon_moment(ctx, sensor_ctx.entity, tendon)
        return [SensorOutputRecord(sensor_ctx.sensor.kind, 1, params=tuple(moment.tolist()))]
    path_idx = tendon_path_idx(ctx, sensor_ctx.entity, tendon)
    if path_idx is None:
        raise UnsupportedSensorError(f'the path of tendon "{tendon.name}" cannot be resolved')
    return [SensorOutputRecord(sensor_ctx.sensor.kind, 1, target_idx=path_idx)]


def _tendon_limit_output(sensor_ctx: SensorContext) -> list[SensorOutputRecord]:
    """Output of a tendon limit (distance, velocity or force); target -1 if the tendon has no row in the table."""
    tendon_idx = sensor_ctx.build.tendon_idx.get((sensor_ctx.entity, id(_require_tendon(sensor_ctx))), -1)
    return [SensorOutputRecord(sensor_ctx.sensor.kind, 1, target_idx=tendon_idx)]


def _tendon_actuator_force_output(sensor_ctx: SensorContext) -> list[SensorOutputRecord]:
    """Output of the total actuator force on a tendon; the parameters are the indices of its actuators."""
    tendon = _require_tendon(sensor_ctx)
    actuator_idx = [
        sensor_ctx.find_actuator_idx(actuator.name)
        for actuator in all_elements(sensor_ctx.description, "actuators")
        if actuator.transmission is Transmission.TENDON and actuator.target == tendon.name
    ]
    return [
        SensorOutputRecord(sensor_ctx.sensor.kind, 1, params=tuple(float(i) for i in actuator_idx if i is not None))
    ]


def declared_output(sensor_ctx: SensorContext) -> list[SensorOutputRecord]:
    """Output of a sensor kind of the table `SENSOR_KINDS`, which refers to a frame, a link or the whole system."""
    kind = sensor_ctx.sensor.kind
    declaration = SENSOR_KINDS[kind]
    if declaration.target is SensorTarget.SYSTEM:
        return [SensorOutputRecord(kind, declaration.dim, positive=declaration.positive)]
    frame = require_frame(sensor_ctx.target_frame(), _target_label(sensor_ctx))
    attachment = frame.attachment if declaration.target is SensorTarget.FRAME else WORLD_FRAME
    return [
        SensorOutputRecord(kind, declaration.dim, attachment, target_idx=frame.link_idx, positive=declaration.positive)
    ]


def site_volume(marker: Geometry | None) -> tuple[str, tuple[float, float, float]]:
    """Geom type and size of the volume of a site: sphere, capsule, cylinder, ellipsoid or box (half sizes).

    Raises UnsupportedSensorError for other geometries.
    """
    match marker:
        case Sphere():
            return "sphere", (marker.radius, 0.0, 0.0)
        case Capsule() | Cylinder():
            geom_type = "capsule" if isinstance(marker, Capsule) else "cylinder"
            return geom_type, (marker.radius, marker.length / 2, 0.0)
        case Ellipsoid():
            x, y, z = (float(value) for value in marker.radii)
            return "ellipsoid", (x, y, z)
        case Box():
            x, y, z = (float(value) / 2 for value in marker.size)
            return "box", (x, y, z)
    raise UnsupportedSensorError("its frame has no volume")


VOLUME = "volume"
"""Setting of a sensor added to a scene: geometry of its volume (MJCF sensors take that of a site)."""


def _site_volume_by_name(sensor_ctx: SensorContext, name: str) -> tuple[str, tuple[float, float, float]]:
    """Geom type and size of the volume of a sensor, or of a named site; UnsupportedSensorError if it does not exist."""
    if VOLUME in sensor_ctx.sensor.settings:
        return site_volume(sensor_ctx.sensor.settings[VOLUME])
    found = sensor_ctx.find_element("frames", name)
    if found is None or not isinstance(found[0], Frame):
        raise UnsupportedSensorError(f'the frame "{name}" does not exist')
    return site_volume(found[0].marker)


def _touch_output(sensor_ctx: SensorContext) -> list[SensorOutputRecord]:
    """Output of a touch sensor: sum of the normal contact forces inside the volume of a site."""
    (output,) = _frame_output(sensor_ctx)
    volume_type, size = _site_volume_by_name(sensor_ctx, sensor_ctx.sensor.target)
    output.dim, output.options, output.params, output.positive = 1, (volume_type,), size, True
    return [output]


def _inside_site_output(sensor_ctx: SensorContext) -> list[SensorOutputRecord]:
    """Output of whether the target frame is inside the volume of the reference site."""
    frame = require_frame(sensor_ctx.target_frame(), _target_label(sensor_ctx))
    site = require_frame(sensor_ctx.reference_frame(), f'its frame "{sensor_ctx.sensor.reference}"')
    volume_type, size = _site_volume_by_name(sensor_ctx, sensor_ctx.sensor.reference)
    return [SensorOutputRecord("insidesite", 1, frame.attachment, site.attachment, options=(volume_type,), params=size)]


def _camera_projection_output(sensor_ctx: SensorContext) -> list[SensorOutputRecord]:
    """Output of the MJCF sensor `camprojection`: pixel coordinates of a site in a camera image.

    The parameters are focal lengths [pixels], principal point offset, image width and height. Raises
    UnsupportedSensorError for cameras without perspective.
    """
    frame = require_frame(sensor_ctx.target_frame(), _target_label(sensor_ctx))
    camera_frame = require_frame(sensor_ctx.reference_frame(), f'its camera "{sensor_ctx.sensor.reference}"')
    found = sensor_ctx.find_element("cameras", sensor_ctx.sensor.reference)
    assert found is not None
    camera = found[0]
    assert isinstance(camera, Camera)
    width, height = camera.resolution or (1, 1)
    sensor_size, intrinsic = camera.settings.get(mjcf.SENSORSIZE), camera.settings.get(mjcf.INTRINSIC)
    if camera.settings.get(mjcf.PROJECTION, "perspective") != "perspective":
        raise UnsupportedSensorError("its camera has no perspective projection")
    sine, cosine = sine_cosine(camera.vertical_fov / 2)
    focal = 0.5 / (sine / cosine) * height
    intrinsics = (focal, focal, 0.0, 0.0)
    if sensor_size and intrinsic and np.any(sensor_size):
        intrinsics = (*(intrinsic[i] / sensor_size[i] * (width, height)[i] for i in (0, 1)), intrinsic[2], intrinsic[3])
    return [
        SensorOutputRecord(
            "camprojection", 2, frame.attachment, camera_frame.attachment, params=(*intrinsics, width, height)
        )
    ]


RANGE_FIELDS = ("dist", "dir", "origin", "point", "normal", "depth")
"""Data fields of a rangefinder, in the order of the bits of MuJoCo's `dataspec`."""
RANGE_FIELD_DIMS = (1, 3, 3, 3, 3, 1)
"""Number of values of each data field."""


def _rangefinder_output(sensor_ctx: SensorContext) -> list[SensorOutputRecord]:
    """Output of a rangefinder: data fields of a ray along +z of a site, or of one ray per pixel of a camera."""
    sensor = sensor_ctx.sensor
    (output,) = _frame_output(sensor_ctx)
    mask = int((*sensor.settings.get(mjcf.INTPRM, ()), 1)[0])
    fields = [name for i, name in enumerate(RANGE_FIELDS) if mask >> i & 1]
    directions, origins = np.array([[0.0, 0.0, 1.0]]), None
    if sensor.target_kind == "camera":
        found = sensor_ctx.find_element("cameras", sensor.target)
        assert found is not None
        assert isinstance(found[0], Camera)
        directions, origins = _camera_rays(found[0])
    if fields == ["dist"] and origins is None:
        return [make_ray_output(sensor_ctx, output, directions, ("-1",))]
    n_rays, is_camera = len(directions), sensor.target_kind == "camera"
    rays = directions if origins is None else np.concatenate([directions, origins])
    options = ("-1", "", " ".join(fields), "" if origins is None else "origins", "camera" if is_camera else "")
    output = make_ray_output(sensor_ctx, output, rays, options)
    widths = [RANGE_FIELD_DIMS[RANGE_FIELDS.index(name)] for name in fields]
    output.params, output.dim = (output.params[0], float(n_rays)), n_rays * sum(widths)
    output.positive = fields == ["dist"]
    if n_rays == 1:
        output.fields = tuple(zip(fields, widths, strict=True))
    return [output]


def _camera_rays(camera: Camera) -> tuple[Array, Array | None]:
    """Unit directions of the rays of all pixels of a camera, row by row, (n, 3), and their origins in its frame.

    None for the common origin of a perspective camera. As in MuJoCo, the height of an orthographic camera is also its
    width.
    """
    width, height = camera.resolution or (1, 1)
    columns, rows = np.meshgrid(np.arange(width) + 0.5, np.arange(height) + 0.5)
    x, y = np.asarray(columns.ravel(), np.float64), np.asarray(rows.ravel(), np.float64)
    if camera.settings.get(mjcf.PROJECTION) == mjcf.ORTHOGRAPHIC:
        extent = float(camera.settings.get(mjcf.HEIGHT, 1.0))
        origins = np.stack([extent * (x / width - 0.5), extent * (0.5 - y / height), np.zeros_like(x)], axis=1)
        return np.tile([0.0, 0.0, -1.0], (len(x), 1)), origins
    sensor_size, intrinsic = camera.settings.get(mjcf.SENSORSIZE), camera.settings.get(mjcf.INTRINSIC)
    sine, cosine = sine_cosine(0.5 * camera.vertical_fov)
    focal = 0.5 * height / (sine / cosine)
    fx, fy, cx, cy = focal, focal, 0.5 * width, 0.5 * height
    if sensor_size and intrinsic and np.any(sensor_size):
        fx, fy, cx, cy = (intrinsic[i] / sensor_size[i % 2] * (width, height)[i % 2] for i in range(4))
    rays = np.stack([(x - cx) / fx, (cy - y) / fy, -np.ones_like(x)], axis=1)
    return rays / np.linalg.norm(rays, axis=1, keepdims=True), None


MAX_RANGE = 1e14
"""Upper bound of the range of a lidar [m], below the distance that stands for a miss in the sensor program."""


def make_ray_output(
    sensor_ctx: SensorContext, output: SensorOutputRecord, directions: np.ndarray, ray_params: tuple[str, ...]
) -> SensorOutputRecord:
    """Turn a sensor output into distances along rays from its frame, and register the ray directions.

    Args:
        sensor_ctx: its `ray_directions` are extended.
        output: changed in place: kind `rays`, dim, and offset and number of directions before its parameters.
        directions: unit directions in the frame of the output, (n, 3).
        ray_params: string parameters: the value without a hit (`-1` or `inf`) and optionally which geoms are hit.
    """
    before = sum(len(d) for d in sensor_ctx.ray_directions)
    sensor_ctx.ray_directions.append(directions)
    output.kind, output.dim, output.positive = "rays", len(directions), True
    output.params, output.options = (3.0 * before, float(len(directions)), *output.params), ray_params
    return output


CONTACT_FIELDS = ("found", "force", "torque", "dist", "pos", "normal", "tangent")
"""Data fields of a contact sensor, in the order of the bits of MuJoCo's `dataspec`."""
CONTACT_FIELD_DIMS = (1, 3, 3, 1, 3, 3, 3)
"""Number of values of each data field."""
CONTACT_REDUCTIONS = ("none", "mindist", "maxforce", "netforce")
"""Reductions over contacts, in MuJoCo's order."""


def _contact_output(sensor_ctx: SensorContext) -> list[SensorOutputRecord]:
    """Output of an MJCF contact sensor: data fields of the contacts between two objects, or in a site volume.

    MuJoCo's `intprm` holds the bit mask of data fields, the reduction and the number of contacts.
    """
    sensor = sensor_ctx.sensor
    field_mask, reduction, count = (int(x) for x in (*sensor.settings.get(mjcf.INTPRM, ()), 1, 0, 1)[:3])
    fields = [name for i, name in enumerate(CONTACT_FIELDS) if field_mask >> i & 1]
    dim = sum(field_dim for i, field_dim in enumerate(CONTACT_FIELD_DIMS) if field_mask >> i & 1)
    if not 0 <= reduction < len(CONTACT_REDUCTIONS):
        raise UnsupportedSensorError(f"its reduction {reduction} is not supported")
    output = SensorOutputRecord("contact", max(count, 1) * dim)
    volume, size, filters = "", (0.0, 0.0, 0.0), []
    for kind, name, frame, objtype in (
        (sensor.target_kind, sensor.target, sensor_ctx.target_frame(), sensor.settings.get(mjcf.OBJTYPE)),
        (sensor.reference_kind, sensor.reference, sensor_ctx.reference_frame(), sensor.settings.get(mjcf.REFTYPE)),
    ):
        if kind == "frame":
            volume, size = _site_volume_by_name(sensor_ctx, name)
            output.frame = require_frame(frame, f'its frame "{name}"').attachment
        if kind in ("", "frame"):
            filters.append("any -1 ")
        else:
            link = require_frame(frame, f'the {kind} "{name}"').link_idx
            filters.append(
                f"{'shape' if kind == 'shape' else 'tree' if objtype == mjcf.XBODY else 'link'} {link} {name}"
            )
    output.options, output.contact_filters = (" ".join(fields), CONTACT_REDUCTIONS[reduction], volume), tuple(filters)
    output.params = (float(max(count, 1)), *size)
    if count <= 1:
        output.fields = tuple((name, CONTACT_FIELD_DIMS[CONTACT_FIELDS.index(name)]) for name in fields)
    return [output]


def _tactile_output(sensor_ctx: SensorContext) -> list[SensorOutputRecord]:
    """Output of the depths and sliding speeds at the taxels of a link.

    The setting `TAXELS` has the positions of the taxels, or positions and two unit tangents each, in the frame of the
    sensor, which in MJCF is the link of its geom. They are stored with the ray directions.
    """
    sensor = sensor_ctx.sensor
    frame = sensor_ctx.target_frame()
    if sensor.reference_kind == "shape":
        found = next(((owner, link) for owner, link, s in sensor_ctx.all_shapes() if s.name == sensor.reference), None)
        frame = None if found is None else sensor_ctx.attach_to_link(found[0], found[1] and found[1].name, Pose())
    attachment = require_frame(frame, f'its geom "{sensor.reference}"').attachment
    count = int(sensor.settings[mjcf.DIM]) // 3
    values = np.reshape(sensor.settings.get(TAXELS, ()), (count, -1)) if count else np.zeros((0, 3))
    if values.shape[1] not in (3, 9):
        raise UnsupportedSensorError("its taxels are not known")
    first = 3.0 * sum(len(d) for d in sensor_ctx.ray_directions)
    sensor_ctx.ray_directions.append(np.concatenate(np.split(values, values.shape[1] // 3, axis=1)))
    return [
        SensorOutputRecord(
            "tactile",
            3 * count,
            attachment,
            params=(first, float(count)),
            options=("tangents" if values.shape[1] == 9 else "",),
            positive=True,
            fields=tuple((name, count) for name in TACTILE_FIELDS),
        )
    ]


TACTILE_FIELDS = ("depth", "slip_1", "slip_2")
"""Names of the channels of a tactile sensor: penetration depth, sliding speeds along the two tangents."""


def _distance_output(sensor_ctx: SensorContext) -> list[SensorOutputRecord]:
    """Output of the distance, normal or segment between the geoms of two links or shapes.

    The parameters are the cutoff, beyond which nothing is found [m], and the rows of the geoms of each pair. All shapes
    of a link count in MJCF, as in MuJoCo; with the setting `collision_only`, those that collide.
    """
    sensor, sides = sensor_ctx.sensor, []
    references = (
        sensor_ctx if sensor_ctx.reference_entity is None else replace(sensor_ctx, entity=sensor_ctx.reference_entity)
    )
    for owner, kind, name in (
        (sensor_ctx, sensor.target_kind, sensor.target),
        (references, sensor.reference_kind, sensor.reference),
    ):
        sides.append(owner.geoms_of(kind, name))
        if not sides[-1]:
            raise UnsupportedSensorError(f'the {kind} "{name}" has no geoms')
    pairs = [float(row) for a in sides[0] for b in sides[1] for row in (a, b)]
    dim = {"distance": 1, "normal": 3, "fromto": 6}[sensor.kind]
    return [SensorOutputRecord(sensor.kind, dim, params=(float(sensor.cutoff), *pairs))]


def _user_output(sensor_ctx: SensorContext) -> list[SensorOutputRecord]:
    return [SensorOutputRecord("user", int(sensor_ctx.sensor.settings.get(mjcf.DIM, 1)))]


def _unsupported_output(sensor_ctx: SensorContext) -> list[SensorOutputRecord]:
    raise UnsupportedSensorError(f"a sensor of kind {sensor_ctx.sensor.kind!r} is not simulated")


MJCF_OUTPUT_FACTORIES: dict[str, SensorOutputFactory] = {
    **dict.fromkeys((*RELATIVE_FRAME_SENSORS, "framelinacc", "frameangacc"), _relative_frame_output),
    **dict.fromkeys(("jointpos", "jointvel", "jointactuatorfrc", "ballquat", "ballangvel"), _joint_output),
    **dict.fromkeys(("jointlimitpos", "jointlimitvel", "jointlimitfrc"), _joint_output),
    **dict.fromkeys(("actuatorpos", "actuatorvel", "actuatorfrc"), _actuator_output),
    **dict.fromkeys(("tendonpos", "tendonvel"), _tendon_length_output),
    **dict.fromkeys(("tendonlimitpos", "tendonlimitvel", "tendonlimitfrc"), _tendon_limit_output),
    "tendonactuatorfrc": _tendon_actuator_force_output,
    "touch": _touch_output,
    "contact": _contact_output,
    "insidesite": _inside_site_output,
    "camprojection": _camera_projection_output,
    "rangefinder": _rangefinder_output,
    "user": _user_output,
    **dict.fromkeys(("distance", "normal", "fromto"), _distance_output),
    "tactile": _tactile_output,
    "plugin": _unsupported_output,
}
"""Function that makes the outputs of a sensor, by MJCF sensor type; kinds of `SENSOR_KINDS` need none."""

"""Converts SDFormat links with their shapes, explicit or computed inertia, sensors, cameras and lights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinema.core import (
    Diagnostics,
    Pose,
    arc_tangent,
    reproducible_norm,
    rotate_tensor,
    rotation_aligning_z,
    sine_cosine,
)
from kinema.description import (
    Box,
    Camera,
    Capsule,
    Cone,
    Cylinder,
    Ellipsoid,
    Extra,
    Geometry,
    Inertial,
    Light,
    Link,
    Mesh,
    Robot,
    Sensor,
    Shape,
    Sphere,
    mesh_data,
)
from kinema.geometry import (
    GeometryError,
    MassProperties,
    box_mass_properties,
    capsule_mass_properties,
    combine_mass_properties,
    cone_mass_properties,
    cylinder_mass_properties,
    ellipsoid_mass_properties,
    measure_mesh_quality,
    mesh_mass_properties,
    sphere_mass_properties,
    transform_mass_properties,
)
from kinema.tokens import sdf

from .convert_shape import ShapeConverter, to_attributes
from .elements import CameraElement, InertialElement, LightElement, LinkElement, SensorElement
from .frames import FrameGraph, SdfFrame

# -- inertial properties -----------------------------------------------------------------------------------------------

DEFAULT_DENSITY = 1000.0
"""Default density of a collision [kg/m3]."""


def explicit_inertial(element: InertialElement) -> Inertial:
    """Inertial as given, with the tensor rotated to the link axes."""
    tensor = rotate_tensor(element.pose.rotation, element.inertia)
    return Inertial(element.mass, element.pose.position.copy(), (tensor + tensor.T) / 2.0)


def default_inertial() -> Inertial:
    """Inertial of a link without `<inertial>`: 1 kg and unit inertia."""
    return Inertial(1.0, np.zeros(3), np.eye(3))


def computed_inertial(link: LinkElement, collisions: list[Shape], diagnostics: Diagnostics) -> Inertial:
    """Inertial from the densities of the collisions, scaled to a given mass."""
    element = link.inertial
    assert element is not None
    parts: list[MassProperties] = []
    for shape in collisions:
        density = next(d for d in (shape.density, element.density, DEFAULT_DENSITY) if d is not None)
        try:
            part = _geometry_mass_properties(shape.geometry, density)
        except GeometryError as error:
            problem = f'collision "{shape.name}" of link "{link.name}" adds nothing to the computed inertia: {error}'
            diagnostics.error(f"{sdf.FORMAT}.auto-inertia", problem, origin=shape.origin)
            continue
        if part is None:
            problem = f'collision "{shape.name}" of link "{link.name}" has no volume and adds no mass'
            diagnostics.warning(f"{sdf.FORMAT}.auto-inertia", problem, origin=shape.origin)
            continue
        _warn_open_mesh(link, shape, diagnostics)
        parts.append(transform_mass_properties(part, shape.pose.rotation, shape.pose.position))
    total = combine_mass_properties(parts)
    if not total.mass > 0.0:
        problem = f'link "{link.name}" asks for a computed inertia, but its collisions have no mass'
        hint = "1 kg and 1 kg m2 about every axis are assumed"
        diagnostics.error(f"{sdf.FORMAT}.auto-inertia", problem, hint=hint, origin=element.origin)
        return default_inertial()
    scale = element.mass / total.mass if element.mass_is_given else 1.0
    return Inertial(total.mass * scale, total.center, total.inertia * scale)


def _geometry_mass_properties(geometry: Geometry, density: float) -> MassProperties | None:
    """Mass properties of a geometry with uniform density; None without volume."""
    match geometry:
        case Box():
            return box_mass_properties(geometry.size, density)
        case Sphere():
            return sphere_mass_properties(geometry.radius, density)
        case Ellipsoid():
            return ellipsoid_mass_properties(geometry.radii, density)
        case Capsule():
            return capsule_mass_properties(geometry.radius, geometry.length, density)
        case Cylinder():
            return cylinder_mass_properties(geometry.radius, geometry.length, density)
        case Cone():
            return cone_mass_properties(geometry.radius, geometry.length, density)
        case Mesh():
            return _mesh_mass_properties(geometry, density)
        case _:
            return None


def _mesh_mass_properties(geometry: Mesh, density: float) -> MassProperties | None:
    """Mass properties of the enclosed volume; sign corrected for inward faces."""
    data = mesh_data(geometry)
    if data is None:
        return None
    solid = mesh_mass_properties(data, density)
    return solid if solid.mass >= 0.0 else MassProperties(-solid.mass, solid.center, -solid.inertia)


def _warn_open_mesh(link: LinkElement, shape: Shape, diagnostics: Diagnostics) -> None:
    """Warn if the mesh of a collision does not enclose a volume."""
    if not isinstance(shape.geometry, Mesh):
        return
    data = mesh_data(shape.geometry)
    if data is not None and not measure_mesh_quality(data).encloses_volume:
        problem = f'the mesh of collision "{shape.name}" of link "{link.name}" is not closed; its mass is a guess'
        diagnostics.warning(f"{sdf.FORMAT}.auto-inertia", problem, origin=shape.origin)


# -- links -------------------------------------------------------------------------------------------------------------

_CAMERA_ROTATION = np.array([[0.0, 0.0, -1.0], [-1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
"""Rotation from the description's camera frame (-z forward, y up) to SDFormat's (x forward, z up)."""


@dataclass(slots=True, eq=False)
class LinkConverter:
    """Converts links with shapes, inertia, sensors, cameras and lights."""

    graph: FrameGraph
    shapes: ShapeConverter
    diagnostics: Diagnostics

    def convert_link(self, node: SdfFrame, name: str, pose: Pose) -> Link:
        """Convert a link with shapes and inertia."""
        element = node.element
        assert isinstance(element, LinkElement)
        link = Link(
            name=name,
            name_is_generated=element.name_is_generated,
            origin=element.origin,
            pose=pose,
            kinematic=element.kinematic,
            gravity_scale=1.0 if element.gravity else 0.0,
            extras=element.extras[:],
            attributes=to_attributes(element.settings),
        )
        for collision in element.collisions:
            what = f'collision "{collision.name}"'
            shape_pose = self.graph.resolve_pose(collision.pose, node.scope, node, what)
            _add_shape(link, self.shapes.convert_collision(collision, shape_pose, name))
        for visual in element.visuals:
            shape_pose = self.graph.resolve_pose(visual.pose, node.scope, node, f'visual "{visual.name}"')
            _add_shape(link, self.shapes.convert_visual(visual, shape_pose, name))
        self._report_shared_names(element)
        self._set_inertial(link, element, is_static=node.scope.static)
        return link

    def _report_shared_names(self, element: LinkElement) -> None:
        for kind, items in (("collision", element.collisions), ("visual", element.visuals)):
            seen: set[str] = set()
            for item in items:
                if item.name in seen:
                    problem = f'link "{element.name}" has two {kind}s called "{item.name}"'
                    self.diagnostics.error(f"{sdf.FORMAT}.duplicate-name", problem, origin=item.origin)
                seen.add(item.name)

    def _set_inertial(self, link: Link, element: LinkElement, *, is_static: bool) -> None:
        """Set the inertial of a link: explicit, computed or default."""
        inertial = element.inertial
        if inertial is None:
            link.inertial = default_inertial()
            if not is_static:
                problem = (
                    f'link "{link.name}" has no <inertial>: 1 kg and 1 kg m2 about every axis, the format\'s default'
                )
                self.diagnostics.note(f"{sdf.FORMAT}.default-inertial", problem, origin=element.origin)
            return
        link.extras += inertial.extras
        link.attributes |= to_attributes(inertial.settings)
        link.density = inertial.density
        if inertial.auto:
            link.inertial_is_computed = True
            link.inertial = computed_inertial(element, link.collisions, self.diagnostics)
        else:
            link.inertial = explicit_inertial(inertial)

    def add_sensors_and_lights(self, node: SdfFrame, link: Link, robot: Robot) -> None:
        """Add the sensors, cameras and lights of a link to the robot."""
        element = node.element
        assert isinstance(element, LinkElement)
        for sensor in element.sensors:
            pose = self.graph.resolve_pose(sensor.pose, node.scope, node, f'sensor "{sensor.name}"')
            robot.sensors.append(_convert_sensor(sensor, pose, "link", link.name))
            for camera in sensor.cameras:
                camera_pose = pose @ camera.pose.pose
                if camera.pose.relative_to:
                    camera_pose = self.graph.resolve_pose(camera.pose, node.scope, node, f'camera "{camera.name}"')
                robot.cameras.append(_convert_camera(sensor, camera, camera_pose, link.name))
        for light in element.lights:
            pose = self.graph.resolve_pose(light.pose, node.scope, node, f'light "{light.name}"')
            robot.lights.append(convert_light(light, pose, link.name))

    def add_joint_sensors(self, node: SdfFrame, sensors: list[SensorElement], joint: str, robot: Robot) -> None:
        """Add the sensors of a joint, with poses in the joint frame."""
        for sensor in sensors:
            pose = self.graph.resolve_pose(sensor.pose, node.scope, node, f'sensor "{sensor.name}"')
            robot.sensors.append(_convert_sensor(sensor, pose, "joint", joint))


def _add_shape(link: Link, made: Shape | Extra | None) -> None:
    if isinstance(made, Shape):
        link.shapes.append(made)
    elif made is not None:
        link.extras.append(made)


def _convert_sensor(element: SensorElement, pose: Pose, target_kind: str, target: str) -> Sensor:
    return Sensor(
        name=element.name,
        name_is_generated=element.name_is_generated,
        origin=element.origin,
        kind=element.kind,
        target_kind=target_kind,
        target=target,
        pose=pose,
        update_rate=element.update_rate,
        settings=dict(element.settings),
        extras=element.extras[:],
    )


def _convert_camera(sensor: SensorElement, element: CameraElement, pose: Pose, link: str) -> Camera:
    """Convert a camera; the vertical field of view follows from the horizontal one."""
    width, height = element.resolution
    sine, cosine = sine_cosine(min(element.horizontal_fov, 3.1) / 2.0)
    return Camera(
        name=element.name,
        origin=sensor.origin,
        link=link,
        pose=pose @ Pose(rotation=_CAMERA_ROTATION),
        vertical_fov=2.0 * arc_tangent(sine * height, cosine * width),
        resolution=element.resolution,
        clip=element.clip,
        settings={sdf.HORIZONTAL_FOV: element.horizontal_fov, sdf.SENSOR: sensor.name},
    )


def convert_light(element: LightElement, pose: Pose, link: str | None) -> Light:
    """Convert a light; its direction becomes the -z axis of its frame."""
    length = reproducible_norm(element.direction)
    settings = {**element.settings, sdf.DIRECTION: tuple(element.direction.tolist())}
    if element.kind != "point" and length > 0.0:
        back = -element.direction / length
        if not (back[0] == back[1] == 0.0 and back[2] > 0.0):
            pose = pose @ Pose(rotation=rotation_aligning_z(back))
    return Light(
        name=element.name,
        name_is_generated=element.name_is_generated,
        origin=element.origin,
        kind=element.kind,
        link=link,
        pose=pose,
        color=element.color[:3],
        casts_shadow=element.casts_shadow,
        settings=settings,
        extras=element.extras[:],
    )

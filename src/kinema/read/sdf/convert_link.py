"""Links with their shapes, sensors, cameras and lights."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kinema.description import Camera, Extra, Light, Link, Robot, Sensor, Shape
from kinema.foundation import Diagnostics, Pose, rotation_aligning
from kinema.words import sdf

from .convert_inertia import computed_inertial, default_inertial, written_inertial
from .convert_shape import ShapeConverter, prefixed
from .elements import CameraElement, LightElement, LinkElement, SensorElement
from .frames import FrameGraph
from .scopes import FrameNode

_CAMERA_TURN = np.array([[0.0, 0.0, -1.0], [-1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
"""SDFormat's cameras look along x with z up; the description's along -z with y up."""


@dataclass(slots=True, eq=False)
class LinkConverter:
    """Makes a link and what it carries."""

    graph: FrameGraph
    shapes: ShapeConverter
    diagnostics: Diagnostics

    def link(self, node: FrameNode, name: str, pose: Pose) -> Link:
        """A link with its shapes and inertia."""
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
            attributes=prefixed(element.settings),
        )
        for collision in element.collisions:
            what = f'collision "{collision.name}"'
            place = self.graph.resolve(collision.pose, node.scope, node, what)
            _add(link, self.shapes.collision(collision, place, name))
        for visual in element.visuals:
            place = self.graph.resolve(visual.pose, node.scope, node, f'visual "{visual.name}"')
            _add(link, self.shapes.visual(visual, place, name))
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
        link.attributes |= prefixed(inertial.settings)
        link.density = inertial.density
        if inertial.auto:
            link.inertial_is_computed = True
            link.inertial = computed_inertial(element, link.collisions, self.diagnostics)
        else:
            link.inertial = written_inertial(inertial)

    def carried(self, node: FrameNode, link: Link, robot: Robot) -> None:
        """The sensors, cameras and lights of a link."""
        element = node.element
        assert isinstance(element, LinkElement)
        for sensor in element.sensors:
            pose = self.graph.resolve(sensor.pose, node.scope, node, f'sensor "{sensor.name}"')
            robot.sensors.append(_sensor(sensor, pose, "link", link.name))
            for camera in sensor.cameras:
                place = pose @ camera.pose.pose
                if camera.pose.relative_to:
                    place = self.graph.resolve(camera.pose, node.scope, node, f'camera "{camera.name}"')
                robot.cameras.append(_camera(sensor, camera, place, link.name))
        for light in element.lights:
            pose = self.graph.resolve(light.pose, node.scope, node, f'light "{light.name}"')
            robot.lights.append(convert_light(light, pose, link.name))

    def joint_sensors(self, node: FrameNode, sensors: list[SensorElement], joint: str, robot: Robot) -> None:
        """The sensors of a joint, placed in the joint's frame."""
        for sensor in sensors:
            pose = self.graph.resolve(sensor.pose, node.scope, node, f'sensor "{sensor.name}"')
            robot.sensors.append(_sensor(sensor, pose, "joint", joint))


def _add(link: Link, made: Shape | Extra | None) -> None:
    if isinstance(made, Shape):
        link.shapes.append(made)
    elif made is not None:
        link.extras.append(made)


def _sensor(element: SensorElement, pose: Pose, target_kind: str, target: str) -> Sensor:
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


def _camera(sensor: SensorElement, element: CameraElement, pose: Pose, link: str) -> Camera:
    width, height = element.resolution
    half = math.tan(min(element.horizontal_fov, 3.1) / 2.0)
    return Camera(
        name=element.name,
        origin=sensor.origin,
        link=link,
        pose=pose @ Pose(rotation=_CAMERA_TURN),
        vertical_fov=2.0 * math.atan(half * height / width),
        resolution=element.resolution,
        clip=element.clip,
        settings={sdf.HORIZONTAL_FOV: element.horizontal_fov, sdf.SENSOR: sensor.name},
    )


def convert_light(element: LightElement, pose: Pose, link: str | None) -> Light:
    """A light; its direction becomes the -z axis of its frame."""
    length = float(np.linalg.norm(element.direction))
    settings = {**element.settings, sdf.DIRECTION: tuple(element.direction.tolist())}
    if element.kind != "point" and length > 0.0:
        back = -element.direction / length
        if not (back[0] == back[1] == 0.0 and back[2] > 0.0):
            pose = pose @ Pose(rotation=rotation_aligning(back))
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

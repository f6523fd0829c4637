"""What can be switched on and off: collision shapes, inertias, frames, joints, sites, sensors, contacts, tendons."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kinema.description import TendonPathKind
from kinema.foundation import Array, Pose

from . import joint_marks
from .exhibit import Exhibit, Part
from .painted import is_endless, triangles
from .stage import Stage

_COLLISION, _INERTIA, _CENTRE = (60, 170, 90), (170, 70, 190), (245, 190, 40)
_SITE, _SENSOR, _CONTACT = (220, 60, 60), (30, 150, 200), (230, 50, 40)
Maker = Callable[[Stage, Exhibit], list[Any]]


def _collision(stage: Stage, exhibit: Exhibit) -> list[Any]:
    handles = []
    for link, shapes in exhibit.shapes_by_link().items():
        for i, shape in enumerate(shapes):
            mesh = triangles(shape) if shape.collision and not is_endless(shape) else None
            if mesh is None:
                continue
            handle = stage.scene.add_mesh_simple(
                f"{stage.under(exhibit, link)}/collision/{i}",
                mesh.vertices,
                mesh.faces,
                color=_COLLISION,
                opacity=0.45,
                flat_shading=True,
                cast_shadow=False,
                position=shape.pose.position,
                wxyz=shape.pose.quaternion,
            )
            stage.pickable(handle, Part(exhibit.number, "shape", link, i))
            handles.append(handle)
    return handles


def _inertia(stage: Stage, exhibit: Exhibit) -> list[Any]:
    """For each link, the box of even density that has its mass and inertia."""
    handles = []
    for name, link in exhibit.links.items():
        if link.inertial is None or not link.inertial.mass > 0 or not np.isfinite(link.inertial.inertia).all():
            continue
        box = inertia_box(link.inertial.mass, link.inertial.inertia)
        if box is None:
            continue
        size, turn = box
        handles.append(
            stage.scene.add_box(
                f"{stage.under(exhibit, name)}/inertia",
                color=_INERTIA,
                dimensions=tuple(np.maximum(size, 1e-4 * stage.size)),
                opacity=0.4,
                cast_shadow=False,
                position=link.inertial.center,
                wxyz=Pose(rotation=turn).quaternion,
            )
        )
    return handles


def inertia_box(mass: float, inertia: Array) -> tuple[Array, Array] | None:
    """Edge lengths [m] and axes of the solid box with that mass and inertia; None where no solid has them."""
    moments, axes = np.linalg.eigh((inertia + inertia.T) / 2)
    squares = 6.0 / mass * (moments.sum() - 2.0 * moments)
    if (squares < -1e-9 * max(float(np.abs(squares).max()), 1e-300)).any():
        return None
    axes[:, 2] *= np.sign(np.linalg.det(axes)) or 1.0
    return np.sqrt(np.maximum(squares, 0.0)), axes


def _centres(stage: Stage, exhibit: Exhibit) -> list[Any]:
    total = sum(link.inertial.mass for link in exhibit.links.values() if link.inertial is not None) or 1.0
    handles = []
    for name, link in exhibit.links.items():
        if link.inertial is None or not link.inertial.mass > 0:
            continue
        radius = 0.045 * stage.size * float(link.inertial.mass / total) ** (1 / 3)
        handles.append(
            stage.scene.add_icosphere(
                f"{stage.under(exhibit, name)}/centre",
                radius=radius,
                color=_CENTRE,
                position=link.inertial.center,
                cast_shadow=False,
            )
        )
    return handles


def _frames(stage: Stage, exhibit: Exhibit) -> list[Any]:
    return [
        stage.scene.add_frame(
            f"{stage.under(exhibit, name)}/axes", axes_length=0.06 * stage.size, axes_radius=0.002 * stage.size
        )
        for name in exhibit.links
    ]


def _sites(stage: Stage, exhibit: Exhibit) -> list[Any]:
    handles = []
    for i, (frame, link) in enumerate(_placed_frames(exhibit)):
        name = f"{stage.under(exhibit, link)}/site/{i}"
        color = tuple(int(255 * c) for c in frame.color[:3]) if frame.color is not None else _SITE
        handles += [
            stage.scene.add_icosphere(
                name, radius=0.008 * stage.size, color=color, position=frame.pose.position, cast_shadow=False
            ),
            stage.scene.add_label(f"{name}/label", frame.name, anchor="bottom-center", font_screen_scale=0.7),
        ]
    return handles


def _sensors(stage: Stage, exhibit: Exhibit) -> list[Any]:
    """Cameras as what they see, other sensors as a mark with their name where they are."""
    handles = []
    for i, (link, pose, text) in enumerate(_placed_sensors(exhibit)):
        name = f"{stage.under(exhibit, link)}/sensor/{i}"
        handles += [
            stage.scene.add_box(
                name, dimensions=(0.012 * stage.size,) * 3, color=_SENSOR, position=pose.position, wxyz=pose.quaternion
            ),
            stage.scene.add_label(f"{name}/label", text, anchor="bottom-center", font_screen_scale=0.7),
        ]
    for number, mechanism in enumerate(exhibit.mechanisms):
        for i, camera in enumerate(mechanism.robot.cameras):
            link = exhibit.unique_link(number, camera.link)
            wide, high = camera.resolution or (4, 3)
            looking = camera.pose @ Pose(rotation=np.diag([1.0, -1.0, -1.0]))  # theirs look along +z
            handles.append(
                stage.scene.add_camera_frustum(
                    f"{stage.under(exhibit, link)}/camera/{number}/{i}",
                    fov=camera.vertical_fov,
                    aspect=wide / max(high, 1),
                    scale=0.06 * stage.size,
                    color=_SENSOR,
                    position=looking.position,
                    wxyz=looking.quaternion,
                )
            )
    return handles


def _placed_frames(exhibit: Exhibit) -> list[tuple[Any, str | None]]:
    found = [
        (frame, exhibit.unique_link(i, frame.link))
        for i, mechanism in enumerate(exhibit.mechanisms)
        for frame in mechanism.robot.frames
    ]
    if exhibit.description not in exhibit.robots:
        found += [(frame, None) for frame in exhibit.description.frames if frame.link is None]
    return [(frame, link) for frame, link in found if frame.pose.is_finite]


def _placed_sensors(exhibit: Exhibit) -> list[tuple[str | None, Pose, str]]:
    """Link, pose on it and text of all sensors that are somewhere."""
    result: list[tuple[str | None, Pose, str]] = []
    for i, mechanism in enumerate(exhibit.mechanisms):
        robot = mechanism.robot
        frames = {frame.name: frame for frame in robot.frames}
        for sensor in robot.sensors:
            text = f"{sensor.kind} {sensor.name}".strip()
            if sensor.target_kind == "link" and exhibit.unique_link(i, sensor.target):
                result.append((exhibit.unique_link(i, sensor.target), sensor.pose, text))
            elif sensor.target_kind == "frame" and sensor.target in frames:
                frame = frames[sensor.target]
                result.append((exhibit.unique_link(i, frame.link), frame.pose, text))
            elif sensor.target_kind == "joint" and sensor.target in mechanism.by_name:
                joint = mechanism.by_name[sensor.target]
                result.append((exhibit.unique_link(i, joint.child), joint.child_pose, text))
    return result


STILL: dict[str, Maker] = {
    "Collision shapes": _collision,
    "Inertia boxes": _inertia,
    "Centres of mass": _centres,
    "Frames": _frames,
    "Joints and limits": joint_marks.joints,
    "Sites": _sites,
    "Sensors": _sensors,
}
"""Layers whose marks move with their links."""
MOVING = ("Contacts", "Tendons")
"""Layers that are drawn anew whenever something moves."""


@dataclass(slots=True, eq=False)
class Layers:
    """Which layers are on, and their nodes."""

    stage: Stage
    on: set[str] = field(default_factory=lambda: {"Visual"})
    _handles: dict[str, list[Any]] = field(default_factory=dict)

    def names(self) -> list[str]:
        """All that can be switched."""
        return ["Visual", *STILL, *MOVING]

    def switch(self, name: str, on: bool) -> None:
        """Show a layer, or hide it; it is made when it is first shown."""
        (self.on.add if on else self.on.discard)(name)
        with self.stage.viser.atomic():
            if name in STILL and on and name not in self._handles:
                self._handles[name] = [h for e in self.stage.exhibits for h in STILL[name](self.stage, e)]
            for handle in self.stage.visuals if name == "Visual" else self._handles.get(name, []):
                handle.visible = on

    def rebuilt(self) -> None:
        """The stage was made anew: so are the layers."""
        self._handles = {}
        for name in self.on | {"Visual"}:
            self.switch(name, name in self.on)

    def draw_tendons(self) -> None:
        """Lines through the sites of spatial tendons; around what they wrap they are drawn straight."""
        segments, colors = [], []
        for exhibit in self.stage.exhibits if "Tendons" in self.on else []:
            places = {
                frame.name: self.stage.nodes[exhibit.number, link or "world"] for frame, link in _placed_frames(exhibit)
            }
            local = {frame.name: frame.pose.position for frame, _ in _placed_frames(exhibit)}
            for robot in exhibit.robots:
                for tendon in robot.tendons:
                    points: list[Array] = []
                    for item in tendon.path:
                        if item.kind is TendonPathKind.PULLEY:
                            points = []
                        elif item.kind is TendonPathKind.SITE and item.target in places:
                            node = places[item.target]
                            pose = Pose.from_quaternion(node.position, node.wxyz)
                            points.append(pose.apply(local[item.target]))
                            if len(points) > 1:
                                segments.append(np.stack(points[-2:]))
                                colors.append([int(255 * c) for c in tendon.color[:3]])
        self._lines("Tendons", segments, colors)

    def _lines(self, name: str, segments: list[Array], colors: list[list[int]]) -> None:
        for handle in self._handles.pop(name, []):
            handle.remove()
        if segments:
            paint = np.repeat(np.array(colors, dtype=np.uint8)[:, None], 2, axis=1)
            handle = self.stage.scene.add_line_segments(
                f"/{name}", np.stack(segments), paint, thickness=4.0, thickness_units="screen"
            )
            self._handles[name] = [handle]

    def draw_contacts(self, places: Array, forces: Array) -> None:
        """Points where things touch, with arrows as long as the forces: the longest is a quarter of everything."""
        for handle in self._handles.pop("Contacts", []):
            handle.remove()
        if "Contacts" not in self.on or not len(places):
            return
        size = self.stage.size
        handles = [
            self.stage.scene.add_point_cloud(
                "/Contacts/points", places, _CONTACT, point_size=0.012 * size, point_shape="circle"
            )
        ]
        strongest = float(np.linalg.norm(forces, axis=1).max(initial=0.0))
        if strongest > 0.0:
            ends = np.stack([places, places + forces * (0.25 * size / strongest)], axis=1)
            handles.append(
                self.stage.scene.add_arrows(
                    "/Contacts/forces",
                    ends,
                    _CONTACT,
                    shaft_radius=0.003 * size,
                    head_radius=0.008 * size,
                    head_length=0.02 * size,
                )
            )
        self._handles["Contacts"] = handles

"""Layers of the viewer that can be switched on and off.

Collision shapes, inertia boxes, frames, joint axes and limits, sites, sensors, contacts and tendons.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kinema.core import Array, Pose, rotation_aligning_z
from kinema.description import Axis, AxisMotion, Joint, TendonPathKind

from .displayed_model import DisplayedModel, ElementRef
from .gltf_meshes import is_infinite_plane, shape_triangles
from .scene_view import SceneView

# ------------------------------------------------------------------------------------------------ joint axes and limits

_ROTATION_COLOR, _TRANSLATION_COLOR, _LIMIT_COLOR, _POINTER_COLOR = (
    (40, 90, 220),
    (230, 120, 30),
    (120, 160, 240),
    (20, 40, 110),
)


def add_joint_markers(scene_view: SceneView, model: DisplayedModel) -> list[Any]:
    """Add markers of joints: an arrow per axis, a sector or rail for its limits, a pointer for its position."""
    handles: list[Any] = []
    for number, mechanism in enumerate(model.mechanisms):
        for i, joint in enumerate(mechanism.robot.joints):
            if not joint.parent_pose.is_finite or not joint.child_pose.is_finite:
                continue
            parent, child = (model.unique_link(number, end) for end in (joint.parent, joint.child))
            for j, axis in enumerate(joint.moving_axes if joint.n_dofs <= 3 else []):
                name = f"joint/{number}/{i}/{j}"
                handles += _add_axis_arrow(
                    scene_view, f"{scene_view.link_node_name(model, child)}/{name}", joint.child_pose, axis
                )
                if joint.n_dofs == 1 and parent is not None:
                    handles += _add_limit_marker(
                        scene_view, f"{scene_view.link_node_name(model, parent)}/{name}/limits", joint, axis
                    )
                    handles += _add_position_pointer(
                        scene_view, f"{scene_view.link_node_name(model, child)}/{name}/hand", joint, axis
                    )
    return handles


def _add_axis_arrow(scene_view: SceneView, name: str, pose: Pose, axis: Axis) -> list[Any]:
    reach = 0.11 * scene_view.size * axis.direction
    ends = pose.apply(np.stack([-reach, reach]))
    return [
        scene_view.scene.add_arrows(
            name,
            ends[None],
            _ROTATION_COLOR if axis.motion is AxisMotion.ROTATION else _TRANSLATION_COLOR,
            shaft_radius=0.0025 * scene_view.size,
            head_radius=0.007 * scene_view.size,
            head_length=0.018 * scene_view.size,
        )
    ]


def _add_limit_marker(scene_view: SceneView, name: str, joint: Joint, axis: Axis) -> list[Any]:
    if not (math.isfinite(axis.lower) and math.isfinite(axis.upper) and axis.upper > axis.lower):
        return []
    if axis.motion is AxisMotion.TRANSLATION:
        ends = [joint.parent_pose.apply((x - axis.reference) * axis.direction) for x in (axis.lower, axis.upper)]
        rail = np.stack(ends)[None]
        return [
            scene_view.scene.add_line_segments(
                name, rail, np.array(_LIMIT_COLOR, dtype=np.uint8), thickness=6.0, thickness_units="screen"
            )
        ]
    rim = _arc_points(axis, axis.lower - axis.reference, axis.upper - axis.reference, 0.085 * scene_view.size)
    vertices = joint.parent_pose.apply(np.concatenate([np.zeros((1, 3)), rim]))
    faces = [[0, k, k + 1] for k in range(1, len(rim))]
    return [
        scene_view.scene.add_mesh_simple(
            name, vertices, np.array(faces), color=_LIMIT_COLOR, opacity=0.55, side="double", cast_shadow=False
        )
    ]


def _add_position_pointer(scene_view: SceneView, name: str, joint: Joint, axis: Axis) -> list[Any]:
    """Add a pointer fixed to the child frame, which rotates over the sector of the limits."""
    if axis.motion is AxisMotion.TRANSLATION:
        return []
    tip = _arc_points(axis, 0.0, 0.0, 0.095 * scene_view.size)[:1]
    ends = joint.child_pose.apply(np.concatenate([np.zeros((1, 3)), tip]))
    return [
        scene_view.scene.add_line_segments(
            name, ends[None], np.array(_POINTER_COLOR, dtype=np.uint8), thickness=3.0, thickness_units="screen"
        )
    ]


def _arc_points(axis: Axis, lower: float, upper: float, radius: float) -> Array:
    """Points on a circular arc about an axis, at most one turn."""
    upper = min(upper, lower + 2 * math.pi)
    angles = np.linspace(lower, upper, max(2, round((upper - lower) / 0.1)))
    frame = rotation_aligning_z(axis.direction)
    return radius * (np.cos(angles)[:, None] * frame[:, 0] + np.sin(angles)[:, None] * frame[:, 1])


# --------------------------------------------------------------------------------------------------------------- layers

_COLLISION_COLOR, _INERTIA_COLOR, _CENTER_COLOR = (60, 170, 90), (170, 70, 190), (245, 190, 40)
_SITE_COLOR, _SENSOR_COLOR, _CONTACT_COLOR = (220, 60, 60), (30, 150, 200), (230, 50, 40)
LayerBuilder = Callable[[SceneView, DisplayedModel], list[Any]]


def _add_collision_shapes(scene_view: SceneView, model: DisplayedModel) -> list[Any]:
    handles = []
    for link, shapes in model.shapes_by_link().items():
        for i, shape in enumerate(shapes):
            mesh = shape_triangles(shape) if shape.collision and not is_infinite_plane(shape) else None
            if mesh is None:
                continue
            handle = scene_view.scene.add_mesh_simple(
                f"{scene_view.link_node_name(model, link)}/collision/{i}",
                mesh.vertices,
                mesh.faces,
                color=_COLLISION_COLOR,
                opacity=0.45,
                flat_shading=True,
                cast_shadow=False,
                position=shape.pose.position,
                wxyz=shape.pose.quaternion,
            )
            scene_view.make_pickable(handle, ElementRef(model.index, "shape", link, i))
            handles.append(handle)
    return handles


def _add_inertia_boxes(scene_view: SceneView, model: DisplayedModel) -> list[Any]:
    """Add the equivalent inertia box of each link."""
    handles = []
    for name, link in model.links.items():
        if link.inertial is None or not link.inertial.mass > 0 or not np.isfinite(link.inertial.inertia).all():
            continue
        box = inertia_box(link.inertial.mass, link.inertial.inertia)
        if box is None:
            continue
        size, turn = box
        handles.append(
            scene_view.scene.add_box(
                f"{scene_view.link_node_name(model, name)}/inertia",
                color=_INERTIA_COLOR,
                dimensions=tuple(np.maximum(size, 1e-4 * scene_view.size)),
                opacity=0.4,
                cast_shadow=False,
                position=link.inertial.center,
                wxyz=Pose(rotation=turn).quaternion,
            )
        )
    return handles


def inertia_box(mass: float, inertia: Array) -> tuple[Array, Array] | None:
    """Edge lengths [m] and axes of the uniform solid box with a mass and inertia; None if physically impossible."""
    moments, axes = np.linalg.eigh((inertia + inertia.T) / 2)
    squares = 6.0 / mass * (moments.sum() - 2.0 * moments)
    if (squares < -1e-9 * max(float(np.abs(squares).max()), 1e-300)).any():
        return None
    axes[:, 2] *= np.sign(np.linalg.det(axes)) or 1.0
    return np.sqrt(np.maximum(squares, 0.0)), axes


def _add_centers_of_mass(scene_view: SceneView, model: DisplayedModel) -> list[Any]:
    total = sum(link.inertial.mass for link in model.links.values() if link.inertial is not None) or 1.0
    handles = []
    for name, link in model.links.items():
        if link.inertial is None or not link.inertial.mass > 0:
            continue
        radius = 0.045 * scene_view.size * float(link.inertial.mass / total) ** (1 / 3)
        handles.append(
            scene_view.scene.add_icosphere(
                f"{scene_view.link_node_name(model, name)}/centre",
                radius=radius,
                color=_CENTER_COLOR,
                position=link.inertial.center,
                cast_shadow=False,
            )
        )
    return handles


def _add_frames(scene_view: SceneView, model: DisplayedModel) -> list[Any]:
    return [
        scene_view.scene.add_frame(
            f"{scene_view.link_node_name(model, name)}/axes",
            axes_length=0.06 * scene_view.size,
            axes_radius=0.002 * scene_view.size,
        )
        for name in model.links
    ]


def _add_sites(scene_view: SceneView, model: DisplayedModel) -> list[Any]:
    handles = []
    for i, (frame, link) in enumerate(_frames_with_links(model)):
        name = f"{scene_view.link_node_name(model, link)}/site/{i}"
        color = tuple(int(255 * c) for c in frame.color[:3]) if frame.color is not None else _SITE_COLOR
        handles += [
            scene_view.scene.add_icosphere(
                name, radius=0.008 * scene_view.size, color=color, position=frame.pose.position, cast_shadow=False
            ),
            scene_view.scene.add_label(f"{name}/label", frame.name, anchor="bottom-center", font_screen_scale=0.7),
        ]
    return handles


def _add_sensors(scene_view: SceneView, model: DisplayedModel) -> list[Any]:
    """Add view frusta of cameras, and labelled markers of other sensors."""
    handles = []
    for i, (link, pose, text) in enumerate(_sensor_poses(model)):
        name = f"{scene_view.link_node_name(model, link)}/sensor/{i}"
        handles += [
            scene_view.scene.add_box(
                name,
                dimensions=(0.012 * scene_view.size,) * 3,
                color=_SENSOR_COLOR,
                position=pose.position,
                wxyz=pose.quaternion,
            ),
            scene_view.scene.add_label(f"{name}/label", text, anchor="bottom-center", font_screen_scale=0.7),
        ]
    for number, mechanism in enumerate(model.mechanisms):
        for i, camera in enumerate(mechanism.robot.cameras):
            link = model.unique_link(number, camera.link)
            wide, high = camera.resolution or (4, 3)
            looking = camera.pose @ Pose(rotation=np.diag([1.0, -1.0, -1.0]))  # theirs look along +z
            handles.append(
                scene_view.scene.add_camera_frustum(
                    f"{scene_view.link_node_name(model, link)}/camera/{number}/{i}",
                    fov=camera.vertical_fov,
                    aspect=wide / max(high, 1),
                    scale=0.06 * scene_view.size,
                    color=_SENSOR_COLOR,
                    position=looking.position,
                    wxyz=looking.quaternion,
                )
            )
    return handles


def _frames_with_links(model: DisplayedModel) -> list[tuple[Any, str | None]]:
    found = [
        (frame, model.unique_link(i, frame.link))
        for i, mechanism in enumerate(model.mechanisms)
        for frame in mechanism.robot.frames
    ]
    if model.description not in model.robots:
        found += [(frame, None) for frame in model.description.frames if frame.link is None]
    return [(frame, link) for frame, link in found if frame.pose.is_finite]


def _sensor_poses(model: DisplayedModel) -> list[tuple[str | None, Pose, str]]:
    """Link, pose in the link frame and label of all sensors that have a position."""
    result: list[tuple[str | None, Pose, str]] = []
    for i, mechanism in enumerate(model.mechanisms):
        robot = mechanism.robot
        frames = {frame.name: frame for frame in robot.frames}
        for sensor in robot.sensors:
            text = f"{sensor.kind} {sensor.name}".strip()
            if sensor.target_kind == "link" and model.unique_link(i, sensor.target):
                result.append((model.unique_link(i, sensor.target), sensor.pose, text))
            elif sensor.target_kind == "frame" and sensor.target in frames:
                frame = frames[sensor.target]
                result.append((model.unique_link(i, frame.link), frame.pose, text))
            elif sensor.target_kind == "joint" and sensor.target in mechanism.joints_by_name:
                joint = mechanism.joints_by_name[sensor.target]
                result.append((model.unique_link(i, joint.child), joint.child_pose, text))
    return result


LINK_LAYERS: dict[str, LayerBuilder] = {
    "Collision shapes": _add_collision_shapes,
    "Inertia boxes": _add_inertia_boxes,
    "Centres of mass": _add_centers_of_mass,
    "Frames": _add_frames,
    "Joints and limits": add_joint_markers,
    "Sites": _add_sites,
    "Sensors": _add_sensors,
}
"""Layers whose marks move with their links."""
DYNAMIC_LAYERS = ("Contacts", "Tendons")
"""Layers that are drawn anew whenever something moves."""


@dataclass(slots=True, eq=False)
class Layers:
    """Enabled layers and their scene nodes."""

    scene_view: SceneView
    enabled: set[str] = field(default_factory=lambda: {"Visual"})
    _handles: dict[str, list[Any]] = field(default_factory=dict)

    def names(self) -> list[str]:
        """Names of all layers."""
        return ["Visual", *LINK_LAYERS, *DYNAMIC_LAYERS]

    def set_enabled(self, name: str, on: bool) -> None:
        """Show or hide a layer; its nodes are created when it is first shown."""
        (self.enabled.add if on else self.enabled.discard)(name)
        with self.scene_view.viser.atomic():
            if name in LINK_LAYERS and on and name not in self._handles:
                self._handles[name] = [h for e in self.scene_view.models for h in LINK_LAYERS[name](self.scene_view, e)]
            for handle in self.scene_view.visuals if name == "Visual" else self._handles.get(name, []):
                handle.visible = on

    def rebuild(self) -> None:
        """Recreate the nodes of all enabled layers after the scene has been rebuilt."""
        self._handles = {}
        for name in self.enabled | {"Visual"}:
            self.set_enabled(name, name in self.enabled)

    def draw_tendons(self) -> None:
        """Draw spatial tendons as lines through their sites; wrapping is drawn as straight segments."""
        segments, colors = [], []
        for exhibit in self.scene_view.models if "Tendons" in self.enabled else []:
            places = {
                frame.name: self.scene_view.nodes[exhibit.index, link or "world"]
                for frame, link in _frames_with_links(exhibit)
            }
            local = {frame.name: frame.pose.position for frame, _ in _frames_with_links(exhibit)}
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
        self._draw_lines("Tendons", segments, colors)

    def _draw_lines(self, name: str, segments: list[Array], colors: list[list[int]]) -> None:
        for handle in self._handles.pop(name, []):
            handle.remove()
        if segments:
            paint = np.repeat(np.array(colors, dtype=np.uint8)[:, None], 2, axis=1)
            handle = self.scene_view.scene.add_line_segments(
                f"/{name}", np.stack(segments), paint, thickness=4.0, thickness_units="screen"
            )
            self._handles[name] = [handle]

    def draw_contacts(self, positions: Array, forces: Array) -> None:
        """Draw contact points with force arrows, the longest a quarter of the scene size.

        Nodes are kept from one state to the next: new ones make browsers compile their shaders again.
        """
        if "Contacts" not in self.enabled or not len(positions):
            for handle in self._handles.pop("Contacts", []):
                handle.remove()
            return
        size = self.scene_view.size
        strongest = float(np.linalg.norm(forces, axis=1).max(initial=0.0))
        ends = np.stack([positions, positions + forces * (0.25 * size / max(strongest, 1e-300))], axis=1)
        if handles := self._handles.get("Contacts"):
            handles[0].points, handles[1].points = positions, ends
            return
        handles = [
            self.scene_view.scene.add_point_cloud(
                "/Contacts/points", positions, _CONTACT_COLOR, point_size=0.012 * size, point_shape="circle"
            ),
            self.scene_view.scene.add_arrows(
                "/Contacts/forces",
                ends,
                _CONTACT_COLOR,
                shaft_radius=0.003 * size,
                head_radius=0.008 * size,
                head_length=0.02 * size,
            ),
        ]
        self._handles["Contacts"] = handles

"""Displayed models: a description with world pose, element names and joint coordinates.

Also textual details of elements, the element that a diagnostic refers to, and differences between two models.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np

from kinema.core import Array, Diagnostic, Origin, Pose
from kinema.description import AxisMotion, Base, Joint, Link, Mesh, Plane, Robot, Shape, World
from kinema.scene import Entity

from .gltf_meshes import is_infinite_plane, shape_triangles
from .mechanism import Mechanism, SliderDof, from_slider_values, joint_sliders, to_slider_values

# ----------------------------------------------------------------------------------------------------- displayed models


def to_numpy(values: Any) -> np.ndarray:
    """NumPy array of an array or tensor that a getter of the scene returned, copied from a GPU if necessary."""
    return values.detach().cpu().numpy() if hasattr(values, "detach") else np.asarray(values)


WORLD = "world"
"""What the link of static shapes is called."""


@dataclass(frozen=True, slots=True)
class ElementRef:
    """Reference to a link, joint or shape of a displayed model."""

    model_index: int
    kind: str
    """`link`, `joint` or `shape`."""
    name: str
    """Of the link or joint; of a shape, its link's."""
    shape_index: int = -1
    """Index of a shape in its link."""


@dataclass(slots=True, eq=False)
class DisplayedModel:
    """Displayed description, posed by its joint coordinates or by an entity of a scene."""

    index: int
    title: str
    description: Robot | World
    world_pose: Pose = field(default_factory=Pose)
    """Pose of the model's world frame in the viewer's world."""
    diagnostics: list[Diagnostic] = field(default_factory=list)
    entity: Entity | None = None
    """Simulated entity; None before the scene is built."""
    links: dict[str, Link] = field(default_factory=dict)
    joints: dict[str, Joint] = field(default_factory=dict)
    mechanisms: list[Mechanism] = field(default_factory=list)
    _unique_names: dict[int, dict[str, str]] = field(default_factory=dict)
    """For each mechanism, unique names by `kind:name` of links and joints."""

    def __post_init__(self) -> None:
        robots = self.robots
        self.mechanisms = [Mechanism(robot) for robot in robots]
        if isinstance(self.description, World):
            links = [(name, robot, link) for name, robot, link in self.description.named_links()]
            joints = [(name, robot, joint) for name, robot, joint in self.description.named_joints()]
        else:
            links = [(link.name, self.description, link) for link in self.description.links]
            joints = [(joint.name, self.description, joint) for joint in self.description.joints]
        self.links = {name: link for name, _, link in links}
        self.joints = {name: joint for name, _, joint in joints}
        robot_index = {id(robot): i for i, robot in enumerate(robots)}
        for kind, rows in (("link", links), ("joint", joints)):
            for name, robot, node in rows:
                self._unique_names.setdefault(robot_index[id(robot)], {})[f"{kind}:{node.name}"] = name

    @property
    def robots(self) -> list[Robot]:
        """Robots of the description."""
        return self.description.robots if isinstance(self.description, World) else [self.description]

    @property
    def static_shapes(self) -> list[Shape]:
        """Shapes of a world that never move."""
        return self.description.shapes if isinstance(self.description, World) else []

    def static_links(self) -> set[str]:
        """Links that cannot move: of static robots, and of robots without joints that are fixed, in file or scene."""
        fixed = self.entity is not None and self.entity.n_dofs == 0
        return {
            name
            for i, robot in enumerate(self.robots)
            if robot.static or ((fixed or robot.base is Base.FIXED) and not any(j.n_dofs for j in robot.joints))
            for key, name in self._unique_names.get(i, {}).items()
            if key.startswith("link:") and not self.links[name].kinematic
        }

    def link_shapes(self, link: str) -> list[Shape]:
        """Shapes of a link, or of the world."""
        return self.static_shapes if link == WORLD and link not in self.links else self.links[link].shapes

    def shapes_by_link(self) -> dict[str, list[Shape]]:
        """All shapes by link name."""
        found = {name: link.shapes for name, link in self.links.items()}
        return found if WORLD in found or not self.static_shapes else {WORLD: self.static_shapes, **found}

    def drawn_shapes(self) -> dict[str, list[tuple[int, Shape]]]:
        """Shapes that are drawn, with their indices in their links, by link name; infinite planes are excluded.

        These are the visual shapes. All shapes of a link are drawn if no link has a visual shape, or if all visual
        shapes of the link are missing meshes.
        """
        own = [shape for link in self.links.values() for shape in link.shapes]
        every = not any(shape.visual for shape in own)
        result = {}
        for link, shapes in self.shapes_by_link().items():
            seen = [(i, s) for i, s in enumerate(shapes) if s.visual and not is_infinite_plane(s)]
            if link in self.links and (every or (seen and all(_is_missing_mesh(s) for _, s in seen))):
                seen = [(i, s) for i, s in enumerate(shapes) if not is_infinite_plane(s)]
            result[link] = seen
        return result

    def unique_link(self, mechanism: int, name: str | None) -> str | None:
        """Unique name of a link of one robot; None for a base frame."""
        return None if name is None else self._unique_names.get(mechanism, {}).get(f"link:{name}")

    def unique_joint(self, mechanism: int, name: str) -> str:
        """Unique name of a joint of one robot."""
        return self._unique_names[mechanism][f"joint:{name}"]

    # --------------------------------------------------------------------------------------------------- posing

    def sliders(self) -> list[SliderDof]:
        """Slider degrees of freedom of all joints of the spanning trees."""
        return [
            slide
            for i, mechanism in enumerate(self.mechanisms)
            for edge in mechanism.tree.edges
            for joint in edge.joints
            for slide in joint_sliders(self.unique_joint(i, joint.name), joint)
        ]

    def slider_values(self) -> dict[str, Array]:
        """Slider values of all joints."""
        return {
            self.unique_joint(i, name): to_slider_values(mechanism.joints_by_name[name], q)
            for i, mechanism in enumerate(self.mechanisms)
            for name, q in mechanism.coordinates.items()
        }

    def set_slider_values(self, moved: Mapping[str, Array]) -> bool:
        """Set joints to slider values, with mimic joints and loop closure; False if loops cannot be closed."""
        fine = True
        for i, mechanism in enumerate(self.mechanisms):
            own = {
                name: from_slider_values(joint, moved[unique])
                for name, joint in mechanism.joints_by_name.items()
                if (unique := self.unique_joint(i, name)) in moved
            }
            fine &= mechanism.move_joints(own) if own else True
        return fine

    def reset_joints(self) -> None:
        """Reset all joints to the initial configuration of the file."""
        for mechanism in self.mechanisms:
            mechanism.reset()

    def link_poses(self) -> dict[str, Pose]:
        """World poses of all links at the current joint coordinates."""
        result = {
            self._unique_names[i][f"link:{name}"]: self.world_pose @ pose
            for i, mechanism in enumerate(self.mechanisms)
            for name, pose in mechanism.link_poses().items()
        }
        return result if WORLD in result else {WORLD: self.world_pose, **result}

    # ------------------------------------------------------------------------------------------------- simulated

    def simulated_link_pose(self, link: str, env: int) -> Pose:
        """World pose of a link in an environment of the simulation."""
        assert self.entity is not None
        handle = self.entity.get_link(link)
        return Pose.from_quaternion(to_numpy(handle.get_pos([env]))[0], to_numpy(handle.get_quat([env]))[0])

    def simulated_poses(self, envs: Any) -> dict[str, tuple[Array, Array]]:
        """Positions (n, 3) and quaternions (n, 4) of all links in some environments."""
        assert self.entity is not None
        places = to_numpy(self.entity.get_links_pos(envs_idx=envs))
        turns = to_numpy(self.entity.get_links_quat(envs_idx=envs))
        result = {link.name: (places[:, i], turns[:, i]) for i, link in enumerate(self.entity.links)}
        still = np.tile(self.world_pose.position, (len(envs), 1)), np.tile(self.world_pose.quaternion, (len(envs), 1))
        return result if WORLD in result else {WORLD: still, **result}

    def is_present(self, envs: list[int]) -> np.ndarray:
        """Whether the entity is present in some environments, bool (n,)."""
        return np.ones(len(envs), np.bool_) if self.entity is None else self.entity.is_present(envs)

    def read_joints_from_simulation(self, env: int) -> None:
        """Set the joint coordinates to those of an environment of the simulation."""
        assert self.entity is not None
        q = to_numpy(self.entity.get_qpos([env]))[0]
        known = {j.name: q[list(j.qs_idx)].astype(np.float64) for j in self.entity.joints}
        for i, mechanism in enumerate(self.mechanisms):
            own = {
                name: known[unique]
                for name, joint in mechanism.joints_by_name.items()
                if (unique := self.unique_joint(i, name)) in known and len(known[unique]) == joint.n_qs
            }
            mechanism.set_coordinates(own)

    def write_joints_to_simulation(self, env: int | None) -> None:
        """Set one or all environments of the simulation to the joint coordinates."""
        assert self.entity is not None
        values = {
            self.unique_joint(i, name): q
            for i, mechanism in enumerate(self.mechanisms)
            for name, q in mechanism.coordinates.items()
        }
        envs = None if env is None else [env]
        q = np.array(to_numpy(self.entity.get_qpos(envs)))
        for joint in self.entity.joints:
            if joint.name in values and len(values[joint.name]) == len(joint.qs_idx):
                q[:, list(joint.qs_idx)] = values[joint.name]
        self.entity.set_qpos(q, envs)
        self.entity.set_qvel(np.zeros((len(q), self.entity.n_dofs)), envs)


def _is_missing_mesh(shape: Shape) -> bool:
    """Whether a shape is a mesh whose file was not found."""
    mesh = shape.geometry
    return isinstance(mesh, Mesh) and mesh.vertices is None and not mesh.path


_GROUND_RATIO = 5.0
"""Static shapes that are wider than all links together by this factor are ground."""


def bounding_box(*models: DisplayedModel) -> tuple[Array, Array] | None:
    """World bounding box of all bounded shapes of models [m]; None if there are none.

    Ground counts only if there is nothing else: static planes, and static shapes much wider than the moving links.
    """
    moving: list[Array] = []
    static: list[tuple[Shape, Array]] = []
    for model in models:
        poses = model.link_poses()
        fixed = {WORLD, *model.static_links()}
        moving += [pose.position[None] for name, pose in poses.items() if name not in fixed and pose.is_finite]
        for link, shapes in model.drawn_shapes().items():
            for _, shape in shapes:
                mesh = shape_triangles(shape)
                if mesh is None or not poses[link].is_finite:
                    continue
                low, high = mesh.vertices.min(axis=0), mesh.vertices.max(axis=0)
                box = np.array(np.meshgrid(*np.stack([low, high], axis=1), indexing="ij")).reshape(3, -1).T
                corners = (poses[link] @ shape.pose).apply(box)
                if link in fixed:
                    static.append((shape, corners))
                else:
                    moving.append(corners)
    widest = _GROUND_RATIO * float(np.ptp(np.concatenate(moving), axis=0).max()) if moving else np.inf
    other = [c for s, c in static if not isinstance(s.geometry, Plane) and np.ptp(c[:, :2], axis=0).max() <= widest]
    corners = [*moving, *other] or [c for _, c in static]
    if not corners:
        return None
    every = np.concatenate(corners)
    return every.min(axis=0), every.max(axis=0)


# ------------------------------------------------------------------------------------------------------ element details

_ELEMENT_PATTERN = re.compile(r'(link|joint) "([^"]+)"')


def shape_label(shape: Shape) -> str:
    """Label of a shape in the tree: its name, or the name of its mesh file, or its geometry type."""
    if shape.name and not shape.name_is_generated:
        return shape.name
    if isinstance(shape.geometry, Mesh) and shape.geometry.uri:
        return shape.geometry.uri.rpartition("/")[2]
    return shape.kind


def element_details_html(model: DisplayedModel, element: ElementRef) -> str:
    """HTML table of the properties of a link, joint or shape."""
    if element.kind == "joint":
        head, rows, node = element.name, _joint_rows(model.joints[element.name]), model.joints[element.name]
    elif element.kind == "shape":
        node = model.link_shapes(element.name)[element.shape_index]
        head, rows = f"{shape_label(node)} of {element.name}", _shape_rows(node)
    else:
        node = model.links.get(element.name)
        head, rows = element.name, _link_rows(node) if node is not None else {}
    if node is not None and str(node.origin):
        rows["from"] = str(node.origin)
    lines = "".join(
        f"<tr><td style='opacity:.6;padding-right:.8em;vertical-align:top'>{escape(k)}</td><td>{escape(v)}</td></tr>"
        for k, v in rows.items()
    )
    return f"<b>{escape(element.kind)} {escape(head)}</b><table style='font-size:.85em'>{lines}</table>"


def _format_values(values: Any) -> str:
    return ", ".join(f"{float(v):.4g}" for v in values)


def _link_rows(link: Link) -> dict[str, str]:
    rows = {}
    if link.inertial is not None:
        rows["mass"] = f"{link.inertial.mass:.4g} kg"
        rows["centre"] = f"{_format_values(link.inertial.center)} m"
        rows["inertia"] = f"{_format_values(link.inertial.inertia.diagonal())} kg m²"
    rows["shapes"] = f"{len(link.visuals)} to be seen, {len(link.collisions)} that collide"
    return rows


def _joint_rows(joint: Joint) -> dict[str, str]:
    rows = {"kind": joint.kind.value, "between": f"{joint.parent or WORLD} and {joint.child or WORLD}"}
    for i, axis in enumerate(joint.moving_axes):
        number = f" {i}" if joint.n_dofs > 1 else ""
        unit = "rad" if axis.motion is AxisMotion.ROTATION else "m"
        rows[f"axis{number}"] = _format_values(axis.direction)
        if math.isfinite(axis.lower) or math.isfinite(axis.upper):
            rows[f"limits{number}"] = f"{axis.lower:.4g} to {axis.upper:.4g} {unit}"
        if axis.mimic is not None:
            rows[f"follows{number}"] = f"{axis.mimic.multiplier:g} × {axis.mimic.joint} + {axis.mimic.offset:g}"
        for word, value in (("damping", axis.damping), ("friction", axis.friction), ("armature", axis.armature)):
            if value:
                rows[f"{word}{number}"] = f"{value:.4g}"
    return rows


def _shape_rows(shape: Shape) -> dict[str, str]:
    role = [word for word, on in (("seen", shape.visual), ("collides", shape.collision)) if on]
    rows = {"kind": shape.kind, "role": ", ".join(role) or "none", "place": f"{_format_values(shape.pose.position)} m"}
    for name in ("size", "radius", "radii", "length"):
        value = getattr(shape.geometry, name, None)
        if value is not None:
            rows[name] = f"{_format_values(value if hasattr(value, '__len__') else [value])} m"
    if shape.material is not None and shape.material.color is not None:
        rows["colour"] = _format_values(shape.material.color)
    return rows


def find_diagnosed_element(model: DisplayedModel, diagnostic: Diagnostic) -> ElementRef | None:
    """Element that a diagnostic refers to: by position in the file, or by a name in its message."""
    at = diagnostic.origin
    named = _find_named_element(model, diagnostic.message)
    if at.line is None and not at.path:
        return named
    for link, shapes in model.shapes_by_link().items():
        for i, shape in enumerate(shapes):
            if _is_same_origin(shape.origin, at):
                return ElementRef(model.index, "shape", link, i)
    for kind, nodes in (("joint", model.joints), ("link", model.links)):
        for name, node in nodes.items():
            if _is_same_origin(node.origin, at):
                return ElementRef(model.index, kind, name)
    return named


def _is_same_origin(a: Origin, b: Origin) -> bool:
    return (a.line is not None or bool(a.path)) and (a.line, a.path, a.file) == (b.line, b.path, b.file)


def _find_named_element(model: DisplayedModel, message: str) -> ElementRef | None:
    for kind, name in _ELEMENT_PATTERN.findall(message):
        known = model.links if kind == "link" else model.joints
        unique = next((u for u, node in known.items() if name in (u, node.name)), None)
        if unique is not None:
            return ElementRef(model.index, kind, unique)
    return None


# --------------------------------------------------------------------------------------- differences between two models

CHANGED_COLOR, MISSING_COLOR = (255, 200, 0), (220, 40, 40)
"""Colours of what differs, and of what only one of the two has."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Element that differs between two models."""

    element: ElementRef
    text: str
    is_missing: bool = False
    """Whether the other has no such part at all."""


def find_differences(first: DisplayedModel, second: DisplayedModel) -> list[Difference]:
    """Differences between two models, matching elements by name; length tolerance is 1e-6 of the robot's size."""
    box = bounding_box(first)
    size = 1.0 if box is None else max(float(np.linalg.norm(box[1] - box[0])), 1e-6)
    found: list[Difference] = []
    for one, other in ((first, second), (second, first)):
        for kind, own, others in (("link", one.links, other.links), ("joint", one.joints, other.joints)):
            missing = [name for name in own if name not in others]
            found += [
                Difference(ElementRef(one.index, kind, n), f"{other.title} has no {kind} {n}", True) for n in missing
            ]
    poses = [first.link_poses(), second.link_poses()]
    for name in (n for n in first.links if n in second.links):
        differences = _link_differences(first.links[name], second.links[name], size)
        places = [first.world_pose.inverse() @ poses[0][name], second.world_pose.inverse() @ poses[1][name]]
        if not places[0].is_close(places[1], 1e-6 * max(size, 1.0)):
            differences.append("it stands elsewhere")
        found += [
            Difference(ElementRef(e.index, "link", name), f"link {name}: {t}")
            for t in differences
            for e in (first, second)
        ]
    for name in (n for n in first.joints if n in second.joints):
        differences = _joint_differences(first.joints[name], second.joints[name])
        found += [
            Difference(ElementRef(e.index, "joint", name), f"joint {name}: {t}")
            for t in differences
            for e in (first, second)
        ]
    return found


def _link_differences(a: Link, b: Link, size: float) -> list[str]:
    differences = []
    masses = [0.0 if x.inertial is None else x.inertial.mass for x in (a, b)]
    if not math.isclose(*masses, rel_tol=1e-6, abs_tol=1e-9):
        differences.append(f"mass {masses[0]:.6g} against {masses[1]:.6g} kg")
    if a.inertial is not None and b.inertial is not None:
        if not np.allclose(a.inertial.center, b.inertial.center, rtol=0, atol=1e-6 * size):
            differences.append("another centre of mass")
        scale = float(np.abs(a.inertial.inertia).max(initial=0.0))
        if not np.allclose(a.inertial.inertia, b.inertial.inertia, rtol=1e-5, atol=1e-6 * scale):
            differences.append("another inertia")
    for role in ("visual", "collision"):
        one, other = (_shapes_bounding_box([s for s in x.shapes if getattr(s, role)]) for x in (a, b))
        if (one is None) != (other is None):
            differences.append(f"{role} shapes in one of them only")
        elif one is not None and other is not None and not np.allclose(one, other, rtol=0, atol=1e-4 * size):
            differences.append(f"{role} shapes of another extent")
    return differences


def _shapes_bounding_box(shapes: list[Shape]) -> np.ndarray | None:
    """Corners of the bounding box of shapes in the link frame."""
    points = [shape.pose.apply(mesh.vertices) for shape in shapes if (mesh := shape_triangles(shape)) is not None]
    if not points:
        return None
    every = np.concatenate(points)
    return np.stack([every.min(axis=0), every.max(axis=0)])


def _joint_differences(a: Joint, b: Joint) -> list[str]:
    if a.n_dofs != b.n_dofs:
        return [f"{a.kind} against {b.kind}"]
    differences = []
    for one, other in zip(a.moving_axes, b.moving_axes, strict=True):
        limits = [(x.lower - x.reference, x.upper - x.reference) for x in (one, other)]
        if not np.allclose(*limits, rtol=1e-5, atol=1e-6, equal_nan=True):
            differences.append("limits {:.4g} to {:.4g} against {:.4g} to {:.4g}".format(*limits[0], *limits[1]))
        for word in ("damping", "friction", "armature"):
            values = [getattr(x, word) for x in (one, other)]
            if not math.isclose(*values, rel_tol=1e-5, abs_tol=1e-9):
                differences.append(f"{word} {values[0]:.4g} against {values[1]:.4g}")
        if (one.mimic is None) != (other.mimic is None):
            differences.append("it follows another joint in one of them only")
    return differences

"""Converts a build123d assembly to a robot: parts, tessellated bodies, mass properties and joints.

Parts become occurrences of a CAD snapshot; joint axes are measured by driving the joints. build123d works in
millimetres. The local frame of a part is the frame that its `location` moves.
"""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kinema.core import Array, Diagnostics, KinemaError, Pose, axis_angle_to_matrix, import_optional, unique_name
from kinema.description import AxisMotion, Robot
from kinema.geometry import MeshData, inertia_from_second_moment

from ..resolve import Resolver
from .convert import convert_snapshot
from .elements import (
    FORMAT,
    JOINT_MOTIONS,
    ROOT_PATH,
    BodyElement,
    JointElement,
    MeshElement,
    MotionElement,
    OccurrenceElement,
    PhysicalElement,
    PoseSampleElement,
    Snapshot,
)

# -- parts and bodies --------------------------------------------------------------------------------------------------

MILLIMETRE = 1e-3
"""build123d's unit of length [m]."""
DEFAULT_DENSITY = 1000.0
"""Density [kg/m3] of parts without a material: water, as MuJoCo's default."""
DEFAULT_TOLERANCE = 1e-4
DEFAULT_ANGULAR_TOLERANCE = 0.2
_MAX_DEPTH = 90


@dataclass(frozen=True, kw_only=True, slots=True)
class SolidOptions:
    """Options for converting solids to bodies: densities and tessellation tolerances."""

    density: float = DEFAULT_DENSITY
    """Density [kg/m3] of parts that have no material."""
    densities: Mapping[str, float] = field(default_factory=dict)
    """Label or path of a part, or name of a material -> density [kg/m3]."""
    tolerance: float = DEFAULT_TOLERANCE
    """Maximum distance [m] between triangles and surface."""
    angular_tolerance: float = DEFAULT_ANGULAR_TOLERANCE
    """Maximum angle [rad] between neighbouring triangles."""


@dataclass(frozen=True, slots=True, eq=False)
class AssemblyPart:
    """A build123d shape and the corresponding occurrence."""

    shape: Any
    occurrence: OccurrenceElement


@dataclass(slots=True, eq=False)
class AssemblyWalker:
    """Depth-first traversal of a build123d assembly; `parts` receives the occurrences, parents first."""

    options: SolidOptions
    diagnostics: Diagnostics
    parts: list[AssemblyPart] = field(default_factory=list)
    _used_paths: set[str] = field(default_factory=set)
    _meshes: dict[int, tuple[Any, MeshData | None]] = field(default_factory=dict)
    """id of a geometry -> (geometry, mesh), so that repeated parts share meshes. The reference keeps the id valid."""
    _used_densities: set[str] = field(default_factory=set)
    _without_material: int = 0

    def add_assembly(self, shape: Any) -> None:
        """Add a shape with all descendants to `parts`, and report assumed or unused densities."""
        if shape.wrapped is not None:
            name = _part_name(shape)
            # the root must not occupy the path of a part: paths of parts do not include its name
            self._add_shape(shape, name, f"{name}+" if shape.children else name, Pose(), ROOT_PATH)
        if self._without_material:
            message = f"{self._without_material} parts have no material: they get {self.options.density:g} kg/m3"
            hint = "give them a material, or give a density"
            self.diagnostics.note(f"{FORMAT}.default-density", message, hint=hint)
        for name in sorted(set(self.options.densities) - self._used_densities):
            message = f"there is no part or material {name!r:.80}, for which a density is given"
            self.diagnostics.warning(f"{FORMAT}.unknown-part", message)

    def _add_shape(self, shape: Any, name: str, path: str, parent_pose: Pose, parent: str) -> None:
        """Append the occurrence of one shape to `parts`, then its body (leaf) or its children."""
        path = unique_name(path, self._used_paths)
        occurrence = OccurrenceElement(path=path, name=name, parent=parent, component=name)
        occurrence.pose = parent_pose @ location_to_pose(shape.location)
        self.parts.append(AssemblyPart(shape, occurrence))
        if not shape.children:
            self._add_body(shape, occurrence)
        elif path.count("+") >= _MAX_DEPTH:
            message = f'"{name}" is nested more than {_MAX_DEPTH} deep; what is inside is left out'
            self.diagnostics.error(f"{FORMAT}.nesting", message)
        else:
            self._add_children(shape, occurrence)

    def _add_children(self, shape: Any, occurrence: OccurrenceElement) -> None:
        """Add the children of a shape; children with equal names are numbered."""
        children = [(child, _part_name(child)) for child in shape.children if child.wrapped is not None]
        count = Counter(name for _, name in children)
        number: Counter[str] = Counter()
        prefix = f"{occurrence.path}+" if occurrence.parent != ROOT_PATH else ""
        for child, name in children:
            number[name] += 1
            label = f"{name}_{number[name]}" if count[name] > 1 else name
            self._add_shape(child, name, prefix + label, occurrence.pose, occurrence.path)

    def _add_body(self, shape: Any, occurrence: OccurrenceElement) -> None:
        """Add a body with mesh, mass properties, material and colour to an occurrence."""
        mesh = self._cached_mesh(shape)
        if mesh is None:
            message = f'"{occurrence.name}" ({type(shape).__name__}) has no surface; it has no body'
            self.diagnostics.note(f"{FORMAT}.no-solid", message)
            return
        body = BodyElement(name=occurrence.name, mesh=MeshElement(triangles=mesh))
        material = shape.material
        body.material = "" if material is None else _replace_surrogates(str(material.material.name))
        body.physical = self._mass_properties(shape, occurrence, body.material)
        color = shape.color
        if color is not None:
            red, green, blue, alpha = (min(max(float(c), 0.0), 1.0) for c in color)
            body.color = (red, green, blue, alpha)
        occurrence.bodies.append(body)

    def _cached_mesh(self, shape: Any) -> MeshData | None:
        geometry = shape.wrapped.TShape()
        if id(geometry) not in self._meshes:
            self._meshes[id(geometry)] = (geometry, self._tessellate(shape))
        return self._meshes[id(geometry)][1]

    def _tessellate(self, shape: Any) -> MeshData | None:
        """Triangle mesh of a shape in the part's local frame [m]; None without surface."""
        if not shape.faces():
            return None
        corners, faces = shape.tessellate(self.options.tolerance / MILLIMETRE, self.options.angular_tolerance)
        # faces do not share vertices; vertices on common edges are bitwise equal
        vertices, index = np.unique([tuple(c) for c in corners], axis=0, return_inverse=True)
        triangles = index.reshape(-1)[np.array(faces, dtype=np.int64).reshape(-1, 3)]
        is_flat = (triangles == np.roll(triangles, 1, axis=1)).any(axis=1)
        if is_flat.all():
            return None
        home = location_to_pose(shape.location)
        return MeshData((vertices * MILLIMETRE - home.position) @ home.rotation, triangles[~is_flat])

    def _mass_properties(self, shape: Any, occurrence: OccurrenceElement, material: str) -> PhysicalElement | None:
        """Mass, centre of mass and inertia of a part in its local frame; None if its volume is not positive."""
        volume = float(shape.volume) * MILLIMETRE**3
        if not volume > 0:
            return None  # a sheet, or inside out: the description gets a warning that there is no mass
        mass = volume * self._density(shape, occurrence, material)
        center, about_center = _unit_density_inertia(shape)
        about_center *= mass / volume
        about_origin = about_center + inertia_from_second_moment(mass * np.outer(center, center))
        principal = np.asarray(np.linalg.eigvalsh(about_center), dtype=np.float64)
        return PhysicalElement(mass=mass, center=center, inertia=about_origin, principal=principal, frame="component")

    def _density(self, shape: Any, occurrence: OccurrenceElement, material: str) -> float:
        """Density [kg/m3] of a part: by path, name or material from the options, its material, or the default."""
        for name in (occurrence.path, occurrence.name, material):
            if name in self.options.densities:
                self._used_densities.add(name)
                return self.options.densities[name]
        stated = shape.material and shape.material.material.density
        if stated:
            return float(stated)
        self._without_material += 1
        return self.options.density


def _unit_density_inertia(shape: Any) -> tuple[Array, Array]:
    """Centre of mass [m] and inertia about it for unit density [kg m2], in the part's local frame."""
    from build123d import CenterOf  # pyright: ignore[reportMissingImports]

    home = location_to_pose(shape.location)
    center = np.array(tuple(shape.center(CenterOf.MASS)), dtype=np.float64) * MILLIMETRE
    inertia = np.array(shape.matrix_of_inertia, dtype=np.float64) * MILLIMETRE**5
    return home.inverse().apply(center), home.rotation.T @ inertia @ home.rotation


def location_to_pose(location: Any) -> Pose:
    """Pose [m] of a build123d `Location` [mm]."""
    moved = location.wrapped.Transformation()
    cells = np.array([[moved.Value(row, column) for column in range(1, 5)] for row in range(1, 4)])
    return Pose(cells[:, 3] * MILLIMETRE, cells[:, :3].copy())


def _part_name(shape: Any) -> str:
    return _replace_surrogates(shape.label) or "part"


def _replace_surrogates(label: str) -> str:
    return label.encode("utf-8", "replace").decode()


# -- joints ------------------------------------------------------------------------------------------------------------

_PROBE_STEP = {AxisMotion.ROTATION: 0.5, AxisMotion.TRANSLATION: 0.1}
"""Displacement [rad or m] used to measure a joint axis."""
_POSE_TOLERANCE = 1e-6
"""Tolerance [m or rad] between the pose of a part and the pose computed from its joint."""
_UNLIMITED = (-math.inf, math.inf)
_DEGREE = math.radians(1.0)


@dataclass(frozen=True, slots=True)
class _MotionSetting:
    """Keyword, value and range of one motion of a build123d joint, in degrees or millimetres."""

    keyword: str
    value: float
    range: tuple[float, float]


@dataclass(slots=True, eq=False)
class _Connection:
    """Two connected build123d joints; `caller` belongs to the parent part.

    `a.connect_to(b)` moves the part of `b`, so the part of `a` is the parent.
    """

    caller: Any
    other: Any
    parent: AssemblyPart
    child: AssemblyPart
    type: str = "rigid"
    settings: dict[str, _MotionSetting] = field(default_factory=dict)

    @property
    def moving_joint(self) -> Any:
        """The joint of the pair that is not a `RigidJoint`."""
        return self.other if type(self.caller).__name__ == "RigidJoint" else self.caller

    @property
    def is_reversed(self) -> bool:
        """Whether the moving joint belongs to the child part."""
        return self.moving_joint is self.other and self.type != "rigid"

    def child_pose_at(self, values: Mapping[str, float]) -> Pose:
        """Pose of the child in the parent frame at the given joint values [rad or m], from `relative_to`."""
        caller, other = copy.copy(self.caller), copy.copy(self.other)  # `relative_to` stores its arguments
        for joint in (caller, other):
            joint.angular_range = joint.linear_range = _UNLIMITED
        given = {self.settings[name].keyword: value / self.unit(name) for name, value in values.items()}
        return location_to_pose(caller.relative_to(other, **given))

    def unit(self, motion: str) -> float:
        """Scale from build123d's unit of a motion (degree or millimetre) to SI."""
        return _DEGREE if JOINT_MOTIONS[self.type][motion] is AxisMotion.ROTATION else MILLIMETRE

    def si_values(self) -> dict[str, float]:
        """Current joint values [rad or m] by motion."""
        return {name: setting.value * self.unit(name) for name, setting in self.settings.items()}


def read_joint_elements(parts: Sequence[AssemblyPart], diagnostics: Diagnostics) -> list[JointElement]:
    """Joints between the parts of an assembly; connections to parts outside are reported and skipped."""
    part_of = {id(part.shape): part for part in parts}
    elements = []
    for part in parts:
        for joint in getattr(part.shape, "joints", {}).values():  # lines and faces have none
            other = joint.connected_to
            if other is None:
                continue
            child = part_of.get(id(other.parent))
            if child is None:
                message = f'joint "{joint.label}" of "{part.occurrence.name}" leads to a part outside the assembly'
                hint = "add that part to the assembly, or connect the copy that is in it"
                diagnostics.warning(f"{FORMAT}.joint-outside-assembly", message, hint=hint)
                continue
            elements.append(_joint_element(_Connection(joint, other, part, child), diagnostics))
    return elements


def _joint_element(connection: _Connection, diagnostics: Diagnostics) -> JointElement:
    """Snapshot joint of a connection, with frame, axes, values and limits in SI units."""
    _classify(connection, diagnostics)
    parent, child = connection.parent.occurrence, connection.child.occurrence
    joint = connection.moving_joint if connection.type != "rigid" else connection.caller
    element = JointElement(
        name=joint.label,
        type=connection.type,
        context=parent.path,
        occurrence_one=child.path,
        occurrence_two=parent.path,
    )
    frame = (
        parent.pose
        @ location_to_pose(connection.parent.shape.location).inverse()
        @ location_to_pose(connection.caller.location)
    )
    element.frame1 = frame
    if connection.type == "ball":
        _add_ball_motions(element, connection, frame)
    elif connection.type != "rigid":
        _measure_axes(element, connection, frame)
    return element


def _classify(connection: _Connection, diagnostics: Diagnostics) -> None:
    """Set the joint type and the motion settings of a connection from the class of its moving joint."""
    moving = connection.moving_joint
    kind = type(moving).__name__
    if kind == "RevoluteJoint":
        connection.type = "revolute"
        connection.settings = {"rotation": _MotionSetting("angle", moving._angle or 0.0, moving.angular_range)}
    elif kind == "LinearJoint":
        connection.type = "slider"
        connection.settings = {"slide": _MotionSetting("position", moving.position or 0.0, moving.linear_range)}
        if type(connection.other).__name__ == "RevoluteJoint":
            connection.type = "pin_slot"
            turned = _MotionSetting("angle", moving.angle or 0.0, connection.other.angular_range)
            connection.settings["rotation"] = turned
    elif kind == "CylindricalJoint":
        connection.type = "cylindrical"
        connection.settings = {
            "rotation": _MotionSetting("angle", moving.angle or 0.0, moving.angular_range),
            "slide": _MotionSetting("position", moving.position or 0.0, moving.linear_range),
        }
    elif kind == "BallJoint":
        connection.type = "ball"
    elif kind != "RigidJoint":
        message = f'joint "{moving.label}" is a {kind}, which is not known; it is fixed'
        diagnostics.warning(f"{FORMAT}.unknown-joint-type", message)
        return
    if connection.type != "ball":
        _warn_if_moved(connection, diagnostics)


def _warn_if_moved(connection: _Connection, diagnostics: Diagnostics) -> None:
    """Warn if a part was moved away from the pose given by its joint; the actual pose is used."""
    parent, child = connection.parent.occurrence, connection.child.occurrence
    error = max((parent.pose @ connection.child_pose_at(connection.si_values())).distance(child.pose))
    if error > _POSE_TOLERANCE:
        message = (
            f'"{child.name}" was moved by {error:.3g} (m or rad) since joint "{connection.caller.label}" put it there'
        )
        hint = "connect the parts from the base outwards, then do not move them one by one"
        diagnostics.warning(f"{FORMAT}.moved-since-connected", message, hint=hint)


def _measure_axes(element: JointElement, connection: _Connection, joint_frame: Pose) -> None:
    """Measure the motion axes of a joint by finite displacement of each motion, and store them in `element`.

    Axes are measured rather than read, because build123d rotates about a different axis than the declared one if a
    revolute joint has an angle reference and its axis is not z. Also appends a pose sample for verification.
    """
    values, parent = connection.si_values(), connection.parent.occurrence.pose
    start = connection.child_pose_at(values)
    for name, setting in connection.settings.items():
        motion = JOINT_MOTIONS[connection.type][name]
        step = _PROBE_STEP[motion]
        moved = (
            parent
            @ connection.child_pose_at({**values, name: values[name] + step})
            @ start.inverse()
            @ parent.inverse()
        )
        if motion is AxisMotion.ROTATION:
            axis, joint_frame = _rotation_axis(moved, joint_frame)
        else:
            axis = moved.position / np.linalg.norm(moved.position)
        lower, upper = _limits_in_si(setting.range, connection.unit(name))
        element.motions[name] = MotionElement(axis=axis, value=values[name], lower=lower, upper=upper)
    element.frame1 = joint_frame
    driven = {name: value - 0.3 * _PROBE_STEP[JOINT_MOTIONS[connection.type][name]] for name, value in values.items()}
    expected = parent @ start
    actual = connection.child.occurrence.pose
    if max(expected.distance(actual)) <= _POSE_TOLERANCE:
        pose = parent @ connection.child_pose_at(driven)
        element.pose_samples.append(PoseSampleElement(values=driven, pose1=pose, pose2=parent))


def _rotation_axis(moved: Pose, joint_frame: Pose) -> tuple[Array, Pose]:
    """Axis of the rotation `moved`, and the joint frame translated to the nearest point on that axis."""
    turn = moved.rotation
    axis = np.array([turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]])
    axis /= np.linalg.norm(axis)
    stays = np.eye(3) - turn
    point = joint_frame.position + np.linalg.pinv(stays, rcond=1e-6) @ (moved.position - stays @ joint_frame.position)
    return axis, Pose(point, joint_frame.rotation)


def _limits_in_si(bounds: tuple[float, float], unit: float) -> tuple[float | None, float | None]:
    """Joint limits in SI units; None for infinite limits and for ranges of a full turn (build123d's default)."""
    lower, upper = (float(b) * unit for b in bounds)
    if unit == _DEGREE and upper - lower >= 2 * math.pi - 1e-9:
        return None, None
    return lower if math.isfinite(lower) else None, upper if math.isfinite(upper) else None


def _add_ball_motions(element: JointElement, connection: _Connection, joint_frame: Pose) -> None:
    """Add the three rotations of a ball joint (intrinsic x, y, z angles of the relative orientation) to `element`.

    build123d does not store the angles. If the moving joint belongs to the child, order and signs are reversed.
    """
    on_parent, on_child = (location_to_pose(j.relative_location) for j in (connection.caller, connection.other))
    parent, child = connection.parent.occurrence.pose, connection.child.occurrence.pose
    turn = ((parent @ on_parent).inverse() @ child @ on_child).rotation
    reverse = connection.is_reversed
    angles = _intrinsic_angles(turn.T if reverse else turn)
    ranges = connection.moving_joint.angular_range
    order = (2, 1, 0) if reverse else (0, 1, 2)
    for name, i in zip(JOINT_MOTIONS["ball"], order, strict=True):
        axis = joint_frame.rotation[:, i] * (-1.0 if reverse else 1.0)
        lower, upper = _limits_in_si(ranges[i], _DEGREE)
        element.motions[name] = MotionElement(axis=axis, value=angles[i], lower=lower, upper=upper)


def _intrinsic_angles(rotation: Array) -> tuple[float, float, float]:
    """Intrinsic x-y-z Euler angles of a rotation matrix; the x angle is zero in gimbal lock."""
    x, y, _ = np.eye(3)
    aside = math.hypot(rotation[0, 0], rotation[0, 1])
    second = math.atan2(rotation[0, 2], aside)
    first = math.atan2(-rotation[1, 2], rotation[2, 2]) if aside > 1e-9 else 0.0
    rest = axis_angle_to_matrix(y, -second) @ axis_angle_to_matrix(x, -first) @ rotation
    return first, second, math.atan2(rest[1, 0], rest[0, 0])


# -- conversion --------------------------------------------------------------------------------------------------------


def from_build123d(
    assembly: Any,
    *,
    name: str = "",
    density: float = DEFAULT_DENSITY,
    densities: Mapping[str, float] | None = None,
    tolerance: float = DEFAULT_TOLERANCE,
    angular_tolerance: float = DEFAULT_ANGULAR_TOLERANCE,
    ground: str | Sequence[str] = (),
    diagnostics: Diagnostics | None = None,
) -> Robot:
    """Convert an assembly of build123d parts connected by build123d joints to a robot.

    The part whose joint's `connect_to` was called is the parent. Values and ranges of the joints become `Joint.state`
    and limits; a range of a full turn or more is no limit. A linear joint connected to a revolute joint slides
    and turns. Parts without joints are rigidly attached to neighbouring parts.

    Args:
        assembly: a build123d `Compound` with children, a single part, or a `BuildPart`. It is not changed.
        name: the robot's name; the assembly's label when not given.
        density: density [kg/m3] of parts that have no material.
        densities: label or path of a part, or name of a material -> density [kg/m3].
        tolerance: maximum distance [m] between triangles and surface.
        angular_tolerance: maximum angle [rad] between neighbouring triangles.
        ground: labels or paths of the parts that are fixed in the world; where there are none, the robot may stand
            anywhere.
        diagnostics: where to report; `robot.diagnostics` is this collector.

    Returns:
        The robot, in SI units. Its base frame is build123d's world.

    Raises:
        KinemaError: build123d is not installed, or `assembly` is nothing of build123d's.
    """
    build123d = import_optional("build123d", extra="cad", purpose="reading a build123d assembly")
    assembly = getattr(assembly, "part", assembly)
    if not isinstance(assembly, build123d.Shape):
        raise KinemaError(f"a build123d Compound or Part is expected, not {type(assembly).__name__}")
    diagnostics = Diagnostics() if diagnostics is None else diagnostics
    options = SolidOptions(
        density=density, densities=densities or {}, tolerance=tolerance, angular_tolerance=angular_tolerance
    )
    walker = AssemblyWalker(options, diagnostics)
    walker.add_assembly(assembly)
    snapshot = Snapshot(
        name=name or assembly.label,
        source={"program": "build123d", "program_version": build123d.__version__},
        occurrences=[part.occurrence for part in walker.parts],
        joints=read_joint_elements(walker.parts, diagnostics),
    )
    ground_parts(snapshot, [ground] if isinstance(ground, str) else ground, diagnostics)
    report_missing_joints(snapshot, diagnostics)
    return convert_snapshot(snapshot, diagnostics, resolve=Resolver(), file="")


def ground_parts(snapshot: Snapshot, names: Sequence[str], diagnostics: Diagnostics) -> None:
    """Mark the occurrences with the given names or paths as grounded; unknown names are reported."""
    for name in names:
        parts = [o for o in snapshot.occurrences if name in (o.path, o.name)]
        for part in parts:
            part.grounded = True
        if not parts:
            diagnostics.error(f"{FORMAT}.unknown-part", f"there is no part {name!r:.80}, which should be the ground")


def report_missing_joints(snapshot: Snapshot, diagnostics: Diagnostics, hint: str = "") -> None:
    """Report that an assembly without joints becomes a single link."""
    if len(snapshot.occurrences) > 1 and not snapshot.joints:
        message = "the assembly has no joints: all of its parts are one link"
        diagnostics.note(f"{FORMAT}.no-joints", message, hint=hint or "connect its parts")

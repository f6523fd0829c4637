"""Converts URDF elements to a robot description: links, shapes, materials, joints and file references."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from kinema.core import (
    Array,
    Diagnostics,
    Origin,
    Pose,
    arc_tangent,
    axis_angle_to_matrix,
    float64_array,
    reproducible_norm,
    rotate_tensor,
)
from kinema.description import (
    Approximation,
    Axis,
    Box,
    Capsule,
    Cylinder,
    Ellipsoid,
    Geometry,
    Inertial,
    Joint,
    JointKind,
    Link,
    Mesh,
    Mimic,
    Node,
    Robot,
    Shape,
    Sphere,
    VisualMaterial,
    free_axes,
    rotation,
    spherical_axes,
    translation,
)
from kinema.tokens import urdf

from ..resolve import Resolved, Resolver, warn_about_substitute_package
from .elements import (
    BoxElement,
    CapsuleElement,
    CylinderElement,
    EllipsoidElement,
    GeometryElement,
    InertialElement,
    JointElement,
    LimitElement,
    LinkElement,
    MaterialElement,
    MeshElement,
    PlacementElement,
    RobotElement,
    ShapeElement,
    SphereElement,
)
from .parse import to_extra

# -- poses and inertias ------------------------------------------------------------------------------------------------


def to_pose(element: PlacementElement) -> Pose:
    """Pose of an `<origin>` element."""
    if element.quat_xyzw is None:
        return Pose.from_rpy(element.xyz, element.rpy)
    x, y, z, w = element.quat_xyzw
    return Pose.from_quaternion(element.xyz, (w, x, y, z))


def to_inertial(element: InertialElement) -> Inertial:
    """Inertial with the tensor rotated to the link axes."""
    pose = to_pose(element.placement)
    xy, xz, yz = element.products
    tensor = np.diag(element.moments) + np.array([[0.0, xy, xz], [xy, 0.0, yz], [xz, yz, 0.0]])
    turned = rotate_tensor(pose.rotation, tensor)
    return Inertial(element.mass, pose.position, 0.5 * (turned + turned.T))


# -- file references ---------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class FileReferences:
    """Resolves meshes and textures, each once."""

    resolver: Resolver
    file: str
    """File that contains the references."""
    resolved: dict[str, Resolved] = field(default_factory=dict)

    def find(self, uri: str) -> Resolved:
        """Resolved file of a reference, or the reason for the failure (cached)."""
        if uri not in self.resolved:
            self.resolved[uri] = self._look_up(uri)
        return self.resolved[uri]

    def _look_up(self, uri: str) -> Resolved:
        """Resolve a reference; must be a regular file."""
        found = self.resolver.resolve(uri, self.file)
        try:
            if found.path is not None and not found.path.is_file():
                return Resolved(None, "it is not a file")
        except OSError as error:
            return Resolved(None, error.strerror or "it cannot be read")
        return found


# -- materials ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class MaterialTable:
    """All materials of a robot by name; a definition inside of a visual is global."""

    diagnostics: Diagnostics
    references: FileReferences
    definitions: dict[str, tuple[MaterialElement, VisualMaterial]] = field(default_factory=dict)
    used_names: set[str] = field(default_factory=set)

    def define(self, robot_level: list[MaterialElement], links: list[LinkElement]) -> None:
        """Collect all definitions, those at robot level first, so that the order of elements does not matter."""
        for element in robot_level:
            if not element.is_definition:
                message = f'material "{element.name}" has neither colour nor texture'
                self.diagnostics.warning(f"{urdf.FORMAT}.empty-material", message, origin=element.origin)
            elif self._define(element):
                message = f'material "{element.name}" is defined more than once'
                hint = "ROS refuses this even where the definitions agree"
                self.diagnostics.warning(f"{urdf.FORMAT}.repeated-material", message, hint=hint, origin=element.origin)
        for link in links:
            for shape in link.shapes:
                if shape.material is not None and shape.material.is_definition and shape.material.name:
                    self._define(shape.material)

    def _define(self, element: MaterialElement) -> bool:
        """Add a definition; returns whether an equal one exists. Conflicts are reported."""
        known = self.definitions.get(element.name)
        if known is None:
            self.definitions[element.name] = (element, self._convert_material(element))
            return False
        if _is_same_definition(known[0], element):
            return True
        message = f'material "{element.name}" is defined differently at line {known[0].origin.line}'
        hint = "give the two looks different names; each visual keeps the one written in it"
        self.diagnostics.error(f"{urdf.FORMAT}.material-conflict", message, hint=hint, origin=element.origin)
        return False

    def resolve_material(self, element: MaterialElement) -> VisualMaterial | None:
        """Visual material of the `<material>` element of a visual; None if unnamed and empty."""
        known = self.definitions.get(element.name) if element.name else None
        if element.is_definition:
            if known is None or not _is_same_definition(known[0], element):
                return self._convert_material(element)
        elif known is None:
            if element.name:
                message = f'material "{element.name}" is not defined anywhere in the file'
                self.diagnostics.warning(f"{urdf.FORMAT}.undefined-material", message, origin=element.origin)
                return VisualMaterial(name=element.name, origin=element.origin)
            return None
        self.used_names.add(element.name)
        return known[1]

    def _convert_material(self, element: MaterialElement) -> VisualMaterial:
        """Convert colour and texture of a material."""
        color = None if element.color is None else tuple(element.color.tolist())
        material = VisualMaterial(name=element.name, origin=element.origin, color=color)
        if element.texture is not None:
            material.attributes[urdf.MISSING_TEXTURE] = element.texture
            found = self.references.find(element.texture)
            material.texture = str(found.path or "")
            if not found:
                message = f'material "{element.name}": the texture {element.texture!r} was not found: {found.reason}'
                self.diagnostics.warning(f"{urdf.FORMAT}.missing-texture", message, origin=element.origin)
            warn_about_substitute_package(found, self.diagnostics, urdf.FORMAT, element.origin)
        return material


def _is_same_definition(a: MaterialElement, b: MaterialElement) -> bool:
    if a.texture != b.texture or (a.color is None) != (b.color is None):
        return False
    return a.color is None or b.color is None or bool(np.array_equal(a.color, b.color))


# -- joints ------------------------------------------------------------------------------------------------------------

_JOINT_KINDS = {
    "revolute": JointKind.REVOLUTE,
    "continuous": JointKind.CONTINUOUS,
    "prismatic": JointKind.PRISMATIC,
    "fixed": JointKind.FIXED,
    "floating": JointKind.FREE,
    "planar": JointKind.PLANAR,
    "spherical": JointKind.SPHERICAL,
}
_DRAKE_JOINT_KINDS = {
    "ball": JointKind.SPHERICAL,
    "planar": JointKind.PLANAR,
    "screw": JointKind.SCREW,
    "universal": JointKind.UNIVERSAL,
}
_UNLIMITED = 1e16
"""Magnitude of a limit that means unlimited, as in SDFormat: URDF 1.0 does not allow infinity."""
_SINGLE_AXIS_KINDS = (JointKind.REVOLUTE, JointKind.CONTINUOUS, JointKind.PRISMATIC, JointKind.SCREW)


@dataclass(slots=True, eq=False)
class JointConverter:
    """Converts joint elements; `uses_version_1_2_limits` selects the rules for absent limits."""

    diagnostics: Diagnostics
    uses_version_1_2_limits: bool

    def convert(self, element: JointElement) -> Joint:
        """Convert a joint, with its name as in the file."""
        joint = Joint(
            name=element.name,
            origin=element.origin,
            extras=list(element.extras),
            kind=self._kind(element),
            parent=element.parent,
            child=element.child,
            parent_pose=to_pose(element.placement),
        )
        if joint.kind is JointKind.SCREW:
            joint.pitch = self._thread_pitch(element)
        joint.axes = self._axes(joint.kind, element)
        if joint.kind in _SINGLE_AXIS_KINDS:
            self._set_limits(joint, element)
            self._set_mimic(joint.axes[0], element)
        self._set_dynamics(joint, element)
        self._preserve_ignored_children(joint, element)
        if element.safety:
            joint.attributes[urdf.SAFETY_CONTROLLER] = element.safety
        if element.calibration:
            joint.attributes[urdf.CALIBRATION] = element.calibration
        return joint

    # -- kinds and axes -------------------------------------------------------------------------------------------

    def _kind(self, element: JointElement) -> JointKind:
        """Joint kind; unknown types are an error and become fixed."""
        kinds = _DRAKE_JOINT_KINDS if element.is_drake else _JOINT_KINDS
        if element.type in kinds:
            return kinds[element.type]
        if element.type:  # a missing type was reported by the parser
            message = f'joint "{element.name}" has the unknown type {element.type!r}; it is read as fixed'
            hint = f"the types are {', '.join(kinds)}"
            self.diagnostics.error(f"{urdf.FORMAT}.unknown-joint-type", message, hint=hint, origin=element.origin)
        return JointKind.FIXED

    def _axes(self, kind: JointKind, element: JointElement) -> list[Axis]:
        """Axes of a joint of the given kind, without limits."""
        match kind:
            case JointKind.REVOLUTE | JointKind.CONTINUOUS | JointKind.SCREW:
                return [rotation(self._direction(element))]
            case JointKind.PRISMATIC:
                return [translation(self._direction(element))]
            case JointKind.PLANAR:
                x, y, normal = plane_axes(self._direction(element))
                return [translation(x), translation(y), rotation(normal)]
            case JointKind.UNIVERSAL:
                return [rotation((1, 0, 0)), rotation((0, 1, 0))]
            case JointKind.SPHERICAL:
                return spherical_axes()
            case JointKind.FREE:
                return free_axes()
            case _:
                return []

    def _direction(self, element: JointElement) -> Array:
        """Joint axis as a unit vector; zero axes and unnormalised ones are reported."""
        if element.axis is None:
            return float64_array((1, 0, 0))
        largest = float(np.abs(element.axis).max())
        if largest == 0:
            message = f'joint "{element.name}": its axis is zero; 1 0 0 is assumed'
            self.diagnostics.error(f"{urdf.FORMAT}.zero-axis", message, origin=element.origin)
            return float64_array((1, 0, 0))
        scaled = element.axis / largest  # avoids underflow and overflow
        length = largest * reproducible_norm(scaled)
        # rounding is not reported
        if abs(length - 1) > 1e-6:
            report = self.diagnostics.warning if abs(length - 1) > 1e-2 else self.diagnostics.note
            message = f'joint "{element.name}": its axis has length {length:g}; it is normalised'
            report(f"{urdf.FORMAT}.axis-not-unit", message, origin=element.origin)
        return scaled / reproducible_norm(scaled)

    def _thread_pitch(self, element: JointElement) -> float:
        if element.thread_pitch is None:
            message = f'joint "{element.name}" is a screw without <drake:screw_thread_pitch>; zero is assumed'
            self.diagnostics.error(f"{urdf.FORMAT}.missing-element", message, origin=element.origin)
        return element.thread_pitch or 0.0

    # -- limits ---------------------------------------------------------------------------------------------------

    def _set_limits(self, joint: Joint, element: JointElement) -> None:
        """Set position, effort, velocity, acceleration and jerk limits; missing ones are reported."""
        limit, axis = element.limit, joint.axes[0]
        is_bounded = joint.kind in (JointKind.REVOLUTE, JointKind.PRISMATIC)
        if limit is None:
            if is_bounded:
                message = f'{element.type} joint "{element.name}" has no <limit>; it is read as unlimited'
                hint = "give it a <limit>, or make it continuous"
                self.diagnostics.error(f"{urdf.FORMAT}.missing-limit", message, hint=hint, origin=element.origin)
            return
        if joint.kind is JointKind.CONTINUOUS:
            self._preserve_continuous_limits(joint, limit)
        else:
            axis.lower, axis.upper = self._limit_range(joint, element, limit, is_bounded)
        if not self.uses_version_1_2_limits and not element.is_drake:
            missing = [n for n in ("effort", "velocity") if getattr(limit, n) is None]
            if missing:
                names = " and ".join(repr(n) for n in missing)
                message = f'joint "{element.name}": its <limit> has no {names}; infinity is assumed'
                self.diagnostics.error(f"{urdf.FORMAT}.missing-limit", message, origin=limit.origin)
        axis.effort = _value_or_infinity(limit.effort)
        axis.velocity = _value_or_infinity(limit.velocity)
        axis.acceleration = _value_or_infinity(limit.acceleration)
        axis.deceleration = axis.acceleration if limit.deceleration is None else _value_or_infinity(limit.deceleration)
        axis.jerk = _value_or_infinity(limit.jerk)

    def _limit_range(
        self, joint: Joint, element: JointElement, limit: LimitElement, is_bounded: bool
    ) -> tuple[float, float]:
        """Lower and upper limit by the rules of the file's version."""
        missing = [n for n in ("lower", "upper") if getattr(limit, n) is None]
        if self.uses_version_1_2_limits or not is_bounded:
            if missing and is_bounded:
                names = " and ".join(repr(n) for n in missing)
                message = f'{element.type} joint "{joint.name}": its <limit> has no {names}; infinity is assumed'
                self.diagnostics.error(f"{urdf.FORMAT}.missing-limit", message, origin=limit.origin)
            return -_value_or_infinity(None if limit.lower is None else -limit.lower), _value_or_infinity(limit.upper)
        if len(missing) == 2:
            message = f"{element.type} joint \"{joint.name}\" cannot move: its <limit> has neither 'lower' nor 'upper'"
            hint = "both are zero then; write them, or make the joint fixed or continuous"
            self.diagnostics.warning(f"{urdf.FORMAT}.frozen-joint", message, hint=hint, origin=limit.origin)
        elif missing:
            message = f'{element.type} joint "{joint.name}": its <limit> has no {missing[0]!r}, which means zero'
            self.diagnostics.note(f"{urdf.FORMAT}.limit-default", message, origin=limit.origin)
        return -_value_or_infinity(-(limit.lower or 0.0)), _value_or_infinity(limit.upper or 0.0)

    def _preserve_continuous_limits(self, joint: Joint, limit: LimitElement) -> None:
        """Preserve the limits of a continuous joint as an attribute, with a warning."""
        written = {n: v for n, v in (("lower", limit.lower), ("upper", limit.upper)) if v is not None}
        if written:
            joint.attributes[urdf.CONTINUOUS_JOINT_LIMIT] = written
            message = f'continuous joint "{joint.name}" has a lower or upper limit, which is ignored'
            hint = "make the joint revolute if it is meant"
            self.diagnostics.warning(f"{urdf.FORMAT}.continuous-limit", message, hint=hint, origin=limit.origin)

    # -- mimic, dynamics ------------------------------------------------------------------------------------------

    def _set_mimic(self, axis: Axis, element: JointElement) -> None:
        if element.mimic is not None:
            mimic = element.mimic
            axis.mimic = Mimic(joint=mimic.joint, multiplier=mimic.multiplier, offset=mimic.offset)

    def _set_dynamics(self, joint: Joint, element: JointElement) -> None:
        """Set damping and friction of all axes."""
        if element.dynamics is None:
            return
        damping = element.dynamics.damping
        for i, axis in enumerate(joint.axes):
            axis.damping = float(damping[i if damping.size == len(joint.axes) else 0])
            axis.friction = element.dynamics.friction

    def _preserve_ignored_children(self, joint: Joint, element: JointElement) -> None:
        """Preserve and report children without meaning for the joint kind."""
        harmless: Iterable[str] = ()
        significant: Iterable[str] = ()
        match joint.kind:
            case JointKind.FIXED:
                harmless = ("axis", "limit", "dynamics", "mimic")
            case JointKind.FREE | JointKind.SPHERICAL | JointKind.UNIVERSAL:
                harmless, significant = ("axis",), ("limit", "mimic")
            case JointKind.PLANAR:
                significant = ("limit", "mimic")
        for tags, report in ((harmless, self.diagnostics.note), (significant, self.diagnostics.warning)):
            found = [t for t in tags if t in element.children]
            if found:
                joint.extras += [to_extra(element.children[t]) for t in found]
                names = ", ".join(f"<{t}>" for t in found)
                message = f'{joint.kind.value} joint "{joint.name}" keeps {names} as written, without any effect'
                report(f"{urdf.FORMAT}.ignored-element", message, origin=element.origin)


def plane_axes(normal: Array) -> tuple[Array, Array, Array]:
    """Two directions in the plane with the given unit normal, and the normal.

    They are x and y after the smallest rotation that maps z to the normal, as in MuJoCo and Drake. For -z the half turn
    about x is used.
    """
    sine = math.sqrt(float(normal[0] * normal[0] + normal[1] * normal[1]))
    rotation_axis = float64_array((1, 0, 0)) if sine < 1e-10 else np.array([-normal[1], normal[0], 0.0]) / sine
    rotation_matrix = axis_angle_to_matrix(rotation_axis, arc_tangent(sine, float(normal[2])))
    return rotation_matrix[:, 0], rotation_matrix[:, 1], normal


def _value_or_infinity(value: float | None) -> float:
    """The value; infinity if absent or beyond `_UNLIMITED`."""
    return math.inf if value is None or value >= _UNLIMITED else value


# -- robots ------------------------------------------------------------------------------------------------------------


def convert_robot(element: RobotElement, references: FileReferences, diagnostics: Diagnostics, fallback: str) -> Robot:
    """Convert a robot element; `fallback` is the name if the file gives none."""
    return _RobotConverter(element, references, diagnostics).convert(fallback)


@dataclass(slots=True, eq=False)
class _RobotConverter:
    """Conversion of one robot element."""

    element: RobotElement
    references: FileReferences
    diagnostics: Diagnostics
    materials: MaterialTable = field(init=False)
    robot: Robot = field(init=False)

    def __post_init__(self) -> None:
        self.materials = MaterialTable(self.diagnostics, self.references)

    def convert(self, fallback: str) -> Robot:
        """Build the robot: materials, links, joints and preserved elements."""
        element = self.element
        self.robot = Robot(
            name=element.name or fallback,
            name_is_generated=not element.name,
            origin=element.origin,
            extras=list(element.extras),
            format=urdf.FORMAT,
            diagnostics=self.diagnostics,
        )
        if element.version is not None:
            self.robot.attributes[urdf.VERSION] = element.version
        self.materials.define(element.materials, element.links)
        self._add_links()
        self._add_joints()
        self._preserve_unused_materials()
        self._preserve_referring_elements()
        if not self.robot.links:
            self.diagnostics.error(f"{urdf.FORMAT}.no-links", "the robot has no links", origin=element.origin)
        return self.robot

    # -- links ----------------------------------------------------------------------------------------------------

    def _add_links(self) -> None:
        """Convert all links; duplicates are reported and preserved as extras."""
        names = _UniqueNames("link", self.element.links)
        first: dict[str, Origin] = {}
        for element in self.element.links:
            if element.name in first:
                # joints refer to the first link of that name
                self._report_duplicate("link", element.name, element.origin, first[element.name], "is left out")
                self.robot.extras.append(to_extra(element.source))
                continue
            link = self._link(element)
            link.name_is_generated = not element.name
            link.name = element.name or names.next_unused()
            if element.name:
                first[element.name] = element.origin
            self.robot.links.append(link)

    def _link(self, element: LinkElement) -> Link:
        """Convert a link with inertial and shapes."""
        link = Link(name=element.name, origin=element.origin, extras=list(element.extras))
        if element.inertial is not None:
            link.inertial = to_inertial(element.inertial)
        for shape in element.shapes:
            geometry = None if shape.geometry is None else self._geometry(shape.geometry, element.name, shape.is_visual)
            if geometry is None:
                link.extras.append(to_extra(shape.source))
            else:
                link.shapes.append(self._shape(shape, geometry))
        return link

    def _shape(self, element: ShapeElement, geometry: Geometry) -> Shape:
        return Shape(
            name=element.name,
            origin=element.origin,
            extras=list(element.extras),
            geometry=geometry,
            pose=to_pose(element.placement),
            visual=element.is_visual,
            collision=not element.is_visual,
            material=None if element.material is None else self.materials.resolve_material(element.material),
        )

    def _geometry(self, element: GeometryElement, link: str, is_visual: bool) -> Geometry:
        match element:
            case BoxElement():
                return Box(element.size)
            case SphereElement():
                return Sphere(element.radius)
            case CylinderElement():
                return Cylinder(element.radius, element.length)
            case CapsuleElement():
                return Capsule(element.radius, element.length)
            case EllipsoidElement():
                return Ellipsoid(element.radii)
            case MeshElement():
                return self._mesh(element, link, is_visual)

    def _mesh(self, element: MeshElement, link: str, is_visual: bool) -> Mesh:
        """Mesh of a `<mesh>`; a missing file is an error for collisions, a warning for visuals."""
        found = self.references.find(element.filename)
        if not found:
            use, report = ("visual", self.diagnostics.warning) if is_visual else ("collision", self.diagnostics.error)
            message = f'link "{link}": the {use} mesh {element.filename!r} was not found: {found.reason}'
            hint = "" if "://" not in element.filename else "give the folder of the package as a search path"
            report(f"{urdf.FORMAT}.missing-mesh", message, hint=hint, origin=element.origin)
        warn_about_substitute_package(found, self.diagnostics, urdf.FORMAT, element.origin)
        return Mesh(
            uri=element.filename,
            path=str(found.path or ""),
            scale=element.scale,
            approximation=Approximation.CONVEX_HULL if element.convex else None,
        )

    # -- joints ---------------------------------------------------------------------------------------------------

    def _add_joints(self) -> None:
        """Convert all joints; duplicates are renamed with an error."""
        converter = JointConverter(self.diagnostics, self.element.uses_version_1_2_limits)
        names = _UniqueNames("joint", self.element.joints)
        first: dict[str, Origin] = {}
        for element in self.element.joints:
            if not element.parent or not element.child:  # reported by the parser
                self.robot.extras.append(to_extra(element.source))
                continue
            joint = converter.convert(element)
            if not element.name:
                joint.name, joint.name_is_generated = names.next_unused(), True
            elif element.name in first:
                # renamed rather than dropped, because its child would be disconnected
                joint.name = names.next_unused(element.name)
                self._report_duplicate(
                    "joint", element.name, element.origin, first[element.name], f'is called "{joint.name}"'
                )
            else:
                first[element.name] = element.origin
            self.robot.joints.append(joint)

    def _report_duplicate(self, what: str, name: str, origin: Origin, first_origin: Origin, consequence: str) -> None:
        message = f'{what} "{name}" is defined again after line {first_origin.line}; this one {consequence}'
        self.diagnostics.error(f"{urdf.FORMAT}.duplicate-name", message, origin=origin)

    # -- extras --------------------------------------------------------------------------------------------------

    def _preserve_unused_materials(self) -> None:
        """Preserve unused materials as extras of the robot, and extras of used ones on the material."""
        for element in self.element.materials:
            if element.name not in self.materials.used_names:
                self.robot.extras.append(to_extra(element.source))
            else:
                self.materials.definitions[element.name][1].extras += element.extras

    def _preserve_referring_elements(self) -> None:
        """Attach `<gazebo>` and similar elements to the link or joint to which they refer."""
        owners: dict[str, Link | Joint] = {}
        owners.update((joint.name, joint) for joint in self.robot.joints)
        owners.update((link.name, link) for link in self.robot.links)
        for element in self.element.referring:
            owner: Node | None = self.robot
            if element.reference:
                owner = owners.get(element.reference)
                if owner is None:
                    message = f'<gazebo> refers to "{element.reference}", which is neither a link nor a joint'
                    self.diagnostics.warning(f"{urdf.FORMAT}.unknown-reference", message, origin=element.origin)
                    owner = self.robot
            owner.extras.append(element.content)


class _UniqueNames:
    """Generates unused names in amortised constant time."""

    def __init__(self, default_stem: str, elements: Sequence[LinkElement] | Sequence[JointElement]) -> None:
        self.default_stem = default_stem
        self.used = {e.name for e in elements}
        self.count: Counter[str] = Counter()

    def next_unused(self, stem_or_empty: str = "") -> str:
        """The given or default stem with the first number that makes it unused."""
        stem = stem_or_empty or self.default_stem
        while True:
            self.count[stem] += 1
            name = f"{stem}_{self.count[stem]}"
            if name not in self.used:
                self.used.add(name)
                return name

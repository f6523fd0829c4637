"""Parses the XML of a URDF file into its element data classes, with diagnostics for malformed content."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kinema.core import Array, Diagnostics, ReadError, XmlElement, float64_array, reproducible_norm
from kinema.description import Extra
from kinema.tokens import urdf

from ..cursor import Cursor, parse_float
from .elements import (
    KNOWN_VERSIONS,
    BoxElement,
    CapsuleElement,
    CylinderElement,
    DynamicsElement,
    EllipsoidElement,
    GeometryElement,
    InertialElement,
    JointElement,
    LimitElement,
    LinkElement,
    MaterialElement,
    MeshElement,
    MimicElement,
    PlacementElement,
    ReferringElement,
    RobotElement,
    ShapeElement,
    SphereElement,
    version_number,
)

# -- parsing context ---------------------------------------------------------------------------------------------------

_VENDOR_TAGS = {"gazebo", "transmission", "ros2_control", "mujoco", "contact", "verbose", "self_collision_checking"}
"""Extensions of other programs, preserved without a warning, like all tags `drake:...`."""


@dataclass(slots=True, eq=False)
class ParseContext:
    """Parsing context of one file."""

    diagnostics: Diagnostics
    version: tuple[int, int] = (1, 0)
    """Declared URDF version."""
    kept_elements: dict[str, list[XmlElement]] = field(default_factory=dict)
    """Tag -> preserved vendor elements."""

    def collect_unread(self, cursor: Cursor, path: str = "") -> list[Extra]:
        """Unread content of an element, tagged with its path; vendor elements are only counted."""
        if not cursor.element.attributes and not cursor.element.children:
            return []
        vendor = [e for e in cursor.element.children if _is_vendor(e.tag) and e.tag not in cursor.accessed]
        for element in vendor:
            self.kept_elements.setdefault(element.tag, []).append(element)
        extras = cursor.collect_unread(without_warning=[e.tag for e in vendor])
        return [replace(e, tag=f"{path}/{e.tag}") for e in extras] if path else extras

    def report_kept_elements(self) -> None:
        """Report each kind of preserved vendor element once."""
        for tag, elements in self.kept_elements.items():
            many = f"{len(elements)} <{tag}> elements are" if len(elements) > 1 else f"<{tag}> is"
            message = f"{many} kept as written, without any effect here"
            self.diagnostics.note(f"{urdf.FORMAT}.kept-element", message, origin=elements[0].origin)

    def warn_if_version_too_old(self, cursor: Cursor, feature: str, version: tuple[int, int]) -> None:
        """Warn about a feature that the declared version does not have."""
        if self.version < version:
            number = "{}.{}".format(*version)
            message = f"{feature} is URDF {number}, which this file does not declare; it is read all the same"
            cursor.warning("needs-version", message, f'say version="{number}" in <robot>, or other programs ignore it')


def _is_vendor(tag: str) -> bool:
    return tag in _VENDOR_TAGS or tag.startswith("drake:")


# -- unread content ----------------------------------------------------------------------------------------------------


def to_extra(element: XmlElement) -> Extra:
    """The element preserved verbatim."""
    return Extra(urdf.FORMAT, element.tag, element.verbatim, element.origin)


def extras_with_path(
    path: str, element: PlacementElement | InertialElement | GeometryElement | MaterialElement
) -> list[Extra]:
    """Extras of a child element, tagged with its path."""
    return [replace(e, tag=f"{path}/{e.tag}") for e in element.extras]


# -- numbers -----------------------------------------------------------------------------------------------------------


def finite_floats(cursor: Cursor, attribute: str, default: Sequence[float]) -> Array:
    """Attribute as finite numbers, as many as the default has."""
    values = cursor.attribute_floats(attribute, default)
    if np.isfinite(values).all():
        return values
    hint = f"{' '.join(f'{d:g}' for d in default)} is assumed"
    cursor.error("not-finite", f"{attribute!r} of <{cursor.tag}> is not finite", hint)
    return float64_array(default)


def optional_floats(cursor: Cursor, attributes: Sequence[str]) -> dict[str, float]:
    """Attributes that are present and numeric; infinity is allowed, NaN is an error."""
    result: dict[str, float] = {}
    for attribute in attributes:
        text = cursor.attribute_text(attribute)
        if text is None:
            continue
        value = parse_float(text)
        if value is None or math.isnan(value):
            message = f"{attribute!r} of <{cursor.tag}>: {text.strip()[:60]!r} is not a number"
            cursor.error("not-a-number", message, "it is read as if it were not there")
        else:
            result[attribute] = value
    return result


# -- origins -----------------------------------------------------------------------------------------------------------


def parse_placement(cursor: Cursor, context: ParseContext) -> PlacementElement:
    """Parse the `<origin>` of an element; identity if absent."""
    origin = cursor.child("origin")
    if origin is None:
        return PlacementElement(origin=cursor.origin)
    result = PlacementElement(
        origin=origin.origin, xyz=finite_floats(origin, "xyz", (0, 0, 0)), rpy=finite_floats(origin, "rpy", (0, 0, 0))
    )
    if origin.attribute_text("quat_xyzw") is not None:
        context.warn_if_version_too_old(origin, "quat_xyzw", (1, 1))
        if origin.attribute_text("rpy") is not None:
            origin.error("two-rotations", "<origin> has both 'rpy' and 'quat_xyzw'; the quaternion counts")
        result.quat_xyzw = finite_floats(origin, "quat_xyzw", (0, 0, 0, 1))
        length = reproducible_norm(result.quat_xyzw)
        if length < 1e-9:
            origin.error("zero-quaternion", "'quat_xyzw' of <origin> is zero", "no rotation is assumed")
            result.quat_xyzw = float64_array((0, 0, 0, 1))
        elif abs(length - 1) > 1e-3:
            origin.warning("quaternion-not-unit", f"'quat_xyzw' of <origin> has length {length:g}; it is normalised")
    result.extras = context.collect_unread(origin)
    return result


# -- geometry ----------------------------------------------------------------------------------------------------------


def parse_geometry(cursor: Cursor, context: ParseContext) -> GeometryElement | None:
    """Parse the shape in `<geometry>`; None with an error if there is none."""
    names = [n for name in _GEOMETRY_PARSERS for n in (name, f"drake:{name}")]
    found = cursor.children(*names)
    if not found:
        unknown = [c.tag for c in cursor.element.children]
        if unknown:
            cursor.error("unknown-geometry", f"<{unknown[0]}> is not a geometry that URDF has; it is left out")
        else:
            cursor.error("missing-element", "<geometry> is empty; it is left out")
        return None
    if len(found) > 1:
        found[1].error("repeated-element", "<geometry> holds more than one shape; the first counts")
    shape = found[0]
    kind = shape.tag.removeprefix("drake:")
    if kind == "capsule" and shape.tag == kind:
        context.warn_if_version_too_old(shape, "<capsule>", (1, 1))
    result = _GEOMETRY_PARSERS[kind](shape)
    if result is not None:
        result.extras = context.collect_unread(shape, shape.tag)
    return result


def _parse_box(cursor: Cursor) -> BoxElement | None:
    size = _parse_lengths(cursor, "size", 3)
    return None if size is None else BoxElement(origin=cursor.origin, size=size)


def _parse_sphere(cursor: Cursor) -> SphereElement | None:
    radius = _parse_lengths(cursor, "radius", 1)
    return None if radius is None else SphereElement(origin=cursor.origin, radius=float(radius[0]))


def _parse_radius_and_length(cursor: Cursor) -> tuple[float, float] | None:
    radius, length = _parse_lengths(cursor, "radius", 1), _parse_lengths(cursor, "length", 1)
    return None if radius is None or length is None else (float(radius[0]), float(length[0]))


def _parse_cylinder(cursor: Cursor) -> CylinderElement | None:
    found = _parse_radius_and_length(cursor)
    return None if found is None else CylinderElement(origin=cursor.origin, radius=found[0], length=found[1])


def _parse_capsule(cursor: Cursor) -> CapsuleElement | None:
    found = _parse_radius_and_length(cursor)
    return None if found is None else CapsuleElement(origin=cursor.origin, radius=found[0], length=found[1])


def _parse_ellipsoid(cursor: Cursor) -> EllipsoidElement | None:
    a, b, c = (_parse_lengths(cursor, name, 1) for name in "abc")
    if a is None or b is None or c is None:
        return None
    return EllipsoidElement(origin=cursor.origin, radii=np.concatenate([a, b, c]))


def _parse_mesh(cursor: Cursor) -> MeshElement | None:
    """Parse `<mesh>`; None if it has no file name or zero scale."""
    filename = cursor.required_attribute("filename")
    scale = finite_floats(cursor, "scale", (1, 1, 1))
    convex = bool(cursor.children("drake:declare_convex"))
    if not filename.strip():
        return None
    if np.any(scale == 0):
        cursor.error("zero-scale", f"mesh {filename!r} is scaled by zero; it is left out")
        return None
    return MeshElement(origin=cursor.origin, filename=filename, scale=scale, convex=convex)


_GEOMETRY_PARSERS: dict[str, Callable[[Cursor], GeometryElement | None]] = {
    "box": _parse_box,
    "sphere": _parse_sphere,
    "cylinder": _parse_cylinder,
    "capsule": _parse_capsule,
    "ellipsoid": _parse_ellipsoid,
    "mesh": _parse_mesh,
}


def _parse_lengths(cursor: Cursor, attribute: str, count: int) -> Array | None:
    """Mandatory attribute of finite, non-negative lengths; None with an error if invalid."""
    text = cursor.required_attribute(attribute)
    if not text:
        return None
    values = [parse_float(word) for word in text.split()]
    numbers = np.array([math.nan if v is None else v for v in values])
    if len(values) != count or not np.isfinite(numbers).all() or (numbers < 0).any():
        expected = "a number" if count == 1 else f"{count} numbers"
        message = (
            f"{attribute!r} of <{cursor.tag}> is {text.strip()[:60]!r}, not {expected} from zero up; it is left out"
        )
        cursor.error("geometry-size", message)
        return None
    if (numbers == 0).any() and not (cursor.tag.endswith("capsule") and attribute == "length"):
        cursor.warning("zero-size", f"{attribute!r} of <{cursor.tag}> is zero: the shape is flat")
    return numbers


# -- links -------------------------------------------------------------------------------------------------------------


def parse_link(cursor: Cursor, context: ParseContext) -> LinkElement:
    """Parse `<link>` with inertial and shapes."""
    link = LinkElement(origin=cursor.origin, name=cursor.required_attribute("name"), source=cursor.element)
    inertial = cursor.child("inertial")
    if inertial is not None:
        link.inertial = _parse_inertial(inertial, context, link.name)
        link.extras += extras_with_path("inertial", link.inertial)
    link.shapes = [_parse_shape(child, context) for child in cursor.children("visual", "collision")]
    link.extras += context.collect_unread(cursor)
    return link


def _parse_inertial(cursor: Cursor, context: ParseContext, link: str) -> InertialElement:
    """Parse `<inertial>`; missing values are errors and become zero."""
    result = InertialElement(origin=cursor.origin, placement=parse_placement(cursor, context))
    result.extras += extras_with_path("origin", result.placement)
    mass, inertia = cursor.child("mass"), cursor.child("inertia")
    for name, child in (("mass", mass), ("inertia", inertia)):
        if child is None:
            cursor.error("missing-element", f'link "{link}": <inertial> has no <{name}>', "zero is assumed")
    if mass is not None and mass.required_attribute("value"):
        result.mass = float(finite_floats(mass, "value", [0.0])[0])
    if inertia is not None:
        names = ("ixx", "iyy", "izz", "ixy", "ixz", "iyz")
        missing = [n for n in names if n not in inertia.element.attributes]
        if missing:
            message = f'link "{link}": <inertia> has no {", ".join(missing)}'
            inertia.error("missing-attribute", message, "zero is assumed")
        values = np.array([float(finite_floats(inertia, n, [0.0])[0]) for n in names])
        result.moments, result.products = values[:3], values[3:]
    for name, child in (("mass", mass), ("inertia", inertia)):
        if child is not None:
            result.extras += context.collect_unread(child, name)
    result.extras += context.collect_unread(cursor)
    return result


def _parse_shape(cursor: Cursor, context: ParseContext) -> ShapeElement:
    """Parse `<visual>` or `<collision>`."""
    result = ShapeElement(
        origin=cursor.origin,
        is_visual=cursor.tag == "visual",
        name=cursor.attribute_text("name") or "",
        placement=parse_placement(cursor, context),
        source=cursor.element,
    )
    result.extras += extras_with_path("origin", result.placement)
    geometry = cursor.child("geometry")
    if geometry is None:
        cursor.error("missing-element", f"<{cursor.tag}> has no <geometry>; it is left out")
    else:
        result.geometry = parse_geometry(geometry, context)
        if result.geometry is not None:
            result.extras += extras_with_path("geometry", result.geometry)
            result.extras += context.collect_unread(geometry, "geometry")
    if result.is_visual:
        material = cursor.child("material")
        if material is not None:
            result.material = parse_material(material, context)
            result.extras += extras_with_path("material", result.material)
    else:
        # meaningless but common: preserved without a warning
        for material in cursor.children("material"):
            context.kept_elements.setdefault("material", []).append(material.element)
            result.extras.append(to_extra(material.element))
    result.extras += context.collect_unread(cursor)
    return result


def parse_material(cursor: Cursor, context: ParseContext) -> MaterialElement:
    """Parse `<material>` of the robot or of a visual."""
    name = cursor.attribute_text("name")
    result = MaterialElement(origin=cursor.origin, name=name or "", source=cursor.element)
    color, texture = cursor.child("color"), cursor.child("texture")
    if color is not None and color.required_attribute("rgba"):
        result.color = finite_floats(color, "rgba", (1, 1, 1, 1))
        if np.any((result.color < 0) | (result.color > 1)):
            color.warning("color-range", f'material "{result.name}": a part of its colour is not from 0 to 1')
    if texture is not None:
        result.texture = (texture.attribute_text("filename") or "").strip() or None
        if result.texture is None:
            texture.warning("empty-texture", f"material \"{result.name}\": <texture> has no 'filename'")
    if name is None:
        cursor.warning("missing-attribute", "<material> has no 'name'", "ROS refuses it; an empty name will do")
    for tag, child in (("color", color), ("texture", texture)):
        if child is not None:
            result.extras += context.collect_unread(child, tag)
    result.extras += context.collect_unread(cursor)
    return result


# -- joints ------------------------------------------------------------------------------------------------------------

_LIMITS = ("lower", "upper", "effort", "velocity")
_LIMITS_12 = ("acceleration", "deceleration", "jerk")


def parse_joint(cursor: Cursor, context: ParseContext) -> JointElement:
    """Parse `<joint>` or `<drake:joint>` with all its children."""
    joint = JointElement(
        origin=cursor.origin,
        name=cursor.required_attribute("name"),
        type=cursor.required_attribute("type"),
        is_drake=cursor.tag == "drake:joint",
        placement=parse_placement(cursor, context),
        source=cursor.element,
    )
    joint.extras += extras_with_path("origin", joint.placement)
    joint.parent, joint.child = (
        _parse_end(cursor, context, joint, "parent"),
        _parse_end(cursor, context, joint, "child"),
    )
    axis = _joint_child(cursor, joint, "axis")
    if axis is not None and axis.required_attribute("xyz"):
        joint.axis = finite_floats(axis, "xyz", (1, 0, 0))
    limit = _joint_child(cursor, joint, "limit")
    if limit is not None:
        joint.limit = _parse_limit(limit, context)
    dynamics = _joint_child(cursor, joint, "dynamics")
    if dynamics is not None:
        n = len((dynamics.attribute_text("damping") or "0").split())
        damping = finite_floats(dynamics, "damping", [0.0] * (3 if joint.is_drake and n == 3 else 1))
        friction = float(finite_floats(dynamics, "friction", [0.0])[0])
        joint.dynamics = DynamicsElement(origin=dynamics.origin, damping=damping, friction=friction)
    mimic = _joint_child(cursor, joint, "mimic")
    if mimic is not None and mimic.required_attribute("joint"):
        joint.mimic = MimicElement(
            origin=mimic.origin,
            joint=mimic.required_attribute("joint"),
            multiplier=float(finite_floats(mimic, "multiplier", [1.0])[0]),
            offset=float(finite_floats(mimic, "offset", [0.0])[0]),
        )
    safety = _joint_child(cursor, joint, "safety_controller")
    if safety is not None:
        safety.required_attribute("k_velocity")
        joint.safety = optional_floats(safety, ("soft_lower_limit", "soft_upper_limit", "k_position", "k_velocity"))
    calibration = _joint_child(cursor, joint, "calibration")
    if calibration is not None:
        joint.calibration = optional_floats(calibration, ("rising", "falling", "reference_position"))
    pitch = _joint_child(cursor, joint, "drake:screw_thread_pitch") if joint.is_drake else None
    if pitch is not None and pitch.required_attribute("value"):
        joint.thread_pitch = float(finite_floats(pitch, "value", [0.0])[0])
    for child in (axis, limit, dynamics, mimic, safety, calibration, pitch):
        if child is not None:
            joint.extras += context.collect_unread(child, child.tag)
    joint.extras += context.collect_unread(cursor)
    return joint


def _joint_child(cursor: Cursor, joint: JointElement, tag: str) -> Cursor | None:
    """Child of a joint, also recorded in `joint.children`."""
    child = cursor.child(tag)
    if child is not None:
        joint.children[tag] = child.element
    return child


def _parse_end(cursor: Cursor, context: ParseContext, joint: JointElement, tag: str) -> str:
    """Name of the parent or child link; empty with an error if absent."""
    child = cursor.child(tag)
    if child is None:
        cursor.error("missing-element", f'joint "{joint.name}" has no <{tag}>; it is left out')
        return ""
    name = child.required_attribute("link")
    joint.extras += context.collect_unread(child, tag)
    return name


def _parse_limit(cursor: Cursor, context: ParseContext) -> LimitElement:
    """Parse `<limit>`; negative effort and velocity limits are errors."""
    values = optional_floats(cursor, (*_LIMITS, *_LIMITS_12))
    newer = [name for name in _LIMITS_12 if name in values]
    if newer:
        context.warn_if_version_too_old(cursor, f"{newer[0]!r} of <limit>", (1, 2))
    drake = optional_floats(cursor, ("drake:acceleration",))
    if "acceleration" not in values and drake:
        values["acceleration"] = drake["drake:acceleration"]
    for name in ("effort", "velocity", *_LIMITS_12):
        if values.get(name, 0.0) < 0:
            cursor.error("negative-limit", f"{name!r} of <limit> is negative", "its absolute value is assumed")
            values[name] = abs(values[name])
    result = LimitElement(origin=cursor.origin)
    for name, value in values.items():
        setattr(result, name, value)
    return result


# -- robots ------------------------------------------------------------------------------------------------------------


def parse_robot(root: XmlElement, diagnostics: Diagnostics) -> RobotElement:
    """Parse the root element of a URDF file; raises `ReadError` if it is not `<robot>`."""
    if root.tag != "robot":
        raise ReadError(f"{root.origin}: this is not a URDF file: its root element is <{root.tag}>, not <robot>")
    return _parse_robot_element(Cursor(root, urdf.FORMAT, diagnostics), ParseContext(diagnostics))


def _parse_robot_element(cursor: Cursor, context: ParseContext) -> RobotElement:
    """Parse `<robot>` with links, joints, materials and extensions."""
    version = cursor.attribute_text("version")
    context.version = version_number(version)
    if version is not None and version not in KNOWN_VERSIONS:
        message = (
            f"URDF version {version!r} is unknown; the file is read as version {_interpreted_version(context.version)}"
        )
        cursor.warning("unknown-version", message, f"known are {', '.join(KNOWN_VERSIONS)}")
    robot = RobotElement(origin=cursor.origin, name=cursor.required_attribute("name"), version=version)
    for child in cursor.children("link"):
        robot.links.append(parse_link(child, context))
    for child in cursor.children("joint", "drake:joint"):
        robot.joints.append(parse_joint(child, context))
    for child in cursor.children("material"):
        robot.materials.append(parse_material(child, context))
    for child in cursor.children("gazebo", "transmission", "ros2_control", "mujoco", "sensor"):
        robot.referring.append(_parse_referring(child, context))
    robot.extras = context.collect_unread(cursor)
    context.report_kept_elements()
    return robot


def _interpreted_version(version: tuple[int, int]) -> str:
    return KNOWN_VERSIONS[-1] if version > (1, 2) else "{}.{}".format(*version)


def _parse_referring(cursor: Cursor, context: ParseContext) -> ReferringElement:
    """Preserve an extension element with the link or joint to which it refers."""
    element = cursor.element
    if cursor.tag == "sensor":
        cursor.warning("sensor", f"sensor {_quoted_name(element)} is kept as written, but measures nothing here")
    else:
        context.kept_elements.setdefault(cursor.tag, []).append(element)
    reference = element.attributes.get("reference", "") if cursor.tag == "gazebo" else ""
    return ReferringElement(origin=cursor.origin, content=to_extra(element), reference=reference)


def _quoted_name(element: XmlElement) -> str:
    return f'"{element.attributes.get("name", "")}"'

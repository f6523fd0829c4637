"""From XML to the objects of `elements`: what the file says, and complaints about how it says it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kinema.description import Extra
from kinema.foundation import Array, Diagnostics, ReadError, vector
from kinema.read.cursor import Cursor, parse_float
from kinema.read.xml_text import XmlElement
from kinema.words import urdf

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

_VENDOR = {"gazebo", "transmission", "ros2_control", "mujoco", "contact", "verbose", "self_collision_checking"}
"""Extensions that other programs read; they are kept without a warning. So is everything called `drake:...`."""
_LIMITS = ("lower", "upper", "effort", "velocity")
_LIMITS_12 = ("acceleration", "deceleration", "jerk")
_GEOMETRIES = ("box", "sphere", "cylinder", "capsule", "ellipsoid", "mesh")


def parse_robot(root: XmlElement, diagnostics: Diagnostics) -> RobotElement:
    """The objects of a file whose root element is given."""
    if root.tag != "robot":
        raise ReadError(f"{root.origin}: this is not a URDF file: its root element is <{root.tag}>, not <robot>")
    return _Parser(diagnostics).robot(Cursor(root, urdf.FORMAT, diagnostics))


def _is_vendor(tag: str) -> bool:
    return tag in _VENDOR or tag.startswith("drake:")


@dataclass(slots=True, eq=False)
class _Parser:
    diagnostics: Diagnostics
    version: tuple[int, int] = (1, 0)
    kept: dict[str, list[XmlElement]] = field(default_factory=dict)
    """Vendor elements that were kept, by tag."""

    # -- what is not understood -----------------------------------------------------------------------------------

    def leftovers(self, cursor: Cursor, path: str = "") -> list[Extra]:
        """What was not asked for, with the path to it; vendor elements are only counted."""
        if not cursor.element.attributes and not cursor.element.children:
            return []
        vendor = [e for e in cursor.element.children if _is_vendor(e.tag) and e.tag not in cursor.seen]
        for element in vendor:
            self.kept.setdefault(element.tag, []).append(element)
        extras = cursor.finish(quiet=[e.tag for e in vendor])
        return [replace(e, tag=f"{path}/{e.tag}") for e in extras] if path else extras

    def report_kept(self) -> None:
        """One note for each kind of vendor element."""
        for tag, elements in self.kept.items():
            many = f"{len(elements)} <{tag}> elements are" if len(elements) > 1 else f"<{tag}> is"
            message = f"{many} kept as written, without any effect here"
            self.diagnostics.note(f"{urdf.FORMAT}.kept-element", message, origin=elements[0].origin)

    # -- the robot ------------------------------------------------------------------------------------------------

    def robot(self, cursor: Cursor) -> RobotElement:
        version = cursor.text_of("version")
        self.version = version_number(version)
        if version is not None and version not in KNOWN_VERSIONS:
            message = f"URDF version {version!r} is unknown; the file is read as version {self._read_as()}"
            cursor.warning("unknown-version", message, f"known are {', '.join(KNOWN_VERSIONS)}")
        robot = RobotElement(place=cursor.origin, name=cursor.required("name"), version=version)
        for child in cursor.children("link"):
            robot.links.append(self.link(child))
        for child in cursor.children("joint", "drake:joint"):
            robot.joints.append(self.joint(child))
        for child in cursor.children("material"):
            robot.materials.append(self.material(child))
        for child in cursor.children("gazebo", "transmission", "ros2_control", "mujoco", "sensor"):
            robot.referring.append(self.referring(child))
        robot.extras = self.leftovers(cursor)
        self.report_kept()
        return robot

    def _read_as(self) -> str:
        return KNOWN_VERSIONS[-1] if self.version > (1, 2) else "{}.{}".format(*self.version)

    def needs_version(self, cursor: Cursor, what: str, version: tuple[int, int]) -> None:
        """Warn of a feature that the declared version does not have; other readers ignore it then."""
        if self.version < version:
            number = "{}.{}".format(*version)
            message = f"{what} is URDF {number}, which this file does not declare; it is read all the same"
            cursor.warning("needs-version", message, f'say version="{number}" in <robot>, or other programs ignore it')

    def referring(self, cursor: Cursor) -> ReferringElement:
        element = cursor.element
        if cursor.tag == "sensor":
            cursor.warning("sensor", f"sensor {_quoted(element)} is kept as written, but measures nothing here")
        else:
            self.kept.setdefault(cursor.tag, []).append(element)
        reference = element.attributes.get("reference", "") if cursor.tag == "gazebo" else ""
        return ReferringElement(place=cursor.origin, content=extra_of(element), reference=reference)

    # -- links ----------------------------------------------------------------------------------------------------

    def link(self, cursor: Cursor) -> LinkElement:
        link = LinkElement(place=cursor.origin, name=cursor.required("name"), source=cursor.element)
        inertial = cursor.child("inertial")
        if inertial is not None:
            link.inertial = self.inertial(inertial, link.name)
            link.extras += _under("inertial", link.inertial)
        link.shapes = [self.shape(child) for child in cursor.children("visual", "collision")]
        link.extras += self.leftovers(cursor)
        return link

    def inertial(self, cursor: Cursor, link: str) -> InertialElement:
        result = InertialElement(place=cursor.origin, placement=self.placement(cursor))
        result.extras += _under("origin", result.placement)
        mass, inertia = cursor.child("mass"), cursor.child("inertia")
        for name, child in (("mass", mass), ("inertia", inertia)):
            if child is None:
                cursor.error("missing-element", f'link "{link}": <inertial> has no <{name}>', "zero is assumed")
        if mass is not None and mass.required("value"):
            result.mass = float(_finite(mass, "value", [0.0])[0])
        if inertia is not None:
            names = ("ixx", "iyy", "izz", "ixy", "ixz", "iyz")
            missing = [n for n in names if n not in inertia.element.attributes]
            if missing:
                message = f'link "{link}": <inertia> has no {", ".join(missing)}'
                inertia.error("missing-attribute", message, "zero is assumed")
            values = np.array([float(_finite(inertia, n, [0.0])[0]) for n in names])
            result.moments, result.products = values[:3], values[3:]
        for name, child in (("mass", mass), ("inertia", inertia)):
            if child is not None:
                result.extras += self.leftovers(child, name)
        result.extras += self.leftovers(cursor)
        return result

    def placement(self, cursor: Cursor) -> PlacementElement:
        """The `<origin>` in an element, or the identity."""
        origin = cursor.child("origin")
        if origin is None:
            return PlacementElement(place=cursor.origin)
        result = PlacementElement(
            place=origin.origin, xyz=_finite(origin, "xyz", (0, 0, 0)), rpy=_finite(origin, "rpy", (0, 0, 0))
        )
        if origin.text_of("quat_xyzw") is not None:
            self.needs_version(origin, "quat_xyzw", (1, 1))
            if origin.text_of("rpy") is not None:
                origin.error("two-rotations", "<origin> has both 'rpy' and 'quat_xyzw'; the quaternion counts")
            result.quat_xyzw = _finite(origin, "quat_xyzw", (0, 0, 0, 1))
            length = float(np.linalg.norm(result.quat_xyzw))
            if length < 1e-9:
                origin.error("zero-quaternion", "'quat_xyzw' of <origin> is zero", "no rotation is assumed")
                result.quat_xyzw = vector((0, 0, 0, 1))
            elif abs(length - 1) > 1e-3:
                origin.warning(
                    "quaternion-not-unit", f"'quat_xyzw' of <origin> has length {length:g}; it is normalised"
                )
        result.extras = self.leftovers(origin)
        return result

    # -- shapes ---------------------------------------------------------------------------------------------------

    def shape(self, cursor: Cursor) -> ShapeElement:
        result = ShapeElement(
            place=cursor.origin,
            is_visual=cursor.tag == "visual",
            name=cursor.text_of("name") or "",
            placement=self.placement(cursor),
            source=cursor.element,
        )
        result.extras += _under("origin", result.placement)
        geometry = cursor.child("geometry")
        if geometry is None:
            cursor.error("missing-element", f"<{cursor.tag}> has no <geometry>; it is left out")
        else:
            result.geometry = self.geometry(geometry)
            if result.geometry is not None:
                result.extras += _under("geometry", result.geometry)
                result.extras += self.leftovers(geometry, "geometry")
        if result.is_visual:
            material = cursor.child("material")
            if material is not None:
                result.material = self.material(material)
                result.extras += _under("material", result.material)
        else:
            # means nothing, but half of all robots have it
            for material in cursor.children("material"):
                self.kept.setdefault("material", []).append(material.element)
                result.extras.append(extra_of(material.element))
        result.extras += self.leftovers(cursor)
        return result

    def geometry(self, cursor: Cursor) -> GeometryElement | None:
        """The one shape in a `<geometry>`; None, and an error, where there is none that can be read."""
        names = [n for name in _GEOMETRIES for n in (name, f"drake:{name}")]
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
            self.needs_version(shape, "<capsule>", (1, 1))
        readers: dict[str, Callable[[Cursor], GeometryElement | None]] = {
            "box": _box,
            "sphere": _sphere,
            "cylinder": _cylinder,
            "capsule": _capsule,
            "ellipsoid": _ellipsoid,
            "mesh": _mesh,
        }
        result = readers[kind](shape)
        if result is not None:
            result.extras = self.leftovers(shape, shape.tag)
        return result

    def material(self, cursor: Cursor) -> MaterialElement:
        name = cursor.text_of("name")
        result = MaterialElement(place=cursor.origin, name=name or "", source=cursor.element)
        color, texture = cursor.child("color"), cursor.child("texture")
        if color is not None and color.required("rgba"):
            result.color = _finite(color, "rgba", (1, 1, 1, 1))
            if np.any((result.color < 0) | (result.color > 1)):
                color.warning("color-range", f'material "{result.name}": a part of its colour is not from 0 to 1')
        if texture is not None:
            result.texture = texture.required("filename") or None
        if name is None:
            cursor.warning("missing-attribute", "<material> has no 'name'", "ROS refuses it; an empty name will do")
        for tag, child in (("color", color), ("texture", texture)):
            if child is not None:
                result.extras += self.leftovers(child, tag)
        result.extras += self.leftovers(cursor)
        return result

    # -- joints ---------------------------------------------------------------------------------------------------

    def joint(self, cursor: Cursor) -> JointElement:
        joint = JointElement(
            place=cursor.origin,
            name=cursor.required("name"),
            type=cursor.required("type"),
            is_drake=cursor.tag == "drake:joint",
            placement=self.placement(cursor),
            source=cursor.element,
        )
        joint.extras += _under("origin", joint.placement)
        joint.parent, joint.child = self._end(cursor, joint, "parent"), self._end(cursor, joint, "child")
        axis = self._child(cursor, joint, "axis")
        if axis is not None and axis.required("xyz"):
            joint.axis = _finite(axis, "xyz", (1, 0, 0))
        limit = self._child(cursor, joint, "limit")
        if limit is not None:
            joint.limit = self.limit(limit)
        dynamics = self._child(cursor, joint, "dynamics")
        if dynamics is not None:
            n = len((dynamics.text_of("damping") or "0").split())
            damping = _finite(dynamics, "damping", [0.0] * (3 if joint.is_drake and n == 3 else 1))
            friction = float(_finite(dynamics, "friction", [0.0])[0])
            joint.dynamics = DynamicsElement(place=dynamics.origin, damping=damping, friction=friction)
        mimic = self._child(cursor, joint, "mimic")
        if mimic is not None and mimic.required("joint"):
            joint.mimic = MimicElement(
                place=mimic.origin,
                joint=mimic.required("joint"),
                multiplier=float(_finite(mimic, "multiplier", [1.0])[0]),
                offset=float(_finite(mimic, "offset", [0.0])[0]),
            )
        safety = self._child(cursor, joint, "safety_controller")
        if safety is not None:
            safety.required("k_velocity")
            joint.safety = _numbers(safety, ("soft_lower_limit", "soft_upper_limit", "k_position", "k_velocity"))
        calibration = self._child(cursor, joint, "calibration")
        if calibration is not None:
            joint.calibration = _numbers(calibration, ("rising", "falling", "reference_position"))
        pitch = self._child(cursor, joint, "drake:screw_thread_pitch") if joint.is_drake else None
        if pitch is not None and pitch.required("value"):
            joint.thread_pitch = float(_finite(pitch, "value", [0.0])[0])
        for child in (axis, limit, dynamics, mimic, safety, calibration, pitch):
            if child is not None:
                joint.extras += self.leftovers(child, child.tag)
        joint.extras += self.leftovers(cursor)
        return joint

    def _child(self, cursor: Cursor, joint: JointElement, tag: str) -> Cursor | None:
        child = cursor.child(tag)
        if child is not None:
            joint.children[tag] = child.element
        return child

    def _end(self, cursor: Cursor, joint: JointElement, tag: str) -> str:
        """The name of the parent or child link; empty, and an error, where there is none."""
        child = cursor.child(tag)
        if child is None:
            cursor.error("missing-element", f'joint "{joint.name}" has no <{tag}>; it is left out')
            return ""
        name = child.required("link")
        joint.extras += self.leftovers(child, tag)
        return name

    def limit(self, cursor: Cursor) -> LimitElement:
        values = _numbers(cursor, (*_LIMITS, *_LIMITS_12))
        newer = [name for name in _LIMITS_12 if name in values]
        if newer:
            self.needs_version(cursor, f"{newer[0]!r} of <limit>", (1, 2))
        drake = _numbers(cursor, ("drake:acceleration",))
        if "acceleration" not in values and drake:
            values["acceleration"] = drake["drake:acceleration"]
        for name in ("effort", "velocity", *_LIMITS_12):
            if values.get(name, 0.0) < 0:
                cursor.error("negative-limit", f"{name!r} of <limit> is negative", "its absolute value is assumed")
                values[name] = abs(values[name])
        result = LimitElement(place=cursor.origin)
        for name, value in values.items():
            setattr(result, name, value)
        return result


# -- geometry -----------------------------------------------------------------------------------------------------


def _box(cursor: Cursor) -> BoxElement | None:
    size = _lengths(cursor, "size", 3)
    return None if size is None else BoxElement(place=cursor.origin, size=size)


def _sphere(cursor: Cursor) -> SphereElement | None:
    radius = _lengths(cursor, "radius", 1)
    return None if radius is None else SphereElement(place=cursor.origin, radius=float(radius[0]))


def _radius_and_length(cursor: Cursor) -> tuple[float, float] | None:
    radius, length = _lengths(cursor, "radius", 1), _lengths(cursor, "length", 1)
    return None if radius is None or length is None else (float(radius[0]), float(length[0]))


def _cylinder(cursor: Cursor) -> CylinderElement | None:
    found = _radius_and_length(cursor)
    return None if found is None else CylinderElement(place=cursor.origin, radius=found[0], length=found[1])


def _capsule(cursor: Cursor) -> CapsuleElement | None:
    found = _radius_and_length(cursor)
    return None if found is None else CapsuleElement(place=cursor.origin, radius=found[0], length=found[1])


def _ellipsoid(cursor: Cursor) -> EllipsoidElement | None:
    a, b, c = (_lengths(cursor, name, 1) for name in "abc")
    if a is None or b is None or c is None:
        return None
    return EllipsoidElement(place=cursor.origin, radii=np.concatenate([a, b, c]))


def _mesh(cursor: Cursor) -> MeshElement | None:
    filename = cursor.required("filename")
    scale = _finite(cursor, "scale", (1, 1, 1))
    convex = bool(cursor.children("drake:declare_convex"))
    if not filename.strip():
        return None
    if np.any(scale == 0):
        cursor.error("zero-scale", f"mesh {filename!r} is scaled by zero; it is left out")
        return None
    return MeshElement(place=cursor.origin, filename=filename, scale=scale, convex=convex)


def _lengths(cursor: Cursor, attribute: str, count: int) -> Array | None:
    """A size that must be there, be finite and not be negative; None, and an error, if not."""
    text = cursor.required(attribute)
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


# -- numbers ------------------------------------------------------------------------------------------------------


def _finite(cursor: Cursor, attribute: str, default: Sequence[float]) -> Array:
    """As many finite numbers as the default has."""
    values = cursor.numbers(attribute, default)
    if np.isfinite(values).all():
        return values
    hint = f"{' '.join(f'{d:g}' for d in default)} is assumed"
    cursor.error("not-finite", f"{attribute!r} of <{cursor.tag}> is not finite", hint)
    return vector(default)


def _numbers(cursor: Cursor, attributes: Sequence[str]) -> dict[str, float]:
    """Those of the attributes that are there and are numbers; infinity is one, NaN is not."""
    result: dict[str, float] = {}
    for attribute in attributes:
        text = cursor.text_of(attribute)
        if text is None:
            continue
        value = parse_float(text)
        if value is None or math.isnan(value):
            message = f"{attribute!r} of <{cursor.tag}>: {text.strip()[:60]!r} is not a number"
            cursor.error("not-a-number", message, "it is read as if it were not there")
        else:
            result[attribute] = value
    return result


# -- extras -------------------------------------------------------------------------------------------------------


def extra_of(element: XmlElement) -> Extra:
    """The element, verbatim."""
    return Extra(urdf.FORMAT, element.tag, element.verbatim, element.origin)


def _under(path: str, element: PlacementElement | InertialElement | GeometryElement | MaterialElement) -> list[Extra]:
    """The extras of a part, with the path to it."""
    return [replace(e, tag=f"{path}/{e.tag}") for e in element.extras]


def _quoted(element: XmlElement) -> str:
    return f'"{element.attributes.get("name", "")}"'

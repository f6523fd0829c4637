"""Data classes of the URDF elements with URDF's defaults, uninterpreted.

`None` stands for an absent attribute or element where absence has a meaning.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from kinema.core import UNKNOWN_ORIGIN, Array, Origin, XmlElement
from kinema.description import Extra


def _zeros3() -> Array:
    return np.zeros(3)


def _ones3() -> Array:
    return np.ones(3)


@dataclass(kw_only=True, slots=True, eq=False)
class Element:
    """Common fields of all elements."""

    origin: Origin = UNKNOWN_ORIGIN
    """File and line."""
    extras: list[Extra] = field(default_factory=list)
    """Content that URDF does not define, verbatim; `tag` is the path from this element."""


@dataclass(kw_only=True, slots=True, eq=False)
class PlacementElement(Element):
    """`<origin>`: a pose."""

    xyz: Array = field(default_factory=_zeros3)
    rpy: Array = field(default_factory=_zeros3)
    quat_xyzw: Array | None = None
    """Quaternion (URDF 1.1); replaces `rpy`."""


@dataclass(kw_only=True, slots=True, eq=False)
class InertialElement(Element):
    """`<inertial>`: mass, centre of mass and inertia tensor in the axes of its origin."""

    placement: PlacementElement
    mass: float = 0.0
    moments: Array = field(default_factory=_zeros3)
    """ixx, iyy, izz [kg m2]."""
    products: Array = field(default_factory=_zeros3)
    """ixy, ixz, iyz [kg m2]."""


@dataclass(kw_only=True, slots=True, eq=False)
class BoxElement(Element):
    """`<box>`."""

    size: Array


@dataclass(kw_only=True, slots=True, eq=False)
class SphereElement(Element):
    """`<sphere>`."""

    radius: float


@dataclass(kw_only=True, slots=True, eq=False)
class CylinderElement(Element):
    """`<cylinder>` along z."""

    radius: float
    length: float


@dataclass(kw_only=True, slots=True, eq=False)
class CapsuleElement(Element):
    """`<capsule>` along z (URDF 1.1, Drake, Bullet, MuJoCo); length of the cylindrical part."""

    radius: float
    length: float


@dataclass(kw_only=True, slots=True, eq=False)
class EllipsoidElement(Element):
    """`<ellipsoid>` (Drake) with its semi-axes."""

    radii: Array


@dataclass(kw_only=True, slots=True, eq=False)
class MeshElement(Element):
    """`<mesh>`."""

    filename: str
    scale: Array = field(default_factory=_ones3)
    convex: bool = False
    """Drake's `<drake:declare_convex/>`."""


GeometryElement = BoxElement | SphereElement | CylinderElement | CapsuleElement | EllipsoidElement | MeshElement


@dataclass(kw_only=True, slots=True, eq=False)
class MaterialElement(Element):
    """`<material>`: a definition if it has a colour or texture, otherwise a reference."""

    name: str = ""
    color: Array | None = None
    texture: str | None = None
    source: XmlElement

    @property
    def is_definition(self) -> bool:
        """Whether it has a colour or texture."""
        return self.color is not None or self.texture is not None


@dataclass(kw_only=True, slots=True, eq=False)
class ShapeElement(Element):
    """`<visual>` or `<collision>`."""

    is_visual: bool
    name: str = ""
    placement: PlacementElement
    geometry: GeometryElement | None = None
    """Geometry; None if absent or unreadable."""
    material: MaterialElement | None = None
    source: XmlElement


@dataclass(kw_only=True, slots=True, eq=False)
class LinkElement(Element):
    """`<link>`."""

    name: str = ""
    inertial: InertialElement | None = None
    shapes: list[ShapeElement] = field(default_factory=list)
    source: XmlElement


@dataclass(kw_only=True, slots=True, eq=False)
class LimitElement(Element):
    """`<limit>`; the meaning of absent attributes depends on the version and the joint type."""

    lower: float | None = None
    upper: float | None = None
    effort: float | None = None
    velocity: float | None = None
    acceleration: float | None = None
    deceleration: float | None = None
    jerk: float | None = None


@dataclass(kw_only=True, slots=True, eq=False)
class DynamicsElement(Element):
    """`<dynamics>`."""

    damping: Array
    """One value, or three for Drake's planar joint."""
    friction: float = 0.0


@dataclass(kw_only=True, slots=True, eq=False)
class MimicElement(Element):
    """`<mimic>`: value = multiplier * leader + offset."""

    joint: str
    multiplier: float = 1.0
    offset: float = 0.0


@dataclass(kw_only=True, slots=True, eq=False)
class JointElement(Element):
    """`<joint>`, or Drake's `<drake:joint>`."""

    name: str = ""
    type: str = ""
    is_drake: bool = False
    placement: PlacementElement
    parent: str = ""
    child: str = ""
    axis: Array | None = None
    limit: LimitElement | None = None
    dynamics: DynamicsElement | None = None
    mimic: MimicElement | None = None
    safety: dict[str, float] = field(default_factory=dict)
    """Attributes of `<safety_controller>`."""
    calibration: dict[str, float] = field(default_factory=dict)
    """Attributes of `<calibration>`."""
    thread_pitch: float | None = None
    """Drake's `<drake:screw_thread_pitch>` [m per revolution]."""
    children: dict[str, XmlElement] = field(default_factory=dict)
    """Known children by tag, to preserve those without meaning for the joint type."""
    source: XmlElement


@dataclass(kw_only=True, slots=True, eq=False)
class ReferringElement(Element):
    """`<gazebo>`, `<transmission>` and other elements that are preserved verbatim."""

    content: Extra
    reference: str = ""
    """Link or joint to which the element refers; empty if none."""


@dataclass(kw_only=True, slots=True, eq=False)
class RobotElement(Element):
    """`<robot>`."""

    name: str = ""
    version: str | None = None
    links: list[LinkElement] = field(default_factory=list)
    joints: list[JointElement] = field(default_factory=list)
    materials: list[MaterialElement] = field(default_factory=list)
    referring: list[ReferringElement] = field(default_factory=list)

    @property
    def uses_version_1_2_limits(self) -> bool:
        """Whether absent attributes of `<limit>` are infinite (version 1.2)."""
        return version_number(self.version) >= (1, 2)


KNOWN_VERSIONS = ("1.0", "1.1", "1.2")


def version_number(version: str | None) -> tuple[int, int]:
    """Major and minor version; (1, 0) if absent or malformed."""
    found = re.fullmatch(r"([0-9]{1,4})\.([0-9]{1,4})", version or "1.0")
    return (int(found[1]), int(found[2])) if found else (1, 0)

"""The elements of a URDF file as objects, with URDF's own defaults and nothing interpreted.

`None` stands for an attribute or element that the file does not have, where its absence means something.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from kinema.description import Extra
from kinema.foundation import NOWHERE, Array, Origin
from kinema.read.xml_text import XmlElement


def _zeros3() -> Array:
    return np.zeros(3)


def _ones3() -> Array:
    return np.ones(3)


@dataclass(kw_only=True, slots=True, eq=False)
class Element:
    """What all elements have."""

    place: Origin = NOWHERE
    """File and line."""
    extras: list[Extra] = field(default_factory=list)
    """What stands in it that URDF does not define, verbatim; `tag` is the path from this element."""


@dataclass(kw_only=True, slots=True, eq=False)
class PlacementElement(Element):
    """`<origin>`: a pose."""

    xyz: Array = field(default_factory=_zeros3)
    rpy: Array = field(default_factory=_zeros3)
    quat_xyzw: Array | None = None
    """URDF 1.1; takes the place of `rpy`."""


@dataclass(kw_only=True, slots=True, eq=False)
class InertialElement(Element):
    """`<inertial>`: mass, centre and the tensor in the axes of its origin."""

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
    """`<capsule>` along z (URDF 1.1, Drake, Bullet, MuJoCo); the length is that of its cylindrical part."""

    radius: float
    length: float


@dataclass(kw_only=True, slots=True, eq=False)
class EllipsoidElement(Element):
    """`<ellipsoid>` (Drake): half axes."""

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
    """`<material>`: a definition where it holds a colour or texture, else a reference."""

    name: str = ""
    color: Array | None = None
    texture: str | None = None
    source: XmlElement

    @property
    def is_definition(self) -> bool:
        """Whether it says what the material looks like."""
        return self.color is not None or self.texture is not None


@dataclass(kw_only=True, slots=True, eq=False)
class ShapeElement(Element):
    """`<visual>` or `<collision>`."""

    is_visual: bool
    name: str = ""
    placement: PlacementElement
    geometry: GeometryElement | None = None
    """None where the file gives none that could be read."""
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
    """`<limit>`; what an absent attribute means depends on the version and on the type of the joint."""

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
    """One number, or three for Drake's planar joint."""
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
    """`<safety_controller>`: the attributes that are there."""
    calibration: dict[str, float] = field(default_factory=dict)
    """`<calibration>`: the attributes that are there."""
    thread_pitch: float | None = None
    """Drake's `<drake:screw_thread_pitch>` [m per revolution]."""
    children: dict[str, XmlElement] = field(default_factory=dict)
    """The known children, for those that turn out to mean nothing for this type of joint."""
    source: XmlElement


@dataclass(kw_only=True, slots=True, eq=False)
class ReferringElement(Element):
    """`<gazebo>`, `<transmission>` and other elements that are kept as they are."""

    content: Extra
    reference: str = ""
    """The link or joint that it is about, where it says so."""


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
    def has_12_limits(self) -> bool:
        """Whether limits follow version 1.2: absent attributes of `<limit>` are infinite."""
        return version_number(self.version) >= (1, 2)


KNOWN_VERSIONS = ("1.0", "1.1", "1.2")


def version_number(version: str | None) -> tuple[int, int]:
    """The version as numbers: 1.0 where the file says none or nonsense."""
    found = re.fullmatch(r"([0-9]{1,4})\.([0-9]{1,4})", version or "1.0")
    return (int(found[1]), int(found[2])) if found else (1, 0)

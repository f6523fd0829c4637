"""Data classes of the SDFormat elements with the format's defaults, unresolved, and rules that depend on the version.

Files of old versions are not converted to the newest version; the code queries the few version-dependent rules.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from kinema.core import UNKNOWN_ORIGIN, Array, Origin, Pose
from kinema.description import Box, Capsule, Cone, Cylinder, Ellipsoid, Extra, Sphere

from ..cursor import Cursor
from .generated_geometry import HeightmapShape

# -- versions ----------------------------------------------------------------------------------------------------------


class Version(NamedTuple):
    """SDFormat version of a file, such as 1.9."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"

    @property
    def axes_are_in_model_frame(self) -> bool:
        """Whether joint axes are given in the model frame (before 1.5)."""
        return self < (1, 5)

    @property
    def knows_use_parent_model_frame(self) -> bool:
        """Whether `use_parent_model_frame` exists (up to 1.6; since 1.7 `expressed_in` replaces it)."""
        return self < (1, 7)

    @property
    def poses_name_a_frame(self) -> bool:
        """Whether the attribute `relative_to` of a pose is called `frame` (up to 1.6)."""
        return self < (1, 7)

    @property
    def gravity_is_in_physics(self) -> bool:
        """Whether gravity and magnetic field are inside of `<physics>` (up to 1.5)."""
        return self < (1, 6)

    @property
    def names_are_unique_among_siblings(self) -> bool:
        """Whether names are unique among links, joints and frames of a model, and some reserved (since 1.7)."""
        return self >= (1, 7)

    @property
    def scopes_are_closed(self) -> bool:
        """Whether `::` is not allowed in names and nested models cannot refer outside (since 1.8)."""
        return self >= (1, 8)

    @property
    def default_bitmask(self) -> int:
        """Default collide bit mask of a collision."""
        return 0xFFFF if self >= (1, 5) else 1

    @property
    def default_screw_pitch(self) -> float:
        """Default pitch of a screw [m per revolution]; before 1.10 one radian per metre, left-handed."""
        return 1.0 if self >= (1, 10) else thread_pitch_to_travel(1.0)


OLDEST_VERSION = Version(1, 4)
NEWEST_VERSION = Version(1, 12)


def thread_pitch_to_travel(thread_pitch: float) -> float:
    """Pitch [m per revolution], right-handed, of the old `thread_pitch` [rad/m], left-handed."""
    return -2.0 * math.pi / thread_pitch


def parse_version(text: str | None) -> Version | None:
    """Version of a text; None if malformed."""
    found = re.fullmatch(r"\s*(\d{1,3})\.(\d{1,3})(\.\d+)?\s*", text or "", re.ASCII)
    return Version(int(found.group(1)), int(found.group(2))) if found else None


def read_version(root: Cursor) -> Version:
    """Version of a file from its root element; missing and unknown versions are reported."""
    text = root.attribute_text("version")
    version = parse_version(text)
    if version is None:
        if text is None:
            problem = f"<{root.tag}> does not say which version of SDFormat it is"
        else:
            problem = f"{text[:40]!r} is not a version of SDFormat"
        root.error("version", problem, f'{NEWEST_VERSION} is assumed; add version="{NEWEST_VERSION}"')
        return NEWEST_VERSION
    if version < OLDEST_VERSION:
        root.warning(
            "version", f"SDFormat {version} is older than {OLDEST_VERSION}; it is read by the rules of {OLDEST_VERSION}"
        )
        return OLDEST_VERSION
    if version > NEWEST_VERSION:
        root.warning(
            "version", f"SDFormat {version} is newer than {NEWEST_VERSION}; it is read by the rules of {NEWEST_VERSION}"
        )
        return NEWEST_VERSION
    return version


# -- common data -------------------------------------------------------------------------------------------------------

WORLD_FRAME = "world"
"""Name of the world frame."""
MODEL_FRAME = "__model__"
"""Name of the frame of a model, inside of the model."""
SCOPE_DELIMITER = "::"
"""Delimiter of the names of nested models."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PoseElement:
    """`<pose>`: a pose and the name of its reference frame (empty for the default)."""

    pose: Pose = field(default_factory=Pose)
    relative_to: str = ""
    origin: Origin = UNKNOWN_ORIGIN


@dataclass(kw_only=True, slots=True, eq=False)
class Element:
    """Common fields of named elements."""

    name: str = ""
    name_is_generated: bool = False
    origin: Origin = UNKNOWN_ORIGIN
    pose: PoseElement = field(default_factory=PoseElement)
    extras: list[Extra] = field(default_factory=list)
    """Unread content, verbatim."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Explicitly given settings that only SDFormat has."""


# -- geometry ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PlaneShape:
    """`<plane>`: plane through the origin with a normal; size of the drawn rectangle."""

    normal: Array
    size: tuple[float, float]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class MeshShape:
    """`<mesh>`: a mesh file, or a submesh of it."""

    uri: str
    scale: Array
    submesh: str = ""
    center_submesh: bool = False
    optimization: str = ""
    max_convex_hulls: int | None = None
    origin: Origin = UNKNOWN_ORIGIN


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PolylineShape:
    """`<polyline>`: a polygon in the plane z = 0, extruded up to a height."""

    points: Array
    height: float
    origin: Origin = UNKNOWN_ORIGIN


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class UnsupportedShape:
    """A known shape that is not convertible (image, empty)."""

    tag: str
    origin: Origin = UNKNOWN_ORIGIN


_Primitive = Box | Sphere | Cylinder | Capsule | Ellipsoid | Cone
ShapeElement = _Primitive | PlaneShape | MeshShape | PolylineShape | HeightmapShape | UnsupportedShape


# -- elements of a link ------------------------------------------------------------------------------------------------


@dataclass(kw_only=True, slots=True, eq=False)
class SurfaceElement:
    """`<surface>`: contact parameters of a collision; None where unset."""

    friction: float | None = None
    friction2: float | None = None
    torsional_coefficient: float | None = None
    use_patch_radius: bool = True
    patch_radius: float = 0.0
    restitution: float | None = None
    stiffness: float | None = None
    damping: float | None = None
    collide_bitmask: int | None = None
    category_bitmask: int | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    extras: list[Extra] = field(default_factory=list)
    origin: Origin = UNKNOWN_ORIGIN


@dataclass(kw_only=True, slots=True, eq=False)
class MaterialElement:
    """`<material>`: visual material."""

    diffuse: tuple[float, float, float, float] | None = None
    specular: tuple[float, float, float, float] | None = None
    emissive: tuple[float, float, float, float] | None = None
    albedo_map: str = ""
    maps: dict[str, str] = field(default_factory=dict)
    """Map role -> image reference."""
    metalness: float | None = None
    roughness: float | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    extras: list[Extra] = field(default_factory=list)
    origin: Origin = UNKNOWN_ORIGIN


@dataclass(kw_only=True, slots=True, eq=False)
class CollisionElement(Element):
    """`<collision>`."""

    shape: ShapeElement | None = None
    surface: SurfaceElement | None = None
    density: float | None = None
    verbatim: str = ""


@dataclass(kw_only=True, slots=True, eq=False)
class VisualElement(Element):
    """`<visual>`."""

    shape: ShapeElement | None = None
    material: MaterialElement | None = None
    transparency: float = 0.0
    verbatim: str = ""


@dataclass(kw_only=True, slots=True, eq=False)
class InertialElement:
    """`<inertial>`: mass and inertia about the centre of mass, in the axes of the pose."""

    pose: Pose = field(default_factory=Pose)
    mass: float = 1.0
    mass_is_given: bool = False
    inertia: Array = field(default_factory=lambda: np.eye(3))
    auto: bool = False
    density: float | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    extras: list[Extra] = field(default_factory=list)
    origin: Origin = UNKNOWN_ORIGIN


@dataclass(kw_only=True, slots=True, eq=False)
class CameraElement:
    """Image parameters of a camera sensor."""

    name: str = ""
    pose: PoseElement = field(default_factory=PoseElement)
    horizontal_fov: float = 1.047
    resolution: tuple[int, int] = (320, 240)
    clip: tuple[float, float] = (0.1, 100.0)


@dataclass(kw_only=True, slots=True, eq=False)
class SensorElement(Element):
    """`<sensor>`, of a link or a joint."""

    kind: str = ""
    update_rate: float = 0.0
    cameras: list[CameraElement] = field(default_factory=list)
    """Cameras; several for a `multicamera`."""


@dataclass(kw_only=True, slots=True, eq=False)
class LightElement(Element):
    """`<light>`, of a link or the world."""

    kind: str = "point"
    color: tuple[float, float, float, float] = (1.0, 1.0, 1.0, 1.0)
    direction: Array = field(default_factory=lambda: np.array([0.0, 0.0, -1.0]))
    casts_shadow: bool = False


# -- elements of a model -----------------------------------------------------------------------------------------------


@dataclass(kw_only=True, slots=True, eq=False)
class LinkElement(Element):
    """`<link>`."""

    inertial: InertialElement | None = None
    collisions: list[CollisionElement] = field(default_factory=list)
    visuals: list[VisualElement] = field(default_factory=list)
    sensors: list[SensorElement] = field(default_factory=list)
    lights: list[LightElement] = field(default_factory=list)
    gravity: bool = True
    self_collide: bool | None = None
    kinematic: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class MimicElement:
    """`<mimic>`: an axis that follows an axis of another joint."""

    joint: str
    axis: int = 0
    multiplier: float = 1.0
    offset: float = 0.0
    reference: float = 0.0
    origin: Origin = UNKNOWN_ORIGIN


@dataclass(kw_only=True, slots=True, eq=False)
class AxisElement:
    """`<axis>` or `<axis2>` of a joint; infinite limits mean unlimited."""

    xyz: Array = field(default_factory=lambda: np.array([0.0, 0.0, 1.0]))
    expressed_in: str = ""
    """Name of a frame; empty for the joint frame."""
    lower: float = -math.inf
    upper: float = math.inf
    effort: float = math.inf
    velocity: float = math.inf
    damping: float = 0.0
    friction: float = 0.0
    initial_position: float | None = None
    """Initial position; None for the configuration of the link poses."""
    spring_reference: float = 0.0
    spring_stiffness: float = 0.0
    mimic: MimicElement | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    origin: Origin = UNKNOWN_ORIGIN


@dataclass(kw_only=True, slots=True, eq=False)
class JointElement(Element):
    """`<joint>`, of a model or (since 1.10) of the world; parent and child name frames."""

    kind: str = ""
    parent: str = ""
    child: str = ""
    axis: AxisElement | None = None
    axis2: AxisElement | None = None
    pitch: float = 1.0
    """Pitch of a screw [m per revolution], right-handed."""
    gearbox_ratio: float = 1.0
    gearbox_reference: str = ""
    must_be_loop_joint: bool = False
    sensors: list[SensorElement] = field(default_factory=list)
    verbatim: str = ""


@dataclass(kw_only=True, slots=True, eq=False)
class FrameElement(Element):
    """`<frame>`, of a model or the world."""

    attached_to: str = ""


@dataclass(kw_only=True, slots=True, eq=False)
class ModelElement(Element):
    """`<model>`: top-level, in a world, nested, or included."""

    version: Version = NEWEST_VERSION
    """Version of the file that contains the model."""
    canonical_link: str = ""
    placement_frame: str = ""
    static: bool = False
    self_collide: bool = False
    base: str = ""
    """Kinema's extension: `unspecified` if the base is unspecified."""
    merged: bool = False
    """Whether its members belong to the enclosing model or world (`<include merge="true">`)."""
    members: list[Member] = field(default_factory=list)
    """Links, joints, frames and nested models in file order."""
    n_members: int = 1
    """Number of members at all depths, including the model."""
    nesting_depth: int = 1
    """Nesting depth of models, including the model."""

    def add(self, member: Member) -> None:
        """Append a member and count it."""
        self.members.append(member)
        self.n_members += member.n_members if isinstance(member, ModelElement) else 1
        if isinstance(member, ModelElement):
            self.nesting_depth = max(self.nesting_depth, member.nesting_depth + 1)

    @property
    def links(self) -> Iterator[LinkElement]:
        """Links of the model, without nested models."""
        return (m for m in self.members if isinstance(m, LinkElement))

    @property
    def models(self) -> Iterator[ModelElement]:
        """Directly nested models."""
        return (m for m in self.members if isinstance(m, ModelElement))


Member = LinkElement | JointElement | FrameElement | ModelElement
"""Member of a model or world."""


@dataclass(kw_only=True, slots=True, eq=False)
class WorldElement(Element):
    """`<world>`."""

    version: Version = NEWEST_VERSION
    gravity: Array = field(default_factory=lambda: np.array([0.0, 0.0, -9.8]))
    timestep: float | None = None
    """Time step [s]; None without `<physics>`."""
    members: list[Member] = field(default_factory=list)
    """Models, joints and frames in file order."""
    lights: list[LightElement] = field(default_factory=list)

    @property
    def models(self) -> Iterator[ModelElement]:
        """Models of the world."""
        return (m for m in self.members if isinstance(m, ModelElement))


@dataclass(kw_only=True, slots=True, eq=False)
class RootElement:
    """`<sdf>`."""

    version: Version = NEWEST_VERSION
    origin: Origin = UNKNOWN_ORIGIN
    worlds: list[WorldElement] = field(default_factory=list)
    models: list[ModelElement] = field(default_factory=list)
    lights: list[LightElement] = field(default_factory=list)
    actors: list[Extra] = field(default_factory=list)
    extras: list[Extra] = field(default_factory=list)

"""What an SDFormat file says, element by element, with the format's own defaults; nothing is resolved yet."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kinema.description import Box, Capsule, Cone, Cylinder, Ellipsoid, Extra, Sphere
from kinema.foundation import NOWHERE, Array, Origin, Pose

from .heightmap import HeightmapShape
from .version import NEWEST, Version

WORLD = "world"
"""The name of the world's own frame."""
MODEL_FRAME = "__model__"
"""The name of a model's own frame, inside of it."""
SCOPE = "::"
"""Between the names of nested models."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PoseElement:
    """`<pose>`: a pose, and the name of the frame it is relative to (empty for the default of its place)."""

    pose: Pose = field(default_factory=Pose)
    relative_to: str = ""
    origin: Origin = NOWHERE


@dataclass(kw_only=True, slots=True, eq=False)
class Element:
    """What all named elements have."""

    name: str = ""
    name_is_generated: bool = False
    origin: Origin = NOWHERE
    pose: PoseElement = field(default_factory=PoseElement)
    extras: list[Extra] = field(default_factory=list)
    """What has no meaning here, verbatim."""
    settings: dict[str, Any] = field(default_factory=dict)
    """What is understood but has a meaning in SDFormat only; only what the file says."""


# -- geometry ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PlaneShape:
    """`<plane>`: through the origin, with a normal; the size is that of the drawn rectangle."""

    normal: Array
    size: tuple[float, float]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class MeshShape:
    """`<mesh>`: a file, or one part of it."""

    uri: str
    scale: Array
    submesh: str = ""
    center_submesh: bool = False
    optimization: str = ""
    max_convex_hulls: int | None = None
    origin: Origin = NOWHERE


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PolylineShape:
    """`<polyline>`: a polygon in the plane z = 0, extruded up to a height."""

    points: Array
    height: float
    origin: Origin = NOWHERE


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class UnreadShape:
    """A shape that is known but cannot be built here: an image, nothing at all."""

    tag: str
    origin: Origin = NOWHERE


_Primitive = Box | Sphere | Cylinder | Capsule | Ellipsoid | Cone
ShapeElement = _Primitive | PlaneShape | MeshShape | PolylineShape | HeightmapShape | UnreadShape


# -- parts of a link ---------------------------------------------------------------------------------------------------


@dataclass(kw_only=True, slots=True, eq=False)
class SurfaceElement:
    """`<surface>`: how a collision touches others. None where the file says nothing."""

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
    origin: Origin = NOWHERE


@dataclass(kw_only=True, slots=True, eq=False)
class MaterialElement:
    """`<material>`: the look of a visual."""

    diffuse: tuple[float, float, float, float] | None = None
    specular: tuple[float, float, float, float] | None = None
    emissive: tuple[float, float, float, float] | None = None
    albedo_map: str = ""
    maps: dict[str, str] = field(default_factory=dict)
    """What an image says of the surface -> the reference to it."""
    metalness: float | None = None
    roughness: float | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    extras: list[Extra] = field(default_factory=list)
    origin: Origin = NOWHERE


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
    origin: Origin = NOWHERE


@dataclass(kw_only=True, slots=True, eq=False)
class CameraElement:
    """What a camera sensor says of its picture."""

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
    """Several for a `multicamera`."""


@dataclass(kw_only=True, slots=True, eq=False)
class LightElement(Element):
    """`<light>`, of a link or the world."""

    kind: str = "point"
    color: tuple[float, float, float, float] = (1.0, 1.0, 1.0, 1.0)
    direction: Array = field(default_factory=lambda: np.array([0.0, 0.0, -1.0]))
    casts_shadow: bool = False


# -- members of a model ------------------------------------------------------------------------------------------------


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
    """`<mimic>`: this axis follows one of another joint."""

    joint: str
    axis: int = 0
    multiplier: float = 1.0
    offset: float = 0.0
    reference: float = 0.0
    origin: Origin = NOWHERE


@dataclass(kw_only=True, slots=True, eq=False)
class AxisElement:
    """`<axis>` or `<axis2>` of a joint; infinities where there is no limit."""

    xyz: Array = field(default_factory=lambda: np.array([0.0, 0.0, 1.0]))
    expressed_in: str = ""
    """The name of a frame; empty for the joint's own."""
    lower: float = -math.inf
    upper: float = math.inf
    effort: float = math.inf
    velocity: float = math.inf
    damping: float = 0.0
    friction: float = 0.0
    initial_position: float | None = None
    """Where the joint starts; None for where the links are posed."""
    spring_reference: float = 0.0
    spring_stiffness: float = 0.0
    mimic: MimicElement | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    origin: Origin = NOWHERE


@dataclass(kw_only=True, slots=True, eq=False)
class JointElement(Element):
    """`<joint>`, of a model or (since 1.10) of the world; parent and child name frames."""

    kind: str = ""
    parent: str = ""
    child: str = ""
    axis: AxisElement | None = None
    axis2: AxisElement | None = None
    pitch: float = 1.0
    """Travel of a screw [m per revolution], right-handed."""
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
    """`<model>`, at the root, in a world or in another model, or what an `<include>` brings."""

    version: Version = NEWEST
    """Of the file it stands in."""
    canonical_link: str = ""
    placement_frame: str = ""
    static: bool = False
    self_collide: bool = False
    base: str = ""
    """Kinema's own: `unspecified` where nothing is said of what holds it."""
    merged: bool = False
    """Whether its members belong to the model or world around it (`<include merge="true">`)."""
    members: list[Member] = field(default_factory=list)
    """Links, joints, frames and nested models in the order of the file."""
    size: int = 1
    """How many members it has at all depths, and itself."""
    height: int = 1
    """How deep models are nested in it, and itself."""

    def add(self, member: Member) -> None:
        """Append a member and count it."""
        self.members.append(member)
        self.size += member.size if isinstance(member, ModelElement) else 1
        if isinstance(member, ModelElement):
            self.height = max(self.height, member.height + 1)

    @property
    def links(self) -> Iterator[LinkElement]:
        """Its own links, without those of nested models."""
        return (m for m in self.members if isinstance(m, LinkElement))

    @property
    def models(self) -> Iterator[ModelElement]:
        """The models directly inside."""
        return (m for m in self.members if isinstance(m, ModelElement))


Member = LinkElement | JointElement | FrameElement | ModelElement
"""What a model or world consists of."""


@dataclass(kw_only=True, slots=True, eq=False)
class WorldElement(Element):
    """`<world>`."""

    version: Version = NEWEST
    gravity: Array = field(default_factory=lambda: np.array([0.0, 0.0, -9.8]))
    timestep: float | None = None
    """[s]; None where it says nothing of physics."""
    members: list[Member] = field(default_factory=list)
    """Models, joints and frames in the order of the file."""
    lights: list[LightElement] = field(default_factory=list)

    @property
    def models(self) -> Iterator[ModelElement]:
        """The models of the world."""
        return (m for m in self.members if isinstance(m, ModelElement))


@dataclass(kw_only=True, slots=True, eq=False)
class RootElement:
    """`<sdf>`."""

    version: Version = NEWEST
    origin: Origin = NOWHERE
    worlds: list[WorldElement] = field(default_factory=list)
    models: list[ModelElement] = field(default_factory=list)
    lights: list[LightElement] = field(default_factory=list)
    actors: list[Extra] = field(default_factory=list)
    extras: list[Extra] = field(default_factory=list)

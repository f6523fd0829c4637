"""Data classes and constants of a CAD assembly snapshot: occurrences, bodies, joints and motion links, in SI units.

All poses are in the frame of the root component. The file format is described in `docs/cad-snapshot.md`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kinema.core import UNKNOWN_ORIGIN, Array, Origin, Pose
from kinema.description import AxisMotion, Extra
from kinema.geometry import MeshData

# -- constants of the snapshot format ----------------------------------------------------------------------------------

FORMAT = "cad"
SNAPSHOT_MARKER_KEY = "kinema"
SNAPSHOT_MARKER = "cad-snapshot"
SNAPSHOT_VERSION = 1

LENGTH_UNITS = {"m": 1.0, "cm": 0.01, "mm": 0.001, "in": 0.0254, "ft": 0.3048}
"""Unit of length -> metres."""
UNIT_SYSTEMS = {"cm,kg,rad": "cm", "m,kg,rad": "m"}
"""Value of the field `units` -> unit of length."""

JOINT_KINDS = ("joint", "as_built")

_ROTATION, _TRANSLATION = AxisMotion.ROTATION, AxisMotion.TRANSLATION
JOINT_MOTIONS: dict[str, dict[str, AxisMotion]] = {
    "rigid": {},
    "revolute": {"rotation": _ROTATION},
    "slider": {"slide": _TRANSLATION},
    "cylindrical": {"rotation": _ROTATION, "slide": _TRANSLATION},
    "pin_slot": {"slide": _TRANSLATION, "rotation": _ROTATION},
    "planar": {"primary_slide": _TRANSLATION, "secondary_slide": _TRANSLATION, "rotation": _ROTATION},
    "ball": {"pitch": _ROTATION, "yaw": _ROTATION, "roll": _ROTATION},
    "inferred": {},
}
"""Joint type -> its motions in the order of application."""

ROOT_PATH = ""
"""Path of the root component, which is not an occurrence."""


# -- data classes ------------------------------------------------------------------------------------------------------


@dataclass(kw_only=True, slots=True, eq=False)
class PhysicalElement:
    """Mass properties reported by the CAD program."""

    origin: Origin = UNKNOWN_ORIGIN
    mass: float
    """Mass [kg]."""
    center: Array
    """Centre of mass [m]."""
    inertia: Array
    """Inertia about the origin of `frame`, not about the centre of mass [kg m2], shape (3, 3), tensor sign."""
    principal: Array | None = None
    """Principal moments about the centre of mass [kg m2], for a consistency check."""
    frame: str = "root"
    """Frame of centre and inertia: `root` or `component` (the frame of the occurrence)."""


@dataclass(kw_only=True, slots=True, eq=False)
class MeshElement:
    """Triangle mesh of a body, in a file or in memory."""

    origin: Origin = UNKNOWN_ORIGIN
    file: str = ""
    triangles: MeshData | None = None
    """Mesh in memory instead of a file [m before scale]."""
    scale: float = 1.0
    """Metres in one unit of the file."""
    frame: str = "component"
    """Frame of the vertex coordinates: `root` or `component` (the frame of the occurrence)."""


@dataclass(kw_only=True, slots=True, eq=False)
class BodyElement:
    """A solid or mesh body of a component."""

    origin: Origin = UNKNOWN_ORIGIN
    name: str = ""
    visible: bool = True
    color: tuple[float, float, float, float] | None = None
    material: str = ""
    physical: PhysicalElement | None = None
    mesh: MeshElement | None = None
    extras: list[Extra] = field(default_factory=list)


@dataclass(kw_only=True, slots=True, eq=False)
class OccurrenceElement:
    """An occurrence of a component in the assembly, or (with path `ROOT_PATH`) the root component."""

    origin: Origin = UNKNOWN_ORIGIN
    path: str
    """Unique path: the names of the occurrences from the root to this occurrence."""
    name: str
    parent: str = ROOT_PATH
    """Path of the containing occurrence."""
    component: str = ""
    pose: Pose = field(default_factory=Pose)
    grounded: bool = False
    grounded_to_parent: bool = False
    visible: bool = True
    physical: PhysicalElement | None = None
    """Mass properties of the bodies of this occurrence, without nested occurrences."""
    bounding_box: tuple[Array, Array] | None = None
    """Minimum and maximum corner of the bodies of this occurrence [m]."""
    bodies: list[BodyElement] = field(default_factory=list)
    extras: list[Extra] = field(default_factory=list)

    @property
    def has_mass_or_bodies(self) -> bool:
        """Whether the occurrence has bodies or mass, not counting nested occurrences."""
        return bool(self.bodies) or (self.physical is not None and self.physical.mass > 0)


@dataclass(kw_only=True, slots=True, eq=False)
class MotionElement:
    """One degree of freedom of a joint [rad or m]."""

    origin: Origin = UNKNOWN_ORIGIN
    axis: Array | None
    """Unit direction fixed in occurrence two; None if unknown."""
    value: float = 0.0
    """Coordinate in the snapshot."""
    lower: float | None = None
    upper: float | None = None
    rest: float | None = None


@dataclass(kw_only=True, slots=True, eq=False)
class PoseSampleElement:
    """Poses measured in the CAD program with the joint driven to given values."""

    origin: Origin = UNKNOWN_ORIGIN
    values: dict[str, float]
    """Motion -> driven value; other motions keep their value in the snapshot."""
    pose1: Pose
    """Measured pose of occurrence one."""
    pose2: Pose


@dataclass(kw_only=True, slots=True, eq=False)
class JointElement:
    """A joint between two occurrences: occurrence two is the parent, occurrence one the child."""

    origin: Origin = UNKNOWN_ORIGIN
    name: str
    type: str
    kind: str = "joint"
    context: str = ROOT_PATH
    """Path of the occurrence whose component owns the joint."""
    occurrence_one: str = ROOT_PATH
    occurrence_two: str = ROOT_PATH
    frame1: Pose | None = None
    """Joint frame on occurrence one in the snapshot configuration; z is the primary axis."""
    frame2: Pose | None = None
    motions: dict[str, MotionElement] = field(default_factory=dict)
    offset: float = 0.0
    angle: float = 0.0
    flipped: bool = False
    locked: bool = False
    suppressed: bool = False
    problem: str = ""
    """Error message of the CAD program for this joint."""
    pose_samples: list[PoseSampleElement] = field(default_factory=list)
    extras: list[Extra] = field(default_factory=list)


@dataclass(kw_only=True, slots=True, eq=False)
class RigidGroupElement:
    """Occurrences that are rigidly connected."""

    origin: Origin = UNKNOWN_ORIGIN
    name: str = ""
    occurrences: list[str] = field(default_factory=list)
    suppressed: bool = False
    extras: list[Extra] = field(default_factory=list)


@dataclass(kw_only=True, slots=True, eq=False)
class MotionLinkElement:
    """Linear coupling of two motions: motion two moves by `value2` while motion one moves by `value1`."""

    origin: Origin = UNKNOWN_ORIGIN
    name: str = ""
    joint1: JointElement
    motion1: str
    joint2: JointElement
    motion2: str
    value1: float
    value2: float
    reversed: bool = False
    suppressed: bool = False
    extras: list[Extra] = field(default_factory=list)


@dataclass(kw_only=True, slots=True, eq=False)
class Snapshot:
    """A whole CAD assembly."""

    origin: Origin = UNKNOWN_ORIGIN
    name: str = ""
    up: str = "z"
    source: dict[str, Any] = field(default_factory=dict)
    """Exporter information: program, version, time, ..."""
    root: OccurrenceElement = field(default_factory=lambda: OccurrenceElement(path=ROOT_PATH, name=""))
    """The root component with its direct bodies."""
    occurrences: list[OccurrenceElement] = field(default_factory=list)
    joints: list[JointElement] = field(default_factory=list)
    rigid_groups: list[RigidGroupElement] = field(default_factory=list)
    motion_links: list[MotionLinkElement] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Messages of the exporter."""
    extras: list[Extra] = field(default_factory=list)

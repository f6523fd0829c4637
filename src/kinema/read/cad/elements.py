"""A CAD assembly as its snapshot describes it, in SI units; everything in the root component's frame."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kinema.description import Extra
from kinema.foundation import NOWHERE, Array, Origin, Pose
from kinema.shapes import MeshData

from .schema import ROOT


@dataclass(kw_only=True, slots=True, eq=False)
class PhysicalElement:
    """Mass properties as the CAD program gives them."""

    place: Origin = NOWHERE
    mass: float
    """[kg]"""
    center: Array
    """Centre of mass [m]."""
    inertia: Array
    """Inertia about the origin of `frame`, not about the centre of mass [kg m2], shape (3, 3), tensor sign."""
    principal: Array | None = None
    """Principal moments about the centre of mass [kg m2], for a self-check."""
    frame: str = "root"
    """What centre and inertia are expressed in: `root` or `component` (the occurrence's own frame)."""


@dataclass(kw_only=True, slots=True, eq=False)
class MeshElement:
    """A file with triangles, or the triangles themselves."""

    place: Origin = NOWHERE
    file: str = ""
    triangles: MeshData | None = None
    """In place of a file [m before scale]."""
    scale: float = 1.0
    """Metres in one unit of the file."""
    frame: str = "component"
    """What the file's coordinates are expressed in: `root` or `component` (the occurrence's own frame)."""


@dataclass(kw_only=True, slots=True, eq=False)
class BodyElement:
    """A solid or mesh body of a component."""

    place: Origin = NOWHERE
    name: str = ""
    visible: bool = True
    color: tuple[float, float, float, float] | None = None
    material: str = ""
    physical: PhysicalElement | None = None
    mesh: MeshElement | None = None
    extras: list[Extra] = field(default_factory=list)


@dataclass(kw_only=True, slots=True, eq=False)
class OccurrenceElement:
    """A component placed in the assembly, or (with the path `ROOT`) the root component and its own bodies."""

    place: Origin = NOWHERE
    path: str
    """Unique: the names of the occurrences down to this one."""
    name: str
    parent: str = ROOT
    """Path of the occurrence it is nested in."""
    component: str = ""
    pose: Pose = field(default_factory=Pose)
    grounded: bool = False
    grounded_to_parent: bool = False
    visible: bool = True
    physical: PhysicalElement | None = None
    """Of its own bodies, without those of nested occurrences."""
    box: tuple[Array, Array] | None = None
    """Least and greatest corner of its own bodies [m]."""
    bodies: list[BodyElement] = field(default_factory=list)
    extras: list[Extra] = field(default_factory=list)

    @property
    def has_matter(self) -> bool:
        """Whether it brings bodies or mass of its own."""
        return bool(self.bodies) or (self.physical is not None and self.physical.mass > 0)


@dataclass(kw_only=True, slots=True, eq=False)
class MotionElement:
    """One degree of freedom of a joint. Radians or metres."""

    place: Origin = NOWHERE
    axis: Array | None
    """Unit direction, fixed in occurrence two; None where the program does not say."""
    value: float = 0.0
    """Where the joint stands in the snapshot."""
    lower: float | None = None
    upper: float | None = None
    rest: float | None = None


@dataclass(kw_only=True, slots=True, eq=False)
class ProbeElement:
    """What was measured when the joint was driven."""

    place: Origin = NOWHERE
    values: dict[str, float]
    """Motion -> the value it was driven to; motions not named stayed where they were."""
    pose1: Pose
    """Where occurrence one was then."""
    pose2: Pose


@dataclass(kw_only=True, slots=True, eq=False)
class JointElement:
    """A joint between two occurrences: two is the parent, one the child."""

    place: Origin = NOWHERE
    name: str
    type: str
    kind: str = "joint"
    context: str = ROOT
    """Path of the occurrence whose component owns the joint."""
    one: str = ROOT
    two: str = ROOT
    frame1: Pose | None = None
    """The joint's frame on occurrence one where that now is; z is the primary axis."""
    frame2: Pose | None = None
    motions: dict[str, MotionElement] = field(default_factory=dict)
    offset: float = 0.0
    angle: float = 0.0
    flipped: bool = False
    locked: bool = False
    suppressed: bool = False
    problem: str = ""
    """What the CAD program complains of."""
    probes: list[ProbeElement] = field(default_factory=list)
    extras: list[Extra] = field(default_factory=list)


@dataclass(kw_only=True, slots=True, eq=False)
class RigidGroupElement:
    """Occurrences that do not move against each other."""

    place: Origin = NOWHERE
    name: str = ""
    occurrences: list[str] = field(default_factory=list)
    suppressed: bool = False
    extras: list[Extra] = field(default_factory=list)


@dataclass(kw_only=True, slots=True, eq=False)
class MotionLinkElement:
    """While motion one of a joint moves by `value1`, motion two moves by `value2`."""

    place: Origin = NOWHERE
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
    """A whole assembly."""

    place: Origin = NOWHERE
    name: str = ""
    up: str = "z"
    source: dict[str, Any] = field(default_factory=dict)
    """What made it: program, version, time, ..."""
    root: OccurrenceElement = field(default_factory=lambda: OccurrenceElement(path=ROOT, name=""))
    """The root component and the bodies that lie in it directly."""
    occurrences: list[OccurrenceElement] = field(default_factory=list)
    joints: list[JointElement] = field(default_factory=list)
    rigid_groups: list[RigidGroupElement] = field(default_factory=list)
    motion_links: list[MotionLinkElement] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What the exporter had to say."""
    extras: list[Extra] = field(default_factory=list)

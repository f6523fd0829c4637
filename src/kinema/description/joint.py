"""Joints: two links, a frame on each, and the axes along which one may move against the other."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field

import numpy as np

from kinema.foundation import Array, ArrayLike, Pose, vector

from .material import DEFAULT_SOLVER, SolverParameters
from .node import Node


class JointKind(enum.StrEnum):
    """How the child may move; the axes each kind carries are listed in order."""

    FIXED = "fixed"
    """No motion."""
    REVOLUTE = "revolute"
    """Rotation about one axis."""
    CONTINUOUS = "continuous"
    """Rotation about one axis without limits."""
    PRISMATIC = "prismatic"
    """Translation along one axis."""
    SPHERICAL = "spherical"
    """Any rotation: three axes x, y, z; the coordinate is a quaternion."""
    CYLINDRICAL = "cylindrical"
    """Rotation about, then translation along, one line."""
    PLANAR = "planar"
    """Two translations, then rotation about their normal."""
    UNIVERSAL = "universal"
    """Rotation about a first axis (fixed in the parent), then about a second (fixed in the child)."""
    SCREW = "screw"
    """Rotation about one axis with a translation along it, `Joint.pitch` per revolution."""
    FREE = "free"
    """No constraint: three translations, three rotations; the coordinate is a position and a quaternion."""
    DISTANCE = "distance"
    """The joint frames' origins stay within `Joint.distance` of each other; never part of the tree."""
    SIX_AXIS = "six_axis"
    """Translations along x, y, z, then rotations about x, y, z; each free, limited or locked."""


class AxisMotion(enum.StrEnum):
    """What moves along an axis."""

    ROTATION = "rotation"
    TRANSLATION = "translation"


class AxisState(enum.StrEnum):
    """Whether an axis moves."""

    FREE = "free"
    LIMITED = "limited"
    LOCKED = "locked"


class DriveType(enum.StrEnum):
    """What a drive's gains multiply into."""

    FORCE = "force"
    ACCELERATION = "acceleration"


@dataclass(kw_only=True, slots=True, eq=False)
class Drive:
    """A spring and damper towards a target: force = stiffness (target - q) + damping (target velocity - v)."""

    stiffness: float = 0.0
    """[N/m or N m/rad] (per kg or kg m2 for an acceleration drive)."""
    damping: float = 0.0
    """[N s/m or N m s/rad]."""
    target_position: float = 0.0
    target_velocity: float = 0.0
    max_force: float = math.inf
    type: DriveType = DriveType.FORCE


@dataclass(kw_only=True, slots=True, eq=False)
class Mimic:
    """This axis follows another: value = multiplier (leader - reference) + offset."""

    joint: str
    axis: int = 0
    """Which axis of the leading joint."""
    multiplier: float = 1.0
    offset: float = 0.0
    reference: float = 0.0


@dataclass(kw_only=True, slots=True, eq=False)
class Axis:
    """One axis of a joint: its direction, limits, drive and passive dynamics. SI; infinity where a limit is absent."""

    direction: Array
    """Unit vector in the joint's frame, shape (3,)."""
    motion: AxisMotion
    locked: bool = False
    lower: float = -math.inf
    upper: float = math.inf
    velocity: float = math.inf
    """Greatest speed [rad/s or m/s]."""
    effort: float = math.inf
    """Greatest force of the drive or actuators [N or N m]."""
    acceleration: float = math.inf
    deceleration: float = math.inf
    jerk: float = math.inf
    reference: float = 0.0
    """The coordinate at which the two joint frames coincide (MJCF `ref`)."""
    stiffness: float = 0.0
    """Passive spring [N/m or N m/rad]."""
    spring_reference: float = 0.0
    """The coordinate at which that spring is at rest."""
    damping: float = 0.0
    friction: float = 0.0
    """Dry friction loss [N or N m]."""
    armature: float = 0.0
    """Rotor inertia seen at the joint [kg or kg m2]."""
    drive: Drive | None = None
    mimic: Mimic | None = None
    limit_solver: SolverParameters = DEFAULT_SOLVER
    friction_solver: SolverParameters = DEFAULT_SOLVER

    @property
    def state(self) -> AxisState:
        """Locked, limited (at least one finite limit) or free."""
        if self.locked:
            return AxisState.LOCKED
        bounded = math.isfinite(self.lower) or math.isfinite(self.upper)
        return AxisState.LIMITED if bounded else AxisState.FREE


@dataclass(frozen=True, kw_only=True, slots=True)
class ConeLimit:
    """Limit of a spherical joint."""

    angle_y: float
    """Greatest swing of the main axis towards the next one (y for x) [rad]; infinity for none."""
    angle_z: float
    """Greatest swing towards the one after that [rad]."""
    axis: int = 0
    """The main axis: 0, 1, 2 for x, y, z of the joint's frame."""
    total: bool = False
    """True where the whole rotation angle is bounded by `angle_y` (MJCF ball), not just the swing of the main axis."""


def rotation(direction: ArrayLike, **settings: float) -> Axis:
    """An axis of rotation; the direction is normalised, a zero one is kept for the checks to find."""
    return Axis(direction=_unit(direction), motion=AxisMotion.ROTATION, **settings)  # type: ignore[arg-type]


def translation(direction: ArrayLike, **settings: float) -> Axis:
    """An axis of translation; the direction is normalised, a zero one is kept for the checks to find."""
    return Axis(direction=_unit(direction), motion=AxisMotion.TRANSLATION, **settings)  # type: ignore[arg-type]


def _unit(direction: ArrayLike) -> Array:
    d = vector(direction)
    length = float(np.linalg.norm(d))
    return d / length if math.isfinite(length) and length > 0 else d


@dataclass(kw_only=True, slots=True, eq=False)
class Joint(Node):
    """A joint between two links.

    At the reference configuration the joint's frame on the parent and its frame on the child coincide.
    """

    kind: JointKind
    parent: str | None
    """Name of the parent link; None for the robot's base frame (the world)."""
    child: str | None
    """Name of the child link; None likewise."""
    parent_pose: Pose = field(default_factory=Pose)
    """The joint's frame in the parent link."""
    child_pose: Pose = field(default_factory=Pose)
    """The joint's frame in the child link."""
    axes: list[Axis] = field(default_factory=list)
    initial: Array | None = None
    """The coordinates that the file itself says the joint starts at (a free joint's pose); None where it says none."""
    state: Array | None = None
    """The coordinates at which the file shows the joint: those of its reference configuration (MJCF), those that follow
    from where it poses the links (USD, CAD). None where that is zero, or where a follower's leader says it."""
    pitch: float = 0.0
    """Travel of a screw [m per revolution], positive right-handed."""
    cone: ConeLimit | None = None
    distance: tuple[float, float] = (0.0, math.inf)
    """Least and greatest distance [m] of the joint frames' origins: of a distance joint, or a six-axis one's."""
    enabled: bool = True
    implicit: bool = False
    """True where the file has no such element, only links that sit rigidly in each other."""
    closes_loop: bool = False
    """True where the file says that this joint is not part of the tree."""
    stacked: bool = False
    """True where this joint adds its motion to the joints listed before it between the same two links."""
    collision_enabled: bool | None = None
    """Whether the two links may collide with each other; None for the robot's rule."""
    break_force: float = math.inf
    """[N]"""
    break_torque: float = math.inf
    """[N m]"""

    @property
    def moving_axes(self) -> list[Axis]:
        """The axes that are not locked: one per degree of freedom, in coordinate order."""
        return [a for a in self.axes if not a.locked]

    @property
    def n_dofs(self) -> int:
        """Degrees of freedom."""
        return len(self.moving_axes)

    @property
    def n_qs(self) -> int:
        """Number of coordinates: one more than the degrees of freedom where a quaternion is among them."""
        return self.n_dofs + (1 if self.kind in (JointKind.SPHERICAL, JointKind.FREE) else 0)

    @property
    def is_shown(self) -> bool:
        """Whether its file shows or says where the joint starts; a follower that has neither follows its leader."""
        return self.initial is not None or self.state is not None

    @property
    def start(self) -> Array:
        """The coordinates that the joint starts from: what its file says, else what it shows, else zero."""
        said = self.state if self.initial is None else self.initial
        return self.rest if said is None or said.shape != (self.n_qs,) else said

    @property
    def rest(self) -> Array:
        """The coordinates of the zero configuration; for a free or spherical joint what its file gives."""
        if self.initial is not None and self.kind in (JointKind.SPHERICAL, JointKind.FREE):
            return self.initial
        q = np.zeros(self.n_qs)
        if self.kind is JointKind.SPHERICAL:
            q[0] = 1.0
        elif self.kind is JointKind.FREE:
            q[3] = 1.0
        return q


def free_axes() -> list[Axis]:
    """The six axes of a free joint: translations along, then rotations about, x, y, z."""
    return [translation(e) for e in np.eye(3)] + [rotation(e) for e in np.eye(3)]


def spherical_axes() -> list[Axis]:
    """The three axes of a spherical joint."""
    return [rotation(e) for e in np.eye(3)]

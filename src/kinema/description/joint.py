"""Joints: kinds, axes, limits, drives and mimics; the joint transform at given coordinates; reversal of a joint."""

from __future__ import annotations

import copy
import enum
import math
from dataclasses import dataclass, field

import numpy as np

from kinema.core import Array, ArrayLike, Pose, axis_angle_to_matrix, float64_array, reproducible_norm

from .material import DEFAULT_SOLVER, SolverParameters
from .node import Node

# ----------------------------------------------------------------------------------------------- joints and axes


class JointKind(enum.StrEnum):
    """Joint types; the axes of each type are listed in order."""

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
    """Type of motion of an axis."""

    ROTATION = "rotation"
    TRANSLATION = "translation"


class AxisState(enum.StrEnum):
    """Whether an axis is free, limited or locked."""

    FREE = "free"
    LIMITED = "limited"
    LOCKED = "locked"


class DriveType(enum.StrEnum):
    """Whether the output of a drive is a force or an acceleration."""

    FORCE = "force"
    ACCELERATION = "acceleration"


@dataclass(kw_only=True, slots=True, eq=False)
class Drive:
    """A PD drive: force = stiffness (target position - q) + damping (target velocity - v)."""

    stiffness: float = 0.0
    """[N/m or N m/rad] (per kg or kg m2 for an acceleration drive)."""
    damping: float = 0.0
    """[N s/m or N m s/rad]."""
    target_position: float = 0.0
    """[m or rad]"""
    target_velocity: float = 0.0
    """[m/s or rad/s]"""
    max_force: float = math.inf
    """[N or N m]"""
    type: DriveType = DriveType.FORCE


@dataclass(kw_only=True, slots=True, eq=False)
class Mimic:
    """Mimic relation of an axis: q = multiplier (q_leader - reference) + offset."""

    joint: str
    """Name of the leading joint."""
    axis: int = 0
    """Index of the axis of the leading joint."""
    multiplier: float = 1.0
    offset: float = 0.0
    reference: float = 0.0


@dataclass(kw_only=True, slots=True, eq=False)
class Axis:
    """One axis of a joint: direction, limits (infinite if absent), drive and passive dynamics, in SI units."""

    direction: Array
    """Unit vector in the joint frame, (3,)."""
    motion: AxisMotion
    locked: bool = False
    lower: float = -math.inf
    """Lower limit [m or rad]."""
    upper: float = math.inf
    """Upper limit [m or rad]."""
    velocity: float = math.inf
    """Maximum velocity [m/s or rad/s]."""
    effort: float = math.inf
    """Maximum force of drive and actuators [N or N m]."""
    acceleration: float = math.inf
    deceleration: float = math.inf
    jerk: float = math.inf
    reference: float = 0.0
    """The coordinate at which the two joint frames coincide (MJCF `ref`)."""
    stiffness: float = 0.0
    """Stiffness of the passive spring [N/m or N m/rad]."""
    spring_reference: float = 0.0
    """Rest position of the passive spring [m or rad]."""
    damping: float = 0.0
    """Viscous damping [N s/m or N m s/rad]."""
    friction: float = 0.0
    """Dry friction loss [N or N m]."""
    armature: float = 0.0
    """Rotor inertia reflected to the joint [kg or kg m2]."""
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
    """Swing limit of a spherical joint."""

    angle_y: float
    """Maximum swing of the main axis towards the next axis (y for x) [rad]; infinity for none."""
    angle_z: float
    """Maximum swing of the main axis towards the axis after the next [rad]."""
    axis: int = 0
    """Main axis: 0, 1, 2 for x, y, z of the joint frame."""
    total: bool = False
    """Whether `angle_y` limits the total rotation angle (MJCF ball) instead of the swing of the main axis."""


def rotation(direction: ArrayLike, **settings: float) -> Axis:
    """Revolute axis with other fields of `Axis` as keywords.

    The direction is normalised, a zero vector is kept as it is.
    """
    return Axis(direction=_normalize(direction), motion=AxisMotion.ROTATION, **settings)  # type: ignore[arg-type]


def translation(direction: ArrayLike, **settings: float) -> Axis:
    """Prismatic axis with other fields of `Axis` as keywords.

    The direction is normalised, a zero vector is kept as it is.
    """
    return Axis(direction=_normalize(direction), motion=AxisMotion.TRANSLATION, **settings)  # type: ignore[arg-type]


def _normalize(direction: ArrayLike) -> Array:
    d = float64_array(direction)
    length = reproducible_norm(d)
    return d / length if math.isfinite(length) and length > 0 else d


@dataclass(kw_only=True, slots=True, eq=False)
class Joint(Node):
    """A joint between two links.

    In the reference configuration the joint frame on the parent and the joint frame on the child coincide.
    """

    kind: JointKind
    parent: str | None
    """Name of the parent link; None for the base frame of the robot (the world)."""
    child: str | None
    """Name of the child link; None for the base frame of the robot."""
    parent_pose: Pose = field(default_factory=Pose)
    """Joint frame in the parent link."""
    child_pose: Pose = field(default_factory=Pose)
    """Joint frame in the child link."""
    axes: list[Axis] = field(default_factory=list)
    initial: Array | None = None
    """Initial coordinates given by the file (pose of a free joint), (n_qs,); None if it gives none."""
    state: Array | None = None
    """Coordinates of the authored configuration, (n_qs,): reference configuration (MJCF), or from the authored link
    poses (USD, CAD). None for zero, or for a mimic joint at the position of its leader."""
    pitch: float = 0.0
    """Pitch of a screw [m per revolution], positive right-handed."""
    cone: ConeLimit | None = None
    distance: tuple[float, float] = (0.0, math.inf)
    """Minimum and maximum distance [m] of the origins of the joint frames, of a distance or six-axis joint."""
    enabled: bool = True
    implicit: bool = False
    """Whether the file has no such element, only links rigidly attached to each other."""
    closes_loop: bool = False
    """Whether the file excludes the joint from the kinematic tree."""
    stacked: bool = False
    """Whether the joint is composed with the joints listed before it between the same two links."""
    collision_enabled: bool | None = None
    """Whether the two links may collide; None for the rule of the robot."""
    break_force: float = math.inf
    """[N]"""
    break_torque: float = math.inf
    """[N m]"""

    @property
    def moving_axes(self) -> list[Axis]:
        """Axes that are not locked: one per dof, in coordinate order."""
        return [a for a in self.axes if not a.locked]

    @property
    def n_dofs(self) -> int:
        """Number of degrees of freedom."""
        return len(self.moving_axes)

    @property
    def n_qs(self) -> int:
        """Number of coordinates: one more than the number of dofs for joints with a quaternion."""
        return self.n_dofs + (1 if self.kind in (JointKind.SPHERICAL, JointKind.FREE) else 0)

    @property
    def has_authored_start(self) -> bool:
        """Whether the file gives initial coordinates; a mimic joint without them follows its leader."""
        return self.initial is not None or self.state is not None

    @property
    def start(self) -> Array:
        """Initial coordinates, (n_qs,): those given by the file, else the authored configuration, else zero."""
        authored = self.state if self.initial is None else self.initial
        return self.rest if authored is None or authored.shape != (self.n_qs,) else authored

    @property
    def rest(self) -> Array:
        """Coordinates of the zero configuration, (n_qs,): identity quaternions.

        For free and spherical joints those of the file.
        """
        if self.initial is not None and self.kind in (JointKind.SPHERICAL, JointKind.FREE):
            return self.initial
        q = np.zeros(self.n_qs)
        if self.kind is JointKind.SPHERICAL:
            q[0] = 1.0
        elif self.kind is JointKind.FREE:
            q[3] = 1.0
        return q


def free_axes() -> list[Axis]:
    """The six axes of a free joint: translations along, then rotations about x, y, z."""
    return [translation(e) for e in np.eye(3)] + [rotation(e) for e in np.eye(3)]


def spherical_axes() -> list[Axis]:
    """The three axes of a spherical joint: rotations about x, y, z."""
    return [rotation(e) for e in np.eye(3)]


# ------------------------------------------------------------------------------------- joint transform and reversal


def joint_transform(joint: Joint, q: Array) -> Pose:
    """Joint transform: pose of the child's joint frame in the parent's joint frame at coordinates q, (n_qs,).

    Product of the axis transforms in order, at coordinates relative to the axis `reference`; a screw adds its
    translation.
    """
    if joint.kind is JointKind.FREE:
        return Pose.from_quaternion(q[:3], q[3:7])
    if joint.kind is JointKind.SPHERICAL:
        return Pose.from_quaternion((0.0, 0.0, 0.0), q)
    pose = Pose()
    for axis, value in zip(joint.moving_axes, q, strict=True):
        pose = pose @ _axis_transform(axis, float(value) - axis.reference)
    if joint.kind is JointKind.SCREW:
        axis = joint.axes[0]
        travel = joint.pitch * (float(q[0]) - axis.reference) / (2 * math.pi)
        pose = Pose.translation(travel * axis.direction) @ pose
    return pose


def _axis_transform(axis: Axis, value: float) -> Pose:
    if axis.motion is AxisMotion.ROTATION:
        return Pose(rotation=axis_angle_to_matrix(axis.direction, value))
    return Pose.translation(value * axis.direction)


_REVERSIBLE = {
    JointKind.FIXED,
    JointKind.REVOLUTE,
    JointKind.CONTINUOUS,
    JointKind.PRISMATIC,
    JointKind.CYLINDRICAL,
    JointKind.SCREW,
    JointKind.UNIVERSAL,
    JointKind.DISTANCE,
}


def can_reverse(joint: Joint) -> bool:
    """Whether the reversed joint (`reverse_joint`) has the same type and coordinates."""
    return joint.kind in _REVERSIBLE


def reverse_joint(joint: Joint) -> Joint:
    """Joint with parent and child swapped: joint frames swapped, axes negated, coordinates and limits unchanged.

    The axes of a universal joint, and so its coordinates, are in opposite order. Raises `ValueError` for types whose
    inverse is not of the same type (planar, six-axis, spherical, free); see `can_reverse`.
    """
    if not can_reverse(joint):
        raise ValueError(f"a {joint.kind.value} joint cannot be reversed without changing its coordinates")
    result = copy.copy(joint)
    result.parent, result.child = joint.child, joint.parent
    result.parent_pose, result.child_pose = joint.child_pose, joint.parent_pose
    result.axes = [_negate_axis(axis) for axis in reversed(joint.axes)]
    if joint.kind is JointKind.CYLINDRICAL:
        result.axes.reverse()  # keep the rotation first; both commute
    return result


def _negate_axis(axis: Axis) -> Axis:
    result = copy.copy(axis)
    result.direction = -axis.direction
    return result

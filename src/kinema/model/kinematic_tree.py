"""Tables of the kinematic tree: links, joints, moving frames (one per primitive joint) and degrees of freedom."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kinema.core import Array

from .table import Table

Ints = npt.NDArray[np.int32]


class PrimitiveJointType(enum.IntEnum):
    """Primitive joints, of which every joint is composed."""

    HINGE = 0
    """Rotation about the axis."""
    SLIDE = 1
    """Translation along the axis."""
    SCREW = 2
    """Rotation about the axis with translation of `pitch` per radian along it."""
    BALL = 3
    """Free rotation: the coordinate is a quaternion, the velocity the angular velocity in the moved frame."""
    KINEMATIC = 4
    """Motion in the world given by the user, without coordinates and degrees of freedom (a kinematic body)."""


PRIMITIVE_JOINT_SIZES: dict[int, tuple[int, int]] = {
    PrimitiveJointType.HINGE: (1, 1),
    PrimitiveJointType.SLIDE: (1, 1),
    PrimitiveJointType.SCREW: (1, 1),
}
PRIMITIVE_JOINT_SIZES[PrimitiveJointType.BALL] = (4, 3)
PRIMITIVE_JOINT_SIZES[PrimitiveJointType.KINEMATIC] = (0, 0)
"""Primitive joint type -> number of coordinates and of degrees of freedom."""


def primitive_joint_size(joint_type: int) -> tuple[int, int]:
    """Number of coordinates and of degrees of freedom of a primitive joint type."""
    return PRIMITIVE_JOINT_SIZES[joint_type]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class LinksInfo(Table):
    """One row for each link, entity after entity."""

    names: Sequence[str]
    parent_idx: Ints
    """Parent link; -1 for the world."""
    entity_idx: Ints
    is_fixed: npt.NDArray[np.bool_]
    """Whether the link is fixed to the world."""
    q_start: Ints
    q_end: Ints
    dof_start: Ints
    dof_end: Ints
    """Ranges of the coordinates and dofs of the link's own joints (empty if it has none)."""
    frame_idx: Ints
    """Moving frame of the link; -1 for the world."""
    pos: Array
    """Origin of the link in the moving frame [m], (n, 3)."""
    rot: Array
    """Orientation of the link in the moving frame, (n, 3, 3)."""
    inertial_mass: Array
    """[kg]"""
    inertial_pos: Array
    """Centre of mass in link coordinates [m], (n, 3)."""
    inertial_i: Array
    """Inertia about the centre of mass in link axes [kg m2], (n, 3, 3)."""
    gravity_scale: Array
    """Factor of gravity on the link: 1 minus MuJoCo's gravcomp."""
    is_simple_slider: npt.NDArray[np.bool_]
    """Whether invweights use only the mass of the link, without armatures: MuJoCo's rule for bodies without children
    that are attached to the world by slide joints only."""
    sleep: Sequence[str]
    """Sleep policy of the tree whose first moving link it is: `never`, `allowed`, `init` (initially asleep); otherwise
    the simulator decides."""
    geom_start: Ints
    geom_end: Ints
    """Range of the link's geoms."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class JointsInfo(Table):
    """One row for each joint of the kinematic trees, in the order of the descriptions."""

    names: Sequence[str]
    kinds: Sequence[str]
    """Joint kinds of the description, such as `revolute` or `free`."""
    link_idx: Ints
    """Link moved by the joint."""
    q_start: Ints
    q_end: Ints
    dof_start: Ints
    dof_end: Ints
    """Ranges of the joint's coordinates and dofs."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class FramesInfo(Table):
    """One row for each moving frame, that is for each primitive joint; parents first."""

    parent_idx: Ints
    """Parent frame; -1 for the world."""
    joint_type: Ints
    """A `PrimitiveJointType` each."""
    pos: Array
    """Position of the joint in the parent frame [m], (n, 3)."""
    rot: Array
    """Orientation of the joint in the parent frame, (n, 3, 3)."""
    axis: Array
    """Joint axis, a unit vector, equal in the frames before and after the joint, (n, 3)."""
    pitch: Array
    """Pitch of screw joints [m/rad]."""
    reference: Array
    """Coordinate of zero displacement."""
    inverted: npt.NDArray[np.bool_]
    """For ball joints: the quaternion is the orientation of the parent in this frame (parent and child swapped in the
    file)."""
    spring_quat: Array
    """For ball joints: quaternion at which the joint spring is at rest, (n, 4); may differ from qpos0."""
    cone: Array
    """For ball joints: swing limits of the cone axis towards the next two axes [rad], (n, 2)."""
    cone_axis: Ints
    """Index of the cone axis."""
    q_start: Ints
    dof_start: Ints
    """First coordinate and first dof."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class DofsInfo(Table):
    """One row for each degree of freedom."""

    names: Sequence[str]
    frame_idx: Ints
    """Moving frame of the dof."""
    q_idx: Ints
    """Coordinate of the dof; -1 if it belongs to a quaternion."""
    armature: Array
    """Rotor inertia [kg or kg m2]."""
    damping: Array
    """Linear damping [N s/m or N m s/rad]."""
    damping_poly: Array
    """Coefficients b, c of the damping force (damping + b |v| + c v^2) v, (n, 2)."""
    stiffness: Array
    """Linear spring stiffness [N/m or N m/rad]."""
    stiffness_poly: Array
    """Coefficients b, c of the spring force (stiffness + b x + c x^2) x; x is the total angle of a ball joint, (n,
    2)."""
    spring_yield: Array
    """Displacement above which the spring yields plastically; infinite if it never yields."""
    spring_ref: Array
    """Coordinate at which the spring is at rest."""
    frictionloss: Array
    """Dry friction force [N or N m]."""
    lower: Array
    upper: Array
    """Limits of the coordinate; of a ball joint the maximum angle."""
    limit_solref: Array
    """solref of the limits: time constant [s] and damping ratio, or negative stiffness and damping, (n, 2)."""
    limit_solimp: Array
    """solimp of the limits: impedance at the limit and at `width` beyond it, width [rad or m], midpoint, power, (n,
    5)."""
    limit_spring: Array
    """Stiffness and damping of the limits if the file gives them directly [N/m and N s/m, or N m/rad and N m s/rad];
    zeros if solref and solimp apply, (n, 2)."""
    friction_solref: Array
    friction_solimp: Array
    """solref and solimp of dry friction, (n, 2) and (n, 5)."""
    limit_margin: Array
    """Distance to a limit at which the limit becomes active [rad or m]."""
    effort_lower: Array
    effort_upper: Array
    """Bounds of the total actuator force [N or N m]."""
    kp: Array
    kv: Array
    """Position and velocity gains of control."""
    force_lower: Array
    force_upper: Array
    """Bounds of the control force [N or N m]."""
    target_pos: Array
    target_vel: Array
    """Targets of the drive in the file."""
    acceleration_drive: npt.NDArray[np.bool_]
    """Whether kp and kv are per unit of inertia (USD drive of type acceleration)."""
    actuator_gravcomp: npt.NDArray[np.bool_]
    """Whether gravity compensation (`LinksInfo.gravity_scale`) acts on the dof as an actuator force, within
    `effort_lower` and `effort_upper`, instead of as a passive force (MJCF `actuatorgravcomp`)."""

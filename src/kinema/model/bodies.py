"""Links, joints, the frames that move, and their degrees of freedom: one table each."""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kinema.foundation import Array

Ints = npt.NDArray[np.int32]


class Motion(enum.IntEnum):
    """The elementary motions, of which every joint is made."""

    HINGE = 0
    """Turns about its axis."""
    SLIDE = 1
    """Moves along its axis."""
    SCREW = 2
    """Turns about its axis and moves along it, `pitch` per radian."""
    BALL = 3
    """Turns about any axis: a quaternion; its velocity is the angular one, in the moved frame."""


MOTION_SIZES: dict[int, tuple[int, int]] = {Motion.HINGE: (1, 1), Motion.SLIDE: (1, 1), Motion.SCREW: (1, 1)}
MOTION_SIZES[Motion.BALL] = (4, 3)
"""How many coordinates and degrees of freedom each motion has."""


def motion_size(motion: int) -> tuple[int, int]:
    """The coordinates and degrees of freedom of a motion."""
    return MOTION_SIZES[motion]


@dataclass(kw_only=True, slots=True, eq=False)
class LinksInfo:
    """One row for each link, all entities one after the other."""

    names: list[str]
    parent_idx: Ints
    """The link it hangs on; -1 for the world."""
    entity_idx: Ints
    is_fixed: npt.NDArray[np.bool_]
    """Whether nothing between it and the world moves."""
    q_start: Ints
    q_end: Ints
    dof_start: Ints
    dof_end: Ints
    """Its own joints' coordinates and degrees of freedom (equal where it has none)."""
    frame_idx: Ints
    """The moving frame it sits in; -1 for the world."""
    pos: Array
    """Its origin in that frame [m], (n, 3)."""
    rot: Array
    """Its axes in that frame, (n, 3, 3)."""
    inertial_mass: Array
    """[kg]"""
    inertial_pos: Array
    """Centre of mass in the link [m], (n, 3)."""
    inertial_i: Array
    """Inertia about the centre of mass, along the link's axes [kg m2], (n, 3, 3)."""
    gravity_scale: Array
    slides_alone: npt.NDArray[np.bool_]
    """Whether constraints count its mass alone, and none of its rotors: MuJoCo's rule for what hangs on the world by
    slides only, with nothing on it."""
    sleep: list[str]
    """How the tree that it is the first moving link of sleeps: `never`, `allowed`, `init` (from the start); else it
    is for the simulator to say."""
    geom_start: Ints
    geom_end: Ints


@dataclass(kw_only=True, slots=True, eq=False)
class JointsInfo:
    """One row for each joint of the trees, in the order of the descriptions."""

    names: list[str]
    kinds: list[str]
    link_idx: Ints
    """The link it moves."""
    q_start: Ints
    q_end: Ints
    dof_start: Ints
    dof_end: Ints


@dataclass(kw_only=True, slots=True, eq=False)
class FramesInfo:
    """One row for each elementary motion, parents first."""

    parent_idx: Ints
    """-1 for the world."""
    motion: Ints
    pos: Array
    """Where the motion starts from, in the parent frame [m], (n, 3)."""
    rot: Array
    """Its axes there, (n, 3, 3)."""
    axis: Array
    """Unit vector, the same before and after the motion, (n, 3)."""
    pitch: Array
    """[m/rad]"""
    reference: Array
    """The coordinate at which nothing has moved."""
    inverted: npt.NDArray[np.bool_]
    """For a ball: the quaternion is the parent's in this frame, as the file has the two the other way round."""
    spring_quat: Array
    """For a ball: the coordinates at which its spring is at rest, (n, 4). Where a ball starts may be elsewhere."""
    cone: Array
    """For a ball: how far its main axis may swing towards the next one and the one after that [rad], (n, 2)."""
    cone_axis: Ints
    """The main axis of that."""
    q_start: Ints
    dof_start: Ints


@dataclass(kw_only=True, slots=True, eq=False)
class DofsInfo:
    """One row for each degree of freedom."""

    names: list[str]
    frame_idx: Ints
    q_idx: Ints
    """Its coordinate; -1 where that is part of a quaternion."""
    armature: Array
    damping: Array
    damping_poly: Array
    """Beyond the linear: the force grows with (damping + b |v| + c v^2) v, (n, 2)."""
    stiffness: Array
    stiffness_poly: Array
    """Likewise, (stiffness + b x + c x^2) x, with x the whole angle for a ball, (n, 2)."""
    spring_yield: Array
    """How far the spring is stretched before it gives way for good; infinite for one that never does."""
    spring_ref: Array
    frictionloss: Array
    lower: Array
    upper: Array
    """Limits of its coordinate; of a ball, its greatest angle."""
    limit_solref: Array
    """Time constant [s] and damping ratio of its limits, or negative stiffness and damping, (n, 2)."""
    limit_solimp: Array
    """Their impedance: at the limit, a width beyond it, the width [rad or m], midpoint and power, (n, 5)."""
    limit_spring: Array
    """Stiffness and damping of its limits, where a file gives these themselves [N/m or N m/rad, per second]; zeros
    where the two before say it, (n, 2)."""
    friction_solref: Array
    friction_solimp: Array
    """Likewise, of its dry friction."""
    limit_margin: Array
    """How far before a limit it begins to act [rad or m]."""
    invweight: Array
    """The inverse of the inertia that moves it at the start, [1/(kg m2) or 1/kg]."""
    effort_lower: Array
    effort_upper: Array
    """Bounds of what actuators may do together [N or N m]."""
    kp: Array
    kv: Array
    force_lower: Array
    force_upper: Array
    """Bounds of the control force [N or N m]."""
    target_pos: Array
    target_vel: Array
    """Where the file's own drive wants to be."""
    acceleration_drive: npt.NDArray[np.bool_]
    """Whether gains are per unit of inertia: a USD drive of type acceleration."""
    actuator_gravcomp: npt.NDArray[np.bool_]
    """Whether the share of gravity that links are spared (`LinksInfo.gravity_scale`) acts here as an actuator's force,
    within `effort_lower` and `effort_upper`, instead of passively (MJCF `actuatorgravcomp`)."""

"""One model: everything that was added to a scene, in flat float64 arrays with start and end indices.

A *link* is what the user's file calls a link. A *frame* is what moves: each elementary motion (turn, slide, screw,
ball) carries one frame, and each link sits rigidly in a frame, or in the world (frame -1). A free joint is three slides
and a ball, a planar joint two slides and a turn, a fixed joint nothing at all.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kinema.foundation import Array

from .paths import PathsInfo, no_paths

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
    stiffness: Array
    spring_ref: Array
    frictionloss: Array
    lower: Array
    upper: Array
    """Limits of its coordinate; of a ball, its greatest angle."""
    limit_solref: Array
    """Time constant [s] and damping ratio of its limits, or negative stiffness and damping, (n, 2)."""
    limit_solimp: Array
    """Their impedance: at the limit, a width beyond it, the width [rad or m], midpoint and power, (n, 5)."""
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


@dataclass(kw_only=True, slots=True, eq=False)
class ActuatorsInfo:
    """One row for each actuator: force = gain(l, l') drive + bias(l, l'), along its length l.

    What drives it is its control, or an activation that follows the control by dynamics of its own and is state.

    It pulls on degrees of freedom with constant moments (joints, fixed tendons: l = moment . q), or on one moving frame
    with a wrench that is constant there (a thruster: l stays zero).
    """

    names: list[str]
    kinds: list[str]
    """How force follows from what drives it: `affine`, `muscle`; `muscle gain`, `muscle bias` where only one of the two
    is a muscle's."""
    moment: Array
    """Length over coordinates, (n, n_dofs)."""
    frame_idx: Ints
    """The frame it pulls on; -1 for none."""
    frame_torque: Array
    frame_force: Array
    """The wrench on that frame, about its origin, at unit force, (n, 3) each."""
    gain: Array
    """Constant, length and velocity terms, (n, 3)."""
    bias: Array
    """Likewise, (n, 3)."""
    ctrl_lower: Array
    ctrl_upper: Array
    force_lower: Array
    force_upper: Array
    path_idx: Ints
    """The path that its length comes from; -1 for none. Then `moment` is what the path's own length and moment are
    multiplied by, for each degree of freedom that changes it."""
    turn: Array
    """Of a position servo whose length is an angle: what its length counts for a radian. It goes the shorter way round.
    Zero for others."""
    dynamics: list[str]
    """How its activation follows its control: `none`, `integrator`, `filter`, `filterexact`, `muscle`, and `smooth
    muscle`, whose time constants change smoothly."""
    early: npt.NDArray[np.bool_]
    """Whether it already pulls with the activation of the next step."""
    time_constants: Array
    """Of a filter [s]; of a muscle, activation and deactivation [s] and the width of the change between, (n, 3)."""
    act_lower: Array
    act_upper: Array
    """Bounds of its activation."""
    muscle_gain: Array
    """Of a muscle's active force: its shortest length, that in optimal lengths, one over the optimal length, one over
    the greatest speed; two over the widths of the curve below and above the optimum; the force at fast lengthening,
    how much of that is above one, and one over it, (n, 9)."""
    muscle_bias: Array
    """Of a muscle's passive force: the first three likewise, two over the width of the curve, its height, (n, 5)."""
    peak_force: Array
    """Of a muscle's active and passive force [N], (n, 2)."""
    per_acceleration: npt.NDArray[np.bool_]
    """Where that is still to be divided by the acceleration that a unit force makes at the start, (n, 2)."""

    @property
    def has_activation(self) -> npt.NDArray[np.bool_]:
        """Which of them have an activation."""
        return np.array([kind != "none" for kind in self.dynamics], dtype=np.bool_)


@dataclass(kw_only=True, slots=True, eq=False)
class TendonsInfo:
    """One row for each tendon with a spring or damper in it, a limit or friction."""

    names: list[str]
    kinds: list[str]
    """How the length follows from coordinates: `fixed`, a weighted sum of them, or `spatial`, along a path."""
    moment: Array
    """Length over coordinates, (n, n_dofs)."""
    stiffness: Array
    damping: Array
    rest_lower: Array
    rest_upper: Array
    """The spring pulls below and above these lengths [m or rad]; NaN for the length where joints' springs rest."""
    path_idx: Ints
    """As for actuators."""
    armature: Array
    """Inertia against changes of its length [kg or kg m2]."""
    lower: Array
    upper: Array
    limit_margin: Array
    limit_solref: Array
    limit_solimp: Array
    frictionloss: Array
    friction_solref: Array
    friction_solimp: Array
    """As for degrees of freedom."""
    weight: Array
    """About the inverse of the inertia that it moves at the start."""


@dataclass(kw_only=True, slots=True, eq=False)
class TiesInfo:
    """One row for each pair of links that are held together: connects, welds, joints that close loops."""

    names: list[str]
    parts: list[tuple[str, ...]]
    """What is held: `point`, `line`, `plane`, `rotation`, `axis`, `cross`."""
    link_a: Ints
    link_b: Ints
    """-1 for the world."""
    frame_a: Ints
    frame_b: Ints
    """The moving frames these sit in; -1 for the world."""
    pos_a: Array
    pos_b: Array
    """The tied frames in those [m], (n, 3)."""
    rot_a: Array
    rot_b: Array
    """Their axes there, (n, 3, 3)."""
    torque_scale: Array
    """Weight of rotation against translation [m]."""
    solref: Array
    solimp: Array
    hard: npt.NDArray[np.bool_]
    """Whether nobody asked for softness: then it holds as well as a step can make it."""
    weight: Array
    """About the inverse inertia that it moves at the start: of translation and of rotation, (n, 2)."""


@dataclass(kw_only=True, slots=True, eq=False)
class CouplingsInfo:
    """One row for each joint or tendon that follows a polynomial of another."""

    names: list[str]
    moment_a: Array
    moment_b: Array
    """Of the follower and the leader, (n, n_dofs)."""
    reference_a: Array
    reference_b: Array
    """Lengths that count as zero."""
    polynomial: Array
    """(n, 5)"""
    solref: Array
    solimp: Array
    hard: npt.NDArray[np.bool_]
    weight: Array
    """(n,)"""


@dataclass(kw_only=True, slots=True, eq=False)
class KeyframesInfo:
    """One row for each keyframe of a file: a state of the whole scene, with all other entities at their start."""

    names: list[str]
    entity_idx: Ints
    """Whose it is."""
    qpos: Array
    """(n, n_qs)"""
    qvel: Array
    """(n, n_dofs)"""
    ctrl: Array
    """(n, n_actuators)"""
    act: Array
    """Activations, likewise."""
    left_out: list[str]
    """What of it is not simulated, in words; empty where all of it is."""


def no_keyframes() -> KeyframesInfo:
    """The table of a model without keyframes."""
    nothing = np.zeros((0, 0))
    return KeyframesInfo(
        names=[], entity_idx=np.zeros(0, np.int32), qpos=nothing, qvel=nothing, ctrl=nothing, act=nothing, left_out=[]
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class EntityInfo:
    """What was added to the scene in one go: ranges of links, joints, coordinates, degrees of freedom, actuators."""

    name: str
    link_start: int
    link_end: int
    joint_start: int
    joint_end: int
    q_start: int
    q_end: int
    dof_start: int
    dof_end: int
    actuator_start: int
    actuator_end: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelOptions:
    """What files ask of the whole simulation and no array says; off where any file of the scene switches it off."""

    eulerdamp: bool = True
    """Whether the semi-implicit integrator takes the damping of joints implicitly."""
    contact: bool = True
    """Whether things touch."""
    equality: bool = True
    """Whether equality constraints hold."""


@dataclass(kw_only=True, slots=True, eq=False)
class Model:
    """The whole of it."""

    entities: list[EntityInfo]
    links: LinksInfo
    joints: JointsInfo
    frames: FramesInfo
    dofs: DofsInfo
    actuators: ActuatorsInfo
    tendons: TendonsInfo
    ties: TiesInfo
    couplings: CouplingsInfo
    qpos0: Array
    """The coordinates to start from, (n_qs,)."""
    gravity: Array
    """[m/s2], (3,)."""
    options: ModelOptions = ModelOptions()
    keyframes: KeyframesInfo = field(default_factory=no_keyframes)
    paths: PathsInfo = field(default_factory=no_paths)
    names_of_frames: list[str] = field(default_factory=list)
    """The joint that each frame comes from, for messages."""

    @property
    def n_links(self) -> int:
        """Links."""
        return len(self.links.names)

    @property
    def n_frames(self) -> int:
        """Moving frames."""
        return len(self.frames.parent_idx)

    @property
    def n_qs(self) -> int:
        """Coordinates."""
        return len(self.qpos0)

    @property
    def n_dofs(self) -> int:
        """Degrees of freedom."""
        return len(self.dofs.names)

    def qs_of_frame(self, frame: int) -> range:
        """The coordinates of a moving frame."""
        start = int(self.frames.q_start[frame])
        return range(start, start + motion_size(int(self.frames.motion[frame]))[0])

    def dofs_of_frame(self, frame: int) -> range:
        """Its degrees of freedom."""
        start = int(self.frames.dof_start[frame])
        return range(start, start + motion_size(int(self.frames.motion[frame]))[1])

    @property
    def n_actuators(self) -> int:
        """Actuators."""
        return len(self.actuators.names)

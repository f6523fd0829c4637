"""One model: everything that was added to a scene, in flat float64 arrays with start and end indices.

A *link* is what the user's file calls a link. A *frame* is what moves: each elementary motion (turn, slide, screw,
ball) carries one frame, and each link sits rigidly in a frame, or in the world (frame -1). A free joint is three slides
and a ball, a planar joint two slides and a turn, a fixed joint nothing at all.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kinema.foundation import Array

from .bodies import DofsInfo, FramesInfo, Ints, JointsInfo, LinksInfo, motion_size
from .cords import ActuatorsInfo, TendonsInfo
from .fluid import FluidInfo, no_fluid
from .geoms import GeomsInfo, PairsInfo, no_geoms, no_pairs
from .own import OwnNumbers
from .paths import PathsInfo, no_paths
from .sensors import SensorsInfo, no_sensors
from .ties import CouplingsInfo, TiesInfo


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
    elliptic: bool = False
    """Whether friction is bounded by a cone; else by a pyramid in it."""
    impratio: float = 1.0
    """How much harder friction is than the normal direction."""
    refsafe: bool = True
    """Whether the time constants of constraints are at least two steps."""
    multiccd: bool = True
    """Whether convex shapes touch in several points where no formula tells them, and not in the deepest only."""


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
    geoms: GeomsInfo = field(default_factory=no_geoms)
    pairs: PairsInfo = field(default_factory=no_pairs)
    fluid: FluidInfo = field(default_factory=no_fluid)
    sensors: SensorsInfo = field(default_factory=no_sensors)
    names_of_frames: list[str] = field(default_factory=list)
    """The joint that each frame comes from, for messages."""
    own: OwnNumbers | None = None
    """Numbers that are read from an array."""

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

"""`Model`: all tables of a scene in flat float64 arrays, with keyframes, options and per-environment parameters.

A link is a link of the user's file. A moving frame is carried by each primitive joint (hinge, slide, screw, ball); each
link is rigidly attached to a moving frame, or to the world (frame -1). A free joint consists of three slides and a
ball, a planar joint of two slides and a hinge; a fixed joint adds no frame.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kinema.core import Array

from .equalities import CouplingsInfo, EqualitiesInfo
from .fluid import FluidInfo, empty_fluid
from .geoms import GeomsInfo, PairsInfo, empty_geoms, empty_pairs
from .kinematic_tree import DofsInfo, FramesInfo, Ints, JointsInfo, LinksInfo, primitive_joint_size
from .sensors import SensorsInfo, empty_sensors
from .transmissions import ActuatorsInfo, PathSegmentsInfo, TendonsInfo, empty_path_segments

# ------------------------------------------------------------------------------------------- per-environment parameters


@dataclass(frozen=True, slots=True)
class PerEnvParameterEntry:
    """Location of the values of one parameter of one item in the array of per-environment parameters."""

    start: int
    """Index of the first value in the parameter array."""
    folded: tuple[float | None, ...]
    """Value of each constant that is folded into the code (0, 1 or -1); None for values read from memory."""


@dataclass(kw_only=True, slots=True, eq=False)
class PerEnvParameterTable:
    """All per-environment parameters of a model: locations and initial values."""

    entries: dict[tuple[str, int | str, str], PerEnvParameterEntry] = field(default_factory=dict)
    """(table, item, parameter name) -> entry."""
    values: Array = field(default_factory=lambda: np.zeros((0, 1)))
    """Initial values, (n_values, n_variants)."""


# ---------------------------------------------------------------------------------------------------------------- model


@dataclass(kw_only=True, slots=True, eq=False)
class KeyframesInfo:
    """One row for each keyframe of a file: a state of the whole scene, with all other entities at qpos0."""

    names: list[str]
    entity_idx: Ints
    """Entity of the keyframe."""
    qpos: Array
    """(n, n_qs)"""
    qvel: Array
    """(n, n_dofs)"""
    ctrl: Array
    """Controls, (n, n_actuators)."""
    act: Array
    """Activations, (n, n_actuators)."""
    unsupported: list[str]
    """Description of the parts of each keyframe that are not simulated; empty if there are none."""


def empty_keyframes() -> KeyframesInfo:
    """Table of a model without keyframes."""
    empty = np.zeros((0, 0))
    return KeyframesInfo(
        names=[],
        entity_idx=np.zeros(0, np.int32),
        qpos=empty,
        qvel=empty,
        ctrl=empty,
        act=empty,
        unsupported=[],
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class EntityInfo:
    """Index ranges of one entity: links, joints, coordinates, dofs and actuators."""

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
    """Simulation options of the files; a flag is off if any file of the scene disables it."""

    eulerdamp: bool = True
    """Whether the semi-implicit Euler integrator treats joint damping implicitly."""
    contact: bool = True
    """Whether contacts are enabled."""
    equality: bool = True
    """Whether equality constraints are enabled."""
    elliptic: bool = False
    """Whether friction cones are elliptic; otherwise pyramidal."""
    impratio: float = 1.0
    """Ratio of frictional to normal constraint impedance, for elliptic cones."""
    refsafe: bool = True
    """Whether time constants of constraints are at least two time steps."""
    multiccd: bool = True
    """Whether pairs of convex geoms without an analytic collision function have several contacts instead of one."""


@dataclass(kw_only=True, slots=True, eq=False)
class Model:
    """All tables of a scene."""

    entities: list[EntityInfo]
    links: LinksInfo
    joints: JointsInfo
    frames: FramesInfo
    dofs: DofsInfo
    actuators: ActuatorsInfo
    tendons: TendonsInfo
    equalities: EqualitiesInfo
    couplings: CouplingsInfo
    qpos0: Array
    """Initial configuration, (n_qs,)."""
    gravity: Array
    """[m/s2], (3,)."""
    options: ModelOptions = ModelOptions()
    keyframes: KeyframesInfo = field(default_factory=empty_keyframes)
    path_segments: PathSegmentsInfo = field(default_factory=empty_path_segments)
    geoms: GeomsInfo = field(default_factory=empty_geoms)
    pairs: PairsInfo = field(default_factory=empty_pairs)
    fluid: FluidInfo = field(default_factory=empty_fluid)
    sensors: SensorsInfo = field(default_factory=empty_sensors)
    frame_names: list[str] = field(default_factory=list)
    """Name of the joint of each moving frame, for messages."""
    per_env_parameters: PerEnvParameterTable | None = None
    """Constants that programs read from memory instead of folding them."""

    @property
    def n_links(self) -> int:
        """Number of links."""
        return len(self.links.names)

    @property
    def n_frames(self) -> int:
        """Number of moving frames."""
        return len(self.frames.parent_idx)

    @property
    def n_qs(self) -> int:
        """Number of coordinates."""
        return len(self.qpos0)

    @property
    def n_dofs(self) -> int:
        """Number of degrees of freedom."""
        return len(self.dofs.names)

    def frame_q_range(self, frame: int) -> range:
        """Indices of the coordinates of a moving frame."""
        start = int(self.frames.q_start[frame])
        return range(start, start + primitive_joint_size(int(self.frames.joint_type[frame]))[0])

    def frame_dof_range(self, frame: int) -> range:
        """Indices of the degrees of freedom of a moving frame."""
        start = int(self.frames.dof_start[frame])
        return range(start, start + primitive_joint_size(int(self.frames.joint_type[frame]))[1])

    @property
    def n_actuators(self) -> int:
        """Number of actuators."""
        return len(self.actuators.names)

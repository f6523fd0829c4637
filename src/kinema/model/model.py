"""`Model`: all tables of a scene in flat float64 arrays, with keyframes and options, immutable.

A link is a link of the user's file. A moving frame is carried by each primitive joint (hinge, slide, screw, ball); each
link is rigidly attached to a moving frame, or to the world (frame -1). A free joint consists of three slides and a
ball, a planar joint of two slides and a hinge; a fixed joint adds no frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np

from kinema.core import Array

from .attachments import AttachmentsInfo, SuctionCupsInfo, empty_attachments, empty_suction_cups
from .derived_constants import DerivedConstants
from .equalities import CouplingsInfo, EqualitiesInfo
from .fluid import FluidInfo, empty_fluid
from .geoms import GeomsInfo, PairRulesInfo, PairsInfo, empty_geoms, empty_pair_rules, empty_pairs
from .kinematic_tree import (
    DofsInfo,
    FramesInfo,
    Ints,
    JointsInfo,
    LinksInfo,
    PrimitiveJointType,
    primitive_joint_size,
)
from .sensors import SensorsInfo, empty_sensors
from .table import Table
from .transmissions import SERVO_STATES, ActuatorsInfo, PathSegmentsInfo, TendonsInfo, empty_path_segments

# ---------------------------------------------------------------------------------------------------------------- model


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class KeyframesInfo(Table):
    """One row for each keyframe of a file: a state of the whole scene, with all other entities at qpos0."""

    names: Sequence[str]
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
    servo_state: Array
    """States of PID controllers and DC motors (`SERVO_STATES`), (n, n_actuators, 5)."""
    kinematic_pose: Array
    """Positions and quaternions of the kinematic bodies in the world, (n, n_bodies, 7)."""
    unsupported: Sequence[str]
    """Description of the parts of each keyframe that are not simulated; empty if there are none."""


@cache
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
        servo_state=np.zeros((0, 0, len(SERVO_STATES))),
        kinematic_pose=np.zeros((0, 0, 7)),
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


NOT_DERIVED = DerivedConstants()
"""Placeholder in the construction of a model, replaced by the values of its tables."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Model(Table):
    """All tables of a scene, and the constants derived from them; immutable."""

    entities: Sequence[EntityInfo]
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
    pair_rules: PairRulesInfo = field(default_factory=empty_pair_rules)
    """Rules of collision, in the place of `pairs` if these would be too many."""
    fluid: FluidInfo = field(default_factory=empty_fluid)
    sensors: SensorsInfo = field(default_factory=empty_sensors)
    attachments: AttachmentsInfo = field(default_factory=empty_attachments)
    suction_cups: SuctionCupsInfo = field(default_factory=empty_suction_cups)
    frame_names: Sequence[str] = field(default_factory=list)
    """Name of the joint of each moving frame, for messages."""
    derived: DerivedConstants = NOT_DERIVED
    """Quantities computed from the tables."""

    def __post_init__(self) -> None:
        if self.derived is NOT_DERIVED:
            object.__setattr__(self, "derived", _underived_constants(self))
        Table.__post_init__(self)

    def with_tables(self, **tables: Any) -> Model:
        """Model with other tables, whose derived constants are still to be computed; keeps the contact capacity."""
        model = replace(self, **tables, derived=NOT_DERIVED)
        return model.with_derived(max_contacts_per_frame_pair=self.derived.max_contacts_per_frame_pair)

    def with_columns(self, table: str, **columns: Any) -> Model:
        """Model with other columns of one table (see `with_tables`)."""
        return self.with_tables(**{table: replace(getattr(self, table), **columns)})

    def with_derived(self, **values: Any) -> Model:
        """Model with the same tables and other derived constants."""
        return replace(self, derived=replace(self.derived, **values))

    @property
    def has_pair_rules(self) -> bool:
        """Whether rules say which geoms may collide, instead of a table of pairs."""
        return bool(len(self.pair_rules.class_of_geom))

    @property
    def may_collide(self) -> bool:
        """Whether any two geoms may collide."""
        return self.has_pair_rules or bool(len(self.pairs.geom_a))

    def geom_pairs(self) -> Ints:
        """All pairs of geoms that may collide, (n, 2), from the table of pairs or by the rules of collision."""
        if not self.has_pair_rules:
            return np.unique(np.column_stack([self.pairs.geom_a, self.pairs.geom_b]), axis=0)
        rules, frames = self.pair_rules, self.geoms.frame_idx
        classes = rules.class_of_geom
        collides = np.triu(rules.row_of_classes[classes[:, None], classes] >= 0, 1) & (frames[:, None] != frames)
        collides[rules.excluded[:, 0], rules.excluded[:, 1]] = False
        collides[rules.explicit[:, 0], rules.explicit[:, 1]] = True
        return np.argwhere(collides).astype(np.int32)

    @property
    def n_links(self) -> int:
        """Number of links."""
        return len(self.links.names)

    @property
    def n_frames(self) -> int:
        """Number of moving frames."""
        return len(self.frames.parent_idx)

    @property
    def kinematic_frames(self) -> list[int]:
        """Indices of the frames of kinematic bodies, whose parent is the world."""
        return np.flatnonzero(self.frames.joint_type == PrimitiveJointType.KINEMATIC).tolist()

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


def _underived_constants(model: Model) -> DerivedConstants:
    """Constants before their derivation: inverse weights of 1, all other values as given by the tables."""
    tendons, couplings = model.tendons, model.couplings
    return DerivedConstants(
        dof_invweight=np.ones(model.n_dofs),
        equality_invweight=np.ones((len(model.equalities.names), 2)),
        coupling_invweight=np.ones(len(couplings.names)),
        pair_invweight=np.ones((len(model.pairs.geom_a), 2)),
        geom_invweight=np.ones((len(model.pair_rules.class_of_geom), 2)),
        tendon_invweight=np.ones(len(tendons.names)),
        tendon_stiffness=tendons.stiffness,
        tendon_damping=tendons.damping,
        tendon_rest_lower=tendons.rest_lower,
        tendon_rest_upper=tendons.rest_upper,
        coupling_reference_a=couplings.reference_a,
        coupling_reference_b=couplings.reference_b,
        actuator_peak_force=model.actuators.peak_force,
    )

"""Tables of collision geoms (GeomsInfo) and of the geom pairs that may collide (PairsInfo)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import numpy.typing as npt

from kinema.core import Array

from .geom_data import SampledSdf
from .kinematic_tree import Ints
from .table import Table

GEOM_TYPES = (
    "plane",
    "height field",
    "sphere",
    "capsule",
    "ellipsoid",
    "cylinder",
    "cone",
    "box",
    "mesh",
    "distance field",
)
"""Geom types, in the order of the two geoms of a pair."""
PLANAR_GEOM_TYPES = ("plane", "height field")
"""Geom types that never move against each other: their distance is not computed."""

ABSENT_RADIUS = -1e15
"""Bounding radius of a geom that is absent in an environment: no geom is close enough to collide with it."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class GeomsInfo(Table):
    """One row for each collision geom."""

    names: Sequence[str]
    types: Sequence[str]
    """One of `GEOM_TYPES` each."""
    link_idx: Ints
    """-1 for the world."""
    frame_idx: Ints
    """Moving frame of the geom; -1 for the world."""
    pos: Array
    """Position in the moving frame [m], (n, 3)."""
    rot: Array
    """Orientation in the moving frame, (n, 3, 3)."""
    size: Array
    """Size by geom type [m], (n, 3): radius; radius and half length; half extents; half axes."""
    center: Array
    """Centre of the bounding sphere in geom coordinates [m], (n, 3)."""
    radius: Array
    """Radius of the bounding sphere [m], infinite for planes; `ABSENT_RADIUS` for a geom of other environments only."""
    data_start: Ints
    """Offset of the mesh, height field or signed distance field in `data` (layouts in `geom_data.py`)."""
    data_counts: Ints
    """Vertices and faces of a mesh; rows and columns of a height field; sample points of an SDF, (n, 2)."""
    data: Array
    """Packed data of meshes, height fields and signed distance fields of all geoms."""
    entity_idx: Ints
    friction: Array
    """Sliding friction in two directions, torsional [m] and rolling friction in two directions [m], (n, 5)."""
    solref: Array
    solimp: Array
    surface_velocity: Array = field(default_factory=lambda: np.zeros((0, 6)))
    """Velocity of the surface relative to the moving frame: linear at the geom's origin [m/s], angular [rad/s], along
    the axes of the frame, (n, 6); (0, 6) if no surface can move."""
    fast: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    """Whether contacts are found along the motion in a step, (n,); (0,) if for no geom."""
    sdfs: Sequence[SampledSdf | None] = field(default_factory=list)
    """Signed distance field of each geom of that type, else None; empty if there are none."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PairsInfo(Table):
    """One row for each pair of geoms that may collide, in the order in which contacts are stored."""

    geom_a: Ints
    geom_b: Ints
    condim: Ints
    """Contact dimension: 1 frictionless, 3 sliding, 4 also torsional, 6 also rolling friction."""
    friction: Array
    """Sliding friction in two directions, torsional [m] and rolling friction in two directions [m], (n, 5)."""
    solref: Array
    solref_friction: Array
    """solref of the friction directions; zeros for the value of `solref`, (n, 2)."""
    solimp: Array
    margin: Array
    """Distance below which a contact is created [m]."""
    gap: Array
    """Part of the margin in which a contact exerts no force [m]."""
    surface_source: Ints
    """Source of the contact parameters: 0 or 1 for the first or second geom, -1 for a mix of both, 2 for the pair."""
    solmix_weight: Array
    """Share of the first geom in the mixed solref and solimp (MuJoCo's solmix), (n,)."""
    restitution: Array
    """Coefficient of restitution, (n,)."""
    bounce_speed: Array
    """Impact velocity below which there is no restitution [m/s], (n,)."""
    stiction_ratio: Array
    """Ratio of static to kinetic friction, (n,)."""
    rank: Ints
    """Rank in MuJoCo's order of contacts: by the links, then by the geoms, in file order; the world comes first."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PairRulesInfo(Table):
    """Which geoms may collide, by classes of geoms, in scenes with too many pairs of geoms for a table of pairs.

    Two geoms of one class may collide with the same classes, and with the same contact parameters; their bodies differ.
    """

    class_of_geom: Ints
    """Class of each geom, (n_geoms,)."""
    row_of_classes: Ints
    """Row of `parameters` of two classes; -1 if their geoms do not collide, (n_classes, n_classes)."""
    parameters: PairsInfo
    """Contact parameters of pairs of geoms; the two geoms of each row are meaningless."""
    excluded: Ints
    """Pairs of geoms that do not collide by these rules, whatever their classes, (n, 2), the lower index first."""
    explicit: Ints
    """Pairs of geoms that may collide besides, and their rows of `parameters`, (n, 3)."""


@cache
def empty_pair_rules() -> PairRulesInfo:
    """Rules of a model with a table of pairs, or without contacts."""
    return PairRulesInfo(
        class_of_geom=np.zeros(0, np.int32),
        row_of_classes=np.zeros((0, 0), np.int32),
        parameters=empty_pairs(),
        excluded=np.zeros((0, 2), np.int32),
        explicit=np.zeros((0, 3), np.int32),
    )


@cache
def empty_geoms() -> GeomsInfo:
    """Table of collision geoms without rows, for a model without contacts."""
    none = np.zeros(0, np.int32)
    return GeomsInfo(
        names=[],
        types=[],
        link_idx=none,
        frame_idx=none,
        pos=np.zeros((0, 3)),
        rot=np.zeros((0, 3, 3)),
        size=np.zeros((0, 3)),
        center=np.zeros((0, 3)),
        radius=np.zeros(0),
        data_start=none,
        data_counts=np.zeros((0, 2), np.int32),
        data=np.zeros(0),
        entity_idx=none,
        friction=np.zeros((0, 5)),
        solref=np.zeros((0, 2)),
        solimp=np.zeros((0, 5)),
    )


@cache
def empty_pairs() -> PairsInfo:
    """Table of colliding geom pairs without rows, for a model without contacts."""
    none = np.zeros(0, np.int32)
    return PairsInfo(
        geom_a=none,
        geom_b=none,
        condim=none,
        friction=np.zeros((0, 5)),
        solref=np.zeros((0, 2)),
        solref_friction=np.zeros((0, 2)),
        solimp=np.zeros((0, 5)),
        margin=np.zeros(0),
        gap=np.zeros(0),
        surface_source=none,
        solmix_weight=np.zeros(0),
        restitution=np.zeros(0),
        bounce_speed=np.zeros(0),
        rank=np.zeros(0, np.int32),
        stiction_ratio=np.ones(0),
    )

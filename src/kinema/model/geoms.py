"""What can touch: shapes, and the pairs of them that are looked at, one table each."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kinema.foundation import Array

from .bodies import Ints
from .fields import SampledField

SHAPE_KINDS = (
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
"""Kinds of shapes, in the order in which they stand in a pair."""

ABSENT = -1e15
"""The radius of a shape that is not there: nothing is near enough to touch it."""


@dataclass(kw_only=True, slots=True, eq=False)
class GeomsInfo:
    """One row for each shape that may touch another."""

    names: list[str]
    kinds: list[str]
    """One of `SHAPE_KINDS` each."""
    link_idx: Ints
    """-1 for the world."""
    frame_idx: Ints
    """The moving frame it sits in; -1 for the world."""
    pos: Array
    """Where it is there [m], (n, 3)."""
    rot: Array
    """Its axes there, (n, 3, 3)."""
    size: Array
    """By its kind [m], (n, 3): radius; radius and half length; half extents; half axes."""
    center: Array
    """Of a sphere around it, in its own axes [m], (n, 3)."""
    radius: Array
    """Of that sphere [m], infinite for planes; `ABSENT` for a shape that only other environments have."""
    first_number: Ints
    """Where those of a mesh (`hulls.py`), a height field or a distance field (`fields.py`) begin in `numbers`."""
    counts: Ints
    """Corners and faces of a mesh; rows and columns of a height field; points of a distance field, (n, 2)."""
    numbers: Array
    """What meshes, height fields and distance fields are made of: one array for all."""
    entity_idx: Ints
    friction: Array
    """In two directions, about the normal [m], and rolling in two directions [m], (n, 5)."""
    solref: Array
    solimp: Array
    fields: list[SampledField | None] = field(default_factory=list)
    """The distance field of each shape that is one; empty where none is."""


@dataclass(kw_only=True, slots=True, eq=False)
class PairsInfo:
    """One row for each two shapes that may touch, in the order in which their contacts are kept."""

    geom_a: Ints
    geom_b: Ints
    dimension: Ints
    """Of the contact force: 1 without friction, 3 sliding, 4 spinning too, 6 rolling too."""
    friction: Array
    """In two directions, about the normal [m], and rolling in two directions [m], (n, 5)."""
    solref: Array
    solref_friction: Array
    """Of the directions of friction; zeros for as `solref`, (n, 2)."""
    solimp: Array
    margin: Array
    """Distance below which there is a contact [m]."""
    gap: Array
    """How much of the margin makes no force [m]."""
    decides: Ints
    """Whose surface counts: 0 or 1 for the first or second shape's, -1 for both, 2 for that of the pair itself."""
    share: Array
    """How much the first of two surfaces counts in the mean of how hard they are, (n,)."""
    restitution: Array
    """Share of the speed at which two shapes meet that they part with, (n,)."""
    bounce_speed: Array
    """Below this they meet too slowly for that [m/s], (n,)."""
    stick: Array
    """How much more friction there is while nothing slides: 1 for as much as else, (n,)."""
    weight: Array
    """About the inverse of the inertia that a contact moves at the start: of translation and of rotation, (n, 2)."""
    room: int | None = None
    """For how many contacts between any two moving frames there is to be room, at most; None where nobody asks."""


def no_geoms() -> GeomsInfo:
    """The table of a model in which nothing touches."""
    none = np.zeros(0, np.int32)
    return GeomsInfo(
        names=[],
        kinds=[],
        link_idx=none,
        frame_idx=none,
        pos=np.zeros((0, 3)),
        rot=np.zeros((0, 3, 3)),
        size=np.zeros((0, 3)),
        center=np.zeros((0, 3)),
        radius=np.zeros(0),
        first_number=none,
        counts=np.zeros((0, 2), np.int32),
        numbers=np.zeros(0),
        entity_idx=none,
        friction=np.zeros((0, 5)),
        solref=np.zeros((0, 2)),
        solimp=np.zeros((0, 5)),
    )


def no_pairs() -> PairsInfo:
    """Likewise."""
    none = np.zeros(0, np.int32)
    return PairsInfo(
        geom_a=none,
        geom_b=none,
        dimension=none,
        friction=np.zeros((0, 5)),
        solref=np.zeros((0, 2)),
        solref_friction=np.zeros((0, 2)),
        solimp=np.zeros((0, 5)),
        margin=np.zeros(0),
        gap=np.zeros(0),
        decides=none,
        share=np.zeros(0),
        restitution=np.zeros(0),
        bounce_speed=np.zeros(0),
        stick=np.ones(0),
        weight=np.zeros((0, 2)),
    )

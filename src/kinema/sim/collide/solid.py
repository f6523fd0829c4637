"""What a pair of shapes is told, and what it answers.

A pair of kinds is a function of two solids that says where they touch, by calling `emit` once for each point, also in
the branches and loops that it records. It says what it finds; `emit` keeps what is nearer than the reach.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from kinema.trace import Recorder, Value

from ..sweeps.maths import Matrix, Vector


@dataclass(frozen=True, slots=True)
class Solid:
    """A shape somewhere: numbers, or symbols."""

    position: Vector
    """Of its centre [m]."""
    rotation: Matrix
    """From its axes to those of the world."""
    size: Vector
    """Three numbers [m]: radius (sphere); radius and half the length of the straight part (capsule), of all of it
    (cylinder, cone); half extents (box); half axes (ellipsoid); half extents across, and how far the base is below zero
    (height field)."""
    hull: Hull | None = None
    """The corners of a convex mesh."""
    grid: Grid | None = None
    """The heights of a height field."""
    samples: Samples | None = None
    """The distances of a distance field."""


@dataclass(frozen=True, slots=True)
class Hull:
    """A convex mesh in a shared array of numbers: its corners, its faces, the corners of each face (`hulls.py`)."""

    read: Callable[[Value], Value]
    """The number at an index of the array."""
    first: Value
    """Where its numbers begin."""
    n_corners: Value
    n_faces: Value = 0.0
    radius: Value = 0.0
    """How far any corner is from the origin at most [m]."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Heights [m] in a shared array of numbers, row by row: along x within a row, along y from row to row."""

    read: Callable[[Value], Value]
    """The number at an index of the array."""
    first: Value
    """Where they begin."""
    n_rows: Value
    n_columns: Value


@dataclass(frozen=True, slots=True)
class Samples:
    """Signed distances on a grid, and points of the surface, in a shared array of numbers (`kinema.model.fields`)."""

    read: Callable[[Value], Value]
    """The number at an index of the array."""
    first: Value
    """Where its numbers begin."""
    n_points: Value
    extent: Value = 0.0
    """How far any of the shape is from its origin at most [m]."""


class Emit(Protocol):
    """Told of each point."""

    def __call__(self, distance: Value, point: Vector, normal: Vector, along: Vector | None = None) -> None:
        """Take a point.

        Distance [m], negative inside; the point half-way between the surfaces; a unit normal from the first solid to
        the second; a direction for the first tangent, where it matters which.
        """
        ...


@dataclass(frozen=True, slots=True)
class Work:
    """What the code of a pair works with."""

    recorder: Recorder
    """For branches, loops and local arrays."""
    reach: Value
    """Points that are further apart [m] do not matter."""
    emit: Emit


Pair = Callable[[Work, Solid, Solid], None]
"""Says where two solids touch; the kind of the first comes first in `SHAPE_KINDS`."""


@dataclass(frozen=True, slots=True)
class PairKind:
    """Two kinds of shapes."""

    touch: Pair
    """Says where they touch."""
    most: int
    """Points at most."""

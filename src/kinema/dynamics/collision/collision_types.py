"""Types of the narrow phase: posed geoms with mesh, height-field and SDF data, contact queries, table entries.

A contact function of a pair of geom types is called with two geoms and calls `emit_contact` once for each contact
point, possibly within traced branches and loops. It may report any candidate; `emit_contact` keeps the points closer
than the margin.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from kinema.ir import Tracer, Value

from ..vector_math import Matrix, Vector


@dataclass(frozen=True, slots=True)
class CollisionGeom:
    """Geom with its world pose; all values may be floats or traced scalars."""

    position: Vector
    """World position of the geom's centre [m]."""
    rotation: Matrix
    """Rotation matrix from the geom's axes to world axes."""
    size: Vector
    """Three sizes [m]: radius (sphere); radius and half length of the cylindrical part (capsule); radius and half
    length (cylinder, cone); half extents (box); semi-axes (ellipsoid); half extents in x and y, and depth of the base
    below z = 0 (height field)."""
    hull: PackedHull | None = None
    """Convex hull of a mesh geom."""
    height_field: HeightFieldData | None = None
    """Elevation data of a height-field geom."""
    sdf: SdfData | None = None
    """Sampled distances of a signed-distance-field geom."""


@dataclass(frozen=True, slots=True)
class PackedHull:
    """Convex hull packed in a shared array: vertices, faces, vertex lists of the faces (`kinema.model.geom_data`)."""

    read: Callable[[Value], Value]
    """Reads the element of the shared array at an index."""
    start: Value
    """Index of the first element of the hull in the array."""
    n_vertices: Value
    n_faces: Value = 0.0
    bounding_radius: Value = 0.0
    """Maximum distance of a vertex from the origin of the mesh [m]."""


@dataclass(frozen=True, slots=True)
class HeightFieldData:
    """Elevations [m] of a height field in a shared array, row-major: x along a row, y from row to row."""

    read: Callable[[Value], Value]
    """Reads the element of the shared array at an index."""
    start: Value
    """Index of the first elevation in the array."""
    n_rows: Value
    n_columns: Value


@dataclass(frozen=True, slots=True)
class SdfData:
    """Signed distances on a grid and surface sample points, packed in a shared array (`kinema.model.geom_data`)."""

    read: Callable[[Value], Value]
    """Reads the element of the shared array at an index."""
    start: Value
    """Index of the first element of the SDF in the array."""
    n_points: Value
    """Number of surface sample points."""
    bounding_radius: Value = 0.0
    """Maximum distance of a surface point from the origin of the geom [m]."""


class EmitContact(Protocol):
    """Callback that receives each contact point of a geom pair."""

    def __call__(self, distance: Value, point: Vector, normal: Vector, tangent: Vector | None = None) -> None:
        """Receive one contact point.

        Args:
            distance: signed distance of the surfaces [m], negative for penetration.
            point: contact point midway between the two surfaces, in world coordinates [m].
            normal: unit normal from the first geom to the second geom.
            tangent: preferred direction of the first tangent, if it matters.
        """
        ...


class InitialDirection(Protocol):
    """Direction from which the search of a convex pair starts (`initial_directions.py`)."""

    @property
    def direction(self) -> Vector:
        """Unit direction from the first to the second geom, in the axes of the second one."""
        ...

    @property
    def is_known(self) -> Value:
        """1 if there is a direction, else 0."""
        ...

    def store(self, direction: Vector) -> None:
        """Keep a direction for the next step."""


@dataclass(frozen=True, slots=True)
class ContactQuery:
    """Tracer, margin and contact callback passed to the contact function of a geom pair."""

    tracer: Tracer
    """Records branches, loops and local arrays."""
    margin: Value
    """Distance above which contacts are discarded [m]."""
    emit_contact: EmitContact
    needs_depth: bool = True
    """Whether EPA computes the depth of penetrating convex geoms; otherwise their distance is some value <= 0."""
    refines: bool = False
    """Whether contacts that an iterative search finds to its tolerance are made exact up to rounding; in programs to be
    differentiated they always are."""
    initial_direction: InitialDirection | None = None
    """Direction from which the search of a convex pair starts; None if none is kept."""


CollisionFunction = Callable[[ContactQuery, CollisionGeom, CollisionGeom], None]
"""Emits the contacts of two geoms, ordered by geom type as in `GEOM_TYPES`."""


@dataclass(frozen=True, slots=True)
class CollisionTableEntry:
    """Contact function of a pair of geom types."""

    collide: CollisionFunction
    """Emits the contacts of two geoms of these types."""
    max_contacts: int
    """Maximum number of contacts per geom pair."""

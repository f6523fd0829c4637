"""Geom pairs in the loops of the narrow phase: specialization, parameters and posed geoms of the current iteration."""

from __future__ import annotations

from dataclasses import replace

from kinema.ir import IterationContext, Value
from kinema.model import Model

from .collision_types import CollisionGeom, HeightFieldData, PackedHull, SdfData
from .contact_buffer_specs import surface_velocities
from .pair_parameters import NarrowPhaseSpecialization

GEOM_POSE_SIZE = 12
"""Scalars of a geom pose: position, then rotation matrix by rows; followed by the velocities of its surface
(`surface_velocities`), each linear at the geom's origin (3), then angular (3), along the world axes."""
GEOM_MOTION_SIZE = 7
"""Scalars that follow these if any contacts are speculative: the velocity of the geom itself in the same form, and the
largest distance that any of its points travels in a step."""


def motion_offset(model: Model) -> int:
    """Offset of the velocity of a geom in the array of its pose, if any contacts are speculative."""
    return GEOM_POSE_SIZE + 6 * len(surface_velocities(model))


def travel_offset(model: Model) -> int:
    """Offset of the distance [m] that a geom travels in a step at most, in the array of its pose."""
    return motion_offset(model) + 6


def pair_specialization(iteration: IterationContext) -> NarrowPhaseSpecialization:
    """Specialization of the geom pair of the current iteration."""
    assert isinstance(iteration.specialization, NarrowPhaseSpecialization)
    return iteration.specialization


def pair_values(iteration: IterationContext, name: str, count: int) -> list[Value]:
    """Parameter values of the current iteration's geom pair: read per environment, or constants of the table."""
    return (
        iteration.read_array(name, count)
        if name in pair_specialization(iteration).per_env_parameters
        else list(iteration.constants(name))
    )


def read_geom(iteration: IterationContext, prefix: str, geom_type: str) -> CollisionGeom:
    """Read a geom of the current iteration: world pose, sizes, and packed mesh, height-field or SDF data.

    Args:
        iteration: iteration context of the pair.
        prefix: "a" or "b", the first or second geom of the pair.
        geom_type: type of the geom.
    """
    flat = iteration.read_array(prefix, 12)
    rotation = [flat[3 * i : 3 * i + 3] for i in range(1, 4)]
    geom = CollisionGeom(flat[:3], rotation, pair_values(iteration, f"{prefix} size", 3))

    def read(index: Value) -> Value:
        return iteration.tracer.read("geom_data", 0, index)

    start, first_count, second_count, bounding_radius = iteration.constants(f"{prefix} data")
    if geom_type == "mesh":
        return replace(geom, hull=PackedHull(read, start, first_count, second_count, bounding_radius))
    if geom_type == "distance field":
        return replace(geom, sdf=SdfData(read, start, first_count, bounding_radius))
    return (
        replace(geom, height_field=HeightFieldData(read, start, first_count, second_count))
        if geom_type == "height field"
        else geom
    )


def read_geom_pair(
    iteration: IterationContext, specialization: NarrowPhaseSpecialization
) -> tuple[CollisionGeom, CollisionGeom]:
    """The two posed geoms of the current iteration's pair."""
    a, b = (
        read_geom(iteration, prefix, geom_type)
        for prefix, geom_type in zip(("a", "b"), specialization.geom_types, strict=True)
    )
    return a, b

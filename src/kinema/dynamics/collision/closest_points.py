"""Signed distance and closest points of two posed geoms, by the contact functions of the narrow phase."""

from __future__ import annotations

from dataclasses import replace

from kinema.ir import Tracer, Value

from ..vector_math import Vector, add, scale
from .collision_table import convex_collision_table, get_collision_table
from .collision_types import CollisionGeom, ContactQuery, HeightFieldData, PackedHull, SdfData
from .vector_math import if_less

FACE_CONTACT_PAIRS = {("capsule", "box"), ("box", "box")}
"""Pairs whose analytic contacts are points of faces, whose distances are measured along the normal of a face."""
CLOSEST_POINTS_SIZE = 7
"""Values of a result: signed distance, closest points on both geoms."""


def geom_with_packed_data(
    geom: CollisionGeom, geom_type: str, tracer: Tracer, array: str, header: Vector
) -> CollisionGeom:
    """A geom with its packed mesh, height field or signed distance field.

    Args:
        geom: the geom.
        geom_type: type of the geom.
        tracer: traces the program.
        array: array of the packed data.
        header: start of the data in the array, two counts, radius about the origin of the geom.
    """

    def read(index: Value) -> Value:
        return tracer.read(array, 0, index)

    data_start, first_count, second_count, radius = header
    if geom_type == "mesh":
        return replace(geom, hull=PackedHull(read, data_start, first_count, second_count, radius))
    if geom_type == "distance field":
        return replace(geom, sdf=SdfData(read, data_start, first_count, radius))
    if geom_type == "height field":
        return replace(geom, height_field=HeightFieldData(read, data_start, first_count, second_count))
    return geom


def keep_closest_points(
    tracer: Tracer,
    geom_types: tuple[str, str],
    geoms: tuple[CollisionGeom, CollisionGeom],
    result: str,
    max_distance: Value,
    *,
    needs_depth: bool = True,
    swapped: bool = False,
) -> None:
    """Trace the signed distance and closest points of two geoms, which replace `result` if the distance is smaller.

    Args:
        tracer: traces the program.
        geom_types: types of the geoms, ordered as in `GEOM_TYPES`.
        geoms: the geoms.
        result: array of signed distance, closest point on the first and on the second geom (7).
        max_distance: distance above which the exact distance is not needed [m].
        needs_depth: whether penetration depths are computed.
        swapped: whether the points are stored in reverse order.
    """

    def keep_closest(distance: Value, point: Vector, normal: Vector, tangent: Vector | None = None) -> None:
        del tangent
        half = scale(0.5 * distance, normal)
        points = [add(point, scale(-1.0, half)), add(point, half)]
        first, second = reversed(points) if swapped else points

        def store() -> None:
            tracer.write(result, [distance, *first, *second])

        if_less(tracer, "closer", distance, tracer.read(result), store)

    table = (convex_collision_table if geom_types in FACE_CONTACT_PAIRS else get_collision_table)(multiccd=False)
    table[geom_types].collide(ContactQuery(tracer, max_distance, keep_closest, needs_depth), *geoms)

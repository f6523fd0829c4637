"""Collision table: the contact function of each pair of geom types, analytic, SDF-based or general convex (GJK/EPA)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from kinema import ir
from kinema.ir import Value
from kinema.model import GEOM_TYPES

from ..vector_math import add, rotate, rotate_inverse, scale, sub
from . import contact_manifold, height_field, plane_pairs
from .analytic_pairs import ANALYTIC_COLLISION_TABLE, check_analytic_collision_table
from .collision_types import CollisionGeom, CollisionTableEntry, ContactQuery
from .contact_buffer_specs import (
    MAX_HEIGHT_FIELD_CONTACTS,
    MAX_MANIFOLD_CONTACTS,
    MAX_PLANE_MESH_CONTACTS,
)
from .convex_distance import convex_pair_distance, emit_closest_point
from .sdf_pairs import SDF_COLLISION_TABLE
from .support_mapping import CONVEX_CORES, SUPPORT_FEATURES

# ------------------------------------------------------------------------------------------------- general convex pairs

CROP_FACTOR = 10.0
"""Distance of the cropping planes from the other geom's centre, in units of its bounding radius; smaller depths are
exact."""


def crop_box_near(query: ContactQuery, box: CollisionGeom, other: CollisionGeom, other_radius: Value) -> CollisionGeom:
    """Box cropped to the neighbourhood of another geom, to avoid loss of precision for very large boxes.

    Each side is moved inwards to at most `CROP_FACTOR * other_radius + margin` from the centre of the other geom, along
    the axes of the box.

    Args:
        query: contact query with the margin [m].
        box: the box.
        other: the other geom.
        other_radius: bounding radius of the other geom [m].

    Returns:
        The cropped box, with the same rotation and with new position and half extents.
    """
    other_centre = rotate_inverse(box.rotation, sub(other.position, box.position))
    max_offset = CROP_FACTOR * other_radius + query.margin
    low = [ir.clamp(c - max_offset, -s, s) for c, s in zip(other_centre, box.size, strict=True)]
    high = [ir.clamp(c + max_offset, -s, s) for c, s in zip(other_centre, box.size, strict=True)]
    centre_offset, half = scale(0.5, add(low, high)), scale(0.5, sub(high, low))
    return replace(box, position=add(box.position, rotate(box.rotation, centre_offset)), size=half)


def collide_convex(
    query: ContactQuery, a: CollisionGeom, b: CollisionGeom, *, geom_types: tuple[str, str], multiccd: bool
) -> None:
    """Contacts of two convex geoms by GJK and EPA: the closest point only, or a contact manifold with `multiccd`.

    A box is first cropped to the neighbourhood of the other geom, because the far corners of a very large box would
    cost precision. Emits the contacts through `query.emit_contact`.
    """
    cores = CONVEX_CORES[geom_types[0]](query.tracer, a), CONVEX_CORES[geom_types[1]](query.tracer, b)
    if geom_types[0] == "box":
        a = crop_box_near(query, a, b, cores[1].bounding_radius)
    if geom_types[1] == "box":
        b = crop_box_near(query, b, a, cores[0].bounding_radius)
    pair_distance = convex_pair_distance(query, geom_types, a, b)
    if multiccd:
        contact_manifold.emit_manifold(query, geom_types, pair_distance, a, b)
    else:
        emit_closest_point(query, pair_distance, b)


def convex_collision_table(*, multiccd: bool) -> dict[tuple[str, str], CollisionTableEntry]:
    """Collision table of plane-mesh, height field-convex and general convex pairs, keyed by two geom types.

    Keys are ordered as in `GEOM_TYPES`. Convex pairs use GJK and EPA; with `multiccd`, pairs of geom types that both
    have faces or edges emit a contact manifold, as MuJoCo does with its flag `multiccd`.
    """
    table = {("plane", "mesh"): CollisionTableEntry(plane_pairs.collide_plane_mesh, MAX_PLANE_MESH_CONTACTS)}
    for geom_type in CONVEX_CORES:
        collide_field = partial(height_field.collide_height_field_convex, geom_type=geom_type)
        table["height field", geom_type] = CollisionTableEntry(collide_field, MAX_HEIGHT_FIELD_CONTACTS)
    convex = [geom_type for geom_type in GEOM_TYPES if geom_type in CONVEX_CORES]
    for i, first in enumerate(convex):
        for second in convex[i:]:
            if (first, second) in DEGENERATE_CORE_PAIRS:
                continue
            is_manifold = multiccd and first in SUPPORT_FEATURES and second in SUPPORT_FEATURES
            collide = partial(collide_convex, geom_types=(first, second), multiccd=is_manifold)
            table[first, second] = CollisionTableEntry(collide, MAX_MANIFOLD_CONTACTS + 1 if is_manifold else 1)
    return table


DEGENERATE_CORE_PAIRS = {("sphere", "sphere"), ("sphere", "capsule"), ("capsule", "capsule")}
"""Pairs whose cores (point or segment) have a Minkowski difference without volume, for which EPA cannot be used."""


# -------------------------------------------------------------------------------------------------- tables of all pairs

_OTHER_COLLISION_TABLES = {
    multiccd: {**convex_collision_table(multiccd=multiccd), **SDF_COLLISION_TABLE} for multiccd in (True, False)
}


def get_collision_table(*, multiccd: bool) -> dict[tuple[str, str], CollisionTableEntry]:
    """Contact function of each supported pair of geom types: analytic, SDF-based, or general convex (GJK/EPA).

    Args:
        multiccd: whether general convex pairs emit a contact manifold instead of the deepest point only.
    """
    check_analytic_collision_table()
    analytic = {
        pair: CollisionTableEntry(entry.collide, entry.max_contacts) for pair, entry in ANALYTIC_COLLISION_TABLE.items()
    }
    return {**_OTHER_COLLISION_TABLES[multiccd], **analytic}

"""Collision table: the contact function of each pair of geom types, analytic, SDF-based or general convex (GJK/EPA)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from kinema import ir
from kinema.core import InternalError
from kinema.ir import Value
from kinema.model import GEOM_TYPES

from ..vector_math import add, rotate, rotate_inverse, scale, sub
from . import contact_manifold, height_field, plane_pairs
from .box_box import collide_box_box
from .capsule_box import collide_capsule_box
from .collision_types import CollisionGeom, CollisionTableEntry, ContactQuery
from .contact_buffer_specs import (
    ANALYTIC_MAX_CONTACTS,
    MAX_HEIGHT_FIELD_CONTACTS,
    MAX_MANIFOLD_CONTACTS,
    MAX_PLANE_MESH_CONTACTS,
)
from .convex_distance import convex_pair_distance, emit_closest_point
from .plane_pairs import (
    collide_plane_box,
    collide_plane_capsule,
    collide_plane_cone,
    collide_plane_cylinder,
    collide_plane_ellipsoid,
    collide_plane_sphere,
)
from .sdf_pairs import SDF_COLLISION_TABLE
from .sphere_capsule_pairs import (
    collide_capsule_capsule,
    collide_sphere_box,
    collide_sphere_capsule,
    collide_sphere_cone,
    collide_sphere_cylinder,
    collide_sphere_ellipsoid,
    collide_sphere_sphere,
)
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

ANALYTIC_COLLISION_TABLE: dict[tuple[str, str], CollisionTableEntry] = {
    ("plane", "sphere"): CollisionTableEntry(collide_plane_sphere, 1),
    ("plane", "capsule"): CollisionTableEntry(collide_plane_capsule, 2),
    ("plane", "ellipsoid"): CollisionTableEntry(collide_plane_ellipsoid, 1),
    ("plane", "cylinder"): CollisionTableEntry(collide_plane_cylinder, 4),
    ("plane", "cone"): CollisionTableEntry(collide_plane_cone, 4),
    ("plane", "box"): CollisionTableEntry(collide_plane_box, 4),
    ("sphere", "sphere"): CollisionTableEntry(collide_sphere_sphere, 1),
    ("sphere", "capsule"): CollisionTableEntry(collide_sphere_capsule, 1),
    ("sphere", "ellipsoid"): CollisionTableEntry(collide_sphere_ellipsoid, 1),
    ("sphere", "cylinder"): CollisionTableEntry(collide_sphere_cylinder, 1),
    ("sphere", "cone"): CollisionTableEntry(collide_sphere_cone, 1),
    ("sphere", "box"): CollisionTableEntry(collide_sphere_box, 1),
    ("capsule", "capsule"): CollisionTableEntry(collide_capsule_capsule, 2),
    ("capsule", "box"): CollisionTableEntry(collide_capsule_box, 2),
    ("box", "box"): CollisionTableEntry(collide_box_box, 8),
}
"""Closed-form contact functions, keyed by two geom types ordered as in `GEOM_TYPES`."""

_OTHER_COLLISION_TABLES = {
    multiccd: {**convex_collision_table(multiccd=multiccd), **SDF_COLLISION_TABLE} for multiccd in (True, False)
}


def get_collision_table(*, multiccd: bool) -> dict[tuple[str, str], CollisionTableEntry]:
    """Contact function of each supported pair of geom types: analytic, SDF-based, or general convex (GJK/EPA).

    Args:
        multiccd: whether general convex pairs emit a contact manifold instead of the deepest point only.
    """
    check_analytic_collision_table()
    return {**_OTHER_COLLISION_TABLES[multiccd], **ANALYTIC_COLLISION_TABLE}


def check_analytic_collision_table() -> None:
    """Raise `InternalError` for an entry whose key is not ordered, or that differs from `ANALYTIC_MAX_CONTACTS`."""
    for pair in ANALYTIC_COLLISION_TABLE.keys() | ANALYTIC_MAX_CONTACTS.keys():
        if not set(pair) <= set(GEOM_TYPES) or [*pair] != sorted(pair, key=GEOM_TYPES.index):
            raise InternalError(f"collision pair {pair}: not two geom types in the order {', '.join(GEOM_TYPES)}")
        entry, planned = ANALYTIC_COLLISION_TABLE.get(pair), ANALYTIC_MAX_CONTACTS.get(pair)
        if entry is None or entry.max_contacts != planned:
            raise InternalError(
                f"collision pair {pair}: maximum number of contacts {None if entry is None else entry.max_contacts} in "
                f"`ANALYTIC_COLLISION_TABLE` (collision_table.py), {planned} in `ANALYTIC_MAX_CONTACTS` "
                "(contact_buffer_specs.py, by which memory is planned)"
            )

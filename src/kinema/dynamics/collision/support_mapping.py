"""Support mapping of convex geoms: support points, support features (face, edge or vertex), lookups in packed hulls.

Support points are used by GJK and EPA, support features by contact manifolds. A geom is represented by a core and a
radius: the core of a sphere is a point and that of a capsule a segment, so that rounded geoms are exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from kinema import ir
from kinema.ir import Tracer, Value
from kinema.model import (
    HULL_FACE_SIZE,
    MAX_FACE_VERTICES,
    SUPPORT_CELL_SIZE,
    SUPPORT_ENTRY_SIZE,
    SUPPORT_TABLE_HEADER_SIZE,
)

from ..vector_math import ZERO, Vector, dot
from .collision_types import CollisionGeom, PackedHull
from .support_patches import (
    FindPatch,
    box_patch,
    cone_patch,
    cylinder_patch,
    ellipsoid_patch,
    point_patch,
    polytope_patch,
    segment_patch,
)
from .vector_math import TINY, floor_by_rounding, less_than, norm, normalize_or_fallback, select_vector, sign

# ----------------------------------------------------------------------- packed convex hulls (`kinema.model.geom_data`)


def face_normal(hull: PackedHull, face: Value) -> Vector:
    """Outward unit normal of a hull face."""
    return [hull.read(_face_address(hull, face) + float(i)) for i in range(3)]


def face_vertex_list(hull: PackedHull, face: Value) -> tuple[Value, Value]:
    """Number of vertices of a hull face, and the array index of its list of vertex indices."""
    address = _face_address(hull, face)
    return hull.read(address + 3.0), hull.start + hull.read(address + 4.0)


def _face_address(hull: PackedHull, face: Value) -> Value:
    return hull.start + 3.0 * hull.n_vertices + float(HULL_FACE_SIZE) * face


def hull_support_vertex(tracer: Tracer, hull: PackedHull, direction: Vector) -> tuple[Vector, Value]:
    """Support vertex of a convex hull in a direction of any length, and its dot product with the direction."""
    *point, support_value, _ = _lookup_support_point(tracer, hull, direction, 0)
    return point, support_value


def find_face_along(tracer: Tracer, hull: PackedHull, direction: Vector) -> Value:
    """Index of the hull face whose normal is closest to a direction."""
    return _lookup_support_point(tracer, hull, direction, 1)[-1]


def _lookup_support_point(tracer: Tracer, hull: PackedHull, direction: Vector, table: int) -> list[Value]:
    """Support point of a precomputed cube-map table: hull vertices (table 0) or face normals (table 1).

    Searches the candidate list of the table cell that contains the direction.

    Returns:
        The point (3), its dot product with the direction, and its index; the first of equal points.
    """
    start, cell_address = _lookup_cell(hull, direction, table)
    first, count = start + hull.read(cell_address), hull.read(cell_address + 1.0)
    best = tracer.allocate_local(5)
    tracer.write(best, [0.0, 0.0, 0.0, -1.0 / TINY, 0.0])

    def visit_candidate(index: Value) -> None:
        address = first + float(SUPPORT_ENTRY_SIZE) * index
        *point, point_index = (hull.read(address + float(i)) for i in range(SUPPORT_ENTRY_SIZE))
        support_value, best_value = dot(point, direction), tracer.read(best, 3)
        best_so_far = [tracer.read(best, i) for i in range(5)]
        tracer.write(best, select_vector(best_value, support_value, [*point, support_value, point_index], best_so_far))

    tracer.counted_loop("candidates of the cell", count, visit_candidate)
    return [tracer.read(best, i) for i in range(5)]


def _lookup_cell(hull: PackedHull, direction: Vector, table: int) -> tuple[Value, Value]:
    """Address of the cube-map table cell that contains a direction.

    The cube side is that of the largest component of the direction; the other two components, divided by it, select the
    cell on the side.

    Args:
        hull: packed hull.
        direction: direction of any length.
        table: 0 for the table of vertices, 1 for the table of face normals.

    Returns:
        Array indices of the start of the table and of the cell's header.
    """
    header = (
        hull.start
        + 3.0 * hull.n_vertices
        + float(HULL_FACE_SIZE) * hull.n_faces
        + float(SUPPORT_TABLE_HEADER_SIZE * table)
    )
    start, cells_per_edge = hull.start + hull.read(header), hull.read(header + 1.0)
    x, y, z = direction
    magnitudes = [ir.absolute(d) for d in direction]
    is_x = ir.select(magnitudes[0], ir.maximum(magnitudes[1], magnitudes[2]), 0.0, 1.0)
    is_y = (1.0 - is_x) * ir.select(magnitudes[1], magnitudes[2], 0.0, 1.0)
    largest, u, v = select_vector(0.5, is_x, (x, y, z), select_vector(0.5, is_y, (y, z, x), (z, x, y)))
    scale = 0.5 * cells_per_edge / ir.maximum(ir.absolute(largest), TINY)
    i, j = (ir.clamp(floor_by_rounding(scale * w + 0.5 * cells_per_edge), 0.0, cells_per_edge - 1.0) for w in (u, v))
    side = 4.0 - 4.0 * is_x - 2.0 * is_y + ir.select(largest, 0.0, 1.0, 0.0)
    return start, start + float(SUPPORT_CELL_SIZE) * ((side * cells_per_edge + i) * cells_per_edge + j)


# ------------------------------------------------------------------------------------------------------- support points

SupportFunction = Callable[[Vector], Vector]
"""Support mapping of a core: the farthest point in a direction of any length, both in the geom's axes."""


@dataclass(frozen=True, slots=True)
class ConvexCore:
    """Convex geom in its own axes: the Minkowski sum of a convex core and a sphere."""

    support: SupportFunction
    """Support mapping of the core."""
    radius: Value
    """Radius of the sphere that is added to the core [m]."""
    bounding_radius: Value
    """Maximum distance of the geom's surface from its origin [m]."""
    patch: FindPatch
    """Local geometry of the surface at a support point."""
    is_smooth: bool = False
    """Whether the surface of the core is curved, not a polyhedron."""


def sphere_core(tracer: Tracer, geom: CollisionGeom) -> ConvexCore:
    """Core of a sphere: its centre."""
    return ConvexCore(lambda direction: ZERO, geom.size[0], geom.size[0], point_patch)


def capsule_core(tracer: Tracer, geom: CollisionGeom) -> ConvexCore:
    """Core of a capsule: the segment of its axis."""
    radius, half, _ = geom.size
    return ConvexCore(
        lambda direction: (0.0, 0.0, sign(direction[2]) * half), radius, radius + half, partial(segment_patch, half)
    )


def ellipsoid_core(tracer: Tracer, geom: CollisionGeom) -> ConvexCore:
    """Core of an ellipsoid with semi-axes e: the ellipsoid itself, with support point e^2 d / |e d| in direction d."""

    def support(direction: Vector) -> Vector:
        scaled = [semi_axis * component for semi_axis, component in zip(geom.size, direction, strict=True)]
        inverse = 1.0 / ir.maximum(norm(scaled), TINY)
        return [semi_axis * component * inverse for semi_axis, component in zip(geom.size, scaled, strict=True)]

    bounding_radius = ir.maximum(geom.size[0], ir.maximum(geom.size[1], geom.size[2]))
    return ConvexCore(support, 0.0, bounding_radius, partial(ellipsoid_patch, geom.size), True)


def _support_on_circle(radius: Value, direction: Vector) -> list[Value]:
    """Support point of a circle about the z axis; its centre for directions along z."""
    factor = radius / ir.maximum(norm(direction[:2]), TINY)
    return [factor * direction[0], factor * direction[1]]


def cylinder_core(tracer: Tracer, geom: CollisionGeom) -> ConvexCore:
    """Core of a cylinder: the cylinder itself; support points are on the rims."""
    radius, half, _ = geom.size
    return ConvexCore(
        lambda d: [*_support_on_circle(radius, d), sign(d[2]) * half],
        0.0,
        norm([radius, half]),
        partial(cylinder_patch, geom.size),
        True,
    )


def cone_core(tracer: Tracer, geom: CollisionGeom) -> ConvexCore:
    """Support mapping and bounding radius of a cone for GJK; support points are the apex or on the base rim."""
    radius, half, _ = geom.size

    def support(direction: Vector) -> Vector:
        rim = [*_support_on_circle(radius, direction), -half]
        apex_advantage = 2.0 * half * direction[2] - radius * norm(direction[:2])
        return select_vector(0.0, apex_advantage, (0.0, 0.0, half), rim)

    return ConvexCore(support, 0.0, norm([radius, half]), partial(cone_patch, geom.size), True)


def box_core(tracer: Tracer, geom: CollisionGeom) -> ConvexCore:
    """Core of a box: the box itself; support points are its corners."""

    def support(direction: Vector) -> Vector:
        return [sign(d) * s for d, s in zip(direction, geom.size, strict=True)]

    return ConvexCore(support, 0.0, norm(geom.size), partial(box_patch, geom.size))


def mesh_core(tracer: Tracer, geom: CollisionGeom) -> ConvexCore:
    """Core of a mesh: its convex hull; support points are hull vertices."""
    assert geom.hull is not None
    hull = geom.hull

    def support(direction: Vector) -> Vector:
        return hull_support_vertex(tracer, hull, direction)[0]

    return ConvexCore(
        support, 0.0, hull.bounding_radius, partial(polytope_patch, tracer, support, hull.bounding_radius)
    )


def hull_vertex(hull: PackedHull, index: Value) -> Vector:
    """Vertex of a convex hull in the axes of the mesh."""
    start = hull.start + 3.0 * index
    return [hull.read(start + float(i)) for i in range(3)]


CONVEX_CORES: dict[str, Callable[[Tracer, CollisionGeom], ConvexCore]] = {
    "sphere": sphere_core,
    "capsule": capsule_core,
    "ellipsoid": ellipsoid_core,
    "cylinder": cylinder_core,
    "cone": cone_core,
    "box": box_core,
    "mesh": mesh_core,
}
"""Constructor of the convex core, by geom type."""


# ----------------------------------------------------------------------------------------------------- support features

CIRCLE_VERTICES = 8
"""Vertices of the regular polygon that approximates a circle."""
FACE_ALIGNMENT_COSINE = 0.7
"""Cosine of the angle between a direction and a feature's normal above which the feature is the support feature."""
TILT_SINE = 1e-4
"""Sine of the tilt above which the polygon of a cap starts at its lowest point."""
StoreVertex = Callable[[Value, Vector], None]
"""Receives the index and the position, in the geom's axes, of each vertex of a feature."""
FindFeature = Callable[[Tracer, CollisionGeom, Vector, StoreVertex], tuple[Value, Vector]]
"""Finds the support feature of a geom in a unit direction: stores its vertices, counter-clockwise seen from outside,
and returns their number and the feature's unit normal. The normal of an edge is perpendicular to the edge. Direction,
vertices and normal are in the geom's axes."""


@dataclass(frozen=True, slots=True)
class SupportFeature:
    """Support feature function of a geom type."""

    find: FindFeature
    """Finds the support feature in a direction."""
    max_vertices: int
    """Maximum number of vertices of a feature."""


def capsule_feature(
    tracer: Tracer, geom: CollisionGeom, direction: Vector, store_vertex: StoreVertex
) -> tuple[Value, Vector]:
    """Support feature of a capsule: its axis segment, or one end point for a direction close to the axis.

    Stores the vertices through `store_vertex`, and returns their number and the normal of the feature.
    """
    half = geom.size[1]
    store_vertex(0.0, (0.0, 0.0, -half))
    store_vertex(1.0, (0.0, 0.0, half))
    return ir.select(ir.absolute(direction[2]), FACE_ALIGNMENT_COSINE, 2.0, 1.0), _radial_direction(direction)


def _radial_direction(direction: Vector) -> Vector:
    """Normalized part of a direction perpendicular to the z axis."""
    return [*normalize_or_fallback([*direction[:2], 0.0])[:2], 0.0]


def cylinder_feature(
    tracer: Tracer, geom: CollisionGeom, direction: Vector, store_vertex: StoreVertex
) -> tuple[Value, Vector]:
    """Support feature of a cylinder: a cap, approximated by an octagon, or a line of its lateral surface.

    Stores the vertices through `store_vertex`, and returns their number and the normal of the feature.
    """
    radius, half, _ = geom.size
    cap_sign, radial = sign(direction[2]), _radial_direction(direction)
    x, y = radius * radial[0], radius * radial[1]
    return _cap_or_side_feature(
        tracer, geom, direction, store_vertex, cap_sign, ([x, y, -half], [x, y, half]), (2.0, radial)
    )


def cone_feature(
    tracer: Tracer, geom: CollisionGeom, direction: Vector, store_vertex: StoreVertex
) -> tuple[Value, Vector]:
    """Support feature of a cone: the base as an octagon, a line of its lateral surface, or a single vertex.

    Stores the vertices through `store_vertex`, and returns their number and the normal of the feature.
    """
    radius, half, _ = geom.size
    radial = _radial_direction(direction)
    side_normal = normalize_or_fallback([2.0 * half * radial[0], 2.0 * half * radial[1], radius])
    is_side = less_than(FACE_ALIGNMENT_COSINE, dot(side_normal, direction))
    line = [radius * radial[0], radius * radial[1], -half], (0.0, 0.0, half)
    return _cap_or_side_feature(tracer, geom, direction, store_vertex, -1.0, line, (1.0 + is_side, side_normal))


def _cap_or_side_feature(
    tracer: Tracer,
    geom: CollisionGeom,
    direction: Vector,
    store_vertex: StoreVertex,
    cap_sign: Value,
    side_line: tuple[Vector, Vector],
    side_count_and_normal: tuple[Value, Vector],
) -> tuple[Value, Vector]:
    """Support feature of a cylinder or cone: a cap as an octagon if it faces the direction, otherwise a lateral line.

    Stores all vertices through `store_vertex` in one loop; unused vertices are ignored.

    Args:
        tracer: tracer.
        geom: cylinder or cone.
        direction: unit direction in the geom's axes.
        store_vertex: receives each vertex.
        cap_sign: side of the cap along z (1 or -1).
        side_line: end points of the lateral line.
        side_count_and_normal: number of vertices and normal of the lateral feature.

    Returns:
        The number of vertices and the normal of the feature.
    """
    radius, half, _ = geom.size
    is_cap = less_than(FACE_ALIGNMENT_COSINE, cap_sign * direction[2])
    start = select_vector(norm(direction[:2]), TILT_SINE, (1.0, 0.0), _radial_direction(direction)[:2])
    rim_direction = tracer.allocate_local(2)
    tracer.write(rim_direction, start)
    cosine, sine = math.cos(2.0 * math.pi / CIRCLE_VERTICES), math.sin(2.0 * math.pi / CIRCLE_VERTICES) * cap_sign

    def store(index: Value) -> None:
        x, y = tracer.read(rim_direction), tracer.read(rim_direction, 1)
        side_point = select_vector(index, 0.5, side_line[0], side_line[1])
        store_vertex(index, select_vector(0.5, is_cap, [radius * x, radius * y, cap_sign * half], side_point))
        tracer.write(rim_direction, [cosine * x - sine * y, sine * x + cosine * y])

    tracer.counted_loop("rim vertices", float(CIRCLE_VERTICES), store, uniform=True)
    count, normal = side_count_and_normal
    return ir.select(0.5, is_cap, float(CIRCLE_VERTICES), count), select_vector(
        0.5, is_cap, (0.0, 0.0, cap_sign), normal
    )


def box_feature(
    tracer: Tracer, geom: CollisionGeom, direction: Vector, store_vertex: StoreVertex
) -> tuple[Value, Vector]:
    """Support feature of a box: the face whose normal is closest to the direction, with four vertices.

    Stores the vertices through `store_vertex`, and returns their number and the normal of the feature.
    """
    x, y, z = (ir.absolute(d) for d in direction)
    is_z = less_than(ir.maximum(x, y), z)
    is_y = (1.0 - is_z) * less_than(x, y)
    axis = [1.0 - is_y - is_z, is_y, is_z]
    normal = [c * sign(d) for c, d in zip(axis, direction, strict=True)]
    normal_sign = sign(dot(axis, direction))
    # the two following axes in cyclic order
    next_axis, last_axis = [axis[2], axis[0], axis[1]], [axis[1], axis[2], axis[0]]
    for i, (s, t) in enumerate(((1.0, 1.0), (-1.0, 1.0), (-1.0, -1.0), (1.0, -1.0))):
        weights = [n + (s * normal_sign) * a + t * b for n, a, b in zip(normal, next_axis, last_axis, strict=True)]
        store_vertex(float(i), [w * h for w, h in zip(weights, geom.size, strict=True)])
    return 4.0, normal


def mesh_feature(
    tracer: Tracer, geom: CollisionGeom, direction: Vector, store_vertex: StoreVertex
) -> tuple[Value, Vector]:
    """Support feature of a mesh: the hull face whose normal is closest to the direction.

    Stores the vertices through `store_vertex`, and returns their number and the normal of the feature.
    """
    hull = geom.hull
    assert hull is not None
    face = find_face_along(tracer, hull, direction)
    count, start = face_vertex_list(hull, face)
    tracer.counted_loop(
        "face vertices", count, lambda index: store_vertex(index, hull_vertex(hull, hull.read(start + index)))
    )
    return count, face_normal(hull, face)


SUPPORT_FEATURES: dict[str, SupportFeature] = {
    "capsule": SupportFeature(capsule_feature, 2),
    "cylinder": SupportFeature(cylinder_feature, CIRCLE_VERTICES),
    "cone": SupportFeature(cone_feature, CIRCLE_VERTICES),
    "box": SupportFeature(box_feature, 4),
    "mesh": SupportFeature(mesh_feature, MAX_FACE_VERTICES),
}
"""Support feature functions of the geom types with faces or edges; other convex geom types are strictly convex."""

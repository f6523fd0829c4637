"""Analytic contacts of a plane with a sphere, capsule, ellipsoid, box, cylinder, cone or convex mesh.

The plane is z = 0 in its own axes; its normal is the normal of every contact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from kinema import ir
from kinema.ir import Value

from ..vector_math import Vector, add, cross, dot, rotate, rotate_inverse, scale, sub
from .collision_types import CollisionGeom, ContactQuery
from .contact_buffer_specs import MAX_PLANE_MESH_CONTACTS
from .support_mapping import hull_support_vertex, hull_vertex
from .vector_math import MIN_LENGTH, TINY, column, if_less, point_along, select_vector, sign


def emit_contact_points(
    query: ContactQuery, points: Sequence[tuple[Value, Vector]], normal: Vector, tangent: Vector | None = None
) -> None:
    """Emit contacts, given by signed distance [m] and point, with a common normal in a loop that is traced once.

    `tangent` is the preferred direction of the first tangent.
    """
    tracer, record_size = query.tracer, 4
    buffer = tracer.allocate_local(record_size * len(points))
    tracer.write(buffer, [value for distance, point in points for value in (distance, *point)])

    def emit_point(index: Value) -> None:
        distance, *point = (tracer.read(buffer, i, record_size * index) for i in range(record_size))
        query.emit_contact(distance, point, normal, tangent)

    tracer.counted_loop("points", float(len(points)), emit_point, uniform=True)


# -------------------------------------------------------------------------------------------- plane and primitive geoms

UPRIGHT_SINE_SQUARED = MIN_LENGTH * MIN_LENGTH
"""Squared sine of the tilt angle below which a cylinder or cone counts as upright."""
SIN_120_DEGREES = math.sqrt(0.75)
"""Sine of 120 degrees; the cosine is -1/2."""
MAX_BOX_CORNERS = 4.0
"""Maximum number of contacts of a plane and a box."""


def collide_plane_sphere(query: ContactQuery, plane: CollisionGeom, sphere: CollisionGeom) -> None:
    """Contact of a plane and a sphere, at the sphere's lowest point."""
    query.emit_contact(*_plane_sphere_contact(plane, sphere.position, sphere.size[0]), column(plane.rotation, 2))


def collide_plane_capsule(query: ContactQuery, plane: CollisionGeom, capsule: CollisionGeom) -> None:
    """Two contacts of a plane and a capsule, at the lowest points of its end spheres; first tangent along its axis."""
    axis = column(capsule.rotation, 2)
    ends = [point_along(capsule.position, half, axis) for half in (capsule.size[1], -capsule.size[1])]
    points = [_plane_sphere_contact(plane, end, capsule.size[0]) for end in ends]
    emit_contact_points(query, points, column(plane.rotation, 2), axis)


def collide_plane_ellipsoid(query: ContactQuery, plane: CollisionGeom, ellipsoid: CollisionGeom) -> None:
    """Contact of a plane and an ellipsoid, at the ellipsoid's support point along the negative plane normal."""
    normal = column(plane.rotation, 2)
    scaled = [x * half for x, half in zip(rotate_inverse(ellipsoid.rotation, normal), ellipsoid.size, strict=True)]
    support_height = ir.sqrt(dot(scaled, scaled))
    inverse = -1.0 / ir.maximum(support_height, 1e-15)
    lowest = rotate(ellipsoid.rotation, [inverse * x * half for x, half in zip(scaled, ellipsoid.size, strict=True)])
    distance = _height_above_plane(plane, ellipsoid) - support_height
    query.emit_contact(distance, _midpoint_to_plane(ellipsoid, lowest, distance, normal), normal)


def collide_plane_box(query: ContactQuery, plane: CollisionGeom, box: CollisionGeom) -> None:
    """Contacts of a plane and a box: the first four corners that lie below the box centre and within the margin.

    Loops over all eight corners; emits each contact through `query.emit_contact`.
    """
    tracer, normal, height = query.tracer, column(plane.rotation, 2), _height_above_plane(plane, box)
    corner_heights = [x * half for x, half in zip(rotate_inverse(box.rotation, normal), box.size, strict=True)]
    state = tracer.allocate_local(4)
    tracer.write(state, [-1.0, -1.0, -1.0, 0.0])  # signs of the corner, number of contacts

    def visit_corner(_: Value) -> None:
        x, y, z, count = (tracer.read(state, i) for i in range(4))
        corner_height = dot((x, y, z), corner_heights)
        distance = height + corner_height
        is_contact = ir.select(0.0, corner_height, 0.0, ir.select(query.margin, distance, 0.0, 1.0))
        is_contact = ir.select(count, MAX_BOX_CORNERS, is_contact, 0.0)
        # next corner: x changes sign every time, y every second time, z every fourth time
        next_signs = [-x, ir.select(0.0, x, -y, y), ir.select(0.0, ir.minimum(x, y), -z, z)]
        tracer.write(state, [*next_signs, count + is_contact])

        def emit() -> list[Value]:
            local = [side * half for side, half in zip((x, y, z), box.size, strict=True)]
            query.emit_contact(distance, _midpoint_to_plane(box, rotate(box.rotation, local), distance, normal), normal)
            return []

        tracer.if_less("is contact", 0.5, is_contact, emit, [])

    tracer.counted_loop("corners", 8.0, visit_corner, uniform=True)


def collide_plane_cylinder(query: ContactQuery, plane: CollisionGeom, cylinder: CollisionGeom) -> None:
    """Four contacts of a plane and a cylinder, as in MuJoCo.

    The lowest point of the lower rim, the corresponding point of the other rim, and two points of the lower rim at 120
    degrees from the lowest point.
    """
    normal, height = column(plane.rotation, 2), _height_above_plane(plane, cylinder)
    local_normal = rotate_inverse(cylinder.rotation, normal)
    lowest_direction, sine = _lowest_rim_direction(local_normal)
    cap_centre = [0.0, 0.0, -sign(local_normal[2]) * cylinder.size[1]]
    cap_height, rim_height = height - ir.absolute(local_normal[2]) * cylinder.size[1], sine * cylinder.size[0]
    rim_offset = scale(cylinder.size[0], lowest_direction)
    tangent = scale(-sign(local_normal[2]), [lowest_direction[1], -lowest_direction[0], 0.0])
    points = [
        (cap_height - rim_height, add(cap_centre, rim_offset)),
        (2.0 * height - cap_height - rim_height, sub(rim_offset, cap_centre)),
        *(
            (cap_height + 0.5 * rim_height, add(cap_centre, rim_point))
            for rim_point in _rim_points_at_120_degrees(cylinder.size[0], lowest_direction, tangent)
        ),
    ]
    emit_contact_points(
        query,
        [
            (distance, _midpoint_to_plane(cylinder, rotate(cylinder.rotation, local_point), distance, normal))
            for distance, local_point in points
        ],
        normal,
    )


def collide_plane_cone(query: ContactQuery, plane: CollisionGeom, cone: CollisionGeom) -> None:
    """Four contacts of a plane and a cone.

    The lowest point of the base rim, the apex, and two points of the rim at 120 degrees from the lowest point.
    """
    normal, height = column(plane.rotation, 2), _height_above_plane(plane, cone)
    local_normal = rotate_inverse(cone.rotation, normal)
    lowest_direction, sine = _lowest_rim_direction(local_normal)
    base_height, rim_height = height - local_normal[2] * cone.size[1], sine * cone.size[0]
    tangent = [-lowest_direction[1], lowest_direction[0], 0.0]
    rim_points = [
        scale(cone.size[0], lowest_direction),
        *_rim_points_at_120_degrees(cone.size[0], lowest_direction, tangent),
    ]
    lowest_point, *other_points = [(x, y, -cone.size[1]) for x, y, _ in rim_points]
    points = [
        (base_height - rim_height, lowest_point),
        (height + local_normal[2] * cone.size[1], (0.0, 0.0, cone.size[1])),
        *((base_height + 0.5 * rim_height, point) for point in other_points),
    ]
    emit_contact_points(
        query,
        [
            (distance, _midpoint_to_plane(cone, rotate(cone.rotation, local_point), distance, normal))
            for distance, local_point in points
        ],
        normal,
    )


def _height_above_plane(plane: CollisionGeom, geom: CollisionGeom) -> Value:
    """Signed height [m] of a geom's centre above a plane."""
    return dot(column(plane.rotation, 2), sub(geom.position, plane.position))


def _plane_sphere_contact(plane: CollisionGeom, centre: Vector, radius: Value) -> tuple[Value, Vector]:
    """Signed distance [m] of a sphere and a plane, and the contact point midway between both surfaces."""
    normal = column(plane.rotation, 2)
    distance = dot(normal, sub(centre, plane.position)) - radius
    return distance, point_along(centre, -(radius + 0.5 * distance), normal)


def _midpoint_to_plane(geom: CollisionGeom, surface_point: Vector, distance: Value, normal: Vector) -> Vector:
    """World contact point midway between a surface point, given relative to the geom's centre, and the plane."""
    return add(geom.position, point_along(surface_point, -0.5 * distance, normal))


def _lowest_rim_direction(local_normal: Vector) -> tuple[Vector, Value]:
    """Radial unit direction to the lowest point of a rim about the z axis, and the sine of the tilt angle.

    Computed in the geom's axes from the plane normal, so that the direction is exactly perpendicular to the axis for
    any tilt. The x axis if the geom is upright.

    Args:
        local_normal: plane normal in the axes of the geom.

    Returns:
        The direction, and the height difference per unit radius between the rim's centre and its lowest point.
    """
    sine_squared = local_normal[0] * local_normal[0] + local_normal[1] * local_normal[1]
    negative_inverse = -1.0 / ir.sqrt(ir.maximum(sine_squared, UPRIGHT_SINE_SQUARED))
    direction = select_vector(
        sine_squared,
        UPRIGHT_SINE_SQUARED,
        (1.0, 0.0, 0.0),
        (negative_inverse * local_normal[0], negative_inverse * local_normal[1], 0.0),
    )
    return direction, -(local_normal[0] * direction[0] + local_normal[1] * direction[1])


def _rim_points_at_120_degrees(radius: Value, lowest_direction: Vector, tangent: Vector) -> list[Vector]:
    """The two points of a rim at plus and minus 120 degrees from its lowest point, relative to the rim's centre.

    Args:
        radius: radius of the rim [m].
        lowest_direction: unit direction to the lowest point.
        tangent: unit tangent perpendicular to it in the plane of the rim.
    """
    return [
        add(scale(-0.5 * radius, lowest_direction), scale(side * SIN_120_DEGREES * radius, tangent))
        for side in (1.0, -1.0)
    ]


# ------------------------------------------------------------------------------------------------ plane and convex mesh

AREA_TOLERANCE, DEPTH_TOLERANCE = 1e-4, 1e-6
"""Relative tolerances by which the score of a later vertex must be better, so that rounding does not decide."""


def collide_plane_mesh(query: ContactQuery, plane: CollisionGeom, mesh: CollisionGeom) -> None:
    """Up to four contacts of a plane and a convex mesh, chosen as in MuJoCo among the vertices within the margin.

    The deepest vertex, the vertex farthest from it, the vertex that spans the largest triangle with both, and the
    vertex farthest outside this triangle. Emits each contact through `query.emit_contact`.
    """
    hull, tracer = mesh.hull, query.tracer
    assert hull is not None
    plane_normal = [row[2] for row in plane.rotation]
    local_normal = rotate_inverse(mesh.rotation, plane_normal)
    height = dot(plane_normal, sub(mesh.position, plane.position))
    chosen, best = tracer.allocate_local(3 * MAX_PLANE_MESH_CONTACTS), tracer.allocate_local(4)
    tracer.write(chosen, [0.0] * (3 * MAX_PLANE_MESH_CONTACTS))
    tolerances = [DEPTH_TOLERANCE * hull.bounding_radius, AREA_TOLERANCE * ir.square(hull.bounding_radius)]

    def select_vertex(contact_index: Value) -> None:
        # the score must exceed that of no vertex
        tracer.write(best, [0.0, 0.0, 0.0, ir.select(contact_index, 0.5, -1.0 / TINY, 0.0)])

        def visit_vertex(vertex: Value) -> None:
            point = hull_vertex(hull, vertex)
            distance = height + dot(local_normal, point)
            if_less(tracer, "vertex is near", distance, query.margin, lambda: compare_vertex(point, distance))

        def compare_vertex(point: Vector, distance: Value) -> None:
            points = [[tracer.read(chosen, 3 * i + j) for j in range(3)] for i in range(MAX_PLANE_MESH_CONTACTS - 1)]
            score, best_score = (
                _vertex_score(contact_index, point, points, local_normal, -distance),
                tracer.read(best, 3),
            )
            threshold = best_score + ir.select(contact_index, 0.5, tolerances[0], tolerances[1])
            best_point = [tracer.read(best, i) for i in range(3)]
            tracer.write(
                best,
                [*select_vector(threshold, score, point, best_point), ir.select(threshold, score, score, best_score)],
            )

        tracer.counted_loop("vertices", hull.n_vertices, visit_vertex)
        point, score = [tracer.read(best, i) for i in range(3)], tracer.read(best, 3)
        tracer.write(chosen, point, 0, 3.0 * contact_index)

        def emit() -> list[Value]:
            distance = height + dot(local_normal, point)
            world_point = add(mesh.position, rotate(mesh.rotation, point))
            query.emit_contact(distance, add(world_point, scale(-0.5 * distance, plane_normal)), plane_normal)
            return []

        tracer.if_less("vertex found", ir.select(contact_index, 0.5, -0.5 / TINY, 0.0), score, emit, [])

    _, max_reach = hull_support_vertex(tracer, hull, scale(-1.0, local_normal))
    if_less(
        tracer,
        "within margin",
        height - max_reach,
        query.margin,
        lambda: tracer.counted_loop("points", float(MAX_PLANE_MESH_CONTACTS), select_vertex, uniform=True),
    )


def _vertex_score(
    contact_index: Value, point: Vector, selected_points: Sequence[Vector], normal: Vector, depth: Value
) -> Value:
    """Score by which the next contact vertex of a plane and a mesh is selected.

    The criterion depends on `contact_index`: 0 the depth; 1 the squared distance from the first selected point; 2 twice
    the area of the triangle with the first two points; 3 twice the largest area spanned with a side of the triangle of
    selected points, on its outer side.

    Args:
        contact_index: number of vertices selected so far.
        point: candidate vertex.
        selected_points: first three selected vertices.
        normal: plane normal in the axes of the mesh.
        depth: depth of the candidate below the plane [m].
    """
    a, b, c = selected_points
    offset, edge = sub(point, a), sub(b, a)
    area = dot(normal, cross(edge, offset))
    orientation = sign(dot(normal, cross(edge, sub(c, a))))
    outside = ir.maximum(
        -orientation * area,
        ir.maximum(*(-orientation * dot(normal, cross(sub(q, p), sub(point, p))) for p, q in ((b, c), (c, a)))),
    )
    area_score = ir.select(contact_index, 2.5, ir.absolute(area), outside)
    return ir.select(contact_index, 0.5, depth, ir.select(contact_index, 1.5, dot(offset, offset), area_score))

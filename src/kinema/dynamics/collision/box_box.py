"""Contacts of two boxes: separating-axis test (SAT) over 15 axes, then face clipping or an edge-edge contact.

The axis of maximum separation is a face normal of one box or the cross product of an edge of each box. For a face
normal (the reference face), the most anti-parallel face of the other box (the incident face) is clipped to the outline
of the reference face, and its remaining corners are the contact points. For an edge pair, there is one contact point
between the closest points of the two edges.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kinema import ir
from kinema.ir import Tracer, Value

from ..vector_math import Matrix, Vector, add, cross, dot, matmul, rotate, rotate_inverse, scale, sub, transpose
from .collision_types import CollisionGeom, ContactQuery
from .vector_math import column, point_along, select_vector

# ------------------------------------------------------------------------------------ clipping of a quad by a rectangle

MAX_CLIPPED_CORNERS = 8
"""Maximum number of corners of a quad that is clipped by four half planes."""
CORNER_SIZE = 3
"""Scalars per corner: x and y in the plane of the rectangle, z above the plane [m]."""
DUPLICATE_DISTANCE_SQUARED = 1e-12
"""Squared distance of two corners, relative to the squared size of the rectangle, below which the second corner is
dropped as a duplicate. MuJoCo uses 1e-14, which rounding in single precision exceeds; a duplicate contact would double
the stiffness."""

ON_LINE_TOLERANCE = 1e-6
"""Distance from a clipping line, relative to the size of the rectangle, below which a corner counts as on the line. Not
in MuJoCo; without the tolerance, for equal boxes stacked on top of each other rounding would decide where edges cross,
and contact points would move along the edges."""


def clip_quad_to_rectangle(
    query: ContactQuery,
    corners: Sequence[Vector],
    half_extents: Vector,
    to_world: Callable[[Value, Value, Value], Vector],
    contact_buffer: str,
) -> Value:
    """Sutherland-Hodgman clipping of a quad by a rectangle, storing its corners as contact points.

    Corners with z above the contact margin and duplicates are dropped. Writes (z, world point) of each remaining
    corner, 4 scalars per contact, to `contact_buffer`.

    Args:
        query: tracer and contact margin [m].
        corners: the 4 corners (x, y, z) of the quad; x and y in the plane of the rectangle, z the height above the
            plane [m].
        half_extents: half extents in x and y of the rectangle, which is centred at the origin [m].
        to_world: maps (x, y, z) of a corner to the contact point in world coordinates.
        contact_buffer: name of the local array that receives the contacts.

    Returns:
        The number of contact points, at most 8.
    """
    tracer = query.tracer
    polygon_buffer = tracer.allocate_local(2 * MAX_CLIPPED_CORNERS * CORNER_SIZE)
    tracer.write(polygon_buffer, [x for corner in corners for x in corner])
    # number of corners, start of the current polygon in the buffer, half extents along the current x and y axes
    clip_state = tracer.allocate_local(4)
    tracer.write(clip_state, [float(len(corners)), 0.0, half_extents[0], half_extents[1]])
    tracer.counted_loop(
        "clipping sides", 4.0, lambda side: _clip_by_side(tracer, polygon_buffer, clip_state, side), uniform=True
    )
    return _store_unique_corners(query, polygon_buffer, tracer.read(clip_state), half_extents, to_world, contact_buffer)


def _clip_by_side(tracer: Tracer, polygon_buffer: str, clip_state: str, side: Value) -> None:
    """Clip a polygon by the half plane x <= half extent, then transform it so that the next side is at +x.

    One step of Sutherland-Hodgman clipping. Reads the polygon from one half of `polygon_buffer`, writes the clipped and
    transformed polygon to the other half, and updates `clip_state` (number of corners, start of the polygon in the
    buffer, half extents along the current x and y axes). After an even `side` (0 to 3) the polygon is mirrored in x,
    after an odd side rotated by -90 degrees, so that it is back in its original axes after four sides.
    """
    n_corners, start, width, next_width = (tracer.read(clip_state, i) for i in range(4))
    is_odd = ir.select(ir.absolute(side - 2.0), 1.5, ir.select(ir.absolute(side - 2.0), 0.5, 0.0, 1.0), 0.0)
    end, tolerance = MAX_CLIPPED_CORNERS * CORNER_SIZE - start, ON_LINE_TOLERANCE * (width + next_width)
    n_kept = tracer.allocate_local(1)
    tracer.write(n_kept, [0.0])

    def store(x: Value, y: Value, z: Value, entry: Value) -> None:
        transformed = [ir.select(0.5, is_odd, y, -x), ir.select(0.5, is_odd, -x, y), z]
        tracer.write(polygon_buffer, transformed, 0, end + CORNER_SIZE * entry)

    def clip_corner(k: Value) -> None:
        next_k = ir.select(k + 1.5, n_corners, k + 1.0, 0.0)
        x, y, z = (tracer.read(polygon_buffer, i, start + CORNER_SIZE * k) for i in range(CORNER_SIZE))
        next_x, next_y, next_z = (
            tracer.read(polygon_buffer, i, start + CORNER_SIZE * next_k) for i in range(CORNER_SIZE)
        )
        count = tracer.read(n_kept)
        excess, next_excess = (ir.select(ir.absolute(d), tolerance, 0.0, d) for d in (x - width, next_x - width))
        is_kept = ir.select(0.0, excess, 0.0, ir.select(count, MAX_CLIPPED_CORNERS - 0.5, 1.0, 0.0))
        crossing_depth = ir.minimum(ir.maximum(excess, next_excess), -ir.minimum(excess, next_excess))
        crosses = ir.select(0.0, crossing_depth, ir.select(count + is_kept, MAX_CLIPPED_CORNERS - 0.5, 1.0, 0.0), 0.0)
        tracer.write(n_kept, [count + is_kept + crosses])

        def keep_corner() -> list[Value]:
            store(x, y, z, count)
            return []

        def add_crossing() -> list[Value]:
            fraction = excess / (excess - next_excess)
            store(
                x + fraction * (next_x - x), y + fraction * (next_y - y), z + fraction * (next_z - z), count + is_kept
            )
            return []

        tracer.if_less("inside", 0.5, is_kept, keep_corner, [])
        tracer.if_less("crossing edge", 0.5, crosses, add_crossing, [])

    tracer.counted_loop("corners", n_corners, clip_corner)
    swapped = [ir.select(0.5, is_odd, a, b) for a, b in ((next_width, width), (width, next_width))]
    tracer.write(clip_state, [tracer.read(n_kept), end, *swapped])


def _store_unique_corners(
    query: ContactQuery,
    polygon_buffer: str,
    n_corners: Value,
    half_extents: Vector,
    to_world: Callable[[Value, Value, Value], Vector],
    contact_buffer: str,
) -> Value:
    """Store the corners of a clipped polygon as contacts, without duplicates and corners beyond the margin.

    Reads `n_corners` corners (x, y, z) from `polygon_buffer`. A corner is kept if its height z does not exceed the
    contact margin and no earlier corner is at the same (x, y) up to a tolerance. Writes (z, world point) of each kept
    corner, 4 scalars per contact, to `contact_buffer`.

    Returns:
        The number of contacts stored.
    """
    tracer = query.tracer
    tolerance_squared = DUPLICATE_DISTANCE_SQUARED * (
        half_extents[0] * half_extents[0] + half_extents[1] * half_extents[1]
    )
    kept_positions, state = tracer.allocate_local(2 * MAX_CLIPPED_CORNERS), tracer.allocate_local(2)
    # number of kept corners; 1 if the current corner is dropped
    tracer.write(state, [0.0, 0.0])

    def visit_corner(k: Value) -> None:
        x, y, z = (tracer.read(polygon_buffer, i, CORNER_SIZE * k) for i in range(CORNER_SIZE))
        count = tracer.read(state)
        tracer.write(state, [ir.select(query.margin, z, 1.0, 0.0)], 1)

        def compare(other: Value) -> None:
            other_x, other_y = (tracer.read(kept_positions, i, 2.0 * other) for i in range(2))
            is_dropped = ir.select(
                (x - other_x) * (x - other_x) + (y - other_y) * (y - other_y),
                tolerance_squared,
                1.0,
                tracer.read(state, 1),
            )
            tracer.write(state, [is_dropped], 1)

        tracer.counted_loop("kept corners", count, compare)

        def store_corner() -> list[Value]:
            tracer.write(kept_positions, [x, y], 0, 2.0 * count)
            tracer.write(contact_buffer, [z, *to_world(x, y, z)], 0, 4.0 * count)
            tracer.write(state, [count + 1.0])
            return []

        tracer.if_less("unique corner", tracer.read(state, 1), 0.5, store_corner, [])

    tracer.counted_loop("corners", n_corners, visit_corner)
    return tracer.read(state)


# ------------------------------------------------------------------------------------------------ contacts of two boxes

MARGIN_SLACK, EDGE_FACE_TIE_TOLERANCE = 1e-6, 3e-7
"""Tolerances relative to the sum of all half extents: separation beyond the margin up to which contacts are generated,
and excess of the edge-edge separation over the separation of a nearly parallel face normal up to which the face is
preferred. The second tolerance is not in MuJoCo; in single precision, rounding would decide between four contacts and
one contact of boxes that barely touch."""
PARALLEL_EDGES_SINE_SQUARED = 1e-7
"""Squared sine of the angle between two edges below which their cross product defines no axis."""
EDGE_AXIS_BIAS = 1e-6
"""Relative amount by which the separation along an edge-edge axis must exceed the best separation so far."""
FACE_LIKE_COSINE, FACE_LIKE_EDGE_BIAS = 0.99, 0.05
"""Cosine of the angle between an edge-edge axis and the best face normal above which the two are nearly parallel, and
the relative amount by which the edge-edge separation must then exceed the face separation. A face contact is preferred,
as it yields several points."""


@dataclass(frozen=True, slots=True)
class _BoxPair:
    """Two boxes, expressed in the axes of the first box."""

    half_a: Vector
    """Half extents of the first box [m]."""
    half_b: Vector
    """Half extents of the second box, in its own axes [m]."""
    offset: Vector
    """Vector from the centre of the first box to the centre of the second box [m]."""
    rotation: Matrix
    """Rotation matrix from the axes of the second box to the axes of the first box."""
    total_half_extent: Value
    """Sum of the six half extents [m]."""


@dataclass(frozen=True, slots=True)
class _SeparatingAxis:
    """Axis of maximum separation of two boxes (the result of the separating-axis test)."""

    face_axis: Value
    """Index of the face normal with the maximum separation: 0 to 2 of the first box, 3 to 5 of the second box."""
    edge_pair: Value
    """3 i + j if the axis is the cross product of edge i of the first and edge j of the second box; -1 for a face
    normal."""
    max_separation: Value
    """Maximum separation over all 15 axes [m]; negative if the boxes overlap."""


def collide_box_box(query: ContactQuery, a: CollisionGeom, b: CollisionGeom) -> None:
    """Contacts of two boxes by the separating-axis test (SAT): up to 8 points of face clipping or 1 edge-edge point.

    Calls `query.emit_contact` once per contact point. No contacts are emitted if the maximum separation exceeds the
    margin.
    """
    tracer = query.tracer
    offset = rotate_inverse(a.rotation, sub(b.position, a.position))
    rotation = matmul(transpose(a.rotation), b.rotation)
    pair = _BoxPair(a.size, b.size, offset, rotation, sum([*a.size, *b.size], 0.0))
    axis = _find_separating_axis(pair)
    is_near = ir.select(query.margin + MARGIN_SLACK * pair.total_half_extent, axis.max_separation, 0.0, 1.0)
    contact_buffer = tracer.allocate_local(4 * MAX_CLIPPED_CORNERS)

    def edge_contact() -> list[Value]:
        distance, point, normal = _edge_edge_contact(pair, axis.edge_pair)
        tracer.write(contact_buffer, [distance, *add(a.position, rotate(a.rotation, point))])
        return [1.0, *rotate(a.rotation, normal)]

    def face_contacts() -> list[Value]:
        return _clip_face_contacts(query, a, b, pair, axis.face_axis, contact_buffer)

    result = tracer.if_less(
        "edges", 0.5, is_near * ir.select(axis.edge_pair, 0.0, 0.0, 1.0), edge_contact, [0.0, 1.0, 0.0, 0.0]
    )
    result = tracer.if_less("faces", 0.5, is_near * ir.select(axis.edge_pair, 0.0, 1.0, 0.0), face_contacts, result)
    n_points, *normal = result

    def emit_point(index: Value) -> None:
        distance, *point = (tracer.read(contact_buffer, i, 4.0 * index) for i in range(4))
        query.emit_contact(distance, point, normal)

    tracer.counted_loop("points", n_points, emit_point)


# ------------------------------------------------------------------------------------------------- separating-axis test


def _find_separating_axis(boxes: _BoxPair) -> _SeparatingAxis:
    """Axis of maximum separation of two boxes among 6 face normals and 9 edge cross products (SAT).

    An edge-edge axis is chosen only if its separation exceeds the best face separation by a relative bias. If the axis
    is nearly parallel to the best face normal, the separation must exceed the face separation by a larger bias, because
    a face contact yields several points.
    """
    face_separations = _separations_along_face_normals(boxes)
    best_face_separation, face_axis = face_separations[0], 0.0
    for i, separation in enumerate(face_separations[1:], 1):
        face_axis = ir.select(best_face_separation, separation, float(i), face_axis)
        best_face_separation = ir.maximum(best_face_separation, separation)
    edge_pair, edge_separation, max_separation = -1.0, best_face_separation, best_face_separation
    for i in range(9):
        separation = _separation_along_edge_cross(boxes, *divmod(i, 3))
        is_better = ir.select(edge_separation, separation - EDGE_AXIS_BIAS * ir.absolute(separation), 1.0, 0.0)
        edge_pair = ir.select(0.5, is_better, float(i), edge_pair)
        edge_separation = ir.select(0.5, is_better, separation, edge_separation)
        max_separation = ir.maximum(max_separation, separation)
    _, _, edge_axis = _edge_directions(boxes, edge_pair)
    normal_b = [_select_by_index(face_axis - 3.0, *row) for row in boxes.rotation]
    normal = select_vector(face_axis, 2.5, _unit_axis(face_axis), normal_b)
    prefers_face = ir.select(
        edge_separation,
        best_face_separation
        + FACE_LIKE_EDGE_BIAS * ir.absolute(best_face_separation)
        + EDGE_FACE_TIE_TOLERANCE * boxes.total_half_extent,
        1.0,
        0.0,
    )
    uses_face = ir.select(FACE_LIKE_COSINE, ir.absolute(dot(edge_axis, normal)), prefers_face, 0.0)
    edge_pair = ir.select(0.5, uses_face, -1.0, edge_pair)
    return _SeparatingAxis(face_axis, edge_pair, max_separation)


def _separations_along_face_normals(boxes: _BoxPair) -> list[Value]:
    """Separations [m] of two boxes along the 3 face normals of the first, then the 3 of the second box.

    A separation is the gap between the projections of the boxes on the normal, and is negative if the projections
    overlap.
    """
    offset_b = rotate_inverse(boxes.rotation, boxes.offset)
    abs_rotation = [[ir.absolute(x) for x in row] for row in boxes.rotation]
    first = [
        ir.absolute(x) - half - dot(row, boxes.half_b)
        for x, half, row in zip(boxes.offset, boxes.half_a, abs_rotation, strict=True)
    ]
    second = [
        ir.absolute(x) - half - dot(column(abs_rotation, j), boxes.half_a)
        for j, (x, half) in enumerate(zip(offset_b, boxes.half_b, strict=True))
    ]
    return [*first, *second]


def _separation_along_edge_cross(boxes: _BoxPair, edge_axis_a: int, edge_axis_b: int) -> Value:
    """Separation [m] of two boxes along the cross product of an edge axis of each; -1e30 for parallel edges.

    The cross product is normalized before both boxes are projected on it. Rounding errors of the axis therefore cannot
    make the separation larger than the true distance of the boxes.
    """
    i1, i2 = (edge_axis_a + 1) % 3, (edge_axis_a + 2) % 3
    u, v = -boxes.rotation[i2][edge_axis_b], boxes.rotation[i1][edge_axis_b]
    squared = u * u + v * v
    inverse = 1.0 / ir.sqrt(ir.maximum(squared, PARALLEL_EDGES_SINE_SQUARED))
    u, v = inverse * u, inverse * v
    projection_a = boxes.half_a[i1] * ir.absolute(u) + boxes.half_a[i2] * ir.absolute(v)
    projection_b: Value = 0.0
    for k in ((edge_axis_b + 1) % 3, (edge_axis_b + 2) % 3):
        projection_b = projection_b + boxes.half_b[k] * ir.absolute(
            u * boxes.rotation[i1][k] + v * boxes.rotation[i2][k]
        )
    distance = ir.absolute(u * boxes.offset[i1] + v * boxes.offset[i2]) - projection_a - projection_b
    return ir.select(squared, PARALLEL_EDGES_SINE_SQUARED, -1e30, distance)


# ---------------------------------------------------------------------------------------------------- edge-edge contact


def _edge_directions(boxes: _BoxPair, edge_pair: Value) -> tuple[Vector, Vector, Vector]:
    """Unit vectors of the two edges of an edge pair and their normalized cross product.

    Args:
        boxes: the two boxes.
        edge_pair: 3 i + j for edge axis i of the first and j of the second box.

    Returns:
        The edge axis of the first box; the edge axis of the second box in the axes of the second box; the
            normalized cross product of both in the axes of the first box.
    """
    i = ir.select(edge_pair, 2.5, 0.0, ir.select(edge_pair, 5.5, 1.0, 2.0))
    axis_a, axis_b = _unit_axis(i), _unit_axis(edge_pair - 3.0 * i)
    normal = cross(axis_a, rotate(boxes.rotation, axis_b))
    return axis_a, axis_b, scale(1.0 / ir.sqrt(ir.maximum(dot(normal, normal), PARALLEL_EDGES_SINE_SQUARED)), normal)


def _edge_edge_contact(boxes: _BoxPair, edge_pair: Value) -> tuple[Value, Vector, Vector]:
    """Contact of the closest points of two box edges: distance, midpoint and normal in the axes of box a.

    Each edge is the supporting edge of its box in the direction of the separating axis. The closest points are clamped
    to the lengths of the edges. The distance [m] is measured along the normal, which points from the first to the
    second box.
    """
    axis_a, axis_b, normal = _edge_directions(boxes, edge_pair)
    normal = scale(ir.select(dot(normal, boxes.offset), 0.0, -1.0, 1.0), normal)
    midpoint_a = _support_edge_midpoint(axis_a, boxes.half_a, normal)
    midpoint_b = _support_edge_midpoint(axis_b, boxes.half_b, scale(-1.0, rotate_inverse(boxes.rotation, normal)))
    midpoint_b = add(boxes.offset, rotate(boxes.rotation, midpoint_b))
    rotated_axis_b = rotate(boxes.rotation, axis_b)
    between = sub(midpoint_b, midpoint_a)
    cosine, offset_along_a, offset_along_b = (
        dot(axis_a, rotated_axis_b),
        dot(axis_a, between),
        dot(rotated_axis_b, between),
    )
    half_a, half_b = dot(axis_a, boxes.half_a), dot(axis_b, boxes.half_b)
    sine_squared = dot(cross(axis_a, rotated_axis_b), cross(axis_a, rotated_axis_b))
    position_a = ir.clamp(
        (offset_along_a - cosine * offset_along_b) / ir.maximum(sine_squared, PARALLEL_EDGES_SINE_SQUARED),
        -half_a,
        half_a,
    )
    position_b = ir.clamp(cosine * position_a - offset_along_b, -half_b, half_b)
    position_a = ir.clamp(offset_along_a + cosine * position_b, -half_a, half_a)
    point_a, point_b = point_along(midpoint_a, position_a, axis_a), point_along(midpoint_b, position_b, rotated_axis_b)
    return dot(sub(point_b, point_a), normal), scale(0.5, add(point_a, point_b)), normal


def _support_edge_midpoint(edge_axis: Vector, half_extents: Vector, direction: Vector) -> Vector:
    """Midpoint of the box edge parallel to `edge_axis` that is farthest in a direction."""
    return [
        (1.0 - on_axis) * ir.select(component, 0.0, -half, half)
        for on_axis, half, component in zip(edge_axis, half_extents, direction, strict=True)
    ]


# --------------------------------------------------------------------------------------------------------- face contact


def _clip_face_contacts(
    query: ContactQuery, a: CollisionGeom, b: CollisionGeom, boxes: _BoxPair, face_axis: Value, contact_buffer: str
) -> list[Value]:
    """Face contacts of two boxes: clips the incident face of one box to the reference face of the other.

    The reference face has the normal `face_axis` (0 to 2 of box a, 3 to 5 of box b); the incident face is the face of
    the other box that is most anti-parallel to it. Within the function, x and y are in the reference face relative to
    its centre, and z is along its outward normal. Writes (distance, world point) of each contact to `contact_buffer`.

    Returns:
        The number of contacts, and the contact normal in world axes, from box a to box b.
    """
    is_face_of_a = ir.select(face_axis, 2.5, 1.0, 0.0)

    def select_box(of_a: Vector, of_b: Vector) -> Vector:
        return select_vector(0.5, is_face_of_a, of_a, of_b)

    axis_index = ir.select(0.5, is_face_of_a, face_axis, face_axis - 3.0)
    half, half_other = select_box(boxes.half_a, boxes.half_b), select_box(boxes.half_b, boxes.half_a)
    offset_b = scale(-1.0, rotate_inverse(boxes.rotation, boxes.offset))
    rotation = [select_box(row, other) for row, other in zip(boxes.rotation, transpose(boxes.rotation), strict=True)]
    centre, half = _cycle_axis_to_z(axis_index, select_box(boxes.offset, offset_b)), _cycle_axis_to_z(axis_index, half)
    rotation = transpose([_cycle_axis_to_z(axis_index, column(rotation, k)) for k in range(3)])
    axes = [select_box(column(a.rotation, k), column(b.rotation, k)) for k in range(3)]
    axes = transpose([_cycle_axis_to_z(axis_index, [axis[k] for axis in axes]) for k in range(3)])
    normal_sign = ir.select(centre[2], 0.0, -1.0, 1.0)

    incident_axis, max_cosine = 0.0, ir.absolute(rotation[2][0])
    for k in (1, 2):
        incident_axis = ir.select(max_cosine, ir.absolute(rotation[2][k]), float(k), incident_axis)
        max_cosine = ir.maximum(max_cosine, ir.absolute(rotation[2][k]))
    rotation = [_cycle_axis_to_z(incident_axis, row) for row in rotation]
    half_other = _cycle_axis_to_z(incident_axis, half_other)
    incident_sign = ir.select(0.0, normal_sign * rotation[2][2], -1.0, 1.0)
    face_centre = point_along(centre, incident_sign * half_other[2], column(rotation, 2))
    sides = [scale(half_other[k], column(rotation, k)) for k in range(2)]
    face_vectors = [[*v[:2], normal_sign * v[2]] for v in (face_centre, *sides)]
    face_vectors[0][2] = face_vectors[0][2] - half[2]
    corners = [
        add(face_vectors[0], scale(x, face_vectors[1]), scale(y, face_vectors[2]))
        for x, y in ((1, 1), (-1, 1), (-1, -1), (1, -1))
    ]

    origin = select_box(a.position, b.position)
    normal = scale(normal_sign, axes[2])

    def to_world(x: Value, y: Value, z: Value) -> Vector:
        return add(origin, scale(x, axes[0]), scale(y, axes[1]), scale(half[2] + 0.5 * z, normal))

    n_points = clip_quad_to_rectangle(query, corners, half[:2], to_world, contact_buffer)
    return [n_points, *scale(ir.select(0.5, is_face_of_a, 1.0, -1.0), normal)]


def _unit_axis(axis_index: Value) -> Vector:
    """Unit vector of a coordinate axis given by its traced index (0, 1 or 2)."""
    return [ir.select(ir.absolute(axis_index - float(k)), 0.5, 1.0, 0.0) for k in range(3)]


def _select_by_index(index: Value, a: Value, b: Value, c: Value) -> Value:
    return ir.select(index, 0.5, a, ir.select(index, 1.5, b, c))


def _cycle_axis_to_z(axis_index: Value, vector: Vector) -> Vector:
    """Cyclic permutation of the components of a vector so that the component `axis_index` becomes the last."""
    x, y, z = vector
    return [
        _select_by_index(axis_index, y, z, x),
        _select_by_index(axis_index, z, x, y),
        _select_by_index(axis_index, x, y, z),
    ]

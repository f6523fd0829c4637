"""Analytic contacts of a capsule and a box: spheres at up to two points of the capsule's segment, chosen as in MuJoCo.

The first point of the segment (the axis of the capsule between the centres of its end caps) is the point closest to the
box: an end above a face or inside the box, or the point closest to one of the 12 box edges. From there the segment is
followed along the box face (or the edge, if the segment is nearly parallel to it) until the segment or the face ends;
the second point is there. As in MuJoCo, a segment that passes through the box is judged by its ends and by the edges,
and if no direction exists at a corner, the second point equals the first point.
"""

from __future__ import annotations

from dataclasses import dataclass

from kinema import ir
from kinema.ir import Tracer, Value

from ..vector_math import Vector, rotate_inverse, sub
from .collision_types import CollisionGeom, ContactQuery
from .sphere_capsule_pairs import emit_sphere_box
from .vector_math import column, point_along, select_vector, sign

EDGE_ALIGNMENT_COSINE_SQUARED = 0.5
"""Squared cosine of the angle between segment and box edge above which the edge is followed instead of a face."""
MIN_POSITIVE = 1e-15
UNBOUNDED = 1e30
PARALLEL_SINE = 1e-6
"""Sine of the angle between segment and face below which both count as parallel. In single precision, rounding would
then decide which end or edge is closest; MuJoCo loses the second point of an exactly parallel segment, depending on the
side."""
NEAREST_POINTS_SIZE = 8
"""Scalars of a flattened `_NearestPoints`."""


def collide_capsule_box(query: ContactQuery, capsule: CollisionGeom, box: CollisionGeom) -> None:
    """Contacts of a capsule and a box: spheres at one or two points of the capsule's segment against the box.

    Calls `query.emit_contact` once or twice. The first point of the segment is the closest point to the box; the second
    point is the end of the portion of the segment that runs along the same face or edge.
    """
    tracer = query.tracer
    centre = rotate_inverse(box.rotation, sub(capsule.position, box.position))
    direction = rotate_inverse(box.rotation, column(capsule.rotation, 2))
    segment = _CapsuleSegment(tracer, centre, direction, box.size, capsule.size[1])
    nearest = _find_nearest_points(segment)
    second, has_second = _find_second_point(segment, nearest)
    positions = tracer.allocate_local(2)
    tracer.write(positions, [nearest.segment_position, second])

    def emit_point(index: Value) -> None:
        point = point_along(centre, tracer.read(positions, 0, index), direction)
        emit_sphere_box(query, point, capsule.size[0], box)

    tracer.counted_loop("points", 1.0 + has_second, emit_point, max_iterations=2)


class _CapsuleSegment:
    """Segment (axis) of a capsule in the axes of a box, with the half extents of the box.

    Attributes:
        centre: midpoint of the segment [m].
        direction: unit vector along the segment.
        box_half_extents: half extents of the box [m].
        half_length: half length of the segment [m].
        cyclic_values: local array with centre, direction and half extents, each stored twice so that three
            consecutive components can be read from any axis on.
    """

    def __init__(
        self, tracer: Tracer, centre: Vector, direction: Vector, box_half_extents: Vector, half_length: Value
    ) -> None:
        self.tracer, self.half_length = tracer, half_length
        self.centre, self.direction, self.box_half_extents = centre, direction, box_half_extents
        self.cyclic_values = tracer.allocate_local(18)
        tracer.write(
            self.cyclic_values, [*centre, *centre, *direction, *direction, *box_half_extents, *box_half_extents]
        )

    def cyclic_from_axis(self, first_axis: Value) -> tuple[Vector, Vector, Vector]:
        """Centre, direction and box half extents with components cyclically permuted so that `first_axis` is first."""
        read = self.tracer.read
        centre, direction, half_extents = (
            [read(self.cyclic_values, start + i, first_axis) for i in range(3)] for start in (0, 6, 12)
        )
        return centre, direction, half_extents


@dataclass(frozen=True, slots=True)
class _NearestPoints:
    """Closest points of a capsule's segment and a box feature (face or edge)."""

    distance_squared: Value
    """Squared distance of the two closest points [m^2]."""
    box_axis: Value
    """Index of the box axis parallel to the edge, or normal to the face."""
    segment_position: Value
    """Signed position of the closest point on the segment, from its midpoint [m]."""
    sides: Vector
    """Side of the box (1 or -1) along each axis, cyclically from `box_axis` on; the first is 0 if the closest point is
    within an edge."""
    edge_position: Value
    """Signed position of the closest point along the edge, from its midpoint [m]."""
    segment_end_case: Value
    """1 for a segment end above a face, 2 for a segment end inside the box, 0 for an edge."""

    def flatten(self) -> list[Value]:
        """All fields as a flat list of `NEAREST_POINTS_SIZE` scalars, for storage in a local array."""
        return [
            self.distance_squared,
            self.box_axis,
            self.segment_position,
            *self.sides,
            self.edge_position,
            self.segment_end_case,
        ]


def _find_nearest_points(segment: _CapsuleSegment) -> _NearestPoints:
    """Closest points of a capsule's segment and a box, over segment ends above a face or inside and all 12 edges.

    The candidate with the smallest squared distance is kept in a local array.
    """
    tracer = segment.tracer
    best = tracer.allocate_local(NEAREST_POINTS_SIZE)
    tracer.write(best, _nearest_segment_end(segment))

    def visit_axis(axis: Value) -> None:
        def visit_edge(edge: Value) -> None:
            sides = [sign(edge - 1.5), sign(0.5 - ir.absolute(ir.absolute(edge - 2.0) - 1.0))]
            candidate = _nearest_to_box_edge(segment, axis, sides).flatten()
            best_so_far = [tracer.read(best, i) for i in range(len(candidate))]
            tracer.write(
                best,
                [ir.select(candidate[0], best_so_far[0], x, y) for x, y in zip(candidate, best_so_far, strict=True)],
            )

        tracer.counted_loop("edges", 4.0, visit_edge, uniform=True)

    tracer.counted_loop("axes", 3.0, visit_axis, uniform=True)
    distance_squared, axis, segment_position, *sides, edge_position, segment_end_case = (
        tracer.read(best, i) for i in range(NEAREST_POINTS_SIZE)
    )
    return _NearestPoints(distance_squared, axis, segment_position, sides, edge_position, segment_end_case)


def _nearest_segment_end(segment: _CapsuleSegment) -> list[Value]:
    """Segment end closest to the box among ends above a face or inside, as a flattened `_NearestPoints`.

    An end is above a face if it is outside the box along exactly one axis; its distance is that to the face, and 0 for
    an end inside the box. The squared distance is `UNBOUNDED` if neither end qualifies.
    """
    best: list[Value] = [UNBOUNDED, *[0.0] * (NEAREST_POINTS_SIZE - 1)]
    for side in (-1.0, 1.0):
        end = point_along(segment.centre, side * segment.half_length, segment.direction)
        excess = [ir.absolute(x) - half for x, half in zip(end, segment.box_half_extents, strict=True)]
        n_outside: Value = 0.0
        max_excess, axis = excess[0], 0.0
        for i, distance in enumerate(excess):
            n_outside = n_outside + ir.select(0.0, distance, 1.0, 0.0)
            axis = ir.select(max_excess, distance, float(i), axis)
            max_excess = ir.maximum(max_excess, distance)
        distance = ir.maximum(max_excess, 0.0)
        distance_squared = ir.select(n_outside, 1.5, distance * distance, UNBOUNDED)
        candidate = [distance_squared, axis, side * segment.half_length, 0.0, 0.0, 0.0, 0.0, 2.0 - n_outside]
        best = [ir.select(distance_squared, best[0], x, y) for x, y in zip(candidate, best, strict=True)]
    return best


def _nearest_to_box_edge(segment: _CapsuleSegment, edge_axis: Value, sides: Vector) -> _NearestPoints:
    """Closest points of a capsule's segment and one box edge, both clamped to their ends.

    Args:
        segment: the segment, with the half extents of the box.
        edge_axis: index of the box axis parallel to the edge.
        sides: sides (1 or -1) of the edge along the two following axes.
    """
    centre, direction, half_extents = segment.cyclic_from_axis(edge_axis)
    start = [centre[0], *(c - side * s for c, side, s in zip(centre[1:], sides, half_extents[1:], strict=True))]
    offset_across = start[1] * direction[1] + start[2] * direction[2]
    sine_squared = direction[1] * direction[1] + direction[2] * direction[2]
    # a segment parallel to the edge starts at its negative end
    position = ir.select(
        sine_squared, MIN_POSITIVE, -segment.half_length, -offset_across / ir.maximum(sine_squared, MIN_POSITIVE)
    )
    edge_position, side = _clamp_to_edge(start[0] + position * direction[0], half_extents[0])
    position = ir.select(0.5, ir.absolute(side), direction[0] * (edge_position - start[0]) - offset_across, position)
    clamped_position = ir.clamp(position, -segment.half_length, segment.half_length)
    clamped_edge_position, clamped_side = _clamp_to_edge(start[0] + clamped_position * direction[0], half_extents[0])
    overshoot = ir.absolute(position - clamped_position)
    edge_position = ir.select(0.0, overshoot, clamped_edge_position, edge_position)
    clamped_side = ir.select(0.5, ir.absolute(clamped_side), clamped_side, side)
    side = ir.select(0.0, overshoot, clamped_side, side)
    difference = point_along(start, clamped_position, direction)
    gap = difference[0] - edge_position
    distance_squared = gap * gap + difference[1] * difference[1] + difference[2] * difference[2]
    return _NearestPoints(distance_squared, edge_axis, clamped_position, [side, *sides], edge_position, 0.0)


def _clamp_to_edge(position: Value, half_length: Value) -> tuple[Value, Value]:
    """Position clamped to an edge of a half length, and the end reached (1 or -1), or 0 within the edge."""
    side = ir.select(half_length, ir.absolute(position), sign(position), 0.0)
    return ir.clamp(position, -half_length, half_length), side


def _find_second_point(segment: _CapsuleSegment, nearest: _NearestPoints) -> tuple[Value, Value]:
    """Second contact position on a capsule's segment: end of the portion that follows the box face or edge.

    Starting at the closest point, the segment is followed in the direction given by `_second_point_direction` until the
    segment ends or leaves the extents of the box along the followed axes.

    Returns:
        The signed position on the segment [m], and 1 if there is a second point, otherwise 0.
    """
    centre, direction, half_extents = segment.cyclic_from_axis(nearest.box_axis)
    start_point = point_along(centre, nearest.segment_position, direction)
    is_parallel = [
        _is_parallel_above_face(x, slope, half)
        for x, slope, half in zip(start_point, direction, half_extents, strict=True)
    ]
    direction_sign, is_bounded, has_second = _second_point_direction(direction, is_parallel, nearest)
    at_face = ir.select(0.5, nearest.segment_end_case, 1.0, 0.0)
    direction_sign = ir.select(0.5, at_face, -sign(nearest.segment_position), direction_sign)
    is_bounded = [ir.select(0.5, at_face, x, y) for x, y in zip((0.0, 1.0, 1.0), is_bounded, strict=True)]
    has_second = ir.select(0.5, at_face, ir.select(nearest.segment_end_case, 1.5, 1.0, 0.0), has_second)
    corner = [side * half for side, half in zip(nearest.sides, half_extents, strict=True)]
    corner[0] = ir.select(0.5, ir.absolute(nearest.sides[0]), corner[0], nearest.edge_position)
    max_length: Value = segment.half_length - direction_sign * nearest.segment_position
    for i in range(3):
        slope = ir.absolute(direction[i])
        start = sign(direction_sign * direction[i]) * ir.select(0.5, at_face, start_point[i], corner[i])
        length = ir.select(
            slope, PARALLEL_SINE, UNBOUNDED, (half_extents[i] - start) / ir.maximum(slope, PARALLEL_SINE)
        )
        max_length = ir.select(0.5, is_bounded[i], ir.minimum(max_length, length), max_length)
    has_second = ir.select(
        0.5, is_parallel[0] + is_parallel[1] + is_parallel[2], ir.select(0.0, max_length, has_second, 0.0), has_second
    )
    return nearest.segment_position + direction_sign * max_length, has_second


def _exit_signs(direction: Vector, is_parallel: Vector, nearest: _NearestPoints) -> list[Value]:
    """Whether a segment exits (1) or enters (-1) the extent of the box along each axis, followed in its own direction.

    Along an axis to which the segment is perpendicular (parallel to the face), the sign is the opposite of the sign
    along the axis of the largest direction component, so that this face is followed. If the closest point is within an
    edge, the two faces that meet at the edge decide: the face that the segment leaves less steeply is followed, unless
    the segment exits both or enters both.
    """
    steepness = [ir.absolute(x) for x in direction]
    exits = [side * sign(x) for side, x in zip(nearest.sides, direction, strict=True)]
    steeper_exit, max_steepness = (
        ir.select(steepness[1], steepness[2], exits[2], exits[1]),
        ir.maximum(steepness[1], steepness[2]),
    )
    main_exit = ir.select(steepness[0], max_steepness, steeper_exit, exits[0])
    at_corner = [ir.select(0.5, parallel, -main_exit, x) for parallel, x in zip(is_parallel, exits, strict=True)]
    main_exit = ir.select(max_steepness, PARALLEL_SINE, sign(nearest.segment_position), steeper_exit)
    exits_both = ir.select(0.0, exits[1] * exits[2], 1.0, 0.0) * (1.0 - ir.maximum(is_parallel[1], is_parallel[2]))
    other_exit = ir.select(0.5, exits_both, main_exit, -main_exit)
    is_first_flatter = ir.select(steepness[1], steepness[2], 1.0, 0.0)
    at_edge = [
        main_exit,
        ir.select(0.5, is_first_flatter, other_exit, main_exit),
        ir.select(0.5, is_first_flatter, main_exit, other_exit),
    ]
    return list(select_vector(0.5, ir.absolute(nearest.sides[0]), at_corner, at_edge))


def _is_parallel_above_face(position: Value, direction_component: Value, half_extent: Value) -> Value:
    """1 if a segment is parallel to a box face and its point is not below the face, otherwise 0."""
    return ir.select(
        ir.absolute(direction_component), PARALLEL_SINE, ir.select(ir.absolute(position), half_extent, 0.0, 1.0), 0.0
    )


def _second_point_direction(
    direction: Vector, is_parallel: Vector, nearest: _NearestPoints
) -> tuple[Value, list[Value], Value]:
    """Direction in which a capsule's segment is followed from its closest point to the second contact point.

    Seen from a box corner, the segment exits the box along some axes and enters along others. One of the three axes
    differs from the other two: either the segment follows the edge along this axis or, in the opposite direction, the
    face normal to this axis.

    Returns:
        The sign (1 or -1) of the direction along the segment; flags (1 or 0) of the axes whose box extent bounds the
        portion; 1 if there is a direction to follow, otherwise 0.
    """
    exits = _exit_signs(direction, is_parallel, nearest)
    is_exit = [ir.select(0.0, x, 1.0, 0.0) for x in exits]
    n_exits = is_exit[0] + is_exit[1] + is_exit[2]
    direction_sign = ir.select(n_exits, 1.5, 1.0, -1.0)
    is_odd_axis = [ir.select(n_exits, 1.5, x, 1.0 - x) for x in is_exit]
    cosine = is_odd_axis[0] * direction[0] + is_odd_axis[1] * direction[1] + is_odd_axis[2] * direction[2]
    follows_edge = ir.select(EDGE_ALIGNMENT_COSINE_SQUARED, cosine * cosine, 1.0, 0.0)
    is_bounded = [ir.select(0.5, follows_edge, x, 1.0 - x) for x in is_odd_axis]
    has_second = ir.select(ir.absolute(n_exits - 1.5), 1.0, 1.0, 0.0)
    return ir.select(0.5, follows_edge, -direction_sign, direction_sign), is_bounded, has_second

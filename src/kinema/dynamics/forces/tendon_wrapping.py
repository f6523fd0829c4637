"""Shortest path of a tendon around a sphere or cylinder (MuJoCo's wrapping), as branch-free code.

The path wraps around the outside, on the side of a side site if there is one; if the side site is inside the geom, the
path goes through the inside and touches the surface once. All cases are computed, and a flag tells whether the path
wraps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kinema import ir
from kinema.ir import Tracer, Value, while_loop

from ..vector_math import Vector, add, cross, dot, quaternion_to_rotation_vector, scale, sub

MIN_LENGTH = 1e-15
MIN_SQUARED_LENGTH = 1e-30
MAX_NEWTON_STEPS, CONVERGED_RESIDUAL, RESIDUAL_TOLERANCE = 20, 1e-4, 1e-14
"""Newton iteration for the contact point of an inside path: iteration limit, residual below which the result counts as
converged, and residual below which the iteration stops (it also stops when the residual no longer decreases)."""
CROSSED_PATH_SCORE = -10000.0
"""Score of a candidate path whose two tangent segments cross."""
Point2D = Sequence[Value]


@dataclass(frozen=True, slots=True)
class WrappedPath:
    """Wrapped path in the axes of the geom: wrap flag (1 if it touches the geom), arc length, tangent points."""

    wraps: Value
    length: Value
    start_point: Vector
    end_point: Vector


def less_than(a: Value, b: Value) -> Value:
    """1 where a < b, else 0."""
    return ir.select(a, b, 1.0, 0.0)


def select_list(flag: Value, a: Point2D, b: Point2D) -> list[Value]:
    """Elementwise select: `a` where `flag` is 1, `b` where it is 0."""
    return [ir.select(0.5, flag, x, y) for x, y in zip(a, b, strict=True)]


def angle_from_cos_sin(cosine: Value, sine: Value) -> Value:
    """Angle in [0, pi] from a cosine and a nonnegative sine, both scaled by any common factor."""
    norm = ir.sqrt(ir.maximum(cosine * cosine + sine * sine, MIN_SQUARED_LENGTH))
    half = [ir.select(0.0, cosine, norm + cosine, sine), ir.select(0.0, cosine, sine, norm - cosine)]
    inverse = 1.0 / ir.sqrt(ir.maximum(half[0] * half[0] + half[1] * half[1], MIN_SQUARED_LENGTH))
    return quaternion_to_rotation_vector([half[0] * inverse, half[1] * inverse, 0.0, 0.0])[0]


def asin(x: Value) -> Value:
    """Arc sine of x in [0, 1]."""
    return angle_from_cos_sin(ir.sqrt(ir.maximum((1.0 - x) * (1.0 + x), 0.0)), x)


def wrap_path(
    kind: str,
    start_point: Vector,
    end_point: Vector,
    radius: Value,
    side_site: Vector | None,
    tracer: Tracer | None = None,
) -> WrappedPath:
    """Shortest path between two points around a sphere or a cylinder (axis z) at the origin; MuJoCo's tendon wrapping.

    Returns whether the path wraps, the length of its curved part and the two tangent points.

    Args:
        kind: geom type and side: "sphere" or "cylinder", optionally followed by "beside", "inside" or "either".
        start_point: start of the path in the axes of the geom [m].
        end_point: end of the path in the axes of the geom [m].
        radius: radius of the geom [m].
        side_site: position of the side site; for "either" its position tells whether the path goes outside or inside.
        tracer: traces the iteration of inside paths.
    """
    geom_type, _, side = kind.partition(" ")
    x, y = _wrap_plane_axes(start_point, end_point) if geom_type == "sphere" else ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0))
    start, end = ([dot(p, x), dot(p, y)] for p in (start_point, end_point))
    side_point = None if side_site is None else [dot(side_site, x), dot(side_site, y)]
    if side_point is None or side == "inside":
        path = (
            _wrap_outside_circle(start, end, radius, None)
            if side_point is None
            else _wrap_inside_circle(start, end, radius, tracer)
        )
    else:
        path = _wrap_outside_circle(start, end, radius, scale(radius, _normalize(side_point)))
    if side_site is not None and side == "either":
        is_inside = less_than(dot(side_site, side_site), radius * radius)
        path = _CirclePath(
            *select_list(is_inside, _wrap_inside_circle(start, end, radius, tracer).as_list(), path.as_list())
        )
    valid = (less_than(MIN_LENGTH, ir.sqrt(dot(start_point, start_point)))) * less_than(
        MIN_LENGTH, ir.sqrt(dot(end_point, end_point))
    )
    first, last = (add(scale(u, x), scale(v, y)) for u, v in ((path.x0, path.y0), (path.x1, path.y1)))
    if geom_type == "sphere":
        return WrappedPath(path.wraps * valid, path.length, first, last)
    return _lift_to_cylinder(WrappedPath(path.wraps * valid, path.length, first, last), start_point, end_point)


def _lift_to_cylinder(path: WrappedPath, start: Vector, end: Vector) -> WrappedPath:
    """Extend a planar path around a circle to a cylinder: the height changes linearly along the path."""
    start_length, end_length = (
        ir.sqrt(dot(d, d)) for d in (sub(start, path.start_point)[:2], sub(end, path.end_point)[:2])
    )
    slope = (end[2] - start[2]) / ir.maximum(start_length + path.length + end_length, MIN_SQUARED_LENGTH)
    low, high = start[2] + slope * start_length, start[2] + slope * (start_length + path.length)
    rise = high - low
    length = ir.sqrt(path.length * path.length + rise * rise)
    return WrappedPath(path.wraps, length, [*path.start_point[:2], low], [*path.end_point[:2], high])


def _wrap_plane_axes(start: Vector, end: Vector) -> tuple[Vector, Vector]:
    """Orthonormal axes of the plane through the origin and two points.

    An arbitrary such plane if they are collinear.
    """
    x = _normalize(start)
    normal = cross(start, end)
    norm = ir.sqrt(dot(normal, normal))
    magnitudes = [ir.absolute(v) for v in x]
    is_y = less_than(magnitudes[0], magnitudes[1]) * less_than(magnitudes[2], magnitudes[1])
    is_z = less_than(magnitudes[0], magnitudes[2]) * less_than(magnitudes[1], magnitudes[2])
    other = [is_y + is_z, 1.0 - is_y, 1.0 - is_z]
    normal = select_list(
        less_than(norm, MIN_LENGTH),
        _normalize(cross(x, other)),
        scale(1.0 / ir.maximum(norm, MIN_SQUARED_LENGTH), normal),
    )
    return x, _normalize(cross(normal, x))


def _normalize(v: Vector) -> Vector:
    return scale(1.0 / ir.sqrt(ir.maximum(dot(v, v), MIN_SQUARED_LENGTH)), v)


@dataclass(frozen=True, slots=True)
class _CirclePath:
    """Planar path around a circle: wrap flag, arc length, and contact points (x0, y0) and (x1, y1)."""

    wraps: Value
    length: Value
    x0: Value
    y0: Value
    x1: Value
    y1: Value

    def as_list(self) -> list[Value]:
        return [self.wraps, self.length, self.x0, self.y0, self.x1, self.y1]


def _closest_point_to_origin(a: Point2D, b: Point2D) -> tuple[Vector, Value]:
    """Point of a segment closest to the origin, and the squared length of the segment."""
    direction = sub(b, a)
    squared_length = dot(direction, direction)
    fraction = ir.clamp(-dot(direction, a) / ir.maximum(squared_length, MIN_SQUARED_LENGTH), 0.0, 1.0)
    return add(a, scale(fraction, direction)), squared_length


def _wrap_outside_circle(start: Point2D, end: Point2D, radius: Value, side_point: Point2D | None) -> _CirclePath:
    """Planar path around the outside of a circle: the shorter tangent path if the straight segment hits the circle.

    With a side point, a segment that passes the centre on the opposite side wraps around the side of that point.
    """
    squared_radius = radius * radius
    nearest, squared_distance = _closest_point_to_origin(start, end)
    outside = [1.0 - less_than(dot(p, p), squared_radius) for p in (start, end)]
    clear = less_than(squared_radius, dot(nearest, nearest))
    candidates = [[*_tangent_point(start, radius, sign), *_tangent_point(end, radius, -sign)] for sign in (1.0, -1.0)]
    crossed = [_segments_cross(start, points[:2], end, points[2:]) for points in candidates]
    scores = []
    for candidate, crosses in zip(candidates, crossed, strict=True):
        chord = sub(candidate[:2], candidate[2:])
        scores.append(ir.select(0.5, crosses, CROSSED_PATH_SCORE, -dot(chord, chord)))
    use_first = less_than(scores[1], scores[0])
    if side_point is not None:
        away, clockwise = _passes_behind(start, end, side_point)
        use_first, clear = ir.select(0.5, away, clockwise, use_first), clear * (1.0 - away)
    wraps = outside[0] * outside[1] * (1.0 - less_than(squared_distance, MIN_LENGTH)) * (1.0 - clear)
    x0, y0, x1, y1 = select_list(use_first, candidates[0], candidates[1])
    (is_crossed,) = select_list(use_first, crossed[:1], crossed[1:])
    cross_product = y0 * x1 - x0 * y1
    angle = angle_from_cos_sin(x0 * x1 + y0 * y1, ir.absolute(cross_product))
    backwards = less_than(ir.select(0.5, use_first, cross_product, -cross_product), 0.0)
    angle = ir.select(0.5, backwards, 2.0 * math.pi - angle, angle)
    return _CirclePath(wraps * (1.0 - is_crossed), radius * angle, x0, y0, x1, y1)


def _passes_behind(start: Point2D, end: Point2D, side_point: Point2D) -> tuple[Value, Value]:
    """Flags (1 or 0): a segment passes the origin on the side opposite to a point; the path round it is clockwise.

    Clockwise is the first of the two candidate paths.
    """
    sides = [side_point[0] * p[1] - side_point[1] * p[0] for p in (start, end)]
    passes = less_than(sides[0] * sides[1], 0.0)
    fraction = sides[0] / ir.select(0.5, passes, sides[0] - sides[1], 1.0)
    crossing = add(start, scale(fraction, sub(end, start)))
    return passes * less_than(dot(crossing, side_point), 0.0), less_than(0.0, sides[0])


def _tangent_point(point: Point2D, radius: Value, sign: float) -> list[Value]:
    """Point where a tangent from `point` touches the circle about the origin.

    `sign` selects one of the two tangents.
    """
    squared_distance = ir.maximum(dot(point, point), MIN_SQUARED_LENGTH)
    reach = (sign * radius) * ir.sqrt(ir.maximum(squared_distance - radius * radius, 0.0))
    squared_radius = radius * radius
    return [
        (point[0] * squared_radius + point[1] * reach) / squared_distance,
        (point[1] * squared_radius - point[0] * reach) / squared_distance,
    ]


def _segments_cross(a: Point2D, b: Point2D, c: Point2D, d: Point2D) -> Value:
    """1 if the segments ab and cd intersect, else 0; 0 also for parallel segments."""
    first, second, offset = sub(b, a), sub(d, c), sub(a, c)
    determinant = second[1] * first[0] - second[0] * first[1]
    parallel = less_than(ir.absolute(determinant), MIN_LENGTH)
    inverse = 1.0 / ir.select(0.5, parallel, 1.0, determinant)
    parameters = [
        (second[0] * offset[1] - second[1] * offset[0]) * inverse,
        (first[0] * offset[1] - first[1] * offset[0]) * inverse,
    ]
    inside: Value = 1.0 - parallel
    for parameter in parameters:
        inside = inside * (1.0 - less_than(parameter, 0.0)) * (1.0 - less_than(1.0, parameter))
    return inside


def _wrap_inside_circle(start: Point2D, end: Point2D, radius: Value, tracer: Tracer | None) -> _CirclePath:
    """Planar path through the inside of a circle, which touches the circle in one point (arc length zero).

    Wraps only if the straight segment stays outside the circle and both end points are outside. The angle x at the
    contact point solves asin(A sin x) + asin(B sin x) - 2 x + G = 0, with A and B the radius over the distances of both
    points and G the angle between them. The left side decreases on [0, pi/2]; Newton's method starts at pi/2. Without
    convergence the contact point is on the bisector.
    """
    distances = [ir.sqrt(dot(p, p)) for p in (start, end)]
    nearest, _ = _closest_point_to_origin(start, end)
    wraps = less_than(radius, ir.sqrt(dot(nearest, nearest)))
    for distance in distances:
        wraps = wraps * less_than(radius, distance)
    ratios = [ir.minimum(radius / ir.maximum(distance, MIN_SQUARED_LENGTH), 1.0) for distance in distances]
    cross_product, dot_product = start[0] * end[1] - start[1] * end[0], dot(start, end)
    angle_between = angle_from_cos_sin(dot_product, ir.absolute(cross_product))
    cosine = dot_product / ir.maximum(distances[0] * distances[1], MIN_SQUARED_LENGTH)
    wraps = wraps * (1.0 - less_than(cosine, MIN_LENGTH - 1.0))

    def residual(x: Value) -> Value:
        sine = ir.sin(x)
        return asin(ratios[0] * sine) + asin(ratios[1] * sine) - 2.0 * x + angle_between

    def step(state: Sequence[Value]) -> tuple[list[Value], Value, Value]:
        x, value = state
        sine, derivative = ir.sin(x), -2.0
        for ratio in ratios:
            cosine_term = ir.sqrt(ir.maximum(1.0 - ir.square(ratio * sine), MIN_LENGTH))
            derivative = derivative + ratio * ir.cos(x) / cosine_term
        next_x = ir.clamp(x - value / ir.minimum(derivative, -MIN_LENGTH), 0.0, 0.5 * math.pi)
        next_value = residual(next_x)
        magnitude = ir.absolute(next_value)
        return [next_x, next_value], RESIDUAL_TOLERANCE, ir.select(magnitude, ir.absolute(value), magnitude, 0.0)

    x, next_value = while_loop(
        tracer, "inside wrapping", step, [0.5 * math.pi, residual(0.5 * math.pi)], MAX_NEWTON_STEPS
    )
    converged = less_than(ir.absolute(next_value), CONVERGED_RESIDUAL) * less_than(cosine, 1.0 - MIN_LENGTH)
    counterclockwise = less_than(0.0, cross_product)
    base = _normalize(select_list(counterclockwise, start, end))
    (ratio,) = select_list(counterclockwise, ratios[:1], ratios[1:])
    angle = x - asin(ratio * ir.sin(x))
    c, s = ir.cos(angle), ir.sin(angle)
    rotated = [c * base[0] - s * base[1], s * base[0] + c * base[1]]
    u, v = scale(radius, select_list(converged, rotated, _normalize(add(start, end))))
    return _CirclePath(wraps, 0.0, u, v, u, v)

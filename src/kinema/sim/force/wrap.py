"""The shortest way around a sphere or a cylinder, as MuJoCo finds it: around a circle in a plane.

A way is around the outside, perhaps beside a given point, or, where that point is inside, through the inside, where it
touches the shape once. Nothing branches: all of it is computed, and whether the way is wrapped at all is a number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kinema import trace
from kinema.trace import Recorder, Value, repeat

from ..sweeps.maths import Vector, add, cross, dot, rotation_vector, scale, sub

SMALLEST = 1e-15
TINY = 1e-30
MOST_STEPS, NEAR, NEAREST = 20, 1e-4, 1e-14
"""Of the search for the point that a way through the inside touches: it ends where rounding keeps it from getting
nearer; what is not near in the end has not been found."""
WORST = -10000.0
Point = Sequence[Value]


@dataclass(frozen=True, slots=True)
class Way:
    """Around a shape, in its axes: whether it is touched at all (1 or 0), how long that is, and from where to where."""

    wraps: Value
    length: Value
    first: Vector
    last: Vector


def below(a: Value, b: Value) -> Value:
    """1 where a < b, else 0."""
    return trace.select(a, b, 1.0, 0.0)


def chosen(which: Value, a: Point, b: Point) -> list[Value]:
    """The first where `which` is 1, the second where it is 0."""
    return [trace.select(0.5, which, x, y) for x, y in zip(a, b, strict=True)]


def angle_of(cosine: Value, sine: Value) -> Value:
    """The angle between 0 and a half turn with that cosine and sine, both times any length."""
    size = trace.sqrt(trace.maximum(cosine * cosine + sine * sine, TINY))
    half = [trace.select(0.0, cosine, size + cosine, sine), trace.select(0.0, cosine, sine, size - cosine)]
    inverse = 1.0 / trace.sqrt(trace.maximum(half[0] * half[0] + half[1] * half[1], TINY))
    return rotation_vector([half[0] * inverse, half[1] * inverse, 0.0, 0.0])[0]


def arcsine(x: Value) -> Value:
    """Of a number between 0 and 1."""
    return angle_of(trace.sqrt(trace.maximum((1.0 - x) * (1.0 + x), 0.0)), x)


def way_around(
    kind: str, a: Vector, b: Vector, radius: Value, beside: Vector | None, recorder: Recorder | None = None
) -> Way:
    """From one point to another around a shape at the origin, along z; the kind says which, and on which side.

    The side is none, `beside` a point, through the `inside`, or `either`, as the point is outside or inside.
    """
    shape, _, side = kind.partition(" ")
    x, y = _plane(a, b) if shape == "sphere" else ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0))
    start, end = ([dot(p, x), dot(p, y)] for p in (a, b))
    on_side = None if beside is None else [dot(beside, x), dot(beside, y)]
    if on_side is None or side == "inside":
        way = _circle(start, end, radius, None) if on_side is None else _inside(start, end, radius, recorder)
    else:
        way = _circle(start, end, radius, scale(radius, _unit(on_side)))
    if beside is not None and side == "either":
        within = below(dot(beside, beside), radius * radius)
        way = _Flat(*chosen(within, _inside(start, end, radius, recorder).flat(), way.flat()))
    touching = (below(SMALLEST, trace.sqrt(dot(a, a)))) * below(SMALLEST, trace.sqrt(dot(b, b)))
    first, last = (add(scale(u, x), scale(v, y)) for u, v in ((way.x0, way.y0), (way.x1, way.y1)))
    if shape == "sphere":
        return Way(way.wraps * touching, way.length, first, last)
    return _raised(Way(way.wraps * touching, way.length, first, last), a, b)


def _raised(way: Way, a: Vector, b: Vector) -> Way:
    """Around a cylinder: heights change evenly along the way."""
    before, after = (trace.sqrt(dot(d, d)) for d in (sub(a, way.first)[:2], sub(b, way.last)[:2]))
    slope = (b[2] - a[2]) / trace.maximum(before + way.length + after, TINY)
    low, high = a[2] + slope * before, a[2] + slope * (before + way.length)
    rise = high - low
    length = trace.sqrt(way.length * way.length + rise * rise)
    return Way(way.wraps, length, [*way.first[:2], low], [*way.last[:2], high])


def _plane(a: Vector, b: Vector) -> tuple[Vector, Vector]:
    """Axes of the plane through the origin and two points; of any through them where these are on one line."""
    x = _unit(a)
    normal = cross(a, b)
    size = trace.sqrt(dot(normal, normal))
    large = [trace.absolute(v) for v in x]
    is_y = below(large[0], large[1]) * below(large[2], large[1])
    is_z = below(large[0], large[2]) * below(large[1], large[2])
    other = [is_y + is_z, 1.0 - is_y, 1.0 - is_z]
    normal = chosen(below(size, SMALLEST), _unit(cross(x, other)), scale(1.0 / trace.maximum(size, TINY), normal))
    return x, _unit(cross(normal, x))


def _unit(v: Vector) -> Vector:
    return scale(1.0 / trace.sqrt(trace.maximum(dot(v, v), TINY)), v)


@dataclass(frozen=True, slots=True)
class _Flat:
    """A way around a circle."""

    wraps: Value
    length: Value
    x0: Value
    y0: Value
    x1: Value
    y1: Value

    def flat(self) -> list[Value]:
        return [self.wraps, self.length, self.x0, self.y0, self.x1, self.y1]


def _nearest(a: Point, b: Point) -> tuple[Vector, Value]:
    """The point nearest to the origin between two points, and the square of their distance."""
    along = sub(b, a)
    square = dot(along, along)
    share = trace.clamp(-dot(along, a) / trace.maximum(square, TINY), 0.0, 1.0)
    return add(a, scale(share, along)), square


def _circle(a: Point, b: Point, radius: Value, towards: Point | None) -> _Flat:
    """Around the outside: the shorter way where the straight one hits the circle.

    Where the straight one passes the centre on the side away from a given point, it goes around on that point's side.
    """
    square = radius * radius
    nearest, apart = _nearest(a, b)
    outside = [1.0 - below(dot(p, p), square) for p in (a, b)]
    clear = below(square, dot(nearest, nearest))
    ways = [[*_tangent(a, radius, sign), *_tangent(b, radius, -sign)] for sign in (1.0, -1.0)]
    crossed = [_crosses(a, w[:2], b, w[2:]) for w in ways]
    good = []
    for way, cross_ in zip(ways, crossed, strict=True):
        across = sub(way[:2], way[2:])
        good.append(trace.select(0.5, cross_, WORST, -dot(across, across)))
    first = below(good[1], good[0])
    if towards is not None:
        away, clockwise = _passes_behind(a, b, towards)
        first, clear = trace.select(0.5, away, clockwise, first), clear * (1.0 - away)
    wraps = outside[0] * outside[1] * (1.0 - below(apart, SMALLEST)) * (1.0 - clear)
    x0, y0, x1, y1 = chosen(first, ways[0], ways[1])
    (is_crossed,) = chosen(first, crossed[:1], crossed[1:])
    turn = y0 * x1 - x0 * y1
    angle = angle_of(x0 * x1 + y0 * y1, trace.absolute(turn))
    backwards = below(trace.select(0.5, first, turn, -turn), 0.0)
    angle = trace.select(0.5, backwards, 2.0 * math.pi - angle, angle)
    return _Flat(wraps * (1.0 - is_crossed), radius * angle, x0, y0, x1, y1)


def _passes_behind(a: Point, b: Point, side: Point) -> tuple[Value, Value]:
    """Whether a segment passes the origin on the far side of a point, and whether it is clockwise to go around there.

    Clockwise is the first of the two ways.
    """
    left = [side[0] * p[1] - side[1] * p[0] for p in (a, b)]
    passes = below(left[0] * left[1], 0.0)
    share = left[0] / trace.select(0.5, passes, left[0] - left[1], 1.0)
    where = add(a, scale(share, sub(b, a)))
    return passes * below(dot(where, side), 0.0), below(0.0, left[0])


def _tangent(p: Point, radius: Value, sign: float) -> list[Value]:
    """Where a tangent from a point touches the circle."""
    square = trace.maximum(dot(p, p), TINY)
    reach = (sign * radius) * trace.sqrt(trace.maximum(square - radius * radius, 0.0))
    inner = radius * radius
    return [(p[0] * inner + p[1] * reach) / square, (p[1] * inner - p[0] * reach) / square]


def _crosses(a: Point, b: Point, c: Point, d: Point) -> Value:
    """Whether two segments cross: 1 or 0."""
    one, other, between = sub(b, a), sub(d, c), sub(a, c)
    area = other[1] * one[0] - other[0] * one[1]
    parallel = below(trace.absolute(area), SMALLEST)
    inverse = 1.0 / trace.select(0.5, parallel, 1.0, area)
    shares = [
        (other[0] * between[1] - other[1] * between[0]) * inverse,
        (one[0] * between[1] - one[1] * between[0]) * inverse,
    ]
    inside: Value = 1.0 - parallel
    for share in shares:
        inside = inside * (1.0 - below(share, 0.0)) * (1.0 - below(1.0, share))
    return inside


def _inside(a: Point, b: Point, radius: Value, recorder: Recorder | None) -> _Flat:
    """Through the inside: the way touches the circle where it is reflected, once, unless it passes it freely.

    The angle of reflection x is where asin(A sin x) + asin(B sin x) - 2 x + G = 0, which falls all the way from 0 to a
    right angle, at which the way only grazes the circle.
    """
    sizes = [trace.sqrt(dot(p, p)) for p in (a, b)]
    nearest, _ = _nearest(a, b)
    wraps = below(radius, trace.sqrt(dot(nearest, nearest)))
    for size in sizes:
        wraps = wraps * below(radius, size)
    shares = [trace.minimum(radius / trace.maximum(size, TINY), 1.0) for size in sizes]
    turn, along = a[0] * b[1] - a[1] * b[0], dot(a, b)
    between = angle_of(along, trace.absolute(turn))
    cosine = along / trace.maximum(sizes[0] * sizes[1], TINY)
    wraps = wraps * (1.0 - below(cosine, SMALLEST - 1.0))

    def missing(x: Value) -> Value:
        sine = trace.sin(x)
        return arcsine(shares[0] * sine) + arcsine(shares[1] * sine) - 2.0 * x + between

    def step(state: Sequence[Value]) -> tuple[list[Value], Value, Value]:
        x, rest = state
        sine, slope = trace.sin(x), -2.0
        for share in shares:
            falls = trace.sqrt(trace.maximum(1.0 - trace.square(share * sine), SMALLEST))
            slope = slope + share * trace.cos(x) / falls
        moved = trace.clamp(x - rest / trace.minimum(slope, -SMALLEST), 0.0, 0.5 * math.pi)
        left = missing(moved)
        missed = trace.absolute(left)
        return [moved, left], NEAREST, trace.select(missed, trace.absolute(rest), missed, 0.0)

    x, left = repeat(recorder, "a way inside", step, [0.5 * math.pi, missing(0.5 * math.pi)], MOST_STEPS)
    found = below(trace.absolute(left), NEAR) * below(cosine, 1.0 - SMALLEST)
    ahead = below(0.0, turn)
    base = _unit(chosen(ahead, a, b))
    (share,) = chosen(ahead, shares[:1], shares[1:])
    angle = x - arcsine(share * trace.sin(x))
    c, s = trace.cos(angle), trace.sin(angle)
    turned = [c * base[0] - s * base[1], s * base[0] + c * base[1]]
    u, v = scale(radius, chosen(found, turned, _unit(add(a, b))))
    return _Flat(wraps, 0.0, u, v, u, v)

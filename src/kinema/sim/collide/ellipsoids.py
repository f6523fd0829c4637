"""Spheres with ellipsoids: the nearest point of an ellipsoid is a root of one number, found by Newton's method."""

from __future__ import annotations

from collections.abc import Sequence

from kinema import trace
from kinema.trace import Recorder, Value

from ..sweeps.maths import Vector, dot, rotate, scale, sub, unrotate
from .solid import Solid, Work
from .vectors import along

THINNEST = 1e-6
"""Ellipsoids that are thinner than this part of their largest half axis are taken for so thin."""
SMALLEST = 1e-15
MIDDLE = 1e-12
"""Of a half axis: a point that is nearer to the middle is taken for so far from it, to one side."""
MOST_STEPS, NEAR = 40, 1e-8
"""Steps end where one is this part of the number; the next would be the square of that."""


def sphere_ellipsoid(work: Work, sphere: Solid, ellipsoid: Solid) -> None:
    """One point, at the nearest of the ellipsoid's surface to the sphere's centre, from outside and from inside."""
    centre = unrotate(ellipsoid.rotation, sub(sphere.position, ellipsoid.position))
    largest = trace.maximum(trace.maximum(*ellipsoid.size[:2]), ellipsoid.size[2])
    half = [trace.maximum(trace.maximum(x, THINNEST * largest), SMALLEST) for x in ellipsoid.size]
    sides = [trace.select(x, 0.0, -1.0, 1.0) for x in centre]
    shares = _nearest(work.recorder, [trace.absolute(x) for x in centre], half)
    nearest = [side * e * share for side, e, share in zip(sides, half, shares, strict=True)]
    least = trace.minimum(trace.minimum(*half[:2]), half[2])
    out = [side * share * (least / e) for side, e, share in zip(sides, half, shares, strict=True)]
    out = scale(1.0 / trace.sqrt(dot(out, out)), out)
    gap = dot(sub(centre, nearest), out) - sphere.size[0]
    normal = scale(-1.0, rotate(ellipsoid.rotation, out))
    work.emit(gap, along(sphere.position, sphere.size[0] + 0.5 * gap, normal), normal)


def _nearest(recorder: Recorder, point: Vector, half: Vector) -> list[Value]:
    """The nearest point of an ellipsoid in parts of its half axes: a vector as long as one.

    The nearest point x has the point y on its normal: y = x + t x / e² for a number t, in each direction. With
    u = 1 + t / (the least e)² that is x / e = r (y / e) / (u + r - 1), where r is e² over the least of them, and u is
    the number above zero for which this vector has the length one. One over its length is nearly a straight line in u,
    and bends one way: Newton's method from below never goes too far.
    """
    least = trace.minimum(trace.minimum(*half[:2]), half[2])
    parts = [trace.maximum(y / e, MIDDLE) for y, e in zip(point, half, strict=True)]
    ratios = [(e / least) * (e / least) for e in half]
    more = [((e - least) / least) * ((e + least) / least) for e in half]
    tops = [r * z for r, z in zip(ratios, parts, strict=True)]
    start: Value = SMALLEST
    for top, extra in zip(tops, more, strict=True):
        start = trace.maximum(start, top - extra)  # this direction alone has the length one there

    def shares(u: Value) -> list[Value]:
        return [top / (u + extra) for top, extra in zip(tops, more, strict=True)]

    def step(state: Sequence[Value]) -> tuple[list[Value], Value, Value]:
        (u,) = state
        vector = shares(u)
        squared = dot(vector, vector)
        slope = dot(vector, [share / (u + extra) for share, extra in zip(vector, more, strict=True)])
        forward = trace.maximum(squared * (trace.sqrt(squared) - 1.0) / trace.maximum(slope, SMALLEST), 0.0)
        return [u + forward], NEAR * u, forward

    (u,) = recorder.repeat("nearest of an ellipsoid", step, [start], MOST_STEPS)
    vector = shares(u)
    return [x / trace.sqrt(dot(vector, vector)) for x in vector]

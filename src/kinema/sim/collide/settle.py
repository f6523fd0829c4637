"""Where the surface of a difference is nearest to the origin inside it, near a direction that is known about.

A point beyond the surface looks back at it: what is nearest to that is a question of shapes that are apart, which has
one answer, and a quick one also where the surface has faces and edges. The way there tells a better direction, and the
point moves to lie along it. Where the origin is as deep as u below a surface that is bent with the radius R, and the
point as far beyond, an error of the direction becomes 2 u / (R + u) of it, and next to faces nothing at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kinema import trace
from kinema.trace import Value

from ..sweeps.maths import ZERO, Vector, dot, scale, sub
from .directions import below, unit
from .nearest import Difference, Feature, Point, nearest_feature
from .vectors import either

STEPS = 40
"""At most. Half of all need ten to fifteen, one in a hundred thirty."""
SLACK = 1e-10
"""How near is near enough, beside rounding."""
IDLE = 12
"""Steps that may bring nothing one after the other."""
BEYOND = 0.05
"""How far the point is beyond the surface at least: the nearer, the less is known of the direction back."""
SAME = 1e-3
"""Between directions that are the same [rad]: the error of the depth is about the square."""
SHARE, LONG = 1e-3, 0.03
"""Points of which there is so much in the nearest point, and that are so far from each other, are ends of an edge, and
not only points of what is round."""


@dataclass(frozen=True, slots=True)
class Settled:
    """A direction in which the difference is less deep than in others about it."""

    direction: Vector
    depth: Value
    point: Point
    """Of the surface, below the origin."""
    sure: Value
    """1 where the point on the surface and the one beyond it agree about the direction."""
    edge: Vector
    """The direction of an edge that the point is on, which the direction is across; zero where there is none."""

    def flat(self) -> list[Value]:
        """As a list."""
        return [*self.direction, self.depth, *self.point, self.sure, *self.edge]

    @classmethod
    def of(cls, flat: Sequence[Value]) -> Settled:
        """From such a list."""
        return cls(flat[:3], flat[3], flat[4:10], flat[10], flat[11:14])


def settle(difference: Difference, direction: Vector, points: Sequence[Point]) -> Settled:
    """The least depth near a direction; any points of the difference to begin with."""
    depth = dot(difference.farthest(direction)[:3], direction)
    tolerance = difference.rounding + SLACK

    def step(flat: Sequence[Value]) -> tuple[list[Value], Value, Value]:
        best, least, back, far, idle = flat[:3], flat[3], flat[4:7], flat[7], flat[8]
        points = [flat[i : i + 6] for i in (9, 15, 21)]
        new = difference.farthest(back)
        depth = dot(new[:3], back)
        near_enough = below(far - dot(back, sub(_beyond(best, least), new[:3])), tolerance)
        better = below(depth, least - 0.25 * tolerance)
        best, least = either(depth, least, back, best), trace.minimum(least, depth)
        found = _look_back(difference, _beyond(best, least), new, points, back)
        idle = trace.select(0.5, better, 0.0, idle + 1.0 + float(IDLE) * near_enough)
        kept = [x for p in found.points for x in p[3:]]
        return [*best, least, *found.direction, found.distance, idle, *kept, *found.shares], idle, IDLE - 0.5

    start = [*direction, depth, *direction, 1.0 / tolerance, 0.0, *(x for p in points for x in p), 1.0, 0.0, 0.0]
    end = difference.recorder.repeat("settle", step, start, STEPS)
    best, back, shares = end[:3], end[4:7], end[27:30]
    point = [dot(shares, [end[i + k] for i in (9, 15, 21)]) for k in range(6)]
    apart = sub(best, back)
    edge = _edge([end[i : i + 3] for i in (9, 15, 21)], shares)
    return Settled(best, end[3], point, below(dot(apart, apart), SAME * SAME), edge)


def _edge(points: Sequence[Vector], shares: Sequence[Value]) -> Vector:
    """Along the two points that are the farthest from each other of those that matter, if that is far."""
    longest: Vector = ZERO
    for i, j in ((0, 1), (0, 2), (1, 2)):
        part = below(SHARE, trace.minimum(shares[i], shares[j]))
        along = scale(part, sub(points[i], points[j]))
        longest = either(dot(longest, longest), dot(along, along), along, longest)
    return either(dot(longest, longest), LONG * LONG, ZERO, unit(longest))


def _beyond(direction: Vector, depth: Value) -> Vector:
    """A point outside, above the place that is nearest to the origin."""
    return scale(depth + trace.maximum(depth, BEYOND), direction)


def _look_back(
    difference: Difference, place: Vector, new: Point, points: Sequence[Point], otherwise: Vector
) -> Feature:
    """What is nearest to a place of what points make; they keep what they were after what they are from there."""
    seen, *olds = ([*sub(p[:3], place), *p] for p in (new, *points))
    return nearest_feature(seen, olds, otherwise, 64.0 * difference.rounding)

"""How far two convex shapes are from each other: the method of Gilbert, Johnson and Keerthi.

The *difference* of two shapes is all that their points differ by; their distance is its distance from the origin. The
nearest of its points is sought among corners, edges and triangles made of points that are the farthest in directions
that lead nearer and nearer to the origin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kinema import trace
from kinema.trace import Recorder, Value

from ..sweeps.maths import Vector, add, cross, dot, scale, sub
from .directions import TINY, below, unit
from .vectors import either, sign

STEPS = 60
"""At most. Shapes with corners take about ten, round ones twice as many, in double precision more."""
SLACK = 1e-10
"""How near is near enough, beside rounding."""
IDLE = 4
"""Steps that may bring nothing one after the other."""
FAR = 1e15
Point = Sequence[Value]
"""A point of the difference, and the point of the first shape that it is made with: six numbers."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Two shapes of about the size 1."""

    recorder: Recorder
    farthest: Callable[[Vector], Point]
    rounding: Value
    """Of numbers about 1."""
    is_round: bool = False
    """Whether it has no end of corners."""


@dataclass(frozen=True, slots=True)
class Nearest:
    """Where two shapes are nearest, or deepest in each other."""

    direction: Vector
    """From the first to the second, of length one."""
    distance: Value
    """Negative where they overlap."""
    point: Vector
    """Of the first shape."""

    def numbers(self) -> list[Value]:
        """As a flat list."""
        return [*self.direction, self.distance, *self.point]


@dataclass(frozen=True, slots=True)
class Outside:
    """What the search found."""

    nearest: Nearest
    bound: Value
    """They are at least so far apart."""
    inside: Value
    """1 where the origin is within the difference: they overlap, and nothing else of this holds but what follows."""
    shallow: Vector
    """Of the directions that were tried, the one in which the difference reaches the least."""
    points: tuple[Point, Point, Point]
    """Some of the difference."""


@dataclass(frozen=True, slots=True)
class Feature:
    """A corner, an edge or a triangle: three points, perhaps alike."""

    points: tuple[Point, Point, Point]
    shares: Sequence[Value]
    """How much of each point there is in the nearest point."""
    direction: Vector
    """From there to the origin."""
    distance: Value
    inside: Value
    """1 where the origin is within what all points make."""


@dataclass(frozen=True, slots=True)
class _State:
    """Of the search: three points, perhaps alike, and how much of each there is in the nearest point."""

    points: tuple[Point, Point, Point]
    shares: Sequence[Value]
    direction: Vector
    distance: Value
    bound: Value
    """The shapes are at least so far apart."""
    inside: Value
    idle: Value
    """How many steps have brought nothing that single precision could show."""
    best: Vector
    """Of the directions that were tried, the one in which the difference reaches the least."""
    reach: Value
    """How far it does."""

    def flat(self) -> list[Value]:
        return [
            *(x for point in self.points for x in point),
            *self.shares,
            *self.direction,
            self.distance,
            self.bound,
            self.inside,
            self.idle,
            *self.best,
            self.reach,
        ]

    @classmethod
    def of(cls, flat: Sequence[Value]) -> _State:
        points = (flat[0:6], flat[6:12], flat[12:18])
        distance, bound, inside, idle = flat[24:28]
        return cls(points, flat[18:21], flat[21:24], distance, bound, inside, idle, flat[28:31], flat[31])


def outside(difference: Difference, towards: Vector, reach: Value) -> Outside:
    """How far shapes are apart, as far as it matters: where it is more than the reach, only that it is."""
    first = difference.farthest(unit(towards))
    near = first[:3]
    distance = trace.sqrt(dot(near, near))
    direction = unit(scale(-1.0, near))
    start = _State((first, first, first), (1.0, 0.0, 0.0), direction, distance, -FAR, 0.0, 0.0, direction, FAR)

    def step(flat: Sequence[Value]) -> tuple[list[Value], Value, Value]:
        return _step(difference, _State.of(flat), reach)

    end = _State.of(difference.recorder.repeat("nearest", step, start.flat(), STEPS))
    point = [dot(end.shares, [p[3 + i] for p in end.points]) for i in range(3)]
    return Outside(Nearest(end.direction, end.distance, point), end.bound, end.inside, end.best, end.points)


def _step(difference: Difference, old: _State, reach: Value) -> tuple[list[Value], Value, Value]:
    new = difference.farthest(old.direction)
    bound = -dot(new[:3], old.direction)
    tolerance = (4.0 * difference.rounding + SLACK) * (1.0 + old.distance)
    found = nearest_feature(new, old.points, old.direction, 64.0 * difference.rounding)
    # what is near enough, too far to matter, or no better than before stays as it is
    done = trace.maximum(below(old.distance - bound, tolerance), below(reach, bound))
    inside = (1.0 - done) * below(bound, 0.0) * found.inside
    # a step may gain less than can be seen, and the next one more
    gained = below(found.distance, old.distance * (1.0 - difference.rounding))
    worse = below(old.distance * (1.0 + 4.0 * difference.rounding), found.distance)
    idle = trace.select(0.5, gained, 0.0, old.idle + 1.0)
    worse = trace.maximum(worse, below(IDLE - 0.5, idle))
    done = trace.maximum(done, (1.0 - inside) * worse)
    before = [*(x for p in old.points for x in p), *old.shares, *old.direction, old.distance]
    after = [*(x for p in found.points for x in p), *found.shares, *found.direction, found.distance]
    kept = [*either(0.5, done, before, after), bound, inside, idle]
    kept += either(old.reach, -bound, [*old.best, old.reach], [*old.direction, -bound])
    touching = below(found.distance, 4.0 * difference.rounding)
    again = (1.0 - done) * (1.0 - inside) * (1.0 - touching)
    return kept, 0.5, again


def nearest_feature(new: Point, points: Sequence[Point], otherwise: Vector, flattest: Value) -> Feature:
    """The nearest point of what a new point makes with three old ones: it is on an edge or triangle at the new one.

    Four points in one plane, but for rounding, have no inside. Where the origin is on it, it has the other direction.
    """
    w, olds = new[:3], [p[:3] for p in points]
    best = _edge(w, olds[0], 0)
    for i in (1, 2):
        best = _better(best, _edge(w, olds[i], i))
    inside: Value = 1.0
    volume = flattest
    for old_point in olds:
        along = sub(old_point, w)
        volume = volume * trace.sqrt(dot(along, along))
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        candidate, normal, off = _triangle(w, olds[i], olds[j], i, j)
        best = _better(best, candidate)
        height = dot(normal, sub(olds[k], w))
        inside = inside * below(off * height, 0.0) * below(volume, trace.absolute(height))
    square, i, j, *rest = best
    chosen = (new, _which(points, i), _which(points, j))
    return Feature(chosen, rest[:3], unit(rest[3:], otherwise), trace.sqrt(square), inside)


def _which(points: Sequence[Point], number: Value) -> Point:
    return either(number, 0.5, points[0], either(number, 1.5, points[1], points[2]))


def _better(a: Sequence[Value], b: Sequence[Value]) -> list[Value]:
    return [trace.select(b[0], a[0], y, x) for x, y in zip(a, b, strict=True)]


def _edge(w: Vector, p: Vector, number: int) -> list[Value]:
    """The square of the distance, which points beside the new one, the shares, and the direction to the origin."""
    along = sub(p, w)
    share = trace.clamp(-dot(w, along) / trace.maximum(dot(along, along), TINY), 0.0, 1.0)
    near = add(w, scale(share, along))
    return [dot(near, near), float(number), float(number), 1.0 - share, share, 0.0, *scale(-1.0, near)]


def _triangle(w: Vector, p: Vector, q: Vector, i: int, j: int) -> tuple[list[Value], Vector, Value]:
    """The same of a triangle, very far where the origin is not above or below it; its normal and its offset."""
    one, other, origin = sub(p, w), sub(q, w), scale(-1.0, w)
    normal = cross(one, other)
    square, off = dot(normal, normal), dot(normal, w)
    inverse = 1.0 / trace.maximum(square, TINY)
    shares = [dot(normal, cross(origin, other)) * inverse, dot(normal, cross(one, origin)) * inverse]
    first = 1.0 - shares[0] - shares[1]
    least = trace.minimum(first, trace.minimum(*shares))
    flattest = 1e-12 * dot(one, one) * dot(other, other)  # thinner triangles have no normal, in single precision
    valid = below(0.0, least) * below(flattest, square) * below(TINY, square)
    distance = trace.select(0.5, valid, off * off * inverse, FAR * FAR)
    direction = scale(-sign(off), normal)
    return [distance, float(i), float(j), first, *shares, *direction], normal, off

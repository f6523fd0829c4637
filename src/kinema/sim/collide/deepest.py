"""How deep two convex shapes are in each other: a polytope grows within their difference.

Its face that is nearest to the origin is pushed out as far as the difference goes, until it cannot be: then that face
is of the difference itself, and its distance from the origin is how far the shapes have to be moved apart. The origin
need not be inside, which nobody could promise of shapes that just touch: offsets of faces have a sign.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kinema import trace
from kinema.trace import Recorder, Value

from ..sweeps.maths import ZERO, Vector, cross, dot, scale, sub
from .directions import TINY, across, below, unit
from .nearest import Difference, Nearest
from .slide import slide
from .surface import FACE, GONE, NORMAL, OFFSET, POINT, Lowest, Surface
from .vectors import either

STEPS = 40
"""Points that the polytope gets beside its first four, at most."""
SLACK = 1e-9
"""How deep is deep enough, beside rounding."""
UNKNOWN = 1e20
FIRST = ((0, 1, 2), (0, 3, 1), (1, 3, 2), (2, 3, 0))
"""Corners of the first faces, once around as seen from outside."""
BESIDE = ((1, 2, 3), (3, 2, 0), (1, 3, 0), (2, 1, 0))
"""The faces across their edges."""


@dataclass(frozen=True, slots=True)
class Growth:
    """Of the search: how many points and faces there are, and the best direction that was tried."""

    n_points: Value
    n_faces: Value
    lowest: Lowest
    direction: Vector
    depth: Value
    careful: Value
    """1 after a step that failed: then a new point takes the place of one face only, which cannot fail."""

    def flat(self) -> list[Value]:
        """As a list."""
        return [self.n_points, self.n_faces, *self.lowest, *self.direction, self.depth, self.careful]

    @classmethod
    def of(cls, flat: Sequence[Value]) -> Growth:
        """From a list."""
        return cls(flat[0], flat[1], (flat[2], flat[3]), flat[4:7], flat[7], flat[8])


def deepest(difference: Difference, towards: Vector) -> Nearest:
    """The direction in which the difference is the least deep; its width there in no direction may be zero."""
    recorder = difference.recorder
    surface = Surface(recorder, STEPS)
    _first_points(difference, surface, towards)
    lowest: Lowest = (2.0 * GONE, 0.0)
    for number, (face, beside) in enumerate(zip(FIRST, BESIDE, strict=True)):
        corners = [surface.point(float(i))[:3] for i in face]
        offset = surface.put(float(number), [float(i) for i in face], [float(i) for i in beside], corners)
        lowest = trace.minimum(lowest[0], offset), trace.select(offset, lowest[0], float(number), lowest[1])
    recorder.new_line()
    tolerance = 8.0 * difference.rounding + SLACK

    def step(flat: Sequence[Value]) -> tuple[list[Value], Value, Value]:
        return grow(difference, surface, Growth.of(flat), tolerance)

    first, *others = (surface.point(float(i)) for i in range(4))
    longest: Vector = ZERO
    for other in others:
        along = sub(other[:3], first[:3])
        longest = either(dot(longest, longest), dot(along, along), along, longest)
    beside = across(unit(longest))
    start = Growth(4.0, 4.0, lowest, beside, UNKNOWN, 0.0)
    end = Growth.of(recorder.repeat("deepest", step, start.flat(), STEPS))
    # where the difference is but a line, there is no face, and it is no deeper beside it than any of its points
    end = replace(end, depth=trace.select(end.depth, 0.5 * UNKNOWN, end.depth, dot(first[:3], beside)))
    point = _point_below(recorder, surface, end.n_faces, end.lowest[0] + 2.0 * tolerance, first[3:])
    if not difference.is_round:
        return Nearest(end.direction, -end.depth, point)

    def better() -> list[Value]:
        direction, depth = slide(difference, end.direction, ZERO, tolerance)
        return [*direction, depth]

    unsure = end.depth - end.lowest[0]
    *direction, depth = recorder.where("slide", tolerance, unsure, better, [*end.direction, end.depth])
    return Nearest(direction, -depth, point)


def _first_points(difference: Difference, surface: Surface, towards: Vector) -> None:
    """Four points that are far from each other: two on a line, one beside it, one above or below the three."""
    recorder = difference.recorder

    def look(turn: Value) -> None:
        p = [surface.point(float(i))[:3] for i in range(3)]
        along = unit(sub(p[1], p[0]))
        beside = across(along)
        above = unit(cross(sub(p[1], p[0]), sub(p[2], p[0])), cross(along, beside))
        direction = either(turn, 0.5, towards, either(turn, 1.5, beside, above))
        one, other = difference.farthest(direction), difference.farthest(scale(-1.0, direction))
        height = [trace.absolute(dot(direction, sub(x[:3], p[0]))) for x in (one, other)]
        further = trace.select(turn, 0.5, 1.0, below(height[1], height[0]))
        recorder.write(
            surface.points, either(0.5, further, one, other), 0, POINT * trace.select(turn, 0.5, 0.0, turn + 1.0)
        )
        recorder.write(surface.points, other, 0, POINT * trace.select(turn, 0.5, 1.0, 4.0))

    recorder.write(surface.points, [0.0] * (5 * POINT))
    recorder.count("first points", 3.0, look, uniform=True)
    # the first face looks away from the fourth point
    p = [surface.point(float(i)) for i in range(4)]
    normal = cross(sub(p[1][:3], p[0][:3]), sub(p[2][:3], p[0][:3]))
    wrong = dot(normal, sub(p[3][:3], p[0][:3]))
    recorder.write(surface.points, either(0.0, wrong, p[2], p[1]), POINT)
    recorder.write(surface.points, either(0.0, wrong, p[1], p[2]), 2 * POINT)
    recorder.new_line()


def grow(
    difference: Difference, surface: Surface, old: Growth, tolerance: Value, enough: Value = UNKNOWN
) -> tuple[list[Value], Value, Value]:
    """Push the lowest face out: a step, followed by another one where it could be, and was not as deep as is enough."""
    recorder = difference.recorder
    offset, face = old.lowest
    direction = [recorder.read(surface.faces, NORMAL + i, FACE * face) for i in range(3)]
    new = difference.farthest(direction)
    depth = trace.select(offset, 0.5 * GONE, dot(new[:3], direction), UNKNOWN)
    best = [*either(depth, old.depth, direction, old.direction), trace.minimum(old.depth, depth)]

    def take() -> list[Value]:
        above = trace.select(0.5, old.careful, 1.0 / TINY, 4.0 * difference.rounding)
        number = old.n_points + 0.5 * old.careful  # one that failed is done again with the same points
        n_points, n_faces, lowest, grown = surface.grow(new, old.lowest, old.n_points, old.n_faces, above, number)
        return [n_points, n_faces, *lowest, 1.0 - grown, trace.maximum(grown, 1.0 - old.careful)]

    left = trace.minimum(depth, enough) - offset
    *grown, careful, going = recorder.where(
        "grow", tolerance, left, take, [old.n_points, old.n_faces, *old.lowest, 0.0, 0.0]
    )
    return [*grown, *best, careful], 0.5, going


def _point_below(recorder: Recorder, surface: Surface, n_faces: Value, near: Value, otherwise: Vector) -> Vector:
    """The point of the first shape where a face that is near enough is below the origin.

    Of faces in one plane, which are equally near, it is one: that which the origin is most above.
    """
    best = recorder.local(4)
    recorder.write(best, [-1.0 / TINY, *otherwise])

    def look(turn: Value) -> None:
        offset = recorder.read(surface.faces, OFFSET, FACE * turn)

        def compare() -> list[Value]:
            corners = [surface.point(recorder.read(surface.faces, i, FACE * turn)) for i in range(3)]
            shares = _shares(*(c[:3] for c in corners))
            least = trace.minimum(shares[0], trace.minimum(shares[1], shares[2]))
            old = recorder.read(best)
            positive = [trace.maximum(s, 0.0) for s in shares]
            whole = 1.0 / trace.maximum(positive[0] + positive[1] + positive[2], TINY)
            point = [dot(scale(whole, positive), [c[3 + i] for c in corners]) for i in range(3)]
            before = [recorder.read(best, 1 + i) for i in range(3)]
            recorder.write(best, [trace.maximum(old, least), *either(old, least, point, before)])
            return []

        recorder.where("near", offset, trace.minimum(near, 0.5 * GONE), compare, [])

    recorder.count("faces", n_faces, look)
    return [recorder.read(best, 1 + i) for i in range(3)]


def _shares(a: Vector, b: Vector, c: Vector) -> list[Value]:
    """How much of each corner of a triangle there is in the point below the origin."""
    one, other, origin = sub(b, a), sub(c, a), scale(-1.0, a)
    normal = cross(one, other)
    inverse = 1.0 / trace.maximum(dot(normal, normal), TINY)
    shares = [dot(normal, cross(origin, other)) * inverse, dot(normal, cross(one, origin)) * inverse]
    return [1.0 - shares[0] - shares[1], *shares]

"""Where faces and edges of two convex shapes touch: the corners of what they have in common.

Both are seen along the normal. One is cut by the edges of the other; at each corner of what is left, the distance is
that of the two surfaces there. No point is deeper than the shapes are in each other, and where the faces lie on each
other it is the same points from step to step.
"""

from __future__ import annotations

from dataclasses import dataclass

from kinema import trace
from kinema.trace import Recorder, Value

from ..sweeps.maths import Vector, add, cross, rotate, scale, unrotate
from .convex import Meeting, emit_at, emit_one
from .directions import TINY, across, below
from .features import FEATURES
from .most_points import OF_FACES as MOST_POINTS
from .reduce import drop_points
from .solid import Solid, Work
from .vectors import either, length, sign

OUTSIDE = 1e-5
"""A corner that is so little beside an edge, against the size of the shapes, is not cut off."""
SHALLOWER = (0.01, 2e-5)
"""How much less deep the deepest corner may be than the shapes are: a share, and against the size of the shapes."""
CLOSE = 1e-3
"""Points that are no farther from each other, against the size of the smaller shape, are one: both would be as stiff as
two. In single precision the direction between round shapes is known as well as that, and with it where corners are."""
SAME = 2e-3
"""The deepest corner is the nearest point where it is no farther from that, against the size of the larger shape."""
PARALLEL = 0.05
"""The sine of the angle between edges that touch in more than a point."""
CORNER = 3
"""Numbers of a corner: two across the normal, and one along it."""
STEEPEST = 0.05


@dataclass(frozen=True, slots=True)
class _Side:
    """What one shape shows the other."""

    start: int
    """Where its corners are in the array of corners."""
    count: Value
    slope: tuple[Value, Value]
    """How the surface rises along the normal."""


@dataclass(frozen=True, slots=True)
class _Chosen:
    """One of the two, each environment its own."""

    start: Value
    count: Value
    slope: list[Value]
    is_first: Value


def emit_several(work: Work, kinds: tuple[str, str], meeting: Meeting, a: Solid, b: Solid) -> None:
    """All points where faces or edges touch; the nearest one where there are no such."""
    recorder = work.recorder

    def tell() -> list[Value]:
        return [_emit_patch(work, kinds, meeting, a, b)]

    near = meeting.found.distance
    (enough,) = recorder.where("patch", near, work.reach / meeting.size, tell, [0.0])

    def nearest() -> list[Value]:
        emit_one(work, meeting, b)
        return []

    recorder.where("nearest", enough, 0.5, nearest, [])


def _emit_patch(work: Work, kinds: tuple[str, str], meeting: Meeting, a: Solid, b: Solid) -> Value:
    """1 where points were found, and the deepest of them is as deep as it should be."""
    recorder = work.recorder
    most = [FEATURES[kind].most for kind in kinds]
    corners = recorder.local(CORNER * sum(most))
    normal = meeting.found.direction
    first = across(normal)
    axes = [first, cross(normal, first), normal]
    shrink = 1.0 / meeting.size

    def place_a(point: Vector) -> Vector:
        inner = add(meeting.position, scale(shrink, rotate(meeting.rotation, point)))
        return rotate(axes, add(inner, scale(shrink * meeting.cores[0].radius, normal)))

    def place_b(point: Vector) -> Vector:
        return rotate(axes, scale(shrink, add(point, scale(-meeting.cores[1].radius, normal))))

    def side(number: int, solid: Solid, place: object, direction: Vector, turn: object) -> _Side:
        start = CORNER * sum(most[:number])
        find = FEATURES[kinds[number]].find
        count, outward = find(
            recorder,
            solid,
            direction,
            lambda i, point: recorder.write(corners, place(point), start, CORNER * i),  # type: ignore[operator]  # ty: ignore[not-callable]
        )
        tilt = rotate(axes, turn(outward))  # type: ignore[operator]  # ty: ignore[not-callable]
        steep = sign(tilt[2]) * trace.maximum(trace.absolute(tilt[2]), STEEPEST)
        return _Side(start, count, (-tilt[0] / steep, -tilt[1] / steep))

    mine = side(0, a, place_a, unrotate(meeting.rotation, normal), lambda v: rotate(meeting.rotation, v))
    other = side(1, b, place_b, scale(-1.0, normal), lambda v: v)
    recorder.new_line()
    return _Patch(work, meeting, b, corners, axes).emit(mine, other, sum(most))


class _Patch:
    def __init__(self, work: Work, meeting: Meeting, b: Solid, corners: str, axes: list[Vector]) -> None:
        self.work, self.meeting, self.b = work, meeting, b
        self.recorder: Recorder = work.recorder
        self.corners, self.axes = corners, axes
        self.close = CLOSE * trace.minimum(*(core.size for core in meeting.cores)) / meeting.size

    def emit(self, mine: _Side, other: _Side, most: int) -> Value:
        # what is cut is an edge if there is one
        is_first = trace.select(other.count, 2.5, below(mine.count, 2.5), 1.0)
        cut, knife = self._choose(is_first, mine, other), self._choose(1.0 - is_first, mine, other)
        both = trace.minimum(mine.count, other.count)
        possible = below(1.5, both) * trace.maximum(self._are_parallel(cut, knife), below(2.5, knife.count))

        def touch() -> list[Value]:
            left, count = self._cut(cut, knife, most)
            return [self._emit_left(left, count, cut, knife, most)]

        return self.recorder.where("touch", 0.5, possible, touch, [0.0])[0]

    def _choose(self, is_first: Value, mine: _Side, other: _Side) -> _Chosen:
        flat = [[float(s.start), s.count, *s.slope] for s in (mine, other)]
        start, count, *slope = either(0.5, is_first, flat[0], flat[1])
        return _Chosen(start, count, slope, is_first)

    def _corner(self, start: Value, number: Value) -> list[Value]:
        return [self.recorder.read(self.corners, i, start + CORNER * number) for i in range(CORNER)]

    def _are_parallel(self, cut: _Chosen, knife: _Chosen) -> Value:
        """Whether two edges are."""
        edges = []
        for side in (cut, knife):
            one, two = (self._corner(side.start, float(i)) for i in range(2))
            edges.append([one[0] - two[0], one[1] - two[1]])
        sine = trace.absolute(edges[0][0] * edges[1][1] - edges[0][1] * edges[1][0])
        return below(sine, PARALLEL * length(edges[0]) * length(edges[1]))

    def _cut(self, cut: _Chosen, knife: _Chosen, most: int) -> tuple[str, Value]:
        """What the edges of the knife leave: an array of corners, and how many of them."""
        recorder = self.recorder
        room = CORNER * (most + 1)
        left = recorder.local(2 * room)
        state = recorder.local(3)
        """Where what is left begins, how many corners it has, and how many the next has so far."""
        recorder.write(state, [0.0, cut.count, 0.0])

        def copy(turn: Value) -> None:
            recorder.write(left, self._corner(cut.start, turn), 0, CORNER * turn)

        recorder.count("copy", cut.count, copy)
        closed = below(2.5, cut.count)

        def by_edge(edge: Value) -> None:
            following = trace.select(edge, knife.count - 1.5, edge + 1.0, 0.0)
            p, q = self._corner(knife.start, edge), self._corner(knife.start, following)
            inward = self._inward(p, q, knife)
            begin, count = recorder.read(state), recorder.read(state, 1)
            recorder.write(state, [0.0], 2)
            recorder.count("corners", count, lambda turn: by_corner(turn, p, inward, begin, count))
            recorder.write(state, [float(room) - begin, trace.minimum(recorder.read(state, 2), float(most))])

        def by_corner(turn: Value, p: Vector, inward: Vector, begin: Value, count: Value) -> None:
            stay = trace.select(0.5, closed, 0.0, turn)  # an edge ends where it ends
            following = trace.select(turn, count - 1.5, turn + 1.0, stay)
            x, y = (
                [recorder.read(left, i, begin + CORNER * number) for i in range(CORNER)] for number in (turn, following)
            )
            heights = [inward[0] * (z[0] - p[0]) + inward[1] * (z[1] - p[1]) for z in (x, y)]
            inside, outside = ([test(h) for h in heights] for test in (lambda h: below(0.0, h), _is_outside))
            stays, crosses = 1.0 - outside[0], inside[0] * outside[1] + outside[0] * inside[1]
            share = heights[0] / trace.select(0.5, crosses, heights[0] - heights[1], 1.0)
            between = [u + share * (v - u) for u, v in zip(x, y, strict=True)]
            number, last = recorder.read(state, 2), float(most)
            for is_there, corner in ((stays, x), (crosses, between)):
                place = trace.select(0.5, is_there, trace.minimum(number, last), last)
                recorder.write(left, corner, 0, (float(room) - begin) + CORNER * place)
                number = number + is_there
            recorder.write(state, [number], 2)

        recorder.count("edges", knife.count, by_edge)
        # where what is left begins is known only to the run: the place is part of the answer
        return left, self._pack(left, recorder.read(state), recorder.read(state, 1))

    def _pack(self, left: str, begin: Value, count: Value) -> Value:
        """Bring what is left to the start of its array."""
        recorder = self.recorder

        def copy(turn: Value) -> None:
            recorder.write(
                left, [recorder.read(left, i, begin + CORNER * turn) for i in range(CORNER)], 0, CORNER * turn
            )

        recorder.count("pack", trace.select(0.5, begin, count, 0.0), copy)
        return count

    def _inward(self, p: Vector, q: Vector, knife: _Chosen) -> list[Value]:
        """Across an edge of a face, to its inside; along an edge that is all there is."""
        x, y = q[0] - p[0], q[1] - p[1]
        inverse = 1.0 / trace.maximum(length([x, y]), TINY)
        turn = trace.select(0.5, knife.is_first, inverse, -inverse)
        return either(knife.count, 2.5, [inverse * x, inverse * y], [-turn * y, turn * x])

    def _emit_left(self, left: str, count: Value, cut: _Chosen, knife: _Chosen, most: int) -> Value:
        """Tell the points that are near enough: whether the deepest is as deep as it should be."""
        recorder, meeting = self.recorder, self.meeting
        points, state = recorder.local(4 * (most + 1)), recorder.local(3)
        """Two numbers across the normal, half-way along it, the distance; how many, the deepest, its distance."""
        recorder.write(state, [0.0, 0.0, 1.0 / TINY])
        recorder.write(points, [0.0] * 4)
        base = self._corner(knife.start, 0.0)
        reach = self.work.reach / meeting.size

        def look(turn: Value) -> None:
            x, y, z = (recorder.read(left, i, CORNER * turn) for i in range(CORNER))
            facing = base[2] + knife.slope[0] * (x - base[0]) + knife.slope[1] * (y - base[1])
            # nothing is deeper than the shapes are, but for corners that are a little outside and faces without an area
            gap = trace.maximum(trace.select(0.5, cut.is_first, facing - z, z - facing), meeting.found.distance)
            number, deepest, least = (recorder.read(state, i) for i in range(3))
            near = below(gap, reach)
            place, counts = self._place_among(points, number, [x, y], gap)
            recorder.write(
                points,
                [x, y, 0.5 * (z + facing), gap],
                0,
                4.0 * trace.select(0.5, near * counts, place, float(most)),
            )
            is_new = near * below(number - 0.5, place)
            deeper = near * below(gap, least)
            recorder.write(
                state,
                [number + is_new, trace.select(0.5, deeper, place, deepest), trace.select(0.5, deeper, gap, least)],
            )

        recorder.count("distances", count, look)
        n_points, deepest, least = (recorder.read(state, i) for i in range(3))
        least = self._as_deep_as_the_nearest(points, deepest, least)
        if most > MOST_POINTS:
            n_points = drop_points(recorder, points, n_points, deepest, MOST_POINTS)
        share, slack = SHALLOWER
        found = meeting.found.distance
        enough = below(least, found + share * trace.absolute(found) + slack)

        def tell(turn: Value) -> None:
            *where, gap = (recorder.read(points, i, 4.0 * turn) for i in range(4))
            emit_at(self.work, meeting, self.b, gap, unrotate(self.axes, where))

        recorder.count("points", n_points, tell)
        return enough

    def _place_among(self, points: str, number: Value, at: list[Value], gap: Value) -> tuple[Value, Value]:
        """Where a point goes, behind those that there are or to one that it is close to; 1 unless that is deeper.

        Corners come in turn: it can be close to the one before, or to the first.
        """
        place, counts = number, 1.0
        for other in (0.0, trace.maximum(number - 1.0, 0.0)):
            x, y, _, its_gap = (self.recorder.read(points, i, 4.0 * other) for i in range(4))
            is_same = below(0.5, number) * below(length([at[0] - x, at[1] - y]), self.close)
            place = trace.select(0.5, is_same, other, place)
            counts = trace.select(0.5, is_same, below(gap, its_gap), counts)
        return place, counts

    def _as_deep_as_the_nearest(self, points: str, deepest: Value, least: Value) -> Value:
        """How deep the deepest of points is: as the shapes are, where it is the nearest point but for rounding."""
        recorder, found = self.recorder, self.meeting.found
        nearest = rotate(self.axes, found.point)
        beside = [recorder.read(points, i, 4.0 * deepest) - nearest[i] for i in range(2)]
        is_nearest = below(length(beside), SAME) * below(least, 0.5 / TINY)
        least = trace.select(0.5, is_nearest, found.distance, least)
        recorder.write(points, [least], 3, 4.0 * deepest)
        return least


def _is_outside(height: Value) -> Value:
    return below(height, -OUTSIDE)

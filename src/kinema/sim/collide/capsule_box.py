"""A capsule and a box: spheres about one or two points of the capsule's axis.

The first is the nearest to the box: an end above a face, or the nearest to one of the twelve edges. From there the axis
is followed along the face (or, if it runs that way, the edge) that it leaves least, as far as that goes; the second
point is there. MuJoCo chooses them so; like it, an axis that goes through the box is judged by its ends and by the
edges, and where there is no way to go from a corner, the second point is the first one again.
"""

from __future__ import annotations

from dataclasses import dataclass

from kinema import trace
from kinema.trace import Recorder, Value

from ..sweeps.maths import Vector, sub, unrotate
from .boxes import sphere_and_box
from .solid import Solid, Work
from .vectors import along, column, either, sign

NEARLY_ALONG = 0.5
"""The square of the cosine above which an axis follows an edge, rather than a face."""
SMALL = 1e-15
LONG = 1e30
FLAT = 1e-6
"""The sine of the angle below which an axis is parallel to a face. In single precision, which end or edge is nearest is
then a matter of rounding; MuJoCo loses the second point of an axis that is exactly parallel, depending on the side."""
N_BEST = 8


def capsule_box(work: Work, capsule: Solid, box: Solid) -> None:
    """Up to two points."""
    recorder = work.recorder
    centre = unrotate(box.rotation, sub(capsule.position, box.position))
    way = unrotate(box.rotation, column(capsule.rotation, 2))
    axis = _Axis(recorder, centre, way, box.size, capsule.size[1])
    best = _nearest(axis)
    second, two = _second(axis, best)
    places = recorder.local(2)
    recorder.write(places, [best.place, second])

    def tell(turn: Value) -> None:
        point = along(centre, recorder.read(places, 0, turn), way)
        sphere_and_box(work, point, capsule.size[0], box)

    recorder.count("points", 1.0 + two, tell, most=2)


class _Axis:
    """Of a capsule, in the axes of a box."""

    def __init__(self, recorder: Recorder, centre: Vector, way: Vector, size: Vector, half: Value) -> None:
        self.recorder, self.half = recorder, half
        self.centre, self.way, self.size = centre, way, size
        # each twice, so that from any of the three on there are three
        self.numbers = recorder.local(18)
        recorder.write(self.numbers, [*centre, *centre, *way, *way, *size, *size])

    def of(self, number: Value) -> tuple[Vector, Vector, Vector]:
        """Centre, way and size, with the axis of that number for the first."""
        read = self.recorder.read
        centre, way, size = ([read(self.numbers, start + i, number) for i in range(3)] for start in (0, 6, 12))
        return centre, way, size


@dataclass(frozen=True, slots=True)
class _Nearest:
    """The nearest point of the axis, and of the box."""

    squared: Value
    """Their distance, squared [m^2]."""
    number: Value
    """The axis of the box that its edge is along, or its face across."""
    place: Value
    """On the capsule's axis [m]."""
    sides: Vector
    """On which side of the box (1 or -1), in the axes from that number on; the first is 0 within an edge."""
    on_edge: Value
    """Where along an edge [m]."""
    of_end: Value
    """1 if it is an end of the axis above a face, 2 if inside, 0 if it is at an edge."""

    @property
    def flat(self) -> list[Value]:
        return [self.squared, self.number, self.place, *self.sides, self.on_edge, self.of_end]


def _nearest(axis: _Axis) -> _Nearest:
    recorder = axis.recorder
    best = recorder.local(N_BEST)
    recorder.write(best, _nearest_end(axis))

    def of_axis(number: Value) -> None:
        def of_edge(turn: Value) -> None:
            sides = [sign(turn - 1.5), sign(0.5 - trace.absolute(trace.absolute(turn - 2.0) - 1.0))]
            found = _edge(axis, number, sides).flat
            before = [recorder.read(best, i) for i in range(len(found))]
            recorder.write(best, [trace.select(found[0], before[0], x, y) for x, y in zip(found, before, strict=True)])

        recorder.count("edges", 4.0, of_edge, uniform=True)

    recorder.count("axes", 3.0, of_axis, uniform=True)
    squared, number, place, *sides, on_edge, of_end = (recorder.read(best, i) for i in range(N_BEST))
    return _Nearest(squared, number, place, sides, on_edge, of_end)


def _nearest_end(axis: _Axis) -> list[Value]:
    """The end that is nearest to a face that it is above, if there is one, or inside."""
    best: list[Value] = [LONG, *[0.0] * (N_BEST - 1)]
    for side in (-1.0, 1.0):
        end = along(axis.centre, side * axis.half, axis.way)
        beyond = [trace.absolute(x) - half for x, half in zip(end, axis.size, strict=True)]
        n_beyond: Value = 0.0
        furthest, number = beyond[0], 0.0
        for i, distance in enumerate(beyond):
            n_beyond = n_beyond + trace.select(0.0, distance, 1.0, 0.0)
            number = trace.select(furthest, distance, float(i), number)
            furthest = trace.maximum(furthest, distance)
        distance = trace.maximum(furthest, 0.0)
        squared = trace.select(n_beyond, 1.5, distance * distance, LONG)
        found = [squared, number, side * axis.half, 0.0, 0.0, 0.0, 0.0, 2.0 - n_beyond]
        best = [trace.select(squared, best[0], x, y) for x, y in zip(found, best, strict=True)]
    return best


def _edge(axis: _Axis, number: Value, sides: Vector) -> _Nearest:
    """The nearest points of the axis and of an edge of the box, on these sides of the two other axes."""
    centre, way, size = axis.of(number)
    start = [centre[0], *(c - side * s for c, side, s in zip(centre[1:], sides, size[1:], strict=True))]
    across = start[1] * way[1] + start[2] * way[2]
    squared = way[1] * way[1] + way[2] * way[2]
    # along the edge one place is as good as another: from one end on
    place = trace.select(squared, SMALL, -axis.half, -across / trace.maximum(squared, SMALL))
    on_edge, side = _within(start[0] + place * way[0], size[0])
    place = trace.select(0.5, trace.absolute(side), way[0] * (on_edge - start[0]) - across, place)
    ended = trace.clamp(place, -axis.half, axis.half)
    after, side_after = _within(start[0] + ended * way[0], size[0])
    beyond = trace.absolute(place - ended)
    on_edge = trace.select(0.0, beyond, after, on_edge)
    side_after = trace.select(0.5, trace.absolute(side_after), side_after, side)
    side = trace.select(0.0, beyond, side_after, side)
    apart = along(start, ended, way)
    gap = apart[0] - on_edge
    distance = gap * gap + apart[1] * apart[1] + apart[2] * apart[2]
    return _Nearest(distance, number, ended, [side, *sides], on_edge, 0.0)


def _within(x: Value, half: Value) -> tuple[Value, Value]:
    """The nearest place on an edge, and at which end that is (1 or -1), or 0."""
    side = trace.select(half, trace.absolute(x), sign(x), 0.0)
    return trace.clamp(x, -half, half), side


def _second(axis: _Axis, best: _Nearest) -> tuple[Value, Value]:
    """The place of the second point, and whether (1 or 0) there is one."""
    centre, way, size = axis.of(best.number)
    end = along(centre, best.place, way)
    flat = [_flat_above(x, speed, half) for x, speed, half in zip(end, way, size, strict=True)]
    forward, follows, two = _from_corner(way, flat, best)
    at_face = trace.select(0.5, best.of_end, 1.0, 0.0)
    forward = trace.select(0.5, at_face, -sign(best.place), forward)
    follows = [trace.select(0.5, at_face, x, y) for x, y in zip((0.0, 1.0, 1.0), follows, strict=True)]
    two = trace.select(0.5, at_face, trace.select(best.of_end, 1.5, 1.0, 0.0), two)
    corner = [side * half for side, half in zip(best.sides, size, strict=True)]
    corner[0] = trace.select(0.5, trace.absolute(best.sides[0]), corner[0], best.on_edge)
    longest: Value = axis.half - forward * best.place
    for i in range(3):
        speed = trace.absolute(way[i])
        from_ = sign(forward * way[i]) * trace.select(0.5, at_face, end[i], corner[i])
        room = trace.select(speed, FLAT, LONG, (size[i] - from_) / trace.maximum(speed, FLAT))
        longest = trace.select(0.5, follows[i], trace.minimum(longest, room), longest)
    two = trace.select(0.5, flat[0] + flat[1] + flat[2], trace.select(0.0, longest, two, 0.0), two)
    return best.place + forward * longest, two


def _leaving(way: Vector, flat: Vector, best: _Nearest) -> list[Value]:
    """Whether the axis leaves (1) or enters (-1) the box's breadth in each direction, going forward.

    In a direction that it is flat in, it does the opposite of what it does in the direction that it is mostly in: so
    that face is followed. Within an edge there is no side along it: there the faces count that meet at it, of which the
    one that is left less is followed, unless both are left.
    """
    steep = [trace.absolute(x) for x in way]
    leaves = [side * sign(x) for side, x in zip(best.sides, way, strict=True)]
    second_most, steeper = trace.select(steep[1], steep[2], leaves[2], leaves[1]), trace.maximum(steep[1], steep[2])
    most = trace.select(steep[0], steeper, second_most, leaves[0])
    at_corner = [trace.select(0.5, f, -most, x) for f, x in zip(flat, leaves, strict=True)]
    most = trace.select(steeper, FLAT, sign(best.place), second_most)
    both = trace.select(0.0, leaves[1] * leaves[2], 1.0, 0.0) * (1.0 - trace.maximum(flat[1], flat[2]))
    other = trace.select(0.5, both, most, -most)
    less = trace.select(steep[1], steep[2], 1.0, 0.0)
    at_edge = [most, trace.select(0.5, less, other, most), trace.select(0.5, less, most, other)]
    return list(either(0.5, trace.absolute(best.sides[0]), at_corner, at_edge))


def _flat_above(x: Value, speed: Value, half: Value) -> Value:
    """Whether (1 or 0) an axis is parallel to a face and not below it."""
    return trace.select(trace.absolute(speed), FLAT, trace.select(trace.absolute(x), half, 0.0, 1.0), 0.0)


def _from_corner(way: Vector, flat: Vector, best: _Nearest) -> tuple[Value, list[Value], Value]:
    """Which way (1 or -1) to go, in which directions the box's breadth ends it, and whether (1 or 0) there is a way.

    Seen from a corner the axis leaves the box in some directions and not in others. One of the three differs from the
    other two: either the axis follows that edge, or, the other way, the face across it.
    """
    leaves = _leaving(way, flat, best)
    outwards = [trace.select(0.0, x, 1.0, 0.0) for x in leaves]
    n_outwards = outwards[0] + outwards[1] + outwards[2]
    forward = trace.select(n_outwards, 1.5, 1.0, -1.0)
    odd = [trace.select(n_outwards, 1.5, x, 1.0 - x) for x in outwards]
    cosine = odd[0] * way[0] + odd[1] * way[1] + odd[2] * way[2]
    edge = trace.select(NEARLY_ALONG, cosine * cosine, 1.0, 0.0)
    follows = [trace.select(0.5, edge, x, 1.0 - x) for x in odd]
    two = trace.select(trace.absolute(n_outwards - 1.5), 1.0, 1.0, 0.0)
    return trace.select(0.5, edge, -forward, forward), follows, two

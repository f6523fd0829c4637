"""How deep two convex shapes are in each other where their difference is round, and they are not deep.

A polytope needs many points to come near to what is round. So a direction is looked for in which the difference is less
deep than in all nearby; a polytope of few points then shows that it is deeper in all others, or comes upon one in which
it is not, and it is looked for again from there. A step of the polytope costs as much as several of that search.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kinema import trace
from kinema.trace import Value

from ..sweeps.maths import ZERO, Vector, add, cross, dot, scale, sub
from .deepest import BESIDE, FIRST, SLACK, Growth, deepest, grow
from .directions import across, below, unit
from .nearest import Difference, Nearest, Outside, Point
from .settle import Settled, settle
from .slide import slide
from .surface import GONE, POINT, Known, Lowest, Surface
from .vectors import either

PLACES = 3
"""Directions that are tried, one after the other, at most."""
STEPS = 24
"""Points that the polytope gets beside its first four, at most."""
SHALLOW = 0.1
"""Of the size of the shapes: what is deeper has less deep directions near to each other too often."""
NEAR, SLANT = math.cos(0.06), math.sin(0.03)
"""Faces of the polytope that look nearly in a direction that was found, within the first angle, are not looked at: the
search from outside knows better. Along an edge that the direction is across, within the second: beside it there may be
another one, as that search follows edges."""
TILT = 0.06
"""The tangent of the angle to that direction in which the polytope gets its first points."""
TRIANGLE = ((0.9, -0.5), (0.0, 1.0), (-0.9, -0.5))
"""Around it."""
FINE = 1e-10
"""The rounding below which all is left to the polytope of `deepest`: in double precision it is exact, while this search
may miss a direction next to the one that it found, by a few millionths of the size in one pair of thousands."""
KNOWN = 7
"""Numbers of a direction that was tried."""


@dataclass(frozen=True, slots=True)
class _State:
    """Of the search."""

    direction: Vector
    """Where to look next."""
    n_points: Value
    n_faces: Value
    """Of the polytope, if there is one."""
    n_places: Value
    """How many directions were tried."""
    done: Value
    """1 where the best of these is known to be the best of all."""
    found: Settled
    """The best of them."""
    known: Sequence[Value]
    """Of each its direction, an edge that it is across, and how deep it is there."""

    def flat(self) -> list[Value]:
        numbers = [*self.direction, self.n_points, self.n_faces, self.n_places, self.done]
        return [*numbers, *self.found.flat(), *self.known]

    @classmethod
    def of(cls, flat: Sequence[Value]) -> _State:
        n_points, n_faces, n_places, done = flat[3:7]
        return cls(flat[:3], n_points, n_faces, n_places, done, Settled.of(flat[7:21]), flat[21:])


def shallowest(difference: Difference, apart: Outside) -> Nearest:
    """The direction in which the difference is the least deep."""
    recorder = difference.recorder
    surface = Surface(recorder, STEPS)
    tolerance = 8.0 * difference.rounding + SLACK

    def look(flat: Sequence[Value]) -> tuple[list[Value], Value, Value]:
        old = _State.of(flat)
        new = _settle(difference, old.direction, apart.points, tolerance)
        usable = new.sure * below(new.depth, SHALLOW)

        def check() -> list[Value]:
            return _check(difference, surface, old, new, tolerance)

        *after, again = recorder.where("check", 0.5, usable, check, [*old.flat(), 0.0])
        return after, 0.5, again

    nowhere = Settled(apart.shallow, GONE, [0.0] * 6, 0.0, ZERO)
    start = _State(apart.shallow, 0.0, 0.0, 0.0, 0.0, nowhere, [*ZERO, *ZERO, GONE] * PLACES)

    def near() -> list[Value]:
        return recorder.repeat("places", look, start.flat(), PLACES)

    end = _State.of(recorder.where("coarse", FINE, difference.rounding, near, start.flat()))
    found = Nearest(end.found.direction, -end.found.depth, end.found.point[3:])

    def by_polytope() -> list[Value]:
        return deepest(difference, apart.nearest.direction).numbers()

    flat = recorder.where("deepest", end.done, 0.5, by_polytope, found.numbers())
    return Nearest(flat[:3], flat[3], flat[4:])


def _settle(difference: Difference, direction: Vector, points: Sequence[Point], tolerance: Value) -> Settled:
    """The least depth near a direction; where it is not sure that it is, once more after sliding on."""
    recorder = difference.recorder

    def turn(flat: Sequence[Value]) -> tuple[list[Value], Value, Value]:
        found = settle(difference, flat[:3], points)

        def on() -> list[Value]:
            way, depth = slide(difference, found.direction, found.edge, tolerance)
            return either(depth, found.depth, way, found.direction)

        there = recorder.where("slide", found.sure, 0.5, on, found.direction)
        return [*there, *found.flat()], found.sure, 0.5

    return Settled.of(recorder.repeat("settle and slide", turn, [*direction, *[0.0] * 14], 2)[3:])


def _check(difference: Difference, surface: Surface, old: _State, new: Settled, tolerance: Value) -> list[Value]:
    """Look by a polytope whether a direction is better than all that were tried: what follows, and 1 if one is."""
    recorder = difference.recorder
    found = Settled.of(either(new.depth, old.found.depth, new.flat(), old.found.flat()))
    known: list[Value] = []
    for i in range(PLACES):
        is_this = trace.absolute(old.n_places - float(i))
        known += either(is_this, 0.5, [*new.direction, *new.edge, new.depth], old.known[KNOWN * i : KNOWN * (i + 1)])
    surface.known = [_known(known[KNOWN * i : KNOWN * (i + 1)], tolerance) for i in range(PLACES)]
    start = _begin(difference, surface, old, found)

    def step(flat: Sequence[Value]) -> tuple[list[Value], Value, Value]:
        after, _, going = grow(difference, surface, Growth.of(flat), tolerance, found.depth)
        n_points, depth = after[0], after[7]
        return after, 0.5, going * below(found.depth - tolerance, depth) * below(n_points, 3.5 + STEPS)

    def more() -> list[Value]:
        return recorder.repeat("shallowest", step, start.flat(), STEPS)

    # where one of the first directions is better already, it is too early for a polytope
    end = Growth.of(recorder.where("grow", found.depth - tolerance, start.depth, more, start.flat()))
    again = below(end.depth, found.depth - tolerance) * below(end.n_points, 3.5 + STEPS)
    shown = trace.maximum(below(found.depth - 2.0 * tolerance, end.lowest[0]), below(3.5 + STEPS, end.n_points))
    # no face is higher than that but where all points are on a line
    done = (1.0 - again) * shown * below(end.lowest[0], 0.5 * GONE)
    state = _State(end.direction, end.n_points, end.n_faces, old.n_places + 1.0, done, found, known)
    return [*state.flat(), again]


def _known(numbers: Sequence[Value], tolerance: Value) -> Known:
    direction, edge, depth = numbers[:3], numbers[3:6], numbers[6]
    return Known(direction, NEAR, edge, SLANT, NEAR * depth - tolerance)


def _begin(difference: Difference, surface: Surface, old: _State, found: Settled) -> Growth:
    """A polytope about the first that was found; later the same one, of which more is known."""
    recorder = difference.recorder

    def first() -> list[Value]:
        lowest, best = _first_faces(difference, surface, found)
        return [4.0, 4.0, *lowest, *best, 0.0]

    def later() -> list[Value]:
        return [old.n_points, old.n_faces, *surface.rank(old.n_faces), *found.direction, found.depth, 0.0]

    flat = recorder.where("first faces", old.n_places, 0.5, first, [0.0] * 9)
    return Growth.of(recorder.where("ranks", 0.5, old.n_places, later, flat))


def _first_faces(difference: Difference, surface: Surface, found: Settled) -> tuple[Lowest, list[Value]]:
    """The lowest of them; and the best of the directions in which points were found, and how deep it is there.

    Some of these are better where a corner of the difference was found: it is deeper there than around it.
    """
    recorder, up = difference.recorder, found.direction
    along = either(0.5, dot(found.edge, found.edge), found.edge, across(up))
    along = unit(sub(along, scale(dot(along, up), up)))
    beside = cross(up, along)
    ways = [unit(add(up, scale(TILT * x, along), scale(TILT * y, beside))) for x, y in TRIANGLE]
    directions, best = recorder.local(9), recorder.local(4)
    recorder.write(directions, [x for way in ways for x in way])
    recorder.write(best, [*up, found.depth])
    recorder.write(surface.points, found.point)

    def look(turn: Value) -> None:
        direction = [recorder.read(directions, i, 3.0 * turn) for i in range(3)]
        point = difference.farthest(direction)
        recorder.write(surface.points, point, POINT, POINT * turn)
        before = [recorder.read(best, i) for i in range(4)]
        depth = dot(point[:3], direction)
        recorder.write(best, either(depth, before[3], [*direction, depth], before))

    recorder.count("first points", 3.0, look, uniform=True)
    one, two, three = (surface.point(float(i)) for i in (1, 2, 3))
    wrong = dot(up, cross(sub(two[:3], one[:3]), sub(three[:3], one[:3])))
    one, two = either(wrong, 0.0, two, one), either(wrong, 0.0, one, two)
    recorder.write(surface.points, [*one, *two], POINT)
    points = [p[:3] for p in (found.point, one, two, three)]
    lowest: Lowest = (2.0 * GONE, 0.0)
    for number, (face, others) in enumerate(zip(FIRST, BESIDE, strict=True)):
        numbers, neighbours = ([float(i) for i in x] for x in (face, others))
        rank = surface.put(float(number), numbers, neighbours, [points[i] for i in face])
        lowest = trace.minimum(lowest[0], rank), trace.select(rank, lowest[0], float(number), lowest[1])
    recorder.new_line()
    return lowest, [recorder.read(best, i) for i in range(4)]

"""Two convex shapes: where they are nearest, or how deep they are in each other."""

from __future__ import annotations

from dataclasses import dataclass

from kinema import trace
from kinema.trace import Value

from ..sweeps.maths import Matrix, Vector, add, product, rotate, scale, sub, transpose, unrotate
from .deepest import deepest
from .directions import TINY, rounding, unit
from .nearest import FAR, Difference, Nearest, Point, outside
from .shallowest import shallowest
from .solid import Solid, Work
from .support import CORES, Core
from .vectors import either

SMALLEST = 1e-7
"""Shapes are made to have the size one, but for those that are smaller [m]."""


@dataclass(frozen=True, slots=True)
class Meeting:
    """Two shapes in the axes of the second, with the larger of the size one."""

    cores: tuple[Core, Core]
    position: Vector
    """Of the first shape."""
    rotation: Matrix
    """From the axes of the first to those of the second."""
    size: Value
    """What one is [m]."""
    found: Nearest
    """Of the whole shapes, not only their cores; the point is of the core."""


def meet(work: Work, kinds: tuple[str, str], a: Solid, b: Solid) -> Meeting:
    """Find out where two shapes are nearest."""
    recorder = work.recorder
    return meet_cores(work, (CORES[kinds[0]](recorder, a), CORES[kinds[1]](recorder, b)), a, b)


def meet_cores(work: Work, cores: tuple[Core, Core], a: Solid, b: Solid) -> Meeting:
    """The same of shapes that are known by their cores."""
    first, second = cores
    size = trace.maximum(trace.maximum(first.size, second.size), SMALLEST)
    shrink = 1.0 / size
    position = scale(shrink, unrotate(b.rotation, sub(a.position, b.position)))
    rotation = product(transpose(b.rotation), a.rotation)

    def farthest(direction: Vector) -> Point:
        mine = add(position, scale(shrink, rotate(rotation, first.farthest(unrotate(rotation, direction)))))
        other = scale(shrink, second.farthest(scale(-1.0, direction)))
        return [*sub(mine, other), *mine]

    difference = Difference(work.recorder, farthest, rounding(*position), first.is_round or second.is_round)
    radii = shrink * (first.radius + second.radius)
    found = _signed(difference, position, shrink * work.reach + radii)
    found = Nearest(found.direction, found.distance - radii, found.point)
    return Meeting((first, second), position, rotation, size, found)


def _signed(difference: Difference, position: Vector, reach: Value) -> Nearest:
    """How far cores are apart; where they overlap or nearly touch, how deep they are in each other."""
    apart = outside(difference, scale(-1.0, position), reach)
    near = apart.nearest
    touching = trace.select(0.5, apart.inside, -1.0, near.distance)

    def overlap() -> list[Value]:
        deep = shallowest(difference, apart) if difference.is_round else deepest(difference, near.direction)
        # of what nearly touches, a face has a better direction than what is between, but that may be longer
        surely = trace.select((1.0 - apart.inside) * apart.bound, TINY, -FAR, apart.bound)
        return either(deep.distance + 8.0 * difference.rounding, surely, near.numbers(), deep.numbers())

    numbers = difference.recorder.where("overlap", touching, trace.sqrt(difference.rounding), overlap, near.numbers())
    return Nearest(numbers[:3], numbers[3], numbers[4:])


def emit_one(work: Work, meeting: Meeting, b: Solid) -> None:
    """The one point between the nearest ones."""
    found, shrink = meeting.found, 1.0 / meeting.size
    first, second = (shrink * core.radius for core in meeting.cores)
    distance = found.distance + first + second
    middle = add(found.point, scale(0.5 * (first - second + distance), found.direction))
    emit_at(work, meeting, b, found.distance, middle)


def emit_at(work: Work, meeting: Meeting, b: Solid, distance: Value, point: Vector) -> None:
    """A point in the axes of the second shape, to the world."""
    place = add(b.position, scale(meeting.size, rotate(b.rotation, point)))
    work.emit(meeting.size * distance, place, unit(rotate(b.rotation, meeting.found.direction)))

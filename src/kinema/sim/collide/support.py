"""How far convex shapes reach in a direction: all that the search for distances knows of them.

A shape is a core and a radius about it: a sphere is a point, a capsule a segment. What is round that way is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kinema import trace
from kinema.trace import Recorder, Value

from ..sweeps.maths import ZERO, Vector
from .directions import TINY
from .hulls import farthest_corner
from .solid import Hull, Solid
from .vectors import either, length, sign

Farthest = Callable[[Vector], Vector]
"""From a direction, of any length, to the farthest point of a core, both in the axes of the shape."""


@dataclass(frozen=True, slots=True)
class Core:
    """A convex shape, in its own axes."""

    farthest: Farthest
    radius: Value
    """How far the shape reaches beyond its core [m]."""
    size: Value
    """How far any of it is from its centre at most [m]."""
    is_round: bool = False
    """Whether the core has no end of corners."""


def sphere(recorder: Recorder, solid: Solid) -> Core:
    """A point."""
    return Core(lambda direction: ZERO, solid.size[0], solid.size[0])


def capsule(recorder: Recorder, solid: Solid) -> Core:
    """A segment."""
    radius, half, _ = solid.size
    return Core(lambda direction: (0.0, 0.0, sign(direction[2]) * half), radius, radius + half)


def ellipsoid(recorder: Recorder, solid: Solid) -> Core:
    """Squares of the half axes times the direction, over a length."""

    def farthest(direction: Vector) -> Vector:
        scaled = [s * d for s, d in zip(solid.size, direction, strict=True)]
        inverse = 1.0 / trace.maximum(length(scaled), TINY)
        return [s * d * inverse for s, d in zip(solid.size, scaled, strict=True)]

    return Core(farthest, 0.0, trace.maximum(solid.size[0], trace.maximum(solid.size[1], solid.size[2])), True)


def _rim(radius: Value, direction: Vector) -> list[Value]:
    """The farthest point of a circle about z; its centre where no point is farther than another."""
    factor = radius / trace.maximum(length(direction[:2]), TINY)
    return [factor * direction[0], factor * direction[1]]


def cylinder(recorder: Recorder, solid: Solid) -> Core:
    """A circle, up or down."""
    radius, half, _ = solid.size
    return Core(lambda d: [*_rim(radius, d), sign(d[2]) * half], 0.0, length([radius, half]), True)


def cone(recorder: Recorder, solid: Solid) -> Core:
    """Its tip, or the rim of its base."""
    radius, half, _ = solid.size

    def farthest(direction: Vector) -> Vector:
        rim = [*_rim(radius, direction), -half]
        beyond = 2.0 * half * direction[2] - radius * length(direction[:2])
        return either(0.0, beyond, (0.0, 0.0, half), rim)

    return Core(farthest, 0.0, length([radius, half]), True)


def box(recorder: Recorder, solid: Solid) -> Core:
    """A corner."""

    def farthest(direction: Vector) -> Vector:
        return [sign(d) * s for d, s in zip(direction, solid.size, strict=True)]

    return Core(farthest, 0.0, length(solid.size))


def mesh(recorder: Recorder, solid: Solid) -> Core:
    """The farthest of its corners."""
    assert solid.hull is not None
    hull = solid.hull
    return Core(lambda direction: farthest_corner(recorder, hull, direction)[0], 0.0, hull.radius)


def corner(hull: Hull, number: Value) -> Vector:
    """A corner of a convex mesh, in its axes."""
    start = hull.first + 3.0 * number
    return [hull.read(start + float(i)) for i in range(3)]


CORES: dict[str, Callable[[Recorder, Solid], Core]] = {
    "sphere": sphere,
    "capsule": capsule,
    "ellipsoid": ellipsoid,
    "cylinder": cylinder,
    "cone": cone,
    "box": box,
    "mesh": mesh,
}
"""The convex kinds of shapes."""

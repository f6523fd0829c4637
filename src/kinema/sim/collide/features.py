"""What of a convex shape faces a direction: the corners of a face, the ends of an edge, or a single point."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from kinema import trace
from kinema.model import MOST_CORNERS
from kinema.trace import Recorder, Value

from ..sweeps.maths import Vector, dot
from .directions import below, unit
from .hulls import facing, list_of, normal_of
from .solid import Solid
from .support import corner
from .vectors import either, length, sign

ROUND = 8
"""Corners that stand for a circle."""
STEEP = 0.7
"""The cosine of the angle to its normal up to which a face faces a direction."""
TILTED = 1e-4
"""The sine of the angle from which on the corners of a circle begin at its lowest point, which is none when flat."""
Keep = Callable[[Value, Vector], None]
"""Told of each corner: its number, and where it is, in the axes of the shape."""
Find = Callable[[Recorder, Solid, Vector, Keep], tuple[Value, Vector]]
"""Tells the corners of what faces a unit direction, counter-clockwise as seen from outside: how many, and the normal.

The normal of an edge is across it. Both are in the axes of the shape.
"""


@dataclass(frozen=True, slots=True)
class Feature:
    """How it is found for a kind of shapes."""

    find: Find
    most: int
    """Corners at most."""


def capsule(recorder: Recorder, solid: Solid, direction: Vector, keep: Keep) -> tuple[Value, Vector]:
    """The middle line, or a point where the direction is mostly along it."""
    half = solid.size[1]
    keep(0.0, (0.0, 0.0, -half))
    keep(1.0, (0.0, 0.0, half))
    return trace.select(trace.absolute(direction[2]), STEEP, 2.0, 1.0), _outward(direction)


def _outward(direction: Vector) -> Vector:
    """The part across z."""
    return [*unit([*direction[:2], 0.0])[:2], 0.0]


def cylinder(recorder: Recorder, solid: Solid, direction: Vector, keep: Keep) -> tuple[Value, Vector]:
    """A cap, or a line along the side."""
    radius, half, _ = solid.size
    up, out = sign(direction[2]), _outward(direction)
    x, y = radius * out[0], radius * out[1]
    return _cap_or_side(recorder, solid, direction, keep, up, ([x, y, -half], [x, y, half]), (2.0, out))


def cone(recorder: Recorder, solid: Solid, direction: Vector, keep: Keep) -> tuple[Value, Vector]:
    """The base, a line from the rim to the tip, or the tip."""
    radius, half, _ = solid.size
    out = _outward(direction)
    slope = unit([2.0 * half * out[0], 2.0 * half * out[1], radius])
    is_side = below(STEEP, dot(slope, direction))
    line = [radius * out[0], radius * out[1], -half], (0.0, 0.0, half)
    return _cap_or_side(recorder, solid, direction, keep, -1.0, line, (1.0 + is_side, slope))


def _cap_or_side(
    recorder: Recorder,
    solid: Solid,
    direction: Vector,
    keep: Keep,
    up: Value,
    side: tuple[Vector, Vector],
    otherwise: tuple[Value, Vector],
) -> tuple[Value, Vector]:
    """The cap in one direction of z where it faces the direction, else the side, of so many points and that normal."""
    radius, half, _ = solid.size
    is_cap = below(STEEP, up * direction[2])
    start = either(length(direction[:2]), TILTED, (1.0, 0.0), _outward(direction)[:2])
    around = recorder.local(2)
    recorder.write(around, start)
    cosine, sine = math.cos(2.0 * math.pi / ROUND), math.sin(2.0 * math.pi / ROUND) * up

    def tell(turn: Value) -> None:
        x, y = recorder.read(around), recorder.read(around, 1)
        on_side = either(turn, 0.5, side[0], side[1])
        keep(turn, either(0.5, is_cap, [radius * x, radius * y, up * half], on_side))
        recorder.write(around, [cosine * x - sine * y, sine * x + cosine * y])

    recorder.count("around", float(ROUND), tell, uniform=True)
    count, normal = otherwise
    return trace.select(0.5, is_cap, float(ROUND), count), either(0.5, is_cap, (0.0, 0.0, up), normal)


def box(recorder: Recorder, solid: Solid, direction: Vector, keep: Keep) -> tuple[Value, Vector]:
    """The face whose axis is nearest to the direction."""
    x, y, z = (trace.absolute(d) for d in direction)
    is_z = below(trace.maximum(x, y), z)
    is_y = (1.0 - is_z) * below(x, y)
    chosen = [1.0 - is_y - is_z, is_y, is_z]
    normal = [c * sign(d) for c, d in zip(chosen, direction, strict=True)]
    up = sign(dot(chosen, direction))
    # the axes that follow, x after z
    first, second = [chosen[2], chosen[0], chosen[1]], [chosen[1], chosen[2], chosen[0]]
    for number, (s, t) in enumerate(((1.0, 1.0), (-1.0, 1.0), (-1.0, -1.0), (1.0, -1.0))):
        weights = [n + (s * up) * a + t * b for n, a, b in zip(normal, first, second, strict=True)]
        keep(float(number), [w * h for w, h in zip(weights, solid.size, strict=True)])
    return 4.0, normal


def mesh(recorder: Recorder, solid: Solid, direction: Vector, keep: Keep) -> tuple[Value, Vector]:
    """The face whose normal is nearest to the direction."""
    hull = solid.hull
    assert hull is not None
    face = facing(recorder, hull, direction)
    count, start = list_of(hull, face)
    recorder.count("corners", count, lambda turn: keep(turn, corner(hull, hull.read(start + turn))))
    return count, normal_of(hull, face)


FEATURES: dict[str, Feature] = {
    "capsule": Feature(capsule, 2),
    "cylinder": Feature(cylinder, ROUND),
    "cone": Feature(cone, ROUND),
    "box": Feature(box, 4),
    "mesh": Feature(mesh, MOST_CORNERS),
}
"""Kinds that can touch with more than a point; the others are round everywhere."""

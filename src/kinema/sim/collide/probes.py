"""Points on primitive shapes that are held into a distance field, and how they slide to where it is deepest.

A probe is four numbers in units of the shape: a direction, or a place, and how far along the axis it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

from kinema import trace
from kinema.trace import Value

from ..sweeps.maths import Vector, scale
from .directions import TINY, unit
from .vectors import either, length

Probe = Sequence[Value]
LEVELS = (-1.0, -0.5, 0.0, 0.5, 1.0)
STEEPEST = 0.2
"""Of a unit vector: with less of it across the axis of a cylinder there is no way around that axis."""


@dataclass(frozen=True, slots=True)
class Probes:
    """Those of a kind of shape."""

    table: Sequence[tuple[float, float, float, float]]
    place: Callable[[Vector, Probe], Vector]
    """From the sizes of a shape and a probe to a point of its surface, in its axes [m]."""
    slide: Callable[[Vector, Probe, Vector, Vector], Vector] | None = None
    """From the sizes, a probe, where it is, and the way out of the field, to a place that may be deeper."""
    middle: float = 0.0
    """Well inside of the shape is on its axis, at this part of a probe's place along it."""

    def inside(self, size: Vector, probe: Probe) -> Vector:
        """A point well inside, from which a probe looks out."""
        return [0.0, 0.0, self.middle * size[1] * probe[3]]


def _cube() -> list[tuple[float, float, float]]:
    ends = (-1.0, 0.0, 1.0)
    return [(x, y, z) for x, y, z in product(ends, ends, ends) if x or y or z]


def _directions() -> list[tuple[float, float, float, float]]:
    return [(x / n, y / n, z / n, 0.0) for x, y, z in _cube() if (n := math.hypot(x, y, z))]


def _around(count: int, levels: Sequence[float]) -> list[tuple[float, float, float, float]]:
    turns = [2.0 * math.pi * i / count for i in range(count)]
    return [(math.cos(t), math.sin(t), 0.0, level) for level in levels for t in turns]


def _rim(size: Vector, probe: Probe, *, is_cone: bool) -> Value:
    """How far a cylinder or a cone is from its axis there."""
    return size[0] * (0.5 * (1.0 - probe[3])) if is_cone else size[0]


def _on_rim(size: Vector, probe: Probe, *, is_cone: bool = False) -> Vector:
    radius = _rim(size, probe, is_cone=is_cone)
    return [radius * probe[0], radius * probe[1], size[1] * probe[3]]


def _along_rim(size: Vector, probe: Probe, at: Vector, outward: Vector, *, is_cone: bool = False) -> Vector:
    """Around the axis towards the field; where that is no way, it stays."""
    across = length(outward[:2])
    factor = -_rim(size, probe, is_cone=is_cone) / trace.maximum(across, STEEPEST)
    return either(across, STEEPEST, at, [factor * outward[0], factor * outward[1], at[2]])


def _farthest_of_ellipsoid(size: Vector, probe: Probe, at: Vector, outward: Vector) -> Vector:
    scaled = [s * x for s, x in zip(size, outward, strict=True)]
    factor = -1.0 / trace.maximum(length(scaled), TINY)
    return [factor * s * x for s, x in zip(size, scaled, strict=True)]


def _on_capsule(size: Vector, way: Vector, level: Value) -> Vector:
    x, y, z = scale(size[0], way)
    return [x, y, z + size[1] * level]


def _around_capsule(size: Vector, probe: Probe, at: Vector, outward: Vector) -> Vector:
    """Towards the field: beside the axis across it, beyond its ends any way out."""
    level = probe[3]
    beyond = trace.select(trace.absolute(level), 0.75, 0.0, trace.maximum(-level * outward[2], 0.0))
    way = unit([-outward[0], -outward[1], level * beyond])
    return _on_capsule(size, way, level)


def _on_box(size: Vector, probe: Probe) -> Vector:
    return [s * x for s, x in zip(size, probe[:3], strict=True)]


_RIMS = [*_around(8, (-1.0, 0.0, 1.0)), *_around(4, (-0.5, 0.5)), (0.0, 0.0, 0.0, -1.0), (0.0, 0.0, 0.0, 1.0)]

PROBES: dict[str, Probes] = {
    "sphere": Probes(
        _directions(), lambda size, p: scale(size[0], p[:3]), lambda size, p, at, out: scale(-size[0], out)
    ),
    "capsule": Probes(
        [*_around(6, LEVELS), (0.0, 0.0, -1.0, -1.0), (0.0, 0.0, 1.0, 1.0)],
        lambda size, p: _on_capsule(size, p[:3], p[3]),
        _around_capsule,
        1.0,
    ),
    "ellipsoid": Probes(_directions(), _on_box, _farthest_of_ellipsoid),
    "cylinder": Probes(_RIMS, _on_rim, _along_rim, 0.5),
    "cone": Probes(
        _RIMS,
        lambda size, p: _on_rim(size, p, is_cone=True),
        lambda size, p, at, out: _along_rim(size, p, at, out, is_cone=True),
    ),
    "box": Probes([(*c, 0.0) for c in _cube()], _on_box),
}
"""By kind."""

"""Spheres and capsules with capsules: spheres about the nearest points of their axes."""

from __future__ import annotations

from kinema import trace
from kinema.trace import Value

from ..sweeps.maths import Vector, cross, dot, sub
from .solid import Solid, Work
from .spheres import spare_normal, two_spheres
from .vectors import across, along, column

PARALLEL = 1e-8
"""The square of the sine below which MuJoCo takes the axes of two capsules for parallel."""
SHORT = 1e-15 / 4.0
"""Capsules whose half length squared is not above this [m^2] are spheres."""


def sphere_capsule(work: Work, sphere: Solid, capsule: Solid) -> None:
    """One point on the line from the sphere's centre to the nearest point of the axis."""
    axis = column(capsule.rotation, 2)
    where = trace.clamp(dot(axis, sub(sphere.position, capsule.position)), -capsule.size[1], capsule.size[1])
    nearest = along(capsule.position, where, axis)
    two_spheres(work, sphere.position, sphere.size[0], nearest, capsule.size[0], spare_normal(capsule))


def capsule_capsule(work: Work, a: Solid, b: Solid) -> None:
    """The nearest points of both axes; of parallel ones, those at both ends of where they lie side by side."""
    recorder = work.recorder
    way_a, way_b = column(a.rotation, 2), column(b.rotation, 2)
    both = _Axes(way_a, way_b, sub(a.position, b.position), a.size[1], b.size[1])
    nearest, second, two = both.nearest()
    kept = recorder.local(5)
    recorder.write(kept, [*nearest, *second, two])
    spare = across(way_a, way_b)

    def tell(turn: Value) -> None:
        on_a, on_b = (recorder.read(kept, i, 2.0 * turn) for i in range(2))
        point_a, point_b = along(a.position, on_a, way_a), along(b.position, on_b, way_b)
        two_spheres(work, point_a, a.size[0], point_b, b.size[0], spare)

    recorder.count("nearest points", 1.0 + two, tell, most=2)


class _Axes:
    """Two stretches of straight lines about points; `apart` is from the second point to the first."""

    def __init__(self, way_a: Vector, way_b: Vector, apart: Vector, half_a: Value, half_b: Value) -> None:
        self.way_a, self.way_b, self.apart = way_a, way_b, apart
        self.half_a, self.half_b = half_a, half_b
        self.cosine = dot(way_a, way_b)
        self.back_a, self.on_b = dot(way_a, apart), dot(way_b, apart)

    def nearest(self) -> tuple[list[Value], list[Value], Value]:
        """Where on both they are nearest; where else, and whether (1 or 0) that matters."""
        normal = cross(self.way_a, self.way_b)
        squared = dot(normal, normal)
        crossing = dot(normal, cross(self.way_b, self.apart)) / trace.maximum(squared, PARALLEL)
        shorter = trace.minimum(self.half_a * self.half_a, self.half_b * self.half_b)
        # a capsule without a length has no direction either
        parallel = trace.select(SHORT, shorter, trace.select(PARALLEL, squared, 0.0, 1.0), 0.0)
        start = trace.clamp(trace.select(0.5, parallel, -self.half_a, crossing), -self.half_a, self.half_a)
        return self._beside(start), self._beside(self.half_a), parallel

    def _beside(self, on_a: Value) -> list[Value]:
        """From a point of the first: the nearest of the second, and the nearest of the first to that."""
        free = self.cosine * on_a + self.on_b
        on_b = trace.clamp(free, -self.half_b, self.half_b)
        moved = trace.clamp(self.cosine * on_b - self.back_a, -self.half_a, self.half_a)
        return [trace.select(self.half_b, trace.absolute(free), moved, on_a), on_b]

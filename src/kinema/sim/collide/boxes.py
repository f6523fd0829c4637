"""Spheres with boxes."""

from __future__ import annotations

from kinema import trace
from kinema.trace import Value

from ..sweeps.maths import Vector, add, rotate, scale, sub, unrotate
from .solid import Solid, Work
from .vectors import SHORTEST, along, direction, either, length

INWARDS: tuple[Vector, ...] = tuple(
    tuple(-side if i == k else 0.0 for k in range(3)) for i in range(3) for side in (-1.0, 1.0)
)
"""Into a box through each of its faces."""


def sphere_box(work: Work, sphere: Solid, box: Solid) -> None:
    """One point, at the nearest of the box; from inside, at the nearest of its faces."""
    sphere_and_box(work, unrotate(box.rotation, sub(sphere.position, box.position)), sphere.size[0], box)


def sphere_and_box(work: Work, centre: Vector, radius: Value, box: Solid) -> None:
    """The same with the sphere's centre in the axes of the box."""
    nearest = [trace.clamp(x, -half, half) for x, half in zip(centre, box.size, strict=True)]
    there = sub(nearest, centre)
    outside = length(there)
    depth, inwards = _nearest_face(centre, box.size)
    way = direction(there, outside, inwards)
    gap = trace.select(outside, SHORTEST, -depth, outside) - radius
    point = along(centre, radius + 0.5 * gap, way)
    work.emit(gap, add(box.position, rotate(box.rotation, point)), rotate(box.rotation, way))


def _nearest_face(centre: Vector, half: Vector) -> tuple[Value, Vector]:
    """How far it is to the nearest face from inside, and the way in."""
    depths = [half[i // 2] + (centre[i // 2] if i % 2 == 0 else -centre[i // 2]) for i in range(6)]
    best, inwards = depths[0], INWARDS[0]
    for depth, way in zip(depths[1:], INWARDS[1:], strict=True):
        inwards = either(depth, best, way, inwards)
        best = trace.minimum(best, depth)
    return best, scale(1.0, inwards)

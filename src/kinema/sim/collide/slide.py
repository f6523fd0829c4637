"""A direction made better, step by step, where the surface of the difference is round."""

from __future__ import annotations

from collections.abc import Sequence

from kinema import trace
from kinema.trace import Value

from ..sweeps.maths import Vector, dot, scale, sub
from .directions import below, unit
from .nearest import Difference
from .vectors import either

STEPS = 40
LONGER, SHORTER = 1.6, 0.4
"""How the length of steps changes after one that brought something, and one that did not."""


def slide(difference: Difference, direction: Vector, depth: Value, tolerance: Value) -> tuple[Vector, Value]:
    """A direction in which the difference is less deep, and how deep: downhill, as long as steps are worth it."""
    start = difference.farthest(direction)[:3]

    def step(flat: Sequence[Value]) -> tuple[list[Value], Value, Value]:
        old, old_depth, point, size = flat[:3], flat[3], flat[4:7], flat[7]
        uphill = sub(point, scale(old_depth, old))
        new = unit(sub(old, scale(size, uphill)), old)
        farthest = difference.farthest(new)[:3]
        depth = dot(farthest, new)
        better = below(depth, old_depth)
        kept = either(0.5, better, [*new, depth, *farthest], [*old, old_depth, *point])
        size = size * trace.select(0.5, better, LONGER, SHORTER)
        return [*kept, size], 0.1 * tolerance, size * dot(uphill, uphill)

    end = difference.recorder.repeat("slide", step, [*direction, depth, *start, 1.0], STEPS)
    return end[:3], end[3]

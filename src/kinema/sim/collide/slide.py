"""A direction made better, step by step, where the surface of the difference is round.

How deep the difference is along a direction is a function with a slope: the part of its farthest point that is across.
What slopes change by from step to step tells how it bends (Broyden, Fletcher, Goldfarb and Shanno), so that few steps
suffice also where it is bent much more one way than the other, as for thin ellipsoids.
"""

from __future__ import annotations

from collections.abc import Sequence

from kinema import trace
from kinema.trace import Value

from ..sweeps.maths import Matrix, Vector, dot, rotate, scale, sub
from .directions import TINY, below, unit
from .nearest import Difference
from .vectors import either

STEPS = 80
SHORTER, LONGER = 0.3, 3.0
"""How the length of steps changes after one that brought nothing, and one that did."""
MOST = 1e4
"""How much longer they may become than what is told of bends: along a valley with steep sides that is little."""
LONGEST = 0.5
"""Of one step [rad], about."""
BENT = 1e-3
"""Least curvature that is believed, against the product of the lengths of a step and the change of the slope."""


def slide(difference: Difference, direction: Vector, edge: Vector, tolerance: Value) -> tuple[Vector, Value]:
    """A direction in which the difference is less deep, and how deep: downhill, as long as steps are worth it.

    Where there is an edge, directions are across it: to either side of those the difference is deeper at once.
    """

    def across(a: Vector) -> Vector:
        return sub(a, scale(dot(edge, a), edge))

    direction = unit(across(direction), direction)
    start = difference.farthest(direction)[:3]
    depth = dot(start, direction)

    def step(flat: Sequence[Value]) -> tuple[list[Value], Value, Value]:
        old, old_depth, point, size, inverse = flat[:3], flat[3], flat[4:7], flat[7], flat[8:14]
        slope = across(sub(point, scale(old_depth, old)))
        whole = rotate(_matrix(inverse), slope)
        far = trace.sqrt(trace.maximum(dot(whole, whole), TINY))
        ahead = scale(size * trace.minimum(1.0, LONGEST / far), whole)
        new = unit(sub(old, ahead), old)
        farthest = difference.farthest(new)[:3]
        depth = dot(farthest, new)
        bends = _bent(inverse, sub(new, old), sub(across(sub(farthest, scale(depth, new))), slope))
        better = below(depth, old_depth)
        kept = either(0.5, better, [*new, depth, *farthest], [*old, old_depth, *point])
        size = trace.minimum(size * trace.select(0.5, better, LONGER, SHORTER), MOST)
        return [*kept, size, *bends], 0.01 * tolerance, size * dot(slope, whole)

    inverse = 1.0 / trace.maximum(trace.absolute(depth) + trace.sqrt(dot(start, start)), TINY)
    state = [*direction, depth, *start, 1.0, inverse, inverse, inverse, 0.0, 0.0, 0.0]
    end = difference.recorder.repeat("slide", step, state, STEPS)
    return end[:3], end[3]


def _matrix(six: Sequence[Value]) -> Matrix:
    """Of its diagonal and what is beside it."""
    xx, yy, zz, yz, xz, xy = six
    return [[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]


def _bent(inverse: Sequence[Value], moved: Vector, changed: Vector) -> list[Value]:
    """The inverse of how it bends, with what a step told; as it was where that was no bend, or none upwards."""
    told = dot(moved, changed)
    believed = BENT * trace.sqrt(trace.maximum(dot(moved, moved) * dot(changed, changed), TINY * TINY))
    per = 1.0 / trace.maximum(told, trace.maximum(believed, TINY))
    predicted = rotate(_matrix(inverse), changed)
    factor = per * (1.0 + per * dot(changed, predicted))
    new = []
    for number, (i, j) in enumerate(((0, 0), (1, 1), (2, 2), (1, 2), (0, 2), (0, 1))):
        cross = predicted[i] * moved[j] + moved[i] * predicted[j]
        new.append(inverse[number] + factor * moved[i] * moved[j] - per * cross)
    return either(trace.maximum(believed, TINY), told, new, inverse)

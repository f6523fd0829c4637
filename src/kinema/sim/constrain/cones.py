"""The force of one contact: from what is missing in its directions, scaled by friction so that all are alike.

In these directions, the normal first, all are equally stiff. Friction is bounded by a cone about the normal, or by a
pyramid in it, whose edges are rows that push, each the normal with one direction of friction added or taken away. A
cone has three zones: in the first nothing pushes, in the last nothing slides, and in between it slides along the cone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kinema import trace
from kinema.trace import Value

from ..sweeps.maths import dot

SMALLEST = 1e-30


@dataclass(frozen=True, slots=True)
class Push:
    """The slope of a contact's cost in each direction, and its curvature: the lower half of a matrix, by rows."""

    slope: list[Value]
    curve: list[list[Value]]


def push(residual: Sequence[Value], stiffness: Value, bound: Value, *, elliptic: bool) -> Push:
    """What a contact does where it is."""
    if len(residual) == 1:
        d = trace.select(residual[0], 0.0, stiffness, 0.0)
        return Push([d * residual[0]], [[d]])
    return _cone(residual, stiffness, bound) if elliptic else _pyramid(residual, stiffness)


def _pyramid(residual: Sequence[Value], stiffness: Value) -> Push:
    normal, *rest = residual
    slope: list[Value] = [0.0] * len(residual)
    curve: list[list[Value]] = [[0.0] * (i + 1) for i in range(len(residual))]
    for k, x in enumerate(rest, 1):
        plus, minus = normal + x, normal - x
        a, b = (trace.select(edge, 0.0, stiffness, 0.0) for edge in (plus, minus))
        slope[0] = slope[0] + (a * plus + b * minus)
        slope[k] = a * plus - b * minus
        curve[0][0] = curve[0][0] + (a + b)
        curve[k][0], curve[k][k] = a - b, a + b
    return Push(slope, curve)


def _edges(residual: Sequence[Value]) -> list[Value]:
    """What is missing along the edges of a pyramid, or along the normal alone.

    What is squared is squared edge by edge: of the squares of the normal and of friction by themselves little would be
    left where a motion is along an edge, and in single precision that little may be of any sign.
    """
    normal, *rest = residual
    return [edge for x in rest for edge in (normal + x, normal - x)] or [normal]


@dataclass(frozen=True, slots=True)
class _Zone:
    """Where the residual of a cone is."""

    length: Value
    """Of the directions of friction."""
    inverse: Value
    above: Value
    """How far above the cone the normal is; negative below."""
    soft: Value
    """The stiffness of sliding along the cone."""
    pushes: Value
    """1 where it does anything, else 0."""
    sticks: Value
    """1 where nothing slides, else 0."""


def _zone(residual: Sequence[Value], stiffness: Value, bound: Value) -> _Zone:
    normal, *rest = residual
    length = trace.sqrt(trace.maximum(dot(rest, rest), SMALLEST))
    above = normal - bound * length
    return _Zone(
        length,
        1.0 / length,
        above,
        stiffness / (1.0 + bound * bound),
        trace.select(above, 0.0, 1.0, 0.0),
        trace.select(bound * normal + length, 0.0, 1.0, 0.0),
    )


def _cone(residual: Sequence[Value], stiffness: Value, bound: Value) -> Push:
    zone = _zone(residual, stiffness, bound)
    sliding = zone.soft * zone.above
    outward = [0.0, *(zone.inverse * x for x in residual[1:])]
    unit = [1.0, *(-bound * x for x in outward[1:])]
    across = -bound * zone.inverse * sliding

    def chosen(sticking: Value, moving: Value) -> Value:  # where nothing slides, numbers of sliding may be none
        return trace.select(0.5, zone.pushes, trace.select(0.5, zone.sticks, sticking, moving), 0.0)

    slope = [chosen(stiffness * x, sliding * u) for x, u in zip(residual, unit, strict=True)]
    curve: list[list[Value]] = []
    for i, a in enumerate(unit):
        row: list[Value] = []
        for j, b in enumerate(unit[: i + 1]):
            moving = zone.soft * a * b
            if j > 0:
                moving = moving + across * ((1.0 if i == j else 0.0) - outward[i] * outward[j])
            row.append(chosen(stiffness if i == j else 0.0, moving))
        curve.append(row)
    return Push(slope, curve)


@dataclass(frozen=True, slots=True)
class Bend:
    """The curvature of a cone's cost as a sum: of each direction by itself, and of some directions combined."""

    weights: list[Value]
    """Of the squares of directions."""
    outward: list[Value]
    """The direction in which friction points, of length one; none of the normal."""
    soft: Value
    """Of the square of the normal less the bound times that direction."""
    less: Value
    """Of the square of that direction, to be taken away."""


def slope_and_bend(residual: Sequence[Value], stiffness: Value, bound: Value) -> tuple[list[Value], Bend]:
    """The same as `push` says of a cone, in fewer numbers."""
    return _cone(residual, stiffness, bound).slope, bend(residual, stiffness, bound)


def bend(residual: Sequence[Value], stiffness: Value, bound: Value) -> Bend:
    """The curvature alone."""
    zone = _zone(residual, stiffness, bound)
    across = -bound * zone.inverse * (zone.soft * zone.above)

    def chosen(sticking: Value, moving: Value) -> Value:
        return trace.select(0.5, zone.pushes, trace.select(0.5, zone.sticks, sticking, moving), 0.0)

    sideways = chosen(stiffness, across)
    return Bend(
        [chosen(stiffness, 0.0), *[sideways] * (len(residual) - 1)],
        [zone.inverse * x for x in residual[1:]],
        chosen(0.0, zone.soft),
        chosen(0.0, across),
    )


def along(
    residual: Sequence[Value], change: Sequence[Value], stiffness: Value, bound: Value, *, elliptic: bool
) -> tuple[Value, Value]:
    """The slope of a contact's cost along a direction, and its curvature."""
    if not elliptic or len(residual) == 1:
        slope, square = 0.0, 0.0
        for edge, moved in zip(_edges(residual), _edges(change), strict=True):
            felt = trace.select(edge, 0.0, stiffness * moved, 0.0)
            slope, square = slope + felt * edge, square + felt * moved
        return slope, square
    zone = _zone(residual, stiffness, bound)
    rest, moved = residual[1:], change[1:]
    outward = zone.inverse * dot(rest, moved)
    steeper = change[0] - bound * outward
    sliding = zone.soft * zone.above
    bent = bound * zone.inverse * sliding * (dot(moved, moved) - outward * outward)
    slope = trace.select(0.5, zone.sticks, stiffness * dot(residual, change), sliding * steeper)
    curve = trace.select(0.5, zone.sticks, stiffness * dot(change, change), zone.soft * steeper * steeper - bent)
    return trace.select(0.5, zone.pushes, slope, 0.0), trace.select(0.5, zone.pushes, curve, 0.0)


def cost(residual: Sequence[Value], stiffness: Value, bound: Value, *, elliptic: bool) -> Value:
    """What a contact costs where it is."""
    if not elliptic or len(residual) == 1:
        missing = [trace.minimum(edge, 0.0) for edge in _edges(residual)]
        return 0.5 * stiffness * dot(missing, missing)
    zone = _zone(residual, stiffness, bound)
    sliding = zone.soft * zone.above * zone.above
    found = trace.select(0.5, zone.sticks, stiffness * dot(residual, residual), sliding)
    return trace.select(0.5, zone.pushes, 0.5 * found, 0.0)


def differs(
    before: Sequence[Value], after: Sequence[Value], stiffness: Value, bound: Value, *, elliptic: bool
) -> Value:
    """Above zero unless the cost is the same square function at both."""
    if elliptic and len(before) > 1:
        a, b = (_zone(x, stiffness, bound) for x in (before, after))
        same = a.pushes * b.pushes * a.sticks * b.sticks + (1.0 - a.pushes) * (1.0 - b.pushes)
        return 1.0 - same
    if len(before) == 1:
        a, b = (trace.select(x[0], 0.0, 1.0, 0.0) for x in (before, after))
        return trace.absolute(a - b)
    total: Value = 0.0
    for k in range(1, len(before)):
        for sign in (1.0, -1.0):
            a, b = (trace.select(x[0] + sign * x[k], 0.0, 1.0, 0.0) for x in (before, after))
            total = total + trace.absolute(a - b)
    return total

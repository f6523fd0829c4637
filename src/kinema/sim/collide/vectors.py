"""Vectors that pairs of shapes have in common: directions of length one, also of no vector at all."""

from __future__ import annotations

from kinema import trace
from kinema.trace import Value

from ..sweeps.maths import Matrix, Vector, add, cross, dot, scale

SHORTEST = 1e-15
"""Vectors that are shorter [m] have no direction. Its square is a number in single precision, too."""
X: Vector = (1.0, 0.0, 0.0)
Z: Vector = (0.0, 0.0, 1.0)


def column(rotation: Matrix, i: int) -> Vector:
    """An axis of a solid, in the world."""
    return [row[i] for row in rotation]


def either(a: Value, b: Value, below: Vector, otherwise: Vector) -> list[Value]:
    """One vector where a < b, else the other."""
    return [trace.select(a, b, x, y) for x, y in zip(below, otherwise, strict=True)]


def length(a: Vector) -> Value:
    """Of a vector [m]."""
    return trace.sqrt(dot(a, a))


def direction(a: Vector, size: Value, otherwise: Vector) -> Vector:
    """A vector of a known length made as long as one; another direction where it has none."""
    return either(size, SHORTEST, otherwise, scale(1.0 / trace.maximum(size, SHORTEST), a))


def across(a: Vector, b: Vector) -> Vector:
    """The direction that two axes do not have: across both, or any where they are parallel."""
    both = cross(a, b)
    return direction(both, length(both), X)


def along(start: Vector, distance: Value, way: Vector) -> Vector:
    """The point that is so far from another one."""
    return add(start, scale(distance, way))


def sign(x: Value) -> Value:
    """1 where a number is above zero, else -1."""
    return trace.select(0.0, x, 1.0, -1.0)

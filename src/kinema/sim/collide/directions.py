"""What convex shapes need of vectors: lengths, directions, choices."""

from __future__ import annotations

from kinema import trace
from kinema.trace import Value

from ..sweeps.maths import Vector, cross, dot, scale

TINY = 1e-30
"""Instead of a zero that something is divided by; a number in single precision, too."""


def either(a: Value, b: Value, below: Vector, otherwise: Vector) -> list[Value]:
    """One vector where a < b, else the other."""
    return [trace.select(a, b, x, y) for x, y in zip(below, otherwise, strict=True)]


def below(a: Value, b: Value) -> Value:
    """1 where a < b, else 0."""
    return trace.select(a, b, 1.0, 0.0)


def sign(x: Value) -> Value:
    """1 where a number is above zero, else -1."""
    return trace.select(0.0, x, 1.0, -1.0)


def length(a: Vector) -> Value:
    """Of a vector."""
    return trace.sqrt(dot(a, a))


def unit(a: Vector, otherwise: Vector = (1.0, 0.0, 0.0)) -> Vector:
    """A vector made as long as one; another where it has no direction."""
    square = dot(a, a)
    return either(square, TINY, otherwise, scale(1.0 / trace.sqrt(trace.maximum(square, TINY)), a))


def across(a: Vector) -> Vector:
    """Some direction at a right angle to a unit vector."""
    other = either(trace.absolute(a[0]), 0.6, (1.0, 0.0, 0.0), (0.0, 1.0, 0.0))
    return unit(cross(a, other))


def rounding(*values: Value) -> Value:
    """The distance from 1 to the next number, in the precision that the program runs in; any symbol serves to ask it."""
    some = next((v for v in values if isinstance(v, trace.Scalar)), None)
    if some is None:
        return 2.0**-52
    one = trace.select(some, some, 2.0, 1.0)  # a number that is not folded before the precision is known
    third = one * (4.0 / 3.0) - 1.0
    return trace.absolute(3.0 * third - 1.0)

"""Directions of length one, and what comparisons and rounding are, for the search among convex shapes."""

from __future__ import annotations

from kinema import trace
from kinema.trace import Value

from ..sweeps.maths import Vector, cross, dot, scale
from .vectors import X, either

TINY = 1e-30
"""Instead of a zero that something is divided by; a number in single precision, too."""


def below(a: Value, b: Value) -> Value:
    """1 where a < b, else 0."""
    return trace.select(a, b, 1.0, 0.0)


def unit(a: Vector, otherwise: Vector = X) -> Vector:
    """A vector made as long as one; another where it has no direction."""
    square = dot(a, a)
    return either(square, TINY, otherwise, scale(1.0 / trace.sqrt(trace.maximum(square, TINY)), a))


def across(a: Vector) -> Vector:
    """Some direction at a right angle to a unit vector."""
    other = either(trace.absolute(a[0]), 0.6, X, (0.0, 1.0, 0.0))
    return unit(cross(a, other))


def rounding(*values: Value) -> Value:
    """The distance from 1 to the next number, in the precision that the program runs in; any symbol serves."""
    some = next((v for v in values if isinstance(v, trace.Scalar)), None)
    if some is None:
        return 2.0**-52
    one = trace.select(some, some, 2.0, 1.0)  # a number that is not folded before the precision is known
    third = one * (4.0 / 3.0) - 1.0
    return trace.absolute(3.0 * third - 1.0)

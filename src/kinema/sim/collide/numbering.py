"""Whole numbers: which cell of a grid something is in."""

from __future__ import annotations

from kinema import trace
from kinema.trace import Value

from .directions import rounding


def floor(x: Value) -> Value:
    """The next whole number below; of a whole number itself, or the one below it."""
    if not isinstance(x, trace.Scalar):
        return float(x // 1.0)
    whole = 1.5 / rounding(x)  # numbers this large have no digits after the point
    return (trace.clamp(x, -1e6, 1e6) - 0.5 + whole) - whole

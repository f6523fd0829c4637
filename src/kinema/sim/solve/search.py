"""A search along a step of the solver, for where the cost is least: Newton's method within brackets."""

from __future__ import annotations

from kinema import trace
from kinema.trace import Value

NEAR = 5e-2
"""A search is good enough when the slope of the cost is this small against that at its start. With 0.2 it takes as
long, and of a G1's steps, which end when all rows are as they were, the worst hundredth is 100 times as far off."""
LONGEST = 1e3
"""No search goes so many steps: rows that let go along it leave a share of its curvature; what is less is rounding."""
SMALLEST = 1e-30


def closer(length: Value, low: Value, high: Value, slope: Value, curve: Value) -> tuple[Value, Value, Value]:
    """A better length than one with such a slope and curvature, and the lengths it lies between."""
    low, high = trace.select(slope, 0.0, length, low), trace.select(slope, 0.0, high, length)
    middle = trace.select(high, LONGEST, 0.5 * (low + high), trace.minimum(2.0 * length, LONGEST))
    better = length - slope / trace.maximum(curve, SMALLEST)
    inside = trace.select(low, better, trace.select(better, high, better, middle), middle)
    return inside, low, high

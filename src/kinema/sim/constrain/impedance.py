"""How hard a soft constraint is, and the acceleration it wants: MuJoCo's `solimp` and `solref`."""

from __future__ import annotations

from collections.abc import Sequence

from kinema import trace
from kinema.trace import Value

from ..sweeps.maths import power_of

LEAST, MOST = 1e-4, 0.9999
"""Between these an impedance is kept, so that neither it nor its complement vanishes."""
LEAST_WIDTH = SMALLEST = 1e-15
DEFAULT_SOLREF = (0.02, 1.0)
FASTEST = 2.0
"""How fast [m/s or rad/s] what is as hard as can be comes back from afar: a loop that a file leaves open by half a
metre would be closed within a few steps, and nothing survives that. Softer rows, which files ask for, are MuJoCo's."""
NO_TIME, UNBOUNDED = 1e-6, 1e30
"""A time constant [s] that means as hard as can be; and a bound that is none."""


def whole_power(solimp: Sequence[float]) -> int:
    """The power of the law, which is one at least, where it is a whole number; 0 where it is none."""
    power = max(solimp[4], 1.0)
    return round(power) if power == round(power) else 0


def impedance(solimp: Sequence[Value], power: int, off: Value) -> Value:
    """By how far a constraint is violated: d0 at none, dw a width further, a power law between; without width, halfway.

    A midpoint is kept inside as impedances are. The power is what `whole_power` says of it.
    """
    start, end, width, midpoint, exponent = solimp
    midpoint = trace.clamp(midpoint, LEAST, MOST)
    x = trace.minimum(trace.absolute(off) * (1.0 / trace.maximum(width, LEAST_WIDTH)), 1.0)
    below, above = x, 1.0 - x
    for _ in range(power - 1):
        below, above = below * x * (1.0 / midpoint), above * (1.0 - x) * (1.0 / (1.0 - midpoint))
    if not power:
        below = midpoint * power_of(trace.minimum(x * (1.0 / midpoint), 1.0), exponent)
        above = (1.0 - midpoint) * power_of(trace.minimum((1.0 - x) * (1.0 / (1.0 - midpoint)), 1.0), exponent)
    y = trace.select(x, midpoint, below, 1.0 - above)
    y = trace.select(LEAST_WIDTH, width, y, 0.5)
    first, last = (trace.clamp(d, LEAST, MOST) for d in (start, end))
    return first + y * (last - first)


def hardest(weight: Value) -> Value:
    """The stiffness of what is as hard as can be."""
    return MOST / ((1.0 - MOST) * weight)


def sound(solref: Sequence[Value]) -> list[Value]:
    """Both numbers positive, or neither: what mixes the two forms is MuJoCo's default instead, as it is there."""
    first, second = (trace.select(0.0, x, 1.0, 0.0) for x in solref)
    mixed = trace.absolute(first - second)
    return [trace.select(mixed, 0.5, x, usual) for x, usual in zip(solref, DEFAULT_SOLREF, strict=True)]


def reference(solref: Sequence[Value], end: Value, dt: Value, *, safe: bool = True) -> tuple[Value, Value]:
    """Stiffness and damping: from a time constant and a damping ratio, or given directly where these are negative.

    To be safe, a time constant is not below two steps, as a stiffer constraint could not be carried by the step.
    """
    first, second = solref
    end = trace.clamp(end, LEAST, MOST)
    time = trace.maximum(first, 2.0 * dt) if safe else trace.maximum(first, SMALLEST)
    by_time = 1.0 / trace.maximum(end * end * time * time * second * second, SMALLEST), 2.0 / (end * time)
    direct = -first / (end * end), -second / end
    pairs = zip(by_time, direct, strict=True)
    return tuple(trace.select(0.0, first, a, b) for a, b in pairs)  # type: ignore[return-value]  # ty: ignore[invalid-explicit-return]


def bound_of_return(time: Value, damper: Value) -> Value:
    """What a row may want at most, so that it comes back slowly where its time constant means as hard as can be."""
    is_hard = trace.select(0.0, time, trace.select(time, NO_TIME, 1.0, 0.0), 0.0)
    return trace.select(0.5, is_hard, damper * FASTEST, UNBOUNDED)

"""MuJoCo's soft-constraint parameters: impedance d(r) from `solimp`, reference stiffness and damping from `solref`."""

from __future__ import annotations

from collections.abc import Sequence

from kinema import ir
from kinema.ir import Value

from ..vector_math import unit_interval_power

MIN_IMPEDANCE, MAX_IMPEDANCE = 1e-4, 0.9999
"""Bounds of the impedance, so that neither d nor 1 - d vanishes."""
MIN_WIDTH = TINY = 1e-15
"""Smallest width of the impedance function; below it the function is constant, halfway between d0 and dwidth."""
DEFAULT_SOLREF = (0.02, 1.0)
"""MuJoCo's default `solref`: time constant [s] and damping ratio."""
MAX_CORRECTION_SPEED = 2.0
"""Speed [m/s or rad/s] at which a rigid constraint corrects a large position error at most. Without this bound, a loop
that a file leaves open by half a metre would be closed within a few steps and the simulation diverge. Softer
constraints follow MuJoCo."""
RIGID_TIME_CONSTANT, UNBOUNDED = 1e-6, 1e30
"""Time constant [s] below which a constraint counts as rigid; and a value that stands for no bound."""


def impedance(solimp: Sequence[Value], power: int, violation: Value) -> Value:
    """Return the impedance d(r) of MuJoCo's `solimp`: a power-law sigmoid from d0 at r = 0 to dwidth at |r| = width.

    Args:
        solimp: d0, dwidth, width, midpoint and power.
        power: power as an integer (see `integer_power`), which is expanded into products; 0 for a general power.
        violation: constraint violation r [m or rad].
    """
    d0, dwidth, width, midpoint, exponent = solimp
    midpoint = ir.clamp(midpoint, MIN_IMPEDANCE, MAX_IMPEDANCE)
    x = ir.minimum(ir.absolute(violation) * (1.0 / ir.maximum(width, MIN_WIDTH)), 1.0)
    below, above = x, 1.0 - x
    for _ in range(power - 1):
        below, above = below * x * (1.0 / midpoint), above * (1.0 - x) * (1.0 / (1.0 - midpoint))
    if not power:
        below = midpoint * unit_interval_power(ir.minimum(x * (1.0 / midpoint), 1.0), exponent)
        above = (1.0 - midpoint) * unit_interval_power(ir.minimum((1.0 - x) * (1.0 / (1.0 - midpoint)), 1.0), exponent)
    y = ir.select(x, midpoint, below, 1.0 - above)
    y = ir.select(MIN_WIDTH, width, y, 0.5)
    dmin, dmax = (ir.clamp(d, MIN_IMPEDANCE, MAX_IMPEDANCE) for d in (d0, dwidth))
    return dmin + y * (dmax - dmin)


def smoothed_violation(violation: Value, width: float) -> tuple[Value, Value]:
    """Return the violation and the activation of a contact whose distance has a random error of at most `width` [m].

    The error has the density 3 (1 - (x / width)^2) / (4 width). The violation is the expected value of min(r, 0), the
    activation its derivative, the probability of contact: 1 from r = -width down, 0 from r = width on.
    """
    s = ir.clamp(violation * (1.0 / width), -1.0, 1.0)
    activation = 0.5 - 0.75 * s + 0.25 * (s * s * s)
    depth = width * (3.0 / 16.0 - 0.5 * s + s * s * (3.0 / 8.0 - s * s * (1.0 / 16.0)))
    return -(depth + ir.maximum(-violation - width, 0.0)), activation


def max_stiffness(invweight: Value) -> Value:
    """Return the stiffness D of a rigid constraint: d / ((1 - d) * invweight) at the maximum impedance d = 0.9999."""
    return MAX_IMPEDANCE / ((1.0 - MAX_IMPEDANCE) * invweight)


def valid_solref(solref: Sequence[Value]) -> list[Value]:
    """Replace a `solref` of mixed signs by MuJoCo's default (0.02, 1): both values must be positive, or both not."""
    first, second = (ir.select(0.0, x, 1.0, 0.0) for x in solref)
    mixed = ir.absolute(first - second)
    return [ir.select(mixed, 0.5, x, default) for x, default in zip(solref, DEFAULT_SOLREF, strict=True)]


def reference_stiffness_and_damping(
    solref: Sequence[Value], dmax: Value, dt: Value, *, refsafe: bool = True
) -> tuple[Value, Value]:
    """Return stiffness k [1/s^2] and damping b [1/s] of the reference acceleration aref = -b v - k d(r) r.

    Args:
        solref: time constant [s] and damping ratio if positive, else minus stiffness and minus damping.
        dmax: maximum impedance, solimp[1].
        dt: time step [s].
        refsafe: keep the time constant at or above two time steps (MuJoCo's refsafe).
    """
    first, second = solref
    dmax = ir.clamp(dmax, MIN_IMPEDANCE, MAX_IMPEDANCE)
    time_constant = ir.maximum(first, 2.0 * dt) if refsafe else ir.maximum(first, TINY)
    from_time_constant = (
        1.0 / ir.maximum(dmax * dmax * time_constant * time_constant * second * second, TINY),
        2.0 / (dmax * time_constant),
    )
    direct = -first / (dmax * dmax), -second / dmax
    pairs = zip(from_time_constant, direct, strict=True)
    return tuple(ir.select(0.0, first, a, b) for a, b in pairs)  # type: ignore[return-value]  # ty: ignore[invalid-explicit-return]


def correction_acceleration_bound(time_constant: Value, damping: Value) -> Value:
    """Return the bound of the position-feedback acceleration: b * `MAX_CORRECTION_SPEED` if rigid, else unbounded.

    A row is rigid if its time constant is positive and below `RIGID_TIME_CONSTANT`.
    """
    is_rigid = ir.select(0.0, time_constant, ir.select(time_constant, RIGID_TIME_CONSTANT, 1.0, 0.0), 0.0)
    return ir.select(0.5, is_rigid, damping * MAX_CORRECTION_SPEED, UNBOUNDED)

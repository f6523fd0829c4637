"""Rules about numbers that are none."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from kinema.foundation import Severity

from .context import Context
from .rule import Finding, rule
from .walk import Leaf
from .words import number, numbers, plural

_MAY_BE_INFINITE = {
    *("lower", "upper", "velocity", "effort", "acceleration", "deceleration", "jerk"),
    *("max_force", "break_force", "break_torque", "distance", "angle_y", "angle_z"),
    *("control_range", "force_range", "activation_range", "length_range", "clip", "cutoff"),
    *("static_friction", "dynamic_friction", "dynamic_friction2", "contact_stiffness", "contact_damping"),
}
"""Fields in which infinity says that there is no bound."""


@rule("numbers.nan", Severity.ERROR)
def not_a_number(context: Context) -> Iterable[Finding]:
    """A value is NaN, "not a number".

    It spreads: a NaN in one joint makes every link beyond it, and soon the whole simulation, NaN.
    """
    for leaf in context.leaves:
        bad = np.isnan(leaf.value) if _is_float(leaf) else np.zeros(1, dtype=bool)
        if bad.any():
            yield Finding(leaf.origin, _message(leaf, int(bad.sum()), "NaN"), "write a number there")


@rule("numbers.infinite", Severity.ERROR)
def infinite(context: Context) -> Iterable[Finding]:
    """A value is infinite where only a finite one makes sense.

    Limits may be infinite, for "no limit"; masses, sizes and positions may not.
    """
    for leaf in context.leaves:
        if leaf.field in _MAY_BE_INFINITE or not _is_float(leaf):
            continue
        bad = np.isinf(leaf.value)
        if bad.any():
            yield Finding(leaf.origin, _message(leaf, int(bad.sum()), "infinite"), "write a finite number there")


def _is_float(leaf: Leaf) -> bool:
    return np.asarray(leaf.value).dtype.kind == "f"


def _message(leaf: Leaf, count: int, what: str) -> str:
    value = np.asarray(leaf.value)
    if value.ndim == 0:
        return f"{leaf.label}: {leaf.path} is {number(float(value))}"
    if value.size <= 9:
        return f"{leaf.label}: {leaf.path} is {numbers(value.ravel())}"
    return f"{leaf.label}: {leaf.path} holds {plural(count, f'{what} value')} among {value.size}"

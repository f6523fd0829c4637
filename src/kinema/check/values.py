"""Rules about array shapes and types, NaN and infinite values.

No other rule is applied while the array shapes or types are wrong.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from kinema.core import Pose, Severity
from kinema.description import Assembly, Axis, Box, Constraint, Ellipsoid, HeightField, Inertial, Link, Mesh

from .context import CheckContext, FieldValue
from .messages import format_number, format_vector, pluralize
from .rule import Finding, rule

# ----------------------------------------------------------------------------------------------- array shapes and types

_ANY_LENGTH = -1
_VECTOR, _MATRIX, _ROWS, _GRID = (3,), (3, 3), (_ANY_LENGTH, 3), (_ANY_LENGTH, _ANY_LENGTH)
_EXPECTED_SHAPES: dict[tuple[type, str], tuple[int, ...]] = {
    (Pose, "position"): _VECTOR,
    (Pose, "rotation"): _MATRIX,
    (Inertial, "center"): _VECTOR,
    (Inertial, "inertia"): _MATRIX,
    (Axis, "direction"): _VECTOR,
    (Box, "size"): _VECTOR,
    (Ellipsoid, "radii"): _VECTOR,
    (Mesh, "scale"): _VECTOR,
    (Mesh, "vertices"): _ROWS,
    (Mesh, "faces"): _ROWS,
    (HeightField, "heights"): _GRID,
    (Link, "linear_velocity"): _VECTOR,
    (Link, "angular_velocity"): _VECTOR,
    (Constraint, "gear_axis_a"): _VECTOR,
    (Constraint, "gear_axis_b"): _VECTOR,
    (Assembly, "gravity"): _VECTOR,
}


@rule("structure.array", Severity.ERROR)
def invalid_array(context: CheckContext) -> Iterable[Finding]:
    """An array has the wrong shape, or does not hold numbers.

    A position has three numbers, a rotation and an inertia three rows of three. Nothing can be computed from a
    description in which that is not so, and the other rules are not tried. Files do not cause this; a program that
    builds a description does.
    """
    for leaf in context.field_values:
        expected = _expected_shape(leaf.container, leaf.field)
        if expected is None and not isinstance(leaf.value, np.ndarray):
            continue
        value = np.asarray(leaf.value)
        allowed = "iu" if leaf.field == "faces" else "fiu"
        if value.dtype.kind not in allowed:
            message = f"{leaf.label}: {leaf.path} does not hold {'whole ' * (allowed == 'iu')}numbers but {value.dtype}"
            yield Finding(leaf.origin, message, "build it as an array of numbers")
        elif expected is not None and not _shape_matches(value.shape, expected):
            wanted = " x ".join("n" if n == _ANY_LENGTH else str(n) for n in expected)
            message = f"{leaf.label}: {leaf.path} has the shape {value.shape}"
            yield Finding(leaf.origin, message, f"give it {wanted} numbers")


def _expected_shape(container: Any, field: str) -> tuple[int, ...] | None:
    return next(
        (shape for (kind, name), shape in _EXPECTED_SHAPES.items() if name == field and isinstance(container, kind)),
        None,
    )


def _shape_matches(shape: tuple[int, ...], expected: tuple[int, ...]) -> bool:
    if 0 in shape and _ANY_LENGTH in expected:
        return True
    return len(shape) == len(expected) and all(e in (_ANY_LENGTH, s) for s, e in zip(shape, expected, strict=True))


# ---------------------------------------------------------------------------------------------- NaN and infinite values

_MAY_BE_INFINITE = {
    *("lower", "upper", "velocity", "effort", "acceleration", "deceleration", "jerk"),
    *("max_force", "break_force", "break_torque", "distance", "angle_y", "angle_z"),
    *("control_range", "force_range", "activation_range", "length_range", "clip", "cutoff"),
    *("static_friction", "dynamic_friction", "dynamic_friction2", "contact_stiffness", "contact_damping"),
}
"""Fields in which infinity says that there is no bound."""


@rule("numbers.nan", Severity.ERROR)
def nan_value(context: CheckContext) -> Iterable[Finding]:
    """A value is NaN, "not a number".

    It spreads: a NaN in one joint makes every link beyond it, and soon the whole simulation, NaN.
    """
    for leaf in context.field_values:
        bad = np.isnan(leaf.value) if _is_float(leaf) else np.zeros(1, dtype=bool)
        if bad.any():
            yield Finding(leaf.origin, _non_finite_message(leaf, int(bad.sum()), "NaN"), "write a number there")


@rule("numbers.infinite", Severity.ERROR)
def infinite_value(context: CheckContext) -> Iterable[Finding]:
    """A value is infinite where only a finite one makes sense.

    Limits may be infinite, for "no limit"; masses, sizes and positions may not.
    """
    for leaf in context.field_values:
        if leaf.field in _MAY_BE_INFINITE or not _is_float(leaf):
            continue
        bad = np.isinf(leaf.value)
        if bad.any():
            yield Finding(
                leaf.origin, _non_finite_message(leaf, int(bad.sum()), "infinite"), "write a finite number there"
            )


def _is_float(field_value: FieldValue) -> bool:
    return np.asarray(field_value.value).dtype.kind == "f"


def _non_finite_message(field_value: FieldValue, count: int, kind: str) -> str:
    value = np.asarray(field_value.value)
    if value.ndim == 0:
        return f"{field_value.label}: {field_value.path} is {format_number(float(value))}"
    if value.size <= 9:
        return f"{field_value.label}: {field_value.path} is {format_vector(value.ravel())}"
    return f"{field_value.label}: {field_value.path} holds {pluralize(count, f'{kind} value')} among {value.size}"

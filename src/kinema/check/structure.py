"""Rules about values that are not what the description promises; nothing else is checked while these are found."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from kinema.description import (
    Assembly,
    Axis,
    Box,
    Constraint,
    Ellipsoid,
    HeightField,
    Inertial,
    Link,
    Mesh,
)
from kinema.foundation import Pose, Severity

from .context import Context
from .rule import Finding, rule

_ANY = -1
_VECTOR, _MATRIX, _ROWS, _GRID = (3,), (3, 3), (_ANY, 3), (_ANY, _ANY)
_SHAPES: dict[tuple[type, str], tuple[int, ...]] = {
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
def array(context: Context) -> Iterable[Finding]:
    """An array has the wrong shape, or does not hold numbers.

    A position has three numbers, a rotation and an inertia three rows of three. Nothing can be computed from a
    description in which that is not so, and the other rules are not tried. Files do not cause this; a program that
    builds a description does.
    """
    for leaf in context.leaves:
        expected = _expected(leaf.holder, leaf.field)
        if expected is None and not isinstance(leaf.value, np.ndarray):
            continue
        value = np.asarray(leaf.value)
        allowed = "iu" if leaf.field == "faces" else "fiu"
        if value.dtype.kind not in allowed:
            message = f"{leaf.label}: {leaf.path} does not hold {'whole ' * (allowed == 'iu')}numbers but {value.dtype}"
            yield Finding(leaf.origin, message, "build it as an array of numbers")
        elif expected is not None and not _fits(value.shape, expected):
            wanted = " x ".join("n" if n == _ANY else str(n) for n in expected)
            message = f"{leaf.label}: {leaf.path} has the shape {value.shape}"
            yield Finding(leaf.origin, message, f"give it {wanted} numbers")


def _expected(holder: Any, field: str) -> tuple[int, ...] | None:
    return next((shape for (kind, name), shape in _SHAPES.items() if name == field and isinstance(holder, kind)), None)


def _fits(shape: tuple[int, ...], expected: tuple[int, ...]) -> bool:
    if 0 in shape and _ANY in expected:
        return True
    return len(shape) == len(expected) and all(e in (_ANY, s) for s, e in zip(shape, expected, strict=True))

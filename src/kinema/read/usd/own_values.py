"""What Kinema's own attributes hold beyond plain numbers. Anybody can write them: each is checked, or not said."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kinema.description import Node, PhysicsMaterial, SolverParameters
from kinema.foundation import Array, Pose, vector

from . import pxr

_MOST_TEXT = 4_000_000
"""Of a table kept as JSON [characters]."""
_OF_NODES = {field.name for field in dataclasses.fields(Node)}


class BadValueError(ValueError):
    """An attribute holds something else than it should."""


def plain_table(value: Any) -> dict[str, Any]:
    """A table from JSON, whose lists become tuples."""
    if not isinstance(value, str) or len(value) > _MOST_TEXT:
        raise BadValueError
    try:
        table = json.loads(value)
    except (ValueError, RecursionError):
        raise BadValueError from None
    if not isinstance(table, dict):
        raise BadValueError
    return {name: _tuples(item) for name, item in table.items()}


def _tuples(value: Any, depth: int = 0) -> Any:
    if depth > 8:
        raise BadValueError
    if isinstance(value, list):
        return tuple(_tuples(v, depth + 1) for v in value)
    if isinstance(value, dict):
        return {name: _tuples(v, depth + 1) for name, v in value.items()}
    return value


def text(value: Any) -> str:
    """A text."""
    if not isinstance(value, str):
        raise BadValueError
    return value


def texts(value: Any) -> dict[str, str]:
    """A table of texts."""
    if not isinstance(value, dict):
        raise BadValueError
    return {name: text(item) for name, item in value.items()}


def surface(value: Any) -> PhysicsMaterial:
    """A surface from a table of what differs from one that says nothing."""
    known = {field.name for field in dataclasses.fields(PhysicsMaterial)} - _OF_NODES
    if not isinstance(value, dict) or not value.keys() <= known:
        raise BadValueError
    kinds: dict[str, Callable[[Any], Any]] = {"contact_dimension": whole, "priority": whole, "solver": _solver}
    return PhysicsMaterial(**{name: kinds.get(name, number)(item) for name, item in value.items()})


def flag(value: Any) -> bool:
    """Yes or no."""
    if not isinstance(value, bool):
        raise BadValueError
    return value


def whole(value: Any) -> int:
    """A whole number."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadValueError
    return value


def number(value: Any) -> float:
    """A finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise BadValueError
    return float(value)


def numbers(count: int | None = None) -> Callable[[Any], tuple[float, ...]]:
    """So many finite numbers; any number of them for None."""

    def read(value: Any) -> tuple[float, ...]:
        if not isinstance(value, pxr.Vt.DoubleArray | Sequence) or isinstance(value, str):
            raise BadValueError
        result = tuple(number(v) for v in value)
        if count is not None and len(result) != count:
            raise BadValueError
        return result

    return read


def array(value: Any) -> Array:
    """Finite numbers as an array."""
    return vector(numbers()(value))


def axis(value: Any) -> Array:
    """A direction in space."""
    return vector(numbers(3)(value))


def pose(value: Any) -> Pose:
    """A position and a quaternion."""
    given = np.array(numbers(7)(value))
    if not 0.5 < float(np.linalg.norm(given[3:])) < 2.0:
        raise BadValueError
    return Pose.from_quaternion(given[:3], given[3:] / np.linalg.norm(given[3:]))


def table_of(read: Callable[[Any], Any]) -> Callable[[Any], dict[str, Any]]:
    """A table whose values are all of one kind."""
    return lambda value: {name: read(item) for name, item in plain_table(value).items()}


def solver(value: Any) -> SolverParameters:
    """MuJoCo's parameters of a soft constraint."""
    return _solver(plain_table(value))


def _solver(table: Mapping[str, Any]) -> SolverParameters:
    reference, impedance = table.get("solref"), table.get("solimp")
    return SolverParameters(
        solref=None if reference is None else numbers(2)(reference),  # type: ignore[arg-type]
        solimp=None if impedance is None else numbers(5)(impedance),  # type: ignore[arg-type]
        margin=number(table.get("margin", 0.0)),
    )

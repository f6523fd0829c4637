"""Validating parsers for the values of Kinema's custom USD attributes (texts, numbers, poses, tables)."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kinema.core import Array, Pose, float64_array
from kinema.description import Node, PhysicsMaterial, SolverParameters

from . import pxr

_MAX_TABLE_TEXT = 4_000_000
"""Maximum length of a JSON table [characters]."""
_NODE_FIELDS = {field.name for field in dataclasses.fields(Node)}


class BadValueError(ValueError):
    """An attribute value is malformed."""


def parse_table(value: Any) -> dict[str, Any]:
    """Table from JSON; lists become tuples."""
    if not isinstance(value, str) or len(value) > _MAX_TABLE_TEXT:
        raise BadValueError
    try:
        table = json.loads(value)
    except (ValueError, RecursionError):
        raise BadValueError from None
    if not isinstance(table, dict):
        raise BadValueError
    return {name: _lists_to_tuples(item) for name, item in table.items()}


def _lists_to_tuples(value: Any, depth: int = 0) -> Any:
    if depth > 8:
        raise BadValueError
    if isinstance(value, list):
        return tuple(_lists_to_tuples(v, depth + 1) for v in value)
    if isinstance(value, dict):
        return {name: _lists_to_tuples(v, depth + 1) for name, v in value.items()}
    return value


def parse_text(value: Any) -> str:
    """Check that a value is a text."""
    if not isinstance(value, str):
        raise BadValueError
    return value


def parse_text_table(value: Any) -> dict[str, str]:
    """Check that a value is a table of texts."""
    if not isinstance(value, dict):
        raise BadValueError
    return {name: parse_text(item) for name, item in value.items()}


def parse_physics_material(value: Any) -> PhysicsMaterial:
    """Physics material from a table of the fields that differ from the defaults."""
    known = {field.name for field in dataclasses.fields(PhysicsMaterial)} - _NODE_FIELDS
    if not isinstance(value, dict) or not value.keys() <= known:
        raise BadValueError
    kinds: dict[str, Callable[[Any], Any]] = {
        "contact_dimension": parse_int,
        "priority": parse_int,
        "solver": _solver_parameters_from_table,
    }
    return PhysicsMaterial(**{name: kinds.get(name, parse_float)(item) for name, item in value.items()})


def parse_flag(value: Any) -> bool:
    """Check that a value is a Boolean."""
    if not isinstance(value, bool):
        raise BadValueError
    return value


def parse_int(value: Any) -> int:
    """Check that a value is an integer."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadValueError
    return value


def parse_float(value: Any) -> float:
    """Check that a value is a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise BadValueError
    return float(value)


def floats_parser(count: int | None = None) -> Callable[[Any], tuple[float, ...]]:
    """Parser of `count` finite numbers; of any number of them for None."""

    def read(value: Any) -> tuple[float, ...]:
        if not isinstance(value, pxr.Vt.DoubleArray | Sequence) or isinstance(value, str):
            raise BadValueError
        result = tuple(parse_float(v) for v in value)
        if count is not None and len(result) != count:
            raise BadValueError
        return result

    return read


def parse_array(value: Any) -> Array:
    """Array of finite numbers."""
    return float64_array(floats_parser()(value))


def parse_axis(value: Any) -> Array:
    """Direction vector, shape (3,)."""
    return float64_array(floats_parser(3)(value))


def parse_pose(value: Any) -> Pose:
    """Pose from position and quaternion (7 numbers)."""
    given = np.array(floats_parser(7)(value))
    if not 0.5 < float(np.linalg.norm(given[3:])) < 2.0:
        raise BadValueError
    return Pose.from_quaternion(given[:3], given[3:] / np.linalg.norm(given[3:]))


def table_parser(parse_value: Callable[[Any], Any]) -> Callable[[Any], dict[str, Any]]:
    """Parser of a JSON table whose values are parsed by `parse_value`."""
    return lambda value: {name: parse_value(item) for name, item in parse_table(value).items()}


def parse_solver_parameters(value: Any) -> SolverParameters:
    """Soft-constraint parameters (solref, solimp, margin) from a JSON table."""
    return _solver_parameters_from_table(parse_table(value))


def _solver_parameters_from_table(table: Mapping[str, Any]) -> SolverParameters:
    reference, impedance = table.get("solref"), table.get("solimp")
    return SolverParameters(
        solref=None if reference is None else floats_parser(2)(reference),  # type: ignore[arg-type]
        solimp=None if impedance is None else floats_parser(5)(impedance),  # type: ignore[arg-type]
        margin=parse_float(table.get("margin", 0.0)),
    )

"""Validation of stored values by the types of the description's fields: the values are untrusted input.

A value is a USD value or part of a JSON table; its type is that of the field of the description: numbers, texts,
enumerations, tuples, arrays, poses (position and quaternion), tables, dataclasses, and unions of one of them with None.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import math
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kinema.core import Array, Pose, float64_array, reproducible_norm
from kinema.description import Node

from . import pxr

_MAX_TABLE_TEXT = 4_000_000
"""Maximum length of a JSON table [characters]."""
_NODE_FIELDS = {field.name for field in dataclasses.fields(Node)}


class BadValueError(ValueError):
    """A stored value is malformed."""


@functools.cache
def field_types(kind: type[Any]) -> Mapping[str, Any]:
    """Field -> type, of a dataclass without the fields of `Node`."""
    types_of = typing.get_type_hints(kind)
    return {f.name: types_of[f.name] for f in dataclasses.fields(kind) if f.name not in _NODE_FIELDS}


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


def parse_attribute(kind: Any, value: Any) -> Any:
    """Field of type `kind` from the value of an attribute; tables and dataclasses are JSON, arrays have shape (3,)."""
    is_table = typing.get_origin(kind) is dict or (dataclasses.is_dataclass(kind) and kind is not Pose)
    result = parse_value(kind, parse_table(value) if is_table else value)
    if kind == Array and result.shape != (3,):
        raise BadValueError
    return result


def parse_value(kind: Any, value: Any) -> Any:
    """Value of type `kind`; raises `BadValueError` unless it has that type and all numbers are finite."""
    origin, parameters = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return None if value is None else parse_value(parameters[0], value)
    if kind is Any:
        return value
    if kind == Array:  # aliases of one type need not be one object
        return float64_array(_floats(value))
    if kind is Pose:
        return _pose(value)
    if kind is float:
        return _float(value)
    if origin is tuple:
        numbers = _floats(value)
        if parameters[-1] is not ... and len(numbers) != len(parameters):
            raise BadValueError
        return numbers
    if origin is dict:
        return {name: parse_value(parameters[1], item) for name, item in _checked(dict, value).items()}
    if issubclass(kind, enum.Enum):
        try:
            return kind(_checked(str, value))
        except ValueError:
            raise BadValueError from None
    if dataclasses.is_dataclass(kind):
        known = field_types(kind)
        if not _checked(dict, value).keys() <= known.keys():
            raise BadValueError
        constructor: Any = kind
        return constructor(**{name: parse_value(known[name], item) for name, item in value.items()})
    return _checked(kind, value)


def is_valid(kind: Any, value: Any) -> bool:
    """Whether a value can be parsed as type `kind`."""
    try:
        parse_value(kind, value)
    except ValueError:
        return False
    return True


def _checked(kind: type[Any], value: Any) -> Any:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise BadValueError
    return value


def _float(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise BadValueError
    return float(value)


def _floats(value: Any) -> tuple[float, ...]:
    if not isinstance(value, pxr.Vt.DoubleArray | Sequence) or isinstance(value, str):
        raise BadValueError
    return tuple(map(_float, value))


def _pose(value: Any) -> Pose:
    given = np.array(_floats(value))
    if given.shape != (7,) or not 0.5 < reproducible_norm(given[3:]) < 2.0:
        raise BadValueError
    return Pose.from_quaternion(given[:3], given[3:] / reproducible_norm(given[3:]))

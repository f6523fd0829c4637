"""`Table`: base class of the tables of a model, whose values are read-only after construction."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np


class Table:
    """Base class of frozen dataclasses whose arrays become read-only, lists tuples and dicts read-only mappings.

    Arrays are not copied: the arrays given to the constructor become read-only themselves.
    """

    __slots__ = ()

    def __post_init__(self) -> None:
        for name in _field_names(type(self)):
            value = getattr(self, name)
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
            elif isinstance(value, list | tuple | dict):
                object.__setattr__(self, name, _read_only(value))


@cache
def _field_names(table: type[Table]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(table))  # type: ignore[arg-type]


def _read_only(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        value.flags.writeable = False
    elif isinstance(value, list | tuple):
        return tuple(item if type(item) is str else _read_only(item) for item in value)
    elif isinstance(value, dict):
        return MappingProxyType({key: _read_only(item) for key, item in value.items()})
    return value

"""`Table`: base class of the tables of a model, whose values are read-only after construction."""

from __future__ import annotations

from dataclasses import fields
from types import MappingProxyType
from typing import Any

import numpy as np


class Table:
    """Base class of frozen dataclasses whose arrays become read-only, lists tuples and dicts read-only mappings.

    Arrays are not copied: the arrays given to the constructor become read-only themselves.
    """

    __slots__ = ()

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            object.__setattr__(self, field.name, _read_only(getattr(self, field.name)))


def _read_only(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        value.flags.writeable = False
    elif isinstance(value, list | tuple):
        return tuple(item if type(item) is str else _read_only(item) for item in value)
    elif isinstance(value, dict):
        return MappingProxyType({key: _read_only(item) for key, item in value.items()})
    return value

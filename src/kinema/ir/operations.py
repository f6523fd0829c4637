"""Operations of instructions: number of operands, type of the result, cost, and implementation on NumPy arrays.

All scalars are stored as floating-point numbers of the target's precision. The types `bool` (0 or 1) and `int`
(integer) are refinements that the verifier infers (`verifier.py`): conditions are `bool`, dynamic indices and trip
counts are `int`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np


class ValueType(IntEnum):
    """Type of a scalar, from the most specific to the most general."""

    BOOL = 0
    """0 or 1."""
    INT = 1
    UNKNOWN = 2
    """Loaded from memory, which has no types, or computed with a fractional constant: may be used as any type."""
    FLOAT = 3
    """Computed by an operation whose result is not an integer."""


TypeRule = Callable[..., ValueType]
"""Function from the types of the operands to the type of the result."""


def _join(*types: ValueType) -> ValueType:
    """Most general type."""
    return max(types)


def _sum(*types: ValueType) -> ValueType:
    """At least `int`, and at most unknown: adding and subtracting a large number rounds to an integer."""
    return min(max(ValueType.INT, *types), ValueType.UNKNOWN)


def _fixed(value_type: ValueType) -> TypeRule:
    return lambda *_: value_type


_FLOAT = _fixed(ValueType.FLOAT)


@dataclass(frozen=True, slots=True)
class Operation:
    """Operation of an instruction."""

    arity: int
    """Number of operands."""
    result_type: TypeRule
    evaluate: Callable[..., Any]
    """NumPy implementation."""
    n_flops: int = 1
    """Floating-point operations."""


OPERATIONS: dict[str, Operation] = {
    "add": Operation(2, _sum, operator.add),
    "sub": Operation(2, _sum, operator.sub),
    "mul": Operation(2, _join, operator.mul),
    "neg": Operation(1, lambda a: max(ValueType.INT, a), operator.neg),
    "reciprocal": Operation(1, _FLOAT, lambda a: 1.0 / a, 4),
    "sqrt": Operation(1, _FLOAT, np.sqrt, 4),
    "sin": Operation(1, _FLOAT, np.sin, 10),
    "cos": Operation(1, _FLOAT, np.cos, 10),
    "abs": Operation(1, _join, np.abs),
    "floor": Operation(1, _fixed(ValueType.INT), np.floor),
    "min": Operation(2, _join, lambda a, b: np.where(b < a, b, a)),  # not np.minimum: NaN as in emitted code
    "max": Operation(2, _join, lambda a, b: np.where(a < b, b, a)),
    "select": Operation(4, lambda a, b, x, y: _join(x, y), lambda a, b, x, y: np.where(a < b, x, y), 2),
    "any": Operation(1, _fixed(ValueType.BOOL), lambda a: np.full_like(a, (a > 0.5).any())),
    "detach": Operation(1, _join, lambda a: a, 0),
    "attach": Operation(2, lambda a, b: a, lambda a, b: a, 0),
    "fma": Operation(3, _sum, lambda a, b, c: a * b + c, 2),
    "fms": Operation(3, _sum, lambda a, b, c: a * b - c, 2),
    "fnma": Operation(3, _sum, lambda a, b, c: c - a * b, 2),
}
"""Operations on values, by name; besides, `input` loads a memory location and `loop_index` is the index of a counted
loop."""


def constant_type(value: float) -> ValueType:
    """Type of a constant operand."""
    if value in (0.0, 1.0):
        return ValueType.BOOL
    return ValueType.INT if float(value).is_integer() else ValueType.UNKNOWN

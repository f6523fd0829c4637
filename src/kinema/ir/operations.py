"""Operations of instructions: number of operands, type of the result, cost, and meaning on NumPy arrays.

All scalars are stored as floating-point numbers of the target's precision. The types `bool` (0 or 1) and `int` (an
integer) are refinements that the verifier infers (`verifier.py`): conditions are `bool`; dynamic indices and trip
counts are `int`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np


class ValueType(IntEnum):
    """Type of a scalar, from the most specific to the most general."""

    UNTYPED = 0
    """Loaded from memory, which has no types: usable as any type."""
    BOOL = 1
    """0 or 1."""
    INT = 2
    FLOAT = 3


@dataclass(frozen=True, slots=True)
class Operation:
    """Operation of an instruction."""

    arity: int
    """Number of operands."""
    evaluate: Callable[..., Any]
    """NumPy implementation."""
    result: ValueType | None = ValueType.FLOAT
    """Type of the result; None for the most general type of the operands that can become the result."""
    n_flops: int = 1
    """Floating-point operations."""
    n_compared: int = 0
    """Number of leading operands that are only compared and do not become the result."""


OPERATIONS: dict[str, Operation] = {
    "add": Operation(2, lambda a, b: a + b, None),
    "sub": Operation(2, lambda a, b: a - b, None),
    "mul": Operation(2, lambda a, b: a * b, None),
    "neg": Operation(1, lambda a: -a, None),
    "reciprocal": Operation(1, lambda a: 1.0 / a, n_flops=4),
    "sqrt": Operation(1, np.sqrt, n_flops=4),
    "sin": Operation(1, np.sin, n_flops=10),
    "cos": Operation(1, np.cos, n_flops=10),
    "abs": Operation(1, np.abs, None),
    "floor": Operation(1, np.floor, ValueType.INT),
    "min": Operation(2, lambda a, b: np.where(b < a, b, a), None),  # not np.minimum: NaN as in emitted code
    "max": Operation(2, lambda a, b: np.where(a < b, b, a), None),
    "select": Operation(4, lambda a, b, below, otherwise: np.where(a < b, below, otherwise), None, 2, n_compared=2),
    "any": Operation(1, lambda a: np.full_like(a, (a > 0.5).any()), ValueType.BOOL),
    "fma": Operation(3, lambda a, b, c: a * b + c, None, 2),
    "fms": Operation(3, lambda a, b, c: a * b - c, None, 2),
    "fnma": Operation(3, lambda a, b, c: c - a * b, None, 2),
}
"""Operations by name. `input` (load of a slot) and `loop_index` are no operations on values."""

"""Programs run by NumPy, for all environments at once: slow, plain, and what the tests trust."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from .program import Instruction, Program

_RUN: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "neg": lambda a: -a,
    "reciprocal": lambda a: 1.0 / a,
    "sqrt": np.sqrt,
    "sin": np.sin,
    "cos": np.cos,
    "abs": np.abs,
    "min": lambda a, b: np.where(b < a, b, a),  # not np.minimum: what becomes of a NaN is as in the emitted text
    "max": lambda a, b: np.where(a < b, b, a),
    "select": lambda a, b, below, otherwise: np.where(a < b, below, otherwise),
    "fma": lambda a, b, c: a * b + c,
    "fms": lambda a, b, c: a * b - c,
    "fnma": lambda a, b, c: c - a * b,
}


def interpret(program: Program, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs, each of shape (items, n_envs), from inputs of shape (items, n_envs)."""
    values: dict[int, Any] = {}
    n_envs = next(iter(arrays.values())).shape[1] if arrays else 1
    dtype = next(iter(arrays.values())).dtype if arrays else np.dtype(np.float64)
    evaluate(program.instructions, arrays, values)
    results = {name: np.zeros((count, n_envs), dtype) for name, count in program.outputs.items()}
    for store in program.stores:
        value = values[store.value] if isinstance(store.value, int) else store.value
        results[store.slot.array][store.slot.item] = value
    return results


def evaluate(instructions: Iterable[Instruction], arrays: Mapping[str, np.ndarray], values: dict[int, Any]) -> None:
    """Run instructions, adding what they compute to the values known so far."""
    dtype = next(iter(arrays.values())).dtype if arrays else np.dtype(np.float64)
    for i in instructions:
        if i.slot is not None:
            values[i.target] = arrays[i.slot.array][i.slot.item]
        else:
            values[i.target] = _RUN[i.op](*(values[a] if isinstance(a, int) else dtype.type(a) for a in i.args))

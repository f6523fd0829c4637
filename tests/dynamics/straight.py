"""Programs as Python functions over plain numbers: for few environments and many steps, much faster than NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kinema.ir import Program, optimise

Arrays = dict[str, list[Any]]

_PYTHON: dict[str, str] = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "neg": "-{0}",
    "reciprocal": "1.0 / {0}",
    "sqrt": "sqrt({0})",
    "sin": "sin({0})",
    "cos": "cos({0})",
    "abs": "abs({0})",
    "floor": "floor({0})",
    "min": "min({0}, {1})",
    "max": "max({0}, {1})",
    "select": "{2} if {0} < {1} else {3}",
    "fma": "{0} * {1} + {2}",
    "fms": "{0} * {1} - {2}",
    "fnma": "{2} - {0} * {1}",
}
_NUMBERS = {
    "double": {"sqrt": math.sqrt, "sin": math.sin, "cos": math.cos, "floor": math.floor},
    "single": {"sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "floor": np.floor},
}


def function_of(program: Program, precision: str = "double") -> Callable[[Mapping[str, Sequence[Any]]], Arrays]:
    """The line of one environment, optimised, from lists of numbers by array name to lists by array name.

    Numbers are Python's floats in double precision, and NumPy's in single: all operations round to that.
    """
    line = optimise(program).basic_block
    lines = ["def run(arrays):"]
    lines += [f"  a_{name} = arrays[{name!r}]" for name in program.inputs]
    for i in line.instructions:
        if i.location is not None:
            lines.append(f"  v{i.result} = a_{i.location.array}[{i.location.element}]")
        else:
            args = [f"v{a}" if isinstance(a, int) else f"({a!r})" for a in i.args]
            lines.append(f"  v{i.result} = {_PYTHON[i.op].format(*args)}")
    for array, count in program.outputs.items():
        values = ["0.0"] * count
        for s in line.stores:
            if s.location.array == array:
                values[s.location.element] = f"v{s.value}" if isinstance(s.value, int) else repr(s.value)
        lines.append(f"  o_{array} = [{', '.join(values)}]")
    lines.append(f"  return {{{', '.join(f'{name!r}: o_{name}' for name in program.outputs)}}}")
    scope: dict[str, Any] = {**_NUMBERS[precision], "inf": math.inf, "nan": math.nan}
    exec(compile("\n".join(lines), "<program>", "exec"), scope)
    return scope["run"]


def roll(run: Callable[[Mapping[str, Sequence[Any]]], Arrays], start: Arrays, steps: int) -> list[Arrays]:
    """The states after each of some steps of a step program; what it does not write stays as it is."""
    state = dict(start)
    states = []
    for _ in range(steps):
        state = {**state, **run(state)}
        states.append(state)
    return states

"""Functions of a number that work on plain floats, on NumPy arrays and on symbols."""

from __future__ import annotations

import math
from collections.abc import Callable

from .tape import Scalar, Value, add, divide, multiply, negate, record, subtract


def sqrt(x: Value) -> Value:
    """The square root."""
    return record("sqrt", x) if isinstance(x, Scalar) else math.sqrt(x)


def sin(x: Value) -> Value:
    """The sine of an angle [rad]; odd, so that a sign moves outwards."""
    if not isinstance(x, Scalar):
        return math.sin(x)
    if x.tape.ops[x.number] == "neg":
        return negate(record("sin", _inside(x)))
    return record("sin", x)


def cos(x: Value) -> Value:
    """The cosine of an angle [rad]; even, so that a sign vanishes."""
    if not isinstance(x, Scalar):
        return math.cos(x)
    return record("cos", _inside(x) if x.tape.ops[x.number] == "neg" else x)


def _inside(x: Scalar) -> Scalar:
    argument = x.tape.args[x.number][0]
    assert isinstance(argument, int)
    return Scalar(x.tape, argument)


def absolute(x: Value) -> Value:
    """The absolute value."""
    return record("abs", x) if isinstance(x, Scalar) else abs(x)


def floor(x: Value) -> Value:
    """The largest whole number that is not above it."""
    return record("floor", x) if isinstance(x, Scalar) else float(math.floor(x))


def minimum(a: Value, b: Value) -> Value:
    """The smaller of two."""
    if not _symbolic(a, b):
        return min(a, b)  # type: ignore[type-var]
    if not isinstance(b, Scalar) and b == math.inf:
        return a
    return record("min", a, b)


def maximum(a: Value, b: Value) -> Value:
    """The larger of two."""
    if not _symbolic(a, b):
        return max(a, b)  # type: ignore[type-var]
    if not isinstance(b, Scalar) and b == -math.inf:
        return a
    return record("max", a, b)


def clamp(x: Value, lower: Value, upper: Value) -> Value:
    """x, not below lower and not above upper; infinite bounds cost nothing."""
    return minimum(maximum(x, lower), upper)


def select(a: Value, b: Value, below: Value, otherwise: Value) -> Value:
    """`below` where a < b, else `otherwise`: both are computed, neither is branched to."""
    if not _symbolic(a, b):
        return below if a < b else otherwise  # type: ignore[operator]  # ty: ignore[unsupported-operator]
    return record("select", a, b, below, otherwise)


def any_of(x: Value) -> Value:
    """1 where a number is above a half, for any of the environments that run side by side; else 0.

    Only for leaving out what no environment needs: which run side by side is not a program's to know.
    """
    return record("any", x) if isinstance(x, Scalar) else float(x > 0.5)


def square(x: Value) -> Value:
    """X * x."""
    return multiply(x, x)


def _symbolic(*values: Value) -> bool:
    return any(isinstance(v, Scalar) for v in values)


OPERATIONS: dict[str, Callable[..., Value]] = {
    "add": add,
    "sub": subtract,
    "mul": multiply,
    "neg": negate,
    "reciprocal": lambda x: divide(1.0, x),
    "sqrt": sqrt,
    "sin": sin,
    "cos": cos,
    "abs": absolute,
    "floor": floor,
    "min": minimum,
    "max": maximum,
    "select": select,
    "any": any_of,
}
"""What the instructions of a program do, as it was recorded."""

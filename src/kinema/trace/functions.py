"""Functions of a number that work on plain floats, on NumPy arrays and on symbols."""

from __future__ import annotations

import math

from .tape import Scalar, Tape, Value, multiply, negate, operand


def _unary(op: str, x: Scalar) -> Scalar:
    return x.tape.record(op, x.number)


def sqrt(x: Value) -> Value:
    """The square root."""
    return _unary("sqrt", x) if isinstance(x, Scalar) else math.sqrt(x)


def sin(x: Value) -> Value:
    """The sine of an angle [rad]; odd, so that a sign moves outwards."""
    if not isinstance(x, Scalar):
        return math.sin(x)
    if x.tape.ops[x.number] == "neg":
        return negate(_unary("sin", _inside(x)))
    return _unary("sin", x)


def cos(x: Value) -> Value:
    """The cosine of an angle [rad]; even, so that a sign vanishes."""
    if not isinstance(x, Scalar):
        return math.cos(x)
    return _unary("cos", _inside(x) if x.tape.ops[x.number] == "neg" else x)


def _inside(x: Scalar) -> Scalar:
    argument = x.tape.args[x.number][0]
    assert isinstance(argument, int)
    return Scalar(x.tape, argument)


def absolute(x: Value) -> Value:
    """The absolute value."""
    return _unary("abs", x) if isinstance(x, Scalar) else abs(x)


def minimum(a: Value, b: Value) -> Value:
    """The smaller of two."""
    tape = _tape(a, b)
    if tape is None:
        return min(a, b)  # type: ignore[type-var]
    if math.inf in (a, b):
        return b if a == math.inf else a
    return tape.record("min", operand(a), operand(b))


def maximum(a: Value, b: Value) -> Value:
    """The larger of two."""
    tape = _tape(a, b)
    if tape is None:
        return max(a, b)  # type: ignore[type-var]
    if -math.inf in (a, b):
        return b if a == -math.inf else a
    return tape.record("max", operand(a), operand(b))


def clamp(x: Value, lower: Value, upper: Value) -> Value:
    """x, not below lower and not above upper; infinite bounds cost nothing."""
    return minimum(maximum(x, lower), upper)


def select(a: Value, b: Value, below: Value, otherwise: Value) -> Value:
    """`below` where a < b, else `otherwise`: both are computed, neither is branched to."""
    tape = _tape(a, b, below, otherwise)
    if tape is None or not (isinstance(a, Scalar) or isinstance(b, Scalar)):
        return below if a < b else otherwise  # type: ignore[operator]
    return tape.record("select", operand(a), operand(b), operand(below), operand(otherwise))


def square(x: Value) -> Value:
    """X * x."""
    return multiply(x, x)


def _tape(*values: Value) -> Tape | None:
    return next((v.tape for v in values if isinstance(v, Scalar)), None)

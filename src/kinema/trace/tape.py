"""Symbolic scalars, recorded as they are computed.

An algorithm written over plain numbers runs unchanged over `Scalar`s; what it did is then on the tape. Constants fold,
zeros and ones vanish, signs move outwards, and a term that was computed before is not computed again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Operand = int | float
"""An `int` is the number of a recorded value, a `float` a constant."""

COMMUTATIVE = frozenset({"add", "mul"})
"""Not min and max: which of two operands comes first decides what becomes of a NaN."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One number of an input or output array: an item of it, for every environment."""

    array: str
    item: int


@dataclass(slots=True, eq=False)
class Tape:
    """What was computed so far: value number `i` is `ops[i]` of `args[i]`."""

    ops: list[str] = field(default_factory=list)
    args: list[tuple[Operand, ...]] = field(default_factory=list)
    slots: dict[int, Slot] = field(default_factory=dict)
    """Value number of an input -> where it is read from."""
    _known: dict[tuple[Any, ...], int] = field(default_factory=dict)

    def input(self, array: str, item: int) -> Scalar:
        """The number that an item of an input array holds."""
        key = ("input", array, item)
        if key not in self._known:
            self._known[key] = self._append("input", ())
            self.slots[self._known[key]] = Slot(array, item)
        return Scalar(self, self._known[key])

    def inputs(self, array: str, count: int) -> list[Scalar]:
        """All items of an input array."""
        return [self.input(array, i) for i in range(count)]

    def record(self, op: str, *args: Operand) -> Scalar:
        """A value, the one recorded before if there is one."""
        if op in COMMUTATIVE and _order(args[0]) > _order(args[1]):
            args = (args[1], args[0])
        # Python takes 2 and 2.0 for the same key: value number 2 must not be taken for the constant
        key = (op, args, *(type(a) for a in args))
        if key not in self._known:
            self._known[key] = self._append(op, args)
        return Scalar(self, self._known[key])

    def _append(self, op: str, args: tuple[Operand, ...]) -> int:
        self.ops.append(op)
        self.args.append(args)
        return len(self.ops) - 1


def _order(operand: Operand) -> tuple[bool, float]:
    """Constants last; a number never equals the value with that number."""
    return (isinstance(operand, float), operand)


class Scalar:
    """A number that is not known yet."""

    __slots__ = ("number", "tape")

    def __init__(self, tape: Tape, number: int) -> None:
        self.tape = tape
        self.number = number

    def __repr__(self) -> str:
        return f"Scalar({self.number}: {self.tape.ops[self.number]})"

    def __bool__(self) -> bool:
        raise TypeError("a branch cannot depend on a symbolic number: use trace.select")

    def __add__(self, other: Value) -> Value:
        return add(self, other)

    def __radd__(self, other: Value) -> Value:
        return add(self, other)

    def __sub__(self, other: Value) -> Value:
        return subtract(self, other)

    def __rsub__(self, other: Value) -> Value:
        return subtract(other, self)

    def __mul__(self, other: Value) -> Value:
        return multiply(self, other)

    def __rmul__(self, other: Value) -> Value:
        return multiply(self, other)

    def __truediv__(self, other: Value) -> Value:
        return divide(self, other)

    def __rtruediv__(self, other: Value) -> Value:
        return divide(other, self)

    def __neg__(self) -> Value:
        return negate(self)


Value = Scalar | float
"""What algorithms compute with: a symbol, or a plain number."""


def operand(value: Value) -> Operand:
    """How a value stands on the tape."""
    return value.number if isinstance(value, Scalar) else float(value)


def _parts(value: Value, op: str) -> tuple[Value, ...] | None:
    """The arguments of a value, if it was made by that operation."""
    if not isinstance(value, Scalar) or value.tape.ops[value.number] != op:
        return None
    return tuple(Scalar(value.tape, a) if isinstance(a, int) else a for a in value.tape.args[value.number])


def _same(a: Value, b: Value) -> bool:
    return operand(a) == operand(b) and isinstance(a, Scalar) == isinstance(b, Scalar)


def _binary(op: str, a: Value, b: Value) -> Scalar:
    tape = a.tape if isinstance(a, Scalar) else b.tape  # type: ignore[union-attr]
    return tape.record(op, operand(a), operand(b))


def add(a: Value, b: Value) -> Value:
    """A + b."""
    if isinstance(a, Scalar) or isinstance(b, Scalar):
        if _is(a, 0.0):
            return b
        if _is(b, 0.0):
            return a
        minus_a, minus_b = _parts(a, "neg"), _parts(b, "neg")
        if minus_a and minus_b:
            return negate(add(minus_a[0], minus_b[0]))
        if minus_b:
            return subtract(a, minus_b[0])
        if minus_a:
            return subtract(b, minus_a[0])
        return _binary("add", a, b)
    return a + b


def subtract(a: Value, b: Value) -> Value:
    """A - b."""
    if isinstance(a, Scalar) or isinstance(b, Scalar):
        if _is(b, 0.0):
            return a
        if _is(a, 0.0):
            return negate(b)
        if _same(a, b):
            return 0.0
        if not isinstance(b, Scalar):
            return add(a, -b)
        minus_a, minus_b = _parts(a, "neg"), _parts(b, "neg")
        if minus_b:
            return add(a, minus_b[0])
        if minus_a:
            return negate(add(minus_a[0], b))
        return _binary("sub", a, b)
    return a - b


def multiply(a: Value, b: Value) -> Value:
    """A * b; a constant factor comes second."""
    if not isinstance(a, Scalar):
        a, b = b, a
    if not isinstance(a, Scalar):
        return a * b  # type: ignore[operator]
    if not isinstance(b, Scalar):
        return _scale(a, float(b))
    minus_a, minus_b = _parts(a, "neg"), _parts(b, "neg")
    if minus_a or minus_b:
        product = multiply(minus_a[0] if minus_a else a, minus_b[0] if minus_b else b)
        return product if minus_a and minus_b else negate(product)
    scaled_a, scaled_b = _scaled(a), _scaled(b)
    if scaled_a[1] != 1.0 or scaled_b[1] != 1.0:
        # constants move outwards, where they meet others
        return _scale(_binary("mul", scaled_a[0], scaled_b[0]), scaled_a[1] * scaled_b[1])
    return _binary("mul", a, b)


def _scaled(a: Scalar) -> tuple[Scalar, float]:
    """The value as a factor and a constant."""
    parts = _parts(a, "mul")
    if parts and isinstance(parts[0], Scalar) and not isinstance(parts[1], Scalar):
        return parts[0], parts[1]
    return a, 1.0


def _scale(a: Scalar, factor: float) -> Value:
    if factor == 0.0:
        return 0.0
    if factor == 1.0:
        return a
    if factor == -1.0:
        return negate(a)
    minus = _parts(a, "neg")
    if minus:
        return _scale(minus[0], -factor)  # type: ignore[arg-type]
    inner, own = _scaled(a)
    if own != 1.0:
        return _scale(inner, own * factor)
    return _binary("mul", a, factor)


def divide(a: Value, b: Value) -> Value:
    """A / b; a constant divisor becomes a factor."""
    if not isinstance(b, Scalar):
        if not isinstance(a, Scalar):
            return a / b
        return multiply(a, 1.0 / b)
    if _is(a, 0.0):
        return 0.0
    if _same(a, b):
        return 1.0
    if _is(a, 1.0):
        return b.tape.record("reciprocal", b.number)
    return multiply(a, divide(1.0, b))


def negate(a: Value) -> Value:
    """-a."""
    if not isinstance(a, Scalar):
        return -a
    for op, rebuild in _NEGATED.items():
        parts = _parts(a, op)
        if parts:
            result = rebuild(*parts)
            if result is not None:
                return result
    return a.tape.record("neg", a.number)


_NEGATED: dict[str, Callable[..., Value | None]] = {
    "neg": lambda x: x,
    "sub": lambda x, y: subtract(y, x),
    "mul": lambda x, y: None if isinstance(y, Scalar) else _scale(x, -y),
}


def _is(value: Value, number: float) -> bool:
    return not isinstance(value, Scalar) and value == number

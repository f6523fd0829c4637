"""Symbolic scalars, recorded as they are computed.

An algorithm written over plain numbers runs unchanged over `Scalar`s; what it did is then on a tape. Constants fold,
zeros and ones vanish, signs move outwards, and a term that was computed before is not computed again. A tape is one
line of a program; where the algorithm asks for a loop, the next line begins (`record.py`), and values that were made
before are carried over to it when they are used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from .slots import Operand, Slot

COMMUTATIVE = frozenset({"add", "mul"})
"""Not min and max: which of two operands comes first decides what becomes of a NaN."""


class Carrier(Protocol):
    """Who has several tapes, and brings values of one to another."""

    tape: Tape
    """The one that is being recorded."""

    def carry(self, value: Scalar) -> Scalar:
        """A value of an earlier tape on the present one."""
        ...


@dataclass(slots=True, eq=False)
class Tape:
    """What was computed so far: value number `i` is `ops[i]` of `args[i]`."""

    ops: list[str] = field(default_factory=list)
    args: list[tuple[Operand, ...]] = field(default_factory=list)
    slots: dict[int, Slot] = field(default_factory=dict)
    """Value number of an input -> where it is read from."""
    carrier: Carrier | None = None
    _known: dict[tuple[Any, ...], int] = field(default_factory=dict)
    _pairs: dict[tuple[str, int, int], int] = field(default_factory=dict)
    """Likewise of operations on two values: most are."""

    def input(self, array: str, item: int, index: Value | None = None) -> Scalar:
        """The number that an item of an array holds, further on by an index where one is given."""
        if index is not None and type(index) is not Scalar:
            item, index = item + int(index), None  # type: ignore[arg-type]
        where = None if index is None else self.operand(index)
        key = ("input", array, item, where)
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = self._append("input", ())
            self.slots[number] = Slot(array, item, where)  # type: ignore[arg-type]
        return Scalar(self, number)

    def inputs(self, array: str, count: int) -> list[Scalar]:
        """All items of an input array."""
        return [self.input(array, i) for i in range(count)]

    def operand(self, value: Value) -> Operand:
        """How a value stands on this tape; one of an earlier tape is carried over."""
        if type(value) is not Scalar:
            return float(value)  # type: ignore[arg-type]
        if value.tape is not self:
            assert self.carrier is not None, "values of two tapes that have nothing to do with each other"
            value = self.carrier.carry(value)
        return value.number

    def record(self, op: str, *args: Operand) -> Scalar:
        """A value, the one recorded before if there is one."""
        if len(args) == 2 and type(args[0]) is int and type(args[1]) is int:
            return self.record_pair(op, args[0], args[1])
        if op in COMMUTATIVE and _is_later(*args):
            args = (args[1], args[0])
        # Python takes 2 and 2.0 for the same key: value number 2 must not be taken for the constant
        key = (op, args, *map(type, args))
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = len(self.ops)
            self.ops.append(op)
            self.args.append(args)
        return Scalar(self, number)

    def record_pair(self, op: str, a: int, b: int) -> Scalar:
        """Likewise, of two values by their numbers."""
        if b < a and op in COMMUTATIVE:
            a, b = b, a
        key = (op, a, b)
        number = self._pairs.get(key)
        if number is None:
            number = self._pairs[key] = len(self.ops)
            self.ops.append(op)
            self.args.append((a, b))
        return Scalar(self, number)

    def _append(self, op: str, args: tuple[Operand, ...]) -> int:
        self.ops.append(op)
        self.args.append(args)
        return len(self.ops) - 1


def _is_later(a: Operand, b: Operand) -> bool:
    """Whether operands come in the other order: values by their numbers, then constants."""
    if type(a) is int:
        return type(b) is int and a > b
    return type(b) is int or a > b


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


def record(op: str, *values: Value) -> Scalar:
    """An operation on values of which at least one is a symbol, on the tape that is being recorded."""
    for value in values:
        if type(value) is Scalar:
            tape = value.tape
            break
    else:
        raise TypeError(f"{op}: no operand is a symbol")
    if tape.carrier is not None:
        tape = tape.carrier.tape
    operand = tape.operand
    return tape.record(op, *[v.number if type(v) is Scalar and v.tape is tape else operand(v) for v in values])


def _record_pair(op: str, a: Scalar, b: Scalar) -> Scalar:
    """Likewise, of two symbols."""
    tape = a.tape
    if tape.carrier is not None:
        tape = tape.carrier.tape
    first = a.number if a.tape is tape else tape.operand(a)
    second = b.number if b.tape is tape else tape.operand(b)
    return tape.record_pair(op, first, second)  # type: ignore[arg-type]


def _is_plain(value: Scalar) -> bool:
    """Whether a symbol is neither the negative of another one, nor a multiple by a constant."""
    op = value.tape.ops[value.number]
    return op != "neg" and (op != "mul" or type(value.tape.args[value.number][1]) is int)


def _parts(value: Value, op: str) -> tuple[Value, ...] | None:
    """The arguments of a value, if it was made by that operation."""
    if type(value) is not Scalar or value.tape.ops[value.number] != op:
        return None
    return tuple([Scalar(value.tape, a) if isinstance(a, int) else a for a in value.tape.args[value.number]])


def _same(a: Value, b: Value) -> bool:
    if isinstance(a, Scalar) and isinstance(b, Scalar):
        return a.number == b.number and a.tape is b.tape
    return not isinstance(a, Scalar) and not isinstance(b, Scalar) and a == b


def add(a: Value, b: Value) -> Value:
    """A + b."""
    if type(a) is Scalar and type(b) is Scalar and a.tape.ops[a.number] != "neg" and b.tape.ops[b.number] != "neg":
        return _record_pair("add", a, b)
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
        return record("add", a, b)
    return a + b


def subtract(a: Value, b: Value) -> Value:
    """A - b."""
    if type(a) is Scalar and type(b) is Scalar and a.tape.ops[a.number] != "neg" and b.tape.ops[b.number] != "neg":
        return 0.0 if _same(a, b) else _record_pair("sub", a, b)
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
        return record("sub", a, b)
    return a - b


def multiply(a: Value, b: Value) -> Value:
    """A * b; a constant factor comes second."""
    if type(a) is Scalar and type(b) is Scalar and _is_plain(a) and _is_plain(b):
        return _record_pair("mul", a, b)
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
        return _scale(record("mul", scaled_a[0], scaled_b[0]), scaled_a[1] * scaled_b[1])
    return record("mul", a, b)


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
    return record("mul", a, factor)


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
        return record("reciprocal", b)
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
    return record("neg", a)


_NEGATED: dict[str, Callable[..., Value | None]] = {
    "neg": lambda x: x,
    "sub": lambda x, y: subtract(y, x),
    "mul": lambda x, y: None if isinstance(y, Scalar) else _scale(x, -y),
}


def _is(value: Value, number: float) -> bool:
    return not isinstance(value, Scalar) and value == number

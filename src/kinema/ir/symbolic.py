"""Symbolic scalars recorded on a tape, with constant folding, algebraic simplification and value numbering.

An algorithm written for plain numbers runs unchanged on `Scalar` objects, which record each operation on a tape, the
instructions of one basic block. Constants are folded, neutral elements removed, signs and constant factors moved
outwards, and equal operations share one value number (common-subexpression elimination). A loop or branch starts a new
tape (see `tracer.py`); values of earlier tapes are imported when they are used.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from .memory import MemoryLocation, Operand

COMMUTATIVE = frozenset({"add", "mul"})
"""Commutative operations; min and max are not, as the order of operands determines the result for NaN."""


class TapeOwner(Protocol):
    """Recorder with several tapes, which imports values from earlier tapes."""

    tape: Tape
    """The tape being recorded."""
    differentiable: bool
    """Whether the recorded program is to be differentiated."""

    def import_value(self, value: Scalar) -> Scalar:
        """Make a value of an earlier tape available on the current tape."""
        ...


@dataclass(slots=True, eq=False)
class Tape:
    """Instructions recorded so far: value `i` is the result of operation `ops[i]` on `args[i]`."""

    ops: list[str] = field(default_factory=list)
    args: list[tuple[Operand, ...]] = field(default_factory=list)
    locations: dict[int, MemoryLocation] = field(default_factory=dict)
    """Value number of an input -> memory location that it is loaded from."""
    owner: TapeOwner | None = None
    """Owner of the tape, or None for a single tape."""
    _value_numbers: dict[tuple[Any, ...], int] = field(default_factory=dict)
    """Value numbering: (operation, operands, operand types) -> value number."""
    _binary_value_numbers: dict[tuple[str, int, int], int] = field(default_factory=dict)
    """Value numbering of operations on two values, the most frequent case."""

    def input(self, array: str, element: int, index: Value | None = None) -> Scalar:
        """Record the load of array element `element` + `index`, or return the existing value of an equal load."""
        if index is not None and type(index) is not Scalar:
            element, index = element + int(index), None  # type: ignore[arg-type]
        index_value = None if index is None else self.operand(index)
        key = ("input", array, element, index_value)
        value = self._value_numbers.get(key)
        if value is None:
            value = self._value_numbers[key] = self._append("input", ())
            # three times faster than calling the class
            self.locations[value] = tuple.__new__(MemoryLocation, (array, element, index_value))
        return Scalar(self, value)

    def inputs(self, array: str, count: int) -> list[Scalar]:
        """Loads of the first `count` elements of an array."""
        return [self.input(array, i) for i in range(count)]

    def operand(self, value: Value) -> Operand:
        """Operand for a value: a float for a constant, else its value number, after import from an earlier tape."""
        if type(value) is not Scalar:
            return float(value)  # type: ignore[arg-type]
        if value.tape is not self:
            assert self.owner is not None, "values of two unrelated tapes cannot be combined"
            value = self.owner.import_value(value)
        return value.value_number

    def record(self, op: str, *args: Operand) -> Scalar:
        """Append an operation to the tape, or return the existing value of an equal operation (value numbering).

        Operands of commutative operations are sorted first.
        """
        if len(args) == 2 and type(args[0]) is int and type(args[1]) is int:
            return self.record_binary(op, args[0], args[1])
        if op in COMMUTATIVE and _is_swapped(*args):
            args = (args[1], args[0])
        # 2 == 2.0 as dictionary keys: the types distinguish value number 2 from the constant 2.0
        key = (op, args, *map(type, args))
        value = self._value_numbers.get(key)
        if value is None:
            value = self._value_numbers[key] = len(self.ops)
            self.ops.append(op)
            self.args.append(args)
        return Scalar(self, value)

    def record_binary(self, op: str, a: int, b: int) -> Scalar:
        """Append an operation on two values (given by number), or return the existing value of an equal operation.

        The same as `record` for the most frequent case.
        """
        if b < a and op in COMMUTATIVE:
            a, b = b, a
        key = (op, a, b)
        value = self._binary_value_numbers.get(key)
        if value is None:
            value = self._binary_value_numbers[key] = len(self.ops)
            self.ops.append(op)
            self.args.append((a, b))
        return Scalar(self, value)

    def _append(self, op: str, args: tuple[Operand, ...]) -> int:
        self.ops.append(op)
        self.args.append(args)
        return len(self.ops) - 1


def _is_swapped(a: Operand, b: Operand) -> bool:
    """Whether operands of a commutative operation are out of order: values by number, then constants by size."""
    if type(a) is int:
        return type(b) is int and a > b
    return type(b) is int or a > b


class Scalar:
    """Symbolic scalar: a value on a tape; arithmetic operators record instructions."""

    __slots__ = ("tape", "value_number")

    def __init__(self, tape: Tape, value_number: int) -> None:
        self.tape = tape
        self.value_number = value_number

    def __repr__(self) -> str:
        return f"Scalar({self.value_number}: {self.tape.ops[self.value_number]})"

    def __bool__(self) -> bool:
        raise TypeError("a Python branch cannot depend on a symbolic scalar: use ir.select")

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
"""Scalar type of traced algorithms: a symbolic scalar or a plain number."""


# --------------------------------------------------------------------------------------------------------- arithmetic


def record_op(op: str, *values: Value) -> Scalar:
    """Record an operation on the current tape; at least one operand must be symbolic.

    Operands of earlier tapes of the same owner are imported. Raises TypeError if all operands are Python floats.
    """
    for value in values:
        if type(value) is Scalar:
            tape = value.tape
            break
    else:
        raise TypeError(f"{op}: no operand is symbolic")
    if tape.owner is not None:
        tape = tape.owner.tape
    operand = tape.operand
    return tape.record(op, *[v.value_number if type(v) is Scalar and v.tape is tape else operand(v) for v in values])


def _record_binary(op: str, a: Scalar, b: Scalar) -> Scalar:
    """Record an operation on two symbolic scalars on the current tape."""
    tape = a.tape
    if tape.owner is not None:
        tape = tape.owner.tape
    first = a.value_number if a.tape is tape else tape.operand(a)
    second = b.value_number if b.tape is tape else tape.operand(b)
    return tape.record_binary(op, first, second)  # type: ignore[arg-type]


def _has_no_sign_or_scale(value: Scalar) -> bool:
    """Whether a symbolic scalar is neither a negation nor a product with a constant."""
    op = value.tape.ops[value.value_number]
    return op != "neg" and (op != "mul" or type(value.tape.args[value.value_number][1]) is int)


def _operands_of(value: Value, op: str) -> tuple[Value, ...] | None:
    """Operands of a value if it is the result of operation `op`, else None."""
    if type(value) is not Scalar or value.tape.ops[value.value_number] != op:
        return None
    return tuple([Scalar(value.tape, a) if isinstance(a, int) else a for a in value.tape.args[value.value_number]])


def is_same_value(a: Value, b: Value) -> bool:
    """Whether two scalars are the same recorded value or equal constants."""
    if isinstance(a, Scalar) and isinstance(b, Scalar):
        return a.value_number == b.value_number and a.tape is b.tape
    return not isinstance(a, Scalar) and not isinstance(b, Scalar) and a == b


def add(a: Value, b: Value) -> Value:
    """Sum a + b of scalars: recorded if symbolic, after algebraic simplification.

    Zero operands are dropped and negated operands turned into differences.
    """
    if (
        type(a) is Scalar
        and type(b) is Scalar
        and a.tape.ops[a.value_number] != "neg"
        and b.tape.ops[b.value_number] != "neg"
    ):
        return _record_binary("add", a, b)
    if isinstance(a, Scalar) or isinstance(b, Scalar):
        if _is_constant(a, 0.0):
            return b
        if _is_constant(b, 0.0):
            return a
        minus_a, minus_b = _operands_of(a, "neg"), _operands_of(b, "neg")
        if minus_a and minus_b:
            return negate(add(minus_a[0], minus_b[0]))
        if minus_b:
            return subtract(a, minus_b[0])
        if minus_a:
            return subtract(b, minus_a[0])
        return record_op("add", a, b)
    return a + b


def subtract(a: Value, b: Value) -> Value:
    """Difference a - b of scalars: recorded if symbolic, after algebraic simplification.

    a - 0 is a, a - a is 0, a constant b is added with the opposite sign, and negated operands are merged.
    """
    if (
        type(a) is Scalar
        and type(b) is Scalar
        and a.tape.ops[a.value_number] != "neg"
        and b.tape.ops[b.value_number] != "neg"
    ):
        return 0.0 if is_same_value(a, b) else _record_binary("sub", a, b)
    if isinstance(a, Scalar) or isinstance(b, Scalar):
        if _is_constant(b, 0.0):
            return a
        if _is_constant(a, 0.0):
            return negate(b)
        if is_same_value(a, b):
            return 0.0
        if not isinstance(b, Scalar):
            return add(a, -b)
        minus_a, minus_b = _operands_of(a, "neg"), _operands_of(b, "neg")
        if minus_b:
            return add(a, minus_b[0])
        if minus_a:
            return negate(add(minus_a[0], b))
        return record_op("sub", a, b)
    return a - b


def multiply(a: Value, b: Value) -> Value:
    """Product a * b of scalars: recorded if symbolic, after algebraic simplification.

    Negations and constant factors are moved outwards, and a constant factor is the second operand.
    """
    if type(a) is Scalar and type(b) is Scalar and _has_no_sign_or_scale(a) and _has_no_sign_or_scale(b):
        return _record_binary("mul", a, b)
    if not isinstance(a, Scalar):
        a, b = b, a
    if not isinstance(a, Scalar):
        return a * b  # type: ignore[operator]
    if not isinstance(b, Scalar):
        return _scale(a, float(b))
    minus_a, minus_b = _operands_of(a, "neg"), _operands_of(b, "neg")
    if minus_a or minus_b:
        product = multiply(minus_a[0] if minus_a else a, minus_b[0] if minus_b else b)
        return product if minus_a and minus_b else negate(product)
    scaled_a, scaled_b = _split_scale(a), _split_scale(b)
    if scaled_a[1] != 1.0 or scaled_b[1] != 1.0:
        # constant factors move outwards, where they combine with others
        return _scale(record_op("mul", scaled_a[0], scaled_b[0]), scaled_a[1] * scaled_b[1])
    return record_op("mul", a, b)


def _split_scale(a: Scalar) -> tuple[Scalar, float]:
    """Factor a value as (symbolic factor, constant factor); the constant is 1 if there is none."""
    operands = _operands_of(a, "mul")
    if operands and isinstance(operands[0], Scalar) and not isinstance(operands[1], Scalar):
        return operands[0], operands[1]
    return a, 1.0


def _scale(a: Scalar, factor: float) -> Value:
    """Product of a symbolic scalar and a constant; merges with an existing constant factor and drops 0, 1 and -1."""
    if factor == 0.0:
        return 0.0
    if factor == 1.0:
        return a
    if factor == -1.0:
        return negate(a)
    negated = _operands_of(a, "neg")
    if negated:
        return _scale(negated[0], -factor)  # type: ignore[arg-type]
    inner, inner_factor = _split_scale(a)
    if inner_factor != 1.0:
        return _scale(inner, inner_factor * factor)
    return record_op("mul", a, factor)


def divide(a: Value, b: Value) -> Value:
    """Quotient a / b of scalars: recorded, if symbolic, as a product with the reciprocal of b.

    0 / b is 0, a / a is 1, and 1 / b is a reciprocal.
    """
    if not isinstance(b, Scalar):
        if not isinstance(a, Scalar):
            return a / b
        return multiply(a, 1.0 / b)
    if _is_constant(a, 0.0):
        return 0.0
    if is_same_value(a, b):
        return 1.0
    if _is_constant(a, 1.0):
        return record_op("reciprocal", b)
    return multiply(a, divide(1.0, b))


def negate(a: Value) -> Value:
    """Negation -a of a scalar: recorded if symbolic, after algebraic simplification.

    A double negation cancels, the operands of a difference are swapped, and a constant factor changes sign.
    """
    if not isinstance(a, Scalar):
        return -a
    op = a.tape.ops[a.value_number]
    if op in _NEGATION_RULES:
        result = _NEGATION_RULES[op](*(_operands_of(a, op) or ()))
        if result is not None:
            return result
    return record_op("neg", a)


_NEGATION_RULES: dict[str, Callable[..., Value | None]] = {
    "neg": lambda x: x,
    "sub": lambda x, y: subtract(y, x),
    "mul": lambda x, y: None if isinstance(y, Scalar) else _scale(x, -y),
}


# operators call the functions themselves, which saves a call for each traced operation
Scalar.__add__ = add  # type: ignore[method-assign]  # ty: ignore[invalid-assignment]
Scalar.__sub__ = subtract  # type: ignore[method-assign]  # ty: ignore[invalid-assignment]
Scalar.__mul__ = multiply  # type: ignore[method-assign]  # ty: ignore[invalid-assignment]
Scalar.__neg__ = negate  # type: ignore[method-assign]  # ty: ignore[invalid-assignment]


def _is_constant(value: Value, constant: float) -> bool:
    return not isinstance(value, Scalar) and value == constant


# ----------------------------------------------------------------------------------------------- elementary functions


def sqrt(x: Value) -> Value:
    """Square root."""
    return record_op("sqrt", x) if isinstance(x, Scalar) else math.sqrt(x)


def sin(x: Value) -> Value:
    """Sine of an angle [rad]; a negation of the argument is moved outwards."""
    if not isinstance(x, Scalar):
        return math.sin(x)
    if x.tape.ops[x.value_number] == "neg":
        return negate(record_op("sin", _negated_operand(x)))
    return record_op("sin", x)


def cos(x: Value) -> Value:
    """Cosine of an angle [rad]; a negation of the argument is dropped."""
    if not isinstance(x, Scalar):
        return math.cos(x)
    return record_op("cos", _negated_operand(x) if x.tape.ops[x.value_number] == "neg" else x)


def _negated_operand(x: Scalar) -> Scalar:
    argument = x.tape.args[x.value_number][0]
    assert isinstance(argument, int)
    return Scalar(x.tape, argument)


def absolute(x: Value) -> Value:
    """Absolute value."""
    return record_op("abs", x) if isinstance(x, Scalar) else abs(x)


def floor(x: Value) -> Value:
    """Largest integer that is not greater than x."""
    return record_op("floor", x) if isinstance(x, Scalar) else float(math.floor(x))


def minimum(a: Value, b: Value) -> Value:
    """Minimum of two values."""
    if not _any_symbolic(a, b):
        return min(a, b)  # type: ignore[type-var]
    if not isinstance(b, Scalar) and b == math.inf:
        return a
    return record_op("min", a, b)


def maximum(a: Value, b: Value) -> Value:
    """Maximum of two values."""
    if not _any_symbolic(a, b):
        return max(a, b)  # type: ignore[type-var]
    if not isinstance(b, Scalar) and b == -math.inf:
        return a
    return record_op("max", a, b)


def clamp(x: Value, lower: Value, upper: Value) -> Value:
    """Limit x to [lower, upper]; infinite constant bounds record no instruction."""
    return minimum(maximum(x, lower), upper)


def select(a: Value, b: Value, below: Value, otherwise: Value) -> Value:
    """`below` where a < b, else `otherwise`; both are computed, without a branch."""
    if not _any_symbolic(a, b):
        return below if a < b else otherwise  # type: ignore[operator]  # ty: ignore[unsupported-operator]
    return record_op("select", a, b, below, otherwise)


def any_lane(x: Value) -> Value:
    """1 if x > 0.5 in any environment of the same SIMD vector, else 0.

    Only for skipping work that no lane needs: which environments share a vector depends on the target.
    """
    return record_op("any", x) if isinstance(x, Scalar) else float(x > 0.5)


def detach(x: Value) -> Value:
    """The value x as a constant for differentiation: its derivative is zero."""
    return record_op("detach", x) if isinstance(x, Scalar) else x


def attach(value: Value, carrier: Value) -> Value:
    """The value `value` with the derivative of `carrier`, a value that is equal to it or that differs by a constant.

    Used for implicit differentiation: `value` is the result of an iteration, and `carrier` a formula whose derivative
    follows from the implicit function theorem.
    """
    return record_op("attach", value, carrier) if _any_symbolic(value, carrier) else value


def without_derivative(x: Value) -> Value:
    """`detach(x)` in a program that is traced to be differentiated, in others x itself, without an operation."""
    return detach(x) if _is_to_be_differentiated(x) else x


def with_derivative_of(value: Value, carrier: Value) -> Value:
    """`attach(value, carrier)` in a program that is traced to be differentiated, in others `value`."""
    return attach(value, carrier) if _is_to_be_differentiated(value, carrier) else value


def _is_to_be_differentiated(*values: Value) -> bool:
    return any(isinstance(x, Scalar) and x.tape.owner is not None and x.tape.owner.differentiable for x in values)


def square(x: Value) -> Value:
    """Square x * x."""
    return multiply(x, x)


def _any_symbolic(*values: Value) -> bool:
    return any(isinstance(v, Scalar) for v in values)


OP_FUNCTIONS: dict[str, Callable[..., Value]] = {
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
    "any": any_lane,
    "detach": detach,
    "attach": attach,
    "fma": lambda a, b, c: add(multiply(a, b), c),
    "fms": lambda a, b, c: subtract(multiply(a, b), c),
    "fnma": lambda a, b, c: subtract(c, multiply(a, b)),
}
"""Operation of an instruction -> function that evaluates or records it."""

"""Reverse-mode differentiation of a program: one more program, for the price of a few."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kinema.foundation import KinemaError

from .blocks import Line
from .functions import cos, select, sin
from .program import Program
from .record import finish
from .tape import Scalar, Tape, Value, add, divide, multiply, negate, subtract

ADJOINT = "d_"
"""Prefix of the arrays that hold derivatives of the cost with respect to an array's items."""

_FORWARD: dict[str, Callable[..., Value]] = {"add": add, "sub": subtract, "mul": multiply, "neg": negate}
_FORWARD |= {"reciprocal": lambda a: divide(1.0, a), "sin": sin, "cos": cos, "select": select}
_FORWARD |= {
    "fma": lambda a, b, c: add(multiply(a, b), c),
    "fms": lambda a, b, c: subtract(multiply(a, b), c),
    "fnma": lambda a, b, c: subtract(c, multiply(a, b)),
}


def gradient(program: Program, with_respect_to: Sequence[str]) -> Program:
    """The program that maps `d_<output>` to `d_<input>` for the named inputs, at the inputs' values.

    Its inputs are the program's own inputs and one array `d_y` for each output array y, the derivative of some cost
    with respect to it; its outputs are the arrays `d_x`, of the extents that the program reads. Loops and conditions
    have no gradient.
    """
    if not program.is_straight or any(slot.index is not None for slot in program.line.slots()):
        raise KinemaError("only straight lines of code have gradients: this program has loops or conditions")
    line = program.line
    tape = Tape()
    values = _replay(line, tape)
    adjoints: dict[int, Value] = {}
    last = {store.slot: store for store in line.stores}  # of two numbers for one place the last one counts
    for store in last.values():
        if isinstance(store.value, int):
            seed = tape.input(ADJOINT + store.slot.array, store.slot.item)
            adjoints[store.value] = add(adjoints.get(store.value, 0.0), seed)
    for instruction in reversed(line.instructions):
        d = adjoints.get(instruction.target, 0.0)
        if instruction.slot is not None or (not isinstance(d, Scalar) and d == 0.0):
            continue
        arguments = [values[a] if isinstance(a, int) else a for a in instruction.args]
        parts = _PULL[instruction.op](values[instruction.target], d, *arguments)
        for a, part in zip(instruction.args, parts, strict=True):
            if isinstance(a, int):
                adjoints[a] = add(adjoints.get(a, 0.0), part)
    outputs: dict[str, list[Value]] = {ADJOINT + name: [0.0] * program.inputs.get(name, 0) for name in with_respect_to}
    for instruction in line.instructions:
        if instruction.slot is not None and instruction.slot.array in with_respect_to:
            place = outputs[ADJOINT + instruction.slot.array]
            place[instruction.slot.item] = adjoints.get(instruction.target, 0.0)
    return finish(tape, outputs)


def _replay(line: Line, tape: Tape) -> dict[int, Value]:
    """The line's values as symbols of a new tape."""
    values: dict[int, Value] = {}
    for i in line.instructions:
        if i.slot is not None:
            values[i.target] = tape.input(i.slot.array, i.slot.item)
            continue
        arguments = [values[a] if isinstance(a, int) else a for a in i.args]
        forward = _FORWARD.get(i.op)
        if forward is not None:
            values[i.target] = forward(*arguments)
        else:
            values[i.target] = tape.record(i.op, *(a.number if isinstance(a, Scalar) else a for a in arguments))
    return values


_PULL: dict[str, Callable[..., tuple[Value, ...]]] = {
    "add": lambda _, d, a, b: (d, d),
    "sub": lambda _, d, a, b: (d, negate(d)),
    "mul": lambda _, d, a, b: (multiply(d, b), multiply(d, a)),
    "neg": lambda _, d, a: (negate(d),),
    "reciprocal": lambda y, d, a: (negate(multiply(d, multiply(y, y))),),
    "sqrt": lambda y, d, a: (multiply(d, divide(0.5, y)),),
    "sin": lambda _, d, a: (multiply(d, cos(a)),),
    "cos": lambda _, d, a: (negate(multiply(d, sin(a))),),
    "abs": lambda _, d, a: (select(a, 0.0, negate(d), d),),
    "floor": lambda _, d, a: (0.0,),
    "min": lambda _, d, a, b: (select(a, b, d, 0.0), select(a, b, 0.0, d)),
    "max": lambda _, d, a, b: (select(a, b, 0.0, d), select(a, b, d, 0.0)),
    "select": lambda _, d, a, b, x, y: (0.0, 0.0, select(a, b, d, 0.0), select(a, b, 0.0, d)),
    "fma": lambda _, d, a, b, c: (multiply(d, b), multiply(d, a), d),
    "fms": lambda _, d, a, b, c: (multiply(d, b), multiply(d, a), negate(d)),
    "fnma": lambda _, d, a, b, c: (negate(multiply(d, b)), negate(multiply(d, a)), d),
}
"""For each operation: from its value, its adjoint and its arguments to what each argument's adjoint gains."""

"""Reverse-mode automatic differentiation (vector-Jacobian products) of straight-line programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kinema.core import KinemaError

from .evaluator import Evaluator
from .memory import MemoryLocation
from .program import Program
from .symbolic import OP_FUNCTIONS, Scalar, Tape, Value, add, cos, divide, multiply, negate, select, sin
from .tracer import program_from_tape

ADJOINT_PREFIX = "d_"
"""Prefix of arrays of adjoints: derivatives of a cost with respect to the elements of an array."""


def gradient(program: Program, with_respect_to: Sequence[str]) -> Program:
    """Vector-Jacobian product (VJP) of a program by reverse-mode automatic differentiation, as a new program.

    The inputs of the new program are those of `program` and an array `d_y` for each output array y: the derivative of a
    scalar cost with respect to y. Its outputs are the arrays `d_x` for each x in `with_respect_to`, with as many
    elements as `program` reads of x. Raises KinemaError for programs with loops, branches or dynamic indices.
    """
    if not program.is_straight_line or any(location.index is not None for location in program.basic_block.locations()):
        raise KinemaError("gradients need a straight-line program, without loops, branches and dynamic indices")
    block = program.basic_block
    tape = Tape()
    values = _Recorder(tape).run_basic_block(block)
    adjoints: dict[int, Value] = {}
    last_stores = {store.location: store for store in block.stores}  # the last store to a memory location wins
    for store in last_stores.values():
        if isinstance(store.value, int):
            seed = tape.input(ADJOINT_PREFIX + store.location.array, store.location.element)
            adjoints[store.value] = add(adjoints.get(store.value, 0.0), seed)
    for instruction in reversed(block.instructions):
        d = adjoints.get(instruction.result, 0.0)
        if instruction.location is not None or (not isinstance(d, Scalar) and d == 0.0):
            continue
        arguments = [values[a] if isinstance(a, int) else a for a in instruction.args]
        contributions = _VJP_RULES[instruction.op](values[instruction.result], d, *arguments)
        for a, contribution in zip(instruction.args, contributions, strict=True):
            if isinstance(a, int):
                adjoints[a] = add(adjoints.get(a, 0.0), contribution)
    outputs: dict[str, list[Value]] = {
        ADJOINT_PREFIX + name: [0.0] * program.inputs.get(name, 0) for name in with_respect_to
    }
    for instruction in block.instructions:
        if instruction.location is not None and instruction.location.array in with_respect_to:
            derivatives = outputs[ADJOINT_PREFIX + instruction.location.array]
            derivatives[instruction.location.element] = adjoints.get(instruction.result, 0.0)
    return program_from_tape(tape, outputs)


class _Recorder(Evaluator):
    """Evaluator that records the instructions of a basic block on a tape, with the inputs of the program as inputs."""

    functions = OP_FUNCTIONS

    def __init__(self, tape: Tape) -> None:
        super().__init__()
        self.tape = tape

    def load(self, location: MemoryLocation, values: Mapping[int, Value]) -> Value:
        """Record the load of an input."""
        return self.tape.input(location.array, location.element)

    def store(self, location: MemoryLocation, value: Value, values: Mapping[int, Value]) -> None:
        """Ignore a store: outputs of the program are not outputs of its gradient."""


_VJP_RULES: dict[str, Callable[..., tuple[Value, ...]]] = {
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
"""Operation -> function of its result, the adjoint of its result and its operands that returns the adjoint
contributions of the operands."""

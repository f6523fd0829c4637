"""Programs: constants are not mistaken for values, and what a program says of itself."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from kinema.ir import (
    Program,
    Scalar,
    Tape,
    Tracer,
    Value,
    cos,
    interpret,
    maximum,
    minimum,
    optimise,
    program_from_tape,
    select,
    sin,
)


def small() -> Program:
    tape = Tape()
    x, y = tape.inputs("x", 2)
    return program_from_tape(tape, {"out": [sin(x) * y + 2.0, x], "constant": [3.0]})


@pytest.mark.parametrize("operation", ["add", "mul", "min", "max", "below", "otherwise"])
def test_a_constant_is_not_the_value_with_that_number(operation: str) -> None:
    """Value number 7 and the constant 7.0 are equal to Python, and must not be to the tape."""

    def apply(a: Value, b: Value) -> Value:
        match operation:
            case "add":
                return a + b
            case "mul":
                return a * b
            case "min":
                return minimum(a, b)
            case "max":
                return maximum(a, b)
            case "below":
                return select(a, 0.5, b, a)
            case _:
                return select(a, 0.5, a, b)

    tape = Tape()
    x = tape.inputs("x", 12)
    outputs = []
    for i in range(2, 12):  # number 1 and 0 are constants that vanish
        assert isinstance(x[i], Scalar)
        assert x[i].value_number == i
        outputs += [apply(x[0], x[i]), apply(x[0], float(i))]
    values = np.random.default_rng(0).uniform(-3, 3, (12, 5))
    found = interpret(program_from_tape(tape, {"y": outputs}), {"x": values})["y"]
    for row, i in enumerate(range(2, 12)):
        with_value = [apply(float(a), float(b)) for a, b in zip(values[0], values[i], strict=True)]
        with_constant = [apply(float(a), float(i)) for a in values[0]]
        np.testing.assert_allclose(found[2 * row], np.array(with_value, dtype=float))
        np.testing.assert_allclose(found[2 * row + 1], np.array(with_constant, dtype=float))


def test_printing() -> None:
    """One line for each instruction and output, in order."""
    assert str(small()).splitlines() == [
        "v0 = x[0]",
        "v1 = x[1]",
        "v2 = sin(v0)",
        "v3 = mul(v1, v2)",
        "v4 = add(v3, 2.0)",
        "out[0] = v4",
        "out[1] = v0",
        "constant[0] = 3.0",
    ]


def test_counting() -> None:
    """Operations, live values, and the extents of arrays."""
    program = small()
    assert program.op_counts() == {"input": 2, "sin": 1, "mul": 1, "add": 1}
    assert program.n_operations == 12
    assert program.inputs == {"x": 2}
    assert program.outputs == {"out": 2, "constant": 1}
    assert program.basic_block.max_live() == 4, "a result is there while its arguments still are"
    assert optimise(program).op_counts() == {"input": 2, "sin": 1, "fma": 1}


def test_the_same_algorithm_gives_the_same_program() -> None:
    assert str(optimise(small())) == str(optimise(small()))


def test_an_output_may_be_an_input_or_a_constant() -> None:
    found = interpret(small(), {"x": np.array([[0.5], [2.0]])})
    np.testing.assert_allclose(found["out"][:, 0], [2.0 * np.sin(0.5) + 2.0, 0.5])
    assert found["constant"][0, 0] == 3.0


def test_single_precision_stays_single() -> None:
    """Constants do not make it double."""
    tape = Tape()
    x = tape.input("x", 0)
    program = program_from_tape(tape, {"y": [cos(x) * 0.1 + select(x, 0.5, x, 1.0 / 3.0)]})
    found = interpret(program, {"x": np.array([[0.3, 0.7]], dtype=np.float32)})["y"]
    assert found.dtype == np.float32
    x32 = np.float32(0.3)
    assert found[0, 0] == np.cos(x32) * np.float32(0.1) + x32


def test_recorded_code_is_freed_without_the_garbage_collector() -> None:
    """Tapes refer to their tracer, which refers to them until the program is built: 200,000 objects of a step."""
    tracer = Tracer()
    tracer.write("b", tracer.while_loop("halve", lambda x: ([0.5 * x[0]], 1.0, x[0]), [tracer.read("a")], 9))
    collects = gc.isenabled()
    gc.disable()
    try:
        assert len([o for o in gc.get_objects() if isinstance(o, Tape) and o.owner is tracer]) > 2
        program = tracer.build()
        assert [o for o in gc.get_objects() if isinstance(o, Tape) and o.owner is tracer] == [tracer.tape]
    finally:
        if collects:
            gc.enable()
    assert program.body
    assert not tracer.build().body

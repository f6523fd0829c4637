"""Symbolic scalars: folding, sharing, and that the recorded program computes what the algorithm did."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kinema.ir import (
    BasicBlock,
    Instruction,
    MemoryLocation,
    Program,
    Store,
    Tape,
    absolute,
    clamp,
    cos,
    floor,
    fuse_multiply_add,
    interpret,
    maximum,
    minimum,
    optimise,
    optimise_basic_block,
    program_from_tape,
    schedule_instructions,
    select,
    sin,
    sqrt,
    vjp,
)

N_INPUTS = 4
Algorithm = Callable[[list], list]


def traced(algorithm: Algorithm, n: int = N_INPUTS) -> Program:
    tape = Tape()
    return program_from_tape(tape, {"y": algorithm(tape.inputs("x", n))})


def run(program: Program, x: np.ndarray) -> np.ndarray:
    return interpret(program, {"x": x.reshape(len(x), -1)})["y"]


@pytest.mark.parametrize(
    ("name", "algorithm", "n_instructions"),
    [
        ("zero vanishes", lambda x: [x[0] + 0.0, 0.0 * x[1]], 1),
        ("one vanishes", lambda x: [1.0 * x[0] * 1.0], 1),
        ("constants meet", lambda x: [2.0 * (3.0 * x[0]) * 4.0], 2),
        ("constants move outwards", lambda x: [(2.0 * x[0]) * (3.0 * x[1])], 4),
        ("double negation", lambda x: [-(0.0 - x[0])], 1),
        ("negated sum", lambda x: [x[0] + -x[1]], 3),
        ("negated difference", lambda x: [-(x[0] - x[1])], 3),
        ("common terms are shared", lambda x: [x[0] * x[1] + 1.0, x[1] * x[0] + 2.0], 5),
        ("a value minus itself", lambda x: [(x[0] + x[1]) - (x[1] + x[0])], 0),
        ("division by a constant", lambda x: [x[0] / 4.0], 2),
        ("sine is odd, cosine even", lambda x: [sin(-x[0]) + sin(x[0]), cos(-x[0]) - cos(x[0])], 0),
        ("what is not wanted is not computed", lambda x: [x[0], sin(x[1])][:1], 1),
        ("infinite bounds cost nothing", lambda x: [clamp(x[0], -math.inf, math.inf)], 1),
    ],
)
def test_simplifications(name: str, algorithm: Algorithm, n_instructions: int) -> None:
    program = traced(algorithm)
    assert program.n_instructions == n_instructions, f"{name}:\n{program}"


def test_plain_numbers_stay_plain_numbers() -> None:
    """The same functions run on floats: the reference implementation."""
    assert sin(0.5) == math.sin(0.5)
    assert sqrt(4.0) == 2.0
    assert select(1.0, 2.0, 3.0, 4.0) == 3.0
    assert clamp(5.0, 0.0, 1.0) == 1.0


def test_a_branch_on_a_symbol_is_refused() -> None:
    x = Tape().input("x", 0)
    with pytest.raises(TypeError, match="select"):
        _ = 1 if x else 2


OPERATIONS = ["+", "-", "*", "neg", "sin", "cos", "abs", "min", "max", "select", "const", "recip", "sqrt", "floor"]


@st.composite
def algorithms(draw: st.DrawFn) -> Algorithm:
    """A random formula of every operation, as a function of a list of numbers."""
    steps = draw(
        st.lists(
            st.tuples(
                st.sampled_from(OPERATIONS),
                st.integers(0, 50),
                st.integers(0, 50),
                st.sampled_from([0.0, 1.0, -1.0, 0.5, 2.0, -3.0]),
            ),
            min_size=1,
            max_size=30,
        )
    )

    def algorithm(x: list) -> list:
        values = list(x)
        for op, i, j, c in steps:
            a, b = values[i % len(values)], values[j % len(values)]
            values.append(_apply(op, a, b, c))
        return values[-5:]

    return algorithm


def _apply(op: str, a, b, c: float):
    match op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return 0.1 * a * b
        case "neg":
            return -a
        case "sin":
            return sin(a)
        case "cos":
            return cos(b)
        case "abs":
            return absolute(a)
        case "floor":
            return 0.25 * floor(4.0 * a)
        case "min":
            return minimum(a, b)
        case "max":
            return maximum(a, b)
        case "select":
            return select(a, b, a + c, c - b)
        case "recip":
            return 1.0 / (2.0 + cos(a))
        case "sqrt":
            return sqrt(1.0 + a * a)
        case _:
            return c * a + c


points = st.lists(st.floats(-2, 2), min_size=N_INPUTS, max_size=N_INPUTS)


@given(algorithms(), points)
def test_the_program_computes_what_the_algorithm_does(algorithm: Algorithm, point: list[float]) -> None:
    direct = algorithm(list(point))
    recorded = run(traced(algorithm), np.array(point))[:, 0]
    np.testing.assert_allclose(recorded, direct, rtol=1e-9, atol=1e-9)


@given(algorithms(), points)
def test_passes_do_not_change_the_result(algorithm: Algorithm, point: list[float]) -> None:
    program = traced(algorithm)
    expected = run(program, np.array(point))
    fused, scheduled = fuse_multiply_add(program.basic_block), schedule_instructions(program.basic_block)
    for better in (Program((fused,)), Program((scheduled,)), optimise(program)):
        np.testing.assert_allclose(run(better, np.array(point)), expected, rtol=1e-12, atol=1e-12)
    assert scheduled.max_live() <= program.basic_block.max_live()
    assert len(fused.instructions) <= len(program.basic_block.instructions)


@given(algorithms(), points)
def test_instructions_come_after_what_they_need(algorithm: Algorithm, point: list[float]) -> None:
    done: set[int] = set()
    for i in optimise(traced(algorithm)).basic_block.instructions:
        assert all(a in done for a in i.uses)
        done.add(i.result)


SMOOTH: list[Algorithm] = [
    lambda x: [x[0] * x[1] + x[2], x[0] - x[1] * x[2]],
    lambda x: [sin(x[0]) * cos(x[1]), 1.0 / (3.0 + x[2] * x[2])],
    lambda x: [sqrt(2.0 + x[0] * x[0]) - x[1] / (2.0 + cos(x[3]))],
    lambda x: [maximum(x[0], 0.3) * x[1], minimum(x[2], x[3]), absolute(x[0]) * x[1]],
    lambda x: [select(x[0], x[1], x[2] * x[3], -x[3])],
]


@pytest.mark.parametrize("number", range(len(SMOOTH)))
@pytest.mark.parametrize("fused", [False, True])
def test_gradients_equal_central_differences(number: int, fused: bool) -> None:
    program = traced(SMOOTH[number])
    program = optimise(program) if fused else program
    random = np.random.default_rng(number)
    x = random.normal(size=(N_INPUTS, 8))
    seeds = random.normal(size=(len(program.basic_block.stores), 8))
    inputs = [("x", i) for i in range(N_INPUTS)]
    reverse = vjp(program, inputs, [("y", i) for i in range(len(seeds))])
    found = interpret(reverse, {"x": x, "d y": seeds, "d x": np.zeros_like(x)})["d x"]
    h = 1e-6
    for i in range(program.inputs["x"]):
        step = np.zeros_like(x)
        step[i] = h
        difference = (run_all(program, x + step) - run_all(program, x - step)) / (2 * h)
        np.testing.assert_allclose(found[i], (difference * seeds).sum(axis=0), rtol=1e-7, atol=1e-8)


def run_all(program: Program, x: np.ndarray) -> np.ndarray:
    return interpret(program, {"x": x})["y"]


def test_programs_print_and_count() -> None:
    program = traced(lambda x: [x[0] * x[1] + sin(x[2])])
    assert "mul(v0, v1)" in str(program)
    assert program.op_counts() == {"input": 3, "mul": 1, "sin": 1, "add": 1}
    assert program.inputs == {"x": 3}
    assert program.outputs == {"y": 1}
    assert program.n_operations == 12
    assert Program((fuse_multiply_add(program.basic_block),)).op_counts()["fma"] == 1


def test_a_long_sum_of_products_is_held_in_few_registers() -> None:
    """Scheduling: a dot product of computed terms needs its terms one after the other, not all at once."""

    def algorithm(x: list) -> list:
        terms = [sin(x[0] + float(i)) for i in range(50)]
        total = 0.0
        for t in terms:
            total = total + t
        return [total]

    line = traced(algorithm).basic_block
    assert line.max_live() > 40
    assert schedule_instructions(line).max_live() <= 4


def test_blocks_that_differ_in_signs_and_types_only_stay_apart() -> None:
    """Optimised blocks are kept by content: as numbers 0.0 equals -0.0, and the constant 2.0 the value of number 2."""
    x = Instruction(2, "input", (), MemoryLocation("x", 0))
    for operand in (2, 2.0, 0.0, -0.0):
        block = BasicBlock((x, Instruction(3, "add", (2, operand))), (Store(MemoryLocation("y", 0), 3),))
        for _ in range(2):
            instructions = optimise_basic_block(block).instructions
            assert [repr(i) for i in instructions] == [repr(i) for i in block.instructions]
    for value in (2, 2.0, 0.0, -0.0):
        found = optimise_basic_block(BasicBlock((x,), (Store(MemoryLocation("y", 0), value),)))
        assert repr(found.stores[0].value) == repr(value)

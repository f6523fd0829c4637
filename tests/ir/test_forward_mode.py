"""Forward-mode differentiation of random programs with all kinds of statements, against central differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kinema.core import KinemaError
from kinema.ir import (
    SCRATCH,
    UNIFORM,
    ArenaOffset,
    IterationContext,
    LoopIteration,
    Program,
    Tracer,
    attach,
    detach,
    interpret,
    interpret_in_place,
    jvp,
    minimum,
    select,
    sqrt,
    trace_for_each_loop,
    with_derivative_of,
    without_derivative,
)
from kinema.ir.program import BasicBlock, walk

from .arenas import Memory, Numbers, kernel, launched
from .random_programs import MEMORY, PLACES, random_numbers, recorded, trees

REAL = [("state", 4), ("state", 5), ("state", 6), ("controls", 3), ("controls", 4)]
"""Cells of real numbers that programs read."""
OUTPUTS = [("state", 4), ("state", 5), ("state", 6), ("out", 4), ("out", 5), *(("out", row) for row in range(16, 24))]
H = 1e-6
ARENAS = ("state", "controls", "out", UNIFORM)
ROWS = {arena: MEMORY.n_rows(arena) for arena in ARENAS}
DOUBLED = Memory(**{a: [*getattr(MEMORY, a), *((f"t {name}", n) for name, n in getattr(MEMORY, a))] for a in ARENAS})
"""The same arrays, each arena followed by the tangents of its arrays."""


def tangents(program: Program, numbers: Numbers) -> np.ndarray:
    """Derivatives of the outputs by each real input, (n_outputs, n_inputs), one input in each environment."""
    n = len(REAL)
    arenas = {a: np.zeros((2 * ROWS[a], 1 if a == UNIFORM else n)) for a in ARENAS}
    for arena, values in numbers.items():
        arenas[arena][: ROWS[arena]] = values[: ROWS[arena], :1]
    for i, (arena, row) in enumerate(REAL):
        arenas[arena][ROWS[arena] + row, i] = 1.0
    derivative = jvp(program, REAL, PLACES, ROWS)
    interpret_in_place(derivative, arenas, DOUBLED.places())
    return np.array([arenas[arena][ROWS[arena] + row] for arena, row in OUTPUTS])


def differences(program: Program, numbers: Numbers) -> tuple[np.ndarray, np.ndarray]:
    """Forward and backward differences, in the same order."""
    n = len(REAL)
    arenas = {a: np.repeat(v[:, :1], 1 if a == UNIFORM else 2 * n + 1, axis=1) for a, v in numbers.items()}
    for i, (arena, row) in enumerate(REAL):
        arenas[arena][row, i] += H
        arenas[arena][row, n + i] -= H
    interpret_in_place(program, arenas, PLACES)
    values = np.array([arenas[arena][row] for arena, row in OUTPUTS])
    middle = values[:, 2 * n :]
    return (values[:, :n] - middle) / H, (middle - values[:, n : 2 * n]) / H


@settings(max_examples=100)
@given(tree=trees(), seed=st.integers(0, 5))
def test_random_programs(tree: tuple[Any, ...], seed: int) -> None:
    """The derivative by each input equals central differences, where both one-sided differences agree."""
    program, numbers = recorded(tree), random_numbers(seed, 1, 1)
    found = tangents(program, numbers)
    forward, backward = differences(program, numbers)
    smooth = np.abs(forward - backward) <= 1e-4 * (1.0 + np.abs(forward))
    scale = 1.0 + np.abs(forward)
    assert (np.abs(found - 0.5 * (forward + backward)) <= 1e-4 * scale)[smooth].all()


@settings(max_examples=8)
@given(tree=trees(), seed=st.integers(0, 5))
def test_compiled_code_equals_the_interpreter(tree: tuple[Any, ...], seed: int) -> None:
    program, numbers = recorded(tree), random_numbers(seed, 1, 1)
    derivative = jvp(program, REAL, PLACES, ROWS)
    arenas = {a: np.zeros((2 * ROWS[a], 1)) for a in ARENAS}
    for arena, values in numbers.items():
        arenas[arena][: ROWS[arena]] = values[: ROWS[arena]]
    for k, (arena, row) in enumerate(REAL):
        arenas[arena][ROWS[arena] + row] = 0.3 + 0.1 * k
    compiled = launched(kernel(derivative, DOUBLED, 4), DOUBLED, arenas, 1)
    interpret_in_place(derivative, arenas, DOUBLED.places())
    for arena, values in arenas.items():
        np.testing.assert_allclose(compiled[arena], values, rtol=1e-12, atol=1e-12, err_msg=arena)


def test_detached_values_are_constants_and_attached_ones_have_the_derivative_of_their_carrier() -> None:
    tracer = Tracer()
    x = tracer.read("x")
    tracer.write("y", [x * detach(x), attach(detach(x * x), 3.0 * x), detach(x)])
    found = interpret(jvp(tracer.build(), [("x", 0)]), {"x": np.array([[2.0]]), "t x": np.array([[1.0]])})
    np.testing.assert_array_equal(found["y"][:, 0], [4.0, 4.0, 2.0])
    np.testing.assert_array_equal(found["t y"][:, 0], [2.0, 3.0])


def test_the_smaller_of_two_equal_values_has_their_derivative() -> None:
    tracer = Tracer()
    x = tracer.read("x")
    tracer.write("y", [minimum(x, x), select(x, 0.0, 3.0 * x, 3.0 * x)])
    found = interpret(jvp(tracer.build(), [("x", 0)]), {"x": np.array([[2.0]]), "t x": np.array([[1.0]])})
    np.testing.assert_array_equal(found["t y"][:, 0], [1.0, 3.0])


def test_the_derivative_of_a_square_root_at_zero_is_zero() -> None:
    """MuJoCo-like norms of zero vectors have no derivative; zero keeps all others finite."""
    tracer = Tracer()
    x = tracer.read("x")
    tracer.write("y", [sqrt(x * x)])
    found = interpret(jvp(tracer.build(), [("x", 0)]), {"x": np.array([[0.0, 2.0]]), "t x": np.ones((1, 2))})
    np.testing.assert_array_equal(found["t y"], [[0.0, 1.0]])


@pytest.mark.parametrize("differentiable", [False, True])
def test_derivatives_are_replaced_only_in_programs_to_be_differentiated(differentiable: bool) -> None:
    """Others are as without `without_derivative` and `with_derivative_of`, also in loops over tables."""
    tracer = Tracer(differentiable=differentiable)

    def body(row: IterationContext) -> None:
        x = row.read("x")
        row.write("y", [with_derivative_of(without_derivative(x * x) * x, 3.0 * x)])

    offsets = {"x": ArenaOffset("state", 0), "y": ArenaOffset("state", 1)}
    trace_for_each_loop(tracer, "rows", [LoopIteration("k", offsets)], body)
    program = tracer.build()
    operations = {i.op for block in walk(program.body) if isinstance(block, BasicBlock) for i in block.instructions}
    assert ({"detach", "attach"} <= operations) == differentiable
    arrays = {"state": np.array([[2.0], [0.0]]), "t state": np.ones((2, 1))}
    interpret_in_place(jvp(program, [("state", 0)]), arrays, {})
    np.testing.assert_array_equal(arrays["state"][1], 8.0)
    np.testing.assert_array_equal(arrays["t state"][1], 3.0 if differentiable else 12.0)


def test_constant_outputs_have_no_tangents() -> None:
    """Code that depends on no differentiated input stays as it was."""
    tracer = Tracer()
    tracer.write(SCRATCH, [2.0 * tracer.read("a")], 0)
    tracer.new_basic_block()
    tracer.write("y", [tracer.read(SCRATCH, 0)])
    program = tracer.build(n_scratch=1)
    assert jvp(program, [("x", 0)]).n_instructions == program.n_instructions


def test_a_chain_of_loops_over_tables_that_name_the_same_arrays() -> None:
    """Each loop has its own rows: what a name refers to in one loop says nothing about another loop."""
    n, tracer = 7, Tracer()
    tracer.write(SCRATCH, [tracer.read("x")], 0)
    tracer.new_basic_block()
    for i in range(n):
        offsets = {"a": ArenaOffset(SCRATCH, i), "b": ArenaOffset(SCRATCH, i + 1)}
        trace_for_each_loop(
            tracer, f"loop {i}", [LoopIteration("k", offsets)], lambda row: row.write("b", [2.0 * row.read("a")])
        )
    tracer.write("y", [tracer.read(SCRATCH, n)])
    program = tracer.build(n_scratch=n + 1, allocation_starts=[0])
    found = interpret(jvp(program, [("x", 0)]), {"x": np.ones((1, 1)), "t x": np.ones((1, 1))})
    assert found["t y"][0, 0] == 2.0**n


def test_cooperative_statements_have_no_derivative() -> None:
    tracer = Tracer()
    tracer.atomic_increment("counter")
    with pytest.raises(KinemaError, match="no derivative of AtomicIncrement"):
        jvp(tracer.build(), [("x", 0)], {"counter": ArenaOffset("state", 0)})

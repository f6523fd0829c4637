"""Unrolling by symbolic execution: loops and branches that are kept carry all values from one iteration to the next."""

from __future__ import annotations

import numpy as np
import pytest

from kinema.ir import SCRATCH, Program, Tracer, Value, interpret, unroll, unroll_program

ARRAYS = {"x": np.array([[2.0, 3.0], [3.0, 0.0], [1.0, -1.0]])}


def counting(depth: int) -> Program:
    """Increments memory in a branch inside nested loops of unknown length."""
    tracer = Tracer()
    tracer.write(SCRATCH, [0.0])

    def increment() -> list[Value]:
        tracer.write(SCRATCH, [tracer.read(SCRATCH) + 1.0])
        return []

    def loop(level: int) -> None:
        if level == depth:
            tracer.if_less("positive", 0.0, tracer.read("x", 2), increment, [])
        else:
            tracer.counted_loop(f"loop {level}", tracer.read("x", level), lambda _: loop(level + 1))

    loop(0)
    tracer.new_basic_block()
    tracer.write("y", [tracer.read(SCRATCH)])
    return tracer.build(n_scratch=1)


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_memory_that_a_branch_inside_loops_updates(depth: int) -> None:
    program = counting(depth)
    expected = interpret(program, ARRAYS)["y"]
    np.testing.assert_array_equal(expected[0], [[1.0, 0.0], [2.0, 0.0], [6.0, 0.0]][depth])
    np.testing.assert_array_equal(interpret(unroll_program(program), ARRAYS)["y"], expected)
    for env in range(2):
        values = unroll(program, lambda array, element, env=env: float(ARRAYS[array][element, env]))
        assert values.get(("y", 0)) == expected[0, env]

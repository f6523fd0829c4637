"""Rows of loops that few environments take: a GPU runs a list of those, with the results of all."""

from __future__ import annotations

import numpy as np
import pytest

from kinema.codegen import Target, emit_thread_kernel
from kinema.ir import (
    SCRATCH,
    UNIFORM,
    ArenaOffset,
    IterationContext,
    LoopIteration,
    Program,
    Tracer,
    find_guards,
    interpret_in_place,
    optimise,
    trace_for_each_loop,
)
from kinema.ir.reverse_mode import vjp

from .arenas import Memory
from .gpu_on_host import run_on_host

N_ROWS, N_ENVS = 11, 4
MEMORY = Memory(state=[("x", N_ROWS + 1), ("sum", 1), ("flag", N_ROWS + 1)])


def program(shift: int = 0, always: int = -1) -> Program:
    """Each row with x below 1/2 adds to a sum and sets the flag of a row; it is recorded which rows do."""
    tracer = Tracer()

    def add() -> list[object]:
        code = contexts[-1]
        code.write("sum", [code.read("sum") * code.constant("factor") + code.read("x") * code.read("x")])
        code.write("flag", [code.read("x")])
        return []

    contexts: list[IterationContext] = []

    def row(code: IterationContext) -> None:
        contexts.append(code)
        if code.specialization == "always":
            add()
            return
        code.write("taken", [code.read("x")])
        code.tracer.if_less("small", code.read("x"), 0.5, add, [])

    places = MEMORY.places()
    rows = [
        LoopIteration(
            "always" if i == always else "guarded",
            {
                "x": ArenaOffset("state", places["x"].row + i),
                "sum": ArenaOffset("state", places["sum"].row),
                "flag": ArenaOffset("state", places["flag" if not shift else "x"].row + i + shift),
                "taken": ArenaOffset(SCRATCH, i),
            },
            {"factor": [0.5 + 0.1 * i]},
        )
        for i in range(N_ROWS)
    ]
    trace_for_each_loop(tracer, "rows", rows, row, no_unroll=True)
    return tracer.build(n_scratch=N_ROWS)


def run(program: Program, state: np.ndarray) -> np.ndarray:
    """State after the threads of a GPU have run."""
    text = emit_thread_kernel((program,), MEMORY.places(), Target("double", is_gpu=True, n_scratch=program.n_scratch))
    assert ("row_list" in text) == bool(find_guards(program, program.for_each_loops))
    ints, floats = program.pack_tables()
    nothing = np.zeros((1, N_ENVS))
    arrays = {"state": state.copy(), "controls_start": nothing, "out": nothing, UNIFORM: nothing}
    arrays |= {SCRATCH: np.zeros((program.n_scratch, 32)), "ints": ints, "floats": floats}
    run_on_host(text, arrays, (N_ENVS, 1, 0, N_ENVS), n_blocks=N_ENVS, shape=(1, 1))
    return arrays["state"]


@pytest.mark.parametrize(("shift", "always", "is_guarded"), [(0, -1, True), (0, 3, True), (1, -1, False)])
def test_rows_that_take_their_branch(shift: int, always: int, is_guarded: bool) -> None:
    """All of them where a row changes the condition of the next one."""
    made = optimise(program(shift, always))
    assert (id(made.for_each_loops[0]) in find_guards(made, made.for_each_loops)) == is_guarded
    state = np.random.default_rng(0).uniform(0.0, 1.0, (MEMORY.n_rows("state"), N_ENVS))
    expected = state.copy()
    interpret_in_place(made, {"state": expected}, MEMORY.places())
    np.testing.assert_allclose(run(made, state), expected, rtol=1e-14)


def test_derivatives_of_rows_that_take_their_branch() -> None:
    """Their adjoint runs in reverse order, for the same rows."""
    places, n = MEMORY.places(), MEMORY.n_rows("state")
    cells = [("state", i) for i in range(n)]
    made = optimise(vjp(program(), cells, cells, places, {"state": n}))
    assert find_guards(made, made.for_each_loops)
    numbers = np.random.default_rng(1).uniform(0.0, 1.0, (2 * n, N_ENVS))
    expected = numbers.copy()
    interpret_in_place(made, {"state": expected}, places)
    found = run(made, numbers)
    np.testing.assert_allclose(found[n:], expected[n:], rtol=1e-13)

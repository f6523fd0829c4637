"""Loops over tables give what the same code gives when it is written out."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kinema.codegen import Target, emit_cpu_modules, emit_thread_kernel
from kinema.core import KinemaError
from kinema.ir import (
    SCRATCH,
    ArenaOffset,
    IterationContext,
    LoopIteration,
    Program,
    Tracer,
    Value,
    absolute,
    interpret_in_place,
    sin,
    trace_for_each_loop,
    while_loop,
)

from .arenas import Memory, compiled, interpreted


def halves(code: IterationContext) -> None:
    """Two kinds of rows: one scales, one adds what the row before it left behind."""
    x = code.read("x")
    if code.specialization == "scaled":
        code.write("sum", [code.constant("factor") * x])
    else:
        code.write("sum", [code.read("before") + sin(x)])


def looped(name: str, rows: list[LoopIteration], body: Callable[[IterationContext], None]) -> Program:
    """A program of one loop."""
    recorder = Tracer()
    trace_for_each_loop(recorder, name, rows, body)
    return recorder.build()


def chain(kinds: list[str], factors: list[float]) -> Program:
    rows = [
        LoopIteration(
            kind,
            {
                "x": ArenaOffset("state", i),
                "before": ArenaOffset(SCRATCH, max(i - 1, 0)),
                "sum": ArenaOffset(SCRATCH, i),
            },
            {"factor": [factor]},
        )
        for i, (kind, factor) in enumerate(zip(kinds, factors, strict=True))
    ]
    n = len(kinds)
    out = LoopIteration("last", {"sum": ArenaOffset(SCRATCH, n - 1), "x": ArenaOffset("state", n)})
    recorder = Tracer()
    trace_for_each_loop(recorder, "sums", rows, halves)
    trace_for_each_loop(recorder, "out", [out], lambda code: code.write("x", [code.read("sum")]))
    return recorder.build(n_scratch=n)


@given(st.lists(st.tuples(st.sampled_from(["scaled", "added"]), st.floats(-2, 2)), min_size=1, max_size=12))
def test_rows_run_in_order_and_by_kind(rows: list[tuple[str, float]]) -> None:
    """A loop is its rows one after the other, whatever mix of kinds and constants they have."""
    kinds, factors = [k for k, _ in rows], [f for _, f in rows]
    kinds[0] = "scaled"
    state = np.random.default_rng(0).uniform(-1, 1, (len(rows) + 1, 3))
    expected = np.zeros(3)
    for kind, factor, x in zip(kinds, factors, state, strict=False):
        expected = factor * x if kind == "scaled" else expected + np.sin(x)
    interpret_in_place(chain(kinds, factors), {"state": state}, {})
    np.testing.assert_allclose(state[-1], expected, rtol=0, atol=1e-14)


def test_code_does_not_depend_on_the_number_of_rows() -> None:
    """Two models with rows of the same kinds share their code; only the tables differ."""
    few = chain(["scaled", "added"], [2.0, 3.0])
    many = chain(["scaled", *["added", "scaled"] * 20], [0.5 + i for i in range(41)])
    assert len({emit_cpu_modules(program, {}, Target("double", 2)) for program in (few, many)}) == 1
    assert len({emit_thread_kernel([program], {}, Target("double", is_gpu=True)) for program in (few, many)}) == 1


@pytest.mark.parametrize("value", [0.0, 1.0, -1.0, math.inf])
def test_a_number_that_all_rows_share_is_folded(value: float) -> None:
    """Zeros, ones and infinities of a whole kind are no numbers of the table."""
    program = chain(["scaled"] * 3, [value] * 3)
    assert program.for_each_loops[0].floats.shape == (3, 0)
    assert chain(["scaled"] * 3, [value, value, 0.5]).for_each_loops[0].floats.shape == (3, 1)


def test_a_row_reads_everything_before_it_writes() -> None:
    """Two rows of memory can be exchanged, and a sum can be added to in place."""

    def swap(code: IterationContext) -> None:
        a, b = code.read_array("pair", 2)
        code.write("pair", [b, a])

    state = np.array([[1.0], [2.0]])
    rows = [LoopIteration("pair", {"pair": ArenaOffset("state", 0)})]
    interpret_in_place(looped("swap", rows, swap), {"state": state}, {}, n_runs=3)
    assert state.ravel().tolist() == [2.0, 1.0]


def test_an_array_and_a_number_may_have_the_same_name() -> None:
    """What is read from memory is not taken for the constant that is called the same."""
    state = np.array([[3.0], [0.0]])
    rows = [LoopIteration("x", {"gain": ArenaOffset("state", 0), "y": ArenaOffset("state", 1)}, {"gain": [10.0]})]
    program = looped("product", rows, lambda code: code.write("y", [code.read("gain") * code.constant("gain")]))
    interpret_in_place(program, {"state": state}, {})
    assert state[1, 0] == 30.0


def test_printing_and_counting() -> None:
    """A structured program can be read, and its operations are counted by rows."""
    program = chain(["scaled", "added", "added"], [2.0, 3.0, 4.0])
    assert "for 3 rows of sums:" in str(program)
    assert program.n_operations == 1 + 2 * 11
    assert program.n_instructions < 10


def root_of(recorder: Tracer | None, x: Value) -> list[Value]:
    """Newton's square root, which takes as many steps as a row's number needs."""
    return while_loop(
        recorder,
        "newton",
        lambda state: ([0.5 * (state[0] + x / state[0])], 1e-9, absolute(state[0] * state[0] - x)),
        [x + 1.0],
        30,
    )


def test_rows_with_loops_of_their_own() -> None:
    """The code of a row may repeat steps; what it computed before is still there after them, row by row."""

    def body(code: IterationContext) -> None:
        before = code.constant("factor") * code.read("x")
        (root,) = root_of(code.tracer, code.read("x"))
        code.write("x", [root + before])

    factors, x = [2.0, -3.0, 0.5], np.array([[4.0, 9.0, 1e-3], [2.0, 100.0, 3.0], [1.0, 1e4, 0.25]])
    rows = [LoopIteration("root", {"x": ArenaOffset("state", i)}, {"factor": [f]}) for i, f in enumerate(factors)]
    program = looped("roots", rows, body)
    expected = [[root_of(None, v)[0] + f * v for v in values] for f, values in zip(factors, x.tolist(), strict=True)]
    memory = Memory(state=[("x", 3)])
    np.testing.assert_allclose(interpreted(program, memory, {"state": x}, 3)["state"], expected, atol=1e-12)
    for lanes in (1, 2, 4, 8):
        np.testing.assert_allclose(
            compiled(program, memory, {"state": x}, 3, lanes=lanes)["state"], expected, atol=1e-12
        )


def test_tables_within_tables_have_memory_of_their_own() -> None:
    """What a row of the outer table has in hand is not written over by the rows of the inner one."""

    def inner(code: IterationContext) -> None:
        (root,) = root_of(code.tracer, code.read("y"))
        kept = 3.0 * root
        (again,) = root_of(code.tracer, root)
        code.write("y", [kept + again])

    def outer(code: IterationContext) -> None:
        kept = 10.0 * code.read("x")
        trace_for_each_loop(
            code.tracer, "inner", [LoopIteration("in", {"y": ArenaOffset("state", i)}) for i in (2, 3)], inner
        )
        (root,) = root_of(code.tracer, code.read("x"))
        code.write("x", [kept + root])

    program = looped("outer", [LoopIteration("out", {"x": ArenaOffset("state", i)}) for i in (0, 1)], outer)
    x = np.array([[4.0, 2.0], [9.0, 5.0], [16.0, 7.0], [81.0, 3.0]])
    expected = x.copy()
    expected[:2] = 10.0 * x[:2] + np.sqrt(x[:2])
    for _ in range(2):
        root = np.sqrt(expected[2:])
        expected[2:] = 3.0 * root + np.sqrt(root)
    memory = Memory(state=[("x", 4)])
    np.testing.assert_allclose(interpreted(program, memory, {"state": x}, 2)["state"], expected, rtol=1e-8)
    np.testing.assert_allclose(compiled(program, memory, {"state": x}, 2, lanes=2)["state"], expected, rtol=1e-8)


def test_rows_may_lie_in_local_memory() -> None:
    """An array of a row can be a part of an array of the run: each row its own part."""
    recorder = Tracer()
    local = recorder.allocate_local(3)
    recorder.write(local, [recorder.read("x", i) for i in range(3)])
    rows = [LoopIteration("row", {"a": ArenaOffset(local, i)}, {"n": [i + 2.0]}) for i in range(3)]
    trace_for_each_loop(recorder, "rows", rows, lambda code: code.write("a", [code.read("a") * code.constant("n")]))
    program = recorder.build({"x": [recorder.read(local, i) for i in range(3)]})
    x, memory = np.array([[1.0], [10.0], [100.0]]), Memory(state=[("x", 3)])
    assert interpreted(program, memory, {"state": x}, 1)["state"].ravel().tolist() == [2.0, 30.0, 400.0]
    assert compiled(program, memory, {"state": x}, 1, lanes=2)["state"].ravel().tolist() == [2.0, 30.0, 400.0]


def test_rows_of_a_kind_lie_in_the_same_arena() -> None:
    """A row says where in an arena its array is, not in which: two arenas are refused, and not mixed up."""
    rows = [LoopIteration("row", {"a": ArenaOffset("state", 0)}), LoopIteration("row", {"a": ArenaOffset("out", 0)})]
    with pytest.raises((AssertionError, KinemaError, ValueError)):
        looped("rows", rows, lambda code: code.write("a", [5.0]))


def test_only_listed_iterations_run() -> None:
    """A loop with a list runs its iterations in the order of the list, which may differ between environments."""
    memory, n_envs = Memory(state=[("length", 1), ("list", 3), ("y", 4)], out=[], uniform=[]), 3
    recorder = Tracer()
    recorder.write(SCRATCH, [recorder.read("length"), *(recorder.read("list", i) for i in range(3))])
    recorder.new_basic_block()
    rows = [LoopIteration("row", {"y": ArenaOffset("state", 4 + i)}, {"factor": [2.0 + i]}) for i in range(4)]
    trace_for_each_loop(
        recorder,
        "listed",
        rows,
        lambda row: row.write("y", [row.read("y") + row.constant("factor")]),
        active_iterations=ArenaOffset(SCRATCH, 0),
    )
    program = recorder.build(n_scratch=4)
    lists = np.array([[2.0, 0.0, 3.0], [3.0, 1.0, 1.0], [1.0, 0.0, 3.0], [0.0, 0.0, 0.0]])
    numbers = {"state": np.concatenate([lists, np.zeros((4, n_envs))])}
    expected = np.array([[0.0, 0.0, 2.0], [3.0, 0.0, 3.0], [0.0, 0.0, 0.0], [5.0, 0.0, 5.0]])
    for found in (compiled(program, memory, numbers, n_envs, lanes=1), interpreted(program, memory, numbers, n_envs)):
        np.testing.assert_array_equal(found["state"][4:], expected)

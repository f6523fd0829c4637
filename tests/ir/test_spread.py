"""What all threads of a GPU share: rows that are chosen, environment by environment, and what they do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from kinema import ir
from kinema.codegen import (
    Target,
    chunk_iterations,
    emit_filter_kernel,
    emit_queue_kernel,
    inline_specializations,
    max_queued_iterations,
    queued_specializations,
)
from kinema.ir import (
    SCRATCH,
    UNIFORM,
    ArenaOffset,
    IterationContext,
    KernelPart,
    LoopIteration,
    Program,
    Tracer,
    Value,
    interpret_in_place,
    optimise,
    split_into_kernels,
    trace_work_queue_loop,
)
from kinema.runtime.cuda_driver import compile_ptx
from kit.choosing import combinations

from .arenas import Memory
from .gpu_on_host import WARP_SIZE, run_work_queue_on_host

N_ROWS, N_ENVS, STRIDE = 37, 41, 64
MEMORY = Memory(state=[("x", N_ROWS), ("y", N_ROWS), ("list", N_ROWS), ("count", 1)])
N_KINDS = 3


def powers_of_positive_numbers(n_tests: int = 2, kinds: Sequence[int] = range(N_KINDS)) -> Program:
    """Of some numbers those above zero, to some power; and a list of which they are, in any order.

    The last kind of rows finds it in a loop that nobody knows the length of.
    """
    recorder = Tracer()
    rows = []
    for i in range(N_ROWS):
        places = {
            "in": ArenaOffset("x", i),
            "to": ArenaOffset("y", i),
            "list": ArenaOffset("list", 0),
            "count": ArenaOffset("count", 0),
        }
        rows.append(LoopIteration(kinds[i % len(kinds)], places, {"number": [float(i)]}))

    def test(code: IterationContext) -> tuple[Value, Value]:
        return 0.0, code.read("in")

    def work(code: IterationContext) -> None:
        x = code.read("in")
        if code.specialization == 2:
            power = code.tracer.allocate_local(1)
            code.tracer.write(power, [1.0])
            turn = lambda _: code.tracer.write(power, [code.tracer.read(power) * x])  # noqa: E731
            code.tracer.counted_loop("factors", ir.minimum(3.0, 3.0 + x), turn)
            code.write("to", [code.tracer.read(power)])
        else:
            code.write("to", [x * x if code.specialization else -(x * x)])
        place = code.tracer.atomic_increment("count")
        code.tracer.write("list", [code.constant("number")], 0, place)

    tests = [lambda code: (-0.5, code.read("in")), test]  # the first lets some more pass
    trace_work_queue_loop(recorder, "positive numbers", rows, tests[-n_tests:], work)
    return recorder.build(n_scratch=1)


def on_host(part: KernelPart, numbers: np.ndarray, n_warps: int, n_chunks: int) -> np.ndarray:
    """What the arrays hold after the tests and the work of each kind, by blocks of so many warps."""
    assert part.work_queue_loop is not None
    ints, floats = part.program.pack_tables()
    state = np.full((len(numbers), STRIDE), np.nan)
    state[:, :N_ENVS] = numbers
    arrays: dict[str, Any] = {name: np.zeros((1, STRIDE)) for name in ("controls_start", "out", UNIFORM, SCRATCH)}
    arrays |= {"state": state, "ints": ints, "floats": floats}
    n_kinds = len(part.work_queue_loop.work.specializations)
    arrays["memory"] = np.zeros(n_kinds + 2 * max_queued_iterations(part.work_queue_loop) * STRIDE, np.int32)
    target, places, numbers_of = Target("double", is_gpu=True), MEMORY.places(), (STRIDE, 3, 0, N_ENVS)
    for kinds, at_once in (
        (queued_specializations(part.work_queue_loop), False),
        (inline_specializations(part.work_queue_loop), True),
    ):
        if not kinds:
            continue
        found = chunk_iterations(part.work_queue_loop, kinds, n_chunks)
        text = emit_filter_kernel(part, places, target, found, run_inline=at_once)
        run_work_queue_on_host(text, arrays, numbers_of, len(found) * -(-N_ENVS // (WARP_SIZE * n_warps)), n_warps)
    for kind in queued_specializations(part.work_queue_loop):
        run_work_queue_on_host(emit_queue_kernel(part, places, target, kind), arrays, numbers_of, 3, n_warps)
    n_queued = int((numbers[n_kinds - 1 : N_ROWS : n_kinds] > 0.0).sum())
    assert arrays["memory"][:n_kinds].tolist() == [0] * (n_kinds - 1) + [n_queued]
    return state[:, :N_ENVS]


@pytest.mark.parametrize(
    ("n_warps", "share", "tests"), combinations([1, 2], [0.1, 0.5, 1.0], [(1, 1), (2, 1), (2, 20)], strength=1)
)
def test_rows_that_are_chosen_do_what_the_interpreter_does(n_warps: int, share: float, tests: tuple[int, int]) -> None:
    """Whatever the share of rows that have something to do, and the numbers of tests and of shares of them."""
    n_tests, n_chunks = tests
    rng = np.random.default_rng(0)
    x = np.where(rng.uniform(size=(3 * N_ROWS + 1, N_ENVS)) < share, 1.0, -1.0) * rng.uniform(1.0, 2.0, N_ENVS)
    x *= np.where(rng.uniform(size=x.shape) < 0.5, 1.0, np.where(x > 0.0, 1.0, 0.1))  # some are near zero
    x[N_ROWS:] = 0.0
    expected = x.copy()
    program = powers_of_positive_numbers(n_tests)
    interpret_in_place(program, {"state": expected}, MEMORY.places())
    powers = np.where(np.arange(N_ROWS) % N_KINDS == N_KINDS - 1, 3, 2)[:, None]
    np.testing.assert_allclose(
        np.abs(expected[N_ROWS : 2 * N_ROWS]), np.where(x[:N_ROWS] > 0.0, np.abs(x[:N_ROWS]) ** powers, 0.0)
    )
    (part,) = split_into_kernels(program, 4)
    found = on_host(KernelPart(optimise(part.program)), x, n_warps, n_chunks)
    np.testing.assert_array_equal(found[: 2 * N_ROWS], expected[: 2 * N_ROWS])
    np.testing.assert_array_equal(found[-1], expected[-1])
    for e in range(N_ENVS):  # all are there, once
        n = int(expected[-1, e])
        lists = (np.sort(y[2 * N_ROWS :, e][:n]) for y in (found, expected))
        np.testing.assert_array_equal(next(lists), next(lists))


def test_rows_of_one_kind() -> None:
    """Whose table has no column for their kind: all of them are queued for a kernel of their own."""
    x = np.where(np.random.default_rng(1).uniform(size=(3 * N_ROWS + 1, N_ENVS)) < 0.3, 1.5, -1.0)
    x[N_ROWS:] = 0.0
    (part,) = split_into_kernels(powers_of_positive_numbers(1, (N_KINDS - 1,)), 4)
    found = on_host(KernelPart(optimise(part.program)), x, 1, 1)
    np.testing.assert_array_equal(found[N_ROWS : 2 * N_ROWS], np.where(x[:N_ROWS] > 0.0, x[:N_ROWS] ** 3, 0.0))


@pytest.mark.parametrize("count", [0, 1, 7, 1000])
def test_each_row_is_tested_by_one_warp(count: int) -> None:
    (part,) = split_into_kernels(powers_of_positive_numbers(), 4)
    block = part.work_queue_loop
    assert block is not None
    assert (queued_specializations(block), inline_specializations(block)) == ([2], [0, 1])
    found = [rows for kinds in ([2], [0, 1]) for rows in chunk_iterations(block, kinds, count)]
    assert sorted(row for rows in found for row in rows) == list(range(N_ROWS))
    kinds = block.work.specialization_indices()
    assert all(len({kinds[row] for row in rows}) == 1 for rows in found)
    assert len(found) == {0: 3, 1: 3, 7: 14, 1000: N_ROWS}[count]


@pytest.mark.parametrize(("reads", "writes", "beside"), [("x", "z", True), ("y", "z", False), ("x", "x", False)])
def test_what_has_nothing_to_do_with_it_may_run_beside(reads: str, writes: str, beside: bool) -> None:
    """Only what reads nothing that is written, and writes nothing that is looked at."""
    recorder = Tracer()
    rows = [LoopIteration("one", {"in": ArenaOffset("x", i), "to": ArenaOffset("y", i)}) for i in range(3)]
    trace_work_queue_loop(
        recorder,
        "squares",
        rows,
        [lambda code: (0.0, code.read("in"))],
        lambda code: code.write("to", [code.read("in") * code.read("in")]),
    )
    recorder.write(writes, [2.0 * recorder.read(reads, 1)], 1)
    first, second = split_into_kernels(recorder.build(n_scratch=1), 4)
    assert (first.can_overlap, second.can_overlap) == (False, beside)


@pytest.mark.parametrize("precision", ["single", "double"])
def test_the_compiler_takes_it(precision: str) -> None:
    (part,) = split_into_kernels(powers_of_positive_numbers(), 4)
    made, target, places = KernelPart(optimise(part.program)), Target(precision, is_gpu=True), MEMORY.places()
    block = made.work_queue_loop
    assert block is not None
    found = [
        (chunk_iterations(block, kinds, 3), kinds != [2])
        for kinds in (queued_specializations(block), inline_specializations(block))
    ]
    texts = [emit_filter_kernel(made, places, target, rows, run_inline=at_once) for rows, at_once in found]
    for text in [*texts, emit_queue_kernel(made, places, target, 2)]:
        compiled = compile_ptx(text, 64).decode()
        assert ("vote.sync.ballot" in compiled) == (text in texts)
        assert "atom" in compiled

"""What all threads of a GPU share: rows that are chosen, environment by environment, and what they do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kinema import trace
from kinema.backend.gpu_code import ptx
from kinema.trace import (
    SCRATCH,
    UNIFORM,
    Part,
    Place,
    Program,
    Recorder,
    Row,
    RowCode,
    Target,
    Value,
    cut,
    emit_listed,
    emit_tests,
    interpret_in,
    long_kinds,
    n_listed,
    optimise,
    record_spread,
    shares,
    short_kinds,
)
from kit.choosing import combinations

from .arenas import Memory
from .gpu_on_host import WARP, run_spread_on_host

N_ROWS, N_ENVS, STRIDE = 37, 41, 64
MEMORY = Memory(state=[("x", N_ROWS), ("y", N_ROWS), ("list", N_ROWS), ("count", 1)])
N_KINDS = 3


def powers_of_positive_numbers(n_tests: int = 2) -> Program:
    """Of some numbers those above zero, to some power; and a list of which they are, in any order.

    One kind of rows finds it in a loop that nobody knows the length of.
    """
    recorder = Recorder()
    rows = []
    for i in range(N_ROWS):
        places = {"in": Place("x", i), "to": Place("y", i), "list": Place("list", 0), "count": Place("count", 0)}
        rows.append(Row(i % N_KINDS, places, {"number": [float(i)]}))

    def test(code: RowCode) -> tuple[Value, Value]:
        return 0.0, code.read("in")

    def work(code: RowCode) -> None:
        x = code.read("in")
        if code.kind == 2:
            power = code.recorder.local(1)
            code.recorder.write(power, [1.0])
            turn = lambda _: code.recorder.write(power, [code.recorder.read(power) * x])  # noqa: E731
            code.recorder.count("factors", trace.minimum(3.0, 3.0 + x), turn)
            code.write("to", [code.recorder.read(power)])
        else:
            code.write("to", [x * x if code.kind else -(x * x)])
        place = code.recorder.next_number("count")
        code.recorder.write("list", [code.number("number")], 0, place)

    tests = [lambda code: (-0.5, code.read("in")), test]  # the first lets some more pass
    record_spread(recorder, "positive numbers", rows, tests[-n_tests:], work)
    return recorder.finish(n_scratch=1)


def on_host(part: Part, numbers: np.ndarray, n_warps: int, n_shares: int) -> np.ndarray:
    """What the arrays hold after the tests and the work of each kind, by blocks of so many warps."""
    assert part.spread is not None
    ints, floats = part.program.tables()
    state = np.full((len(numbers), STRIDE), np.nan)
    state[:, :N_ENVS] = numbers
    arrays: dict[str, Any] = {name: np.zeros((1, STRIDE)) for name in ("told_start", "out", UNIFORM, SCRATCH)}
    arrays |= {"state": state, "ints": ints, "floats": floats}
    arrays["memory"] = np.zeros(N_KINDS + 2 * n_listed(part.spread) * STRIDE, np.int32)
    target, places, numbers_of = Target("double", gpu=True), MEMORY.places(), (STRIDE, 3, 0, N_ENVS)
    for kinds, at_once in ((long_kinds(part.spread), False), (short_kinds(part.spread), True)):
        found = shares(part.spread, kinds, n_shares)
        text = emit_tests(part, places, target, found, at_once=at_once)
        run_spread_on_host(text, arrays, numbers_of, len(found) * -(-N_ENVS // (WARP * n_warps)), n_warps)
    for kind in long_kinds(part.spread):
        run_spread_on_host(emit_listed(part, places, target, kind), arrays, numbers_of, 3, n_warps)
    listed = [(numbers[kind:N_ROWS:N_KINDS] > 0.0).sum() for kind in range(N_KINDS)]
    assert arrays["memory"][:N_KINDS].tolist() == [0, 0, listed[2]]
    return state[:, :N_ENVS]


@pytest.mark.parametrize(
    ("n_warps", "share", "tests"), combinations([1, 2], [0.1, 0.5, 1.0], [(1, 1), (2, 1), (2, 20)], strength=1)
)
def test_rows_that_are_chosen_do_what_the_interpreter_does(n_warps: int, share: float, tests: tuple[int, int]) -> None:
    """Whatever the share of rows that have something to do, and the numbers of tests and of shares of them."""
    n_tests, n_shares = tests
    rng = np.random.default_rng(0)
    x = np.where(rng.uniform(size=(3 * N_ROWS + 1, N_ENVS)) < share, 1.0, -1.0) * rng.uniform(1.0, 2.0, N_ENVS)
    x *= np.where(rng.uniform(size=x.shape) < 0.5, 1.0, np.where(x > 0.0, 1.0, 0.1))  # some are near zero
    x[N_ROWS:] = 0.0
    expected = x.copy()
    program = powers_of_positive_numbers(n_tests)
    interpret_in(program, {"state": expected}, MEMORY.places())
    powers = np.where(np.arange(N_ROWS) % N_KINDS == N_KINDS - 1, 3, 2)[:, None]
    np.testing.assert_allclose(
        np.abs(expected[N_ROWS : 2 * N_ROWS]), np.where(x[:N_ROWS] > 0.0, np.abs(x[:N_ROWS]) ** powers, 0.0)
    )
    (part,) = cut(program, 4)
    found = on_host(Part(optimise(part.program)), x, n_warps, n_shares)
    np.testing.assert_array_equal(found[: 2 * N_ROWS], expected[: 2 * N_ROWS])
    np.testing.assert_array_equal(found[-1], expected[-1])
    for e in range(N_ENVS):  # all are there, once
        n = int(expected[-1, e])
        lists = (np.sort(y[2 * N_ROWS :, e][:n]) for y in (found, expected))
        np.testing.assert_array_equal(next(lists), next(lists))


@pytest.mark.parametrize("count", [0, 1, 7, 1000])
def test_each_row_is_tested_by_one_warp(count: int) -> None:
    (part,) = cut(powers_of_positive_numbers(), 4)
    block = part.spread
    assert block is not None
    assert (long_kinds(block), short_kinds(block)) == ([2], [0, 1])
    found = [rows for kinds in ([2], [0, 1]) for rows in shares(block, kinds, count)]
    assert sorted(row for rows in found for row in rows) == list(range(N_ROWS))
    kinds = block.work.case_of_row()
    assert all(len({kinds[row] for row in rows}) == 1 for rows in found)
    assert len(found) == {0: 3, 1: 3, 7: 14, 1000: N_ROWS}[count]


@pytest.mark.parametrize(("reads", "writes", "beside"), [("x", "z", True), ("y", "z", False), ("x", "x", False)])
def test_what_has_nothing_to_do_with_it_may_run_beside(reads: str, writes: str, beside: bool) -> None:
    """Only what reads nothing that is written, and writes nothing that is looked at."""
    recorder = Recorder()
    rows = [Row("one", {"in": Place("x", i), "to": Place("y", i)}) for i in range(3)]
    record_spread(
        recorder,
        "squares",
        rows,
        [lambda code: (0.0, code.read("in"))],
        lambda code: code.write("to", [code.read("in") * code.read("in")]),
    )
    recorder.write(writes, [2.0 * recorder.read(reads, 1)], 1)
    first, second = cut(recorder.finish(n_scratch=1), 4)
    assert (first.beside, second.beside) == (False, beside)


@pytest.mark.parametrize("precision", ["single", "double"])
def test_the_compiler_takes_it(precision: str) -> None:
    (part,) = cut(powers_of_positive_numbers(), 4)
    made, target, places = Part(optimise(part.program)), Target(precision, gpu=True), MEMORY.places()
    block = made.spread
    assert block is not None
    found = [(shares(block, kinds, 3), kinds != [2]) for kinds in (long_kinds(block), short_kinds(block))]
    texts = [emit_tests(made, places, target, rows, at_once=at_once) for rows, at_once in found]
    for text in [*texts, emit_listed(made, places, target, 2)]:
        compiled = ptx(text, 64).decode()
        assert ("vote.sync.ballot" in compiled) == (text in texts)
        assert "atom" in compiled

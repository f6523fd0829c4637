"""What all threads of a GPU share: rows that are chosen, environment by environment, and what they do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kinema.backend.gpu_code import ptx
from kinema.trace import (
    SCRATCH,
    SHARES,
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
    emit_spread,
    interpret_in,
    optimise,
    record_spread,
)

from .arenas import Memory
from .gpu_on_host import run_spread_on_host

N_ROWS, N_ENVS, STRIDE = 37, 3, 32
MEMORY = Memory(state=[("x", N_ROWS), ("y", N_ROWS), ("list", N_ROWS), ("count", 1)])


def squares_of_positive_numbers() -> Program:
    """Of some numbers those above zero, and their squares; and a list of which they are, in any order."""
    recorder = Recorder()
    rows = []
    for i in range(N_ROWS):
        places = {"in": Place("x", i), "to": Place("y", i), "list": Place("list", 0), "count": Place("count", 0)}
        rows.append(Row("odd" if i % 2 else "even", places, {"number": [float(i)]}))

    def test(code: RowCode) -> tuple[Value, Value]:
        return 0.0, code.read("in")

    def work(code: RowCode) -> None:
        x = code.read("in")
        code.write("to", [x * x if code.kind == "odd" else -(x * x)])
        place = code.recorder.next_number("count")
        code.recorder.write("list", [code.number("number")], 0, place)

    record_spread(recorder, "positive numbers", rows, test, work)
    return recorder.finish(n_scratch=1)


def on_host(part: Part, numbers: np.ndarray, n_threads: int) -> np.ndarray:
    """What the arrays hold after the tests and the work of each kind, by so many threads."""
    assert part.spread is not None
    ints, floats = part.program.tables()
    state = np.full((len(numbers), STRIDE), np.nan)
    state[:, :N_ENVS] = numbers
    kinds = len(part.spread.test.cases)
    arrays: dict[str, Any] = {name: np.zeros((1, STRIDE)) for name in ("told_start", "out", UNIFORM, SCRATCH)}
    arrays |= {"state": state, "ints": ints, "floats": floats}
    arrays["memory"] = np.zeros(kinds + 2 * N_ROWS * STRIDE, np.int32)
    for case in (None, *range(kinds)):
        text = emit_spread(part, MEMORY.places(), Target("double", gpu=True), case)
        blocks = SHARES * N_ENVS if case is None else n_threads
        run_spread_on_host(text, arrays, (STRIDE, blocks, 0, N_ENVS), blocks)
    assert arrays["memory"][:kinds].sum() == (numbers[:N_ROWS] > 0.0).sum()
    return state[:, :N_ENVS]


@pytest.mark.parametrize("n_threads", [1, 5, 40, 96, 2048])  # fewer than a warp has, some warps, more than entries
def test_rows_that_are_chosen_do_what_the_interpreter_does(n_threads: int) -> None:
    x = np.random.default_rng(0).normal(size=(3 * N_ROWS + 1, N_ENVS))
    x[N_ROWS:] = 0.0
    expected = x.copy()
    program = squares_of_positive_numbers()
    interpret_in(program, {"state": expected}, MEMORY.places())
    np.testing.assert_allclose(np.abs(expected[N_ROWS : 2 * N_ROWS]), np.where(x[:N_ROWS] > 0.0, x[:N_ROWS] ** 2, 0.0))
    (part,) = cut(program, 4)
    found = on_host(Part(optimise(part.program)), x, n_threads)
    np.testing.assert_array_equal(found[: 2 * N_ROWS], expected[: 2 * N_ROWS])
    np.testing.assert_array_equal(found[-1], expected[-1])
    for e in range(N_ENVS):  # all are there, once
        n = int(expected[-1, e])
        lists = (np.sort(y[2 * N_ROWS :, e][:n]) for y in (found, expected))
        np.testing.assert_array_equal(next(lists), next(lists))


@pytest.mark.parametrize(("reads", "writes", "beside"), [("x", "z", True), ("y", "z", False), ("x", "x", False)])
def test_what_has_nothing_to_do_with_it_may_run_beside(reads: str, writes: str, beside: bool) -> None:
    """Only what reads nothing that is written, and writes nothing that is looked at."""
    recorder = Recorder()
    rows = [Row("one", {"in": Place("x", i), "to": Place("y", i)}) for i in range(3)]
    record_spread(
        recorder,
        "squares",
        rows,
        lambda code: (0.0, code.read("in")),
        lambda code: code.write("to", [code.read("in") * code.read("in")]),
    )
    recorder.write(writes, [2.0 * recorder.read(reads, 1)], 1)
    first, second = cut(recorder.finish(n_scratch=1), 4)
    assert (first.beside, second.beside) == (False, beside)


@pytest.mark.parametrize("precision", ["single", "double"])
def test_the_compiler_takes_it(precision: str) -> None:
    (part,) = cut(squares_of_positive_numbers(), 4)
    made = Part(optimise(part.program))
    texts = [emit_spread(made, MEMORY.places(), Target(precision, gpu=True), case) for case in (None, 0)]
    tests, work = (ptx(text, 64).decode() for text in texts)
    assert "vote.sync.ballot" in tests
    assert "atom" in work

"""Loops that stay among straight lines, and loops within the code of rows, compute what written-out code computes."""

from __future__ import annotations

import random

import numpy as np
import pytest

from kinema.compile import Part, compile_model
from kinema.read import read
from kinema.sim import Settings
from kinema.sim.arrays import arrays_of
from kinema.sim.lower.programs import step_program
from kinema.sim.sweeps import loops as sweeps_loops
from kinema.trace import (
    SCRATCH,
    Line,
    Loop,
    Place,
    Program,
    Recorder,
    Row,
    RowCode,
    Value,
    interpret_in,
    record_loop,
)
from kinema.trace.slots import FIRST, MANY
from kinema.trace.staying import Cell, touched, touched_by_row
from kit.assets import EXAMPLES
from kit.choosing import representatives

from .arenas import Memory, compiled

N = 5
MEMORY = Memory(state=[("x", N), ("total", 3)], told=[("u", 1)], out=[("y", 1)], uniform=[("g", 1)])


def nested(rows_of: list[list[int]]) -> Recorder:
    """Each row adds up what some items times its factor are, item by item in a loop of its own."""
    recorder = Recorder()
    rows = [
        Row(
            "sum",
            {"total": Place("state", N + i)},
            {"factor": [float(i + 2)]},
            {"items": [Row("item", {"item": Place("state", j)}, {"extra": [0.5 * j]}) for j in items]},
        )
        for i, items in enumerate(rows_of)
    ]

    def body(code: RowCode) -> None:
        sums = code.recorder.local(1)
        code.recorder.write(sums, [0.0])

        def inner(item: RowCode) -> None:
            value: Value = item.number("factor") * item.read("item") + item.number("extra")
            item.recorder.write(sums, [item.recorder.read(sums) + value])

        code.each("items", inner)
        code.write("total", [code.recorder.read(sums)])

    record_loop(recorder, "sums", rows, body)
    return recorder


@pytest.mark.parametrize("rows_of", [[[0, 1, 2], [], [4]], [[], [1], [0, 1, 2, 3, 4]]])
def test_loops_within_rows(rows_of: list[list[int]]) -> None:
    program = nested(rows_of).finish()
    state = np.random.default_rng(0).normal(size=(N + 3, 7))
    expected = [sum(((i + 2) * state[j] + 0.5 * j for j in items), np.zeros(7)) for i, items in enumerate(rows_of)]
    interpret_in(program, {"state": state}, {})
    np.testing.assert_allclose(state[N:], np.array(expected), rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", representatives(range(4), 2))
def test_any_loop_may_stay(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step with constraints, some of whose loops stay and some of which are written out: the same numbers."""
    model = compile_model([Part(name="q", description=read(EXAMPLES / "quadruped" / "quadruped.xml"))])
    settings = Settings(limits=True, constraints=True)
    chosen, record = random.Random(seed), sweeps_loops.record_loop

    def some_stay(*what: object, **how: object) -> None:
        record(*what, **{**how, "stays": chosen.random() < 0.5})  # type: ignore[arg-type]

    plain = step_program(model, settings)
    monkeypatch.setattr(sweeps_loops, "record_loop", some_stay)
    mixed = step_program(model, settings)
    assert mixed.loops
    assert not plain.loops
    rng = np.random.default_rng(seed)
    arrays = {
        name: rng.normal(size=(count, 6))
        for arena in ("state", "told", "uniform")
        for name, count in arrays_of(arena, model, settings)
    }
    arrays |= {"dt": np.full((1, 6), 1e-3), "error": np.zeros((1, 6))}
    a, b = ({name: values.copy() for name, values in arrays.items()} for _ in range(2))
    with np.errstate(all="ignore"):  # what is chosen from may be anything
        interpret_in(plain, a, {})
        interpret_in(mixed, b, {})
    for name in ("qpos", "vel"):
        np.testing.assert_allclose(a[name], b[name], rtol=1e-6, atol=1e-6)  # rounding, in states far off


@pytest.mark.parametrize("lanes", [1, 4])
def test_nested_loops_compile(lanes: int) -> None:
    """The emitted code of loops within rows is that of the interpreter."""
    program = nested([[0, 1, 2], [3], [4, 0]]).finish()
    state = np.random.default_rng(0).normal(size=(N + 3, 6))
    found = compiled(program, MEMORY, {"state": state}, 6, lanes=lanes)["state"]
    expected = state.copy()
    interpret_in(program, {"state": expected}, {})
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14)


def row_by_row(program: Program, loop: Loop, row: int, around: dict[str, Place]) -> tuple[set[Cell], set[Cell]]:
    """What a row reads and writes, found as it would run: line by line, and each row of its own loops by itself."""
    case = loop.cases[int(loop.case_of_row()[row])]
    places = {**around, **{a: Place(arena, int(loop.ints[row, at])) for a, (arena, at) in case.arrays.items()}}
    reads, writes = set[Cell](), set[Cell]()
    for block in case.blocks:
        if isinstance(block, Line):
            for slots, cells in (
                ([i.slot for i in block.instructions if i.slot], reads),
                ([s.slot for s in block.stores], writes),
            ):
                found = [(places[s.array], s.item) for s in slots if s.array in places]
                cells |= {(place.arena, place.row + item) for place, item in found}
        else:
            assert isinstance(block, Loop)
            first, many = (places[word + block.within].row for word in (FIRST, MANY))
            for i in range(first, first + many):
                own_reads, own_writes = row_by_row(program, block, i, places)
                reads, writes = reads | own_reads, writes | own_writes
    return reads, writes


@pytest.mark.parametrize("rows_of", [[[0, 1, 2], [], [4]], [[], [1], [0, 1, 2, 3, 4]]])
def test_what_rows_touch_is_found_without_running_each(rows_of: list[list[int]]) -> None:
    """All rows of a kind at once, and rows within rows: only what rows that are there touch."""
    program = nested(rows_of).finish()
    (loop,) = program.blocks
    assert isinstance(loop, Loop)
    expected = [row_by_row(program, loop, i, {}) for i in range(len(rows_of))]
    for i, found in enumerate(touched_by_row(program, loop)):
        assert (found.reads, found.writes) == expected[i]
    whole = touched(program, program.blocks)
    assert whole.reads == set[Cell]().union(*(reads for reads, _ in expected))
    assert (
        whole.writes == set[Cell]().union(*(writes for _, writes in expected)) == {("state", N + i) for i in range(3)}
    )


def test_an_index_may_reach_to_the_end_of_its_piece() -> None:
    """Of the scratch memory: from the lowest item that is named to where the next piece starts, and no further."""
    recorder = Recorder()
    index = recorder.read("x", 0)
    recorder.write("y", [recorder.read(SCRATCH, 3, index) + recorder.read(SCRATCH, 2, index)])
    recorder.write(SCRATCH, [1.0], 6, index)
    program = recorder.finish(n_scratch=9, taken=(0, 5, 7))
    found = touched(program, program.blocks)
    assert found.reads == {("x", 0), *((SCRATCH, row) for row in (2, 3, 4))}
    assert found.writes == {("y", 0), (SCRATCH, 6)}

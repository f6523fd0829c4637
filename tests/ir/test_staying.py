"""Loops that stay among straight lines, and loops within the code of rows, compute what written-out code computes."""

from __future__ import annotations

import random

import numpy as np
import pytest

from kinema.builder import EntitySpec, build_model
from kinema.dynamics import Settings
from kinema.dynamics.arrays import arena_arrays
from kinema.dynamics.lowering.program_tracing import trace_unrolled_step
from kinema.dynamics.tree import loop_context as sweeps_loops
from kinema.ir import (
    SCRATCH,
    ArenaOffset,
    BasicBlock,
    ForEachLoop,
    IterationContext,
    LoopIteration,
    Program,
    Tracer,
    Value,
    interpret_in_place,
    trace_for_each_loop,
)
from kinema.ir.effects import Cell, effects_per_iteration, find_effects
from kinema.ir.memory import FIRST_ITERATION_PREFIX, ITERATION_COUNT_PREFIX
from kinema.read import read
from kit.assets import EXAMPLES
from kit.choosing import representatives

from .arenas import Memory, compiled

N = 5
MEMORY = Memory(state=[("x", N), ("total", 3)], controls=[("u", 1)], out=[("y", 1)], uniform=[("g", 1)])


def nested(rows_of: list[list[int]]) -> Tracer:
    """Each row adds up what some elements times its factor are, element by element in a loop of its own."""
    recorder = Tracer()
    rows = [
        LoopIteration(
            "sum",
            {"total": ArenaOffset("state", N + i)},
            {"factor": [float(i + 2)]},
            {
                "items": [
                    LoopIteration("element", {"element": ArenaOffset("state", j)}, {"extra": [0.5 * j]}) for j in items
                ]
            },
        )
        for i, items in enumerate(rows_of)
    ]

    def body(code: IterationContext) -> None:
        sums = code.tracer.allocate_local(1)
        code.tracer.write(sums, [0.0])

        def inner(element: IterationContext) -> None:
            value: Value = element.constant("factor") * element.read("element") + element.constant("extra")
            element.tracer.write(sums, [element.tracer.read(sums) + value])

        code.nested_loop("items", inner)
        code.write("total", [code.tracer.read(sums)])

    trace_for_each_loop(recorder, "sums", rows, body)
    return recorder


@pytest.mark.parametrize("rows_of", [[[0, 1, 2], [], [4]], [[], [1], [0, 1, 2, 3, 4]]])
def test_loops_within_rows(rows_of: list[list[int]]) -> None:
    program = nested(rows_of).build()
    state = np.random.default_rng(0).normal(size=(N + 3, 7))
    expected = [sum(((i + 2) * state[j] + 0.5 * j for j in items), np.zeros(7)) for i, items in enumerate(rows_of)]
    interpret_in_place(program, {"state": state}, {})
    np.testing.assert_allclose(state[N:], np.array(expected), rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", representatives(range(4), 1))
def test_any_loop_may_stay(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step with constraints, some of whose loops stay and some of which are written out: the same numbers."""
    model = build_model([EntitySpec(name="q", description=read(EXAMPLES / "quadruped" / "quadruped.xml"))])
    settings = Settings(limits=True, constraints=True)
    chosen, record = random.Random(seed), sweeps_loops.trace_for_each_loop

    def some_stay(*what: object, **how: object) -> None:
        record(*what, **{**how, "no_unroll": chosen.random() < 0.5})  # type: ignore[arg-type]

    plain = trace_unrolled_step(model, settings)
    monkeypatch.setattr(sweeps_loops, "trace_for_each_loop", some_stay)
    mixed = trace_unrolled_step(model, settings)
    assert mixed.for_each_loops
    assert not plain.for_each_loops
    rng = np.random.default_rng(seed)
    arrays = {
        name: rng.normal(size=(count, 6))
        for arena in ("state", "controls", "uniform")
        for name, count in arena_arrays(arena, model, settings)
    }
    arrays |= {"dt": np.full((1, 6), 1e-3), "error": np.zeros((1, 6))}
    a, b = ({name: values.copy() for name, values in arrays.items()} for _ in range(2))
    with np.errstate(all="ignore"):  # what is chosen from may be anything
        interpret_in_place(plain, a, {})
        interpret_in_place(mixed, b, {})
    for name in ("qpos", "vel"):
        np.testing.assert_allclose(a[name], b[name], rtol=1e-6, atol=1e-6)  # rounding, in states far off


@pytest.mark.parametrize("lanes", [1, 4])
def test_nested_loops_compile(lanes: int) -> None:
    """The emitted code of loops within rows is that of the interpreter."""
    program = nested([[0, 1, 2], [3], [4, 0]]).build()
    state = np.random.default_rng(0).normal(size=(N + 3, 6))
    found = compiled(program, MEMORY, {"state": state}, 6, lanes=lanes)["state"]
    expected = state.copy()
    interpret_in_place(program, {"state": expected}, {})
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14)


def row_by_row(
    program: Program, loop: ForEachLoop, row: int, around: dict[str, ArenaOffset]
) -> tuple[set[Cell], set[Cell]]:
    """What a row reads and writes, found as it would run: line by line, and each row of its own loops by itself."""
    case = loop.specializations[int(loop.specialization_indices()[row])]
    places = {
        **around,
        **{a: ArenaOffset(arena, int(loop.ints[row, at])) for a, (arena, at) in case.array_columns.items()},
    }
    reads, writes = set[Cell](), set[Cell]()
    for block in case.body:
        if isinstance(block, BasicBlock):
            for locations, cells in (
                ([i.location for i in block.instructions if i.location], reads),
                ([s.location for s in block.stores], writes),
            ):
                found = [(places[s.array], s.element) for s in locations if s.array in places]
                cells |= {(place.arena, place.row + element) for place, element in found}
        else:
            assert isinstance(block, ForEachLoop)
            first, many = (
                places[word + block.range_name].row for word in (FIRST_ITERATION_PREFIX, ITERATION_COUNT_PREFIX)
            )
            for i in range(first, first + many):
                own_reads, own_writes = row_by_row(program, block, i, places)
                reads, writes = reads | own_reads, writes | own_writes
    return reads, writes


@pytest.mark.parametrize("rows_of", [[[0, 1, 2], [], [4]], [[], [1], [0, 1, 2, 3, 4]]])
def test_what_rows_touch_is_found_without_running_each(rows_of: list[list[int]]) -> None:
    """All rows of a kind at once, and rows within rows: only what rows that are there touch."""
    program = nested(rows_of).build()
    (loop,) = program.body
    assert isinstance(loop, ForEachLoop)
    expected = [row_by_row(program, loop, i, {}) for i in range(len(rows_of))]
    for i, found in enumerate(effects_per_iteration(program, loop)):
        assert (found.reads, found.writes) == expected[i]
    whole = find_effects(program, program.body)
    assert whole.reads == set[Cell]().union(*(reads for reads, _ in expected))
    assert (
        whole.writes == set[Cell]().union(*(writes for _, writes in expected)) == {("state", N + i) for i in range(3)}
    )


def test_an_index_may_reach_to_the_end_of_its_piece() -> None:
    """Of the scratch memory: from the lowest element that is named to where the next piece starts, and no further."""
    recorder = Tracer()
    index = recorder.read("x", 0)
    recorder.write("y", [recorder.read(SCRATCH, 3, index) + recorder.read(SCRATCH, 2, index)])
    recorder.write(SCRATCH, [1.0], 6, index)
    program = recorder.build(n_scratch=9, allocation_starts=(0, 5, 7))
    found = find_effects(program, program.body)
    assert found.reads == {("x", 0), *((SCRATCH, row) for row in (2, 3, 4))}
    assert found.writes == {("y", 0), (SCRATCH, 6)}

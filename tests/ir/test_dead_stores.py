"""Dead-store elimination: what remains computes the same, and nothing that no output depends on."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import given, settings, strategies as st

from kinema.ir import (
    SCRATCH,
    ArenaOffset,
    BasicBlock,
    LoopIteration,
    Tracer,
    attach,
    eliminate_dead_stores,
    interpret,
    interpret_in_place,
    jvp,
    sin,
    trace_for_each_loop,
    verify,
)

from .random_programs import PLACES, random_numbers, recorded, trees


@settings(max_examples=60)
@given(tree=trees(), seed=st.integers(0, 5), needed=st.sampled_from(["state", "out", "both"]))
def test_random_programs(tree: tuple[Any, ...], seed: int, needed: str) -> None:
    """The contents of the arenas that are needed are the same bits."""
    program, numbers = recorded(tree), random_numbers(seed, 3, 1)
    unused = {} if needed == "both" else {"out" if needed == "state" else "state": math.inf}
    smaller = eliminate_dead_stores(program, PLACES, unused)
    assert smaller.n_instructions <= program.n_instructions
    arenas = [{name: values.copy() for name, values in numbers.items()} for _ in range(2)]
    with np.errstate(all="ignore"):
        for code, memory in zip((program, smaller), arenas, strict=True):
            interpret_in_place(code, memory, PLACES)
    for arena in {"state", "out"} - unused.keys():
        np.testing.assert_array_equal(arenas[1][arena], arenas[0][arena])


def test_code_of_unused_results_is_removed() -> None:
    """With its loops, its branches and its rows; conditions and trip counts of the rest stay."""
    tracer = Tracer()
    tracer.write(SCRATCH, [tracer.read("x", i) for i in range(4)])

    def rows(first: int) -> list[LoopIteration]:
        return [
            LoopIteration(
                "used" if i == 0 else "unused",
                {"a": ArenaOffset(SCRATCH, first + i), "b": ArenaOffset(SCRATCH, 2 + i)},
            )
            for i in range(2)
        ]

    trace_for_each_loop(tracer, "some rows", rows(0), lambda row: row.write("b", [sin(row.read("a"))]))
    trace_for_each_loop(tracer, "no rows", rows(4), lambda row: row.write("a", [row.read("b")]))
    unused = tracer.allocate_local(1)
    tracer.counted_loop("count", tracer.read("x", 3), lambda i: tracer.write(unused, [i]))
    (total,) = tracer.while_loop("sum", lambda s: ([s[0] + tracer.read(SCRATCH, 2)], s[0], 3.0), [0.0], 9)
    tracer.if_less("never read", 0.0, total, lambda: [sin(total)], [0.0])
    tracer.write("y", [total])
    tracer.write("z", [sin(total)])
    program = tracer.build(n_scratch=6)
    smaller = eliminate_dead_stores(program, unused_rows={"z": math.inf})
    verify(smaller)
    assert [x.name for x in smaller.body if not isinstance(x, BasicBlock)] == ["some rows", "sum"]
    (loop,) = smaller.for_each_loops
    assert len(loop.ints) == 1
    assert smaller.op_counts()["sin"] == 1
    assert unused not in smaller.locals
    assert smaller.outputs == {"y": 1}
    arrays = {"x": np.array([[0.5, 1.0], [0.2, 0.3], [0.1, 0.1], [2.0, 0.0]])}
    np.testing.assert_array_equal(interpret(smaller, arrays)["y"], interpret(program, arrays)["y"])


def test_values_that_only_update_themselves_are_removed() -> None:
    tracer = Tracer()
    tracer.write(SCRATCH, [0.0])
    tracer.counted_loop("sum", tracer.read("x"), lambda i: tracer.write(SCRATCH, [tracer.read(SCRATCH) + i]))
    tracer.write("y", [tracer.read("x")])
    assert len(eliminate_dead_stores(tracer.build(n_scratch=1)).body) == 1


def test_cells_that_are_needed_in_an_unused_arena() -> None:
    tracer = Tracer()
    tracer.write("y", [tracer.read("x"), 2.0, 3.0])
    program = tracer.build()
    assert eliminate_dead_stores(program, unused_rows={"y": 2}).outputs == {"y": 3}
    kept = eliminate_dead_stores(program, unused_rows={"y": math.inf}, kept_cells=[("y", 0)])
    assert [store.location.element for store in kept.basic_block.stores] == [0]
    assert not eliminate_dead_stores(program, unused_rows={"y": math.inf}).body


def test_the_primal_result_of_a_carrier_is_not_computed_in_forward_mode() -> None:
    """The value of an attached result comes from elsewhere; of its carrier only the tangent is used."""
    tracer = Tracer()
    x = tracer.read("x")
    tracer.write(SCRATCH, [sin(x)])
    tracer.new_basic_block()
    tracer.write("y", [attach(tracer.read("x", 1), tracer.read(SCRATCH) * 2.0)])
    program = tracer.build(n_scratch=1)
    tangent = jvp(program, [("x", 0)])
    smaller = eliminate_dead_stores(tangent)
    assert tangent.op_counts()["sin"] == 1
    assert "sin" not in smaller.op_counts()
    arrays = {"x": np.array([[0.5], [7.0]]), "t x": np.ones((2, 1))}
    found = interpret(smaller, arrays)
    assert found["y"][0, 0] == 7.0
    assert found["t y"][0, 0] == 2.0 * np.cos(0.5)

"""Rows by column are the same loop as rows one by one."""

from __future__ import annotations

import numpy as np
import pytest

from kinema.ir import (
    SCRATCH,
    ArenaOffset,
    ColumnarGroup,
    IterationContext,
    IterationTable,
    LoopIteration,
    LoopIterations,
    NestedIterations,
    OffsetColumn,
    PerEnvParameterColumn,
    PerEnvParameters,
    Tracer,
    trace_for_each_loop,
)

COUNT = 7


def body(code: IterationContext) -> None:
    """Reads all that rows may have, with rows of its own."""
    kept = code.tracer.allocate_local(1)
    code.tracer.write(kept, [code.constant("known") * code.read("from") + code.constants("own")[1]])

    def inner(element: IterationContext) -> None:
        element.write("to", [element.read("to") + element.constant("factor") * element.tracer.read(kept)])

    code.nested_loop("more", inner)
    code.set_offset("later", ArenaOffset(SCRATCH, 3))
    if code.has_array("later"):
        code.write("later", [code.constants("own")[0]])


def one_by_one() -> list[LoopIteration]:
    """Two kinds of rows, of which one knows a number that is one everywhere."""
    return [
        LoopIteration(
            "even" if i % 2 == 0 else "odd",
            {"from": ArenaOffset("a", 2 * i)},
            {"known": [1.0 if i % 2 else 0.5 * i], "own": PerEnvParameters(ArenaOffset("numbers", 3 * i), (0.0, None))},
            {
                "more": [
                    LoopIteration("inner", {"to": ArenaOffset("b", i + j)}, {"factor": [i - 0.5 * j]})
                    for j in range(i % 3)
                ]
            },
        )
        for i in range(COUNT)
    ]


def by_column() -> IterationTable:
    """The same."""
    groups = []
    for kind, at in (("odd", np.arange(1, COUNT, 2)), ("even", np.arange(0, COUNT, 2))):
        many = at % 3
        inner = np.array([(i, j) for i in at for j in range(i % 3)])
        places, factors = {"to": OffsetColumn("b", inner.sum(axis=1))}, (inner[:, 0] - 0.5 * inner[:, 1])[:, None]
        table = IterationTable([ColumnarGroup("inner", np.arange(len(inner)), places, {"factor": factors})])
        numbers = {
            "known": np.ones((len(at), 1)) if kind == "odd" else 0.5 * at[:, None],
            "own": PerEnvParameterColumn(OffsetColumn("numbers", 3 * at), (0.0, None)),
        }
        groups.append(
            ColumnarGroup(
                kind, at, {"from": OffsetColumn("a", 2 * at)}, numbers, {"more": NestedIterations(table, many)}
            )
        )
    return IterationTable(groups)


def text_of(rows: LoopIterations) -> str:
    """All of a loop."""
    recorder = Tracer()
    trace_for_each_loop(recorder, "loop", rows, body)
    program = recorder.build(n_scratch=8)
    with np.printoptions(threshold=100_000):
        return f"{program.body}{program.locals}"


def test_by_column_or_one_by_one() -> None:
    """The same code, and the same tables."""
    assert text_of(by_column()) == text_of(one_by_one())


def test_a_kind_is_in_one_group() -> None:
    """Rows that run the same code are together."""
    rows = ColumnarGroup("kind", np.arange(2), {"x": OffsetColumn.repeated(ArenaOffset(SCRATCH, 1), 2)})
    with pytest.raises(AssertionError, match="one group"):
        IterationTable([rows, rows])


def test_places_of_one_arena() -> None:
    """An array lies in one of them."""
    with pytest.raises(AssertionError, match="one arena"):
        OffsetColumn.from_offsets([ArenaOffset("a", 1), ArenaOffset("b", 2)])

"""Rows by column are the same loop as rows one by one."""

from __future__ import annotations

import numpy as np
import pytest

from kinema.trace import (
    SCRATCH,
    Column,
    Columns,
    Inside,
    Own,
    OwnColumn,
    Place,
    Recorder,
    Row,
    RowCode,
    Rows,
    Table,
    record_loop,
)

COUNT = 7


def body(code: RowCode) -> None:
    """Reads all that rows may have, with rows of its own."""
    kept = code.recorder.local(1)
    code.recorder.write(kept, [code.number("known") * code.read("from") + code.numbers("own")[1]])

    def inner(item: RowCode) -> None:
        item.write("to", [item.read("to") + item.number("factor") * item.recorder.read(kept)])

    code.each("more", inner)
    code.give("later", Place(SCRATCH, 3))
    if code.holds("later"):
        code.write("later", [code.numbers("own")[0]])


def one_by_one() -> list[Row]:
    """Two kinds of rows, of which one knows a number that is one everywhere."""
    return [
        Row(
            "even" if i % 2 == 0 else "odd",
            {"from": Place("a", 2 * i)},
            {"known": [1.0 if i % 2 else 0.5 * i], "own": Own(Place("numbers", 3 * i), (0.0, None))},
            {"more": [Row("inner", {"to": Place("b", i + j)}, {"factor": [i - 0.5 * j]}) for j in range(i % 3)]},
        )
        for i in range(COUNT)
    ]


def by_column() -> Table:
    """The same."""
    groups = []
    for kind, at in (("odd", np.arange(1, COUNT, 2)), ("even", np.arange(0, COUNT, 2))):
        many = at % 3
        inner = np.array([(i, j) for i in at for j in range(i % 3)])
        places, factors = {"to": Column("b", inner.sum(axis=1))}, (inner[:, 0] - 0.5 * inner[:, 1])[:, None]
        table = Table([Columns("inner", np.arange(len(inner)), places, {"factor": factors})])
        numbers = {
            "known": np.ones((len(at), 1)) if kind == "odd" else 0.5 * at[:, None],
            "own": OwnColumn(Column("numbers", 3 * at), (0.0, None)),
        }
        groups.append(Columns(kind, at, {"from": Column("a", 2 * at)}, numbers, {"more": Inside(table, many)}))
    return Table(groups)


def text_of(rows: Rows) -> str:
    """All of a loop."""
    recorder = Recorder()
    record_loop(recorder, "loop", rows, body)
    program = recorder.finish(n_scratch=8)
    with np.printoptions(threshold=100_000):
        return f"{program.blocks}{program.locals}"


def test_by_column_or_one_by_one() -> None:
    """The same code, and the same tables."""
    assert text_of(by_column()) == text_of(one_by_one())


def test_a_kind_is_in_one_group() -> None:
    """Rows that run the same code are together."""
    rows = Columns("kind", np.arange(2), {"x": Column.same(Place(SCRATCH, 1), 2)})
    with pytest.raises(AssertionError, match="one group"):
        Table([rows, rows])


def test_places_of_one_arena() -> None:
    """An array lies in one of them."""
    with pytest.raises(AssertionError, match="one arena"):
        Column.of([Place("a", 1), Place("b", 2)])

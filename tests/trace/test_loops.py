"""Structured programs: loops over tables give what the same code gives when it is written out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kinema.trace import SCRATCH, Place, Rolled, Row, Target, Turn, emit_rolled, interpret_rolled, make_loop, sin


def halves(turn: Turn) -> None:
    """Two kinds of rows: one scales, one adds what the row before it left behind."""
    x = turn.read("x")
    if turn.kind == "scaled":
        turn.write("sum", [turn.number("factor") * x])
    else:
        turn.write("sum", [turn.read("before") + sin(x)])


def chain(kinds: list[str], factors: list[float]) -> Rolled:
    rows = [
        Row(
            kind,
            {"x": Place("state", i), "before": Place(SCRATCH, max(i - 1, 0)), "sum": Place(SCRATCH, i)},
            {"factor": [factor]},
        )
        for i, (kind, factor) in enumerate(zip(kinds, factors, strict=True))
    ]
    n = len(kinds)
    out = Row("last", {"sum": Place(SCRATCH, n - 1), "x": Place("state", n)})
    return Rolled(
        (make_loop("sums", rows, halves), make_loop("out", [out], lambda t: t.write("x", [t.read("sum")]))), n
    )


@given(st.lists(st.tuples(st.sampled_from(["scaled", "added"]), st.floats(-2, 2)), min_size=1, max_size=12))
def test_rows_run_in_order_and_by_kind(rows: list[tuple[str, float]]) -> None:
    """A loop is its rows one after the other, whatever mix of kinds and constants they have."""
    kinds, factors = [k for k, _ in rows], [f for _, f in rows]
    kinds[0] = "scaled"
    state = np.random.default_rng(0).uniform(-1, 1, (len(rows) + 1, 3))
    expected = np.zeros(3)
    for kind, factor, x in zip(kinds, factors, state, strict=False):
        expected = factor * x if kind == "scaled" else expected + np.sin(x)
    interpret_rolled(chain(kinds, factors), {"state": state})
    np.testing.assert_allclose(state[-1], expected, rtol=0, atol=1e-14)


def test_code_does_not_depend_on_the_number_of_rows() -> None:
    """Two models with rows of the same kinds share their code; only the tables differ."""
    few = chain(["scaled", "added"], [2.0, 3.0])
    many = chain(["scaled", *["added", "scaled"] * 20], [0.5 + i for i in range(41)])
    texts = {emit_rolled(rolled, Target("double", 1)) for rolled in (few, many)}
    assert len(texts) == 1


@pytest.mark.parametrize("value", [0.0, 1.0, -1.0, math.inf])
def test_a_number_that_all_rows_share_is_folded(value: float) -> None:
    """Zeros, ones and infinities of a whole kind are no numbers of the table."""
    rolled = chain(["scaled"] * 3, [value] * 3)
    assert rolled.loops[0].floats.shape == (3, 0)
    assert chain(["scaled"] * 3, [value, value, 0.5]).loops[0].floats.shape == (3, 1)


def test_a_row_reads_everything_before_it_writes() -> None:
    """Two rows of memory can be exchanged, and a sum can be added to in place."""

    def swap(turn: Turn) -> None:
        a, b = turn.array("pair", 2)
        turn.write("pair", [b, a])

    state = np.array([[1.0], [2.0]])
    rows = [Row("pair", {"pair": Place("state", 0)})]
    interpret_rolled(Rolled((make_loop("swap", rows, swap),), 0), {"state": state}, runs=3)
    assert state.ravel().tolist() == [2.0, 1.0]


def test_an_array_and_a_number_may_have_the_same_name() -> None:
    """What is read from memory is not taken for the constant that is called the same."""
    state = np.array([[3.0], [0.0]])
    rows = [Row("x", {"gain": Place("state", 0), "y": Place("state", 1)}, {"gain": [10.0]})]
    loop = make_loop("product", rows, lambda t: t.write("y", [t.read("gain") * t.number("gain")]))
    interpret_rolled(Rolled((loop,), 0), {"state": state})
    assert state[1, 0] == 30.0


def test_printing_and_counting() -> None:
    """A structured program can be read, and its operations are counted by rows."""
    rolled = chain(["scaled", "added", "added"], [2.0, 3.0, 4.0])
    assert "for 3 rows of sums:" in str(rolled)
    assert rolled.loops[0].n_operations == 1 + 2 * 11
    assert rolled.n_instructions < 10

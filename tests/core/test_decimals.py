"""What numbers in single precision stand for."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from kinema.core import shortest_decimals


@given(st.lists(st.floats(width=32, allow_nan=False) | st.decimals(-1000, 1000, places=4).map(float), max_size=30))
def test_decimals_are_those_that_numbers_are_printed_as(numbers: list[float]) -> None:
    single = np.array(numbers, dtype=np.float32)
    assert shortest_decimals(single).tolist() == [float(str(v)) for v in single]


def test_many_decimals_at_once() -> None:
    rng = np.random.default_rng(1)
    single = (rng.uniform(-1, 1, (1000, 3)) * 10.0 ** rng.integers(-20, 30, (1000, 3))).astype(np.float32)
    single[:20, 0] = [10.0**n for n in range(-10, 10)]
    expected = np.array([[float(str(v)) for v in row] for row in single])
    assert np.array_equal(shortest_decimals(single), expected)

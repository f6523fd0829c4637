"""Packing of scratch memory: allocations that are live together."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, strategies as st

from kinema.ir.scratch_layout import LiveRange, pack_by_live_range, pack_side_by_side


@given(st.lists(st.integers(0, 20), max_size=30))
def test_side_by_side_is_the_first_fit_of_equal_live_ranges(lengths: list[int]) -> None:
    """The same places as by the general packing, in time proportional to the number of allocations."""
    sizes = dict(enumerate(lengths))
    assert pack_side_by_side(sizes) == pack_by_live_range(sizes, {i: LiveRange(0, 0) for i in sizes})


def test_many_allocations_are_packed_at_once() -> None:
    """None overlaps with another, and only alignment leaves gaps."""
    starts, end = pack_side_by_side({i: 1 + i % 11 for i in range(100_000)})
    places = sorted((start, start + 1 + i % 11) for i, start in starts.items())
    assert all(a[1] <= b[0] for a, b in pairwise(places))
    assert end <= 1.1 * sum(1 + i % 11 for i in range(100_000))

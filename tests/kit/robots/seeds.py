"""Seeds of random robots, for properties that hold whatever they are."""

from __future__ import annotations

from hypothesis import strategies as st

seeds = st.integers(min_value=0, max_value=2**32 - 1)
"""One seed makes a whole robot: shrinking it is of no use, but drawing it is quick."""

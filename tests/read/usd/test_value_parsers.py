"""Values of Kinema's attributes by the types of fields."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinema.read.usd.value_parsers import parse_value


def test_equal_aliases_of_arrays_are_arrays() -> None:
    """The alias that a type hint holds need not be the object that others import."""
    alias = np.ndarray[tuple[Any, ...], np.dtype[np.float64]]
    np.testing.assert_array_equal(parse_value(alias, (1.0, 2.0, 3.0)), [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(parse_value(alias | None, (1.0, 2.0)), [1.0, 2.0])

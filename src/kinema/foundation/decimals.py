"""What numbers in single precision stand for."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_EXACT = 22
"""Powers of ten up to this one are numbers in double precision."""
_FEWEST, _MOST = 6, 9
"""Digits that single precision always keeps, and that tell all its numbers apart."""


def shortest_decimals(numbers: NDArray[np.float32]) -> NDArray[np.float64]:
    """The shortest decimal that rounds to each number, as `float(str(number))` finds it one by one.

    A decimal of up to six digits comes back by rounding to six. Of longer ones the first that rounds to the number is
    the shortest, and rounding finds the nearest of its length.
    """
    flat = np.ascontiguousarray(numbers, dtype=np.float32).reshape(-1)
    found = flat.astype(np.float64)
    size = np.abs(found)
    usual = (size > 10.0 ** (_MOST - 1 - _EXACT)) & (size < 10.0**_EXACT)
    left = np.flatnonzero(usual)
    places = -np.floor(np.log10(size[left]))
    for digits in range(_FEWEST, _MOST + 1):
        shift = places + (digits - 1)
        power = 10.0 ** np.abs(shift)
        given = found[left]
        rounded = np.where(shift >= 0, np.rint(given * power) / power, np.rint(given / power) * power)
        fits = rounded.astype(np.float32) == flat[left]
        found[left[fits]] = rounded[fits]
        left, places = left[~fits], places[~fits]
    strange = np.flatnonzero(~usual & (size != 0.0))
    found[strange] = [float(str(number)) for number in flat[strange]]
    return found.reshape(np.shape(numbers))

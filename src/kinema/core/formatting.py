"""Identifiers valid in every file format, unique names, and shortest decimals of single-precision numbers."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

# ---------------------------------------------------------------------------------------------------------------- names


def to_identifier(name: str) -> str:
    """ASCII identifier (letters, digits, underscores) for a name, as strict file formats require.

    Accents are removed, other characters replaced by underscores; a leading digit or an empty name gets an underscore.
    """
    identifier = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    identifier = re.sub(r"[^A-Za-z0-9_]", "_", identifier)
    if not identifier:
        return "_"
    return identifier if not identifier[0].isdigit() else "_" + identifier


class TakenNames(set[str]):
    """Set of names for `unique_name` that remembers the last number of each name: n equal names take O(n) time."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        super().__init__(names)
        self.last_number: dict[str, int] = {}
        """Number up to which all of `name_1`, `name_2`, ... are taken, by name."""

    def discard(self, element: object, /) -> None:
        """Make a name available again."""
        super().discard(element)
        self.last_number.clear()

    def clear(self) -> None:
        """Make all names available again."""
        super().clear()
        self.last_number.clear()


def unique_name(wanted: str, taken: set[str]) -> str:
    """The wanted name, or the first of `name_1`, `name_2`, ... that is not in `taken`; it is added to `taken`."""
    last_number = taken.last_number if isinstance(taken, TakenNames) else {}
    name, count = wanted, last_number.get(wanted, 0)
    while name in taken:
        count += 1
        name = f"{wanted}_{count}"
    last_number[wanted] = count
    taken.add(name)
    return name


# ------------------------------------------------------------------------------------------------------------- decimals

_MAX_EXACT_POWER = 22
"""Largest exponent of a power of ten that is exact in double precision."""
_MIN_DIGITS, _MAX_DIGITS = 6, 9
"""Decimal digits that single precision always preserves, and that distinguish all its numbers."""


def shortest_decimals(values: NDArray[np.float32]) -> NDArray[np.float64]:
    """Shortest decimal that rounds to each single-precision number, as float64; vectorised `float(str(x))`.

    Rounds to 6, 7, 8 and 9 significant digits and takes the first result that converts back to the number. Numbers of
    extreme magnitude are converted one by one.
    """
    flat = np.ascontiguousarray(values, dtype=np.float32).reshape(-1)
    result = flat.astype(np.float64)
    magnitude = np.abs(result)
    is_moderate = (magnitude > 10.0 ** (_MAX_DIGITS - 1 - _MAX_EXACT_POWER)) & (magnitude < 10.0**_MAX_EXACT_POWER)
    remaining = np.flatnonzero(is_moderate)
    decimal_places = -np.floor(np.log10(magnitude[remaining]))
    for digits in range(_MIN_DIGITS, _MAX_DIGITS + 1):
        shift = decimal_places + (digits - 1)
        power = 10.0 ** np.abs(shift)
        numbers = result[remaining]
        rounded = np.where(shift >= 0, np.rint(numbers * power) / power, np.rint(numbers / power) * power)
        round_trips = rounded.astype(np.float32) == flat[remaining]
        result[remaining[round_trips]] = rounded[round_trips]
        remaining, decimal_places = remaining[~round_trips], decimal_places[~round_trips]
    extreme = np.flatnonzero(~is_moderate & (magnitude != 0.0))
    result[extreme] = [float(str(number)) for number in flat[extreme]]
    return result.reshape(np.shape(values))

"""Long lists of numbers in a text: most of the time that a text takes is theirs.

OpenUSD is given a short stand-in for each list, whose text then takes its place. Putting a list into words by itself is
a third quicker than within a layer, one that is there several times (the points of four equal wheels) is put into words
once, and one number many times over (three corners for each face) is written as such.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

_MARK = -8388593
"""The first number of a stand-in; its second is the number of the list."""
BEGIN, END = f"{_MARK}, ".encode(), b"]"
"""Where the text of a stand-in begins and ends, after the brackets that lists and rows begin with."""
_PIECE = 20_000
"""How many entries are put into words together."""
_HELD = 2**24
"""How much text of lists that come again is held [bytes]."""


class LongLists:
    """The long lists of a layer, each content once."""

    def __init__(self, attributes: Sequence[Any]) -> None:
        self._values: list[Any] = []
        self._uses: list[int] = []
        self._places: list[tuple[Any, int]] = []
        self._held: dict[int, list[bytes]] = {}
        self._held_bytes = 0
        known: dict[tuple[object, ...], int] = {}
        for attribute in attributes:
            value = attribute.default
            key = (type(value), len(value), zlib.crc32(memoryview(value)))
            number = known.get(key)
            if number is None or self._values[number] != value:
                number = known[key] = len(self._values)
                self._values.append(value)
                self._uses.append(0)
            self._uses[number] += 1
            self._places.append((attribute, number))

    def __len__(self) -> int:
        """How many places they have together."""
        return len(self._places)

    def stand_in(self) -> None:
        """Put stand-ins into all places."""
        for attribute, number in self._places:
            attribute.default = _stand_in(self._values[number], number)

    def put_back(self) -> None:
        """Put the lists themselves there again."""
        for attribute, number in self._places:
            attribute.default = self._values[number]

    def __getitem__(self, number: int) -> Iterator[bytes]:
        """The text of a list from after its first brackets to the last one, piece by piece."""
        self._uses[number] -= 1
        if number in self._held:
            yield from self._held[number] if self._uses[number] else self._held.pop(number)
            return
        value = self._values[number]
        if not self._uses[number] or self._held_bytes >= _HELD:
            yield from _texts(value)
            return
        held = list(_texts(value))
        self._held_bytes += sum(map(len, held))
        self._held[number] = held
        yield from held


def _stand_in(value: Any, number: int) -> Any:
    numbers = np.asarray(value)
    row = [_MARK, number, 0]
    made = row[:2] if numbers.ndim == 1 else [row[: numbers.shape[1]]]
    return type(value).FromNumpy(np.array(made, dtype=numbers.dtype))


def _texts(value: Any) -> Iterator[bytes]:
    numbers = np.asarray(value)
    before = 1 if numbers.ndim == 1 else 2  # the brackets of the list, and of its first row
    if (numbers == numbers[0]).all():
        one = str(value[:1]).encode()[1:-1]
        yield ((one + b", ") * (len(value) - 1) + one)[before - 1 :]
    else:
        for start in range(0, len(value), _PIECE):
            text = str(value[start : start + _PIECE]).encode()[1:-1]
            yield text[before - 1 :] if not start else b", " + text
    yield END

"""Numbers written as text, without a Python object per number for the whole file at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np

from kinema.shapes.mesh_data import FloatArray, IntArray, MeshError

_BLOCK = 1 << 20
_SPACE = re.compile(rb"\s")


def parse_floats(text: bytes) -> FloatArray:
    """White-space separated decimal numbers as float64, shape (n,)."""
    blocks = [np.array(block.split(), dtype=np.float64) for block in _blocks(text)]
    return np.concatenate(blocks) if blocks else np.zeros(0)


def parse_ints(text: bytes) -> IntArray:
    """White-space separated integers as int64, shape (n,)."""
    blocks = [np.array(block.split(), dtype=np.int64) for block in _blocks(text)]
    return np.concatenate(blocks) if blocks else np.zeros(0, dtype=np.int64)


def parse_positions(rows: Iterable[bytes], columns: tuple[int, ...] = (0, 1, 2)) -> FloatArray:
    """The numbers in some columns of every row, shape (n, columns); other columns may hold anything."""
    n_rows = 0

    def counted() -> Iterator[bytes]:
        nonlocal n_rows
        for row in rows:
            n_rows += 1
            yield row

    lines = counted()
    first = next(lines, None)
    # NumPy warns about no rows at all, and skips blank ones, which would shift every index after them.
    if first is None:
        return np.zeros((0, len(columns)))
    positions = np.loadtxt(chain([first], lines), dtype=np.float64, usecols=columns, comments=None, ndmin=2)
    if len(positions) != n_rows:
        raise MeshError("A vertex has no coordinates.")
    return positions


def to_float64(array: np.ndarray) -> FloatArray:
    """A binary array as native float64."""
    return array.astype(np.float64)


def require_bytes(needed: int, present: int, what: str) -> None:
    """Raise `MeshError` when `what` needs more bytes than the file has left. Call before allocating anything."""
    if needed > present:
        raise MeshError(f"The file is truncated or lies: {what} needs {needed} bytes, but only {present} are there.")


def _blocks(text: bytes) -> Iterator[bytes]:
    """Pieces of about a mebibyte, cut at white space."""
    position = 0
    while position < len(text):
        cut = _SPACE.search(text, position + _BLOCK)
        end = cut.start() if cut else len(text)
        yield text[position:end]
        position = end

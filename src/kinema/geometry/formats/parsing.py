"""Parsing of numbers in text and binary mesh files, and triangulation of polygons and triangle strips."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np

from ..mesh import FloatArray, IntArray, MeshError

# Numbers --------------------------------------------------------------------------------------------------------------

_BLOCK_BYTES = 1 << 20
"""Text is parsed in blocks of this size to bound the number of temporary Python objects."""
_WHITESPACE = re.compile(rb"\s")


def parse_floats(text: bytes) -> FloatArray:
    """Parse white-space separated decimal numbers as float64, shape (n,)."""
    blocks = [np.array(block.split(), dtype=np.float64) for block in _text_blocks(text)]
    return np.concatenate(blocks) if blocks else np.zeros(0)


def parse_ints(text: bytes) -> IntArray:
    """Parse white-space separated integers as int64, shape (n,)."""
    blocks = [np.array(block.split(), dtype=np.int64) for block in _text_blocks(text)]
    return np.concatenate(blocks) if blocks else np.zeros(0, dtype=np.int64)


def parse_columns(rows: Iterable[bytes], columns: tuple[int, ...] = (0, 1, 2)) -> FloatArray:
    """Parse selected columns of white-space separated rows as float64, shape (n_rows, len(columns)).

    Other columns may contain anything. Raises `MeshError` for blank rows and ValueError for invalid numbers.
    """
    n_rows = 0

    def counted() -> Iterator[bytes]:
        nonlocal n_rows
        for row in rows:
            n_rows += 1
            yield row

    lines = counted()
    first = next(lines, None)
    # np.loadtxt warns about empty input, and skips blank rows, which would shift all later indices.
    if first is None:
        return np.zeros((0, len(columns)))
    table = np.loadtxt(chain([first], lines), dtype=np.float64, usecols=columns, comments=None, ndmin=2)
    if len(table) != n_rows:
        raise MeshError("A vertex has no coordinates.")
    return table


def to_float64(array: np.ndarray) -> FloatArray:
    """Convert a binary array of any byte order to native float64."""
    return array.astype(np.float64)


def require_bytes(needed: int, available: int, content: str) -> None:
    """Raise `MeshError` if `content` needs more bytes than are available; call before allocating memory for it."""
    if needed > available:
        raise MeshError(
            f"The file is truncated or corrupt: {content} needs {needed} bytes, but only {available} are available."
        )


def _text_blocks(text: bytes) -> Iterator[bytes]:
    """Split text at white space into blocks of about `_BLOCK_BYTES`."""
    position = 0
    while position < len(text):
        split = _WHITESPACE.search(text, position + _BLOCK_BYTES)
        end = split.start() if split else len(text)
        yield text[position:end]
        position = end


# Triangulation --------------------------------------------------------------------------------------------------------


def triangulate_polygons(corners: IntArray, polygon_sizes: IntArray) -> IntArray:
    """Fan triangulation of polygons around their first corner, in order; shape (k, 3).

    Polygons with fewer than three corners give no triangles. A concave polygon gives overlapping triangles, whose area
    and volume integrals are still exact.

    Args:
        corners: concatenated vertex indices of all polygons.
        polygon_sizes: number of corners of each polygon.
    """
    first, step = _polygon_start_and_step(polygon_sizes)
    return np.stack([corners[first], corners[first + step + 1], corners[first + step + 2]], axis=-1)


def triangulate_strips(corners: IntArray, strip_sizes: IntArray) -> IntArray:
    """Triangles of triangle strips with consistent winding, shape (k, 3).

    Args:
        corners: concatenated vertex indices of all strips.
        strip_sizes: number of corners of each strip.
    """
    first, step = _polygon_start_and_step(strip_sizes)
    odd = step % 2
    start = first + step
    return np.stack([corners[start], corners[start + 1 + odd], corners[start + 2 - odd]], axis=-1)


def _polygon_start_and_step(polygon_sizes: IntArray) -> tuple[IntArray, IntArray]:
    """For each triangle, the offset of its polygon in the corner array, and its position within the polygon."""
    n_triangles = np.maximum(polygon_sizes - 2, 0)
    first = np.repeat(np.cumsum(polygon_sizes) - polygon_sizes, n_triangles)
    step = np.arange(len(first)) - np.repeat(np.cumsum(n_triangles) - n_triangles, n_triangles)
    return first, step

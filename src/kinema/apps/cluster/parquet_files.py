"""Files of Parquet, written for arrays of numbers of which none is missing and every row has as many.

Apache Arrow writes them as well, but finds out for each number on its own whether its list begins or goes on with it:
that takes four times as long as all the rest. Here it is known beforehand. Whoever reads Parquet reads these files:
format 1, plain values in pages of the first version, and Arrow's schema for those who look for it.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from .thrift import Value, i32, i64, items, struct, text, varint

MAGIC = b"PAR1"
KINDS = {"bool": 0, "int32": 1, "int64": 2, "float32": 4, "float64": 5}
"""What numbers may be, and what Parquet calls that."""
PAGE = 2**20
"""Bytes of a page, about: what a reader unpacks at a time."""
ROWS = 2**20
"""Rows of a group of rows, at most: what a reader may leave out."""
_PLAIN, _RLE = 0, 3
_UNCOMPRESSED, _SNAPPY = 0, 1
_REQUIRED, _REPEATED = 0, 2
_LIST = 3
_WORTH = 0.9
"""A column is compressed where it gets that much smaller: measured numbers do not, commands often do."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """The rows of a column in a group of rows."""

    about: dict[int, Value]
    """What is said of it at the end of the file, but for where it is."""
    pages: list[Any]
    """Its bytes, in pieces."""
    size: int
    plain_size: int
    """Of all pieces, and of what they are unpacked [bytes]."""


def parquet_file(found: Mapping[str, np.ndarray], schema: Any, library: Any, by: str) -> bytes:
    """A file of columns, (rows,) or (rows, k).

    Args:
        found: the columns: of kinds that `KINDS` names, none of them empty.
        schema: the same as Arrow says it.
        library: Apache Arrow, which compresses.
        by: who writes it.
    """
    rows = len(next(iter(found.values())))
    pieces: list[Any] = [MAGIC]
    place, groups = len(MAGIC), []
    for first in range(0, rows, ROWS):
        chunks: list[Value] = []
        size, begin = 0, place
        count = min(ROWS, rows - first)
        for name, values in found.items():
            chunk = _chunk(name, values[first : first + count], library)
            chunks.append(_placed(chunk, place))
            pieces += chunk.pages
            place, size = place + chunk.size, size + chunk.plain_size
        groups.append(struct({1: items(chunks), 2: i64(size), 3: i64(count), 5: i64(begin), 6: i64(place - begin)}))
    end = _footer(found, rows, groups, schema, by)
    return b"".join([*pieces, end, len(end).to_bytes(4, "little"), MAGIC])


# ------------------------------------------------------------------------------------------------------------ columns


def _chunk(name: str, values: np.ndarray, library: Any) -> Chunk:
    plain = list(_pages(values))
    packed = [library.compress(b"".join(page), codec="snappy") for _, page in plain]
    plain_size = sum(sum(map(len, page)) for _, page in plain)
    is_worth = sum(p.size for p in packed) < _WORTH * plain_size
    pages: list[Any] = []
    size = heads = 0
    for (count, page), small in zip(plain, packed, strict=True):
        body = [small] if is_worth else page
        there = small.size if is_worth else sum(map(len, page))
        head = _page_head(count, sum(map(len, page)), there)
        pages += [head, *body]
        size, heads = size + len(head) + there, heads + len(head)
    path = (name,) if values.ndim == 1 else (name, "list", "element")
    about = {
        1: i32(KINDS[values.dtype.name]),
        2: items([i32(_PLAIN), i32(_RLE)]),
        3: items([text(part) for part in path]),
        4: i32(_SNAPPY if is_worth else _UNCOMPRESSED),
        5: i64(values.size),
        6: i64(plain_size + heads),
        7: i64(size),
    }
    if values.ndim == 1 and values.dtype.kind in "ib":
        about[12] = _bounds(values)
    return Chunk(about, pages, size, plain_size + heads)


def _placed(chunk: Chunk, place: int) -> Value:
    """What the end of the file says of a column that begins there."""
    about = dict(sorted({**chunk.about, 9: i64(place)}.items()))
    return struct({2: i64(place), 3: struct(about)})


def _pages(values: np.ndarray) -> Iterator[tuple[int, list[Any]]]:
    """How many numbers a page has, and its bytes in pieces: whose list each is in, and all of them."""
    width = values[0].size if len(values) else 1
    step = max(8, PAGE // (width * values.itemsize))
    for first in range(0, len(values), step):
        own = np.ascontiguousarray(values[first : first + step])
        plain = np.packbits(own, bitorder="little") if own.dtype == np.bool_ else own.reshape(-1).view(np.uint8)
        yield own.size, [*([_levels(len(own), width)] if own.ndim > 1 else []), plain.data]


@lru_cache(maxsize=32)
def _levels(rows: int, width: int) -> bytes:
    """That each row is a list of so many numbers: of each, whether its list goes on with it, and that it is there."""
    goes_on = np.ones((rows, width), np.bool_)
    goes_on[:, 0] = False
    bits = np.packbits(goes_on, bitorder="little").tobytes()
    repeated = varint(len(bits) << 1 | 1) + bits
    defined = varint(rows * width << 1) + b"\1"
    return b"".join(len(part).to_bytes(4, "little") + part for part in (repeated, defined))


def _page_head(count: int, plain_size: int, size: int) -> bytes:
    data = struct({1: i32(count), 2: i32(_PLAIN), 3: i32(_RLE), 4: i32(_RLE)})
    return struct({1: i32(0), 2: i32(plain_size), 3: i32(size), 5: data})[1]


def _bounds(values: np.ndarray) -> Value:
    """The least and the most, by which readers leave out what they do not want."""
    least, most = (text(np.asarray(x, values.dtype).tobytes()) for x in (values.min(), values.max()))
    return struct({3: i64(0), 5: most, 6: least})


# --------------------------------------------------------------------------------------------------- end of the file


def _footer(found: Mapping[str, np.ndarray], rows: int, groups: list[Value], schema: Any, by: str) -> bytes:
    root = struct({3: i32(_REQUIRED), 4: text("schema"), 5: i32(len(found))})
    named = struct(
        {1: text("ARROW:schema"), 2: text(base64.b64encode(schema.serialize().to_pybytes()))},
    )
    in_order = struct({1: struct({})})  # numbers are in the order that numbers have
    about = {
        1: i32(1),
        2: items([root, *(e for name, values in found.items() for e in _elements(name, values))]),
        3: i64(rows),
        4: items(groups),
        5: items([named]),
        6: text(by),
        7: items([in_order] * len(found)),
    }
    return struct(about)[1]


def _elements(name: str, values: np.ndarray) -> list[Value]:
    """A column in the schema: numbers, or lists of them."""
    kind = i32(KINDS[values.dtype.name])
    if values.ndim == 1:
        return [struct({1: kind, 3: i32(_REQUIRED), 4: text(name)})]
    return [
        struct({3: i32(_REQUIRED), 4: text(name), 5: i32(1), 6: i32(_LIST), 10: struct({3: struct({})})}),
        struct({3: i32(_REPEATED), 4: text("list"), 5: i32(1)}),
        struct({1: kind, 3: i32(_REQUIRED), 4: text("element")}),
    ]

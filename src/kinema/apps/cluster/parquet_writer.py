"""Parquet encoder for dense numeric columns, with the Thrift compact protocol for its metadata.

All rows of a column have the same length and no value is missing, so that repetition and definition levels are known in
advance; computing them for each value takes Apache Arrow four times as long as everything else. Files follow format
version 1, with plain encoding in data pages of version 1, and contain the Arrow schema as key-value metadata.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

# ---------------------------------------------------------------------------------------------- Thrift compact protocol

ThriftValue = tuple[int, bytes]
_TYPE_I32, _TYPE_I64, _TYPE_BINARY, _TYPE_LIST, _TYPE_STRUCT = 5, 6, 8, 9, 12
_MAX_SHORT_LIST = 15
"""List size from which on the size is a separate varint."""


def varint(number: int) -> bytes:
    """Unsigned LEB128 encoding (ULEB128) of a nonnegative integer."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*found, number))


def thrift_i32(number: int) -> ThriftValue:
    """Thrift 32-bit integer."""
    return _TYPE_I32, _zigzag(number)


def thrift_i64(number: int) -> ThriftValue:
    """Thrift 64-bit integer."""
    return _TYPE_I64, _zigzag(number)


def thrift_binary(content: str | bytes) -> ThriftValue:
    """Thrift string or binary."""
    plain = content.encode() if isinstance(content, str) else content
    return _TYPE_BINARY, varint(len(plain)) + plain


def thrift_list(values: Sequence[ThriftValue]) -> ThriftValue:
    """Thrift list of at least one value, all of one type."""
    count, kind = len(values), values[0][0]
    head = (
        bytes([count << 4 | kind]) if count < _MAX_SHORT_LIST else bytes([_MAX_SHORT_LIST << 4 | kind]) + varint(count)
    )
    return _TYPE_LIST, head + b"".join(content for _, content in values)


def thrift_struct(fields: Mapping[int, ThriftValue]) -> ThriftValue:
    """Thrift struct of fields by ID; IDs are ascending, with gaps of at most 15."""
    last, parts = 0, []
    for number, (kind, content) in fields.items():
        parts += [bytes([number - last << 4 | kind]), content]
        last = number
    return _TYPE_STRUCT, b"".join(parts) + b"\0"


def _zigzag(number: int) -> bytes:
    return varint(2 * number if number >= 0 else -2 * number - 1)


# -------------------------------------------------------------------------------------------------------- Parquet files

MAGIC = b"PAR1"
PARQUET_TYPES = {"bool": 0, "int32": 1, "int64": 2, "float32": 4, "float64": 5}
"""Parquet physical types by NumPy dtype name."""
PAGE_BYTES = 2**20
"""Approximate size of a data page [bytes]."""
MAX_ROW_GROUP_ROWS = 2**20
"""Maximum number of rows of a row group."""
_PLAIN, _RLE = 0, 3
_UNCOMPRESSED, _SNAPPY = 0, 1
_REQUIRED, _REPEATED = 0, 2
_CONVERTED_TYPE_LIST = 3
_COMPRESSION_THRESHOLD = 0.9
"""A column is compressed if its size shrinks below this fraction; measured values rarely do, commands often do."""


@dataclass(frozen=True, slots=True)
class ColumnChunk:
    """Column chunk: the encoded rows of a column in a row group."""

    metadata: dict[int, ThriftValue]
    """Fields of the `ColumnMetaData` struct in the footer, without the file offset."""
    pages: list[Any]
    """Page headers and page contents."""
    size: int
    uncompressed_size: int
    """Sizes of all pages, as stored and uncompressed [bytes]."""


def encode_parquet(columns: Mapping[str, np.ndarray], schema: Any, pyarrow: Any, created_by: str) -> bytes:
    """Parquet file of columns of shape (rows,) or (rows, k).

    Args:
        columns: columns with dtypes in `PARQUET_TYPES`, none of zero width.
        schema: Arrow schema of the columns.
        pyarrow: the pyarrow module, used for compression.
        created_by: name of the writer for the file metadata.
    """
    rows = len(next(iter(columns.values())))
    pieces: list[Any] = [MAGIC]
    place, groups = len(MAGIC), []
    for first in range(0, rows, MAX_ROW_GROUP_ROWS):
        chunks: list[ThriftValue] = []
        size, begin = 0, place
        count = min(MAX_ROW_GROUP_ROWS, rows - first)
        for name, values in columns.items():
            chunk = _encode_column_chunk(name, values[first : first + count], pyarrow)
            chunks.append(_column_chunk_metadata(chunk, place))
            pieces += chunk.pages
            place, size = place + chunk.size, size + chunk.uncompressed_size
        groups.append(
            thrift_struct(
                {
                    1: thrift_list(chunks),
                    2: thrift_i64(size),
                    3: thrift_i64(count),
                    5: thrift_i64(begin),
                    6: thrift_i64(place - begin),
                }
            )
        )
    end = _footer(columns, rows, groups, schema, created_by)
    return b"".join([*pieces, end, len(end).to_bytes(4, "little"), MAGIC])


# -------------------------------------------------------------------------------------------------------------- columns


def _encode_column_chunk(name: str, values: np.ndarray, pyarrow: Any) -> ColumnChunk:
    """Encode a column chunk in data pages, Snappy-compressed if that is worthwhile, with its metadata."""
    plain = list(_data_pages(values))
    packed = [pyarrow.compress(b"".join(page), codec="snappy") for _, page in plain]
    plain_size = sum(sum(map(len, page)) for _, page in plain)
    is_worth = sum(p.size for p in packed) < _COMPRESSION_THRESHOLD * plain_size
    pages: list[Any] = []
    size = heads = 0
    for (count, page), small in zip(plain, packed, strict=True):
        body = [small] if is_worth else page
        there = small.size if is_worth else sum(map(len, page))
        head = _page_header(count, sum(map(len, page)), there)
        pages += [head, *body]
        size, heads = size + len(head) + there, heads + len(head)
    path = (name,) if values.ndim == 1 else (name, "list", "element")
    about = {
        1: thrift_i32(PARQUET_TYPES[values.dtype.name]),
        2: thrift_list([thrift_i32(_PLAIN), thrift_i32(_RLE)]),
        3: thrift_list([thrift_binary(part) for part in path]),
        4: thrift_i32(_SNAPPY if is_worth else _UNCOMPRESSED),
        5: thrift_i64(values.size),
        6: thrift_i64(plain_size + heads),
        7: thrift_i64(size),
    }
    if values.ndim == 1 and values.dtype.kind in "ib":
        about[12] = _column_statistics(values)
    return ColumnChunk(about, pages, size, plain_size + heads)


def _column_chunk_metadata(chunk: ColumnChunk, file_offset: int) -> ThriftValue:
    """Thrift `ColumnChunk` struct of the footer for a chunk at a file offset."""
    about = dict(sorted({**chunk.metadata, 9: thrift_i64(file_offset)}.items()))
    return thrift_struct({2: thrift_i64(file_offset), 3: thrift_struct(about)})


def _data_pages(values: np.ndarray) -> Iterator[tuple[int, list[Any]]]:
    """Number of values and content (levels, plain-encoded values) of each data page."""
    width = values[0].size if len(values) else 1
    step = max(8, PAGE_BYTES // (width * values.itemsize))
    for first in range(0, len(values), step):
        own = np.ascontiguousarray(values[first : first + step])
        plain = np.packbits(own, bitorder="little") if own.dtype == np.bool_ else own.reshape(-1).view(np.uint8)
        yield own.size, [*([_repetition_and_definition_levels(len(own), width)] if own.ndim > 1 else []), plain.data]


@lru_cache(maxsize=32)
def _repetition_and_definition_levels(rows: int, width: int) -> bytes:
    """Repetition and definition levels of rows with `width` values each, RLE/bit-packed with length prefixes."""
    goes_on = np.ones((rows, width), np.bool_)
    goes_on[:, 0] = False
    bits = np.packbits(goes_on, bitorder="little").tobytes()
    repeated = varint(len(bits) << 1 | 1) + bits
    defined = varint(rows * width << 1) + b"\1"
    return b"".join(len(part).to_bytes(4, "little") + part for part in (repeated, defined))


def _page_header(count: int, uncompressed_size: int, size: int) -> bytes:
    data = thrift_struct({1: thrift_i32(count), 2: thrift_i32(_PLAIN), 3: thrift_i32(_RLE), 4: thrift_i32(_RLE)})
    return thrift_struct({1: thrift_i32(0), 2: thrift_i32(uncompressed_size), 3: thrift_i32(size), 5: data})[1]


def _column_statistics(values: np.ndarray) -> ThriftValue:
    """Thrift `Statistics` struct: null count 0, maximum and minimum."""
    least, most = (thrift_binary(np.asarray(x, values.dtype).tobytes()) for x in (values.min(), values.max()))
    return thrift_struct({3: thrift_i64(0), 5: most, 6: least})


# ---------------------------------------------------------------------------------------------------------- file footer


def _footer(
    columns: Mapping[str, np.ndarray], rows: int, row_groups: list[ThriftValue], schema: Any, created_by: str
) -> bytes:
    """Thrift `FileMetaData` struct: schema, row groups, Arrow schema and writer."""
    root = thrift_struct({3: thrift_i32(_REQUIRED), 4: thrift_binary("schema"), 5: thrift_i32(len(columns))})
    named = thrift_struct(
        {1: thrift_binary("ARROW:schema"), 2: thrift_binary(base64.b64encode(schema.serialize().to_pybytes()))},
    )
    in_order = thrift_struct({1: thrift_struct({})})  # ColumnOrder: natural order of the type
    about = {
        1: thrift_i32(1),
        2: thrift_list([root, *(e for name, values in columns.items() for e in _schema_elements(name, values))]),
        3: thrift_i64(rows),
        4: thrift_list(row_groups),
        5: thrift_list([named]),
        6: thrift_binary(created_by),
        7: thrift_list([in_order] * len(columns)),
    }
    return thrift_struct(about)[1]


def _schema_elements(name: str, values: np.ndarray) -> list[ThriftValue]:
    """Thrift `SchemaElement` structs of a column: a primitive field, or a three-level list."""
    kind = thrift_i32(PARQUET_TYPES[values.dtype.name])
    if values.ndim == 1:
        return [thrift_struct({1: kind, 3: thrift_i32(_REQUIRED), 4: thrift_binary(name)})]
    return [
        thrift_struct(
            {
                3: thrift_i32(_REQUIRED),
                4: thrift_binary(name),
                5: thrift_i32(1),
                6: thrift_i32(_CONVERTED_TYPE_LIST),
                10: thrift_struct({3: thrift_struct({})}),
            }
        ),
        thrift_struct({3: thrift_i32(_REPEATED), 4: thrift_binary("list"), 5: thrift_i32(1)}),
        thrift_struct({1: kind, 3: thrift_i32(_REQUIRED), 4: thrift_binary("element")}),
    ]

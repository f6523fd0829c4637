"""Apache Thrift's compact form, as far as it is needed to say what is in a file of Parquet.

A value is its kind, and the bytes that say it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Value = tuple[int, bytes]
_I32, _I64, _TEXT, _ITEMS, _STRUCT = 5, 6, 8, 9, 12
_SHORT = 15
"""From so many on, the number of items has bytes of its own."""


def varint(number: int) -> bytes:
    """A number that is not negative, seven bits to a byte."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*found, number))


def i32(number: int) -> Value:
    """A whole number of 32 bits."""
    return _I32, _zigzag(number)


def i64(number: int) -> Value:
    """A whole number of 64 bits."""
    return _I64, _zigzag(number)


def text(content: str | bytes) -> Value:
    """A string, or any bytes."""
    plain = content.encode() if isinstance(content, str) else content
    return _TEXT, varint(len(plain)) + plain


def items(values: Sequence[Value]) -> Value:
    """Values of one kind; at least one."""
    count, kind = len(values), values[0][0]
    head = bytes([count << 4 | kind]) if count < _SHORT else bytes([_SHORT << 4 | kind]) + varint(count)
    return _ITEMS, head + b"".join(content for _, content in values)


def struct(fields: Mapping[int, Value]) -> Value:
    """Values by their numbers, which are in order, none more than 15 after the one before."""
    last, parts = 0, []
    for number, (kind, content) in fields.items():
        parts += [bytes([number - last << 4 | kind]), content]
        last = number
    return _STRUCT, b"".join(parts) + b"\0"


def _zigzag(number: int) -> bytes:
    return varint(2 * number if number >= 0 else -2 * number - 1)

"""Height field files, checked before MuJoCo decodes them: a small file may unpack to a very large picture."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

MAX_HEIGHTS = 4_000_000

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_NEEDED = (b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND")
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}


class HeightMapError(ValueError):
    """The file is no usable height map; the text is a plain reason."""


def checked_png(data: bytes) -> bytes:
    """The picture with nothing but its pixels, or a `HeightMapError`."""
    if not data.startswith(_SIGNATURE):
        raise HeightMapError("it is not a PNG file")
    kept, pixels = [_SIGNATURE], b""
    expected = None
    for kind, content, whole in _chunks(data):
        if expected is None:
            if kind != b"IHDR" or len(content) != 13:
                raise HeightMapError("it has no header")
            expected = _unpacked_size(content)
        if kind == b"IDAT":
            pixels += content
        if kind in _NEEDED:
            kept.append(whole)
    if expected is None or not pixels:
        raise HeightMapError("it has no pixels")
    try:
        unpacked = zlib.decompressobj().decompress(pixels, expected + 1)
    except zlib.error:
        raise HeightMapError("its pixels are damaged") from None
    if len(unpacked) > expected:
        raise HeightMapError("it holds more pixels than its header says")
    return b"".join(kept)


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Kind, content and the whole of each chunk."""
    position = len(_SIGNATURE)
    while position + 12 <= len(data):
        (length,) = struct.unpack_from(">I", data, position)
        end = position + 12 + length
        if end > len(data):
            raise HeightMapError("it is cut off")
        yield data[position + 4 : position + 8], data[position + 8 : end - 4], data[position:end]
        position = end


def _unpacked_size(header: bytes) -> int:
    """Bytes of the rows with one filter byte each, from above (interlaced pictures have up to seven times the rows)."""
    width, height, depth, color, _, _, interlace = struct.unpack(">IIBBBBB", header)
    if not (width > 0 and height > 0 and width * height <= MAX_HEIGHTS):
        raise HeightMapError(f"it has {width} x {height} pixels; 1 to {MAX_HEIGHTS} are read")
    if color not in _CHANNELS or depth not in (1, 2, 4, 8, 16):
        raise HeightMapError("its kind of pixels does not exist")
    row = 1 + (width * _CHANNELS[color] * depth + 7) // 8
    return row * height * (2 if interlace else 1) + 64 * (width + height)


def checked_grid(data: bytes) -> bytes:
    """MuJoCo's own format (rows, columns, heights as 32-bit numbers), or a `HeightMapError`."""
    if len(data) < 8:
        raise HeightMapError("it is cut off")
    rows, columns = struct.unpack_from("<ii", data)
    if not (rows >= 2 and columns >= 2 and rows * columns <= MAX_HEIGHTS):
        raise HeightMapError(f"it has {rows} x {columns} heights; 2 x 2 to {MAX_HEIGHTS} are read")
    if len(data) != 8 + 4 * rows * columns:
        raise HeightMapError(f"it has {len(data)} bytes, not those of {rows} x {columns} heights")
    return data

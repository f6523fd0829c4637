"""Pictures in PNG files as arrays: of grey with all 16 bits, for terrain, and of colours."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable

import numpy as np

from kinema.shapes.mesh_data import FloatArray, ShapeError

MAX_PIXELS = 4_000_000
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
_PALETTE = 3
Guess = Callable[[int, int, int], int]
"""Of a byte, from those on its left, above it, and on the left above it."""
_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}


class PictureError(ShapeError):
    """A picture cannot be used; the text is a plain reason."""


def grey_picture(data: bytes) -> FloatArray:
    """Brightness of a PNG picture from 0 to 1, shape (rows, columns), row 0 on top; colours count alike.

    Transparency is left out. Raises `PictureError` for what is no picture, is damaged, interlaced or too large.
    """
    samples = _decoded(data)
    return (samples[..., :-1] if samples.shape[2] in (2, 4) else samples).mean(axis=2)


def color_picture(data: bytes) -> np.ndarray:
    """The colours of a PNG picture with 8 bits each, shape (rows, columns, 4), row 0 on top; errors as above.

    What a palette or one colour says of transparency is left out.
    """
    samples = _decoded(data)
    rows, columns, channels = samples.shape
    result = np.full((rows, columns, 4), 255, dtype=np.uint8)
    bytes_of = np.round(255.0 * samples).astype(np.uint8)
    result[..., :3] = bytes_of[..., :3] if channels >= 3 else bytes_of[..., :1]
    if channels in (2, 4):
        result[..., 3] = bytes_of[..., -1]
    return result


def _decoded(data: bytes) -> FloatArray:
    """All samples from 0 to 1, shape (rows, columns, channels); palettes as the colours in them."""
    header, palette, packed = _parts(data)
    width, height, depth, color, _, _, interlace = header
    if not 0 < width * height <= MAX_PIXELS:
        raise PictureError(f"The picture has {width} x {height} pixels; 1 to {MAX_PIXELS} are read.")
    if color not in _CHANNELS or depth not in _DEPTHS[color]:
        raise PictureError(f"The picture's kind of pixels ({color}, {depth} bits) does not exist.")
    if interlace:
        raise PictureError("The picture is interlaced, which is not read; save it without.")
    channels = _CHANNELS[color]
    row_bytes = (width * channels * depth + 7) // 8
    raw = _unpacked(packed, height * (row_bytes + 1))
    rows = _unfiltered(raw.reshape(height, row_bytes + 1), max(1, channels * depth // 8))
    samples = _samples(rows, depth)[:, : width * channels].reshape(height, width, channels)
    if color == _PALETTE:
        colors = np.frombuffer(palette[: len(palette) // 3 * 3], dtype=np.uint8).reshape(-1, 3)
        if int(samples.max()) >= len(colors):
            raise PictureError("The picture uses a colour that its palette does not have.")
        return colors[samples[..., 0]] / 255.0
    return samples / (2.0**depth - 1)


def _parts(data: bytes) -> tuple[tuple[int, ...], bytes, bytes]:
    """The numbers of the header, the palette, and the packed pixels."""
    if not data.startswith(_SIGNATURE):
        raise PictureError("The file is not a PNG picture.")
    header, palette, packed = None, b"", []
    position = len(_SIGNATURE)
    while position + 12 <= len(data):
        (length,) = struct.unpack_from(">I", data, position)
        kind, content = data[position + 4 : position + 8], data[position + 8 : position + 8 + length]
        position += 12 + length
        if position > len(data):
            raise PictureError("The picture is cut off.")
        if kind == b"IHDR" and len(content) == 13:
            header = struct.unpack(">IIBBBBB", content)
        elif kind == b"PLTE":
            palette = content
        elif kind == b"IDAT":
            packed.append(content)
    if header is None:
        raise PictureError("The picture has no header.")
    return header, palette, b"".join(packed)


def _unpacked(packed: bytes, size: int) -> np.ndarray:
    """The bytes of all rows; no more memory is used than the header speaks of."""
    try:
        raw = zlib.decompressobj().decompress(packed, size)
    except zlib.error:
        raise PictureError("The picture's pixels are damaged.") from None
    if len(raw) < size:
        raise PictureError("The picture is cut off.")
    return np.frombuffer(raw, dtype=np.uint8)


def _unfiltered(rows: np.ndarray, step: int) -> np.ndarray:
    """Rows as they were before each byte was replaced by its difference to a guess from its neighbours."""
    above = np.zeros(rows.shape[1] - 1, dtype=np.int64)
    result = np.zeros((len(rows), rows.shape[1] - 1), dtype=np.uint8)
    for number, row in enumerate(rows):
        difference = row[1:].astype(np.int64)
        match int(row[0]):
            case 0:
                line = difference
            case 1:
                line = _summed(difference, step)
            case 2:
                line = (difference + above) % 256
            case 3 | 4 as kind:
                line = _guessed(difference, above, step, _average if kind == 3 else _paeth)
            case kind:
                raise PictureError(f"The picture's pixels are damaged: there is no filter {kind}.")
        result[number] = line
        above = line
    return result


def _summed(difference: np.ndarray, step: int) -> np.ndarray:
    padded = np.zeros(-(-len(difference) // step) * step, dtype=np.int64)
    padded[: len(difference)] = difference
    return (np.cumsum(padded.reshape(-1, step), axis=0) % 256).reshape(-1)[: len(difference)]


def _guessed(difference: np.ndarray, above: np.ndarray, step: int, guess: Guess) -> np.ndarray:
    line, over, given = [0] * (step + len(difference)), [0] * step + above.tolist(), difference.tolist()
    for at, value in enumerate(given):
        line[at + step] = (value + guess(line[at], over[at + step], over[at])) % 256
    return np.array(line[step:], dtype=np.int64)


def _average(left: int, up: int, _: int) -> int:
    return (left + up) // 2


def _paeth(left: int, up: int, corner: int) -> int:
    estimate = left + up - corner
    # the nearest of the three; left before up before corner
    return min((abs(estimate - left), 0, left), (abs(estimate - up), 1, up), (abs(estimate - corner), 2, corner))[2]


def _samples(rows: np.ndarray, depth: int) -> np.ndarray:
    """Numbers of `depth` bits, the highest first."""
    if depth == 16:
        return rows.reshape(len(rows), -1, 2).astype(np.int64) @ np.array([256, 1])
    if depth == 8:
        return rows
    shifts = np.arange(8 - depth, -1, -depth)
    return ((rows[:, :, None] >> shifts) & (2**depth - 1)).reshape(len(rows), -1)

"""Pictures and videos as files."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from kinema.foundation import KinemaError, WriteError, require
from kinema.shapes import png_bytes

VIDEO_SUFFIXES = (".mp4", ".png", ".apng")
_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def write_png(path: Path, pixels: np.ndarray) -> None:
    """A picture of 8 bits, (rows, columns, 1, 3 or 4)."""
    _write(path, png_bytes(pixels))


def write_video(path: Path, frames: Iterable[np.ndarray], rate: float) -> int:
    """Pictures one after the other, (rows, columns, 3) each; how many there were.

    `.mp4` (H.264) needs the package `imageio-ffmpeg`; `.png` and `.apng` are animated pictures that browsers show.
    """
    suffix = path.suffix.lower()
    if suffix not in VIDEO_SUFFIXES:
        raise WriteError(f"{path}: a video is {', '.join(VIDEO_SUFFIXES)}")
    if suffix != ".mp4":
        parts = list(frames)
        _write(path, _animated(parts, rate))
        return len(parts)
    return _write_mp4(path, frames, rate)


def can_write_mp4() -> bool:
    """Whether the package for it is installed."""
    try:
        require("imageio_ffmpeg", extra="render", purpose="writing .mp4 videos")
    except KinemaError:
        return False
    return True


def _write_mp4(path: Path, frames: Iterable[np.ndarray], rate: float) -> int:
    library = require("imageio_ffmpeg", extra="render", purpose="writing .mp4 videos")
    stream, count = iter(frames), 0
    first = next(stream, None)
    if first is None:
        raise WriteError(f"{path}: there is no picture in the video")
    rows, columns = first.shape[0] // 2 * 2, first.shape[1] // 2 * 2  # the codec takes even sizes only
    writer = library.write_frames(
        str(path), (columns, rows), fps=rate, codec="libx264", macro_block_size=1, quality=7, output_params=["-an"]
    )
    try:
        writer.send(None)
        for frame in _chained(first, stream):
            writer.send(np.ascontiguousarray(frame[:rows, :columns]))
            count += 1
    except OSError as error:
        raise WriteError(f"{path} cannot be written: {error}") from None
    finally:
        writer.close()
    return count


def _chained(first: np.ndarray, rest: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
    yield first
    yield from rest


def _animated(frames: list[np.ndarray], rate: float) -> bytes:
    """An animated PNG: after the first, each is the rectangle that changed."""
    if not frames:
        raise WriteError("there is no picture in the video")
    rows, columns, _ = frames[0].shape
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", columns, rows, 8, 2, 0, 0, 0)),
        (b"acTL", struct.pack(">II", len(frames), 0)),
    ]
    number, last = 0, None
    for frame in frames:
        top, bottom, left, right = _changed(last, frame)
        part = frame[top:bottom, left:right]
        place = (right - left, bottom - top, left, top)
        chunks.append((b"fcTL", struct.pack(">IIIIIHHBB", number, *place, 1000, round(1000 * rate), 0, 0)))
        number += 1
        data = _packed(part)
        if last is None:
            chunks.append((b"IDAT", data))
        else:
            chunks.append((b"fdAT", struct.pack(">I", number) + data))
            number += 1
        last = frame
    chunks.append((b"IEND", b""))
    return _SIGNATURE + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


def _changed(last: np.ndarray | None, frame: np.ndarray) -> tuple[int, int, int, int]:
    rows, columns, _ = frame.shape
    if last is None:
        return 0, rows, 0, columns
    differs = (last != frame).any(axis=2)
    lines, across = np.flatnonzero(differs.any(axis=1)), np.flatnonzero(differs.any(axis=0))
    if not len(lines):
        return 0, 1, 0, 1
    return int(lines[0]), int(lines[-1]) + 1, int(across[0]), int(across[-1]) + 1


def _packed(pixels: np.ndarray) -> bytes:
    rows, columns, channels = pixels.shape
    lines = np.zeros((rows, 1 + columns * channels), dtype=np.uint8)
    above = np.zeros_like(pixels)
    above[1:] = pixels[:-1]
    lines[:, 0] = 2  # each byte is the difference to the one above
    lines[:, 1:] = (pixels - above).reshape(rows, -1)
    return zlib.compress(lines.tobytes(), 6)


def _write(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise WriteError(f"{path} cannot be written: {error.strerror or error}") from None

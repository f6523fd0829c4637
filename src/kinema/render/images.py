"""Exposure and tone mapping of radiance images, and PNG, animated PNG and MP4 files."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from kinema.core import Array, KinemaError, WriteError, import_optional, make_parent_folder, write_file
from kinema.geometry import encode_png

# Tone mapping ---------------------------------------------------------------------------------------------------------

_EXPOSURE_PERCENTILE, _EXPOSURE_TARGET = 99.5, 0.9
"""Automatic exposure maps this percentile of the luminance to this value."""
_COMPRESSION_START = 0.76
"""Value above which highlights are compressed."""
_DESATURATION = 0.15
"""Desaturation of bright highlights."""


def tone_map(radiance: Array, exposure: float | None = None) -> np.ndarray:
    """Tone-map radiance to 8-bit sRGB with the Khronos PBR Neutral curve.

    Args:
        radiance: linear RGB, shape (..., 3).
        exposure: factor on the radiance; chosen automatically if None.
    """
    if exposure is None:
        exposure = auto_exposure(radiance)
    scaled = _khronos_pbr_neutral(np.maximum(np.nan_to_num(radiance * exposure, posinf=1e4), 0.0))
    display = np.where(scaled <= 0.0031308, 12.92 * scaled, 1.055 * scaled ** (1 / 2.4) - 0.055)
    return np.round(255.0 * np.clip(display, 0.0, 1.0)).astype(np.uint8)


def auto_exposure(radiance: Array) -> float:
    """Exposure that maps the 99.5th percentile of the luminance to 0.9, limited to 0.25 to 4."""
    bright = float(np.percentile(radiance @ np.array([0.2126, 0.7152, 0.0722]), _EXPOSURE_PERCENTILE))
    return float(np.clip(_EXPOSURE_TARGET / max(bright, 1e-6), 0.25, 4.0))


def _khronos_pbr_neutral(radiance: Array) -> Array:
    """Khronos PBR Neutral tone curve without black offset: identity up to a threshold, then highlight compression."""
    peak = radiance.max(axis=-1, keepdims=True)
    headroom = 1.0 - _COMPRESSION_START
    new_peak = np.where(
        peak > _COMPRESSION_START,
        1.0 - headroom * headroom / (np.maximum(peak, _COMPRESSION_START) + headroom - _COMPRESSION_START),
        peak,
    )
    scaled = radiance * (new_peak / np.maximum(peak, 1e-9))
    desaturation = 1.0 - 1.0 / (_DESATURATION * np.maximum(peak - new_peak, 0.0) + 1.0)
    return scaled * (1.0 - desaturation) + new_peak * desaturation


# Files ----------------------------------------------------------------------------------------------------------------

VIDEO_SUFFIXES = (".mp4", ".png", ".apng")
_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def write_png(path: Path, pixels: np.ndarray) -> None:
    """Write 8-bit pixels (rows, columns, 1, 3 or 4 channels) as a PNG file; `WriteError` on failure."""
    write_file(path, encode_png(pixels))


def write_video(path: Path, frames: Iterable[np.ndarray], frame_rate: float) -> int:
    """Write RGB frames (rows, columns, 3) as a video; returns the number of frames.

    `.mp4` (H.264) requires the package `imageio-ffmpeg`; `.png` and `.apng` are animated PNGs, which browsers display.
    `WriteError` for other suffixes.
    """
    suffix = path.suffix.lower()
    if suffix not in VIDEO_SUFFIXES:
        raise WriteError(f"{path}: the suffix of a video must be one of {', '.join(VIDEO_SUFFIXES)}")
    if suffix != ".mp4":
        images = list(frames)
        write_file(path, _encode_apng(images, frame_rate))
        return len(images)
    return _write_mp4(path, frames, frame_rate)


def can_write_mp4() -> bool:
    """Whether the package for MP4 files is installed."""
    try:
        import_optional("imageio_ffmpeg", extra="render", purpose="writing .mp4 videos")
    except KinemaError:
        return False
    return True


def _write_mp4(path: Path, frames: Iterable[np.ndarray], frame_rate: float) -> int:
    """Encode frames as H.264 with imageio-ffmpeg, cropped to even sizes; returns the number of frames."""
    library = import_optional("imageio_ffmpeg", extra="render", purpose="writing .mp4 videos")
    stream, count = iter(frames), 0
    first = next(stream, None)
    if first is None:
        raise WriteError(f"{path}: the video has no frames")
    make_parent_folder(path)
    rows, columns = first.shape[0] // 2 * 2, first.shape[1] // 2 * 2  # the codec requires even sizes
    writer = library.write_frames(
        str(path),
        (columns, rows),
        fps=frame_rate,
        codec="libx264",
        macro_block_size=1,
        quality=7,
        output_params=["-an"],
    )
    try:
        writer.send(None)
        for frame in _prepend(first, stream):
            writer.send(np.ascontiguousarray(frame[:rows, :columns]))
            count += 1
    except OSError as error:
        raise WriteError(f"{path} cannot be written: {error}") from None
    finally:
        writer.close()
    return count


def _prepend(first: np.ndarray, rest: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
    yield first
    yield from rest


def _encode_apng(frames: list[np.ndarray], frame_rate: float) -> bytes:
    """Encode RGB frames as an animated PNG; frames after the first contain only the changed rectangle."""
    if not frames:
        raise WriteError("the video has no frames")
    rows, columns, _ = frames[0].shape
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", columns, rows, 8, 2, 0, 0, 0)),
        (b"acTL", struct.pack(">II", len(frames), 0)),
    ]
    sequence_number, previous = 0, None
    for frame in frames:
        top, bottom, left, right = _changed_rectangle(previous, frame)
        changed = frame[top:bottom, left:right]
        region = (right - left, bottom - top, left, top)
        chunks.append(
            (b"fcTL", struct.pack(">IIIIIHHBB", sequence_number, *region, 1000, round(1000 * frame_rate), 0, 0))
        )
        sequence_number += 1
        data = _compress_scanlines(changed)
        if previous is None:
            chunks.append((b"IDAT", data))
        else:
            chunks.append((b"fdAT", struct.pack(">I", sequence_number) + data))
            sequence_number += 1
        previous = frame
    chunks.append((b"IEND", b""))
    return _PNG_SIGNATURE + b"".join(
        struct.pack(">I", len(data)) + chunk_type + data + struct.pack(">I", zlib.crc32(chunk_type + data))
        for chunk_type, data in chunks
    )


def _changed_rectangle(previous: np.ndarray | None, frame: np.ndarray) -> tuple[int, int, int, int]:
    """Bounding rectangle (top, bottom, left, right) of the pixels that differ between two frames.

    The whole image without previous frame, and one pixel if nothing changed.
    """
    rows, columns, _ = frame.shape
    if previous is None:
        return 0, rows, 0, columns
    differs = (previous != frame).any(axis=2)
    changed_rows, changed_columns = np.flatnonzero(differs.any(axis=1)), np.flatnonzero(differs.any(axis=0))
    if not len(changed_rows):
        return 0, 1, 0, 1
    return int(changed_rows[0]), int(changed_rows[-1]) + 1, int(changed_columns[0]), int(changed_columns[-1]) + 1


def _compress_scanlines(pixels: np.ndarray) -> bytes:
    """PNG image data of 8-bit pixels: scanlines with the `up` filter, compressed with zlib."""
    rows, columns, channels = pixels.shape
    lines = np.zeros((rows, 1 + columns * channels), dtype=np.uint8)
    above = np.zeros_like(pixels)
    above[1:] = pixels[:-1]
    lines[:, 0] = 2  # filter type: up
    lines[:, 1:] = (pixels - above).reshape(rows, -1)
    return zlib.compress(lines.tobytes(), 6)

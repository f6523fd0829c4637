"""Exposure and tone mapping of radiance images, and PNG, JPEG, EXR, animated PNG and MP4 files."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from kinema.core import Array, KinemaError, WriteError, check_writable, import_optional, write_file
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


def write_picture(path: Path, pixels: np.ndarray) -> None:
    """Write 8-bit pixels (rows, columns, 3) as `.png`, or as `.jpg` or `.jpeg` with Pillow; `WriteError` otherwise."""
    suffix = path.suffix.lower()
    if suffix == ".png":
        write_png(path, pixels)
    elif suffix in (".jpg", ".jpeg"):
        image = import_optional("PIL.Image", extra="render", purpose="writing JPEG files")
        stream = io.BytesIO()
        image.fromarray(np.ascontiguousarray(pixels)).save(stream, format="JPEG", quality=95, subsampling=0)
        write_file(path, stream.getvalue())
    else:
        raise WriteError(f"{path}: the suffix of a picture must be .png, .jpg, .jpeg or .exr")


def srgb_to_linear(pixels: np.ndarray) -> Array:
    """Linear values, 0 to 1, of 8-bit sRGB pixels."""
    values = np.asarray(pixels, np.float64) / 255.0
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def write_exr(path: Path, channels: Mapping[str, np.ndarray]) -> None:
    """Write channels (rows, columns) by name as an OpenEXR file of 32-bit floats: scan lines, not compressed."""
    names = sorted(channels)
    planes = np.stack([np.asarray(channels[name], "<f4") for name in names], axis=1)  # rows, channels, columns
    rows, n_channels, columns = planes.shape
    window = struct.pack("<4i", 0, 0, columns - 1, rows - 1)
    channel_list = b"".join(name.encode() + b"\0" + struct.pack("<i4xii", 2, 1, 1) for name in names) + b"\0"
    attributes = {
        "channels": ("chlist", channel_list),
        "compression": ("compression", b"\0"),
        "dataWindow": ("box2i", window),
        "displayWindow": ("box2i", window),
        "lineOrder": ("lineOrder", b"\0"),
        "pixelAspectRatio": ("float", struct.pack("<f", 1.0)),
        "screenWindowCenter": ("v2f", struct.pack("<2f", 0.0, 0.0)),
        "screenWindowWidth": ("float", struct.pack("<f", 1.0)),
    }
    header = struct.pack("<II", 20000630, 2)
    for name, (kind, value) in attributes.items():
        header += name.encode() + b"\0" + kind.encode() + b"\0" + struct.pack("<i", len(value)) + value
    header += b"\0"
    line_size = 4 * n_channels * columns
    first = len(header) + 8 * rows
    offsets = np.arange(rows, dtype="<u8") * (8 + line_size) + first
    lines = (struct.pack("<ii", row, line_size) + planes[row].tobytes() for row in range(rows))
    write_file(path, header + offsets.tobytes() + b"".join(lines))


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
    writer = Mp4Writer(path, frame_rate)
    try:
        for frame in frames:
            writer.append(frame)
    finally:
        writer.close()
    return writer.n_frames


def can_write_mp4() -> bool:
    """Whether the package for MP4 files is installed."""
    try:
        import_optional("imageio_ffmpeg", extra="render", purpose="writing .mp4 videos")
    except KinemaError:
        return False
    return True


class Mp4Writer:
    """Writer of an H.264 video, frame by frame, with imageio-ffmpeg; images are cropped to even sizes."""

    def __init__(self, path: Path, frame_rate: float) -> None:
        """Prepare the video with frames per second; the file is opened with the first frame."""
        self._library = import_optional("imageio_ffmpeg", extra="render", purpose="writing .mp4 videos")
        self._path, self._frame_rate, self._stream = path, frame_rate, None
        self.n_frames = 0
        check_writable(path)

    def append(self, frame: np.ndarray) -> None:
        """Append 8-bit RGB pixels (rows, columns, 3)."""
        rows, columns = (size // 2 * 2 for size in frame.shape[:2])  # the codec requires even sizes
        try:
            if self._stream is None:
                self._stream = self._library.write_frames(
                    str(self._path),
                    (columns, rows),
                    fps=self._frame_rate,
                    codec="libx264",
                    macro_block_size=1,
                    quality=7,
                    output_params=["-an"],
                )
                self._stream.send(None)
            self._stream.send(np.ascontiguousarray(frame[:rows, :columns]))
        except OSError as error:
            raise WriteError(f"{self._path} cannot be written: {error}") from None
        self.n_frames += 1

    def close(self) -> None:
        """Finish the file; `WriteError` if it has no frames."""
        if self._stream is None:
            raise WriteError(f"{self._path}: the video has no frames")
        self._stream.close()


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

"""Image files: PNG encoding and decoding, lookup, type detection and size-limited reading.

Images are referenced by file name, or as `file[part]` if embedded: by index in a .glb or .gltf, by name in a .usdz.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

import numpy as np

from ..mesh import MEBIBYTE, FloatArray, GeometryError, MeshError

# PNG ------------------------------------------------------------------------------------------------------------------

MAX_PNG_PIXELS = 4_000_000
_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CHANNELS_BY_COLOR_TYPE = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
_PALETTE_COLOR_TYPE = 3
Predictor = Callable[[int, int, int], int]
"""PNG filter predictor of a byte from its left, upper and upper left neighbours."""
_DEPTHS_BY_COLOR_TYPE = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}


class ImageError(GeometryError):
    """An image is unusable; the message is one sentence."""


def decode_png_gray(data: bytes) -> FloatArray:
    """Grey values of a PNG image, 0 to 1 with up to 16 bits, shape (rows, columns), row 0 on top.

    Grey is the mean of the colour channels; alpha is ignored. Raises `ImageError` for data that is not a PNG, damaged,
    interlaced or too large.
    """
    samples = _decode_samples(data)
    return (samples[..., :-1] if samples.shape[2] in (2, 4) else samples).mean(axis=2)


def decode_png_rgba(data: bytes) -> np.ndarray:
    """RGBA pixels of a PNG image, uint8 (rows, columns, 4), row 0 on top.

    Transparency of palettes and colour keys (tRNS) is ignored. Raises `ImageError` as `decode_png_gray`.
    """
    samples = _decode_samples(data)
    rows, columns, channels = samples.shape
    result = np.full((rows, columns, 4), 255, dtype=np.uint8)
    quantized = np.round(255.0 * samples).astype(np.uint8)
    result[..., :3] = quantized[..., :3] if channels >= 3 else quantized[..., :1]
    if channels in (2, 4):
        result[..., 3] = quantized[..., -1]
    return result


def _decode_samples(data: bytes) -> FloatArray:
    """Samples of a PNG image, 0 to 1, shape (rows, columns, channels); palettes are expanded to RGB.

    Raises `ImageError` for unsupported or damaged images.
    """
    header, palette, packed = _read_chunks(data)
    width, height, depth, color, _, _, interlace = header
    if not 0 < width * height <= MAX_PNG_PIXELS:
        raise ImageError(f"The image has {width} x {height} pixels; 1 to {MAX_PNG_PIXELS} are supported.")
    if color not in _CHANNELS_BY_COLOR_TYPE or depth not in _DEPTHS_BY_COLOR_TYPE[color]:
        raise ImageError(f"The image has an invalid pixel format (colour type {color}, {depth} bits).")
    if interlace:
        raise ImageError("Interlaced images are not supported.")
    channels = _CHANNELS_BY_COLOR_TYPE[color]
    row_bytes = (width * channels * depth + 7) // 8
    raw = _inflate(packed, height * (row_bytes + 1))
    rows = _unfilter_rows(raw.reshape(height, row_bytes + 1), max(1, channels * depth // 8))
    samples = _unpack_samples(rows, depth)[:, : width * channels].reshape(height, width, channels)
    if color == _PALETTE_COLOR_TYPE:
        colors = np.frombuffer(palette[: len(palette) // 3 * 3], dtype=np.uint8).reshape(-1, 3)
        if int(samples.max()) >= len(colors):
            raise ImageError("The image uses a palette index that is out of range.")
        return colors[samples[..., 0]] / 255.0
    return samples / (2.0**depth - 1)


def _read_chunks(data: bytes) -> tuple[tuple[int, ...], bytes, bytes]:
    """Parse PNG chunks: fields of the IHDR header, the palette (PLTE) and the concatenated IDAT data."""
    if not data.startswith(_PNG_SIGNATURE):
        raise ImageError("The file is not a PNG image.")
    header, palette, packed = None, b"", []
    position = len(_PNG_SIGNATURE)
    while position + 12 <= len(data):
        (length,) = struct.unpack_from(">I", data, position)
        chunk_type, content = data[position + 4 : position + 8], data[position + 8 : position + 8 + length]
        position += 12 + length
        if position > len(data):
            raise ImageError("The image is truncated.")
        if chunk_type == b"IHDR" and len(content) == 13:
            header = struct.unpack(">IIBBBBB", content)
        elif chunk_type == b"PLTE":
            palette = content
        elif chunk_type == b"IDAT":
            packed.append(content)
    if header is None:
        raise ImageError("The image has no header.")
    return header, palette, b"".join(packed)


def _inflate(compressed: bytes, size: int) -> np.ndarray:
    """Decompress exactly `size` bytes of image data; memory is bounded by the size declared in the header."""
    try:
        raw = zlib.decompressobj().decompress(compressed, size)
    except zlib.error:
        raise ImageError("The compressed image data is corrupt.") from None
    if len(raw) < size:
        raise ImageError("The image is truncated.")
    return np.frombuffer(raw, dtype=np.uint8)


def _unfilter_rows(rows: np.ndarray, step: int) -> np.ndarray:
    """Reverse the PNG scanline filters; uint8 (rows, bytes per row).

    Args:
        rows: filtered scanlines, each with its filter type in the first byte.
        step: bytes per pixel, the distance to the left neighbour.
    """
    previous = np.zeros(rows.shape[1] - 1, dtype=np.int64)
    result = np.zeros((len(rows), rows.shape[1] - 1), dtype=np.uint8)
    for index, row in enumerate(rows):
        difference = row[1:].astype(np.int64)
        match int(row[0]):
            case 0:
                line = difference
            case 1:
                line = _unfilter_sub(difference, step)
            case 2:
                line = (difference + previous) % 256
            case 3 | 4 as filter_type:
                line = _unfilter_predicted(
                    difference, previous, step, _average_predictor if filter_type == 3 else _paeth_predictor
                )
            case filter_type:
                raise ImageError(f"The image data is corrupt: unknown filter type {filter_type}.")
        result[index] = line
        previous = line
    return result


def _unfilter_sub(difference: np.ndarray, step: int) -> np.ndarray:
    padded = np.zeros(-(-len(difference) // step) * step, dtype=np.int64)
    padded[: len(difference)] = difference
    return (np.cumsum(padded.reshape(-1, step), axis=0) % 256).reshape(-1)[: len(difference)]


def _unfilter_predicted(difference: np.ndarray, above: np.ndarray, step: int, predict: Predictor) -> np.ndarray:
    line, upper, values = [0] * (step + len(difference)), [0] * step + above.tolist(), difference.tolist()
    for i, value in enumerate(values):
        line[i + step] = (value + predict(line[i], upper[i + step], upper[i])) % 256
    return np.array(line[step:], dtype=np.int64)


def _average_predictor(left: int, up: int, _: int) -> int:
    return (left + up) // 2


def _paeth_predictor(left: int, up: int, corner: int) -> int:
    estimate = left + up - corner
    # closest neighbour to the estimate; ties prefer left, then up
    return min((abs(estimate - left), 0, left), (abs(estimate - up), 1, up), (abs(estimate - corner), 2, corner))[2]


def _unpack_samples(rows: np.ndarray, depth: int) -> np.ndarray:
    """Unpack samples of `depth` bits (1, 2, 4, 8 or 16, most significant first) from rows of bytes."""
    if depth == 16:
        return rows.reshape(len(rows), -1, 2).astype(np.int64) @ np.array([256, 1])
    if depth == 8:
        return rows
    shifts = np.arange(8 - depth, -1, -depth)
    return ((rows[:, :, None] >> shifts) & (2**depth - 1)).reshape(len(rows), -1)


def encode_png(pixels: np.ndarray) -> bytes:
    """Encode uint8 pixels (rows, columns, channels) with 1, 3 or 4 channels as PNG, row 0 on top."""
    rows, columns, channels = pixels.shape
    color_type = {1: 0, 3: 2, 4: 6}[channels]
    header = struct.pack(">IIBBBBB", columns, rows, 8, color_type, 0, 0, 0)
    scanlines = np.zeros((rows, 1 + columns * channels), dtype=np.uint8)  # filter type 0 (none) in the first byte
    scanlines[:, 1:] = pixels.astype(np.uint8).reshape(rows, -1)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(scanlines.tobytes(), 6)), (b"IEND", b""))
    body = b"".join(
        struct.pack(">I", len(data)) + chunk_type + data + struct.pack(">I", zlib.crc32(chunk_type + data))
        for chunk_type, data in chunks
    )
    return _PNG_SIGNATURE + body


# Files ----------------------------------------------------------------------------------------------------------------

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".tga", ".bmp", ".tif", ".tiff", ".hdr", ".exr", ".ktx", ".ktx2", ".webp")
MAX_IMAGE_BYTES = 256 * MEBIBYTE
_MAX_PARENT_LEVELS = 2
"""Number of parent folders above a mesh file in which its images may lie, as for meshes of a description."""
_MAGIC_NUMBERS = (
    (b"\x89PNG\r\n\x1a\n", ".png"),
    (b"\xff\xd8\xff", ".jpg"),
    (b"BM", ".bmp"),
    (b"II*\0", ".tif"),
    (b"MM\0*", ".tif"),
    (b"#?RADIANCE", ".hdr"),
    (b"v/1\x01", ".exr"),
    (b"\xabKTX 11", ".ktx"),
    (b"\xabKTX 20", ".ktx2"),
    (b"RIFF", ".webp"),
)


def find_image_file(folder: Path | None, reference: str) -> str:
    """Path of the image that a mesh file in `folder` references; empty if there is no accessible image.

    Searched are the referenced path, the folder itself and, as in Gazebo, `materials/textures` beside the folder.
    """
    cleaned = unquote(reference.strip()).removeprefix("file://").replace("\\", "/")
    if folder is None or not cleaned or "\0" in cleaned or "://" in cleaned:
        return ""
    name = cleaned.rpartition("/")[2]
    candidates = [folder / cleaned, folder / name, folder.parent / "materials" / "textures" / name]
    return next((str(path) for path in candidates if _is_readable_image(path, folder)), "")


def _is_readable_image(path: Path, folder: Path) -> bool:
    """Whether `path` is an existing image file within `folder` or up to `_MAX_PARENT_LEVELS` parents of it."""
    if path.suffix.lower() not in IMAGE_SUFFIXES:
        return False
    try:
        resolved = folder.resolve()
        top = [resolved, *(parent for parent in resolved.parents if parent != parent.parent)][: _MAX_PARENT_LEVELS + 1][
            -1
        ]
        return path.is_file() and path.resolve().is_relative_to(top)
    except (OSError, ValueError):
        return False


def split_image_reference(reference: str) -> tuple[str, str]:
    """Split `file[part]` into file and part; the part is empty for a plain file."""
    if reference.endswith("]") and "[" in reference and not Path(reference).is_file():
        file, _, part = reference[:-1].rpartition("[")
        return file, part
    return reference, ""


def detect_image_suffix(data: bytes, name: str = "") -> str:
    """File name suffix of an image by its magic number, or else by the suffix of `name`; empty if unknown."""
    detected = next((suffix for magic, suffix in _MAGIC_NUMBERS if data.startswith(magic)), "")
    return detected or (Path(name).suffix.lower() if Path(name).suffix.lower() in IMAGE_SUFFIXES else "")


def read_bounded_bytes(path: Path, limit: int = MAX_IMAGE_BYTES) -> bytes:
    """Read a file of at most `limit` bytes; `MeshError` if it does not exist, is unreadable or too large."""
    try:
        if not path.is_file():
            raise MeshError("The image does not exist.")
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, MeshError):
            raise
        raise MeshError("The image could not be read.") from None
    if len(data) > limit:
        raise MeshError(f"The image is larger than the {limit} bytes allowed.")
    return data


def read_usdz_member(file: Path, member: str) -> bytes:
    """Read a member of a .usdz archive (stored uncompressed); `MeshError` if missing, compressed or too large."""
    try:
        with zipfile.ZipFile(file) as archive:
            entry = archive.getinfo(member)
            if entry.file_size > MAX_IMAGE_BYTES or entry.compress_type != zipfile.ZIP_STORED:
                raise MeshError("The image in the archive is too large or compressed.")
            return archive.read(entry)
    except (zipfile.BadZipFile, OSError, ValueError, KeyError, RuntimeError, EOFError) as error:
        if isinstance(error, MeshError):
            raise
        raise MeshError("The image in the archive could not be read.") from None

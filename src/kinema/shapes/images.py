"""Images: which files they are, where a mesh file's lie, and their bytes when a writer wants them.

An image is called by its file, or as `file[part]` where it is inside of another one: an image of a .glb by its number,
a file of a .usdz by its name. Nothing of it is held in memory before it is written.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from pathlib import Path
from urllib.parse import unquote

import numpy as np

from kinema.shapes.limits import MEBIBYTE
from kinema.shapes.mesh_data import MeshError

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".tga", ".bmp", ".tif", ".tiff", ".hdr", ".exr", ".ktx", ".ktx2", ".webp")
MAX_IMAGE_BYTES = 256 * MEBIBYTE
_LEVELS_UP = 2
"""How far above a mesh's own folder its images may lie; the same as for meshes that a description names."""
_KINDS = (
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


def find_image(folder: Path | None, reference: str) -> str:
    """The image that a mesh file in a folder refers to; empty where there is none that may be read.

    Besides the place it names, the folder `materials/textures` beside the mesh's is looked into, as Gazebo does.
    """
    plain = unquote(reference.strip()).removeprefix("file://").replace("\\", "/")
    if folder is None or not plain or "\0" in plain or "://" in plain:
        return ""
    name = plain.rpartition("/")[2]
    candidates = [folder / plain, folder / name, folder.parent / "materials" / "textures" / name]
    return next((str(path) for path in candidates if _may_be_read(path, folder)), "")


def _may_be_read(path: Path, folder: Path) -> bool:
    if path.suffix.lower() not in IMAGE_SUFFIXES:
        return False
    try:
        home = folder.resolve()
        top = [home, *(f for f in home.parents if f != f.parent)][: _LEVELS_UP + 1][-1]
        return path.is_file() and path.resolve().is_relative_to(top)
    except (OSError, ValueError):
        return False


def split_reference(reference: str) -> tuple[str, str]:
    """The file and the part of it that an image is; the part is empty for a file of its own."""
    if reference.endswith("]") and "[" in reference and not Path(reference).is_file():
        file, _, part = reference[:-1].rpartition("[")
        return file, part
    return reference, ""


def image_suffix(data: bytes, name: str = "") -> str:
    """The ending of the file name that an image's content asks for; that of its name where the content says nothing."""
    found = next((suffix for start, suffix in _KINDS if data.startswith(start)), "")
    return found or (Path(name).suffix.lower() if Path(name).suffix.lower() in IMAGE_SUFFIXES else "")


def bounded_bytes(path: Path, limit: int = MAX_IMAGE_BYTES) -> bytes:
    """The content of a file; `MeshError` where it is none, or too large."""
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


def archived_image(file: Path, part: str) -> bytes:
    """A file in a .usdz, which stores its files as they are."""
    try:
        with zipfile.ZipFile(file) as archive:
            entry = archive.getinfo(part)
            if entry.file_size > MAX_IMAGE_BYTES or entry.compress_type != zipfile.ZIP_STORED:
                raise MeshError("The image in the archive is too large, or compressed.")
            return archive.read(entry)
    except (zipfile.BadZipFile, OSError, ValueError, KeyError, RuntimeError, EOFError) as error:
        if isinstance(error, MeshError):
            raise
        raise MeshError("The image in the archive could not be read.") from None


def png_bytes(pixels: np.ndarray) -> bytes:
    """A PNG of 8-bit pixels, shape (rows, columns, channels) with one, three or four channels; row 0 is on top."""
    rows, columns, channels = pixels.shape
    color_type = {1: 0, 3: 2, 4: 6}[channels]
    head = struct.pack(">IIBBBBB", columns, rows, 8, color_type, 0, 0, 0)
    lines = np.zeros((rows, 1 + columns * channels), dtype=np.uint8)  # each begins with its filter: none
    lines[:, 1:] = pixels.astype(np.uint8).reshape(rows, -1)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(lines.tobytes(), 6)), (b"IEND", b""))
    body = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + body

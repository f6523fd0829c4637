"""A usdz: a zip of stored files with plain names; anything else is refused before OpenUSD opens it."""

from __future__ import annotations

import zipfile
from pathlib import Path

MAX_FILES = 10_000


def archive_sizes(file: Path) -> dict[str, int]:
    """The files in an archive in order, with their sizes; a `ValueError` in words where it is not to be trusted."""
    try:
        with zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise ValueError(f"not a usdz archive: {error}") from None
    if len(entries) > MAX_FILES:
        raise ValueError(f"the archive holds {len(entries)} files; at most {MAX_FILES} are read")
    for entry in entries:
        parts = entry.filename.replace("\\", "/").split("/")
        if entry.filename.startswith(("/", "\\")) or ".." in parts or ":" in parts[0]:
            raise ValueError(f"the archive holds {entry.filename!r}, a path that leads out of it")
        if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
            raise ValueError(f"{entry.filename!r} is compressed, which a usdz may not be")
    return {entry.filename: entry.file_size for entry in entries}


def archived_bytes(file: Path, name: str) -> bytes:
    """The bytes of a file in an archive that was found sound; a `ValueError` where they are damaged."""
    try:
        with zipfile.ZipFile(file) as archive:
            return archive.read(name)
    except (zipfile.BadZipFile, OSError, ValueError, RuntimeError, EOFError) as error:
        raise ValueError(f"{name!r} in the archive cannot be read: {error}") from None

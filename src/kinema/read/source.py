"""The bytes of a file, checked before they are read."""

from __future__ import annotations

import os
from pathlib import Path

from kinema.foundation import ReadError

from .xml_text import MAX_BYTES


def read_bytes(file: str | os.PathLike[str], *, limit: int = MAX_BYTES) -> bytes:
    """The file's bytes, or a `ReadError` in one sentence."""
    path = Path(file)
    try:
        if not path.exists():
            raise ReadError(f"{path}: there is no such file")
        if not path.is_file():  # a folder, a pipe or a device: reading it could fail or never end
            raise ReadError(f"{path}: this is not a file")
        size = path.stat().st_size
        if size > limit:
            raise ReadError(f"{path}: the file has {size} bytes; at most {limit} are read")
        return path.read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ReadError(f"{path}: {reason}") from None

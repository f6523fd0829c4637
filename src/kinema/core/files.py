"""Output files: parent folders are created, and failures are `WriteError`s with the path."""

from __future__ import annotations

import os
from pathlib import Path

from .diagnostics import WriteError


def make_parent_folder(path: Path) -> None:
    """Create the folder of an output file, with its parents; raises `WriteError` if this is impossible."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = "it is a file" if path.parent.exists() else error.strerror or error
        raise WriteError(f"{path}: the folder {path.parent} cannot be made: {reason}") from None


def check_writable(path: Path) -> None:
    """Create the folder of an output file that is written later; raises `WriteError` if the file cannot be written.

    The file itself is neither created nor changed.
    """
    make_parent_folder(path)
    exists = path.exists()
    try:
        path.open("ab").close()
        if not exists:
            path.unlink()
    except OSError as error:
        raise WriteError(f"{path}: {error.strerror or error}") from None


def write_file(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Write a file, text as UTF-8, and create its folder if necessary; raises `WriteError` on failure."""
    file = Path(path)
    make_parent_folder(file)
    try:
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise WriteError(f"{file}: {error.strerror or error}") from None

"""What a task prints, kept for the case that it fails: of libraries in other languages too."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from .executor import LOG


class Log:
    """A file that takes what this process prints from now on."""

    def __init__(self, file: Path) -> None:
        self._file = os.open(file, os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o600)
        for stream in (1, 2):
            os.dup2(self._file, stream)

    def begin(self) -> None:
        """A new task: what others printed is gone."""
        _flush()
        os.ftruncate(self._file, 0)

    def tail(self) -> str:
        """What it printed last."""
        _flush()
        return tail_of(self._file)


def tail_of(file: int) -> str:
    """The last characters of an open file."""
    size = os.fstat(file).st_size
    return os.pread(file, LOG, max(0, size - LOG)).decode(errors="replace")


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()

"""Stores that fail when they should not."""

from __future__ import annotations

import errno
import importlib
import os
from typing import Any

import pytest

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def fail_at(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A `memory://` that is full when a file of that name is written."""
    memory: Any = importlib.import_module("fsspec.implementations.memory").MemoryFileSystem
    pipe = memory.pipe_file

    def pipe_file(self: Any, path: str, value: bytes, **more: Any) -> None:
        if path.endswith(name):
            raise FULL
        pipe(self, path, value, **more)

    monkeypatch.setattr(memory, "pipe_file", pipe_file)

"""Where what took long to make is kept from one start to the next: compiled code, parts of meshes, distance fields."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from pathlib import Path

CACHE_VARIABLE = "KINEMA_CACHE"


def cache_folder() -> Path:
    """The folder that `KINEMA_CACHE` names, else where this system keeps caches."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "kinema"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kinema"


def keep(file: Path, content: bytes) -> None:
    """Write a file whole or not at all; where that is not possible, nothing is kept."""
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, name = tempfile.mkstemp(dir=file.parent)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
            Path(name).replace(file)
        except OSError:
            Path(name).unlink(missing_ok=True)

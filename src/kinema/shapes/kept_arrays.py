"""Arrays that took long to compute, kept on disk by what they were computed from.

A file is a plain archive of arrays (never anything that runs when it is read) with a version and a key. It is written
to a temporary name and moved, so that nobody reads half of it; what is damaged, of another version or another key is
computed again.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from kinema.foundation import cache_folder, keep

Arrays = dict[str, np.ndarray]

Report = Callable[[str, float], None]
"""Told what is being done, and how much of it is done (0 to 1)."""


def content_key(*parts: object) -> str:
    """A name for what some arrays, texts and numbers are; the same for the same content, on any machine."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(f"{part.dtype.str}{part.shape}".encode())
            digest.update(np.ascontiguousarray(part).tobytes())
        else:
            digest.update(repr(part).encode())
        digest.update(b"\n")
    return digest.hexdigest()[:32]


def kept(file: Path, key: str, version: int, names: tuple[str, ...]) -> Arrays | None:
    """The arrays of a file, if they are all there, whole, and made from what `key` stands for."""
    try:
        with np.load(io.BytesIO(file.read_bytes()), allow_pickle=False) as archive:
            if int(archive["version"]) != version or str(archive["key"]) != key:
                return None
            return {name: archive[name] for name in names}
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError):
        return None


def keep_arrays(file: Path, key: str, version: int, arrays: Arrays) -> None:
    """Write arrays whole or not at all."""
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, version=np.array(version), key=np.array(key), **arrays)
    keep(file, content.getvalue())


def kept_or_made(
    folder: str, suffix: str, key: str, version: int, names: tuple[str, ...], make: Callable[[], Arrays]
) -> Arrays:
    """The arrays that the cache folder holds under a key, or those that `make` gives, which it holds from then on."""
    file = cache_folder() / folder / f"{key}{suffix}"
    arrays = kept(file, key, version, names)
    if arrays is None:
        arrays = make()
        keep_arrays(file, key, version, arrays)
    return arrays

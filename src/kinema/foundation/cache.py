"""The cache on disk: results that took long to compute, addressed by a digest of what they were computed from.

An entry is one file of named values: arrays, bytes, and anything that JSON can hold. It starts with a format tag and a
SHA-256 checksum of the rest, so that truncated, damaged or foreign files are recognised and computed again; nothing in
it is executed by reading it. Files are written under a temporary name and renamed, which makes concurrent writers safe.
Reading an entry updates its modification time, and the least recently used entries are deleted beyond a size limit.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import hashlib
import json
import os
import shutil
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from .recent import Recent

CACHE_VARIABLE = "KINEMA_CACHE"
DEFAULT_LIMIT = 4 * 10**9
"""Bytes that entries may take together, unless `set_cache_limit` says otherwise."""
KEPT = 128 * 2**20
"""Bytes of entries that are kept in memory."""
ENTRY, DISTANCE_FIELD = ".entry", ".gsd"
"""Suffixes of the files of entries."""
_TAG = b"KINEMA-CACHE-1\n\0"
_CHECKSUM = 32
_ALIGNMENT = 64
_STALE = 3600.0
"""Age of a temporary file that its writer has left behind [s]."""
_EVICT_TO = 0.9
"""Share of the limit that eviction leaves."""
_FOLDERS = ("programs", "code", "derived", "geometry", "images", "warp")
"""Subfolders that hold nothing but what can be computed again."""

Values = Mapping[str, Any]
"""Named arrays, bytes and JSON values."""


def cache_dir() -> Path:
    """The folder that `KINEMA_CACHE` names, else the user's cache folder of this system."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "kinema"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kinema"


def write_atomically(file: Path, content: bytes) -> bool:
    """Write a file completely or not at all; whether it was written (not on a full or read-only disk)."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, name = tempfile.mkstemp(dir=file.parent, suffix=".tmp")
    except OSError:
        return False
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        Path(name).replace(file)
    except OSError:
        with contextlib.suppress(OSError):
            Path(name).unlink(missing_ok=True)
        return False
    return True


# ------------------------------------------------------------------------------------------------------------- digests


def content_digest(*parts: object) -> str:
    """A digest of values: arrays, dataclasses, enumerations, containers and scalars; equal only for equal content."""
    found = hashlib.sha256()
    for part in parts:
        _update(found, part)
    return found.hexdigest()[:40]


def _update(found: Any, value: object) -> None:
    """Hash one value with its type and size, so that no two different values have the same encoding."""
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            raise TypeError("an array of Python objects has no digest")
        plain = np.asarray(value, order="C")
        found.update(f"array {plain.dtype.str}{plain.shape}".encode())
        found.update(plain.data if plain.size and plain.dtype != np.bool_ else plain.tobytes())
    elif isinstance(value, enum.Enum):
        found.update(f"enum {type(value).__name__} {value.value!r};".encode())
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        found.update(f"record {type(value).__name__}(".encode())
        for field in dataclasses.fields(value):
            found.update(field.name.encode())
            _update(found, getattr(value, field.name))
    elif isinstance(value, list | tuple):
        if value and all(type(x) is str for x in value):
            found.update(f"strings {value!r};".encode())
            return
        found.update(f"list {len(value)}(".encode())
        for item in value:
            _update(found, item)
    elif isinstance(value, Mapping):
        found.update(f"mapping {len(value)}(".encode())
        for key, item in value.items():
            _update(found, key)
            _update(found, item)
    elif isinstance(value, set | frozenset):
        _update(found, sorted(value, key=repr))
    elif isinstance(value, bytes):
        found.update(f"bytes {len(value)} ".encode())
        found.update(value)
    elif value is None or isinstance(value, str | int | float | np.generic):
        found.update(f"{type(value).__name__} {value!r};".encode())
    else:
        raise TypeError(f"a {type(value).__name__} has no digest")


@cache
def source_digest(*packages: str) -> str:
    """A digest of the Python sources of some packages of Kinema: results that code computes depend on it."""
    root = Path(__file__).parents[1]
    found = hashlib.sha256()
    for package in packages:
        for file in sorted((root / package).rglob("*.py")):
            found.update(f"{file.relative_to(root).as_posix()}\n".encode())
            found.update(file.read_bytes())
    return found.hexdigest()[:40]


# ------------------------------------------------------------------------------------------------------------- entries


def load_entry(kind: str, key: str, suffix: str = ENTRY) -> dict[str, Any] | None:
    """The values of an entry, or None if there is none that is complete and undamaged. Arrays are read-only."""
    file = cache_dir() / kind / f"{key}{suffix}"
    try:
        content = file.read_bytes()
    except OSError:
        return None
    values = _decoded(content, kind, key)
    if values is not None:
        _note(kind, key, suffix, content)
        with contextlib.suppress(OSError):
            os.utime(file)
    return values


def store_entry(kind: str, key: str, values: Values, suffix: str = ENTRY) -> None:
    """Write an entry where that is possible, and delete the least recently used ones beyond the limit."""
    content = _encoded(kind, key, values)
    _note(kind, key, suffix, content)
    if write_atomically(cache_dir() / kind / f"{key}{suffix}", content):
        _Written.since_eviction += len(content)
        limit = cache_limit()
        if _Written.since_eviction > limit // 64 or not _Written.has_evicted:
            _Written.since_eviction, _Written.has_evicted = 0, True
            evict(limit)


_RECENT: Recent[Values] = Recent(KEPT)


def load_or_make(kind: str, key: str, make: Callable[[], Values], suffix: str = ENTRY, *, keep: bool = False) -> Values:
    """The values of an entry, or those that `make` computes, which are stored then.

    With `keep` they stay in memory for the next call, up to `KEPT` bytes of the most recently used ones together.
    """
    if not keep or _recordings:  # which ask for the files
        return _loaded_or_made(kind, key, make, suffix)
    name = f"{cache_dir()} {kind}/{key}{suffix}"
    return _RECENT.get_or_make(name, lambda: _loaded_or_made(kind, key, make, suffix), _size)


def _loaded_or_made(kind: str, key: str, make: Callable[[], Values], suffix: str) -> Values:
    values = load_entry(kind, key, suffix)
    if values is None:
        values = make()
        store_entry(kind, key, values, suffix)
    return values


def _size(values: Values) -> int:
    return sum(x.nbytes if isinstance(x, np.ndarray) else len(x) for x in values.values() if hasattr(x, "__len__"))


_recordings: list[dict[str, bytes]] = []


@contextlib.contextmanager
def recorded_entries() -> Iterator[dict[str, bytes]]:
    """Entries that are read or written meanwhile, by their file names: for other machines to start with."""
    found: dict[str, bytes] = {}
    _recordings.append(found)
    try:
        yield found
    finally:
        _recordings[:] = [other for other in _recordings if other is not found]


def is_recording() -> bool:
    """Whether entries are being recorded."""
    return bool(_recordings)


def add_entries(entries: Mapping[str, bytes]) -> None:
    """Store entries that another process has recorded, unless they are there already."""
    for name, content in entries.items():
        file = cache_dir() / name
        if not file.exists():
            write_atomically(file, content)


def _note(kind: str, key: str, suffix: str, content: bytes) -> None:
    for found in _recordings:
        found[f"{kind}/{key}{suffix}"] = content


class _Written:
    """What this process has stored since it last looked at the size of the cache."""

    since_eviction = 0
    has_evicted = False


def _encoded(kind: str, key: str, values: Values) -> bytes:
    header: dict[str, Any] = {"kind": kind, "key": key, "values": {}, "blobs": {}}
    blobs, position = [], 0
    for name, value in values.items():
        if not isinstance(value, np.ndarray | bytes):
            header["values"][name] = value
            continue
        plain = value if isinstance(value, bytes) else np.ascontiguousarray(value).tobytes()
        about = ["bytes", []] if isinstance(value, bytes) else [value.dtype.str, list(value.shape)]
        header["blobs"][name] = [*about, position, len(plain)]
        padding = -len(plain) % _ALIGNMENT
        blobs += [plain, b"\0" * padding]
        position += len(plain) + padding
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(_TAG) + _CHECKSUM + 4 + len(text)) % _ALIGNMENT)
    body = b"".join([struct.pack("<I", len(text)), text, *blobs])
    return _TAG + hashlib.sha256(body).digest() + body


def _decoded(content: bytes, kind: str, key: str) -> dict[str, Any] | None:
    start = len(_TAG) + _CHECKSUM
    body = memoryview(content)[start:]
    if content[: len(_TAG)] != _TAG or hashlib.sha256(body).digest() != content[len(_TAG) : start]:
        return None
    size = struct.unpack_from("<I", body)[0]
    header = json.loads(bytes(body[4 : 4 + size]))
    if (header["kind"], header["key"]) != (kind, key):
        return None
    values: dict[str, Any] = header["values"]
    blobs = body[4 + size :]
    for name, (dtype, shape, first, length) in header["blobs"].items():
        plain = blobs[first : first + length]
        values[name] = bytes(plain) if dtype == "bytes" else np.frombuffer(plain, np.dtype(dtype)).reshape(shape)
    return values


# ---------------------------------------------------------------------------------------------------- size and eviction


@dataclasses.dataclass(frozen=True, slots=True)
class Usage:
    """The files of one subfolder of the cache."""

    kind: str
    files: int
    bytes: int
    oldest: float
    """When the least recently used of them was last used [s since the epoch]."""
    newest: float
    """Likewise of the most recently used one."""


def cache_limit() -> int:
    """How many bytes entries may take together."""
    try:
        return max(int((cache_dir() / "limit").read_text(encoding="ascii")), 0)
    except (OSError, ValueError):
        return DEFAULT_LIMIT


def set_cache_limit(limit: int) -> None:
    """Set how many bytes entries may take together, and delete the least recently used ones beyond that."""
    file = cache_dir() / "limit"
    if not write_atomically(file, str(limit).encode("ascii")):
        raise OSError(f"{file} cannot be written")
    evict(limit)


def cache_usage() -> list[Usage]:
    """What there is, by subfolder; the largest first."""
    found = []
    for folder in _folders():
        files = [(used, size) for _, used, size in _files(folder)]
        if files:
            times = [used for used, _ in files]
            found.append(Usage(folder.name, len(files), sum(size for _, size in files), min(times), max(times)))
    return sorted(found, key=lambda usage: -usage.bytes)


def evict(limit: int) -> None:
    """Delete the least recently used entries until the rest take less than `limit`, and abandoned temporary files."""
    entries, total, now = [], 0, time.time()
    for folder in _folders():
        for file, used, size in _files(folder):
            if file.endswith(".tmp") and now - used > _STALE:
                _delete(file)
            elif file.endswith((ENTRY, DISTANCE_FIELD)):
                entries.append((used, size, file))
                total += size
    if total <= limit:
        return
    for _, size, file in sorted(entries):
        if total <= _EVICT_TO * limit:
            return
        _delete(file)
        total -= size


def clear_cache() -> int:
    """Delete everything that can be computed again; how many bytes that was."""
    freed = sum(usage.bytes for usage in cache_usage())
    _RECENT.clear()
    for folder in _folders():
        shutil.rmtree(folder, ignore_errors=True)
    return freed


def _folders() -> list[Path]:
    return [folder for name in _FOLDERS if (folder := cache_dir() / name).is_dir()]


def _files(folder: Path) -> Iterator[tuple[str, float, int]]:
    """Paths, times of last use and sizes [bytes] of all files below a folder."""
    for root, _, names in os.walk(folder):
        for name in names:
            file = os.path.join(root, name)  # noqa: PTH118  thousands of files: Path objects take longer than the rest
            with contextlib.suppress(OSError):
                about = os.stat(file)  # noqa: PTH116
                yield file, about.st_mtime, about.st_size


def _delete(file: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(file)  # noqa: PTH108

"""Content-addressed disk cache with LRU eviction, and an in-memory LRU cache bounded by bytes.

An entry is one file of named values: arrays, bytes and JSON values. It starts with a format tag and a SHA-256 checksum
of the rest, so that truncated, damaged or foreign files are recognised and computed again; reading executes no code.
Files are written under a temporary name and renamed, which makes concurrent writers safe. Reading an entry updates its
modification time; beyond a size limit the least recently used entries are deleted.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import hashlib
import importlib
import json
import os
import shutil
import struct
import sys
import tempfile
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from .diagnostics import InternalError

# --------------------------------------------------------------------------------------------------------- memory cache

T = TypeVar("T")


class LruCache(Generic[T]):
    """Thread-safe in-memory LRU cache bounded by a number of bytes."""

    def __init__(self, byte_limit: int) -> None:
        self._byte_limit = byte_limit
        self._byte_size = 0
        self._entries: OrderedDict[str, tuple[T, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get_or_compute(self, key: str, compute: Callable[[], T], size_of: Callable[[T], int]) -> T:
        """Cached value of a key, else the result of `compute`, which is then cached.

        Least recently used entries are evicted. `size_of` gives the size of a value in bytes; values larger than the
        limit are not cached. `compute` runs without the lock, so that two threads may compute the same value.
        """
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
                return self._entries[key][0]
        value = compute()
        n_bytes = size_of(value)
        with self._lock:
            if key not in self._entries and n_bytes <= self._byte_limit:
                self._entries[key] = value, n_bytes
                self._byte_size += n_bytes
                while self._byte_size > self._byte_limit:
                    self._byte_size -= self._entries.popitem(last=False)[1][1]
        return value

    def clear(self) -> None:
        """Remove all entries."""
        with self._lock:
            self._entries.clear()
            self._byte_size = 0


# ----------------------------------------------------------------------------------------------------------- disk cache

CACHE_ENV_VARIABLE = "KINEMA_CACHE"
DEFAULT_CACHE_LIMIT = 4 * 10**9
"""Default of the total size of all entries [bytes]; changed by `set_cache_limit`."""
MEMORY_LIMIT = 128 * 2**20
"""Total size of the entries kept in memory [bytes]."""
ENTRY_SUFFIX, DISTANCE_FIELD_SUFFIX = ".entry", ".gsd"
"""File suffixes of entries."""
_MAGIC = b"KINEMA-CACHE-1\n\0"
_CHECKSUM_BYTES = 32
_ALIGNMENT = 64
_STALE_FILE_AGE = 3600.0
"""Age from which a temporary file counts as abandoned [s]."""
_EVICTION_TARGET = 0.9
"""Fraction of the limit to which eviction reduces the total size."""
_LOCK_TIMEOUT, _LOCK_INTERVAL = 60.0, 0.02
"""Maximum time for which a process waits for another one, and the time between attempts [s]."""
_CACHE_SUBFOLDERS = ("programs", "code", "derived", "geometry", "images", "warp")
"""Subfolders of the cache folder; all content can be recomputed."""

EntryValues = Mapping[str, Any]
"""Named arrays, bytes and JSON values of an entry."""


def cache_dir() -> Path:
    """Cache folder: `KINEMA_CACHE`, else the user's cache folder of the operating system."""
    path = os.environ.get(CACHE_ENV_VARIABLE)
    if path:
        return Path(path)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "kinema"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kinema"


def write_atomically(file: Path, content: bytes) -> bool:
    """Write a file through a temporary file and rename; False if the disk is full or read-only."""
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


@contextlib.contextmanager
def process_lock(name: str, timeout: float = _LOCK_TIMEOUT) -> Iterator[None]:
    """Context manager: exclusive lock between the processes that share the cache folder.

    A process that waits finds the result of the other one in the cache. It continues without the lock after `timeout`
    seconds, or where files cannot be locked (Windows, read-only folders).

    Args:
        name: path of the lock file, relative to the cache folder.
        timeout: maximum waiting time [s].
    """
    file = cache_dir() / name
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError, ImportError):
            fcntl = importlib.import_module("fcntl")
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            stream = stack.enter_context(file.open("ab"))
            end = time.monotonic() + timeout
            while not _try_lock(fcntl, stream.fileno()) and time.monotonic() < end:
                time.sleep(_LOCK_INTERVAL)
        yield


def _try_lock(fcntl: Any, descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


# ------------------------------------------------------------------------------------------------------------- digests


def content_digest(*values: object) -> str:
    """SHA-256 digest (40 hexadecimal digits) of values: arrays, dataclasses, enumerations, containers, scalars.

    Equal for equal content only. Raises TypeError for other types.
    """
    hasher = hashlib.sha256()
    for value in values:
        _hash_value(hasher, value)
    return hasher.hexdigest()[:40]


LARGE_ARRAY = 2**20
"""Size from which an array enters a digest by the digest of its content [bytes]."""
_array_digests: weakref.WeakValueDictionary[int, np.ndarray] = weakref.WeakValueDictionary()
_digest_by_id: dict[int, bytes] = {}


def _large_array_digest(array: np.ndarray) -> bytes:
    """SHA-256 digest of the content of a large array; cached for a read-only array that owns its memory."""
    is_constant = not array.flags.writeable and array.base is None
    if is_constant and _array_digests.get(id(array)) is array:
        return _digest_by_id[id(array)]
    digest = hashlib.sha256(array.data if array.dtype != np.bool_ else array.tobytes()).digest()
    if is_constant:
        _array_digests[id(array)], _digest_by_id[id(array)] = array, digest
        weakref.finalize(array, _digest_by_id.pop, id(array), None)
    return digest


_SCALARS = frozenset({str, int, float, bool, type(None)})


@cache
def _encoded_field_names(record: type) -> list[tuple[str, bytes]]:
    return [(field.name, field.name.encode()) for field in dataclasses.fields(record)]


def _hash_value(hasher: Any, value: object) -> None:
    """Update a hash with one value, recursively; type and size are included, so that the encoding is unambiguous."""
    if type(value) in _SCALARS:
        hasher.update(f"{type(value).__name__} {value!r};".encode())
    else:
        _hash_object(hasher, value)


def _hash_object(hasher: Any, value: object) -> None:
    """Update a hash with a value that is not one of the most frequent scalar types."""
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            raise TypeError("an array of Python objects has no digest")
        array = np.asarray(value, order="C")
        hasher.update(f"array {array.dtype.str}{array.shape}".encode())
        if array.nbytes >= LARGE_ARRAY:
            hasher.update(_large_array_digest(array))
        else:
            hasher.update(array.data if array.size and array.dtype != np.bool_ else array.tobytes())
    elif isinstance(value, enum.Enum):
        hasher.update(f"enum {type(value).__name__} {value.value!r};".encode())
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        hasher.update(f"record {type(value).__name__}(".encode())
        for name, encoded in _encoded_field_names(type(value)):
            hasher.update(encoded)
            _hash_value(hasher, getattr(value, name))
    elif isinstance(value, list | tuple):
        if value and all(type(x) is str for x in value):
            hasher.update(f"strings {value!r};".encode())
            return
        hasher.update(f"list {len(value)}(".encode())
        for item in value:
            _hash_value(hasher, item)
    elif isinstance(value, Mapping):
        hasher.update(f"mapping {len(value)}(".encode())
        for key, item in value.items():
            _hash_value(hasher, key)
            _hash_value(hasher, item)
    elif isinstance(value, set | frozenset):
        _hash_value(hasher, sorted(value, key=repr))
    elif isinstance(value, bytes):
        hasher.update(f"bytes {len(value)} ".encode())
        hasher.update(value)
    elif value is None or isinstance(value, str | int | float | np.generic):
        hasher.update(f"{type(value).__name__} {value!r};".encode())
    else:
        raise TypeError(f"a {type(value).__name__} has no digest")


@cache
def source_digest(*packages: str) -> str:
    """Digest of the Python source files of some packages of Kinema; part of cache keys of computed results."""
    root = Path(__file__).parents[1]
    hasher = hashlib.sha256()
    for package in packages:
        files = sorted((root / package).rglob("*.py"))
        if not files:  # a misspelt package would make stale entries valid
            raise InternalError(f"there is no package kinema.{package}")
        for file in files:
            hasher.update(f"{file.relative_to(root).as_posix()}\n".encode())
            hasher.update(file.read_bytes())
    return hasher.hexdigest()[:40]


# ------------------------------------------------------------------------------------------------------------- entries


def load_entry(kind: str, key: str, suffix: str = ENTRY_SUFFIX) -> dict[str, Any] | None:
    """Values of an entry of the disk cache; None if it is missing, incomplete or damaged.

    Arrays are read-only. Updates the modification time of the file for LRU eviction.
    """
    file = cache_dir() / kind / f"{key}{suffix}"
    try:
        content = file.read_bytes()
    except OSError:
        return None
    values = _decode_entry(content, kind, key)
    if values is not None:
        _record_entry(kind, key, suffix, content)
        with contextlib.suppress(OSError):
            os.utime(file)
    return values


def store_entry(kind: str, key: str, values: EntryValues, suffix: str = ENTRY_SUFFIX) -> None:
    """Write an entry to the disk cache; errors are ignored. From time to time evicts least recently used entries."""
    content = _encode_entry(kind, key, values)
    _record_entry(kind, key, suffix, content)
    if write_atomically(cache_dir() / kind / f"{key}{suffix}", content):
        _StoreStatistics.bytes_since_eviction += len(content)
        limit = cache_limit()
        if _StoreStatistics.bytes_since_eviction > limit // 64 or not _StoreStatistics.has_evicted:
            _StoreStatistics.bytes_since_eviction, _StoreStatistics.has_evicted = 0, True
            evict(limit)


_memory_cache: LruCache[EntryValues] = LruCache(MEMORY_LIMIT)


def load_or_compute(
    kind: str, key: str, compute: Callable[[], EntryValues], suffix: str = ENTRY_SUFFIX, *, keep_in_memory: bool = False
) -> EntryValues:
    """Values of an entry of the disk cache, or those that `compute` returns, which are then stored.

    With `keep_in_memory` they are also kept in an in-memory LRU cache of `MEMORY_LIMIT` bytes.
    """
    if not keep_in_memory or _recordings:  # recordings need the files
        return _load_or_compute_on_disk(kind, key, compute, suffix)
    name = f"{cache_dir()} {kind}/{key}{suffix}"
    return _memory_cache.get_or_compute(name, lambda: _load_or_compute_on_disk(kind, key, compute, suffix), _byte_size)


def _load_or_compute_on_disk(kind: str, key: str, compute: Callable[[], EntryValues], suffix: str) -> EntryValues:
    """Values of an entry of the disk cache; computed and stored if missing. Does not use the in-memory cache."""
    values = load_entry(kind, key, suffix)
    if values is None:
        values = compute()
        store_entry(kind, key, values, suffix)
    return values


def _byte_size(values: EntryValues) -> int:
    return sum(x.nbytes if isinstance(x, np.ndarray) else len(x) for x in values.values() if hasattr(x, "__len__"))


_recordings: list[dict[str, bytes]] = []
"""Active recordings: file name -> content."""


@contextlib.contextmanager
def record_entries() -> Iterator[dict[str, bytes]]:
    """Context that records all cache entries read or written in it, by file name, for transfer to other machines."""
    entries: dict[str, bytes] = {}
    _recordings.append(entries)
    try:
        yield entries
    finally:
        _recordings[:] = [recording for recording in _recordings if recording is not entries]


def is_recording() -> bool:
    """Whether cache entries are being recorded."""
    return bool(_recordings)


def store_recorded_entries(entries: Mapping[str, bytes]) -> None:
    """Store entries recorded by another process, except those that exist already."""
    for name, content in entries.items():
        file = cache_dir() / name
        if not file.exists():
            write_atomically(file, content)


def _record_entry(kind: str, key: str, suffix: str, content: bytes) -> None:
    for recording in _recordings:
        recording[f"{kind}/{key}{suffix}"] = content


class _StoreStatistics:
    """Bytes that this process has stored since the last eviction."""

    bytes_since_eviction = 0
    has_evicted = False


def _encode_entry(kind: str, key: str, values: EntryValues) -> bytes:
    """Binary content of an entry: format tag, SHA-256 checksum, header length, JSON header, aligned blobs.

    The header holds kind, key, JSON values, and dtype, shape, position and size of each array or bytes value.
    """
    header: dict[str, Any] = {"kind": kind, "key": key, "values": {}, "blobs": {}}
    blobs, position = [], 0
    for name, value in values.items():
        if not isinstance(value, np.ndarray | bytes):
            header["values"][name] = value
            continue
        data = value if isinstance(value, bytes) else np.ascontiguousarray(value).reshape(-1).view(np.uint8).data
        dtype_and_shape = ["bytes", []] if isinstance(value, bytes) else [value.dtype.str, list(value.shape)]
        header["blobs"][name] = [*dtype_and_shape, position, len(data)]
        padding = -len(data) % _ALIGNMENT
        blobs += [data, b"\0" * padding]
        position += len(data) + padding
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(_MAGIC) + _CHECKSUM_BYTES + 4 + len(text)) % _ALIGNMENT)
    parts = [struct.pack("<I", len(text)), text, *blobs]
    hasher = hashlib.sha256()
    for part in parts:
        hasher.update(part)
    return b"".join([_MAGIC, hasher.digest(), *parts])


def _decode_entry(content: bytes, kind: str, key: str) -> dict[str, Any] | None:
    """Values of an entry from its binary content; None if the tag, checksum, kind or key do not match."""
    start = len(_MAGIC) + _CHECKSUM_BYTES
    body = memoryview(content)[start:]
    if content[: len(_MAGIC)] != _MAGIC or hashlib.sha256(body).digest() != content[len(_MAGIC) : start]:
        return None
    size = struct.unpack_from("<I", body)[0]
    header = json.loads(bytes(body[4 : 4 + size]))
    if (header["kind"], header["key"]) != (kind, key):
        return None
    values: dict[str, Any] = header["values"]
    blobs = body[4 + size :]
    for name, (dtype, shape, position, length) in header["blobs"].items():
        data = blobs[position : position + length]
        values[name] = bytes(data) if dtype == "bytes" else np.frombuffer(data, np.dtype(dtype)).reshape(shape)
    return values


# ---------------------------------------------------------------------------------------------------- size and eviction


@dataclasses.dataclass(frozen=True, slots=True)
class CacheUsage:
    """Number, size and age of the files in one subfolder of the cache."""

    kind: str
    """Name of the subfolder."""
    n_files: int
    n_bytes: int
    oldest_use: float
    """Last use of the least recently used file [s since the epoch]."""
    newest_use: float
    """Last use of the most recently used file [s since the epoch]."""


def cache_limit() -> int:
    """Limit of the total size of all entries [bytes]."""
    try:
        return max(int((cache_dir() / "limit").read_text(encoding="ascii")), 0)
    except (OSError, ValueError):
        return DEFAULT_CACHE_LIMIT


def set_cache_limit(limit: int) -> None:
    """Set the limit of the total size of all entries [bytes] and evict entries beyond it.

    OSError if it cannot be saved.
    """
    file = cache_dir() / "limit"
    if not write_atomically(file, str(limit).encode("ascii")):
        raise OSError(f"{file} cannot be written")
    evict(limit)


def cache_usage() -> list[CacheUsage]:
    """Number, size and age of the files of each subfolder of the cache, largest first."""
    result = []
    for folder in _existing_subfolders():
        files = [(used, size) for _, used, size in _scan_files(folder)]
        if files:
            times = [used for used, _ in files]
            result.append(CacheUsage(folder.name, len(files), sum(size for _, size in files), min(times), max(times)))
    return sorted(result, key=lambda usage: -usage.n_bytes)


def evict(limit: int) -> None:
    """Delete least recently used entries if their total size exceeds `limit` [bytes], down to 90 % of it.

    Also deletes abandoned temporary files.
    """
    entries, total, now = [], 0, time.time()
    for folder in _existing_subfolders():
        for file, used, size in _scan_files(folder):
            if file.endswith(".tmp") and now - used > _STALE_FILE_AGE:
                _delete_file(file)
            elif file.endswith((ENTRY_SUFFIX, DISTANCE_FIELD_SUFFIX)):
                entries.append((used, size, file))
                total += size
    if total <= limit:
        return
    for _, size, file in sorted(entries):
        if total <= _EVICTION_TARGET * limit:
            return
        _delete_file(file)
        total -= size


def clear_cache() -> int:
    """Delete all entries on disk and in memory; returns the number of bytes freed on disk."""
    freed = sum(usage.n_bytes for usage in cache_usage())
    _memory_cache.clear()
    for folder in _existing_subfolders():
        shutil.rmtree(folder, ignore_errors=True)
    return freed


def _existing_subfolders() -> list[Path]:
    return [folder for name in _CACHE_SUBFOLDERS if (folder := cache_dir() / name).is_dir()]


def _scan_files(folder: Path) -> Iterator[tuple[str, float, int]]:
    """Path, time of last use and size [bytes] of all files below a folder."""
    for root, _, names in os.walk(folder):
        for name in names:
            file = os.path.join(root, name)  # noqa: PTH118  Path is too slow for thousands of files
            with contextlib.suppress(OSError):
                status = os.stat(file)  # noqa: PTH116
                yield file, status.st_mtime, status.st_size


def _delete_file(file: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(file)  # noqa: PTH108

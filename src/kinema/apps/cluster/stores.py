"""Local and object-store folders with atomic writes, and completion records by content digest."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import re
import shutil
import tempfile
import uuid
from pathlib import Path, PurePosixPath
from typing import Any

from kinema.core import KinemaError, ReadError, WriteError, cache_dir, import_optional

# -------------------------------------------------------------------------------------------- folders and object stores

_URL_PATTERN = re.compile(r"^([a-z][a-z0-9+.-]+):/+(.*)$")
_READ_CHUNK_BYTES = 2**20
_OBJECT_STORE_PROTOCOLS = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oci", "oss", "memory"}
"""Protocols of stores in which a file becomes visible only when complete."""


def remote_url(path_or_url: str | os.PathLike[str]) -> str:
    """URL of a location outside the local file system, such as `s3://bucket/robots`; empty for a local path.

    The second slash, which `Path` removes, is restored.
    """
    text = os.fspath(path_or_url)
    found = _URL_PATTERN.match(text)
    if found and "://" in text and found[1] != "file":
        return text
    return f"{found[1]}://{found[2]}" if found and found[1] != "file" else ""


def file_digest(file: Path) -> str:
    """SHA-256 digest of the content of a file."""
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(_READ_CHUNK_BYTES):
            digest.update(block)
    return digest.hexdigest()


class Store:
    """Local or remote folder with atomic writes of files.

    Args:
        location: a path, or a URL supported by `fsspec`: `s3://bucket/folder`, `gs://...`, `memory://...`.
    """

    def __init__(self, location: str | os.PathLike[str]) -> None:
        self.url = remote_url(location)
        self.location = self.url or str(Path(location).absolute())
        self._fs: Any = None
        self._root = self.location.rstrip("/")
        self._error_types: type[Exception] = OSError
        if self.url:
            self._fs, self._root = _file_system(self.url)
            self._error_types = Exception  # remote file systems raise their own errors

    def __repr__(self) -> str:
        return f"<Store {self.location}>"

    def read(self, name: str) -> bytes | None:
        """Content of a file; None if it does not exist."""
        try:
            return self._fs.cat_file(self._path(name)) if self._fs else Path(self._path(name)).read_bytes()
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return None
        except self._error_types as error:
            raise ReadError(f"{self.location}/{name}: {_error_text(error)}") from None

    def write(self, name: str, content: bytes, *, fsync: bool = True) -> None:
        """Write a file atomically.

        Args:
            name: path relative to the folder.
            content: content of the file.
            fsync: whether to wait until the content is on the disk, which takes some ten milliseconds.
        """
        try:
            if self._fs:
                _upload_atomically(self._fs, self._path(name), content)
            else:
                _write_atomically(Path(self._path(name)), content, fsync)
        except self._error_types as error:
            raise WriteError(f"{self.location}/{name}: {_error_text(error)}") from None

    def remove(self, name: str) -> None:
        """Remove a file if it exists."""
        try:
            if self._fs:
                self._fs.rm_file(self._path(name))
            else:
                Path(self._path(name)).unlink(missing_ok=True)
        except FileNotFoundError:
            return
        except self._error_types as error:
            raise WriteError(f"{self.location}/{name}: {_error_text(error)}") from None

    def size(self, name: str) -> int:
        """Size of a file [bytes]; -1 if it does not exist."""
        try:
            return int(
                self._uncached_file_system().size(self._path(name))
                if self._fs
                else Path(self._path(name)).stat().st_size
            )
        except (FileNotFoundError, NotADirectoryError, TypeError):
            return -1
        except self._error_types as error:
            raise ReadError(f"{self.location}/{name}: {_error_text(error)}") from None

    def list_files(self, folder: str = "") -> list[str]:
        """Sorted names of the files in a folder."""
        place = self._path(folder) if folder else self._root
        if not self._fs:
            there = Path(place)
            return sorted(p.name for p in there.iterdir() if p.is_file()) if there.is_dir() else []
        try:
            found = self._uncached_file_system().ls(place, detail=True)
        except FileNotFoundError:
            return []
        except self._error_types as error:
            raise ReadError(f"{self.location}/{folder}: {_error_text(error)}") from None
        return sorted(PurePosixPath(f["name"]).name for f in found if f["type"] == "file")

    def upload_folder(self, folder: Path, last: Path) -> None:
        """Upload all files of a local folder; `last` is written after all others and marks the copy as complete."""
        files = sorted((p for p in folder.rglob("*") if p.is_file()), key=lambda p: (p == last, p))
        for file in files:
            self.write(file.relative_to(folder).as_posix(), file.read_bytes())

    def _uncached_file_system(self) -> Any:
        """File system with an empty directory cache."""
        self._fs.invalidate_cache()
        return self._fs

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"


def _error_text(error: Exception) -> str:
    """Message of an exception on one line."""
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(reason).split())


def _upload_atomically(file_system: Any, path: str, content: bytes) -> None:
    """Write a remote file atomically: directly in object stores, elsewhere by renaming a temporary file."""
    kinds = {file_system.protocol} if isinstance(file_system.protocol, str) else set(file_system.protocol)
    if kinds & _OBJECT_STORE_PROTOCOLS:
        file_system.pipe_file(path, content)
        return
    folder, _, name = path.rpartition("/")
    file_system.makedirs(folder, exist_ok=True)
    draft = f"{folder}/.{name}.{uuid.uuid4().hex[:12]}"
    try:
        file_system.pipe_file(draft, content)
        file_system.mv(draft, path)
    except BaseException:
        with contextlib.suppress(Exception):
            file_system.rm_file(draft)
        raise


def _write_atomically(file: Path, content: bytes, fsync: bool) -> None:
    """Write a local file by renaming a temporary file in the same folder."""
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            if fsync:
                stream.flush()
                os.fsync(stream.fileno())
        Path(draft).replace(file)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def _file_system(url: str) -> tuple[Any, str]:
    """File system and path of a URL, by `fsspec` or else Apache Arrow (S3, Google Cloud Storage, HDFS)."""
    fsspec = import_optional("fsspec", purpose=url, extra="cluster")
    try:
        return fsspec.core.url_to_fs(url)
    except (ImportError, ValueError) as error:
        try:
            return _arrow_file_system(url)
        except (ImportError, ValueError, OSError):
            raise KinemaError(f"{url}: nobody knows how to get there: {_error_text(error)}") from None


def _arrow_file_system(url: str) -> tuple[Any, str]:
    """Apache Arrow file system of a URL with the interface of `fsspec`, and the path in it."""
    arrow: Any = importlib.import_module("pyarrow.fs")
    wrapper: Any = importlib.import_module("fsspec.implementations.arrow")
    found, path = arrow.FileSystem.from_uri(url)
    return wrapper.ArrowFSWrapper(found), path


def mirror_to_cache(url: str) -> Path:
    """Local copy of a remote folder in the cache, reused while sizes and modification times are unchanged."""
    fs, root = _file_system(url)
    try:
        listed = fs.find(root, detail=True)
    except Exception as error:  # remote file systems raise their own errors
        raise ReadError(f"{url}: {_error_text(error)}") from None
    if not listed:
        raise ReadError(f"{url}: there is nothing there")
    marks = [
        (name, f.get("size"), str(f.get("ETag") or f.get("mtime") or f.get("created"))) for name, f in listed.items()
    ]
    key = hashlib.sha256(repr((url, sorted(marks))).encode()).hexdigest()[:24]
    folder = cache_dir() / "mirror" / key
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=folder.parent))
    for name in listed:
        file = draft / PurePosixPath(name).relative_to(PurePosixPath(root)).as_posix()
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(fs.cat_file(name))
    try:
        draft.rename(folder)
    except OSError:  # another process was faster
        shutil.rmtree(draft, ignore_errors=True)
    return folder


# --------------------------------------------------------------------------------------------------- completion records


class Ledger:
    """Completion records in a folder of a store: one JSON file for each key, written when the work is done.

    Args:
        store: the store.
        folder: folder of the records in the store.
    """

    def __init__(self, store: Store, folder: str) -> None:
        self._store, self._folder = store, folder
        self._file_names = set(store.list_files(folder))

    def get(self, key: str) -> dict[str, Any] | None:
        """Record of a key; None if missing or damaged."""
        if f"{key}.json" not in self._file_names:
            return None
        content = self._store.read(f"{self._folder}/{key}.json")
        try:
            found = json.loads(content or b"")
        except ValueError:
            return None
        return found if isinstance(found, dict) else None

    def record(self, key: str, record: dict[str, Any]) -> None:
        """Write the record of a key, without fsync: a record lost in a power failure only causes repeated work."""
        content = json.dumps(record, sort_keys=True).encode()
        self._store.write(f"{self._folder}/{key}.json", content, fsync=False)
        self._file_names.add(f"{key}.json")


def repr_digest(*values: Any) -> str:
    """Digest (32 hexadecimal digits) of the `repr` of values."""
    return hashlib.sha256(repr(values).encode()).hexdigest()[:32]


def files_unchanged(digests: dict[str, str]) -> bool:
    """Whether all files exist and have the given digests, by path."""
    try:
        return all(file_digest(Path(name)) == digest for name, digest in digests.items())
    except OSError:
        return False

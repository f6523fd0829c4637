"""Folders for results: on this machine, shared between machines, or in an object store."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import re
import shutil
import tempfile
import uuid
from pathlib import Path, PurePosixPath
from typing import Any

from kinema.foundation import KinemaError, ReadError, WriteError, cache_dir, require

_URL = re.compile(r"^([a-z][a-z0-9+.-]+):/+(.*)$")
_BLOCK = 2**20
_OBJECTS = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oci", "oss", "memory"}
"""File systems where a file is there once all of it is."""


def url_of(place: str | os.PathLike[str]) -> str:
    """The address of something that is not in this machine's folders, such as `s3://bucket/robots`; else nothing.

    A `Path` swallows one of the two slashes, which comes back here.
    """
    text = os.fspath(place)
    found = _URL.match(text)
    if found and "://" in text and found[1] != "file":
        return text
    return f"{found[1]}://{found[2]}" if found and found[1] != "file" else ""


def digest_of(file: Path) -> str:
    """What a file is known by: a digest of its content."""
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


class Store:
    """A folder whose files appear whole or not at all.

    Args:
        place: a path, or an address that `fsspec` knows: `s3://bucket/folder`, `gs://...`, `memory://...`.
    """

    def __init__(self, place: str | os.PathLike[str]) -> None:
        self.url = url_of(place)
        self.place = self.url or str(Path(place).absolute())
        self._fs: Any = None
        self._root = self.place.rstrip("/")
        self._troubles: type[Exception] = OSError
        if self.url:
            self._fs, self._root = _file_system(self.url)
            self._troubles = Exception  # their libraries have errors of their own: of credentials, of the network

    def __repr__(self) -> str:
        return f"<Store {self.place}>"

    def read(self, name: str) -> bytes | None:
        """The content of a file; None where there is none."""
        try:
            return self._fs.cat_file(self._path(name)) if self._fs else Path(self._path(name)).read_bytes()
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return None
        except self._troubles as error:
            raise ReadError(f"{self.place}/{name}: {_why(error)}") from None

    def write(self, name: str, content: bytes, *, to_disk: bool = True) -> None:
        """Write a file, whole or not at all.

        Args:
            name: which.
            content: all of it.
            to_disk: whether to wait until it is on the disk, and not only in the memory of this machine: that takes
                some ten milliseconds.
        """
        try:
            if self._fs:
                _send_whole(self._fs, self._path(name), content)
            else:
                _write_whole(Path(self._path(name)), content, to_disk)
        except self._troubles as error:
            raise WriteError(f"{self.place}/{name}: {_why(error)}") from None

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        try:
            if self._fs:
                self._fs.rm_file(self._path(name))
            else:
                Path(self._path(name)).unlink(missing_ok=True)
        except FileNotFoundError:
            return
        except self._troubles as error:
            raise WriteError(f"{self.place}/{name}: {_why(error)}") from None

    def size(self, name: str) -> int:
        """The bytes of a file; -1 where there is none."""
        try:
            return int(self._fresh().size(self._path(name)) if self._fs else Path(self._path(name)).stat().st_size)
        except (FileNotFoundError, NotADirectoryError, TypeError):
            return -1
        except self._troubles as error:
            raise ReadError(f"{self.place}/{name}: {_why(error)}") from None

    def names(self, folder: str = "") -> list[str]:
        """The files in a folder, sorted."""
        place = self._path(folder) if folder else self._root
        if not self._fs:
            there = Path(place)
            return sorted(p.name for p in there.iterdir() if p.is_file()) if there.is_dir() else []
        try:
            found = self._fresh().ls(place, detail=True)
        except FileNotFoundError:
            return []
        except self._troubles as error:
            raise ReadError(f"{self.place}/{folder}: {_why(error)}") from None
        return sorted(PurePosixPath(f["name"]).name for f in found if f["type"] == "file")

    def put(self, folder: Path, last: Path) -> None:
        """Copy all that is in a folder of this machine, one file after all others: until then, nothing is complete."""
        files = sorted((p for p in folder.rglob("*") if p.is_file()), key=lambda p: (p == last, p))
        for file in files:
            self.write(file.relative_to(folder).as_posix(), file.read_bytes())

    def _fresh(self) -> Any:
        """The file system, which may have noted what was there before others wrote."""
        self._fs.invalidate_cache()
        return self._fs

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"


def _why(error: Exception) -> str:
    """An error in one line."""
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(reason).split())


def _send_whole(files: Any, path: str, content: bytes) -> None:
    """Object stores show what is whole, and have no folders; of others a draft is moved to its place."""
    kinds = {files.protocol} if isinstance(files.protocol, str) else set(files.protocol)
    if kinds & _OBJECTS:
        files.pipe_file(path, content)
        return
    folder, _, name = path.rpartition("/")
    files.makedirs(folder, exist_ok=True)
    draft = f"{folder}/.{name}.{uuid.uuid4().hex[:12]}"
    try:
        files.pipe_file(draft, content)
        files.mv(draft, path)
    except BaseException:
        with contextlib.suppress(Exception):
            files.rm_file(draft)
        raise


def _write_whole(file: Path, content: bytes, to_disk: bool) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            if to_disk:
                stream.flush()
                os.fsync(stream.fileno())
        Path(draft).replace(file)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def _file_system(url: str) -> tuple[Any, str]:
    """Who knows how to get there: `fsspec`, or else Apache Arrow, which brings S3, Google's store and HDFS along."""
    fsspec = require("fsspec", purpose=url, extra="cluster")
    try:
        return fsspec.core.url_to_fs(url)
    except (ImportError, ValueError) as error:
        try:
            return _of_arrow(url)
        except (ImportError, ValueError, OSError):
            raise KinemaError(f"{url}: nobody knows how to get there: {_why(error)}") from None


def _of_arrow(url: str) -> tuple[Any, str]:
    """Apache Arrow's file system of an address, as one of `fsspec`'s, and the path in it."""
    arrow: Any = importlib.import_module("pyarrow.fs")
    wrapper: Any = importlib.import_module("fsspec.implementations.arrow")
    found, path = arrow.FileSystem.from_uri(url)
    return wrapper.ArrowFSWrapper(found), path


def mirrored(url: str) -> Path:
    """A copy of a folder elsewhere on this machine, kept from one time to the next as long as nothing changes there."""
    fs, root = _file_system(url)
    try:
        listed = fs.find(root, detail=True)
    except Exception as error:  # of the network, of credentials: their libraries have errors of their own
        raise ReadError(f"{url}: {_why(error)}") from None
    if not listed:
        raise ReadError(f"{url}: there is nothing there")
    marks = [
        (name, f.get("size"), str(f.get("ETag") or f.get("mtime") or f.get("created"))) for name, f in listed.items()
    ]
    key = hashlib.sha256(repr((url, sorted(marks))).encode()).hexdigest()[:24]
    place = cache_dir() / "mirror" / key
    if place.is_dir():
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=place.parent))
    for name in listed:
        file = draft / PurePosixPath(name).relative_to(PurePosixPath(root)).as_posix()
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(fs.cat_file(name))
    try:
        draft.rename(place)
    except OSError:  # another process was faster
        shutil.rmtree(draft, ignore_errors=True)
    return place

"""Folders for results: on this machine, shared between machines, or in an object store."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from pathlib import Path, PurePosixPath
from typing import Any

from kinema.foundation import KinemaError, ReadError, WriteError, cache_folder, require

_URL = re.compile(r"^([a-z][a-z0-9+.-]+):/+(.*)$")
_BLOCK = 2**20


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
        if self.url:
            self._fs, self._root = _file_system(self.url)

    def __repr__(self) -> str:
        return f"<Store {self.place}>"

    def read(self, name: str) -> bytes | None:
        """The content of a file; None where there is none."""
        try:
            return self._fs.cat_file(self._path(name)) if self._fs else Path(self._path(name)).read_bytes()
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return None
        except OSError as error:
            raise ReadError(f"{self.place}/{name}: {error.strerror or error}") from None

    def write(self, name: str, content: bytes) -> None:
        """Write a file, whole or not at all."""
        try:
            if self._fs:
                _pipe(self._fs, self._path(name), content)
            else:
                _write_whole(Path(self._path(name)), content)
        except OSError as error:
            raise WriteError(f"{self.place}/{name}: {error.strerror or error}") from None

    def size(self, name: str) -> int:
        """The bytes of a file; -1 where there is none."""
        try:
            return int(self._fs.size(self._path(name)) if self._fs else Path(self._path(name)).stat().st_size)
        except (OSError, TypeError):
            return -1

    def names(self, folder: str = "") -> list[str]:
        """The files in a folder, sorted."""
        place = self._path(folder) if folder else self._root
        if not self._fs:
            there = Path(place)
            return sorted(p.name for p in there.iterdir() if p.is_file()) if there.is_dir() else []
        try:
            found = self._fs.ls(place, detail=True)
        except FileNotFoundError:
            return []
        return sorted(PurePosixPath(f["name"]).name for f in found if f["type"] == "file")

    def put(self, folder: Path, last: Path) -> None:
        """Copy all that is in a folder of this machine, one file after all others: until then, nothing is complete."""
        files = sorted((p for p in folder.rglob("*") if p.is_file()), key=lambda p: (p == last, p))
        for file in files:
            self.write(file.relative_to(folder).as_posix(), file.read_bytes())

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"


def _pipe(files: Any, path: str, content: bytes) -> None:
    """Object stores show what is whole, and have no folders; others want theirs made first."""
    try:
        files.pipe_file(path, content)
    except FileNotFoundError:
        files.makedirs(path.rpartition("/")[0], exist_ok=True)
        files.pipe_file(path, content)


def _write_whole(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        Path(draft).replace(file)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def _file_system(url: str) -> tuple[Any, str]:
    fsspec = require("fsspec", purpose=url, extra="cluster")
    try:
        return fsspec.core.url_to_fs(url)
    except ImportError as error:
        raise KinemaError(f"{url}: {error}") from None
    except ValueError as error:
        raise KinemaError(f"{url}: nobody knows how to get there: {error}") from None


def mirrored(url: str) -> Path:
    """A copy of a folder elsewhere on this machine, kept from one time to the next as long as nothing changes there."""
    fs, root = _file_system(url)
    try:
        listed = fs.find(root, detail=True)
    except OSError as error:
        raise ReadError(f"{url}: {error}") from None
    if not listed:
        raise ReadError(f"{url}: there is nothing there")
    marks = [
        (name, f.get("size"), str(f.get("ETag") or f.get("mtime") or f.get("created"))) for name, f in listed.items()
    ]
    key = hashlib.sha256(repr((url, sorted(marks))).encode()).hexdigest()[:24]
    place = cache_folder() / "mirror" / key
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

"""Files appear whole or not at all: they are made in a temporary folder beside their place, then moved there."""

from __future__ import annotations

import glob
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from kinema.foundation import WriteError

_PROTECTED: ContextVar[frozenset[Path]] = ContextVar("files that may not be replaced", default=frozenset())


@contextmanager
def protecting(files: frozenset[Path]) -> Iterator[None]:
    """Refuse meanwhile to replace any of these files by something else."""
    token = _PROTECTED.set(files)
    try:
        yield
    finally:
        _PROTECTED.reset(token)


@contextmanager
def staging(target: Path) -> Iterator[Path]:
    """A folder to make files in; what is in it at the end moves to the target's folder, the target last.

    Args:
        target: the main file. Others may be made beside it, in folders of their own too.

    Raises:
        WriteError: the target's folder does not exist or cannot be written to, or the target is a folder.
    """
    folder = target.parent
    if not folder.is_dir():
        raise WriteError(f"{target}: there is no folder {folder}; make it first")
    if target.is_dir():
        raise WriteError(f"{target}: this is a folder, not a file")
    if _is_protected(target):
        raise WriteError(f"{target}: {_REFUSED}")
    try:
        draft = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=folder))
    except OSError as error:
        raise WriteError(f"{target}: {error.strerror or error}") from None
    try:
        yield draft
        _move(draft, target)
    except OSError as error:
        raise WriteError(f"{target}: {error.strerror or error}") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def remove_drafts(target: Path) -> None:
    """Remove what writers of a file have left that were killed; nobody may be writing it."""
    for draft in target.parent.glob(f".{glob.escape(target.name)}.*"):
        if draft.is_dir():
            shutil.rmtree(draft, ignore_errors=True)


_REFUSED = "this is one of the files that the robot is made of; it is replaced with force (--force) only"


@contextmanager
def errors_of(target: Path) -> Iterator[None]:
    """Errors of writing name the file, whatever part of it they are about."""
    try:
        yield
    except WriteError as error:
        message = str(error)
        raise error if message.startswith(str(target)) else WriteError(f"{target}: {message}") from None


def _move(draft: Path, target: Path) -> None:
    main = draft / target.name
    made = sorted(Path(folder, name) for folder, _, names in os.walk(draft) for name in names)
    if main not in made:
        raise WriteError(f"{target}: nothing was written")
    made.sort(key=lambda p: p == main)  # the main file last: until then, the old one holds
    places = [target.parent / source.relative_to(draft) for source in made]
    for source, place in zip(made, places, strict=True):
        if _is_protected(place) and place.read_bytes() != source.read_bytes():
            raise WriteError(f"{place}: {_REFUSED}")
    for folder in {place.parent for place in places} - {target.parent}:
        folder.mkdir(parents=True, exist_ok=True)
    mode = _mode_of_new_files()
    for source, place in zip(made, places, strict=True):
        kept = _mode_of(place)
        source.chmod(mode if kept is None else kept)
        os.replace(source, place)  # noqa: PTH105  the name says that an old file is replaced, in one step


def _is_protected(place: Path) -> bool:
    protected = _PROTECTED.get()
    return bool(protected) and place.resolve() in protected


def _mode_of(place: Path) -> int | None:
    """The permissions of a file that is to be replaced; None where there is none."""
    try:
        return place.stat().st_mode & 0o7777
    except FileNotFoundError:
        return None


def _mode_of_new_files() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask

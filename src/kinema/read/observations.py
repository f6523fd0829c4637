"""`FileObservations`: the files on which the result of a reader depends, and whether any of them changed since."""

from __future__ import annotations

import hashlib
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

RECENT_NS = 2_000_000_000
"""Age up to which a file may change again without new time stamps [ns]: its content is compared too."""


@dataclass(frozen=True, slots=True)
class FileState:
    """State of a path: absent, a folder, or a file with its time stamps and size."""

    identity: tuple[int, ...] = ()
    """Device, inode, type; of a file also size and times of its last changes [ns]; empty if there is no such path."""
    digest: str = ""
    """SHA-256 of the content of a file that was changed recently."""

    @classmethod
    def of(cls, path: str) -> FileState:
        """Present state of a path."""
        try:
            found = Path(path).stat()
            kind = stat.S_IFMT(found.st_mode)
            if not stat.S_ISREG(found.st_mode):
                return cls((found.st_dev, found.st_ino, kind))
            identity = (found.st_dev, found.st_ino, kind, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
            is_recent = time.time_ns() - max(found.st_mtime_ns, found.st_ctime_ns) < RECENT_NS
            return cls(identity, hashlib.sha256(Path(path).read_bytes()).hexdigest() if is_recent else "")
        except (OSError, ValueError):
            return cls()

    def is_current(self, path: str) -> bool:
        """Whether the path is still in this state."""
        now = FileState.of(path)
        if self.digest and now.identity == self.identity:
            return hashlib.sha256(Path(path).read_bytes()).hexdigest() == self.digest
        return now.identity == self.identity


@dataclass(slots=True)
class FileObservations:
    """States of the paths that a reader looked at."""

    states: dict[str, FileState] = field(default_factory=dict)
    """Path -> state before it was read."""
    is_complete: bool = False
    """Whether the reader reported all files on which its result depends."""

    def are_current(self) -> bool:
        """Whether all paths are still in the same state."""
        return all(state.is_current(path) for path, state in self.states.items())


_observations: ContextVar[FileObservations | None] = ContextVar("observations", default=None)


@contextmanager
def observe_files() -> Iterator[FileObservations]:
    """Collect the paths that readers report within the context."""
    observations = FileObservations()
    token = _observations.set(observations)
    try:
        yield observations
    finally:
        _observations.reset(token)


def observed(path: Path) -> Path:
    """Report a path on whose existence or content the result of a reader depends; returns the path."""
    observations, name = _observations.get(), str(path)
    if observations is not None and name not in observations.states:
        observations.states[name] = FileState.of(name)
    return path


def mark_complete() -> None:
    """Report that all files on which the result of a reader depends were observed."""
    observations = _observations.get()
    if observations is not None:
        observations.is_complete = True

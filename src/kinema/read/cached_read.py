"""`read_again`: the description of a file, kept in memory as long as no file on which it depends changes."""

from __future__ import annotations

import io
import os
import pickle
import threading
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kinema.core import Diagnostic, Diagnostics, Policy, log_errors
from kinema.description import Robot, World

from .api import read
from .observations import FileObservations, observe_files
from .resolve import ENVIRONMENT_VARIABLES

MEMORY_LIMIT = 64 * 2**20
"""Maximum size of all kept descriptions [bytes]."""
_PICKLE_PROTOCOL = 5
_COLLECTOR = "diagnostics"


class _Pickler(pickle.Pickler):
    """Pickler that leaves out the collector of diagnostics, which has a policy of the caller."""

    def __init__(self, file: io.BytesIO, collector: Diagnostics) -> None:
        super().__init__(file, _PICKLE_PROTOCOL)
        self._collector = collector

    def persistent_id(self, obj: object) -> str | None:
        return _COLLECTOR if obj is self._collector else None


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, collector: Diagnostics) -> None:
        super().__init__(file)
        self._collector = collector

    def persistent_load(self, pid: Any) -> Diagnostics:
        assert pid == _COLLECTOR
        return self._collector


@dataclass(frozen=True, slots=True, eq=False)
class _KeptDescription:
    """A description as bytes, its diagnostics, and the files on which it depends."""

    content: bytes
    diagnostics: tuple[Diagnostic, ...]
    observations: FileObservations

    def copy(self, policy: Policy) -> Robot | World:
        """A copy of the description; each diagnostic is reported to the policy again."""
        collector = Diagnostics(policy=policy)
        for diagnostic in self.diagnostics:
            collector.report(diagnostic)
        description: Robot | World = _Unpickler(io.BytesIO(self.content), collector).load()
        return description


_kept: OrderedDict[tuple[str, ...], _KeptDescription] = OrderedDict()
_lock = threading.Lock()


def read_again(source: str | os.PathLike[str], policy: Policy = log_errors) -> Robot | World:
    """Read a file as `read` does, or copy the description that was read from it before if nothing changed since.

    A change of any file on which the description depends is noticed: by its time stamps, size and inode, of files that
    had just been written also by their content. Kept are descriptions of MJCF and URDF files, in the memory of this
    process.
    """
    key = _key(source)
    with _lock:
        kept = _kept.get(key)
    if kept is not None and kept.observations.are_current():
        return kept.copy(policy)
    with observe_files() as observations:
        description = read(source, policy=policy)
    _keep(key, description, observations)
    return description


def kept_reading(source: str | os.PathLike[str]) -> object | None:
    """Identity of the description that `read_again` keeps of a file; None if it keeps none, or a file changed since.

    As long as the result is the same object, `read_again` returns equal descriptions.
    """
    with _lock:
        kept = _kept.get(_key(source))
    return kept if kept is not None and kept.observations.are_current() else None


def _key(source: str | os.PathLike[str]) -> tuple[str, ...]:
    """Path, working folder and environment variables by which a description is kept."""
    return (str(source), str(Path.cwd()), *(os.environ.get(name, "") for name in ENVIRONMENT_VARIABLES))


def _keep(key: tuple[str, ...], description: Robot | World, observations: FileObservations) -> None:
    """Keep a description if all files on which it depends are known; the least recently read ones are dropped."""
    kept = None
    if observations.is_complete:
        file = io.BytesIO()
        _Pickler(file, description.diagnostics).dump(description)
        kept = _KeptDescription(file.getvalue(), tuple(description.diagnostics.items), observations)
    with _lock:
        _kept.pop(key, None)
        if kept is not None and len(kept.content) <= MEMORY_LIMIT:
            _kept[key] = kept
            while sum(len(other.content) for other in _kept.values()) > MEMORY_LIMIT:
                _kept.popitem(last=False)

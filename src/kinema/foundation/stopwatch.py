"""Where the time goes while something is built: seconds by stage, each without those of the stages within it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

REST = "other"
"""What is in no stage."""


class StageSeconds(dict[str, float]):
    """Seconds by stage, in the order in which stages first began; their sum is all the time that passed."""

    def __init__(self) -> None:
        super().__init__()
        self._stack = [REST]
        self._since = time.perf_counter()

    def note(self) -> None:
        """The time until now belongs to the innermost stage."""
        now = time.perf_counter()
        self[self._stack[-1]] = self.get(self._stack[-1], 0.0) + now - self._since
        self._since = now

    def enter(self, name: str) -> None:
        """A stage begins."""
        self.note()
        self._stack.append(name)

    def leave(self) -> None:
        """The innermost stage ends."""
        self.note()
        self._stack.pop()


class _Recording(threading.local):
    now: StageSeconds | None = None


_recording = _Recording()


@contextmanager
def recorded_stages() -> Iterator[StageSeconds]:
    """Seconds of the stages that this thread goes through meanwhile; what other threads do counts for nothing."""
    before, found = _recording.now, StageSeconds()
    _recording.now = found
    try:
        yield found
    finally:
        found.note()
        _recording.now = before


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Something that takes its time; costs next to nothing where nobody records it."""
    found = _recording.now
    if found is None:
        yield
        return
    found.enter(name)
    try:
        yield
    finally:
        found.leave()

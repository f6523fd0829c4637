"""Wall-clock time per stage of a build, exclusive of nested stages."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

UNATTRIBUTED = "other"
"""Name of the time outside of all stages."""


class StageTimes(dict[str, float]):
    """Seconds per stage, in the order of first entry; they add up to the total time."""

    def __init__(self) -> None:
        super().__init__()
        self._stack = [UNATTRIBUTED]
        self._since = time.perf_counter()

    def accumulate(self) -> None:
        """Add the time since the last call to the innermost active stage."""
        now = time.perf_counter()
        self[self._stack[-1]] = self.get(self._stack[-1], 0.0) + now - self._since
        self._since = now

    def enter(self, name: str) -> None:
        """Begin a stage, nested in the current one."""
        self.accumulate()
        self._stack.append(name)

    def leave(self) -> None:
        """End the innermost stage."""
        self.accumulate()
        self._stack.pop()


class _ThreadRecording(threading.local):
    """Stage times being recorded by each thread."""

    active: StageTimes | None = None


_recording = _ThreadRecording()


@contextmanager
def record_stages() -> Iterator[StageTimes]:
    """Context that records the time per stage of this thread; other threads are not included."""
    previous, times = _recording.active, StageTimes()
    _recording.active = times
    try:
        yield times
    finally:
        times.accumulate()
        _recording.active = previous


@contextmanager
def timed_stage(name: str) -> Iterator[None]:
    """Context manager of a named stage: its time is added to the recording of this thread (`record_stages`), if any."""
    times = _recording.active
    if times is None:
        yield
        return
    times.enter(name)
    try:
        yield
    finally:
        times.leave()

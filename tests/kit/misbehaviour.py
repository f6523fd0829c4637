"""Tasks that do not end well, for those who have others do their work: processes must be able to import them."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path


def misbehave(how: str) -> str:
    """Crash, hang or raise; anything else is given back."""
    if how == "crash":
        os._exit(3)
    if how == "hang":
        time.sleep(600)
    if how == "raise":
        raise ValueError("no")
    return how


def talk(how: str) -> str:
    """Say something, in this language and below it, then misbehave."""
    print("first words")
    sys.stdout.flush()
    os.write(2, b"last words\n")
    return misbehave(how)


def crash_once(marker: str) -> int:
    """Crash where the marker is not there yet, and leave it."""
    if not Path(marker).exists():
        Path(marker).touch()
        os._exit(3)
    return os.getpid()


class Counting:
    """Made once in a process, it counts its tasks."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, task: int) -> tuple[int, int]:
        """Who worked, and on how many tasks so far."""
        self.count += 1
        return os.getpid(), self.count


def cannot_start() -> object:
    """What makes nothing."""
    raise ValueError("there is nothing to work with")


def seen_gpus(seconds: float) -> str:
    """Which GPUs this process may see, and with how many threads it works; after a while, so that others work too."""
    from kinema.runtime import n_threads  # which others here need not wait for

    time.sleep(seconds)
    return f"{os.environ.get('CUDA_VISIBLE_DEVICES')} {n_threads()}"

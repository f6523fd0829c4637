"""A bar that says what takes so long; only where somebody is watching."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from kinema.foundation import stage as recorded


class Progress:
    """Stages of work, shown on a terminal, and how long each took."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self.seconds: dict[str, float] = {}
        """By the first word of a stage."""
        self._depth = 0
        self._bar: Any = None
        self._task: Any = None

    @contextmanager
    def showing(self, stages: int) -> Iterator[None]:
        """A bar for so many stages, gone again at the end."""
        if self._depth:
            yield
            return
        self._depth += 1
        self._bar = None if self.quiet else _bar()
        try:
            with self._bar or nullcontext():
                if self._bar is not None:
                    self._task = self._bar.add_task("", total=stages)
                yield
        finally:
            self._depth -= 1
            self._bar = None

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        """While something takes its time; in a bar of its own where no stages are being shown."""
        with self.showing(1):
            if self._bar is not None:
                self._bar.update(self._task, description=stage, refresh=True)
            since = time.perf_counter()
            word = stage.split(maxsplit=1)[0]
            with recorded(word):
                yield
            self.seconds[word] = self.seconds.get(word, 0.0) + time.perf_counter() - since
            if self._bar is not None:
                self._bar.advance(self._task)


def _bar() -> Any:
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        return None
    from rich.progress import BarColumn, Progress as RichProgress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=24), TimeElapsedColumn())
    return RichProgress(*columns, console=console, transient=True)

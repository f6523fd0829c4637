"""A bar that says what takes so long; only where somebody is watching."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Progress:
    """Stages of work, shown on a terminal, and how long each took."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self.seconds: dict[str, float] = {}
        """By the first word of a stage."""
        self._active = False
        self._bar: Any = None
        self._task: Any = None
        self._stage = ""
        self._since = 0.0

    @contextmanager
    def showing(self, stages: int) -> Iterator[None]:
        """A bar for so many stages, gone again at the end."""
        self._active = True
        self._bar = None if self.quiet else _bar()
        try:
            if self._bar is None:
                yield
            else:
                with self._bar:
                    self._task = self._bar.add_task("", total=stages)
                    yield
        finally:
            self._finish()
            self._bar, self._active = None, False

    def __call__(self, stage: str) -> None:
        """The stage that begins now; nothing where no stages are being shown, as nobody would say when it ends."""
        if not self._active:
            return
        began = bool(self._stage)
        self._finish()
        self._stage, self._since = stage, time.perf_counter()
        if self._bar is not None:
            self._bar.update(self._task, description=stage, advance=1 if began else 0, refresh=True)

    def _finish(self) -> None:
        if self._stage:
            word = self._stage.split()[0]
            self.seconds[word] = self.seconds.get(word, 0.0) + time.perf_counter() - self._since
            self._stage = ""


def _bar() -> Any:
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        return None
    from rich.progress import BarColumn, Progress as RichProgress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=24), TimeElapsedColumn())
    return RichProgress(*columns, console=console, transient=True)

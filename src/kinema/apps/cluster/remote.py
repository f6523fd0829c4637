"""What runs on a node of a cluster: a worker, and what it answers."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from kinema.foundation import THREADS_VARIABLE

from .capturing import Log
from .executor import Work, attempt
from .nodes import facts


class Said(NamedTuple):
    """What came of a task."""

    number: int
    """Which."""
    result: Any
    failure: str
    story: str
    is_start: bool = False
    """Whether there is nobody who could work, rather than something wrong with the task."""


class RemoteWorker:
    """It says what the node is like, then works on one task after the other.

    What does the work may have a method `begin(task)`, which gives what is left to do then: that is done while the
    next task is begun, and said with what comes of that one. A thread does it, and no second call of this worker:
    where Ray allows several, its own thread asks for the interpreter a hundred times a second.

    Args:
        start: makes what does the work.
        threads: how many the node has for it; 0 for all.
        is_ahead: whether to answer before all of a task is done. Who asks for that has to ask for the `rest`.
    """

    def __init__(self, start: Callable[[], Work[Any, Any]], threads: int = 0, is_ahead: bool = False) -> None:
        self._start, self._is_ahead = start, is_ahead
        self._work: Any = None
        self._log: Log | None = None
        self._aside = ThreadPoolExecutor(1, thread_name_prefix="kinema-rest")
        self._left: list[tuple[int, Future[tuple[Any, str, str]]]] = []
        if threads:
            os.environ[THREADS_VARIABLE] = str(threads)  # the node's other cores are other workers'

    def hello(self) -> dict[str, Any]:
        """What the node is like."""
        return facts()

    def work(self, number: int, task: Any) -> list[Said]:
        """Do a task; what came of those that are done, with what was printed where one failed."""
        log = self._begin()
        if self._work is None:
            self._work, failure, story = attempt(lambda _: self._start(), None)
            if self._work is None:
                return [Said(number, None, failure, story, is_start=True)]
        is_divided = self._is_ahead and hasattr(self._work, "begin")
        result: Any
        result, failure, story = attempt(self._work.begin if is_divided else self._work, task)
        if failure:
            story = "\n".join(part for part in (log.tail(), story) if part)
        said = self.rest()
        if is_divided and not failure:
            self._left.append((number, self._aside.submit(attempt, lambda _, rest=result: rest(), None)))  # ty: ignore[not-callable]
            return said
        return [*said, Said(number, result, failure, story)]

    def rest(self) -> list[Said]:
        """What came of a task that was answered before all of it was done."""
        found = [Said(number, *left.result()) for number, left in self._left]
        self._left.clear()
        return found

    def _begin(self) -> Log:
        """From now on, what is printed is this task's."""
        if self._log is None:
            with tempfile.NamedTemporaryFile(prefix="kinema-log-") as file:  # it stays open, but leaves no name behind
                self._log = Log(Path(file.name))
        self._log.begin()
        return self._log

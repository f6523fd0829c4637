"""Executor interface: runs tasks in workers and yields outcomes as they complete, with retries and output capture.

There are three executors: `InProcessExecutor`, `LocalProcessExecutor` and `RayExecutor`. Tasks are submitted lazily, as
outcomes are consumed, so that memory does not grow with the number of tasks.
"""

from __future__ import annotations

import os
import sys
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from kinema.core import KinemaError

# -------------------------------------------------------------------------------------------------- tasks and executors

TaskT = TypeVar("TaskT")
ResultT = TypeVar("ResultT")
TaskFunction = Callable[[TaskT], ResultT]
"""Function that maps a task to its result."""
WAIT_FOR_RESULTS = object()
"""Sentinel among tasks: the next task depends on outcomes that have not been returned yet."""
MAX_LOG_CHARS = 4000
"""Number of trailing characters of the output of a failed task that are kept."""


@dataclass(frozen=True, slots=True)
class Outcome(Generic[TaskT, ResultT]):
    """Result or failure of one task."""

    task: TaskT
    result: ResultT | None
    failure: str = ""
    """Reason of the failure in one sentence; empty on success."""
    log: str = ""
    """Traceback and last output of a failed task."""
    attempts: int = 1
    """Number of attempts: more than one if a worker died."""
    died: bool = False
    """Whether the worker died, or was killed after the timeout."""


@dataclass(frozen=True, slots=True)
class TaskLimits:
    """Limits of time, retries and worker reuse of a task."""

    timeout: float = 600.0
    """Maximum time including worker creation [s], after which the worker is killed.

    Not applied by `InProcessExecutor`.
    """
    retries: int = 0
    """Number of retries after the death of a worker. An exception of the task is its outcome and is not retried."""
    max_tasks_per_worker: int = 0
    """Number of tasks after which a worker is replaced, 0 for never; 1 isolates tasks from each other."""
    n_prefetched: int = 0
    """Number of additional tasks queued at each cluster worker, so that workers never wait for the next task.

    The function that `begin(task)` of a worker returns is then executed while the next task runs.
    """

    @property
    def n_assigned_tasks(self) -> int:
        """Number of tasks assigned to a worker at a time; 1 if tasks may not be retried or workers are replaced."""
        return 1 + self.n_prefetched if self.retries and not self.max_tasks_per_worker else 1


class Executor(ABC):
    """Runs tasks in workers."""

    name = ""
    """Name in progress bars."""

    @property
    @abstractmethod
    def n_workers(self) -> int:
        """Number of tasks that run at the same time, as currently known."""

    @abstractmethod
    def run(
        self,
        worker_factory: Callable[[], TaskFunction[TaskT, ResultT]],
        tasks: Iterable[TaskT],
        limits: TaskLimits | None = None,
    ) -> Generator[Outcome[TaskT, ResultT]]:
        """Run all tasks and yield their outcomes as they complete, in any order.

        Args:
            worker_factory: creates the function that processes tasks, once per worker; `as_worker_factory(function)`
                for a function without state. Must be importable; factory, tasks and results must be picklable.
            tasks: arguments of that function, consumed one by one as workers become free. `WAIT_FOR_RESULTS`: no
                task is available at the moment; a task, or the end, must follow once all outcomes have been consumed.
            limits: limits of each task.

        Raises:
            KinemaError: a worker cannot be created, or no worker is left.
        """

    def close(self) -> None:  # noqa: B027  optional
        """Release the resources of the executor."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class InProcessExecutor(Executor):
    """Executor that runs tasks in the calling process, one after another."""

    name = "here"

    @property
    def n_workers(self) -> int:
        """Always 1."""
        return 1

    def run(
        self,
        worker_factory: Callable[[], TaskFunction[TaskT, ResultT]],
        tasks: Iterable[TaskT],
        limits: TaskLimits | None = None,
    ) -> Generator[Outcome[TaskT, ResultT]]:
        """Run all tasks; see `Executor.run`. The timeout is not applied."""
        work = worker_factory()
        for task in tasks:
            if task is WAIT_FOR_RESULTS:
                continue
            result, failure, log = run_task(work, task)
            yield Outcome(task, result, failure, log)


def as_worker_factory(function: TaskFunction[TaskT, ResultT]) -> Callable[[], TaskFunction[TaskT, ResultT]]:
    """Worker factory that returns a given function."""
    return partial(_identity, function)


def _identity(function: TaskFunction[TaskT, ResultT]) -> TaskFunction[TaskT, ResultT]:
    return function


def run_task(function: TaskFunction[TaskT, ResultT], task: TaskT) -> tuple[ResultT | None, str, str]:
    """Call a function with a task: returns the result or None, the reason of a failure, and its traceback."""
    try:
        return function(task), "", ""
    except KinemaError as error:
        return None, str(error), traceback.format_exc()[-MAX_LOG_CHARS:]
    except Exception as error:  # any error is the outcome of this task only
        return None, f"{type(error).__name__}: {error}", traceback.format_exc()[-MAX_LOG_CHARS:]


@dataclass(slots=True)
class TaskAttempt:
    """A task and the number of its attempts."""

    task: Any
    n_attempts: int = 0
    is_isolated: bool = False
    """Whether a worker died while it had this task: the task then runs without other tasks on its worker."""


class TaskQueue:
    """Queue of tasks: tasks whose worker died come before new tasks, which are consumed lazily."""

    def __init__(self, tasks: Iterable[Any], retries: int) -> None:
        self._new = iter(tasks)
        self._retries_pending: deque[TaskAttempt] = deque()
        self._peeked: deque[Any] = deque()
        self._retries = retries
        self.is_empty = False
        """Whether the last request found no task."""

    def next_attempt(self) -> TaskAttempt | None:
        """Next task with its number of attempts incremented; None if no task is available now."""
        if self._retries_pending:
            attempt = self._retries_pending.popleft()
        elif self._peeked:
            attempt = TaskAttempt(self._peeked.popleft())
        else:
            attempt = next((TaskAttempt(task) for task in self._new), None)
        self.is_empty = attempt is None
        if attempt is not None and attempt.task is WAIT_FOR_RESULTS:
            return None
        if attempt is not None:
            attempt.n_attempts += 1
        return attempt

    def peek(self) -> None:
        """Update `is_empty` by fetching a new task without starting it."""
        if not self._retries_pending and not self._peeked:
            found = next((TaskAttempt(task) for task in self._new), None)
            self.is_empty = found is None
            if found is not None and found.task is not WAIT_FOR_RESULTS:
                self._peeked.append(found.task)

    def has_new_tasks(self, count: int) -> bool:
        """Whether at least `count` new tasks are available and no retry is pending."""
        while not self._retries_pending and len(self._peeked) < count:
            found = next(self._new, WAIT_FOR_RESULTS)
            if found is WAIT_FOR_RESULTS:
                return False
            self._peeked.append(found)
        return not self._retries_pending

    def put_back(self, attempt: TaskAttempt) -> None:
        """Requeue a task that had not started when its worker died over another task."""
        attempt.n_attempts, attempt.is_isolated, self.is_empty = attempt.n_attempts - 1, True, False
        self._retries_pending.append(attempt)

    def worker_died(self, attempt: TaskAttempt, reason: str, log: str = "") -> Outcome[Any, Any] | None:
        """Requeue the task whose worker died, or return its final outcome if no retry is left."""
        if attempt.n_attempts <= self._retries:
            self._retries_pending.append(attempt)
            self.is_empty, attempt.is_isolated = False, True
            return None
        more = f" ({attempt.n_attempts} times)" if attempt.n_attempts > 1 else ""
        return Outcome(attempt.task, None, reason + more, log, attempt.n_attempts, died=True)


# ------------------------------------------------------------------------------------------------------- output capture


class OutputLog:
    """Redirects the standard output and error of this process, including native libraries, to a file."""

    def __init__(self, file: Path) -> None:
        self._file = os.open(file, os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o600)
        for stream in (1, 2):
            os.dup2(self._file, stream)

    def clear(self) -> None:
        """Delete the recorded output, before a new task."""
        _flush_streams()
        os.ftruncate(self._file, 0)

    def tail(self) -> str:
        """Last characters of the recorded output."""
        _flush_streams()
        return read_tail(self._file)


def read_tail(descriptor: int) -> str:
    """Last `MAX_LOG_CHARS` bytes of an open file as text."""
    size = os.fstat(descriptor).st_size
    return os.pread(descriptor, MAX_LOG_CHARS, max(0, size - MAX_LOG_CHARS)).decode(errors="replace")


def _flush_streams() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()

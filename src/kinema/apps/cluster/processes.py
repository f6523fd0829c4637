"""Processes of this machine: one that crashes or hangs takes no other task with it."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from kinema.foundation import THREADS_VARIABLE, KinemaError

from .capturing import Log, tail_of
from .executor import Executor, Limits, Outcome, Queue, Result, Task, Try, Work, always, attempt

_GRACE = 2.0
"""How long a process that is asked to stop may clean up [s]."""


def default_jobs() -> int:
    """As many as there are processors for us."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def work_on_all(
    function: Work[Task, Result], tasks: Iterable[Task], *, jobs: int, seconds: float, preload: Sequence[str] = ()
) -> Iterator[Outcome[Task, Result]]:
    """Call a function of a module with every task, each in a process of its own; see `LocalProcesses`."""
    return LocalProcesses(jobs, preload).run(always(function), tasks, Limits(seconds, per_worker=1))


@dataclass(slots=True)
class _Worker:
    process: BaseProcess
    connection: Connection
    log: Any
    """A file that has no name any more once the process has opened it."""
    one: Try | None = None
    """What it works on."""
    until: float = 0.0
    done: int = 0
    lives: bool = field(default=True)


class LocalProcesses(Executor):
    """Processes of this machine.

    Args:
        jobs: how many work at the same time; None for one per CPU.
        preload: modules that all of them need, loaded once where the platform can.
    """

    name = "local processes"

    def __init__(self, jobs: int | None = None, preload: Sequence[str] = ()) -> None:
        if jobs is not None and jobs < 1:
            raise KinemaError(f"expected at least one process, not {jobs}")
        self._jobs = jobs or default_jobs()
        forks = "forkserver" in multiprocessing.get_all_start_methods()
        self._context: Any = multiprocessing.get_context("forkserver" if forks else "spawn")
        if forks and preload:
            self._context.set_forkserver_preload(list(preload))

    @property
    def workers(self) -> int:
        """How many processes there are."""
        return self._jobs

    def run(
        self, start: Callable[[], Work[Task, Result]], tasks: Iterable[Task], limits: Limits | None = None
    ) -> Iterator[Outcome[Task, Result]]:
        """Do all tasks; see `Executor.run`."""
        limits = limits or Limits()
        queue = Queue(tasks, limits.retries)
        crew: list[_Worker] = []
        try:
            while True:
                self._give_out(crew, queue, start, limits)
                busy = [w for w in crew if w.one is not None]
                if not busy:
                    return
                wait([w.connection for w in busy], timeout=0.2)
                heard = [_outcome(worker, queue, limits) for worker in busy]
                crew = [w for w in crew if w.lives]
                self._give_out(crew, queue, start, limits)  # nobody waits for whoever takes the outcomes
                yield from (outcome for outcome in heard if outcome is not None)
        finally:
            _dismiss(crew)

    def _give_out(self, crew: list[_Worker], queue: Queue, start: Any, limits: Limits) -> None:
        """A task for everybody who has none, as long as there are tasks."""
        while True:
            idle = next((w for w in crew if w.one is None), None)
            if idle is None and len(crew) >= self._jobs:
                return
            one = queue.take()
            if one is None:
                return
            if idle is None:
                idle = self._hire(start)
                crew.append(idle)
            idle.one, idle.until = one, time.monotonic() + limits.seconds
            with _sendable(one.task):
                idle.connection.send(one.task)

    def _hire(self, start: Any) -> _Worker:
        ours, theirs = self._context.Pipe()
        log = tempfile.NamedTemporaryFile(prefix="kinema-log-")  # noqa: SIM115  it lives as long as the worker
        threads = max(1, default_jobs() // self._jobs)
        process = self._context.Process(target=_serve, args=(start, theirs, log.name, threads), daemon=True)
        with _sendable(start):
            process.start()
        theirs.close()
        return _Worker(process, ours, log)


@contextmanager
def _sendable(what: Any) -> Iterator[None]:
    """Say so in one sentence where something cannot go to another process."""
    try:
        yield
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        hint = "what it is made of has to be defined in a module, not in a function or as a lambda"
        raise KinemaError(f"{what!r:.120} cannot be sent to another process ({error}): {hint}") from None


def _outcome(worker: _Worker, queue: Queue, limits: Limits) -> Outcome[Any, Any] | None:
    """What came of a worker's task; None while it works, and where the task is to be begun again."""
    one = worker.one
    assert one is not None
    if worker.connection.poll():
        try:
            kind, result, failure, log = worker.connection.recv()
        except (EOFError, ConnectionResetError):
            worker.process.join()
            why = f"its process ended with status {worker.process.exitcode}"
            outcome = queue.lost(one, why, tail_of(worker.log.fileno()))
            _end(worker)
            return outcome
        if kind == "start":
            raise KinemaError(failure)
        worker.one, worker.done = None, worker.done + 1
        if worker.done == limits.per_worker:
            worker.connection.close()
            worker.process.join(_GRACE)
            _end(worker)
        return Outcome(one.task, result, failure, log, one.count)
    if time.monotonic() > worker.until:
        worker.process.kill()
        worker.process.join()
        log = tail_of(worker.log.fileno())
        _end(worker)
        return Outcome(one.task, None, f"it took more than {limits.seconds:g} s", log, one.count, died=True)
    return None


def _end(worker: _Worker) -> None:
    worker.one, worker.lives = None, False
    worker.connection.close()
    worker.log.close()


def _dismiss(crew: Iterable[_Worker]) -> None:
    for worker in crew:
        worker.process.terminate()
    for worker in crew:
        worker.process.join(_GRACE)
        worker.process.kill()
        worker.process.join()
        _end(worker)


def _serve(start: Callable[[], Work[Any, Any]], connection: Connection, log_file: str, threads: int) -> None:
    """The life of a worker: tasks until there are no more."""
    os.environ.setdefault(THREADS_VARIABLE, str(threads))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that drafts of files are removed
    log = Log(Path(log_file))
    faulthandler.enable(2)
    work = None
    while True:
        try:
            task = connection.recv()
        except (EOFError, OSError, KeyboardInterrupt):
            return
        log.begin()
        if work is None:
            work, failure, story = attempt(lambda _: start(), None)
            if work is None:
                connection.send(("start", None, failure, story))
                return
        result, failure, story = attempt(work, task)
        if failure:
            story = "\n".join(part for part in (log.tail(), story) if part)
        connection.send(("task", result, failure, story))

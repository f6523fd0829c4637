"""Executor on processes of this machine; a crashing or hanging process costs only its own task."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from kinema.core import THREADS_ENV_VARIABLE, KinemaError

from .executor import (
    Executor,
    Outcome,
    OutputLog,
    ResultT,
    TaskAttempt,
    TaskFunction,
    TaskLimits,
    TaskQueue,
    TaskT,
    as_worker_factory,
    read_tail,
    run_task,
)

_STOP_TIMEOUT = 2.0
"""Time that a process has for cleanup after SIGTERM [s]."""


def default_jobs() -> int:
    """Number of CPUs available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_in_processes(
    function: TaskFunction[TaskT, ResultT],
    tasks: Iterable[TaskT],
    *,
    jobs: int,
    timeout: float,
    preload: Sequence[str] = (),
) -> Generator[Outcome[TaskT, ResultT]]:
    """Call a module-level function with every task, each in a new process; see `LocalProcessExecutor`."""
    return LocalProcessExecutor(jobs, preload).run(
        as_worker_factory(function), tasks, TaskLimits(timeout, max_tasks_per_worker=1)
    )


@dataclass(slots=True)
class _Worker:
    process: BaseProcess
    connection: Connection
    log: Any
    """Temporary file with the output of the process."""
    attempt: TaskAttempt | None = None
    """Task in progress."""
    deadline: float = 0.0
    n_done: int = 0
    is_alive: bool = field(default=True)


class LocalProcessExecutor(Executor):
    """Executor on processes of this machine.

    Args:
        jobs: number of processes; None for one per CPU.
        preload: modules that every process needs, loaded once in the fork server where the platform has one.
    """

    name = "local processes"

    def __init__(self, jobs: int | None = None, preload: Sequence[str] = ()) -> None:
        if jobs is not None and jobs < 1:
            raise KinemaError(f"expected at least one process, not {jobs}")
        self._n_processes = jobs or default_jobs()
        forks = "forkserver" in multiprocessing.get_all_start_methods()
        self._context: Any = multiprocessing.get_context("forkserver" if forks else "spawn")
        if forks and preload:
            self._context.set_forkserver_preload(list(preload))

    @property
    def n_workers(self) -> int:
        """Number of processes."""
        return self._n_processes

    def run(
        self,
        worker_factory: Callable[[], TaskFunction[TaskT, ResultT]],
        tasks: Iterable[TaskT],
        limits: TaskLimits | None = None,
    ) -> Generator[Outcome[TaskT, ResultT]]:
        """Run all tasks; see `Executor.run`."""
        limits = limits or TaskLimits()
        queue = TaskQueue(tasks, limits.retries)
        workers: list[_Worker] = []
        try:
            while True:
                self._assign_tasks(workers, queue, worker_factory, limits)
                busy = [w for w in workers if w.attempt is not None]
                if not busy:
                    return
                wait([w.connection for w in busy], timeout=0.2)
                outcomes = [_poll_worker(worker, queue, limits) for worker in busy]
                workers = [w for w in workers if w.is_alive]
                self._assign_tasks(workers, queue, worker_factory, limits)  # workers do not wait for the consumer
                yield from (outcome for outcome in outcomes if outcome is not None)
        finally:
            _stop_workers(workers)

    def _assign_tasks(self, workers: list[_Worker], queue: TaskQueue, worker_factory: Any, limits: TaskLimits) -> None:
        """Send a task to every idle worker, and start workers up to the limit, while tasks are available."""
        while True:
            idle = next((w for w in workers if w.attempt is None), None)
            if idle is None and len(workers) >= self._n_processes:
                return
            attempt = queue.next_attempt()
            if attempt is None:
                return
            if idle is None:
                idle = self._start_worker(worker_factory)
                workers.append(idle)
            idle.attempt, idle.deadline = attempt, time.monotonic() + limits.timeout
            with _explain_pickling_error(attempt.task):
                idle.connection.send(attempt.task)

    def _start_worker(self, worker_factory: Any) -> _Worker:
        """Start a process with a pipe and a log file."""
        ours, theirs = self._context.Pipe()
        log = tempfile.NamedTemporaryFile(prefix="kinema-log-")  # noqa: SIM115  closed with the worker
        threads = max(1, default_jobs() // self._n_processes)
        process = self._context.Process(
            target=_worker_main, args=(worker_factory, theirs, log.name, threads), daemon=True
        )
        with _explain_pickling_error(worker_factory):
            process.start()
        theirs.close()
        return _Worker(process, ours, log)


@contextmanager
def _explain_pickling_error(value: Any) -> Iterator[None]:
    """Context manager that turns a pickling error of `value` into a `KinemaError`."""
    try:
        yield
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        hint = "what it is made of has to be defined in a module, not in a function or as a lambda"
        raise KinemaError(f"{value!r:.120} cannot be sent to another process ({error}): {hint}") from None


def _poll_worker(worker: _Worker, queue: TaskQueue, limits: TaskLimits) -> Outcome[Any, Any] | None:
    """Outcome of a worker's task; None while the task runs, and if it is requeued after the death of the worker.

    Kills a worker whose deadline has passed, and closes a worker that has processed its maximum number of tasks.
    """
    attempt = worker.attempt
    assert attempt is not None
    if worker.connection.poll():
        try:
            kind, result, failure, log = worker.connection.recv()
        except (EOFError, ConnectionResetError):
            worker.process.join()
            why = f"its process ended with status {worker.process.exitcode}"
            outcome = queue.worker_died(attempt, why, read_tail(worker.log.fileno()))
            _close_worker(worker)
            return outcome
        if kind == "start":
            raise KinemaError(failure)
        worker.attempt, worker.n_done = None, worker.n_done + 1
        if worker.n_done == limits.max_tasks_per_worker:
            worker.connection.close()
            worker.process.join(_STOP_TIMEOUT)
            _close_worker(worker)
        return Outcome(attempt.task, result, failure, log, attempt.n_attempts)
    if time.monotonic() > worker.deadline:
        worker.process.kill()
        worker.process.join()
        log = read_tail(worker.log.fileno())
        _close_worker(worker)
        failure = f"it took more than {limits.timeout:g} s"
        return Outcome(attempt.task, None, failure, log, attempt.n_attempts, died=True)
    return None


def _close_worker(worker: _Worker) -> None:
    worker.attempt, worker.is_alive = None, False
    worker.connection.close()
    worker.log.close()


def _stop_workers(workers: Iterable[_Worker]) -> None:
    for worker in workers:
        worker.process.terminate()
    for worker in workers:
        worker.process.join(_STOP_TIMEOUT)
        worker.process.kill()
        worker.process.join()
        _close_worker(worker)


def _worker_main(
    worker_factory: Callable[[], TaskFunction[Any, Any]], connection: Connection, log_file: str, threads: int
) -> None:
    """Main loop of a worker process: receives tasks and sends outcomes until the connection is closed."""
    os.environ.setdefault(THREADS_ENV_VARIABLE, str(threads))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that temporary files are removed
    log = OutputLog(Path(log_file))
    faulthandler.enable(2)
    work = None
    while True:
        try:
            task = connection.recv()
        except (EOFError, OSError, KeyboardInterrupt):
            return
        log.clear()
        if work is None:
            work, failure, story = run_task(lambda _: worker_factory(), None)
            if work is None:
                connection.send(("start", None, failure, story))
                return
        result, failure, story = run_task(work, task)
        if failure:
            story = "\n".join(part for part in (log.tail(), story) if part)
        connection.send(("task", result, failure, story))

"""Work on many files at once, each in a process of its own: one that crashes or hangs takes no other with it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Generic, TypeVar

from kinema.foundation import KinemaError

Task = TypeVar("Task")
Result = TypeVar("Result")
_GRACE = 2.0
"""How long a process that is asked to stop may clean up [s]."""


@dataclass(frozen=True, slots=True)
class Outcome(Generic[Task, Result]):
    """What came of one task."""

    task: Task
    result: Result | None
    failure: str = ""
    """Why there is no result, in one sentence; empty where there is one."""


@dataclass(frozen=True, slots=True)
class _Running:
    task: Any
    process: BaseProcess
    connection: Connection
    until: float


def default_jobs() -> int:
    """As many as there are processors for us."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def work_on_all(
    function: Callable[[Task], Result],
    tasks: Sequence[Task],
    *,
    jobs: int,
    seconds: float,
    preload: Sequence[str] = (),
) -> Iterator[Outcome[Task, Result]]:
    """Call a function of a module with every task, `jobs` at a time; outcomes come as they are ready.

    Args:
        function: must be importable, as its tasks and results must be picklable.
        tasks: what to call it with.
        jobs: how many processes work at the same time.
        seconds: how long one task may take; it is stopped then.
        preload: modules that all processes need, loaded once where the platform can.
    """
    forks = "forkserver" in multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if forks else "spawn")
    if forks:
        context.set_forkserver_preload(list(preload))
    left = list(reversed(tasks))
    running: list[_Running] = []
    try:
        while left or running:
            while left and len(running) < max(1, jobs):
                running.append(_start(context, function, left.pop(), seconds))
            wait([r.connection for r in running], timeout=0.2)
            for one in list(running):
                outcome = _outcome(one, seconds)
                if outcome is not None:
                    running.remove(one)
                    yield outcome
    finally:
        for one in running:
            one.process.terminate()
        for one in running:
            one.process.join(_GRACE)
            one.process.kill()


def _start(context: Any, function: Callable[[Any], Any], task: Any, seconds: float) -> _Running:
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(function, task, theirs), daemon=True)
    process.start()
    theirs.close()
    return _Running(task, process, ours, time.monotonic() + seconds)


def _outcome(one: _Running, seconds: float) -> Outcome[Any, Any] | None:
    """What came of it; None while it works."""
    if one.connection.poll():
        try:
            result, failure = one.connection.recv()
        except EOFError:
            one.process.join()
            result, failure = None, f"its process ended with status {one.process.exitcode}"
    elif time.monotonic() > one.until:
        one.process.kill()
        result, failure = None, f"it took more than {seconds:g} s"
    else:
        return None
    one.process.join()
    one.connection.close()
    return Outcome(one.task, result, failure)


def _work(function: Callable[[Any], Any], task: Any, connection: Connection) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that drafts of files are removed
    try:
        answer = (function(task), "")
    except KinemaError as error:
        answer = (None, str(error))
    except Exception as error:  # whatever went wrong is the outcome of this task alone
        answer = (None, f"{type(error).__name__}: {error}")
    connection.send(answer)
    connection.close()

"""Damaged robot files through the readers, the checks and forward kinematics, in processes that may die.

Each worker is a process with a memory limit; a file that takes longer than the time limit, crashes its process or
raises anything but a `ReadError` is a failure.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import multiprocessing.connection
import resource
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from .mutation import mutate

TIME_LIMIT = 20.0
"""Seconds a file may take; a reader that needs more hangs."""
MEMORY_LIMIT = 4 * 2**30
"""Address space of a worker; the libraries alone map over one GiB."""


@dataclass(frozen=True)
class Case:
    file: Path
    seed: int


def run(cases: Sequence[Case], n_workers: int) -> tuple[list[tuple[Case, str]], float]:
    """Every case in some worker; (failures, the slowest case's seconds)."""
    failures: list[tuple[Case, str]] = []
    slowest = 0.0
    todo = list(reversed(cases))
    workers = [Worker() for _ in range(n_workers)]
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("fuzzing", total=len(cases))
        while todo or any(w.case for w in workers):
            for worker in workers:
                if worker.case is None and todo:
                    worker.start(todo.pop())
            multiprocessing.connection.wait([w.pipe for w in workers if w.case], timeout=0.5)
            for worker in workers:
                finished = worker.poll()
                if finished is None:
                    continue
                case, reason, seconds = finished
                slowest = max(slowest, seconds)
                progress.advance(task)
                if reason:
                    failures.append((case, reason))
    for worker in workers:
        worker.stop()
    return failures, slowest


class Worker:
    """A process that reads one damaged file after another, and is replaced when it dies or hangs."""

    def __init__(self) -> None:
        self.case: Case | None = None
        self.begin = 0.0
        self._spawn()

    def _spawn(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()
        self.pipe.recv()  # the libraries are loaded

    def start(self, case: Case) -> None:
        self.case, self.begin = case, time.monotonic()
        self.pipe.send(case)

    def poll(self) -> tuple[Case, str, float] | None:
        if self.case is None:
            return None
        case, seconds = self.case, time.monotonic() - self.begin
        try:
            if self.pipe.poll():
                reason = self.pipe.recv()
            elif seconds > TIME_LIMIT:
                reason = f"took longer than {TIME_LIMIT} s"
            else:
                return None
        except (EOFError, OSError):
            reason = f"the process died (exit code {self.process.exitcode})"
        self.case = None
        if reason.startswith(("took", "the process")):
            self.stop()
            self._spawn()
        return case, reason, seconds

    def stop(self) -> None:
        self.process.kill()
        self.process.join()


def work(pipe: multiprocessing.connection.Connection) -> None:
    """The worker's side: read cases until the pipe closes."""
    faulthandler.enable()
    import mujoco  # noqa: F401 (so that loading it is not counted)
    import pxr.UsdPhysics  # noqa: F401

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    pipe.send("ready")
    while True:
        try:
            case = pipe.recv()
        except EOFError:
            return
        pipe.send(try_case(case))


def try_case(case: Case) -> str:
    """Empty, or what went wrong. References of the damaged copy are looked up where the original lies."""
    from kinema.check import check
    from kinema.core import InternalError, ReadError, collect
    from kinema.read import read

    with tempfile.TemporaryDirectory() as folder:
        damaged = Path(folder) / case.file.name
        damaged.write_bytes(mutate(case.file.read_bytes(), case.seed))
        try:
            described = read(damaged, policy=collect, search_paths=[case.file.parent, case.file.parent.parent])
            check(described)
            described.forward_kinematics()
        except InternalError as error:
            return "".join(traceback.format_exception(error.__cause__ or error))[-1500:]
        except ReadError as error:
            return "" if "\n" not in str(error).strip() else f"an error of several lines: {str(error)[:300]}"
        except (Exception, RecursionError):
            return traceback.format_exc()[-1500:]
    return ""

"""Selects an executor from the `on` argument of rollouts and sweeps, and shows a progress bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kinema.core import KinemaError

from .executor import Executor, InProcessExecutor
from .local_processes import LocalProcessExecutor
from .ray_executor import RayExecutor, WorkerResources

# ------------------------------------------------------------------------------------------------------------ selection

ExecutorChoice = Executor | int | str | None
"""An executor; a number of processes; the address of a Ray cluster, or `auto`; None for this process."""


def select_executor(
    on: ExecutorChoice, resources: WorkerResources | None = None, *, gpu: bool = False
) -> tuple[Executor, bool]:
    """Executor for the argument `on`, and whether the caller must close it; `gpu` requests one GPU per Ray worker."""
    if resources is None and gpu:
        resources = WorkerResources(gpus=1.0)
    if isinstance(on, Executor):
        return on, False
    if on is None:
        return InProcessExecutor(), True
    if isinstance(on, bool) or not isinstance(on, int | str):
        raise KinemaError(f"on: expected a number of processes, the address of a Ray cluster or None, not {on!r}")
    return (LocalProcessExecutor(on) if isinstance(on, int) else RayExecutor(on, resources)), True


# --------------------------------------------------------------------------------------------------------- progress bar


@contextmanager
def progress_bar(title: str, total: int, n_done: int, quiet: bool) -> Iterator[Callable[[int], None]]:
    """Progress bar on a terminal; yields a function that advances it. No bar if `quiet` or without a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda _: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=total, completed=n_done)
        yield lambda more: bar.advance(task, more)

"""Terminal output: progress bar with stage times, and the summary of a built scene."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

from kinema.core import Diagnostics, timed_stage as recorded
from kinema.model import Model

from .built_scene import BuiltScene
from .entity import Entity

# --------------------------------------------------------------------------------------------- progress bar


class ProgressBar:
    """Progress bar of build and compilation stages, shown if stderr is a terminal, and accumulated time per stage."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self.stage_seconds: dict[str, float] = {}
        """Accumulated time [s] by the first word of the stage name."""
        self._depth = 0
        self._bar: Any = None
        self._task: Any = None

    @contextmanager
    def display(self, n_stages: int) -> Iterator[None]:
        """Context manager that shows a transient progress bar for `n_stages` stages; nested calls use the same bar."""
        if self._depth:
            yield
            return
        self._depth += 1
        self._bar = None if self.quiet else _make_bar()
        try:
            with self._bar or nullcontext():
                if self._bar is not None:
                    self._task = self._bar.add_task("", total=n_stages)
                yield
        finally:
            self._depth -= 1
            self._bar = None

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        """Context manager of one stage: show its name in the bar, measure its time and advance the bar.

        Outside of `display` the stage gets a bar of its own. The time is added to `stage_seconds` and to the profiler
        under the first word of the stage name.
        """
        with self.display(1):
            if self._bar is not None:
                self._bar.update(self._task, description=stage, refresh=True)
            since = time.perf_counter()
            word = stage.split(maxsplit=1)[0]
            with recorded(word):
                yield
            self.stage_seconds[word] = self.stage_seconds.get(word, 0.0) + time.perf_counter() - since
            if self._bar is not None:
                self._bar.advance(self._task)


def _make_bar() -> Any:
    """Rich progress bar on stderr (spinner, stage name, bar, elapsed time); None if stderr is no terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        return None
    from rich.progress import BarColumn, Progress as RichProgress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=24), TimeElapsedColumn())
    return RichProgress(*columns, console=console, transient=True)


# -------------------------------------------------------------------------------------------------- summary


MAX_LISTED_ENTITIES = 20
"""Entities that a summary lists; of further ones it gives the number."""


def summarize(built: BuiltScene, entities: Sequence[Entity], diagnostics: Diagnostics, adopted: str = "") -> str:
    """Text summary of a built scene, a few lines; `adopted` tells which files give time step and integrator.

    Number of environments, device, precision, time step, memory of state and controls, one line for each of the first
    entities (links, dofs, actuators), number of geom pairs, equality constraints and couplings, number of dofs with
    default gains by entity, and number of diagnostics by severity.
    """
    engine, model = built.engine, built.model
    listed = entities[:MAX_LISTED_ENTITIES]
    name_width = max((len(e.name) for e in listed), default=0)
    lines = [
        f"  {e.name:{name_width}}  {_format_count(e.n_links, 'link')}, {_format_count(e.n_dofs, 'degree')} of freedom"
        + (f", {_format_count(e.n_actuators, 'actuator')}" if e.n_actuators else "")
        for e in listed
    ]
    if len(entities) > len(listed):
        lines.append(f"  and {len(entities) - len(listed):,} more")
    rows = engine.state.layout.n_rows + engine.controls.layout.n_rows
    mebibytes = rows * engine.state.stride * engine.state.dtype.itemsize / 2**20
    constraints = [_contact_summary(model)] if engine.settings.contacts else []
    constraints += [
        _format_count(n, word)
        for n, word in (
            (len(model.equalities.names) - len(model.attachments.names), "equality constraint"),
            (len(model.couplings.names), "coupling"),
            (len(model.attachments.names), "reserved attachment"),
            (len(model.suction_cups.names), "suction cup"),
        )
        if n
    ]
    derived = built.controls.gains.derived[0] & ~(model.actuators.moment != 0.0).any(axis=0)
    counts = [(e.name, int(np.count_nonzero(derived[e.info.dof_start : e.info.dof_end]))) for e in entities]
    with_gains = [f"{name} ({_format_count(n, 'dof')})" for name, n in counts if n]
    n_others = len(with_gains) - MAX_LISTED_ENTITIES
    gains = ", ".join(with_gains[:MAX_LISTED_ENTITIES]) + (f" and {n_others:,} more" if n_others > 0 else "")
    severities = Counter(d.severity.value for d in diagnostics)
    messages = ", ".join(f"{_format_count(n, word)}" for word, n in severities.items())
    return "\n".join(
        [
            f"{_format_count(built.n_envs, 'environment')} on {engine.device.name}, {engine.precision} precision, "
            f"dt {engine.dt:g} s ({engine.settings.integrator.value}{adopted and f', {adopted}'}), {mebibytes:,.1f} MiB"
            + (f", {engine.tier} code" if engine.tier else ""),
            *lines,
            *([f"  {', '.join(constraints)}"] if constraints else []),
            *([f"  gains derived from inertia, load and effort limits: {gains}"] if gains else []),
            *([f"  {messages}: scene.diagnostics"] if messages else []),
        ]
    )


def print_if_terminal(text: str | Callable[[], str], progress: ProgressBar) -> None:
    """Write a line, or the result of a function, to stderr if it is a terminal and the progress bar is not quiet."""
    if not progress.quiet and sys.stderr.isatty():
        sys.stderr.write(f"{text() if callable(text) else text}\n")


def _contact_summary(model: Model) -> str:
    """Number of pairs of geoms that may collide, or of geoms with rules of collision."""
    if model.has_pair_rules:
        return _format_count(len(model.geoms.names), "geom") + " may collide"
    return _format_count(len(model.pairs.geom_a), "pair") + " of geoms may collide"


def _format_count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")

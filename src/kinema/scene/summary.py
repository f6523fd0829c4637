"""A scene in a few lines: what is in it, and what it takes."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence

from kinema.foundation import Diagnostics

from .entity import Entity
from .progress import Progress
from .running import Running


def summary_of(running: Running, entities: Sequence[Entity], diagnostics: Diagnostics) -> str:
    """Entities, sizes, where it runs, and how much was said about it."""
    engine, model = running.engine, running.model
    wide = max((len(e.name) for e in entities), default=0)
    lines = [
        f"  {e.name:{wide}}  {_count(e.n_links, 'link')}, {_count(e.n_dofs, 'degree')} of freedom"
        + (f", {_count(e.n_actuators, 'actuator')}" if e.n_actuators else "")
        for e in entities
    ]
    rows = engine.state.layout.n_rows + engine.told.layout.n_rows
    mebibytes = rows * engine.state.stride * engine.state.dtype.itemsize / 2**20
    bounds = [_count(len(model.pairs.geom_a), "pair") + " of shapes may touch"] if engine.settings.contacts else []
    bounds += [
        _count(n, word) for n, word in ((len(model.ties.names), "tie"), (len(model.couplings.names), "coupling")) if n
    ]
    said = Counter(d.severity.value for d in diagnostics)
    told = ", ".join(f"{_count(n, word)}" for word, n in said.items())
    return "\n".join(
        [
            f"{_count(running.n_envs, 'environment')} on {engine.device.name}, {engine.precision} precision, "
            f"dt {engine.dt:g} s ({engine.settings.integrator.value}), {mebibytes:,.1f} MiB"
            + (f", {engine.tier} code" if engine.tier else ""),
            *lines,
            *([f"  {', '.join(bounds)}"] if bounds else []),
            *([f"  {told}: scene.diagnostics"] if told else []),
        ]
    )


def show(text: str, progress: Progress) -> None:
    """Say it where somebody is watching."""
    if not progress.quiet and sys.stderr.isatty():
        sys.stderr.write(f"{text}\n")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")

"""How long the phases of a step take on a CPU: the step's own program, compiled with a clock between its blocks.

The program is the one that is simulated with, at its optimised tier and on one thread. Where all of it is one straight
line, instructions of all phases are mixed, and there is one phase.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from kinema.backend import Arena, Kernel, Layout
from kinema.foundation import KinemaError
from kinema.trace import block_names

from ..lower.plan import make_step
from ..settings import RUNS, Integrator
from .engine import Engine

DYNAMICS, BROAD, NARROW, ROWS, SOLVER, FINISH = (
    "kinematics and dynamics",
    "broad phase",
    "narrow phase",
    "constraint rows",
    "solver",
    "accelerations and integration",
)
BEGINS = {
    "where shapes are": BROAD,
    "narrowphase": NARROW,
    "no sets that touch": ROWS,
    "number of contacts": ROWS,
    "what contacts miss": ROWS,
    "Newton's method": SOLVER,
    "islands": SOLVER,
    "no slip": SOLVER,
}
"""The phases that blocks begin, by their names; others belong to the phase before them."""
ENDS = {"Newton's method": FINISH, "no slip": FINISH, "constraints": FINISH}
"""The phases that begin behind blocks of these names."""
WHOLE = "the whole step"
ORDER = (WHOLE, DYNAMICS, BROAD, NARROW, ROWS, SOLVER, FINISH)


@dataclass(frozen=True, slots=True)
class BlockTime:
    """A block of a program, or several of one name in a row."""

    phase: str
    name: str
    """Empty for lines."""
    share: float
    """Of the time of all blocks."""


def phases_of(names: Sequence[str]) -> list[str]:
    """The phase of each block, by the names of all of them."""
    if not any(names):
        return [WHOLE] * len(names)
    found, now = [], DYNAMICS
    for name in names:
        now = BEGINS.get(name, now)
        found.append(now)
        now = ENDS.get(name, now)
    return found


class StepTimes:
    """The step of an engine with a clock between its blocks."""

    def __init__(self, engine: Engine) -> None:
        if not engine.device.is_cpu:
            raise KinemaError("the phases of a step are timed on a CPU; on a GPU they are kernels that profilers name")
        self._engine = engine
        settings = engine.settings
        least = 2 if engine.emission == "rolled" else 1
        program = make_step(engine.model, settings, engine.places, rolled=engine.is_rolled, least=least)
        self._names = block_names(program.blocks)
        self._kernel = Kernel(
            program,
            engine.places,
            engine.device,
            engine.precision,
            lanes=engine.lanes,
            runs_per_step=RUNS if settings.integrator is Integrator.RK4 else 1,
            n_envs=engine.n_envs,
            wait=True,
            timed=True,
        )
        self._out = Arena(Layout.of("out", [("ticks", len(self._names) + 1)]), 1, engine.device, "double")

    @contextmanager
    def running(self) -> Iterator[None]:
        """Meanwhile the engine steps by this program, on one thread."""
        engine, settings = self._engine, self._engine.settings
        before = engine._kernels[settings], engine._nothing, engine.threads
        engine._kernels[settings], engine._nothing, engine.threads = self._kernel, self._out, 1
        engine._launches[settings].clear()
        try:
            yield
        finally:
            engine._kernels[settings], engine._nothing, engine.threads = before
            engine._launches[settings].clear()

    def blocks(self) -> list[BlockTime]:
        """Where the time of all steps went that were taken meanwhile, in the order of the program."""
        ticks = self._out.data.view(np.int64).ravel()[: len(self._names)].astype(np.float64)
        shares = ticks / max(ticks.sum(), 1.0)
        found = zip(phases_of(self._names), self._names, shares.tolist(), strict=True)
        return [BlockTime(phase, name, share) for phase, name, share in found]

    def phases(self) -> dict[str, float]:
        """Shares by phase, in the order of a step."""
        found: dict[str, float] = {}
        for block in self.blocks():
            found[block.phase] = found.get(block.phase, 0.0) + block.share
        return {phase: found[phase] for phase in ORDER if phase in found}


@contextmanager
def on_one_thread(engine: Engine) -> Iterator[None]:
    """Meanwhile the engine steps on one thread, at the optimised tier: what `StepTimes` is to be compared with."""
    engine.prepare(wait=True)
    before, engine.threads = engine.threads, 1
    engine._launches[engine.settings].clear()
    try:
        yield
    finally:
        engine.threads = before
        engine._launches[engine.settings].clear()

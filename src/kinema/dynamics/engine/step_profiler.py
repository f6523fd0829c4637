"""Profiling of a step on a CPU: fractions of time of its phases from a clock compiled in between its blocks.

The profiled program is that of the simulation, at its optimised tier and on one thread. If the program is unrolled into
one basic block, the instructions of all phases are interleaved, and there is only one phase.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from kinema.codegen import timed_statement_names
from kinema.core import KinemaError
from kinema.runtime import Arena, ArenaLayout, Kernel

from ..lowering.step_program import trace_step
from ..settings import RK4_STAGES, Integrator
from .engine import Engine

DYNAMICS_PHASE, BROAD_PHASE, NARROW_PHASE, CONSTRAINT_ROW_PHASE, SOLVER_PHASE, INTEGRATION_PHASE = (
    "kinematics and dynamics",
    "broad phase",
    "narrow phase",
    "constraint rows",
    "solver",
    "accelerations and integration",
)
PHASE_STARTS = {
    "geom poses": BROAD_PHASE,
    "narrowphase": NARROW_PHASE,
    "clear lists of active contact buffers": CONSTRAINT_ROW_PHASE,
    "number of contacts": CONSTRAINT_ROW_PHASE,
    "contact residuals": CONSTRAINT_ROW_PHASE,
    "Newton's method": SOLVER_PHASE,
    "islands": SOLVER_PHASE,
    "no slip": SOLVER_PHASE,
}
"""Block name -> phase that starts with the block; other blocks belong to the phase before them."""
PHASE_ENDS = {"Newton's method": INTEGRATION_PHASE, "no slip": INTEGRATION_PHASE, "constraints": INTEGRATION_PHASE}
"""Block name -> phase that starts after the block."""
WHOLE_STEP = "the whole step"
PHASE_ORDER = (
    WHOLE_STEP,
    DYNAMICS_PHASE,
    BROAD_PHASE,
    NARROW_PHASE,
    CONSTRAINT_ROW_PHASE,
    SOLVER_PHASE,
    INTEGRATION_PHASE,
)


@dataclass(frozen=True, slots=True)
class BlockTime:
    """Fraction of time of one timed block of a program."""

    phase: str
    name: str
    """Label of the loop or block; empty for basic blocks."""
    fraction: float
    """Share of the total time, from 0 to 1."""


def block_phases(names: Sequence[str]) -> list[str]:
    """Phase of a step (broad phase, solver ...) of each timed block of a program, from all block names in order.

    A phase starts at or after blocks of certain names (`PHASE_STARTS`, `PHASE_ENDS`); unnamed programs are one phase.
    """
    if not any(names):
        return [WHOLE_STEP] * len(names)
    phases, phase = [], DYNAMICS_PHASE
    for name in names:
        phase = PHASE_STARTS.get(name, phase)
        phases.append(phase)
        phase = PHASE_ENDS.get(name, phase)
    return phases


class StepProfiler:
    """The step program of an engine, compiled with a clock between its blocks."""

    def __init__(self, engine: Engine) -> None:
        """Trace and compile the step of an engine with a clock between its blocks; raises `KinemaError` on a GPU."""
        if not engine.device.is_cpu:
            raise KinemaError("the phases of a step can be timed only on a CPU; on a GPU use a profiler of kernels")
        self._engine = engine
        settings = engine.settings
        min_copies = 2 if engine.codegen == "loops" else 1
        program = trace_step(
            engine.model, settings, engine.array_offsets, loops=engine.uses_loops, min_copies=min_copies
        )
        self._names = timed_statement_names(program.body)
        self._kernel = Kernel(
            program,
            engine.array_offsets,
            engine.device,
            engine.precision,
            lanes=engine.lanes,
            runs_per_step=RK4_STAGES if settings.integrator is Integrator.RK4 else 1,
            n_envs=engine.n_envs,
            wait=True,
            timed=True,
        )
        self._out = Arena(ArenaLayout.from_sizes("out", [("ticks", len(self._names) + 1)]), 1, engine.device, "double")

    @contextmanager
    def profiling(self) -> Iterator[None]:
        """Context manager: within it the engine runs the step program with a clock per statement, on one thread."""
        engine, settings = self._engine, self._engine.settings
        before = engine._kernels[settings], engine._empty_output, engine.threads
        engine._kernels[settings], engine._empty_output, engine.threads = self._kernel, self._out, 1
        engine._launches[settings].clear()
        try:
            yield
        finally:
            engine._kernels[settings], engine._empty_output, engine.threads = before
            engine._launches[settings].clear()

    def block_times(self) -> list[BlockTime]:
        """Fraction of time of each block in the steps taken under `profiling`, in program order."""
        ticks = self._out.data.view(np.int64).ravel()[: len(self._names)].astype(np.float64)
        fractions = ticks / max(ticks.sum(), 1.0)
        blocks = zip(block_phases(self._names), self._names, fractions.tolist(), strict=True)
        return [BlockTime(phase, name, fraction) for phase, name, fraction in blocks]

    def phase_fractions(self) -> dict[str, float]:
        """Fraction of time of each phase, in the order of a step."""
        fractions: dict[str, float] = {}
        for block in self.block_times():
            fractions[block.phase] = fractions.get(block.phase, 0.0) + block.fraction
        return {phase: fractions[phase] for phase in PHASE_ORDER if phase in fractions}


@contextmanager
def single_threaded(engine: Engine) -> Iterator[None]:
    """Context manager: within it the engine steps on one thread with fully optimised code, as `StepProfiler` does."""
    engine.compile_step(wait_for_optimised=True)
    before, engine.threads = engine.threads, 1
    engine._launches[engine.settings].clear()
    try:
        yield
    finally:
        engine.threads = before
        engine._launches[engine.settings].clear()

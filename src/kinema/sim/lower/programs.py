"""The algorithms, traced: programs of symbols for one model, as loops over tables or as a straight line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from kinema.foundation import Array, no_collecting
from kinema.model import Model
from kinema.trace import Place, Program, Recorder, Value, can_run, run_side_by_side, unroll

from ..arrays import ARRAYS, Owner
from ..settings import Integrator, Settings
from ..stages import count_stages, take
from ..step import Step
from ..sweeps.sweeps import Sweeps
from ..sweeps.tree import grow
from .limbs import find_limbs

Run = Callable[[Sweeps], None]
Outputs = Mapping[str, tuple[Owner, int]]
"""Of each array that is written, what its items belong to, and how many numbers each has."""
MANY_FRAMES = 64
"""Frames from which on numbers that are wanted once are found for all parts at once."""


@no_collecting()
def table_program(
    model: Model, settings: Settings, run: Run, places: Mapping[str, Place], outputs: Outputs | None = None
) -> Program:
    """What a function does with a model, as loops over tables; `places` says where the arrays are."""
    recorder = Recorder("table ")  # what stays of it is found among the local arrays of a line
    sweeps = Sweeps(model, settings, places, recorder, grow(model), outputs=outputs)
    run(sweeps)
    return recorder.finish(n_scratch=sweeps.n_scratch, taken=sweeps.taken, distant=sweeps.distant)


@no_collecting()
def straight_program(model: Model, settings: Settings, run: Run, outputs: Outputs | None = None) -> Program:
    """The same as a straight line, which names arrays and not where they are."""
    recorder = Recorder()
    program = table_program(model, settings, run, named(settings, outputs), outputs)
    found = unroll(program, recorder.read, recorder)
    for array, item in sorted(found):
        recorder.write(array, [found[array, item]], item)
    if not program.keeps_loops:
        return recorder.finish()
    return recorder.finish(n_scratch=program.n_scratch, taken=program.taken, distant=program.distant)


def plain_numbers(
    model: Model, settings: Settings, run: Run, outputs: Outputs, *states: Mapping[str, Sequence[float] | Array]
) -> list[dict[str, Array]]:
    """What it writes for one environment, computed here and now; of each state by itself."""
    program = table_program(model, settings, run, named(settings, outputs), outputs)
    return [_run_once(model, program, outputs, arrays) for arrays in states]


def _run_once(
    model: Model, program: Program, outputs: Outputs, arrays: Mapping[str, Sequence[float] | Array]
) -> dict[str, Array]:
    if model.n_frames >= MANY_FRAMES and (quick := _side_by_side(model, program, outputs, arrays)) is not None:
        return quick
    found: dict[str, dict[int, Value]] = {name: {} for name in outputs}
    for (array, item), value in unroll(program, lambda array, item: float(arrays[array][item])).items():
        found[array][item] = value
    return {
        name: np.array([values.get(i, 0.0) for i in range(max(values, default=-1) + 1)], np.float64)
        for name, values in found.items()
    }


def _side_by_side(
    model: Model, program: Program, outputs: Outputs, arrays: Mapping[str, Sequence[float] | Array]
) -> dict[str, Array] | None:
    """Likewise, all parts at once; None where that cannot be, or not all of it is a number."""
    if not can_run(program):
        return None
    told = {name: np.array(x, np.float64)[:, None] for name, x in arrays.items()}
    owners = {Owner.DOF: model.n_dofs, Owner.LINK: model.n_links, Owner.ENVIRONMENT: 1}
    if any(owner not in owners for owner, _ in outputs.values()):
        return None
    told |= {name: np.zeros((owners[owner] * width, 1)) for name, (owner, width) in outputs.items()}
    written = run_side_by_side(program, told, exact=True)
    ends = {name: int(np.flatnonzero(written[name]).max(initial=-1)) + 1 for name in outputs}
    found = {name: told[name][: ends[name], 0] for name in outputs}
    return found if all(np.isfinite(x).all() for x in found.values()) else None


def named(settings: Settings, outputs: Outputs | None = None) -> dict[str, Place]:
    """Places for what is going to be unrolled: each array is an arena of its own."""
    arrays = [info.name for info in ARRAYS if info.arena(settings) is not None]
    return {array: Place(array, 0) for array in (*arrays, *(outputs or {}))}


def step_program(model: Model, settings: Settings) -> Program:
    """One step: `qpos` and `vel` to the next, and `error`, which is set where they stop being numbers."""
    limbs = find_limbs(grow(model), settings.roles).role_of_frame if settings.roles > 1 else {}

    def run(sweeps: Sweeps) -> None:
        take(Step(sweeps, limbs=limbs))
        if settings.integrator is Integrator.RK4:
            count_stages(sweeps.recorder)

    return straight_program(model, settings, run)

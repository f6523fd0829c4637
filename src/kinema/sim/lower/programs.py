"""The algorithms, traced: programs of symbols for one model."""

from __future__ import annotations

from collections.abc import Callable

from kinema.model import Model
from kinema.trace import Program, Recorder

from ..rigid.straight import Straight
from ..rigid.tree import grow
from ..settings import Integrator, Settings
from ..step import Step, count_stages, take
from .limbs import find_limbs


def straight_program(model: Model, settings: Settings, run: Callable[[Straight], None]) -> Program:
    """The straight line of what a function does with a model, as it was traced."""
    recorder = Recorder()
    return _traced(recorder, model, settings, run)


def _traced(recorder: Recorder, model: Model, settings: Settings, run: Callable[[Straight], None]) -> Program:
    limbs = find_limbs(grow(model), settings.roles).role_of_frame if settings.roles > 1 else None
    sweeps = Straight(model, settings, recorder.read, recorder=recorder, limbs=limbs)
    run(sweeps)
    return recorder.finish(sweeps.results())


def step_program(model: Model, settings: Settings) -> Program:
    """One step: `qpos` and `vel` to the next, and `error`, which is set where they stop being numbers."""
    recorder = Recorder()

    def run(sweeps: Straight) -> None:
        take(Step(sweeps))
        if settings.integrator is Integrator.RK4:
            count_stages(recorder)

    return _traced(recorder, model, settings, run)

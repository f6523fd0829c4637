"""The algorithms, traced: programs of symbols for one model."""

from __future__ import annotations

from collections.abc import Callable

from kinema import trace
from kinema.model import Model
from kinema.trace import Program, Tape, Value, finish, optimise

from .inputs import Inputs
from .integrate import advance, shift_rate
from .settings import Integrator, Settings
from .step import acceleration, dynamics, step

LARGEST = 3.0e38
"""Beyond this a number is no longer one."""


def traced(model: Model, settings: Settings, outputs: Callable[[Inputs], dict[str, list[Value]]]) -> Program:
    """The program of what a function computes from symbols, optimised."""
    tape = Tape()
    inputs = Inputs(model, settings, tape.input)
    return optimise(finish(tape, outputs(inputs)))


def step_program(model: Model, settings: Settings) -> Program:
    """One step: `qpos` and `vel` to the next, and `error`, which is set where they stop being numbers."""
    return traced(model, settings, _stage if settings.integrator is Integrator.RK4 else _step)


def _step(inputs: Inputs) -> dict[str, list[Value]]:
    q, v = step(inputs)
    return {"qpos": q, "vel": v, "error": [_error(inputs, v)]}


def _error(inputs: Inputs, v: list[Value]) -> Value:
    """1 once any velocity is not a number, or not finite: the sum of them all shows it."""
    total: Value = 0.0
    for speed in v:
        total = total + speed
    return trace.select(trace.absolute(total), LARGEST, inputs.read("error", 0), 1.0)


STAGES = 4
RK4_NEXT = (0.5, 0.5, 1.0, 0.0)
"""How far the next stage looks ahead, in steps."""
RK4_WEIGHT = (1 / 6, 1 / 3, 1 / 3, 1 / 6)


def _stage(inputs: Inputs) -> dict[str, list[Value]]:
    """One of the four stages of a Runge-Kutta step; four runs of it make the step.

    `phase` counts 0, 1, 2, 3. The state that the step started from, how far the stage is from it, and the weighted
    sums of velocities and accelerations, are carried from stage to stage.
    """
    dt = inputs.settings.dt
    n_dofs = inputs.model.n_dofs
    phase = inputs.read("phase", 0)
    q, v = inputs.q, inputs.v

    def first(now: Value, kept: Value) -> Value:
        return trace.select(phase, 0.5, now, kept)

    q0 = [first(a, inputs.read("stage_qpos", i)) for i, a in enumerate(q)]
    v0 = [first(a, inputs.read("stage_vel", i)) for i, a in enumerate(v)]
    state = dynamics(inputs, q, v)
    a = acceleration(state)
    u = [first(0.0, inputs.read("stage_shift", i)) for i in range(n_dofs)]
    rate = shift_rate(state.tree, u, v)
    weight = _by_phase(phase, RK4_WEIGHT)
    ahead = dt * _by_phase(phase, RK4_NEXT)
    sum_v = [first(0.0, inputs.read("stage_sum_vel", i)) + weight * rate[i] for i in range(n_dofs)]
    sum_a = [first(0.0, inputs.read("stage_sum_acc", i)) + weight * a[i] for i in range(n_dofs)]

    def last(at_end: Value, before: Value) -> Value:
        return trace.select(2.5, phase, at_end, before)

    shift = [last(dt * sum_v[i], ahead * rate[i]) for i in range(n_dofs)]
    next_v = [v0[i] + last(dt * sum_a[i], ahead * a[i]) for i in range(n_dofs)]
    return {
        "qpos": advance(state.tree, q0, shift, 1.0),
        "vel": next_v,
        "stage_qpos": q0,
        "stage_shift": shift,
        "stage_vel": v0,
        "stage_sum_vel": sum_v,
        "stage_sum_acc": sum_a,
        "phase": [last(0.0, phase + 1.0)],
        "error": [_error(inputs, next_v)],
    }


def _by_phase(phase: Value, values: tuple[float, ...]) -> Value:
    result: Value = values[-1]
    for i in reversed(range(len(values) - 1)):
        result = trace.select(phase, i + 0.5, values[i], result)
    return result

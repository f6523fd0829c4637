"""The algorithms, traced: programs of symbols for one model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kinema import trace
from kinema.model import Model, Motion
from kinema.trace import Program, Split, Tape, Value, finish, optimise, split

from .inputs import Inputs, Read
from .integrate import advance, shift_rate
from .limbs import find_limbs
from .settings import Integrator, Settings
from .step import acceleration, dynamics, step
from .tree import WORLD, Tree, grow

LARGEST = 3.0e38
"""Beyond this a number is no longer one."""


def traced(model: Model, settings: Settings, outputs: Callable[[Inputs], dict[str, list[Value]]]) -> Program:
    """The program of what a function computes from symbols, as it was traced."""
    tape = Tape()
    inputs = Inputs(model, settings, tape.input)
    return finish(tape, outputs(inputs))


def step_program(model: Model, settings: Settings) -> Program:
    """One step: `qpos` and `vel` to the next, and `error`, which is set where they stop being numbers."""
    return optimise(_traced_step(model, settings))


def split_step_program(model: Model, settings: Settings) -> Split:
    """The same for several threads."""
    return split(_traced_step(model, settings), find_limbs(grow(model), settings.roles).role_of(model), settings.roles)


def _traced_step(model: Model, settings: Settings) -> Program:
    return traced(model, settings, step_outputs)


def step_outputs(inputs: Inputs) -> dict[str, list[Value]]:
    """Everything that one run of the step program writes; a Runge-Kutta step takes `STAGES` runs."""
    return _stage(inputs) if inputs.settings.integrator is Integrator.RK4 else _step(inputs)


def _step(inputs: Inputs) -> dict[str, list[Value]]:
    q, v = step(inputs)
    return {"qpos": q, "vel": v, "error": _errors(inputs, q, v)}


def _errors(inputs: Inputs, q: list[Value], v: list[Value]) -> list[Value]:
    """1 once anything in the state is not a number, or not finite: the sum of it shows it. One flag for each role."""
    tree = inputs.tree()
    totals: list[Value] = [0.0] * inputs.settings.roles
    for node in tree.outward():
        role = tree.limbs.get(node.index) or 0
        # a turn that is not a number spoils all velocities; a slide, or the first turn of all, may leave them alone
        unseen = node.motion is Motion.SLIDE or node.parent == WORLD
        for x in (*(q[i] for i in node.qs if unseen), *(v[d] for d in node.dofs)):
            totals[role] = totals[role] + x
    flags = enumerate(totals)
    return [trace.select(trace.absolute(total), LARGEST, inputs.read("error", i), 1.0) for i, total in flags]


STAGES = 4
RK4_NEXT = (0.5, 0.5, 1.0, 0.0)
"""How far the next stage looks ahead, in steps."""
RK4_WEIGHT = (1 / 6, 1 / 3, 1 / 3, 1 / 6)


def _stage(inputs: Inputs) -> dict[str, list[Value]]:
    state = dynamics(inputs, inputs.q, inputs.v)
    result = runge_kutta_stage(inputs.read, inputs.settings.dt, state.tree, (state.q, state.v, acceleration(state)))
    return {**result, "error": _errors(inputs, result["qpos"], result["vel"])}


def runge_kutta_stage(
    read: Read, dt: float, tree: Tree, motion: tuple[Sequence[Value], Sequence[Value], Sequence[Value]]
) -> dict[str, list[Value]]:
    """One of the four stages of a Runge-Kutta step, from coordinates, velocities and accelerations; four make the step.

    `phase` counts 0, 1, 2, 3. The state that the step started from, how far the stage is from it, and the weighted
    sums of velocities and accelerations, are carried from stage to stage.
    """
    q, v, a = motion
    n_dofs = len(v)
    phase = read("phase", 0)

    def first(now: Value, kept: Value) -> Value:
        return trace.select(phase, 0.5, now, kept)

    q0 = [first(x, read("stage_qpos", i)) for i, x in enumerate(q)]
    v0 = [first(x, read("stage_vel", i)) for i, x in enumerate(v)]
    u = [first(0.0, read("stage_shift", i)) for i in range(n_dofs)]
    rate = shift_rate(tree, u, v)
    weight = _by_phase(phase, RK4_WEIGHT)
    ahead = dt * _by_phase(phase, RK4_NEXT)
    sum_v = [first(0.0, read("stage_sum_vel", i)) + weight * rate[i] for i in range(n_dofs)]
    sum_a = [first(0.0, read("stage_sum_acc", i)) + weight * a[i] for i in range(n_dofs)]

    def last(at_end: Value, before: Value) -> Value:
        return trace.select(2.5, phase, at_end, before)

    shift = [last(dt * sum_v[i], ahead * rate[i]) for i in range(n_dofs)]
    next_v = [v0[i] + last(dt * sum_a[i], ahead * a[i]) for i in range(n_dofs)]
    return {
        "qpos": advance(tree, q0, shift, 1.0),
        "vel": next_v,
        "stage_qpos": q0,
        "stage_shift": shift,
        "stage_vel": v0,
        "stage_sum_vel": sum_v,
        "stage_sum_acc": sum_a,
        "phase": [next_phase(phase)],
    }


def next_phase(phase: Value) -> Value:
    """Which stage comes after this one."""
    return trace.select(2.5, phase, 0.0, phase + 1.0)


def _by_phase(phase: Value, values: tuple[float, ...]) -> Value:
    result: Value = values[-1]
    for i in reversed(range(len(values) - 1)):
        result = trace.select(phase, i + 0.5, values[i], result)
    return result

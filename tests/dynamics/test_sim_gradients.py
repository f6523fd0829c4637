"""Reverse-mode derivatives of a step, for every kind of joint, against central differences and forward mode.

In double precision, of unrolled programs and of programs with loops.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings as hypothesis_settings

from kinema.core import Array
from kinema.description import Base
from kinema.dynamics import PER_ENV_PARAMETERS, InputMode, Integrator, Settings, trace_unrolled_step
from kinema.dynamics.lowering.program_tracing import named_array_offsets, trace_looped_program
from kinema.dynamics.lowering.step_program import trace_looped_step
from kinema.dynamics.pipeline import advance_rk4_phase, record_step
from kinema.dynamics.step import StepData
from kinema.dynamics.tree.trace_context import TraceContext
from kinema.ir import (
    ADJOINT_PREFIX,
    TANGENT_PREFIX,
    ArenaOffset,
    Program,
    interpret,
    interpret_in_place,
    jvp,
    unroll_program,
    vjp,
)
from kinema.model import Model
from kit.choosing import alternating, representative_tuples, representatives
from kit.robots.configurations import model_coordinates
from kit.robots.each_joint import CASES, Case, model_of, robot
from kit.robots.random_robots import random_robot
from kit.robots.seeds import seeds as robot_seeds
from kit.robots.variety import SIMULATED

from .rolling import Both, model_of_text, quadruped, zoo

H = 1e-5
TOLERANCE = 1e-6
SWITCHES = ("error", "phase", "ctrl_mode")
"""Inputs that are numbers of something: nothing depends on them smoothly."""
ALL_PARAMETERS = Settings(dt=0.02, per_env=frozenset(PER_ENV_PARAMETERS), external_forces=True)
"""All parameters are inputs, as are forces on links; commands have gains of all kinds."""


@cache
def model_of_case(case: Case) -> Model:
    return model_of(robot(case))


@cache
def looped_step(model: Model, settings: Settings) -> Program:
    """The step with loops over tables and arrays by name, as it is differentiated and then unrolled."""

    def trace(ctx: TraceContext) -> None:
        record_step(StepData(ctx))
        if settings.integrator is Integrator.RK4:
            advance_rk4_phase(ctx.tracer)

    return trace_looped_program(model, settings, trace, named_array_offsets(settings))


def point(model: Model, program: Program, generator: np.random.Generator) -> dict[str, Array]:
    """A state, commands and parameters at which nothing is zero."""
    arrays = {name: generator.uniform(0.1, 0.5, (n, 1)) for name, n in program.inputs.items()}
    arrays["qpos"] = model_coordinates(model, generator, 1)
    arrays["vel"] = generator.uniform(-1, 1, (model.n_dofs, 1))
    arrays["gravity"] = np.array([[0.3], [-0.2], [-9.0]])
    arrays["dt"] = np.array([[0.02]])
    for name in ("kp", "kv", "gain_command", "gain_position", "gain_velocity"):
        if name in arrays:
            arrays[name] = generator.uniform(2, 5, arrays[name].shape)
    arrays["force_lower"], arrays["force_upper"] = np.full((2, model.n_dofs, 1), 100.0) * [[[-1.0]], [[1.0]]]
    if "ctrl_mode" in arrays:
        arrays["ctrl_mode"] = np.array([[float(i % 3)] for i in range(model.n_dofs)])
    return {name: values for name, values in arrays.items() if name in program.inputs}


def differences(program: Program, arrays: dict[str, Array], name: str, seeds: dict[str, Array]) -> Array:
    """How the sum of seeds times outputs changes with each element of an input, all in one run.

    By differences over two distances, of which the error that grows with their square is taken away.
    """
    n, offsets = program.inputs[name], (H, -H, 2.0 * H, -2.0 * H)
    batch = {key: np.repeat(values, len(offsets) * n, axis=1) for key, values in arrays.items()}
    for k, offset in enumerate(offsets):
        for i in range(n):
            batch[name][i, k * n + i] += offset
    found = interpret(program, batch)
    cost = np.sum([(seeds[key] * values).sum(axis=0) for key, values in found.items() if key in seeds], axis=0)
    near, far = ((a - b) for a, b in (np.split(half, 2) for half in np.split(cost, 2)))
    return (8.0 * near - far) / (12.0 * H)


def check_dot_products(
    model: Model, settings: Settings, step: Program, arrays: dict[str, Array]
) -> tuple[dict[str, Array], dict[str, Array]]:
    """<dy, J dx> = <Jᵀ dy, dx> for random directions; adjoints dy of the outputs of a step, and those of its inputs."""
    generator, looped = np.random.default_rng(7), looped_step(model, settings)
    sizes = {name: n for name, n in step.inputs.items() if name not in SWITCHES}
    outputs = {name: n for name, n in step.outputs.items() if name not in SWITCHES}
    seeds = {name: generator.normal(size=(n, 1)) for name, n in outputs.items()}
    cells, targets = ([(name, i) for name, n in x.items() for i in range(n)] for x in (sizes, outputs))
    adjoints = {name: np.zeros((max(n, outputs.get(name, 0)), 1)) for name, n in sizes.items()} | seeds
    given = {ADJOINT_PREFIX + name: values for name, values in adjoints.items()}
    found = given | interpret(unroll_program(vjp(looped, cells, targets)), {**arrays, **given})
    direction = {name: generator.normal(size=(n, 1)) for name, n in sizes.items()}
    tangents = {TANGENT_PREFIX + name: values for name, values in direction.items()}
    tangents |= interpret(unroll_program(jvp(looped, cells)), {**arrays, **tangents})
    moved = [name for name in outputs if TANGENT_PREFIX + name in tangents]
    left = [seeds[name] * tangents[TANGENT_PREFIX + name][: outputs[name]] for name in moved]
    right = [direction[name] * found[ADJOINT_PREFIX + name][:n] for name, n in sizes.items()]
    scale = sum(np.abs(x).sum() for x in (*left, *right))
    assert abs(sum(x.sum() for x in left) - sum(x.sum() for x in right)) <= 1e-12 * scale
    return seeds, {name: found[ADJOINT_PREFIX + name][:n] for name, n in sizes.items()}


def check(model: Model, settings: Settings, more: dict[str, Array] | None = None) -> set[str]:
    """All derivatives of a step at a point, from random adjoints of its outputs; which inputs there were."""
    step, generator = trace_unrolled_step(model, settings), np.random.default_rng(6)
    arrays = point(model, step, generator) | (more or {})
    seeds, adjoints = check_dot_products(model, settings, step, arrays)
    for name, found in adjoints.items():
        expected = differences(step, arrays, name, seeds)
        scale = np.abs(expected).max(initial=1e-3)
        np.testing.assert_allclose(found[:, 0] / scale, expected / scale, rtol=0, atol=TOLERANCE)
    return set(adjoints)


@pytest.mark.wide
@pytest.mark.parametrize("case", CASES, ids=str)
def test_implicit_step(case: Case) -> None:
    """By position, velocity, commands, masses, centres, gains, damping, rotor inertia, gravity, forces and the step."""
    wanted = {"qpos", "vel", "command", "mass_shift", "com_shift", "armature", "damping", "gravity", "dt"}
    wanted |= {"gain_command", "gain_position", "gain_velocity", "cfrc_applied_ang", "cfrc_applied_vel"}
    assert wanted <= check(model_of_case(case), ALL_PARAMETERS)


@pytest.mark.wide
@pytest.mark.parametrize("case", CASES, ids=str)
def test_modes_that_are_numbers(case: Case) -> None:
    """The same where environments differ in what commands mean: by kp and kv."""
    settings = replace(ALL_PARAMETERS, input_mode=InputMode.MIXED)
    assert {"qpos", "vel", "command", "kp", "kv"} <= check(model_of_case(case), settings)


@pytest.mark.parametrize(
    ("kind", "integrator"),
    representative_tuples(
        itertools.product(["spherical", "screw", "free"], [Integrator.IMPLICIT, Integrator.EULER]),
        lambda case: case in {("spherical", Integrator.IMPLICIT), ("screw", Integrator.EULER)},
    ),
)
def test_other_single_stage_steps(kind: str, integrator: Integrator) -> None:
    """The same for the other single-stage integrators."""
    check(model_of_case(Case(kind, backwards=False)), replace(ALL_PARAMETERS, integrator=integrator))


@pytest.mark.parametrize("phase", representatives(range(4), lambda phase: phase == 3))
def test_runge_kutta_stages(phase: int) -> None:
    """Each of the four stages, by what it is handed from the one before."""
    model = model_of_case(Case("stacked", backwards=False))
    check(model, replace(ALL_PARAMETERS, integrator=Integrator.RK4), {"phase": np.full((1, 1), float(phase))})


@pytest.mark.parametrize(
    ("kind", "integrator"), alternating(["screw", "universal"], [Integrator.IMPLICIT, Integrator.IMPLICITFAST])
)
def test_implicit_differentiation_of_linear_systems(kind: str, integrator: Integrator) -> None:
    """The derivative of a solution from the factorisation of its matrix, instead of that of the factorisation."""
    settings = replace(ALL_PARAMETERS, integrator=integrator, differentiable=True)
    check(model_of_case(Case(kind, backwards=True)), settings)


def check_random_robot(seed: int) -> None:
    """Dot products for a robot with joints of all kinds and one of the integrators."""
    described = random_robot(seed, SIMULATED)
    described.base = Base.FREE if seed % 3 == 0 else Base.FIXED
    model, integrator = model_of(described), list(Integrator)[seed % 4]
    if model.n_dofs:
        settings = replace(ALL_PARAMETERS, integrator=integrator, differentiable=seed % 5 < 2)
        step, generator = trace_unrolled_step(model, settings), np.random.default_rng(seed)
        check_dot_products(model, settings, step, point(model, step, generator))


@given(robot_seeds)
@hypothesis_settings(max_examples=2)
def test_random_robots(seed: int) -> None:
    check_random_robot(seed)


@pytest.mark.exhaustive
@pytest.mark.parametrize("first", range(0, 300, 10))
def test_many_random_robots(first: int) -> None:
    for seed in range(first, first + 10):
        check_random_robot(seed)


# -------------------------------------------------------------------------------------------------- programs with loops

MODELS = {"zoo": lambda: zoo(("screw",)), "biped": lambda: model_of_text(quadruped(n_legs=2))}
DIFFERENTIATED = ("qpos", "vel", "act", "command", "ctrl")


@pytest.mark.parametrize(
    ("name", "integrator"),
    representative_tuples(
        itertools.product(MODELS, [Integrator.IMPLICITFAST, Integrator.RK4]),
        lambda case: case == ("zoo", Integrator.IMPLICITFAST),
    ),
)
def test_programs_with_loops(name: str, integrator: Integrator) -> None:
    """Loops over frames and loops over copies: dot products with forward mode, and the adjoints of unrolled code."""
    model, settings = MODELS[name](), Settings(dt=0.002, integrator=integrator)
    both, generator = Both(model, settings, n_envs=2), np.random.default_rng(2)
    sizes = {name: len(x) for name, x in both.arrays().items() if name in DIFFERENTIATED}
    seeds = {name: generator.normal(size=(n, 2)) for name, n in sizes.items() if name in both.layouts[0].rows}
    direction = {name: generator.normal(size=(n, 2)) for name, n in sizes.items()}
    adjoints = seeds | {name: np.zeros((n, 2)) for name, n in sizes.items() if name not in seeds}
    given = {ADJOINT_PREFIX + name: values for name, values in adjoints.items()}
    inputs, outputs = ([(name, i) for name in x for i in range(sizes[name])] for x in (sizes, seeds))
    unrolled = unroll_program(vjp(looped_step(model, settings), inputs, outputs))
    expected = given | interpret(unrolled, {**_repeated(both.arrays()), **given})
    rows = {"state": both.layouts[0].n_rows}
    inputs, outputs = ([(both.places[a].arena, both.places[a].row + i) for a, i in x] for x in (inputs, outputs))
    for budget in (0, 100_000):
        program = trace_looped_step(model, settings, both.places, budget)
        tangents = _run(both, jvp(program, inputs, both.places, rows), TANGENT_PREFIX, direction)
        found = _run(both, vjp(program, inputs, outputs, both.places, rows), ADJOINT_PREFIX, adjoints)
        left = np.sum([(tangents[name] * values).sum(axis=0) for name, values in seeds.items()], axis=0)
        right = np.sum([(found[name] * values).sum(axis=0) for name, values in direction.items()], axis=0)
        np.testing.assert_allclose(left, right, rtol=1e-11)
        for array in sizes.keys() - {"qpos"}:  # along quaternions derivatives depend on the order of operations
            np.testing.assert_allclose(found[array], expected[ADJOINT_PREFIX + array], rtol=0, atol=1e-10)


def _run(both: Both, program: Program, prefix: str, values: dict[str, Array]) -> dict[str, Array]:
    """Tangents or adjoints after a run, from those before; of the state behind the state, of controls by themselves."""
    n_rows = both.layouts[0].n_rows
    arenas = {arena: x.copy() for arena, x in both.arenas.items()}
    arenas["state"] = np.concatenate([arenas["state"], np.zeros_like(arenas["state"])])
    arenas[f"{prefix}controls"] = np.zeros_like(arenas["controls"])
    places = dict(both.places)
    for name, (arena, row) in both.places.items():
        moved = ArenaOffset("state", row + n_rows) if arena == "state" else ArenaOffset(prefix + arena, row)
        places[prefix + name] = moved
    views = {
        name: arenas[places[prefix + name].arena][places[prefix + name].row :][: len(x)] for name, x in values.items()
    }
    for name, view in views.items():
        view[:] = values[name]
    interpret_in_place(program, arenas, places)
    return views


def _repeated(arrays: dict[str, Array]) -> dict[str, Array]:
    """Arrays with a column for each environment, also those that environments share."""
    n_envs = max(x.shape[1] for x in arrays.values())
    return {name: np.repeat(x, n_envs // x.shape[1], axis=1) for name, x in arrays.items()}

"""Gradients of a step, for every kind of joint, against central differences in double precision."""

from __future__ import annotations

import numpy as np
import pytest

from kinema.core import Array
from kinema.dynamics import PER_ENV_PARAMETERS, InputMode, Integrator, Settings, trace_unrolled_step
from kinema.ir import ADJOINT_PREFIX, Program, gradient, interpret
from kinema.model import Model
from kit.robots.configurations import model_coordinates
from kit.robots.each_joint import CASES, Case, model_of, robot

H = 1e-5
TOLERANCE = 1e-6
SWITCHES = ("error", "phase", "ctrl_mode")
"""Inputs that are numbers of something: nothing depends on them smoothly."""


def program_of(case: Case, integrator: Integrator, drive: InputMode = InputMode.COMMANDS) -> tuple[Model, Program]:
    """A step with all parameters as inputs, forces on links, and commands with gains of all kinds."""
    model = model_of(robot(case))
    settings = Settings(
        dt=0.02, integrator=integrator, input_mode=drive, per_env=frozenset(PER_ENV_PARAMETERS), external_forces=True
    )
    return model, trace_unrolled_step(model, settings)


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
    cost = np.sum([(seeds[ADJOINT_PREFIX + key] * values).sum(axis=0) for key, values in found.items()], axis=0)
    near, far = ((a - b) for a, b in (np.split(half, 2) for half in np.split(cost, 2)))
    return (8.0 * near - far) / (12.0 * H)


def check(model: Model, program: Program, more: dict[str, Array] | None = None) -> set[str]:
    """All derivatives at a point; which inputs there were."""
    generator = np.random.default_rng(6)
    arrays = point(model, program, generator) | (more or {})
    seeds = {ADJOINT_PREFIX + name: generator.normal(size=(n, 1)) for name, n in program.outputs.items()}
    seeds[ADJOINT_PREFIX + "error"][:] = 0.0
    inputs = [name for name in program.inputs if name not in SWITCHES]
    found = interpret(gradient(program, inputs), arrays | seeds)
    for name in inputs:
        expected = differences(program, arrays, name, seeds)
        scale = np.abs(expected).max(initial=1e-3)
        np.testing.assert_allclose(found[ADJOINT_PREFIX + name][:, 0] / scale, expected / scale, rtol=0, atol=TOLERANCE)
    return set(inputs)


@pytest.mark.wide
@pytest.mark.parametrize("case", CASES, ids=str)
def test_implicit_step(case: Case) -> None:
    """By position, velocity, commands, masses, centres, gains, damping, rotor inertia, gravity, forces and the step."""
    model, program = program_of(case, Integrator.IMPLICITFAST)
    wanted = {"qpos", "vel", "command", "mass_shift", "com_shift", "armature", "damping", "gravity", "dt"}
    wanted |= {"gain_command", "gain_position", "gain_velocity", "cfrc_applied_ang", "cfrc_applied_vel"}
    assert wanted <= check(model, program)


@pytest.mark.wide
@pytest.mark.parametrize("case", CASES, ids=str)
def test_modes_that_are_numbers(case: Case) -> None:
    """The same where environments differ in what commands mean: by kp and kv."""
    model, program = program_of(case, Integrator.IMPLICITFAST, InputMode.MIXED)
    assert {"qpos", "vel", "command", "kp", "kv"} <= check(model, program)


@pytest.mark.parametrize("integrator", [Integrator.EULER, Integrator.IMPLICIT], ids=lambda i: i.value)
@pytest.mark.parametrize("kind", ["spherical", "screw", "free"])
def test_other_single_stage_steps(kind: str, integrator: Integrator) -> None:
    """The same for the other single-stage integrators."""
    check(*program_of(Case(kind, backwards=False), integrator))


@pytest.mark.parametrize("phase", range(4))
def test_runge_kutta_stages(phase: int) -> None:
    """Each of the four stages, by what it is handed from the one before."""
    model, program = program_of(Case("stacked", backwards=False), Integrator.RK4)
    check(model, program, {"phase": np.full((1, 1), float(phase))})

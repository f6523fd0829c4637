"""Control modes and parameters: as gains or as numbers, of all environments or of each, they mean the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kinema.core import Array, KinemaError
from kinema.description import Drive as JointDrive, DriveType, JointKind, rotation
from kinema.dynamics import (
    PER_ENV_PARAMETERS,
    ControlMode,
    Engine,
    InputMode,
    Integrator,
    Settings,
    trace_unrolled_step,
)
from kinema.ir import interpret
from kinema.model import Model
from kinema.runtime import find_device
from kit.robots.configurations import model_coordinates
from kit.robots.each_joint import Case, model_of, one_joint, robot, simple_body

from .arrays_for_tests import Modes, arrays_for, fields_on_floats, gains_of
from .runner import Runner

N_ENVS = 4
STACKED = Case("stacked", backwards=False)


def stepped(model: Model, settings: Settings, modes: Modes, **values: Array) -> dict[str, Array]:
    arrays = arrays_for(model, settings, modes, N_ENVS, **some_arrays(model), **values)
    return interpret(trace_unrolled_step(model, settings), arrays)


def some_arrays(model: Model) -> dict[str, Array]:
    generator = np.random.default_rng(1)
    shape = (model.n_dofs, N_ENVS)
    return {
        "qpos": model_coordinates(model, generator, N_ENVS),
        "vel": generator.uniform(-1, 1, shape),
        "command": generator.uniform(-1, 1, shape),
    }


def positioned(model: Model) -> Modes:
    return [ControlMode.POSITION] * model.n_dofs


def driven() -> Model:
    model = model_of(robot(STACKED))
    lower, upper = model.dofs.force_lower.copy(), model.dofs.force_upper.copy()
    lower[:2], upper[:2] = -1.5, 2.5
    gains = {"kp": np.linspace(3, 8, model.n_dofs), "kv": np.linspace(0.5, 1, model.n_dofs)}
    return model.with_columns("dofs", **gains, force_lower=lower, force_upper=upper)


@pytest.mark.parametrize("integrator", [Integrator.EULER, Integrator.IMPLICITFAST], ids=lambda i: i.value)
def test_modes_as_gains_or_numbers(integrator: Integrator) -> None:
    """Mixed modes, one after the other over the degrees of freedom."""
    model = driven()
    modes = [ControlMode(i % 3) for i in range(model.n_dofs)]
    by_gains = stepped(model, Settings(integrator=integrator), modes)
    numbers = np.array([float(m) for m in modes])
    by_mode = stepped(model, Settings(integrator=integrator, input_mode=InputMode.MIXED), (), ctrl_mode=numbers)
    for name in ("qpos", "vel"):
        np.testing.assert_allclose(by_gains[name], by_mode[name], rtol=0, atol=1e-13)


@pytest.mark.parametrize("shift", range(4))
def test_the_engine_puts_modes_into_gains(shift: int) -> None:
    """Each mode on each degree of freedom; an actuator pulls only where all of its joints are left to it."""
    model = driven()
    modes = [ControlMode((i + shift) % 4) for i in range(model.n_dofs)]
    engine = Engine(model, Settings(), 1, find_device("cpu"), precision="double", control_modes=modes)
    for name, expected in gains_of(model, modes).items():
        if expected.size:
            np.testing.assert_array_equal(engine.array_view(name).numpy()[:, 0], expected)


@pytest.mark.parametrize("drive", [InputMode.COMMANDS, InputMode.MIXED], ids=lambda d: d.value)
def test_control_forces(drive: InputMode) -> None:
    """Force, velocity and position control, within their bounds."""
    model = driven()
    dofs = model.dofs
    settings = Settings(input_mode=drive)
    given = some_arrays(model)
    given["command"] *= 5
    for mode in (ControlMode.FORCE, ControlMode.VELOCITY, ControlMode.POSITION):
        arrays = arrays_for(model, settings, [mode] * model.n_dofs, N_ENVS, ctrl_mode=float(mode), **given)
        for e in range(N_ENVS):
            found = fields_on_floats(model, settings, arrays, "smooth forces", e)["qf_actuator"]
            command, v = arrays["command"][:, e], arrays["vel"][:, e]
            q = np.array([arrays["qpos"][i, e] if i >= 0 else 0.0 for i in dofs.q_idx])
            kp = np.where(dofs.q_idx >= 0, dofs.kp, 0.0)  # a quaternion has no coordinate to be sent to
            asked = {
                ControlMode.FORCE: command,
                ControlMode.VELOCITY: dofs.kv * (command - v),
                ControlMode.POSITION: kp * (command - q) - dofs.kv * v,
            }[mode]
            np.testing.assert_allclose(found, np.clip(asked, dofs.force_lower, dofs.force_upper), rtol=1e-13)


def test_acceleration_drive() -> None:
    """Gains per unit of inertia: the motion does not depend on the mass."""

    def swing(moment: float) -> Array:
        drive = JointDrive(stiffness=40.0, damping=2.0, type=DriveType.ACCELERATION)
        body = simple_body(1.0, (moment, moment, moment))
        axis = rotation((0, 0, 1))
        axis.drive = drive
        model = model_of(one_joint(JointKind.REVOLUTE, body, axes=[axis]))
        assert model.dofs.acceleration_drive.all()
        runner = Runner(model, 1e-3, Integrator.RK4, modes=positioned(model)).set(command=[1.0])
        return runner.follow(100, "qpos")

    assert np.ptp(swing(0.1)) > 0.1
    np.testing.assert_allclose(swing(0.1), swing(7.0), rtol=1e-9)


def test_parameters_at_their_own_values() -> None:
    """Inputs at the model's values change nothing."""
    model = driven()
    expected = stepped(model, Settings(), positioned(model))
    found = stepped(model, Settings(per_env=frozenset(PER_ENV_PARAMETERS)), positioned(model))
    for name in ("qpos", "vel"):
        np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=1e-13)


def test_parameters_are_those_of_another_model() -> None:
    """A step with shifted parameters is one of a model that was built so."""
    model = driven()
    mass, center = np.array([0.3, -0.2, 0.5]), np.linspace(-0.1, 0.1, 9).reshape(3, 3)
    ratio = (model.links.inertial_mass + mass) / model.links.inertial_mass
    links, dofs = model.links, model.dofs
    other = model.with_tables(
        links=replace(
            links,
            inertial_mass=links.inertial_mass + mass,
            inertial_i=links.inertial_i * ratio[:, None, None],
            inertial_pos=links.inertial_pos + center,
        ),
        dofs=replace(
            dofs, kp=dofs.kp + 1.0, kv=dofs.kv + 0.4, armature=dofs.armature + 0.1, damping=2.0 * dofs.damping
        ),
        gravity=np.array((1.0, 2.0, -3.0)),
    )
    expected = stepped(other, Settings(), positioned(other))
    parameters = {
        "mass_shift": mass,
        "com_shift": center.ravel(),
        "gravity": other.gravity,
        "kp": other.dofs.kp,
        "kv": other.dofs.kv,
        "armature": other.dofs.armature,
        "damping": other.dofs.damping,
    }
    of_constraints = {"limit", "frictionloss", "equality", "sol_params"}  # see tests/scene/test_own_constraints.py
    of_the_medium = {"wind", "density", "viscosity"}  # see tests/dynamics/test_fluid.py
    of_shapes = {"geom_friction", "geom_size", "geom_sol_params"}  # see tests/scene/test_geoms.py
    elsewhere = of_constraints | of_the_medium | of_shapes | {"surface_velocity", "variants"}
    assert set(parameters) == set(PER_ENV_PARAMETERS) - elsewhere
    found = stepped(
        model, Settings(per_env=frozenset(PER_ENV_PARAMETERS)), (), **parameters, **gains_of(other, positioned(other))
    )
    by_mode = stepped(
        model,
        Settings(per_env=frozenset(PER_ENV_PARAMETERS), input_mode=InputMode.MIXED),
        (),
        **parameters,
        ctrl_mode=np.full(model.n_dofs, float(ControlMode.POSITION)),
    )
    for name in ("qpos", "vel"):
        np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=1e-12)
        np.testing.assert_allclose(by_mode[name], expected[name], rtol=0, atol=1e-12)


def test_unknown_parameters_are_refused() -> None:
    with pytest.raises(KinemaError, match="'colour' cannot differ between environments"):
        Settings(per_env=frozenset({"colour"}))

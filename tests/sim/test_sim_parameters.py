"""Control modes and parameters: read from arrays or traced as constants, they mean the same."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from kinema.description import Drive, DriveType, JointKind, rotation
from kinema.foundation import Array, KinemaError
from kinema.model import Model
from kinema.sim import PARAMETERS, Control, Integrator, Settings, step_program
from kinema.sim.field_programs import GROUPS
from kinema.sim.inputs import Inputs
from kinema.trace import interpret
from kit.robots.configurations import model_coordinates
from kit.robots.each_joint import Case, model_of, one_joint, robot, simple_body

from .runner import Runner

N_ENVS = 4
STACKED = Case("stacked", backwards=False)


def stepped(model: Model, settings: Settings, arrays: dict[str, Array]) -> dict[str, Array]:
    program = step_program(model, settings)
    return interpret(program, {name: arrays[name] for name in program.inputs})


def some_arrays(model: Model) -> dict[str, Array]:
    generator = np.random.default_rng(1)
    shape = (model.n_dofs, N_ENVS)
    return {
        "qpos": model_coordinates(model, generator, N_ENVS),
        "vel": generator.uniform(-1, 1, shape),
        "command": generator.uniform(-1, 1, shape),
        "error": np.zeros((1, N_ENVS)),
    }


def driven() -> Model:
    model = model_of(robot(STACKED))
    model.dofs.kp[:] = np.linspace(3, 8, model.n_dofs)
    model.dofs.kv[:] = np.linspace(0.5, 1, model.n_dofs)
    model.dofs.force_lower[:2], model.dofs.force_upper[:2] = -1.5, 2.5
    return model


@pytest.mark.parametrize("integrator", [Integrator.EULER, Integrator.IMPLICIT], ids=lambda i: i.value)
def test_modes_as_array_or_constants(integrator: Integrator) -> None:
    """Mixed modes, one after the other over the degrees of freedom."""
    model = driven()
    arrays = some_arrays(model)
    modes = tuple(Control(i % 3) for i in range(model.n_dofs))
    fixed = stepped(model, Settings(integrator=integrator, control=modes), arrays)
    arrays["ctrl_mode"] = np.repeat([[float(m)] for m in modes], N_ENVS, axis=1)
    arrays["ctrl"] = np.zeros((0, N_ENVS))
    anyhow = stepped(model, Settings(integrator=integrator), arrays)
    for name in ("qpos", "vel"):
        np.testing.assert_allclose(fixed[name], anyhow[name], rtol=0, atol=1e-13)


def test_control_forces() -> None:
    """Force, velocity and position control, within their bounds."""
    model = driven()
    dofs = model.dofs
    arrays = some_arrays(model)
    arrays["command"] *= 5
    for mode in (Control.FORCE, Control.VELOCITY, Control.POSITION):
        settings = Settings(control=(mode,) * model.n_dofs)
        for e in range(N_ENVS):
            inputs = Inputs(model, settings, lambda name, item, e=e: float(arrays[name][item, e]))
            found = np.array(GROUPS["forces"](inputs)["qf_actuator"], dtype=float)
            told, v = arrays["command"][:, e], arrays["vel"][:, e]
            q = np.array([arrays["qpos"][i, e] if i >= 0 else 0.0 for i in dofs.q_idx])
            kp = np.where(dofs.q_idx >= 0, dofs.kp, 0.0)  # a quaternion has no coordinate to be sent to
            asked = {
                Control.FORCE: told,
                Control.VELOCITY: dofs.kv * (told - v),
                Control.POSITION: kp * (told - q) - dofs.kv * v,
            }[mode]
            np.testing.assert_allclose(found, np.clip(asked, dofs.force_lower, dofs.force_upper), rtol=1e-13)


def test_acceleration_drive() -> None:
    """Gains per unit of inertia: the motion does not depend on the mass."""

    def swing(moment: float) -> Array:
        drive = Drive(stiffness=40.0, damping=2.0, type=DriveType.ACCELERATION)
        body = simple_body(1.0, (moment, moment, moment))
        axis = rotation((0, 0, 1))
        axis.drive = drive
        model = model_of(one_joint(JointKind.REVOLUTE, body, axes=[axis]))
        assert model.dofs.acceleration_drive.all()
        runner = Runner(model, 1e-3, Integrator.RK4)
        runner.settings = Settings(dt=1e-3, integrator=Integrator.RK4, control=(Control.POSITION,))
        arrays = {name: np.array(values, dtype=float)[:, None] for name, values in runner.state.items()}
        arrays["command"][:] = 1.0
        program = step_program(model, runner.settings)
        for _ in range(400):
            arrays |= interpret(program, arrays)
        return arrays["qpos"]

    np.testing.assert_allclose(swing(0.1), swing(7.0), rtol=1e-9)


def test_parameters_at_their_own_values() -> None:
    """Inputs at the model's values change nothing."""
    model = driven()
    arrays = some_arrays(model)
    control = (Control.POSITION,) * model.n_dofs
    expected = stepped(model, Settings(control=control), arrays)
    for name in ("kp", "kv", "armature", "damping"):
        arrays[name] = np.repeat(getattr(model.dofs, name)[:, None], N_ENVS, axis=1)
    arrays["gravity"] = np.repeat(model.gravity[:, None], N_ENVS, axis=1)
    arrays |= {"mass_shift": np.zeros((3, N_ENVS)), "com_shift": np.zeros((9, N_ENVS))}
    found = stepped(model, Settings(control=control, per_env=frozenset(PARAMETERS)), arrays)
    for name in ("qpos", "vel"):
        np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=1e-13)


def test_parameters_are_those_of_another_model() -> None:
    """A step with shifted parameters is one of a model that was built so."""
    model = driven()
    other = copy.deepcopy(model)
    arrays = some_arrays(model)
    mass, center = np.array([0.3, -0.2, 0.5]), np.linspace(-0.1, 0.1, 9).reshape(3, 3)
    ratio = (model.links.inertial_mass + mass) / model.links.inertial_mass
    other.links.inertial_mass += mass
    other.links.inertial_i *= ratio[:, None, None]
    other.links.inertial_pos += center
    other.gravity[:] = (1.0, 2.0, -3.0)
    for values, change in ((other.dofs.kp, 1.0), (other.dofs.kv, 0.4), (other.dofs.armature, 0.1)):
        values += change
    other.dofs.damping *= 2.0
    control = (Control.POSITION,) * model.n_dofs
    expected = stepped(other, Settings(control=control), arrays)
    arrays |= {
        name: np.repeat(np.asarray(values).reshape(-1, 1), N_ENVS, axis=1)
        for name, values in {
            "mass_shift": mass,
            "com_shift": center,
            "gravity": other.gravity,
            "kp": other.dofs.kp,
            "kv": other.dofs.kv,
            "armature": other.dofs.armature,
            "damping": other.dofs.damping,
        }.items()
    }
    found = stepped(model, Settings(control=control, per_env=frozenset(PARAMETERS)), arrays)
    for name in ("qpos", "vel"):
        np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=1e-12)


def test_unknown_parameters_are_refused() -> None:
    with pytest.raises(KinemaError, match="'colour' cannot differ between environments"):
        Settings(per_env=frozenset({"colour"}))

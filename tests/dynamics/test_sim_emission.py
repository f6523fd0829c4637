"""One step, compiled: every width and precision gives what the interpreter does, bit for bit alike among widths."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from kinema.core import Array, KinemaError
from kinema.description import JointKind, Robot, rotation, translation
from kinema.dynamics import ControlMode, Engine, InputMode, Settings, trace_unrolled_step
from kinema.ir import interpret
from kinema.model import Model
from kinema.runtime import find_device
from kit.choosing import combinations
from kit.robots.configurations import model_coordinates
from kit.robots.each_joint import joint, lumpy_link, model_of

from .arrays_for_tests import arrays_for, forced

N_ENVS = 11
"""Fills no vector."""
N_STEPS = 5
ROUNDING = {"single": 2e-5, "double": 1e-13}
DTYPES = {"single": np.float32, "double": np.float64}


@cache
def model() -> Model:
    """A ball, a hinge, a slide and a screw, one after the other."""
    generator = np.random.default_rng(2)
    names = ["base", "a", "b", "c", "d"]
    axes = [
        (JointKind.SPHERICAL, [rotation(e, damping=0.1) for e in np.eye(3)]),
        (JointKind.REVOLUTE, [rotation((1, 2, 3), stiffness=1.0, damping=0.1)]),
        (JointKind.PRISMATIC, [translation((0, 1, 0))]),
        (JointKind.SCREW, [rotation((0, 0, 1))]),
    ]
    joints = [
        joint(kind, f"to_{names[i + 1]}", parent=names[i], child=names[i + 1], axes=own, pitch=0.3)
        for i, (kind, own) in enumerate(axes)
    ]
    return model_of(Robot(name="mixed", links=[lumpy_link(name, generator) for name in names], joints=joints))


def start() -> dict[str, Array]:
    generator = np.random.default_rng(4)
    n = model().n_dofs
    return {
        "qpos": model_coordinates(model(), generator, N_ENVS),
        "vel": generator.uniform(-1, 1, (n, N_ENVS)),
        "command": generator.uniform(-1, 1, (n, N_ENVS)),
    }


def modes(drive: InputMode) -> Array:
    """All are told forces; where environments may differ, velocities too: (dofs, 1) or (dofs, environments)."""
    shape = (model().n_dofs, N_ENVS if drive is InputMode.MIXED else 1)
    result = np.zeros(shape)
    result[1::2, ::2] = result[::2, 1::2] = float(ControlMode.VELOCITY) if drive is InputMode.MIXED else 0.0
    return result


def engine_of(precision: str, lanes: int, envs: tuple[int, ...], device: str, drive: InputMode) -> Engine:
    engine = Engine(model(), Settings(), len(envs), find_device(device), precision=precision, lanes=lanes)
    engine.array_view("kv").assign(KV)
    control_modes = modes(drive)
    engine.set_control_modes(control_modes[:, list(envs)] if drive is InputMode.MIXED else control_modes)
    assert engine.settings.input_mode is drive or len(envs) == 1
    return engine


KV = 0.3


@cache
def compiled(
    precision: str,
    lanes: int,
    envs: tuple[int, ...] = tuple(range(N_ENVS)),
    device: str = "cpu",
    drive: InputMode = InputMode.COMMANDS,
) -> tuple[Array, Array]:
    """Coordinates and velocities after some steps."""
    engine = engine_of(precision, lanes, envs, device, drive)
    for name, values in start().items():
        engine.array_view(name).assign(values[:, list(envs)])
    engine.step(N_STEPS)
    assert not engine.array_view("error").numpy().any()
    return engine.array_view("qpos").numpy().copy(), engine.array_view("vel").numpy().copy()


@cache
def interpreted(precision: str, drive: InputMode) -> tuple[Array, Array]:
    settings = Settings(input_mode=drive)
    arrays = arrays_for(model(), settings, forced(model()), N_ENVS, kv=KV, ctrl_mode=modes(drive), **start())
    arrays = {name: values.astype(DTYPES[precision]) for name, values in arrays.items()}
    program = trace_unrolled_step(model(), settings)
    for _ in range(N_STEPS):
        arrays |= interpret(program, arrays)
    return arrays["qpos"], arrays["vel"]


drives = pytest.mark.parametrize("drive", [InputMode.COMMANDS, InputMode.MIXED], ids=lambda d: d.value)


@pytest.mark.parametrize(
    ("precision", "lanes", "drive"),
    combinations(["single", "double"], [1, 2, 4, 8], [InputMode.COMMANDS, InputMode.MIXED]),
)
def test_widths(precision: str, lanes: int, drive: InputMode) -> None:
    """As interpreted, to rounding; as with one lane, to the bit."""
    for found, expected, one in zip(
        compiled(precision, lanes, drive=drive),
        interpreted(precision, drive),
        compiled(precision, 1, drive=drive),
        strict=True,
    ):
        np.testing.assert_allclose(found, expected, rtol=0, atol=ROUNDING[precision] * np.abs(expected).max())
        np.testing.assert_array_equal(found, one)


@pytest.mark.parametrize("precision", ["single", "double"])
@drives
def test_gpu(precision: str, drive: InputMode) -> None:
    """The same program on a GPU, to rounding."""
    try:
        found = compiled(precision, 1, device="cuda:0", drive=drive)
    except KinemaError as reason:
        pytest.skip(str(reason))
    for ours, expected in zip(found, interpreted(precision, drive), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=0, atol=ROUNDING[precision] * np.abs(expected).max())


def test_precisions_agree() -> None:
    for single, double in zip(compiled("single", 4), compiled("double", 2), strict=True):
        np.testing.assert_allclose(single, double, rtol=0, atol=2e-5 * np.abs(double).max())


@pytest.mark.parametrize("envs", [(3,), (10, 2, 0, 7), (5, 5, 5, 5, 5, 5, 5, 5, 5)], ids=["one", "some", "copies"])
def test_environments_are_independent(envs: tuple[int, ...]) -> None:
    """Any subset in any order gives the same bits."""
    for found, everything in zip(compiled("single", 4, envs), compiled("single", 4), strict=True):
        np.testing.assert_array_equal(found, everything[:, list(envs)])


def test_a_bad_environment_harms_no_other() -> None:
    """NaN in one environment's state or command stays there, and is flagged."""
    engine = engine_of("single", 4, tuple(range(N_ENVS)), "cpu", InputMode.COMMANDS)
    values = start()
    values["vel"][2, 4] = np.nan
    values["command"][1, 7] = np.inf
    for name, own in values.items():
        engine.array_view(name).assign(own)
    engine.step(N_STEPS)
    error = engine.array_view("error").numpy()[0]
    assert error.tolist() == [float(e in (4, 7)) for e in range(N_ENVS)]
    fine = [e for e in range(N_ENVS) if e not in (4, 7)]
    np.testing.assert_array_equal(engine.array_view("qpos").numpy()[:, fine], compiled("single", 4)[0][:, fine])

"""Every robot, stepped by compiled loops over tables and by its compiled straight line: the same motion to rounding."""

from __future__ import annotations

import itertools
from functools import cache
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from kinema.builder import EntitySpec, build_model
from kinema.core import Array, Diagnostics, collect
from kinema.dynamics import (
    ControlMode,
    Engine,
    InputMode,
    Integrator,
    Settings,
    compute_mass_matrix_conditioning,
    perturbed_configuration,
)
from kinema.model import Model
from kinema.read import read
from kinema.runtime import find_device
from kit.assets import EXAMPLES, SHARED_ASSETS, all_assets, asset_id

FRAGMENTS = {"talos.xml"}
"""Files that are only meant to be included."""
OWN = ("arm/arm.urdf", "gripper/gripper.sdf", "quadruped/quadruped.xml", "quadruped/scene.xml")
FILES = [EXAMPLES / name for name in OWN] + [f for f in all_assets("mjcf/**/*.xml") if f.name not in FRAGMENTS]
CLOSE = 1e-12
N_ENVS = 2
N_COMMANDS, STEPS_EACH = 5, 20
DT = 0.002
SHORTER = {
    ("agility_cassie", Integrator.EULER): 2,
    ("agility_cassie", Integrator.IMPLICITFAST): 2,
    ("agility_cassie", Integrator.RK4): 4,
    ("franka_emika_panda", Integrator.EULER): 2,
    ("franka_emika_panda", Integrator.RK4): 2,
    ("gripper", Integrator.RK4): 16,
    ("kuka_iiwa_14", Integrator.EULER): 256,
    ("kuka_iiwa_14", Integrator.RK4): 256,
    ("pal_talos", Integrator.EULER): 4,
    ("pal_talos", Integrator.RK4): 128,
    ("robotiq_2f85_v4", Integrator.RK4): 2,
    ("wonik_allegro", Integrator.RK4): 64,
}
"""Robots that these integrators cannot step at 2 ms, as their servos or springs are too stiff: divisors of it."""
DRIVES = (InputMode.ACTUATORS, InputMode.COMMANDS)
LARGE = {"quadruped", "pal_talos", "unitree_g1", "agility_cassie", "mujoco_humanoid", "shadow_hand"}
FASTEST = 1e3
"""Speeds beyond this are no robot's: it has blown up."""


@cache
def model_of(file: Path) -> Model:
    """With gains, so that commands of all modes mean something: 10 rad/s, and damped, by what moves each joint."""
    model = build_model([EntitySpec(name="it", description=read(file, policy=collect))], diagnostics=Diagnostics())
    if model.n_dofs:
        inertia = compute_mass_matrix_conditioning(model, perturbed_configuration(model))[0].pivots
        model = model.with_columns("dofs", kp=100.0 * np.array(inertia), kv=10.0 * np.array(inertia))
    return model


def test_there_are_robots_to_compare() -> None:
    assert len(FILES) > (20 if SHARED_ASSETS.exists() else 3)


def stepped(model: Model, drive: InputMode, integrator: Integrator, codegen: str, dt: float) -> tuple[Array, Array]:
    """Coordinates and velocities after a hundred steps, told something new now and then."""
    by_actuators = drive is InputMode.ACTUATORS
    modes = [ControlMode.ACTUATOR if by_actuators else ControlMode(i % 4) for i in range(model.n_dofs)]
    engine = Engine(
        model,
        Settings(dt=dt, integrator=integrator),
        N_ENVS,
        find_device("cpu"),
        precision="double",
        codegen=codegen,
        control_modes=modes,
    )
    assert engine.settings.input_mode is (drive if model.n_actuators else InputMode.COMMANDS)
    assert engine.uses_loops == (codegen == "loops")
    generator = np.random.default_rng(1)
    start = np.array(perturbed_configuration(model))
    as_strong_as = np.where(np.array(modes) == ControlMode.FORCE, model.dofs.kp / 100.0, 1.0)[:, None]
    engine.array_view("qpos").assign(start[:, None])
    engine.array_view("vel").assign(generator.uniform(-0.5, 0.5, (model.n_dofs, N_ENVS)))
    for _ in range(N_COMMANDS):
        engine.array_view("command").assign(generator.uniform(-1, 1, (model.n_dofs, N_ENVS)) * as_strong_as)
        if model.n_actuators:
            engine.array_view("ctrl").assign(generator.uniform(-0.5, 0.5, (model.n_actuators, N_ENVS)))
        engine.step(STEPS_EACH)
    assert not engine.array_view("error").numpy().any()
    q, v = (engine.array_view(name).numpy().copy() for name in ("qpos", "vel"))
    assert np.abs(q - start[:, None]).max() > 1e-6
    assert np.abs(v).max() < FASTEST
    return q, v


def cases() -> list[Any]:
    """Each robot with each integrator, and each drive with one of them, large ones once; the rest as a benchmark.

    Combinations of these are in `test_rolled.py`, for robots with every kind of joint.
    """
    found = []
    for file, integrator, drive in itertools.product(FILES, Integrator, DRIVES):
        is_large, is_usual = file.parent.name in LARGE, integrator is Integrator.IMPLICITFAST
        is_other = drive is not DRIVES[integrator is Integrator.RK4]
        is_left_out = is_other if is_large and is_usual else not is_usual and (is_large or is_other)
        name = f"{asset_id(file)}-{integrator.value}-{drive.value}"
        marks = [pytest.mark.benchmark] if is_left_out else []
        found.append(pytest.param(file, integrator, drive, id=name, marks=marks))
    return found


@pytest.mark.wide
@pytest.mark.parametrize(("file", "integrator", "drive"), cases())
def test_the_same_motion(file: Path, integrator: Integrator, drive: InputMode) -> None:
    """A hundred steps in double precision, to 1e-12 of the largest number of each environment."""
    model = model_of(file)
    if model.n_dofs == 0:
        pytest.skip("nothing moves")
    dt = DT / SHORTER.get((file.parent.name, integrator), 1)
    straight, rolled = (stepped(model, drive, integrator, how, dt) for how in ("unrolled", "loops"))
    for ours, expected, what in zip(rolled, straight, ("coordinates", "velocities"), strict=True):
        error = np.abs(ours - expected).max(axis=0) / np.abs(expected).max(axis=0)
        assert error.max() < CLOSE, f"{what} are {error.max():.1e} off"


TUMBLING = """<mujoco><option timestep="0.002"/><worldbody><geom type="plane" size="9 9 .1"/>
<body pos="0 0 2"><freejoint/><geom type="box" size=".3 .1 .05" pos=".1 0 0"/></body>
<body pos="2 0 2"><freejoint/><geom type="ellipsoid" size=".1 .2 .05"/></body></worldbody></mujoco>"""


@pytest.mark.parametrize("codegen", ["loops", "unrolled"])
def test_bodies_tumble_alone_as_in_mujoco(codegen: str, tmp_path: Path) -> None:
    """Implicit in their gyroscopic forces, though they may touch."""
    path = tmp_path / "tumbling.xml"
    path.write_text(TUMBLING)
    peer = mujoco.MjModel.from_xml_path(str(path))
    peer.opt.integrator, peer.opt.tolerance = mujoco.mjtIntegrator.mjINT_IMPLICITFAST, 1e-15
    data = mujoco.MjData(peer)
    data.qvel[:] = 5.0 * np.random.default_rng(0).normal(size=peer.nv)
    model = build_model([EntitySpec(name="it", description=read(path))], with_contacts=True)
    settings = Settings(dt=DT, integrator=Integrator.IMPLICITFAST, contacts=True)
    engine = Engine(model, settings, 1, find_device("cpu"), precision="double", codegen=codegen)
    engine.array_view("vel").assign(data.qvel[:, None])
    for _ in range(100):
        mujoco.mj_step(peer, data)
        engine.step()
    np.testing.assert_allclose(engine.array_view("vel").numpy()[:, 0], data.qvel, rtol=0.0, atol=1e-11)

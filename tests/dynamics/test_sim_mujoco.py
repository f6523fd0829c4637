"""Every MJCF robot: all fields at random states, and whole trajectories, against MuJoCo."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from kinema.core import Array, Diagnostics
from kinema.dynamics import Engine, Integrator
from kinema.dynamics.queries.field_groups import FIELD_GROUPS
from kinema.ir import interpret
from kinema.runtime import find_device
from kit.assets import EXAMPLES, SHARED_ASSETS, all_assets, asset_id
from kit.mjcf_side import INTEGRATORS, Pair, load

from .arrays_for_tests import fields_program, mjcf_arrays, mjcf_settings
from .mujoco_checks import OF_LINKS, OF_MOTION, Check, states_of

FRAGMENTS = {"talos.xml"}
"""Files that are only meant to be included."""
OWN = [Path(__file__).parent / "features.xml", *(EXAMPLES / "quadruped" / n for n in ("quadruped.xml", "scene.xml"))]
ROBOTS = [f for f in (*OWN, *all_assets("mjcf/**/*.xml")) if f.name not in FRAGMENTS]
N_STATES = 50
N_STEPS = 200
ACTUATORS_NOT_SIMULATED: set[str] = set()
"""Files with actuators of a kind that Kinema warns about, and that are disabled in MuJoCo."""


@cache
def pair_of(file: Path) -> Pair:
    diagnostics = Diagnostics()
    pair = load(file, diagnostics)
    assert {d.code for d in diagnostics if d.code.startswith("sim.")} <= {
        "sim.actuator",
        "sim.loop",
        "sim.no-contact",
        "sim.tendon",
    }
    assert bool(pair.left_out) == (file.name in ACTUATORS_NOT_SIMULATED)
    assert len(pair.left_out) == sum(d.code == "sim.actuator" for d in diagnostics)
    return pair


@cache
def compared(file: Path) -> tuple[Pair, dict[str, Array], list[Any]]:
    """All fields from one program of all groups, and MuJoCo's data, at random states."""
    pair = pair_of(file)
    settings = mjcf_settings(pair, external_forces=True)
    program = fields_program(pair.ours, settings, *FIELD_GROUPS, jacobian_of=pair.ours.n_links - 1)
    states = states_of(pair, N_STATES, seed=1)
    fields = interpret(program, mjcf_arrays(pair, settings, states))
    return pair, fields, states


robot = pytest.mark.parametrize("file", ROBOTS, ids=asset_id)


def test_there_are_robots_to_compare() -> None:
    assert len(ROBOTS) > (20 if SHARED_ASSETS.exists() else 0)


@pytest.mark.wide("file")
@pytest.mark.parametrize("check", [*OF_LINKS, *OF_MOTION], ids=lambda check: check.__name__)
@robot
def test_fields(file: Path, check: Check) -> None:
    """At random states: to 1e-8 or better."""
    pair, fields, states = compared(file)
    if pair.ours.n_dofs == 0 and check in OF_MOTION:
        pytest.skip("nothing moves")
    check(pair, fields, states)


def started(pair: Pair, seed: int, speed: float) -> Any:
    """A state of MuJoCo near the start, at low speed."""
    data = pair.random_state(np.random.default_rng(seed), speed)
    data.qpos[:] = pair.theirs.qpos0
    data.ctrl[:] *= 0.1
    return data


def trajectory(pair: Pair, data: Any, steps: int, disturbance: float = 0.0) -> Array:
    """MuJoCo's coordinates and velocities in our order, (steps, n)."""
    own = mujoco.MjData(pair.theirs)
    own.qpos[:], own.qvel[:], own.ctrl[:] = data.qpos, data.qvel, data.ctrl
    own.qvel[:] += disturbance
    rows = []
    for _ in range(steps):
        mujoco.mj_step(pair.theirs, own)
        rows.append(np.concatenate([own.qpos[pair.q], own.qvel[pair.dof]]))
    return np.array(rows)


def ours_after(pair: Pair, data: Any, integrator: Integrator, steps: int, precision: str) -> Array:
    """Ours from the same state, by the compiled straight line."""
    settings = mjcf_settings(pair, integrator)
    engine = Engine(pair.ours, settings, 1, find_device("cpu"), precision=precision, codegen="unrolled")
    assert engine.settings.input_mode is settings.input_mode or not pair.ours.n_actuators
    for name in ("qpos", "vel", "ctrl"):
        values = pair.arrays([data])[name]
        if values.size:
            engine.array_view(name).assign(values)
    rows = []
    for _ in range(steps):
        engine.step()
        rows.append(np.concatenate([engine.array_view(name).numpy()[:, 0] for name in ("qpos", "vel")]))
    return np.array(rows, dtype=float)


DISTURBANCE = 1e-12
GROWN = 1e5
"""Where MuJoCo itself lets a disturbance of its velocities grow by this much, no comparison to 1e-6 means anything."""
SHORTER = {
    ("panda.xml", Integrator.EULER): 4,
    ("panda.xml", Integrator.RK4): 4,
    ("iiwa14.xml", Integrator.EULER): 256,
    ("iiwa14.xml", Integrator.RK4): 256,
    ("talos_position.xml", Integrator.EULER): 2,
    ("talos_position.xml", Integrator.RK4): 64,
    ("mjx_2f85.xml", Integrator.RK4): 2,
    ("right_hand.xml", Integrator.RK4): 64,
}
"""Stiff servos that need an implicit step at the file's own: what its step is divided by for the others."""


LARGE = {"talos_position.xml", "g1_mjx.xml", "cassie.xml"}
"""Robots that take long with every integrator: all of them only as a benchmark."""


def trajectories() -> list[Any]:
    """Each robot with each integrator."""
    found = []
    for file in ROBOTS:
        for integrator in Integrator:
            marks = [pytest.mark.benchmark] if file.name in LARGE and integrator is not Integrator.IMPLICITFAST else []
            found.append(pytest.param(file, integrator, id=f"{asset_id(file)}-{integrator.value}", marks=marks))
    return found


@pytest.mark.wide
@pytest.mark.parametrize(("file", "integrator"), trajectories())
def test_trajectory(file: Path, integrator: Integrator) -> None:
    """200 steps to 1e-6, of a length at which MuJoCo's own trajectory can be told from a neighbour's."""
    pair = pair_of(file)
    if pair.ours.n_dofs == 0:
        pytest.skip("nothing moves")
    own = pair.theirs.opt.timestep
    try:
        pair.theirs.opt.timestep = own / SHORTER.get((file.name, integrator), 1)
        pair.theirs.opt.integrator = INTEGRATORS[integrator]
        data = started(pair, seed=2, speed=0.1)
        theirs = trajectory(pair, data, N_STEPS)
        neighbour = trajectory(pair, data, N_STEPS, DISTURBANCE)
        growth = float(np.abs(neighbour - theirs).max() / DISTURBANCE)
        assert growth < GROWN, f"MuJoCo lets a disturbance grow {growth:g} times"
        ours = ours_after(pair, data, integrator, N_STEPS, "double")
    finally:
        pair.theirs.opt.timestep = own
    scale = np.maximum(1.0, np.abs(theirs).max(axis=1, keepdims=True))
    error = float(np.abs((ours - theirs) / scale).max())
    print(f"error {error:.1e}, growth of a disturbance in MuJoCo {growth:.1e}")
    assert error < 1e-6


@pytest.mark.wide
@robot
def test_single_precision(file: Path) -> None:
    """100 steps in float32 to 1e-4."""
    pair = pair_of(file)
    if pair.ours.n_dofs == 0:
        pytest.skip("nothing moves")
    pair.theirs.opt.integrator = INTEGRATORS[Integrator.IMPLICITFAST]
    data = started(pair, seed=3, speed=0.1)
    theirs = trajectory(pair, data, 100)
    ours = ours_after(pair, data, Integrator.IMPLICITFAST, 100, "single")
    scale = np.maximum(1.0, np.abs(theirs).max(axis=1, keepdims=True))
    error = float(np.abs((ours - theirs) / scale).max())
    print(f"error {error:.1e}")
    assert error < 1e-4

"""Big models beside MuJoCo C: a chain of 200 hinges, and a hundred bodies that fly alone."""

from __future__ import annotations

import itertools
from pathlib import Path

import mujoco
import numpy as np
import pytest

from kinema.dynamics import Engine, Integrator
from kinema.dynamics.lowering.step_program import plan_lowering
from kinema.dynamics.tree.kinematic_tree import build_tree
from kinema.runtime import find_device
from kit.mjcf_side import INTEGRATORS, load

from .arrays_for_tests import mjcf_settings
from .rolling import bodies, chain

N_STEPS = 200


ROBOTS = {
    "chain": (chain(200, ("0 1 0", "1 0 0")), 0.05),
    "shorter chain": (chain(80, ("0 1 0", "1 0 0")), 0.05),
    "bodies": (bodies(100), 2.0),
}
CHOSEN = {
    ("chain", Integrator.EULER),
    ("shorter chain", Integrator.IMPLICIT),  # its matrix is dense
    ("bodies", Integrator.IMPLICITFAST),
}


@pytest.mark.parametrize(
    ("name", "integrator"),
    [
        pytest.param(*case, marks=() if case in CHOSEN else pytest.mark.exhaustive)
        for case in itertools.product(ROBOTS, Integrator)
    ],
)
def test_as_mujoco(tmp_path: Path, name: str, integrator: Integrator) -> None:
    """After 200 steps the coordinates agree to 1e-6, in double precision."""
    text, speed = ROBOTS[name]
    file = tmp_path / "model.xml"
    file.write_text(text, encoding="utf-8")
    pair = load(file)
    pair.theirs.opt.integrator = INTEGRATORS[integrator]
    data = mujoco.MjData(pair.theirs)
    generator = np.random.default_rng(1)
    data.qvel[:] = speed * generator.uniform(-1, 1, pair.theirs.nv)
    settings = mjcf_settings(pair, integrator)
    engine = Engine(pair.ours, settings, 1, find_device("cpu"), precision="double", lanes=1)
    assert engine.uses_loops
    engine.array_view("qpos").assign(data.qpos[pair.q][:, None])
    engine.array_view("vel").assign(data.qvel[pair.dof][:, None])
    for _ in range(N_STEPS):
        mujoco.mj_step(pair.theirs, data)
    engine.step(N_STEPS)
    assert np.abs(data.qpos - pair.theirs.qpos0).max() > 1e-3
    np.testing.assert_allclose(engine.array_view("qpos").numpy()[:, 0], data.qpos[pair.q], rtol=0, atol=1e-6)
    np.testing.assert_allclose(engine.array_view("vel").numpy()[:, 0], data.qvel[pair.dof], rtol=0, atol=1e-5)


def test_a_long_chain_is_stepped_by_joint(tmp_path: Path) -> None:
    """It is one part, and its straight line would be too long."""
    file = tmp_path / "model.xml"
    file.write_text(chain(200), encoding="utf-8")
    pair = load(file)
    assert len(plan_lowering(pair.ours, mjcf_settings(pair), build_tree(pair.ours)).looped_components) == 1

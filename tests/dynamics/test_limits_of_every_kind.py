"""Limits of joints with several axes, from poses three beyond them, against MuJoCo in the file that we write."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest

import kinema as km
from kit.choosing import representatives
from kit.robots.each_joint import Case, robot

N_STEPS = 50


@pytest.mark.parametrize("kind", representatives(["planar", "universal", "cylindrical", "six_axis"], 2))
def test_every_axis_stops(kind: str, tmp_path: Path) -> None:
    """Steps to 1e-9, with all limits pushing."""
    described = robot(Case(kind, backwards=False))
    for joint in described.joints:
        for axis in joint.moving_axes:
            axis.lower, axis.upper = -0.2, 0.3
    file = tmp_path / "robot.xml"
    km.write(described, file)
    model = mujoco.MjModel.from_xml_path(str(file))
    model.opt.integrator, model.opt.tolerance = mujoco.mjtIntegrator.mjINT_IMPLICITFAST, 1e-14
    data = mujoco.MjData(model)
    scene = km.Scene(precision="double", device="cpu", codegen="loops", contacts=False, dt=0.002, quiet=True)
    entity = scene.add(described)
    scene.build(n_envs=1)
    rng = np.random.default_rng(0)
    data.qpos[:] = rng.uniform(2.5, 3.3, model.nq) * np.sign(rng.normal(size=model.nq))
    data.qvel[:] = rng.normal(size=model.nv)
    entity.set_qpos(data.qpos)
    entity.set_qvel(data.qvel)
    worst, most = 0.0, 0
    for _ in range(N_STEPS):
        mujoco.mj_step(model, data)
        scene.step()
        worst, most = max(worst, float(np.abs(entity.get_qpos()[0] - data.qpos).max())), max(most, data.nefc)
    assert most == model.nv
    assert worst < 1e-9

"""MJCF's flag `eulerdamp`: whether Euler's step takes the damping of joints implicitly."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest

from kinema import read
from kinema.builder import EntitySpec, build_model
from kinema.dynamics import Engine, Integrator, Settings
from kinema.runtime import find_device

MODEL = """
<mujoco><option timestep="0.005"><flag eulerdamp="{flag}"/></option><worldbody>
  <body pos="0 0 1"><joint type="hinge" axis="0 1 0" damping="0.3"/><geom size=".05" pos=".2 0 0" mass="1"/>
    <body pos=".4 0 0"><joint type="ball" damping=".1" stiffness=".5"/><geom size=".05" pos=".2 0 0" mass=".5"/></body>
  </body></worldbody></mujoco>
"""


@pytest.mark.parametrize("codegen", ["unrolled", "loops"])
@pytest.mark.parametrize("flag", ["enable", "disable"])
def test_euler_with_and_without(tmp_path: Path, flag: str, codegen: str) -> None:
    file = tmp_path / "robot.xml"
    file.write_text(MODEL.format(flag=flag), encoding="utf-8")
    theirs = mujoco.MjModel.from_xml_path(str(file))
    theirs.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
    data = mujoco.MjData(theirs)
    data.qvel[:] = [1.0, -0.5, 0.3, 0.8]
    model = build_model([EntitySpec(name="it", description=read(file))])
    settings = Settings(dt=0.005, integrator=Integrator.EULER)
    engine = Engine(model, settings, 1, find_device("cpu"), precision="double", codegen=codegen)
    engine.array_view("vel").assign(data.qvel[:, None])
    for _ in range(100):
        mujoco.mj_step(theirs, data)
    engine.step(100)
    np.testing.assert_allclose(engine.array_view("qpos").numpy()[:, 0], data.qpos, rtol=0, atol=1e-11)

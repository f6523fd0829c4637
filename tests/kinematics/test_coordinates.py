"""Coordinates that move on, and the velocities between them: MuJoCo's `mj_integratePos` and `mj_differentiatePos`."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest

import kinema as km
from kinema.kinematics import Kinematics

TEXT = """<mujoco><worldbody><body name="base"><freejoint/><geom size=".1"/><body name="arm" pos=".3 0 0">
<joint name="slide" type="slide"/><geom size=".1"/><body name="eye" pos=".3 0 0"><joint name="ball" type="ball"/>
<geom size=".1"/></body></body></body></worldbody></mujoco>"""


def test_they_are_mujoco_s(tmp_path: Path) -> None:
    file = tmp_path / "robot.xml"
    file.write_text(TEXT)
    kin, model = Kinematics(file), mujoco.MjModel.from_xml_path(str(file))
    rng = np.random.default_rng(1)
    before, speed = rng.normal(size=(20, model.nq)), rng.normal(size=(20, model.nv))
    for row in before:
        mujoco.mj_normalizeQuat(model, row)
    after = kin.integrate(before, speed, 0.4)
    back = kin.difference(before, after, 0.4)
    for i in range(20):
        expected, change = before[i].copy(), np.zeros(model.nv)
        mujoco.mj_integratePos(model, expected, speed[i], 0.4)
        np.testing.assert_allclose(after[i], expected, atol=1e-12)
        mujoco.mj_differentiatePos(model, change, 0.4, before[i], after[i])
        np.testing.assert_allclose(back[i], change, atol=1e-9)
    np.testing.assert_allclose(back, speed, atol=1e-9)
    np.testing.assert_allclose(kin.integrate(before[0], speed[:3])[0], kin.integrate(before[0], speed[0])[0])
    assert not kin.difference(before, before).any()
    with pytest.raises(km.KinemaError, match="rows cannot be broadcast together"):
        kin.difference(before, after[:3])

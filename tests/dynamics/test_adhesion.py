"""Adhesion beside MuJoCo C: a box held under a ceiling and a wall, by a link that is part of a larger body."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np

import kinema as km

TEXT = """<mujoco><option integrator="Euler" cone="elliptic"/><worldbody>
<geom type="plane" size="5 5 .1"/>
<body name="gripper" pos="0 0 0.5"><joint type="slide" axis="0 0 1" damping="3"/><geom size=".05" pos=".1 -.1 0"/>
<body name="pad" pos=".1 0 0"><geom name="pad" size=".05" margin=".01" gap=".005"/>
<geom size=".04" pos="0 .1 -.01"/></body></body>
<body pos=".1 .03 .4006"><freejoint/><geom type="box" size=".1 .2 .0495" mass=".4"/></body>
</worldbody><actuator><adhesion name="stick" body="pad" ctrlrange="0 1" gain="9"/></actuator></mujoco>"""


def test_a_box_is_carried(tmp_path: Path) -> None:
    """The pull is shared by the contacts of its link alone, also within a gap: 30 steps to 1e-9, and with none."""
    file = tmp_path / "stick.xml"
    file.write_text(TEXT, encoding="utf-8")
    theirs = mujoco.MjModel.from_xml_string(TEXT)
    theirs.opt.tolerance, theirs.opt.iterations, theirs.opt.ls_iterations = 1e-15, 200, 100
    scene = km.Scene(quiet=True, precision="double", integrator="euler", iterations=100, codegen="loops")
    entity = scene.add(file)
    scene.build(n_envs=2)
    assert entity.actuator_names == ["stick"]
    entity.control([[1.0], [0.0]])
    for env, control in enumerate((1.0, 0.0)):
        data = mujoco.MjData(theirs)
        data.ctrl[:] = control
        scene.reset()
        entity.control([[1.0], [0.0]])
        touched = 0
        for _ in range(30):
            mujoco.mj_step(theirs, data)
            touched = max(touched, data.ncon)
            scene.step()
        assert touched == 3
        np.testing.assert_allclose(entity.get_qpos()[env], data.qpos, rtol=0, atol=1e-9)

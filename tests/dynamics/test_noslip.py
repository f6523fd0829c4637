"""Friction without slip beside MuJoCo C's: blocks on a slope, a pinched bar, a joint with dry friction."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pytest

import kinema as km

TEXT = """<mujoco><option integrator="Euler" cone="{cone}" impratio="1" gravity="3 1 -9"/><worldbody>
<geom type="plane" size="5 5 .1" condim="{dimension}"/>
<body pos="0 0 .099"><freejoint/><geom type="box" size=".1 .1 .1" mass="1" condim="{dimension}"/></body>
<body pos="0 0 .2985"><freejoint/><geom size=".1" mass="1" condim="{dimension}" friction=".3 .01 .01"/></body>
<body pos="1 0 .5"><joint axis="0 1 0" frictionloss=".4" damping=".01"/>
<geom type="capsule" size=".04" fromto="0 0 0 .3 0 0" contype="0" conaffinity="0"/></body>
</worldbody></mujoco>"""


@pytest.mark.parametrize(
    ("cone", "dimension"), [pytest.param("pyramidal", 3, marks=pytest.mark.benchmark), ("elliptic", 4)]
)
def test_beside_mujoco(cone: str, dimension: int, tmp_path: Path) -> None:
    """Twenty steps to 2e-5, where without it they would be 1e-3 apart."""
    text = TEXT.format(cone=cone, dimension=dimension)
    file = tmp_path / "slip.xml"
    file.write_text(text, encoding="utf-8")
    scene = km.Scene(quiet=True, precision="double", integrator="euler", iterations=100, codegen="loops")
    entity = scene.add(file)
    scene.build()
    engine = scene.built.engine
    engine.settings = replace(engine.settings, noslip_iterations=60)
    apart = []
    for iterations in (5000, 0):
        theirs = mujoco.MjModel.from_xml_string(text)
        theirs.opt.tolerance, theirs.opt.iterations, theirs.opt.ls_iterations = 1e-15, 200, 100
        theirs.opt.noslip_iterations, theirs.opt.noslip_tolerance = iterations, 0.0
        data = mujoco.MjData(theirs)
        scene.reset()
        for _ in range(20):
            mujoco.mj_step(theirs, data)
            scene.step()
        apart.append(np.abs(entity.get_qvel()[0] - data.qvel).max())
    assert apart[0] < 2e-5
    assert apart[1] > 1e-3

"""Friction, hardness and sizes of shapes that differ between environments, beside MuJoCo C with those numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

import kinema as km
from kinema.core import KinemaError

TEXT = """<mujoco><option integrator="Euler" cone="elliptic"/><worldbody>
<geom name="floor" type="plane" size="5 5 .1" friction=".3 .01 .001" condim="4"/>
<body pos="0 0 .1"><freejoint/><geom name="ball" size=".1" mass="1" friction=".5 .02 .001"/></body>
<body pos="0 0 .3"><freejoint/>
<geom name="bar" type="capsule" size=".1 .2" euler="0 90 0" mass="2" solmix="3" solref=".03 1"/></body>
</worldbody></mujoco>"""
PARAMETERS = ("geom_friction", "geom_sol_params", "geom_size")
FRICTION = np.array([[0.2, 0.01, 0.001], [0.9, 0.03, 0.001], [0.4, 0.002, 0.001]])
SOL = np.array(
    [[0.02, 1, 0.9, 0.95, 0.001, 0.5, 2], [0.05, 0.7, 0.8, 0.9, 0.01, 0.5, 2], [-500, -30, 0.9, 0.95, 1e-3, 0.5, 2]]
)
SIZE = np.array([[0.1, 0.2, 0.0], [0.08, 0.3, 0.0], [0.13, 0.1, 0.0]])


def scene_of(tmp_path: Path, **how: Any) -> tuple[km.Scene, Any]:
    """Three environments."""
    file = tmp_path / "touch.xml"
    file.write_text(TEXT, encoding="utf-8")
    scene = km.Scene(quiet=True, precision="double", integrator="euler", iterations=100, codegen="loops")
    entity = scene.add(file)
    scene.build(n_envs=3, **how)
    return scene, entity


def test_environments_that_touch_otherwise(tmp_path: Path) -> None:
    """Each is what MuJoCo makes of a model with its numbers, forty steps to 1e-9."""
    scene, things = scene_of(tmp_path, per_env=PARAMETERS)
    assert sorted(things.geom_names) == ["ball", "bar", "floor"]
    things.set_geoms_friction(FRICTION[:, None], geoms_idx="floor")
    things.set_geoms_friction([0.1, 0.6], geoms_idx=["ball", "bar"], envs_idx=[1])
    things.set_geoms_sol_params(SOL[:, None], geoms_idx=["ball"])
    things.set_geoms_size(SIZE[:, None], geoms_idx=["bar"])
    np.testing.assert_allclose(things.get_geoms_size("bar")[:, 0], SIZE)
    np.testing.assert_allclose(things.get_geoms_friction("ball")[:, 0, 0], [0.5, 0.1, 0.5])
    start = 0.3 * np.random.default_rng(0).normal(size=12)
    things.set_qvel(start)
    scene.step(40)
    for env in range(3):
        model = mujoco.MjModel.from_xml_string(TEXT)
        model.opt.tolerance, model.opt.iterations = 1e-15, 200
        floor, ball, bar = (model.geom(name).id for name in ("floor", "ball", "bar"))
        model.geom_friction[floor] = FRICTION[env]
        if env == 1:
            model.geom_friction[ball, 0], model.geom_friction[bar, 0] = 0.1, 0.6
        model.geom_solref[ball], model.geom_solimp[ball] = SOL[env, :2], SOL[env, 2:]
        model.geom_size[bar] = SIZE[env]
        model.geom_rbound[bar] = SIZE[env].sum()
        data = mujoco.MjData(model)
        data.qvel[:] = start
        for _ in range(40):
            mujoco.mj_step(model, data)
        assert data.ncon >= 2
        np.testing.assert_allclose(things.get_qpos()[env], data.qpos, rtol=0, atol=1e-9)
    things.set_friction(0.7)
    np.testing.assert_allclose(things.get_geoms_friction()[..., 0], 0.7)
    things.set_friction_ratio(np.array([[2.0] * things.n_links, [0.5] * things.n_links]), envs_idx=[0, 2])
    np.testing.assert_allclose(things.get_geoms_friction("ball")[:, 0, 0], [1.0, 0.7, 0.25])
    np.testing.assert_allclose(things.get_geoms_friction("floor")[:, 0, 0], 0.7, err_msg="which is on no link")


def test_what_cannot_be_set(tmp_path: Path) -> None:
    """One sentence each."""
    _, things = scene_of(tmp_path, per_env=("geom_size",))
    for action, message in (
        (lambda: things.set_geoms_friction(1.0), "use scene.build.*geom_friction.*or scene.allow_per_env"),
        (lambda: things.set_geoms_size([1, 1, 1], "floor"), "the size of a plane cannot be set"),
        (lambda: things.set_geoms_size([0, 0, 0], "ball"), "positive numbers for a sphere"),
        (lambda: things.set_geoms_size([1, 1], "ball"), "expected values of shape"),
        (lambda: things.set_geoms_size(1, "cube"), "the shapes are"),
    ):
        with pytest.raises(KinemaError, match=message):
            action()

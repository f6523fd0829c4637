"""Limits, friction, constraints on or off, and their softness, other in each environment, beside MuJoCo."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

import kinema as km
from kit.choosing import combinations
from kit.mujoco_models import quiet

TEXT = """<mujoco><option timestep="0.002"/><default><geom contype="0" conaffinity="0"/></default><worldbody>
<body name="a"><joint name="stops" axis="0 1 0" range="-20 20" limited="true" damping="0.02"/>
<geom size=".1" pos=".4 0 0"/><body name="b" pos=".8 0 0"><joint name="rubs" axis="0 1 0" frictionloss="0.5"/>
<geom size=".1" pos=".2 0 0"/></body></body>
<body name="c" pos="0 1 0"><joint name="leads" axis="0 1 0"/><geom size=".1" pos=".3 0 0"/></body>
<body name="d" pos="0 2 0"><joint name="follows" axis="0 1 0"/><geom size=".1" pos=".5 0 0"/></body></worldbody>
<equality><connect name="pin" body1="b" anchor=".3 0 0" active="false"/>
<joint name="gear" joint1="follows" joint2="leads" polycoef="0 0.5 0 0 0"/></equality></mujoco>"""
PER_ENV = ("limit", "frictionloss", "equality", "sol_params")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.xml"
    path.write_text(TEXT, encoding="utf-8")
    return path


def built(file: Path, per_env: tuple[str, ...] = PER_ENV, **settings: Any) -> tuple[km.Scene, km.Entity]:
    scene = km.Scene(dt=0.002, contacts=False, quiet=True, precision="double", **settings)
    entity = scene.add(file)
    scene.build(4, per_env=per_env)
    return scene, entity


SOFT = [0.05, 0.7, 0.8, 0.9, 0.01, 0.5, 2.0]
SPRINGY = [-300.0, -8.0, 0.9, 0.95, 0.001, 0.5, 2.0]


def theirs(file: Path, env: int) -> Any:
    """MuJoCo, with the numbers of an environment."""
    model = mujoco.MjModel.from_xml_path(str(file))
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    model.opt.tolerance, model.opt.iterations, model.opt.ls_tolerance = 0.0, 40, 1e-6
    data = mujoco.MjData(model)
    if env == 1:
        model.joint("stops").range[:] = (-0.1, 0.2)
        model.joint("rubs").frictionloss[:] = 2.0
        data.eq_active[:] = (1, 0)
    elif env == 2:
        model.jnt_solref[0], model.jnt_solimp[0] = SPRINGY[:2], SPRINGY[2:]
        model.dof_solref[1], model.dof_solimp[1] = SOFT[:2], SOFT[2:]
        model.eq_solref[1], model.eq_solimp[1] = SOFT[:2], SOFT[2:]
    elif env == 3:
        data.eq_active[:] = (1, 1)
        model.eq_solref[0], model.eq_solimp[0] = SPRINGY[:2], SPRINGY[2:]
    with quiet():
        mujoco.mj_step(model, data, 150)
    return data


@pytest.mark.parametrize("codegen", ["unrolled", "loops"])
def test_environments_with_numbers_of_their_own(file: Path, codegen: str) -> None:
    """A hundred and fifty steps in four environments, each beside MuJoCo with its numbers, to 1e-8."""
    scene, entity = built(file, codegen=codegen)
    assert scene.equality_names == ["pin", "gear"]
    np.testing.assert_array_equal(scene.get_equality(), [[False, True]] * 4)
    entity.set_dofs_limit(-0.1, 0.2, "stops", envs_idx=[1])
    entity.set_dofs_frictionloss(2.0, "rubs", envs_idx=[1])
    scene.set_equality([True, False], envs_idx=[1])
    scene.set_equality(True, "pin", envs_idx=[3])
    entity.set_dofs_sol_params(SPRINGY, "stops", envs_idx=[2])
    entity.set_dofs_sol_params(SOFT, "rubs", envs_idx=[2], kind="friction")
    scene.set_equality_sol_params(SOFT, ["gear"], envs_idx=[2])
    scene.set_equality_sol_params(SPRINGY, ["pin"], envs_idx=[3])
    scene.step(150)
    for env in range(4):
        data = theirs(file, env)
        np.testing.assert_allclose(entity.get_qvel()[env], data.qvel, rtol=0, atol=1e-8, err_msg=f"environment {env}")
    np.testing.assert_array_equal(scene.get_equality(), [[0, 1], [1, 0], [0, 1], [1, 1]])
    np.testing.assert_allclose(entity.get_dofs_limit("stops")[1][:, 0], [np.radians(20), 0.2, *[np.radians(20)] * 2])
    np.testing.assert_allclose(entity.get_dofs_frictionloss("rubs")[:, 0], [0.5, 2.0, 0.5, 0.5])
    np.testing.assert_allclose(entity.get_dofs_sol_params("stops")[2, 0], SPRINGY)
    np.testing.assert_allclose(scene.get_equality_sol_params("gear", envs_idx=[2])[0, 0], SOFT)


def test_what_was_not_asked_for(file: Path) -> None:
    """Without `per_env` the same numbers can be read, and what can be set for all is not set for some."""
    scene, entity = built(file, ())
    assert scene.equality_names == ["gear", "pin"]
    np.testing.assert_array_equal(scene.get_equality(), [[True, False]] * 4)
    np.testing.assert_allclose(scene.get_equality_sol_params(), [[[0.02, 1, 0.9, 0.95, 0.001, 0.5, 2]] * 2] * 4)
    np.testing.assert_allclose(entity.get_dofs_sol_params("stops")[0], [0.02, 1, 0.9, 0.95, 0.001, 0.5, 2])
    assert entity.get_dofs_frictionloss().tolist() == [0.0, 0.5, 0.0, 0.0]
    entity.set_dofs_limit(-np.inf, 0.3, "stops")
    assert entity.get_dofs_limit("stops")[0] == [-np.inf]
    for call, word in (
        (lambda: entity.set_dofs_limit(0.0, 0.1, "stops", envs_idx=[0]), "limit"),
        (lambda: entity.set_dofs_frictionloss(1.0, "rubs"), "frictionloss"),
        (lambda: scene.set_equality(False), "equality"),
        (lambda: scene.set_equality_sol_params(SOFT), "sol_params"),
        (lambda: entity.set_dofs_sol_params(SOFT), "sol_params"),
    ):
        with pytest.raises(km.KinemaError, match=rf'per_env=\("{word}",\)'):
            call()


@pytest.mark.parametrize("wrong", [[0.02, -1, 0.9, 0.95, 0.001, 0.5, 2], [np.nan] * 7, [1.0, 2.0]])
def test_softness_that_cannot_be(file: Path, wrong: list[float]) -> None:
    scene, entity = built(file)
    with pytest.raises(km.KinemaError, match="set_dofs_sol_params: expected"):
        entity.set_dofs_sol_params(wrong)
    with pytest.raises(km.KinemaError, match="was built without dry friction"):
        entity.set_dofs_frictionloss(1.0, "leads")
    with pytest.raises(km.KinemaError, match="there is no 'nothing'"):
        scene.set_equality(True, "nothing")


WELDED = """<mujoco><option gravity="0 0 0"/><worldbody>
<body name="hand" pos="0 0 1"><freejoint/><geom size=".1"/></body>
<body name="part" pos="1 0 1"><freejoint/><geom size=".1"/></body>
<body name="bench" pos="0 0 3" quat=".6 0 .8 0"><joint axis="0 1 0"/><geom size=".1" pos="0 0 .5"/>
<body pos="0 .3 0"><geom size=".1"/></body></body></worldbody><equality>
<weld name="grip" body1="hand" body2="part" active="false"/>
<weld name="clamp" body1="part" body2="bench" active="false"/>
<connect name="pin" body1="hand" body2="part" anchor=".5 0 0" active="false"/></equality></mujoco>"""


@pytest.mark.parametrize(("name", "codegen"), combinations(["grip", "clamp", "pin"], ["unrolled", "loops"], strength=1))
def test_welds_hold_the_present_pose(name: str, codegen: str, tmp_path: Path) -> None:
    """A constraint that is enabled moves nothing; with the pose of the file it pulls as MuJoCo's does."""
    file = tmp_path / "welded.xml"
    file.write_text(WELDED, encoding="utf-8")
    scene, entity = built(file, ("equality",), codegen=codegen)
    qpos = entity.get_qpos()
    qpos[:, 7:10], qpos[:, 10:14] = [0.5, 0.4, 1.3], [0.8, 0.6, 0.0, 0.0]
    entity.set_qpos(qpos)
    scene.set_equality(True, name, envs_idx=[1, 3])
    scene.set_equality(True, name, envs_idx=[1])  # as it is already
    scene.set_equality(True, name, envs_idx=[2], at="file")
    state = scene.get_state()
    scene.step(50)
    np.testing.assert_allclose(entity.get_qpos()[[0, 1, 3]], qpos[[0, 1, 3]], atol=1e-9)
    model = mujoco.MjModel.from_xml_path(str(file))
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    model.opt.tolerance, model.opt.iterations, model.opt.ls_tolerance = 0.0, 40, 1e-6
    data = mujoco.MjData(model)
    data.qpos[:], data.eq_active[scene.equality_names.index(name)] = qpos[2], 1
    with quiet():
        mujoco.mj_step(model, data, 50)
    assert np.abs(data.qpos - qpos[2]).max() > 0.05
    np.testing.assert_allclose(entity.get_qpos()[2], data.qpos, atol=1e-7)
    scene.set_state(state)
    scene.set_equality(True, name, envs_idx=[1], at="file")
    scene.step(50)
    np.testing.assert_allclose(entity.get_qpos()[1], data.qpos, atol=1e-7)
    with pytest.raises(km.KinemaError, match="set_equality: at: 'later' is none of now, file"):
        scene.set_equality(True, name, at="later")

"""Contacts beside MuJoCo C: stacks of every dimension of force, in cones and pyramids, and robots that fall over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

import kinema as km
from kit.assets import all_assets
from kit.contact_parity import matched, of_laws, ours_of, theirs_of

STACK = """<mujoco><option integrator="Euler" cone="{cone}" impratio="{impratio}"/><worldbody>
<geom type="plane" size="5 5 .1" condim="1"/>
<body pos="100 0 0.049"><freejoint/><geom type="box" size="0.1 0.2 0.05" mass="1" condim="6"/></body>
<body pos="100.05 0.05 0.145"><freejoint/>
<geom name="lid" type="box" size="0.1 0.1 0.05" mass="0.5" condim="4" priority="1"
solref="0.03 0.8"/></body>
<body pos="100 0.05 0.245"><freejoint/>
<geom name="ball" size="0.05" mass="0.5" condim="3" friction="0.4 0.02 0.01"/></body>
<body pos="100.3 0 0.1"><freejoint/>
<geom type="capsule" size="0.05 0.1" mass="1" margin="0.01" gap="0.005" condim="{dimension}"/>
<body pos="0 0 0.2"><joint axis="0 1 0" range="-60 60"/>
<geom type="capsule" size="0.04" fromto="0 0 0 .15 0 .1"/></body>
</body></worldbody>
<contact><pair geom1="ball" geom2="lid" friction=".5 .5 .1 .1 .1"/>
<pair geom1="lid" geom2="ball" friction=".5 .5 .1 .1 .1"/></contact>
</mujoco>"""
"""Contacts of every dimension, of two bodies and with the floor; a pair that is named twice touches twice."""


def exact(model: Any) -> Any:
    """A model of MuJoCo's that is solved as well as can be."""
    model.opt.tolerance, model.opt.iterations, model.opt.ls_iterations = 1e-15, 200, 100
    return model


def scene_of(file: Path, n_envs: int, **how: Any) -> tuple[km.Scene, Any]:
    """A scene in double precision that is solved likewise."""
    how = {"precision": "double", "integrator": "euler", "iterations": 100, "ls_iterations": 50, **how}
    scene = km.Scene(quiet=True, **how)
    entity = scene.add(file)
    scene.build(n_envs=n_envs)
    return scene, entity


def listed(model: Any, data: Any) -> tuple[np.ndarray, np.ndarray]:
    """Positions and forces of MuJoCo's contacts, in the order of positions."""
    wrench, forces = np.zeros(6), []
    for i in range(data.ncon):
        mujoco.mj_contactForce(model, data, i, wrench)
        forces.append(data.contact[i].frame.reshape(3, 3).T @ wrench[:3])
    points = np.array([c.pos for c in data.contact])
    order = np.lexsort(points.round(6).T)
    return points[order], np.array(forces)[order]


@pytest.mark.slow("dozens of bodies of all kinds touch each other")
@pytest.mark.parametrize(
    ("cone", "impratio", "dimension"),
    [pytest.param("pyramidal", 1, 1, marks=pytest.mark.exhaustive), ("elliptic", 10, 3)],
)
def test_stacks(cone: str, impratio: int, dimension: int, tmp_path: Path) -> None:
    """Forty steps of things that slide, roll and lean on each other: 1e-10; contacts and their forces likewise."""
    text = STACK.format(cone=cone, impratio=impratio, dimension=dimension)
    file = tmp_path / "stack.xml"
    file.write_text(text, encoding="utf-8")
    theirs = exact(mujoco.MjModel.from_xml_string(text))
    data = mujoco.MjData(theirs)
    scene, entity = scene_of(file, 3, codegen="loops")
    data.qvel[:] = 0.2 * np.random.default_rng(dimension).normal(size=theirs.nv)
    entity.set_qvel(np.tile(data.qvel, (3, 1)))
    for _ in range(40):
        scene.step()
        mujoco.mj_step(theirs, data)
        np.testing.assert_allclose(entity.get_qpos(), np.tile(data.qpos, (3, 1)), rtol=0, atol=1e-10)
    mujoco.mj_forward(theirs, data)
    points, forces = listed(theirs, data)
    found = scene.get_contacts(envs_idx=[1])
    assert found["valid_mask"].all()
    assert len(points) > 6
    order = np.lexsort(found["position"][0].round(6).T)
    np.testing.assert_allclose(found["position"][0][order], points, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found["force_b"][0][order], forces, rtol=0, atol=1e-8 * np.abs(forces).max())
    np.testing.assert_allclose(found["force_a"], -found["force_b"])
    if cone == "elliptic":
        bodies, engine = np.arange(1, theirs.nbody), scene.built.engine
        other, (own,) = theirs_of(theirs, data), ours_of(engine, engine.model, bodies, theirs, [data])
        off = of_laws([own.laws[i] for i in matched(own, other)], other.laws)
        assert max(off) < 1e-8, dict(zip(("frame", "D", "aref", "J"), off, strict=True))


ROBOTS = all_assets("mjcf/mujoco_humanoid/humanoid.xml")


@pytest.mark.parametrize("file", ROBOTS, ids=lambda f: f.stem)
def test_robots_that_fall_over(file: Path) -> None:
    """From states of a wild run on a floor, one step each: as many contacts, and velocities to 1e-8 of their change."""
    theirs = exact(mujoco.MjModel.from_xml_path(str(file)))
    theirs.opt.integrator = mujoco.mjtIntegrator.mjINT_EULER
    data, rng = mujoco.MjData(theirs), np.random.default_rng(1)
    lower, upper = np.where(theirs.actuator_ctrllimited.astype(bool)[:, None], theirs.actuator_ctrlrange, (-1, 1)).T
    before, after, controls, numbers = [], [], [], []
    for i in range(600):
        data.ctrl[:] = rng.uniform(lower, upper)
        if i % 50 == 49:
            before.append((data.qpos.copy(), data.qvel.copy()))
            controls.append(data.ctrl.copy())
        mujoco.mj_step(theirs, data)
        if i % 50 == 49:
            after.append(data.qvel.copy())
            numbers.append(data.ncon)
    scene, entity = scene_of(file, len(before), dt=theirs.opt.timestep, codegen="loops")
    entity.set_qpos(np.array([q for q, _ in before]))
    entity.set_qvel(np.array([v for _, v in before]))
    entity.control(np.array(controls))
    scene.step()
    speeds, start = np.array(after), np.array([v for _, v in before])
    error = np.abs(entity.get_dofs_velocity() - speeds).max(axis=1) / np.abs(speeds - start).max(axis=1)
    counted = scene.built.engine.array_view("n_contacts").numpy()[0]
    assert max(numbers) > 3
    assert counted.tolist() == numbers
    assert error.max() < 1e-8

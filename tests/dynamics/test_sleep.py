"""Sleep: who falls asleep and when, beside MuJoCo; what wakes whom; and that nobody else notices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

import kinema as km
from kinema.core import KinemaError
from kit.choosing import representatives

FLOOR = '<geom name="floor" type="plane" size="50 50 1"/>'
BOX = '<geom type="box" size=".1 .1 .1" mass="1"/>'
N_ENVS, N_BOXES = 2, 4
LOWER, UPPER, FAR, LATE = range(N_BOXES)
FILE = f"""<mujoco><option><flag sleep="enable"/></option><worldbody>{FLOOR}
<body pos="0 0 .1"><freejoint/>{BOX}</body><body pos="0 0 .301"><freejoint/>{BOX}</body>
<body pos="2 0 .1005"><freejoint/>{BOX}</body><body pos="4 0 2.5"><freejoint/>{BOX}</body></worldbody></mujoco>"""
"""Two islands that come to rest, one of two boxes, and a box that falls from high."""


def built(folder: Path, text: str, n_envs: int = N_ENVS, **how: Any) -> tuple[km.Scene, Any]:
    """A scene of a file."""
    file = folder / "sleep.xml"
    file.write_text(text, encoding="utf-8")
    scene = km.Scene(quiet=True, precision="double", **how)
    entity = scene.add(file)
    scene.build(n_envs=n_envs, external_forces=True)
    return scene, entity


@pytest.fixture(scope="module", params=["auto", "cells"])
def boxes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[km.Scene, Any]:
    """The boxes, which sleep because their file says so; with a table of pairs, and with rules of collision."""
    scene, entity = built(tmp_path_factory.mktemp("sleep"), FILE, broad_phase=request.param)
    assert scene.built.model.has_pair_rules is (request.param == "cells")
    return scene, entity


by_rules = pytest.mark.parametrize("boxes", representatives(["cells", "auto"], 1), indirect=True)
"""With rules of collision; with a table of pairs only if asked for."""


def asleep(entity: Any, env: int = 0) -> set[int]:
    """Which boxes sleep."""
    return set(np.flatnonzero(entity.get_links_asleep()[env][-N_BOXES:]).tolist())


def test_who_and_when_as_mujoco(boxes: tuple[km.Scene, Any]) -> None:
    """Islands fall asleep at the steps at which MuJoCo's do, and lie where MuJoCo's lie."""
    scene, entity = boxes
    theirs = mujoco.MjModel.from_xml_string(FILE)
    theirs.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    data = mujoco.MjData(theirs)
    ours, when = np.zeros(N_BOXES), np.zeros(N_BOXES)
    for step in range(1, 151):
        scene.step()
        mujoco.mj_step(theirs, data)
        found = entity.get_links_asleep()[0][-N_BOXES:]
        ours = np.where((ours == 0) & found, step, ours)
        when = np.where((when == 0) & (data.tree_asleep >= 0), step, when)
    assert (when[:LATE] > 0).all()
    np.testing.assert_allclose(ours, when, atol=2)
    assert ours[LOWER] == ours[UPPER] != ours[FAR]
    np.testing.assert_allclose(entity.get_qpos()[0], data.qpos, atol=1e-6)
    assert (entity.get_qvel()[0, :18] == 0.0).all()
    assert entity.get_qvel()[0, 20] < -2.0


@by_rules
def test_others_do_not_notice(boxes: tuple[km.Scene, Any], tmp_path: Path) -> None:
    """What is awake moves the same, bit for bit, whether others sleep or not."""
    scene, entity = boxes
    method = "cells" if scene.built.model.has_pair_rules else "auto"
    twin, other = built(tmp_path, FILE, sleep=False, islands=True, broad_phase=method)
    scene.reset()
    slept, landed = set(), False
    for _ in range(100):
        scene.step(5)
        twin.step(5)
        assert not other.get_links_asleep().any()
        slept |= asleep(entity)
        landed = landed or entity.get_qpos()[0, 23] < 0.1
        for box in set(range(N_BOXES)) - asleep(entity):
            own = slice(7 * box, 7 * box + 7)
            assert np.array_equal(entity.get_qpos()[:, own], other.get_qpos()[:, own])
    assert slept >= {LOWER, UPPER, FAR}
    assert landed


def test_what_wakes(boxes: tuple[km.Scene, Any]) -> None:
    """A push, a place, a speed, a touch: each wakes what it concerns, and who fell asleep with that; nobody else."""
    scene, entity = boxes
    scene.reset()
    scene.step(150)
    every = {LOWER, UPPER, FAR}
    assert asleep(entity) == every
    rest, at_rest = scene.get_state(), entity.get_qpos()
    solver = scene.sim.rigid_solver
    assert solver.n_awake_dofs.tolist() == [6, 6]
    assert solver.awake_dofs[:, 0].tolist() == [18, 19, 20, 21, 22, 23] + [-1] * 18
    assert solver.n_awake_entities.tolist() == [1, 1]

    scene.step(10)
    np.testing.assert_array_equal(entity.get_qpos()[:, :21], at_rest[:, :21])  # nothing moves that sleeps

    scene.set_state(rest)  # asleep as they were
    assert asleep(entity) == every
    force = np.zeros((N_ENVS, 1, 3))
    force[1, 0, 2] = 30.0
    far = len(entity.get_links_asleep()[0]) - N_BOXES + FAR
    entity.apply_links_external_force(force, links_idx=[far])
    scene.step()
    assert [asleep(entity, env) for env in range(N_ENVS)] == [every, {LOWER, UPPER}]  # each environment by itself

    scene.set_state(rest)
    moved = at_rest.copy()
    moved[:, 9] += 0.05  # the upper box
    entity.set_qpos(moved)
    scene.step()
    assert asleep(entity) == {FAR}

    scene.set_state(rest)
    speed = entity.get_qvel()
    speed[:, 12] = 0.5
    entity.set_qvel(speed)
    scene.step()
    assert asleep(entity) == {LOWER, UPPER}

    scene.set_state(rest)
    entity.wake(envs_idx=[1])
    assert [asleep(entity, env) for env in range(N_ENVS)] == [every, set()]


@by_rules
def test_a_box_that_lands_on_others(boxes: tuple[km.Scene, Any]) -> None:
    """One island lands on another, wakes all of it, and they are one; then all of it falls asleep as one."""
    scene, entity = boxes
    scene.reset()
    scene.step(150)
    islands = np.array(scene.built.engine.array_view("asleep").numpy())
    assert islands[:, 0].tolist() == [1, 1, 3, 0]
    place = entity.get_qpos()
    place[0, 14:17] = (0.02, 0.0, 0.52)
    entity.set_qpos(place)
    history = [(scene.step(), [asleep(entity, env) for env in range(N_ENVS)])[1] for _ in range(140)]
    assert history[0][0] == {LOWER, UPPER}
    assert any(not here for here, _ in history)
    assert all({LOWER, UPPER, FAR} <= there for _, there in history)  # the other environment sleeps on
    islands = np.array(scene.built.engine.array_view("asleep").numpy())
    assert islands[:, 0].tolist() == [1, 1, 1, 0]
    assert abs(entity.get_qpos()[0, 16] - 0.5) < 2e-3
    hibernated = scene.sim.rigid_solver.links_state.hibernated.numpy()
    assert hibernated[-N_BOXES:, 0].tolist() == [1, 1, 1, 0]
    assert scene.get_contacts(envs_idx=[0])["valid_mask"].sum() >= 12  # what sleeps still touches, for those who ask


def test_who_may(tmp_path: Path) -> None:
    """Files say who never sleeps and who does from the start; what is driven does not, unless a file allows it."""
    arm = '<body pos="{} 1 1"{}><joint name="{}"/><geom type="box" size=".1 .1 .1" mass="1"/></body>'
    text = f"""<mujoco><worldbody>{FLOOR}<body pos="0 0 .1" sleep="init"><freejoint/>{BOX}</body>
    <body pos="1 0 .1" sleep="never"><freejoint/>{BOX}</body>{arm.format(0, "", "a")}
    {arm.format(1, ' sleep="allowed"', "b")}</worldbody>
    <actuator><motor joint="a"/><motor joint="b"/></actuator></mujoco>"""
    _, entity = built(tmp_path, text, 1, sleep=True)
    assert entity.get_links_asleep()[0][-4:].tolist() == [True, False, False, False]
    assert not entity.is_asleep().any()
    theirs = mujoco.MjModel.from_xml_string(text)
    from kinema.dynamics.sleep.policy import dof_lengths, sleep_policies

    assert sleep_policies(entity.scene.built.model) == ["init", "never", "never", "allowed"]
    np.testing.assert_allclose(dof_lengths(entity.scene.built.model), theirs.dof_length, rtol=1e-6)


def test_what_cannot_be_had(tmp_path: Path) -> None:
    """Sleep with conjugate gradients, or with Runge and Kutta, is refused, or left out with a warning."""
    for how in ({"solver": "cg"}, {"integrator": "rk4"}, {"noslip_iterations": 2}):
        with pytest.raises(KinemaError, match="islands are solved"):
            built(tmp_path, FILE, 1, sleep=True, **how)
    scene, _ = built(tmp_path, FILE, 1, solver="cg")
    assert any(d.code == "sim.sleep" for d in scene.diagnostics)
    with pytest.raises(KinemaError, match="sleeping is disabled"):
        scene.wake()
    with pytest.raises(KinemaError, match="above zero"):
        km.Scene(sleep=0.0)

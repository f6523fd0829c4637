"""Where shapes and named frames are, what actuators can be told, and other things that people look for by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

import kinema as km
from kinema.core import Pose, matrix_to_quaternion
from kinema.description import Frame
from kit.robots.small_robots import from_text, pendulum

TEXT = """<mujoco model="two"><worldbody><geom name="floor" type="plane" size="5 5 .1" pos="0 0 -.2"/>
<site name="mark" pos="1 2 3" euler="30 0 0"/>
<body name="ball" pos="0 0 1"><freejoint/><geom name="ball" type="box" size=".1 .2 .1" pos=".01 0 0" euler="0 0 20"/>
<site name="top" pos="0 0 .1" euler="10 20 30"/></body>
<body name="target" mocap="true" pos="2 2 2"/>
<body name="arm" pos="1 0 1" euler="0 10 0"><joint name="turn" axis="0 1 0" range="-60 60"/>
<geom name="upper" type="capsule" fromto="0 0 0 .3 0 0" size=".03"/>
<body name="hand" pos=".3 0 0"><joint name="wrist" axis="0 0 1"/><geom name="hand" size=".05" pos=".1 0 0"/>
<body name="finger" pos=".1 0 0" euler="0 0 5"><geom name="tip" type="box" size=".01 .02 .03" pos="0 0 .1"/>
<site name="tip" pos=".02 0 0"/></body></body></body></worldbody>
<actuator><motor name="motor" joint="turn" ctrlrange="-2 3"/><motor name="free" joint="wrist"/></actuator></mujoco>"""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[km.Scene, km.Entity, Any, list[Any]]:
    """A scene of two environments, and MuJoCo in the same states."""
    file = tmp_path_factory.mktemp("marks") / "two.xml"
    file.write_text(TEXT)
    scene = km.Scene(precision="double", quiet=True, codegen="loops")
    thing = scene.add(file)
    scene.build(2)
    model = mujoco.MjModel.from_xml_path(str(file))
    q = np.random.default_rng(5).normal(size=(2, model.nq))
    states = []
    for row in q:
        data = mujoco.MjData(model)
        data.qpos[:] = row
        mujoco.mj_normalizeQuat(model, data.qpos)
        mujoco.mj_kinematics(model, data)
        states.append(data)
    thing.set_qpos(q)
    return scene, thing, model, states


def compare(pos: np.ndarray, quat: np.ndarray, places: np.ndarray, axes: np.ndarray) -> None:
    np.testing.assert_allclose(pos, places, atol=1e-12)
    expected = np.array([[matrix_to_quaternion(m.reshape(3, 3)) for m in row] for row in axes])
    np.testing.assert_allclose(np.abs((quat * expected).sum(axis=-1)), 1.0, atol=1e-12)


def test_named_frames_are_mujoco_s_sites(both: tuple[km.Scene, km.Entity, Any, list[Any]]) -> None:
    _, thing, model, states = both
    assert sorted(thing.frame_names) == ["mark", "tip", "top"]
    order = [model.site(name).id for name in thing.frame_names]
    places, axes = (np.array([getattr(d, name)[order] for d in states]) for name in ("site_xpos", "site_xmat"))
    compare(thing.get_frames_pos(), thing.get_frames_quat(), places, axes)
    np.testing.assert_allclose(thing.get_frames_pos("tip", 1), states[1].site("tip").xpos[None, None], atol=1e-12)
    with pytest.raises(km.KinemaError, match="there is no 'nothing'; the frames are"):
        thing.get_frames_pos("nothing")


def test_shapes_are_where_mujoco_has_them(both: tuple[km.Scene, km.Entity, Any, list[Any]]) -> None:
    _, thing, model, states = both
    order = [model.geom(name).id for name in thing.geom_names]
    places, axes = (np.array([getattr(d, name)[order] for d in states]) for name in ("geom_xpos", "geom_xmat"))
    compare(thing.get_geoms_pos(), thing.get_geoms_quat(), places, axes)


def test_shapes_and_frames_of_variants() -> None:
    """Each environment has its own; what hangs on nothing counts from where the robot was put."""
    robots = [pendulum(), pendulum()]
    for number, robot in enumerate(robots):
        pose = Pose.translation((0.0, 0.0, -0.1 * (number + 1)))
        robot.frames = [Frame(name="tip", link="bob", pose=pose), Frame(name="hook", link=None)]
    scene = km.Scene(quiet=True, precision="double", codegen="loops")
    scene.add(km.Plane())
    swing, ball = scene.add(robots, pos=(1, 0, 0)), scene.add([km.Sphere(0.1), km.Box((0.2, 0.2, 0.2))], pos=(0, 0, 3))
    scene.build(3)
    expected = [[[1, 0, -0.1], [1, 0, 0]], [[1, 0, -0.2], [1, 0, 0]], [[1, 0, -0.1], [1, 0, 0]]]
    np.testing.assert_allclose(swing.get_frames_pos(), expected, atol=1e-12)
    assert ball.geom_names == ["box", "sphere"]
    np.testing.assert_allclose(ball.get_geoms_pos(envs_idx=[2]), [[[0, 0, 3]] * 2], atol=1e-12)


def test_what_people_look_for_by_name(both: tuple[km.Scene, km.Entity, Any, list[Any]]) -> None:
    scene, thing, model, _ = both
    assert scene.is_built
    assert not km.Scene().is_built
    assert scene.get_entity("two") is thing
    with pytest.raises(km.KinemaError, match="there is no 'arm'; the entities are: two"):
        scene.get_entity("arm")
    joint, link = thing.get_joint("wrist"), thing.get_link("hand")
    assert (joint.dof_idx_local, joint.dofs_idx_local, joint.qs_idx_local) == (7, (7,), (8,))
    assert (link.idx_local, thing.links[link.idx_local]) == (link.idx, link)
    assert link.get_mass() == pytest.approx(model.body("hand").mass[0])
    lower, upper = thing.get_control_range()
    assert (lower.tolist(), upper.tolist()) == ([-2.0, -np.inf], [3.0, np.inf])
    with pytest.raises(km.KinemaError, match=r"use scene\.set_state\(state\)"):
        scene.reset(scene.get_state())


def test_constraints_that_join_bodies_bring_their_coordinates_together(tmp_path: Path) -> None:
    """What is tied is one robot, and coordinates go robot by robot; joints say where theirs are."""
    body = '<body name="{0}" pos="{1} 0 1"><joint name="{0}" type="slide" ref="{1}"/><geom size=".1"/></body>'
    bodies = "".join(body.format(name, i + 1) for i, name in enumerate("abc"))
    tie = '<equality><joint joint1="a" joint2="c"/></equality>'
    text = f"<mujoco><worldbody>{bodies}</worldbody>{tie}</mujoco>"
    scene = km.Scene(quiet=True, codegen="loops")
    thing = scene.add(from_text(tmp_path, text))
    scene.build()
    names = [joint.name for joint in thing.joints]
    assert sorted(names) == ["a", "b", "c"]
    q = thing.get_qpos()[0]
    assert {j.name: q[j.qs_idx[0]] for j in thing.joints} == {"a": 1.0, "b": 2.0, "c": 3.0}

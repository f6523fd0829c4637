"""`Scene.reset(keyframe=...)`: states that files name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

import kinema as km
from kinema.core import Pose, collect
from kinema.read import read
from kit.assets import assets
from kit.robots.small_robots import from_text, lift

from .mujoco_names import mujoco_joint

FILES = (
    "mjcf/franka_emika_panda/panda.xml",
    "mjcf/unitree_go2/go2_scene.xml",
    "mjcf/agility_cassie/cassie.xml",
    "mjcf/trossen_wx250s/wx250s.xml",
    "mjcf/skydio_x2/x2.xml",
    "mjcf/mujoco_humanoid/humanoid.xml",
    "mjcf/pal_talos/talos_position.xml",
)

TEXT = """<mujoco model="twin"><worldbody>
<body name="box" pos="0 0 1"><freejoint name="free"/><geom size=".1"/>
<body name="arm" pos=".2 0 0"><joint name="turn" axis="0 1 0" ref="10" stiffness="1"/><geom size=".05" pos=".2 0 0"/>
</body></body>
<body name="hand" mocap="true"/></worldbody>
<actuator><motor name="motor" joint="turn" gear="2"/>
<general name="odd" joint="turn" dyntype="user"/></actuator>
<keyframe><key name="up" qpos="1 2 3 .8 0 .6 0 .5" qvel="1 2 3 4 5 6 7" ctrl=".25 .5" act=".75" mpos="0 0 9"/>
<key name="start" time="3"/><key qpos="0 0 2 1 0 0 0 -.5"/></keyframe></mujoco>"""


def _built(*parts: Any, n_envs: int = 3) -> tuple[km.Scene, list[Any]]:
    scene = km.Scene(contacts=False, limits=False, precision="double", quiet=True)
    entities = [scene.add(part) for part in parts]
    scene.build(n_envs)
    return scene, entities


@pytest.mark.parametrize("file", FILES)
def test_keyframes_of_files_are_mujocos(file: str) -> None:
    """Coordinates, velocities and controls by name, and the poses that follow."""
    path = assets(file)
    model, described = mujoco.MjModel.from_xml_path(str(path)), read(path, policy=collect)
    data = mujoco.MjData(model)
    scene, (entity,) = _built(described, n_envs=2)
    names = [model.key(k).name for k in range(model.nkey)]
    assert [n for n in names if n] == [n for n in entity.keyframe_names if n in names]
    for number, name in enumerate(names):
        mujoco.mj_resetDataKeyframe(model, data, number)
        mujoco.mj_kinematics(model, data)
        for keyframe in (name, number) if name else (number,):
            scene.reset()
            scene.reset(keyframe=keyframe)
            for joint in entity.joints:
                q, v = (int(x[0]) for x in (mujoco_joint(model, joint).qposadr, mujoco_joint(model, joint).dofadr))
                wanted = data.qpos[q : q + len(joint.qs_idx)], data.qvel[v : v + joint.n_dofs]
                np.testing.assert_allclose(entity.get_qpos()[1, list(joint.qs_idx)], wanted[0], atol=1e-12)
                np.testing.assert_allclose(entity.get_qvel()[1, list(joint.dofs_idx)], wanted[1], atol=1e-12)
            controls = scene.built.arrays.get("ctrl")[:, 1]
            for i, actuator in enumerate(entity.actuator_names):
                assert controls[i] == data.ctrl[model.actuator(actuator).id]
            place = entity.get_links_pos()[0]
            for i, link in enumerate(entity.links):
                np.testing.assert_allclose(place[i], data.body(link.name).xpos, atol=1e-9)


def test_a_keyframe_moves_with_the_entity(tmp_path: Path) -> None:
    """A file that is put elsewhere takes its keyframes along: free coordinates and velocities turn with it."""
    turned = Pose.from_quaternion((5.0, 0.0, 1.0), (np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5)))
    scene = km.Scene(contacts=False, limits=False, precision="double", quiet=True)
    entity = scene.add(from_text(tmp_path, TEXT), pos=turned.position, quat=turned.quaternion)
    scene.build(2)
    scene.reset(keyframe="up")
    wanted = turned @ Pose.from_quaternion((1.0, 2.0, 3.0), (0.8, 0.0, 0.6, 0.0))
    np.testing.assert_allclose(entity.get_links_pos(["box"])[0, 0], wanted.position, atol=1e-12)
    assert wanted.distance(Pose.from_quaternion(wanted.position, entity.get_links_quat(["box"])[0, 0]))[1] < 1e-9
    np.testing.assert_allclose(entity.get_qvel()[0], [-2.0, 1.0, 3.0, 4.0, 5.0, 6.0, 7.0], atol=1e-12)


def test_others_start_and_some_environments_stay(tmp_path: Path) -> None:
    """Only the environments that are named; entities without such a keyframe go to their start."""
    scene, (twin, other) = _built(from_text(tmp_path, TEXT), lift())
    twin.set_qvel(9.0)
    other.set_qpos(4.0)
    scene.reset([0, 2], keyframe="up")
    np.testing.assert_array_equal(other.get_qpos()[:, 0], [0.0, 4.0, 0.0])
    np.testing.assert_array_equal(twin.get_qvel()[:, 0], [1.0, 9.0, 1.0])
    assert twin.get_qpos()[2, 7] == 0.5
    np.testing.assert_array_equal(scene.built.arrays.get("ctrl"), [[0.25, 0.0, 0.25]])


def test_all_who_have_it_go_there(tmp_path: Path) -> None:
    """The same file twice."""
    robot = from_text(tmp_path, TEXT)
    scene, entities = _built(robot, robot)
    scene.reset(keyframe="up")
    for entity in entities:
        assert (entity.get_qpos()[:, 7] == 0.5).all()


def test_by_number_and_without_a_name(tmp_path: Path) -> None:
    """The third has no name in the file; NumPy's numbers are numbers."""
    scene, (twin,) = _built(from_text(tmp_path, TEXT))
    assert len(twin.keyframe_names) == 3
    assert twin.keyframe_names[:2] == ["up", "start"]
    number: Any = np.int64(2)
    scene.reset(keyframe=number)
    assert (twin.get_qpos()[:, 7] == -0.5).all()
    scene.reset(keyframe="start")  # which says nothing: qpos0
    np.testing.assert_allclose(twin.get_qpos()[0], [0, 0, 1, 1, 0, 0, 0, np.radians(10.0)], atol=1e-12)
    scene.reset(keyframe="up")
    scene.reset()
    np.testing.assert_allclose(twin.get_qpos()[0], [0, 0, 1, 1, 0, 0, 0, np.radians(10.0)], atol=1e-12)


@pytest.mark.parametrize("wrong", ["down", 3, -1])
def test_a_keyframe_that_there_is_not(tmp_path: Path, wrong: str | int) -> None:
    """The error lists those that there are, and nothing has changed."""
    scene, (twin, _) = _built(from_text(tmp_path, TEXT), lift())
    twin.set_qvel(9.0)
    with pytest.raises(km.KinemaError, match=rf"no keyframe {wrong!r}; the keyframes are: up, start, .* \('twin'\)"):
        scene.reset(keyframe=wrong)
    assert (twin.get_qvel() == 9.0).all()


@pytest.mark.parametrize("wrong", [True, 1.5, ["up"]])
def test_what_is_no_name(tmp_path: Path, wrong: Any) -> None:
    """One sentence."""
    scene, _ = _built(from_text(tmp_path, TEXT))
    with pytest.raises(km.KinemaError, match="selected by name or index"):
        scene.reset(keyframe=wrong)


def test_where_there_are_none() -> None:
    """It says so."""
    scene, (box,) = _built(lift())
    assert box.keyframe_names == []
    with pytest.raises(km.KinemaError, match="the keyframes are: none"):
        scene.reset(keyframe="home")


def test_parts_that_are_not_simulated_are_noted_once(tmp_path: Path) -> None:
    """Activations, and the control of an actuator that is left out."""
    scene, _ = _built(from_text(tmp_path, TEXT))
    assert "scene.keyframe-unsupported" not in scene.diagnostics.codes()
    scene.reset(keyframe="up")
    scene.reset(keyframe="up")
    notes = [d for d in scene.diagnostics if d.code == "scene.keyframe-unsupported"]
    assert len(notes) == 1
    for word in ('"up"', '"twin"', "act", "controls"):
        assert word in notes[0].message


def test_joints_under_position_control_stay_at_the_keyframe(tmp_path: Path) -> None:
    """The start position of a reset is where the reset has put them."""
    scene, (twin,) = _built(from_text(tmp_path, TEXT))
    twin.control_dofs_position(0.1, "turn")
    scene.reset(keyframe="up")
    assert (scene.built.arrays.get("command")[6] == 0.5).all()

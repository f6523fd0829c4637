"""Links attached at run time: beside MuJoCo's weld and tendons, per environment, under overload, by suction cups."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as km
from kinema.core import rotate_vectors
from kit.choosing import representatives

GANTRY = """
<mujoco>
  <option timestep="0.002" integrator="implicitfast"><flag contact="{contact}"/></option>
  <worldbody>
    <body name="arm" pos="0 0 .5">
      <joint name="turn" type="hinge" axis="0 1 0" damping=".1"/>
      <geom type="capsule" fromto="0 0 0 .2 0 0" size=".02" mass="1"/>
      <body name="hand" pos=".2 0 0">
        <joint name="lift" type="slide" axis="0 0 1" damping="5"/>
        <geom type="box" size=".03 .03 .02" mass=".5"/>
      </body>
    </body>
    <body name="box" pos=".25 .02 .42" euler="0 30 10">
      <freejoint/>
      <geom type="box" size=".02 .03 .04" mass=".3"/>
    </body>
  </worldbody>
  {extra}
  <actuator>
    <position joint="turn" kp="20" ctrlrange="-3 3"/>
    <position joint="lift" kp="500" ctrlrange="-1 1"/>
  </actuator>
</mujoco>
"""
COUNTERPARTS = {
    "weld": '<equality><weld body1="hand" body2="box"/></equality>',
    "ball": '<equality><connect body1="box" body2="hand" anchor="0 0 0"/></equality>',
}
CONTROL = np.array([-0.2, 0.1])


def mujoco_trajectory(kind: str, n: int) -> np.ndarray:
    """Coordinates of MuJoCo's gantry after each of n steps, with the hand driven up, (n, 9)."""
    mujoco = pytest.importorskip("mujoco")
    model = mujoco.MjModel.from_xml_string(GANTRY.format(extra=COUNTERPARTS[kind], contact="disable"))
    data = mujoco.MjData(model)
    data.ctrl[:] = CONTROL
    rows = []
    for _ in range(n):
        mujoco.mj_step(model, data)
        rows.append(data.qpos.copy())
    return np.array(rows)


@pytest.mark.parametrize("codegen", representatives(["unrolled", "loops"], 1))
def test_attachments_hold_as_in_mujoco(tmp_path: Path, codegen: str) -> None:
    """All kinds of attachments, one per environment: weld and ball beside MuJoCo, rod and rope by their lengths."""
    path = tmp_path / "gantry.xml"
    path.write_text(GANTRY.format(extra="", contact="disable"))
    scene = km.Scene(precision="double", codegen=codegen, quiet=True, tolerance=1e-12)
    robot = scene.add(path)
    kinds, hook = ("weld", "ball", "rod", "rope"), np.array([0.01, 0.0, -0.02])
    for kind in kinds:
        scene.reserve_attachments(robot, "hand", [(robot, "box")], kind=kind)
    scene.build(5)
    start, limit = float(np.linalg.norm([0.04, 0.02, -0.06])), 0.09
    options = [{}, {}, {"pos_a": hook}, {"pos_a": hook, "length": limit}]
    handles = [
        scene.attach(robot, robot, link_a="hand", link_b="box", kind=kind, envs_idx=i, **option)
        for i, (kind, option) in enumerate(zip(kinds, options, strict=True))
    ]
    assert not [d for d in scene.diagnostics if d.code == "scene.recompiled"]
    robot.control(CONTROL)
    trajectory, distances = [], []
    for _ in range(60):
        scene.step()
        trajectory.append(robot.get_qpos())
        pos, quat = robot.get_links_pos(["hand", "box"]), robot.get_links_quat(["hand"])[:, 0]
        distances.append(np.linalg.norm(pos[:, 0] + rotate_vectors(quat, hook) - pos[:, 1], axis=1))
    for i, handle in enumerate(handles):
        assert handle.is_attached().tolist() == [j == i for j in range(5)]
    for i, kind in enumerate(COUNTERPARTS):
        np.testing.assert_allclose(np.array(trajectory)[:, i], mujoco_trajectory(kind, 60), atol=1e-12)
    rod, rope = np.array(distances)[:, 2], np.array(distances)[:, 3]
    assert rod == pytest.approx(start, abs=1e-3)
    assert rope.max() < 1.15 * limit
    assert rope[-1] > 0.99 * limit
    assert handles[3].get_force([3])[0, 2] > 0.0
    assert not handles[2].get_force([4]).any()
    fall = 0.5 * 9.81 * 0.002**2 * 60 * 61
    assert trajectory[-1][4, 4] == pytest.approx(0.42 - fall, abs=1e-9)


PICKER = """
<mujoco>
  <option timestep="0.004" integrator="implicitfast"/>
  <default><position kp="800" kv="60"/></default>
  <worldbody>
    <body name="carriage" pos="0 0 .3">
      <joint name="x" type="slide" axis="1 0 0"/>
      <geom type="box" size=".02 .02 .02" mass="1" contype="0" conaffinity="0"/>
      <body name="tool">
        <joint name="z" type="slide" axis="0 0 1"/>
        <geom type="cylinder" size=".01 .04" pos="0 0 -.04" mass=".3"/>
      </body>
    </body>
  </worldbody>
  <actuator><position joint="x"/><position joint="z"/></actuator>
</mujoco>
"""


Cell = tuple[km.Scene, km.Entity, list[km.Entity], Any]


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Cell:
    """A gantry with a suction cup above a cube and a ball, in four environments, with a cup that holds 4 N."""
    path = tmp_path_factory.mktemp("picker") / "picker.xml"
    path.write_text(PICKER)
    scene = km.Scene(quiet=True)
    scene.add(km.Plane())
    picker = scene.add(path)
    bodies = [
        scene.add(km.Box((0.04, 0.04, 0.04)), mass=0.2, pos=(0.0, 0.0, 0.02)),
        scene.add(km.Sphere(0.02), mass=0.2, pos=(0.2, 0.0, 0.02)),
    ]
    cup = scene.add_suction(picker, "tool", pos=(0, 0, -0.08), normal=(0, 0, -1), distance=0.004, max_force=4.0)
    scene.build(4)
    return scene, picker, bodies, cup


def drive(scene: km.Scene, picker: km.Entity, *waypoints: tuple[float, float], n: int = 25) -> None:
    """Move the picker along waypoints in `n` commands each, held for four steps, then wait."""
    for start, end in pairwise(waypoints):
        for share in np.linspace(0.0, 1.0, n):
            picker.control(np.array(start) + share * np.subtract(end, start))
            scene.step(4)
    scene.step(50)


UP, DOWN = (0.0, 0.0), (0.0, -0.178)


def test_a_cup_picks_and_places(cell: Cell) -> None:
    """The cup grips the cube in the environments where it is on, carries it, and releases it elsewhere."""
    scene, picker, (box, _), cup = cell
    scene.reset()
    cup.turn_on([0, 1])
    drive(scene, picker, UP, (0.0, -0.15))
    assert cup.get_held().tolist() == [-1] * 4
    drive(scene, picker, (0.0, -0.15), DOWN)
    assert cup.get_held().tolist() == [scene.entities.index(box)] * 2 + [-1, -1]
    held_at = box.get_pos() - picker.get_links_pos(["tool"])[:, 0]
    drive(scene, picker, DOWN, (0.0, -0.1), (0.1, -0.1))
    assert cup.get_force()[:, 2] == pytest.approx([0.2 * 9.81] * 2 + [0.0] * 2, abs=0.02)
    tool = picker.get_links_pos(["tool"])[:, 0]
    assert tool[0] == pytest.approx([0.1, 0.0, 0.194], abs=1e-3)
    assert box.get_pos()[:2] == pytest.approx((tool + held_at)[:2], abs=1.5e-3)
    state = scene.get_state()
    cup.switch(np.array([True, False, False, False]))
    assert cup.is_on().tolist() == [True, False, False, False]
    scene.step(200)
    assert box.get_pos()[:, 2] == pytest.approx([0.09, 0.02, 0.02, 0.02], abs=1e-3)
    scene.set_state(state)
    assert cup.get_held()[:2].tolist() == [scene.entities.index(box)] * 2
    scene.reset([0])
    assert cup.get_held()[0] == -1
    assert not cup.is_on()[0]


def test_an_overloaded_cup_lets_go(cell: Cell) -> None:
    """Accelerated by much more than its 4 N can carry, the ball falls, and the cup is off until switched on again."""
    scene, picker, (_, ball), cup = cell
    scene.reset()
    ball.set_pos(np.array([0.0, 0.0, 0.02]))
    cell[2][0].set_pos(np.array([0.5, 0.0, 0.02]))
    cup.turn_on()
    drive(scene, picker, UP, DOWN)
    assert cup.get_held().tolist() == [scene.entities.index(ball)] * 4
    picker.control(np.array([[0.0, -0.17]] * 2 + [[0.0, 0.0]] * 2))
    scene.step(50)
    assert cup.get_held().tolist() == [scene.entities.index(ball)] * 2 + [-1, -1]
    assert cup.is_on().tolist() == [True, True, False, False]
    scene.step(150)
    assert ball.get_pos()[2:, 2] == pytest.approx(0.02, abs=2e-3)


def test_an_attachment_after_build_is_compiled_once(cell: Cell) -> None:
    """A new pair is compiled once and reported, keeps other attachments, and breaks beyond its limit."""
    scene, picker, (box, ball), _ = cell
    scene.reset()
    first = scene.attach(box, ball, length=0.5, kind="rope", envs_idx=[3])
    assert repr(first) == "<Attachment: sphere/sphere to box/box by a rope, in 1 of 4 environments>"
    strength = np.array([np.inf, 1.0, 3.0, np.inf])
    second = scene.attach(picker.get_link("tool"), box, break_force=np.minimum(strength, 1e6))
    assert [d.code for d in scene.diagnostics].count("scene.recompiled") == 2
    third = scene.attach(picker, ball.links[0], link_a=picker.get_link("tool"), envs_idx=[0])
    assert [d.code for d in scene.diagnostics].count("scene.recompiled") == 2
    assert first.is_attached().tolist() == [False, False, False, True]
    picker.control((0.0, 0.0))
    scene.step(100)
    assert second.is_attached().tolist() == [True, False, True, True]
    assert third.is_attached().tolist() == [True, False, False, False]
    scene.detach(picker, box, link_a="tool", envs_idx=[2])
    assert second.is_attached().tolist() == [True, False, False, True]
    assert not scene.equality_names
    with pytest.raises(km.KinemaError, match="never attached by a rod"):
        scene.detach(picker, box, kind="rod")


def test_attachments_in_a_scene_of_many_bodies(tmp_path: Path) -> None:
    """Where the Hessian is block-sparse, an attached box moves as in a scene without the other reserved boxes."""
    path = tmp_path / "picker.xml"
    path.write_text(PICKER)
    moved = []
    for n in (1, 5):
        scene = km.Scene(quiet=True, precision="double", codegen="loops")
        scene.add(km.Plane())
        picker = scene.add(path)
        boxes = [scene.add(km.Box((0.04, 0.04, 0.04)), mass=0.2, pos=(0.1 * i, 0.0, 0.019)) for i in range(n)]
        scene.reserve_attachments(picker, "tool")
        scene.build()
        held = scene.attach(picker, boxes[0], link_a="tool")
        picker.control((0.05, 0.05))
        scene.step(30)
        assert held.get_force()[0, 2] > 0.0
        moved.append(boxes[0].get_qpos())
    assert moved[0][0, 2] > 0.03
    np.testing.assert_allclose(moved[1], moved[0], atol=1e-9)


def test_what_cannot_be_attached_is_refused() -> None:
    scene = km.Scene(quiet=True)
    walls = [scene.add(km.Box((0.1, 0.1, 0.1)), fixed=True, pos=(i, 0, 0), name=f"wall {i}") for i in range(2)]
    box = scene.add(km.Box((0.1, 0.1, 0.1)), pos=(0, 0, 1))
    with pytest.raises(km.KinemaError, match="not built"):
        scene.attach(box, walls[0])
    scene.reserve_attachments(box, targets=[None])
    scene.build()
    with pytest.raises(km.KinemaError, match="wall 1/box cannot move relative to wall 0/box"):
        scene.attach(*walls)
    with pytest.raises(km.KinemaError, match="world cannot be attached"):
        scene.attach(None)
    with pytest.raises(km.KinemaError, match=r'attach: "box" is of the entity "wall 1", not of "wall 0"'):
        scene.attach(walls[0], box, link_a=walls[1].links[0])
    with pytest.raises(km.KinemaError, match="not two links"):
        scene.attach(box.links[0], link_a="box")
    with pytest.raises(km.KinemaError, match="'glue' is none of weld, ball, rod, rope"):
        scene.attach(box, kind="glue")
    with pytest.raises(km.KinemaError, match="break_force: expected positive numbers, not -1"):
        scene.attach(box, break_force=-1.0)
    with pytest.raises(km.KinemaError, match='expected "now" or a position and a quaternion'):
        scene.attach(box, at=3.0)
    with pytest.raises(km.KinemaError, match="no 'hand'"):
        scene.attach(box, walls[0], link_b="hand")
    assert scene.attach(box).is_attached().all()
    assert not [d for d in scene.diagnostics if d.code == "scene.recompiled"]
    free = km.Scene(constraints=False, quiet=True)
    with pytest.raises(km.KinemaError, match="constraints=True"):
        free.add_suction(free.add(km.Sphere(0.1)))


def test_a_weld_pulls_to_a_given_pose() -> None:
    """A box is pulled to a pose in a wall, and to the pose from which the wall has that pose."""
    scene = km.Scene(quiet=True, contacts=False, gravity=(0, 0, 0))
    wall = scene.add(km.Box((0.1, 0.1, 0.1)), fixed=True, pos=(1, 0, 0))
    box = scene.add(km.Box((0.1, 0.1, 0.1)), pos=(1.4, 0.3, 0.1))
    scene.reserve_attachments(wall)
    scene.build(2)
    quarter = np.array([np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5)])
    scene.attach(wall, box, at=((0.5, 0.2, 0.0), quarter), envs_idx=[0])
    scene.attach(box, wall, at=((0.5, 0.2, 0.0), quarter), envs_idx=[1])
    scene.step(200)
    expected = [[1.5, 0.2, 0.0, *quarter], [0.8, 0.5, 0.0, *(quarter * [1, 1, 1, -1])]]
    np.testing.assert_allclose(box.get_qpos(), expected, atol=1e-3)


def test_a_cup_finds_the_variant_of_each_environment(tmp_path: Path) -> None:
    """Of two sizes of a box on the floor, the cup above reaches the higher one only."""
    path = tmp_path / "picker.xml"
    path.write_text(PICKER)
    scene = km.Scene(quiet=True, contacts=False, gravity=(0, 0, 0))
    picker = scene.add(path)
    scene.add([km.Box((0.04, 0.04, 0.04)), km.Box((0.05, 0.05, 0.06))], pos=(0.0, 0.0, 0.18))
    cup = scene.add_suction(picker, "tool", pos=(0, 0, -0.08), normal=(0, 0, -1), distance=0.015)
    scene.build(2)
    cup.turn_on()
    scene.step()
    assert cup.get_held().tolist() == [-1, 1]


def test_a_kinematic_gripper_lifts_a_box() -> None:
    scene = km.Scene(quiet=True)
    scene.add(km.Plane())
    gripper = scene.add(km.Box((0.1, 0.1, 0.02)), kinematic=True, pos=(0.0, 0.0, 0.065))
    box = scene.add(km.Box((0.05, 0.05, 0.05)), mass=0.2, pos=(0.0, 0.0, 0.025))
    cup = scene.add_suction(gripper, pos=(0, 0, -0.01), normal=(0, 0, -1), distance=0.01)
    scene.build(2)
    cup.turn_on([0])
    scene.step()
    gripper.set_target_pose((0.1, 0.0, 0.2), (1, 0, 0, 0), duration=0.4)
    scene.step(400)
    np.testing.assert_allclose(box.get_pos(), [[0.1, 0.0, 0.16], [0.0, 0.0, 0.025]], atol=1e-3)
    np.testing.assert_allclose(cup.get_force(), [[0.0, 0.0, 0.2 * 9.81], [0.0, 0.0, 0.0]], atol=1e-3)

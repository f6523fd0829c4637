"""Inverse kinematics: targets that can be reached are, within limits; all kinds of them, judged by MuJoCo."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as km
from kinema.core import quaternion_to_matrix
from kinema.description import Mimic, rotation
from kit.robots.small_robots import ball, body, from_text, joint, reacher

from .small_arm import ARM, Judge, off

N = 300


@pytest.fixture(scope="module")
def arm(tmp_path_factory: pytest.TempPathFactory) -> km.Robot:
    folder: Path = tmp_path_factory.mktemp("arm")
    robot = from_text(folder, ARM)
    assert isinstance(robot, km.Robot)
    return robot


@pytest.fixture(scope="module")
def kin(arm: km.Robot) -> km.Kinematics:
    return km.Kinematics(arm)


@pytest.fixture(scope="module")
def judge() -> Judge:
    return Judge()


@pytest.fixture(scope="module")
def targets(judge: Judge) -> tuple[np.ndarray, np.ndarray]:
    poses = [judge.pose(q, "hand") for q in judge.drawn(N, 5)]
    return np.array([p for p, _ in poses]), np.array([r for _, r in poses])


@pytest.mark.parametrize("method", ["lm", "gauss-newton", "dls"])
def test_what_can_be_reached_is(
    kin: km.Kinematics, judge: Judge, targets: tuple[np.ndarray, np.ndarray], method: str
) -> None:
    pos, quat = targets
    found = kin.inverse_kinematics("hand", pos, quat, method=method, max_samples=100)
    assert found.solved.mean() >= (0.995 if method != "dls" else 0.9)
    assert (found.qpos >= judge.lower - 1e-6).all()
    assert (found.qpos <= judge.upper + 1e-6).all()
    for i in np.flatnonzero(found.solved):
        place, turn = off(*judge.pose(found.qpos[i], "hand"), pos[i], quat[i])
        assert place < 1.02e-4
        assert turn < 1.02e-3


def test_a_target_depends_on_nothing_but_itself(kin: km.Kinematics, targets: tuple[np.ndarray, np.ndarray]) -> None:
    pos, quat = targets
    together = kin.inverse_kinematics("hand", pos, quat)
    backwards = kin.inverse_kinematics("hand", pos[::-1], quat[::-1])
    np.testing.assert_array_equal(together.qpos, backwards.qpos[::-1])
    for i in (0, 17):
        np.testing.assert_array_equal(kin.inverse_kinematics("hand", pos[i], quat[i]).qpos[0], together.qpos[i])


def test_what_cannot_be_reached_comes_as_near_as_it_gets() -> None:
    """A reacher with its slide held is 0.8 m long."""
    kin = km.Kinematics(reacher(), precision="double")
    found = kin.inverse_kinematics("tip", [2.0, 0.0, 1.0], dofs=["shoulder", "elbow"], init_qpos=[0.1, 0.2, 0.0])
    assert not found.solved[0]
    assert found.pos_error[0] == pytest.approx(np.sqrt(5.0) - 0.8, abs=1e-2)
    assert found.qpos[0, 2] == 0.0


def test_limits_hold_unless_they_are_not_to(judge: Judge, kin: km.Kinematics) -> None:
    beyond = judge.upper * np.array([0.1, 0.5, 3.0, 0.1, 0.2, 0.1])  # the elbow, three times as far as it may
    pos, quat = judge.pose(beyond, "hand")
    free = kin.inverse_kinematics("hand", pos, quat, init_qpos=beyond + 0.05, respect_joint_limit=False)
    assert free.solved[0]
    assert free.qpos[0, 2] == pytest.approx(beyond[2], abs=1e-2)
    held = kin.inverse_kinematics("hand", pos, quat, init_qpos=beyond)
    assert (held.qpos <= judge.upper + 1e-6).all()


def moved(axis: int) -> Callable[[np.ndarray], np.ndarray]:
    """Where an axis of a turned link points."""
    return lambda quat: quaternion_to_matrix(quat)[:, axis]


def test_looking_somewhere_from_somewhere(kin: km.Kinematics, judge: Judge) -> None:
    here, there = np.array([0.45, -0.1, 0.8]), np.array([1.5, 1.0, 0.2])
    found = kin.inverse_kinematics("hand", here, look_at=("hand", there), look_axis=(0.0, 2.0, 0.0))
    assert found.solved[0]
    pos, quat = judge.pose(found.qpos[0], "hand")
    way = (there - pos) / np.linalg.norm(there - pos)
    assert np.linalg.norm(pos - here) < 1.02e-4
    assert moved(1)(quat) @ way > np.cos(1.02e-3)


def test_one_axis_alone(kin: km.Kinematics, judge: Judge, targets: tuple[np.ndarray, np.ndarray]) -> None:
    _, quat = targets
    found = kin.inverse_kinematics("hand", quat=quat[:20], rot_mask=(True, False, False))
    assert found.solved.all()
    for q, wanted in zip(found.qpos, quat, strict=False):
        assert moved(0)(judge.pose(q, "hand")[1]) @ moved(0)(wanted) > np.cos(1.02e-3)


def test_a_point_of_a_link_along_some_axes() -> None:
    kin = km.Kinematics(reacher(), precision="double")
    found = kin.inverse_kinematics(
        "lower", [0.1, 9.0, 0.5], point=(0.2, 0.0, 0.0), pos_mask=(True, False, True), init_qpos=[0.1, 0.4, 0.0]
    )
    assert found.solved[0]
    a, b = found.qpos[0, 0], found.qpos[0, 0] + found.qpos[0, 1]
    assert 0.4 * np.cos(a) + 0.2 * np.cos(b) == pytest.approx(0.1, abs=1.01e-4)
    assert -0.4 * np.sin(a) - 0.2 * np.sin(b) == pytest.approx(0.5, abs=1.01e-4)


def test_the_centre_of_mass_with_a_posture(kin: km.Kinematics, judge: Judge) -> None:
    """The posture is kept as far as the centre leaves it: the gradient of its distance has nothing along the task."""
    q = judge.drawn(8, 6)
    centers = np.array([judge.at(x).subtree_com[0].copy() for x in q])
    wished = 0.5 * (judge.lower + judge.upper)
    plain = kin.inverse_kinematics(com=centers)
    found = kin.inverse_kinematics(com=centers, posture=wished, max_solver_iters=200)
    assert plain.solved.all()
    assert found.solved.all()
    for i in range(len(q)):
        assert np.linalg.norm(judge.at(found.qpos[i]).subtree_com[0] - centers[i]) < 1.02e-4
    far = (np.linalg.norm(x.qpos - wished, axis=1).mean() for x in (plain, found))
    assert next(far) > next(far)


def test_joints_that_mimic_follow_and_their_limits_count() -> None:
    robot = reacher()
    robot.joints[1].axes[0].mimic = Mimic(joint="shoulder", multiplier=-2.0, offset=0.1)
    robot.joints[1].axes[0].lower, robot.joints[1].axes[0].upper = -1.0, 1.0
    kin = km.Kinematics(robot, precision="double")
    q = np.array([[0.3, -0.5, 0.05]])
    pos = kin.forward_kinematics(q)[0][:, 3]
    found = kin.inverse_kinematics("tip", pos, init_qpos=[0.2, 0.7, 0.0])
    assert found.solved[0]
    np.testing.assert_allclose(found.qpos, q, atol=1e-3)
    far = kin.inverse_kinematics("tip", [-0.5, 0.0, -2.0], dofs=["shoulder"])
    assert not far.solved[0]
    assert far.qpos[0, 0] == pytest.approx(-0.45, abs=1e-9)
    assert far.qpos[0, 1] == pytest.approx(1.0, abs=1e-9)


def test_several_links_at_once() -> None:
    """Two pendulums on one turntable, and a free body: each to its place."""
    robot = km.Robot(
        name="pair",
        links=[body("table"), body("left"), body("right")],
        joints=[
            joint("turn", None, "table", rotation((0.0, 0.0, 1.0))),
            joint("l", "table", "left", rotation((0.0, 1.0, 0.0)), (0.0, 0.3, 0.0)),
            joint("r", "table", "right", rotation((0.0, 1.0, 0.0)), (0.0, -0.3, 0.0)),
        ],
    )
    kin = km.Kinematics(robot)
    q = np.random.default_rng(0).uniform(-1.4, 1.4, (20, 3))
    pos, quat = kin.forward_kinematics(q)
    found = kin.inverse_kinematics(["left", "right"], [pos[:, 1], None], [quat[:, 1], quat[:, 2]])
    assert found.solved.all()
    np.testing.assert_allclose(np.cos(found.qpos), np.cos(q), atol=5e-3)


def test_a_free_body_goes_anywhere() -> None:
    kin = km.Kinematics(ball(), precision="double")
    pos, quat = np.array([3.0, -2.0, 1.0]), np.array([0.1, -0.7, 0.5, 0.5])
    found = kin.inverse_kinematics("ball", pos, quat)
    assert found.solved[0]
    np.testing.assert_allclose(found.qpos[0, :3], pos, atol=1.01e-4)
    assert abs(found.qpos[0, 3:] @ quat) / np.linalg.norm(quat) > np.cos(1e-3)


def test_an_entity_reaches_in_its_scene(arm: km.Robot, targets: tuple[np.ndarray, np.ndarray]) -> None:
    scene = km.Scene(quiet=True)
    entity: Any = scene.add(arm, pos=(1.0, 2.0, 0.0))
    scene.build(n_envs=4)
    pos, quat = targets[0][:4] + np.array([1.0, 2.0, 0.0]), targets[1][:4]
    found = entity.inverse_kinematics(entity.get_link("hand"), pos, quat, return_error=True)
    assert found.solved.all()
    qpos = entity.inverse_kinematics("hand", pos, quat)
    there, turned = entity.forward_kinematics(qpos, links_idx=["hand"])
    entity.set_qpos(qpos)
    np.testing.assert_allclose(entity.get_link("hand").get_pos(), pos, atol=1.05e-4)
    np.testing.assert_allclose(there[:, 0], entity.get_link("hand").get_pos(), atol=1e-6)
    np.testing.assert_allclose(turned[:, 0], entity.get_link("hand").get_quat(), atol=1e-6)
    several = entity.inverse_kinematics_multilink(["hand"], [pos[2:]], [quat[2:]], envs_idx=[2, 3])
    np.testing.assert_allclose(several, entity.inverse_kinematics("hand", pos[2:], quat[2:], envs_idx=[2, 3]))


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, "no target is given"),
        ({"link": "foot", "pos": [0, 0, 0]}, "no 'foot'; the links are"),
        ({"link": "tip", "pos": [0, 0]}, r"pos: expected values of shape \(3,\) or \(n, 3\), not \(2,\)"),
        ({"link": "tip", "quat": [0, 0, 0, 0]}, "not all zero"),
        ({"link": "tip", "pos": [0, 0, np.nan]}, "finite numbers"),
        ({"link": "tip", "pos": [0, 0, 0], "method": "magic"}, "none of lm, dls, gauss-newton"),
        ({"link": "tip", "pos": [0, 0, 0], "speed": 3}, "no option 'speed'; the options are: pos_tol"),
        ({"link": "tip", "pos": [0, 0, 0], "pos_tol": 0.0}, "positive tolerances"),
        ({"link": "tip", "pos": [0, 0, 0], "dofs": []}, "no free degree of freedom moves tip"),
        ({"link": ["tip"], "pos": [[0, 0, 0], [0, 0, 0]]}, "one entry for each of 1 links, not 2"),
        ({"link": "tip", "pos": np.zeros((2, 3)), "init_qpos": np.zeros((3, 3))}, "2 and 3 rows"),
        ({"look_at": "tip"}, "a link and a target position"),
    ],
)
def test_what_cannot_be_asked_is_said(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(km.KinemaError, match=said):
        km.ik(reacher(), asked.pop("link", None), **asked)

"""Forward kinematics: coordinates by name, leaders and followers, several robots."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kinema.core import KinemaError, Pose
from kinema.description import (
    Box,
    Joint,
    JointKind,
    Link,
    Mimic,
    Robot,
    Shape,
    Sphere,
    World,
    free_axes,
    rotation,
    spherical_axes,
)


def arm(name: str = "arm", length: float = 1.0) -> Robot:
    """Two links of a length along x, hinged about z."""
    joints = [
        Joint(name="shoulder", kind=JointKind.REVOLUTE, parent="base", child="upper", axes=[rotation([0, 0, 1])]),
        Joint(
            name="elbow",
            kind=JointKind.REVOLUTE,
            parent="upper",
            child="fore",
            parent_pose=Pose.translation([length, 0, 0]),
            axes=[rotation([0, 0, 1])],
        ),
    ]
    return Robot(name=name, links=[Link(name=n) for n in ("base", "upper", "fore")], joints=joints)


def test_a_planar_arm_follows_its_closed_form() -> None:
    a, b = 0.3, -1.1
    pose = arm().forward_kinematics({"shoulder": a, "elbow": b})["fore"]
    np.testing.assert_allclose(pose[:2, 3], [math.cos(a), math.sin(a)], atol=1e-15)
    np.testing.assert_allclose(pose[:2, 0], [math.cos(a + b), math.sin(a + b)], atol=1e-15)


def test_joints_not_named_stay_at_zero() -> None:
    assert arm().link_poses()["fore"].is_close(Pose.translation([1, 0, 0]))


def test_the_robots_own_pose_moves_everything() -> None:
    robot = arm()
    before = robot.link_poses({"shoulder": 0.4})
    robot.pose = Pose.from_rpy([1, 2, 3], [0.1, 0.2, 0.3])
    for name, pose in robot.link_poses({"shoulder": 0.4}).items():
        assert pose.is_close(robot.pose @ before[name], 1e-14)


def test_a_free_joint_not_named_stays_where_its_file_put_it() -> None:
    free = Joint(
        name="free",
        kind=JointKind.FREE,
        parent=None,
        child="ball",
        axes=free_axes(),
        initial=np.array([0, 0, 2.0, 1, 0, 0, 0]),
    )
    robot = Robot(links=[Link(name="ball")], joints=[free])
    assert robot.link_poses()["ball"].is_close(Pose.translation([0, 0, 2]))
    assert robot.link_poses({"free": [1, 2, 3, 0, 0, 0, 1]})["ball"].is_close(
        Pose.from_rpy([1, 2, 3], [0, 0, math.pi]), 1e-15
    )
    assert (robot.n_dofs, robot.n_qs) == (6, 7)


def test_a_spherical_joint_not_named_is_at_the_identity() -> None:
    ball = Joint(name="s", kind=JointKind.SPHERICAL, parent="a", child="b", axes=spherical_axes())
    robot = Robot(links=[Link(name="a"), Link(name="b")], joints=[ball])
    assert robot.link_poses()["b"].is_close(Pose())


def test_a_follower_not_named_follows_and_one_named_does_not() -> None:
    robot = arm()
    robot.joint("elbow").axes[0].mimic = Mimic(joint="shoulder", multiplier=2, offset=0.5, reference=0.1)
    named = robot.link_poses({"shoulder": 0.4, "elbow": 2 * (0.4 - 0.1) + 0.5})
    assert robot.link_poses({"shoulder": 0.4})["fore"].is_close(named["fore"], 1e-15)
    assert robot.link_poses()["fore"].is_close(robot.link_poses({"elbow": 0.3})["fore"], 1e-15)


def test_followers_of_followers_follow_and_circles_do_not_hang() -> None:
    robot = arm()
    robot.joint("elbow").axes[0].mimic = Mimic(joint="shoulder")
    robot.joint("shoulder").axes[0].mimic = Mimic(joint="elbow")
    assert robot.link_poses()["fore"].is_finite
    robot.joint("shoulder").axes[0].mimic = Mimic(joint="nobody")
    assert robot.link_poses()["fore"].is_close(arm().link_poses()["fore"])


def test_wrong_names_and_sizes_are_one_clear_error() -> None:
    with pytest.raises(KinemaError, match=r"no joint 'knee'; the joints are: shoulder, elbow"):
        arm().forward_kinematics({"knee": 1})
    with pytest.raises(KinemaError, match=r"takes 1 coordinate\(s\), not 2"):
        arm().forward_kinematics({"elbow": [1, 2]})


def test_a_world_calls_links_by_their_own_name_where_it_is_unique() -> None:
    left, right = arm("left"), arm("right")
    right.pose = Pose.translation([0, 5, 0])
    right.links.append(Link(name="tool"))
    world = World(robots=[left, right])
    poses = world.forward_kinematics({"left::elbow": 0.2})
    assert set(poses) == {f"{r}::{n}" for r in ("left", "right") for n in ("base", "upper", "fore")} | {"tool"}
    np.testing.assert_array_equal(poses["left::fore"], left.forward_kinematics({"elbow": 0.2})["fore"])
    with pytest.raises(KinemaError, match="left::shoulder"):
        world.forward_kinematics({"elbow": 1})


def test_posed_meshes_are_in_the_world_and_of_the_kind_asked_for() -> None:
    robot = arm()
    box = Shape(name="b", geometry=Box(np.array([1.0, 2, 3])), pose=Pose.translation([0, 0, 1]), visual=False)
    ball = Shape(name="s", geometry=Sphere(0.5), collision=False)
    robot.link("fore").shapes = [box, ball]
    [(link, shape, vertices, faces)] = robot.posed_meshes({"shoulder": math.pi / 2}, kind="collision")
    assert (link, shape) == ("fore", "b")
    np.testing.assert_allclose(vertices.min(axis=0), [-1, 0.5, -0.5], atol=1e-12)
    np.testing.assert_allclose(vertices.max(axis=0), [1, 1.5, 2.5], atol=1e-12)
    assert faces.max() < len(vertices)
    assert [m.shape for m in robot.posed_meshes(kind="visual")] == ["s"]
    with pytest.raises(KinemaError, match="collision"):
        robot.posed_meshes(kind="both")

"""Descriptions made larger: every point moves out, masses grow with the volume, and nothing of the original changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinema as km
from kinema.description import Keyframe, Mimic, scale_description
from kinema.read import read
from kit.assets import EXAMPLES
from kit.robots.small_robots import reacher


@pytest.mark.parametrize("file", ["arm/arm.urdf", "gripper/gripper.sdf"])
@pytest.mark.parametrize("factor", [0.5, 3.0])
def test_every_point_is_further_out(file: str, factor: float) -> None:
    robot: Any = read(EXAMPLES / file)
    large: Any = scale_description(robot, factor)
    for a, b in zip(robot.posed_meshes({}), large.posed_meshes({}), strict=True):
        np.testing.assert_allclose(b.vertices, factor * a.vertices, atol=1e-12)
    assert large.total_mass == pytest.approx(factor**3 * robot.total_mass)
    for small, great in zip(robot.links, large.links, strict=True):
        if small.inertial is not None:
            np.testing.assert_allclose(great.inertial.inertia, factor**5 * small.inertial.inertia)


def test_angles_stay_and_ways_grow() -> None:
    robot = reacher()
    robot.joints[2].axes[0].upper = 0.4
    robot.joints[2].axes[0].mimic = Mimic(joint="elbow", multiplier=0.1, offset=0.2)
    large: Any = scale_description(robot, 2.0)
    for angle, way in ((0.3, 0.1), (-1.0, 0.35)):
        small = robot.link_poses({"shoulder": angle, "push": way})["tip"]
        great = large.link_poses({"shoulder": angle, "push": 2 * way})["tip"]
        np.testing.assert_allclose(great.position, 2 * small.position)
        np.testing.assert_allclose(great.rotation, small.rotation)
    follower = large.joints[2].axes[0]
    assert (follower.upper, follower.mimic.multiplier, follower.mimic.offset) == (0.8, 0.2, 0.4)
    assert robot.joints[2].axes[0].upper == 0.4


def test_a_scene_adds_it_so() -> None:
    scene = km.Scene(precision="double", quiet=True)
    arm = scene.add(reacher(), scale=2.0)
    scene.build()
    np.testing.assert_allclose(arm.get_link("tip").get_pos()[0], [1.6, 0, 0])
    assert arm.get_mass() == 8 * 3.5
    with pytest.raises(km.KinemaError, match="the scale of a robot must be uniform"):
        km.Scene().add(reacher(), scale=(1, 1, 2))
    robot = reacher()
    robot.keyframes = [Keyframe(name="home")]
    with pytest.raises(km.KinemaError, match='"reacher" has keyframes, which cannot be scaled'):
        km.Scene().add(robot, scale=2.0)

"""How far what is tied or coupled is off, beside the poses and coordinates that it follows from."""

from __future__ import annotations

import numpy as np
import pytest

import kinema as km
from kinema.core import Pose
from kit.assets import ROOT
from kit.choosing import representatives


@pytest.mark.parametrize("codegen", representatives(["unrolled", "loops"], 1))
def test_gaps_and_errors_are_what_poses_and_coordinates_say(codegen: str) -> None:
    """A gripper that is thrown about: its loops open a little, and more where it is put somewhere impossible."""
    scene = km.Scene(contacts=False, quiet=True, precision="double", codegen=codegen)
    gripper = scene.add(ROOT / "examples" / "robots" / "gripper" / "gripper.sdf", fixed=True)
    scene.build(2)
    start = gripper.get_qpos()
    gripper.set_qpos(start + np.linspace(0.0, 0.3, start.size).reshape(start.shape))
    robot = gripper.description
    assert isinstance(robot, km.Robot)
    loops = robot.tree().loops
    assert scene.link_equality_names == [joint.name for joint in loops]
    assert scene.coupling_names == ["right_driver_joint"]
    for _ in range(2):
        names = [link.name for link in gripper.links]
        positions, quaternions = gripper.get_links_pos(), gripper.get_links_quat()
        for env in range(2):
            poses = {n: Pose.from_quaternion(positions[env, i], quaternions[env, i]) for i, n in enumerate(names)}
            for i, joint in enumerate(loops):
                assert joint.parent is not None
                assert joint.child is not None
                a, b = poses[joint.parent] @ joint.parent_pose, poses[joint.child] @ joint.child_pose
                gap = float(np.linalg.norm(a.position - b.position))
                assert scene.link_equalities.gap.numpy()[i, env] == pytest.approx(gap, abs=1e-12)
            q = {
                name: gripper.get_qpos()[env, gripper.get_joint(name).qs_idx[0]]
                for name in ("left_driver_joint", "right_driver_joint")
            }
            off = q["right_driver_joint"] - q["left_driver_joint"]
            assert scene.couplings.error.numpy()[0, env] == pytest.approx(off, abs=1e-12)
        scene.step(400)
    assert scene.link_equalities.gap.numpy().max() < 1e-5


def test_a_robot_without_ties_says_so() -> None:
    scene = km.Scene(contacts=False, quiet=True)
    scene.add(ROOT / "examples" / "robots" / "quadruped" / "quadruped.xml")
    scene.build()
    assert scene.link_equality_names == []
    with pytest.raises(km.KinemaError, match="the model has no equality constraints"):
        scene.link_equalities.gap.numpy()

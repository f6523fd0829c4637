"""Random trees with joints of every kind, stacked and against the tree too: kinematics and inertia."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings

from kinema.core import quaternion_to_matrix
from kinema.description import Base
from kinema.dynamics import Settings
from kit.mass_matrix import mass_matrix
from kit.robots.configurations import by_joint, model_coordinates
from kit.robots.each_joint import model_of
from kit.robots.random_robots import random_robot
from kit.robots.seeds import seeds
from kit.robots.variety import SIMULATED

from .interpreted import fields


@given(seeds)
@settings(max_examples=40)
def test_poses_and_mass_matrix(seed: int) -> None:
    """Links are where the description puts them; M is that of their velocities, which differences of poses give."""
    robot = random_robot(seed, SIMULATED)
    for joint in robot.joints:
        joint.break_force = joint.break_torque = math.inf  # one that breaks has no coordinates
    robot.base = Base.FIXED
    model = model_of(robot)
    q = model_coordinates(model, np.random.default_rng(seed), 1)
    found = {name: values[:, 0] for name, values in fields(model, Settings(), {"qpos": q}, "poses", "mass").items()}
    at = by_joint(model, q[:, 0])
    for name, position, turn in zip(
        model.links.names, found["pos"].reshape(-1, 3), found["quat"].reshape(-1, 4), strict=True
    ):
        pose = robot.link_poses(at)[name]
        np.testing.assert_allclose(position, pose.position, rtol=0, atol=1e-12)
        np.testing.assert_allclose(quaternion_to_matrix(turn), pose.rotation, rtol=0, atol=1e-12)
    if model.n_dofs:
        expected = mass_matrix(robot, model.joints.names, at)
        ours = found["mass_mat"].reshape(model.n_dofs, model.n_dofs)
        np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-8 * np.abs(expected).max())

"""Random robots, written as URDF, are where they were: at zero, and along each of their joints."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import kinema
from kinema.core import Array, Pose
from kinema.description import JointKind, Robot
from kit.mass_matrix import mass_matrix
from kit.oracles import OracleMissing, drake
from kit.robots.configurations import random_coordinates
from kit.robots.parts import random_pose
from kit.robots.random_robots import random_robot
from kit.robots.same import agree
from kit.robots.seeds import seeds
from kit.robots.variety import URDF
from kit.written.urdf import Written, check_urdf, mujoco_poses, pinocchio_configuration, pinocchio_poses

TOLERANCE = 1e-9
WITHOUT_ARMATURE = replace(URDF, armature=False)
"""The format has no word for it."""


def _along_each_joint(robot: Robot) -> Iterator[dict[str, Array]]:
    """The zero configuration, one for every coordinate, and one with all joints moved."""
    zero = {j.name: j.rest for j in robot.joints}
    yield zero
    for joint in robot.joints:
        for i in range(joint.n_qs):
            q = joint.rest.copy()
            q[i] += 0.8
            if joint.kind in (JointKind.FREE, JointKind.SPHERICAL):
                q[-4:] /= np.linalg.norm(q[-4:])
            yield zero | {joint.name: q}
    yield random_coordinates(robot, np.random.default_rng(1))


@given(seeds, st.booleans())
@settings(max_examples=60)
def test_a_random_robot_is_where_it_was(seed: int, on_world: bool) -> None:
    """Pinocchio, MuJoCo and our own reader have every link in its place; urdfdom has no complaint."""
    robot = random_robot(seed, URDF)
    with tempfile.TemporaryDirectory() as folder:
        written = Written.make(robot, Path(folder), base="world" if on_world else "auto")
        configurations = list(_along_each_joint(robot))
        expected = [written.expected(c) for c in configurations]
        in_file = [written.in_file(c) for c in configurations]
        for judge in (pinocchio_poses, mujoco_poses):
            for theirs, ours in zip(judge(written, in_file), expected, strict=True):
                agree(theirs, ours, TOLERANCE)
        again = kinema.read(written.file)
        for q, ours in zip(in_file, expected, strict=True):
            agree(again.forward_kinematics(q), ours, TOLERANCE)
        if on_world:
            assert written.root_pose(robot.link_poses()).is_close(Pose())


@given(seeds)
@settings(max_examples=15)
def test_a_random_robot_is_as_heavy_as_it_was(seed: int) -> None:
    """Pinocchio's mass matrix is that of the description, but for the little mass between the joints of a chain."""
    robot = random_robot(seed, WITHOUT_ARMATURE)
    pin: Any = pytest.importorskip("pinocchio")
    with tempfile.TemporaryDirectory() as folder:
        written = Written.make(robot, Path(folder))
        configuration = random_coordinates(robot, np.random.default_rng(3), 1.0)
        model = pin.buildModelFromUrdf(str(written.file))
        q = pinocchio_configuration(model, written, written.in_file(configuration))
        theirs = pin.crba(model, model.createData(), q)
    joints = list(written.lowered.coordinates)  # those whose velocities mean the same in the file
    theirs = np.triu(theirs) + np.triu(theirs, 1).T
    columns = [_moves_in_file(model, written, name, i) for name in joints for i in range(robot.joint(name).n_dofs)]
    along = np.array(columns).reshape(len(columns), model.nv)
    ours = mass_matrix(robot, joints, configuration)
    size = max(1.0, float(np.abs(ours).max(initial=0.0)))
    np.testing.assert_allclose(along @ theirs @ along.T, ours, rtol=0, atol=size * 1e-5)


def _moves_in_file(model: Any, written: Written, joint: str, coordinate: int) -> Array:
    """Which velocities of Pinocchio's belong to one coordinate of a joint."""
    result = np.zeros(model.nv)
    lowered = written.lowered
    own = lowered.coordinates[joint][coordinate]
    result[model.joints[model.getJointId(own)].idx_v] = 1.0
    if joint in lowered.screw_travels:
        (travel,) = (n for n in lowered.joint_chains[joint] if n != own)
        result[model.joints[model.getJointId(travel)].idx_v] = lowered.screw_travels[joint]
    return result


@given(seeds)
@settings(max_examples=10)
def test_urdfdom_accepts_random_robots(seed: int) -> None:
    """Nothing is missing and nothing is malformed."""
    robot = random_robot(seed, URDF)
    with tempfile.TemporaryDirectory() as folder:
        check_urdf(Written.make(robot, Path(folder)).file)


@given(seeds)
@settings(max_examples=3)
def test_drake_has_random_robots_where_they_were(seed: int) -> None:
    """Drake, at zero and at a random configuration."""
    robot = random_robot(seed, URDF)
    with tempfile.TemporaryDirectory() as folder:
        written = Written.make(robot, Path(folder))
        configurations = [{j.name: j.rest for j in robot.joints}]
        configurations.append(random_coordinates(robot, np.random.default_rng(2)))
        try:
            result = drake(written.file, [_for_drake(written, written.in_file(c)) for c in configurations])
        except OracleMissing as missing:
            pytest.skip(str(missing))
        assert "error" not in result, result
        for c, seen in zip(configurations, result["configurations"], strict=True):
            by_name = {name.rpartition("::")[2]: pose for name, pose in seen["poses"].items()}
            base = np.linalg.inv(by_name.get(_root(written), np.eye(4)))  # a link "world" is Drake's own world
            agree({n: base @ p for n, p in by_name.items()}, written.expected(c), TOLERANCE)


def _root(written: Written) -> str:
    children = {j.child for j in written.lowered.robot.joints}
    return next(link.name for link in written.lowered.robot.links if link.name not in children)


def _for_drake(written: Written, coordinates: dict[str, Array]) -> dict[str, list[float]]:
    """Quaternions come first in Drake's free joints."""
    free = {name for name, joint in written.joints.items() if joint.kind is JointKind.FREE}
    return {name: [*q[3:], *q[:3]] if name in free else q.tolist() for name, q in coordinates.items()}


@given(seeds)
def test_rotations_come_back_from_their_angles(seed: int) -> None:
    """Roll, pitch and yaw give the rotation again to the last digits, in gimbal lock and near it too."""
    rng = np.random.default_rng(seed)
    for _ in range(5):
        pose = random_pose(rng)
        again = Pose.from_rpy(pose.position, pose.rpy)
        np.testing.assert_allclose(again.rotation, pose.rotation, rtol=0, atol=2e-14)

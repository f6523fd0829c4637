"""Random robots with joints of every kind, loops, drives, mimicry and collision rules, as MJCF."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from mujoco_judge import (
    assert_collisions,
    assert_joints,
    assert_mass_matrix,
    assert_masses,
    assert_poses,
    random_coordinates,
    write,
)

sys.path.insert(0, str(Path(__file__).parents[1]))
from random_robots import numbers, random_robot

from kinema.description import Base, Robot, World
from kinema.foundation import Pose
from kinema.read.mjcf import read_mjcf


def _judge(described: Robot | World, seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        written = write(described, Path(folder))
        generator = np.random.default_rng(seed)
        for _ in range(2):
            values = random_coordinates(written, generator)
            assert_poses(written, values)
        assert_masses(written)
        assert_joints(written)
        assert_collisions(written)
        assert_mass_matrix(written, values)
        again = read_mjcf(written.path)
        assert not again.diagnostics.errors()
        assert abs(again.total_mass - sum(written.model.body_mass)) < 1e-9 * again.total_mass + 1e-12


@given(numbers)
@settings(max_examples=150)
def test_a_random_robot_is_the_same(seed: int) -> None:
    """MuJoCo has the same poses, masses, mass matrix, limits and colliding pairs."""
    _judge(random_robot(seed), seed)


@given(numbers)
@settings(max_examples=30)
def test_a_random_world_is_the_same(seed: int) -> None:
    """Several robots of the same names in one world, each in its place."""
    generator = np.random.default_rng(seed)
    robots = [random_robot(seed + i) for i in range(int(generator.integers(1, 4)))]
    for i, robot in enumerate(robots):
        robot.name = f"robot {i}"
        robot.pose = robot.pose @ Pose.translation((3.0 * i, 0.0, 0.0))
        robot.static = bool(generator.random() < 0.2)
        robot.base = [robot.base, Base.UNSPECIFIED][int(generator.random() < 0.2)]
    scenery = random_robot(seed + 99).links[0].shapes
    for i, shape in enumerate(scenery):
        shape.name = f"scenery {i}"
    _judge(World(name="world", robots=robots, shapes=scenery), seed)

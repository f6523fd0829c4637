"""Random robots with joints of every kind, loops, drives, mimicry and collision rules, as MJCF."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given, settings

from kinema.description import Robot, World
from kinema.read.mjcf import read_mjcf
from kit.robots.random_robots import random_robot, random_world
from kit.robots.seeds import seeds
from kit.robots.variety import MJCF
from kit.written.mjcf import (
    assert_collisions,
    assert_joints,
    assert_mass_matrix,
    assert_masses,
    assert_poses,
    assert_start,
    random_coordinates,
    write,
)


def _judge(described: Robot | World, seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        written = write(described, Path(folder))
        generator = np.random.default_rng(seed)
        values = random_coordinates(written, generator)
        assert_poses(written, values)
        assert_poses(written, random_coordinates(written, generator))
        assert_masses(written)
        assert_joints(written)
        assert_start(written)
        assert_collisions(written)
        assert_mass_matrix(written, values)
        again = read_mjcf(written.path)
        assert not again.diagnostics.errors()
        assert abs(again.total_mass - sum(written.model.body_mass)) < 1e-9 * again.total_mass + 1e-12


@given(seeds)
@settings(max_examples=60)
def test_a_random_robot_is_the_same(seed: int) -> None:
    """MuJoCo has the same poses, masses, mass matrix, limits and colliding pairs."""
    _judge(random_robot(seed, MJCF), seed)


@given(seeds)
@settings(max_examples=30)
def test_a_random_world_is_the_same(seed: int) -> None:
    """Several robots of the same names in one world, each in its place."""
    _judge(random_world(seed, MJCF), seed)

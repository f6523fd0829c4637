"""Trajectories, against what they are by definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinema as km
from kinema.kinematics import interpolate_pose, linear_trajectory, min_jerk_trajectory

POINTS = np.array([[0.0, 1.0], [2.0, -1.0], [2.5, 0.0]])


def test_least_jerk_rests_at_its_points() -> None:
    way = min_jerk_trajectory(POINTS, [1.0, 0.5], 0.01)
    assert len(way) == 151
    for step, point in ((0, 0), (100, 1), (150, 2)):
        np.testing.assert_allclose(way.position[step], POINTS[point], atol=1e-12)
        np.testing.assert_allclose(way.velocity[step], 0.0, atol=1e-12)
        np.testing.assert_allclose(way.acceleration[step], 0.0, atol=1e-10)
    assert np.abs(way.velocity[:100, 0]).max() == pytest.approx(2.0 * 15 / 8, rel=1e-3)


def test_its_jerk_is_the_least() -> None:
    """Its sixth derivative vanishes (Euler and Lagrange), and no other polynomial with these ends has less."""
    s = np.linspace(0.0, 1.0, 2001)
    least = min_jerk_trajectory([0.0, 1.0], 1.0, 1.0 / 2000).position
    cost = []
    for share in (0.0, 0.05, -0.05):
        x = least + share * (s * (1.0 - s)) ** 3
        cost.append(float(np.sum(np.diff(x, 3) ** 2)))
    assert cost[0] < min(cost[1:])


@pytest.mark.parametrize("kind", [min_jerk_trajectory, linear_trajectory])
def test_derivatives_are_those_of_what_is_derived(kind: Any) -> None:
    way = kind(POINTS, 2.0, 1e-3)
    inside = np.r_[5:995, 1005:1995]
    np.testing.assert_allclose(np.gradient(way.position, way.time, axis=0)[inside], way.velocity[inside], atol=2e-5)
    np.testing.assert_allclose(np.gradient(way.velocity, way.time, axis=0)[inside], way.acceleration[inside], atol=1e-3)


def test_points_of_any_shape() -> None:
    points = np.arange(24.0).reshape(2, 3, 4)
    np.testing.assert_allclose(linear_trajectory(points, 1.0, 0.25).position[2], points.mean(axis=0))


def test_poses_between_two_turn_about_one_axis() -> None:
    half = np.array([np.cos(0.6), 0.0, np.sin(0.6), 0.0])
    pos, quat = interpolate_pose([[0, 0, 0], [1, 2, 3]], [[1, 0, 0, 0], -half], [0.0, 0.25, 1.0])
    np.testing.assert_allclose(pos[1], [0.25, 0.5, 0.75])
    np.testing.assert_allclose(quat[1], [np.cos(0.15), 0.0, np.sin(0.15), 0.0], atol=1e-12)
    np.testing.assert_allclose(quat[2], half, atol=1e-12)


@pytest.mark.parametrize(
    ("points", "duration", "dt", "said"),
    [
        ([1.0], 1.0, 0.1, "at least two waypoints"),
        ([0.0, 1.0], 0.0, 0.1, "duration"),
        ([0.0, 1.0, 2.0], [1.0], 0.1, "one for each of 2 segments"),
        ([0.0, 1.0], 1.0, 0.0, "dt"),
    ],
)
def test_what_is_no_trajectory_is_said(points: Any, duration: Any, dt: float, said: str) -> None:
    with pytest.raises(km.KinemaError, match=said):
        min_jerk_trajectory(points, duration, dt)

"""Balls on a floor, in closed form: how deep they rest, how they stop to spin and roll; batches do not matter."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sim.touching import GRAVITY, PER_ENV, scene_of

BALL = '<body pos="0 0 1"><freejoint/><geom name="ball" size="1" mass="3" condim="6"/></body>'
CONE = 'cone="elliptic" impratio="10"'


@pytest.mark.parametrize(
    ("precision", "within"), [pytest.param("double", 1e-10, marks=pytest.mark.benchmark), ("single", 1e-3)]
)
def test_how_deep_a_ball_rests(precision: str, within: float, tmp_path: Path) -> None:
    """By stiffness, or time constant, and impedance: g (1 - d) / k, or g (1 - d) (tc zeta)²; after 20 s."""
    laws = [(-100.0, -20.0), (-10.0, -6.0), (0.1, 1.0), (0.01, 1.0)]
    cases = [(law, d) for law in laws for d in (0.3, 0.9, 0.99)]
    scene, ball = scene_of(tmp_path, BALL, len(cases), CONE, precision=precision, per_env=PER_ENV)
    params = np.array([[*law, d, d, 0.01, 0.5, 2] for law, d in cases])
    ball.set_geoms_sol_params(np.repeat(params[:, None], 2, axis=1))
    scene.step(10000)
    expected = [GRAVITY * (1 - d) * (-1 / a if a < 0 else (a * b) ** 2) for (a, b), d in cases]
    np.testing.assert_allclose(1.0 - ball.get_qpos()[:, 2], expected, rtol=within, atol=within)
    force = scene.get_contacts()["force_b"].sum(axis=1)
    np.testing.assert_allclose(force[:, 2], 3 * GRAVITY, rtol=max(within, 5e-5))


def test_how_it_stops_to_spin_and_roll(tmp_path: Path) -> None:
    """Spin slows by mu g / (0.4 r²), rolling by (5/7) mu g / r: within 5 %."""
    scene, ball = scene_of(tmp_path, BALL, 2, CONE, per_env=PER_ENV)
    ball.set_geoms_friction([[[1.0, 0.05, 0.05]]])
    scene.step(500)
    ball.set_qvel([[0, 0, 0, 0, 0, 4.0], [2.0, 0, 0, 0, 2.0, 0]])
    scene.step(200)
    before = ball.get_qvel()
    scene.step(500)
    slower = before - ball.get_qvel()
    assert abs(slower[0, 5] / (0.05 * GRAVITY / 0.4) - 1.0) < 0.05
    assert abs(slower[1, 0] / (5 / 7 * 0.05 * GRAVITY) - 1.0) < 0.05


def test_batches_do_not_matter(tmp_path: Path) -> None:
    """Runs again, other orders of environments, one alone, and a reset of some: the same bits."""
    n, rng = 7, np.random.default_rng(0)
    start = rng.normal(size=(n, 6))
    order = rng.permutation(n)
    scene, ball = scene_of(tmp_path, BALL, n, CONE, per_env=PER_ENV)

    def run(speeds: np.ndarray) -> np.ndarray:
        scene.reset()
        ball.set_qvel(speeds)
        scene.step(100)
        return ball.get_qpos()

    first = run(start)
    np.testing.assert_array_equal(run(start), first)
    np.testing.assert_array_equal(run(start[order]), first[order])
    scene.reset(envs_idx=[2])
    np.testing.assert_array_equal(np.delete(ball.get_qpos(), 2, axis=0), np.delete(first[order], 2, axis=0))
    alone, one = scene_of(tmp_path, BALL, 1, CONE, per_env=PER_ENV)
    one.set_qvel(start[3])
    alone.step(100)
    np.testing.assert_array_equal(one.get_qpos()[0], first[3])

"""Balls on a floor, in closed form: how deep they rest, how they stop to spin and roll; batches do not matter."""

from __future__ import annotations

import numpy as np

from .measured import GRAVITY, PER_ENV, Measured, largest, scene_of

BALL = '<body pos="0 0 1"><freejoint/><geom name="ball" size="1" mass="3" condim="6"/></body>'
CONE = 'cone="elliptic" impratio="10"'
LAWS = ((-100.0, -20.0), (-10.0, -6.0), (0.1, 1.0), (0.01, 1.0))
DEPTH = {"double": 1e-10, "single": 1e-3}


def rest_depth(precision: str = "single", seconds: float = 20.0) -> list[Measured]:
    """By stiffness, or time constant, and impedance: g (1 - d) / k, or g (1 - d) (tc zeta)²; and that it is borne."""
    cases = [(law, d) for law in LAWS for d in (0.3, 0.9, 0.99)]
    scene, ball = scene_of(BALL, len(cases), CONE, precision=precision, per_env=PER_ENV)
    params = np.array([[*law, d, d, 0.01, 0.5, 2] for law, d in cases])
    ball.set_geoms_sol_params(np.repeat(params[:, None], 2, axis=1))
    scene.step(round(seconds / scene.dt))
    expected = np.array([GRAVITY * (1 - d) * (-1 / a if a < 0 else (a * b) ** 2) for (a, b), d in cases])
    off = (1.0 - ball.get_qpos()[:, 2]) - expected
    weight = scene.get_contacts()["force_b"].sum(axis=1)[:, 2] / (3 * GRAVITY)
    return [
        Measured("depth, off by (12 laws)", largest(off / np.maximum(1.0, expected)), DEPTH[precision], unit="m"),
        Measured("force, against the weight", largest(weight - 1.0), 5e-5),
    ]


def spin_and_roll(precision: str = "single") -> list[Measured]:
    """Spin slows by mu g / (0.4 r²), rolling by (5/7) mu g / r."""
    scene, ball = scene_of(BALL, 2, CONE, precision=precision, per_env=PER_ENV)
    ball.set_geoms_friction([[[1.0, 0.05, 0.05]]])
    scene.step(500)
    ball.set_qvel([[0, 0, 0, 0, 0, 4.0], [2.0, 0, 0, 0, 2.0, 0]])
    scene.step(200)
    before = ball.get_qvel()
    scene.step(500)
    slower = before - ball.get_qvel()
    spin, roll = 0.05 * GRAVITY / 0.4, 5 / 7 * 0.05 * GRAVITY
    return [
        Measured("spin-down rate, off by", abs(float(slower[0, 5]) / spin - 1.0), 0.05),
        Measured("rolling to rest, off by", abs(float(slower[1, 0]) / roll - 1.0), 0.05),
    ]


def batches(precision: str = "single") -> list[Measured]:
    """Runs again, other orders of environments, one alone, a reset of some, NaN in one of them: the same bits."""
    n, rng = 7, np.random.default_rng(0)
    start, order = rng.normal(size=(n, 6)), rng.permutation(n)
    scene, ball = scene_of(BALL, n, CONE, precision=precision, per_env=PER_ENV)

    def run(speeds: np.ndarray) -> np.ndarray:
        scene.reset()
        ball.set_qvel(speeds)
        scene.step(100)
        return ball.get_qpos()

    first = run(start)
    found = {"run again": _different(run(start), first), "other order": _different(run(start[order]), first[order])}
    scene.reset(envs_idx=[2])
    found["after a reset of one"] = _different(ball.get_qpos(), first[order], leaving_out=2)
    broken = start.copy()
    broken[4, 1] = 3e38 if precision == "single" else 1e308
    found["beside one that breaks"] = _different(run(broken), first, leaving_out=4)
    flagged = scene.get_error_envs_mask()
    alone, one = scene_of(BALL, 1, CONE, precision=precision, per_env=PER_ENV)
    one.set_qvel(start[3])
    alone.step(100)
    found["alone"] = _different(one.get_qpos(), first[3:4])
    return [
        *(Measured(f"{name}: environments that differ", count, 0) for name, count in found.items()),
        Measured("flagged: the one that breaks, no other", float(flagged[4] and flagged.sum() == 1), 1, at_least=True),
    ]


def _different(ours: np.ndarray, theirs: np.ndarray, leaving_out: int | None = None) -> int:
    differ = (ours != theirs).any(axis=1)
    if leaving_out is not None:
        differ[leaving_out] = False
    return int(differ.sum())

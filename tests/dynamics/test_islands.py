"""A heap by itself: matrices of tiles, one dense matrix and one solution for each island give the same motion."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kinema as km
from kinema.dynamics.constraints import block_sparse_hessian

BALL = '<body pos="{} {} {}"><freejoint/><geom size=".1" mass="{}" friction=".6"/></body>'
FOUR = [(0, 0, 0.1, 1), (0.19, 0, 0.1, 2), (0.1, 0.16, 0.1, 1), (0.1, 0.06, 0.25, 3)]
TWO = [(1, 0, 0.1, 1), (1.1, 0, 0.26, 1)]
HEAP = f"""<mujoco><option cone="elliptic"/><worldbody><geom type="plane" size="5 5 1"/>
{"".join(BALL.format(*place) for place in FOUR + TWO)}</worldbody></mujoco>"""
"""A pyramid of four balls that falls apart, and one ball that rolls off another."""


@pytest.mark.usefixtures("no_program_cache")
def test_ways_to_solve_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To 1e-10 after 25 steps, two environments with different speeds; each island alone as with others around."""
    file = tmp_path / "heap.xml"
    file.write_text(HEAP, encoding="utf-8")
    speed = 0.3 * np.random.default_rng(0).normal(size=(2, 36))
    found = []
    for enough, islands in ((4, False), (99, False), (4, True)):
        monkeypatch.setattr(block_sparse_hessian, "MIN_TREES_FOR_BLOCKS", enough)
        scene = km.Scene(quiet=True, precision="double", codegen="loops", islands=islands, iterations=100)
        balls = scene.add(file)
        scene.build(n_envs=2)
        balls.set_qvel(speed)
        scene.step(25)
        found.append(np.concatenate([balls.get_qpos(), balls.get_qvel()], axis=1))
        if islands:
            other = speed.copy()
            other[:, 24:] = 0.0  # what the two balls do is nothing to the four
            scene.reset()
            balls.set_qvel(other)
            scene.step(25)
            assert np.array_equal(balls.get_qpos()[:, :28], found[-1][:, :28])
            assert not np.array_equal(balls.get_qpos()[:, 28:], found[-1][:, 28:42])
    for other in found[1:]:
        np.testing.assert_allclose(found[0], other, rtol=0, atol=1e-10)

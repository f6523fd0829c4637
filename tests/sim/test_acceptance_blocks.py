"""Blocks on a slope, in closed form: which stay, how they slide, how far they get, and that no direction is special."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as km
from sim.touching import GRAVITY, PER_ENV, scene_of, tilted

BLOCK = '<body pos="0 0 .0199"><freejoint/><geom type="box" size=".2 .2 .02" mass="2" condim="3"/></body>'
FLOOR = '<geom name="floor" type="plane" size="50 50 1" condim="3"/>'
CONE = 'cone="elliptic" impratio="100"'
FRICTION, ANGLES = (0.1, 0.3, 0.5, 0.7, 1.0), np.radians((3.0, 10.0, 20.0, 30.0, 40.0))


def test_blocks_on_slopes(tmp_path: Path) -> None:
    """What is two degrees below the angle of friction stays, what is above slides; it stops after v² / (2 mu g)."""
    mu, angle = (x.ravel() for x in np.meshgrid(FRICTION, ANGLES))
    n = len(mu)
    scene, block = scene_of(tmp_path, BLOCK, n, CONE, per_env=PER_ENV, floor=FLOOR)
    block.set_geoms_friction(np.repeat(mu[:, None], 2, axis=1))
    scene.step(200)
    scene.set_gravity(tilted(angle))
    start = block.get_qpos()
    scene.step(500)
    moved = np.linalg.norm(block.get_qpos()[:, :2] - start[:, :2], axis=1)
    speed = np.linalg.norm(block.get_qvel()[:, :2], axis=1)
    margin = np.radians(2.0)
    holds, slides = angle < np.arctan(mu) - margin, angle > np.arctan(mu) + margin
    assert holds.sum() > 8
    assert slides.sum() > 8
    assert speed[holds].max() < 1e-3
    assert moved[holds].max() < 1e-3
    assert moved[slides].min() > 0.02
    _stopping(scene, block, n)


def _stopping(scene: km.Scene, block: Any, n: int) -> None:
    """Pushed at 2 m/s on the flat, three coefficients."""
    scene.reset()
    scene.set_gravity([0.0, 0.0, -GRAVITY])
    mu = np.resize((0.2, 0.4, 0.7), n)
    block.set_geoms_friction(np.repeat(mu[:, None], 2, axis=1))
    scene.step(200)
    start = block.get_qpos()[:, 0]
    block.set_qvel([2.0, 0, 0, 0, 0, 0])
    scene.step(1000)
    far = block.get_qpos()[:, 0] - start
    np.testing.assert_allclose(far, 2.0**2 / (2 * mu * GRAVITY), rtol=0.01)
    assert np.abs(block.get_qvel()).max() < 1e-3
    forces = scene.get_contacts()["force_b"].sum(axis=1)
    np.testing.assert_allclose(forces[:, 2], 2 * GRAVITY, rtol=5e-5)


@pytest.mark.benchmark
def test_no_direction_is_special(tmp_path: Path) -> None:
    """Pushed anyhow by 0.4 of what friction holds a foot creeps by less than 5e-5 m/s, by 1.5 it goes by the rest."""
    n, mu = 16, 0.5
    slides = "".join(f'<joint type="slide" axis="{axis}"/>' for axis in ("1 0 0", "0 1 0", "0 0 1"))
    foot = f'<body pos="0 0 .0999">{slides}<geom size=".1" mass="2" friction="{mu}"/></body>'
    floor = FLOOR.replace("condim", f'friction="{mu}" condim')
    scene, block = scene_of(tmp_path, foot, n, CONE, per_env=("gravity",), floor=floor, dt=0.001)
    way = np.random.default_rng(0).uniform(0, 2 * np.pi, n)
    scene.step(300)
    for share in (0.4, 1.5):
        pull = share * mu * GRAVITY * np.stack([np.cos(way), np.sin(way)], axis=1)
        scene.set_gravity(np.concatenate([pull, np.full((n, 1), -GRAVITY)], axis=1))
        scene.step(200)
        before = block.get_qvel()[:, :2]
        scene.step(500)
        gained = np.linalg.norm(block.get_qvel()[:, :2] - before, axis=1) / 0.5
        if share < 1.0:
            assert np.linalg.norm(before, axis=1).max() < 5e-5
        else:
            np.testing.assert_allclose(gained, 0.5 * mu * GRAVITY, rtol=0.01)
            assert gained.std() < 5e-5 * gained.mean()

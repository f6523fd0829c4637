"""Blocks on a slope, in closed form: which stay, how they slide, how far they get, and that no direction is special."""

from __future__ import annotations

from typing import Any

import numpy as np

import kinema as km

from .measured import GRAVITY, PER_ENV, Measured, largest, scene_of, tilted

BLOCK = '<body pos="0 0 .0199"><freejoint/><geom type="box" size=".2 .2 .02" mass="2" condim="3"/></body>'
FLOOR = '<geom name="floor" type="plane" size="50 50 1" condim="3"/>'
CONE = 'cone="elliptic" impratio="10"'
FRICTION, ANGLES = (0.1, 0.3, 0.5, 0.7, 1.0), np.radians((3.0, 10.0, 20.0, 30.0, 40.0))


def slopes(precision: str = "single") -> list[Measured]:
    """What is two degrees below the angle of friction stays, what is above slides; it stops after v² / (2 mu g)."""
    mu, angle = (x.ravel() for x in np.meshgrid(FRICTION, ANGLES))
    scene, block = scene_of(BLOCK, len(mu), CONE, per_env=PER_ENV, floor=FLOOR, precision=precision)
    block.set_geoms_friction(np.repeat(mu[:, None], 2, axis=1))
    scene.step(200)
    scene.set_gravity(tilted(angle))
    start = block.get_qpos()
    scene.step(500)
    moved = np.linalg.norm(block.get_qpos()[:, :2] - start[:, :2], axis=1)
    speed = np.linalg.norm(block.get_qvel()[:, :2], axis=1)
    margin = np.radians(2.0)
    holds, slides = angle < np.arctan(mu) - margin, angle > np.arctan(mu) + margin
    return [
        Measured(f"{holds.sum()} that hold: way in 1 s", largest(moved[holds]), 1e-3, unit="m"),
        Measured("their speed", largest(speed[holds]), 1e-3, unit="m/s"),
        Measured(f"{slides.sum()} that slide: way in 1 s", float(moved[slides].min()), 0.02, True, "m"),
        *_stopping(scene, block, len(mu)),
    ]


def _stopping(scene: km.Scene, block: Any, n: int) -> list[Measured]:
    """Pushed at 2 m/s on the flat, three coefficients."""
    scene.reset()
    scene.set_gravity([0.0, 0.0, -GRAVITY])
    mu = np.resize((0.2, 0.4, 0.7), n)
    block.set_geoms_friction(np.repeat(mu[:, None], 2, axis=1))
    scene.step(200)
    start = block.get_qpos()[:, 0]
    block.set_qvel([2.0, 0, 0, 0, 0, 0])
    scene.step(1000)
    far = (block.get_qpos()[:, 0] - start) / (2.0**2 / (2 * mu * GRAVITY))
    weight = scene.get_contacts()["force_b"].sum(axis=1)[:, 2] / (2 * GRAVITY)
    return [
        Measured("stopping distance, off by", largest(far - 1.0), 0.01),
        Measured("speed then", largest(block.get_qvel()), 1e-3, unit="m/s"),
        Measured("force of a block at rest, against its weight", largest(weight - 1.0), 5e-5),
    ]


def isotropy(precision: str = "single") -> list[Measured]:
    """Pushed anyhow by 0.4 of what friction holds a foot hardly creeps, by 1.5 it goes by the rest."""
    n, mu = 16, 0.5
    slides = "".join(f'<joint type="slide" axis="{axis}"/>' for axis in ("1 0 0", "0 1 0", "0 0 1"))
    foot = f'<body pos="0 0 .0999">{slides}<geom size=".1" mass="2" friction="{mu}"/></body>'
    floor = FLOOR.replace("condim", f'friction="{mu}" condim')
    hard = 'cone="elliptic" impratio="100"'
    scene, block = scene_of(foot, n, hard, per_env=("gravity",), floor=floor, dt=0.001, precision=precision)
    way, found = np.random.default_rng(0).uniform(0, 2 * np.pi, n), {}
    scene.step(300)
    for share in (0.4, 1.5):
        pull = share * mu * GRAVITY * np.stack([np.cos(way), np.sin(way)], axis=1)
        scene.set_gravity(np.concatenate([pull, np.full((n, 1), -GRAVITY)], axis=1))
        scene.step(200)
        before = block.get_qvel()[:, :2]
        scene.step(500)
        found[share] = before, np.linalg.norm(block.get_qvel()[:, :2] - before, axis=1) / 0.5
    gained = found[1.5][1]
    return [
        Measured("pushed by 0.4 of what holds: speed", largest(found[0.4][0]), 5e-5, unit="m/s"),
        Measured("by 1.5: acceleration, off by", largest(gained / (0.5 * mu * GRAVITY) - 1.0), 0.01),
        Measured("its spread over 16 directions", float(gained.std() / gained.mean()), 5e-5),
    ]


HINGE = """<body pos="0 0 1"><joint axis="0 0 1" frictionloss=".2"/>
<geom type="capsule" size=".03" fromto="0 0 0 .4 0 0" mass="1" contype="0" conaffinity="0"/></body>"""


def dry_hinge(precision: str = "single") -> list[Measured]:
    """A hinge with dry friction, given a push: it stops."""
    scene, hinge = scene_of(HINGE, 1, precision=precision)
    hinge.set_qvel([2.0])
    scene.step(1500)
    return [Measured("hinge with dry friction after 3 s: speed", largest(hinge.get_qvel()), 1e-2, unit="rad/s")]

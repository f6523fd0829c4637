"""On terrain, and in hollows: balls that come to rest, a nut that turns down its bolt."""

from __future__ import annotations

import numpy as np

import kinema as km
from kinema import geometry

from ..hollow_meshes import bolt, nut
from .measured import Measured, largest

PITCH, START = 0.012, 0.012
"""Of the thread, and how high the nut is to begin with [m]."""


def on_terrain(precision: str = "single") -> list[Measured]:
    """Balls on the steps of stairs, a radius above them; boxes let go on rough ground, still after three seconds."""
    stairs = geometry.stairs_terrain((4.0, 3.0), 4 / 11, 12 / 11, 0.15)
    x = (np.array([1, 4, 7, 10]) / 11 - 0.5) * 4.0  # in the middle of each step
    height = stairs.height_at(x, np.zeros(4))
    scene = km.Scene(quiet=True, codegen="loops", precision=precision)
    scene.add(stairs)
    ball = scene.add(km.Sphere(radius=0.1), mass=1.0)
    scene.build(len(x))
    q = np.zeros((4, 7))
    q[:, 0], q[:, 2], q[:, 3] = x, height + 0.11, 1.0
    ball.set_qpos(q)
    scene.step(500)
    rough = km.Scene(quiet=True, codegen="loops", precision=precision)
    rough.add(geometry.rough_terrain((4.0, 4.0), 0.25, 0.1, seed=1))
    box = rough.add(km.Box(size=(0.2, 0.2, 0.1)), mass=1.0, pos=(0.0, 0.0, 0.4))
    rough.build(4)
    place = box.get_qpos()
    place[:, :2] += np.random.default_rng(0).uniform(-1.0, 1.0, (4, 2))
    box.set_qpos(place)
    rough.step(1500)
    return [
        Measured("balls on stairs: height, off by", largest(ball.get_qpos()[:, 2] - height - 0.1), 1e-3, unit="m"),
        Measured("boxes on rough ground after 3 s: speed", largest(box.get_qvel()[:, :3]), 0.1, unit="m/s"),
    ]


def nut_and_bolt(precision: str = "single", cone: str = "elliptic") -> list[Measured]:
    """Distance fields both, friction 0.01: the nut turns down by its weight, a pitch for each turn."""
    scene = km.Scene(dt=0.001, quiet=True, codegen="loops", cone=cone, precision=precision)
    screw, ring = bolt(0.01, 0.003, PITCH, 4), nut(0.0108, 0.003, PITCH, 1, 0.018)
    scene.add(_field(screw, 40), fixed=True, friction=0.01)
    moving = scene.add(_field(ring, 24), pos=(0.0, 0.0, START), friction=0.01)
    scene.build(1)
    seen = []
    for _ in range(10):
        scene.step(50)
        q = moving.get_qpos()[0]
        seen.append((q[2], 2.0 * np.arctan2(q[6], q[3])))
    heights, angles = np.array(seen).T
    angles = np.unwrap(angles)
    slips = (heights - heights[1]) - PITCH * (angles - angles[1]) / (2.0 * np.pi)
    return [
        Measured(f"{cone}: not finite", float(scene.get_error_envs_mask().sum()), 0),
        Measured("turned down by, in 0.5 s", float(heights[1] - heights[-1]), 0.004, True, "m"),
        Measured("off its thread by", largest(slips[1:]), 1.5e-3, unit="m"),
    ]


def _field(triangles: tuple[np.ndarray, np.ndarray], resolution: int) -> km.Mesh:
    vertices, faces = triangles
    return km.Mesh(vertices=vertices, faces=faces, approximation="sdf", resolution=resolution)

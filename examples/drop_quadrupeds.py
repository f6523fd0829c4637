"""Drop a quadruped many times at once on stairs, with random commands.

    python examples/drop_quadrupeds.py [--envs 4096] [--device cpu]

The stairs are scenery without a robot. Each copy falls from another height, and is told something else every step.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

import kinema as km
from kinema.description import Box, Plane, Shape, World
from kinema.foundation import Pose

QUADRUPED = Path(__file__).parent / "robots" / "quadruped" / "quadruped.xml"
STEPS, TREAD, RISE = 5, 0.3, 0.05


def stairs() -> World:
    """A floor, and some steps up."""
    shapes = [Shape(name="floor", geometry=Plane())]
    for i in range(STEPS):
        height = RISE * (i + 1)
        pose = Pose(np.array([0.4 + TREAD * i, 0.0, height / 2]), np.eye(3))
        shapes.append(Shape(name=f"step {i}", geometry=Box(np.array([TREAD, 4.0, height])), pose=pose))
    return World(name="stairs", shapes=shapes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", type=int, default=4096)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=150)
    options = parser.parse_args()
    scene = km.Scene(device=options.device)
    scene.add(stairs())
    robot = scene.add(QUADRUPED)
    scene.build(options.envs)
    scene.prepare()
    rng = np.random.default_rng(0)
    start = robot.get_qpos()
    start[:, 0] += rng.uniform(0.0, 1.5, options.envs)
    start[:, 2] += rng.uniform(0.3, 0.6, options.envs)
    robot.set_qpos(start)
    began = time.perf_counter()
    for _ in range(options.steps):
        robot.control(rng.uniform(-1.0, 1.0, (options.envs, robot.n_actuators)))
        scene.step()
    seconds = time.perf_counter() - began
    found = scene.get_contacts()
    contacts, deepest = int(found["valid_mask"].sum()), float(found["penetration"].max(initial=0.0))
    rate, wrong = options.envs * options.steps / seconds, int(scene.get_error_envs_mask().sum())
    print(f"{options.envs:,} quadrupeds on stairs: {rate / 1e3:,.0f} thousand steps a second; {wrong} went wrong")
    print(f"{contacts / options.envs:.1f} contacts each at the end, the deepest {deepest * 1e3:.1f} mm")


if __name__ == "__main__":
    main()

"""Measure what it costs that environments differ, and check that each is as if it had been built alone.

    python tools/variants.py [--envs 1024] [--shapes 64] [--steps 200] [--robots]

An arm moves beside a table on which a box falls: all environments have the same box, or 64 different ones by turns. The
time is that of the processor, so that a busy machine gives the same figures; both scenes step by turns, and the least
of several runs counts. Then some environments are compared, bit for bit, with scenes that have their box alone. With
`--robots` the arms differ as well: in lengths and masses. Fails where either mark is missed: 70 % of the speed,
and the same bits (of robots 1e-4, because what is folded into one program is read by the other).
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import kinema as km
from kinema.core import Pose

ARM = Path(__file__).parent.parent / "examples" / "robots" / "arm" / "arm.urdf"
LEAST_SPEED = 0.7
CHECKED = (0, 1, 37, 63)
"""Environments that are compared with scenes of their own."""


def boxes(count: int) -> list[km.Box]:
    """From 4 to 12 cm along each edge."""
    return [km.Box(size) for size in np.random.default_rng(0).uniform(0.04, 0.12, (count, 3))]


def arms(count: int) -> list[km.Robot]:
    """The example, each longer, heavier and stronger than the one before."""
    made = []
    for i in range(count):
        robot, more = km.read(ARM), 1.0 + 0.02 * i
        for link in robot.links:
            if link.inertial is not None:
                link.inertial = replace(link.inertial, mass=more * link.inertial.mass)
        for joint in robot.joints[1:]:
            joint.parent_pose = Pose(more * joint.parent_pose.position, joint.parent_pose.rotation)
        made.append(robot)
    return made


def scene_of(box: Any, arm: Any, n_envs: int) -> km.Scene:
    """An arm, a table and a box above it."""
    scene = km.Scene(quiet=True)
    scene.add(km.Box((0.6, 0.8, 0.1)), pos=(0.5, 0.0, 0.15), fixed=True, name="table")
    robot = scene.add(arm, fixed=True, name="arm")
    robot.set_dofs_kp(100.0)
    robot.set_dofs_kv(10.0)
    scene.add(box, pos=(0.5, 0.05, 0.32), euler=(0.2, 0.1, 0.3), name="box")
    scene.build(n_envs)
    return begun(scene)


def begun(scene: km.Scene) -> km.Scene:
    """At the start, with the arm on its way."""
    scene.reset()
    scene.entities[1].control_dofs_position(0.3)
    return scene


def cost(scenes: list[km.Scene], steps: int, runs: int = 5) -> list[float]:
    """Processor time of a step of each [s], by turns, the least of some runs."""
    least = [np.inf] * len(scenes)
    for _ in range(runs):
        for i, scene in enumerate(scenes):
            begun(scene).step(20)
            began = time.process_time()
            scene.step(steps)
            least[i] = min(least[i], (time.process_time() - began) / steps)
    return least


def coordinates(scene: km.Scene, env: int) -> np.ndarray:
    return np.concatenate([np.r_[e.get_qpos(env).ravel(), e.get_qvel(env).ravel()] for e in scene.entities])


def off(mixed: km.Scene, box: list[Any], arm: list[Any], env: int, steps: int) -> float:
    """How far an environment is from a scene of its own, at most."""
    alone = scene_of(box[env % len(box)], arm[env % len(arm)], 1)
    alone.step(steps)
    return float(np.abs(coordinates(alone, 0) - coordinates(mixed, env)).max())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", type=int, default=1024)
    parser.add_argument("--shapes", type=int, default=64)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--robots", action="store_true", help="the arms differ as well, in eight ways")
    options = parser.parse_args()
    shapes, robots = boxes(options.shapes), arms(8 if options.robots else 1)
    one = scene_of(shapes[0], robots[0], options.envs)
    mixed = scene_of(shapes, robots if options.robots else robots[0], options.envs)
    alike, different = cost([one, mixed], options.steps)
    print(f"{options.envs:,} environments, {options.shapes} boxes, {len(robots)} arms")
    share = alike / different
    print(f"all alike {1e3 * alike:.2f} ms a step, different {1e3 * different:.2f} ms: {share:.2f} of the speed")
    begun(mixed).step(options.steps)
    touching = int(mixed.get_contacts()["valid_mask"].any(axis=1).sum())
    found = {env: off(mixed, shapes, robots, env, options.steps) for env in CHECKED if env < options.envs}
    print(f"{touching:,} environments in contact; off from scenes of their own after {options.steps} steps: {found}")
    most = 1e-4 if options.robots else 0.0
    return 0 if share >= LEAST_SPEED and max(found.values()) <= most else 1


if __name__ == "__main__":
    sys.exit(main())

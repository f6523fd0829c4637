"""Let quadrupeds walk by a policy that was learnt before, as fast as each is asked to.

    python examples/walk_quadruped.py [--envs 64] [--seconds 10] [--rough] [--device cpu] [--picture walk.png]

The policy is plain arrays (`robots/quadruped/walk.npz`, learnt with `tools/train_walk.py`) and needs nothing but NumPy.
It is pushed on the way, what it sees is noisy, and the velocity that is asked for changes. Printed are how far off the
velocity is, and how many fall; the picture shows one of them at four moments.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from kinema.apps import learn
from kinema.apps.learn.tasks.walk import velocity_error
from kinema.core import Pose
from kinema.render import write_png
from kinema.scene import DescriptionRenderer, Entity, PictureOptions

POLICY = "quadruped/walk.npz"
MOMENTS = 4
SECONDS_APART = 0.5
SIZE = (480, 220)


def link_poses(robot: Entity, env: int) -> dict[str, Pose]:
    """Where the links of one robot are."""
    places, turns = robot.get_links_pos(envs_idx=[env])[0], robot.get_links_quat(envs_idx=[env])[0]
    names = [link.name for link in robot.links]
    return {name: Pose.from_quaternion(p, q) for name, p, q in zip(names, places, turns, strict=True)}


def take_picture(robot: Entity, moments: list[dict[str, Pose]], path: Path) -> None:
    """The robot at several moments, two in a row, seen from one place."""
    seen = list(
        DescriptionRenderer(
            robot.description, moments, PictureOptions(resolution=SIZE, samples=4, azimuth=-1.75, elevation=0.2)
        ).render_frames()
    )
    rows = [np.concatenate(seen[i : i + 2], axis=1) for i in range(0, len(seen), 2)]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_png(path, np.concatenate(rows, axis=0))
    print(f"{path}: one of them at {len(moments)} moments, {SECONDS_APART} s apart")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rough", action="store_true", help="on bumps")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--codegen", default="auto", help="loops: compiled sooner, slower after that")
    options = parser.parse_args()
    task = learn.TASKS["walk-rough" if options.rough else "walk"]()
    task = replace(task, scene={**task.scene, "codegen": options.codegen})
    env = learn.make_env(task, options.envs, options.device, arrays="numpy")
    policy = learn.Policy.load(learn.robot_file(POLICY))
    first = env.arrays.xp.arange(options.envs) == 0
    ahead = np.array([[0.8, 0.0, 0.0]], np.float32)
    steps, apart = max(1, round(options.seconds / env.step_dt)), round(SECONDS_APART / env.step_dt)
    off, fallen, moments = [], 0, []
    obs = env.reset(seed=1)
    env.scene.prepare()
    began = time.perf_counter()
    for step in range(steps):
        env.commands["velocity"] = np.where(first[:, None], ahead, env.commands["velocity"])  # for the picture
        out = env.step(policy(obs["policy"]))
        obs, fallen = out.obs, fallen + int(out.terminated.sum())
        off.append(velocity_error(env).mean())
        if options.picture and step >= steps - MOMENTS * apart and (steps - 1 - step) % apart == 0:
            moments.append(link_poses(env.robot, 0))
    seconds = time.perf_counter() - began
    ground = "bumps of 6 cm" if options.rough else "a floor"
    print(f"{options.envs} quadrupeds walk for {steps * env.step_dt:g} s on {ground}, in {seconds:.1f} s:")
    print(f"the velocity is off by {np.mean(off):.3f} m/s on the average, and {fallen} fell")
    if moments:
        take_picture(env.robot, moments, options.picture)


if __name__ == "__main__":
    main()

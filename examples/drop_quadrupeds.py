"""Drop a quadruped many times at once on stairs, with random commands, and the same beside it in MuJoCo.

    python examples/drop_quadrupeds.py [--envs 4096] [--device cpu]

The stairs are scenery without a robot. Each copy falls from another height, and is told something else every step.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import mujoco
import mujoco.rollout
import numpy as np

import kinema as km
from kinema.core import Pose
from kinema.description import Box, Plane, Shape, World

QUADRUPED = Path(__file__).parent / "robots" / "quadruped" / "quadruped.xml"
STEPS, TREAD, RISE = 5, 0.3, 0.05
LOOKS, IN_MUJOCO = 3, 64
"""How often contacts are looked at, and how many copies MuJoCo gets."""


def stairs() -> World:
    """A floor, and some steps up."""
    shapes = [Shape(name="floor", geometry=Plane())]
    for i in range(STEPS):
        height = RISE * (i + 1)
        pose = Pose(np.array([0.4 + TREAD * i, 0.0, height / 2]), np.eye(3))
        shapes.append(Shape(name=f"step {i}", geometry=Box(np.array([TREAD, 4.0, height])), pose=pose))
    return World(name="stairs", shapes=shapes)


def beside_mujoco(starts: np.ndarray, steps: int, dt: float) -> float:
    """Steps a second of MuJoCo's own rollouts on all cores, from some of the same starts, likewise told."""
    spec = mujoco.MjSpec.from_file(str(QUADRUPED))
    for shape in stairs().shapes:
        geom = spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=(0.0, 0.0, 1.0))
        if isinstance(shape.geometry, Box):
            geom.type, geom.size, geom.pos = mujoco.mjtGeom.mjGEOM_BOX, 0.5 * shape.geometry.size, shape.pose.position
    model = spec.compile()
    model.opt.timestep, model.opt.integrator = dt, mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    cores = os.cpu_count() or 1
    several = [mujoco.MjData(model) for _ in range(cores)]
    kind = mujoco.mjtState.mjSTATE_FULLPHYSICS
    states = np.zeros((len(starts), mujoco.mj_stateSize(model, kind)))
    states[:, 1 : 1 + model.nq] = starts
    told = np.random.default_rng(1).uniform(-1.0, 1.0, (len(starts), steps, model.nu))
    began = time.perf_counter()
    mujoco.rollout.rollout(model, several if cores > 1 else several[0], states, told)
    return len(starts) * steps / (time.perf_counter() - began)


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
    seconds, deepest, contacts = 0.0, 0.0, 0
    for _ in range(LOOKS):
        began = time.perf_counter()
        for _ in range(options.steps // LOOKS):
            robot.control(rng.uniform(-1.0, 1.0, (options.envs, robot.n_actuators)))
            scene.step()
        robot.get_qpos()  # on a GPU: wait for it
        seconds += time.perf_counter() - began
        found = scene.get_contacts()
        contacts = int(found["valid_mask"].sum())
        deepest = max(deepest, float(found["penetration"].max(initial=0.0)))
    rate = options.envs * (options.steps // LOOKS) * LOOKS / seconds
    theirs = beside_mujoco(start[:IN_MUJOCO], options.steps, scene.dt)
    wrong = int(scene.get_error_envs_mask().sum())
    print(
        f"{options.envs:,} quadrupeds on stairs: {rate / 1e3:,.0f} thousand steps a second on {scene.device} "
        f"({rate / theirs:.1f} times MuJoCo's {theirs / 1e3:,.0f} thousand on all cores); {wrong} went wrong"
    )
    print(f"{contacts / options.envs:.1f} contacts each at the end; the deepest ever seen {deepest * 1e3:.1f} mm")


if __name__ == "__main__":
    main()

"""Time of `scene.linearize()` relative to MuJoCo's `mjd_transitionFD` with central differences, on one core.

    python tools/linearize_speed.py FILE.xml ... [--envs 1 16] [--steps 300]

Robots are simulated by MuJoCo with random controls, from their first keyframe if they have one; then both linearize the
same state, in turns. CPU time, best of several runs. Also prints the largest difference of A and B.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("KINEMA_THREADS", "1")

import mujoco
import numpy as np

import kinema as km

N_REPETITIONS = 7


def best_time(function: Callable[[], object], n: int) -> float:
    """CPU time of a call [us], in the best of several runs of n calls."""
    times = []
    for _ in range(3):
        start = time.process_time()
        for _ in range(n):
            function()
        times.append((time.process_time() - start) / n)
    return 1e6 * min(times)


def compare(path: str, n_envs: int, n_steps: int) -> str:
    """Simulate a robot, linearize its state with both, and return the result as a line of text."""
    model = mujoco.MjModel.from_xml_path(path)
    data, generator = mujoco.MjData(model), np.random.default_rng(0)
    if model.nkey:
        mujoco.mj_resetDataKeyframe(model, data, 0)
    control = data.ctrl.copy()
    for _ in range(n_steps):
        data.ctrl[:] = control + generator.uniform(-0.2, 0.2, model.nu)
        mujoco.mj_step(model, data)
    scene = km.Scene(device="cpu", precision="double", quiet=True, wait=True)
    robot = scene.add(path)
    scene.build(n_envs=n_envs)
    robot.set_qpos(data.qpos)
    robot.set_qvel(data.qvel)
    if model.nu:
        robot.control(data.ctrl)
    found = scene.linearize()
    n = 2 * model.nv + model.na
    sizes = [(n, n), (n, model.nu), (model.nsensordata, n), (model.nsensordata, model.nu)]
    matrices = [np.zeros(size) if 0 not in size else None for size in sizes]
    ratios, times = [], []
    for _ in range(N_REPETITIONS):
        theirs = best_time(lambda: mujoco.mjd_transitionFD(model, data, 1e-6, True, *matrices), 5)
        ours = best_time(scene.linearize, max(1, 20 // n_envs)) / n_envs
        ratios.append(theirs / ours)
        times.append((theirs, ours))
    theirs, ours = np.median(times, axis=0)
    errors = [
        np.abs(x[0] - y).max() / np.abs(y).max()
        for x, y in zip((found.A, found.B), matrices, strict=False)
        if y is not None
    ]
    return (
        f"{Path(path).name}, {n_envs} environments, {data.ncon} contacts: mjd_transitionFD {theirs:,.0f} us, "
        f"linearize {ours:,.0f} us per environment, {np.median(ratios):.1f} times ({min(ratios):.1f} to "
        f"{max(ratios):.1f}), relative differences {max(errors):.0e}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--envs", type=int, nargs="+", default=[1])
    parser.add_argument("--steps", type=int, default=300)
    arguments = parser.parse_args()
    for file in arguments.files:
        for count in arguments.envs:
            print(compare(file, count, arguments.steps), flush=True)

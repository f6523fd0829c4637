"""Let a quadruped climb a step: iLQR through the contacts of its feet, so that its trunk follows a path.

    python examples/climb_step.py [--go2 go2_scene.xml] [--short] [--picture climb.png]

A trot is drawn by hand: paths of trunk and feet, and the angles of the legs by inverse kinematics. If servos hold these
angles, the robot drifts by centimetres, as its feet slip. iLQR changes the targets of the servos such that the trunk
follows its path: all knots are linearized in one call, contacts included (`examples/ilqr.py`).
"""

from __future__ import annotations

import argparse
import itertools
import time
from pathlib import Path

import numpy as np
from ilqr import Ilqr, Tracking
from photos import photograph

import kinema as km

GO2 = Path(__file__).parents[2] / "shared/assets/mjcf/unitree_go2/go2_scene.xml"
DT, PERIOD, STRIDE, CYCLES = 0.01, 0.6, 0.3868 / 3, 6
"""Time of a knot and of a cycle of the trot [s], length and number of strides [m]."""
EDGE, RISE, STAND = 0.3223, 0.06, 0.27
LEG, FOOT, SWING = 0.213, 0.02, 0.05
"""Of the step, and of the trunk; lengths of thigh and shank, heights of the feet on the ground and lifted [m]."""
HIPS, PHASES = np.array([0.1934, 0.1934, -0.1934, -0.1934]), np.array([0.0, 0.5, 0.5, 0.0])
"""Places of the hips along the trunk [m], and phases of the feet."""
SERVOS, KP, KV = slice(6, 18), 300.0, 6.0
"""Dofs of the legs, gains of their servos [N m/rad, N m s/rad]."""
WEIGHTS = np.repeat([20.0, 20.0, 2.0, 1.0, 0.05], [3, 3, 12, 6, 12])
"""Of place [1/m] and orientation of the trunk, angles of the legs, and velocities."""


def built(go2: Path, n_envs: int) -> tuple[km.Scene, km.Entity]:
    """The robot before a step."""
    if not go2.exists():
        raise SystemExit(f"{go2}: not found; --go2 names a file of the Unitree go2 with motors, on a floor")
    scene = km.Scene(dt=DT, precision="double", quiet=True, wait=True)
    robot = scene.add(go2)
    scene.add(km.Box((2.0, 1.0, RISE)), fixed=True, pos=(EDGE + 1.0, 0, RISE / 2), color=(0.75, 0.65, 0.5))
    scene.build(n_envs)
    robot.set_dofs_kp(KP, SERVOS)
    robot.set_dofs_kv(KV, SERVOS)
    return scene, robot


def trot() -> np.ndarray:
    """States of the trot drawn by hand, (knots + 1, 19 + 18)."""
    t = DT * np.arange(round((CYCLES * PERIOD + 0.5) / DT) + 1)
    cycles = np.clip((t - 0.2) / PERIOD, 0.0, CYCLES)
    phase = cycles[:, None] + PHASES
    stance, swing = np.floor(phase), np.clip(2.0 * (phase % 1.0) - 1.0, 0.0, 1.0)
    holds = [HIPS + STRIDE * np.clip(c + 0.25 - PHASES, 0.0, CYCLES) * (c > 0) for c in (stance, stance + 1)]
    heights = [RISE * (x > EDGE) for x in holds]
    x = holds[0] + (holds[1] - holds[0]) * (swing - np.sin(2 * np.pi * swing) / (2 * np.pi))
    z = heights[0] + (heights[1] - heights[0]) * np.minimum(2 * swing, 1.0) + SWING * np.sin(np.pi * swing) + FOOT
    place = STRIDE * cycles
    front, rear = (RISE * 0.5 * (1 + np.tanh((place + hip - EDGE) / 0.08)) for hip in (HIPS[0], HIPS[2]))
    height, pitch = STAND + 0.5 * (front + rear), (rear - front) / (HIPS[0] - HIPS[2])
    c, s = np.cos(pitch)[:, None], np.sin(pitch)[:, None]
    across, up = x - place[:, None], z - height[:, None]
    along, down = c * across - s * up - HIPS, -(s * across + c * up)
    knee = -2.0 * np.arccos(np.minimum(np.hypot(along, down) / (2 * LEG), 0.999))
    joints = np.stack([0.0 * knee, np.arctan2(-along, down) - 0.5 * knee, knee], axis=-1).reshape(len(t), 12)
    still = 0.0 * t
    qpos = np.column_stack([place, still, height, np.cos(0.5 * pitch), still, np.sin(0.5 * pitch), still, joints])
    rates = np.gradient(np.column_stack([place, still, height, still, pitch, still, joints]), DT, axis=0)
    return np.column_stack([qpos, rates])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--go2", type=Path, default=GO2, help="MJCF of the robot on a floor")
    parser.add_argument("--short", action="store_true", help="two iterations")
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    states = trot()
    targets = states[1:, 7:19] + KV / KP * states[1:, 25:]
    goal = Tracking(states, np.tile(WEIGHTS, (len(states), 1)), targets, np.ones(12))
    optimiser = Ilqr(lambda n: built(options.go2, n), states[0], goal, SERVOS)
    found = optimiser.simulate(states, targets, 0 * targets, np.zeros((len(targets), 12, 36)))[0][:, 0]
    before = np.linalg.norm(found[:, :3] - states[:, :3], axis=1).max()
    after, start, iterations = before, time.perf_counter(), 2 if options.short else 15
    for cost, found, _, _ in itertools.islice(optimiser.iterate(targets), iterations):
        after = np.linalg.norm(found[:, :3] - states[:, :3], axis=1).max()
        print(f"cost {cost:7.2f}, trunk within {1e3 * after:.1f} mm of its path")
    seconds = time.perf_counter() - start
    print(f"{len(targets)} knots, {seconds:.1f} s; with the targets of the trot {1e3 * before:.1f} mm")
    if options.picture:
        scene, robot = optimiser.search
        robot.set_qpos(found[np.linspace(0, len(found) - 1, scene.n_envs).astype(int), :19])
        photograph(scene, options.picture, (0.4, -1.9, 0.7), (0.4, 0.0, 0.15), envs=(1, 4, 8), width=360)
    assert after < before if options.short else after < 0.01, "the trunk follows its path"


if __name__ == "__main__":
    main()

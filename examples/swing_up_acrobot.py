"""Swing up an acrobot by iLQR, and balance it: two poles in a chain, of which only the joint between them is driven.

    python examples/swing_up_acrobot.py [--short] [--picture acrobot.png]

All knots of the trajectory are linearized in one call of `scene.linearize`, an environment per knot, and the step
lengths of the line search are simulated side by side (`examples/ilqr.py`). At the top a linear-quadratic regulator
takes over, whose gain is computed from the linearization there.
"""

from __future__ import annotations

import argparse
import itertools
import time
from pathlib import Path

import numpy as np
from ilqr import Ilqr, Tracking
from photos import photograph
from scipy.linalg import solve_discrete_are

import kinema as km

ACROBOT = Path(__file__).parent / "robots" / "acrobot" / "acrobot.xml"
DT, KNOTS = 0.02, 200
"""Time [s] and number of steps of the trajectory."""
UPRIGHT = np.array([np.pi, 0.0, 0.0, 0.0])
FINAL = np.array([100.0, 100.0, 30.0, 30.0])
"""Weights of the final angles [1/rad] and velocities [s/rad]."""


def built(n_envs: int, copies: int = 1) -> tuple[km.Scene, km.Entity]:
    """Acrobots at one place, which do not touch each other; the first of them."""
    scene = km.Scene(dt=DT, precision="double", contacts=False, quiet=True)
    robots = [scene.add(ACROBOT) for _ in range(copies)]
    scene.build(n_envs)
    return scene, robots[0]


def balance(start: np.ndarray, seconds: float) -> float:
    """Angle from upright at last [rad], from a state near it on, with a linear-quadratic regulator."""
    scene, robot = built(1)
    robot.set_qpos(UPRIGHT[:2])
    lin = scene.linearize()
    A, B = lin.A[0], lin.B[0]
    P = solve_discrete_are(A, B, np.eye(4), np.eye(1))
    gain = np.linalg.solve(np.eye(1) + B.T @ P @ B, B.T @ P @ A)
    robot.set_qpos(start[:2])
    robot.set_qvel(start[2:])
    for _ in range(round(seconds / DT)):
        robot.control(-gain @ (np.append(robot.get_qpos()[0], robot.get_qvel()[0]) - UPRIGHT))
        scene.step()
    return float(np.abs(robot.get_qpos()[0] - UPRIGHT[:2]).max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="three iterations")
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    weights = np.zeros((KNOTS + 1, 4))
    weights[-1] = FINAL
    goal = Tracking(np.tile(UPRIGHT, (KNOTS + 1, 1)), weights, np.zeros((KNOTS, 1)), np.array([0.1]))
    torques = 2.0 * np.sin(3.0 * DT * np.arange(KNOTS))[:, None]
    optimiser = Ilqr(built, np.zeros(4), goal)
    start, found = time.perf_counter(), []
    for iteration in itertools.islice(optimiser.iterate(torques), 3 if options.short else 100):
        found.append(iteration)
        if len(found) > 10 and found[-10][0] < 1.01 * found[-1][0]:
            break
    costs, (_, states, torques, _) = [iteration[0] for iteration in found], found[-1]
    off = np.abs(states[-1] - UPRIGHT).max()
    print(
        f"{len(costs)} iterations in {time.perf_counter() - start:.1f} s; cost {costs[0]:.0f}, at last {costs[-1]:.2f}"
    )
    print(f"torques up to {np.abs(torques).max():.1f} N m; after {KNOTS * DT:g} s off by {off:.3f}")
    if options.picture:
        chosen = states[-80::8]
        scene, _ = built(1, len(chosen))
        for robot, state in zip(scene.entities, chosen, strict=True):
            robot.set_qpos(state[:2])
        photograph(scene, options.picture, (0.0, -6.8, 2.4), (0.0, 0.0, 2.4))
    if options.short:
        assert costs[-1] < costs[0], "the cost decreases"
        return
    left = balance(states[-1], 5.0)
    print(f"balanced for 5 s: off by {left:.1e} rad")
    assert off < 0.1, "the acrobot is upright"
    assert left < 1e-3, "it is balanced"


if __name__ == "__main__":
    main()

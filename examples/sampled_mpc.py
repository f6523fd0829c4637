"""Swing a pole up by looking ahead: 4,096 ways to go on are simulated at every decision, in real time on a CPU.

    python examples/sampled_mpc.py [--samples 4096] [--short] [--picture mpc.svg]

Model-predictive path integral control (Williams et al. 2017): random changes of the best plan so far are rolled out
from where the cart is, each in an environment of its own; the next plan is their mean, weighted by what they cost.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from photos import plot

import kinema as km

CARTPOLE = Path(__file__).parent / "robots" / "cartpole" / "cartpole.xml"
DT, HOLD = 0.02, 2
"""The time of a step [s], and steps from one decision to the next."""
HORIZON, KNOTS = 30, 8
"""Decisions that are looked ahead, and numbers that a change of a plan is drawn from."""
MOST = 10.0
"""Force on the cart [N]."""


def built(n_envs: int) -> tuple[km.Scene, km.Entity]:
    scene = km.Scene(dt=DT, contacts=False, quiet=True)
    robot = scene.add(CARTPOLE)
    scene.build(n_envs)
    robot.set_qpos([0.0, np.pi])
    scene.prepare()
    return scene, robot


def cost(q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The pole is to stand, in the middle, at rest."""
    return 3.0 * (1.0 - np.cos(q[:, 1])) + 0.3 * q[:, 0] ** 2 + 0.02 * v[:, 1] ** 2 + 0.01 * v[:, 0] ** 2


class Planner:
    """Samples plans about the best so far."""

    def __init__(self, samples: int) -> None:
        self.scene, self.robot = built(samples)
        self.rng = np.random.default_rng(0)
        self.plan = np.zeros(HORIZON)
        at, knots = np.arange(HORIZON), np.linspace(0, HORIZON - 1, KNOTS)
        self.bend = np.stack([np.interp(at, knots, unit) for unit in np.eye(KNOTS)], axis=1)

    def decide(self, q: np.ndarray, v: np.ndarray) -> float:
        """The force to go on with from a state."""
        samples = self.scene.n_envs
        noise = self.bend @ self.rng.normal(0.0, 0.6 * MOST, (KNOTS, samples))
        forces = np.clip(self.plan[:, None] + noise, -MOST, MOST)
        forces[:, 0] = self.plan
        self.robot.set_qpos(q)
        self.robot.set_qvel(v)
        total = np.zeros(samples)
        for force in forces:
            self.robot.control_dofs_force(force[:, None], [0])
            self.scene.step(HOLD)
            total += cost(self.robot.get_qpos(), self.robot.get_qvel())
        weights = np.exp(-(total - total.min()) / 1.0)
        self.plan = forces @ weights / weights.sum()
        force, self.plan = self.plan[0], np.append(self.plan[1:], 0.0)
        return float(force)


def swing_up(samples: int, seconds: float) -> tuple[np.ndarray, float]:
    """The angle of the pole at each decision [rad], and how long deciding took on the average [s]."""
    planner, (scene, robot) = Planner(samples), built(1)
    angles, start = [], time.perf_counter()
    for _ in range(round(seconds / DT / HOLD)):
        force = planner.decide(robot.get_qpos()[0], robot.get_qvel()[0])
        robot.control_dofs_force([force], [0])
        scene.step(HOLD)
        angles.append(robot.get_qpos()[0, 1])
    return np.array(angles), (time.perf_counter() - start) / len(angles)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=4096)
    parser.add_argument("--short", action="store_true", help="fewer samples")
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    samples = 512 if options.short else options.samples
    angles, took = swing_up(samples, 5.0)
    ahead, there = HORIZON * DT * HOLD, DT * HOLD * 1e3
    print(f"{samples:,} rollouts of {ahead:g} s at each decision: {took * 1e3:.1f} ms, of {there:g} ms there are")
    off = np.abs(np.angle(np.exp(1j * angles[-20:]))).max()
    print(f"the pole stands: off by {off:.3f} rad at most in the last {20 * DT * HOLD:g} s")
    if options.picture:
        plot(
            options.picture,
            {"pole": (DT * HOLD * np.arange(len(angles)), angles)},
            "time [s]",
            "angle, 0 is upright [rad]",
        )
    assert off < 0.3, "the pole stands"


if __name__ == "__main__":
    main()

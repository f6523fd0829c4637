"""Swing a pole up by looking ahead: 4,096 ways to go on are simulated at every decision, in real time on a CPU.

    python examples/sampled_mpc.py [--samples 4096] [--short] [--picture mpc.svg]

Model-predictive path integral control (Williams et al. 2017): random changes of the best plan so far are rolled out
from where the cart is, each in an environment of its own; the next plan is their mean, weighted by what they cost.

Deciding takes time, in which the cart goes on. So each decision is about the force after the next tick: every rollout
begins with the force that acts until then. Each decision is timed by itself, from the state to the force; those that
take longer than the time from tick to tick are counted as late. (The cart waits for them here; a real one would not.)
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
TICK = DT * HOLD
"""From one decision to the next [s]."""
HORIZON, KNOTS = 30, 8
"""Decisions that are looked ahead, and numbers that a change of a plan is drawn from."""
MOST = 10.0
"""Force on the cart [N]."""


def built(n_envs: int) -> tuple[km.Scene, km.Entity]:
    scene = km.Scene(dt=DT, contacts=False, quiet=True)
    robot = scene.add(CARTPOLE)
    scene.build(n_envs)
    robot.set_qpos([0.0, np.pi])
    return scene, robot


def cost(q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The pole is to stand, in the middle, at rest: of each rollout, summed over its decisions."""
    off = 3.0 * (1.0 - np.cos(q[..., 1])) + 0.3 * q[..., 0] ** 2 + 0.02 * v[..., 1] ** 2 + 0.01 * v[..., 0] ** 2
    return off.sum(axis=0)


class Planner:
    """Samples plans about the best so far."""

    def __init__(self, samples: int) -> None:
        self.scene, self.robot = built(samples)
        self.rng = np.random.default_rng(0)
        self.plan = np.zeros(HORIZON, np.float32)
        """Forces from now on [N]; the first of them acts already."""
        at, knots = np.arange(HORIZON), np.linspace(1, HORIZON - 1, KNOTS)
        bend = np.stack([np.interp(at, knots, unit) for unit in np.eye(KNOTS)], axis=1)
        bend[0] = 0.0
        self.bend = (0.6 * MOST * bend).astype(np.float32)
        self.decide(np.array([0.0, np.pi]), np.zeros(2))  # so that everything is compiled
        self.plan[:] = 0.0

    def decide(self, q: np.ndarray, v: np.ndarray) -> float:
        """The force from the next tick on, where the cart is in a state now."""
        # einsum, because the threads of NumPy's matrix product keep the cores busy that the rollouts run on
        noise = np.einsum("tk,ks->ts", self.bend, self.rng.standard_normal((KNOTS, self.scene.n_envs), np.float32))
        noise[:, 0] = 0.0
        forces = np.clip(self.plan[:, None] + noise, -MOST, MOST)
        self.robot.set_qpos(q)
        self.robot.set_qvel(v)
        seen = self.scene.rollout(self.robot, force=forces[..., None], idx="slider", hold=HOLD)
        total = cost(seen.qpos, seen.qvel)
        weights = np.exp(total.min() - total)
        plan = np.einsum("ts,s->t", forces, weights) / weights.sum()
        self.plan = np.append(plan[1:], np.float32(0.0))
        return float(self.plan[0])


def swing_up(samples: int, seconds: float) -> tuple[np.ndarray, np.ndarray, float]:
    """The angle of the pole at each tick [rad], how long each decision took, and the work of all cores for one [s]."""
    planner, (scene, robot) = Planner(samples), built(1)
    angles, took, force, worked = [], [], 0.0, time.process_time()
    for _ in range(round(seconds / TICK)):
        q, v = robot.get_qpos()[0], robot.get_qvel()[0]
        start = time.perf_counter()
        following = planner.decide(q, v)
        took.append(time.perf_counter() - start)
        robot.control_dofs_force([force], "slider")
        scene.step(HOLD)
        force = following
        angles.append(robot.get_qpos()[0, 1])
    return np.array(angles), np.array(took), (time.process_time() - worked) / len(took)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=4096)
    parser.add_argument("--short", action="store_true", help="fewer samples")
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    samples = 512 if options.short else options.samples
    angles, took, worked = swing_up(samples, 5.0)
    usual, slow, worst = 1e3 * np.quantile(took, [0.5, 0.95, 1.0])
    print(f"{samples:,} rollouts of {HORIZON * TICK:g} s ({HORIZON * HOLD} steps) at each of {len(took)} decisions:")
    print(f"{usual:.1f} ms, 95 of 100 within {slow:.1f} ms, the longest {worst:.1f} ms; there are {1e3 * TICK:g} ms")
    print(f"late: {np.count_nonzero(took > TICK)} of {len(took)}; {1e3 * worked:.1f} ms of processor time each")
    off = np.abs(np.angle(np.exp(1j * angles[-20:]))).max()
    print(f"the pole stands: off by {off:.3f} rad at most in the last {20 * TICK:g} s")
    if options.picture:
        times = TICK * np.arange(len(angles))
        plot(options.picture, {"pole": (times, angles)}, "time [s]", "angle, 0 is upright [rad]")
    assert off < 0.3, "the pole stands"


if __name__ == "__main__":
    main()

"""Find better gains for an arm: the cross-entropy method over processes of this machine or a Ray cluster.

    python examples/tune_arm.py [--on 2 | --on auto] [--rounds 8] [--population 24]

The arm is sent to random places and back. What counts is how far its joints are from where they should be, and how hard
its motors work. Each round tries gains about the best ones of the round before.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Generator
from pathlib import Path

import numpy as np

import kinema as km

ARM = Path(__file__).parent / "robots" / "arm" / "arm.urdf"
JOINTS = [
    "shoulder_pan_joint",
    "shoulder_lift_joint",
    "elbow_joint",
    "forearm_roll_joint",
    "wrist_pitch_joint",
    "wrist_roll_joint",
]
EPISODES, STEPS = 32, 50


class Targets:
    """A policy that asks for a random pose, another one half-way; each episode has its own."""

    def begin(self, episodes: np.ndarray, seed: int) -> None:
        generators = km.cluster.episode_generators(seed, episodes, stream=1)
        self.targets = np.array([g.uniform(-0.8, 0.8, (2, len(JOINTS))) for g in generators], np.float32)
        self.step = 0

    def __call__(self, obs: np.ndarray) -> np.ndarray:
        self.step += 1
        return self.targets[:, 0 if self.step <= STEPS // 2 else 1]


def objective(trial: km.cluster.Trial) -> float:
    """The mean error of joints [rad], and a little for how fast they move."""
    played = trial.run_episodes(Targets(), EPISODES)
    n = len(JOINTS)
    error = played.obs[:, :n] - played.action
    speed = played.obs[:, -n:]
    return float(np.sqrt((error**2).mean()) + 0.02 * np.sqrt((speed**2).mean()))


def cross_entropy(
    start: np.ndarray, rounds: int, population: int
) -> Generator[list[dict[str, float]], list[float], None]:
    """Gains to try, as logarithms about a mean; the best quarter of a round gives the next mean and spread."""
    generator, mean, spread = np.random.default_rng(0), np.log(start), np.full(start.shape, 0.7)
    for number in range(rounds):
        drawn = mean + spread * generator.standard_normal((population, len(start)))
        drawn[0] = mean  # to begin with, what there is
        names = [f"gains.{gain}[{joint}]" for gain in ("kp", "kv") for joint in JOINTS]
        worth = yield [dict(zip(names, map(float, np.exp(row)), strict=True)) for row in drawn]
        best = drawn[np.argsort(worth)[: population // 4]]
        mean, spread = best.mean(axis=0), best.std(axis=0) + 0.02
        print(f"round {number + 1}: the best of {population} is {min(worth):.4f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--on", default="2", help="a number of processes, or the address of a Ray cluster (auto)")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--population", type=int, default=24)
    parser.add_argument("--plot", help="an .svg file for what each gain does")
    options = parser.parse_args()
    arm = km.cluster.scene_entity(ARM, fixed=True)
    recipe = km.cluster.make_env_spec(
        arm,
        scene={"dt": 0.004, "contacts": False},
        steps=STEPS,
        decimation=5,
        control="position",
        dofs=JOINTS,
        observe=seen,
    )
    begin = time.perf_counter()
    start = np.array([100.0] * len(JOINTS) + [10.0] * len(JOINTS))
    found = km.cluster.sweep(
        objective,
        cross_entropy(start, options.rounds, options.population),
        env_spec=recipe,
        on=int(options.on) if options.on.isdigit() else options.on,
    )
    first, best = found.rows[0], found.best
    print(f"{len(found.rows)} sets of gains in {time.perf_counter() - begin:.0f} s")
    print(f"objective {first.objective:.4f} -> {best.objective:.4f}")
    for name, value in best.parameters.items():
        print(f"  {name} = {value:.4g} (was {first.parameters[name]:.4g})")
    if options.plot:
        found.plot(options.plot)


def seen(stage: km.cluster.EpisodeRunner) -> np.ndarray:
    """Positions and velocities of the arm's own joints."""
    robot = stage.robot
    return np.hstack([robot.get_dofs_position(JOINTS), robot.get_dofs_velocity(JOINTS)])


if __name__ == "__main__":
    main()

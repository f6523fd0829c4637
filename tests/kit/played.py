"""A small robot, its policy, and functions of its episodes: processes must be able to import them."""

from __future__ import annotations

import numpy as np

import kinema as km
from kinema.apps.cluster import EnvSpec, EpisodeRunner, Trial
from kinema.description import Inertial, Joint, JointKind, Link, Robot, rotation


def pendulum(**axis: float) -> Robot:
    """One hinge."""
    bob = Link(name="bob", inertial=Inertial(1.0, np.array([0.0, 0.0, -0.5]), np.eye(3) * 0.01))
    axes = [rotation((0.0, 1.0, 0.0), **axis)]
    hinge = Joint(name="hinge", kind=JointKind.CONTINUOUS, parent=None, child="bob", axes=axes)
    return Robot(name="pendulum", links=[bob], joints=[hinge])


def swinging(steps: int = 20, **others: object) -> EnvSpec:
    """Pendulums of different masses, from different angles, that are pushed."""
    return km.cluster.make_env_spec(
        pendulum(),
        scene={"dt": 0.01, "contacts": False},
        randomize={"mass": km.uniform(0.5, 1.5), "kp": km.uniform(0.5, 1.5)},
        start_noise=(1.0, 0.5),
        steps=steps,
        control="force",
        reward=upright,
        until=fast,
        seed=7,
        **others,  # type: ignore[arg-type]
    )


def upright(stage: EpisodeRunner) -> np.ndarray:
    """Less where it hangs."""
    return -np.cos(stage.robot.get_dofs_position()[:, 0])


def fast(stage: EpisodeRunner) -> np.ndarray:
    """Whether it is too fast to go on [rad/s]."""
    return np.abs(stage.robot.get_dofs_velocity()[:, 0]) > 2.0


class Push:
    """Pushes at random, each episode in its own way."""

    def begin(self, episodes: np.ndarray, seed: int) -> None:
        self._generators = km.cluster.episode_generators(seed, episodes, stream=1)

    def __call__(self, obs: np.ndarray) -> np.ndarray:
        return np.array([[g.uniform(-2.0, 2.0)] for g in self._generators], np.float32)


def push_with(obs: np.ndarray, gain: float) -> np.ndarray:
    """Push against the velocity, with a gain that is a parameter."""
    return -gain * obs[:, 1:]


def parabola(trial: Trial) -> float:
    """Least at x = 3."""
    x = float(trial.parameters["controller.x"])
    if x > 90.0:
        raise ValueError("too far")
    return (x - 3.0) ** 2 + 1.0 / trial.budget


def settled(trial: Trial) -> float:
    """How fast pendulums still are at the end [rad/s]."""
    played = trial.run_episodes(push_with, 8)
    return float(np.abs(played.obs[played.step == 19][:, 1]).mean())

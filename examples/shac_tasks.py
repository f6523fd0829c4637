"""Tasks of the short-horizon actor-critic: observations and rewards with their derivatives, and measures of success."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import numpy as np

import kinema as km

Array = np.ndarray
FAST = 1.5
"""Velocity beyond which the hopper has no more reward [m/s]."""
ROBOTS = Path(__file__).parent / "robots"


class Task(Protocol):
    """Functions of states (coordinates and velocities) and controls of many environments, (n_envs, n) each."""

    file: Path
    dt: float
    hold: int
    """Steps per control."""
    sizes: tuple[int, int]
    """Numbers of observations and of controls."""

    def initial(self, n_envs: int, rng: np.random.Generator) -> Array:
        """Random states at the start of episodes."""
        ...

    def observe(self, x: Array) -> Array:
        """Observations."""
        ...

    def pull_back(self, x: Array, gradient: Array) -> Array:
        """Gradient by the states from that by the observations."""
        ...

    def reward(self, x: Array, u: Array) -> tuple[Array, Array, Array]:
        """Reward of states reached with controls, (n_envs,), and its gradients by states and controls."""
        ...

    def is_over(self, x: Array) -> Array:
        """Whether episodes end, (n_envs,)."""
        ...

    def success(self, x: Array) -> tuple[str, float]:
        """Result of 5 s, (n_controls, n_envs, n), in words, and share of successful environments."""
        ...


class Cartpole:
    """Swing up a pole on a cart."""

    file, dt, hold, sizes = ROBOTS / "cartpole/cartpole.xml", 0.02, 2, (5, 1)
    weights = np.array([0.05, 0.3, 0.005, 0.005])

    def initial(self, n_envs: int, rng: np.random.Generator) -> Array:
        return rng.uniform([-0.5, -np.pi, -0.5, -0.5], [0.5, np.pi, 0.5, 0.5], (n_envs, 4))

    def observe(self, x: Array) -> Array:
        return np.column_stack([x[:, 0], np.cos(x[:, 1]), np.sin(x[:, 1]), x[:, 2] / 2, x[:, 3] / 5])

    def pull_back(self, x: Array, gradient: Array) -> Array:
        place, c, s, speed, rate = gradient.T
        return np.column_stack([place, np.cos(x[:, 1]) * s - np.sin(x[:, 1]) * c, speed / 2, rate / 5])

    def reward(self, x: Array, u: Array) -> tuple[Array, Array, Array]:
        off = np.column_stack([x[:, 0], np.angle(np.exp(1j * x[:, 1])), x[:, 2:]])
        return 1.0 - off**2 @ self.weights - 0.01 * u[:, 0] ** 2, -2.0 * self.weights * off, -0.02 * u

    def is_over(self, x: Array) -> Array:
        return np.abs(x[:, 0]) > 4.0

    def success(self, x: Array) -> tuple[str, float]:
        off = np.abs(np.angle(np.exp(1j * x[-25:, :, 1]))).max(axis=0)
        return f"poles are off by {np.median(off):.3f} rad in the last second", float((off < 0.2).mean())


class Hopper:
    """Hop forward on one leg."""

    file, dt, hold, sizes = ROBOTS / "hopper/hopper.xml", 0.005, 4, (11, 3)
    scales = np.array([0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.2, 0.1, 0.1, 0.1])

    def initial(self, n_envs: int, rng: np.random.Generator) -> Array:
        x = rng.normal(size=(n_envs, 12)) * np.repeat([0.05, 0.1], 6)
        x[:, 0], x[:, 1], x[:, 3:5] = 0.0, np.abs(x[:, 1]) + 0.05, np.abs(x[:, 3:5])
        return x

    def observe(self, x: Array) -> Array:
        return (self.scales * x)[:, 1:]

    def pull_back(self, x: Array, gradient: Array) -> Array:
        return self.scales * np.column_stack([np.zeros(len(x)), gradient])

    def reward(self, x: Array, u: Array) -> tuple[Array, Array, Array]:
        height, pitch, speed, low = x[:, 1], x[:, 2], x[:, 6], np.minimum(x[:, 1] + 0.3, 0.0)
        by_x = np.zeros_like(x)
        by_x[:, 1], by_x[:, 2], by_x[:, 6] = 1.0 - 40.0 * low, -4.0 * pitch, speed < FAST
        value = 1.3 + np.minimum(speed, FAST) + height - 20.0 * low**2 - 2.0 * pitch**2 - 0.05 * (u**2).sum(axis=1)
        return value, by_x, -0.1 * u

    def is_over(self, x: Array) -> Array:
        return (x[:, 1] < -0.45) | (np.abs(x[:, 2]) > 0.8)

    def success(self, x: Array) -> tuple[str, float]:
        falls = np.array([self.is_over(states) for states in x]).any(axis=0)
        return f"hoppers get {np.median(x[-1, :, 0]):.1f} m far in 5 s", float((~falls & (x[-1, :, 0] > 2.0)).mean())


TASKS: dict[str, Task] = {"cartpole": Cartpole(), "hopper": Hopper()}


def build(task: Task, n_envs: int, copies: int = 1) -> tuple[km.Scene, km.Entity]:
    """The robot of a task, or several that do not touch; the first of them."""
    scene = km.Scene(dt=task.dt, precision="double", contacts=copies == 1, quiet=True, wait=True)
    robots = [scene.add(task.file) for _ in range(copies)]
    scene.build(n_envs)
    return scene, robots[0]


def play(task: Task, n_envs: int, policy: Callable[[Array], Array]) -> Array:
    """States after each control of a policy in 5 s, (n_controls, n_envs, n)."""
    (scene, robot), x, states = build(task, n_envs), task.initial(n_envs, np.random.default_rng(1)), []
    robot.set_qpos(x[:, : robot.n_qs])
    robot.set_qvel(x[:, robot.n_qs :])
    for _ in range(round(5.0 / task.dt / task.hold)):
        robot.control(policy(task.observe(x)))
        scene.step(task.hold)
        x = np.column_stack([robot.get_qpos(), robot.get_qvel()])
        states.append(x)
    return np.array(states)

"""What robots are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .running import TaskEnv
from .terms import CommandTerm


class ReachableCommand(CommandTerm):
    """A place that a link can reach, (n, 3) [m]: where it is at joint angles drawn within a share of their limits."""

    def __init__(
        self,
        link: str,
        dofs: Sequence[str],
        share: float = 0.6,
        floor: float = 0.1,
        resampling_time_range: tuple[float, float] = (1e9, 1e9),
        *,
        entity: str = "robot",
    ) -> None:
        """`floor` is the least height of a place [m]."""
        self.link = link
        self.dofs = list(dofs)
        self.share = share
        self.floor = floor
        self.resampling_time_range = resampling_time_range
        self.entity = entity

    def begin(self, env: TaskEnv) -> None:
        """Find the joints, and draw places to choose from."""
        robot = env.entities[self.entity]
        moves = robot.dofs_of(*self.dofs)
        lower, upper = (np.clip(x, -np.pi, np.pi) for x in robot.get_dofs_limit(moves))
        middle, half = 0.5 * (lower + upper), 0.5 * self.share * (upper - lower)
        q = np.repeat(robot.get_qpos([0]), 4 * N_PLACES, axis=0)
        q[:, [robot.get_joint(name).qs_idx[0] for name in self.dofs]] = env.rng.uniform(
            middle - half, middle + half, (len(q), len(moves))
        )
        places = robot.forward_kinematics(q, [self.link])[0][:, 0]
        above = places[places[:, 2] > self.floor]
        self._places = env.arrays.floats((above if len(above) else places)[:N_PLACES])

    def draw(self, env: TaskEnv) -> Any:
        """One of them for each environment."""
        return self._places[env.arrays.integers(len(self._places), (env.n_envs,))]


N_PLACES = 4096
"""Places that are drawn from."""


class UniformVelocityCommand(CommandTerm):
    """Velocities of the base along its x and y [m/s] and about z [rad/s], (n, 3); some stand still."""

    def __init__(
        self,
        lin_vel_x: tuple[float, float],
        lin_vel_y: tuple[float, float],
        ang_vel_z: tuple[float, float],
        rel_standing_envs: float = 0.1,
        resampling_time_range: tuple[float, float] = (5.0, 10.0),
    ) -> None:
        self.ranges = np.array([lin_vel_x, lin_vel_y, ang_vel_z]).T
        self.rel_standing_envs = rel_standing_envs
        self.resampling_time_range = resampling_time_range
        self.share: Any = 1.0
        """Of these ranges: what a curriculum may change."""

    def draw(self, env: TaskEnv) -> Any:
        """New ones."""
        lower, upper = self.share * env.arrays.floats(self.ranges)
        drawn = env.arrays.uniform(lower, upper, (env.n_envs, 3))
        still = env.arrays.uniform(0.0, 1.0, (env.n_envs, 1)) < self.rel_standing_envs
        return env.arrays.xp.where(still, 0.0, drawn)

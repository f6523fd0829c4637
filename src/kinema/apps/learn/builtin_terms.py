"""Built-in action terms (joint positions, actuators) and command terms (reachable position, base velocity)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kinema.core import KinemaError

from .task_env import TaskEnv
from .terms import ActionTerm, CommandTerm

# -------------------------------------------------------------------------------------------------------------- actions


class JointPositionAction(ActionTerm):
    """Joint position targets `offset + scale * action` [m, rad], clipped to the joint limits."""

    def __init__(self, dofs: Sequence[str], scale: float = 1.0, offset: Any = 0.0, *, entity: str = "robot") -> None:
        self.dofs = list(dofs)
        self.scale = scale
        self.offset = offset
        self.entity = entity
        self.action_dim = len(self.dofs)

    def setup(self, env: TaskEnv) -> None:
        """Resolve dof indices and joint limits."""
        robot = env.entities[self.entity]
        self._dof_indices = robot.dofs_of(*self.dofs)
        self._limits = [env.arrays.floats(limit) for limit in robot.get_dofs_limit(self._dof_indices)]

    def apply(self, env: TaskEnv, action: Any) -> None:
        """Set the joint position targets."""
        targets = env.arrays.xp.clip(self._target_positions(env, action), *self._limits)
        env.entities[self.entity].control_dofs_position(targets, self._dof_indices)

    def _target_positions(self, env: TaskEnv, action: Any) -> Any:
        return env.arrays.floats(self.offset) + self.scale * action


class RelativeJointPositionAction(JointPositionAction):
    """Joint position targets relative to the current positions: `q + scale * action` [m, rad]."""

    def _target_positions(self, env: TaskEnv, action: Any) -> Any:
        return env.entities[self.entity].get_dofs_position(self._dof_indices) + self.scale * action


class JointIncrementAction(JointPositionAction):
    """Increments `scale * action` of joint position targets [m, rad]; targets start at the initial joint positions.

    Unlike with `RelativeJointPositionAction`, joints do not sag under gravity while the action is zero.
    """

    def setup(self, env: TaskEnv) -> None:
        """Resolve dof indices and joint limits, and clear the targets."""
        super().setup(env)
        self._set_points: Any = None

    def _target_positions(self, env: TaskEnv, action: Any) -> Any:
        here, xp = env.entities[self.entity].get_dofs_position(self._dof_indices), env.arrays.xp
        before = (
            here if self._set_points is None else xp.where(env.episode_length[:, None] == 0.0, here, self._set_points)
        )
        self._set_points = xp.clip(before + self.scale * action, *self._limits)
        return self._set_points


class ActuatorAction(ActionTerm):
    """Controls of the actuators of the file: `offset + scale * action`."""

    def __init__(
        self, actuators: Sequence[str] | None = None, scale: float = 1.0, offset: Any = 0.0, *, entity: str = "robot"
    ) -> None:
        self.actuators = actuators
        self.scale = scale
        self.offset = offset
        self.entity = entity

    def setup(self, env: TaskEnv) -> None:
        """Determine the number of actuators."""
        robot = env.entities[self.entity]
        self.action_dim = robot.n_actuators if self.actuators is None else len(self.actuators)
        if not self.action_dim:
            raise KinemaError(f'"{robot.name}" has no actuators that an action could tell something')

    def apply(self, env: TaskEnv, action: Any) -> None:
        """Set the actuator controls."""
        controls = env.arrays.floats(self.offset) + self.scale * action
        env.entities[self.entity].control(controls, None if self.actuators is None else list(self.actuators))


# ------------------------------------------------------------------------------------------------------------- commands


class ReachableCommand(CommandTerm):
    """Position that a link can reach, (n, 3) [m], by random joint angles within a fraction of the limits."""

    def __init__(
        self,
        link: str,
        dofs: Sequence[str],
        limit_fraction: float = 0.6,
        min_height: float = 0.1,
        resampling_time_range: tuple[float, float] = (1e9, 1e9),
        *,
        entity: str = "robot",
    ) -> None:
        """`min_height` is the minimum height of a position [m]."""
        self.link = link
        self.dofs = list(dofs)
        self.limit_fraction = limit_fraction
        self.min_height = min_height
        self.resampling_time_range = resampling_time_range
        self.entity = entity

    def setup(self, env: TaskEnv) -> None:
        """Sample candidate positions by forward kinematics."""
        robot = env.entities[self.entity]
        moves = robot.dofs_of(*self.dofs)
        lower, upper = (np.clip(x, -np.pi, np.pi) for x in robot.get_dofs_limit(moves))
        middle, half = 0.5 * (lower + upper), 0.5 * self.limit_fraction * (upper - lower)
        q = np.repeat(robot.get_qpos([0]), 4 * N_CANDIDATE_POSITIONS, axis=0)
        q[:, [robot.get_joint(name).qs_idx[0] for name in self.dofs]] = env.rng.uniform(
            middle - half, middle + half, (len(q), len(moves))
        )
        positions = robot.forward_kinematics(q, [self.link])[0][:, 0]
        above = positions[positions[:, 2] > self.min_height]
        self._candidate_positions = env.arrays.floats((above if len(above) else positions)[:N_CANDIDATE_POSITIONS])

    def sample(self, env: TaskEnv) -> Any:
        """A random candidate position for each environment."""
        return self._candidate_positions[env.arrays.integers(len(self._candidate_positions), (env.n_envs,))]


N_CANDIDATE_POSITIONS = 4096
"""Number of candidate positions."""


class UniformVelocityCommand(CommandTerm):
    """Uniform random base velocity along x and y [m/s] and yaw rate [rad/s], (n, 3); zero in some environments."""

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
        self.range_scale: Any = 1.0
        """Factor of the ranges, for a curriculum."""

    def sample(self, env: TaskEnv) -> Any:
        """New velocity commands for all environments."""
        lower, upper = self.range_scale * env.arrays.floats(self.ranges)
        drawn = env.arrays.uniform(lower, upper, (env.n_envs, 3))
        still = env.arrays.uniform(0.0, 1.0, (env.n_envs, 1)) < self.rel_standing_envs
        return env.arrays.xp.where(still, 0.0, drawn)

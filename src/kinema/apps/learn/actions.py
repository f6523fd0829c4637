"""What actions do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kinema.foundation import KinemaError

from .running import TaskEnv
from .terms import ActionTerm


class JointPositionAction(ActionTerm):
    """Joints are sent to `offset + scale * action` [m, rad]."""

    def __init__(self, dofs: Sequence[str], scale: float = 1.0, offset: Any = 0.0, *, entity: str = "robot") -> None:
        self.dofs = list(dofs)
        self.scale = scale
        self.offset = np.asarray(offset, np.float32)
        self.entity = entity
        self.n = len(self.dofs)

    def begin(self, env: TaskEnv) -> None:
        """Find the joints."""
        robot = env.entities[self.entity]
        self._dofs = robot.dofs_of(*self.dofs)
        self._limits = robot.get_dofs_limit(self._dofs)

    def apply(self, env: TaskEnv, action: np.ndarray) -> None:
        """Send them there, within their limits."""
        wanted = np.clip(self._wanted(env, action), *self._limits)
        env.entities[self.entity].control_dofs_position(wanted, self._dofs)

    def _wanted(self, env: TaskEnv, action: np.ndarray) -> np.ndarray:
        return self.offset + self.scale * action


class RelativeJointPositionAction(JointPositionAction):
    """Joints are sent to where they are plus `scale * action` [m, rad]."""

    def _wanted(self, env: TaskEnv, action: np.ndarray) -> np.ndarray:
        return env.entities[self.entity].get_dofs_position(self._dofs) + self.scale * action


class ActuatorAction(ActionTerm):
    """The file's actuators are told `offset + scale * action`."""

    def __init__(
        self, actuators: Sequence[str] | None = None, scale: float = 1.0, offset: Any = 0.0, *, entity: str = "robot"
    ) -> None:
        self.actuators = actuators
        self.scale = scale
        self.offset = np.asarray(offset, np.float32)
        self.entity = entity

    def begin(self, env: TaskEnv) -> None:
        """Find the actuators."""
        robot = env.entities[self.entity]
        self.n = robot.n_actuators if self.actuators is None else len(self.actuators)
        if not self.n:
            raise KinemaError(f'"{robot.name}" has no actuators that an action could tell something')

    def apply(self, env: TaskEnv, action: np.ndarray) -> None:
        """Tell them."""
        told = self.offset + self.scale * action
        env.entities[self.entity].control(told, None if self.actuators is None else list(self.actuators))

"""What actions do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kinema.foundation import KinemaError

from .running import TaskEnv
from .terms import ActionTerm


class JointPositionAction(ActionTerm):
    """Joints are sent to `offset + scale * action` [m, rad]."""

    def __init__(self, dofs: Sequence[str], scale: float = 1.0, offset: Any = 0.0, *, entity: str = "robot") -> None:
        self.dofs = list(dofs)
        self.scale = scale
        self.offset = offset
        self.entity = entity
        self.n = len(self.dofs)

    def begin(self, env: TaskEnv) -> None:
        """Find the joints."""
        robot = env.entities[self.entity]
        self._dofs = robot.dofs_of(*self.dofs)
        self._limits = [env.arrays.floats(limit) for limit in robot.get_dofs_limit(self._dofs)]

    def apply(self, env: TaskEnv, action: Any) -> None:
        """Send them there, within their limits."""
        wanted = env.arrays.xp.clip(self._wanted(env, action), *self._limits)
        env.entities[self.entity].control_dofs_position(wanted, self._dofs)

    def _wanted(self, env: TaskEnv, action: Any) -> Any:
        return env.arrays.floats(self.offset) + self.scale * action


class RelativeJointPositionAction(JointPositionAction):
    """Joints are sent to where they are plus `scale * action` [m, rad]."""

    def _wanted(self, env: TaskEnv, action: Any) -> Any:
        return env.entities[self.entity].get_dofs_position(self._dofs) + self.scale * action


class JointIncrementAction(JointPositionAction):
    """The set points of joints move on by `scale * action` [m, rad]; episodes begin with where the joints are.

    Against `RelativeJointPositionAction`, joints at rest under their weight stay there while the action is zero.
    """

    def begin(self, env: TaskEnv) -> None:
        """Find the joints, and where they are."""
        super().begin(env)
        self._sent: Any = None

    def _wanted(self, env: TaskEnv, action: Any) -> Any:
        here, xp = env.entities[self.entity].get_dofs_position(self._dofs), env.arrays.xp
        before = here if self._sent is None else xp.where(env.episode_length[:, None] == 0.0, here, self._sent)
        self._sent = xp.clip(before + self.scale * action, *self._limits)
        return self._sent


class ActuatorAction(ActionTerm):
    """The file's actuators are told `offset + scale * action`."""

    def __init__(
        self, actuators: Sequence[str] | None = None, scale: float = 1.0, offset: Any = 0.0, *, entity: str = "robot"
    ) -> None:
        self.actuators = actuators
        self.scale = scale
        self.offset = offset
        self.entity = entity

    def begin(self, env: TaskEnv) -> None:
        """Find the actuators."""
        robot = env.entities[self.entity]
        self.n = robot.n_actuators if self.actuators is None else len(self.actuators)
        if not self.n:
            raise KinemaError(f'"{robot.name}" has no actuators that an action could tell something')

    def apply(self, env: TaskEnv, action: Any) -> None:
        """Tell them."""
        told = env.arrays.floats(self.offset) + self.scale * action
        env.entities[self.entity].control(told, None if self.actuators is None else list(self.actuators))

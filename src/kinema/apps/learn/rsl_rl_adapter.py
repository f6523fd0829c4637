"""Tasks as rsl_rl vector environments with PyTorch tensors."""

from __future__ import annotations

from typing import Any

import torch  # noqa: TID253  # pyright: ignore[reportMissingImports]
from rsl_rl.env import VecEnv  # pyright: ignore[reportMissingImports]
from tensordict import TensorDict  # pyright: ignore[reportMissingImports]

from .task_env import Observations, TaskEnv


class RslTask(VecEnv):
    """Adapter of a running task to rsl_rl's `VecEnv`: one tensor per observation group, on the training device.

    Data stays on the GPU if the task runs on one. `extras["time_outs"]` marks truncated episodes, `extras["log"]`
    contains the mean reward terms of finished episodes.
    """

    def __init__(self, env: TaskEnv, device: str = "cpu", clip_actions: float | None = None) -> None:
        self.env = env
        self.num_envs = env.n_envs
        self.num_actions = env.n_actions
        self.max_episode_length = env.max_episode_length
        self.device = device
        self.cfg = {"task": env.task.name, "decimation": env.task.decimation}
        self._clip = clip_actions
        env.keeps_final_obs = False

    @property
    def episode_length_buf(self) -> Any:
        """Steps of the current episodes."""
        return self._tensor(self.env.episode_length)

    @episode_length_buf.setter
    def episode_length_buf(self, value: Any) -> None:
        self.env.episode_length = self.env.arrays.floats(value)

    def get_observations(self) -> Any:
        """Current observations."""
        return self._to_tensordict(self.env.observe())

    def reset(self) -> tuple[Any, dict[str, Any]]:
        """Reset all environments."""
        return self._to_tensordict(self.env.reset()), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, dict[str, Any]]:
        """One step of the task: observations, rewards, done flags and extras."""
        given = actions.detach()
        out = self.env.step(given if self._clip is None else given.clip(-self._clip, self._clip))
        extras = {"time_outs": self._tensor(out.truncated), "log": out.log}
        return self._to_tensordict(out.obs), self._tensor(out.reward), self._tensor(out.done).long(), extras

    def _to_tensordict(self, obs: Observations) -> Any:
        return TensorDict({name: self._tensor(x) for name, x in obs.items()}, batch_size=[self.num_envs])

    def _tensor(self, values: Any) -> Any:
        return torch.as_tensor(values, device=self.device)

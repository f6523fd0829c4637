"""Tasks for rsl_rl: its kind of vector environment, with PyTorch's tensors."""

from __future__ import annotations

from typing import Any

import torch  # noqa: TID253  # pyright: ignore[reportMissingImports]
from rsl_rl.env import VecEnv  # pyright: ignore[reportMissingImports]
from tensordict import TensorDict  # pyright: ignore[reportMissingImports]

from .running import Observations, TaskEnv


class RslTask(VecEnv):
    """A running task as `rsl_rl` wants it: a tensor for each group of observations, on the device that learns.

    Where the task runs on a GPU, actions, observations and rewards never leave it.
    `extras["time_outs"]` says which episodes ended by time, `extras["log"]` what their rewards brought.
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
        """Steps of the present episodes."""
        return self._tensor(self.env.episode_length)

    @episode_length_buf.setter
    def episode_length_buf(self, value: Any) -> None:
        self.env.episode_length = self.env.arrays.floats(value)

    def get_observations(self) -> Any:
        """What is seen now."""
        return self._shown(self.env.observe())

    def reset(self) -> tuple[Any, dict[str, Any]]:
        """Begin anew everywhere."""
        return self._shown(self.env.reset()), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, dict[str, Any]]:
        """One step of the task: observations, rewards, whether episodes ended, and more."""
        given = actions.detach()
        out = self.env.step(given if self._clip is None else given.clip(-self._clip, self._clip))
        extras = {"time_outs": self._tensor(out.truncated), "log": out.log}
        return self._shown(out.obs), self._tensor(out.reward), self._tensor(out.done).long(), extras

    def _shown(self, obs: Observations) -> Any:
        return TensorDict({name: self._tensor(x) for name, x in obs.items()}, batch_size=[self.num_envs])

    def _tensor(self, values: Any) -> Any:
        return torch.as_tensor(values, device=self.device)

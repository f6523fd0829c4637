"""Tasks for stable-baselines3: its kind of vector environment, which restarts by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from stable_baselines3.common.vec_env import VecEnv  # pyright: ignore[reportMissingImports]

from kinema.foundation import KinemaError

from .running import TaskEnv
from .vector import box


class Sb3Task(VecEnv):
    """A running task as `stable_baselines3` wants it: the group `policy`, actions between -1 and 1.

    Episodes that end by time are marked (`TimeLimit.truncated`), so that their value is taken on, and bring their last
    observation along (`terminal_observation`).
    """

    def __init__(self, env: TaskEnv) -> None:
        if env.arrays.xp is not np:
            raise KinemaError('stable-baselines3 takes NumPy\'s arrays: run(..., arrays="numpy")')
        self.env = env
        super().__init__(env.n_envs, box(env.observe()["policy"].shape[1]), box(env.n_actions, 1.0))
        self._actions = np.zeros((env.n_envs, env.n_actions), np.float32)
        self._returns = np.zeros(env.n_envs)
        self._lengths = np.zeros(env.n_envs, np.int64)

    def reset(self) -> np.ndarray:
        """Begin anew everywhere."""
        self._returns[:], self._lengths[:] = 0.0, 0
        return self.env.reset()["policy"]

    def step_async(self, actions: np.ndarray) -> None:
        """What to do next."""
        self._actions = np.clip(actions, -1.0, 1.0)

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Do it."""
        out = self.env.step(self._actions)
        done = np.flatnonzero(out.done)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        self._returns += out.reward
        self._lengths += 1
        for i in done:
            infos[i]["terminal_observation"] = out.final_obs["policy"][i]
            infos[i]["TimeLimit.truncated"] = bool(out.truncated[i])
            infos[i]["episode"] = {"r": float(self._returns[i]), "l": int(self._lengths[i]), "t": 0.0}
        self._returns[done], self._lengths[done] = 0.0, 0
        return out.obs["policy"], out.reward, out.done, infos

    def close(self) -> None:
        """Nothing is left open."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Something of the running task, for each environment."""
        return [getattr(self.env, attr_name, None)] * len(self._chosen(indices))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Set something of the running task."""
        setattr(self.env, attr_name, value)

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        """Call something of the running task; the answer for each environment."""
        return [getattr(self.env, method_name)(*args, **kwargs)] * len(self._chosen(indices))

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Nothing is wrapped."""
        return [False] * len(self._chosen(indices))

    def _chosen(self, indices: Any) -> Sequence[int]:
        return list(self._get_indices(indices))

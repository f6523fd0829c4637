"""Tasks as stable-baselines3 vector environments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from stable_baselines3.common.vec_env import VecEnv  # pyright: ignore[reportMissingImports]

from kinema.core import KinemaError

from .gymnasium_adapter import box_space
from .task_env import TaskEnv


class Sb3Task(VecEnv):
    """Adapter of a running task to stable-baselines3's `VecEnv`: observation group `policy`, actions in [-1, 1].

    Truncated episodes are marked (`TimeLimit.truncated`) for value bootstrapping, and `terminal_observation` contains
    the last observation of an episode.
    """

    def __init__(self, env: TaskEnv) -> None:
        if env.arrays.xp is not np:
            raise KinemaError('stable-baselines3 takes NumPy\'s arrays: run(..., arrays="numpy")')
        self.env = env
        super().__init__(env.n_envs, box_space(env.observe()["policy"].shape[1]), box_space(env.n_actions, 1.0))
        self._actions = np.zeros((env.n_envs, env.n_actions), np.float32)
        self._returns = np.zeros(env.n_envs)
        self._lengths = np.zeros(env.n_envs, np.int64)

    def reset(self) -> np.ndarray:
        """Reset all environments."""
        self._returns[:], self._lengths[:] = 0.0, 0
        return self.env.reset()["policy"]

    def step_async(self, actions: np.ndarray) -> None:
        """Store the actions of the next step, clipped to [-1, 1]."""
        self._actions = np.clip(actions, -1.0, 1.0)

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Step with the stored actions: observations, rewards, done flags and infos."""
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
        """Does nothing: there are no resources to release."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Attribute of the running task, repeated for each environment."""
        return [getattr(self.env, attr_name, None)] * len(self._selected_envs(indices))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Set an attribute of the running task."""
        setattr(self.env, attr_name, value)

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        """Call a method of the running task; the result is repeated for each environment."""
        return [getattr(self.env, method_name)(*args, **kwargs)] * len(self._selected_envs(indices))

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Always False for each environment."""
        return [False] * len(self._selected_envs(indices))

    def _selected_envs(self, indices: Any) -> Sequence[int]:
        return list(self._get_indices(indices))

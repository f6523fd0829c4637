"""Tasks as vector environments of gymnasium: autoreset in the same step, with the last observations of episodes."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from .running import Observations, TaskEnv


def box(size: int, bound: float = np.inf) -> spaces.Box:
    """A space of so many numbers."""
    return spaces.Box(-bound, bound, (size,), np.float32)


class VectorTask(VectorEnv[Any, Any, Any]):
    """A running task for whatever trains on gymnasium's vector environments.

    Where a task has only the group `policy`, observations are that array, else a dictionary of groups. An environment
    whose episode ends begins anew in the same step (`AutoresetMode.SAME_STEP`): its observation is the first of the new
    episode, and `info["final_obs"]` has the last of the old one where `info["_final_obs"]` says so.
    """

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012  as gymnasium has it

    def __init__(self, env: TaskEnv) -> None:
        self.env = env
        self.num_envs = env.n_envs
        self._flat = set(env.task.observations) == {"policy"}
        sizes: dict[str, spaces.Space[Any]] = {name: box(x.shape[1]) for name, x in env.observe().items()}
        self.single_observation_space = sizes["policy"] if self._flat else spaces.Dict(sizes)
        self.single_action_space = box(env.n_actions, 1.0)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin anew, everywhere or where `options["reset_mask"]` says so."""
        mask = (options or {}).get("reset_mask")
        envs = None if mask is None else np.flatnonzero(np.asarray(mask, np.bool_))
        return self._shown(self.env.reset(seed, envs)), {}

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """One step of the task in all environments."""
        out = self.env.step(np.clip(actions, -1.0, 1.0))
        info: dict[str, Any] = {}
        if len(out.done):
            info["final_obs"] = np.full(self.num_envs, None, dtype=object)
            for k, i in enumerate(out.done):
                info["final_obs"][i] = self._shown({name: x[k] for name, x in out.final_obs.items()})
            info["_final_obs"] = np.zeros(self.num_envs, np.bool_)
            info["_final_obs"][out.done] = True
            info["log"] = out.log
        return self._shown(out.obs), out.reward, out.terminated, out.truncated, info

    def _shown(self, obs: Observations) -> Any:
        return obs["policy"] if self._flat else obs

    def close_extras(self, **kwargs: Any) -> None:
        """Nothing is left open."""

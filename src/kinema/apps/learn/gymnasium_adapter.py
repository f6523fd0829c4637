"""Tasks as gymnasium vector environments with same-step autoreset."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from .task_env import Observations, StepResult, TaskEnv


def box_space(size: int, bound: float = np.inf) -> spaces.Box:
    """Box space of a dimension with symmetric bounds."""
    return spaces.Box(-bound, bound, (size,), np.float32)


class VectorTask(VectorEnv[Any, Any, Any]):
    """Adapter of a running task to gymnasium's `VectorEnv`.

    Observations are an array if the task has only the group `policy`, otherwise a dictionary of groups. An environment
    whose episode ends is reset in the same step (`AutoresetMode.SAME_STEP`): its observation is the first of the new
    episode, and `info["final_obs"]` contains the last of the old episode where `info["_final_obs"]` is true. With
    PyTorch arrays `final_obs` is one array for all environments (or a dictionary of arrays), valid in those rows, and
    stays on the GPU.
    """

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012  class attribute in gymnasium

    def __init__(self, env: TaskEnv) -> None:
        self.env = env
        self.num_envs = env.n_envs
        self._has_single_group = set(env.task.observations) == {"policy"}
        sizes: dict[str, spaces.Space[Any]] = {name: box_space(x.shape[1]) for name, x in env.observe().items()}
        self.single_observation_space = sizes["policy"] if self._has_single_group else spaces.Dict(sizes)
        self.single_action_space = box_space(env.n_actions, 1.0)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset all environments, or those of the mask `options["reset_mask"]`."""
        mask = (options or {}).get("reset_mask")
        envs = None if mask is None else self.env.arrays.bools(mask)
        return self._format_observations(self.env.reset(seed, envs)), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """One step of the task in all environments, with actions clipped to [-1, 1]."""
        out = self.env.step(self.env.arrays.xp.clip(actions, -1.0, 1.0))
        info: dict[str, Any] = {}
        if out.log:
            info = {"final_obs": self._final_observations(out), "_final_obs": out.done, "log": out.log}
        return self._format_observations(out.obs), out.reward, out.terminated, out.truncated, info

    def _final_observations(self, result: StepResult) -> Any:
        """Last observations of finished episodes in gymnasium's format: an object array over environments."""
        if self.env.arrays.xp is not np:
            return self._format_observations(result.final_obs)
        last = np.full(self.num_envs, None, dtype=object)
        for i in np.flatnonzero(result.done):
            last[i] = self._format_observations({name: x[i] for name, x in result.final_obs.items()})
        return last

    def _format_observations(self, obs: Observations) -> Any:
        return obs["policy"] if self._has_single_group else obs

    def close_extras(self, **kwargs: Any) -> None:
        """Does nothing: there are no resources to release."""

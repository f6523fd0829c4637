"""Tasks as vector environments of gymnasium: autoreset in the same step, with the last observations of episodes."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from .running import Observations, Outcome, TaskEnv


def box(size: int, bound: float = np.inf) -> spaces.Box:
    """A space of so many numbers."""
    return spaces.Box(-bound, bound, (size,), np.float32)


class VectorTask(VectorEnv[Any, Any, Any]):
    """A running task for whatever trains on gymnasium's vector environments.

    Where a task has only the group `policy`, observations are that array, else a dictionary of groups. An environment
    whose episode ends begins anew in the same step (`AutoresetMode.SAME_STEP`): its observation is the first of the new
    episode, and `info["final_obs"]` has the last of the old one where `info["_final_obs"]` says so. With PyTorch's
    arrays that is one array for all environments (a dictionary of them), of which those rows count, and nothing leaves
    a GPU.
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
        envs = None if mask is None else self.env.arrays.bools(mask)
        return self._shown(self.env.reset(seed, envs)), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """One step of the task in all environments."""
        out = self.env.step(self.env.arrays.xp.clip(actions, -1.0, 1.0))
        info: dict[str, Any] = {}
        if out.log:
            info = {"final_obs": self._last(out), "_final_obs": out.done, "log": out.log}
        return self._shown(out.obs), out.reward, out.terminated, out.truncated, info

    def _last(self, out: Outcome) -> Any:
        """The last observations of episodes, as gymnasium has them: each by itself."""
        if self.env.arrays.xp is not np:
            return self._shown(out.final_obs)
        last = np.full(self.num_envs, None, dtype=object)
        for i in np.flatnonzero(out.done):
            last[i] = self._shown({name: x[i] for name, x in out.final_obs.items()})
        return last

    def _shown(self, obs: Observations) -> Any:
        return obs["policy"] if self._flat else obs

    def close_extras(self, **kwargs: Any) -> None:
        """Nothing is left open."""

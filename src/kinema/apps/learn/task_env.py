"""Vectorized environment of a task on NumPy or PyTorch arrays, with same-step automatic reset of finished episodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from kinema.core import KinemaError
from kinema.scene import Entity, Scene

from .terms import ObsGroup, Task

# ------------------------------------------------------------------------------------------------------- array backends

BACKENDS = ("numpy", "torch")


class ArrayBackend(Protocol):
    """Operations that differ between NumPy and PyTorch; common functions (`cos`, `where`, `stack`, ...) are in `xp`."""

    xp: Any
    """The array module: `numpy` or `torch`."""

    def seed(self, seed: int) -> None:
        """Seed the random generator."""

    def floats(self, values: Any) -> Any:
        """Convert to a float32 array on the device; constants are transferred to a GPU once."""

    def bools(self, values: Any) -> Any:
        """Convert to a boolean array on the device."""

    def uniform(self, lower: Any, upper: Any, shape: tuple[int, ...]) -> Any:
        """Uniform random samples between two bounds."""

    def integers(self, count: int, shape: tuple[int, ...]) -> Any:
        """Random integers from 0 to `count` - 1."""

    def maybe_any(self, mask: Any) -> bool:
        """Whether any item may be true; always True on PyTorch, to avoid synchronisation with a GPU."""
        ...


class NumpyBackend:
    """NumPy array backend."""

    xp: Any = np

    def __init__(self, seed: int) -> None:
        self.seed(seed)

    def seed(self, seed: int) -> None:
        """Seed the random generator."""
        self.rng = np.random.default_rng(seed)

    def floats(self, values: Any) -> np.ndarray:
        """Convert to a float32 array."""
        return np.asarray(values, np.float32)

    def bools(self, values: Any) -> np.ndarray:
        """Convert to a boolean array."""
        return np.asarray(values, np.bool_)

    def uniform(self, lower: Any, upper: Any, shape: tuple[int, ...]) -> np.ndarray:
        """Uniform random samples between two bounds."""
        return self.rng.uniform(lower, upper, shape).astype(np.float32)

    def integers(self, count: int, shape: tuple[int, ...]) -> np.ndarray:
        """Random integers from 0 to `count` - 1."""
        return self.rng.integers(count, size=shape)

    def maybe_any(self, mask: Any) -> bool:
        """Whether any item is true."""
        return bool(mask.any())


class TorchBackend:
    """PyTorch array backend on one device."""

    def __init__(self, seed: int, device: str) -> None:
        import torch  # pyright: ignore[reportMissingImports]

        self.xp: Any = torch
        self.device = device
        self._generator = torch.Generator(device)
        self._constants: dict[Any, Any] = {}
        self.seed(seed)

    def seed(self, seed: int) -> None:
        """Seed the random generator."""
        self._generator.manual_seed(seed)

    def floats(self, values: Any) -> Any:
        """Convert to a float32 tensor on the device."""
        return self._to_device(values, self.xp.float32)

    def bools(self, values: Any) -> Any:
        """Convert to a boolean tensor on the device."""
        return self._to_device(values, self.xp.bool)

    def uniform(self, lower: Any, upper: Any, shape: tuple[int, ...]) -> Any:
        """Uniform random samples between two bounds."""
        share = self.xp.rand(shape, generator=self._generator, device=self.device)
        return lower + (upper - lower) * share

    def integers(self, count: int, shape: tuple[int, ...]) -> Any:
        """Random integers from 0 to `count` - 1."""
        return self.xp.randint(count, shape, generator=self._generator, device=self.device)

    def maybe_any(self, mask: Any) -> bool:
        """Always True: the mask is not read, to avoid synchronisation with a GPU."""
        return True

    def _to_device(self, values: Any, dtype: Any) -> Any:
        """Tensor on the device; tensors made from host values are cached by content."""
        if self.xp.is_tensor(values):
            return values.detach().to(self.device, dtype)
        array = np.asarray(values)
        key = (dtype, array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            if len(self._constants) == MAX_CACHED_CONSTANTS:  # values that change in every step fill the cache
                self._constants.clear()
            self._constants[key] = self.xp.as_tensor(array, dtype=dtype, device=self.device)
        return self._constants[key]


MAX_CACHED_CONSTANTS = 256
"""Maximum number of constants cached on a device."""


def make_array_backend(kind: str, seed: int, device: str) -> ArrayBackend:
    """Array backend of a kind (`numpy` or `torch`) for environments on a device."""
    if kind not in BACKENDS:
        raise KinemaError(f"arrays: {kind!r} is none of {', '.join(BACKENDS)}")
    if kind == "numpy":
        return NumpyBackend(seed)
    try:
        return TorchBackend(seed, device)
    except ImportError:
        raise KinemaError('arrays: PyTorch is not installed: pip install torch, or arrays="numpy"') from None


# ---------------------------------------------------------------------------------------------------------- environment

EVENT_MODES = ("startup", "reset", "interval")
Array = Any
"""NumPy array or PyTorch tensor."""
Observations = dict[str, Array]


@dataclass(slots=True)
class StepResult:
    """Result of a step, with one item per environment."""

    obs: Observations
    """Observations by group, (n_envs, k); after a reset, the first observation of the new episode."""
    reward: Array
    terminated: Array
    truncated: Array
    done: Array
    """Mask of the environments whose episode ended."""
    final_obs: Observations
    """Last observations of finished episodes by group, (n_envs, k), valid in the rows of `done`.

    Empty if no episode ended or `keeps_final_obs` is false.
    """
    log: dict[str, Any] = field(default_factory=dict)
    """Means over the episodes that ended last: rate of each reward term and frequency of each termination."""


class TaskEnv:
    """Vectorized environment: a task that runs in many environments on a CPU or GPU.

    Args:
        task: the task.
        n_envs: number of environments.
        device: `cpu`, `cuda:0`, ...
        seed: seed of all random numbers.
        arrays: type of observations, actions and rewards: `numpy`, or `torch`, which keeps data on a GPU; None for
            `torch` on a GPU and `numpy` on a CPU.
    """

    def __init__(self, task: Task, n_envs: int, device: str = "cpu", seed: int = 0, arrays: str | None = None) -> None:
        _validate_task(task)
        self.task = task
        self.n_envs = n_envs
        self.scene = Scene(device=device, quiet=True, **task.scene)
        self.entities: dict[str, Entity] = task.build(self.scene)
        self.scene.build(n_envs, **task.build_options)
        runs_on = self.scene.built.engine.device
        kind = arrays or ("numpy" if runs_on.is_cpu else "torch")
        self.arrays = make_array_backend(kind, seed, runs_on.name)
        """Array backend; `env.arrays.xp` is NumPy or PyTorch."""
        self.keeps_final_obs = True
        """Whether `StepResult.final_obs` is computed."""
        self.step_dt = self.scene.dt * task.decimation
        """Duration of a step of the task [s]."""
        self.max_episode_length = max(1, round(task.episode_length_s / self.step_dt))
        self.total_steps = 0
        self.rng = np.random.default_rng(seed)
        """Random generator for the setup of terms."""
        for term in (*task.actions.values(), *task.commands.values()):
            term.setup(self)
        if kind == "torch":
            self.scene.torch()
        self.n_actions = sum(term.action_dim for term in task.actions.values())
        self._allocate_buffers(kind)
        self._apply_events("startup", self.all_envs)
        self.reset()

    def _allocate_buffers(self, kind: str) -> None:
        """Allocate episode counters, actions, commands, timers and reward sums."""
        zeros, task, n = self._zeros, self.task, self.n_envs
        self.all_envs = self.arrays.bools(np.ones(n))
        """A mask of all environments."""
        self.episode_length = zeros(n)
        """Number of steps of the current episodes, (n_envs,)."""
        self.action = zeros(n, self.n_actions)
        self.last_action = zeros(n, self.n_actions)
        self.commands: dict[str, Array] = {}
        self._command_timers = {name: zeros(n) for name in task.commands}
        self._event_timers = {name: zeros(n) for name in task.events}
        self._episode_rewards = zeros(len(task.rewards), n)
        self._episode_means = zeros(len(task.rewards) + len(task.terminations) + 2)
        self._logs_floats = kind == "numpy"
        self._step_cache: dict[Any, Array] = {}

    def _zeros(self, *shape: int) -> Array:
        return self.arrays.floats(np.zeros(shape)) + 0.0  # a copy

    @property
    def robot(self) -> Entity:
        """The entity named `robot`."""
        return self.entities["robot"]

    def reset(self, seed: int | None = None, envs: Array | None = None) -> Observations:
        """Reset all environments, or some given by index or mask; returns the observations."""
        if seed is not None:
            self.arrays.seed(seed)
        self._start_episodes(self.all_envs if envs is None else self._env_mask(envs))
        return self.observe()

    def step(self, action: Array) -> StepResult:
        """Apply actions, (n_envs, n_actions), for `decimation` simulation steps; finished episodes are reset."""
        values = self.arrays.floats(action)
        if values.shape != self.action.shape:
            raise KinemaError(f"action: expected values of shape {tuple(self.action.shape)}, not {tuple(values.shape)}")
        self.last_action, self.action = self.action, values
        start = 0
        for term in self.task.actions.values():
            term.apply(self, values[:, start : start + term.action_dim])
            start += term.action_dim
        self.scene.step(self.task.decimation)
        self._step_cache.clear()
        self.episode_length = self.episode_length + 1
        self.total_steps += 1
        broken = self.arrays.bools(self.scene.get_error_envs_mask())
        reward = self._compute_reward(broken)
        terminated, truncated, ends = self._compute_terminations(broken)
        done = terminated | truncated
        final, log = {}, {}
        if self.arrays.maybe_any(done):
            final = self._observe() if self.keeps_final_obs else {}
            log = self._log_finished_episodes(done, ends)
            self._start_episodes(done)
        self._update_timers(done)
        return StepResult(self._observe(), reward, terminated, truncated, done, final, log)

    def observe(self) -> Observations:
        """Current observations by group."""
        self._step_cache.clear()
        return self._observe()

    def success(self) -> Array:
        """Success criterion of the task in each environment, (n_envs,) of bool."""
        if self.task.success is None:
            raise KinemaError(f"task {self.task.name!r} does not say what success is")
        self._step_cache.clear()
        return self.arrays.bools(self.task.success(self))

    def cached(self, key: Any, compute: Callable[[], Array]) -> Array:
        """Value shared by several terms, computed once per step."""
        if key not in self._step_cache:
            self._step_cache[key] = compute()
        return self._step_cache[key]

    # ------------------------------------------------------------------------------------------------ parts of a step

    def _observe(self) -> Observations:
        return {name: self._observe_group(group) for name, group in self.task.observations.items()}

    def _observe_group(self, group: ObsGroup) -> Array:
        """Observation of a group, (n_envs, k): terms with noise, clipping and scale; NaN and infinity become 0."""
        xp, parts = self.arrays.xp, []
        for name, term in group.terms.items():
            values = self.arrays.floats(term.func(self, **term.params))
            if values.ndim != 2 or len(values) != self.n_envs:
                raise KinemaError(f"observation {name!r}: expected shape ({self.n_envs}, k), not {tuple(values.shape)}")
            if term.noise and group.enable_corruption:
                values = values + self.arrays.uniform(-term.noise, term.noise, tuple(values.shape))
            if term.clip is not None:
                values = xp.clip(values, *term.clip)
            parts.append(values * self.arrays.floats(term.scale))
        return xp.nan_to_num(xp.concatenate(parts, axis=1), posinf=0.0, neginf=0.0)

    def _compute_reward(self, error_envs: Array) -> Array:
        """Reward of a step, (n_envs,); zero in environments with an error. Adds to the episode sums of each term."""
        if not self.task.rewards:
            return self._zeros(self.n_envs)
        terms = self.task.rewards.values()
        rewards = [(term.weight * self.step_dt) * self.arrays.floats(term.func(self, **term.params)) for term in terms]
        earned = self.arrays.xp.where(error_envs, 0.0, self.arrays.xp.stack(rewards))  # invalid states earn nothing
        self._episode_rewards = self._episode_rewards + earned
        return earned.sum(axis=0)

    def _compute_terminations(self, error_envs: Array) -> tuple[Array, Array, list[Array]]:
        """Masks of terminated and truncated episodes, and the mask of each cause (simulation error first)."""
        terminated, truncated, ends = error_envs, ~self.all_envs, [error_envs]
        for term in self.task.terminations.values():
            ends.append(self.arrays.bools(term.func(self, **term.params)))
            if term.time_out:
                truncated = truncated | ends[-1]
            else:
                terminated = terminated | ends[-1]
        return terminated, truncated & ~terminated, ends

    def _log_finished_episodes(self, done: Array, causes: list[Array]) -> dict[str, Any]:
        """Means over finished episodes: reward rates, termination causes and duration."""
        xp = self.arrays.xp
        seconds = self.episode_length * self.step_dt
        rows = xp.concatenate(
            [self._episode_rewards / seconds, self.arrays.floats(xp.stack(causes)), seconds[None]], axis=0
        )
        count = done.sum()
        mean = xp.where(done, rows, 0.0).sum(axis=1) / xp.clip(count, 1, None)
        self._episode_means = xp.where(count > 0, mean, self._episode_means)
        names = [f"Episode_Reward/{name}" for name in self.task.rewards]
        names += [f"Episode_Termination/{name}" for name in ("broken", *self.task.terminations)]
        values = [float(x) for x in self._episode_means] if self._logs_floats else self._episode_means
        return dict(zip([*names, "Episode/length_s"], values, strict=True))

    def _start_episodes(self, envs: Array) -> None:
        """Start an episode in the environments of a mask: curriculum, reset, events, commands and timers."""
        for term in self.task.curriculum.values():
            term.func(self, envs, **term.params)
        self.scene.reset(envs, keyframe=self.task.keyframe)
        self._apply_events("reset", envs)
        self.episode_length = self._where(envs, 0.0, self.episode_length)
        self.action = self._where(envs[:, None], 0.0, self.action)
        self.last_action = self._where(envs[:, None], 0.0, self.last_action)
        self._episode_rewards = self._where(envs, 0.0, self._episode_rewards)
        for name in self.task.commands:
            self._resample_command(name, envs)
        for name, term in self.task.events.items():
            if term.mode == "interval":
                self._restart_timer(self._event_timers, name, term.interval_range_s, envs)
        self._step_cache.clear()

    def _apply_events(self, mode: str, envs: Array) -> None:
        for term in self.task.events.values():
            if term.mode == mode:
                term.func(self, envs, **term.params)

    def _update_timers(self, done: Array) -> None:
        """Resample commands and trigger interval events whose timer has expired, except after a reset."""
        for name in self.task.commands:
            due = self._timer_expired(self._command_timers, name, done)
            if self.arrays.maybe_any(due):
                self._resample_command(name, due)
        for name, term in self.task.events.items():
            if term.mode != "interval":
                continue
            due = self._timer_expired(self._event_timers, name, done)
            if self.arrays.maybe_any(due):
                self._restart_timer(self._event_timers, name, term.interval_range_s, due)
                term.func(self, due, **term.params)
                self._step_cache.clear()

    def _timer_expired(self, timers: dict[str, Array], name: str, done: Array) -> Array:
        timers[name] = self._where(done, timers[name], timers[name] - self.step_dt)
        return ~done & (timers[name] <= 0.0)

    def _restart_timer(self, timers: dict[str, Array], name: str, seconds: tuple[float, float], envs: Array) -> None:
        timers[name] = self._where(envs, self.arrays.uniform(*seconds, (self.n_envs,)), timers[name])

    def _resample_command(self, name: str, envs: Array) -> None:
        term = self.task.commands[name]
        drawn = self.arrays.floats(term.sample(self))
        before = self.commands.get(name)
        self.commands[name] = drawn if before is None else self._where(envs[:, None], drawn, before)
        self._restart_timer(self._command_timers, name, term.resampling_time_range, envs)

    def _where(self, mask: Array, new: Any, old: Array) -> Array:
        return self.arrays.xp.where(mask, new, old)

    def _env_mask(self, envs: Array) -> Array:
        """Mask from indices or a mask of environments."""
        mask = ~self.all_envs
        mask[envs] = True
        return mask


def _validate_task(task: Task) -> None:
    """Raise `KinemaError` if the settings of a task are inconsistent."""
    if task.decimation < 1 or not task.episode_length_s > 0.0:
        raise KinemaError(f"task {task.name!r}: at least one step to an action, and episodes that take some time")
    if "policy" not in task.observations:
        raise KinemaError(f"task {task.name!r}: there is no group of observations called 'policy'")
    for name, event in task.events.items():
        if event.mode not in EVENT_MODES:
            raise KinemaError(f"event {name!r}: mode {event.mode!r} is none of {', '.join(EVENT_MODES)}")

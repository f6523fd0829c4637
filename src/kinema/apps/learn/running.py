"""A task that runs: many environments, stepped together; those whose episode ends begin anew in the same step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from kinema.foundation import KinemaError
from kinema.scene import Entity, Scene

from .terms import ObsGroup, Task

MODES = ("startup", "reset", "interval")
Observations = dict[str, np.ndarray]


@dataclass(slots=True)
class Outcome:
    """What a step gives."""

    obs: Observations
    """By group, (n_envs, k); of an environment that begins anew, the first of its new episode."""
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    final_obs: Observations
    """Of the environments in `done`, what was seen last in the episode that ended, a row for each of them."""
    done: np.ndarray
    """The numbers of the environments whose episode ended."""
    log: dict[str, float] = field(default_factory=dict)
    """Of these episodes: what each reward brought per second, how each ended, on the average."""


class TaskEnv:
    """A task, running in many environments on a CPU or GPU; observations, actions and rewards are NumPy's.

    Args:
        task: what is to be learnt.
        n_envs: how many environments there are.
        device: `cpu`, `cuda:0`, ...
        seed: of all that is drawn.
    """

    def __init__(self, task: Task, n_envs: int, device: str = "cpu", seed: int = 0) -> None:
        _refuse_nonsense(task)
        self.task = task
        self.n_envs = n_envs
        self.rng = np.random.default_rng(seed)
        self.scene = Scene(device=device, quiet=True, **task.scene)
        self.entities: dict[str, Entity] = task.build(self.scene)
        self.scene.build(n_envs, **task.building)
        self.all = np.arange(n_envs)
        self.step_dt = self.scene.dt * task.decimation
        """Time of a step of the task [s]."""
        self.max_episode_length = max(1, round(task.episode_length_s / self.step_dt))
        self.episode_length = np.zeros(n_envs, np.int64)
        self.total_steps = 0
        for term in (*task.actions.values(), *task.commands.values()):
            term.begin(self)
        self.n_actions = sum(term.n for term in task.actions.values())
        self.action = np.zeros((n_envs, self.n_actions), np.float32)
        self.last_action = np.zeros_like(self.action)
        self.commands: dict[str, np.ndarray] = {}
        self._until_command = {name: np.zeros(n_envs) for name in task.commands}
        self._until_event = {name: np.zeros(n_envs) for name in task.events}
        self._earned = {name: np.zeros(n_envs) for name in task.rewards}
        self._happen("startup", self.all)
        self.reset()

    @property
    def robot(self) -> Entity:
        """The entity called `robot`."""
        return self.entities["robot"]

    def reset(self, seed: int | None = None, envs: np.ndarray | None = None) -> Observations:
        """Begin anew, in all environments or some: what is seen then."""
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self._begin(self.all if envs is None else np.asarray(envs))
        return self.observe()

    def step(self, action: np.ndarray) -> Outcome:
        """Act, (n_envs, n_actions), for `decimation` steps of the simulation."""
        given = np.asarray(action, np.float32)
        if given.shape != self.action.shape:
            raise KinemaError(f"action: expected values of shape {self.action.shape}, not {given.shape}")
        self.last_action, self.action = self.action, given
        start = 0
        for term in self.task.actions.values():
            term.apply(self, given[:, start : start + term.n])
            start += term.n
        self.scene.step(self.task.decimation)
        self.episode_length += 1
        self.total_steps += 1
        broken = self.scene.get_error_envs_mask()
        reward = self._reward(broken)
        terminated, truncated, ends = self._ended(broken)
        done = np.flatnonzero(terminated | truncated)
        final, log = {}, {}
        if len(done):
            final = {name: x[done] for name, x in self.observe().items()}
            log = self._episodes(done, ends)
            self._begin(done)
        self._pass_time(done)
        return Outcome(self.observe(), reward, terminated, truncated, final, done, log)

    def observe(self) -> Observations:
        """What is seen now, by group."""
        return {name: self._seen(group) for name, group in self.task.observations.items()}

    def success(self) -> np.ndarray:
        """Whether each environment does now what it should, (n_envs,)."""
        if self.task.success is None:
            raise KinemaError(f"task {self.task.name!r} does not say what success is")
        return np.asarray(self.task.success(self), np.bool_)

    # ------------------------------------------------------------------------------------------------ parts of a step

    def _seen(self, group: ObsGroup) -> np.ndarray:
        parts = []
        for name, term in group.terms.items():
            values = np.asarray(term.func(self, **term.params), np.float32)
            if values.ndim != 2 or len(values) != self.n_envs:
                raise KinemaError(f"observation {name!r}: expected shape ({self.n_envs}, k), not {values.shape}")
            if term.noise and group.enable_corruption:
                values = values + self.rng.uniform(-term.noise, term.noise, values.shape)
            if term.clip is not None:
                values = np.clip(values, *term.clip)
            parts.append(values * np.asarray(term.scale, np.float32))
        return np.nan_to_num(np.concatenate(parts, axis=1), posinf=0.0, neginf=0.0).astype(np.float32)

    def _reward(self, broken: np.ndarray) -> np.ndarray:
        total = np.zeros(self.n_envs)
        for name, term in self.task.rewards.items():
            own = term.weight * np.asarray(term.func(self, **term.params), np.float64) * self.step_dt
            own = np.where(broken, 0.0, own)  # of what is no number any more
            self._earned[name] += own
            total += own
        return total.astype(np.float32)

    def _ended(self, broken: np.ndarray) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
        terminated, truncated = broken.copy(), np.zeros(self.n_envs, np.bool_)
        ends = {"broken": broken}
        for name, term in self.task.terminations.items():
            ends[name] = np.asarray(term.func(self, **term.params), np.bool_)
            if term.time_out:
                truncated |= ends[name]
            else:
                terminated |= ends[name]
        return terminated, truncated & ~terminated, ends

    def _episodes(self, done: np.ndarray, ends: Mapping[str, np.ndarray]) -> dict[str, float]:
        seconds = np.maximum(self.episode_length[done] * self.step_dt, 1e-9)
        log = {f"Episode_Reward/{n}": float((x[done] / seconds).mean()) for n, x in self._earned.items()}
        log |= {f"Episode_Termination/{n}": float(x[done].mean()) for n, x in ends.items()}
        log["Episode/length_s"] = float(seconds.mean())
        return log

    def _begin(self, envs: np.ndarray) -> None:
        """Begin an episode in some environments."""
        for term in self.task.curriculum.values():
            term.func(self, envs, **term.params)
        self.scene.reset(envs, keyframe=self.task.keyframe)
        self._happen("reset", envs)
        self.episode_length[envs] = 0
        self.action[envs] = 0.0
        self.last_action[envs] = 0.0
        for earned in self._earned.values():
            earned[envs] = 0.0
        for name in self.task.commands:
            self._command(name, envs)
        for name, term in self.task.events.items():
            if term.mode == "interval":
                self._until_event[name][envs] = self.rng.uniform(*term.interval_range_s, len(envs))

    def _happen(self, mode: str, envs: np.ndarray) -> None:
        for term in self.task.events.values():
            if term.mode == mode:
                term.func(self, envs, **term.params)

    def _pass_time(self, done: np.ndarray) -> None:
        """What happens every so often, but not in episodes that have just begun."""
        going = np.ones(self.n_envs, np.bool_)
        going[done] = False
        for name in self.task.commands:
            due = self._due(self._until_command[name], going)
            if len(due):
                self._command(name, due)
        for name, term in self.task.events.items():
            if term.mode != "interval":
                continue
            due = self._due(self._until_event[name], going)
            if len(due):
                self._until_event[name][due] = self.rng.uniform(*term.interval_range_s, len(due))
                term.func(self, due, **term.params)

    def _due(self, until: np.ndarray, going: np.ndarray) -> np.ndarray:
        until[going] -= self.step_dt
        return np.flatnonzero(going & (until <= 0.0))

    def _command(self, name: str, envs: np.ndarray) -> None:
        term = self.task.commands[name]
        drawn = np.asarray(term.draw(self, envs), np.float32)
        if name not in self.commands:
            self.commands[name] = np.zeros((self.n_envs, drawn.shape[1]), np.float32)
        self.commands[name][envs] = drawn
        self._until_command[name][envs] = self.rng.uniform(*term.resampling_time_range, len(envs))


def _refuse_nonsense(task: Task) -> None:
    if task.decimation < 1 or not task.episode_length_s > 0.0:
        raise KinemaError(f"task {task.name!r}: at least one step to an action, and episodes that take some time")
    if "policy" not in task.observations:
        raise KinemaError(f"task {task.name!r}: there is no group of observations called 'policy'")
    for name, event in task.events.items():
        if event.mode not in MODES:
            raise KinemaError(f"event {name!r}: mode {event.mode!r} is none of {', '.join(MODES)}")

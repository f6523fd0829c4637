"""A task that runs: many environments, stepped together; those whose episode ends begin anew in the same step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kinema.foundation import KinemaError
from kinema.scene import Entity, Scene

from .arrays import arrays_of
from .terms import ObsGroup, Task

MODES = ("startup", "reset", "interval")
Array = Any
"""NumPy's or PyTorch's."""
Observations = dict[str, Array]


@dataclass(slots=True)
class Outcome:
    """What a step gives, an item for each environment."""

    obs: Observations
    """By group, (n_envs, k); of an environment that begins anew, the first of its new episode."""
    reward: Array
    terminated: Array
    truncated: Array
    done: Array
    """Whose episode ended, a mask."""
    final_obs: Observations
    """What was seen last in the episodes that ended, (n_envs, k), of which the rows of `done` count; nothing where none
    ended, or where they are not kept."""
    log: dict[str, Any] = field(default_factory=dict)
    """Of the episodes that ended last: what each reward brought per second, how each ended, on the average."""


class TaskEnv:
    """A task, running in many environments on a CPU or GPU.

    Args:
        task: what is to be learnt.
        n_envs: how many environments there are.
        device: `cpu`, `cuda:0`, ...
        seed: of all that is drawn.
        arrays: what observations, actions and rewards are: `numpy`, or `torch`, with which nothing leaves a GPU; None
            for `torch` on a GPU and `numpy` on a CPU.
    """

    def __init__(self, task: Task, n_envs: int, device: str = "cpu", seed: int = 0, arrays: str | None = None) -> None:
        _refuse_nonsense(task)
        self.task = task
        self.n_envs = n_envs
        self.scene = Scene(device=device, quiet=True, **task.scene)
        self.entities: dict[str, Entity] = task.build(self.scene)
        self.scene.build(n_envs, **task.building)
        runs_on = self.scene.running.engine.device
        kind = arrays or ("numpy" if runs_on.is_cpu else "torch")
        self.arrays = arrays_of(kind, seed, runs_on.name)
        """How to make and draw arrays; `env.arrays.xp` is NumPy or PyTorch."""
        self.keeps_final_obs = True
        """Whether `Outcome.final_obs` is wanted."""
        self.step_dt = self.scene.dt * task.decimation
        """Time of a step of the task [s]."""
        self.max_episode_length = max(1, round(task.episode_length_s / self.step_dt))
        self.total_steps = 0
        self.rng = np.random.default_rng(seed)
        """For what terms draw once, when they begin."""
        for term in (*task.actions.values(), *task.commands.values()):
            term.begin(self)
        if kind == "torch":
            self.scene.torch()
        self.n_actions = sum(term.n for term in task.actions.values())
        self._start(kind)
        self._happen("startup", self.every)
        self.reset()

    def _start(self, kind: str) -> None:
        zeros, task, n = self._zeros, self.task, self.n_envs
        self.every = self.arrays.bools(np.ones(n))
        """A mask of all environments."""
        self.episode_length = zeros(n)
        """Steps of the present episodes."""
        self.action = zeros(n, self.n_actions)
        self.last_action = zeros(n, self.n_actions)
        self.commands: dict[str, Array] = {}
        self._until_command = {name: zeros(n) for name in task.commands}
        self._until_event = {name: zeros(n) for name in task.events}
        self._earned = zeros(len(task.rewards), n)
        self._log = zeros(len(task.rewards) + len(task.terminations) + 2)
        self._looks = kind == "numpy"
        self._known: dict[Any, Array] = {}

    def _zeros(self, *shape: int) -> Array:
        return self.arrays.floats(np.zeros(shape)) + 0.0  # memory of its own

    @property
    def robot(self) -> Entity:
        """The entity called `robot`."""
        return self.entities["robot"]

    def reset(self, seed: int | None = None, envs: Array | None = None) -> Observations:
        """Begin anew, in all environments or some, by number or mask: what is seen then."""
        if seed is not None:
            self.arrays.seed(seed)
        self._begin(self.every if envs is None else self._mask(envs))
        return self.observe()

    def step(self, action: Array) -> Outcome:
        """Act, (n_envs, n_actions), for `decimation` steps of the simulation."""
        given = self.arrays.floats(action)
        if given.shape != self.action.shape:
            raise KinemaError(f"action: expected values of shape {tuple(self.action.shape)}, not {tuple(given.shape)}")
        self.last_action, self.action = self.action, given
        start = 0
        for term in self.task.actions.values():
            term.apply(self, given[:, start : start + term.n])
            start += term.n
        self.scene.step(self.task.decimation)
        self._known.clear()
        self.episode_length = self.episode_length + 1
        self.total_steps += 1
        broken = self.arrays.bools(self.scene.get_error_envs_mask())
        reward = self._reward(broken)
        terminated, truncated, ends = self._ended(broken)
        done = terminated | truncated
        final, log = {}, {}
        if self.arrays.maybe(done):
            final = self._observe() if self.keeps_final_obs else {}
            log = self._episodes(done, ends)
            self._begin(done)
        self._pass_time(done)
        return Outcome(self._observe(), reward, terminated, truncated, done, final, log)

    def observe(self) -> Observations:
        """What is seen now, by group."""
        self._known.clear()
        return self._observe()

    def success(self) -> Array:
        """Whether each environment does now what it should, (n_envs,)."""
        if self.task.success is None:
            raise KinemaError(f"task {self.task.name!r} does not say what success is")
        self._known.clear()
        return self.arrays.bools(self.task.success(self))

    def once(self, key: Any, find: Callable[[], Array]) -> Array:
        """Something that several terms ask for, found once in a step."""
        if key not in self._known:
            self._known[key] = find()
        return self._known[key]

    # ------------------------------------------------------------------------------------------------ parts of a step

    def _observe(self) -> Observations:
        return {name: self._seen(group) for name, group in self.task.observations.items()}

    def _seen(self, group: ObsGroup) -> Array:
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

    def _reward(self, broken: Array) -> Array:
        if not self.task.rewards:
            return self._zeros(self.n_envs)
        terms = self.task.rewards.values()
        own = [(term.weight * self.step_dt) * self.arrays.floats(term.func(self, **term.params)) for term in terms]
        earned = self.arrays.xp.where(broken, 0.0, self.arrays.xp.stack(own))  # what is no number any more is nothing
        self._earned = self._earned + earned
        return earned.sum(axis=0)

    def _ended(self, broken: Array) -> tuple[Array, Array, list[Array]]:
        terminated, truncated, ends = broken, ~self.every, [broken]
        for term in self.task.terminations.values():
            ends.append(self.arrays.bools(term.func(self, **term.params)))
            if term.time_out:
                truncated = truncated | ends[-1]
            else:
                terminated = terminated | ends[-1]
        return terminated, truncated & ~terminated, ends

    def _episodes(self, done: Array, ends: list[Array]) -> dict[str, Any]:
        """Means over the episodes that end."""
        xp = self.arrays.xp
        seconds = self.episode_length * self.step_dt
        rows = xp.concatenate([self._earned / seconds, self.arrays.floats(xp.stack(ends)), seconds[None]], axis=0)
        count = done.sum()
        mean = xp.where(done, rows, 0.0).sum(axis=1) / xp.clip(count, 1, None)
        self._log = xp.where(count > 0, mean, self._log)
        names = [f"Episode_Reward/{name}" for name in self.task.rewards]
        names += [f"Episode_Termination/{name}" for name in ("broken", *self.task.terminations)]
        values = [float(x) for x in self._log] if self._looks else self._log
        return dict(zip([*names, "Episode/length_s"], values, strict=True))

    def _begin(self, envs: Array) -> None:
        """Begin an episode in some environments."""
        for term in self.task.curriculum.values():
            term.func(self, envs, **term.params)
        self.scene.reset(envs, keyframe=self.task.keyframe)
        self._happen("reset", envs)
        self.episode_length = self._with(envs, 0.0, self.episode_length)
        self.action = self._with(envs[:, None], 0.0, self.action)
        self.last_action = self._with(envs[:, None], 0.0, self.last_action)
        self._earned = self._with(envs, 0.0, self._earned)
        for name in self.task.commands:
            self._command(name, envs)
        for name, term in self.task.events.items():
            if term.mode == "interval":
                self._wait(self._until_event, name, term.interval_range_s, envs)
        self._known.clear()

    def _happen(self, mode: str, envs: Array) -> None:
        for term in self.task.events.values():
            if term.mode == mode:
                term.func(self, envs, **term.params)

    def _pass_time(self, done: Array) -> None:
        """What happens every so often, but not in episodes that have just begun."""
        for name in self.task.commands:
            due = self._due(self._until_command, name, done)
            if self.arrays.maybe(due):
                self._command(name, due)
        for name, term in self.task.events.items():
            if term.mode != "interval":
                continue
            due = self._due(self._until_event, name, done)
            if self.arrays.maybe(due):
                self._wait(self._until_event, name, term.interval_range_s, due)
                term.func(self, due, **term.params)
                self._known.clear()

    def _due(self, until: dict[str, Array], name: str, done: Array) -> Array:
        until[name] = self._with(done, until[name], until[name] - self.step_dt)
        return ~done & (until[name] <= 0.0)

    def _wait(self, until: dict[str, Array], name: str, seconds: tuple[float, float], envs: Array) -> None:
        until[name] = self._with(envs, self.arrays.uniform(*seconds, (self.n_envs,)), until[name])

    def _command(self, name: str, envs: Array) -> None:
        term = self.task.commands[name]
        drawn = self.arrays.floats(term.draw(self))
        before = self.commands.get(name)
        self.commands[name] = drawn if before is None else self._with(envs[:, None], drawn, before)
        self._wait(self._until_command, name, term.resampling_time_range, envs)

    def _with(self, mask: Array, new: Any, old: Array) -> Array:
        return self.arrays.xp.where(mask, new, old)

    def _mask(self, envs: Array) -> Array:
        """From numbers or a mask."""
        mask = ~self.every
        mask[envs] = True
        return mask


def _refuse_nonsense(task: Task) -> None:
    if task.decimation < 1 or not task.episode_length_s > 0.0:
        raise KinemaError(f"task {task.name!r}: at least one step to an action, and episodes that take some time")
    if "policy" not in task.observations:
        raise KinemaError(f"task {task.name!r}: there is no group of observations called 'policy'")
    for name, event in task.events.items():
        if event.mode not in MODES:
            raise KinemaError(f"event {name!r}: mode {event.mode!r} is none of {', '.join(MODES)}")

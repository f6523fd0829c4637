"""A recipe's scene, built once, on which episodes are played in groups."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kinema.foundation import KinemaError
from kinema.scene import RANDOM_KINDS, Draw, Entity, Scene

from .changes import apply_to_parts, sort
from .policies import Policy, found, generators_in_turn, of_numpy
from .recipes import Recipe


@dataclass(frozen=True, slots=True)
class OfEpisodes(Draw):
    """A distribution that gives each episode its own numbers, whichever environment it is played in."""

    episodes: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    def numbers(self, envs: np.ndarray, items: tuple[int, ...], seed: int, purpose: str) -> np.ndarray:
        """Numbers for some environments, (environments, *items)."""
        own = items if self.each == "item" else (1,) * len(items)
        key = zlib.crc32(purpose.encode())
        if self.each == "all":
            rows = [self._draw(np.random.default_rng([seed, key]), own)] * len(envs)
        else:
            rows = [self._draw(g, own) for g in generators_in_turn(seed, self.episodes[envs], key)]
        return np.broadcast_to(np.array(rows), (len(envs), *items))


@dataclass(frozen=True, slots=True)
class Played:
    """A group of episodes, a row for each step that was taken, one episode after the other."""

    episode: np.ndarray
    step: np.ndarray
    obs: np.ndarray
    """What was seen before each action, (rows, k)."""
    action: np.ndarray
    reward: np.ndarray
    done: np.ndarray
    """Whether the episode ended with this step, before its time was over."""
    broken: np.ndarray
    """Whether it ended because numbers were no longer finite."""

    def returns(self) -> np.ndarray:
        """What each episode earned, in their order."""
        starts = np.flatnonzero(self.step == 0)
        return np.add.reduceat(self.reward.astype(np.float64), starts) if len(starts) else np.zeros(0)


class Stage:
    """A scene with room for a group of episodes.

    Args:
        recipe: what is played.
        group: how many episodes are played at once.
    """

    def __init__(self, recipe: Recipe, group: int) -> None:
        self.recipe = recipe
        self.group = group
        changes = sort(recipe.changes)
        self.controller: dict[str, Any] = {}
        """Parameters of the policy."""
        descriptions = recipe.descriptions()
        apply_to_parts(changes.parts, descriptions)
        try:
            self.scene = Scene(**{"quiet": True, **recipe.scene, **changes.scene})
        except TypeError as error:
            raise KinemaError(f"recipe: scene: {error}") from None
        put = zip(descriptions, recipe.things, strict=True)
        self.entities: list[Entity] = [self.scene.add(what, **one.options) for what, one in put]
        self.scene.build(group, per_env=sorted({RANDOM_KINDS[name].asks for name in recipe.randomize}))
        self._tuned: set[str] = set()
        self._as_built = {name: np.array(self.robot._built(name)) for name in ("kp", "kv")}
        self.tune(recipe)
        self.episodes = np.arange(group)
        self.step = 0
        """How many actions the episodes have had."""
        self.action = np.zeros((group, 0), np.float32)
        """The last one."""
        functions = {"observe": recipe.observe, "reward": recipe.reward, "until": recipe.until}
        self._functions = {name: found(f, name) for name, f in functions.items() if f is not None}

    @property
    def robot(self) -> Entity:
        """The first entity, which policies act on."""
        return self.entities[0]

    @property
    def seconds(self) -> float:
        """Time of an action [s]."""
        return self.scene.dt * self.recipe.decimation

    def tune(self, recipe: Recipe) -> None:
        """Take over gains and the controller's parameters of a recipe that differs in nothing else."""
        changes = sort(recipe.changes)
        self.controller = changes.controller
        for name, built in self._as_built.items():
            wanted = [(joint, value) for gain, joint, value in changes.gains if gain == name]
            if wanted or name in self._tuned:
                getattr(self.robot, f"set_dofs_{name}")(built)
                self._tuned.add(name)
            for joint, value in wanted:
                getattr(self.robot, f"set_dofs_{name}")(value, joint or None)

    def play(self, episodes: np.ndarray, policy: Policy, steps: int | None = None) -> Played:
        """Play some episodes, at most a group of them, by their numbers.

        Args:
            episodes: which.
            policy: see `rollouts`.
            steps: how many actions they have at most; None for what the recipe says.
        """
        wanted = len(episodes)
        if not 0 < wanted <= self.group:
            raise KinemaError(f"play: expected 1 to {self.group} episodes, not {wanted}")
        # a group is always full: no result depends on how many there are
        self.episodes = np.concatenate([episodes, np.full(self.group - wanted, episodes[-1])])
        chosen = None if policy is None else found(policy, "policy")
        act = None if chosen is None else of_numpy(chosen)
        self._begin(getattr(chosen, "begin", None))
        limit = self.recipe.steps if steps is None else steps
        taken: dict[str, list[np.ndarray]] = {
            name: [] for name in ("obs", "action", "reward", "done", "broken", "going")
        }
        going = np.ones(self.group, np.bool_)
        for step in range(limit):
            self.step = step
            obs = self._observe()
            self._act(act, obs)
            self.scene.step(self.recipe.decimation)
            broken = np.asarray(self.scene.get_error_envs_mask(), np.bool_)
            ended = broken | self._told("until", np.bool_)
            reward = np.where(broken, 0.0, self._told("reward", np.float32))
            rows = (obs, self.action, reward, ended, broken, going.copy())
            for name, row in zip(taken, rows, strict=True):
                taken[name].append(row)
            going &= ~ended
            if not going[:wanted].any():
                break
        return _by_episode(taken, self.episodes[:wanted])

    # ------------------------------------------------------------------------------------------- parts of an episode

    def _begin(self, tell: Callable[..., Any] | None) -> None:
        recipe = self.recipe
        self.scene.reset(keyframe=recipe.keyframe)
        draws: dict[str, Any] = {
            name: OfEpisodes(d.kind, d.a, d.b, d.how, d.each, self.episodes) for name, d in recipe.randomize.items()
        }
        if draws:
            self.scene.randomize(seed=recipe.seed, **draws)
        self._scatter(*recipe.start)
        self.action = np.zeros((self.group, 0), np.float32)
        if tell is not None:
            tell(self.episodes, recipe.seed)

    def _scatter(self, position: float, velocity: float) -> None:
        """Move joints from where they start; bases and balls stay as they are, but for their velocity."""
        if not position and not velocity:
            return
        joints, info = self.scene.running.model.joints, self.robot.info
        own = range(info.joint_start, info.joint_end)
        plain = [int(joints.q_start[j]) - info.q_start for j in own if joints.q_end[j] - joints.q_start[j] == 1]
        generators = generators_in_turn(self.recipe.seed, self.episodes, zlib.crc32(b"start"))
        qpos, qvel = (np.array(x, np.float64) for x in (self.robot.get_qpos(), self.robot.get_qvel()))
        for row, generator in enumerate(generators):
            qpos[row, plain] += generator.uniform(-position, position, len(plain))
            qvel[row] += generator.uniform(-velocity, velocity, qvel.shape[1])
        self.robot.set_qpos(qpos)
        self.robot.set_qvel(qvel)

    def _observe(self) -> np.ndarray:
        observe = self._functions.get("observe")
        seen = observe(self) if observe else np.hstack([self.robot.get_qpos(), self.robot.get_qvel()])
        obs = np.ascontiguousarray(seen, np.float32)
        if obs.ndim != 2 or len(obs) != self.group:
            raise KinemaError(f"observe: expected an array of shape ({self.group}, k), not {obs.shape}")
        return obs

    def _act(self, act: Callable[..., Any] | None, obs: np.ndarray) -> None:
        if act is None:
            return
        action = np.asarray(act(obs, **self.controller), np.float32)
        if action.ndim != 2 or len(action) != self.group:
            raise KinemaError(f"policy: expected an array of shape ({self.group}, k), not {action.shape}")
        self.action = action
        if self.recipe.control == "actuators":
            self.robot.control(action)
        else:
            names = None if self.recipe.dofs is None else list(self.recipe.dofs)
            getattr(self.robot, f"control_dofs_{self.recipe.control}")(action, names)

    def _told(self, name: str, kind: Any) -> np.ndarray:
        function = self._functions.get(name)
        if function is None:
            return np.zeros(self.group, kind)
        values = np.asarray(function(self), kind)
        if values.shape != (self.group,):
            raise KinemaError(f"{name}: expected an array of shape ({self.group},), not {values.shape}")
        return values


def _by_episode(taken: dict[str, list[np.ndarray]], episodes: np.ndarray) -> Played:
    """From steps of all environments to rows of episodes."""
    stacked = {name: np.stack(rows, axis=1)[: len(episodes)] for name, rows in taken.items()}
    going = stacked["going"]
    number, step = np.nonzero(going)
    return Played(
        episodes[number].astype(np.int64),
        step.astype(np.int32),
        stacked["obs"][going],
        stacked["action"][going],
        stacked["reward"][going].astype(np.float32),
        stacked["done"][going],
        stacked["broken"][going],
    )

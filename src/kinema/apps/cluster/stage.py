"""A recipe's scene, built once, on which episodes are played in groups."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from kinema.foundation import KinemaError
from kinema.scene import RANDOM_KINDS, Entity, Scene

from .changes import apply_to_parts, sort
from .drawing import OfEpisodes, uniforms
from .played import Played, Taken
from .policies import Policy, found, of_numpy
from .recipes import Recipe


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
        limit, nothing = self.recipe.steps if steps is None else steps, np.zeros(self.group, np.float32)
        taken = Taken(self.episodes[:wanted], limit)
        for step in range(limit):
            self.step = step
            obs = self._observe()
            self._act(act, obs)
            self.scene.step(self.recipe.decimation)
            broken = np.asarray(self.scene.get_error_envs_mask(), np.bool_)
            until, reward = self._told("until", np.bool_), self._told("reward", np.float32)
            ended = broken if until is None else broken | until
            reward = nothing if reward is None else np.where(broken, 0.0, reward)
            taken.note(obs=obs, action=self.action, reward=reward, done=ended, broken=broken)
            if not taken.going.any():
                break
        return taken.rows()

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
        qpos, qvel = (np.array(x, np.float64) for x in (self.robot.get_qpos(), self.robot.get_qvel()))
        n_drawn = len(plain) + qvel.shape[1]
        drawn = 2.0 * uniforms(self.recipe.seed, self.episodes, zlib.crc32(b"start"), n_drawn) - 1.0
        qpos[:, plain] += position * drawn[:, : len(plain)]
        qvel += velocity * drawn[:, len(plain) :]
        self.robot.set_qpos(qpos)
        self.robot.set_qvel(qvel)

    def _observe(self) -> np.ndarray:
        observe = self._functions.get("observe")
        if observe is None:
            return self._coordinates()
        obs = np.ascontiguousarray(observe(self), np.float32)
        if obs.ndim != 2 or len(obs) != self.group:
            raise KinemaError(f"observe: expected an array of shape ({self.group}, k), not {obs.shape}")
        return obs

    def _coordinates(self) -> np.ndarray:
        """Where the robot is and how it moves, from the scene's own memory: getters would copy it twice more."""
        memory, info = self.scene.running.memory, self.robot.info
        n_qs = info.q_end - info.q_start
        obs = np.zeros((self.group, n_qs + info.dof_end - info.dof_start), np.float32)
        obs[:, :n_qs] = memory.all("qpos")[info.q_start : info.q_end].T
        obs[:, n_qs:] = memory.all("vel")[info.dof_start : info.dof_end].T
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

    def _told(self, name: str, kind: Any) -> np.ndarray | None:
        """What a function of the recipe says of each environment, if it has one."""
        function = self._functions.get(name)
        if function is None:
            return None
        values = np.asarray(function(self), kind)
        if values.shape != (self.group,):
            raise KinemaError(f"{name}: expected an array of shape ({self.group},), not {values.shape}")
        return values

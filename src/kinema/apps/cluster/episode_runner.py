"""Runs groups of episodes of an environment specification; random numbers depend on seed and episode number only."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kinema.core import KinemaError
from kinema.scene import RANDOMIZABLE_PARAMETERS, Distribution, Entity, Scene

from .env_spec import EnvSpec, Policy, apply_to_descriptions, as_numpy_policy, group_changes, resolve_function

# ------------------------------------------------------------------------------------------------------- random numbers

_PHILOX_MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
_PHILOX_KEY_INCREMENTS = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
_PHILOX_ROUNDS = 10
_LOW_32_BITS = np.uint64(0xFFFFFFFF)
_SHIFT_32 = np.uint64(32)


@dataclass(frozen=True, slots=True)
class EpisodeDistribution(Distribution):
    """Distribution whose samples depend on the episode number, not on the environment that runs the episode."""

    episodes: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    def sample(self, envs: np.ndarray, element_shape: tuple[int, ...], seed: int, stream: str) -> np.ndarray:
        """Samples for some environments, shape (environments, *element_shape)."""
        sample_shape = element_shape if self.sample_per == "item" else (1,) * len(element_shape)
        key, episodes = zlib.crc32(stream.encode()), self.episodes[envs]
        if self.sample_per == "all":
            rows = np.array([self._sample(np.random.default_rng([seed, key]), sample_shape)] * len(envs))
        elif self.kind == "normal":
            rows = np.array([self._sample(g, sample_shape) for g in iterate_episode_generators(seed, episodes, key)])
        else:
            rows = self._inverse_cdf(episode_uniforms(seed, episodes, key, math.prod(sample_shape))).reshape(
                -1, *sample_shape
            )
        return np.broadcast_to(rows, (len(envs), *element_shape))

    def _inverse_cdf(self, units: np.ndarray) -> np.ndarray:
        """Inverse CDF of the uniform or log-uniform distribution at probabilities; bitwise equal to NumPy's samples."""
        if self.kind == "uniform":
            return self.a + (self.b - self.a) * units
        low, high = math.log(self.a), math.log(self.b)
        return np.exp(low + (high - low) * units)


def episode_generators(seed: int, episodes: np.ndarray, stream: int) -> list[np.random.Generator]:
    """Random generator of each episode for one purpose; depends on seed, stream and episode number only."""
    return [np.random.default_rng([seed, stream, int(episode)]) for episode in episodes]


def iterate_episode_generators(seed: int, episodes: np.ndarray, stream: int) -> Iterator[np.random.Generator]:
    """Random generator of each episode in turn; each must be used before the next is requested.

    One Philox generator is repositioned by its counter: creating a generator takes longer than sampling from it.
    """
    bits = np.random.Philox(np.random.SeedSequence([seed, stream]))
    generator, state = np.random.Generator(bits), bits.state
    for episode in episodes:
        state["state"]["counter"][:] = 0, int(episode), 0, 0  # streams are 2^64 blocks of four numbers apart
        bits.state = state
        yield generator


def episode_uniforms(seed: int, episodes: np.ndarray, stream: int, count: int) -> np.ndarray:
    """Uniform samples in [0, 1) of all episodes, shape (episodes, count), equal to `random(count)` of each generator.

    Philox is counter-based, so that the counters of all episodes are evaluated at once; the generators are those of
    `iterate_episode_generators`, whose repositioning takes a tenth of the time of a short episode.
    """
    bits = np.random.Philox(np.random.SeedSequence([seed, stream]))
    blocks = np.arange(1, -(-count // 4) + 1, dtype=np.uint64)
    shape = (len(episodes), len(blocks))
    first = np.broadcast_to(blocks, shape)
    second = np.broadcast_to(np.asarray(episodes, np.uint64)[:, None], shape)
    zero = np.zeros(shape, np.uint64)
    words = np.stack(_philox((first, second, zero, zero), bits.state["state"]["key"]), axis=-1)
    return ((words >> np.uint64(11)) * 2.0**-53).reshape(len(episodes), -1)[:, :count]


def _philox(counter: tuple[np.ndarray, ...], key: np.ndarray) -> tuple[np.ndarray, ...]:
    """Ten rounds of Philox4x64 (Salmon et al. 2011) of counters: four words of 64 bits each."""
    c0, c1, c2, c3 = counter
    k0, k1 = (int(k) for k in key)
    for _ in range(_PHILOX_ROUNDS):
        high0, low0 = _multiply_128(_PHILOX_MULTIPLIERS[0], c0)
        high1, low1 = _multiply_128(_PHILOX_MULTIPLIERS[1], c2)
        c0, c1, c2, c3 = high1 ^ c1 ^ np.uint64(k0), low1, high0 ^ c3 ^ np.uint64(k1), low0
        k0, k1 = ((k + step) & 0xFFFFFFFFFFFFFFFF for k, step in zip((k0, k1), _PHILOX_KEY_INCREMENTS, strict=True))
    return c0, c1, c2, c3


def _multiply_128(factor: int, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Upper and lower 64 bits of the 128-bit products of a factor and 64-bit values."""
    a1, a0 = np.uint64(factor >> 32), np.uint64(factor & 0xFFFFFFFF)
    b1, b0 = values >> _SHIFT_32, values & _LOW_32_BITS
    cross = a1 * b0 + (a0 * b0 >> _SHIFT_32)
    middle = a0 * b1 + (cross & _LOW_32_BITS)
    return a1 * b1 + (cross >> _SHIFT_32) + (middle >> _SHIFT_32), np.uint64(factor) * values


# --------------------------------------------------------------------------------------------------------- step records

_COLUMN_DTYPES = {"obs": np.float32, "action": np.float32, "reward": np.float32, "done": np.bool_, "broken": np.bool_}


@dataclass(frozen=True, slots=True)
class EpisodeBatch:
    """Group of episodes with one row per step, ordered by episode, then step."""

    episode: np.ndarray
    step: np.ndarray
    obs: np.ndarray
    """Observation before each action, shape (rows, k)."""
    action: np.ndarray
    reward: np.ndarray
    done: np.ndarray
    """Whether the episode terminated with this step, before the maximum number of steps."""
    broken: np.ndarray
    """Whether the episode terminated because the state was no longer finite."""

    def returns(self) -> np.ndarray:
        """Return (undiscounted sum of rewards) of each episode, in order."""
        starts = np.flatnonzero(self.step == 0)
        return np.add.reduceat(self.reward.astype(np.float64), starts) if len(starts) else np.zeros(0)


class EpisodeRecorder:
    """Buffer for the steps of running episodes, laid out episode by episode.

    Args:
        episodes: episode numbers.
        max_steps: maximum number of steps of an episode.
    """

    def __init__(self, episodes: np.ndarray, max_steps: int) -> None:
        self._episodes, self._max_steps = episodes.astype(np.int64), max_steps
        self._arrays: dict[str, np.ndarray] = {}
        self._lengths = np.zeros(len(episodes), np.int64)
        self._step = 0
        self.is_running = np.ones(len(episodes), np.bool_)
        """Mask of the episodes that have not terminated, shape (episodes,)."""

    def record(self, **rows: np.ndarray) -> None:
        """Append one step of all environments, by column (`obs`, `action`, ...); surplus rows are ignored."""
        count = len(self._episodes)
        for name, row in rows.items():
            if name not in self._arrays:
                self._arrays[name] = np.zeros((count, self._max_steps, *row.shape[1:]), _COLUMN_DTYPES[name])
            self._arrays[name][:, self._step] = row[:count]
        self._step += 1
        self._lengths[self.is_running] = self._step
        self.is_running &= ~rows["done"][:count]

    def to_batch(self) -> EpisodeBatch:
        """All recorded steps, without steps after the end of an episode."""
        steps = np.arange(self._max_steps, dtype=np.int32)
        if self._lengths.min(initial=self._max_steps) == self._max_steps:  # all episodes have full length: no copy
            columns = [self._arrays[name].reshape(-1, *self._arrays[name].shape[2:]) for name in _COLUMN_DTYPES]
            return EpisodeBatch(
                np.repeat(self._episodes, self._max_steps), np.tile(steps, len(self._episodes)), *columns
            )
        number, step = np.nonzero(steps < self._lengths[:, None])
        return EpisodeBatch(
            self._episodes[number], steps[step], *(self._arrays[name][number, step] for name in _COLUMN_DTYPES)
        )


# ------------------------------------------------------------------------------------------------------- episode runner


class EpisodeRunner:
    """Built scene that runs groups of episodes of an environment specification.

    Args:
        env_spec: the specification.
        group_size: number of environments, and of episodes that run at once.
    """

    def __init__(self, env_spec: EnvSpec, group_size: int) -> None:
        self.env_spec = env_spec
        self.group_size = group_size
        changes = group_changes(env_spec.parameter_overrides)
        self.controller_parameters: dict[str, Any] = {}
        """Parameters of the policy."""
        descriptions = env_spec.load_descriptions()
        apply_to_descriptions(changes.elements, descriptions)
        try:
            self.scene = Scene(**{"quiet": True, **env_spec.scene, **changes.scene})
        except TypeError as error:
            raise KinemaError(f"recipe: scene: {error}") from None
        pairs = zip(descriptions, env_spec.entities, strict=True)
        self.entities: list[Entity] = [self.scene.add(source, **entity.options) for source, entity in pairs]
        self.scene.build(
            group_size, per_env=sorted({RANDOMIZABLE_PARAMETERS[name].per_env_name for name in env_spec.randomize})
        )
        self._modified_gains: set[str] = set()
        self._built_gains = {name: getattr(self.robot, f"get_dofs_{name}")() for name in ("kp", "kv")}
        self.update_gains_and_controller(env_spec)
        self.episodes = np.arange(group_size)
        self.step = 0
        """Number of actions of the current episodes so far."""
        self.action = np.zeros((group_size, 0), np.float32)
        """Last action, shape (group_size, n)."""
        functions = {"observe": env_spec.observe, "reward": env_spec.reward, "until": env_spec.until}
        self._functions = {name: resolve_function(f, name) for name, f in functions.items() if f is not None}

    @property
    def robot(self) -> Entity:
        """First entity of the scene, which policies act on."""
        return self.entities[0]

    @property
    def step_dt(self) -> float:
        """Duration of an action [s]."""
        return self.scene.dt * self.env_spec.decimation

    def update_gains_and_controller(self, env_spec: EnvSpec) -> None:
        """Apply gains and policy parameters of a specification that is otherwise equal to that of the built scene."""
        changes = group_changes(env_spec.parameter_overrides)
        self.controller_parameters = changes.controller
        for name, built in self._built_gains.items():
            wanted = [(joint, value) for gain, joint, value in changes.gains if gain == name]
            if wanted or name in self._modified_gains:
                getattr(self.robot, f"set_dofs_{name}")(built)
                self._modified_gains.add(name)
            for joint, value in wanted:
                getattr(self.robot, f"set_dofs_{name}")(value, joint or None)

    def run_episodes(self, episodes: np.ndarray, policy: Policy, max_steps: int | None = None) -> EpisodeBatch:
        """Run episodes, given by number; at most one group.

        Args:
            episodes: episode numbers.
            policy: see `rollouts`.
            max_steps: maximum number of actions; None for the value of the specification.
        """
        wanted = len(episodes)
        if not 0 < wanted <= self.group_size:
            raise KinemaError(f"play: expected 1 to {self.group_size} episodes, not {wanted}")
        # a group is always full, so that results do not depend on the number of episodes
        self.episodes = np.concatenate([episodes, np.full(self.group_size - wanted, episodes[-1])])
        chosen = None if policy is None else resolve_function(policy, "policy")
        act = None if chosen is None else as_numpy_policy(chosen)
        self._start_episodes(getattr(chosen, "begin", None))
        limit, nothing = self.env_spec.steps if max_steps is None else max_steps, np.zeros(self.group_size, np.float32)
        recorder = EpisodeRecorder(self.episodes[:wanted], limit)
        for step in range(limit):
            self.step = step
            obs = self._observe()
            self._act(act, obs)
            self.scene.step(self.env_spec.decimation)
            broken = np.asarray(self.scene.get_error_envs_mask(), np.bool_)
            until, reward = self._evaluate("until", np.bool_), self._evaluate("reward", np.float32)
            ended = broken if until is None else broken | until
            reward = nothing if reward is None else np.where(broken, 0.0, reward)
            recorder.record(obs=obs, action=self.action, reward=reward, done=ended, broken=broken)
            if not recorder.is_running.any():
                break
        return recorder.to_batch()

    # ------------------------------------------------------------------------------------------- parts of an episode

    def _start_episodes(self, notify_policy: Callable[..., Any] | None) -> None:
        """Reset the scene, sample randomized parameters and initial state, and notify the policy."""
        spec = self.env_spec
        self.scene.reset(keyframe=spec.keyframe)
        draws: dict[str, Any] = {
            name: EpisodeDistribution(d.kind, d.a, d.b, d.operation, d.sample_per, self.episodes)
            for name, d in spec.randomize.items()
        }
        if draws:
            self.scene.randomize(seed=spec.seed, **draws)
        self._randomize_start(*spec.start_noise)
        self.action = np.zeros((self.group_size, 0), np.float32)
        if notify_policy is not None:
            notify_policy(self.episodes, spec.seed)

    def _randomize_start(self, position_noise: float, velocity_noise: float) -> None:
        """Add uniform noise to the positions of one-coordinate joints and to all velocities."""
        if not position_noise and not velocity_noise:
            return
        joints, info = self.scene.built.model.joints, self.robot.info
        robot_joints = range(info.joint_start, info.joint_end)
        scalar_qs = [
            int(joints.q_start[j]) - info.q_start for j in robot_joints if joints.q_end[j] - joints.q_start[j] == 1
        ]
        qpos, qvel = (np.array(x, np.float64) for x in (self.robot.get_qpos(), self.robot.get_qvel()))
        n_drawn = len(scalar_qs) + qvel.shape[1]
        drawn = 2.0 * episode_uniforms(self.env_spec.seed, self.episodes, zlib.crc32(b"start"), n_drawn) - 1.0
        qpos[:, scalar_qs] += position_noise * drawn[:, : len(scalar_qs)]
        qvel += velocity_noise * drawn[:, len(scalar_qs) :]
        self.robot.set_qpos(qpos)
        self.robot.set_qvel(qvel)

    def _observe(self) -> np.ndarray:
        """Observation by the function of the specification or the default, float32, shape (group_size, k)."""
        observe = self._functions.get("observe")
        if observe is None:
            return self._default_observation()
        obs = np.ascontiguousarray(observe(self), np.float32)
        if obs.ndim != 2 or len(obs) != self.group_size:
            raise KinemaError(f"observe: expected an array of shape ({self.group_size}, k), not {obs.shape}")
        return obs

    def _default_observation(self) -> np.ndarray:
        """Joint positions and velocities of the robot, read directly from the scene's arrays without extra copies."""
        memory, info = self.scene.built.arrays, self.robot.info
        n_qs = info.q_end - info.q_start
        obs = np.zeros((self.group_size, n_qs + info.dof_end - info.dof_start), np.float32)
        obs[:, :n_qs] = memory.get("qpos")[info.q_start : info.q_end].T
        obs[:, n_qs:] = memory.get("vel")[info.dof_start : info.dof_end].T
        return obs

    def _act(self, act: Callable[..., Any] | None, obs: np.ndarray) -> None:
        """Evaluate the policy on an observation and apply the action as actuator controls or joint targets."""
        if act is None:
            return
        action = np.asarray(act(obs, **self.controller_parameters), np.float32)
        if action.ndim != 2 or len(action) != self.group_size:
            raise KinemaError(f"policy: expected an array of shape ({self.group_size}, k), not {action.shape}")
        self.action = action
        if self.env_spec.control == "actuators":
            self.robot.control(action)
        else:
            names = None if self.env_spec.dofs is None else list(self.env_spec.dofs)
            getattr(self.robot, f"control_dofs_{self.env_spec.control}")(action, names)

    def _evaluate(self, name: str, dtype: Any) -> np.ndarray | None:
        """Values of a function of the specification, shape (group_size,); None if there is no such function."""
        function = self._functions.get(name)
        if function is None:
            return None
        values = np.asarray(function(self), dtype)
        if values.shape != (self.group_size,):
            raise KinemaError(f"{name}: expected an array of shape ({self.group_size},), not {values.shape}")
        return values

"""Terms of a task: observations, rewards, terminations, events, curricula, actions and commands.

Names follow Isaac Lab and mjlab. The function of a term is called with the running task and then `params`, and returns
an array with one row per environment: NumPy, or PyTorch on a GPU (`env.arrays`). Subsets of environments are boolean
masks, which need no synchronisation with the GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kinema.scene import Entity, Scene

TermFunction = Callable[..., Any]
Entities = dict[str, "Entity"]


@dataclass(kw_only=True, slots=True)
class Term:
    """A function of the running task and its keyword arguments."""

    func: TermFunction
    params: dict[str, Any] = field(default_factory=dict)


@dataclass(kw_only=True, slots=True)
class ObsTerm(Term):
    """Observation term, (n_envs, k): noise is added, then values are clipped, then scaled."""

    noise: float = 0.0
    """Half-width of uniform noise, independent for each value."""
    clip: tuple[float, float] | None = None
    scale: float | tuple[float, ...] = 1.0


@dataclass(kw_only=True, slots=True)
class ObsGroup:
    """Group of observations, concatenated to one array: `policy`, `critic`, ..."""

    terms: Mapping[str, ObsTerm]
    enable_corruption: bool = False
    """Whether noise is added."""


@dataclass(kw_only=True, slots=True)
class RewTerm(Term):
    """Reward rate, (n_envs,): the reward of a step is the weighted sum of all terms times the step duration."""

    weight: float


@dataclass(kw_only=True, slots=True)
class DoneTerm(Term):
    """Termination condition, (n_envs,) of bool: failure, or truncation if `time_out`."""

    time_out: bool = False


@dataclass(kw_only=True, slots=True)
class EventTerm(Term):
    """Event that modifies some environments: `func(env, envs, **params)`, where `envs` is a mask, (n_envs,).

    Modes: `startup`: once, in all environments; `reset`: at the start of an episode; `interval`: at random intervals,
    independently in each environment.
    """

    mode: str = "reset"
    interval_range_s: tuple[float, float] = (5.0, 5.0)


@dataclass(kw_only=True, slots=True)
class CurrTerm(Term):
    """Curriculum: changes the difficulty of a task, `func(env, envs, **params)` for the mask of starting episodes."""


class ActionTerm:
    """Applies `action_dim` components of an action, by convention in [-1, 1] (not enforced)."""

    action_dim: int = 0

    def setup(self, env: Any) -> None:
        """Called once, when the scene is built."""

    def apply(self, env: Any, action: Any) -> None:
        """Apply actions, (n_envs, action_dim), to the robots."""
        raise NotImplementedError(f"{type(self).__name__} has no `apply`: a term of actions says what they do")


class CommandTerm:
    """Random command, (n_envs, k), sampled at the start of an episode and at random intervals."""

    resampling_time_range: tuple[float, float] = (10.0, 10.0)

    def setup(self, env: Any) -> None:
        """Called once, when the scene is built."""

    def sample(self, env: Any) -> Any:
        """New commands for all environments, (n_envs, k); only those due are used."""
        raise NotImplementedError(f"{type(self).__name__} has no `draw`: a term of commands says what is asked for")


@dataclass(kw_only=True, slots=True)
class Task:
    """Reinforcement-learning task: a scene and dictionaries of terms."""

    name: str
    build: Callable[[Scene], Entities]
    """Adds entities to a scene before it is built; returns the entities by the names used in terms."""
    actions: Mapping[str, ActionTerm]
    observations: Mapping[str, ObsGroup]
    rewards: Mapping[str, RewTerm]
    terminations: Mapping[str, DoneTerm]
    events: Mapping[str, EventTerm] = field(default_factory=dict)
    commands: Mapping[str, CommandTerm] = field(default_factory=dict)
    curriculum: Mapping[str, CurrTerm] = field(default_factory=dict)
    scene: dict[str, Any] = field(default_factory=dict)
    """Arguments of `kinema.Scene`: `dt`, `contacts`, ..."""
    build_options: dict[str, Any] = field(default_factory=dict)
    """Arguments of `Scene.build` besides the number of environments: `per_env`, `external_forces`."""
    keyframe: str | None = None
    """Keyframe that episodes start from, before events; None for the initial configuration of the files."""
    decimation: int = 1
    """Simulation steps per step of the task."""
    episode_length_s: float = 10.0
    success: TermFunction | None = None
    """Success criterion, (n_envs,) of bool; for evaluation only, not used in training."""

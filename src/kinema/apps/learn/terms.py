"""What a task is made of: terms, each a function of the environments with its parameters.

The names are those that people know from Isaac Lab and mjlab. A function gets the running task first, then `params`,
and gives an array with a row for each environment: NumPy's, or PyTorch's on a GPU (`env.arrays`). Which environments
are meant is said by masks, so that a GPU need not tell anybody how many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kinema.scene import Entity, Scene

Func = Callable[..., Any]
Entities = dict[str, "Entity"]


@dataclass(kw_only=True, slots=True)
class Term:
    """A function of the running task, and what it is called with."""

    func: Func
    params: dict[str, Any] = field(default_factory=dict)


@dataclass(kw_only=True, slots=True)
class ObsTerm(Term):
    """Something that is seen, (n_envs, k): first noise, then bounds, then a scale."""

    noise: float = 0.0
    """Half the width of what is added at random, each number its own."""
    clip: tuple[float, float] | None = None
    scale: float | tuple[float, ...] = 1.0


@dataclass(kw_only=True, slots=True)
class ObsGroup:
    """What is seen together, one array: `policy`, `critic`, ..."""

    terms: Mapping[str, ObsTerm]
    enable_corruption: bool = False
    """Whether there is noise."""


@dataclass(kw_only=True, slots=True)
class RewTerm(Term):
    """A reward per second, (n_envs,): the sum of all, times the time of a step, is what a step earns."""

    weight: float


@dataclass(kw_only=True, slots=True)
class DoneTerm(Term):
    """Whether an episode ends, (n_envs,) of bool: by failing, or because its time is over."""

    time_out: bool = False


@dataclass(kw_only=True, slots=True)
class EventTerm(Term):
    """Something that happens to some environments: `func(env, envs, **params)`, where `envs` is a mask, (n_envs,).

    `startup`: once, in all of them; `reset`: when an episode begins; `interval`: every so often, each by itself.
    """

    mode: str = "reset"
    interval_range_s: tuple[float, float] = (5.0, 5.0)


@dataclass(kw_only=True, slots=True)
class CurrTerm(Term):
    """Makes a task harder, or easier, as it is learnt: `func(env, envs, **params)` when episodes begin in a mask."""


class ActionTerm:
    """What some numbers of an action do; `n` numbers between -1 and 1 as a rule, which nothing enforces."""

    n: int = 0

    def begin(self, env: Any) -> None:
        """Called once, when the scene is built."""

    def apply(self, env: Any, action: Any) -> None:
        """Tell the robots, from (n_envs, n)."""
        raise NotImplementedError(f"{type(self).__name__} has no `apply`: a term of actions says what they do")


class CommandTerm:
    """What robots are asked for, (n_envs, k): drawn when an episode begins, and again every so often."""

    resampling_time_range: tuple[float, float] = (10.0, 10.0)

    def begin(self, env: Any) -> None:
        """Called once, when the scene is built."""

    def draw(self, env: Any) -> Any:
        """New ones for all environments, (n_envs, k); those are taken whose turn it is."""
        raise NotImplementedError(f"{type(self).__name__} has no `draw`: a term of commands says what is asked for")


@dataclass(kw_only=True, slots=True)
class Task:
    """Everything that is to be learnt: a scene, and dictionaries of terms."""

    name: str
    build: Callable[[Scene], Entities]
    """Adds what there is to a scene that is not built yet: entities by the names that terms call them."""
    actions: Mapping[str, ActionTerm]
    observations: Mapping[str, ObsGroup]
    rewards: Mapping[str, RewTerm]
    terminations: Mapping[str, DoneTerm]
    events: Mapping[str, EventTerm] = field(default_factory=dict)
    commands: Mapping[str, CommandTerm] = field(default_factory=dict)
    curriculum: Mapping[str, CurrTerm] = field(default_factory=dict)
    scene: dict[str, Any] = field(default_factory=dict)
    """What `kinema.Scene` is made with: `dt`, `contacts`, ..."""
    building: dict[str, Any] = field(default_factory=dict)
    """What `Scene.build` is called with beside the number of environments: `per_env`, `external_forces`."""
    keyframe: str | None = None
    """The state of a file that episodes begin with, before events; None for where the files show everything."""
    decimation: int = 1
    """Steps of the simulation to one of the task."""
    episode_length_s: float = 10.0
    success: Func | None = None
    """Whether it does now what it should, (n_envs,) of bool; for tests and figures, nothing is learnt from it."""

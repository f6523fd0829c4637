"""One trial of a sweep: a recipe with some parameters changed, and what it is worth."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kinema.foundation import KinemaError

from .played import Played
from .policies import Policy, found
from .recipes import Function, Recipe
from .stage import Stage

_NO_PROGRAM = ("gains.", "controller.")
"""Parameters that can be changed on a stage that is built."""
_MOST_STAGES = 4
"""How many built stages a process keeps."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What an objective function gets: parameters, and how to find out what they are worth."""

    number: int
    parameters: Mapping[str, Any]
    """By path."""
    budget: int = 1
    """How much effort is asked for: the number of episodes, say. It grows for those that do well (`halving`)."""
    recipe: Recipe | None = None
    """The recipe of the sweep with these parameters, if there is one."""
    stages: dict[str, Stage] = field(default_factory=dict, repr=False)
    """Those that this process has built."""

    def play(self, policy: Policy, episodes: int, *, group: int | None = None) -> Played:
        """Play so many episodes with these parameters, all at once or in groups; the same ones in every trial."""
        if self.recipe is None:
            raise KinemaError("this sweep has no recipe that could be played")
        size = min(group or episodes, episodes)
        stage = self._stage(size)
        played = [stage.play(np.arange(k, min(k + size, episodes)), policy) for k in range(0, episodes, size)]
        names = ("episode", "step", "obs", "action", "reward", "done", "broken")
        return Played(*(np.concatenate([getattr(p, name) for p in played]) for name in names))

    def _stage(self, group: int) -> Stage:
        """A stage with these parameters; where only gains and the controller's differ, none is built anew."""
        assert self.recipe is not None
        built_in = {k: v for k, v in self.recipe.changes.items() if not k.startswith(_NO_PROGRAM)}
        key = f"{group} {sorted(built_in.items())!r}"
        if key not in self.stages:
            while len(self.stages) >= _MOST_STAGES:
                self.stages.pop(next(iter(self.stages)))
            self.stages[key] = Stage(self.recipe, group)
        stage = self.stages[key]
        stage.tune(self.recipe)
        return stage


class Trier:
    """What tries parameters, in whatever process it is."""

    def __init__(self, objective: Function, recipe: Recipe | None) -> None:
        self._objective: Callable[..., Any] = found(objective, "objective")
        self._recipe = recipe
        self._stages: dict[str, Stage] = {}

    def __call__(self, asked: tuple[int, Mapping[str, Any], int]) -> dict[str, float]:
        """What parameters are worth; the number of the trial, its parameters, and its budget are given."""
        number, parameters, budget = asked
        recipe = None if self._recipe is None else self._recipe.changed(parameters)
        return measured(self._objective(Trial(number, parameters, budget, recipe, self._stages)))


def measured(value: Any) -> dict[str, float]:
    """What an objective gave: a number, or several by name, of which `objective` counts."""
    numbers = dict(value) if isinstance(value, Mapping) else {"objective": value}
    if "objective" not in numbers:
        raise KinemaError(f"the objective function gives {', '.join(numbers)}, but nothing called 'objective'")
    result = {str(name): float(x) for name, x in numbers.items()}
    return result if math.isfinite(result["objective"]) else {**result, "objective": math.nan}

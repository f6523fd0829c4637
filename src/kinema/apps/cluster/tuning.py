"""Ray Tune's side of sweeps: the same objective functions, searched by Ray's own algorithms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kinema.foundation import require

from .recipes import Function, Recipe
from .trials import Trier


def trainable(objective: Function, recipe: Recipe | None = None) -> Callable[[dict[str, Any]], None]:
    """A function for `ray.tune.Tuner`, whose `config` is parameters by path, and which reports `objective`.

    Args:
        objective: as for `sweep`.
        recipe: likewise.
    """
    require("ray.tune", purpose="searching with Ray Tune ('ray[tune]')")

    def train(config: dict[str, Any]) -> None:
        from ray import tune

        budget = int(config.pop("budget", 1))
        tune.report(Trier(objective, recipe)((0, config, budget)))

    return train

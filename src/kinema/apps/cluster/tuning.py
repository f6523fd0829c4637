"""Ray Tune's side of sweeps: the same objective functions, searched by Ray's own algorithms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kinema.foundation import require

from .recipes import Function, Recipe
from .trials import Trier


def tune_library() -> Any:
    """Ray Tune, which wants more packages than Ray itself: `pip install 'ray[tune]'`."""
    return require("ray.tune", purpose="searching with Ray Tune (pip install 'ray[tune]')", extra="cluster")


def trainable(objective: Function, recipe: Recipe | None = None) -> Callable[[dict[str, Any]], None]:
    """A function for `ray.tune.Tuner`, whose `config` is parameters by path, and which reports `objective`.

    Args:
        objective: as for `sweep`.
        recipe: likewise.
    """
    tune_library()

    def train(config: dict[str, Any]) -> None:
        budget = int(config.pop("budget", 1))
        tune_library().report(Trier(objective, recipe)((0, config, budget)))

    return train

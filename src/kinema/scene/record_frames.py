"""What is recorded: the scene that it is of, and its frames."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from kinema.description import Robot, World
from kinema.foundation import Pose

from .running import Running


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A scene, as far as recordings look at it."""

    running: Running
    entities: Sequence[tuple[Robot | World, Pose | None]]
    """The description of each, and where it was put."""
    sensors: Callable[[], np.ndarray]
    """What all sensors tell now, (n_envs, numbers)."""
    variants: Sequence[tuple[Sequence[Robot | World], np.ndarray]]
    """What each may look like, and which of these each environment has, (n_envs,)."""


@dataclass(slots=True, eq=False)
class Frames:
    """What was recorded: of each frame and environment a row."""

    times: list[float] = field(default_factory=list)
    """[s], as the scene counts it."""
    arrays: dict[str, list[np.ndarray]] = field(default_factory=dict)
    """By name, (environments, ...) for each frame."""

    def stacked(self) -> dict[str, np.ndarray]:
        """All arrays, frames first; `time` among them."""
        result = {"time": np.array(self.times)}
        return result | {name: np.stack(rows) for name, rows in self.arrays.items()}

"""What is measured of a simulator, and how: all of them in turn, from the same states."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ..ours import Figures


@dataclass(frozen=True, slots=True)
class TouchFigures(Figures):
    """What was measured of one simulator on one scene; `error` is Accuracy's."""

    error_99: float
    residual: float
    contacts: float
    """Of an environment, mean over steps and environments."""
    iterations: float
    """Of the solver in a step, mean likewise."""
    overflows: int
    """Environments that at any step had more contacts or rows than there was room for."""
    own_error: float | None = None
    """The median error from the same simulator in double precision, where points of contact are others by choice."""


@dataclass(slots=True)
class Counts:
    """What is added up over the steps of one rollout."""

    contacts: list[float] = field(default_factory=list)
    iterations: list[float] = field(default_factory=list)
    overflows: int = 0
    most_rows: int = 0
    most_contacts: int = 0
    first: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    """Velocities after the first step, (environments, dofs)."""


class Contestant(Protocol):
    """A simulator with one scene in it."""

    name: str
    n_envs: int
    bytes_per_env: float
    build_seconds: float
    counts: Counts
    """Of one rollout from the start, step by step."""

    def start(self) -> None:
        """Put all environments into the states to start from."""

    def run(self) -> None:
        """One rollout, to its end."""

    def is_finite(self) -> bool:
        """Whether all of the state is, after a rollout."""
        ...


def race(
    contestants: Sequence[Contestant], seconds: float, clock: Callable[[], float] = time.perf_counter
) -> list[float]:
    """The shortest time of a rollout of each [s], all in turn, for about so long each."""
    best = [float("inf")] * len(contestants)
    spent = 0.0
    while spent < seconds * len(contestants):
        for i, contestant in enumerate(contestants):
            contestant.start()
            began = clock()
            contestant.run()
            took = clock() - began
            best[i] = min(best[i], took)
            spent += took
    return best


def device_bytes(device: str) -> float:
    """Memory of a GPU in use by what we and MuJoCo Warp have allocated; nothing is told of a CPU.

    Simulators that nobody holds any more are swept up before: they refer to themselves, and what they leave some time
    later would be taken from what another one needs.
    """
    if device == "cpu":
        return float("nan")
    gc.collect()
    return _bytes_in_use(device)


def _bytes_in_use(device: str) -> float:
    import warp as wp

    found: Any = wp.get_device(device)
    wp.synchronize_device(found)  # what is given back is, once all that was launched has ended
    return float(wp.get_mempool_used_mem_current(found)) if found.is_mempool_supported else float("nan")

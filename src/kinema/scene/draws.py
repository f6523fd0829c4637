"""Numbers drawn by chance: from what, for what, and the same again from the same seed."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from kinema.foundation import KinemaError

from .arguments import choice

HOW = ("scale", "add", "set")
"""What becomes of a value as it was built: times what is drawn, plus it, or that itself."""
EACH = ("item", "env", "all")
"""Who gets a number of its own: each link, joint or shape in each environment; each environment; nobody."""


@dataclass(frozen=True, slots=True)
class Draw:
    """A distribution. `uniform`, `loguniform` and `normal` make one."""

    kind: str
    a: float
    b: float
    how: str | None = None
    """One of `HOW`; None for what suits the parameter."""
    each: str = "item"
    """One of `EACH`."""

    def __post_init__(self) -> None:
        choice(self.each, f"{self.kind}: each", EACH)
        if self.how is not None:
            choice(self.how, f"{self.kind}: how", HOW)
        numbers = (self.a, self.b)
        if any(isinstance(x, bool) or not isinstance(x, Real) or not math.isfinite(x) for x in numbers):
            raise KinemaError(f"{self.kind}: expected two finite numbers, not {self.a!r}, {self.b!r}")
        wrong = {"uniform": self.a > self.b, "loguniform": not 0.0 < self.a <= self.b, "normal": self.b < 0.0}
        if wrong[self.kind]:
            wanted = {"uniform": "a lower bound that is not above the upper one", "normal": "a deviation of at least 0"}
            said = wanted.get(self.kind, "positive bounds, the lower one first")
            raise KinemaError(f"{self.kind}: expected {said}, not {self.a!r}, {self.b!r}")

    def numbers(self, envs: np.ndarray, items: tuple[int, ...], seed: int, purpose: str) -> np.ndarray:
        """Numbers for some environments, (environments, *items).

        Those of an environment depend on its number, the seed and the purpose: not on how many others there are, nor on
        what else is drawn.
        """
        source = np.random.default_rng([seed, zlib.crc32(purpose.encode())])
        count = 1 if self.each == "all" else int(envs.max(initial=-1)) + 1
        own = items if self.each == "item" else (1,) * len(items)
        drawn = self._draw(source, (count, *own))
        chosen = drawn[np.zeros(len(envs), int) if self.each == "all" else envs]
        return np.broadcast_to(chosen, (len(envs), *items))

    def _draw(self, source: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        if self.kind == "normal":
            return source.normal(self.a, self.b, shape)
        if self.kind == "loguniform":
            return np.exp(source.uniform(math.log(self.a), math.log(self.b), shape))
        return source.uniform(self.a, self.b, shape)

    def applied(self, built: Any, drawn: np.ndarray, usual: str) -> np.ndarray:
        """Values as they were built, changed by what was drawn."""
        match self.how or usual:
            case "scale":
                return built * drawn
            case "add":
                return built + drawn
        return np.broadcast_to(drawn, np.broadcast_shapes(np.shape(built), drawn.shape)).copy()


def uniform(low: float, high: float, *, how: str | None = None, each: str = "item") -> Draw:
    """Any number between two, all alike.

    Args:
        low: the lower bound.
        high: the upper one.
        how: `scale` multiplies what was built, `add` is added to it, `set` replaces it; None for what suits the
            parameter: centres of mass and gravity are added to, all others scaled.
        each: whether each `item` (link, joint, shape) of each environment gets a number of its own, each `env` one for
            all of its items, or `all` share one.
    """
    return Draw("uniform", low, high, how, each)


def loguniform(low: float, high: float, *, how: str | None = None, each: str = "item") -> Draw:
    """Any number between two positive ones, all ratios alike; see `uniform`."""
    return Draw("loguniform", low, high, how, each)


def normal(mean: float, deviation: float, *, how: str | None = None, each: str = "item") -> Draw:
    """Numbers about a mean, with a standard deviation; see `uniform`."""
    return Draw("normal", mean, deviation, how, each)

"""What to try in a sweep: all combinations, random ones, or a Sobol sequence."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kinema.foundation import KinemaError
from kinema.scene import Draw

METHODS = ("grid", "random", "sobol")
Values = Sequence[Any] | Draw
"""What a parameter may be: some values, or a distribution (`km.uniform`, `km.loguniform`, `km.normal`)."""
Point = dict[str, Any]


def points(space: Mapping[str, Values], method: str, samples: int | None, seed: int) -> Iterator[Point]:
    """Parameters to try, one set after the other.

    Args:
        space: what each parameter may be, by its path.
        method: `grid` for all combinations of values, `random`, or `sobol` for points that fill the space evenly.
        samples: how many; of a grid, None for all.
        seed: of random ones, and of how a Sobol sequence is scrambled.
    """
    if method not in METHODS:
        raise KinemaError(f"sweep: {method!r} is none of {', '.join(METHODS)}, nor a generator")
    if not space:
        raise KinemaError("sweep: there is nothing to vary")
    for name, values in space.items():
        if not isinstance(values, Draw) and (isinstance(values, str) or not len(values)):
            raise KinemaError(f"sweep: {name}: expected some values or km.uniform(...), not {values!r}")
    if method == "grid":
        yield from itertools.islice(_grid(space), samples)
        return
    if samples is None or samples < 1:
        raise KinemaError(f"sweep: say how many {method} samples there are to be")
    units = _random(len(space), samples, seed) if method == "random" else _sobol(len(space), samples, seed)
    for row in units:
        yield {name: _value(values, u) for (name, values), u in zip(space.items(), row, strict=True)}


def _grid(space: Mapping[str, Values]) -> Iterator[Point]:
    continuous = [name for name, values in space.items() if isinstance(values, Draw)]
    if continuous:
        raise KinemaError(f"sweep: {continuous[0]}: a grid needs values, not a distribution")
    for combination in itertools.product(*space.values()):  # type: ignore[arg-type]  # ty: ignore[no-matching-overload]
        yield dict(zip(space, combination, strict=True))


def _random(dimensions: int, samples: int, seed: int) -> Iterator[np.ndarray]:
    """Sample k is the same however many there are."""
    for k in range(samples):
        yield np.random.default_rng([seed, k]).random(dimensions)


def _sobol(dimensions: int, samples: int, seed: int) -> np.ndarray:
    from scipy.stats import qmc

    rounds = math.ceil(math.log2(samples))  # whole powers of two keep the balance
    return qmc.Sobol(dimensions, scramble=True, rng=np.random.default_rng(seed)).random_base2(rounds)[:samples]


def _value(values: Values, u: float) -> Any:
    """What stands at a place between 0 and 1."""
    if not isinstance(values, Draw):
        return values[min(int(u * len(values)), len(values) - 1)]
    if values.kind == "uniform":
        return float(values.a + u * (values.b - values.a))
    if values.kind == "loguniform":
        return float(math.exp(math.log(values.a) + u * (math.log(values.b) - math.log(values.a))))
    from scipy.special import ndtri

    return float(values.a + values.b * ndtri(min(max(u, 1e-12), 1 - 1e-12)))

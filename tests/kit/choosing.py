"""Which of many combinations every run tests; the others are marked `exhaustive` and are run by `make test-all`."""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest


def representatives(cases: Iterable[Any], are_chosen: Callable[[Any], bool] | int) -> list[Any]:
    """All cases, of which those that are not chosen (or all but the first so many) are exhaustive."""
    found = []
    for number, case in enumerate(cases):
        is_chosen = number < are_chosen if isinstance(are_chosen, int) else are_chosen(case)
        found.append(case if is_chosen else pytest.param(case, marks=pytest.mark.exhaustive))
    return found


def representative_tuples(cases: Iterable[tuple[Any, ...]], are_chosen: Callable[[Any], bool] | int) -> list[Any]:
    """Likewise for tests of several parameters."""
    found = []
    for number, case in enumerate(cases):
        is_chosen = number < are_chosen if isinstance(are_chosen, int) else are_chosen(case)
        marks = () if is_chosen else pytest.mark.exhaustive
        found.append(pytest.param(*case, id="-".join(map(_name, case)), marks=marks))
    return found


def combinations(*axes: Iterable[Any], strength: int = 2) -> list[Any]:
    """The product of axes; all but a covering array of it are exhaustive.

    Args:
        axes: the values of each parameter.
        strength: any values of so many axes meet in some case that is chosen: with 1 each value is in one, with 2 each
            pair of values.
    """
    values = [list(axis) for axis in axes]
    chosen = covering(values, strength)
    return [
        pytest.param(*case, id="-".join(map(_name, case)), marks=() if case in chosen else pytest.mark.exhaustive)
        for case in itertools.product(*values)
    ]


def alternating(*axes: Iterable[Any]) -> list[Any]:
    """The product of axes; all are exhaustive but those in which each axis goes on to its next value (and then around).

    Each value is in one that is chosen, as with `combinations(strength=1)`, and those of shorter axes are in as many.
    """
    values = [list(axis) for axis in axes]
    chosen = {tuple(axis[i % len(axis)] for axis in values) for i in range(max(map(len, values)))}
    return [
        pytest.param(*case, id="-".join(map(_name, case)), marks=() if case in chosen else pytest.mark.exhaustive)
        for case in itertools.product(*values)
    ]


def covering(axes: Sequence[Sequence[Any]], strength: int = 2) -> list[tuple[Any, ...]]:
    """Few elements of a product in which any values of so many axes meet: the one that covers most first, and so on."""
    every = list(itertools.product(*(range(len(axis)) for axis in axes)))
    groups = list(itertools.combinations(range(len(axes)), strength))
    left = {(group, tuple(case[i] for i in group)) for case in every for group in groups}

    def covered(case: tuple[int, ...]) -> set[Any]:
        return {(group, tuple(case[i] for i in group)) for group in groups} & left

    found = []
    while left:
        best = max(every, key=lambda case: len(covered(case)))
        left -= covered(best)
        found.append(best)
    return [tuple(axes[i][number] for i, number in enumerate(case)) for case in found]


def _name(value: Any) -> str:
    """Text of a value in the name of a test, the same in all workers: of a function its name."""
    return str(value.value if isinstance(value, enum.Enum) else getattr(value, "__name__", value))

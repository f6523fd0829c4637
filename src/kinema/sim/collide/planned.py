"""What may touch between any two frames, and for how many contacts there is room: known before anything has a place."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kinema.model import Model

from ..frames import WORLD
from .most_points import most_points

ROOM = 64
"""Contacts between any two frames that there is room for at most, where nobody asks for more or fewer."""
MOST, MOST_OF_DOF = 48, 3
"""Contacts of one law that a team has room for in an environment, at least and for each degree of freedom; more where
the user asks for more between two bodies."""
MANY_DOFS, FEWER_OF_DOF = 64, 0.5
"""Degrees of freedom beyond which these are those of heaps, and how many contacts there is more room for with each."""


@dataclass(frozen=True, slots=True)
class SetKind:
    """What decides which code a set runs."""

    dimension: int
    elliptic: bool
    on_world: bool
    lively: bool
    """Whether anything bounces, or sticks better than it slides."""


@dataclass(frozen=True, slots=True)
class PlannedSet:
    """What may touch between two frames, before it has a place."""

    frames: tuple[int, int]
    kind: SetKind
    pairs: list[int]
    n_points: int
    """That the pairs can make."""
    capacity: int
    """That there is room for."""


def planned_sets(model: Model, frames: Collection[int] | None = None) -> list[PlannedSet]:
    """All sets of a model, or those between some frames, in the order in which they are kept."""
    geoms, pairs = model.geoms, model.pairs
    ends = np.sort(np.stack([geoms.frame_idx[x] for x in (pairs.geom_a, pairs.geom_b)], axis=1), axis=1)
    own = np.array([WORLD, *(range(model.n_frames) if frames is None else frames)])
    most = _most_points(model)
    numbers = np.flatnonzero((most > 0) & np.isin(ends, own).all(axis=1))
    if not len(numbers):
        return []
    keys = np.column_stack([ends[numbers], pairs.dimension[numbers]])
    order = np.lexsort(keys.T[::-1])  # stable: pairs of a set stay in order
    keys, numbers = keys[order], numbers[order]
    starts = np.flatnonzero(np.append(True, (keys[1:] != keys[:-1]).any(axis=1)))
    lively = (pairs.restitution != 0.0) | (pairs.stick > 1.0)
    columns = (
        keys[starts].tolist(),
        np.logical_or.reduceat(lively[numbers], starts).tolist(),
        np.add.reduceat(most[numbers], starts).tolist(),
        np.append(starts[1:], len(numbers)).tolist(),
    )
    sets, every, first, room = [], numbers.tolist(), 0, room_between_two(model)
    kinds: dict[tuple[int, bool, bool], SetKind] = {}
    for (a, b, dimension), is_lively, n_points, end in zip(*columns, strict=True):
        key = dimension, a == WORLD, is_lively
        if key not in kinds:
            kinds[key] = SetKind(dimension, model.options.elliptic and dimension > 1, a == WORLD, is_lively)
        sets.append(PlannedSet((a, b), kinds[key], every[first:end], n_points, min(n_points, room)))
        first = end
    return sets


def _most_points(model: Model) -> npt.NDArray[np.int64]:
    """Of each pair how many points it can make; none where its kinds pass through each other."""
    names, known = sorted(set(model.geoms.kinds)), most_points(several=model.options.multiccd)
    most = np.zeros((len(names), len(names)), np.int64)
    for i, a in enumerate(names):
        for j, b in enumerate(names):
            most[i, j] = known.get((a, b), 0)
    kinds = np.array([names.index(kind) for kind in model.geoms.kinds], np.intp)
    return most[kinds[model.pairs.geom_a], kinds[model.pairs.geom_b]]


def set_name(plan: PlannedSet) -> str:
    """What tells it apart from others."""
    return f"{plan.frames} {plan.kind.dimension}"


def may_lose_contacts(model: Model, *, team: bool = False) -> bool:
    """Whether the pairs can make more points between two frames, for a team at all, than there is room for."""
    plans = planned_sets(model)
    if team:
        return sum(plan.n_points for plan in plans) > room_for_all(model, _n_dofs_that_touch(model, plans))
    return any(plan.capacity < plan.n_points for plan in plans)


def room_for_contacts(model: Model, *, team: bool = False) -> int:
    """How many contacts there is room for: between any two frames at most, for a team at all."""
    if team:
        return room_for_all(model, _n_dofs_that_touch(model, planned_sets(model)))
    return room_between_two(model)


def room_between_two(model: Model) -> int:
    """How many contacts between any two frames there is room for, at most."""
    return ROOM if model.pairs.room is None else model.pairs.room


def room_for_all(model: Model, n_dofs: int) -> int:
    """Contacts of one law that a team of threads has room for in an environment of some degrees of freedom."""
    many = max(n_dofs - MANY_DOFS, 0)
    return max(MOST, MOST_OF_DOF * (n_dofs - many) + int(FEWER_OF_DOF * many), model.pairs.room or 0)


def _n_dofs_that_touch(model: Model, plans: Sequence[PlannedSet]) -> int:
    """Degrees of freedom of all frames that may touch anything."""
    moved = {frame for plan in plans for frame in plan.frames} - {WORLD}
    return sum(len(model.dofs_of_frame(frame)) for frame in moved)


def kinds_of(model: Model, pair: int) -> tuple[str, str]:
    """The kinds of a pair's shapes."""
    kinds, pairs = model.geoms.kinds, model.pairs
    return kinds[pairs.geom_a[pair]], kinds[pairs.geom_b[pair]]


def kinds_without_contact(model: Model) -> list[tuple[str, str]]:
    """The kinds of shapes that pass through each other."""
    kinds, pairs = model.geoms.kinds, model.pairs
    return sorted(
        {(kinds[a], kinds[b]) for a, b in zip(pairs.geom_a.tolist(), pairs.geom_b.tolist(), strict=True)}
        - set(most_points(several=True))
    )

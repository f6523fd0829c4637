"""The rows of pairs of shapes: by column, unless environments have numbers of their own."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from kinema.trace import Column, Place, Rows, Table

from ..arrays import Owner
from ..constrain.impedance import whole_power
from ..sweeps.columns import PartRow
from ..sweeps.own import with_own
from ..sweeps.sweeps import Sweeps
from .numbers import pair_columns, pair_numbers
from .planned import PlannedSet


@dataclass(frozen=True, slots=True)
class LookKind:
    """What decides how a pair is looked at."""

    kinds: tuple[str, str]
    dimension: int
    elliptic: bool
    power: int
    own_sliding: bool
    """Whether friction has a law of its own."""
    full: bool
    """Whether there may be more points than there is room; of all pairs that are alike otherwise, if of any, so that a
    search is traced and compiled once."""
    safe: bool
    """Whether no contact is stiffer than a step can carry."""
    lively: bool
    """Whether anything bounces, or sticks better than it slides."""
    own: tuple[str, ...]
    """What differs between environments."""
    listed: bool
    """Whether contacts go into a list, and others are found at the same time."""
    several: bool
    """Whether convex shapes touch in several points."""


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """A set whose pairs are looked at, with what their rows find and know beside what is theirs."""

    plan: PlannedSet
    places: Mapping[str, Place]
    numbers: Mapping[str, list[float]]


def pair_rows(s: Sweeps, wanted: Sequence[Wanted], places: Sequence[Place], *, listed: bool = False) -> Rows:
    """A row for each pair of some sets, in their order; `places` are those of the shapes."""
    if not wanted or _may_differ(s):
        rows = [row for each in wanted for row in _rows(s, each, places, listed=listed)]
        kinds = [row.kind for row in rows if isinstance(row.kind, LookKind)]
        common = _common_kinds(kinds)
        return [replace(row, kind=common[kind]) for row, kind in zip(rows, kinds, strict=True)]
    plans = [each.plan for each in wanted]
    pairs = np.array([p for plan in plans for p in plan.pairs])
    of = np.repeat(np.arange(len(plans)), [len(plan.pairs) for plan in plans])
    found = {name: Column.of([each.places[name] for each in wanted]).taken(of) for name in wanted[0].places}
    own = _places(s, places, pairs, found)
    numbers = pair_columns(s.model, s.settings, plans, of, pairs)
    for name in wanted[0].numbers:
        numbers[name] = np.array([each.numbers[name] for each in wanted])[of]
    groups = []
    for kind, at in _kinds(s, plans, of, pairs, listed=listed).items():
        mine = {name: column.taken(at) for name, column in own.items()}
        groups.append(s.part_columns(kind, at, {}, mine, numbers={name: x[at] for name, x in numbers.items()}))
    return Table(groups)


def _may_differ(s: Sweeps) -> bool:
    """Whether pairs have numbers that environments have their own of."""
    own = s.model.own
    if s.settings.per_env & {"geom_friction", "geom_sol_params", "geom_size"}:
        return True
    return own is not None and any(table == "pair" for table, *_ in own.words)


def _places(
    s: Sweeps, places: Sequence[Place], pairs: npt.NDArray[np.intp], found: Mapping[str, Column]
) -> dict[str, Column]:
    """Where pairs find things."""
    shapes = Column.of(places)
    sides = {"a": shapes.taken(s.model.pairs.geom_a[pairs]), "b": shapes.taken(s.model.pairs.geom_b[pairs])}
    numbers = (
        {"shape_numbers": Column.same(s.places["shape_numbers"], len(pairs))} if s.model.geoms.numbers.size else {}
    )
    return {**sides, **found, **numbers}


def _kinds(
    s: Sweeps, plans: Sequence[PlannedSet], of: npt.NDArray[np.intp], pairs: npt.NDArray[np.intp], *, listed: bool
) -> dict[LookKind, npt.NDArray[np.intp]]:
    """Which pairs are looked at alike."""
    info, geoms = s.model.pairs, s.model.geoms
    names = {name: i for i, name in enumerate(dict.fromkeys(geoms.kinds))}
    shapes = np.array([names[name] for name in geoms.kinds])
    kinds = {kind: i for i, kind in enumerate(dict.fromkeys(plan.kind for plan in plans))}
    sets = np.array([[kinds[plan.kind], plan.capacity < plan.n_points] for plan in plans])
    _, power = np.unique(info.solimp[pairs, 4], return_inverse=True)
    keys = [shapes[info.geom_a[pairs]], shapes[info.geom_b[pairs]], *sets[of].T]
    keys += [power.ravel(), info.solref_friction[pairs].any(axis=1)]
    _, firsts, number = np.unique(np.column_stack(keys), axis=0, return_index=True, return_inverse=True)
    result: dict[LookKind, list[npt.NDArray[np.intp]]] = {}
    for i, first in enumerate(firsts.tolist()):
        kind = _kind_of(s, plans[int(of[first])], int(pairs[first]), (), listed=listed)
        result.setdefault(kind, []).append(np.flatnonzero(number.ravel() == i))
    merged: dict[LookKind, list[npt.NDArray[np.intp]]] = {}
    for kind, common in _common_kinds(result).items():
        merged.setdefault(common, []).extend(result[kind])
    return {kind: np.sort(np.concatenate(own)) for kind, own in merged.items()}


def _common_kinds(kinds: Collection[LookKind]) -> dict[LookKind, LookKind]:
    """By kind the one that it is looked at as: kinds that differ only in `full` are one."""
    crowded = {replace(kind, full=False) for kind in kinds if kind.full}
    return {kind: replace(kind, full=replace(kind, full=False) in crowded) for kind in kinds}


def _kind_of(s: Sweeps, plan: PlannedSet, p: int, differing: tuple[str, ...], *, listed: bool) -> LookKind:
    """What decides how a pair is looked at."""
    geoms, pairs = s.model.geoms, s.model.pairs
    return LookKind(
        (geoms.kinds[pairs.geom_a[p]], geoms.kinds[pairs.geom_b[p]]),
        plan.kind.dimension,
        plan.kind.elliptic,
        whole_power(pairs.solimp[p].tolist()),
        bool(pairs.solref_friction[p].any() and plan.kind.elliptic),
        not listed and plan.capacity < plan.n_points,
        s.model.options.refsafe,
        plan.kind.lively,
        differing,
        listed,
        s.model.options.multiccd,
    )


def _rows(s: Sweeps, wanted: Wanted, places: Sequence[Place], *, listed: bool) -> list[PartRow]:
    """A row for each pair of a set, one by one."""
    geoms, pairs, plan = s.model.geoms, s.model.pairs, wanted.plan
    rows = []
    for p in plan.pairs:
        a, b, differing = int(pairs.geom_a[p]), int(pairs.geom_b[p]), _differing(s, p)
        kind = _kind_of(s, plan, p, tuple(sorted(differing)), listed=listed)
        numbers = {**with_own(s, "pair", p, pair_numbers(s.model, s.settings, plan, p)), **wanted.numbers}
        own = {"a": places[a], "b": places[b], **wanted.places, **differing}
        if geoms.numbers.size:
            own["shape_numbers"] = s.places["shape_numbers"]
        rows.append(s.row(kind, {}, own, numbers))
    return rows


def _differing(s: Sweeps, pair: int) -> dict[str, Place]:
    """Where a pair finds what differs between environments."""
    if not s.settings.per_env & {"geom_friction", "geom_sol_params", "geom_size"}:
        return {}
    found = s.arrays_of(Owner.PAIR, pair)
    own = {word: found[f"pair_{word}"] for word in ("friction", "solref", "solimp") if f"pair_{word}" in found}
    for side, geoms in (("a", s.model.pairs.geom_a), ("b", s.model.pairs.geom_b)):
        for name, place in s.arrays_of(Owner.GEOM, int(geoms[pair])).items():
            own[f"{side} {name.removeprefix('geom_')}"] = place
    return own

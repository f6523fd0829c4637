"""A filter that lets exactly the wanted pairs of geoms collide: masks, excluded bodies, explicit pairs.

Everything is worked out on tables of geoms against geoms. MuJoCo never lets geoms of one rigid body collide, nor those
of a body and its parent; beyond that its masks decide, an exclude forbids two bodies, and a pair allows two geoms
whatever else forbids it. So any masks can be put right by excludes and pairs; good masks need few.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kinema.description import (
    Collider,
    CollisionGroup,
    CollisionPair,
    CollisionRules,
    Robot,
    Shape,
    World,
    colliders,
    collision_rules,
    may_collide,
)

from .body_plan import BodyPlan
from .masks import classes_of, cover

Table = NDArray[np.bool_]
"""Geoms against geoms; both halves are filled."""
BodyPair = frozenset[int]
"""Two `id`s of bodies, or one for a body and itself; 0 is the world."""
WORLD = 0


@dataclass(slots=True, eq=False)
class Geom:
    """A collision shape in the file."""

    shape: Shape
    collider: Collider
    body: BodyPlan | None
    number: int

    @property
    def body_id(self) -> int:
        """The body's identity; 0 for the world."""
        return WORLD if self.body is None else id(self.body)


@dataclass(slots=True, eq=False)
class Filter:
    """What is written: masks, excluded bodies, explicit pairs."""

    masks: list[tuple[int, int]]
    """`contype` and `conaffinity` of each geom."""
    excluded: dict[BodyPair, CollisionPair | None] = field(default_factory=dict)
    """Bodies -> the rule that asks for it."""
    pairs: dict[tuple[int, int], CollisionPair | None] = field(default_factory=dict)
    """Numbers of two geoms -> the rule that asks for them."""

    @property
    def cost(self) -> int:
        """Elements that it takes."""
        return len(self.excluded) + len(self.pairs)


class Structure:
    """Which pairs MuJoCo allows by the tree of bodies alone."""

    possible: Table
    """One can move against the other."""
    allowed: Table
    """And they are not parent and child."""

    def __init__(self, geoms: Sequence[Geom], *, parents_collide: bool) -> None:
        self.geoms = geoms
        welds = [None if g.body is None else g.body.weld for g in geoms]
        above = [None if w is None or w.parent is None else w.parent.weld for w in welds]
        number: dict[int, int] = {}
        weld = np.array([_number(w, number) for w in welds], dtype=np.int64)
        parent = np.array([_number(w, number) for w in above], dtype=np.int64)
        moved = np.array([w is not None and not w.mocap for w in welds], dtype=bool)
        self.possible = (weld[:, None] != weld[None, :]) & (moved[:, None] | moved[None, :])
        inside = (parent[:, None] == weld[None, :]) & (weld[None, :] > 0) & (weld[:, None] > 0)
        self.allowed = self.possible if parents_collide else self.possible & ~(inside | inside.T)

    def between(self, pairs: Table) -> dict[BodyPair, None]:
        """The bodies of the pairs in a table, in the order of the geoms."""
        return {self.bodies(i, j): None for i, j in upper(pairs)}

    def bodies(self, i: int, j: int) -> BodyPair:
        """The bodies of two geoms."""
        return frozenset((self.geoms[i].body_id, self.geoms[j].body_id))


def _number(body: BodyPlan | None, known: dict[int, int]) -> int:
    """A small number for a body; 0 for the world."""
    return 0 if body is None else known.setdefault(id(body), len(known) + 1)


def upper(table: Table) -> list[tuple[int, int]]:
    """The pairs in a table, each once."""
    return [(int(i), int(j)) for i, j in np.argwhere(np.triu(table, 1))]


def wanted_pairs(described: Robot | World, geoms: Sequence[Geom]) -> Table:
    """The pairs of geoms that may collide by the description."""
    neighbours = colliders(described)[1]
    rules = collision_rules(described)
    named = _names_in([r.rules for r in rules])
    numbers, count = classes_of([_verdict_key(g, named) for g in geoms])
    first = {number: geom for geom, number in reversed(list(zip(geoms, numbers, strict=True)))}
    verdicts = np.zeros((count, count), dtype=bool)
    for i in range(count):
        for j in range(i, count):
            verdicts[i, j] = may_collide(first[i].collider, first[j].collider, rules, neighbours)
    verdicts |= verdicts.T
    index = np.array(numbers, dtype=np.int64)
    return verdicts[np.ix_(index, index)] & ~np.eye(len(geoms), dtype=bool)


def _names_in(rules: Iterable[CollisionRules]) -> set[str]:
    """Names that some rule speaks of."""
    found: set[str] = set()
    for rule in rules:
        found.update(name for pair in rule.pairs for name in (pair.a, pair.b))
        found.update(name for group in rule.groups for name in group.members)
    return found


def _verdict_key(geom: Geom, named: set[str]) -> Hashable:
    """Geoms that are equal by this have the same verdicts."""
    shape, collider = geom.shape, geom.collider
    name = shape.name if shape.name in named else None
    place = (collider.link, collider.robot, collider.body, collider.self_collide, collider.movable)
    return (*place, shape.contype, shape.conaffinity, name)


# -- putting a filter right -------------------------------------------------------------------------------------------


def mended(start: Filter, structure: Structure, wanted: Table) -> Filter:
    """The filter with excludes and pairs added until just the wanted pairs collide."""
    result = Filter(start.masks, dict(start.excluded), dict(start.pairs))
    by_masks = structure.allowed & _collide(result.masks)
    asked = np.zeros_like(wanted)
    for i, j in result.pairs:
        asked[i, j] = asked[j, i] = True
    excluded = _excluded(structure, result.excluded)
    wrong = by_masks & ~wanted & ~asked & ~excluded
    result.excluded |= {bodies: None for bodies in structure.between(wrong) if bodies not in result.excluded}
    excluded = _excluded(structure, result.excluded)
    missing = structure.possible & wanted & ~asked & (excluded | ~by_masks)
    result.pairs |= dict.fromkeys(upper(missing))
    return result


def _collide(masks: Sequence[tuple[int, int]]) -> Table:
    contype, conaffinity = (np.array([m[side] & 0xFFFFFFFF for m in masks], dtype=np.int64) for side in (0, 1))
    one_way = (contype[:, None] & conaffinity[None, :]) != 0
    return one_way | one_way.T


def _excluded(structure: Structure, excluded: Iterable[BodyPair]) -> Table:
    """The pairs of geoms that excluded bodies have."""
    table = np.zeros_like(structure.possible)
    on_body: dict[int, list[int]] = defaultdict(list)
    for geom in structure.geoms:
        on_body[geom.body_id].append(geom.number)
    for bodies in excluded:
        first, *rest = bodies
        second = rest[0] if rest else first
        if on_body[first] and on_body[second]:
            table[np.ix_(on_body[first], on_body[second])] = True
            table[np.ix_(on_body[second], on_body[first])] = True
    return table


# -- masks ------------------------------------------------------------------------------------------------------------


def made_masks(
    rules: Sequence[CollisionRules], structure: Structure, wanted: Table, plain: Filter
) -> list[tuple[int, int]] | None:
    """Masks for classes of geoms that the rules treat alike; None where there are too many."""
    numbers, count = classes_of(_rule_keys(rules, structure.geoms))
    free = structure.allowed & ~_excluded(structure, plain.excluded)
    for i, j in plain.pairs:
        free[i, j] = free[j, i] = False
    member = np.zeros((count, len(numbers)), dtype=np.int64)
    member[numbers, range(len(numbers))] = 1
    some = member @ free.astype(np.int64) @ member.T
    some_wanted = member @ (free & wanted).astype(np.int64) @ member.T

    def decided(i: int, j: int) -> bool | None:
        return None if not some[i, j] else bool(some_wanted[i, j])

    masks = cover(count, decided)
    return None if masks is None else [masks[n] for n in numbers]


def _rule_keys(rules: Sequence[CollisionRules], geoms: Sequence[Geom]) -> list[Hashable]:
    """Geoms that are equal by this are alike to masks, groups, self-collision and pairs of shapes."""
    groups = [group for r in rules for group in r.groups]
    apart = {name for r in rules for p in r.pairs if p.between == "shapes" and not p.collide for name in (p.a, p.b)}
    keys: list[Hashable] = []
    for geom in geoms:
        collider, shape = geom.collider, geom.shape
        member = tuple(i for i, group in enumerate(groups) if _is_in(geom, group))
        alone = None if collider.self_collide or collider.link is None else collider.robot
        by_name = shape.name if shape.name in apart else None
        keys.append((shape.contype, shape.conaffinity, collider.self_collide, alone, member, by_name))
    return keys


def _is_in(geom: Geom, group: CollisionGroup) -> bool:
    by_shape = group.between != "links" and geom.shape.name in group.members
    return by_shape or (group.between != "shapes" and geom.collider.link in group.members)

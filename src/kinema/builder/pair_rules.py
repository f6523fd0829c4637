"""Rules of collision by classes of geoms, for scenes whose pairs of geoms are too many for a table.

Geoms with equal filters and contact parameters form a class. The single rule of the description, `may_collide`, and the
combination of contact parameters are evaluated once for each two classes; pairs that the rule decides by the bodies or
shapes themselves (neighbours, explicit pairs) are listed. Time and memory grow with the number of geoms.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kinema.description import (
    Collider,
    CollisionPair,
    Neighbours,
    Robot,
    ScopedRules,
    colliding_pairs,
    collision_rules,
    may_collide,
)
from kinema.model import GEOM_TYPES, PairRulesInfo, PairsInfo

from .collision_geoms import (
    ContactParameters,
    GeomCollector,
    GeomRecord,
    combine_contact_parameters,
    contact_parameters_of_pair,
    pack_pair_parameters,
)
from .context import BuildContext, range_starts
from .options import option_flags
from .overlapping_links import FORMATS_WITHOUT_FILTERS, overlapping_links

MIN_RULED_GEOMS = 20
"""Number of colliding geoms from which on rules take the place of a table of pairs in scenes that allow both. With 20
boxes, a step at rest takes two thirds of the time, and a step in the air a third; a table supports more kinds of
scenes."""
MIN_RULED_GEOMS_OF_LANES = 400
"""The same if several environments run in SIMD lanes, which they do only with a table of pairs: with 100 boxes, a step
of an environment in lanes takes a third of the time."""
MAX_CLASSES = 200
"""Largest number of classes of geoms."""


@dataclass(frozen=True, slots=True, eq=False)
class _ClassMember:
    """A geom as the representative of its class."""

    entity: int
    collider: Collider
    geom: GeomRecord


def may_use_pair_rules(ctx: BuildContext, min_geoms: int) -> bool:
    """Whether there are at least `min_geoms` geoms for rules of collision; entities must all have contacts enabled."""
    descriptions = [spec.description for spec in ctx.entities]
    if any(not option_flags(x).contact for x in descriptions):
        return False
    return sum(len(ctx.colliders(entity)[0]) for entity in range(len(descriptions))) >= max(min_geoms, 1)


def collect_pair_rules(ctx: BuildContext) -> tuple[list[GeomRecord], PairRulesInfo] | None:
    """All colliding geoms, numbered, and the rules of their collisions; None with too many classes."""
    collector = GeomCollector(ctx)
    members: list[_ClassMember] = []
    for entity in range(len(ctx.entities)):
        members += [
            _ClassMember(entity, collider, geom)
            for collider in ctx.colliders(entity)[0]
            if collider.shape.enabled
            for geom in collector.geoms_of_collider(entity, collider)
        ]
    keys: dict[Hashable, int] = {}
    depends_on_entity = [_has_own_filters(ctx, entity) for entity in range(len(ctx.entities))]
    classes = [keys.setdefault(_class_key(x, own=depends_on_entity[x.entity]), len(keys)) for x in members]
    if len(keys) > MAX_CLASSES:
        return None
    first = [classes.index(i) for i in range(len(keys))]
    representatives = [members[i] for i in first]
    parameters: list[ContactParameters] = []
    rows = np.full((len(keys), len(keys)), -1, np.int32)
    row_of: dict[ContactParameters, int] = {}
    for i, a in enumerate(representatives):
        for j, b in enumerate(representatives[: i + 1]):
            if _classes_collide(ctx, a, b):
                combined = combine_contact_parameters(a.geom.contact_parameters, b.geom.contact_parameters)
                if combined not in row_of:
                    row_of[combined] = len(parameters)
                    parameters.append(combined)
                rows[i, j] = rows[j, i] = row_of[combined]
    collides = np.any(rows >= 0, axis=1)[classes]
    listed = _listed_pairs(ctx, members, collector)
    is_kept = collides | np.isin(np.arange(len(members)), [i for pair, _ in listed for i in pair])
    geoms = []
    for member in (m for m, kept in zip(members, is_kept.tolist(), strict=True) if kept):
        member.geom.index = len(geoms)
        geoms.append(member.geom)
    excluded, explicit = [], []
    for (i, j), own_parameters in listed:
        pair = sorted((members[i].geom.index, members[j].geom.index))
        excluded.append(pair)
        for contact_parameters in own_parameters:
            explicit.append([*pair, len(parameters)])
            parameters.append(contact_parameters)
    return geoms, PairRulesInfo(
        class_of_geom=np.array(classes, np.int32)[is_kept],
        row_of_classes=rows,
        parameters=_pack_rows(parameters),
        excluded=np.array(excluded, np.int32).reshape(-1, 2),
        explicit=np.array(explicit, np.int32).reshape(-1, 3),
    )


def _pack_rows(parameters: Sequence[ContactParameters]) -> PairsInfo:
    """Table of contact parameters without geoms."""
    none = np.zeros(len(parameters), np.int32)
    return PairsInfo(
        geom_a=none,
        geom_b=none,
        surface_source=np.full(len(parameters), 2, np.int32),
        solmix_weight=np.full(len(parameters), 0.5),
        rank=none,
        **pack_pair_parameters(parameters),
    )


def _has_own_filters(ctx: BuildContext, entity: int) -> bool:
    """Whether filters of an entity apply besides the bit masks, so that its geoms are in classes of their own."""
    spec = ctx.entities[entity]
    has_groups = any(r.rules.groups for r in collision_rules(spec.description))
    return has_groups or spec.self_collision is not None or any(not c.self_collide for c in ctx.colliders(entity)[0])


def _class_key(member: _ClassMember, *, own: bool) -> Hashable:
    """All properties of a geom that decide on collisions with geoms of other bodies, and its geom type."""
    collider, geom = member.collider, member.geom
    scope: Hashable = ()
    if own:  # groups list links and shapes by name
        scope = (member.entity, collider.robot, collider.link, collider.shape.name, collider.self_collide)
    return (
        scope,
        collider.shape.contype,
        collider.shape.conaffinity,
        collider.movable,
        GEOM_TYPES.index(geom.collision_shape.type),
        geom.contact_parameters,
    )


def _classes_collide(ctx: BuildContext, a: _ClassMember, b: _ClassMember) -> bool:
    """Whether geoms of two classes may collide if their bodies differ and no explicit pair decides."""
    first, second = replace(a.collider, body=0), replace(b.collider, body=1)
    if a.entity != b.entity:
        return may_collide(replace(first, robot="a"), replace(second, robot="b"), (), Neighbours({}))
    spec = ctx.entities[a.entity]
    if spec.self_collision is False and first.robot == second.robot and first.link and second.link:
        return False
    rules = [r for r in collision_rules(spec.description) if r.rules.groups]
    rules = [ScopedRules(replace(r.rules, pairs=[]), r.robot) for r in rules]
    return may_collide(first, second, rules, Neighbours({}))


def _listed_pairs(
    ctx: BuildContext, members: Sequence[_ClassMember], collector: GeomCollector
) -> list[tuple[tuple[int, int], list[ContactParameters]]]:
    """Pairs of geoms (indices in `members`) that explicit pairs, neighbouring bodies and overlapping links decide on.

    With the contact parameters of each pair of contacts; none if the geoms do not collide.
    """
    result = []
    starts = range_starts([member.entity for member in members], len(ctx.entities))
    for entity, spec in enumerate(ctx.entities):
        description = spec.description
        rules = [r for r in collision_rules(description) if r.rules.pairs or r.rules.groups]
        neighbours = ctx.colliders(entity)[1]
        joined = {tuple(sorted(pair)) for pair, allowed in neighbours.joined.items() if not allowed}
        explicit = [pair for r in rules for pair in r.rules.pairs]
        overlapping = _overlapping_links(ctx, entity, collector)
        if not joined and not explicit and not overlapping:
            continue
        own = range(*starts[entity : entity + 2])
        of_body: dict[int, list[int]] = {}
        of_name: dict[tuple[str, str], list[int]] = {}
        for i in own:
            collider = members[i].collider
            of_body.setdefault(collider.body, []).append(i)
            of_name.setdefault(("links", collider.link or "world"), []).append(i)
            of_name.setdefault(("shapes", collider.shape.name), []).append(i)
        pairs = {
            tuple(sorted((i, j))): None
            for sides in (
                *_sides_of_bodies(joined, of_body),
                *_sides_of_names(explicit, of_name),
                *([of_name.get(("links", link), []) for link in sorted(pair)] for pair in overlapping),
            )
            for i in sides[0]
            for j in sides[1]
            if members[i].collider.body != members[j].collider.body
        }
        for i, j in pairs:
            a, b = members[i], members[j]
            found: list[ContactParameters] = []
            is_overlapping = frozenset((a.collider.link, b.collider.link)) in overlapping
            if not is_overlapping and may_collide(a.collider, b.collider, rules, neighbours):
                found = contact_parameters_of_pair(description, a.collider, b.collider) or [
                    combine_contact_parameters(a.geom.contact_parameters, b.geom.contact_parameters)
                ]
            result.append(((i, j), found))
    return result


def _overlapping_links(ctx: BuildContext, entity: int, collector: GeomCollector) -> frozenset[frozenset[str]]:
    """Pairs of links of an entity that do not collide because they overlap in the initial configuration."""
    description = ctx.entities[entity].description
    if not isinstance(description, Robot) or description.format not in FORMATS_WITHOUT_FILTERS:
        return frozenset()
    pairs = [tuple(collector.geoms_of_collider(entity, x) for x in pair) for pair in colliding_pairs(description)]
    return overlapping_links(ctx, entity, pairs)  # type: ignore[arg-type]


def _sides_of_bodies(
    pairs: Iterable[tuple[int, ...]], of_body: dict[int, list[int]]
) -> Iterable[tuple[list[int], list[int]]]:
    return ((of_body.get(a, []), of_body.get(b, [])) for a, b in pairs)


def _sides_of_names(
    pairs: Iterable[CollisionPair], of_name: dict[tuple[str, str], list[int]]
) -> Iterable[tuple[list[int], list[int]]]:
    return ((of_name.get((p.between, p.a), []), of_name.get((p.between, p.b), [])) for p in pairs)

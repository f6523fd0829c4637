"""Collision groups and filtered pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kinema.description import CollisionGroup, CollisionPair
from kinema.words import ours, physics, usd

from . import pxr
from .articulation import marked_links
from .own_settings import own
from .shapes_on_links import StageShape
from .stage_index import StageIndex


class _Colliders:
    """The colliders of a stage, ready to be looked up: looking through all of them for each filter takes too long."""

    def __init__(self, index: StageIndex, parts: Sequence[StageShape]) -> None:
        self.all = [part for part in parts if part.shape.collision]
        self.below: dict[str, list[StageShape]] = {}
        """Path -> the colliders at or below it."""
        self.of_body: dict[str, list[StageShape]] = {}
        for part in self.all:
            for path in _paths(index, part):
                above = path
                while above:
                    below = self.below.setdefault(above, [])
                    if not below or below[-1] is not part:
                        below.append(part)
                    above = above.rpartition("/")[0]
            if part.body is not None:
                self.of_body.setdefault(part.body.path, []).append(part)

    def in_collection(self, index: StageIndex, prim: pxr.Prim) -> list[str]:
        """Names of those that a collision group's collection holds."""
        collection = pxr.UsdPhysics.CollisionGroup(prim).GetCollidersCollectionAPI()
        query = collection.ComputeMembershipQuery()
        includes = [str(t) for t in index.targets(prim, usd.COLLIDERS)]
        candidates = self.all
        if includes and not any("." in path for path in includes):  # neither everything nor other collections
            candidates = list({id(p): p for path in includes for p in self.below.get(path, ())}.values())
        return [p.shape.name for p in candidates if any(map(query.IsPathIncluded, _paths(index, p)))]


def _paths(index: StageIndex, part: StageShape) -> list[str]:
    """Where a collider is, and where its prototype is: whoever names the prototype means all of its instances."""
    path = index.values.facts(part.prim).path
    prototype = index.copies.source(path)
    return [path, prototype] if prototype else [path]


def read_groups(index: StageIndex, parts: Sequence[StageShape]) -> list[CollisionGroup]:
    """The stage's collision groups, with the shapes their collections hold as members."""
    if not index.groups:
        return []
    colliders = _Colliders(index, parts)
    known = {str(prim.GetPath()) for prim in index.groups}
    name_of = {str(prim.GetPath()): str(own(index, prim, ours.NAME) or prim.GetPath()) for prim in index.groups}
    result: list[CollisionGroup] = []
    for prim in index.groups:
        names = [str(t) for t in index.targets(prim, physics.FILTERED_GROUPS)]
        for name in names:
            if name not in known:
                index.diagnostics.warning(
                    "usd.filtered-group-target",
                    f"collision group {prim.GetName()!r} filters {name}, which is no collision group",
                    origin=index.origin(prim),
                )
        result.append(
            CollisionGroup(
                name=name_of[str(prim.GetPath())],
                origin=index.origin(prim),
                members=colliders.in_collection(index, prim),
                between="shapes",
                filtered=[name_of.get(name, name) for name in names],
                invert=bool(index.value(prim, physics.INVERT_FILTERED_GROUPS)),
                merge=str(index.value(prim, physics.MERGE_GROUP) or ""),
            )
        )
    return result


def read_filtered_pairs(
    index: StageIndex, parts: Sequence[StageShape], articulated: Mapping[str, Sequence[str]]
) -> list[CollisionPair]:
    """Pairs that never collide: between bodies as links, where a collider is named as shapes.

    Args:
        index: the stage.
        parts: its shapes.
        articulated: link name -> all links that joints connect with it.
    """
    colliders = _Colliders(index, parts)
    articulations = _articulations(index, articulated) if index.filtered else {}
    result: list[CollisionPair] = []
    for prim in index.filtered:
        for target in index.targets(prim, physics.FILTERED_PAIRS):
            other = index.stage.GetPrimAtPath(target)
            if not other:
                index.diagnostics.warning(
                    "usd.filtered-pair-target",
                    f"{prim.GetName()!r} filters collisions with {target}, which does not exist",
                    origin=index.origin(prim),
                )
                continue
            result += _pairs(index, prim, other, colliders, articulations)
    return result + _joined_to_static(index, colliders)


def _articulations(index: StageIndex, articulated: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """For each prim that is marked as an articulation's root, the links of the articulations at or below it."""
    result: dict[str, list[str]] = {}
    for path, names in marked_links(index).items():
        groups = {id(group): group for group in (articulated[name] for name in names)}
        result[path] = [name for group in groups.values() for name in group]
    return result


def _pairs(
    index: StageIndex,
    a: pxr.Prim,
    b: pxr.Prim,
    colliders: _Colliders,
    articulations: Mapping[str, Sequence[str]],
) -> list[CollisionPair]:
    origin = index.origin(a)
    links_a, links_b = _links(index, a, articulations), _links(index, b, articulations)
    if links_a and links_b:
        return [CollisionPair(a=x, b=y, origin=origin) for x in links_a for y in links_b if x != y]
    shapes_a, shapes_b = _shapes(index, a, links_a, colliders), _shapes(index, b, links_b, colliders)
    if not shapes_a or not shapes_b:
        empty = a if not shapes_a else b
        index.diagnostics.warning(
            "usd.filtered-pair-empty",
            f"a filtered pair names {empty.GetPath()}, which holds neither a body nor a collider",
            origin=origin,
        )
    return [CollisionPair(a=x, b=y, between="shapes", origin=origin) for x in shapes_a for y in shapes_b if x != y]


def _links(index: StageIndex, prim: pxr.Prim, articulations: Mapping[str, Sequence[str]]) -> Sequence[str]:
    """The link of a body; of an articulation's root, or of a prim around one, all links of the articulation."""
    path = index.values.facts(prim).path
    if path in articulations:
        return articulations[path]
    return [index.bodies[path].name] if path in index.bodies else []


def _shapes(index: StageIndex, prim: pxr.Prim, links: Sequence[str], colliders: _Colliders) -> list[str]:
    """The colliders of links; without any, those at or below a prim."""
    if links:
        members = set(links)
        return [p.shape.name for p in colliders.all if p.body is not None and p.body.name in members]
    return [p.shape.name for p in colliders.below.get(index.values.facts(prim).path, ())]


def _joined_to_static(index: StageIndex, colliders: _Colliders) -> list[CollisionPair]:
    """A joint keeps its body from colliding with the static collider that it hangs on."""
    static = {str(p.prim.GetPath()): p.shape.name for p in colliders.all if p.body is None}
    if not static:
        return []
    result: list[CollisionPair] = []
    for prim in index.joints:
        if index.value(prim, physics.JOINT_ENABLED) is False or index.value(prim, physics.COLLISION_ENABLED):
            continue
        sides = [index.targets(prim, side)[:1] for side in physics.BODIES]
        for side, other in (sides, sides[::-1]):
            body = index.owner_path(str(other[0])) if other else None
            if side and str(side[0]) in static and body is not None:
                result += [
                    CollisionPair(a=static[str(side[0])], b=p.shape.name, between="shapes", origin=index.origin(prim))
                    for p in colliders.of_body.get(body, ())
                ]
    return result

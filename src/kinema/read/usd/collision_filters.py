"""Collision groups and filtered pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kinema.description import CollisionGroup, CollisionPair
from kinema.tokens import kinema_usd, usd, usd_physics

from . import pxr
from .articulations import articulation_links
from .shapes import StageShape
from .stage_index import StageIndex


class _Colliders:
    """Lookup tables of the colliders of a stage by path and body."""

    def __init__(self, index: StageIndex, stage_shapes: Sequence[StageShape]) -> None:
        self.all = [part for part in stage_shapes if part.shape.collision]
        self.below: dict[str, list[StageShape]] = {}
        """Path -> the colliders at or below it."""
        self.of_body: dict[str, list[StageShape]] = {}
        for part in self.all:
            for path in _collider_paths(index, part):
                above = path
                while above:
                    below = self.below.setdefault(above, [])
                    if not below or below[-1] is not part:
                        below.append(part)
                    above = above.rpartition("/")[0]
            if part.body is not None:
                self.of_body.setdefault(part.body.path, []).append(part)

    def collection_members(self, index: StageIndex, prim: pxr.Prim) -> list[str]:
        """Shape names of the members of a collision group's collection."""
        collection = pxr.UsdPhysics.CollisionGroup(prim).GetCollidersCollectionAPI()
        query = collection.ComputeMembershipQuery()
        includes = [str(t) for t in index.targets(prim, usd.COLLIDERS)]
        candidates = self.all
        if includes and not any("." in path for path in includes):  # neither everything nor other collections
            candidates = list({id(p): p for path in includes for p in self.below.get(path, ())}.values())
        return [p.shape.name for p in candidates if any(map(query.IsPathIncluded, _collider_paths(index, p)))]


def _collider_paths(index: StageIndex, stage_shape: StageShape) -> list[str]:
    """Path of a collider and, for an instance, of its prototype, which stands for all instances."""
    path = index.values.facts(stage_shape.prim).path
    prototype = index.instances.prototype_path(path)
    return [path, prototype] if prototype else [path]


def read_collision_groups(index: StageIndex, stage_shapes: Sequence[StageShape]) -> list[CollisionGroup]:
    """Collision groups of the stage with the names of their member shapes."""
    if not index.collision_groups:
        return []
    colliders = _Colliders(index, stage_shapes)
    known = {str(prim.GetPath()) for prim in index.collision_groups}
    name_of = {
        str(prim.GetPath()): str(index.custom_value(prim, kinema_usd.NAME) or prim.GetPath())
        for prim in index.collision_groups
    }
    result: list[CollisionGroup] = []
    for prim in index.collision_groups:
        names = [str(t) for t in index.targets(prim, usd_physics.FILTERED_GROUPS)]
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
                members=colliders.collection_members(index, prim),
                between="shapes",
                filtered=[name_of.get(name, name) for name in names],
                invert=bool(index.value(prim, usd_physics.INVERT_FILTERED_GROUPS)),
                merge=str(index.value(prim, usd_physics.MERGE_GROUP) or ""),
            )
        )
    return result


def read_filtered_pairs(
    index: StageIndex, stage_shapes: Sequence[StageShape], articulated: Mapping[str, Sequence[str]]
) -> list[CollisionPair]:
    """Excluded collision pairs: between links, or between shapes if a collider is named.

    Args:
        index: the stage.
        stage_shapes: its shapes.
        articulated: link name -> all links that joints connect with it.
    """
    colliders = _Colliders(index, stage_shapes)
    articulations = _links_by_articulation(index, articulated) if index.filtered_pairs else {}
    result: list[CollisionPair] = []
    for prim in index.filtered_pairs:
        for target in index.targets(prim, usd_physics.FILTERED_PAIRS):
            other = index.stage.GetPrimAtPath(target)
            if not other:
                index.diagnostics.warning(
                    "usd.filtered-pair-target",
                    f"{prim.GetName()!r} filters collisions with {target}, which does not exist",
                    origin=index.origin(prim),
                )
                continue
            result += _collision_pairs(index, prim, other, colliders, articulations)
    return result + _static_joint_pairs(index, colliders)


def _links_by_articulation(index: StageIndex, articulated: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Path of each articulation root -> all links of the articulations at or below it."""
    result: dict[str, list[str]] = {}
    for path, names in articulation_links(index).items():
        groups = {id(group): group for group in (articulated[name] for name in names)}
        result[path] = [name for group in groups.values() for name in group]
    return result


def _collision_pairs(
    index: StageIndex,
    a: pxr.Prim,
    b: pxr.Prim,
    colliders: _Colliders,
    articulations: Mapping[str, Sequence[str]],
) -> list[CollisionPair]:
    """Excluded pairs between two prims, between links if both have links, otherwise between shapes."""
    origin = index.origin(a)
    links_a, links_b = _prim_links(index, a, articulations), _prim_links(index, b, articulations)
    if links_a and links_b:
        return [CollisionPair(a=x, b=y, origin=origin) for x in links_a for y in links_b if x != y]
    shapes_a, shapes_b = _prim_colliders(index, a, links_a, colliders), _prim_colliders(index, b, links_b, colliders)
    if not shapes_a or not shapes_b:
        empty = a if not shapes_a else b
        index.diagnostics.warning(
            "usd.filtered-pair-empty",
            f"a filtered pair names {empty.GetPath()}, which holds neither a body nor a collider",
            origin=origin,
        )
    return [CollisionPair(a=x, b=y, between="shapes", origin=origin) for x in shapes_a for y in shapes_b if x != y]


def _prim_links(index: StageIndex, prim: pxr.Prim, articulations: Mapping[str, Sequence[str]]) -> Sequence[str]:
    """Links of a prim: all links of an articulation root, or the link of a body."""
    path = index.values.facts(prim).path
    if path in articulations:
        return articulations[path]
    return [index.bodies[path].name] if path in index.bodies else []


def _prim_colliders(index: StageIndex, prim: pxr.Prim, links: Sequence[str], colliders: _Colliders) -> list[str]:
    """Shape names of the colliders of the links, or at or below the prim without links."""
    if links:
        members = set(links)
        return [p.shape.name for p in colliders.all if p.body is not None and p.body.name in members]
    return [p.shape.name for p in colliders.below.get(index.values.facts(prim).path, ())]


def _static_joint_pairs(index: StageIndex, colliders: _Colliders) -> list[CollisionPair]:
    """Pairs between a body and the static collider that is the target of its joint."""
    static = {str(p.prim.GetPath()): p.shape.name for p in colliders.all if p.body is None}
    if not static:
        return []
    result: list[CollisionPair] = []
    for prim in index.joints:
        if index.value(prim, usd_physics.JOINT_ENABLED) is False or index.value(prim, usd_physics.COLLISION_ENABLED):
            continue
        sides = [index.targets(prim, side)[:1] for side in usd_physics.BODIES]
        for side, other in (sides, sides[::-1]):
            body = index.owner_path(str(other[0])) if other else None
            if side and str(side[0]) in static and body is not None:
                result += [
                    CollisionPair(a=static[str(side[0])], b=p.shape.name, between="shapes", origin=index.origin(prim))
                    for p in colliders.of_body.get(body, ())
                ]
    return result

"""Collision groups and filtered pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kinema.description import CollisionGroup, CollisionPair

from . import pxr
from .own_settings import own
from .shapes_on_links import StageShape
from .stage_index import StageIndex


def read_groups(index: StageIndex, parts: Sequence[StageShape]) -> list[CollisionGroup]:
    """The stage's collision groups, with the shapes their collections hold as members."""
    known = {str(prim.GetPath()) for prim in index.groups}
    name_of = {str(prim.GetPath()): str(own(index, prim, "name") or prim.GetPath()) for prim in index.groups}
    result: list[CollisionGroup] = []
    for prim in index.groups:
        group = pxr.UsdPhysics.CollisionGroup(prim)
        query = group.GetCollidersCollectionAPI().ComputeMembershipQuery()
        names = [str(t) for t in index.targets(prim, "physics:filteredGroups")]
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
                members=[p.shape.name for p in parts if p.shape.collision and query.IsPathIncluded(p.prim.GetPath())],
                between="shapes",
                filtered=[name_of.get(name, name) for name in names],
                invert=bool(index.value(prim, "physics:invertFilteredGroups")),
                merge=str(index.value(prim, "physics:mergeGroup") or ""),
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
    result: list[CollisionPair] = []
    for prim in index.filtered:
        for target in index.targets(prim, "physics:filteredPairs"):
            other = index.stage.GetPrimAtPath(target)
            if not other:
                index.diagnostics.warning(
                    "usd.filtered-pair-target",
                    f"{prim.GetName()!r} filters collisions with {target}, which does not exist",
                    origin=index.origin(prim),
                )
                continue
            result += _pairs(index, prim, other, parts, articulated)
    return result + _joined_to_static(index, parts)


def _pairs(
    index: StageIndex,
    a: pxr.Prim,
    b: pxr.Prim,
    parts: Sequence[StageShape],
    articulated: Mapping[str, Sequence[str]],
) -> list[CollisionPair]:
    origin = index.origin(a)
    links_a, links_b = _links(index, a, articulated), _links(index, b, articulated)
    if links_a and links_b:
        return [CollisionPair(a=x, b=y, origin=origin) for x in links_a for y in links_b if x != y]
    shapes_a, shapes_b = _shapes(index, a, links_a, parts), _shapes(index, b, links_b, parts)
    if not shapes_a or not shapes_b:
        empty = a if not shapes_a else b
        index.diagnostics.warning(
            "usd.filtered-pair-empty",
            f"a filtered pair names {empty.GetPath()}, which holds neither a body nor a collider",
            origin=origin,
        )
    return [CollisionPair(a=x, b=y, between="shapes", origin=origin) for x in shapes_a for y in shapes_b if x != y]


def _links(index: StageIndex, prim: pxr.Prim, articulated: Mapping[str, Sequence[str]]) -> list[str]:
    """The link of a body; of an articulation's root, or of a prim around one, all links of the articulation."""
    path = str(prim.GetPath())
    if "PhysicsArticulationRootAPI" not in index.schemas(prim):
        return [index.bodies[path].name] if path in index.bodies else []
    inside = [b.name for p, b in index.bodies.items() if p == path or p.startswith(path + "/")]
    return list(dict.fromkeys(name for link in inside for name in articulated[link]))


def _shapes(index: StageIndex, prim: pxr.Prim, links: Sequence[str], parts: Sequence[StageShape]) -> list[str]:
    """The colliders of links; without any, those at or below a prim."""
    colliders = [p for p in parts if p.shape.collision]
    if links:
        return [p.shape.name for p in colliders if p.body is not None and p.body.name in links]
    path = prim.GetPath()
    return [p.shape.name for p in colliders if p.prim.GetPath().HasPrefix(path)]


def _joined_to_static(index: StageIndex, parts: Sequence[StageShape]) -> list[CollisionPair]:
    """A joint keeps its body from colliding with the static collider that it hangs on."""
    static = {str(p.prim.GetPath()): p.shape.name for p in parts if p.body is None and p.shape.collision}
    if not static:
        return []
    result: list[CollisionPair] = []
    for prim in index.joints:
        if index.value(prim, "physics:jointEnabled") is False or index.value(prim, "physics:collisionEnabled"):
            continue
        sides = [index.targets(prim, f"physics:body{i}")[:1] for i in (0, 1)]
        for side, other in (sides, sides[::-1]):
            body = index.owner_path(str(other[0])) if other else None
            if side and str(side[0]) in static and body is not None:
                result += [
                    CollisionPair(a=static[str(side[0])], b=p.shape.name, between="shapes", origin=index.origin(prim))
                    for p in parts
                    if p.shape.collision and p.body is not None and p.body.path == body
                ]
    return result

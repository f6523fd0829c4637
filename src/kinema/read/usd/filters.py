"""Collision groups and filtered pairs."""

from __future__ import annotations

from collections.abc import Sequence

from kinema.description import CollisionGroup, CollisionPair

from . import pxr
from .shapes_on_links import StageShape
from .stage_index import StageIndex


def read_groups(index: StageIndex, parts: Sequence[StageShape]) -> list[CollisionGroup]:
    """The stage's collision groups, with the shapes their collections hold as members."""
    result: list[CollisionGroup] = []
    for prim in index.groups:
        group = pxr.UsdPhysics.CollisionGroup(prim)
        query = group.GetCollidersCollectionAPI().ComputeMembershipQuery()
        filtered = prim.GetRelationship("physics:filteredGroups")
        result.append(
            CollisionGroup(
                name=str(prim.GetPath()),
                origin=index.origin(prim),
                members=[p.shape.name for p in parts if p.shape.collision and query.IsPathIncluded(p.prim.GetPath())],
                filtered=[str(t) for t in filtered.GetTargets()] if filtered else [],
                invert=bool(index.value(prim, "physics:invertFilteredGroups")),
                merge=str(index.value(prim, "physics:mergeGroup") or ""),
            )
        )
    return result


def read_filtered_pairs(index: StageIndex, parts: Sequence[StageShape]) -> list[CollisionPair]:
    """Pairs that never collide: between bodies as links, where a collider is named as shapes."""
    result: list[CollisionPair] = []
    for prim in index.filtered:
        for target in prim.GetRelationship("physics:filteredPairs").GetTargets():
            other = index.stage.GetPrimAtPath(target)
            if not other:
                index.diagnostics.warning(
                    "usd.filtered-pair-target",
                    f"{prim.GetName()!r} filters collisions with {target}, which does not exist",
                    origin=index.origin(prim),
                )
                continue
            result += _pairs(index, prim, other, parts)
    return result


def _pairs(index: StageIndex, a: pxr.Prim, b: pxr.Prim, parts: Sequence[StageShape]) -> list[CollisionPair]:
    origin = index.origin(a)
    links_a, links_b = _links(index, a), _links(index, b)
    if links_a and links_b:
        return [CollisionPair(a=x, b=y, origin=origin) for x in links_a for y in links_b if x != y]
    shapes_a, shapes_b = _shapes(a, parts), _shapes(b, parts)
    if not shapes_a or not shapes_b:
        empty = a if not shapes_a else b
        index.diagnostics.warning(
            "usd.filtered-pair-empty",
            f"a filtered pair names {empty.GetPath()}, which holds neither a body nor a collider",
            origin=origin,
        )
    return [CollisionPair(a=x, b=y, between="shapes", origin=origin) for x in shapes_a for y in shapes_b if x != y]


def _links(index: StageIndex, prim: pxr.Prim) -> list[str]:
    """The link of a body; all links of an articulation whose root or ancestor the prim is."""
    path = str(prim.GetPath())
    if path in index.bodies and "PhysicsArticulationRootAPI" not in prim.GetAppliedSchemas():
        return [index.bodies[path].name]
    if "PhysicsArticulationRootAPI" in prim.GetAppliedSchemas():
        return [b.name for p, b in index.bodies.items() if p == path or p.startswith(path + "/")]
    return []


def _shapes(prim: pxr.Prim, parts: Sequence[StageShape]) -> list[str]:
    """The colliders at or below a prim."""
    path = prim.GetPath()
    return [p.shape.name for p in parts if p.shape.collision and p.prim.GetPath().HasPrefix(path)]

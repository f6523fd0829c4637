"""What prims a layer has and what they bring in, looked at before OpenUSD composes anything.

A binary layer may be damaged so that OpenUSD falls over it, and a small one may refer to itself so that it unfolds to
more prims than any memory holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

_ARCS = {
    "references": "referenceList",
    "payload": "payloadList",
    "inheritPaths": "inheritPathList",
    "specializes": "specializesList",
}
_Prim = tuple[str, str]
"""The identifier of a layer and a path in it."""


@dataclass(slots=True, eq=False)
class Survey:
    """The prims of one layer."""

    layer: Any
    children: dict[str, list[str]] = field(default_factory=dict)
    """Path -> paths of the prims right below it, those in variants included; "/" has the layer's own."""
    bringing: list[Any] = field(default_factory=list)
    """Prim specs with references, payloads, inherits or specializes."""


def survey(layer: Any, max_depth: int) -> Survey:
    """Walk the layer; a `ValueError` in words where it is damaged or nested too deep."""
    result = Survey(layer)
    todo: list[tuple[Any, str, int]] = [(layer.pseudoRoot, "/", 0)]
    while todo:
        spec, path, depth = todo.pop()
        if depth > max_depth:
            raise ValueError(f"its prims are nested more than {max_depth} levels deep")
        keys = spec.ListInfoKeys()
        below = list(spec.nameChildren.values())
        if not _ARCS.keys().isdisjoint(keys):
            result.bringing.append(spec)
        if "variantSetNames" in keys:
            below += _in_variants(spec)
        if not all(below):
            raise ValueError(f"it is damaged: prims that {path} lists are missing")
        result.children[path] = [str(child.path) for child in below]
        todo += zip(below, result.children[path], (depth + 1,) * len(below), strict=True)
    return result


def _in_variants(spec: Any) -> list[Any]:
    """The prims that a prim's variants stand for."""
    sets = list(spec.variantSets.values())
    return [variant.primSpec if variant else None for one in sets if one for variant in one.variants.values()]


def count_prims(surveys: Mapping[str, Survey], root: str, limit: int) -> int:
    """How many prims a stage has at most, all variants together; counting stops beyond the limit.

    Args:
        surveys: of all its layers, by identifier.
        root: the identifier of its root layer.
        limit: how far to count.
    """
    sizes: dict[_Prim, int] = {}
    brought = {(i, str(spec.path)): list(_targets(i, spec, surveys)) for i, s in surveys.items() for spec in s.bringing}
    todo: list[_Prim] = [(root, "/")]
    while todo:
        prim = todo[-1]
        parts = [*_below(prim, surveys), *brought.get(prim, ())]
        if prim not in sizes:
            sizes[prim] = 1  # until it is known; a circle counts itself once, as OpenUSD does
            todo += [part for part in parts if part not in sizes]
            continue
        sizes[prim] = min(1 + sum(sizes.get(part, 0) for part in parts), limit + 1)
        todo.pop()
    return sizes[root, "/"]


def _below(prim: _Prim, surveys: Mapping[str, Survey]) -> Iterator[_Prim]:
    identifier, path = prim
    if identifier not in surveys:
        return
    yield from ((identifier, child) for child in surveys[identifier].children.get(path, ()))
    if path == "/":
        yield from ((str(sublayer), "/") for sublayer in surveys[identifier].layer.subLayerPaths)


def _targets(identifier: str, spec: Any, surveys: Mapping[str, Survey]) -> Iterator[_Prim]:
    """What a prim's arcs bring to it."""
    for attribute in _ARCS.values():
        for item in getattr(spec, attribute).GetAddedOrExplicitItems():
            layer = getattr(item, "assetPath", "") or identifier
            path = str(getattr(item, "primPath", item))
            if not path and layer in surveys:
                path = f"/{surveys[layer].layer.defaultPrim}"
            yield layer, path

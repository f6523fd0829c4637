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
    prims: list[tuple[Any, list[Any]]] = field(default_factory=list)
    """Prim specs, each with those right below it, those in variants included; the first holds the layer's own."""
    bringing: list[Any] = field(default_factory=list)
    """Prim specs with references, payloads, inherits or specializes."""
    clipped: list[Any] = field(default_factory=list)
    """Prim specs that take values from other files."""

    def children(self) -> dict[str, list[str]]:
        """Path -> paths of the prims right below it."""
        return {str(spec.path): [str(child.path) for child in below] for spec, below in self.prims}


def survey(layer: Any, max_depth: int) -> Survey:
    """Walk the layer; a `ValueError` in words where it is damaged or nested too deep."""
    result = Survey(layer)
    todo: list[tuple[Any, int]] = [(layer.pseudoRoot, 0)]
    while todo:
        spec, depth = todo.pop()
        if depth > max_depth:
            raise ValueError(f"its prims are nested more than {max_depth} levels deep")
        keys = spec.ListInfoKeys()
        below = list(spec.nameChildren.values())
        if not _ARCS.keys().isdisjoint(keys):
            result.bringing.append(spec)
        if "clips" in keys:
            result.clipped.append(spec)
        if "variantSetNames" in keys:
            below += _in_variants(spec)
        if below:
            if not all(below):
                raise ValueError(f"it is damaged: prims that {spec.path} lists are missing")
            result.prims.append((spec, below))
            todo += [(child, depth + 1) for child in below]
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
    children = {identifier: s.children() for identifier, s in surveys.items()}
    sublayers = {identifier: [str(p) for p in s.layer.subLayerPaths] for identifier, s in surveys.items()}
    brought = {(i, str(spec.path)): list(_targets(i, spec, surveys)) for i, s in surveys.items() for spec in s.bringing}
    todo: list[_Prim] = [(root, "/")]
    while todo:
        identifier, path = prim = todo[-1]
        parts = [(identifier, child) for child in children.get(identifier, {}).get(path, ())]
        parts += brought.get(prim, ())
        if path == "/":
            parts += [(sublayer, "/") for sublayer in sublayers.get(identifier, ())]
        if prim not in sizes:
            sizes[prim] = 1  # until it is known; a circle counts itself once, as OpenUSD does
            todo += [part for part in parts if part not in sizes]
            continue
        sizes[prim] = min(1 + sum(sizes.get(part, 0) for part in parts), limit + 1)
        todo.pop()
    return sizes[root, "/"]


def _targets(identifier: str, spec: Any, surveys: Mapping[str, Survey]) -> Iterator[_Prim]:
    """What a prim's arcs bring to it."""
    for attribute in _ARCS.values():
        for item in getattr(spec, attribute).GetAddedOrExplicitItems():
            layer = getattr(item, "assetPath", "") or identifier
            path = str(getattr(item, "primPath", item))
            if not path and layer in surveys:
                path = f"/{surveys[layer].layer.defaultPrim}"
            yield layer, path

"""What a COLLADA primitive lays on its triangles: normals, texture coordinates and colours."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from kinema.shapes.appearance import Appearance, CornerValues, corner_values, unit_normals, with_alpha
from kinema.shapes.formats.collada_document import ColladaDocument, read_floats
from kinema.shapes.look import Look
from kinema.shapes.mesh_data import IntArray, MeshError

_WIDTHS = {"NORMAL": 3, "TEXCOORD": 2, "COLOR": 3}


def read_layers(
    document: ColladaDocument, primitive: Element, table: IntArray, corners: IntArray, material: Look | None
) -> Appearance:
    """The layers of one primitive.

    Args:
        document: the document.
        primitive: the element, such as `<triangles>`.
        table: the indices of each corner, shape (n, inputs).
        corners: the corners of each triangle, shape (m, 3).
        material: what its triangles are bound to.
    """
    found: dict[str, list[CornerValues]] = {}
    for semantic, source, offset in _inputs(document, primitive):
        try:
            values = read_floats(document, source, _WIDTHS[semantic])
        except MeshError as error:
            document.note_unseen(f"A layer of a primitive was left out: {error.reason}")
            continue
        width = max(_WIDTHS[semantic], min(values.shape[1], 4)) if semantic == "COLOR" else _WIDTHS[semantic]
        layer = corner_values(values, table[corners, offset], width)
        if layer is not None:
            found.setdefault(semantic, []).append(layer)
    normals, colors = (found.get(name, [None])[0] for name in ("NORMAL", "COLOR"))
    return Appearance(
        normals=unit_normals(normals),
        coordinates=tuple(found.get("TEXCOORD", [])),
        colors=None if colors is None else CornerValues(with_alpha(colors.values), colors.corners),
        materials=() if material is None else (material,),
    )


def _inputs(document: ColladaDocument, primitive: Element) -> Iterator[tuple[str, Element, int]]:
    """Kind, source and place among a corner's indices of each layer; sets of coordinates in their order."""
    listed: list[tuple[int, str, Element, int]] = []
    for item in primitive.findall("input"):
        offset, number = int(item.get("offset", "0")), int(item.get("set", "0") or "0")
        inner = document.find(item, "source", "vertices") if item.get("semantic") == "VERTEX" else None
        for layer in [item] if inner is None else inner.findall("input"):
            source = document.find(layer, "source", "source")
            if layer.get("semantic") in _WIDTHS and source is not None:
                listed.append((number, str(layer.get("semantic")), source, offset))
    listed.sort(key=lambda entry: entry[0])
    return ((semantic, source, offset) for _, semantic, source, offset in listed)

"""COLLADA geometries: polygons as triangles."""

from __future__ import annotations

from dataclasses import dataclass
from xml.etree.ElementTree import Element

import numpy as np

from kinema.shapes.affine import merge
from kinema.shapes.appearance import Appearance, merge_appearances
from kinema.shapes.formats.collada_document import ColladaDocument, read_floats
from kinema.shapes.formats.collada_layers import read_layers
from kinema.shapes.formats.numbers import parse_ints
from kinema.shapes.formats.polygons import triangulate, triangulate_strips
from kinema.shapes.formats.scene import checked_part
from kinema.shapes.look import Look
from kinema.shapes.mesh_data import FloatArray, IntArray, MeshData, MeshError

_POLYGON_TAGS = ("triangles", "polylist", "polygons", "trifans", "tristrips")
_LINE_TAGS = ("lines", "linestrips")


@dataclass(frozen=True)
class ColladaGeometry:
    """The triangles of a geometry and what is laid on them; its materials are the symbols that instances bind."""

    mesh: MeshData
    appearance: Appearance | None = None


def read_geometry(document: ColladaDocument, geometry: Element, *, looks: bool = False) -> ColladaGeometry:
    """All polygons of a geometry as triangles, in the file's units."""
    mesh = geometry.find("mesh")
    if mesh is None:
        document.note("A geometry that is not a mesh was skipped.")
        return ColladaGeometry(merge([]))
    # Primitives that differ in material only share their positions: one block of vertices per source.
    blocks: dict[int, FloatArray] = {}
    faces: dict[int, list[IntArray]] = {}
    dressed: dict[int, list[tuple[MeshData, Appearance | None]]] = {}
    symbols: dict[str, Look] = {}
    for primitive in mesh:
        if primitive.tag in _LINE_TAGS:
            document.note("Lines were skipped.")
        if primitive.tag not in _POLYGON_TAGS:
            continue
        source, offset, stride = _position_input(document, primitive)
        if id(source) not in blocks:
            blocks[id(source)] = read_floats(document, source, 3)[:, :3]
        table, corners = _read_corners(document, primitive, stride)
        faces.setdefault(id(source), []).append(table[corners, offset])
        if looks:
            part = checked_part(blocks[id(source)], faces[id(source)][-1])
            symbol = primitive.get("material", "")
            marker = symbols.setdefault(symbol, Look(name=symbol)) if symbol else None
            dressed.setdefault(id(source), []).append((part, read_layers(document, primitive, table, corners, marker)))
    data = merge([checked_part(vertices, np.concatenate(faces[key])) for key, vertices in blocks.items()])
    parts = [part for key in blocks for part in dressed.get(key, [])]
    return ColladaGeometry(data, merge_appearances(parts) if parts else None)


# Positions ------------------------------------------------------------------------------------------------------------


def _position_input(document: ColladaDocument, primitive: Element) -> tuple[Element, int, int]:
    """The source of the positions, where their index is among the indices of a corner, and how many those are."""
    inputs = primitive.findall("input")
    offsets = [int(item.get("offset", "0")) for item in inputs]
    stride = 1 + max(offsets, default=0)
    if min(offsets, default=0) < 0 or stride > max(len(inputs), 1):
        raise MeshError("The inputs of a COLLADA primitive are not numbered one after the other.")
    for item, offset in zip(inputs, offsets, strict=True):
        if item.get("semantic") == "VERTEX":
            vertices = document.target(item, "source", "vertices")
            for position in vertices.findall("input"):
                if position.get("semantic") == "POSITION":
                    return document.target(position, "source", "source"), offset, stride
    raise MeshError("A COLLADA primitive has no vertex positions.")


# Faces ----------------------------------------------------------------------------------------------------------------


def _read_corners(document: ColladaDocument, primitive: Element, stride: int) -> tuple[IntArray, IntArray]:
    """The indices of every corner of one primitive element, shape (n, stride), and the corners of its triangles."""
    lists = [_corners(element, stride) for element in primitive.findall("p")]
    if holed := primitive.findall("ph"):
        document.note("Holes in polygons were filled.")
        lists += [_corners(element, stride) for ph in holed for element in ph.findall("p")]
    table = np.concatenate(lists) if lists else np.zeros((0, stride), dtype=np.int64)
    counts = np.array([len(corner_list) for corner_list in lists], dtype=np.int64)
    if primitive.tag == "polylist":
        counts = parse_ints((primitive.findtext("vcount") or "").encode())
    elif primitive.tag == "triangles":
        counts = np.full(len(table) // 3, 3)
    if (counts < 0).any() or counts.sum() != len(table):
        raise MeshError(f"A COLLADA <{primitive.tag}> lists {len(table)} corners, which do not fit its polygons.")
    corners = np.arange(len(table))
    return table, triangulate_strips(corners, counts) if primitive.tag == "tristrips" else triangulate(corners, counts)


def _corners(element: Element, stride: int) -> IntArray:
    indices = parse_ints((element.text or "").encode())
    if len(indices) % stride:
        raise MeshError(f"A COLLADA <p> has {len(indices)} indices, which is not a multiple of {stride}.")
    return indices.reshape(-1, stride)

"""COLLADA documents (XML within limits) and their geometries: triangulated polygons with per-corner attributes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

import numpy as np

from ..appearance import (
    Appearance,
    CornerAttribute,
    PbrMaterial,
    merge_appearances,
    normalize_normals,
    to_rgba,
    validated_corner_attribute,
)
from ..mesh import FloatArray, IntArray, MeshData, MeshError, MeshLimits, merge_meshes
from .loaded_mesh import checked_mesh
from .parsing import parse_floats, parse_ints, triangulate_polygons, triangulate_strips

# XML ------------------------------------------------------------------------------------------------------------------


def parse_limited_xml(data: bytes, limits: MeshLimits) -> Element:
    """Parse untrusted XML; returns the root element, with tags stripped of namespace prefixes.

    Document types and entity declarations (entity expansion, external files), deep nesting and more elements and
    attributes than `limits` allows raise `MeshError`.
    """
    parser = expat.ParserCreate()
    tree = _LimitedTreeBuilder(limits)
    parser.buffer_text = True
    parser.StartElementHandler = tree.start
    parser.EndElementHandler = tree.end
    parser.CharacterDataHandler = tree.text
    parser.StartDoctypeDeclHandler = _reject_declarations
    parser.EntityDeclHandler = _reject_declarations
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise MeshError(f"The file is not valid XML: {error}.") from None
    return tree.builder.close()


class _LimitedTreeBuilder:
    """Expat handlers that build an element tree and enforce limits on depth and number of items."""

    def __init__(self, limits: MeshLimits) -> None:
        self.builder = TreeBuilder()
        self.text = self.builder.data
        self._limits = limits
        self._depth = 0
        self._items = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Handler of a start tag; `MeshError` if nesting depth or number of items exceed the limits."""
        self._depth += 1
        self._items += 1 + len(attributes)
        if self._depth > self._limits.nesting_depth:
            raise MeshError(f"The XML is nested deeper than the {self._limits.nesting_depth} levels allowed.")
        if self._items > self._limits.markup_items:
            raise MeshError(f"The XML has more than the {self._limits.markup_items} elements allowed.")
        self.builder.start(_local_name(tag), attributes)

    def end(self, tag: str) -> None:
        self._depth -= 1
        self.builder.end(_local_name(tag))


def _local_name(tag: str) -> str:
    return tag.rpartition(":")[2]


def _reject_declarations(*_: object) -> NoReturn:
    raise MeshError("The XML declares a document type or entities, which is not allowed in a mesh file.")


# Document -------------------------------------------------------------------------------------------------------------


class ColladaDocument:
    """Parsed COLLADA document with an index of elements by id, and notes on skipped content."""

    def __init__(self, root: Element, limits: MeshLimits, folder: Path | None = None) -> None:
        """Index the elements below `root` by id; `folder` is the folder in which images are searched."""
        self.root = root
        self.limits = limits
        self.folder = folder
        self._by_id: dict[str, Element] = {}
        self._notes: dict[str, None] = {}
        self._appearance_notes: dict[str, None] = {}
        for element in root.iter():
            if "id" in element.attrib:
                self._by_id.setdefault(element.attrib["id"], element)

    def resolve_reference(self, element: Element, attribute: str, *tags: str) -> Element:
        """Element that the URL in `attribute` of `element` references; `MeshError` unless it has one of `tags`."""
        reference = element.get(attribute, "")
        if not reference.startswith("#"):
            raise MeshError(f"The COLLADA refers to '{reference[:80]}', which is outside the file and is not opened.")
        found = self._by_id.get(reference[1:])
        if found is None or found.tag not in tags:
            raise MeshError(f"The COLLADA refers to a <{tags[0]}> '{reference[:80]}', which does not exist.")
        return found

    def find_reference(self, element: Element | None, attribute: str, *tags: str) -> Element | None:
        """As `resolve_reference`, but returns None for a missing or unsuitable reference."""
        found = None if element is None else self._by_id.get(element.get(attribute, "").removeprefix("#"))
        return found if found is not None and found.tag in tags else None

    def add_note(self, sentence: str) -> None:
        """Record a note on skipped or simplified geometry, without duplicates."""
        self._notes[sentence] = None

    def add_appearance_note(self, sentence: str) -> None:
        """Record a note on skipped or missing appearance data, without duplicates."""
        self._appearance_notes[sentence] = None

    def appearance_notes(self) -> tuple[str, ...]:
        """All notes on the appearance, in order."""
        return tuple(self._appearance_notes)

    def notes(self) -> tuple[str, ...]:
        """All notes on the geometry, in order."""
        return tuple(self._notes)


_ACCESSOR_DEFAULTS = (("count", "0"), ("stride", "1"), ("offset", "0"))


def read_float_source(document: ColladaDocument, source: Element, width: int) -> FloatArray:
    """Vectors of a `<source>` through its accessor, shape (count, stride) with stride >= `width`.

    Raises `MeshError` if the accessor is missing, malformed or exceeds its `<float_array>`.
    """
    accessor = source.find("technique_common/accessor")
    if accessor is None:
        raise MeshError("A COLLADA source has no accessor.")
    array = document.resolve_reference(accessor, "source", "float_array")
    values = parse_floats((array.text or "").encode())
    count, stride, start = (int(accessor.get(key, default)) for key, default in _ACCESSOR_DEFAULTS)
    if stride < width or count < 0 or start < 0:
        raise MeshError("A COLLADA accessor has an invalid count, stride or offset.")
    if start + count * stride > len(values):
        present = len(values) // stride
        raise MeshError(f"A COLLADA array is truncated: {count} vectors are declared, {present} are present.")
    document.limits.check_counts(count, 0)
    return values[start : start + count * stride].reshape(count, stride)


# Corner attributes ----------------------------------------------------------------------------------------------------

_ATTRIBUTE_WIDTHS = {"NORMAL": 3, "TEXCOORD": 2, "COLOR": 3}


def read_corner_attributes(
    document: ColladaDocument,
    primitive: Element,
    corner_table: IntArray,
    corners: IntArray,
    material: PbrMaterial | None,
) -> Appearance:
    """Normals, texture coordinates and colours of one primitive, with its material symbol, as an appearance.

    Invalid attributes are omitted with a note.

    Args:
        document: the document.
        primitive: primitive element, such as `<triangles>`.
        corner_table: input indices of each corner, shape (n, stride).
        corners: corner indices of each triangle, shape (m, 3).
        material: placeholder material of the symbol of the primitive, if any.
    """
    attributes: dict[str, list[CornerAttribute]] = {}
    for semantic, source, offset in _attribute_inputs(document, primitive):
        try:
            values = read_float_source(document, source, _ATTRIBUTE_WIDTHS[semantic])
        except MeshError as error:
            document.add_appearance_note(f"An attribute of a primitive was omitted: {error.reason}")
            continue
        width = (
            max(_ATTRIBUTE_WIDTHS[semantic], min(values.shape[1], 4))
            if semantic == "COLOR"
            else _ATTRIBUTE_WIDTHS[semantic]
        )
        attribute = validated_corner_attribute(values, corner_table[corners, offset], width)
        if attribute is not None:
            attributes.setdefault(semantic, []).append(attribute)
    normals, colors = (attributes.get(name, [None])[0] for name in ("NORMAL", "COLOR"))
    return Appearance(
        normals=normalize_normals(normals),
        texture_coordinates=tuple(attributes.get("TEXCOORD", [])),
        colors=None if colors is None else CornerAttribute(to_rgba(colors.values), colors.indices),
        materials=() if material is None else (material,),
    )


def _attribute_inputs(document: ColladaDocument, primitive: Element) -> Iterator[tuple[str, Element, int]]:
    """Semantic, source element and index offset of each attribute input of a primitive, sorted by set number.

    Inputs of `<vertices>` count as inputs of the primitive.
    """
    inputs: list[tuple[int, str, Element, int]] = []
    for item in primitive.findall("input"):
        offset, set_number = int(item.get("offset", "0")), int(item.get("set", "0") or "0")
        vertices = document.find_reference(item, "source", "vertices") if item.get("semantic") == "VERTEX" else None
        for attribute_input in [item] if vertices is None else vertices.findall("input"):
            source = document.find_reference(attribute_input, "source", "source")
            if attribute_input.get("semantic") in _ATTRIBUTE_WIDTHS and source is not None:
                inputs.append((set_number, str(attribute_input.get("semantic")), source, offset))
    inputs.sort(key=lambda entry: entry[0])
    return ((semantic, source, offset) for _, semantic, source, offset in inputs)


# Geometries -----------------------------------------------------------------------------------------------------------

_POLYGON_TAGS = ("triangles", "polylist", "polygons", "trifans", "tristrips")
_LINE_TAGS = ("lines", "linestrips")


@dataclass(frozen=True)
class ColladaGeometry:
    """Triangles and appearance of a geometry; the materials are placeholders named by the symbols to be bound."""

    mesh: MeshData
    appearance: Appearance | None = None


def read_collada_geometry(
    document: ColladaDocument, geometry: Element, *, with_appearance: bool = False
) -> ColladaGeometry:
    """Triangulated polygons of a `<geometry>` in units of the file, optionally with their appearance.

    Primitives that share a position source share their vertices. Lines and non-mesh geometries are skipped with a note.
    """
    mesh = geometry.find("mesh")
    if mesh is None:
        document.add_note("A geometry that is not a mesh was skipped.")
        return ColladaGeometry(merge_meshes([]))
    # Primitives that differ only in material share their positions: one block of vertices per source.
    blocks: dict[int, FloatArray] = {}
    faces: dict[int, list[IntArray]] = {}
    textured_parts: dict[int, list[tuple[MeshData, Appearance | None]]] = {}
    symbols: dict[str, PbrMaterial] = {}
    for primitive in mesh:
        if primitive.tag in _LINE_TAGS:
            document.add_note("Lines were skipped.")
        if primitive.tag not in _POLYGON_TAGS:
            continue
        source, offset, stride = _position_input(document, primitive)
        if id(source) not in blocks:
            blocks[id(source)] = read_float_source(document, source, 3)[:, :3]
        table, corners = _read_corners(document, primitive, stride)
        faces.setdefault(id(source), []).append(table[corners, offset])
        if with_appearance:
            part = checked_mesh(blocks[id(source)], faces[id(source)][-1])
            symbol = primitive.get("material", "")
            material = symbols.setdefault(symbol, PbrMaterial(name=symbol)) if symbol else None
            textured_parts.setdefault(id(source), []).append(
                (part, read_corner_attributes(document, primitive, table, corners, material))
            )
    merged = merge_meshes([checked_mesh(vertices, np.concatenate(faces[key])) for key, vertices in blocks.items()])
    parts = [part for key in blocks for part in textured_parts.get(key, [])]
    return ColladaGeometry(merged, merge_appearances(parts) if parts else None)


def _position_input(document: ColladaDocument, primitive: Element) -> tuple[Element, int, int]:
    """Position source of a primitive, offset of its index within a corner, and number of indices per corner.

    Raises `MeshError` if offsets are invalid or positions are missing.
    """
    inputs = primitive.findall("input")
    offsets = [int(item.get("offset", "0")) for item in inputs]
    stride = 1 + max(offsets, default=0)
    if min(offsets, default=0) < 0 or stride > max(len(inputs), 1):
        raise MeshError("The input offsets of a COLLADA primitive are not consecutive.")
    for item, offset in zip(inputs, offsets, strict=True):
        if item.get("semantic") == "VERTEX":
            vertices = document.resolve_reference(item, "source", "vertices")
            for position in vertices.findall("input"):
                if position.get("semantic") == "POSITION":
                    return document.resolve_reference(position, "source", "source"), offset, stride
    raise MeshError("A COLLADA primitive has no vertex positions.")


def _read_corners(document: ColladaDocument, primitive: Element, stride: int) -> tuple[IntArray, IntArray]:
    """Corner table of one primitive, shape (n, stride), and the corner indices of its triangles, shape (m, 3).

    Holes in polygons (`<ph>`) are filled, with a note.
    """
    index_lists = [_parse_corner_indices(element, stride) for element in primitive.findall("p")]
    if polygons_with_holes := primitive.findall("ph"):
        document.add_note("Holes in polygons were filled.")
        index_lists += [
            _parse_corner_indices(element, stride) for ph in polygons_with_holes for element in ph.findall("p")
        ]
    table = np.concatenate(index_lists) if index_lists else np.zeros((0, stride), dtype=np.int64)
    counts = np.array([len(corner_list) for corner_list in index_lists], dtype=np.int64)
    if primitive.tag == "polylist":
        counts = parse_ints((primitive.findtext("vcount") or "").encode())
    elif primitive.tag == "triangles":
        counts = np.full(len(table) // 3, 3)
    if (counts < 0).any() or counts.sum() != len(table):
        raise MeshError(f"A COLLADA <{primitive.tag}> lists {len(table)} corners, which do not fit its polygons.")
    corners = np.arange(len(table))
    return table, triangulate_strips(corners, counts) if primitive.tag == "tristrips" else triangulate_polygons(
        corners, counts
    )


def _parse_corner_indices(element: Element, stride: int) -> IntArray:
    indices = parse_ints((element.text or "").encode())
    if len(indices) % stride:
        raise MeshError(f"A COLLADA <p> has {len(indices)} indices, which is not a multiple of {stride}.")
    return indices.reshape(-1, stride)

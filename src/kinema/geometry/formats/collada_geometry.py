"""COLLADA documents and their geometries: triangulated polygons with per-corner attributes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kinema.core import XmlElement, parse_xml

from ..appearance import (
    Appearance,
    CornerAttribute,
    PbrMaterial,
    merge_appearances,
    normalize_normals,
    to_rgba,
    validated_corner_attribute,
)
from ..mesh import FloatArray, IntArray, MeshData, MeshError, merge_meshes
from .loaded_mesh import MeshSource, checked_mesh
from .parsing import parse_floats, parse_ints, triangulate_polygons, triangulate_strips

# Document -------------------------------------------------------------------------------------------------------------


class ColladaDocument:
    """Parsed COLLADA document with an index of elements by id, and notes on skipped content."""

    def __init__(self, source: MeshSource) -> None:
        """Parse the file, strip namespace prefixes from its tags, and index its elements by id.

        Raises `ReadError` for malformed XML and `MeshError` if the file is not COLLADA.
        """
        self.limits = source.limits
        self.folder = source.folder
        """Folder in which images are searched."""
        self.root = parse_xml(
            source.data,
            Path(source.file_name).name or "mesh.dae",
            max_bytes=self.limits.file_bytes,
            max_elements=self.limits.markup_items,
            max_items=self.limits.markup_items,
        )
        self._by_id: dict[str, XmlElement] = {}
        self._notes: dict[str, None] = {}
        self._appearance_notes: dict[str, None] = {}
        for element in self.root.iterate():
            element.tag = element.tag.rpartition(":")[2]
            if "id" in element.attributes:
                self._by_id.setdefault(element.attributes["id"], element)
        if self.root.tag != "COLLADA":
            raise MeshError(f"The XML is not COLLADA: its root element is <{self.root.tag[:40]}>.")

    def resolve_reference(self, element: XmlElement, attribute: str, *tags: str) -> XmlElement:
        """XmlElement that the URL in `attribute` of `element` references; `MeshError` unless it has one of `tags`."""
        reference = element.get(attribute, "")
        if not reference.startswith("#"):
            raise MeshError(f"The COLLADA refers to '{reference[:80]}', which is outside the file and is not opened.")
        found = self._by_id.get(reference[1:])
        if found is None or found.tag not in tags:
            raise MeshError(f"The COLLADA refers to a <{tags[0]}> '{reference[:80]}', which does not exist.")
        return found

    def find_reference(self, element: XmlElement | None, attribute: str, *tags: str) -> XmlElement | None:
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


def read_float_source(document: ColladaDocument, source: XmlElement, width: int) -> FloatArray:
    """Vectors of a `<source>` through its accessor, shape (count, stride) with stride >= `width`.

    Raises `MeshError` if the accessor is missing, malformed or exceeds its `<float_array>`.
    """
    accessor = source.find("technique_common/accessor")
    if accessor is None:
        raise MeshError("A COLLADA source has no accessor.")
    array = document.resolve_reference(accessor, "source", "float_array")
    values = parse_floats(array.text.encode())
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
    primitive: XmlElement,
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


def _attribute_inputs(document: ColladaDocument, primitive: XmlElement) -> Iterator[tuple[str, XmlElement, int]]:
    """Semantic, source element and index offset of each attribute input of a primitive, sorted by set number.

    Inputs of `<vertices>` count as inputs of the primitive.
    """
    inputs: list[tuple[int, str, XmlElement, int]] = []
    for item in primitive.find_all("input"):
        offset, set_number = int(item.get("offset", "0")), int(item.get("set", "0") or "0")
        vertices = document.find_reference(item, "source", "vertices") if item.get("semantic") == "VERTEX" else None
        for attribute_input in [item] if vertices is None else vertices.find_all("input"):
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
    document: ColladaDocument, geometry: XmlElement, *, with_appearance: bool = False
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
    for primitive in mesh.children:
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


def _position_input(document: ColladaDocument, primitive: XmlElement) -> tuple[XmlElement, int, int]:
    """Position source of a primitive, offset of its index within a corner, and number of indices per corner.

    Raises `MeshError` if offsets are invalid or positions are missing.
    """
    inputs = primitive.find_all("input")
    offsets = [int(item.get("offset", "0")) for item in inputs]
    stride = 1 + max(offsets, default=0)
    if min(offsets, default=0) < 0 or stride > max(len(inputs), 1):
        raise MeshError("The input offsets of a COLLADA primitive are not consecutive.")
    for item, offset in zip(inputs, offsets, strict=True):
        if item.get("semantic") == "VERTEX":
            vertices = document.resolve_reference(item, "source", "vertices")
            for position in vertices.find_all("input"):
                if position.get("semantic") == "POSITION":
                    return document.resolve_reference(position, "source", "source"), offset, stride
    raise MeshError("A COLLADA primitive has no vertex positions.")


def _read_corners(document: ColladaDocument, primitive: XmlElement, stride: int) -> tuple[IntArray, IntArray]:
    """Corner table of one primitive, shape (n, stride), and the corner indices of its triangles, shape (m, 3).

    Holes in polygons (`<ph>`) are filled, with a note.
    """
    index_lists = [_parse_corner_indices(element, stride) for element in primitive.find_all("p")]
    if polygons_with_holes := primitive.find_all("ph"):
        document.add_note("Holes in polygons were filled.")
        index_lists += [
            _parse_corner_indices(element, stride) for ph in polygons_with_holes for element in ph.find_all("p")
        ]
    table = np.concatenate(index_lists) if index_lists else np.zeros((0, stride), dtype=np.int64)
    counts = np.array([len(corner_list) for corner_list in index_lists], dtype=np.int64)
    if primitive.tag == "polylist":
        counts = parse_ints(primitive.find_text("vcount").encode())
    elif primitive.tag == "triangles":
        counts = np.full(len(table) // 3, 3)
    if (counts < 0).any() or counts.sum() != len(table):
        raise MeshError(f"A COLLADA <{primitive.tag}> lists {len(table)} corners, which do not fit its polygons.")
    corners = np.arange(len(table))
    return table, triangulate_strips(corners, counts) if primitive.tag == "tristrips" else triangulate_polygons(
        corners, counts
    )


def _parse_corner_indices(element: XmlElement, stride: int) -> IntArray:
    indices = parse_ints(element.text.encode())
    if len(indices) % stride:
        raise MeshError(f"A COLLADA <p> has {len(indices)} indices, which is not a multiple of {stride}.")
    return indices.reshape(-1, stride)

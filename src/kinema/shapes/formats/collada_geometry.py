"""COLLADA geometries: positions and polygons."""

from __future__ import annotations

from xml.etree.ElementTree import Element

import numpy as np

from kinema.shapes.affine import merge
from kinema.shapes.formats.numbers import parse_floats, parse_ints
from kinema.shapes.formats.polygons import triangulate, triangulate_strips
from kinema.shapes.formats.scene import checked_part
from kinema.shapes.limits import MeshLimits
from kinema.shapes.mesh_data import FloatArray, IntArray, MeshData, MeshError

_POLYGON_TAGS = ("triangles", "polylist", "polygons", "trifans", "tristrips")
_LINE_TAGS = ("lines", "linestrips")


class ColladaDocument:
    """The XML with its elements by id, and notes about what was skipped."""

    def __init__(self, root: Element, limits: MeshLimits) -> None:
        self.root = root
        self.limits = limits
        self._by_id: dict[str, Element] = {}
        self._notes: dict[str, None] = {}
        for element in root.iter():
            if "id" in element.attrib:
                self._by_id.setdefault(element.attrib["id"], element)

    def target(self, element: Element, attribute: str, *tags: str) -> Element:
        """The element that `attribute` of `element` refers to; it must have one of `tags`."""
        reference = element.get(attribute, "")
        if not reference.startswith("#"):
            raise MeshError(f"The COLLADA refers to '{reference[:80]}', which is outside the file and is not opened.")
        found = self._by_id.get(reference[1:])
        if found is None or found.tag not in tags:
            raise MeshError(f"The COLLADA refers to a <{tags[0]}> '{reference[:80]}', which does not exist.")
        return found

    def note(self, sentence: str) -> None:
        """Remember `sentence`, once."""
        self._notes[sentence] = None

    def notes(self) -> tuple[str, ...]:
        """Every sentence noted, in order."""
        return tuple(self._notes)


def read_geometry(document: ColladaDocument, geometry: Element) -> MeshData:
    """All polygons of a geometry as triangles, in the file's units."""
    mesh = geometry.find("mesh")
    if mesh is None:
        document.note("A geometry that is not a mesh was skipped.")
        return merge([])
    # Primitives that differ in material only share their positions: one block of vertices per source.
    blocks: dict[int, FloatArray] = {}
    faces: dict[int, list[IntArray]] = {}
    for primitive in mesh:
        if primitive.tag in _LINE_TAGS:
            document.note("Lines were skipped.")
        if primitive.tag not in _POLYGON_TAGS:
            continue
        source, offset, stride = _position_input(document, primitive)
        if id(source) not in blocks:
            blocks[id(source)] = _read_positions(document, source)
        faces.setdefault(id(source), []).append(_read_faces(document, primitive, offset, stride))
    return merge([checked_part(vertices, np.concatenate(faces[key])) for key, vertices in blocks.items()])


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


def _read_positions(document: ColladaDocument, source: Element) -> FloatArray:
    accessor = source.find("technique_common/accessor")
    if accessor is None:
        raise MeshError("A COLLADA source has no accessor.")
    array = document.target(accessor, "source", "float_array")
    values = parse_floats((array.text or "").encode())
    count, stride, start = (int(accessor.get(key, default)) for key, default in _ACCESSOR_DEFAULTS)
    if stride < 3 or count < 0 or start < 0:
        raise MeshError("A COLLADA accessor does not describe positions.")
    if start + count * stride > len(values):
        present = len(values) // stride
        raise MeshError(f"The COLLADA positions are cut short: {count} are declared, {present} are there.")
    document.limits.check_counts(count, 0)
    return values[start : start + count * stride].reshape(count, stride)[:, :3]


_ACCESSOR_DEFAULTS = (("count", "0"), ("stride", "1"), ("offset", "0"))


# Faces ----------------------------------------------------------------------------------------------------------------


def _read_faces(document: ColladaDocument, primitive: Element, offset: int, stride: int) -> IntArray:
    """Triangles of one primitive element, as indices into its positions."""
    lists = [_corners(element, offset, stride) for element in primitive.findall("p")]
    if holed := primitive.findall("ph"):
        document.note("Holes in polygons were filled.")
        lists += [_corners(element, offset, stride) for ph in holed for element in ph.findall("p")]
    corners = np.concatenate(lists) if lists else np.zeros(0, dtype=np.int64)
    counts = np.array([len(corner_list) for corner_list in lists], dtype=np.int64)
    if primitive.tag == "polylist":
        counts = parse_ints((primitive.findtext("vcount") or "").encode())
    elif primitive.tag == "triangles":
        counts = np.full(len(corners) // 3, 3)
    if (counts < 0).any() or counts.sum() != len(corners):
        raise MeshError(f"A COLLADA <{primitive.tag}> lists {len(corners)} corners, which do not fit its polygons.")
    return triangulate_strips(corners, counts) if primitive.tag == "tristrips" else triangulate(corners, counts)


def _corners(element: Element, offset: int, stride: int) -> IntArray:
    indices = parse_ints((element.text or "").encode())
    if len(indices) % stride:
        raise MeshError(f"A COLLADA <p> has {len(indices)} indices, which is not a multiple of {stride}.")
    return indices[offset::stride]

"""PLY reader, ASCII and binary: vertices, faces, normals, texture coordinates and colours.

Read are the elements `vertex` (x, y, z and optional attributes) and `face` (a list of vertex indices and optional
colours).
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice, takewhile

import numpy as np

from ..appearance import Appearance, CornerAttribute, normalize_normals, validated_corner_attribute
from ..mesh import FloatArray, IntArray, MeshData, MeshError
from .loaded_mesh import LoadedMesh, MeshSource
from .parsing import parse_columns, parse_ints, require_bytes, to_float64, triangulate_polygons

# Appearance -----------------------------------------------------------------------------------------------------------

VERTEX_ATTRIBUTES = (
    *("nx", "ny", "nz", "red", "green", "blue", "alpha"),
    *("s", "t", "u", "v", "texture_u", "texture_v"),
)
"""Vertex properties that are part of the appearance."""
COLOR_PROPERTIES = ("red", "green", "blue", "alpha")
"""Colour properties of vertices and faces."""


def skipped_appearance_notes(header: bytes, face_properties: list[str]) -> Iterator[str]:
    """Notes on unsupported appearance data: per-face texture coordinates and texture files (MeshLab)."""
    if "texcoord" in face_properties:
        yield "Per-corner texture coordinates of faces were skipped."
    for line in header.decode("ascii", "replace").splitlines():
        tokens = line.split(maxsplit=2)
        if tokens[:2] == ["comment", "TextureFile"]:
            yield f"The image {tokens[2][:200] if tokens[2:] else ''!r} was skipped."


def build_ply_appearance(
    mesh: MeshData, vertex_values: dict[str, FloatArray], face_values: dict[str, FloatArray], face_sizes: IntArray
) -> Appearance | None:
    """Appearance from vertex and face properties; None if there are none. Vertex colours take precedence.

    Args:
        mesh: the triangulated mesh.
        vertex_values: property name -> value of each vertex.
        face_values: property name -> value of each polygon.
        face_sizes: number of corners of each polygon.
    """
    normals = _stack_columns(vertex_values, ("nx", "ny", "nz"))
    texcoord_names = (("s", "t"), ("u", "v"), ("texture_u", "texture_v"))
    coordinates = next((c for names in texcoord_names if (c := _stack_columns(vertex_values, names)) is not None), None)
    appearance = Appearance(
        normals=None if normals is None else normalize_normals(validated_corner_attribute(normals, mesh.faces, 3)),
        texture_coordinates=tuple(c for c in (_vertex_attribute(coordinates, mesh, 2),) if c is not None),
        colors=_vertex_attribute(_rgba_columns(vertex_values), mesh, 4) or _face_colors(face_values, face_sizes),
    )
    return None if appearance.is_empty else appearance


def _rgba_columns(columns: dict[str, FloatArray]) -> FloatArray | None:
    """RGBA colours (n, 4) from colour columns, alpha 1 by default; None without colours."""
    colors = _stack_columns(columns, COLOR_PROPERTIES[:3])
    return None if colors is None else np.column_stack([colors, columns.get("alpha", np.ones(len(colors)))])


def _face_colors(columns: dict[str, FloatArray], face_sizes: IntArray) -> CornerAttribute | None:
    """Corner colours of triangles from the colours of their polygons; None without colours."""
    colors = _rgba_columns(columns)
    if colors is None:
        return None
    unique_colors, indices = np.unique(colors, axis=0, return_inverse=True)
    triangle_indices = np.repeat(indices.reshape(-1, 1), np.maximum(face_sizes - 2, 0), axis=0)
    return validated_corner_attribute(unique_colors, np.repeat(triangle_indices, 3, axis=1), 4)


def _stack_columns(columns: dict[str, FloatArray], names: tuple[str, ...]) -> FloatArray | None:
    return np.column_stack([columns[name] for name in names]) if all(name in columns for name in names) else None


def _vertex_attribute(values: FloatArray | None, mesh: MeshData, width: int) -> CornerAttribute | None:
    return None if values is None else validated_corner_attribute(values, mesh.faces, width)


# Document -------------------------------------------------------------------------------------------------------------

_MAX_HEADER_BYTES = 1 << 16
_BYTE_ORDERS = {"binary_little_endian": "<", "binary_big_endian": ">"}
_STRUCT_CODES = {
    **{"char": "b", "uchar": "B", "short": "h", "ushort": "H", "int": "i", "uint": "I", "float": "f", "double": "d"},
    **{"int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I"},
    **{"float32": "f", "float64": "d"},
}
_INDEX_NAMES = ("vertex_indices", "vertex_index")


@dataclass(frozen=True)
class _Property:
    """A property of a PLY element."""

    name: str
    code: str
    """`struct` format code of the value or of the list items."""
    length_code: str = ""
    """`struct` format code of the list length; empty for a scalar."""


@dataclass(frozen=True)
class _Element:
    """An element declaration of a PLY header."""

    name: str
    count: int
    properties: list[_Property]

    @property
    def has_lists(self) -> bool:
        return any(prop.length_code for prop in self.properties)

    @property
    def leading_scalars(self) -> list[_Property]:
        """Scalar properties before the first list."""
        return list(takewhile(lambda prop: not prop.length_code, self.properties))

    def column(self, name: str) -> int:
        """Column of a scalar property in a row; `MeshError` if it is missing or follows a list."""
        for index, prop in enumerate(self.leading_scalars):
            if prop.name == name:
                return index
        raise MeshError(f"The PLY vertices have no property '{name}'.")


@dataclass
class _PlyData:
    """Data collected from the body of a PLY file."""

    vertices: FloatArray | None = None
    corners: IntArray | None = None
    face_sizes: IntArray | None = None
    vertex_values: dict[str, FloatArray] = field(default_factory=dict)
    """Additional vertex properties: name -> value of each vertex."""
    face_values: dict[str, FloatArray] = field(default_factory=dict)
    """Additional face properties: name -> value of each polygon (before triangulation)."""


def read_ply(source: MeshSource) -> LoadedMesh:
    """Read vertices and faces of an ASCII or binary PLY; polygons are triangulated."""
    encoding, elements, body_offset = _read_header(source.data)
    body = memoryview(source.data)[body_offset:]
    _check_sizes(elements, len(body), text=encoding == "ascii")
    rows = {element.name: element.count for element in elements}
    source.limits.check_counts(rows.get("vertex", 0), rows.get("face", 0))
    attributes = VERTEX_ATTRIBUTES if source.with_appearance else ()
    if encoding == "ascii":
        data = _read_text(body, elements, attributes)
    else:
        data = _read_binary(body, elements, _BYTE_ORDERS[encoding], attributes)
    if data.vertices is None or data.corners is None or data.face_sizes is None:
        raise MeshError("The PLY has no triangles: it lacks vertices or faces.")
    source.limits.check_counts(len(data.vertices), int(np.maximum(data.face_sizes - 2, 0).sum()))
    mesh = MeshData(data.vertices, triangulate_polygons(data.corners, data.face_sizes))
    face_properties = [prop.name for element in elements if element.name == "face" for prop in element.properties]
    appearance_notes = (
        tuple(skipped_appearance_notes(source.data[:body_offset], face_properties)) if source.with_appearance else ()
    )
    return LoadedMesh(
        mesh,
        appearance=build_ply_appearance(mesh, data.vertex_values, data.face_values, data.face_sizes),
        appearance_notes=appearance_notes,
    )


def _normalize_color(values: FloatArray, ply_property: _Property) -> FloatArray:
    """Scale unsigned integer colours to 0 to 1 by the maximum of their type; other values are returned unchanged."""
    is_color = ply_property.name in COLOR_PROPERTIES
    return (
        values / (2.0 ** (8 * struct.calcsize(ply_property.code)) - 1.0)
        if is_color and ply_property.code in "BHI"
        else values
    )


# Header ---------------------------------------------------------------------------------------------------------------


def _read_header(data: bytes) -> tuple[str, list[_Element], int]:
    """Parse the header: encoding, elements in file order, and byte offset of the body."""
    head = data[:_MAX_HEADER_BYTES]
    if not head.startswith(b"ply"):
        raise MeshError("The file does not start with 'ply', so it is not a PLY mesh.")
    end = head.find(b"end_header")
    newline = head.find(b"\n", end)
    if end < 0 or newline < 0:
        raise MeshError("The PLY header has no end.")
    encoding = ""
    elements: list[_Element] = []
    for line in head[:end].decode("ascii", "replace").splitlines()[1:]:
        tokens = line.split()
        try:
            if tokens[:1] == ["format"]:
                encoding = tokens[1]
            elif tokens[:1] == ["element"]:
                elements.append(_Element(tokens[1], _parse_count(tokens[2]), []))
            elif tokens[:1] == ["property"]:
                elements[-1].properties.append(_parse_property(tokens[1:]))
        except (LookupError, ValueError):
            raise MeshError(f"The PLY header line '{line[:60]}' cannot be understood.") from None
    if encoding != "ascii" and encoding not in _BYTE_ORDERS:
        raise MeshError(f"The PLY encoding '{encoding}' is unknown.")
    return encoding, elements, newline + 1


def _parse_count(word: str) -> int:
    if not word.isdecimal():
        raise ValueError(word)
    return int(word)


def _parse_property(words: list[str]) -> _Property:
    if words[0] == "list":
        return _Property(words[3], _STRUCT_CODES[words[2]], _STRUCT_CODES[words[1]])
    return _Property(words[1], _STRUCT_CODES[words[0]])


def _check_sizes(elements: list[_Element], available: int, *, text: bool) -> None:
    """Raise `MeshError` if the body is too short for the declared element counts, before memory is allocated."""
    for element in elements:
        if element.count and not element.properties:
            raise MeshError(f"The PLY element '{element.name}' has no properties.")
        # the shortest value in text is a digit and a space
        sizes = [2 if text else struct.calcsize("<" + (prop.length_code or prop.code)) for prop in element.properties]
        needed = element.count * sum(sizes)
        # the final newline of a text may be missing
        require_bytes(needed - text, available, f"the element '{element.name}' with {element.count} rows")


# Text body ------------------------------------------------------------------------------------------------------------


def _read_text(body: memoryview, elements: list[_Element], attributes: tuple[str, ...]) -> _PlyData:
    """Read vertices and faces of an ASCII body, with the vertex and face properties named in `attributes`."""
    data = _PlyData()
    lines = (line for line in io.BytesIO(body) if not line.isspace())
    for element in elements:
        rows = islice(lines, element.count)
        if element.name == "vertex":
            extra = [(i, p) for i, p in enumerate(element.leading_scalars) if p.name in attributes]
            columns = (element.column("x"), element.column("y"), element.column("z"), *(i for i, _ in extra))
            table = parse_columns(rows, columns)
            data.vertices = table[:, :3]
            data.vertex_values = {p.name: _normalize_color(table[:, 3 + n], p) for n, (_, p) in enumerate(extra)}
            _require_rows(element, len(data.vertices))
        elif element.name == "face":
            n_rows = _read_text_faces(data, element, rows, attributes)
            _require_rows(element, n_rows)
        else:
            _require_rows(element, sum(1 for _ in rows))
    return data


def _require_rows(element: _Element, n_rows: int) -> None:
    if n_rows != element.count:
        raise MeshError(f"The file is truncated: {n_rows} of {element.count} rows of '{element.name}' are present.")


def _read_text_faces(ply_data: _PlyData, element: _Element, rows: Iterator[bytes], attributes: tuple[str, ...]) -> int:
    """Read corner indices, polygon sizes and colours of ASCII face rows into `ply_data`.

    Returns the number of rows read.
    """
    corners: list[bytes] = []
    counts: list[int] = []
    colors = [(prop, list[bytes]()) for prop in element.properties if _is_face_color(prop, attributes)]
    for row in rows:
        tokens = row.split()
        position = 0
        color_columns = iter(colors)
        for prop in element.properties:
            length = int(tokens[position]) if prop.length_code else 0
            if length < 0 or position + length >= len(tokens):
                raise MeshError("A row of the PLY faces is too short.")
            if prop.name in _INDEX_NAMES:
                corners += tokens[position + 1 : position + 1 + length]
                counts.append(length)
            elif colors and _is_face_color(prop, attributes):
                next(color_columns)[1].append(tokens[position])
            position += 1 + length
    ply_data.corners, ply_data.face_sizes = parse_ints(b" ".join(corners)), np.array(counts, dtype=np.int64)
    ply_data.face_values = {
        prop.name: _normalize_color(np.array(column, dtype=np.float64), prop) for prop, column in colors
    }
    return len(counts)


def _is_face_color(ply_property: _Property, attributes: tuple[str, ...]) -> bool:
    return not ply_property.length_code and ply_property.name in COLOR_PROPERTIES and ply_property.name in attributes


# Binary body ----------------------------------------------------------------------------------------------------------


def _read_binary(body: memoryview, elements: list[_Element], byte_order: str, attributes: tuple[str, ...]) -> _PlyData:
    """Read vertices and faces of a binary body, with the vertex and face properties named in `attributes`."""
    data = _PlyData()
    offset = 0
    for element in elements:
        if element.count == 0:
            continue
        if element.has_lists:
            lists = _PlyData()
            offset = _read_binary_faces(lists, body, offset, element, byte_order, attributes)
            if element.name == "face":
                data.corners, data.face_sizes, data.face_values = lists.corners, lists.face_sizes, lists.face_values
            continue
        dtype = _row_dtype(element, byte_order, [1] * len(element.properties))
        require_bytes(element.count * dtype.itemsize, len(body) - offset, f"the element '{element.name}'")
        table = np.frombuffer(body, dtype=dtype, count=element.count, offset=offset)
        offset += table.nbytes
        if element.name == "vertex":
            axes = [table[f"{element.column(axis)}"] for axis in "xyz"]
            data.vertices = np.stack([to_float64(axis) for axis in axes], axis=-1)
            extra = [(i, p) for i, p in enumerate(element.leading_scalars) if p.name in attributes]
            data.vertex_values = {p.name: _normalize_color(to_float64(table[str(i)]), p) for i, p in extra}
    return data


def _row_dtype(element: _Element, byte_order: str, lengths: list[int]) -> np.dtype:
    """Structured dtype of a row of an element with the given list lengths.

    Fields are named by the index of the property; the length of a list is the field `length <index>`.
    """
    fields: list[tuple[str, str] | tuple[str, str, tuple[int]]] = []
    for index, (prop, length) in enumerate(zip(element.properties, lengths, strict=True)):
        if prop.length_code:
            fields.append((f"length {index}", byte_order + prop.length_code))
            fields.append((str(index), byte_order + prop.code, (length,)))
        else:
            fields.append((str(index), byte_order + prop.code))
    return np.dtype(fields)


def _read_binary_faces(
    ply_data: _PlyData, body: memoryview, offset: int, element: _Element, byte_order: str, attributes: tuple[str, ...]
) -> int:
    """Read corner indices, polygon sizes and colours of binary face rows into `ply_data`.

    If all rows have the list lengths of the first row, they are read as one table, otherwise row by row. Returns the
    offset of the next element.
    """
    lengths, _ = _row_layout(body, offset, element, byte_order)
    # Usually all rows have the same lengths (all triangles) and form one table.
    dtype = _row_dtype(element, byte_order, lengths)
    if element.count * dtype.itemsize <= len(body) - offset:
        table = np.frombuffer(body, dtype=dtype, count=element.count, offset=offset)
        lists = [index for index, prop in enumerate(element.properties) if prop.length_code]
        if all((table[f"length {i}"] == lengths[i]).all() for i in lists):
            indices = [i for i in lists if element.properties[i].name in _INDEX_NAMES]
            corners = table[str(indices[0])] if indices else np.zeros((element.count, 0))
            ply_data.face_sizes = np.full(len(corners), corners.shape[1], dtype=np.int64)
            ply_data.corners = corners.astype(np.int64).reshape(-1)
            colors = [(i, p) for i, p in enumerate(element.properties) if _is_face_color(p, attributes)]
            ply_data.face_values = {p.name: _normalize_color(to_float64(table[str(i)]), p) for i, p in colors}
            return offset + table.nbytes
    return _read_ragged_faces(ply_data, body, offset, element, byte_order, attributes)


def _read_ragged_faces(
    ply_data: _PlyData, body: memoryview, offset: int, element: _Element, byte_order: str, attributes: tuple[str, ...]
) -> int:
    """Read binary face rows of varying list lengths one by one into `ply_data`; returns the offset after them."""
    corners: list[int] = []
    counts: list[int] = []
    colors = {i: list[float]() for i, prop in enumerate(element.properties) if _is_face_color(prop, attributes)}
    for _ in range(element.count):
        lengths, starts = _row_layout(body, offset, element, byte_order)
        for i, (prop, length, start) in enumerate(zip(element.properties, lengths, starts, strict=False)):
            if prop.length_code and prop.name in _INDEX_NAMES:
                corners += struct.unpack_from(f"{byte_order}{length}{prop.code}", body, start)
                counts.append(length)
            elif i in colors:
                colors[i] += struct.unpack_from(byte_order + prop.code, body, start)
        offset = starts[-1]
    ply_data.corners, ply_data.face_sizes = np.array(corners).astype(np.int64), np.array(counts, dtype=np.int64)
    properties = element.properties
    ply_data.face_values = {
        properties[i].name: _normalize_color(np.array(c, np.float64), properties[i]) for i, c in colors.items()
    }
    return offset


def _row_layout(body: memoryview, offset: int, element: _Element, byte_order: str) -> tuple[list[int], list[int]]:
    """Layout of the binary row at `offset`: number of values and byte offset of each property.

    Scalars have one value. The list of offsets has one more entry, the offset of the next row.
    """
    lengths: list[int] = []
    starts: list[int] = []
    for prop in element.properties:
        length = 1
        if prop.length_code:
            require_bytes(
                struct.calcsize(byte_order + prop.length_code), len(body) - offset, f"the element '{element.name}'"
            )
            (length,) = struct.unpack_from(byte_order + prop.length_code, body, offset)
            offset += struct.calcsize(byte_order + prop.length_code)
            if length < 0 or length != int(length):
                raise MeshError(f"A list in the PLY element '{element.name}' has length {length}.")
        lengths.append(int(length))
        starts.append(offset)
        offset += int(length) * struct.calcsize(byte_order + prop.code)
        require_bytes(offset, len(body), f"the element '{element.name}'")
    return lengths, [*starts, offset]

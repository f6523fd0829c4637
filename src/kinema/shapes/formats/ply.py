"""PLY, text and binary. Read are the elements `vertex` (x, y, z) and `face` (a list of vertex indices)."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice, takewhile

import numpy as np

from kinema.shapes.formats.numbers import parse_ints, parse_positions, require_bytes, to_float64
from kinema.shapes.formats.ply_looks import COLORS, LAYERS, appearance_of, skipped_looks
from kinema.shapes.formats.polygons import triangulate
from kinema.shapes.formats.source import LoadedMesh, MeshSource
from kinema.shapes.mesh_data import FloatArray, IntArray, MeshData, MeshError

_MAX_HEADER_BYTES = 1 << 16
_ORDERS = {"binary_little_endian": "<", "binary_big_endian": ">"}
_TYPES = {
    **{"char": "b", "uchar": "B", "short": "h", "ushort": "H", "int": "i", "uint": "I", "float": "f", "double": "d"},
    **{"int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I"},
    **{"float32": "f", "float64": "d"},
}
_INDEX_NAMES = ("vertex_indices", "vertex_index")


@dataclass(frozen=True)
class _Property:
    name: str
    code: str
    """`struct` code of the value, or of the items of the list."""
    length_code: str = ""
    """`struct` code of the length of a list; empty for a plain value."""


@dataclass(frozen=True)
class _Element:
    name: str
    count: int
    properties: list[_Property]

    @property
    def has_lists(self) -> bool:
        return any(prop.length_code for prop in self.properties)

    @property
    def plain(self) -> list[_Property]:
        """The plain values at the beginning of a row, before the first list."""
        return list(takewhile(lambda prop: not prop.length_code, self.properties))

    def column(self, name: str) -> int:
        """Position of a plain value in a row; every property before it must be plain too."""
        for index, prop in enumerate(self.plain):
            if prop.name == name:
                return index
        raise MeshError(f"The PLY vertices have no property '{name}'.")


@dataclass
class _Found:
    vertices: FloatArray | None = None
    corners: IntArray | None = None
    counts: IntArray | None = None
    extra: dict[str, FloatArray] = field(default_factory=dict)
    """Other numbers of vertices: the name of a property -> a value each."""
    of_faces: dict[str, FloatArray] = field(default_factory=dict)
    """Likewise of faces, as the file has them: before polygons are cut."""


def read_ply(source: MeshSource) -> LoadedMesh:
    """Read a PLY; polygons are cut into triangles."""
    encoding, elements, body_at = _read_header(source.data)
    body = memoryview(source.data)[body_at:]
    _check_sizes(elements, len(body), text=encoding == "ascii")
    rows = {element.name: element.count for element in elements}
    source.limits.check_counts(rows.get("vertex", 0), rows.get("face", 0))
    wanted = LAYERS if source.looks else ()
    if encoding == "ascii":
        found = _read_text(body, elements, wanted)
    else:
        found = _read_binary(body, elements, _ORDERS[encoding], wanted)
    if found.vertices is None or found.corners is None or found.counts is None:
        raise MeshError("The PLY has no triangles: it lacks vertices or faces.")
    source.limits.check_counts(len(found.vertices), int(np.maximum(found.counts - 2, 0).sum()))
    mesh = MeshData(found.vertices, triangulate(found.corners, found.counts))
    of_faces = [prop.name for element in elements if element.name == "face" for prop in element.properties]
    unseen = tuple(skipped_looks(source.data[:body_at], of_faces)) if source.looks else ()
    return LoadedMesh(mesh, appearance=appearance_of(mesh, found.extra, found.of_faces, found.counts), unseen=unseen)


def _scaled(values: FloatArray, prop: _Property) -> FloatArray:
    """Colours are from 0 to 1, or whole numbers up to the largest of their type."""
    is_color = prop.name in COLORS
    return values / (2.0 ** (8 * struct.calcsize(prop.code)) - 1.0) if is_color and prop.code in "BHI" else values


# Header ---------------------------------------------------------------------------------------------------------------


def _read_header(data: bytes) -> tuple[str, list[_Element], int]:
    """Encoding, elements in file order, and where the body starts."""
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
        words = line.split()
        try:
            if words[:1] == ["format"]:
                encoding = words[1]
            elif words[:1] == ["element"]:
                elements.append(_Element(words[1], _count(words[2]), []))
            elif words[:1] == ["property"]:
                elements[-1].properties.append(_property(words[1:]))
        except (LookupError, ValueError):
            raise MeshError(f"The PLY header line '{line[:60]}' cannot be understood.") from None
    if encoding != "ascii" and encoding not in _ORDERS:
        raise MeshError(f"The PLY encoding '{encoding}' is unknown.")
    return encoding, elements, newline + 1


def _count(word: str) -> int:
    if not word.isdecimal():
        raise ValueError(word)
    return int(word)


def _property(words: list[str]) -> _Property:
    if words[0] == "list":
        return _Property(words[3], _TYPES[words[2]], _TYPES[words[1]])
    return _Property(words[1], _TYPES[words[0]])


def _check_sizes(elements: list[_Element], present: int, *, text: bool) -> None:
    """Refuse counts that the rest of the file cannot hold, before anything is allocated for them."""
    for element in elements:
        if element.count and not element.properties:
            raise MeshError(f"The PLY element '{element.name}' has no properties.")
        # A digit and a space are the shortest value in text.
        sizes = [2 if text else struct.calcsize("<" + (prop.length_code or prop.code)) for prop in element.properties]
        needed = element.count * sum(sizes)
        # The very last character of a text may be missing its newline.
        require_bytes(needed - text, present, f"the element '{element.name}' with {element.count} rows")


# Text body ------------------------------------------------------------------------------------------------------------


def _read_text(body: memoryview, elements: list[_Element], wanted: tuple[str, ...]) -> _Found:
    found = _Found()
    lines = (line for line in io.BytesIO(body) if not line.isspace())
    for element in elements:
        rows = islice(lines, element.count)
        if element.name == "vertex":
            more = [(i, p) for i, p in enumerate(element.plain) if p.name in wanted]
            columns = (element.column("x"), element.column("y"), element.column("z"), *(i for i, _ in more))
            table = parse_positions(rows, columns)
            found.vertices = table[:, :3]
            found.extra = {p.name: _scaled(table[:, 3 + n], p) for n, (_, p) in enumerate(more)}
            _require_rows(element, len(found.vertices))
        elif element.name == "face":
            n_rows = _text_lists(found, element, rows, wanted)
            _require_rows(element, n_rows)
        else:
            _require_rows(element, sum(1 for _ in rows))
    return found


def _require_rows(element: _Element, n_rows: int) -> None:
    if n_rows != element.count:
        raise MeshError(f"The file is truncated: {n_rows} of {element.count} rows of '{element.name}' are there.")


def _text_lists(found: _Found, element: _Element, rows: Iterator[bytes], wanted: tuple[str, ...]) -> int:
    """Find corner indices, the number of corners and the colour of each row; the result is how many rows there are."""
    corners: list[bytes] = []
    counts: list[int] = []
    colors = [(prop, list[bytes]()) for prop in element.properties if _is_face_color(prop, wanted)]
    for row in rows:
        words = row.split()
        at = 0
        remaining = iter(colors)
        for prop in element.properties:
            length = int(words[at]) if prop.length_code else 0
            if length < 0 or at + length >= len(words):
                raise MeshError("A row of the PLY faces is too short.")
            if prop.name in _INDEX_NAMES:
                corners += words[at + 1 : at + 1 + length]
                counts.append(length)
            elif colors and _is_face_color(prop, wanted):
                next(remaining)[1].append(words[at])
            at += 1 + length
    found.corners, found.counts = parse_ints(b" ".join(corners)), np.array(counts, dtype=np.int64)
    found.of_faces = {prop.name: _scaled(np.array(column, dtype=np.float64), prop) for prop, column in colors}
    return len(counts)


def _is_face_color(prop: _Property, wanted: tuple[str, ...]) -> bool:
    return not prop.length_code and prop.name in COLORS and prop.name in wanted


# Binary body ----------------------------------------------------------------------------------------------------------


def _read_binary(body: memoryview, elements: list[_Element], order: str, wanted: tuple[str, ...]) -> _Found:
    found = _Found()
    at = 0
    for element in elements:
        if element.count == 0:
            continue
        if element.has_lists:
            lists = _Found()
            at = _binary_lists(lists, body, at, element, order, wanted)
            if element.name == "face":
                found.corners, found.counts, found.of_faces = lists.corners, lists.counts, lists.of_faces
            continue
        dtype = _row_type(element, order, [1] * len(element.properties))
        require_bytes(element.count * dtype.itemsize, len(body) - at, f"the element '{element.name}'")
        table = np.frombuffer(body, dtype=dtype, count=element.count, offset=at)
        at += table.nbytes
        if element.name == "vertex":
            axes = [table[f"{element.column(axis)}"] for axis in "xyz"]
            found.vertices = np.stack([to_float64(axis) for axis in axes], axis=-1)
            more = [(i, p) for i, p in enumerate(element.plain) if p.name in wanted]
            found.extra = {p.name: _scaled(to_float64(table[str(i)]), p) for i, p in more}
    return found


def _row_type(element: _Element, order: str, lengths: list[int]) -> np.dtype:
    """Layout of a row whose properties have so many values; they are called by their number, a list's length too."""
    fields: list[tuple[str, str] | tuple[str, str, tuple[int]]] = []
    for index, (prop, length) in enumerate(zip(element.properties, lengths, strict=True)):
        if prop.length_code:
            fields.append((f"length {index}", order + prop.length_code))
            fields.append((str(index), order + prop.code, (length,)))
        else:
            fields.append((str(index), order + prop.code))
    return np.dtype(fields)


def _binary_lists(
    found: _Found, body: memoryview, at: int, element: _Element, order: str, wanted: tuple[str, ...]
) -> int:
    """Find corner indices, the number of corners and the colour of each row; returns where the next element starts."""
    lengths, _ = _row_places(body, at, element, order)
    # Nearly always every row is like the first (all triangles): then the rows are one table.
    dtype = _row_type(element, order, lengths)
    if element.count * dtype.itemsize <= len(body) - at:
        table = np.frombuffer(body, dtype=dtype, count=element.count, offset=at)
        lists = [index for index, prop in enumerate(element.properties) if prop.length_code]
        if all((table[f"length {i}"] == lengths[i]).all() for i in lists):
            indices = [i for i in lists if element.properties[i].name in _INDEX_NAMES]
            corners = table[str(indices[0])] if indices else np.zeros((element.count, 0))
            found.counts = np.full(len(corners), corners.shape[1], dtype=np.int64)
            found.corners = corners.astype(np.int64).reshape(-1)
            colors = [(i, p) for i, p in enumerate(element.properties) if _is_face_color(p, wanted)]
            found.of_faces = {p.name: _scaled(to_float64(table[str(i)]), p) for i, p in colors}
            return at + table.nbytes
    return _ragged_lists(found, body, at, element, order, wanted)


def _ragged_lists(
    found: _Found, body: memoryview, at: int, element: _Element, order: str, wanted: tuple[str, ...]
) -> int:
    """As `_binary_lists`, row by row."""
    corners: list[int] = []
    counts: list[int] = []
    colors = {i: list[float]() for i, prop in enumerate(element.properties) if _is_face_color(prop, wanted)}
    for _ in range(element.count):
        lengths, starts = _row_places(body, at, element, order)
        for i, (prop, length, start) in enumerate(zip(element.properties, lengths, starts, strict=False)):
            if prop.length_code and prop.name in _INDEX_NAMES:
                corners += struct.unpack_from(f"{order}{length}{prop.code}", body, start)
                counts.append(length)
            elif i in colors:
                colors[i] += struct.unpack_from(order + prop.code, body, start)
        at = starts[-1]
    found.corners, found.counts = np.array(corners).astype(np.int64), np.array(counts, dtype=np.int64)
    properties = element.properties
    found.of_faces = {properties[i].name: _scaled(np.array(c, np.float64), properties[i]) for i, c in colors.items()}
    return at


def _row_places(body: memoryview, at: int, element: _Element, order: str) -> tuple[list[int], list[int]]:
    """How many values each property of the row at `at` has, and where they start; a last start is the next row."""
    lengths: list[int] = []
    starts: list[int] = []
    for prop in element.properties:
        length = 1
        if prop.length_code:
            require_bytes(struct.calcsize(order + prop.length_code), len(body) - at, f"the element '{element.name}'")
            (length,) = struct.unpack_from(order + prop.length_code, body, at)
            at += struct.calcsize(order + prop.length_code)
            if length < 0 or length != int(length):
                raise MeshError(f"A list in the PLY element '{element.name}' has length {length}.")
        lengths.append(int(length))
        starts.append(at)
        at += int(length) * struct.calcsize(order + prop.code)
        require_bytes(at, len(body), f"the element '{element.name}'")
    return lengths, [*starts, at]

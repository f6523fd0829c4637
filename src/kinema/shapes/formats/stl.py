"""STL, binary and ASCII. The format repeats every corner; the vertices are kept as they are (see `weld`)."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from kinema.shapes.appearance import Appearance, CornerValues
from kinema.shapes.formats.numbers import require_bytes, to_float64
from kinema.shapes.formats.source import LoadedMesh, MeshSource
from kinema.shapes.mesh_data import FloatArray, MeshData, MeshError

_HEADER_BYTES = 84
_TRIANGLE = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])

_BLOCK = 1 << 20
_VERTEX = re.compile(rb"vertex\s+(\S+)\s+(\S+)\s+(\S+)", re.IGNORECASE)
_FACET = re.compile(rb"\bfacet\s+normal\b", re.IGNORECASE)
_END_FACET = re.compile(rb"endfacet", re.IGNORECASE)
_END_SOLID = re.compile(rb"endsolid", re.IGNORECASE)


def read_stl(source: MeshSource) -> LoadedMesh:
    """Read a binary or ASCII STL."""
    return _read_ascii(source) if _is_ascii(source.data) else _read_binary(source)


def _is_ascii(data: bytes) -> bool:
    # Binary headers may well start with "solid", so the size that follows from the triangle count decides first.
    if len(data) == _HEADER_BYTES + _declared_triangles(data) * _TRIANGLE.itemsize:
        return False
    return data[:1024].removeprefix(b"\xef\xbb\xbf").lstrip()[:5].lower() == b"solid" and b"\0" not in data[:1024]


def _declared_triangles(data: bytes) -> int:
    return int.from_bytes(data[80:84], "little") if len(data) >= _HEADER_BYTES else 0


def _read_binary(source: MeshSource) -> LoadedMesh:
    data = source.data
    if len(data) < _HEADER_BYTES:
        raise MeshError("The file is too short to be an STL.")
    n_faces = _declared_triangles(data)
    needed = n_faces * _TRIANGLE.itemsize
    require_bytes(needed, len(data) - _HEADER_BYTES, f"an STL of {n_faces} triangles")
    source.limits.check_counts(3 * n_faces, n_faces)
    triangles = np.frombuffer(data, dtype=_TRIANGLE, count=n_faces, offset=_HEADER_BYTES)
    extra = len(data) - _HEADER_BYTES - needed
    notes = (f"{extra} bytes after the last triangle were ignored.",) if extra else ()
    mesh = _from_corners(to_float64(triangles["corners"]).reshape(-1, 3))
    appearance = _colors(data[:80], triangles["attribute"]) if source.looks else None
    return LoadedMesh(mesh, notes=notes, appearance=appearance)


def _colors(header: bytes, attributes: np.ndarray) -> Appearance | None:
    """Colours of faces, five bits each, in the two ways that are in use; None where there are none.

    With `COLOR=` and four bytes in the header (Magics), red is in the lowest bits and the highest bit says that the
    header's colour is meant; without (VisCAM, SolidView), blue is in the lowest bits and the highest bit says that
    there is a colour at all.
    """
    bits = attributes.astype(np.int64)
    marked = bits >> 15 == 1
    at = header.find(b"COLOR=")
    has_default = 0 <= at <= len(header) - 10
    if not has_default and not marked.any():
        return None
    low, middle, high = (((bits >> shift) & 31) / 31.0 for shift in (0, 5, 10))
    if has_default:
        usual = np.frombuffer(header, dtype=np.uint8, count=4, offset=at + 6) / 255.0
        own = np.column_stack([low, middle, high, np.full(len(bits), usual[3])])
        colors = np.where(marked[:, None], usual, own)
    else:
        own = np.column_stack([high, middle, low, np.ones(len(bits))])
        colors = np.where(marked[:, None], own, 1.0)
    kinds, numbers = np.unique(colors, axis=0, return_inverse=True)
    return Appearance(colors=CornerValues(kinds, np.repeat(numbers.reshape(-1, 1), 3, axis=1)))


def _read_ascii(source: MeshSource) -> LoadedMesh:
    n_begun, n_facets = 0, 0
    corners: list[FloatArray] = []
    for block in _facet_blocks(source.data):
        n_begun += len(_FACET.findall(block))
        n_facets += len(_END_FACET.findall(block))
        corners.append(np.array(_VERTEX.findall(block), dtype=np.float64).reshape(-1, 3))
    vertices = np.concatenate(corners) if corners else np.zeros((0, 3))
    if n_begun != n_facets or len(vertices) != 3 * n_facets:
        raise MeshError(
            f"The STL text is damaged: {n_begun} facets begin, {n_facets} end, and there are {len(vertices)} vertices."
        )
    source.limits.check_counts(len(vertices), n_facets)
    ended = _END_SOLID.search(source.data, max(0, len(source.data) - 4096))
    notes = () if ended else ("The STL text does not end with 'endsolid'; it may have been cut short.",)
    return LoadedMesh(_from_corners(vertices), notes=notes)


def _facet_blocks(data: bytes) -> Iterator[bytes]:
    """Pieces of about a mebibyte, each ending with a facet: Python lists of all numbers at once would be huge."""
    position = 0
    while position < len(data):
        cut = _END_FACET.search(data, position + _BLOCK)
        end = cut.end() if cut else len(data)
        yield data[position:end]
        position = end


def _from_corners(vertices: FloatArray) -> MeshData:
    return MeshData(vertices, np.arange(len(vertices)).reshape(-1, 3))

"""STL reader, binary and ASCII, with face colours of the Magics and VisCAM variants."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from ..appearance import Appearance, CornerAttribute
from ..mesh import FloatArray, MeshData, MeshError
from .loaded_mesh import LoadedMesh, MeshSource
from .parsing import require_bytes, to_float64

_HEADER_BYTES = 84
_TRIANGLE_DTYPE = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])

_BLOCK_BYTES = 1 << 20
_VERTEX = re.compile(rb"vertex\s+(\S+)\s+(\S+)\s+(\S+)", re.IGNORECASE)
_FACET = re.compile(rb"\bfacet\s+normal\b", re.IGNORECASE)
_END_FACET = re.compile(rb"endfacet", re.IGNORECASE)
_END_SOLID = re.compile(rb"endsolid", re.IGNORECASE)


def read_stl(source: MeshSource) -> LoadedMesh:
    """Read a binary or ASCII STL; face colours of binary files become corner colours."""
    return _read_ascii(source) if _is_ascii(source.data) else _read_binary(source)


def _is_ascii(data: bytes) -> bool:
    # Binary headers may also start with "solid", so the file size implied by the triangle count is checked first.
    if len(data) == _HEADER_BYTES + _declared_triangles(data) * _TRIANGLE_DTYPE.itemsize:
        return False
    return data[:1024].removeprefix(b"\xef\xbb\xbf").lstrip()[:5].lower() == b"solid" and b"\0" not in data[:1024]


def _declared_triangles(data: bytes) -> int:
    return int.from_bytes(data[80:84], "little") if len(data) >= _HEADER_BYTES else 0


def _read_binary(source: MeshSource) -> LoadedMesh:
    """Read a binary STL: 80-byte header, triangle count and 50 bytes per triangle; trailing bytes are noted."""
    data = source.data
    if len(data) < _HEADER_BYTES:
        raise MeshError("The file is too short to be an STL.")
    n_faces = _declared_triangles(data)
    needed = n_faces * _TRIANGLE_DTYPE.itemsize
    require_bytes(needed, len(data) - _HEADER_BYTES, f"an STL of {n_faces} triangles")
    source.limits.check_counts(3 * n_faces, n_faces)
    triangles = np.frombuffer(data, dtype=_TRIANGLE_DTYPE, count=n_faces, offset=_HEADER_BYTES)
    extra = len(data) - _HEADER_BYTES - needed
    notes = (f"{extra} bytes after the last triangle were ignored.",) if extra else ()
    mesh = _mesh_from_corners(to_float64(triangles["corners"]).reshape(-1, 3))
    appearance = _face_colors(data[:80], triangles["attribute"]) if source.with_appearance else None
    return LoadedMesh(mesh, notes=notes, appearance=appearance)


def _face_colors(header: bytes, attributes: np.ndarray) -> Appearance | None:
    """Face colours from the 16-bit attributes of a binary STL (5 bits per channel); None if there are none.

    With `COLOR=` and RGBA bytes in the header (Magics), red is in the lowest bits and a set top bit selects the header
    colour. Otherwise (VisCAM, SolidView), blue is in the lowest bits and a set top bit marks a valid colour.
    """
    bits = attributes.astype(np.int64)
    top_bit = bits >> 15 == 1
    header_offset = header.find(b"COLOR=")
    has_default = 0 <= header_offset <= len(header) - 10
    if not has_default and not top_bit.any():
        return None
    low, mid, high = (((bits >> shift) & 31) / 31.0 for shift in (0, 5, 10))
    if has_default:
        default_color = np.frombuffer(header, dtype=np.uint8, count=4, offset=header_offset + 6) / 255.0
        face_colors = np.column_stack([low, mid, high, np.full(len(bits), default_color[3])])
        colors = np.where(top_bit[:, None], default_color, face_colors)
    else:
        face_colors = np.column_stack([high, mid, low, np.ones(len(bits))])
        colors = np.where(top_bit[:, None], face_colors, 1.0)
    unique_colors, indices = np.unique(colors, axis=0, return_inverse=True)
    return Appearance(colors=CornerAttribute(unique_colors, np.repeat(indices.reshape(-1, 1), 3, axis=1)))


def _read_ascii(source: MeshSource) -> LoadedMesh:
    """Read an ASCII STL with regular expressions, block by block; `MeshError` if facets and vertices do not match."""
    n_begun, n_facets = 0, 0
    corners: list[FloatArray] = []
    for block in _facet_blocks(source.data):
        n_begun += len(_FACET.findall(block))
        n_facets += len(_END_FACET.findall(block))
        corners.append(np.array(_VERTEX.findall(block), dtype=np.float64).reshape(-1, 3))
    vertices = np.concatenate(corners) if corners else np.zeros((0, 3))
    if n_begun != n_facets or len(vertices) != 3 * n_facets:
        raise MeshError(
            f"The ASCII STL is corrupt: {n_begun} facets begin, {n_facets} end, and there are {len(vertices)} vertices."
        )
    source.limits.check_counts(len(vertices), n_facets)
    end_solid = _END_SOLID.search(source.data, max(0, len(source.data) - 4096))
    notes = () if end_solid else ("The ASCII STL does not end with 'endsolid'; it may be truncated.",)
    return LoadedMesh(_mesh_from_corners(vertices), notes=notes)


def _facet_blocks(data: bytes) -> Iterator[bytes]:
    """Split an ASCII STL after complete facets into blocks of about 1 MiB, which bounds temporary Python objects."""
    position = 0
    while position < len(data):
        match = _END_FACET.search(data, position + _BLOCK_BYTES)
        end = match.end() if match else len(data)
        yield data[position:end]
        position = end


def _mesh_from_corners(vertices: FloatArray) -> MeshData:
    return MeshData(vertices, np.arange(len(vertices)).reshape(-1, 3))

"""OFF, the text form in three dimensions."""

from __future__ import annotations

import re
from itertools import islice

import numpy as np

from kinema.shapes.formats.numbers import parse_ints, parse_positions, require_bytes
from kinema.shapes.formats.polygons import triangulate
from kinema.shapes.formats.source import LoadedMesh, MeshSource
from kinema.shapes.mesh_data import IntArray, MeshData, MeshError

# Colours, normals and texture coordinates (C, N, ST) follow the position and are not wanted.
_HEADER = re.compile(rb"\s*(?:ST)?C?N?OFF\s*(\d+)\s+(\d+)(?:[ \t]+\d+)?[ \t]*\n")
_COMMENT = re.compile(rb"#[^\n]*")
_HEADER_BYTES = 1 << 16
_LINE = re.compile(rb"\S[^\n]*")
# "0 0 0\n" and "3 0 1 2\n": no row can be shorter.
_VERTEX_BYTES, _FACE_BYTES = 6, 8


def read_off(source: MeshSource) -> LoadedMesh:
    """Read a text OFF; polygons are cut into triangles."""
    text = _COMMENT.sub(b"", source.data.replace(b"\r\n", b"\n")) + b"\n"
    header = _HEADER.match(text[:_HEADER_BYTES])
    if not header:
        raise MeshError("The file does not start with the header of a text OFF mesh.")
    n_vertices, n_faces = int(header.group(1)), int(header.group(2))
    require_bytes(
        n_vertices * _VERTEX_BYTES + n_faces * _FACE_BYTES,
        len(text) - header.end(),
        f"an OFF of {n_vertices} vertices and {n_faces} faces",
    )
    source.limits.check_counts(n_vertices, n_faces)
    lines = (match.group() for match in _LINE.finditer(text, header.end()))
    vertices = parse_positions(islice(lines, n_vertices))
    corners, counts = _split_rows(list(islice(lines, n_faces)))
    if len(vertices) != n_vertices or len(counts) != n_faces:
        raise MeshError(f"The file is truncated: {n_faces} faces are declared, {len(counts)} are there.")
    source.limits.check_counts(n_vertices, int(np.maximum(counts - 2, 0).sum()))
    return LoadedMesh(MeshData(vertices, triangulate(corners, counts)))


def _split_rows(rows: list[bytes]) -> tuple[IntArray, IntArray]:
    """Corner indices of all rows "n i j k ... colour", and the number of corners of each."""
    corners: list[bytes] = []
    counts: list[int] = []
    for row in rows:
        words = row.split()
        count = int(words[0])
        if not 0 <= count < len(words):
            raise MeshError(f"A face says it has {count} corners and lists {len(words) - 1}.")
        corners += words[1 : count + 1]
        counts.append(count)
    return parse_ints(b" ".join(corners)), np.array(counts, dtype=np.int64)

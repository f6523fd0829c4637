"""Reader of OFF meshes in text form."""

from __future__ import annotations

import re
from itertools import islice

import numpy as np

from ..mesh import IntArray, MeshData, MeshError
from .loaded_mesh import LoadedMesh, MeshSource
from .parsing import parse_columns, parse_ints, require_bytes, triangulate_polygons

# Variants with texture coordinates (ST), colours (C) and normals (N): these follow the position and are ignored.
_HEADER = re.compile(rb"\s*(?:ST)?C?N?OFF\s*(\d+)\s+(\d+)(?:[ \t]+\d+)?[ \t]*\n")
_COMMENT = re.compile(rb"#[^\n]*")
_HEADER_BYTES = 1 << 16
_NONBLANK_LINE = re.compile(rb"\S[^\n]*")
# lengths of the shortest rows, "0 0 0\n" and "3 0 1 2\n"
_MIN_VERTEX_BYTES, _MIN_FACE_BYTES = 6, 8


def read_off(source: MeshSource) -> LoadedMesh:
    """Read positions and faces of a text OFF; polygons are triangulated and other data is ignored."""
    text = _COMMENT.sub(b"", source.data.replace(b"\r\n", b"\n")) + b"\n"
    header = _HEADER.match(text[:_HEADER_BYTES])
    if not header:
        raise MeshError("The file does not start with the header of a text OFF mesh.")
    n_vertices, n_faces = int(header.group(1)), int(header.group(2))
    require_bytes(
        n_vertices * _MIN_VERTEX_BYTES + n_faces * _MIN_FACE_BYTES,
        len(text) - header.end(),
        f"an OFF of {n_vertices} vertices and {n_faces} faces",
    )
    source.limits.check_counts(n_vertices, n_faces)
    lines = (match.group() for match in _NONBLANK_LINE.finditer(text, header.end()))
    vertices = parse_columns(islice(lines, n_vertices))
    corners, counts = _parse_face_rows(list(islice(lines, n_faces)))
    if len(vertices) != n_vertices or len(counts) != n_faces:
        raise MeshError(f"The file is truncated: it declares {n_faces} faces and has {len(counts)}.")
    source.limits.check_counts(n_vertices, int(np.maximum(counts - 2, 0).sum()))
    return LoadedMesh(MeshData(vertices, triangulate_polygons(corners, counts)))


def _parse_face_rows(rows: list[bytes]) -> tuple[IntArray, IntArray]:
    """Parse face rows "n i j k ... colour": concatenated corner indices and the number of corners of each face."""
    corners: list[bytes] = []
    counts: list[int] = []
    for row in rows:
        tokens = row.split()
        count = int(tokens[0])
        if not 0 <= count < len(tokens):
            raise MeshError(f"A face declares {count} corners and lists {len(tokens) - 1}.")
        corners += tokens[1 : count + 1]
        counts.append(count)
    return parse_ints(b" ".join(corners)), np.array(counts, dtype=np.int64)

"""Wavefront OBJ: positions and faces, and what is laid on them where that is wanted."""

from __future__ import annotations

import re
from itertools import islice

import numpy as np

from kinema.shapes.formats.numbers import parse_ints, parse_positions
from kinema.shapes.formats.obj_looks import ObjText, read_appearance
from kinema.shapes.formats.polygons import triangulate
from kinema.shapes.formats.source import LoadedMesh, MeshSource
from kinema.shapes.mesh_data import FloatArray, IntArray, MeshData, MeshError

_VERTEX = re.compile(rb"^[ \t]*v[ \t]+([^\n#]*)", re.MULTILINE)
_GROUP = re.compile(rb"^[ \t]*[og][ \t]+([^\n#]*)", re.MULTILINE)
_FACE = re.compile(rb"^[ \t]*f[ \t]+([^\n#]*)", re.MULTILINE)
# A corner is position/texture/normal; only the position is wanted.
_AFTER_POSITION = re.compile(rb"/\S*")
_LINES_AT_ONCE = 1 << 16
_MOST_GROUPS = 1 << 16


def read_obj(source: MeshSource) -> LoadedMesh:
    """Read positions and faces; polygons are cut into triangles."""
    text = _plain_lines(source.data)
    vertices = _read_vertices(text)
    obj = ObjText(text, _VERTEX, _FACE) if source.looks else None
    corners, counts = _read_corners(text) if obj is None else (obj.table[:, 0], obj.counts)
    notes = ()
    if (counts < 3).any():
        notes = (f"{np.count_nonzero(counts < 3)} faces with fewer than three corners were skipped.",)
    source.limits.check_counts(len(vertices), int(np.maximum(counts - 2, 0).sum()))
    indices = _absolute_indices(text, corners, counts)
    mesh = MeshData(vertices, triangulate(indices, counts))
    appearance, unseen = None, dict[str, None]()
    if obj is not None:
        appearance = read_appearance(source, obj, mesh.faces, unseen.setdefault)
    return LoadedMesh(mesh, None, notes, _parts(text, counts), appearance, tuple(unseen))


def _parts(text: bytes, counts: IntArray) -> dict[str, list[tuple[int, int]]]:
    """The triangles of each object (`o`) and group (`g`), which last until the next line of that kind."""
    groups = [
        (m.start(), m.group(0).split(None, 1)[0], m.group(1)) for m in islice(_GROUP.finditer(text), _MOST_GROUPS)
    ]
    if not groups:
        return {}
    face_at = np.array([match.start() for match in _FACE.finditer(text)], dtype=np.int64)
    triangles = np.concatenate([[0], np.cumsum(np.maximum(counts - 2, 0))])
    result: dict[str, list[tuple[int, int]]] = {}
    for kind in (b"o", b"g"):
        own = [(start, name) for start, letter, name in groups if letter == kind]
        ends = [*(start for start, _ in own), len(text)][1:]
        for (start, name), end in zip(own, ends, strict=True):
            first, last = (int(triangles[i]) for i in np.searchsorted(face_at, [start, end]))
            # a face may be in several groups at once
            words = {name.strip(), *(name.split() if kind == b"g" else ())}
            for word in sorted(words):
                if word and last > first:
                    result.setdefault(word.decode("utf-8", "replace"), []).append((first, last))
    return result


def _plain_lines(data: bytes) -> bytes:
    """One newline per line, and lines continued with a backslash joined."""
    text = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return text.replace(b"\\\n", b" ")


def _read_vertices(text: bytes) -> FloatArray:
    # A weight or a colour may follow the position.
    vertices = parse_positions(match.group(1) for match in _VERTEX.finditer(text))
    if len(vertices) == 0:
        raise MeshError("The file has no vertices ('v' lines), so it is not an OBJ mesh.")
    return vertices


def _read_corners(text: bytes) -> tuple[IntArray, IntArray]:
    """The position index of every face corner as written, and the number of corners of every face."""
    corners, counts = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    matches = _FACE.finditer(text)
    while bodies := [match.group(1) for match in islice(matches, _LINES_AT_ONCE)]:
        corners.append(parse_ints(_AFTER_POSITION.sub(b"", b" ".join(bodies))))
        counts.append(np.array([len(body.split()) for body in bodies], dtype=np.int64))
        if len(corners[-1]) != counts[-1].sum():
            raise MeshError("A face line ('f') is not a list of corners.")
    return np.concatenate(corners), np.concatenate(counts)


def _absolute_indices(text: bytes, corners: IntArray, counts: IntArray) -> IntArray:
    """Zero-based indices. OBJ counts from 1, and negative numbers count back from the vertices read so far."""
    if (corners == 0).any():
        raise MeshError("A face refers to vertex 0, but OBJ counts from 1.")
    if (corners > 0).all():
        return corners - 1
    vertex_at = np.array([match.start() for match in _VERTEX.finditer(text)])
    face_at = np.array([match.start() for match in _FACE.finditer(text)])
    read_so_far = np.repeat(np.searchsorted(vertex_at, face_at), counts)
    return np.where(corners > 0, corners - 1, corners + read_so_far)

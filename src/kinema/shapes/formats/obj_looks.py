"""What an OBJ lays on its faces: texture coordinates, normals, colours of vertices, and materials."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np

from kinema.shapes.appearance import Appearance, CornerValues, corner_values, unit_normals, with_alpha
from kinema.shapes.formats.mtl import MAX_LIBRARY_BYTES, read_mtl
from kinema.shapes.formats.numbers import parse_ints, parse_positions
from kinema.shapes.formats.polygons import triangulate
from kinema.shapes.formats.source import MeshSource
from kinema.shapes.images import bounded_bytes
from kinema.shapes.look import Look
from kinema.shapes.mesh_data import IntArray

_COORDINATE = re.compile(rb"^[ \t]*vt[ \t]+([^\n#]*)", re.MULTILINE)
_NORMAL = re.compile(rb"^[ \t]*vn[ \t]+([^\n#]*)", re.MULTILINE)
_MATERIAL = re.compile(rb"^[ \t]*usemtl[ \t]+([^\n]*)", re.MULTILINE)
_LIBRARY = re.compile(rb"^[ \t]*mtllib[ \t]+([^\n]*)", re.MULTILINE)
_MOST_SWITCHES = 1 << 20
_MOST_LIBRARIES = 64
_LINES_AT_ONCE = 1 << 16


class ObjText:
    """The text of an OBJ with where its vertices and faces are."""

    def __init__(self, text: bytes, vertex: re.Pattern[bytes], face: re.Pattern[bytes]) -> None:
        self.text = text
        self.vertex = vertex
        self.face = face
        self.table, self.counts = self._corners()
        """The position, texture coordinate and normal of every corner as written, 0 for none; corners of each face."""

    def _corners(self) -> tuple[IntArray, IntArray]:
        tables, counts = [np.zeros((0, 3), dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
        matches = self.face.finditer(self.text)
        while bodies := [match.group(1) for match in islice(matches, _LINES_AT_ONCE)]:
            tables.append(_block_indices(b" ".join(bodies)))
            counts.append(np.array([len(body.split()) for body in bodies], dtype=np.int64))
        return np.concatenate(tables), np.concatenate(counts)

    def starts(self, pattern: re.Pattern[bytes]) -> IntArray:
        """Where each line of a kind begins."""
        return np.array([match.start() for match in pattern.finditer(self.text)], dtype=np.int64)


def read_appearance(
    source: MeshSource, obj: ObjText, vertex_faces: IntArray, note: Callable[[str], object]
) -> Appearance:
    """Everything but positions and faces."""
    corners = triangulate(np.arange(len(obj.table)), obj.counts)
    materials, numbers = _materials(source, obj, note)
    uv = _layer(obj, 1, corners, _COORDINATE, (0, 1))
    directions = _layer(obj, 2, corners, _NORMAL, (0, 1, 2))
    return Appearance(
        normals=unit_normals(directions),
        coordinates=() if uv is None else (uv,),
        colors=_colors(obj, vertex_faces),
        materials=materials,
        material_of_face=numbers,
    )


# Corners --------------------------------------------------------------------------------------------------------------


def _block_indices(text: bytes) -> IntArray:
    """Position, texture coordinate and normal of each corner in a text, shape (n, 3)."""
    n_corners, slashes, doubles = len(text.split()), text.count(b"/"), text.count(b"//")
    result = np.zeros((n_corners, 3), dtype=np.int64)
    if slashes == 0:
        result[:, 0] = parse_ints(text)
    elif slashes == 2 * n_corners and doubles == n_corners:
        result[:, ::2] = parse_ints(text.replace(b"//", b" ")).reshape(n_corners, 2)
    elif slashes == 2 * n_corners and doubles == 0:
        result[:] = parse_ints(text.replace(b"/", b" ")).reshape(n_corners, 3)
    elif slashes == n_corners and doubles == 0:
        result[:, :2] = parse_ints(text.replace(b"/", b" ")).reshape(n_corners, 2)
    else:  # corners of several kinds
        for i, word in enumerate(text.split()):
            parts = [*word.split(b"/"), b"", b""]
            result[i] = [int(part or 0) for part in parts[:3]]
    return result


def _layer(
    obj: ObjText, column: int, corners: IntArray, pattern: re.Pattern[bytes], columns: tuple[int, ...]
) -> CornerValues | None:
    indices = obj.table[:, column]
    if len(indices) == 0 or (indices == 0).any():
        return None  # some corners have none: there is nothing sensible to give them
    if (indices < 0).any():
        so_far = np.repeat(np.searchsorted(obj.starts(pattern), obj.starts(obj.face)), obj.counts)
        indices = np.where(indices > 0, indices, indices + so_far + 1)
    try:
        values = parse_positions((match.group(1) for match in pattern.finditer(obj.text)), columns)
    except ValueError:
        return None
    return corner_values(values, (indices - 1)[corners], len(columns))


def _colors(obj: ObjText, vertex_faces: IntArray) -> CornerValues | None:
    """Three numbers after each position; one more is a weight, and more are a colour with a weight."""
    first = obj.vertex.search(obj.text)
    width = 0 if first is None else len(first.group(1).split())
    if width not in (6, 7):
        return None
    try:
        values = parse_positions((m.group(1) for m in obj.vertex.finditer(obj.text)), tuple(range(width - 3, width)))
    except ValueError:
        return None
    return corner_values(with_alpha(values), vertex_faces, 4)


# Materials ------------------------------------------------------------------------------------------------------------


def _materials(
    source: MeshSource, obj: ObjText, note: Callable[[str], object]
) -> tuple[tuple[Look, ...], IntArray | None]:
    """The materials that are used, and the number of each triangle's."""
    switches = [(m.start(), _name(m.group(1))) for m in islice(_MATERIAL.finditer(obj.text), _MOST_SWITCHES)]
    if not switches:
        return (), None
    known = _libraries(source, obj.text, note)
    names = list(dict.fromkeys(name for _, name in switches))
    missing = [name for name in names if name not in known]
    if missing:
        note(f"The material '{missing[0][:80]}' is in none of the OBJ's libraries that could be read.")
    looks = tuple(known[name] for name in names if name in known)
    if not looks:
        return (), None
    first = obj.face.search(obj.text)
    if len(switches) == 1 and first is not None and switches[0][0] < first.start():
        return looks, None
    place = {look.name: number for number, look in enumerate(looks)}
    before = np.searchsorted(np.array([at for at, _ in switches]), obj.starts(obj.face)) - 1
    chosen = np.array([*(place.get(name, -1) for _, name in switches), -1], dtype=np.int64)[before]
    numbers = np.repeat(chosen, np.maximum(obj.counts - 2, 0))
    return looks, None if len(looks) == 1 and (numbers == 0).all() else numbers


def _libraries(source: MeshSource, text: bytes, note: Callable[[str], object]) -> dict[str, Look]:
    """All materials of the libraries in the folder of the OBJ."""
    found: dict[str, Look] = {}
    for match in islice(_LIBRARY.finditer(text), _MOST_LIBRARIES):
        name = _name(match.group(1)).replace("\\", "/")
        path = _library(source.folder, name)
        if path is None:
            note(f"The material library '{name[:80]}' is not a file in the folder of the OBJ.")
            continue
        found |= read_mtl(bounded_bytes(path, MAX_LIBRARY_BYTES), path.parent, note)
    return found


def _library(folder: Path | None, name: str) -> Path | None:
    if folder is None or "\0" in name:
        return None
    path = folder / name
    try:
        is_below = path.resolve().is_relative_to(folder.resolve())
        return path if is_below and path.is_file() and path.suffix.lower() == ".mtl" else None
    except OSError:
        return None


def _name(text: bytes) -> str:
    return text.strip().decode("utf-8", "replace")

"""How convex meshes lie in one flat array of numbers: corners, faces, the corners of each face, and who faces where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kinema.foundation import Array

from .farthest import farthest_table, n_cells

MOST_CORNERS = 16
"""Of a face: of faces with more, the corners are left out that matter least for its area."""
FACE = 5
"""Numbers of a face: its normal, how many corners it has, and where their list is from the mesh's start on."""
TABLE = 2
"""Numbers of a table of directions (`farthest.py`): where it is from the mesh's start on, and its cells along an edge.
Behind the faces come those of two, one of the farthest corners and one of the normals nearest to a direction."""


@dataclass(frozen=True, slots=True)
class Polyhedron:
    """A convex mesh."""

    vertices: Array
    """Positions [m], shape (n, 3)."""
    faces: Sequence[Sequence[int]]
    """The corners of each flat face, once around, counter-clockwise as seen from outside."""
    normals: Array
    """Unit normals, outward, shape (n_faces, 3)."""


@dataclass(frozen=True, slots=True)
class PackedHulls:
    """Convex meshes one after the other."""

    numbers: Array
    """Of each mesh: its corners, its faces, where its tables are, the lists of the corners of its faces, the tables."""
    first: tuple[int, ...]
    """Where each mesh begins."""
    n_corners: tuple[int, ...]
    n_faces: tuple[int, ...]
    radius: tuple[float, ...]
    """How far its corners are from its origin at most [m]."""


def pack_hulls(hulls: Sequence[Polyhedron]) -> PackedHulls:
    """All meshes of a model."""
    packed = [_pack(hull) for hull in hulls]
    starts = np.cumsum([0, *(len(p) for p in packed)])
    return PackedHulls(
        np.concatenate([*packed, np.zeros(1)]),  # never nothing
        tuple(int(s) for s in starts[:-1]),
        tuple(len(hull.vertices) for hull in hulls),
        tuple(len(hull.faces) for hull in hulls),
        tuple(float(np.linalg.norm(hull.vertices, axis=1).max()) for hull in hulls),
    )


def _pack(hull: Polyhedron) -> Array:
    faces = [_fewer(hull.vertices, list(face)) for face in hull.faces]
    counts = np.array([len(face) for face in faces])
    lists_at = hull.vertices.size + FACE * len(faces) + 2 * TABLE
    starts = lists_at + np.concatenate([[0], np.cumsum(counts)[:-1]])
    table = np.column_stack([hull.normals, counts, starts])
    known, at, tables = [hull.vertices, hull.normals], lists_at + int(counts.sum()), []
    where = []
    for points in known:
        tables.append(farthest_table(points))
        where += [float(at), float(n_cells(len(points)))]
        at += len(tables[-1])
    lists = [np.array(f, float) for f in faces]
    return np.concatenate([hull.vertices.ravel(), table.ravel(), where, *lists, *tables])


def _fewer(vertices: Array, face: list[int]) -> list[int]:
    """Leave corners out, each time the one that takes the least area with it."""
    while len(face) > MOST_CORNERS:
        ring = vertices[face]
        before, after = np.roll(ring, 1, axis=0), np.roll(ring, -1, axis=0)
        areas = np.linalg.norm(np.cross(ring - before, after - before), axis=1)
        del face[int(areas.argmin())]
    return face

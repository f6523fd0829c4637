"""The points of a mesh that can be the first to touch another body: corners, and places along edges that stand out.

Two polyhedra meet at a corner of one of them or where two edges cross, and neither is ever in a hollow.
"""

from __future__ import annotations

import numpy as np

from kinema.shapes.affine import weld
from kinema.shapes.mass import signed_volume
from kinema.shapes.mesh_data import FloatArray, IntArray, MeshData

MOST_POINTS = 800
FINEST = 1.0 / 48.0
"""How far points along an edge are apart at least, against the size of the mesh."""
_FLAT = 1e-6
"""An edge that stands out by less, against the size of the mesh, is within a flat face."""


def touching_points(mesh: MeshData, most: int = MOST_POINTS) -> FloatArray:
    """Points on the surface of `mesh` [m], shape (n, 3), at most so many, the same at every call.

    All corners that stand out, and along edges that do one every 48th of the mesh's size; of more than `most` one is
    kept in each cell of a grid that is as fine as that allows.
    """
    welded = weld(mesh)
    if len(welded.faces) == 0:
        return np.zeros((0, 3))
    size = float(np.ptp(welded.vertices, axis=0).max()) or 1.0
    edges = _standing_out(welded, size)
    corners = welded.vertices[np.unique(edges)]
    if len(corners) > most:
        return _thinned(corners, size, most)
    spacing = FINEST * size
    while True:
        points = np.concatenate([corners, _along(welded.vertices, edges, spacing)])
        if len(points) <= most or spacing > size:
            return points if len(points) <= most else corners
        spacing *= 1.25


def _standing_out(mesh: MeshData, size: float) -> IntArray:
    """Edges between faces that fall away on both sides, and those of fewer or more faces than two, shape (n, 2)."""
    faces = mesh.faces
    corners = mesh.vertices[faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    lengths = np.linalg.norm(normals, axis=1, keepdims=True)
    normals = normals / np.where(lengths > 0.0, lengths, 1.0) * (-1.0 if signed_volume(mesh) < 0.0 else 1.0)
    ends = np.stack([faces, np.roll(faces, -1, axis=1)], axis=-1).reshape(-1, 2)
    across = np.roll(faces, -2, axis=1).reshape(-1)
    owner = np.repeat(np.arange(len(faces)), 3)
    keys = ends.min(axis=1) * len(mesh.vertices) + ends.max(axis=1)
    order = np.argsort(keys, kind="stable")
    first = np.flatnonzero(np.diff(keys[order], prepend=-1))
    uses = np.diff(first, append=len(keys))
    one = order[first]
    other = order[np.where(uses == 2, first + 1, first)]
    beyond = mesh.vertices[across[other]] - mesh.vertices[ends[one, 0]]
    height = np.einsum("ij,ij->i", normals[owner[one]], beyond)
    return ends[one[(uses != 2) | (height < -_FLAT * size)]]


def _along(vertices: FloatArray, edges: IntArray, spacing: float) -> FloatArray:
    """Points within edges, evenly, that are no farther apart than asked for."""
    starts, steps = vertices[edges[:, 0]], vertices[edges[:, 1]] - vertices[edges[:, 0]]
    counts = np.maximum(np.ceil(np.linalg.norm(steps, axis=1) / spacing - 1e-9).astype(np.int64) - 1, 0)
    number = np.repeat(np.arange(len(edges)), counts)
    turn = np.arange(len(number)) - np.repeat(np.cumsum(counts) - counts, counts)
    share = (turn + 1.0) / (counts[number] + 1.0)
    return starts[number] + share[:, None] * steps[number]


def _thinned(points: FloatArray, size: float, most: int) -> FloatArray:
    """The first point of each cell of a grid."""
    low, cell = points.min(axis=0), size / 64.0
    while True:
        cells = np.floor((points - low) / cell).astype(np.int64)
        kept = np.sort(np.unique(cells, axis=0, return_index=True)[1])
        if len(kept) <= most:
            return points[kept]
        cell *= 1.1

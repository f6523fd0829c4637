"""Faces cut into smaller ones, neighbours alike, with what is laid on them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kinema.shapes.appearance import Appearance, CornerValues
from kinema.shapes.mesh_data import IntArray, MeshData

_NEXT = (1, 2, 0)
_PIECES: dict[int, tuple[tuple[int, int, int], ...]] = {
    0b000: ((0, 1, 2),),
    0b001: ((0, 3, 2), (3, 1, 2)),
    0b010: ((0, 1, 4), (0, 4, 2)),
    0b100: ((0, 1, 5), (5, 1, 2)),
    0b011: ((3, 1, 4), (0, 3, 4), (0, 4, 2)),
    0b110: ((4, 2, 5), (0, 1, 4), (0, 4, 5)),
    0b101: ((0, 3, 5), (3, 1, 2), (3, 2, 5)),
    0b111: ((0, 3, 5), (3, 1, 4), (5, 4, 2), (3, 4, 5)),
}
"""Which edges of a face are cut, the first in the lowest bit -> its pieces; 0 to 2 are corners, 3 to 5 the middles."""


def cut_faces(mesh: MeshData, appearance: Appearance, is_cut: np.ndarray) -> tuple[MeshData, Appearance]:
    """Cut some faces into four each, and their neighbours so that no corner lies in the middle of an edge.

    Args:
        mesh: the triangles.
        appearance: what is laid on them.
        is_cut: for each face, whether it is cut.
    """
    faces = np.asarray(mesh.faces, dtype=np.int64)
    ends = np.sort(np.stack([faces, faces[:, _NEXT]], axis=-1), axis=-1)
    keys = ends[..., 0] * mesh.n_vertices + ends[..., 1]
    marked = np.isin(keys, keys[is_cut])
    parents, slots = _pieces(marked)
    corners, middles = _cut(faces, marked, parents, slots, mesh.n_vertices)
    vertices = np.concatenate([mesh.vertices, _mean(mesh.vertices, middles)])
    normals, colors, parts = appearance.normals, appearance.colors, appearance.material_of_face
    laid = replace(
        appearance,
        normals=None if normals is None else _with_length_one(_layer(normals, marked, parents, slots)),
        coordinates=tuple(_layer(c, marked, parents, slots) for c in appearance.coordinates),
        colors=None if colors is None else _layer(colors, marked, parents, slots),
        material_of_face=None if parts is None else parts[parents],
    )
    return MeshData(vertices, corners), laid


def _pieces(marked: np.ndarray) -> tuple[IntArray, IntArray]:
    """For each piece, in the order of faces, the face that it is of, and which of its six points are its corners."""
    patterns = marked @ np.array([1, 2, 4])
    found_faces, found_slots = [], []
    for pattern, pieces in _PIECES.items():
        own = np.flatnonzero(patterns == pattern)
        found_faces.append(np.repeat(own, len(pieces)))
        found_slots.append(np.tile(np.array(pieces), (len(own), 1)))
    parents = np.concatenate(found_faces)
    order = np.argsort(parents, kind="stable")
    return parents[order], np.concatenate(found_slots)[order]


def _cut(
    corners: IntArray, marked: np.ndarray, parents: IntArray, slots: IntArray, n_values: int
) -> tuple[IntArray, IntArray]:
    """The corners of the pieces, and for each new value the two that it lies between."""
    ends = np.sort(np.stack([corners, corners[:, _NEXT]], axis=-1), axis=-1)
    middles, numbers = np.unique(ends[marked], axis=0, return_inverse=True)
    new = np.zeros(corners.shape, dtype=np.int64)
    new[marked] = n_values + numbers.reshape(-1)
    return np.take_along_axis(np.hstack([corners, new])[parents], slots, axis=1), middles


def _layer(layer: CornerValues, marked: np.ndarray, parents: IntArray, slots: IntArray) -> CornerValues:
    corners, middles = _cut(np.asarray(layer.corners, dtype=np.int64), marked, parents, slots, len(layer.values))
    return CornerValues(np.concatenate([layer.values, _mean(layer.values, middles)]), corners)


def _mean(values: np.ndarray, pairs: IntArray) -> np.ndarray:
    return 0.5 * (values[pairs[:, 0]] + values[pairs[:, 1]])


def _with_length_one(normals: CornerValues) -> CornerValues:
    lengths = np.linalg.norm(normals.values, axis=1, keepdims=True)
    return CornerValues(normals.values / np.where(lengths > 0, lengths, 1.0), normals.corners)

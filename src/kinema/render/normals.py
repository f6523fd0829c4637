"""Normals of meshes that have none: smooth where faces meet at a blunt angle, sharp at edges."""

from __future__ import annotations

import numpy as np

from kinema.foundation import Array
from kinema.shapes import CornerValues, MeshData

CREASE = np.radians(35.0)
"""Faces that differ by more keep a sharp edge between them."""
_MOST = 32
"""Faces at one vertex that are looked at."""


def crease_normals(mesh: MeshData, crease: float = CREASE) -> CornerValues:
    """For each corner the mean normal of the faces around its vertex that look nearly the same way, by area."""
    scaled = face_normals(mesh)
    lengths = np.linalg.norm(scaled, axis=1, keepdims=True)
    unit = scaled / np.where(lengths > 0, lengths, 1.0)
    _, place = np.unique(mesh.vertices.round(9), axis=0, return_inverse=True)
    corners = place.reshape(-1)[mesh.faces].ravel()  # files often repeat a vertex for each face
    faces = np.repeat(np.arange(mesh.n_faces), 3)
    mine, other = _meeting(corners)
    same = np.einsum("ij,ij->i", unit[faces[mine]], unit[faces[other]]) >= np.cos(crease)
    result = np.zeros((len(corners), 3))
    np.add.at(result, mine[same], scaled[faces[other[same]]])
    length = np.linalg.norm(result, axis=1, keepdims=True)
    result = np.where(length > 0, result / np.where(length > 0, length, 1.0), [0.0, 0.0, 1.0])
    return CornerValues(result, np.arange(len(corners)).reshape(-1, 3))


def face_normals(mesh: MeshData) -> Array:
    """Of twice the length of each face's area."""
    a, b, c = (mesh.triangles()[:, i] for i in range(3))
    return np.cross(b - a, c - a)


def _meeting(corners: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of corners at the same vertex, each with itself too; of a large fan, with some of the others."""
    order = np.argsort(corners, kind="stable")
    _, starts, counts = np.unique(corners[order], return_index=True, return_counts=True)
    partners = np.repeat(np.minimum(counts, _MOST), counts)
    mine = np.repeat(order, partners)
    other = order[np.repeat(np.repeat(starts, counts), partners) + _ranges(partners)]
    return np.concatenate([mine, order]), np.concatenate([other, order])


def _ranges(counts: np.ndarray) -> np.ndarray:
    """0, 1, ... up to each count, one after the other."""
    ends = np.cumsum(counts)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts)

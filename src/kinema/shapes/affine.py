"""Moving, mapping, joining and welding meshes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from kinema.shapes.mesh_data import FloatArray, IntArray, MeshData, ShapeError, float_matrix, float_vector

_IDENTITY = np.eye(3).tolist()


def apply_linear(mesh: MeshData, matrix: ArrayLike, translation: ArrayLike = (0.0, 0.0, 0.0)) -> MeshData:
    """The mesh with every vertex x moved to `matrix @ x + translation` [m].

    `matrix` is any 3x3 (rotation, scale, shear, mirror). A mirror (negative determinant) also reverses the winding, so
    that what faced outward still does.
    """
    linear = float_matrix(matrix, "linear map")
    offset = float_vector(translation, 3, "translation")
    if is_identity(linear) and not offset.any():
        return mesh
    diagonal = np.diag(linear)
    if np.count_nonzero(linear) == np.count_nonzero(diagonal):
        vertices = mesh.vertices * diagonal + offset
    else:
        # einsum keeps one fixed order of summation; a threaded matrix product need not give the same bits twice.
        vertices = np.einsum("ij,nj->ni", linear, mesh.vertices) + offset
    faces = mesh.faces[:, ::-1] if np.linalg.det(linear) < 0 else mesh.faces
    return MeshData(vertices, faces)


def is_identity(linear: FloatArray) -> bool:
    """Whether a 3x3 matrix maps everything to itself."""
    return linear.tolist() == _IDENTITY


def merge(meshes: Sequence[MeshData]) -> MeshData:
    """All meshes, one after the other, as one; nothing is welded."""
    if not meshes:
        return MeshData(np.zeros((0, 3)), np.zeros((0, 3), dtype=np.int64))
    starts = np.cumsum([0] + [mesh.n_vertices for mesh in meshes[:-1]])
    return MeshData(
        np.concatenate([mesh.vertices for mesh in meshes]),
        np.concatenate([mesh.faces + start for mesh, start in zip(meshes, starts, strict=True)]),
    )


def faces_alone(mesh: MeshData, faces: IntArray) -> MeshData:
    """Some faces by their numbers, in that order, without the vertices of others."""
    used, numbers = np.unique(mesh.faces[faces], return_inverse=True)
    return MeshData(mesh.vertices[used], numbers.reshape(-1, 3))


def weld(mesh: MeshData, tolerance: float = 0.0) -> MeshData:
    """Merge vertices that coincide, and drop faces that lose a corner by it.

    With `tolerance` zero only exactly equal positions merge. With a positive `tolerance` [m] vertices closer than it
    merge, and so do chains of such neighbours. The first vertex of each group stays, where it was and in its order.
    """
    if not (tolerance >= 0.0 and np.isfinite(tolerance)):
        raise ShapeError(f"The welding tolerance must be zero or positive, got {tolerance}.")
    groups = coincident_groups(mesh.vertices)
    if tolerance > 0.0:
        groups = _join_near_groups(mesh.vertices, groups, tolerance)
    kept, index = np.unique(groups, return_inverse=True)
    faces = index.reshape(-1)[mesh.faces]
    return MeshData(mesh.vertices[kept], faces[~collapsed(faces)])


def collapsed(faces: IntArray) -> np.ndarray:
    """For each face, whether two of its corners are the same vertex; shape (m,) bool."""
    a, b, c = faces.T
    return (a == b) | (b == c) | (c == a)


def coincident_groups(vertices: FloatArray) -> IntArray:
    """For each vertex, the index of the first vertex at exactly its position; shape (n,)."""
    if len(vertices) == 0:
        return np.zeros(0, dtype=np.int64)
    order = np.lexsort(vertices.T)
    ordered = vertices[order]
    starts = np.ones(len(vertices), dtype=bool)
    starts[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    # lexsort is stable, so the first of each run is the lowest index.
    first = order[starts]
    groups = np.zeros(len(vertices), dtype=np.int64)
    groups[order] = first[np.cumsum(starts) - 1]
    return groups


def _join_near_groups(vertices: FloatArray, groups: IntArray, tolerance: float) -> IntArray:
    """Merge groups whose positions are within `tolerance` [m]; the lowest index stands for the merged group."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components
    from scipy.spatial import KDTree

    kept = np.unique(groups)
    pairs = KDTree(vertices[kept]).query_pairs(tolerance, output_type="ndarray")
    links = coo_matrix((np.ones(len(pairs), dtype=bool), (pairs[:, 0], pairs[:, 1])), shape=(len(kept), len(kept)))
    _, labels = connected_components(links, directed=False)
    lowest = np.full(labels.max() + 1, len(vertices), dtype=np.int64)
    np.minimum.at(lowest, labels, kept)
    return lowest[labels][np.searchsorted(kept, groups)]

"""Triangle mesh type, validation, limits for untrusted files, affine transforms, merging and vertex welding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinema.core import determinant3, reproducible_product

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# A metre-scale robot in micrometres stays below 1e7. Larger values than this indicate corrupt data, and the fifth-order
# integrals of the mass properties would overflow.
MAX_COORDINATE = 1e12


class GeometryError(ValueError):
    """Invalid argument of a geometric operation (negative radius, matrix that is not 3x3, ...)."""


class MeshError(GeometryError):
    """A mesh or mesh file is unusable; `reason` is one sentence for the user."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, eq=False)
class MeshData:
    """A triangle mesh; faces are counter-clockwise seen from outside. The frame is up to the caller.

    The arrays are read-only because meshes are shared between links and caches; copy before writing.
    """

    vertices: FloatArray
    """Positions [m], shape (n, 3)."""
    faces: IntArray
    """Vertex indices, shape (m, 3)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "vertices", _read_only_view(_as_vertices(self.vertices)))
        object.__setattr__(self, "faces", _read_only_view(_as_faces(self.faces)))

    @property
    def n_vertices(self) -> int:
        """Number of vertices, including unreferenced ones."""
        return len(self.vertices)

    @property
    def n_faces(self) -> int:
        """Number of triangles."""
        return len(self.faces)

    def triangles(self) -> FloatArray:
        """Corner positions of every face [m], shape (m, 3 corners, 3)."""
        return self.vertices[self.faces]


def validate_mesh(mesh: MeshData, *, max_coordinate: float = MAX_COORDINATE) -> MeshData:
    """Return `mesh` unchanged, or raise `MeshError` if the mesh is invalid.

    A valid mesh has at least one triangle, vertex indices in range and finite coordinates of magnitude up to
    `max_coordinate` [m].
    """
    if mesh.n_faces == 0:
        raise MeshError("The mesh has no triangles.")
    if mesh.n_vertices == 0:
        raise MeshError("The mesh has no vertices.")
    lowest, highest = int(mesh.faces.min()), int(mesh.faces.max())
    if lowest < 0 or highest >= mesh.n_vertices:
        wrong = lowest if lowest < 0 else highest
        raise MeshError(f"A face refers to vertex {wrong}, but there are only {mesh.n_vertices} vertices.")
    if not np.isfinite(mesh.vertices).all():
        raise MeshError("A vertex coordinate is not a finite number.")
    largest = float(np.abs(mesh.vertices).max())
    if largest > max_coordinate:
        raise MeshError(f"A vertex coordinate is {largest:.3g}, larger than the {max_coordinate:.3g} allowed.")
    return mesh


def float_vector(value: ArrayLike, length: int, quantity: str) -> FloatArray:
    """Convert `value` to a finite float64 array of shape (length,); `GeometryError` naming `quantity` otherwise."""
    return _float_array(value, (length,), quantity)


def float_matrix_3x3(value: ArrayLike, quantity: str) -> FloatArray:
    """Convert `value` to a finite float64 array of shape (3, 3); `GeometryError` naming `quantity` otherwise."""
    return _float_array(value, (3, 3), quantity)


def _float_array(value: ArrayLike, shape: tuple[int, ...], quantity: str) -> FloatArray:
    array = np.asarray(value, dtype=np.float64)
    if array.shape != shape or not np.isfinite(array).all():
        raise GeometryError(f"The {quantity} must be finite numbers of shape {shape}, got shape {array.shape}.")
    return array


def _as_vertices(value: ArrayLike) -> FloatArray:
    array = np.ascontiguousarray(value, dtype=np.float64)
    if array.size == 0:
        return np.zeros((0, 3))
    if array.ndim != 2 or array.shape[1] != 3:
        raise GeometryError(f"Mesh vertices must have shape (n, 3), got {array.shape}.")
    return array


def _as_faces(value: ArrayLike) -> IntArray:
    """Convert `value` to a contiguous int64 array of shape (m, 3); `GeometryError` for other shapes or non-integers."""
    array = np.asarray(value)
    if array.size == 0:
        return np.zeros((0, 3), dtype=np.int64)
    if array.ndim != 2 or array.shape[1] != 3:
        raise GeometryError(f"Mesh faces must have shape (m, 3), got {array.shape}.")
    # A float array is probably vertices passed by mistake; converting it would silently truncate.
    if array.dtype.kind not in "iu":
        raise GeometryError(f"Mesh faces must be integers, got {array.dtype}.")
    return np.ascontiguousarray(array, dtype=np.int64)


def _read_only_view(array: NDArray[Any]) -> NDArray[Any]:
    # The flag is set on a view, so that the array of the caller stays writeable.
    view = array.view()
    view.flags.writeable = False
    return view


# Limits ---------------------------------------------------------------------------------------------------------------

MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class MeshLimits:
    """Upper bounds on untrusted mesh files, checked before the corresponding memory is allocated."""

    file_bytes: int = 256 * MEBIBYTE
    """Total size of the file and of all files it references [bytes]."""
    vertices: int = 24_000_000
    """Number of vertices of the result; a binary STL of `file_bytes` has 16 million."""
    faces: int = 8_000_000
    """Number of triangles of the result; a binary STL of `file_bytes` has 5.4 million."""
    markup_items: int = 1_000_000
    """Number of XML elements and attributes, of JSON values, and of scene nodes."""
    nesting_depth: int = 500
    """Nesting depth of XML elements and scene nodes."""
    coordinate: float = MAX_COORDINATE
    """Largest absolute coordinate [m]."""

    def check_counts(self, vertices: int, faces: int) -> None:
        """Raise `MeshError` if the number of vertices or triangles exceeds its limit."""
        if vertices > self.vertices:
            raise MeshError(f"The mesh has {vertices} vertices, more than the {self.vertices} allowed.")
        if faces > self.faces:
            raise MeshError(f"The mesh has {faces} triangles, more than the {self.faces} allowed.")


ProgressCallback = Callable[[str, float], None]
"""Called with a description of the current operation and its completed fraction (0 to 1)."""


# Operations -----------------------------------------------------------------------------------------------------------

_IDENTITY = np.eye(3).tolist()


def apply_affine(mesh: MeshData, matrix: ArrayLike, translation: ArrayLike = (0.0, 0.0, 0.0)) -> MeshData:
    """Mesh with every vertex x mapped to `matrix @ x + translation` [m].

    `matrix` (3, 3) may contain rotation, scale, shear and reflection. A negative determinant also reverses the winding
    of all faces, so that they stay oriented outwards. The identity returns `mesh` itself.
    """
    linear = float_matrix_3x3(matrix, "linear map")
    offset = float_vector(translation, 3, "translation")
    if is_identity_matrix(linear) and not offset.any():
        return mesh
    diagonal = np.diag(linear)
    if np.count_nonzero(linear) == np.count_nonzero(diagonal):
        vertices = mesh.vertices * diagonal + offset
    else:
        vertices = reproducible_product(mesh.vertices, linear.T) + offset
    faces = mesh.faces[:, ::-1] if determinant3(linear) < 0 else mesh.faces
    return MeshData(vertices, faces)


def is_identity_matrix(matrix: FloatArray) -> bool:
    """Whether a 3x3 matrix is exactly the identity."""
    return matrix.tolist() == _IDENTITY


def merge_meshes(meshes: Sequence[MeshData]) -> MeshData:
    """Concatenate meshes into one, offsetting the vertex indices; vertices are not welded."""
    if not meshes:
        return MeshData(np.zeros((0, 3)), np.zeros((0, 3), dtype=np.int64))
    starts = np.cumsum([0] + [mesh.n_vertices for mesh in meshes[:-1]])
    return MeshData(
        np.concatenate([mesh.vertices for mesh in meshes]),
        np.concatenate([mesh.faces + start for mesh, start in zip(meshes, starts, strict=True)]),
    )


def extract_faces(mesh: MeshData, face_indices: IntArray) -> MeshData:
    """Submesh of the faces `face_indices`, in that order, without unreferenced vertices."""
    used, indices = np.unique(mesh.faces[face_indices], return_inverse=True)
    return MeshData(mesh.vertices[used], indices.reshape(-1, 3))


def face_normals(mesh: MeshData) -> FloatArray:
    """Unit normals of the triangles, outwards for counter-clockwise faces; zero for degenerate ones; (n_faces, 3)."""
    a, b, c = np.moveaxis(mesh.vertices[mesh.faces], 1, 0)
    return _normalized(np.cross(b - a, c - a))


def vertex_normals(mesh: MeshData) -> FloatArray:
    """Unit normals of the vertices: mean of the normals of adjacent triangles, weighted by the angle at the vertex.

    Shape (n_vertices, 3); zero for vertices without triangles.
    """
    corners, normals = mesh.vertices[mesh.faces], face_normals(mesh)
    sums = np.zeros_like(mesh.vertices)
    for k in range(3):
        to_next, to_previous = (_normalized(corners[:, (k + i) % 3] - corners[:, k]) for i in (1, 2))
        angles = np.arccos(np.clip((to_next * to_previous).sum(axis=1), -1.0, 1.0))
        np.add.at(sums, mesh.faces[:, k], angles[:, None] * normals)
    return _normalized(sums)


def _normalized(vectors: FloatArray) -> FloatArray:
    """Vectors (n, 3) divided by their lengths; zero vectors remain zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0.0, lengths, 1.0)


def unique_edges(mesh: MeshData) -> IntArray:
    """Edges of the triangles without duplicates: pairs of vertex indices in ascending order, sorted; (n_edges, 2)."""
    edges = np.sort(mesh.faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
    return np.unique(edges, axis=0)


def weld_vertices(mesh: MeshData, tolerance: float = 0.0) -> MeshData:
    """Merge coincident vertices and drop faces that become degenerate.

    With `tolerance` zero, only exactly equal positions merge. With a positive `tolerance` [m], vertices closer than
    `tolerance` merge, transitively. The vertex of lowest index represents each group, with its position and order
    unchanged.
    """
    if not (tolerance >= 0.0 and np.isfinite(tolerance)):
        raise GeometryError(f"The welding tolerance must be zero or positive, got {tolerance}.")
    groups = coincident_vertex_groups(mesh.vertices)
    if tolerance > 0.0:
        groups = _merge_nearby_groups(mesh.vertices, groups, tolerance)
    kept, index = np.unique(groups, return_inverse=True)
    faces = index.reshape(-1)[mesh.faces]
    return MeshData(mesh.vertices[kept], faces[~collapsed_face_mask(faces)])


def collapsed_face_mask(faces: IntArray) -> np.ndarray:
    """For each face, whether two of its corners are the same vertex; bool, shape (m,)."""
    a, b, c = faces.T
    return (a == b) | (b == c) | (c == a)


def coincident_vertex_groups(vertices: FloatArray) -> IntArray:
    """For each vertex, the lowest index of all vertices at exactly the same position; shape (n,)."""
    if len(vertices) == 0:
        return np.zeros(0, dtype=np.int64)
    order = np.lexsort(vertices.T)
    ordered = vertices[order]
    starts = np.ones(len(vertices), dtype=bool)
    starts[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    # lexsort is stable, so the first index of each run is the lowest.
    first = order[starts]
    groups = np.zeros(len(vertices), dtype=np.int64)
    groups[order] = first[np.cumsum(starts) - 1]
    return groups


def _merge_nearby_groups(vertices: FloatArray, groups: IntArray, tolerance: float) -> IntArray:
    """Merge groups of coincident vertices that are within `tolerance` [m], transitively.

    `groups` (n,) holds the representative vertex of every vertex, as from `coincident_vertex_groups`. Returns the same
    array for the merged groups (connected components of the neighbourhood graph), each represented by its lowest index.
    """
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

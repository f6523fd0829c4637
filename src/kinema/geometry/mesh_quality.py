"""Mesh diagnostics: manifoldness, orientation, closedness, degenerate faces, connected components and planarity."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinema.core import reproducible_norm, reproducible_product, singular_value_decomposition, symmetric_eigen

from .mass_properties import signed_volume
from .mesh import FloatArray, IntArray, MeshData, coincident_vertex_groups, collapsed_face_mask

# A face whose height is below this fraction of its longest edge has no usable normal in float64.
_SLIVER_RATIO = 1e-12


@dataclass(frozen=True, eq=False)
class MeshQuality:
    """Topological and geometric diagnostics of a mesh; exactly coincident vertices are treated as one vertex."""

    has_nan: bool
    """Whether a coordinate is NaN or infinite. All other fields are then zero or False."""
    n_degenerate_faces: int
    """Number of faces without area: coincident or collinear corners."""
    n_boundary_edges: int
    """Number of edges with a single face, at a hole or border of the surface."""
    n_misoriented_edges: int
    """Number of edges of two faces with inconsistent winding."""
    n_nonmanifold_edges: int
    """Number of edges with three or more faces, as where two closed parts touch along a line."""
    is_closed: bool
    """Whether every edge is shared by exactly two faces with consistent winding."""
    encloses_volume: bool
    """Whether every edge is traversed equally often in both directions, so that the enclosed volume is well defined.
    True for closed meshes, and also for closed parts that touch."""
    is_inside_out: bool
    """Whether the signed volume is negative; meaningful only if `encloses_volume`."""
    n_components: int
    """Number of connected components (through shared vertices)."""
    extents: FloatArray
    """Size of the bounding box of the faces [m], shape (3,)."""
    area: float
    """Surface area [m^2]."""
    volume: float
    """Signed volume [m^3]; meaningful only if `encloses_volume`."""


@dataclass(frozen=True)
class _EdgeCounts:
    """Numbers of undirected edges by defect."""

    boundary: int
    misoriented: int
    nonmanifold: int
    unbalanced: int


def measure_mesh_quality(mesh: MeshData) -> MeshQuality:
    """Topological and geometric diagnostics of `mesh`; vertex indices must be in range (`validate_mesh`).

    A mesh without faces or with non-finite coordinates gives all-zero results.
    """
    corners = mesh.triangles()
    if mesh.n_faces == 0 or not np.isfinite(corners).all():
        return _unmeasured_quality(has_nan=mesh.n_faces > 0)
    welded = coincident_vertex_groups(mesh.vertices)[mesh.faces]
    # A collapsed face contributes an edge and its reverse, which could hide or simulate a hole.
    valid_faces = welded[~collapsed_face_mask(welded)]
    edges = _count_edges(valid_faces, mesh.n_vertices)
    double_areas = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1)
    points = corners.reshape(-1, 3)
    volume = signed_volume(mesh)
    return MeshQuality(
        has_nan=False,
        n_degenerate_faces=int(np.count_nonzero(double_areas <= _SLIVER_RATIO * _longest_edge_squared(corners))),
        n_boundary_edges=edges.boundary,
        n_misoriented_edges=edges.misoriented,
        n_nonmanifold_edges=edges.nonmanifold,
        is_closed=len(valid_faces) > 0 and edges.boundary + edges.misoriented + edges.nonmanifold == 0,
        encloses_volume=len(valid_faces) > 0 and edges.unbalanced == 0,
        is_inside_out=volume < 0,
        n_components=_count_components(welded, mesh.n_vertices),
        extents=points.max(axis=0) - points.min(axis=0),
        area=float(double_areas.sum() / 2),
        volume=volume,
    )


def _unmeasured_quality(*, has_nan: bool) -> MeshQuality:
    """Diagnostics of a mesh that cannot be measured: all counts zero and all flags False except `has_nan`."""
    return MeshQuality(
        has_nan=has_nan,
        n_degenerate_faces=0,
        n_boundary_edges=0,
        n_misoriented_edges=0,
        n_nonmanifold_edges=0,
        is_closed=False,
        encloses_volume=False,
        is_inside_out=False,
        n_components=0,
        extents=np.zeros(3),
        area=0.0,
        volume=0.0,
    )


def _count_edges(faces: IntArray, n_vertices: int) -> _EdgeCounts:
    """Count the defective undirected edges of `faces` (m, 3), by kind.

    Boundary edges have one face, non-manifold edges more than two. Misoriented edges have two faces that traverse them
    in the same direction; unbalanced edges are traversed unequally often in both directions.
    """
    start = faces.reshape(-1)
    end = np.roll(faces, -1, axis=1).reshape(-1)
    forward = start < end
    # One integer key per undirected edge; int64 holds the square of any vertex count that fits in memory.
    keys = np.minimum(start, end) * n_vertices + np.maximum(start, end)
    order = np.argsort(keys, kind="stable")
    first = np.flatnonzero(np.diff(keys[order], prepend=-1))
    uses = np.diff(first, append=len(keys))
    surplus = np.add.reduceat(np.where(forward, 1, -1)[order], first) if len(first) else np.zeros(0, dtype=np.int64)
    return _EdgeCounts(
        boundary=int(np.count_nonzero(uses == 1)),
        misoriented=int(np.count_nonzero((uses == 2) & (surplus != 0))),
        nonmanifold=int(np.count_nonzero(uses > 2)),
        unbalanced=int(np.count_nonzero(surplus)),
    )


def _count_components(faces: IntArray, n_vertices: int) -> int:
    """Number of connected components of the faces, connected through shared vertices."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    ends = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]]])
    links = coo_matrix((np.ones(len(ends), dtype=bool), (ends[:, 0], ends[:, 1])), shape=(n_vertices, n_vertices))
    _, labels = connected_components(links, directed=False)
    return len(np.unique(labels[faces[:, 0]]))


def _longest_edge_squared(corners: FloatArray) -> FloatArray:
    edges = corners - np.roll(corners, -1, axis=1)
    return np.einsum("ijk,ijk->ij", edges, edges).max(axis=1)


# Planar meshes --------------------------------------------------------------------------------------------------------

PLANAR_MESH_THICKNESS = 1e-3
"""Thickness given to a planar mesh for collision, relative to its size."""
_PLANAR_RATIO = 1e-5
"""Smallest relative to largest singular value of the vertices below which a mesh is planar."""
_CLEARLY_SOLID_RATIO = 1e-3
"""Smallest relative to largest singular value above which a mesh is clearly not planar."""
_COLLINEAR_RATIO = 1e-6
"""Second relative to largest singular value below which the vertices are collinear."""


def is_planar(mesh: MeshData) -> bool:
    """Whether all vertices used by faces lie in a plane, up to a tolerance relative to the size."""
    points = _centered_face_points(mesh)
    moments = [[float((points[:, i] * points[:, j]).sum()) for j in range(3)] for i in range(3)]
    smallest, _, largest = symmetric_eigen(moments)[0]
    if smallest > _CLEARLY_SOLID_RATIO**2 * largest:
        return False  # the squared singular values are accurate enough for this test and cheaper than an SVD
    extents, _ = _principal_extents(mesh)
    return float(extents[2]) <= _PLANAR_RATIO * float(extents[0])


def thicken_planar_mesh(mesh: MeshData) -> MeshData | None:
    """Two-sided copy of a planar mesh, offset by half of `PLANAR_MESH_THICKNESS` times its size to each side.

    The second side has reversed winding; there are no side walls. None if the vertices are collinear.
    """
    extents, axes = _principal_extents(mesh)
    if float(extents[1]) <= _COLLINEAR_RATIO * float(extents[0]):
        return None
    size = float(np.ptp(reproducible_product(mesh.vertices, axes.T), axis=0).max())
    offset = 0.5 * PLANAR_MESH_THICKNESS * size * axes[2]
    vertices = np.vstack([mesh.vertices + offset, mesh.vertices - offset])
    return MeshData(vertices, np.vstack([mesh.faces, mesh.faces[:, ::-1] + mesh.n_vertices]))


def _principal_extents(mesh: MeshData) -> tuple[FloatArray, FloatArray]:
    """Singular values (descending) and principal axes (rows) of the centred vertices used by faces."""
    points = _centered_face_points(mesh)
    if len(points) < 3:
        return np.zeros(3), np.eye(3)
    _, singular_values, axes = singular_value_decomposition(_triangular_factor(points))
    return singular_values, axes


def _triangular_factor(points: FloatArray) -> FloatArray:
    """Upper triangular factor (3, 3) of the QR decomposition of points (n, 3) by modified Gram-Schmidt."""
    rest, factor = points.copy(), np.zeros((3, 3))
    for k in range(3):
        factor[k, k] = length = reproducible_norm(rest[:, k])
        if length > 0.0:
            direction = rest[:, k] / length
            for j in range(k + 1, 3):
                factor[k, j] = (direction * rest[:, j]).sum()
                rest[:, j] -= factor[k, j] * direction
    return factor


def _centered_face_points(mesh: MeshData) -> FloatArray:
    """Vertices used by faces relative to their mean, shape (n, 3)."""
    used = np.zeros(mesh.n_vertices, dtype=bool)
    used[mesh.faces] = True
    points = mesh.vertices[used]
    return points - points.mean(axis=0) if len(points) else points

"""What is right and wrong with a mesh."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinema.shapes.affine import coincident_groups, collapsed
from kinema.shapes.mass import signed_volume
from kinema.shapes.mesh_data import FloatArray, IntArray, MeshData

# A face whose height is below this fraction of its longest edge has no usable normal, not even in float64.
_SLIVER = 1e-12


@dataclass(frozen=True, eq=False)
class MeshQuality:
    """Facts about a mesh. Vertices at exactly the same position count as one (files often repeat them)."""

    has_nan: bool
    """A coordinate is NaN or infinite. Nothing else is measured then: counts are zero, the rest False or zero."""
    n_degenerate: int
    """Faces without area: two corners coincide, or all three lie on a line."""
    n_boundary_edges: int
    """Edges of one face only: the mesh has a hole or a border there."""
    n_misoriented_edges: int
    """Edges of two faces that disagree about which side is out."""
    n_nonmanifold_edges: int
    """Edges of three faces or more, as where two closed parts touch along a line."""
    is_closed: bool
    """Every edge is shared by exactly two faces, which run along it in opposite directions."""
    is_balanced: bool
    """Every edge is run along as often in one direction as in the other: the enclosed volume is well defined.
    True for closed meshes, and also for closed parts that touch."""
    is_inside_out: bool
    """The signed volume is negative; says something only if `is_balanced`."""
    n_components: int
    """Parts not connected through a vertex."""
    extents: FloatArray
    """Size of the bounding box of the faces [m], shape (3,)."""
    area: float
    """Surface area [m^2]."""
    volume: float
    """Signed volume [m^3]; says something only if `is_balanced`."""


@dataclass(frozen=True)
class _EdgeCounts:
    boundary: int
    misoriented: int
    nonmanifold: int
    unbalanced: int


def mesh_quality(mesh: MeshData) -> MeshQuality:
    """Measure `mesh`; its indices must be in range (`check_mesh`)."""
    corners = mesh.triangles()
    if mesh.n_faces == 0 or not np.isfinite(corners).all():
        return _unmeasured(has_nan=mesh.n_faces > 0)
    welded = coincident_groups(mesh.vertices)[mesh.faces]
    # A face that has collapsed to a line adds an edge and its reverse: it would hide, or fake, a hole.
    solid = welded[~collapsed(welded)]
    edges = _count_edges(solid, mesh.n_vertices)
    double_areas = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1)
    points = corners.reshape(-1, 3)
    volume = signed_volume(mesh)
    return MeshQuality(
        has_nan=False,
        n_degenerate=int(np.count_nonzero(double_areas <= _SLIVER * _longest_edge_squared(corners))),
        n_boundary_edges=edges.boundary,
        n_misoriented_edges=edges.misoriented,
        n_nonmanifold_edges=edges.nonmanifold,
        is_closed=len(solid) > 0 and edges.boundary + edges.misoriented + edges.nonmanifold == 0,
        is_balanced=len(solid) > 0 and edges.unbalanced == 0,
        is_inside_out=volume < 0,
        n_components=_count_components(welded, mesh.n_vertices),
        extents=points.max(axis=0) - points.min(axis=0),
        area=float(double_areas.sum() / 2),
        volume=volume,
    )


def _unmeasured(*, has_nan: bool) -> MeshQuality:
    return MeshQuality(
        has_nan=has_nan,
        n_degenerate=0,
        n_boundary_edges=0,
        n_misoriented_edges=0,
        n_nonmanifold_edges=0,
        is_closed=False,
        is_balanced=False,
        is_inside_out=False,
        n_components=0,
        extents=np.zeros(3),
        area=0.0,
        volume=0.0,
    )


def _count_edges(faces: IntArray, n_vertices: int) -> _EdgeCounts:
    start = faces.reshape(-1)
    end = np.roll(faces, -1, axis=1).reshape(-1)
    forward = start < end
    # One integer per undirected edge; int64 holds the square of any vertex count that fits in memory.
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
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    ends = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]]])
    links = coo_matrix((np.ones(len(ends), dtype=bool), (ends[:, 0], ends[:, 1])), shape=(n_vertices, n_vertices))
    _, labels = connected_components(links, directed=False)
    return len(np.unique(labels[faces[:, 0]]))


def _longest_edge_squared(corners: FloatArray) -> FloatArray:
    edges = corners - np.roll(corners, -1, axis=1)
    return np.einsum("ijk,ijk->ij", edges, edges).max(axis=1)

"""The convex hull of a mesh."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np

from kinema.shapes.affine import coincident_groups
from kinema.shapes.mass import signed_volume
from kinema.shapes.mesh_data import FloatArray, IntArray, MeshData, MeshError, ShapeError

MIN_HULL_VERTICES = 4
"""A solid has no fewer."""
_known: WeakKeyDictionary[MeshData, MeshData] = WeakKeyDictionary()
"""Hulls of meshes that are still in use: their volume is asked for before their faces are."""


def convex_hull(mesh: MeshData, max_vertices: int | None = None) -> MeshData:
    """Smallest convex solid that holds every face of `mesh`, or every vertex when it has no faces.

    Closed, faces outward, in the frame of `mesh` and its order of vertices. With `max_vertices` (MJCF's `maxhullvert`)
    it stops growing when it has so many of them, and is then smaller than the hull: the same ones that MuJoCo takes,
    which depend on the frame that the mesh is given in. Raises `MeshError` for fewer than four different points and for
    points that all lie in one plane.
    """
    if max_vertices is not None and max_vertices < MIN_HULL_VERTICES:
        raise ShapeError(f"A convex hull has at least {MIN_HULL_VERTICES} vertices, {max_vertices} are asked for.")
    if max_vertices is None and mesh in _known:
        return _known[mesh]
    points = solid_points(mesh)
    if len(points) < MIN_HULL_VERTICES:
        raise MeshError("A convex hull needs at least four different points.")
    triangles = _limited_hull(points, max_vertices) if max_vertices is not None else _whole_hull(points)
    kept, faces = np.unique(triangles, return_inverse=True)
    hull = MeshData(points[kept], _with_common_winding(faces.reshape(-1, 3)))
    hull = hull if signed_volume(hull) > 0 else MeshData(hull.vertices, hull.faces[:, ::-1])
    if max_vertices is None:
        _known[mesh] = hull
    return hull


def solid_points(mesh: MeshData) -> FloatArray:
    """The positions that the faces of `mesh` use, or all when it has none; each once [m], shape (n, 3)."""
    # Files repeat vertices, and Qhull is slow: each position once.
    positions = coincident_groups(mesh.vertices)
    points = mesh.vertices[np.unique(positions[mesh.faces] if mesh.n_faces else positions)]
    if not np.isfinite(points).all():
        raise MeshError("A vertex coordinate is not a finite number.")
    if len(points) == 0:
        raise MeshError("The mesh has no vertices.")
    return points


def _whole_hull(points: FloatArray) -> IntArray:
    """Triangles of the hull as indices into `points`, each with an arbitrary winding."""
    # Qhull measures flatness against the coordinates, so far from the origin it would miss it, or see it everywhere.
    # Huge coordinates overflow inside it, which ends the process: it gets points within the unit cube.
    low, high = points.min(axis=0), points.max(axis=0)
    size = float((high / 2 - low / 2).max())
    if size == 0:
        raise MeshError("A convex hull needs at least four different points.")
    return _qhull((points / size) - (high / size + low / size) / 2, "Qt")


def _limited_hull(points: FloatArray, max_vertices: int) -> IntArray:
    """Triangles of the hull of at most so many points, chosen as MuJoCo does: the farthest of all first."""
    # A power of two changes no digit, so that ties between points are broken as they would be without it.
    scaled = points / 2.0 ** np.ceil(np.log2(np.abs(points).max()))
    # Qhull starts with four vertices, and counts those that it adds.
    return _qhull(scaled, f"Qt Q9 TA{max_vertices - MIN_HULL_VERTICES}")


def _qhull(points: FloatArray, options: str) -> IntArray:
    from scipy.spatial import ConvexHull, QhullError

    try:
        return ConvexHull(points, qhull_options=options).simplices.astype(np.int64)
    except QhullError:
        raise MeshError("The points lie in one plane, so their convex hull is not a solid.") from None


def _with_common_winding(faces: IntArray) -> IntArray:
    """The same closed surface with all faces wound alike.

    Normals cannot decide this: Qhull splits flat facets into triangles that may have no area. The edges can. Each face
    stands for two nodes of a graph, as given and reversed; across an edge, the nodes that agree are linked. One of the
    two connected components is the answer, the other its mirror image.
    """
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    n_faces = len(faces)
    start, end = faces.reshape(-1), np.roll(faces, -1, axis=1).reshape(-1)
    low, high = np.minimum(start, end), np.maximum(start, end)
    # On a closed surface every edge occurs twice: sorted, the two uses are neighbours.
    order = np.lexsort((high, low)).reshape(-1, 2)
    if (low[order[:, 0]] != low[order[:, 1]]).any() or (high[order[:, 0]] != high[order[:, 1]]).any():
        raise MeshError("The points are too close to one plane, or to each other, for a convex hull.")
    first, second = order[:, 0] // 3, order[:, 1] // 3
    opposed = start[order[:, 0]] != start[order[:, 1]]
    given, reversed_ = np.where(opposed, second, second + n_faces), np.where(opposed, second + n_faces, second)
    rows, cols = np.concatenate([first, first + n_faces]), np.concatenate([given, reversed_])
    links = coo_matrix((np.ones(len(rows), dtype=bool), (rows, cols)), shape=(2 * n_faces, 2 * n_faces))
    _, labels = connected_components(links, directed=False)
    flip = labels[:n_faces] != labels[0]
    return np.where(flip[:, None], faces[:, ::-1], faces)

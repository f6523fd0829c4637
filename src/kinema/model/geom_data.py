"""Packed layout of geom data in one flat array: convex hulls with support-map lookup tables, signed distance fields.

The support map of a point set (the farthest point in a direction, used by GJK) is accelerated by a cube map: directions
are divided into square cells on the six faces of a cube about the origin, and each cell lists all points that are the
farthest in any of its directions. Lists are mostly short, so that a query compares few points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kinema.core import Array, reproducible_product

from .table import Table

# ---------------------------------------------------------------------------------------------- cube-map support tables

PointIndices = npt.NDArray[np.intp]
"""Indices of points."""
SUPPORT_ENTRY_SIZE = 4
"""Values of a list entry: position of the point (3) and its index."""
SUPPORT_CELL_SIZE = 2
"""Values of a cell header: offset of its list from the start of the table, and number of entries."""
POINTS_PER_CELL, MAX_CELLS_PER_EDGE = 3, 16
"""Approximate number of points per cell of a cube side, and maximum number of cells along a cube edge."""
COARSE_CELLS_PER_EDGE = 4
"""Cells along an edge of the coarse pass; finer cells test only the candidates of their coarse cell."""
CELL_INFLATION = 1e-4
"""Widening of each cell on all sides, since rounding may select the adjacent cell."""
SUPPORT_TOLERANCE = 1e-9
"""Points that miss the maximum by less than this, relative to the size of the point set, are listed too."""


def support_cells_per_edge(n_points: int) -> int:
    """Number of cells along a cube edge of the support table of n points: a power of two."""
    return int(np.clip(2 ** round(0.5 * np.log2(max(n_points, 1) / POINTS_PER_CELL)), 1, MAX_CELLS_PER_EDGE))


def build_support_table(points: Array) -> Array:
    """Lookup table for the support function of a point set: candidate points for each cell of directions on a cube map.

    Returns the headers (start, count) of all cells, then their candidate lists. The faces of the cube are ordered +x,
    -x, +y, -y, +z, -z; cells of a face by the coordinate after its axis (cyclically), then the next. A list entry has
    the position of the point and its index.
    """
    cells_per_edge = support_cells_per_edge(len(points))
    lists = []
    for axis in range(3):
        for side in (1.0, -1.0):
            oriented = points[:, [axis, (axis + 1) % 3, (axis + 2) % 3]] * (side, 1.0, 1.0)
            lists += _cell_candidates(oriented, cells_per_edge)
    counts = np.array([len(candidates) for candidates in lists])
    starts = SUPPORT_CELL_SIZE * len(lists) + SUPPORT_ENTRY_SIZE * np.concatenate([[0], np.cumsum(counts)[:-1]])
    points_of_entries = np.concatenate(lists)
    heads, entries = np.column_stack([starts, counts]), np.column_stack([points[points_of_entries], points_of_entries])
    return np.concatenate([heads.ravel(), entries.ravel()])


def _cell_candidates(oriented_points: Array, cells_per_edge: int) -> list[PointIndices]:
    """Support-point candidates of each cell of a cube-map face: points that may be farthest in its directions.

    Coarse cells are tested first; finer cells test only the candidates of their coarse cell.

    Args:
        oriented_points: points with the axis of the face as first coordinate, (n_points, 3).
        cells_per_edge: number n of cells along an edge; n * n lists are returned.
    """
    n_coarse = min(cells_per_edge, COARSE_CELLS_PER_EDGE)
    n_fine = cells_per_edge // n_coarse
    coarse = _cell_center_directions(n_coarse, 1.0)
    possible = _may_be_support(
        oriented_points[None], np.ones((1, len(oriented_points)), np.bool_), coarse[None], 1.0 / n_coarse
    )[0]
    if n_fine == 1:
        return [np.flatnonzero(mask) for mask in possible]
    max_candidates = int(possible.sum(axis=1).max())
    candidates = np.argsort(~possible, axis=1, kind="stable")[
        :, :max_candidates
    ]  # candidates in order, then all others
    valid = np.take_along_axis(possible, candidates, axis=1)
    cells = coarse[:, None] + _cell_center_directions(n_fine, 1.0 / n_coarse) * (0.0, 1.0, 1.0)
    fine_masks = _may_be_support(oriented_points[candidates], valid, cells, 1.0 / cells_per_edge)
    lists = [[candidates[c][mask] for mask in fine_masks[c]] for c in range(n_coarse * n_coarse)]
    cell_indices = (
        (divmod(i, n_fine), divmod(j, n_fine)) for i in range(cells_per_edge) for j in range(cells_per_edge)
    )
    return [lists[a * n_coarse + b][p * n_fine + q] for (a, p), (b, q) in cell_indices]


def _cell_center_directions(cells_per_edge: int, half_width: float) -> Array:
    """Directions (1, u, v) to the centres of n x n cells of a square with the given half width, (n * n, 3)."""
    offsets = half_width * ((2.0 * np.arange(cells_per_edge) + 1.0) / cells_per_edge - 1.0)
    return np.column_stack(
        [np.ones(cells_per_edge * cells_per_edge), np.repeat(offsets, cells_per_edge), np.tile(offsets, cells_per_edge)]
    )


def _may_be_support(
    oriented_points: Array, valid: npt.NDArray[np.bool_], cell_directions: Array, half_width: float
) -> npt.NDArray[np.bool_]:
    """Whether each point may be the farthest in some direction of each cell, for several point sets at a time.

    Conservative test: a point is excluded only if another point has a larger dot product over the whole cell.

    Args:
        oriented_points: points, (sets, n_points, 3).
        valid: which points exist, (sets, n_points).
        cell_directions: directions to the centres of the cells, (sets, n_cells, 3).
        half_width: half width of the cells.

    Returns:
        mask, (sets, n_cells, n_points).
    """
    half_width += CELL_INFLATION
    sets, n, _ = cell_directions.shape
    slack = SUPPORT_TOLERANCE * np.maximum(
        np.abs(np.where(valid[:, :, None], oriented_points, 0.0)).max(axis=(1, 2)), 1e-300
    )
    # A point is excluded if another point has a larger dot product with all directions of the cell. Tested are the
    # points that are the farthest in nine sample directions of the cell.
    offsets = np.array([(0.0, u, v) for u in (-half_width, 0.0, half_width) for v in (-half_width, 0.0, half_width)])
    samples = (offsets[None, :, None] + cell_directions[:, None]).reshape(sets, -1, 3)
    products = np.where(valid[:, None], _pairwise_dot_products(samples, oriented_points), -np.inf)
    best = np.argmax(products, axis=2)
    center_products = np.repeat(
        _pairwise_dot_products(cell_directions, oriented_points)[:, None], len(offsets), axis=1
    ).reshape(sets, -1, oriented_points.shape[1])
    advantage = center_products - np.take_along_axis(center_products, best[:, :, None], axis=2)
    for axis in (1, 2):
        coordinates = oriented_points[:, :, axis]
        advantage += half_width * np.abs(
            coordinates[:, None] - np.take_along_axis(coordinates, best, axis=1)[:, :, None]
        )
    is_candidate = (advantage >= -slack[:, None, None]).reshape(sets, len(offsets), n, -1).all(axis=1)
    return is_candidate & valid[:, None]


def _pairwise_dot_products(directions: Array, points: Array) -> Array:
    return reproducible_product(directions, np.swapaxes(points, 1, 2))


# --------------------------------------------------------------------------------------------------------- convex hulls

MAX_FACE_VERTICES = 16
"""Maximum number of vertices of a face; faces with more vertices are decimated with least loss of area."""
HULL_FACE_SIZE = 5
"""Values of a face record: normal (3), number of vertices, offset of its vertex list from the start of the hull."""
SUPPORT_TABLE_HEADER_SIZE = 2
"""Values of a support table header: offset of the table from the start of the hull, and cells along a cube edge. Two
headers follow the faces: support map of the vertices, and of the face normals (face most aligned with a direction)."""


@dataclass(frozen=True, slots=True)
class Polyhedron:
    """A convex polyhedron."""

    vertices: Array
    """Vertex positions [m], (n, 3)."""
    faces: Sequence[Sequence[int]]
    """Vertex indices of each planar face, counter-clockwise as seen from outside."""
    normals: Array
    """Outward unit normals, (n_faces, 3)."""


@dataclass(frozen=True, slots=True)
class PackedHulls(Table):
    """Convex hulls packed into one flat array."""

    data: Array
    """For each hull: vertices, face records, two support table headers, vertex lists of the faces, support tables."""
    starts: tuple[int, ...]
    """Offset of each hull in `data`."""
    n_vertices: tuple[int, ...]
    n_faces: tuple[int, ...]
    bounding_radii: tuple[float, ...]
    """Largest distance of a vertex from the origin [m]."""


def pack_hulls(hulls: Sequence[Polyhedron]) -> PackedHulls:
    """Pack all convex hulls of a model into one array, with start, vertex count, face count and radius of each hull."""
    packed = [_pack_hull(hull) for hull in hulls]
    starts = np.cumsum([0, *(len(p) for p in packed)])
    return PackedHulls(
        np.concatenate([*packed, np.zeros(1)]),  # never empty
        tuple(int(s) for s in starts[:-1]),
        tuple(len(hull.vertices) for hull in hulls),
        tuple(len(hull.faces) for hull in hulls),
        tuple(float(np.linalg.norm(hull.vertices, axis=1).max()) for hull in hulls),
    )


def _pack_hull(hull: Polyhedron) -> Array:
    """Pack one convex hull into a flat array for support queries and face clipping.

    Vertices, face records (normal, vertex count, start of the vertex list), headers of two support tables, vertex lists
    of the faces, and the support tables of vertices and of face normals. Faces with many vertices are decimated.
    """
    faces = [_decimate_face(hull.vertices, list(face)) for face in hull.faces]
    counts = np.array([len(face) for face in faces])
    lists_offset = hull.vertices.size + HULL_FACE_SIZE * len(faces) + 2 * SUPPORT_TABLE_HEADER_SIZE
    starts = lists_offset + np.concatenate([[0], np.cumsum(counts)[:-1]])
    face_records = np.column_stack([hull.normals, counts, starts])
    point_sets, offset, tables = [hull.vertices, hull.normals], lists_offset + int(counts.sum()), []
    headers = []
    for points in point_sets:
        tables.append(build_support_table(points))
        headers += [float(offset), float(support_cells_per_edge(len(points)))]
        offset += len(tables[-1])
    lists = [np.array(f, float) for f in faces]
    return np.concatenate([hull.vertices.ravel(), face_records.ravel(), headers, *lists, *tables])


def _decimate_face(vertices: Array, face: list[int]) -> list[int]:
    """Remove vertices of a face until at most `MAX_FACE_VERTICES` are left, always with the smallest area loss."""
    while len(face) > MAX_FACE_VERTICES:
        corners = vertices[face]
        previous, following = np.roll(corners, 1, axis=0), np.roll(corners, -1, axis=0)
        areas = np.linalg.norm(np.cross(corners - previous, following - previous), axis=1)
        del face[int(areas.argmin())]
    return face


# ----------------------------------------------------------------------------------------------- signed distance fields

SDF_HEADER_SIZE = 7
"""Values of the header: number of nodes along each axis (3), grid spacing [m], position of the first node (3) [m]."""


@dataclass(frozen=True, slots=True, eq=False)
class SampledSdf(Table):
    """Signed distance field sampled on a regular grid, and surface sample points, in the geom's frame."""

    n_nodes: tuple[int, int, int]
    """Number of nodes along each axis."""
    cell_size: float
    """Grid spacing [m]."""
    origin: Array
    """Position of the first node [m], (3,)."""
    values: Array
    """Signed distances at the nodes, negative inside [m]; z varies fastest, x slowest."""
    gradients: Array
    """Gradients of the distance at the nodes, (n, 3)."""
    closest_vertices: np.ndarray
    """Index of the mesh vertex closest to each node."""
    contact_sample_points: Array
    """Surface points that are tested for contact with other geoms [m], (n, 3)."""


def pack_sdf(sdf: SampledSdf) -> Array:
    """Pack a signed distance field into a flat array: header, contact sample points, distances."""
    header = np.array([*sdf.n_nodes, sdf.cell_size, *sdf.origin], np.float64)
    return np.concatenate([header, sdf.contact_sample_points.ravel(), sdf.values])

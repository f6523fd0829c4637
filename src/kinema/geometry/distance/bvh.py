"""Bounding-volume hierarchy over triangles, with batched closest-point and generalised winding-number queries.

The tree is a complete binary tree of axis-aligned boxes built by median splits, and is traversed level by level with
NumPy for many queries at once. Query points are grouped into blocks of neighbours that share one traversal.

SciPy has no distances to triangles, and Warp is less exact. Processor time for 76,000 points around 1056 triangles:

- this file: 2.2 s for distances and 1.8 s for winding numbers; float64, errors of 1e-15 of the mesh size;
- `warp.Mesh`: 0.4 s for both after 1.8 s of import and 8 s of compilation; float32, errors of 2e-6 of the mesh size, so
  that points nearer to the surface have no sign;
- libigl 2.6: 0.14 s for distances, as exact; its wheel contains modules under the GPL (CGAL, TetGen) and a restricted
  licence (Triangle), which a plain installation must not require.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..mesh import FloatArray, IntArray, MeshData, ProgressCallback

# Construction and traversal -------------------------------------------------------------------------------------------

_MAX_LEAF_TRIANGLES = 4
"""Maximum number of triangles per leaf."""
_MAX_BLOCK_POINTS = 64
"""Maximum number of points per block."""
_QUERIES_PER_TRAVERSAL = 1 << 12
"""Queries that traverse the tree together, so that the working set fits into the cache."""
_MAX_RELATIVE_EDGE = 1 / 16
"""Edge length relative to the mesh size above which a triangle is split, since long triangles have loose boxes."""
_MAX_SPLIT_TRIANGLES = 200_000
"""Number of triangles at which splitting stops."""


@dataclass(frozen=True, eq=False)
class TriangleBvh:
    """Complete binary tree of axis-aligned boxes; node i of a level has the children 2 i and 2 i + 1 one level down."""

    corners: FloatArray
    """Triangles in leaf order [m], shape (n_leaves, n, 3 corners, 3): faces of the mesh or fragments of split faces.
    The last leaves may be padded with duplicates."""
    faces: IntArray
    """Face of the mesh that each triangle belongs to, shape (n_leaves, n)."""
    is_unique: np.ndarray
    """False for duplicates that pad a leaf, shape (n_leaves, n)."""
    lower: list[FloatArray]
    """Lower corners of the boxes of each level, root first [m], shape (2^level, 3)."""
    upper: list[FloatArray]
    """Upper corners of the boxes of each level, root first [m], shape (2^level, 3)."""

    @property
    def depth(self) -> int:
        """Number of levels below the root."""
        return len(self.lower) - 1

    def squared_box_distances(self, level: int, nodes: IntArray, points: FloatArray) -> FloatArray:
        """Squared distances from `points[i]` to the box of node `nodes[i]` of a level [m^2], zero inside; (n,)."""
        outside = np.maximum(np.maximum(self.lower[level][nodes] - points, points - self.upper[level][nodes]), 0.0)
        return np.einsum("ij,ij->i", outside, outside)


@dataclass(frozen=True, eq=False)
class PointBlocks:
    """Query points grouped into blocks of neighbours, each with a bounding sphere."""

    members: IntArray
    """Point indices of each block, shape (n_blocks, n); blocks may be padded with duplicates."""
    centers: FloatArray
    """Centres of the bounding spheres [m], shape (n_blocks, 3)."""
    radii: FloatArray
    """Radii of the bounding spheres [m], shape (n_blocks,)."""


def build_triangle_bvh(mesh: MeshData) -> TriangleBvh:
    """Build the BVH of a mesh by median splits of triangle centroids along the longest side of each box.

    Long triangles are split first. Box bounds are computed bottom-up from the leaves.
    """
    corners, faces = _split_long_triangles(mesh.triangles())
    order, is_unique = _median_split(corners.mean(axis=1), _MAX_LEAF_TRIANGLES)
    leaves = corners[order]
    lower, upper = [leaves.min(axis=(1, 2))], [leaves.max(axis=(1, 2))]
    while len(lower[0]) > 1:
        lower.insert(0, lower[0].reshape(-1, 2, 3).min(axis=1))
        upper.insert(0, upper[0].reshape(-1, 2, 3).max(axis=1))
    return TriangleBvh(leaves, faces[order], is_unique, lower, upper)


def group_points(points: FloatArray) -> PointBlocks:
    """Group points (n, 3) [m] into blocks of up to `_MAX_BLOCK_POINTS` neighbours by median splits."""
    members, _ = _median_split(points, _MAX_BLOCK_POINTS)
    positions = points[members]
    centers = (positions.min(axis=1) + positions.max(axis=1)) / 2
    return PointBlocks(members, centers, np.linalg.norm(positions - centers[:, None], axis=2).max(axis=1))


def _split_long_triangles(corners: FloatArray) -> tuple[FloatArray, IntArray]:
    """Bisect triangles at their longest edge until all edges are short relative to the mesh size.

    Splitting stops at `_MAX_SPLIT_TRIANGLES` triangles. `corners` and the returned corners have shape (n, 3, 3); the
    second result is the index of the original triangle of each fragment, shape (n,).
    """
    max_length = _MAX_RELATIVE_EDGE * float(np.ptp(corners, axis=(0, 1)).max())
    faces = np.arange(len(corners))
    while len(corners) < _MAX_SPLIT_TRIANGLES:
        lengths = np.linalg.norm(np.roll(corners, -1, axis=1) - corners, axis=2)
        is_long = lengths.max(axis=1) > max_length
        if not is_long.any():
            break
        longest_edge = lengths[is_long].argmax(axis=1)
        rotated = np.take_along_axis(corners[is_long], (longest_edge[:, None] + np.arange(3))[..., None] % 3, axis=1)
        midpoint = (rotated[:, 0] + rotated[:, 1]) / 2
        halves = [
            np.stack([rotated[:, 0], midpoint, rotated[:, 2]], 1),
            np.stack([midpoint, rotated[:, 1], rotated[:, 2]], 1),
        ]
        corners = np.concatenate([corners[~is_long], *halves])
        faces = np.concatenate([faces[~is_long], faces[is_long], faces[is_long]])
    return corners, faces


def _median_split(points: FloatArray, max_size: int) -> tuple[IntArray, np.ndarray]:
    """Partition points (n, 3) into 2^k groups of equal size up to `max_size` by recursive median splits.

    At every level each group is split along the longest side of its bounding box. The groups are padded by repeating
    the last point. Returns point indices (n_groups, size) and a mask that is False for the padding, in the same shape.
    """
    depth = max(0, int(np.ceil(np.log2(len(points) / max_size))))
    max_size = -(-len(points) // (1 << depth))
    order = np.minimum(np.arange(max_size << depth), len(points) - 1)
    is_unique = np.arange(max_size << depth) < len(points)
    for level in range(depth):
        positions = points[order].reshape(1 << level, -1, 3)
        axis = np.ptp(positions, axis=1).argmax(axis=1)
        keys = np.take_along_axis(positions, axis[:, None, None], axis=2)[..., 0]
        ranks = np.argsort(keys, axis=1, kind="stable") + np.arange(1 << level)[:, None] * positions.shape[1]
        order, is_unique = order[ranks.reshape(-1)], is_unique[ranks.reshape(-1)]
    return order.reshape(-1, max_size), is_unique.reshape(-1, max_size)


VisitPredicate = Callable[[int, IntArray, IntArray], np.ndarray]
"""Called with a level, query indices and node indices; returns for each pair whether the node is visited."""


def traverse(bvh: TriangleBvh, n_queries: int, should_visit: VisitPredicate) -> tuple[IntArray, IntArray]:
    """Level-by-level BVH traversal for queries 0 to `n_queries` - 1; returns the leaves reached by each query.

    A node is expanded for a query where `should_visit` is True. Returns the start of the leaves of each query, shape
    (n_queries + 1,), and the concatenated leaf indices.
    """
    query_lists, leaf_lists = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for first in range(0, n_queries, _QUERIES_PER_TRAVERSAL):
        queries = np.arange(first, min(first + _QUERIES_PER_TRAVERSAL, n_queries))
        nodes = np.zeros(len(queries), dtype=np.int64)
        for level in range(bvh.depth + 1):
            if level:
                queries, nodes = np.repeat(queries, 2), np.stack([2 * nodes, 2 * nodes + 1], axis=1).reshape(-1)
            visited = should_visit(level, queries, nodes)
            queries, nodes = queries[visited], nodes[visited]
        query_lists.append(queries)
        leaf_lists.append(nodes)
    all_queries = np.concatenate(query_lists)
    return np.searchsorted(all_queries, np.arange(n_queries + 1)), np.concatenate(leaf_lists)


# Closest points -------------------------------------------------------------------------------------------------------

_BOUND_FACTOR = 1 + 1e-6
_BOUND_OFFSET = 1e-7
"""Relative and absolute slack (in units of the mesh size) of distance bounds, so that rounding excludes no
candidate."""
_SLIVER_RATIO = 1e-6
"""Area of a triangle relative to its squared radius below which its normal is unreliable."""
_BLOCKS_PER_BATCH = 64
"""Blocks of points whose exact distances are evaluated together."""


@dataclass(frozen=True, eq=False)
class ClosestPoints:
    """Closest points of a mesh surface for each of n query points."""

    points: FloatArray
    """Closest points on the surface [m], shape (n, 3)."""
    faces: IntArray
    """Faces that contain the closest points, shape (n,)."""
    distances: FloatArray
    """Unsigned distances to the closest points [m], shape (n,)."""


def closest_points(bvh: TriangleBvh, points: FloatArray, progress: ProgressCallback | None = None) -> ClosestPoints:
    """Closest points on the mesh surface for query points (n, 3), exact up to rounding.

    Points are grouped into blocks. The closest point of every member lies within d + 2 r of the block centre (d:
    distance from the centre to the mesh, r: radius of the block), which selects the candidate triangles of the block.
    Per point, only candidates whose lower distance bound is below the distance to the triangle with the nearest
    centroid are evaluated. `progress` is called after every batch of blocks.
    """
    blocks = group_points(points)
    triangles = _TriangleDiscs(bvh)
    squared_bound = (
        (_mesh_distances(bvh, blocks.centers) + 2 * blocks.radii) * _BOUND_FACTOR
    ) ** 2 + triangles.squared_tolerance
    start, leaves = _leaves_within(bvh, blocks.centers, squared_bound)
    nearest = np.zeros(len(points), dtype=np.int64)
    for first in range(0, len(blocks.members), _BLOCKS_PER_BATCH):
        last = min(first + _BLOCKS_PER_BATCH, len(blocks.members))
        members = blocks.members[first:last].reshape(-1)
        candidates = [
            triangles.within_distance(
                leaves[start[block] : start[block + 1]], blocks.centers[block], squared_bound[block]
            )
            for block in range(first, last)
        ]
        nearest[members] = _nearest_triangles(triangles, points[blocks.members[first:last]], candidates)
        if progress is not None:
            progress("computing distances", last / len(blocks.members))
    closest = closest_points_on_triangles(points, triangles.corners[nearest])
    return ClosestPoints(closest, bvh.faces.reshape(-1)[nearest], np.linalg.norm(points - closest, axis=1))


class _TriangleDiscs:
    """All triangles of a BVH in leaf order, each bounded by a disc around its centroid in its plane."""

    def __init__(self, bvh: TriangleBvh) -> None:
        """Compute centroid, radius and unit normal of the bounding disc of every triangle of `bvh`."""
        self.corners = bvh.corners.reshape(-1, 3, 3)
        self.corner_columns = np.ascontiguousarray(self.corners.transpose(1, 2, 0))
        self.centroids = self.corners.mean(axis=1)
        self.radii = np.linalg.norm(self.corners - self.centroids[:, None], axis=2).max(axis=1)
        normals = np.cross(self.corners[:, 1] - self.corners[:, 0], self.corners[:, 2] - self.corners[:, 0])
        lengths = np.linalg.norm(normals, axis=1)
        # The normal of a sliver is unreliable: zero, which bounds it by a ball instead of a disc.
        has_normal = lengths > _SLIVER_RATIO * self.radii**2
        self.normals = np.where(has_normal[:, None], normals / np.where(has_normal, lengths, 1.0)[:, None], 0.0)
        self.leaf_slots = np.arange(bvh.faces.shape[1])
        self.squared_tolerance = (_BOUND_OFFSET * float((bvh.upper[0] - bvh.lower[0]).max())) ** 2

    def within_distance(self, leaves: IntArray, point: FloatArray, bound: float) -> IntArray:
        """Triangles of the given leaves whose disc is within the squared distance `bound` [m^2] of `point`."""
        slots = (leaves[:, None] * len(self.leaf_slots) + self.leaf_slots).reshape(-1)
        disc_distances, _ = self.squared_distance_bounds(point[None], slots)
        return slots[disc_distances[0] <= bound]

    def squared_distance_bounds(self, points: FloatArray, candidates: IntArray) -> tuple[FloatArray, FloatArray]:
        """Squared distances [m^2] from n points to the bounding discs and to the centroids of k candidate triangles.

        Both results have shape (n, k). The disc distance is a lower bound of the distance to the triangle.
        """
        # Elementwise, since threaded products of small matrices are dominated by synchronisation.
        (mx, my, mz), (nx, ny, nz) = self.centroids[candidates].T, self.normals[candidates].T
        dx, dy, dz = (points[:, axis, None] - center for axis, center in enumerate((mx, my, mz)))
        squared = dx * dx + dy * dy + dz * dz
        squared_heights = (dx * nx + dy * ny + dz * nz) ** 2
        radial = np.sqrt(np.maximum(squared - squared_heights, 0.0)) - self.radii[candidates] * _BOUND_FACTOR
        return squared_heights + np.maximum(radial, 0.0) ** 2, squared


def _nearest_triangles(triangles: _TriangleDiscs, points: FloatArray, candidates: list[IntArray]) -> IntArray:
    """Index of the nearest triangle to each point of several blocks; shape (n_blocks * n,).

    For every point, the exact distance to the candidate with the nearest centroid prunes all candidates with a larger
    disc distance; the remaining point-triangle pairs are evaluated exactly in one batch.

    Args:
        triangles: the triangles with their discs.
        points: query points of each block [m], shape (n_blocks, n, 3).
        candidates: candidate triangles of each block.
    """
    n_points = points.shape[1]
    columns = np.ascontiguousarray(points.reshape(-1, 3).T)
    bounds = [
        triangles.squared_distance_bounds(block_points, block_candidates)
        for block_points, block_candidates in zip(points, candidates, strict=True)
    ]
    guesses = [centroid_distances.argmin(axis=1) for _, centroid_distances in bounds]
    guess_triangles = np.concatenate(
        [block_candidates[guess] for block_candidates, guess in zip(candidates, guesses, strict=True)]
    )
    upper_bound = (
        _squared_triangle_distances(columns, triangles.corner_columns[:, :, guess_triangles]) * _BOUND_FACTOR
        + triangles.squared_tolerance
    )
    point_lists, triangle_lists = [], []
    for block, block_candidates in enumerate(candidates):
        first = block * n_points
        selected = bounds[block][0] <= upper_bound[first : first + n_points, None]
        selected[np.arange(n_points), guesses[block]] = True
        point, candidate = np.nonzero(selected)
        point_lists.append(first + point)
        triangle_lists.append(block_candidates[candidate])
    pair_points, pair_triangles = np.concatenate(point_lists), np.concatenate(triangle_lists)
    squared = _squared_triangle_distances(columns[:, pair_points], triangles.corner_columns[:, :, pair_triangles])
    # Pairs are sorted by point and every point has at least one; ties go to the first pair.
    starts = np.flatnonzero(np.diff(pair_points, prepend=-1))
    minimum = np.repeat(np.minimum.reduceat(squared, starts), np.diff(starts, append=len(pair_points)))
    best = np.flatnonzero(squared == minimum)
    _, first = np.unique(pair_points[best], return_index=True)
    return pair_triangles[best[first]]


def _squared_triangle_distances(points: FloatArray, corners: FloatArray) -> FloatArray:
    """Squared distances [m^2] from point i to triangle i; shapes (3, n), (3 corners, 3, n) and result (n,)."""
    a, b, c = corners
    normal = _cross_columns(b - a, c - a)
    squared = _dot_columns(normal, normal)
    edge_minimum = np.full(points.shape[1], np.inf)
    projects_inside = squared > 0
    for start, end in ((a, b), (b, c), (c, a)):
        edge, offset = end - start, points - start
        length = _dot_columns(edge, edge)
        t = np.clip(_dot_columns(offset, edge) / np.where(length > 0, length, 1.0), 0.0, 1.0)
        residual = offset - t * edge
        edge_minimum = np.minimum(edge_minimum, _dot_columns(residual, residual))
        projects_inside &= _dot_columns(_cross_columns(normal, edge), offset) >= 0
    squared_height = _dot_columns(points - a, normal) ** 2 / np.where(squared > 0, squared, 1.0)
    return np.where(projects_inside, squared_height, edge_minimum)


def closest_points_on_triangles(points: FloatArray, corners: FloatArray) -> FloatArray:
    """Closest point on triangle i to point i, shape (n, 3).

    Minimum over the projections onto the three edges and, if it falls inside the triangle, onto its plane.

    Args:
        points: shape (n, 3).
        corners: corners of the triangles, shape (n, 3 corners, 3).
    """
    best, minimum = np.zeros_like(points), np.full(len(points), np.inf)
    for first in range(3):
        start = corners[:, first]
        edge = corners[:, (first + 1) % 3] - start
        lengths = _squared_norms(edge)
        t = np.einsum("ij,ij->i", points - start, edge) / np.where(lengths > 0, lengths, 1.0)
        on_edge = start + np.clip(t, 0.0, 1.0)[:, None] * edge
        squared = _squared_norms(points - on_edge)
        nearer = squared < minimum
        best[nearer], minimum[nearer] = on_edge[nearer], squared[nearer]
    is_inside, projections = _plane_projections(points, corners)
    nearer = is_inside & (_squared_norms(points - projections) < minimum)
    best[nearer] = projections[nearer]
    return best


def _plane_projections(points: FloatArray, corners: FloatArray) -> tuple[np.ndarray, FloatArray]:
    """Orthogonal projections of points onto the planes of their triangles.

    Returns whether the projection falls inside the (non-degenerate) triangle, shape (n,), and the projection, shape (n,
    3), for `points` (n, 3) and triangle `corners` (n, 3, 3).
    """
    edge1, edge2 = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    normal = np.cross(edge1, edge2)
    squared = _squared_norms(normal)
    has_area = squared > 0
    offset = points - corners[:, 0]
    scale = np.where(has_area, squared, 1.0)
    u = np.einsum("ij,ij->i", np.cross(offset, edge2), normal) / scale
    v = np.einsum("ij,ij->i", np.cross(edge1, offset), normal) / scale
    height = np.einsum("ij,ij->i", offset, normal) / scale
    return has_area & (u >= 0) & (v >= 0) & (u + v <= 1), points - height[:, None] * normal


def _mesh_distances(bvh: TriangleBvh, points: FloatArray) -> FloatArray:
    """Unsigned distances from points (n, 3) to the mesh [m], shape (n,), by an exact branch-and-bound query.

    The distance to a leaf found by greedy descent bounds the leaves that are evaluated.
    """
    upper_bound = _greedy_squared_distances(bvh, points)
    start, leaves = _leaves_within(bvh, points, upper_bound * _BOUND_FACTOR)
    counts = np.diff(start)
    leaf_distances = _squared_leaf_distances(bvh, leaves, np.repeat(points, counts, axis=0))
    best = np.array(upper_bound)
    has_leaves = counts > 0
    best[has_leaves] = np.minimum(upper_bound[has_leaves], np.minimum.reduceat(leaf_distances, start[:-1][has_leaves]))
    return np.sqrt(best)


def _greedy_squared_distances(bvh: TriangleBvh, points: FloatArray) -> FloatArray:
    """Squared distances [m^2] to the leaf reached by descending to the child with the nearer box centre."""
    nodes = np.zeros(len(points), dtype=np.int64)
    for level in range(1, bvh.depth + 1):
        centers = (bvh.lower[level] + bvh.upper[level]) / 2
        left, right = _squared_norms(points - centers[2 * nodes]), _squared_norms(points - centers[2 * nodes + 1])
        nodes = 2 * nodes + (right < left)
    return _squared_leaf_distances(bvh, nodes, points)


def _leaves_within(bvh: TriangleBvh, points: FloatArray, bound: FloatArray) -> tuple[IntArray, IntArray]:
    """Leaves whose boxes are within the squared distance `bound[i]` [m^2] of point i; result as in `traverse`."""
    return traverse(
        bvh,
        len(points),
        lambda level, queries, nodes: bvh.squared_box_distances(level, nodes, points[queries]) <= bound[queries],
    )


def _squared_leaf_distances(bvh: TriangleBvh, leaves: IntArray, points: FloatArray) -> FloatArray:
    """Squared distances [m^2] from `points[i]` to the nearest triangle of leaf `leaves[i]`, shape (n,)."""
    minimum = np.full(len(points), np.inf)
    columns = np.ascontiguousarray(points.T)
    for slot in range(bvh.faces.shape[1]):
        corners = np.ascontiguousarray(bvh.corners[leaves, slot].transpose(1, 2, 0))
        minimum = np.minimum(minimum, _squared_triangle_distances(columns, corners))
    return minimum


def _squared_norms(vectors: FloatArray) -> FloatArray:
    return np.einsum("ij,ij->i", vectors, vectors)


VectorColumns = FloatArray | tuple[FloatArray, FloatArray, FloatArray]
"""Vectors as one array per coordinate."""


def _dot_columns(first: VectorColumns, second: VectorColumns) -> FloatArray:
    return first[0] * second[0] + first[1] * second[1] + first[2] * second[2]


def _cross_columns(first: VectorColumns, second: VectorColumns) -> tuple[FloatArray, FloatArray, FloatArray]:
    (ax, ay, az), (bx, by, bz) = first, second
    return ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx


# Generalised winding numbers ------------------------------------------------------------------------------------------

_FAR_FIELD_RADII = 2.5
"""Distance in radii of a node beyond which its triangles are approximated by one dipole. The error at a point is then a
few hundredths, far below the threshold of one half between inside and outside."""


def winding_numbers(bvh: TriangleBvh, points: FloatArray, progress: ProgressCallback | None = None) -> FloatArray:
    """Generalised winding number of the mesh at each point, shape (n,): about 1 inside, 0 outside.

    Sum of signed solid angles over 4 pi: exact for near triangles, and by the dipole approximation of whole BVH nodes
    for far ones (Barill et al., fast winding numbers). Small holes change the value only slightly. `progress` is called
    periodically.
    """
    blocks = group_points(points)
    dipoles = _NodeDipoles(bvh)
    far_start, far = dipoles.far_nodes(blocks)
    near_start, near = dipoles.near_leaves(blocks)
    corners = bvh.corners.reshape(-1, 3, 3)
    is_unique = bvh.is_unique.reshape(-1)
    n_slots = bvh.faces.shape[1]
    angles = np.zeros(len(points))
    for block, members in enumerate(blocks.members):
        slots = (near[near_start[block] : near_start[block + 1], None] * n_slots + np.arange(n_slots)).reshape(-1)
        block_points = points[members]
        angles[members] = triangle_solid_angles(block_points, corners[slots[is_unique[slots]]]).sum(axis=1)
        angles[members] += dipoles.dipole_solid_angles(block_points, far[far_start[block] : far_start[block + 1]]).sum(
            axis=1
        )
        if progress is not None and block % 64 == 0:
            progress("computing winding numbers", block / len(blocks.members))
    return angles / (4 * np.pi)


def triangle_solid_angles(points: FloatArray, corners: FloatArray) -> FloatArray:
    """Signed solid angles of k triangles seen from n points [sr], positive from behind; shape (n, k).

    Formula of van Oosterom and Strackee, for `points` (n, 3) and triangle `corners` (k, 3, 3).
    """
    x, y, z = points.T[:, :, None]
    (ax, ay, az), (bx, by, bz), (cx, cy, cz) = (
        (x - corners[:, corner, 0], y - corners[:, corner, 1], z - corners[:, corner, 2]) for corner in range(3)
    )
    a, b, c = (np.sqrt(u * u + v * v + w * w) for u, v, w in ((ax, ay, az), (bx, by, bz), (cx, cy, cz)))
    volume = ax * (by * cz - bz * cy) + ay * (bz * cx - bx * cz) + az * (bx * cy - by * cx)
    products = a * b * c
    products += (ax * bx + ay * by + az * bz) * c
    products += (bx * cx + by * cy + bz * cz) * a
    products += (cx * ax + cy * ay + cz * az) * b
    return -2.0 * np.arctan2(volume, products)


class _NodeDipoles:
    """Dipole moments of all BVH nodes: area-weighted centroid, radius and area vector of the triangles below."""

    def __init__(self, bvh: TriangleBvh) -> None:
        """Sum triangle area vectors and area-weighted centroids bottom-up over the nodes of `bvh`."""
        self.bvh = bvh
        corners = bvh.corners
        area_vectors = np.cross(corners[:, :, 1] - corners[:, :, 0], corners[:, :, 2] - corners[:, :, 0]) / 2
        area_vectors[~bvh.is_unique] = 0.0
        areas = np.linalg.norm(area_vectors, axis=2)
        moment = (areas[..., None] * corners.mean(axis=2)).sum(axis=1)
        node_vectors, node_areas = area_vectors.sum(axis=1), areas.sum(axis=1)
        self.area_vectors: list[FloatArray] = []
        self.centers: list[FloatArray] = []
        self.radii: list[FloatArray] = []
        for level in range(bvh.depth, -1, -1):
            box_center = (bvh.lower[level] + bvh.upper[level]) / 2
            center = np.where(
                node_areas[:, None] > 0, moment / np.where(node_areas > 0, node_areas, 1.0)[:, None], box_center
            )
            farthest = np.maximum(center - bvh.lower[level], bvh.upper[level] - center)
            self.area_vectors.insert(0, node_vectors)
            self.centers.insert(0, center)
            self.radii.insert(0, np.linalg.norm(farthest, axis=1))
            if level:
                node_vectors, moment = (array.reshape(-1, 2, 3).sum(axis=1) for array in (node_vectors, moment))
                node_areas = node_areas.reshape(-1, 2).sum(axis=1)
        self.all_area_vectors, self.all_centers = np.concatenate(self.area_vectors), np.concatenate(self.centers)

    def _is_far(self, level: int, nodes: IntArray, centers: FloatArray, radii: FloatArray) -> np.ndarray:
        distance = np.linalg.norm(self.centers[level][nodes] - centers, axis=1) - radii
        return distance > _FAR_FIELD_RADII * self.radii[level][nodes]

    def near_leaves(self, blocks: PointBlocks) -> tuple[IntArray, IntArray]:
        """Leaves too close to each block for the dipole approximation, in the format returned by `traverse`."""
        return traverse(
            self.bvh,
            len(blocks.centers),
            lambda level, queries, nodes: ~self._is_far(level, nodes, blocks.centers[queries], blocks.radii[queries]),
        )

    def far_nodes(self, blocks: PointBlocks) -> tuple[IntArray, IntArray]:
        """BVH nodes that replace their triangles by a dipole for each block of points: the largest that are far enough.

        Returns the start of the nodes of each block, shape (n_blocks + 1,), and the concatenated node indices, numbered
        through all levels from the root.
        """
        block_lists, node_lists = [], []

        def should_visit(level: int, queries: IntArray, nodes: IntArray) -> np.ndarray:
            is_far = self._is_far(level, nodes, blocks.centers[queries], blocks.radii[queries])
            block_lists.append(queries[is_far])
            node_lists.append(nodes[is_far] + (1 << level) - 1)
            return ~is_far

        traverse(self.bvh, len(blocks.centers), should_visit)
        queries = np.concatenate(block_lists)
        order = np.argsort(queries, kind="stable")
        return np.searchsorted(queries[order], np.arange(len(blocks.centers) + 1)), np.concatenate(node_lists)[order]

    def dipole_solid_angles(self, points: FloatArray, nodes: IntArray) -> FloatArray:
        """Solid angles of the dipoles of k nodes seen from n points [sr], shape (n, k)."""
        x, y, z = points.T[:, :, None]
        area, center = self.all_area_vectors[nodes], self.all_centers[nodes]
        dx, dy, dz = center[:, 0] - x, center[:, 1] - y, center[:, 2] - z
        squared = dx * dx + dy * dy + dz * dz
        return (dx * area[:, 0] + dy * area[:, 1] + dz * area[:, 2]) / (squared * np.sqrt(squared))

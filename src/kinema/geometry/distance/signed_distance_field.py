"""Signed distance fields of meshes sampled on regular grids, cached on disk."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinema.core import DISTANCE_FIELD_SUFFIX, content_digest, load_or_compute

from ..mesh import (
    FloatArray,
    GeometryError,
    IntArray,
    MeshData,
    MeshError,
    ProgressCallback,
    validate_mesh,
    weld_vertices,
)
from ..mesh_quality import measure_mesh_quality
from .bvh import ClosestPoints, TriangleBvh, build_triangle_bvh, closest_points, winding_numbers

SDF_FILE_VERSION = 1
"""Version of `.gsd` cache files; files of other versions are recomputed."""
DEFAULT_SDF_RESOLUTION = 64
_PADDING_CELLS = 2
"""Grid cells added on each side of the bounding box of the mesh."""


@dataclass(frozen=True, eq=False)
class SignedDistanceField:
    """Signed distances to a mesh on the nodes of a regular grid, in the frame of the mesh.

    Node (i, j, k) lies at `origin + cell_size * (i, j, k)` and has the index (i n_nodes[1] + j) n_nodes[2] + k in the
    flat arrays.
    """

    n_nodes: IntArray
    """Number of nodes along each axis, shape (3,)."""
    cell_size: float
    """Distance between neighbouring nodes along every axis [m]."""
    origin: FloatArray
    """Position of node (0, 0, 0) [m], shape (3,)."""
    values: FloatArray
    """Signed distance at each node, negative inside [m], shape (n,)."""
    gradients: FloatArray
    """Unit gradient of the signed distance (outwards) at each node, shape (n, 3)."""
    closest_vertices: IntArray
    """Index of the mesh vertex nearest to each node, shape (n,)."""

    @property
    def max_distance(self) -> float:
        """Largest absolute distance on any node [m]."""
        return float(np.abs(self.values).max())

    @property
    def T_mesh_to_sdf(self) -> FloatArray:
        """Homogeneous transform (4, 4) from mesh coordinates [m] to grid coordinates, where nodes are integers."""
        pose = np.eye(4)
        pose[:3, :3] /= self.cell_size
        pose[:3, 3] = -self.origin / self.cell_size
        return pose

    def node_positions(self) -> FloatArray:
        """Positions of all nodes in their order [m], shape (n, 3)."""
        return _grid_nodes(self.n_nodes, self.cell_size, self.origin)

    def sample(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Signed distance [m], shape (n,), and gradient, shape (n, 3), at points by trilinear interpolation.

        For a point outside of the grid, the distance to the surface point closest to the projection of the point onto
        the grid boundary, which is an upper bound of the true distance.
        """
        grid_points = (points - self.origin) / self.cell_size
        clamped = np.clip(grid_points, 0.0, self.n_nodes - 1.0)
        base = np.minimum(clamped.astype(np.int64), self.n_nodes - 2)
        t = clamped - base
        value, gradient = np.zeros(len(points)), np.zeros((len(points), 3))
        for corner in np.ndindex(2, 2, 2):
            weight = np.where(np.array(corner) == 1, t, 1.0 - t).prod(axis=1)
            node = np.ravel_multi_index(tuple((base + corner).T), tuple(self.n_nodes))
            value += weight * self.values[node]
            gradient += weight[:, None] * self.gradients[node]
        outside = (grid_points != clamped).any(axis=1)
        if outside.any():
            direction = gradient[outside] / np.linalg.norm(gradient[outside], axis=1)[:, None]
            surface_points = self.origin + clamped[outside] * self.cell_size - value[outside, None] * direction
            offset = points[outside] - surface_points
            value[outside] = np.linalg.norm(offset, axis=1)
            gradient[outside] = offset / value[outside, None]
        return value, gradient


def build_signed_distance_field(
    mesh: MeshData, *, resolution: int = DEFAULT_SDF_RESOLUTION, progress: ProgressCallback | None = None
) -> SignedDistanceField:
    """Signed distance field of `mesh` with `resolution` cells along the longest side of its bounding box.

    Distances on the nodes are exact distances to the nearest triangle, also where triangles are hidden inside
    overlapping parts. A node is inside if the winding number exceeds one half, which tolerates small holes. `progress`
    is called periodically. The result is cached on disk in a `.gsd` file named by its content hash. Raises
    `GeometryError` for a resolution outside 2 to 500 and `MeshError` for an invalid mesh.
    """
    if not 2 <= resolution <= 500:
        raise GeometryError(f"The resolution of a distance field must be between 2 and 500 cells, got {resolution}.")
    validate_mesh(mesh)
    key = content_digest("distance field", SDF_FILE_VERSION, mesh.vertices, mesh.faces, resolution)
    arrays = load_or_compute(
        "geometry", key, lambda: _compute_field_arrays(mesh, resolution, progress), DISTANCE_FIELD_SUFFIX
    )
    return SignedDistanceField(
        arrays["res"],
        float(arrays["cell_size"]),
        arrays["origin"],
        arrays["val"],
        arrays["grad"],
        arrays["closest_vert"],
    )


def signed_distances(mesh: MeshData, points: FloatArray) -> FloatArray:
    """Exact signed distance of each point (n, 3) to the surface of `mesh` [m], negative inside; shape (n,)."""
    normalized, center, size = _normalized_mesh(validate_mesh(mesh))
    bvh, local_points = build_triangle_bvh(normalized), (points - center) / size
    return np.where(winding_numbers(bvh, local_points) > 0.5, -size, size) * closest_points(bvh, local_points).distances


def _compute_field_arrays(mesh: MeshData, resolution: int, progress: ProgressCallback | None) -> dict[str, np.ndarray]:
    """Compute the arrays of a signed distance field, named as in the cache file.

    Grid layout, exact closest points, signs by winding numbers, gradients and nearest vertices are computed for the
    mesh scaled to unit size; lengths are scaled back to metres in the result.
    """
    from scipy.spatial import KDTree

    normalized, center, size = _normalized_mesh(mesh)
    used_vertices = np.unique(mesh.faces)
    points = (mesh.vertices[used_vertices] - center) / size
    extent = np.ptp(points, axis=0)
    cell_size = 1.0 / resolution
    res = np.ceil(extent / cell_size - 1e-9).astype(np.int64) + 1 + 2 * _PADDING_CELLS
    origin = (points.min(axis=0) + points.max(axis=0)) / 2 - cell_size * (res - 1) / 2
    nodes = _grid_nodes(res, cell_size, origin)
    bvh = build_triangle_bvh(normalized)
    closest = closest_points(bvh, nodes, progress)
    sign = _node_signs(bvh, normalized, nodes, closest, res, cell_size, progress)
    return {
        "val": size * sign * closest.distances,
        "grad": _node_gradients(normalized, nodes, closest, sign),
        "closest_vert": used_vertices[KDTree(points).query(nodes)[1]],
        "res": res,
        "cell_size": np.array(size * cell_size),
        "origin": size * origin + center,
    }


def _normalized_mesh(mesh: MeshData) -> tuple[MeshData, FloatArray, float]:
    """Welded mesh, centred and scaled to a longest bounding-box side of 1, with its centre [m] and size [m].

    Normalisation avoids loss of precision far from the origin and underflow of squared small coordinates.
    """
    welded = weld_vertices(mesh)
    corners = welded.vertices[welded.faces].reshape(-1, 3)
    if len(corners) == 0:
        raise MeshError("The mesh has no surface to measure distances from.")
    center, size = corners.min(axis=0) / 2 + corners.max(axis=0) / 2, float(np.ptp(corners, axis=0).max())
    return MeshData((welded.vertices - center) / size, welded.faces), center, size


def _grid_nodes(n_nodes: IntArray, cell_size: float, origin: FloatArray) -> FloatArray:
    """Positions of all grid nodes in index order, shape (n, 3)."""
    axes = [origin[axis] + cell_size * np.arange(n_nodes[axis]) for axis in range(3)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)


def _node_signs(
    bvh: TriangleBvh,
    mesh: MeshData,
    nodes: FloatArray,
    closest: ClosestPoints,
    n_nodes: IntArray,
    cell_size: float,
    progress: ProgressCallback | None,
) -> FloatArray:
    """Sign of the distance at each grid node: -1 inside, 1 outside; shape (n,).

    If the mesh encloses a volume, neighbouring nodes whose unsigned distances sum to more than the cell size are on the
    same side of the surface. The winding number is then evaluated only at the node farthest from the surface of each
    connected group. Otherwise it is evaluated at all nodes.

    Args:
        bvh: BVH of the mesh.
        mesh: the mesh.
        nodes: node positions, shape (n, 3).
        closest: closest surface points of the nodes.
        n_nodes: nodes along each axis, shape (3,).
        cell_size: distance between neighbouring nodes.
        progress: called periodically.
    """
    if not measure_mesh_quality(mesh).encloses_volume:
        return np.where(winding_numbers(bvh, nodes, progress) > 0.5, -1.0, 1.0)
    groups = _connected_node_groups(closest.distances.reshape(tuple(n_nodes)), cell_size)
    # The node farthest from the surface represents its group, since its winding number is most reliable.
    order = np.lexsort((-closest.distances, groups))
    representatives = order[np.flatnonzero(np.diff(groups[order], prepend=-1))]
    inside = winding_numbers(bvh, nodes[representatives], progress) > 0.5
    return np.where(inside[groups], -1.0, 1.0)


def _connected_node_groups(distances: FloatArray, cell_size: float) -> IntArray:
    """Label of the connected group of each grid node, shape (n,).

    Two neighbouring nodes are connected if their unsigned distances to the surface sum to more than the cell size, so
    that no surface can lie between them.

    Args:
        distances: unsigned distances of the nodes, shape (nx, ny, nz).
        cell_size: distance between neighbouring nodes.
    """
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    index = np.arange(distances.size).reshape(distances.shape)
    pairs = []
    for axis in range(3):
        first, second = (
            np.take(index, range(start, distances.shape[axis] - 1 + start), axis=axis).reshape(-1) for start in (0, 1)
        )
        flat = distances.reshape(-1)
        separated_from_surface = flat[first] + flat[second] > cell_size * (1 + 1e-9)
        pairs.append(np.stack([first[separated_from_surface], second[separated_from_surface]]))
    rows, cols = np.concatenate(pairs, axis=1)
    links = coo_matrix((np.ones(len(rows), dtype=bool), (rows, cols)), shape=(distances.size, distances.size))
    return connected_components(links, directed=False)[1].astype(np.int64)


def _node_gradients(mesh: MeshData, nodes: FloatArray, closest: ClosestPoints, sign: FloatArray) -> FloatArray:
    """Unit gradient of the signed distance at each node, shape (n, 3).

    The direction from the closest surface point to the node times the sign; the face normal for nodes on the surface.
    """
    offset = nodes - closest.points
    corners = mesh.triangles()[closest.faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    lengths = np.linalg.norm(normals, axis=1, keepdims=True)
    normals = np.where(lengths > 0, normals / np.where(lengths > 0, lengths, 1.0), [0.0, 0.0, 1.0])
    # Below rounding error, the difference of two points has no reliable direction.
    has_direction = closest.distances > 1e-12
    unit = offset / np.where(has_direction, closest.distances, 1.0)[:, None]
    return np.where(has_direction[:, None], sign[:, None] * unit, normals)

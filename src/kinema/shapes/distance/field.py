"""Signed distance fields: how far each node of a grid is from a mesh, negative inside, kept on disk in `.gsd` files."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinema.foundation import DISTANCE_FIELD, content_digest, load_or_make
from kinema.shapes.affine import weld
from kinema.shapes.distance.closest import Closest, closest
from kinema.shapes.distance.tree import TriangleTree, triangle_tree
from kinema.shapes.distance.winding import winding_numbers
from kinema.shapes.mesh_data import FloatArray, IntArray, MeshData, MeshError, ShapeError, check_mesh
from kinema.shapes.quality import mesh_quality
from kinema.shapes.report import Report

FIELD_VERSION = 1
"""Of `.gsd` files; others are made again."""
DEFAULT_RESOLUTION = 64
_PADDING = 2
"""Cells around the mesh's box on each side."""


@dataclass(frozen=True, eq=False)
class DistanceField:
    """Distances on the nodes of a grid, in the frame of the mesh.

    Node (i, j, k) lies at `origin + cell_size * (i, j, k)`; the arrays are flat, and its place in them is
    (i res[1] + j) res[2] + k.
    """

    res: IntArray
    """Nodes along each axis, shape (3,)."""
    cell_size: float
    """Distance between neighbouring nodes [m], along every axis."""
    origin: FloatArray
    """Node (0, 0, 0) [m], shape (3,)."""
    val: FloatArray
    """Signed distance to the surface, negative inside [m], shape (n,)."""
    grad: FloatArray
    """Its gradient, which points away from the surface outside and towards it inside; of unit length, shape (n, 3)."""
    closest_vert: IntArray
    """The vertex of the mesh that is nearest, shape (n,)."""

    @property
    def max(self) -> float:
        """The largest distance on any node [m], inside or outside."""
        return float(np.abs(self.val).max())

    @property
    def T_mesh_to_sdf(self) -> FloatArray:
        """From the mesh's coordinates [m] to those of the grid, where nodes are whole numbers, shape (4, 4)."""
        pose = np.eye(4)
        pose[:3, :3] /= self.cell_size
        pose[:3, 3] = -self.origin / self.cell_size
        return pose

    def nodes(self) -> FloatArray:
        """Where the nodes are [m], in their order, shape (n, 3)."""
        return _nodes(self.res, self.cell_size, self.origin)

    def sample(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Distance [m], shape (n,), and gradient, shape (n, 3), at points between nodes, each linear between them.

        Outside of the grid, the distance to the point of the surface that is closest to the nearest point of the
        grid's border: never less than the true distance.
        """
        at = (points - self.origin) / self.cell_size
        inside = np.clip(at, 0.0, self.res - 1.0)
        base = np.minimum(inside.astype(np.int64), self.res - 2)
        share = inside - base
        value, slope = np.zeros(len(points)), np.zeros((len(points), 3))
        for corner in np.ndindex(2, 2, 2):
            weight = np.where(np.array(corner) == 1, share, 1.0 - share).prod(axis=1)
            node = np.ravel_multi_index(tuple((base + corner).T), tuple(self.res))
            value += weight * self.val[node]
            slope += weight[:, None] * self.grad[node]
        beyond = (at != inside).any(axis=1)
        if beyond.any():
            steep = slope[beyond] / np.linalg.norm(slope[beyond], axis=1)[:, None]
            foot = self.origin + inside[beyond] * self.cell_size - value[beyond, None] * steep
            away = points[beyond] - foot
            value[beyond] = np.linalg.norm(away, axis=1)
            slope[beyond] = away / value[beyond, None]
        return value, slope


def distance_field(
    mesh: MeshData, *, resolution: int = DEFAULT_RESOLUTION, report: Report | None = None
) -> DistanceField:
    """The signed distance field of `mesh`, with `resolution` cells along the longest side of its box, and a margin.

    Distances are exact on the nodes: to the nearest triangle, also where parts overlap and it is hidden in another one.
    Inside is where the surface winds around more than half, so small holes do not matter. `report` is told how far it
    is. The field is kept in the disk cache, in a `.gsd` file that is named by its content.
    """
    if not 2 <= resolution <= 500:
        raise ShapeError(f"A distance field has 2 to 500 cells along its longest side, not {resolution}.")
    check_mesh(mesh)
    key = content_digest("distance field", FIELD_VERSION, mesh.vertices, mesh.faces, resolution)
    made = load_or_make("geometry", key, lambda: _made(mesh, resolution, report), DISTANCE_FIELD)
    return DistanceField(
        made["res"], float(made["cell_size"]), made["origin"], made["val"], made["grad"], made["closest_vert"]
    )


def signed_distances(mesh: MeshData, points: FloatArray) -> FloatArray:
    """Exact distance of each point to the surface of `mesh` [m], negative inside, shape (n,)."""
    solid, middle, size = _of_size_one(check_mesh(mesh))
    tree, there = triangle_tree(solid), (points - middle) / size
    return np.where(winding_numbers(tree, there) > 0.5, -size, size) * closest(tree, there).distances


def _made(mesh: MeshData, resolution: int, report: Report | None) -> dict[str, np.ndarray]:
    from scipy.spatial import KDTree

    solid, middle, size = _of_size_one(mesh)
    used = np.unique(mesh.faces)
    spots = (mesh.vertices[used] - middle) / size
    extent = np.ptp(spots, axis=0)
    cell_size = 1.0 / resolution
    res = np.ceil(extent / cell_size - 1e-9).astype(np.int64) + 1 + 2 * _PADDING
    origin = (spots.min(axis=0) + spots.max(axis=0)) / 2 - cell_size * (res - 1) / 2
    nodes = _nodes(res, cell_size, origin)
    tree = triangle_tree(solid)
    found = closest(tree, nodes, report)
    sign = _signs(tree, solid, nodes, found, res, cell_size, report)
    return {
        "val": size * sign * found.distances,
        "grad": _gradients(solid, nodes, found, sign),
        "closest_vert": used[KDTree(spots).query(nodes)[1]],
        "res": res,
        "cell_size": np.array(size * cell_size),
        "origin": size * origin + middle,
    }


def _of_size_one(mesh: MeshData) -> tuple[MeshData, FloatArray, float]:
    """The mesh with each position once, around the origin and of size one; where its middle was, and its size [m].

    Far from the origin coordinates have few digits left, and the squares of tiny ones none.
    """
    welded = weld(mesh)
    corners = welded.vertices[welded.faces].reshape(-1, 3)
    if len(corners) == 0:
        raise MeshError("The mesh has no surface to measure distances from.")
    middle, size = corners.min(axis=0) / 2 + corners.max(axis=0) / 2, float(np.ptp(corners, axis=0).max())
    return MeshData((welded.vertices - middle) / size, welded.faces), middle, size


def _nodes(res: IntArray, cell_size: float, origin: FloatArray) -> FloatArray:
    axes = [origin[axis] + cell_size * np.arange(res[axis]) for axis in range(3)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)


def _signs(
    tree: TriangleTree,
    mesh: MeshData,
    nodes: FloatArray,
    found: Closest,
    res: IntArray,
    cell_size: float,
    report: Report | None,
) -> FloatArray:
    """-1 for nodes inside, 1 for others.

    Between neighbouring nodes that are together farther from the surface than from each other there is no surface. If
    the mesh is closed they are on the same side: one of all that hang together has to be looked at.
    """
    if not mesh_quality(mesh).is_balanced:
        return np.where(winding_numbers(tree, nodes, report) > 0.5, -1.0, 1.0)
    groups = _groups(found.distances.reshape(tuple(res)), cell_size)
    # The one that is farthest from the surface speaks for its group: it is the surest.
    order = np.lexsort((-found.distances, groups))
    speakers = order[np.flatnonzero(np.diff(groups[order], prepend=-1))]
    inside = winding_numbers(tree, nodes[speakers], report) > 0.5
    return np.where(inside[groups], -1.0, 1.0)


def _groups(distances: FloatArray, cell_size: float) -> IntArray:
    """Number of the group of nodes that hang together, for each node."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    index = np.arange(distances.size).reshape(distances.shape)
    pairs = []
    for axis in range(3):
        first, second = (
            np.take(index, range(start, distances.shape[axis] - 1 + start), axis=axis).reshape(-1) for start in (0, 1)
        )
        flat = distances.reshape(-1)
        clear = flat[first] + flat[second] > cell_size * (1 + 1e-9)
        pairs.append(np.stack([first[clear], second[clear]]))
    rows, cols = np.concatenate(pairs, axis=1)
    links = coo_matrix((np.ones(len(rows), dtype=bool), (rows, cols)), shape=(distances.size, distances.size))
    return connected_components(links, directed=False)[1].astype(np.int64)


def _gradients(mesh: MeshData, nodes: FloatArray, found: Closest, sign: FloatArray) -> FloatArray:
    """Away from the closest point outside, towards it inside; the face's normal for a node on the surface."""
    away = nodes - found.points
    corners = mesh.triangles()[found.faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    lengths = np.linalg.norm(normals, axis=1, keepdims=True)
    normals = np.where(lengths > 0, normals / np.where(lengths > 0, lengths, 1.0), [0.0, 0.0, 1.0])
    # Closer than rounding, the difference of two points has no direction.
    off = found.distances > 1e-12
    unit = away / np.where(off, found.distances, 1.0)[:, None]
    return np.where(off[:, None], sign[:, None] * unit, normals)

"""Convex solids as collision needs them: planar polygons, true edges, and who is whose neighbour."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kinema.shapes.hull import convex_hull
from kinema.shapes.mesh_data import FloatArray, IntArray, MeshData, MeshError

FLATNESS = (1e-6, 1e-8, 1e-10)
"""How far from a plane the corners of one polygon may be, against the size of the solid; tried in this order.

The first forgives the rounding of coordinates in files. Where it would leave faces with holes or without an area, as on
a very fine round surface, a smaller one is taken.
"""

_SAME_WAY = 0.9
"""Cosine of the angle between triangles that may be one face; how flat they are is decided by distances."""
_WIDER, _ROUNDING = 1.01, 1e-9
"""How much more is let through where triangles are told beforehand that join none of their neighbours."""


@dataclass(frozen=True, eq=False)
class Polytope:
    """A convex solid. All arrays are flat: what belongs to item i lies from `start[i]` to `start[i + 1]`."""

    vertices: FloatArray
    """Positions [m], shape (n, 3)."""
    triangles: IntArray
    """Its surface as triangles, counter-clockwise seen from outside, shape (m, 3)."""
    polygons: IntArray
    """Corners of all faces, each once around, counter-clockwise seen from outside. A vertex in the middle of a face or
    of an edge, where the solid has no corner, is in none of them."""
    polygon_start: IntArray
    """Where each face starts in `polygons`, shape (n_faces + 1,)."""
    normals: FloatArray
    """Outward unit normal of each face, shape (n_faces, 3)."""
    offsets: FloatArray
    """Distance of each face's plane from the origin along its normal [m], shape (n_faces,)."""
    edges: IntArray
    """Pairs of vertices, the smaller number first, where two faces meet, shape (n_edges, 2)."""
    edge_faces: IntArray
    """The faces at each edge: first the one that runs along it from the smaller number, shape (n_edges, 2)."""
    neighbors: IntArray
    """Vertices joined to each vertex by the edge of a triangle: going from one to the best of its neighbours, as long
    as there is a better one, ends at the farthest vertex in a direction."""
    neighbor_start: IntArray
    """Where each vertex starts in `neighbors`, shape (n + 1,)."""

    @property
    def n_faces(self) -> int:
        """Number of planar faces."""
        return len(self.normals)

    def polygon(self, face: int) -> IntArray:
        """Corners of a face."""
        return self.polygons[self.polygon_start[face] : self.polygon_start[face + 1]]

    def mesh(self) -> MeshData:
        """The surface as triangles."""
        return MeshData(self.vertices, self.triangles)


def polytope(mesh: MeshData, max_vertices: int | None = None) -> Polytope:
    """The convex hull of `mesh` (see `convex_hull`), with coplanar triangles made one face."""
    hull = convex_hull(mesh, max_vertices)
    # Around the origin and of size one, cross products neither vanish nor lose digits.
    middle = hull.vertices.min(axis=0) / 2 + hull.vertices.max(axis=0) / 2
    size = float(np.ptp(hull.vertices, axis=0).max())
    scaled = MeshData((hull.vertices - middle) / size, hull.faces)
    for flatness in FLATNESS:
        loops = _loops(scaled, flatness)
        if loops is not None:
            normals, offsets = _planes(scaled, loops)
            return _polytope(hull, loops, normals, normals @ middle + size * offsets)
    raise MeshError("The points are too close to one plane, or to each other, for a convex solid.")


def triangle_neighbors(triangles: IntArray, n_vertices: int) -> tuple[IntArray, IntArray]:
    """Vertices that share an edge with each vertex: where each one's start, shape (n + 1,), and all of them."""
    ends = np.concatenate([triangles[:, [a, b]] for a in range(3) for b in range(3) if a != b])
    ends = np.unique(ends, axis=0)
    start = np.searchsorted(ends[:, 0], np.arange(n_vertices + 1))
    return start, ends[:, 1]


def _loops(hull: MeshData, tolerance: float) -> list[list[int]] | None:
    """Corners of the planar faces, or None where they are not the faces of a solid."""
    loops, faces = [], hull.faces.tolist()
    for region in _flat_regions(hull, tolerance):
        loop = _outline([faces[triangle] for triangle in region])
        if loop is None:
            return None
        loops.append(loop)
    # A vertex of two faces lies along an edge, a vertex of one within a face: neither is a corner.
    uses = np.bincount(np.concatenate(loops), minlength=hull.n_vertices).tolist()
    corners = [[v for v in loop if uses[v] >= 3] for loop in loops]
    return corners if all(len(loop) >= 3 for loop in corners) and len(corners) >= 4 else None


def _flat_regions(hull: MeshData, tolerance: float) -> list[list[int]]:
    """Connected triangles that lie in the plane of the largest of them, within `tolerance`."""
    corners = hull.triangles()
    crossed = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    areas = np.linalg.norm(crossed, axis=1)
    normals = crossed / np.where(areas > 0, areas, 1.0)[:, None]
    longest = np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2).max(axis=1)
    slivers = areas <= tolerance * longest  # their normals say nothing
    across = _triangles_across(hull.faces)
    joins = _may_join(corners, normals, slivers, across, _WIDER * tolerance)
    is_alone, across = [not any(sides) for sides in joins.tolist()], across.tolist()
    taken = np.zeros(hull.n_faces, dtype=bool)
    regions = []
    for seed in np.argsort(-areas, kind="stable").tolist():
        if taken[seed]:
            continue
        if is_alone[seed]:
            taken[seed] = True
            regions.append([seed])
            continue
        heights = (hull.vertices - corners[seed, 0]) @ normals[seed]
        in_plane = (np.abs(heights) <= tolerance)[hull.faces].all(axis=1)
        in_plane &= slivers | (normals @ normals[seed] > _SAME_WAY)  # not the other side of a thin plate
        taken[seed] = True
        region = [seed]
        for triangle in region:  # grows while it is walked
            for other in across[triangle]:
                if in_plane[other] and not taken[other]:
                    taken[other] = True
                    region.append(other)
        regions.append(region)
    return regions


def _may_join(
    corners: FloatArray, normals: FloatArray, slivers: npt.NDArray[np.bool_], across: IntArray, tolerance: float
) -> npt.NDArray[np.bool_]:
    """Whether each of the three triangles across the edges of a triangle lies in its plane, shape (n_faces, 3)."""
    found = np.zeros(across.shape, np.bool_)
    for side in range(3):
        other = across[:, side]
        heights = np.einsum("ijk,ik->ij", corners[other] - corners[:, :1], normals)
        same_way = np.einsum("ik,ik->i", normals[other], normals) > _SAME_WAY - _ROUNDING
        found[:, side] = (np.abs(heights) <= tolerance).all(axis=1) & (slivers[other] | same_way)
    return found


def _triangles_across(triangles: IntArray) -> IntArray:
    """For each triangle of a closed surface, the three that it shares an edge with, shape (n_faces, 3)."""
    start, end = triangles.reshape(-1), np.roll(triangles, -1, axis=1).reshape(-1)
    order = np.lexsort((np.maximum(start, end), np.minimum(start, end))).reshape(-1, 2)
    other = np.zeros(len(start), dtype=np.int64)
    other[order[:, 0]], other[order[:, 1]] = order[:, 1], order[:, 0]
    return (other // 3).reshape(-1, 3)


def _outline(triangles: list[list[int]]) -> list[int] | None:
    """The border of some connected triangles, once around; None unless it is one simple loop."""
    if len(triangles) == 1:
        (only,) = triangles
        first = only.index(min(only))
        return only[first:] + only[:first]
    sides = {side for a, b, c in triangles for side in ((a, b), (b, c), (c, a))}
    border = [(a, b) for a, b in sides if (b, a) not in sides]
    following = dict(border)
    if not border or len(following) < len(border):
        return None
    first = min(following)
    loop = [first]
    while following[loop[-1]] != first:
        loop.append(following[loop[-1]])
        if len(loop) > len(border):
            return None
    return loop if len(loop) == len(border) else None


def _polytope(hull: MeshData, loops: list[list[int]], normals: FloatArray, offsets: FloatArray) -> Polytope:
    edges, edge_faces = _edges(loops)
    neighbor_start, neighbors = triangle_neighbors(hull.faces, hull.n_vertices)
    return Polytope(
        vertices=hull.vertices,
        triangles=hull.faces,
        polygons=np.concatenate([np.array(loop, dtype=np.int64) for loop in loops]),
        polygon_start=np.cumsum([0, *[len(loop) for loop in loops]]),
        normals=normals,
        offsets=offsets,
        edges=edges,
        edge_faces=edge_faces,
        neighbors=neighbors,
        neighbor_start=neighbor_start,
    )


def _planes(hull: MeshData, loops: list[list[int]]) -> tuple[FloatArray, FloatArray]:
    """Unit normal of each face, and the offset that none of its corners lies above."""
    normals, offsets = np.zeros((len(loops), 3)), np.zeros(len(loops))
    sizes = np.array([len(loop) for loop in loops])
    for size in np.unique(sizes):
        faces = np.flatnonzero(sizes == size)
        corners = hull.vertices[np.array([loops[face] for face in faces])]
        spokes = corners - corners.mean(axis=1, keepdims=True)
        areas = np.cross(spokes, np.roll(spokes, -1, axis=1)).sum(axis=1)
        normals[faces] = areas / np.linalg.norm(areas, axis=1, keepdims=True)
        offsets[faces] = np.einsum("ijk,ik->ij", corners, normals[faces]).max(axis=1)
    return normals, offsets


def _edges(loops: list[list[int]]) -> tuple[IntArray, IntArray]:
    sides = {(a, b): face for face, loop in enumerate(loops) for a, b in zip(loop, loop[1:] + loop[:1], strict=True)}
    pairs = sorted((a, b) for a, b in sides if a < b)
    faces = [(sides[a, b], sides[b, a]) for a, b in pairs]
    return np.array(pairs, dtype=np.int64), np.array(faces, dtype=np.int64)

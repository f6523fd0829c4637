"""Convex hulls (Qhull), convex polytopes with merged coplanar faces, and tabulated support functions."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from kinema.core import reproducible_product, sine_cosine

from .mass_properties import signed_volume
from .mesh import FloatArray, GeometryError, IntArray, MeshData, MeshError, coincident_vertex_groups

# Convex hull ----------------------------------------------------------------------------------------------------------

MIN_HULL_VERTICES = 4
"""Minimum number of vertices of a solid."""
_hull_cache: WeakKeyDictionary[MeshData, MeshData] = WeakKeyDictionary()
"""Hulls of meshes that are still referenced; volume and faces are often requested separately."""


def convex_hull(mesh: MeshData, max_vertices: int | None = None) -> MeshData:
    """Convex hull (Qhull) of the faces of `mesh`, or of its vertices if the mesh has no faces.

    The result is closed, oriented outwards, in the frame of `mesh` and in its vertex order. With `max_vertices`
    (`maxhullvert` of MJCF), Qhull stops at that many vertices, which gives a subset of the hull with the same vertices
    as MuJoCo; it depends on the frame of the mesh. Raises `MeshError` for fewer than four distinct points and for
    coplanar points.
    """
    if max_vertices is not None and max_vertices < MIN_HULL_VERTICES:
        raise GeometryError(f"A convex hull needs at least {MIN_HULL_VERTICES} vertices, got {max_vertices}.")
    if max_vertices is None and mesh in _hull_cache:
        return _hull_cache[mesh]
    points = unique_face_points(mesh)
    if len(points) < MIN_HULL_VERTICES:
        raise MeshError("A convex hull needs at least four different points.")
    triangles = _vertex_limited_hull(points, max_vertices) if max_vertices is not None else _full_hull(points)
    kept, faces = np.unique(triangles, return_inverse=True)
    hull = MeshData(points[kept], _make_winding_consistent(faces.reshape(-1, 3)))
    hull = hull if signed_volume(hull) > 0 else MeshData(hull.vertices, hull.faces[:, ::-1])
    if max_vertices is None:
        _hull_cache[mesh] = hull
    return hull


def unique_face_points(mesh: MeshData) -> FloatArray:
    """Distinct vertex positions used by the faces of `mesh`, or of all vertices if it has no faces [m], shape (n, 3).

    Raises `MeshError` for an empty mesh or non-finite coordinates.
    """
    # Files often repeat vertices, and Qhull is slow.
    positions = coincident_vertex_groups(mesh.vertices)
    points = mesh.vertices[np.unique(positions[mesh.faces] if mesh.n_faces else positions)]
    if not np.isfinite(points).all():
        raise MeshError("A vertex coordinate is not a finite number.")
    if len(points) == 0:
        raise MeshError("The mesh has no vertices.")
    return points


def _full_hull(points: FloatArray) -> IntArray:
    """Convex hull by Qhull: triangles as indices into `points` (n, 3), with arbitrary winding; shape (m, 3).

    The points are centred and scaled to the unit cube first. Raises `MeshError` for coincident or coplanar points.
    """
    # Tolerances of Qhull are relative to the coordinates, which is wrong far from the origin, and an overflow inside of
    # Qhull aborts the process: pass points within the unit cube.
    low, high = points.min(axis=0), points.max(axis=0)
    size = float((high / 2 - low / 2).max())
    if size == 0:
        raise MeshError("A convex hull needs at least four different points.")
    return _qhull((points / size) - (high / size + low / size) / 2, "Qt")


def _vertex_limited_hull(points: FloatArray, max_vertices: int) -> IntArray:
    """Hull triangles with at most `max_vertices` vertices, added farthest first as in MuJoCo; indices, shape (m, 3)."""
    # Scaling by a power of two is exact, so that ties between points are broken as without scaling.
    scaled = points / 2.0 ** np.ceil(np.log2(np.abs(points).max()))
    # Option TA counts the vertices added to the initial four.
    return _qhull(scaled, f"Qt Q9 TA{max_vertices - MIN_HULL_VERTICES}")


def _qhull(points: FloatArray, options: str) -> IntArray:
    from scipy.spatial import ConvexHull, QhullError

    try:
        return ConvexHull(points, qhull_options=options).simplices.astype(np.int64)
    except QhullError:
        raise MeshError("The points lie in one plane, so their convex hull is not a solid.") from None


def _make_winding_consistent(faces: IntArray) -> IntArray:
    """Flip triangles of a closed connected surface so that all windings are consistent, shape (m, 3).

    Normals are unsuitable because Qhull may split planar facets into triangles without area. Each face is represented
    by two graph nodes, as given and reversed; nodes with consistent winding across an edge are linked. One of the two
    connected components is returned; the other is its mirror image. Raises `MeshError` if an edge does not have exactly
    two faces.
    """
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    n_faces = len(faces)
    start, end = faces.reshape(-1), np.roll(faces, -1, axis=1).reshape(-1)
    low, high = np.minimum(start, end), np.maximum(start, end)
    # On a closed surface every edge occurs twice: after sorting, the two uses are adjacent.
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


# Convex polytopes -----------------------------------------------------------------------------------------------------

COPLANARITY_TOLERANCES = (1e-6, 1e-8, 1e-10)
"""Distances from a plane within which triangles are merged into one face, relative to the size of the solid.

Tried in this order: the first tolerates the rounding of coordinates in files; smaller ones are used if the merged faces
would be invalid (with holes or without area), as on a finely tessellated round surface.
"""

_MIN_NORMAL_COSINE = 0.9
"""Minimum cosine between the normals of triangles of one face; coplanarity itself is decided by distances."""
_TOLERANCE_FACTOR, _COSINE_ROUNDING = 1.01, 1e-9
"""Slack of the vectorised pre-test for triangles without coplanar neighbours."""


@dataclass(frozen=True, eq=False)
class Polytope:
    """A convex polytope. Ragged arrays are flat: the entries of item i are `start[i]` to `start[i + 1]`."""

    vertices: FloatArray
    """Positions [m], shape (n, 3)."""
    triangles: IntArray
    """Surface triangles, counter-clockwise seen from outside, shape (m, 3)."""
    polygons: IntArray
    """Vertex indices of all planar faces, each counter-clockwise seen from outside. Vertices in the interior of a face
    or an edge are omitted."""
    polygon_start: IntArray
    """Start of each face in `polygons`, shape (n_faces + 1,)."""
    normals: FloatArray
    """Outward unit normal of each face, shape (n_faces, 3)."""
    offsets: FloatArray
    """Signed distance of the plane of each face from the origin along its normal [m], shape (n_faces,)."""
    edges: IntArray
    """Vertex pairs (lower index first) of the edges between faces, shape (n_edges, 2)."""
    edge_faces: IntArray
    """The two faces of each edge, first the face that traverses it from the lower index; shape (n_edges, 2)."""

    @property
    def n_faces(self) -> int:
        """Number of planar faces."""
        return len(self.normals)

    def face_vertices(self, face: int) -> IntArray:
        """Vertex indices of one planar face."""
        return self.polygons[self.polygon_start[face] : self.polygon_start[face + 1]]

    def to_mesh(self) -> MeshData:
        """The surface as a triangle mesh."""
        return MeshData(self.vertices, self.triangles)


def convex_polytope(mesh: MeshData, max_vertices: int | None = None) -> Polytope:
    """Convex hull of `mesh` (see `convex_hull`) as a polytope with coplanar triangles merged into polygonal faces.

    Raises `MeshError` if no tolerance gives a valid polytope.
    """
    hull = convex_hull(mesh, max_vertices)
    # Centred and scaled to unit size for accurate cross products.
    center = hull.vertices.min(axis=0) / 2 + hull.vertices.max(axis=0) / 2
    size = float(np.ptp(hull.vertices, axis=0).max())
    scaled = MeshData((hull.vertices - center) / size, hull.faces)
    for tolerance in COPLANARITY_TOLERANCES:
        loops = _face_loops(scaled, tolerance)
        if loops is not None:
            normals, offsets = _face_planes(scaled, loops)
            return _assemble_polytope(hull, loops, normals, reproducible_product(normals, center) + size * offsets)
    raise MeshError("The points are too close to one plane, or to each other, for a convex solid.")


def _face_loops(hull: MeshData, tolerance: float) -> list[list[int]] | None:
    """Vertex loops of the polygonal faces of a convex hull, or None if they do not form a valid polytope.

    Coplanar triangles within `tolerance` are merged; vertices that belong to fewer than three faces are removed.
    """
    loops, faces = [], hull.faces.tolist()
    for region in _coplanar_regions(hull, tolerance):
        loop = _boundary_loop([faces[triangle] for triangle in region])
        if loop is None:
            return None
        loops.append(loop)
    # A vertex of two faces lies on an edge and a vertex of one face in its interior; neither is a corner.
    uses = np.bincount(np.concatenate(loops), minlength=hull.n_vertices).tolist()
    corners = [[v for v in loop if uses[v] >= 3] for loop in loops]
    return corners if all(len(loop) >= 3 for loop in corners) and len(corners) >= 4 else None


def _coplanar_regions(hull: MeshData, tolerance: float) -> list[list[int]]:
    """Partition of hull triangles into connected regions of coplanar triangles, as lists of indices.

    Region growing from the largest remaining triangle: neighbours join if all their vertices are within `tolerance` of
    its plane and their normals agree. Triangles without coplanar neighbours are found beforehand.
    """
    corners = hull.triangles()
    crossed = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    areas = np.linalg.norm(crossed, axis=1)
    normals = crossed / np.where(areas > 0, areas, 1.0)[:, None]
    longest = np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2).max(axis=1)
    slivers = areas <= tolerance * longest  # without a reliable normal
    adjacent = _adjacent_triangles(hull.faces)
    coplanar = _coplanar_neighbors(corners, normals, slivers, adjacent, _TOLERANCE_FACTOR * tolerance)
    is_isolated, adjacent = [not any(flags) for flags in coplanar.tolist()], adjacent.tolist()
    taken = np.zeros(hull.n_faces, dtype=bool)
    regions = []
    for seed in np.argsort(-areas, kind="stable").tolist():
        if taken[seed]:
            continue
        if is_isolated[seed]:
            taken[seed] = True
            regions.append([seed])
            continue
        heights = reproducible_product(hull.vertices - corners[seed, 0], normals[seed])
        in_plane = (np.abs(heights) <= tolerance)[hull.faces].all(axis=1)
        in_plane &= slivers | (
            reproducible_product(normals, normals[seed]) > _MIN_NORMAL_COSINE
        )  # excludes the opposite side of a thin plate
        taken[seed] = True
        region = [seed]
        for triangle in region:  # grows during iteration
            for other in adjacent[triangle]:
                if in_plane[other] and not taken[other]:
                    taken[other] = True
                    region.append(other)
        regions.append(region)
    return regions


def _coplanar_neighbors(
    corners: FloatArray, normals: FloatArray, slivers: npt.NDArray[np.bool_], adjacent: IntArray, tolerance: float
) -> npt.NDArray[np.bool_]:
    """Whether each of the three edge neighbours of a triangle lies in its plane, shape (n_faces, 3).

    Args:
        corners: corners of the triangles, shape (n_faces, 3, 3).
        normals: unit normals, shape (n_faces, 3).
        slivers: mask of triangles without a reliable normal, shape (n_faces,).
        adjacent: indices of the edge neighbours, shape (n_faces, 3).
        tolerance: maximum distance from the plane.
    """
    coplanar = np.zeros(adjacent.shape, np.bool_)
    for side in range(3):
        other = adjacent[:, side]
        heights = ((corners[other] - corners[:, :1]) * normals[:, None]).sum(axis=2)
        aligned = (normals[other] * normals).sum(axis=1) > _MIN_NORMAL_COSINE - _COSINE_ROUNDING
        coplanar[:, side] = (np.abs(heights) <= tolerance).all(axis=1) & (slivers[other] | aligned)
    return coplanar


def _adjacent_triangles(triangles: IntArray) -> IntArray:
    """Indices of the three edge neighbours of each triangle of a closed surface, shape (n_faces, 3)."""
    start, end = triangles.reshape(-1), np.roll(triangles, -1, axis=1).reshape(-1)
    order = np.lexsort((np.maximum(start, end), np.minimum(start, end))).reshape(-1, 2)
    other = np.zeros(len(start), dtype=np.int64)
    other[order[:, 0]], other[order[:, 1]] = order[:, 1], order[:, 0]
    return (other // 3).reshape(-1, 3)


def _boundary_loop(triangles: list[list[int]]) -> list[int] | None:
    """Boundary of connected triangles as one vertex loop starting at the lowest index; None if not a simple loop."""
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


def _assemble_polytope(hull: MeshData, loops: list[list[int]], normals: FloatArray, offsets: FloatArray) -> Polytope:
    """Polytope of a hull from the vertex loops, normals and plane offsets of its faces; adds edges."""
    edges, edge_faces = _polytope_edges(loops)
    return Polytope(
        vertices=hull.vertices,
        triangles=hull.faces,
        polygons=np.concatenate([np.array(loop, dtype=np.int64) for loop in loops]),
        polygon_start=np.cumsum([0, *[len(loop) for loop in loops]]),
        normals=normals,
        offsets=offsets,
        edges=edges,
        edge_faces=edge_faces,
    )


def _face_planes(hull: MeshData, loops: list[list[int]]) -> tuple[FloatArray, FloatArray]:
    """Outward unit normal, shape (n, 3), and plane offset, shape (n,), of each polygonal face.

    Newell's method on the vertex loops; the offset is the largest over the corners, so that none lies above the plane.
    """
    normals, offsets = np.zeros((len(loops), 3)), np.zeros(len(loops))
    sizes = np.array([len(loop) for loop in loops])
    for size in np.unique(sizes):
        faces = np.flatnonzero(sizes == size)
        corners = hull.vertices[np.array([loops[face] for face in faces])]
        offsets_from_mean = corners - corners.mean(axis=1, keepdims=True)
        area_vectors = np.cross(offsets_from_mean, np.roll(offsets_from_mean, -1, axis=1)).sum(axis=1)
        normals[faces] = area_vectors / np.linalg.norm(area_vectors, axis=1, keepdims=True)
        offsets[faces] = (corners * normals[faces, None]).sum(axis=2).max(axis=1)
    return normals, offsets


def _polytope_edges(loops: list[list[int]]) -> tuple[IntArray, IntArray]:
    sides = {(a, b): face for face, loop in enumerate(loops) for a, b in zip(loop, loop[1:] + loop[:1], strict=True)}
    pairs = sorted((a, b) for a, b in sides if a < b)
    faces = [(sides[a, b], sides[b, a]) for a, b in pairs]
    return np.array(pairs, dtype=np.int64), np.array(faces, dtype=np.int64)


# Support function -----------------------------------------------------------------------------------------------------

SUPPORT_RESOLUTION = 180
"""Default number of tabulated directions along each of the two angles."""
_PRODUCTS_PER_CHUNK = 1 << 22
"""Direction-vertex products held in memory at a time."""


@dataclass(frozen=True, eq=False)
class SupportTable:
    """Support vertices of a convex solid tabulated over `resolution` x `resolution` directions.

    Direction (i, j) has azimuth 2 pi i / resolution - pi about z and polar angle pi j / (resolution - 1) from +z,
    including both poles. Its index in the flat arrays is i resolution + j.
    """

    resolution: int
    """Number of directions along each of the two angles."""
    support_points: FloatArray
    """Support points [m], shape (resolution^2, 3)."""
    vertex_indices: IntArray
    """Vertex indices of the support points, shape (resolution^2,)."""

    def lookup(self, directions: FloatArray) -> IntArray:
        """Approximate support vertex of each direction (n, 3): the best of the four surrounding table entries, (n,).

        With the default resolution, the support height is underestimated by 5e-4 of the radius on round solids and by
        at most 2 % of the diameter; it is exact if every vertex is the support vertex of a whole cell. Directions need
        not be normalised.
        """
        x, y, z = directions.T
        azimuth = (np.arctan2(y, x) + np.pi) * (self.resolution / (2 * np.pi))
        polar = np.arctan2(np.hypot(x, y), z) * ((self.resolution - 1) / np.pi)
        i, j = azimuth.astype(np.int64), np.minimum(polar.astype(np.int64), self.resolution - 2)
        cells = np.stack([(i + a) % self.resolution * self.resolution + j + b for a in (0, 1) for b in (0, 1)], axis=1)
        heights = np.einsum("nkj,nj->nk", self.support_points[cells], directions)
        return self.vertex_indices[np.take_along_axis(cells, heights.argmax(axis=1)[:, None], axis=1)[:, 0]]


def support_vertex_indices(vertices: FloatArray, directions: FloatArray) -> IntArray:
    """Support mapping by exhaustive search: index of the vertex farthest along each direction, shape (n,).

    Args:
        vertices: shape (m, 3) [m].
        directions: shape (n, 3), not necessarily of unit length. Ties go to the lowest index.
    """
    if len(vertices) == 0:
        raise GeometryError("The support vertex of an empty set of vertices is undefined.")
    farthest = np.zeros(len(directions), dtype=np.int64)
    step = max(1, _PRODUCTS_PER_CHUNK // len(vertices))
    for first in range(0, len(directions), step):
        heights = reproducible_product(directions[first : first + step], vertices.T)
        farthest[first : first + step] = heights.argmax(axis=1)
    return farthest


def support_table_directions(resolution: int = SUPPORT_RESOLUTION) -> FloatArray:
    """Unit directions of a support table, a grid of azimuths and polar angles; shape (resolution^2, 3)."""
    if resolution < 4:
        raise GeometryError(f"The resolution of a support table must be at least 4, got {resolution}.")
    azimuth = 2 * np.pi * np.arange(resolution) / resolution - np.pi
    polar = np.pi * np.arange(resolution) / (resolution - 1)
    sine, cosine = np.array([sine_cosine(angle) for angle in polar.tolist()]).T
    sine[-1] = 0.0  # exactly zero at the pole
    sine_azimuth, cosine_azimuth = np.array([sine_cosine(angle) for angle in azimuth.tolist()]).T
    directions = np.zeros((resolution, resolution, 3))
    directions[..., 0] = cosine_azimuth[:, None] * sine
    directions[..., 1] = sine_azimuth[:, None] * sine
    directions[..., 2] = cosine
    return directions.reshape(-1, 3)


def build_support_table(vertices: FloatArray, resolution: int = SUPPORT_RESOLUTION) -> SupportTable:
    """Support table of a convex solid with `vertices` (n, 3) [m] in its frame."""
    farthest = support_vertex_indices(vertices, support_table_directions(resolution))
    return SupportTable(resolution, vertices[farthest], farthest)

"""A mesh with fewer triangles: edges whose loss changes the surface least are drawn together to one point.

How much a point changes it is the sum of its squared distances from the planes of the triangles it stands for, by area
(Garland and Heckbert's quadric error metric). Many edges go at a time, none near another.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinema.shapes.affine import collapsed, weld
from kinema.shapes.mesh_data import FloatArray, IntArray, MeshData, ShapeError, check_mesh

_MIN_FACES = 4
_EAGER = 0.25
"""Share of the edges, the cheapest ones, that may go in one round."""
_LENGTH_COUNTS = 1e-9
"""How much short edges are preferred where nothing else decides, as on flat faces."""
_BORDER_COUNTS = 10.0
"""How much more than the surface the border of an open mesh stays where it is."""
_TURN = 0.2
"""Cosine of the angle by which a triangle may turn at most."""
_SLIVER = 0.02
"""Twice the area of a triangle against the square of its longest edge, below which it gets no thinner."""


@dataclass(eq=False)
class _Surface:
    points: FloatArray
    faces: IntArray
    quadrics: FloatArray
    """For each vertex the matrix of its error, shape (n, 4, 4)."""


@dataclass(frozen=True, eq=False)
class _Edges:
    """Edges, and what becomes of them."""

    ends: IntArray
    targets: FloatArray
    """Where both ends go."""
    rank: IntArray
    """Place in the order of costs."""


def simplified(mesh: MeshData, max_faces: int) -> MeshData:
    """`mesh` with at most `max_faces` triangles, its vertices welded.

    Holes, borders and closed surfaces stay what they are, and no triangle turns over; where that leaves no edge to
    draw together, more triangles than asked for stay.
    """
    if max_faces < _MIN_FACES:
        raise ShapeError(f"A mesh is simplified to {_MIN_FACES} triangles or more, {max_faces} are asked for.")
    welded = weld(check_mesh(mesh))
    if welded.n_faces <= max_faces:
        return welded
    middle = welded.vertices.min(axis=0) / 2 + welded.vertices.max(axis=0) / 2
    size = float(np.ptp(welded.vertices, axis=0).max())
    points = (welded.vertices - middle) / size
    surface = _Surface(points, np.array(welded.faces), _quadrics(points, welded.faces))
    eagerness = _EAGER
    while len(surface.faces) > max_faces:
        if _round(surface, max_faces, eagerness):
            eagerness = _EAGER
        elif eagerness < 1.0:
            eagerness = 1.0
        else:
            break
    used, faces = np.unique(surface.faces, return_inverse=True)
    return MeshData(surface.points[used] * size + middle, faces.reshape(-1, 3))


def _round(surface: _Surface, max_faces: int, eagerness: float) -> bool:
    """Draw some edges together; whether there were any."""
    edges = _allowed(surface, _edges(surface), eagerness)
    chosen = _apart(surface, edges)
    chosen = chosen[: max(1, -(-(len(surface.faces) - max_faces) // 2))]
    if len(chosen) == 0:
        return False
    kept, gone = edges.ends[chosen].T
    surface.points[kept] = edges.targets[chosen]
    surface.quadrics[kept] += surface.quadrics[gone]
    replaced = np.arange(len(surface.points))
    replaced[gone] = kept
    faces = replaced[surface.faces]
    surface.faces = faces[~collapsed(faces)]
    return True


def _quadrics(points: FloatArray, faces: IntArray) -> FloatArray:
    corners = points[faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    areas = np.linalg.norm(normals, axis=1)
    normals = normals / np.where(areas > 0, areas, 1.0)[:, None]
    quadrics = np.zeros((len(points), 4, 4))
    for corner in range(3):
        np.add.at(quadrics, faces[:, corner], _plane_errors(corners[:, 0], normals, areas))
    # Across each edge of a border stands a wall that holds it in place.
    ends, count, face = _sides(faces)
    border = ends[count == 1]
    along = points[border[:, 1]] - points[border[:, 0]]
    lengths = np.linalg.norm(along, axis=1)
    walls = np.cross(along, normals[face[count == 1]]) / np.where(lengths > 0, lengths, 1.0)[:, None]
    errors = _plane_errors(points[border[:, 0]], walls, _BORDER_COUNTS * lengths**2)
    for end in range(2):
        np.add.at(quadrics, border[:, end], errors)
    return quadrics


def _plane_errors(points: FloatArray, normals: FloatArray, weights: FloatArray) -> FloatArray:
    planes = np.concatenate([normals, -np.einsum("ij,ij->i", normals, points)[:, None]], axis=1)
    return weights[:, None, None] * planes[:, :, None] * planes[:, None, :]


def _sides(faces: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Each edge once, the smaller number first, how many faces it has, and one of them."""
    sides = np.sort(np.stack([faces, np.roll(faces, -1, axis=1)], axis=-1).reshape(-1, 2), axis=1)
    ends, first, count = np.unique(sides, axis=0, return_index=True, return_counts=True)
    return ends, count, first // 3


def _edges(surface: _Surface) -> _Edges:
    """Edges that can go without tearing or pinching the surface, the cheapest first."""
    from scipy.sparse import coo_matrix

    ends, count, _ = _sides(surface.faces)
    n = len(surface.points)
    both = np.concatenate([ends, ends[:, ::-1]])
    joined = coo_matrix((np.ones(len(both)), (both[:, 0], both[:, 1])), shape=(n, n)).tocsr()
    shared = np.asarray((joined @ joined)[ends[:, 0], ends[:, 1]]).reshape(-1)
    at_border = np.zeros(n, dtype=bool)
    at_border[ends[count == 1]] = True
    # Vertices that both ends are joined to are the third corners of the edge's faces, and nothing else.
    sound = (shared == count) & (count <= 2) & ~((count == 2) & at_border[ends].all(axis=1))
    ends = ends[sound]
    targets, costs = _targets(surface, ends)
    order = np.argsort(costs, kind="stable")
    return _Edges(ends[order], targets[order], np.arange(len(order)))


def _targets(surface: _Surface, ends: IntArray) -> tuple[FloatArray, FloatArray]:
    """The point of least error for each edge, and that error."""
    first, second = surface.points[ends[:, 0]], surface.points[ends[:, 1]]
    middle = (first + second) / 2
    quadric = surface.quadrics[ends].sum(axis=1)
    matrix, vector = quadric[:, :3, :3], quadric[:, :3, 3]
    # Where planes leave a point free, as on a flat face, it stays near the middle of the edge.
    pull = 1e-9 * np.trace(matrix, axis1=1, axis2=2) + 1e-30
    wanted = pull[:, None] * middle - vector
    targets = np.linalg.solve(matrix + pull[:, None, None] * np.eye(3), wanted[..., None])[..., 0]
    four = np.concatenate([targets, np.ones((len(targets), 1))], axis=1)
    errors = np.maximum(np.einsum("ni,nij,nj->n", four, quadric, four), 0.0)
    return targets, errors + _LENGTH_COUNTS * ((first - second) ** 2).sum(axis=1) ** 2


def _allowed(surface: _Surface, edges: _Edges, eagerness: float) -> _Edges:
    """The cheapest edges, without those that would turn a triangle over or make it a sliver."""
    some = slice(0, int(np.ceil(eagerness * len(edges.ends))))
    ends, targets = edges.ends[some], edges.targets[some]
    order = np.argsort(surface.faces.reshape(-1), kind="stable")
    start = np.searchsorted(surface.faces.reshape(-1)[order], np.arange(len(surface.points) + 1))
    spoiled = np.zeros(len(ends), dtype=bool)
    for side in range(2):
        moved, other = ends[:, side], ends[:, 1 - side]
        count = start[moved + 1] - start[moved]
        edge = np.repeat(np.arange(len(ends)), count)
        place = order[np.arange(len(edge)) - np.repeat(np.cumsum(count) - count, count) + start[moved][edge]]
        faces = surface.faces[place // 3]
        stays = ~(faces == other[edge][:, None]).any(axis=1)
        before = surface.points[faces]
        after = np.array(before)
        after[np.arange(len(place)), place % 3] = targets[edge]
        spoiled[edge[stays & _is_spoiled(before, after)]] = True
    return _Edges(ends[~spoiled], targets[~spoiled], edges.rank[some][~spoiled])


def _is_spoiled(before: FloatArray, after: FloatArray) -> np.ndarray:
    """Whether triangles turn over or become slivers, shape (n,)."""
    old, new = (np.cross(t[:, 1] - t[:, 0], t[:, 2] - t[:, 0]) for t in (before, after))
    old_area, new_area = np.linalg.norm(old, axis=1), np.linalg.norm(new, axis=1)
    old_long, new_long = (((t - np.roll(t, 1, axis=1)) ** 2).sum(axis=2).max(axis=1) for t in (before, after))
    old_share, new_share = (a / np.where(b > 0, b, 1.0) for a, b in ((old_area, old_long), (new_area, new_long)))
    turns = np.einsum("ij,ij->i", old, new) < _TURN * old_area * new_area
    return (turns & (old_share > 1e-9)) | (new_share < np.minimum(_SLIVER, old_share / 2)) | (new_share == 0)


def _apart(surface: _Surface, edges: _Edges) -> IntArray:
    """Edges that are cheaper than all others that touch a neighbour of their ends, the cheapest first."""
    n = len(surface.points)
    most = np.iinfo(np.int64).max
    own = np.full(n, most)
    for end in range(2):
        np.minimum.at(own, edges.ends[:, end], edges.rank)
    around = own.copy()
    for corner in range(3):
        for other in range(3):
            np.minimum.at(around, surface.faces[:, corner], own[surface.faces[:, other]])
    return np.flatnonzero((around[edges.ends] == edges.rank[:, None]).all(axis=1))

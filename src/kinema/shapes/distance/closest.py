"""The point of a mesh that is closest to each of many points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinema.shapes.distance.tree import TriangleTree, point_blocks, walk
from kinema.shapes.mesh_data import FloatArray, IntArray
from kinema.shapes.report import Report

_SLACK = 1 + 1e-6
_TINY = 1e-7
"""On bounds, so that rounding leaves out nothing: against themselves, and against the size of the mesh."""
_SLIVER = 1e-6
"""Area of a triangle without a usable normal, against the square of its reach."""
_TOGETHER = 64
"""Blocks of points that are measured together."""


@dataclass(frozen=True, eq=False)
class Closest:
    """What lies closest to each of n points."""

    points: FloatArray
    """On the surface [m], shape (n, 3)."""
    faces: IntArray
    """The face it is on, shape (n,)."""
    distances: FloatArray
    """How far it is, never negative [m], shape (n,)."""


def closest(tree: TriangleTree, points: FloatArray, report: Report | None = None) -> Closest:
    """The closest points of a mesh, exact to rounding.

    Points go in blocks of neighbours. What is closest to one of them is no farther from the middle of the block than
    the mesh is, and twice the block's radius: only those triangles are looked at for any of its points. Of them, only
    those are measured that can be nearer than the one whose middle is nearest.
    """
    blocks = point_blocks(points)
    triangles = _Triangles(tree)
    bound = ((_distances_from(tree, blocks.centers) + 2 * blocks.radii) * _SLACK) ** 2 + triangles.tiny
    start, leaves = _leaves_within(tree, blocks.centers, bound)
    found = np.zeros(len(points), dtype=np.int64)
    for first in range(0, len(blocks.members), _TOGETHER):
        last = min(first + _TOGETHER, len(blocks.members))
        members = blocks.members[first:last].reshape(-1)
        near = [
            triangles.within(leaves[start[block] : start[block + 1]], blocks.centers[block], bound[block])
            for block in range(first, last)
        ]
        found[members] = _nearest(triangles, points[blocks.members[first:last]], near)
        if report is not None:
            report("measuring distances", last / len(blocks.members))
    there = closest_on_triangles(points, triangles.corners[found])
    return Closest(there, tree.faces.reshape(-1)[found], np.linalg.norm(points - there, axis=1))


class _Triangles:
    """All triangles of a tree, one after the other, each within a disc around its middle."""

    def __init__(self, tree: TriangleTree) -> None:
        self.corners = tree.corners.reshape(-1, 3, 3)
        self.columns = np.ascontiguousarray(self.corners.transpose(1, 2, 0))
        self.middles = self.corners.mean(axis=1)
        self.reach = np.linalg.norm(self.corners - self.middles[:, None], axis=2).max(axis=1)
        normals = np.cross(self.corners[:, 1] - self.corners[:, 0], self.corners[:, 2] - self.corners[:, 0])
        lengths = np.linalg.norm(normals, axis=1)
        # A sliver's normal says nothing: it gets a ball instead of a disc.
        clear = lengths > _SLIVER * self.reach**2
        self.normals = np.where(clear[:, None], normals / np.where(clear, lengths, 1.0)[:, None], 0.0)
        self.per_leaf = np.arange(tree.faces.shape[1])
        self.tiny = (_TINY * float((tree.high[0] - tree.low[0]).max())) ** 2

    def within(self, leaves: IntArray, point: FloatArray, bound: float) -> IntArray:
        """The triangles of some leaves that are within a squared distance `bound` [m^2] of a point."""
        slots = (leaves[:, None] * len(self.per_leaf) + self.per_leaf).reshape(-1)
        to_discs, _ = self.squared_bounds(point[None], slots)
        return slots[to_discs[0] <= bound]

    def squared_bounds(self, points: FloatArray, candidates: IntArray) -> tuple[FloatArray, FloatArray]:
        """Squared distances of n points to the discs of k candidates, and to their middles [m^2], shapes (n, k).

        No triangle is nearer than its disc, to rounding.
        """
        # Written out: threads that multiply small matrices wait for each other longer than they work.
        (mx, my, mz), (nx, ny, nz) = self.middles[candidates].T, self.normals[candidates].T
        dx, dy, dz = (points[:, axis, None] - m for axis, m in enumerate((mx, my, mz)))
        squared = dx * dx + dy * dy + dz * dz
        heights = (dx * nx + dy * ny + dz * nz) ** 2
        aside = np.sqrt(np.maximum(squared - heights, 0.0)) - self.reach[candidates] * _SLACK
        return heights + np.maximum(aside, 0.0) ** 2, squared


def _nearest(triangles: _Triangles, points: FloatArray, near: list[IntArray]) -> IntArray:
    """The nearest triangle to each point of some blocks, of those near each of them.

    Shapes: points (n_blocks, n, 3), result (n_blocks * n,).
    """
    n_points = points.shape[1]
    columns = np.ascontiguousarray(points.reshape(-1, 3).T)
    bounds = [triangles.squared_bounds(there, close) for there, close in zip(points, near, strict=True)]
    guesses = [to_middles.argmin(axis=1) for _, to_middles in bounds]
    guessed = np.concatenate([close[guess] for close, guess in zip(near, guesses, strict=True)])
    most = _squared_to_triangles(columns, triangles.columns[:, :, guessed]) * _SLACK + triangles.tiny
    whose, which = [], []
    for block, close in enumerate(near):
        first = block * n_points
        measured = bounds[block][0] <= most[first : first + n_points, None]
        measured[np.arange(n_points), guesses[block]] = True
        point, candidate = np.nonzero(measured)
        whose.append(first + point)
        which.append(close[candidate])
    who, triangle = np.concatenate(whose), np.concatenate(which)
    squared = _squared_to_triangles(columns[:, who], triangles.columns[:, :, triangle])
    # Pairs are in the order of their points, each of which has some: the first of the best.
    starts = np.flatnonzero(np.diff(who, prepend=-1))
    least = np.repeat(np.minimum.reduceat(squared, starts), np.diff(starts, append=len(who)))
    best = np.flatnonzero(squared == least)
    _, first = np.unique(who[best], return_index=True)
    return triangle[best[first]]


def _squared_to_triangles(points: FloatArray, corners: FloatArray) -> FloatArray:
    """Squared distance [m^2] of point i to triangle i; shapes (3, n), (3 corners, 3, n), result (n,)."""
    a, b, c = corners
    normal = _cross(b - a, c - a)
    squared = _dot(normal, normal)
    least = np.full(points.shape[1], np.inf)
    above = squared > 0
    for start, end in ((a, b), (b, c), (c, a)):
        along, spoke = end - start, points - start
        length = _dot(along, along)
        share = np.clip(_dot(spoke, along) / np.where(length > 0, length, 1.0), 0.0, 1.0)
        off = spoke - share * along
        least = np.minimum(least, _dot(off, off))
        above &= _dot(_cross(normal, along), spoke) >= 0
    height = _dot(points - a, normal) ** 2 / np.where(squared > 0, squared, 1.0)
    return np.where(above, height, least)


def closest_on_triangles(points: FloatArray, corners: FloatArray) -> FloatArray:
    """The closest point on the triangle `corners[i]` to `points[i]`; shapes (n, 3), (n, 3 corners, 3) and (n, 3)."""
    best, least = np.zeros_like(points), np.full(len(points), np.inf)
    for first in range(3):
        start = corners[:, first]
        along = corners[:, (first + 1) % 3] - start
        lengths = _squared(along)
        share = np.einsum("ij,ij->i", points - start, along) / np.where(lengths > 0, lengths, 1.0)
        on_side = start + np.clip(share, 0.0, 1.0)[:, None] * along
        squared = _squared(points - on_side)
        nearer = squared < least
        best[nearer], least[nearer] = on_side[nearer], squared[nearer]
    above, foot = _feet(points, corners)
    nearer = above & (_squared(points - foot) < least)
    best[nearer] = foot[nearer]
    return best


def _feet(points: FloatArray, corners: FloatArray) -> tuple[np.ndarray, FloatArray]:
    """Whether each point is above its triangle, and its foot in the triangle's plane."""
    first, second = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    normal = np.cross(first, second)
    squared = _squared(normal)
    solid = squared > 0
    spoke = points - corners[:, 0]
    scale = np.where(solid, squared, 1.0)
    u = np.einsum("ij,ij->i", np.cross(spoke, second), normal) / scale
    v = np.einsum("ij,ij->i", np.cross(first, spoke), normal) / scale
    height = np.einsum("ij,ij->i", spoke, normal) / scale
    return solid & (u >= 0) & (v >= 0) & (u + v <= 1), points - height[:, None] * normal


def _distances_from(tree: TriangleTree, points: FloatArray) -> FloatArray:
    """How far the mesh is from each of a few points [m], shape (n,)."""
    guess = _first_guess(tree, points)
    start, leaves = _leaves_within(tree, points, guess * _SLACK)
    counts = np.diff(start)
    least = _squared_to_leaves(tree, leaves, np.repeat(points, counts, axis=0))
    best = np.array(guess)
    some = counts > 0
    best[some] = np.minimum(guess[some], np.minimum.reduceat(least, start[:-1][some]))
    return np.sqrt(best)


def _first_guess(tree: TriangleTree, points: FloatArray) -> FloatArray:
    """Squared distance [m^2] to the leaf that is reached by taking the nearer box each time."""
    nodes = np.zeros(len(points), dtype=np.int64)
    for level in range(1, tree.depth + 1):
        middle = (tree.low[level] + tree.high[level]) / 2
        left, right = _squared(points - middle[2 * nodes]), _squared(points - middle[2 * nodes + 1])
        nodes = 2 * nodes + (right < left)
    return _squared_to_leaves(tree, nodes, points)


def _leaves_within(tree: TriangleTree, points: FloatArray, bound: FloatArray) -> tuple[IntArray, IntArray]:
    """Leaves whose boxes are within a squared distance `bound` [m^2] of each point."""
    return walk(
        tree,
        len(points),
        lambda level, who, nodes: tree.squared_distances(level, nodes, points[who]) <= bound[who],
    )


def _squared_to_leaves(tree: TriangleTree, leaves: IntArray, points: FloatArray) -> FloatArray:
    """Squared distance [m^2] from `points[i]` to the triangles of leaf `leaves[i]`."""
    least = np.full(len(points), np.inf)
    columns = np.ascontiguousarray(points.T)
    for slot in range(tree.faces.shape[1]):
        corners = np.ascontiguousarray(tree.corners[leaves, slot].transpose(1, 2, 0))
        least = np.minimum(least, _squared_to_triangles(columns, corners))
    return least


def _squared(vectors: FloatArray) -> FloatArray:
    return np.einsum("ij,ij->i", vectors, vectors)


Columns = FloatArray | tuple[FloatArray, FloatArray, FloatArray]
"""Vectors as an array for each coordinate."""


def _dot(first: Columns, second: Columns) -> FloatArray:
    return first[0] * second[0] + first[1] * second[1] + first[2] * second[2]


def _cross(first: Columns, second: Columns) -> tuple[FloatArray, FloatArray, FloatArray]:
    (ax, ay, az), (bx, by, bz) = first, second
    return ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx

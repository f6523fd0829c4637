"""A tree of boxes over the triangles of a mesh, and points gathered in blocks that walk it together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kinema.shapes.mesh_data import FloatArray, IntArray, MeshData

_LEAF = 4
"""Triangles of a leaf, at most."""
_BLOCK = 64
"""Points of a block, at most."""
_TOGETHER = 1 << 12
"""Blocks that walk a tree together: what is live for them fits into a cache."""
_LONGEST = 1 / 16
"""Edge of a triangle, against the size of the mesh, above which it is cut: boxes around long ones hold much air."""
_MOST_PIECES = 200_000
"""Pieces that triangles are cut into, all together, at most."""


@dataclass(frozen=True, eq=False)
class TriangleTree:
    """A complete binary tree: node i of a level has the children 2 i and 2 i + 1 of the next one."""

    corners: FloatArray
    """Triangles in the order of leaves [m], shape (n_leaves, n, 3 corners, 3): those of the mesh, or pieces of
    them; the last ones may be there twice."""
    faces: IntArray
    """Which face of the mesh each of them is of, shape (n_leaves, n)."""
    counted: np.ndarray
    """False for a triangle that is there for the second time, to fill a leaf, shape (n_leaves, n)."""
    low: list[FloatArray]
    """Lower corners of the boxes of each level, root first [m], shape (2^level, 3)."""
    high: list[FloatArray]
    """Upper corners, likewise."""

    @property
    def depth(self) -> int:
        """Levels below the root."""
        return len(self.low) - 1

    def squared_distances(self, level: int, nodes: IntArray, points: FloatArray) -> FloatArray:
        """From `points[i]` to the box of node `nodes[i]` [m^2], shape (n,)."""
        outside = np.maximum(np.maximum(self.low[level][nodes] - points, points - self.high[level][nodes]), 0.0)
        return np.einsum("ij,ij->i", outside, outside)


@dataclass(frozen=True, eq=False)
class PointBlocks:
    """Points in groups of neighbours."""

    members: IntArray
    """Which points are in each block, shape (n_blocks, n); some are there twice, to fill a block."""
    centers: FloatArray
    """[m], shape (n_blocks, 3)."""
    radii: FloatArray
    """How far the points of a block are from its centre at most [m], shape (n_blocks,)."""


def triangle_tree(mesh: MeshData) -> TriangleTree:
    """The tree of a mesh; at each level triangles are halved along the longest side of their box."""
    corners, faces = _cut(mesh.triangles())
    order, counted = _halved(corners.mean(axis=1), _LEAF)
    leaves = corners[order]
    low, high = [leaves.min(axis=(1, 2))], [leaves.max(axis=(1, 2))]
    while len(low[0]) > 1:
        low.insert(0, low[0].reshape(-1, 2, 3).min(axis=1))
        high.insert(0, high[0].reshape(-1, 2, 3).max(axis=1))
    return TriangleTree(leaves, faces[order], counted, low, high)


def point_blocks(points: FloatArray) -> PointBlocks:
    """Points gathered in blocks, halved like triangles."""
    members, _ = _halved(points, _BLOCK)
    at = points[members]
    centers = (at.min(axis=1) + at.max(axis=1)) / 2
    return PointBlocks(members, centers, np.linalg.norm(at - centers[:, None], axis=2).max(axis=1))


def _cut(corners: FloatArray) -> tuple[FloatArray, IntArray]:
    """Triangles with their longest edges halved until they are short, and which one each piece is of."""
    longest = _LONGEST * float(np.ptp(corners, axis=(0, 1)).max())
    faces = np.arange(len(corners))
    while len(corners) < _MOST_PIECES:
        lengths = np.linalg.norm(np.roll(corners, -1, axis=1) - corners, axis=2)
        long = lengths.max(axis=1) > longest
        if not long.any():
            break
        first = lengths[long].argmax(axis=1)
        turned = np.take_along_axis(corners[long], (first[:, None] + np.arange(3))[..., None] % 3, axis=1)
        middle = (turned[:, 0] + turned[:, 1]) / 2
        halves = [np.stack([turned[:, 0], middle, turned[:, 2]], 1), np.stack([middle, turned[:, 1], turned[:, 2]], 1)]
        corners = np.concatenate([corners[~long], *halves])
        faces = np.concatenate([faces[~long], faces[long], faces[long]])
    return corners, faces


def _halved(points: FloatArray, size: int) -> tuple[IntArray, np.ndarray]:
    """Points in groups of at most `size`, a power of two of them, and which of them are there for the first time."""
    depth = max(0, int(np.ceil(np.log2(len(points) / size))))
    size = -(-len(points) // (1 << depth))
    order = np.minimum(np.arange(size << depth), len(points) - 1)
    counted = np.arange(size << depth) < len(points)
    for level in range(depth):
        at = points[order].reshape(1 << level, -1, 3)
        axis = np.ptp(at, axis=1).argmax(axis=1)
        keys = np.take_along_axis(at, axis[:, None, None], axis=2)[..., 0]
        ranks = np.argsort(keys, axis=1, kind="stable") + np.arange(1 << level)[:, None] * at.shape[1]
        order, counted = order[ranks.reshape(-1)], counted[ranks.reshape(-1)]
    return order.reshape(-1, size), counted.reshape(-1, size)


Opens = Callable[[int, IntArray, IntArray], np.ndarray]
"""Of a level, places and nodes: whether the node is to be walked into for that place."""


def walk(tree: TriangleTree, n_places: int, opens: Opens) -> tuple[IntArray, IntArray]:
    """The leaves that are reached for each place: where each place's start, shape (n_places + 1,), and all of them."""
    places, leaves = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for first in range(0, n_places, _TOGETHER):
        who = np.arange(first, min(first + _TOGETHER, n_places))
        nodes = np.zeros(len(who), dtype=np.int64)
        for level in range(tree.depth + 1):
            if level:
                who, nodes = np.repeat(who, 2), np.stack([2 * nodes, 2 * nodes + 1], axis=1).reshape(-1)
            opened = opens(level, who, nodes)
            who, nodes = who[opened], nodes[opened]
        places.append(who)
        leaves.append(nodes)
    found = np.concatenate(places)
    return np.searchsorted(found, np.arange(n_places + 1)), np.concatenate(leaves)

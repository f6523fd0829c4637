"""How often a surface winds around a point: one inside, zero outside, and a sensible number where it has holes."""

from __future__ import annotations

import numpy as np

from kinema.shapes.distance.tree import PointBlocks, TriangleTree, point_blocks, walk
from kinema.shapes.mesh_data import FloatArray, IntArray
from kinema.shapes.report import Report

_FAR = 2.5
"""From how many radii of a box on its triangles look like one oriented patch. The error is then a few hundredths at a
point, far from the half that decides between inside and outside."""


def winding_numbers(tree: TriangleTree, points: FloatArray, report: Report | None = None) -> FloatArray:
    """Winding number of the mesh around each point, shape (n,): exact for near triangles, close to it for far ones."""
    blocks = point_blocks(points)
    patches = _Patches(tree)
    far_start, far = patches.far_from(blocks)
    near_start, near = patches.near_to(blocks)
    corners = tree.corners.reshape(-1, 3, 3)
    counted = tree.counted.reshape(-1)
    n_slots = tree.faces.shape[1]
    angles = np.zeros(len(points))
    for block, members in enumerate(blocks.members):
        slots = (near[near_start[block] : near_start[block + 1], None] * n_slots + np.arange(n_slots)).reshape(-1)
        there = points[members]
        angles[members] = solid_angles(there, corners[slots[counted[slots]]]).sum(axis=1)
        angles[members] += patches.solid_angles(there, far[far_start[block] : far_start[block + 1]]).sum(axis=1)
        if report is not None and block % 64 == 0:
            report("telling inside from outside", block / len(blocks.members))
    return angles / (4 * np.pi)


def solid_angles(points: FloatArray, corners: FloatArray) -> FloatArray:
    """Signed solid angle of each of k triangles from each of n points [sr], positive from behind; shape (n, k)."""
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


class _Patches:
    """For each box of a tree: where its area is, how far its triangles reach from there, its area as a vector."""

    def __init__(self, tree: TriangleTree) -> None:
        self.tree = tree
        corners = tree.corners
        area = np.cross(corners[:, :, 1] - corners[:, :, 0], corners[:, :, 2] - corners[:, :, 0]) / 2
        area[~tree.counted] = 0.0
        weight = np.linalg.norm(area, axis=2)
        moment = (weight[..., None] * corners.mean(axis=2)).sum(axis=1)
        vectors, weights = area.sum(axis=1), weight.sum(axis=1)
        self.area: list[FloatArray] = []
        self.middle: list[FloatArray] = []
        self.reach: list[FloatArray] = []
        for level in range(tree.depth, -1, -1):
            box = (tree.low[level] + tree.high[level]) / 2
            middle = np.where(weights[:, None] > 0, moment / np.where(weights > 0, weights, 1.0)[:, None], box)
            farthest = np.maximum(middle - tree.low[level], tree.high[level] - middle)
            self.area.insert(0, vectors)
            self.middle.insert(0, middle)
            self.reach.insert(0, np.linalg.norm(farthest, axis=1))
            if level:
                vectors, moment = (array.reshape(-1, 2, 3).sum(axis=1) for array in (vectors, moment))
                weights = weights.reshape(-1, 2).sum(axis=1)
        self.all_area, self.all_middle = np.concatenate(self.area), np.concatenate(self.middle)

    def _is_far(self, level: int, nodes: IntArray, centers: FloatArray, radii: FloatArray) -> np.ndarray:
        distance = np.linalg.norm(self.middle[level][nodes] - centers, axis=1) - radii
        return distance > _FAR * self.reach[level][nodes]

    def near_to(self, blocks: PointBlocks) -> tuple[IntArray, IntArray]:
        """Leaves that are too near to each block to be patches: where each block's start, and all of them."""
        return walk(
            self.tree,
            len(blocks.centers),
            lambda level, who, nodes: ~self._is_far(level, nodes, blocks.centers[who], blocks.radii[who]),
        )

    def far_from(self, blocks: PointBlocks) -> tuple[IntArray, IntArray]:
        """The largest boxes that are patches for each block, numbered through all levels, root first."""
        places, found = [], []

        def opens(level: int, who: IntArray, nodes: IntArray) -> np.ndarray:
            far = self._is_far(level, nodes, blocks.centers[who], blocks.radii[who])
            places.append(who[far])
            found.append(nodes[far] + (1 << level) - 1)
            return ~far

        walk(self.tree, len(blocks.centers), opens)
        who = np.concatenate(places)
        order = np.argsort(who, kind="stable")
        return np.searchsorted(who[order], np.arange(len(blocks.centers) + 1)), np.concatenate(found)[order]

    def solid_angles(self, points: FloatArray, boxes: IntArray) -> FloatArray:
        """Solid angle of each of k patches from each of n points [sr], shape (n, k)."""
        x, y, z = points.T[:, :, None]
        area, middle = self.all_area[boxes], self.all_middle[boxes]
        dx, dy, dz = middle[:, 0] - x, middle[:, 1] - y, middle[:, 2] - z
        squared = dx * dx + dy * dy + dz * dz
        return (dx * area[:, 0] + dy * area[:, 1] + dz * area[:, 2]) / (squared * np.sqrt(squared))

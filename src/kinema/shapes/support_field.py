"""The farthest vertex of a convex solid in a direction, found by search or looked up in a table of directions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinema.shapes.mesh_data import FloatArray, IntArray, ShapeError

SUPPORT_RES = 180
"""Directions around the z axis, and from pole to pole."""
_CHUNK = 1 << 22
"""Products of directions and vertices that are in memory at a time."""


@dataclass(frozen=True, eq=False)
class SupportField:
    """The farthest vertex in each of `res` x `res` directions.

    Direction (i, j) is at the azimuth 2 pi i / res - pi around z and at the angle pi j / (res - 1) from +z: both poles
    are there. Its place in the flat arrays is i res + j.
    """

    res: int
    """Directions along each of the two angles."""
    v: FloatArray
    """Farthest vertices [m], shape (res^2, 3)."""
    vid: IntArray
    """Which vertices they are, shape (res^2,)."""

    def support(self, directions: FloatArray) -> IntArray:
        """The best of the four table entries around each direction, shape (n,): a vertex, not always the farthest.

        With the usual `res`, the farthest one reaches farther by 5e-4 of the radius on round solids, by nothing where
        every corner is farthest for a whole cell of directions, and by 2 % of the diameter at the very most.
        Directions need not be of unit length, shape (n, 3).
        """
        x, y, z = directions.T
        across = (np.arctan2(y, x) + np.pi) * (self.res / (2 * np.pi))
        down = np.arctan2(np.hypot(x, y), z) * ((self.res - 1) / np.pi)
        i, j = across.astype(np.int64), np.minimum(down.astype(np.int64), self.res - 2)
        cells = np.stack([(i + a) % self.res * self.res + j + b for a in (0, 1) for b in (0, 1)], axis=1)
        heights = np.einsum("nkj,nj->nk", self.v[cells], directions)
        return self.vid[np.take_along_axis(cells, heights.argmax(axis=1)[:, None], axis=1)[:, 0]]


def support_vertices(vertices: FloatArray, directions: FloatArray) -> IntArray:
    """The farthest of `vertices` (m, 3) [m] in each of `directions` (n, 3), the first of equals, shape (n,)."""
    if len(vertices) == 0:
        raise ShapeError("There is no farthest vertex where there are none.")
    farthest = np.zeros(len(directions), dtype=np.int64)
    step = max(1, _CHUNK // len(vertices))
    for first in range(0, len(directions), step):
        # einsum gives the same bits on every machine, however many threads there are
        heights = np.einsum("nj,mj->nm", directions[first : first + step], vertices)
        farthest[first : first + step] = heights.argmax(axis=1)
    return farthest


def support_directions(res: int = SUPPORT_RES) -> FloatArray:
    """Unit vectors of the table's directions, in its order, shape (res^2, 3)."""
    if res < 4:
        raise ShapeError(f"A support field has 4 directions around or more, not {res}.")
    across = 2 * np.pi * np.arange(res) / res - np.pi
    down = np.pi * np.arange(res) / (res - 1)
    ring = np.sin(down)
    ring[-1] = 0.0  # the pole itself, without rounding
    directions = np.zeros((res, res, 3))
    directions[..., 0] = np.cos(across)[:, None] * ring
    directions[..., 1] = np.sin(across)[:, None] * ring
    directions[..., 2] = np.cos(down)
    return directions.reshape(-1, 3)


def support_field(vertices: FloatArray, res: int = SUPPORT_RES) -> SupportField:
    """The table of a convex solid with `vertices` (n, 3) [m]; directions are from its frame's origin."""
    farthest = support_vertices(vertices, support_directions(res))
    return SupportField(res, vertices[farthest], farthest)

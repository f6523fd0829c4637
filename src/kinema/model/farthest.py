"""Which of many points is the farthest in a direction, known for all directions beforehand.

Directions are divided into cells: squares on the sides of a cube about the origin. Each cell has a list of all points
that are the farthest in any of its directions, mostly few, so that nobody has to look at the others.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kinema.foundation import Array

Numbers = npt.NDArray[np.intp]
"""Of points."""
ENTRY = 4
"""Numbers of a point in a list: where it is, and which one it is."""
HEAD = 2
"""Numbers of a cell: where its list begins, from the table's start on, and how many points are in it."""
POINTS_PER_CELL, MOST_CELLS = 3, 16
"""How many points there are to a cell of one side of the cube, about, and cells along an edge of it at most."""
AT_ONCE = 4
"""Cells along an edge that are told apart in one go; finer ones look only at what these have left."""
WIDER = 1e-4
"""How much is added to each cell on all sides: rounding may find the next one."""
SLACK = 1e-9
"""Points that are not the farthest by so little, against how large all is, are in the list."""


def n_cells(n_points: int) -> int:
    """Cells along an edge of the cube: a power of two."""
    return int(np.clip(2 ** round(0.5 * np.log2(max(n_points, 1) / POINTS_PER_CELL)), 1, MOST_CELLS))


def farthest_table(points: Array) -> Array:
    """The heads of all cells, then their lists.

    Sides come as +x, -x, +y, -y, +z, -z; the cells of a side by the coordinate that follows its axis, then the next.
    """
    n = n_cells(len(points))
    lists = []
    for axis in range(3):
        for side in (1.0, -1.0):
            along = points[:, [axis, (axis + 1) % 3, (axis + 2) % 3]] * (side, 1.0, 1.0)
            own = _cells(along, np.arange(len(points)), (0.0, 0.0), 1.0, n)
            lists += [own[i, j] for i in range(n) for j in range(n)]
    counts = np.array([len(own) for own in lists])
    starts = HEAD * len(lists) + ENTRY * np.concatenate([[0], np.cumsum(counts)[:-1]])
    chosen = np.concatenate(lists)
    heads, entries = np.column_stack([starts, counts]), np.column_stack([points[chosen], chosen])
    return np.concatenate([heads.ravel(), entries.ravel()])


def _cells(
    along: Array, among: Numbers, middle: tuple[float, float], half: float, n: int
) -> dict[tuple[int, int], Numbers]:
    """The lists of n by n cells of a square on one side; the first coordinate of points is along its axis."""
    now = min(n, AT_ONCE)
    offsets = half * ((2.0 * np.arange(now) + 1.0) / now - 1.0)
    u, v = middle[0] + np.repeat(offsets, now), middle[1] + np.tile(offsets, now)
    possible = _possible(along[among], np.column_stack([np.ones(now * now), u, v]), half / now + WIDER)
    found, finer = {}, n // now
    for cell in range(now * now):
        own, (i, j) = among[possible[cell]], divmod(cell, now)
        inner = {(0, 0): own} if finer == 1 else _cells(along, own, (u[cell], v[cell]), half / now, finer)
        found |= {(finer * i + p, finer * j + q): points for (p, q), points in inner.items()}
    return found


def _possible(along: Array, cells: Array, half: float) -> npt.NDArray[np.bool_]:
    """Whether a point may be the farthest in some direction of a cell, for all cells and points."""
    n = len(cells)
    reach = _products(cells, along)
    slack = SLACK * max(float(np.abs(along).max()), 1e-300)
    # a point that some other one exceeds in all directions of a cell is the farthest in none of them; those others are
    # the farthest in nine directions of the cell
    offsets = np.array([(0.0, u, v) for u in (-half, 0.0, half) for v in (-half, 0.0, half)])
    best = np.argmax(_products((offsets[:, None] + cells).reshape(-1, 3), along), axis=1).reshape(-1, n)
    ahead = reach - reach[np.arange(n), best][:, :, None]
    for axis in (1, 2):
        ahead += half * np.abs(along[:, axis] - along[best, axis][:, :, None])
    return (ahead >= -slack).all(axis=0)


def _products(directions: Array, points: Array) -> Array:
    """Of all with all; small enough that several threads would only wait for each other."""
    return np.einsum("ik,jk->ij", directions, points)

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
            lists += _cells(along, n)
    counts = np.array([len(own) for own in lists])
    starts = HEAD * len(lists) + ENTRY * np.concatenate([[0], np.cumsum(counts)[:-1]])
    chosen = np.concatenate(lists)
    heads, entries = np.column_stack([starts, counts]), np.column_stack([points[chosen], chosen])
    return np.concatenate([heads.ravel(), entries.ravel()])


def _cells(along: Array, n: int) -> list[Numbers]:
    """The lists of n by n cells of one side; the first coordinate of points is along its axis.

    Coarse cells first: finer ones within these look only at what they have left.
    """
    now = min(n, AT_ONCE)
    finer = n // now
    coarse = _middles(now, 1.0)
    possible = _possible(along[None], np.ones((1, len(along)), np.bool_), coarse[None], 1.0 / now)[0]
    if finer == 1:
        return [np.flatnonzero(own) for own in possible]
    most = int(possible.sum(axis=1).max())
    among = np.argsort(~possible, axis=1, kind="stable")[:, :most]  # those that are possible, in order, then others
    valid = np.take_along_axis(possible, among, axis=1)
    cells = coarse[:, None] + _middles(finer, 1.0 / now) * (0.0, 1.0, 1.0)
    found = _possible(along[among], valid, cells, 1.0 / n)
    lists = [[among[c][own] for own in found[c]] for c in range(now * now)]
    places = ((divmod(i, finer), divmod(j, finer)) for i in range(n) for j in range(n))
    return [lists[a * now + b][p * finer + q] for (a, p), (b, q) in places]


def _middles(n: int, half: float) -> Array:
    """The directions to the middles of n by n cells of a square, shape (n * n, 3)."""
    offsets = half * ((2.0 * np.arange(n) + 1.0) / n - 1.0)
    return np.column_stack([np.ones(n * n), np.repeat(offsets, n), np.tile(offsets, n)])


def _possible(along: Array, valid: npt.NDArray[np.bool_], cells: Array, half: float) -> npt.NDArray[np.bool_]:
    """Whether a point may be the farthest in some direction of a cell, for several sets of points and of cells.

    Args:
        along: points, (sets, n_points, 3).
        valid: which of them there are, (sets, n_points).
        cells: directions to the middles of cells, (sets, n_cells, 3).
        half: of their width.

    Returns:
        (sets, n_cells, n_points)
    """
    half += WIDER
    sets, n, _ = cells.shape
    slack = SLACK * np.maximum(np.abs(np.where(valid[:, :, None], along, 0.0)).max(axis=(1, 2)), 1e-300)
    # a point that some other one exceeds in all directions of a cell is the farthest in none of them; those others are
    # the farthest in nine directions of the cell
    offsets = np.array([(0.0, u, v) for u in (-half, 0.0, half) for v in (-half, 0.0, half)])
    around = (offsets[None, :, None] + cells[:, None]).reshape(sets, -1, 3)
    products = np.where(valid[:, None], _products(around, along), -np.inf)
    best = np.argmax(products, axis=2)
    reach = np.repeat(_products(cells, along)[:, None], len(offsets), axis=1).reshape(sets, -1, along.shape[1])
    ahead = reach - np.take_along_axis(reach, best[:, :, None], axis=2)
    for axis in (1, 2):
        own = along[:, :, axis]
        ahead += half * np.abs(own[:, None] - np.take_along_axis(own, best, axis=1)[:, :, None])
    enough = (ahead >= -slack[:, None, None]).reshape(sets, len(offsets), n, -1).all(axis=1)
    return enough & valid[:, None]


def _products(directions: Array, points: Array) -> Array:
    """Of all directions with all points of each set."""
    return np.einsum("sik,sjk->sij", directions, points)

"""Polygons, strips and fans as triangles."""

from __future__ import annotations

import numpy as np

from kinema.shapes.mesh_data import IntArray


def triangulate(corners: IntArray, counts: IntArray) -> IntArray:
    """Cut polygons into triangles around their first corner, in order; shape (k, 3).

    `corners` are the vertex indices of all polygons one after the other, `counts` how many each has; fewer than three
    give nothing. A concave polygon gives overlapping triangles: its area and volume integrals stay exact all the same.
    """
    first, step = _first_and_step(counts)
    return np.stack([corners[first], corners[first + step + 1], corners[first + step + 2]], axis=-1)


def triangulate_strips(corners: IntArray, counts: IntArray) -> IntArray:
    """Triangles of strips laid out as in `triangulate`; every second triangle is turned to keep the winding."""
    first, step = _first_and_step(counts)
    odd = step % 2
    start = first + step
    return np.stack([corners[start], corners[start + 1 + odd], corners[start + 2 - odd]], axis=-1)


def _first_and_step(counts: IntArray) -> tuple[IntArray, IntArray]:
    """For each triangle, where its polygon starts in the corners, and which triangle of it it is."""
    n_triangles = np.maximum(counts - 2, 0)
    first = np.repeat(np.cumsum(counts) - counts, n_triangles)
    step = np.arange(len(first)) - np.repeat(np.cumsum(n_triangles) - n_triangles, n_triangles)
    return first, step

"""Triangles for the primitive shapes.

Every shape sits centred in its own frame with its axis along z, all lengths are in metres, faces are counter-clockwise
seen from outside, and solids are watertight. Round shapes are inscribed: their vertices lie on the true surface, so
that extents are exact and volumes a little small. `segments` is the number of edges around the z axis.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from kinema.shapes.affine import apply_linear
from kinema.shapes.mesh_data import FloatArray, IntArray, MeshData, ShapeError, float_vector

DEFAULT_SEGMENTS = 32

_BOX_CORNERS = np.array([[x, y, z] for z in (-0.5, 0.5) for y in (-0.5, 0.5) for x in (-0.5, 0.5)])
_BOX_FACES = np.array(
    [
        *[[0, 2, 3], [0, 3, 1]],  # -z
        *[[4, 5, 7], [4, 7, 6]],  # +z
        *[[0, 1, 5], [0, 5, 4]],  # -y
        *[[2, 6, 7], [2, 7, 3]],  # +y
        *[[0, 4, 6], [0, 6, 2]],  # -x
        *[[1, 3, 7], [1, 7, 5]],  # +x
    ]
)


def box(size: ArrayLike) -> MeshData:
    """Box with full edge lengths `size` (x, y, z) [m]."""
    extents = float_vector(size, 3, "box size")
    for extent in extents:
        require_positive(float(extent), "box size")
    return MeshData(_BOX_CORNERS * extents, _BOX_FACES)


def sphere(radius: float, segments: int = DEFAULT_SEGMENTS) -> MeshData:
    """Sphere of `radius` [m]."""
    return capsule(radius, 0.0, segments)


def ellipsoid(radii: ArrayLike, segments: int = DEFAULT_SEGMENTS) -> MeshData:
    """Ellipsoid with half axes `radii` (x, y, z) [m]."""
    half_axes = float_vector(radii, 3, "ellipsoid radii")
    for half_axis in half_axes:
        require_positive(float(half_axis), "ellipsoid radius")
    return apply_linear(sphere(1.0, segments), np.diag(half_axes))


def capsule(radius: float, length: float, segments: int = DEFAULT_SEGMENTS) -> MeshData:
    """Cylinder of `length` [m] along z, without its round ends, capped by half spheres of `radius` [m]."""
    require_positive(radius, "capsule radius")
    require_not_negative(length, "capsule length")
    bands = max(2, segments // 4)
    latitude = np.linspace(0.0, np.pi / 2, bands + 1)
    # From the south pole up to the lower rim; the upper cap is its mirror image.
    cap_radius = _without_rounding(radius * np.sin(latitude))
    cap_height = _without_rounding(radius * np.cos(latitude)) + length / 2
    upper = slice(-2, None, -1) if length == 0.0 else slice(None, None, -1)
    return _revolve(
        np.concatenate([cap_radius, cap_radius[upper]]),
        np.concatenate([-cap_height, cap_height[upper]]),
        segments,
    )


def cylinder(radius: float, length: float, segments: int = DEFAULT_SEGMENTS) -> MeshData:
    """Cylinder of `radius` and full `length` [m] along z."""
    require_positive(radius, "cylinder radius")
    require_positive(length, "cylinder length")
    half = length / 2
    return _revolve(np.array([0.0, radius, radius, 0.0]), np.array([-half, -half, half, half]), segments)


def cone(radius: float, length: float, segments: int = DEFAULT_SEGMENTS) -> MeshData:
    """Cone with its base of `radius` [m] at z = -length/2 and its apex at z = +length/2."""
    require_positive(radius, "cone radius")
    require_positive(length, "cone length")
    half = length / 2
    return _revolve(np.array([0.0, radius, 0.0]), np.array([-half, -half, half]), segments)


def plane(size_x: float, size_y: float) -> MeshData:
    """Rectangle of full edge lengths [m] in the xy plane, normal +z; a surface, not a solid."""
    require_positive(size_x, "plane size")
    require_positive(size_y, "plane size")
    corners = np.array([[-0.5, -0.5, 0.0], [0.5, -0.5, 0.0], [0.5, 0.5, 0.0], [-0.5, 0.5, 0.0]])
    return MeshData(corners * [size_x, size_y, 1.0], np.array([[0, 1, 2], [0, 2, 3]]))


def height_field(heights: ArrayLike, size_x: float, size_y: float, base: float) -> MeshData:
    """Closed solid under a grid of heights.

    `heights[row, col]` is the z [m] of the top at x from -size_x/2 (col 0) to +size_x/2 and y from -size_y/2 (row 0) to
    +size_y/2. The flat bottom is at z = -base [m] and must lie below every height.
    """
    grid = np.asarray(heights, dtype=np.float64)
    if grid.ndim != 2 or min(grid.shape) < 2 or not np.isfinite(grid).all():
        raise ShapeError(f"A height field needs finite heights in at least 2 rows and 2 columns, got {grid.shape}.")
    require_positive(size_x, "height field size")
    require_positive(size_y, "height field size")
    if not -base < grid.min():
        raise ShapeError(f"The bottom of the height field, z = {-base}, is not below its lowest point {grid.min()}.")
    rows, cols = grid.shape
    x, y = np.meshgrid(np.linspace(-0.5, 0.5, cols) * size_x, np.linspace(-0.5, 0.5, rows) * size_y)
    top = np.stack([x, y, grid], axis=-1).reshape(-1, 3)
    rim = _grid_rim(rows, cols)
    bottom = top[rim]
    bottom[:, 2] = -base
    vertices = np.concatenate([top, bottom, [[0.0, 0.0, -base]]])
    faces = np.concatenate([_grid_faces(rows, cols), _skirt_faces(rim, len(top))])
    return MeshData(vertices, faces)


def require_positive(value: float, what: str) -> None:
    """Raise `ShapeError` unless `value` is finite and greater than zero."""
    if not (np.isfinite(value) and value > 0.0):
        raise ShapeError(f"The {what} must be positive, got {value}.")


def require_not_negative(value: float, what: str) -> None:
    """Raise `ShapeError` unless `value` is finite and at least zero."""
    if not (np.isfinite(value) and value >= 0.0):
        raise ShapeError(f"The {what} must not be negative, got {value}.")


def _revolve(radius: FloatArray, height: FloatArray, segments: int) -> MeshData:
    """Surface of revolution about z of a profile that starts and ends on the axis, lowest point first [m]."""
    if segments < 3:
        raise ShapeError(f"A round shape needs at least 3 segments, got {segments}.")
    angle = 2.0 * np.pi * np.arange(segments) / segments
    circle = _without_rounding(np.stack([np.cos(angle), np.sin(angle)], axis=-1))
    ring_radius, ring_height = radius[1:-1], height[1:-1]
    rings = np.zeros((len(ring_radius), segments, 3))
    rings[..., :2] = ring_radius[:, None, None] * circle
    rings[..., 2] = ring_height[:, None]
    poles = np.array([[0.0, 0.0, height[0]], [0.0, 0.0, height[-1]]])
    vertices = np.concatenate([rings.reshape(-1, 3), poles])
    return MeshData(vertices, _revolved_faces(len(ring_radius), segments))


def _revolved_faces(n_rings: int, segments: int) -> IntArray:
    """Faces of `_revolve`: vertices are ring by ring, then the lower and the upper pole."""
    index = np.arange(n_rings * segments).reshape(n_rings, segments)
    following = np.roll(index, -1, axis=1)
    low, low_next, high, high_next = index[:-1], following[:-1], index[1:], following[1:]
    south = np.full(segments, n_rings * segments)
    parts = [
        np.stack([south, following[0], index[0]], axis=-1),
        np.stack([low, low_next, high_next], axis=-1).reshape(-1, 3),
        np.stack([low, high_next, high], axis=-1).reshape(-1, 3),
        np.stack([index[-1], following[-1], south + 1], axis=-1),
    ]
    return np.concatenate(parts)


def _grid_faces(rows: int, cols: int) -> IntArray:
    """Upward faces of a grid, each cell cut from (row, col) to (row + 1, col + 1), as MuJoCo collides with it."""
    index = np.arange(rows * cols).reshape(rows, cols)
    a, b, c, d = index[:-1, :-1], index[:-1, 1:], index[1:, 1:], index[1:, :-1]
    lower = np.stack([a, b, c], axis=-1).reshape(-1, 3)
    upper = np.stack([a, c, d], axis=-1).reshape(-1, 3)
    return np.concatenate([lower, upper])


def _grid_rim(rows: int, cols: int) -> IntArray:
    """Indices of the border of a grid, once around, counter-clockwise seen from above."""
    index = np.arange(rows * cols).reshape(rows, cols)
    return np.concatenate([index[0, :-1], index[:-1, -1], index[-1, :0:-1], index[:0:-1, 0]])


def _skirt_faces(rim: IntArray, n_top: int) -> IntArray:
    """Walls from the rim down to its copy after `n_top` vertices, and a bottom fan around the vertex after that."""
    n_rim = len(rim)
    below = n_top + np.arange(n_rim)
    rim_next, below_next = np.roll(rim, -1), np.roll(below, -1)
    centre = np.full(n_rim, n_top + n_rim)
    walls = [np.stack([below, below_next, rim_next], axis=-1), np.stack([below, rim_next, rim], axis=-1)]
    return np.concatenate([*walls, np.stack([centre, below_next, below], axis=-1)])


def _without_rounding(values: FloatArray) -> FloatArray:
    """Sines and cosines that should be zero made exactly zero, so that shapes are exactly symmetric."""
    scale = np.abs(values).max(initial=0.0)
    return np.where(np.abs(values) < 1e-15 * scale, 0.0, values)

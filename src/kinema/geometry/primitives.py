"""Triangle meshes of primitive shapes: box, sphere, ellipsoid, capsule, cylinder, cone, plane and height field.

Every shape is centred in its frame with its axis along z. Lengths are in metres, faces are counter-clockwise seen from
outside, and solids are watertight. Round shapes are inscribed: their vertices lie on the true surface, so that extents
are exact and volumes slightly too small. `segments` is the number of edges around the z axis.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from kinema.core import sines_cosines

from .mesh import FloatArray, GeometryError, IntArray, MeshData, apply_affine, float_vector

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
    """Box mesh with full edge lengths `size` (x, y, z) [m]."""
    extents = float_vector(size, 3, "box size")
    for extent in extents:
        require_positive(float(extent), "box size")
    return MeshData(_BOX_CORNERS * extents, _BOX_FACES)


def sphere(radius: float, segments: int = DEFAULT_SEGMENTS) -> MeshData:
    """Latitude-longitude sphere mesh of `radius` [m]."""
    return capsule(radius, 0.0, segments)


def ellipsoid(radii: ArrayLike, segments: int = DEFAULT_SEGMENTS) -> MeshData:
    """Ellipsoid mesh with semi-axes `radii` (x, y, z) [m]."""
    half_axes = float_vector(radii, 3, "ellipsoid radii")
    for half_axis in half_axes:
        require_positive(float(half_axis), "ellipsoid radius")
    return apply_affine(sphere(1.0, segments), np.diag(half_axes))


def capsule(radius: float, length: float, segments: int = DEFAULT_SEGMENTS) -> MeshData:
    """Capsule mesh along z; `length` [m] is the length of the cylindrical part between the caps of `radius` [m]."""
    require_positive(radius, "capsule radius")
    require_non_negative(length, "capsule length")
    bands = max(2, segments // 4)
    latitude = np.linspace(0.0, np.pi / 2, bands + 1)
    # Profile from the south pole to the lower rim; the upper cap is its mirror image.
    sine, cosine = sines_cosines(latitude)
    cap_radius = _snap_to_zero(radius * sine)
    cap_height = _snap_to_zero(radius * cosine) + length / 2
    upper = slice(-2, None, -1) if length == 0.0 else slice(None, None, -1)
    return _revolve(
        np.concatenate([cap_radius, cap_radius[upper]]),
        np.concatenate([-cap_height, cap_height[upper]]),
        segments,
    )


def cylinder(radius: float, length: float, segments: int = DEFAULT_SEGMENTS) -> MeshData:
    """Cylinder mesh along z with `radius` and full `length` [m]."""
    require_positive(radius, "cylinder radius")
    require_positive(length, "cylinder length")
    half = length / 2
    return _revolve(np.array([0.0, radius, radius, 0.0]), np.array([-half, -half, half, half]), segments)


def cone(radius: float, length: float, segments: int = DEFAULT_SEGMENTS) -> MeshData:
    """Cone mesh along z with its base of `radius` [m] at z = -length/2 and its apex at z = +length/2."""
    require_positive(radius, "cone radius")
    require_positive(length, "cone length")
    half = length / 2
    return _revolve(np.array([0.0, radius, 0.0]), np.array([-half, -half, half]), segments)


def plane(size_x: float, size_y: float) -> MeshData:
    """Rectangle of two triangles in the xy plane with full edge lengths [m] and normal +z; not a closed mesh."""
    require_positive(size_x, "plane size")
    require_positive(size_y, "plane size")
    corners = np.array([[-0.5, -0.5, 0.0], [0.5, -0.5, 0.0], [0.5, 0.5, 0.0], [-0.5, 0.5, 0.0]])
    return MeshData(corners * [size_x, size_y, 1.0], np.array([[0, 1, 2], [0, 2, 3]]))


def height_field(heights: ArrayLike, size_x: float, size_y: float, base: float) -> MeshData:
    """Closed mesh of a height field: top surface, vertical side walls and flat bottom.

    Args:
        heights: z of the top surface [m], shape (rows, columns); rows from y = -size_y/2 to +size_y/2, columns from x =
            -size_x/2 to +size_x/2.
        size_x: full extent in x [m].
        size_y: full extent in y [m].
        base: depth of the bottom at z = -base [m], which must be below every height.

    Raises:
        GeometryError: invalid heights or sizes.
    """
    grid = np.asarray(heights, dtype=np.float64)
    if grid.ndim != 2 or min(grid.shape) < 2 or not np.isfinite(grid).all():
        raise GeometryError(f"A height field needs finite heights in at least 2 rows and 2 columns, got {grid.shape}.")
    require_positive(size_x, "height field size")
    require_positive(size_y, "height field size")
    if not -base < grid.min():
        raise GeometryError(f"The bottom of the height field, z = {-base}, is not below its lowest point {grid.min()}.")
    rows, cols = grid.shape
    x, y = np.meshgrid(np.linspace(-0.5, 0.5, cols) * size_x, np.linspace(-0.5, 0.5, rows) * size_y)
    top = np.stack([x, y, grid], axis=-1).reshape(-1, 3)
    rim = _grid_boundary(rows, cols)
    bottom = top[rim]
    bottom[:, 2] = -base
    vertices = np.concatenate([top, bottom, [[0.0, 0.0, -base]]])
    faces = np.concatenate([_grid_faces(rows, cols), _skirt_faces(rim, len(top))])
    return MeshData(vertices, faces)


def require_positive(value: float, quantity: str) -> None:
    """Raise `GeometryError` naming `quantity` unless `value` is finite and positive."""
    if not (np.isfinite(value) and value > 0.0):
        raise GeometryError(f"The {quantity} must be positive, got {value}.")


def require_non_negative(value: float, quantity: str) -> None:
    """Raise `GeometryError` naming `quantity` unless `value` is finite and not negative."""
    if not (np.isfinite(value) and value >= 0.0):
        raise GeometryError(f"The {quantity} must not be negative, got {value}.")


def _revolve(radius: FloatArray, height: FloatArray, segments: int) -> MeshData:
    """Surface of revolution about z of a profile polyline from the lower to the upper pole.

    Args:
        radius: profile radii [m], zero at both ends, shape (n,).
        height: profile z coordinates [m], shape (n,).
        segments: number of edges around the axis, at least 3.
    """
    if segments < 3:
        raise GeometryError(f"A round shape needs at least 3 segments, got {segments}.")
    angle = 2.0 * np.pi * np.arange(segments) / segments
    sine, cosine = sines_cosines(angle)
    circle = _snap_to_zero(np.stack([cosine, sine], axis=-1))
    ring_radius, ring_height = radius[1:-1], height[1:-1]
    rings = np.zeros((len(ring_radius), segments, 3))
    rings[..., :2] = ring_radius[:, None, None] * circle
    rings[..., 2] = ring_height[:, None]
    poles = np.array([[0.0, 0.0, height[0]], [0.0, 0.0, height[-1]]])
    vertices = np.concatenate([rings.reshape(-1, 3), poles])
    return MeshData(vertices, _revolved_faces(len(ring_radius), segments))


def _revolved_faces(n_rings: int, segments: int) -> IntArray:
    """Triangles of a surface of revolution whose vertices are `n_rings` rings and then the lower and upper pole."""
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
    """Upward triangles of a vertex grid, cells split from (row, col) to (row + 1, col + 1) as in MuJoCo collisions."""
    index = np.arange(rows * cols).reshape(rows, cols)
    a, b, c, d = index[:-1, :-1], index[:-1, 1:], index[1:, 1:], index[1:, :-1]
    lower = np.stack([a, b, c], axis=-1).reshape(-1, 3)
    upper = np.stack([a, c, d], axis=-1).reshape(-1, 3)
    return np.concatenate([lower, upper])


def _grid_boundary(rows: int, cols: int) -> IntArray:
    """Vertex indices of the boundary of a grid, counter-clockwise seen from above."""
    index = np.arange(rows * cols).reshape(rows, cols)
    return np.concatenate([index[0, :-1], index[:-1, -1], index[-1, :0:-1], index[:0:-1, 0]])


def _skirt_faces(rim: IntArray, n_top: int) -> IntArray:
    """Triangles of the side walls and the bottom of a height-field mesh.

    The walls connect the boundary vertices `rim` to their copies at indices from `n_top`; the bottom is a fan around
    the vertex after these copies.
    """
    n_rim = len(rim)
    below = n_top + np.arange(n_rim)
    rim_next, below_next = np.roll(rim, -1), np.roll(below, -1)
    centre = np.full(n_rim, n_top + n_rim)
    walls = [np.stack([below, below_next, rim_next], axis=-1), np.stack([below, rim_next, rim], axis=-1)]
    return np.concatenate([*walls, np.stack([centre, below_next, below], axis=-1)])


def _snap_to_zero(values: FloatArray) -> FloatArray:
    """Set rounding errors of sines and cosines to exactly zero, so that shapes are exactly symmetric."""
    scale = np.abs(values).max(initial=0.0)
    return np.where(np.abs(values) < 1e-15 * scale, 0.0, values)

"""Height-field terrain: flat, slope, stairs, random rough, or from a PNG image."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from kinema.core import sine_cosine

from .formats.image_files import decode_png_gray
from .mesh import FloatArray, GeometryError, MeshData
from .primitives import height_field, require_non_negative, require_positive

_MAX_HEIGHTS = 4_000_000


@dataclass(frozen=True, eq=False)
class Terrain:
    """Height field over a rectangle centred at the frame origin, with a solid base below."""

    heights: FloatArray
    """Heights (z) [m], shape (rows, columns); row 0 is at -y, column 0 at -x."""
    size: tuple[float, float]
    """Full extent in x and y [m]."""
    base: float = 1.0
    """Depth of the flat bottom below z = 0 [m]."""

    def __post_init__(self) -> None:
        """Convert heights to float64 and raise `GeometryError` for invalid heights, size or base."""
        heights = np.ascontiguousarray(self.heights, dtype=np.float64)
        if heights.ndim != 2 or min(heights.shape) < 2 or not np.isfinite(heights).all():
            raise GeometryError(f"Terrain needs finite heights in at least 2 rows and 2 columns, got {heights.shape}.")
        for extent in self.size:
            require_positive(extent, "size of terrain")
        require_non_negative(self.base, "base of terrain")
        object.__setattr__(self, "heights", heights)

    @property
    def spacing(self) -> tuple[float, float]:
        """Grid spacing in x and in y [m]."""
        rows, columns = self.heights.shape
        return self.size[0] / (columns - 1), self.size[1] / (rows - 1)

    def height_at(self, x: ArrayLike, y: ArrayLike) -> FloatArray:
        """Interpolated height of the surface [m] at positions (x, y) [m]; NaN outside of the terrain.

        Piecewise linear: every grid cell consists of two triangles split along the diagonal from (row, column) to (row
        + 1, column + 1), as in MuJoCo. `x` and `y` are broadcast.
        """
        column = (np.asarray(x, dtype=np.float64) / self.size[0] + 0.5) * (self.heights.shape[1] - 1)
        row = (np.asarray(y, dtype=np.float64) / self.size[1] + 0.5) * (self.heights.shape[0] - 1)
        last_row, last_column = (n - 2 for n in self.heights.shape)
        within = (row >= 0) & (row <= last_row + 1) & (column >= 0) & (column <= last_column + 1)
        r = np.clip(np.nan_to_num(row), 0, last_row).astype(np.int64)
        c = np.clip(np.nan_to_num(column), 0, last_column).astype(np.int64)
        row_offset, column_offset = row - r, column - c
        near, far = self.heights[r, c], self.heights[r + 1, c + 1]
        corner = np.where(column_offset >= row_offset, self.heights[r, c + 1], self.heights[r + 1, c])
        # From the near corner along the longer offset to the third corner, then along the shorter to the far corner.
        longer, shorter = np.maximum(column_offset, row_offset), np.minimum(column_offset, row_offset)
        height = near + longer * (corner - near) + shorter * (far - corner)
        return np.where(within, height, np.nan)

    def to_mesh(self) -> MeshData:
        """Closed triangle mesh of the terrain: top surface, side walls and flat bottom at z = -base."""
        return height_field(self.heights, self.size[0], self.size[1], self.base)

    @staticmethod
    def from_mujoco(data: ArrayLike, n_rows: int, n_columns: int, size: ArrayLike) -> Terrain:
        """Terrain from the height field of a compiled MuJoCo model.

        Args:
            data: `hfield_data`, normalised heights between 0 and 1, row by row.
            n_rows: `hfield_nrow`.
            n_columns: `hfield_ncol`.
            size: `hfield_size`, half extents in x and y, height scale and base thickness [m].
        """
        half_x, half_y, top, base = (float(value) for value in np.asarray(size, dtype=np.float64).reshape(4))
        normalized = np.asarray(data, dtype=np.float64).reshape(n_rows, n_columns)
        return Terrain(top * normalized, (2 * half_x, 2 * half_y), base)

    def to_mujoco(self) -> tuple[FloatArray, FloatArray, float]:
        """Height-field arrays of a MuJoCo model: `hfield_data`, `hfield_size` and the z offset of the geom [m].

        MuJoCo measures heights from the lowest point and requires a positive base thickness, which is 1 mm if the
        lowest point is not above the bottom.
        """
        lowest, highest = float(self.heights.min()), float(self.heights.max())
        top, below = highest - lowest or 1.0, self.base + lowest
        size = (self.size[0] / 2, self.size[1] / 2, top, below if below > 0 else 1e-3)
        return (self.heights - lowest).reshape(-1) / top, np.array(size), lowest


def flat_terrain(size: tuple[float, float], spacing: float, base: float = 1.0) -> Terrain:
    """Flat terrain at z = 0 with extent `size` (x, y) [m] and a grid spacing of about `spacing` [m]."""
    return Terrain(np.zeros(_grid_shape(size, spacing)), size, base)


def slope_terrain(size: tuple[float, float], spacing: float, angle: float, base: float = 1.0) -> Terrain:
    """Inclined plane that rises along +x at `angle` [rad], in (-pi/2, pi/2); height zero at the centre."""
    if not abs(angle) < np.pi / 2:
        raise GeometryError(f"The angle of a slope must be between -pi/2 and pi/2, got {angle} rad.")
    x, _ = _grid_coordinates(size, spacing)
    sine, cosine = sine_cosine(float(angle))
    heights = sine / cosine * x
    return Terrain(heights, size, _base_below_lowest(heights, base))


def stairs_terrain(
    size: tuple[float, float], spacing: float, step_depth: float, step_height: float, base: float = 1.0
) -> Terrain:
    """Stairs along +x, starting at height zero at -x.

    Each step is `step_depth` [m] deep (x) and `step_height` [m] high; a negative `step_height` descends. Heights are
    linear between grid columns, so that the steepness of risers is limited by `spacing` [m].
    """
    require_positive(step_depth, "depth of a step")
    if not np.isfinite(step_height):
        raise GeometryError(f"The height of a step must be finite, got {step_height}.")
    x, _ = _grid_coordinates(size, spacing)
    # The tolerance assigns a riser that coincides with a column to the upper step despite rounding.
    heights = step_height * np.floor((x + size[0] / 2) / step_depth + 1e-9)
    return Terrain(heights, size, _base_below_lowest(heights, base))


def rough_terrain(
    size: tuple[float, float], spacing: float, height: float, seed: int, *, bump_width: float = 0.5, base: float = 1.0
) -> Terrain:
    """Random terrain by value noise: heights uniform between 0 and `height` [m] on a coarse grid.

    The coarse grid has cells of about `bump_width` [m] and is interpolated by smoothstep. Deterministic for a given
    `seed`.
    """
    require_non_negative(height, "height of bumps")
    require_positive(bump_width, "width of bumps")
    x, y = _grid_coordinates(size, spacing)
    n_columns, n_rows = (max(2, int(np.ceil(extent / bump_width)) + 1) for extent in size)
    coarse = np.random.default_rng(seed).random((n_rows, n_columns))
    row, column = (y / size[1] + 0.5) * (n_rows - 1), (x / size[0] + 0.5) * (n_columns - 1)
    return Terrain(height * _smoothstep_interpolation(coarse, row, column), size, base)


def terrain_from_image(data: bytes, size: tuple[float, float], height: float, base: float = 1.0) -> Terrain:
    """Terrain from an encoded PNG image: black is height zero, white is `height` [m]; the top row is at +y.

    The absolute grey value is used, unlike in MuJoCo, which rescales the darkest and brightest pixel to 0 and 1.
    """
    if not np.isfinite(height):
        raise GeometryError(f"The height of terrain must be finite, got {height}.")
    heights = height * decode_png_gray(data)[::-1]
    return Terrain(heights, size, _base_below_lowest(heights, base))


def _smoothstep_interpolation(knots: FloatArray, row: FloatArray, column: FloatArray) -> FloatArray:
    """Interpolate a grid of values by a bilinear blend with smoothstep weights 3 t^2 - 2 t^3.

    The gradient is zero at the grid points and the result stays within the range of the surrounding values.

    Args:
        knots: values on the grid, shape (rows, columns).
        row: fractional row of every sample.
        column: fractional column of every sample, same shape as `row`.
    """
    r = np.minimum(row.astype(np.int64), knots.shape[0] - 2)
    c = np.minimum(column.astype(np.int64), knots.shape[1] - 2)
    row_weight, column_weight = (t * t * (3 - 2 * t) for t in (row - r, column - c))
    low = knots[r, c] * (1 - column_weight) + knots[r, c + 1] * column_weight
    high = knots[r + 1, c] * (1 - column_weight) + knots[r + 1, c + 1] * column_weight
    return low * (1 - row_weight) + high * row_weight


def _base_below_lowest(heights: FloatArray, base: float) -> float:
    """Depth of the bottom below z = 0 [m] that leaves `base` below both z = 0 and the lowest height."""
    return base - min(0.0, float(heights.min()))


def _grid_shape(size: tuple[float, float], spacing: float) -> tuple[int, int]:
    """Number of rows and columns of a grid over `size` [m] with about `spacing` [m]; `GeometryError` if too large."""
    require_positive(spacing, "spacing of terrain")
    for extent in size:
        require_positive(extent, "size of terrain")
    if max(size) / spacing > _MAX_HEIGHTS:
        raise GeometryError(f"Terrain has at most {_MAX_HEIGHTS} heights; a spacing of {spacing} m is too small.")
    columns, rows = (max(2, round(extent / spacing) + 1) for extent in size)
    if rows * columns > _MAX_HEIGHTS:
        raise GeometryError(f"Terrain has at most {_MAX_HEIGHTS} heights, got {rows} x {columns}.")
    return rows, columns


def _grid_coordinates(size: tuple[float, float], spacing: float) -> tuple[FloatArray, FloatArray]:
    """Coordinates x and y [m] of all grid points of a centred rectangle, each of shape (rows, columns)."""
    rows, columns = _grid_shape(size, spacing)
    x, y = np.meshgrid(np.linspace(-0.5, 0.5, columns) * size[0], np.linspace(-0.5, 0.5, rows) * size[1])
    return x, y

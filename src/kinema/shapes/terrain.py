"""Terrain: heights on a grid, and ways to make some."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from kinema.shapes.formats.png import grey_picture
from kinema.shapes.mesh_data import FloatArray, MeshData, ShapeError
from kinema.shapes.primitives import height_field, require_not_negative, require_positive

_MAX_HEIGHTS = 4_000_000


@dataclass(frozen=True, eq=False)
class Terrain:
    """A surface over a rectangle that is centred at the frame's origin, and the ground below it."""

    heights: FloatArray
    """Heights above the frame [m], shape (rows, columns); row 0 is at -y, column 0 at -x."""
    size: tuple[float, float]
    """Full extent in x and y [m]."""
    base: float = 1.0
    """How far the ground reaches below height zero [m]."""

    def __post_init__(self) -> None:
        heights = np.ascontiguousarray(self.heights, dtype=np.float64)
        if heights.ndim != 2 or min(heights.shape) < 2 or not np.isfinite(heights).all():
            raise ShapeError(f"Terrain needs finite heights in at least 2 rows and 2 columns, got {heights.shape}.")
        for extent in self.size:
            require_positive(extent, "size of terrain")
        require_not_negative(self.base, "base of terrain")
        object.__setattr__(self, "heights", heights)

    @property
    def spacing(self) -> tuple[float, float]:
        """Distance between neighbouring heights in x and in y [m]."""
        rows, columns = self.heights.shape
        return self.size[0] / (columns - 1), self.size[1] / (rows - 1)

    def height_at(self, x: ArrayLike, y: ArrayLike) -> FloatArray:
        """Height of the surface [m] at points of the plane [m]; NaN beside the terrain.

        The surface is made of two triangles for each cell, as MuJoCo has them: cut from (row, column) to
        (row + 1, column + 1).
        """
        column = (np.asarray(x, dtype=np.float64) / self.size[0] + 0.5) * (self.heights.shape[1] - 1)
        row = (np.asarray(y, dtype=np.float64) / self.size[1] + 0.5) * (self.heights.shape[0] - 1)
        last_row, last_column = (n - 2 for n in self.heights.shape)
        within = (row >= 0) & (row <= last_row + 1) & (column >= 0) & (column <= last_column + 1)
        r = np.clip(np.nan_to_num(row), 0, last_row).astype(np.int64)
        c = np.clip(np.nan_to_num(column), 0, last_column).astype(np.int64)
        up, right = row - r, column - c
        near, far = self.heights[r, c], self.heights[r + 1, c + 1]
        corner = np.where(right >= up, self.heights[r, c + 1], self.heights[r + 1, c])
        # From the near corner along the longer way to the third corner, then along the shorter one to the far corner.
        longer, shorter = np.maximum(right, up), np.minimum(right, up)
        height = near + longer * (corner - near) + shorter * (far - corner)
        return np.where(within, height, np.nan)

    def mesh(self) -> MeshData:
        """The ground as a closed solid."""
        return height_field(self.heights, self.size[0], self.size[1], self.base)

    @staticmethod
    def from_mujoco(data: ArrayLike, n_rows: int, n_columns: int, size: ArrayLike) -> Terrain:
        """From a compiled MuJoCo model's `hfield_data` (0 to 1), `hfield_nrow`, `hfield_ncol` and `hfield_size`."""
        half_x, half_y, top, base = (float(number) for number in np.asarray(size, dtype=np.float64).reshape(4))
        share = np.asarray(data, dtype=np.float64).reshape(n_rows, n_columns)
        return Terrain(top * share, (2 * half_x, 2 * half_y), base)

    def to_mujoco(self) -> tuple[FloatArray, FloatArray, float]:
        """What a MuJoCo model holds: `hfield_data`, `hfield_size`, and how far up its geom stands [m].

        MuJoCo counts heights from the lowest one, and its base has a thickness.
        """
        lowest, highest = float(self.heights.min()), float(self.heights.max())
        top, below = highest - lowest or 1.0, self.base + lowest
        size = (self.size[0] / 2, self.size[1] / 2, top, below if below > 0 else 1e-3)
        return (self.heights - lowest).reshape(-1) / top, np.array(size), lowest


def flat_terrain(size: tuple[float, float], spacing: float, base: float = 1.0) -> Terrain:
    """Level ground of the extent `size` [m], with heights about `spacing` [m] apart."""
    return Terrain(np.zeros(_shape(size, spacing)), size, base)


def slope_terrain(size: tuple[float, float], spacing: float, angle: float, base: float = 1.0) -> Terrain:
    """Ground that rises along x by `angle` [rad], between -pi/2 and pi/2; its middle is at height zero."""
    if not abs(angle) < np.pi / 2:
        raise ShapeError(f"A slope rises by less than a right angle, not by {angle} rad.")
    x, _ = _grid(size, spacing)
    heights = np.tan(angle) * x
    return Terrain(heights, size, _below(heights, base))


def stairs_terrain(
    size: tuple[float, float], spacing: float, step_depth: float, step_height: float, base: float = 1.0
) -> Terrain:
    """Stairs along x, from height zero at -x: each step is `step_depth` deep and `step_height` high [m].

    Between two columns of heights the surface goes straight up: risers are as steep as `spacing` lets them be.
    A negative `step_height` goes down.
    """
    require_positive(step_depth, "depth of a step")
    if not np.isfinite(step_height):
        raise ShapeError(f"The height of a step must be finite, got {step_height}.")
    x, _ = _grid(size, spacing)
    # A riser that falls onto a column belongs to the step above it, whatever the rounding.
    heights = step_height * np.floor((x + size[0] / 2) / step_depth + 1e-9)
    return Terrain(heights, size, _below(heights, base))


def rough_terrain(
    size: tuple[float, float], spacing: float, height: float, seed: int, *, bump: float = 0.5, base: float = 1.0
) -> Terrain:
    """Bumps of random height between zero and `height` [m], about `bump` [m] wide; the same for the same seed."""
    require_not_negative(height, "height of bumps")
    require_positive(bump, "width of bumps")
    x, y = _grid(size, spacing)
    columns, rows = (max(2, int(np.ceil(extent / bump)) + 1) for extent in size)
    knots = np.random.default_rng(seed).random((rows, columns))
    at_row, at_column = (y / size[1] + 0.5) * (rows - 1), (x / size[0] + 0.5) * (columns - 1)
    return Terrain(height * _blended(knots, at_row, at_column), size, base)


def terrain_from_image(data: bytes, size: tuple[float, float], height: float, base: float = 1.0) -> Terrain:
    """Terrain from the bytes of a PNG picture: black is zero and white is `height` [m]; its upper edge is at +y.

    Unlike MuJoCo, which stretches the darkest and the brightest pixel to zero and one, this takes brightness as it is.
    """
    if not np.isfinite(height):
        raise ShapeError(f"The height of terrain must be finite, got {height}.")
    heights = height * grey_picture(data)[::-1]
    return Terrain(heights, size, _below(heights, base))


def _blended(knots: FloatArray, row: FloatArray, column: FloatArray) -> FloatArray:
    """Values between knots, with level tangents at each of them: no farther up or down than the knots."""
    r = np.minimum(row.astype(np.int64), knots.shape[0] - 2)
    c = np.minimum(column.astype(np.int64), knots.shape[1] - 2)
    up, right = (share * share * (3 - 2 * share) for share in (row - r, column - c))
    low = knots[r, c] * (1 - right) + knots[r, c + 1] * right
    high = knots[r + 1, c] * (1 - right) + knots[r + 1, c + 1] * right
    return low * (1 - up) + high * up


def _below(heights: FloatArray, base: float) -> float:
    """A base that reaches as far below the lowest point as below height zero [m]."""
    return base - min(0.0, float(heights.min()))


def _shape(size: tuple[float, float], spacing: float) -> tuple[int, int]:
    require_positive(spacing, "spacing of terrain")
    for extent in size:
        require_positive(extent, "size of terrain")
    if max(size) / spacing > _MAX_HEIGHTS:
        raise ShapeError(f"Terrain has at most {_MAX_HEIGHTS} heights; the spacing of {spacing} m is too small for it.")
    columns, rows = (max(2, round(extent / spacing) + 1) for extent in size)
    if rows * columns > _MAX_HEIGHTS:
        raise ShapeError(f"Terrain has at most {_MAX_HEIGHTS} heights, {rows} x {columns} are asked for.")
    return rows, columns


def _grid(size: tuple[float, float], spacing: float) -> tuple[FloatArray, FloatArray]:
    """X and y [m] of each height, shape (rows, columns)."""
    rows, columns = _shape(size, spacing)
    x, y = np.meshgrid(np.linspace(-0.5, 0.5, columns) * size[0], np.linspace(-0.5, 0.5, rows) * size[1])
    return x, y

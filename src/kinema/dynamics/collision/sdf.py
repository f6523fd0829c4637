"""Signed distance fields sampled on a grid: trilinear interpolation, and descending sample points on primitives."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

from kinema import ir
from kinema.ir import Value
from kinema.model import SDF_HEADER_SIZE

from ..vector_math import Vector, dot, scale, sub
from .collision_types import SdfData
from .vector_math import TINY, Z_AXIS, floor_by_rounding, norm, normalize_or_fallback, select_vector

# ------------------------------------------------------------------------------------------------ signed distance field


class SdfGrid:
    """Signed distance field on a regular grid, with surface sample points, in the geom's own axes."""

    def __init__(self, sdf_data: SdfData) -> None:
        header = [sdf_data.read(sdf_data.start + float(i)) for i in range(SDF_HEADER_SIZE)]
        self._read = sdf_data.read
        self._n_nodes, self._origin = header[:3], header[4:]
        self._points_start = sdf_data.start + float(SDF_HEADER_SIZE)
        self._values_start = self._points_start + 3.0 * sdf_data.n_points
        self.cell_size = header[3]
        """Distance of neighbouring grid nodes [m]."""
        self.n_points = sdf_data.n_points

    def sample_point(self, index: Value) -> Vector:
        """Surface sample point by index [m]."""
        return [self._read(self._points_start + 3.0 * index + float(i)) for i in range(3)]

    def distance_and_normal(self, point: Vector) -> tuple[Value, Vector]:
        """Signed distance [m] at a point by trilinear interpolation, and the outward unit normal (normalized gradient).

        Outside the grid, the distance is measured to the surface point that is closest to the nearest point of the
        grid's boundary, and the normal points away from this surface point.
        """
        grid_point, value, gradient = self._interpolate(point)
        outward = normalize_or_fallback(gradient, Z_AXIS)
        offset = sub(point, grid_point)
        from_surface = sub(point, sub(grid_point, scale(value, outward)))
        outer_distance = norm(from_surface)
        offset_squared = dot(offset, offset)
        distance = ir.select(0.0, offset_squared, outer_distance, value)
        return distance, select_vector(0.0, offset_squared, normalize_or_fallback(from_surface, outward), outward)

    def distance_lower_bound(self, point: Vector) -> Value:
        """Lower bound of the distance [m] at a point, also far outside the grid."""
        grid_point, value, _ = self._interpolate(point)
        grid_distance = norm(sub(point, grid_point))
        return ir.maximum(grid_distance, value - grid_distance) - self.cell_size

    def _interpolate(self, point: Vector) -> tuple[Vector, Value, Vector]:
        """Trilinear interpolation of the field at the grid point nearest to a point.

        Returns:
            The point clamped to the grid; the interpolated signed distance [m] there; the gradient per cell, not
            normalized.
        """
        inverse_cell_size = 1.0 / self.cell_size
        cell, fraction = [], []
        for x, origin, count in zip(point, self._origin, self._n_nodes, strict=True):
            coordinate = ir.clamp((x - origin) * inverse_cell_size, 0.0, count - 1.0)
            lower = ir.clamp(floor_by_rounding(coordinate), 0.0, count - 2.0)
            cell.append(lower)
            fraction.append(coordinate - lower)
        row_stride = self._n_nodes[2]
        base_address = self._values_start + (cell[0] * self._n_nodes[1] + cell[1]) * row_stride + cell[2]
        strides = [self._n_nodes[1] * row_stride, row_stride, 1.0]
        values: dict[tuple[int, ...], Value] = {}
        for corner in ((i, j, k) for i in (0, 1) for j in (0, 1) for k in (0, 1)):
            address = base_address
            for is_upper, stride in zip(corner, strides, strict=True):
                address = address + stride if is_upper else address
            values[corner] = self._read(address)
        x, y, z = fraction

        def lerp(a: Value, b: Value, t: Value) -> Value:
            return a + t * (b - a)

        along_z = {(i, j): lerp(values[i, j, 0], values[i, j, 1], z) for i in (0, 1) for j in (0, 1)}
        slope_z = {(i, j): values[i, j, 1] - values[i, j, 0] for i in (0, 1) for j in (0, 1)}
        along_y = [lerp(along_z[i, 0], along_z[i, 1], y) for i in (0, 1)]
        gradient = [
            along_y[1] - along_y[0],
            lerp(along_z[0, 1] - along_z[0, 0], along_z[1, 1] - along_z[1, 0], x),
            lerp(lerp(slope_z[0, 0], slope_z[0, 1], y), lerp(slope_z[1, 0], slope_z[1, 1], y), x),
        ]
        nearest = [o + self.cell_size * (b + s) for o, b, s in zip(self._origin, cell, fraction, strict=True)]
        # within the grid exactly the point itself, without rounding errors
        lower = self._origin
        upper = [o + self.cell_size * (n - 1.0) for o, n in zip(self._origin, self._n_nodes, strict=True)]
        nearest = [
            ir.select(p, a, q, ir.select(b, p, q, p)) for p, a, b, q in zip(point, lower, upper, nearest, strict=True)
        ]
        return nearest, lerp(along_y[0], along_y[1], x), gradient


# ------------------------------------------------------------------------------------- sample points of primitive geoms

SurfaceSample = Sequence[Value]
"""Sample point of a primitive's surface in units of the geom's sizes: direction or position (3), level on its axis."""
AXIAL_LEVELS = (-1.0, -0.5, 0.0, 0.5, 1.0)
"""Levels of the rings of samples along the axis of a capsule, in units of its half length."""
MIN_RADIAL_COMPONENT = 0.2
"""Minimum radial component of the SDF normal for which a sample moves around the axis of a cylinder or cone."""


@dataclass(frozen=True, slots=True)
class SurfaceSamples:
    """Sample points on the surface of a primitive geom type, and their descent towards smaller signed distances."""

    samples: Sequence[tuple[float, float, float, float]]
    """Initial samples."""
    surface_point: Callable[[Vector, SurfaceSample], Vector]
    """Surface point in the geom's axes [m], from the geom's sizes and a sample."""
    descend: Callable[[Vector, SurfaceSample, Vector, Vector], Vector] | None = None
    """Surface point that may be deeper in the SDF, from sizes, sample, current point and SDF normal in the geom's axes;
    None for fixed samples."""
    axial_factor: float = 0.0
    """Position of the interior point along the geom's axis, relative to the level of the sample."""

    def interior_point(self, size: Vector, sample: SurfaceSample) -> Vector:
        """Point on the geom's axis well inside the geom, from which a sample's surface point is reached."""
        return [0.0, 0.0, self.axial_factor * size[1] * sample[3]]


def _cube_lattice() -> list[tuple[float, float, float]]:
    ends = (-1.0, 0.0, 1.0)
    return [(x, y, z) for x, y, z in product(ends, ends, ends) if x or y or z]


def _direction_samples() -> list[tuple[float, float, float, float]]:
    return [(x / n, y / n, z / n, 0.0) for x, y, z in _cube_lattice() if (n := math.hypot(x, y, z))]


def _ring_samples(count: int, levels: Sequence[float]) -> list[tuple[float, float, float, float]]:
    angles = [2.0 * math.pi * i / count for i in range(count)]
    return [(math.cos(angle), math.sin(angle), 0.0, level) for level in levels for angle in angles]


def _rim_radius(size: Vector, sample: SurfaceSample, *, is_cone: bool) -> Value:
    """Radius [m] of a cylinder or cone at the axial level of a sample."""
    return size[0] * (0.5 * (1.0 - sample[3])) if is_cone else size[0]


def _rim_point(size: Vector, sample: SurfaceSample, *, is_cone: bool = False) -> Vector:
    radius = _rim_radius(size, sample, is_cone=is_cone)
    return [radius * sample[0], radius * sample[1], size[1] * sample[3]]


def _descend_along_rim(
    size: Vector, sample: SurfaceSample, position: Vector, outward: Vector, *, is_cone: bool = False
) -> Vector:
    """Point of a cylinder's or cone's surface that faces the SDF, at the same height as a sample point.

    Rotates the sample about the axis of the geom until it is opposite to the SDF normal.

    Args:
        size: radius and half length of the geom [m].
        sample: the sample point, whose axial level is kept.
        position: current surface point in the geom's axes.
        outward: SDF normal in the geom's axes.
        is_cone: whether the geom is a cone.

    Returns:
        The new surface point; the current point if the SDF normal is nearly parallel to the axis.
    """
    radial_component = norm(outward[:2])
    factor = -_rim_radius(size, sample, is_cone=is_cone) / ir.maximum(radial_component, MIN_RADIAL_COMPONENT)
    return select_vector(
        radial_component, MIN_RADIAL_COMPONENT, position, [factor * outward[0], factor * outward[1], position[2]]
    )


def _descend_on_ellipsoid(size: Vector, sample: SurfaceSample, position: Vector, outward: Vector) -> Vector:
    scaled = [s * x for s, x in zip(size, outward, strict=True)]
    factor = -1.0 / ir.maximum(norm(scaled), TINY)
    return [factor * s * x for s, x in zip(size, scaled, strict=True)]


def _capsule_point(size: Vector, direction: Vector, axial_level: Value) -> Vector:
    x, y, z = scale(size[0], direction)
    return [x, y, z + size[1] * axial_level]


def _descend_on_capsule(size: Vector, sample: SurfaceSample, position: Vector, outward: Vector) -> Vector:
    """Move a sample on a capsule to the point that faces the SDF, at its axial level.

    At the ends of the axis the point may be anywhere on the end cap; elsewhere it stays on the cylindrical part.
    """
    level = sample[3]
    axial_component = ir.select(ir.absolute(level), 0.75, 0.0, ir.maximum(-level * outward[2], 0.0))
    direction = normalize_or_fallback([-outward[0], -outward[1], level * axial_component])
    return _capsule_point(size, direction, level)


def _scaled_point(size: Vector, sample: SurfaceSample) -> Vector:
    return [s * x for s, x in zip(size, sample[:3], strict=True)]


_RIM_SAMPLES = [
    *_ring_samples(8, (-1.0, 0.0, 1.0)),
    *_ring_samples(4, (-0.5, 0.5)),
    (0.0, 0.0, 0.0, -1.0),
    (0.0, 0.0, 0.0, 1.0),
]

SURFACE_SAMPLES: dict[str, SurfaceSamples] = {
    "sphere": SurfaceSamples(
        _direction_samples(), lambda size, p: scale(size[0], p[:3]), lambda size, p, at, out: scale(-size[0], out)
    ),
    "capsule": SurfaceSamples(
        [*_ring_samples(6, AXIAL_LEVELS), (0.0, 0.0, -1.0, -1.0), (0.0, 0.0, 1.0, 1.0)],
        lambda size, p: _capsule_point(size, p[:3], p[3]),
        _descend_on_capsule,
        1.0,
    ),
    "ellipsoid": SurfaceSamples(_direction_samples(), _scaled_point, _descend_on_ellipsoid),
    "cylinder": SurfaceSamples(_RIM_SAMPLES, _rim_point, _descend_along_rim, 0.5),
    "cone": SurfaceSamples(
        _RIM_SAMPLES,
        lambda size, p: _rim_point(size, p, is_cone=True),
        lambda size, p, at, out: _descend_along_rim(size, p, at, out, is_cone=True),
    ),
    "box": SurfaceSamples([(*c, 0.0) for c in _cube_lattice()], _scaled_point),
}
"""Surface sample points by geom type."""

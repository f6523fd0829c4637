"""Contacts of a height field and a convex geom: GJK/EPA against triangular prisms.

Every grid cell covered by the geom's bounding box is divided into two triangles, as in MuJoCo. Each triangle is
extruded down to the base of the height field; the closest point of this prism and the geom is a contact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from kinema import ir
from kinema.ir import Tracer, Value

from ..vector_math import Matrix, Vector, add, dot, matmul, rotate, rotate_inverse, sub, transpose
from .collision_types import CollisionGeom, ContactQuery, HeightFieldData
from .convex_distance import core_pair_distance, emit_closest_point
from .support_mapping import CONVEX_CORES, ConvexCore
from .support_patches import polytope_patch
from .vector_math import floor_by_rounding, norm, select_vector


@dataclass(frozen=True, slots=True)
class CellRange:
    """Range of grid cells along one axis."""

    first: Value
    """Index of the first cell."""
    count: Value
    """Number of cells."""


def collide_height_field_convex(
    query: ContactQuery, height_field: CollisionGeom, geom: CollisionGeom, *, geom_type: str
) -> None:
    """Contacts of a height field and a convex geom: the closest point of each triangular prism and the geom.

    Loops over the cells under the geom's AABB and over both triangles of a cell; prisms below the AABB are skipped.
    Emits the contacts through `query.emit_contact`.
    """
    tracer, grid = query.tracer, height_field.height_field
    assert grid is not None
    if geom_type == "sphere":  # the rotation of spheres is not computed
        geom = replace(geom, rotation=height_field.rotation)
    core = CONVEX_CORES[geom_type](tracer, geom)
    relative_position = rotate_inverse(height_field.rotation, sub(geom.position, height_field.position))
    low, high = _aabb_in_field_frame(
        tracer, core, matmul(transpose(height_field.rotation), geom.rotation), relative_position, query.margin
    )
    cell_sizes = [
        2.0 * half / (n - 1.0) for half, n in zip(height_field.size, (grid.n_columns, grid.n_rows), strict=False)
    ]
    counts = (grid.n_columns, grid.n_rows)
    columns, rows = (
        cells_in_interval(low[i] + height_field.size[i], high[i] + height_field.size[i], cell_sizes[i], counts[i])
        for i in range(2)
    )

    def visit_row(row_index: Value) -> None:
        row = rows.first + row_index

        def visit_column(column_index: Value) -> None:
            column = columns.first + column_index
            tracer.counted_loop("triangles", 2.0, lambda triangle: visit_triangle(row, column, triangle), uniform=True)

        tracer.counted_loop("columns", columns.count, visit_column)

    def visit_triangle(row: Value, column: Value, triangle: Value) -> None:
        corners = _triangle_corners(grid, row, column, triangle, cell_sizes)
        max_height = ir.maximum(corners[0][2], ir.maximum(corners[1][2], corners[2][2]))

        def emit() -> list[Value]:
            origin = [column * cell_sizes[0] - height_field.size[0], row * cell_sizes[1] - height_field.size[1], 0.0]
            prism = replace(height_field, position=add(height_field.position, rotate(height_field.rotation, origin)))
            cores = _prism_core(tracer, corners, height_field.size[2]), core
            pair_distance = core_pair_distance(query, cores, prism, geom)
            emit_closest_point(query, pair_distance, geom)
            return []

        tracer.if_less("reaches geom", low[2], max_height, emit, [])

    tracer.counted_loop("rows", rows.count, visit_row)


def _aabb_in_field_frame(
    tracer: Tracer, core: ConvexCore, rotation: Matrix, position: Vector, margin: Value
) -> tuple[list[Value], list[Value]]:
    """AABB of a convex geom in the axes of the height field, inflated by the margin: lower and upper corners [m].

    Computed from six support points of the geom's convex core plus its radius.

    Args:
        tracer: tracer.
        core: support mapping of the geom without its added sphere radius, and that radius.
        rotation: rotation matrix from the geom's axes to the axes of the height field.
        position: position of the geom in the axes of the height field [m].
        margin: contact margin [m].
    """
    extents = tracer.allocate_local(6)

    def find_extent(index: Value) -> None:
        axis = select_vector(index, 1.5, rotation[0], select_vector(index, 3.5, rotation[1], rotation[2]))
        side = 1.0
        for odd_index in (1.0, 3.0, 5.0):
            side = ir.select(ir.absolute(index - odd_index), 0.5, -1.0, side)
        point = core.support([side * x for x in axis])
        tracer.write(extents, [dot(axis, point) + side * (core.radius + margin)], 0, index)

    tracer.counted_loop("extents", 6.0, find_extent, uniform=True)
    values = [tracer.read(extents, i) for i in range(6)]
    return [position[i] + values[2 * i + 1] for i in range(3)], [position[i] + values[2 * i] for i in range(3)]


def cells_in_interval(low: Value, high: Value, cell_size: Value, n_nodes: Value) -> CellRange:
    """Range of grid cells that overlap an interval along one axis, clamped to the grid.

    Args:
        low: lower end of the interval, from the first node on [m].
        high: upper end of the interval [m].
        cell_size: width of a cell [m].
        n_nodes: number of grid nodes along the axis.
    """
    last = n_nodes - 1.0
    first = ir.clamp(floor_by_rounding(low / cell_size), 0.0, last)
    return CellRange(first, ir.clamp(floor_by_rounding(high / cell_size) + 1.0, 0.0, last) - first)


def _triangle_corners(
    height_data: HeightFieldData, row: Value, column: Value, triangle: Value, cell_sizes: list[Value]
) -> list[Vector]:
    """Corners (x, y, height) [m] of one triangle of a height-field cell, relative to the cell's first node.

    The cell is divided along the diagonal from its first to its last node, as in MuJoCo.

    Args:
        height_data: elevations of the height field.
        row: row of the cell.
        column: column of the cell.
        triangle: 0 or 1.
        cell_sizes: cell widths in x and y [m].
    """
    corners = []
    for i in range(3):
        x_first, y_first = ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0))[i]
        x_second, y_second = ((0.0, 0.0), (1.0, 1.0), (0.0, 1.0))[i]
        x, y = ir.select(triangle, 0.5, x_first, x_second), ir.select(triangle, 0.5, y_first, y_second)
        height = height_data.read(height_data.start + (row + y) * height_data.n_columns + (column + x))
        corners.append([x * cell_sizes[0], y * cell_sizes[1], height])
    return corners


def _prism_core(tracer: Tracer, corners: list[Vector], base_depth: Value) -> ConvexCore:
    """Support mapping and bounding radius, for GJK, of the prism between a height-field triangle and the base plane.

    Args:
        tracer: tracer.
        corners: corners of the triangle.
        base_depth: depth of the base below z = 0 [m].
    """

    def support(direction: Vector) -> Vector:
        vertices = [[c[0], c[1], ir.select(0.0, direction[2], c[2], -base_depth)] for c in corners]
        heights = [dot(direction, vertex) for vertex in vertices]
        best = select_vector(heights[0], heights[1], vertices[1], vertices[0])
        return select_vector(ir.maximum(heights[0], heights[1]), heights[2], vertices[2], best)

    max_heights = [ir.maximum(ir.absolute(c[2]), base_depth) for c in corners]
    bounding_radius = ir.maximum(
        *(norm([*c[:2], height]) for c, height in zip(corners[:2], max_heights[:2], strict=True))
    )
    bounding_radius = ir.maximum(bounding_radius, norm([*corners[2][:2], max_heights[2]]))
    return ConvexCore(support, 0.0, bounding_radius, partial(polytope_patch, tracer, support, bounding_radius))

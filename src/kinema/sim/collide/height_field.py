"""A height field and a convex shape: every triangle under the shape stands for a prism down to the base.

Each prism and the shape are two convex shapes; the point where they are nearest is a contact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kinema import trace
from kinema.trace import Recorder, Value

from ..sweeps.maths import Matrix, Vector, add, dot, product, rotate, sub, transpose, unrotate
from .convex import emit_one, meet_cores
from .numbering import floor
from .solid import Grid, Solid, Work
from .support import CORES, Core
from .vectors import either, length


@dataclass(frozen=True, slots=True)
class CellRange:
    """Cells in one direction."""

    first: Value
    count: Value


def touch_field(work: Work, field: Solid, shape: Solid, *, kind: str) -> None:
    """Where a convex shape touches a height field."""
    recorder, grid = work.recorder, field.grid
    assert grid is not None
    if kind == "sphere":  # nobody says how it is turned
        shape = replace(shape, rotation=field.rotation)
    core = CORES[kind](recorder, shape)
    place = unrotate(field.rotation, sub(shape.position, field.position))
    low, high = _bounds(recorder, core, product(transpose(field.rotation), shape.rotation), place, work.reach)
    steps = [2.0 * half / (n - 1.0) for half, n in zip(field.size, (grid.n_columns, grid.n_rows), strict=False)]
    counts = (grid.n_columns, grid.n_rows)
    columns, rows = (
        cells_between(low[i] + field.size[i], high[i] + field.size[i], steps[i], counts[i]) for i in range(2)
    )

    def in_row(row_turn: Value) -> None:
        row = rows.first + row_turn

        def in_column(column_turn: Value) -> None:
            column = columns.first + column_turn
            recorder.count("halves", 2.0, lambda half: in_half(row, column, half), uniform=True)

        recorder.count("columns", columns.count, in_column)

    def in_half(row: Value, column: Value, half: Value) -> None:
        corners = _corners(grid, row, column, half, steps)
        highest = trace.maximum(corners[0][2], trace.maximum(corners[1][2], corners[2][2]))

        def tell() -> list[Value]:
            origin = [column * steps[0] - field.size[0], row * steps[1] - field.size[1], 0.0]
            prism = replace(field, position=add(field.position, rotate(field.rotation, origin)))
            meeting = meet_cores(work, (_prism(corners, field.size[2]), core), prism, shape)
            emit_one(work, meeting, shape)
            return []

        recorder.where("high enough", low[2], highest, tell, [])

    recorder.count("rows", rows.count, in_row)


def _bounds(
    recorder: Recorder, core: Core, rotation: Matrix, place: Vector, reach: Value
) -> tuple[list[Value], list[Value]]:
    """The box about a shape, in the axes of the height field, as much larger as it matters."""
    ends = recorder.local(6)

    def look(turn: Value) -> None:
        axis = either(turn, 1.5, rotation[0], either(turn, 3.5, rotation[1], rotation[2]))
        side = 1.0
        for number in (1.0, 3.0, 5.0):
            side = trace.select(trace.absolute(turn - number), 0.5, -1.0, side)
        point = core.farthest([side * x for x in axis])
        recorder.write(ends, [dot(axis, point) + side * (core.radius + reach)], 0, turn)

    recorder.count("ends", 6.0, look, uniform=True)
    numbers = [recorder.read(ends, i) for i in range(6)]
    return [place[i] + numbers[2 * i + 1] for i in range(3)], [place[i] + numbers[2 * i] for i in range(3)]


def cells_between(low: Value, high: Value, step: Value, n_points: Value) -> CellRange:
    """Those between two places."""
    last = n_points - 1.0
    first = trace.clamp(floor(low / step), 0.0, last)
    return CellRange(first, trace.clamp(floor(high / step) + 1.0, 0.0, last) - first)


def _corners(grid: Grid, row: Value, column: Value, half: Value, steps: list[Value]) -> list[Vector]:
    """Of the upper side of one half of a cell, from the cell's first corner; z is the height."""
    # cells are divided from their first corner to their last, as MuJoCo does
    result = []
    for number in range(3):
        x_first, y_first = ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0))[number]
        x_second, y_second = ((0.0, 0.0), (1.0, 1.0), (0.0, 1.0))[number]
        x, y = trace.select(half, 0.5, x_first, x_second), trace.select(half, 0.5, y_first, y_second)
        height = grid.read(grid.first + (row + y) * grid.n_columns + (column + x))
        result.append([x * steps[0], y * steps[1], height])
    return result


def _prism(corners: list[Vector], base: Value) -> Core:
    """From a triangle down to the base."""

    def farthest(direction: Vector) -> Vector:
        ends = [[c[0], c[1], trace.select(0.0, direction[2], c[2], -base)] for c in corners]
        reach = [dot(direction, end) for end in ends]
        best = either(reach[0], reach[1], ends[1], ends[0])
        return either(trace.maximum(reach[0], reach[1]), reach[2], ends[2], best)

    deepest = [trace.maximum(trace.absolute(c[2]), base) for c in corners]
    size = trace.maximum(*(length([*c[:2], d]) for c, d in zip(corners[:2], deepest[:2], strict=True)))
    return Core(farthest, 0.0, trace.maximum(size, length([*corners[2][:2], deepest[2]])))

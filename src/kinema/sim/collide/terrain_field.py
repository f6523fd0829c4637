"""Height fields with distance fields: points of each in the other."""

from __future__ import annotations

from kinema import trace
from kinema.trace import Value

from ..sweeps.maths import Vector, add, product, rotate, scale, sub, transpose, unrotate
from .branches import where
from .directions import unit
from .distance_field import DistanceGrid
from .height_field import cells_between
from .numbering import floor
from .solid import Solid, Work
from .spread import Spread
from .vectors import either

OF_TERRAIN = 1e6
"""Numbers of the terrain's points begin here."""


def touch_terrain(work: Work, terrain: Solid, field: Solid) -> None:
    """The points of a body with hollows on terrain, and what of the terrain stands out in that body."""
    assert field.samples is not None
    meeting = _Meeting(work, terrain, field)
    work.recorder.count("points of the field", meeting.field.n_points, meeting.point_on_terrain)
    columns, rows = (
        cells_between(
            meeting.place[i] + terrain.size[i] - field.samples.extent - work.reach,
            meeting.place[i] + terrain.size[i] + field.samples.extent + work.reach,
            meeting.steps[i],
            meeting.counts[i],
        )
        for i in range(2)
    )

    def in_row(row: Value) -> None:
        def in_column(column: Value) -> None:
            meeting.node_in_field(rows.first + row, columns.first + column)

        work.recorder.count("columns", columns.count + 1.0, in_column)

    work.recorder.count("rows", rows.count + 1.0, in_row)
    meeting.spread.tell(field)


class _Meeting:
    """A distance field in the axes of the terrain below it."""

    def __init__(self, work: Work, terrain: Solid, field: Solid) -> None:
        assert terrain.grid is not None
        assert field.samples is not None
        self.work, self.terrain, self.heights = work, terrain, terrain.grid
        self.field = DistanceGrid(field.samples)
        self.turned = product(transpose(terrain.rotation), field.rotation)
        self.place = unrotate(terrain.rotation, sub(field.position, terrain.position))
        self.counts = (self.heights.n_columns, self.heights.n_rows)
        self.steps = [2.0 * half / (n - 1.0) for half, n in zip(terrain.size, self.counts, strict=False)]
        self.spread = Spread(work, field.samples.extent)

    def point_on_terrain(self, turn: Value) -> None:
        """By the height above the triangle below it."""
        point = self.field.point(turn)
        there = add(self.place, rotate(self.turned, point))
        cells = [(there[i] + self.terrain.size[i]) / self.steps[i] for i in range(2)]
        low = [trace.clamp(floor(c), 0.0, n - 2.0) for c, n in zip(cells, self.counts, strict=True)]
        x, y = (c - b for c, b in zip(cells, low, strict=True))
        first, second = self._height(low[1], low[0]), self._height(low[1] + 1.0, low[0] + 1.0)
        # cells are divided from their first corner to their last
        is_right = trace.select(x, y, 0.0, 1.0)
        third = self._height(low[1] + 1.0 - is_right, low[0] + is_right)
        along_x, along_y = either(0.5, is_right, [third - first, second - third], [second - third, third - first])
        up = unit([-along_x / self.steps[0], -along_y / self.steps[1], 1.0])
        distance = (there[2] - (first + along_x * x + along_y * y)) * up[2]
        normal = unrotate(self.turned, up)
        outside = trace.maximum(trace.maximum(-x, x - 1.0), trace.maximum(-y, y - 1.0))
        middle = add(point, scale(-0.5 * distance, normal))
        offer = self.spread.offer
        where(self.work.recorder, "over it", outside, 1e-9, lambda: offer(turn, distance, middle, normal))

    def node_in_field(self, row: Value, column: Value) -> None:
        """Where the terrain is known, in the field."""
        x, y = (k * step - half for k, step, half in zip((column, row), self.steps, self.terrain.size, strict=False))
        point = self._to_field([x, y, self._height(row, column)])
        distance, outward = self.field.at(point)
        number = OF_TERRAIN + row * self.heights.n_columns + column
        self.spread.offer(number, distance, add(point, scale(-0.5 * distance, outward)), scale(-1.0, outward))

    def _to_field(self, point: Vector) -> Vector:
        return unrotate(self.turned, sub(point, self.place))

    def _height(self, row: Value, column: Value) -> Value:
        return self.heights.read(self.heights.first + row * self.heights.n_columns + column)

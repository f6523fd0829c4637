"""How far along a ray a height field is: the ground cell by cell, the walls at its ends, and the base."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kinema import trace
from kinema.trace import Recorder, Value

from ..collide.directions import rounding
from ..sweeps.maths import Vector
from .ray_meshes import MOST_BOXES, triangle
from .ray_solids import FAR, SMALLEST, Ray, box

LARGEST = 1e6
"""Numbers of cells are not above it, in any direction."""


class Ground:
    """A height field and a ray in its axes; what is met goes into a local array, where it is nearer than that."""

    def __init__(
        self,
        recorder: Recorder,
        read: Callable[[Value], Value],
        numbers: Sequence[Value],
        size: Vector,
        ray: Ray,
        best: str,
    ) -> None:
        self.recorder, self.read, self.size, self.ray, self.best = recorder, read, size, ray, best
        self.first, n_rows, self.n_columns = numbers
        self.counts = (self.n_columns - 1.0, n_rows - 1.0)
        self.steps = [2.0 * size[i] / self.counts[i] for i in range(2)]
        self.inverse = [1.0 / trace.select(trace.absolute(x), SMALLEST, SMALLEST, x) for x in ray.along]

    def height(self, row: Value, column: Value) -> Value:
        """At a corner of a cell."""
        return self.read(self.first + row * self.n_columns + column)

    def meet(self) -> None:
        """All of it."""
        self._meet_walls()
        self._meet_base()
        enter, leave = 0.0, self.recorder.read(self.best)
        for i in range(2):
            ends = [(side * self.size[i] - self.ray.start[i]) * self.inverse[i] for side in (-1.0, 1.0)]
            enter = trace.maximum(enter, trace.minimum(*ends))
            leave = trace.minimum(leave, trace.maximum(*ends))

        def walk() -> list[Value]:
            self._walk(enter)
            return []

        self.recorder.where("above the ground", enter, leave, walk, [])

    def _keep(self, distance: Value) -> Value:
        nearest = trace.minimum(self.recorder.read(self.best), distance)
        self.recorder.write(self.best, [nearest])
        return nearest

    def _meet_base(self) -> None:
        """What is below zero."""
        x, y, z = self.ray.start
        half = 0.5 * self.size[2]
        found = box(Ray([x, y, z + half], self.ray.along), [self.size[0], self.size[1], half])
        self._keep(trace.select(0.0, half, found, FAR))
        self.recorder.new_line()

    def _meet_walls(self) -> None:
        """From zero up to the ground, at the four ends."""
        size, found = self.size, FAR
        for axis, side in ((0, -1.0), (0, 1.0), (1, -1.0), (1, 1.0)):
            other = 1 - axis
            distance = (side * size[axis] - self.ray.start[axis]) * self.inverse[axis]
            point = self.ray.at(distance)
            along = (point[other] + size[other]) / self.steps[other]
            cell = self._cell(other, along)
            share, end = along - cell, 0.0 if side < 0 else self.counts[axis]
            places = [(cell, end), (cell + 1.0, end)] if axis == 0 else [(end, cell), (end, cell + 1.0)]
            top = (1.0 - share) * self.height(*places[0]) + share * self.height(*places[1])
            off = trace.maximum(trace.absolute(point[other]) - size[other], trace.maximum(point[2] - top, -point[2]))
            hit = trace.select(0.0, off, FAR, trace.select(distance, 0.0, FAR, distance))
            found = trace.minimum(found, hit)
        self._keep(found)
        self.recorder.new_line()

    def _cell(self, axis: int, along: Value) -> Value:
        """The number of the cell at a place, those at the ends for what is beyond them."""
        return trace.clamp(floor(along), 0.0, self.counts[axis] - 1.0)

    def _walk(self, enter: Value) -> None:
        """From cell to cell, along the ray, until it has left them or met something."""
        steps, size, ray = self.steps, self.size, self.ray
        signs = [trace.select(x, 0.0, -1.0, 1.0) for x in ray.along[:2]]
        point = ray.at(enter)
        start = [self._cell(i, (point[i] + size[i]) / steps[i]) for i in range(2)]

        def border(i: int, number: Value) -> Value:
            return ((number + 0.5 + 0.5 * signs[i]) * steps[i] - size[i] - ray.start[i]) * self.inverse[i]

        def step(state: Sequence[Value]) -> tuple[list[Value], Value, Value]:
            column, row = state
            nearest = self._keep(self._in_cell(column, row))
            borders = [border(0, column), border(1, row)]
            across = trace.select(borders[0], borders[1], 1.0, 0.0)
            after = [column + across * signs[0], row + (1.0 - across) * signs[1]]
            out: Value = trace.select(nearest, trace.minimum(*borders), 1.0, 0.0)
            for x, count in zip(after, self.counts, strict=True):
                out = out + trace.select(x, -0.5, 1.0, 0.0) + trace.select(count - 0.5, x, 1.0, 0.0)
            inside = trace.select(out, 0.5, 1.0, 0.0)
            kept = [trace.select(0.5, inside, new, old) for new, old in zip(after, state, strict=True)]
            return kept, 0.5, inside

        self.recorder.repeat("cells", step, start, MOST_BOXES)

    def _in_cell(self, column: Value, row: Value) -> Value:
        """The two triangles of a cell, which is divided from its first corner to its last."""

        def corner(x: float, y: float) -> Vector:
            place = [(column + x) * self.steps[0] - self.size[0], (row + y) * self.steps[1] - self.size[1]]
            return [*place, self.height(row + y, column + x)]

        low, high = corner(0.0, 0.0), corner(1.0, 1.0)
        first = triangle(self.ray, low, corner(1.0, 0.0), high)
        return trace.minimum(first, triangle(self.ray, low, high, corner(0.0, 1.0)))


def floor(x: Value) -> Value:
    """The next whole number below; of a whole number itself, or the one below it."""
    whole = 1.5 / rounding(x)  # numbers this large have no digits after the point
    return (trace.clamp(x, -LARGEST, LARGEST) - 0.5 + whole) - whole

"""Signed distances on a grid: how far points are from a surface, and which way that is."""

from __future__ import annotations

from kinema import trace
from kinema.model import FIELD_HEAD
from kinema.trace import Value

from ..sweeps.maths import Vector, dot, scale, sub
from .directions import unit
from .numbering import floor
from .solid import Samples
from .vectors import Z, either, length


class DistanceGrid:
    """A distance field in its own axes, as programs see it."""

    def __init__(self, samples: Samples) -> None:
        head = [samples.read(samples.first + float(i)) for i in range(FIELD_HEAD)]
        self._read = samples.read
        self._res, self._origin = head[:3], head[4:]
        self._points = samples.first + float(FIELD_HEAD)
        self._values = self._points + 3.0 * samples.n_points
        self.cell = head[3]
        """How far nodes are apart [m]."""
        self.n_points = samples.n_points

    def point(self, number: Value) -> Vector:
        """One of the points that can be the first to touch [m]."""
        return [self._read(self._points + 3.0 * number + float(i)) for i in range(3)]

    def at(self, point: Vector) -> tuple[Value, Vector]:
        """Distance [m], linear between nodes, and the direction in which that grows.

        Outside of the grid: to the point of the surface that is nearest to the border there.
        """
        inside, value, slope = self._within(point)
        outward = unit(slope, Z)
        beyond = sub(point, inside)
        away = sub(point, sub(inside, scale(value, outward)))
        far = length(away)
        square = dot(beyond, beyond)
        distance = trace.select(0.0, square, far, value)
        return distance, either(0.0, square, unit(away, outward), outward)

    def at_least(self, point: Vector) -> Value:
        """What the distance surely is [m], also far from the grid."""
        inside, value, _ = self._within(point)
        beyond = length(sub(point, inside))
        return trace.maximum(beyond, value - beyond) - self.cell

    def _within(self, point: Vector) -> tuple[Vector, Value, Vector]:
        """The nearest point of the grid; distance there, and how it changes from cell to cell."""
        per_cell = 1.0 / self.cell
        base, share = [], []
        for x, origin, count in zip(point, self._origin, self._res, strict=True):
            at = trace.clamp((x - origin) * per_cell, 0.0, count - 1.0)
            low = trace.clamp(floor(at), 0.0, count - 2.0)
            base.append(low)
            share.append(at - low)
        row = self._res[2]
        start = self._values + (base[0] * self._res[1] + base[1]) * row + base[2]
        steps = [self._res[1] * row, row, 1.0]
        values: dict[tuple[int, ...], Value] = {}
        for corner in ((i, j, k) for i in (0, 1) for j in (0, 1) for k in (0, 1)):
            offset = start
            for one, step in zip(corner, steps, strict=True):
                offset = offset + step if one else offset
            values[corner] = self._read(offset)
        x, y, z = share

        def mixed(a: Value, b: Value, part: Value) -> Value:
            return a + part * (b - a)

        along_z = {(i, j): mixed(values[i, j, 0], values[i, j, 1], z) for i in (0, 1) for j in (0, 1)}
        steep_z = {(i, j): values[i, j, 1] - values[i, j, 0] for i in (0, 1) for j in (0, 1)}
        along_y = [mixed(along_z[i, 0], along_z[i, 1], y) for i in (0, 1)]
        slope = [
            along_y[1] - along_y[0],
            mixed(along_z[0, 1] - along_z[0, 0], along_z[1, 1] - along_z[1, 0], x),
            mixed(mixed(steep_z[0, 0], steep_z[0, 1], y), mixed(steep_z[1, 0], steep_z[1, 1], y), x),
        ]
        nearest = [o + self.cell * (b + s) for o, b, s in zip(self._origin, base, share, strict=True)]
        # of a point within the grid that is the point itself, not what rounding makes of it
        low = self._origin
        high = [o + self.cell * (n - 1.0) for o, n in zip(self._origin, self._res, strict=True)]
        nearest = [
            trace.select(p, a, q, trace.select(b, p, q, p))
            for p, a, b, q in zip(point, low, high, nearest, strict=True)
        ]
        return nearest, mixed(along_y[0], along_y[1], x), slope

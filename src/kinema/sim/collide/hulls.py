"""How programs find the faces of convex meshes in the array that all of them share: see `kinema.model.hulls`."""

from __future__ import annotations

from kinema import trace
from kinema.model import ENTRY, FACE, HEAD, TABLE
from kinema.trace import Recorder, Value

from ..sweeps.maths import Vector, dot
from .directions import TINY
from .numbering import floor
from .solid import Hull
from .vectors import either


def normal_of(hull: Hull, face: Value) -> Vector:
    """The outward normal of a face."""
    return [hull.read(_face(hull, face) + float(i)) for i in range(3)]


def list_of(hull: Hull, face: Value) -> tuple[Value, Value]:
    """How many corners a face has, and where in the array their numbers are."""
    at = _face(hull, face)
    return hull.read(at + 3.0), hull.first + hull.read(at + 4.0)


def _face(hull: Hull, face: Value) -> Value:
    return hull.first + 3.0 * hull.n_corners + float(FACE) * face


def farthest_corner(recorder: Recorder, hull: Hull, direction: Vector) -> tuple[Vector, Value]:
    """The first of the farthest corners in a direction of any length, and how far it is along that."""
    *point, reach, _ = _farthest(recorder, hull, direction, 0)
    return point, reach


def facing(recorder: Recorder, hull: Hull, direction: Vector) -> Value:
    """The first of the faces whose normal is nearest to a direction."""
    return _farthest(recorder, hull, direction, 1)[-1]


def _farthest(recorder: Recorder, hull: Hull, direction: Vector, table: int) -> list[Value]:
    """Of a table of directions: the farthest point, how far it is along the direction, and its number."""
    start, head = _cell(hull, direction, table)
    first, count = start + hull.read(head), hull.read(head + 1.0)
    best = recorder.local(5)
    recorder.write(best, [0.0, 0.0, 0.0, -1.0 / TINY, 0.0])

    def look(turn: Value) -> None:
        at = first + float(ENTRY) * turn
        *point, number = (hull.read(at + float(i)) for i in range(ENTRY))
        reach, old = dot(point, direction), recorder.read(best, 3)
        before = [recorder.read(best, i) for i in range(5)]
        recorder.write(best, either(old, reach, [*point, reach, number], before))

    recorder.count("in its cell", count, look)
    return [recorder.read(best, i) for i in range(5)]


def _cell(hull: Hull, direction: Vector, table: int) -> tuple[Value, Value]:
    """Where a table starts, and where in it the numbers of the cell are that a direction is in."""
    at = hull.first + 3.0 * hull.n_corners + float(FACE) * hull.n_faces + float(TABLE * table)
    start, cells = hull.first + hull.read(at), hull.read(at + 1.0)
    x, y, z = direction
    sizes = [trace.absolute(d) for d in direction]
    x_most = trace.select(sizes[0], trace.maximum(sizes[1], sizes[2]), 0.0, 1.0)
    y_most = (1.0 - x_most) * trace.select(sizes[1], sizes[2], 0.0, 1.0)
    most, u, v = either(0.5, x_most, (x, y, z), either(0.5, y_most, (y, z, x), (z, x, y)))
    scale = 0.5 * cells / trace.maximum(trace.absolute(most), TINY)
    i, j = (trace.clamp(floor(scale * w + 0.5 * cells), 0.0, cells - 1.0) for w in (u, v))
    side = 4.0 - 4.0 * x_most - 2.0 * y_most + trace.select(most, 0.0, 1.0, 0.0)
    return start, start + float(HEAD) * ((side * cells + i) * cells + j)

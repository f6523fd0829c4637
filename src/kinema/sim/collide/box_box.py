"""Two boxes: the axis along which they are furthest apart, then where they touch along it.

That axis is the normal of a face, or across an edge of each. In the first case the face of the other box that is most
opposite to it is cut to its outline, and what is left are the points; in the second there is one point, between two
edges.
"""

from __future__ import annotations

from dataclasses import dataclass

from kinema import trace
from kinema.trace import Value

from ..sweeps.maths import Matrix, Vector, add, cross, dot, product, rotate, scale, sub, transpose, unrotate
from .clipping import MOST, cut_to_rectangle
from .solid import Solid, Work
from .vectors import along, column, either

REACHING, ROUNDING = 1e-6, 3e-7
"""Parts of the sum of all half sizes: by how much more than the reach boxes may be apart to be looked at, and two edges
may be further apart than faces in nearly the same direction that still count. The second is not MuJoCo's: in single
precision rounding would choose between four points and one of boxes that just touch."""
PARALLEL = 1e-7
"""The square of the sine below which two edges have no direction across both."""
BETTER = 1e-6
"""By what part edges have to be further apart than faces."""
ALIKE, MUCH_BETTER = 0.99, 0.05
"""Where the direction across two edges is nearly that of a face (cosine), they have to be so much further apart than it
(part of its depth): a face gives several points."""


@dataclass(frozen=True, slots=True)
class _Boxes:
    """Both in the axes of the first."""

    half_a: Vector
    half_b: Vector
    apart: Vector
    """From the first centre to the second."""
    turn: Matrix
    """From the axes of the second."""
    sizes: Value
    """The sum of all half sizes."""


@dataclass(frozen=True, slots=True)
class _Axis:
    """Along which they are furthest apart."""

    face: Value
    """Number of an axis of the first or (3, 4, 5) of the second box."""
    edge: Value
    """Where it is across two edges, 3 i + j for edge i of the first and j of the second; else -1."""
    furthest: Value
    """How far apart they are along any axis."""


def box_box(work: Work, a: Solid, b: Solid) -> None:
    """Up to eight points."""
    recorder = work.recorder
    apart = unrotate(a.rotation, sub(b.position, a.position))
    turn = product(transpose(a.rotation), b.rotation)
    boxes = _Boxes(a.size, b.size, apart, turn, sum([*a.size, *b.size], 0.0))
    axis = _furthest_apart(boxes)
    near = trace.select(work.reach + REACHING * boxes.sizes, axis.furthest, 0.0, 1.0)
    kept = recorder.local(4 * MOST)

    def edges() -> list[Value]:
        distance, point, normal = _between_edges(boxes, axis.edge)
        recorder.write(kept, [distance, *add(a.position, rotate(a.rotation, point))])
        return [1.0, *rotate(a.rotation, normal)]

    def faces() -> list[Value]:
        return _on_face(work, a, b, boxes, axis.face, kept)

    found = recorder.where("edges", 0.5, near * trace.select(axis.edge, 0.0, 0.0, 1.0), edges, [0.0, 1.0, 0.0, 0.0])
    found = recorder.where("faces", 0.5, near * trace.select(axis.edge, 0.0, 1.0, 0.0), faces, found)
    n_points, *normal = found

    def tell(turn: Value) -> None:
        distance, *point = (recorder.read(kept, i, 4.0 * turn) for i in range(4))
        work.emit(distance, point, normal)

    recorder.count("points", n_points, tell)


# ------------------------------------------------------------------------------------------------------- which axis


def _furthest_apart(boxes: _Boxes) -> _Axis:
    distances = _apart_along_faces(boxes)
    best, face = distances[0], 0.0
    for number, distance in enumerate(distances[1:], 1):
        face = trace.select(best, distance, float(number), face)
        best = trace.maximum(best, distance)
    edge, at_edge, furthest = -1.0, best, best
    for number in range(9):
        distance = _apart_along_edges(boxes, *divmod(number, 3))
        better = trace.select(at_edge, distance - BETTER * trace.absolute(distance), 1.0, 0.0)
        edge = trace.select(0.5, better, float(number), edge)
        at_edge = trace.select(0.5, better, distance, at_edge)
        furthest = trace.maximum(furthest, distance)
    _, _, way = _edges(boxes, edge)
    own = [_chosen(face - 3.0, *row) for row in boxes.turn]
    normal = either(face, 2.5, _one_of_three(face), own)
    rather_face = trace.select(at_edge, best + MUCH_BETTER * trace.absolute(best) + ROUNDING * boxes.sizes, 1.0, 0.0)
    alike = trace.select(ALIKE, trace.absolute(dot(way, normal)), rather_face, 0.0)
    edge = trace.select(0.5, alike, -1.0, edge)
    return _Axis(face, edge, furthest)


def _apart_along_faces(boxes: _Boxes) -> list[Value]:
    """How far apart they are along the axes of the first, then of the second."""
    back = unrotate(boxes.turn, boxes.apart)
    sizes = [[trace.absolute(x) for x in row] for row in boxes.turn]
    first = [
        trace.absolute(x) - half - dot(row, boxes.half_b)
        for x, half, row in zip(boxes.apart, boxes.half_a, sizes, strict=True)
    ]
    second = [
        trace.absolute(x) - half - dot(column(sizes, j), boxes.half_a)
        for j, (x, half) in enumerate(zip(back, boxes.half_b, strict=True))
    ]
    return [*first, *second]


def _apart_along_edges(boxes: _Boxes, i: int, j: int) -> Value:
    """How far apart they are across an edge of each; along no axis, far inside each other.

    The axis is made as long as one first, and both boxes are measured along it: however few digits of it are right, it
    is an axis, and what is found is not above the truth.
    """
    i1, i2 = (i + 1) % 3, (i + 2) % 3
    u, v = -boxes.turn[i2][j], boxes.turn[i1][j]
    squared = u * u + v * v
    inverse = 1.0 / trace.sqrt(trace.maximum(squared, PARALLEL))
    u, v = inverse * u, inverse * v
    size_a = boxes.half_a[i1] * trace.absolute(u) + boxes.half_a[i2] * trace.absolute(v)
    size_b: Value = 0.0
    for k in ((j + 1) % 3, (j + 2) % 3):
        size_b = size_b + boxes.half_b[k] * trace.absolute(u * boxes.turn[i1][k] + v * boxes.turn[i2][k])
    distance = trace.absolute(u * boxes.apart[i1] + v * boxes.apart[i2]) - size_a - size_b
    return trace.select(squared, PARALLEL, -1e30, distance)


# ------------------------------------------------------------------------------------------------------- two edges


def _edges(boxes: _Boxes, edge: Value) -> tuple[Vector, Vector, Vector]:
    """Which edge of the first, of the second (in its own axes), and the direction across both."""
    i = trace.select(edge, 2.5, 0.0, trace.select(edge, 5.5, 1.0, 2.0))
    of_a, of_b = _one_of_three(i), _one_of_three(edge - 3.0 * i)
    way = cross(of_a, rotate(boxes.turn, of_b))
    return of_a, of_b, scale(1.0 / trace.sqrt(trace.maximum(dot(way, way), PARALLEL)), way)


def _between_edges(boxes: _Boxes, edge: Value) -> tuple[Value, Vector, Vector]:
    """Distance, point and normal, in the axes of the first."""
    of_a, of_b, way = _edges(boxes, edge)
    way = scale(trace.select(dot(way, boxes.apart), 0.0, -1.0, 1.0), way)
    middle_a = _middle_of_edge(of_a, boxes.half_a, way)
    middle_b = _middle_of_edge(of_b, boxes.half_b, scale(-1.0, unrotate(boxes.turn, way)))
    middle_b = add(boxes.apart, rotate(boxes.turn, middle_b))
    along_b = rotate(boxes.turn, of_b)
    between = sub(middle_b, middle_a)
    cosine, on_a, on_b = dot(of_a, along_b), dot(of_a, between), dot(along_b, between)
    half_a, half_b = dot(of_a, boxes.half_a), dot(of_b, boxes.half_b)
    squared = dot(cross(of_a, along_b), cross(of_a, along_b))
    where_a = trace.clamp((on_a - cosine * on_b) / trace.maximum(squared, PARALLEL), -half_a, half_a)
    where_b = trace.clamp(cosine * where_a - on_b, -half_b, half_b)
    where_a = trace.clamp(on_a + cosine * where_b, -half_a, half_a)
    point_a, point_b = along(middle_a, where_a, of_a), along(middle_b, where_b, along_b)
    return dot(sub(point_b, point_a), way), scale(0.5, add(point_a, point_b)), way


def _middle_of_edge(edge: Vector, half: Vector, way: Vector) -> Vector:
    """Of those edges of a box, the one that is furthest along a way across them."""
    return [(1.0 - e) * trace.select(w, 0.0, -h, h) for e, h, w in zip(edge, half, way, strict=True)]


# ---------------------------------------------------------------------------------------------------- a face and a face


def _on_face(work: Work, a: Solid, b: Solid, boxes: _Boxes, face: Value, kept: str) -> list[Value]:
    """Writes points, and says how many there are, and their normal.

    `x`, `y` and `z` are in the face, about its middle, and out of it.
    """
    first = trace.select(face, 2.5, 1.0, 0.0)

    def of_either(of_a: Vector, of_b: Vector) -> Vector:
        return either(0.5, first, of_a, of_b)

    number = trace.select(0.5, first, face, face - 3.0)
    half, half_other = of_either(boxes.half_a, boxes.half_b), of_either(boxes.half_b, boxes.half_a)
    back = scale(-1.0, unrotate(boxes.turn, boxes.apart))
    turn = [of_either(row, other) for row, other in zip(boxes.turn, transpose(boxes.turn), strict=True)]
    centre, half = _z_last(number, of_either(boxes.apart, back)), _z_last(number, half)
    turn = transpose([_z_last(number, column(turn, k)) for k in range(3)])
    axes = [of_either(column(a.rotation, k), column(b.rotation, k)) for k in range(3)]
    axes = transpose([_z_last(number, [axis[k] for axis in axes]) for k in range(3)])
    up = trace.select(centre[2], 0.0, -1.0, 1.0)

    opposite, other_z = 0.0, trace.absolute(turn[2][0])
    for k in (1, 2):
        opposite = trace.select(other_z, trace.absolute(turn[2][k]), float(k), opposite)
        other_z = trace.maximum(other_z, trace.absolute(turn[2][k]))
    turn = [_z_last(opposite, row) for row in turn]
    half_other = _z_last(opposite, half_other)
    towards = trace.select(0.0, up * turn[2][2], -1.0, 1.0)
    middle = along(centre, towards * half_other[2], column(turn, 2))
    sides = [scale(half_other[k], column(turn, k)) for k in range(2)]
    flat = [[*v[:2], up * v[2]] for v in (middle, *sides)]
    flat[0][2] = flat[0][2] - half[2]
    corners = [add(flat[0], scale(x, flat[1]), scale(y, flat[2])) for x, y in ((1, 1), (-1, 1), (-1, -1), (1, -1))]

    origin = of_either(a.position, b.position)
    normal = scale(up, axes[2])

    def place(x: Value, y: Value, z: Value) -> Vector:
        return add(origin, scale(x, axes[0]), scale(y, axes[1]), scale(half[2] + 0.5 * z, normal))

    n_points = cut_to_rectangle(work, corners, half[:2], place, kept)
    return [n_points, *scale(trace.select(0.5, first, 1.0, -1.0), normal)]


def _one_of_three(which: Value) -> Vector:
    """The axis of that number."""
    return [trace.select(trace.absolute(which - float(k)), 0.5, 1.0, 0.0) for k in range(3)]


def _chosen(which: Value, a: Value, b: Value, c: Value) -> Value:
    return trace.select(which, 0.5, a, trace.select(which, 1.5, b, c))


def _z_last(which: Value, v: Vector) -> Vector:
    """The same vector, with the axis of that number for the third."""
    x, y, z = v
    return [_chosen(which, y, z, x), _chosen(which, z, x, y), _chosen(which, x, y, z)]

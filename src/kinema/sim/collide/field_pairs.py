"""Bodies with hollows: distance fields with everything else.

Points of each body are looked up in what is known of the other: probes of a primitive shape, or corners, in the field;
points of the field's surface in the primitive shape, by the formula that a sphere without a radius has there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from kinema import trace
from kinema.trace import Value

from ..sweeps.maths import Vector, add, dot, product, rotate, scale, sub, transpose, unrotate
from .boxes import sphere_box
from .branches import where
from .capsules import sphere_capsule
from .cones import sphere_cone
from .cylinders import sphere_cylinder
from .distance_field import DistanceGrid
from .ellipsoids import sphere_ellipsoid
from .hulls import list_of, normal_of
from .probes import PROBES, Probes
from .solid import Hull, Pair, PairKind, Solid, Work
from .spheres import sphere_sphere
from .spread import MOST_POINTS, NOTHING, Spread
from .support import CORES, corner
from .terrain_field import touch_terrain
from .vectors import either

SLIDES = 4
"""Steps of a probe at most."""
WORTH_IT = 0.25
"""A probe that is farther from the field than this part of its shape's size does not slide: another one is nearer."""
BETTER = 1e-4
"""How much deeper a step has to lead, against the size."""

POINTS_IN: dict[str, Pair] = {
    "sphere": sphere_sphere,
    "capsule": sphere_capsule,
    "ellipsoid": sphere_ellipsoid,
    "cylinder": sphere_cylinder,
    "cone": sphere_cone,
    "box": sphere_box,
}
"""How far a sphere is from each kind of shape."""


class _Meeting:
    """A shape in the axes of the distance field beside it."""

    def __init__(self, work: Work, shape: Solid, field: Solid, size: Value) -> None:
        assert field.samples is not None
        self.work, self.recorder, self.size = work, work.recorder, size
        self.grid = DistanceGrid(field.samples)
        turned = product(transpose(field.rotation), shape.rotation)
        place = unrotate(field.rotation, sub(shape.position, field.position))
        self.shape = replace(shape, position=place, rotation=turned)
        self.spread = Spread(work, trace.minimum(size, field.samples.extent))
        self.first = 0.0
        """The number of the next point; later ones are above."""

    def to_field(self, point: Vector) -> Vector:
        return add(self.shape.position, rotate(self.shape.rotation, point))

    def offer_of_shape(self, number: Value, point: Vector, distance: Value, outward: Vector) -> None:
        """A point of the shape, in the axes of the field."""
        self.spread.offer(number, distance, add(point, scale(-0.5 * distance, outward)), scale(-1.0, outward))

    def each_of_field(self, first: float, look: Callable[[Value, Vector], None]) -> None:
        """Points of the field that are near the shape, each with its number."""
        reach = self.size + self.work.reach

        def one(turn: Value) -> None:
            point = self.grid.point(turn)
            apart = sub(point, self.shape.position)
            where(self.recorder, "near", dot(apart, apart), reach * reach, lambda: look(turn + first, point))

        self.recorder.count("points of the field", self.grid.n_points, one)


def touch_primitive(work: Work, shape: Solid, field: Solid, *, kind: str) -> None:
    """A primitive shape and a distance field."""
    if kind == "sphere":  # nobody says how it is turned
        shape = replace(shape, rotation=field.rotation)
    meeting = _Meeting(work, shape, field, CORES[kind](work.recorder, shape).size)

    def look() -> None:
        _probe(meeting, PROBES[kind])
        meeting.each_of_field(float(len(PROBES[kind].table)), partial(_point_in, meeting, POINTS_IN[kind]))

    _where_near(meeting, look)
    meeting.spread.tell(field)


def _where_near(meeting: _Meeting, look: Callable[[], None]) -> None:
    nearest = meeting.grid.at_least(meeting.shape.position)
    where(meeting.recorder, "near the field", nearest, meeting.size + meeting.work.reach, look)


def _probe(meeting: _Meeting, probes: Probes) -> None:
    """All probes of a shape, each where it is or where it slides to."""
    recorder, shape, grid = meeting.recorder, meeting.shape, meeting.grid
    table = recorder.local(4 * len(probes.table))
    recorder.write(table, [x for row in probes.table for x in row])

    def one(turn: Value) -> None:
        probe = [recorder.read(table, i, 4.0 * turn) for i in range(4)]
        at = probes.place(shape.size, probe)
        distance, outward = grid.at(meeting.to_field(at))
        if probes.slide is not None:
            at, distance, outward = _slid(meeting, probes, probe, [*at, distance, *outward])
        point = meeting.to_field(at)
        inside = meeting.to_field(probes.inside(shape.size, probe))
        distance, outward = _seen_from(meeting, inside, point, distance, outward)
        meeting.offer_of_shape(turn, point, distance, outward)

    recorder.count("probes", float(len(probes.table)), one, uniform=True)


def _seen_from(
    meeting: _Meeting, inside: Vector, point: Vector, distance: Value, outward: Vector
) -> tuple[Value, Vector]:
    """A probe that is more than half-way through a thin wall: the way out is back to where its shape is.

    That is seen from inside of the shape, as long as this is not in the wall as well.
    """
    recorder, ray = meeting.recorder, sub(point, inside)
    ahead = trace.select(distance, 0.0, dot(outward, ray), -1.0)

    def look_back() -> list[Value]:
        height, way = meeting.grid.at(inside)
        return either(0.0, height, [height + dot(way, ray), *way], [distance, *outward])

    found = recorder.where("through a wall", 0.0, ahead, look_back, [distance, *outward])
    return found[0], found[1:]


def _slid(
    meeting: _Meeting, probes: Probes, probe: Sequence[Value], start: Sequence[Value]
) -> tuple[Vector, Value, Vector]:
    """Where a probe is deepest, or nearly: it goes on while that brings something."""
    shape, slide = meeting.shape, probes.slide
    assert slide is not None
    least = BETTER * meeting.size

    def step(flat: Sequence[Value]) -> tuple[list[Value], Value, Value]:
        old, depth, outward = list(flat[:3]), flat[3], flat[4:7]
        new = slide(shape.size, probe, old, unrotate(shape.rotation, outward))
        distance, way = meeting.grid.at(meeting.to_field(new))
        kept = either(distance + least, depth, [*new, distance, *way], list(flat))
        return kept, distance + least, depth

    def go() -> list[Value]:
        return meeting.recorder.repeat("slide", step, list(start), SLIDES)

    limit = meeting.work.reach + WORTH_IT * meeting.size
    end = meeting.recorder.where("worth it", start[3], limit, go, list(start))
    return end[:3], end[3], end[4:7]


def _point_in(meeting: _Meeting, pair: Pair, number: Value, point: Vector) -> None:
    """A point of the field in a primitive shape: a sphere without a radius."""

    def offer(distance: Value, middle: Vector, normal: Vector, along: Vector | None = None) -> None:
        meeting.spread.offer(number, distance, middle, scale(-1.0, normal))

    alone = Solid(point, meeting.shape.rotation, (0.0, 0.0, 0.0))
    pair(replace(meeting.work, emit=offer), alone, meeting.shape)


def touch_hull(work: Work, mesh: Solid, field: Solid) -> None:
    """A convex mesh and a distance field."""
    hull = mesh.hull
    assert hull is not None
    meeting = _Meeting(work, mesh, field, hull.radius)

    def one(turn: Value) -> None:
        point = meeting.to_field(corner(hull, turn))
        meeting.offer_of_shape(turn, point, *meeting.grid.at(point))

    def look() -> None:
        work.recorder.count("corners", hull.n_corners, one)
        meeting.each_of_field(1e6, partial(_point_in_hull, meeting, hull))

    _where_near(meeting, look)
    meeting.spread.tell(field)


def _point_in_hull(meeting: _Meeting, hull: Hull, number: Value, point: Vector) -> None:
    """By the face that it is the least deep below, or the farthest above."""
    recorder, shape = meeting.recorder, meeting.shape
    inside = unrotate(shape.rotation, sub(point, shape.position))
    best = recorder.local(4)
    recorder.write(best, [0.0, 0.0, 1.0, -NOTHING])

    def look(face: Value) -> None:
        normal = normal_of(hull, face)
        _, corners = list_of(hull, face)
        height = dot(normal, sub(inside, corner(hull, hull.read(corners))))
        old = [recorder.read(best, i) for i in range(4)]
        recorder.write(best, either(old[3], height, [*normal, height], old))

    recorder.count("faces", hull.n_faces, look)
    outward, distance = [recorder.read(best, i) for i in range(3)], recorder.read(best, 3)
    normal = rotate(shape.rotation, outward)
    meeting.spread.offer(number, distance, add(point, scale(-0.5 * distance, normal)), normal)


def touch_fields(work: Work, first: Solid, second: Solid) -> None:
    """Two distance fields: the points of each in the other."""
    assert first.samples is not None
    meeting = _Meeting(work, first, second, first.samples.extent)
    other, shape = DistanceGrid(first.samples), meeting.shape

    def of_first(turn: Value) -> None:
        point = meeting.to_field(other.point(turn))
        meeting.offer_of_shape(turn, point, *meeting.grid.at(point))

    def of_second(number: Value, point: Vector) -> None:
        distance, outward = other.at(unrotate(shape.rotation, sub(point, shape.position)))
        normal = rotate(shape.rotation, outward)
        meeting.spread.offer(number, distance, add(point, scale(-0.5 * distance, normal)), normal)

    def look() -> None:
        work.recorder.count("points of the first", other.n_points, of_first)
        meeting.each_of_field(1e6, of_second)

    _where_near(meeting, look)
    meeting.spread.tell(second)


def touch_plane(work: Work, plane: Solid, field: Solid) -> None:
    """A plane and the points of a distance field."""
    assert field.samples is not None
    grid = DistanceGrid(field.samples)
    up = [row[2] for row in plane.rotation]
    normal = unrotate(field.rotation, up)
    height = dot(up, sub(field.position, plane.position))
    spread = Spread(work, field.samples.extent)

    def one(turn: Value) -> None:
        point = grid.point(turn)
        distance = height + dot(normal, point)
        spread.offer(turn, distance, add(point, scale(-0.5 * distance, normal)), normal)

    work.recorder.count("points of the field", grid.n_points, one)
    spread.tell(field)


FIELD = "distance field"
FIELD_PAIRS: dict[tuple[str, str], PairKind] = {
    ("plane", FIELD): PairKind(touch_plane, MOST_POINTS),
    ("height field", FIELD): PairKind(touch_terrain, MOST_POINTS),
    **{(kind, FIELD): PairKind(partial(touch_primitive, kind=kind), MOST_POINTS) for kind in PROBES},
    ("mesh", FIELD): PairKind(touch_hull, MOST_POINTS),
    (FIELD, FIELD): PairKind(touch_fields, MOST_POINTS),
}
"""By their kinds, in the order of `SHAPE_KINDS`."""

"""How far along a ray a solid is: both in the solid's own axes, centred where it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kinema import trace
from kinema.trace import Value

from ..rigid.kinematics import Pose
from ..sweeps.maths import Vector, add, dot, scale, sub, unrotate

FAR = 1e15
"""Instead of a distance, where a ray hits nothing."""
HIT = 0.5 * FAR
SMALLEST = 1e-15
"""Of squares and components of directions that count as nothing."""


@dataclass(frozen=True, slots=True)
class Ray:
    """From a point in a direction, which is of length one or nearly so."""

    start: Vector
    along: Vector

    @classmethod
    def seen(cls, place: Pose, start: Vector, along: Vector) -> Ray:
        """A ray of the world as seen from a place."""
        return cls(unrotate(place.rotation, sub(start, place.position)), unrotate(place.rotation, along))

    def at(self, distance: Value) -> Vector:
        """A point of it."""
        return add(self.start, scale(distance, self.along))


def _ahead(distance: Value, *there: tuple[Value, Value]) -> Value:
    """A distance that counts where it is ahead and each first number is not above its second."""
    result = trace.select(distance, 0.0, FAR, distance)
    for value, most in there:
        result = trace.select(most, value, FAR, result)
    return result


def _nearest(distances: Sequence[Value]) -> Value:
    result = distances[0]
    for x in distances[1:]:
        result = trace.minimum(result, x)
    return result


def _roots(a: Value, b: Value, c: Value) -> tuple[Value, Value]:
    """Of a x^2 + 2 b x + c; far where there are none."""
    square = b * b - a * c
    root = trace.sqrt(trace.maximum(square, 0.0))
    some = trace.maximum(a, SMALLEST)
    there = trace.minimum(square, a)
    return tuple(trace.select(SMALLEST, there, (x - b) / some, -FAR) for x in (-root, root))  # type: ignore[return-value]  # ty: ignore[invalid-explicit-return]


def _crossing(ray: Ray, axis: int, at: Value) -> Value:
    """Where a ray crosses a plane across one of its axes; behind it where it runs along the plane."""
    speed = ray.along[axis]
    flat = trace.select(trace.absolute(speed), SMALLEST, 1.0, 0.0)
    return trace.select(0.5, flat, -1.0, (at - ray.start[axis]) / trace.select(0.5, flat, 1.0, speed))


def plane(ray: Ray, size: Vector) -> Value:
    """A plane, from above; as far as it is drawn."""
    distance = _crossing(ray, 2, 0.0)
    point = ray.at(distance)
    towards = trace.select(ray.along[2], 0.0, distance, -1.0)
    return _ahead(towards, *((trace.absolute(point[i]), trace.minimum(size[i], FAR)) for i in range(2)))


def sphere(ray: Ray, size: Vector) -> Value:
    """The first of its two points that is ahead."""
    return _nearest([_ahead(x) for x in _sphere_at(ray, ray.start, size[0])])


def _sphere_at(ray: Ray, start: Vector, radius: Value) -> tuple[Value, Value]:
    return _roots(dot(ray.along, ray.along), dot(ray.along, start), dot(start, start) - radius * radius)


def _tube(ray: Ray, radius: Value) -> tuple[Value, Value]:
    """Of a pipe along z that has no end."""
    start, along = ray.start[:2], ray.along[:2]
    return _roots(dot(along, along), dot(along, start), dot(start, start) - radius * radius)


def capsule(ray: Ray, size: Vector) -> Value:
    """Its side, and both caps."""
    radius, half = size[0], size[1]
    found = [_ahead(x, (trace.absolute(ray.at(x)[2]), half)) for x in _tube(ray, radius)]
    for sign in (1.0, -1.0):
        start = [ray.start[0], ray.start[1], ray.start[2] - sign * half]
        found += [_ahead(x, (half, sign * ray.at(x)[2])) for x in _sphere_at(ray, start, radius)]
    return _nearest(found)


def cylinder(ray: Ray, size: Vector) -> Value:
    """Its side, and both ends."""
    radius, half = size[0], size[1]
    found = [_ahead(x, (trace.absolute(ray.at(x)[2]), half)) for x in _tube(ray, radius)]
    return _nearest([*found, *(_disc(ray, sign * half, radius) for sign in (1.0, -1.0))])


def _disc(ray: Ray, height: Value, radius: Value) -> Value:
    distance = _crossing(ray, 2, height)
    point = ray.at(distance)
    return _ahead(distance, (dot(point[:2], point[:2]), radius * radius))


def cone(ray: Ray, size: Vector) -> Value:
    """Its side, and its base; its tip is up."""
    radius, half = size[0], size[1]
    slope = radius / (2.0 * half)
    (px, py, pz), (dx, dy, dz) = ray.start, ray.along
    below, square = half - pz, slope * slope
    a, b = dx * dx + dy * dy - square * (dz * dz), dx * px + dy * py + square * (dz * below)
    c = px * px + py * py - square * (below * below)
    # where a ray is steeper than the side, both roots change places, and one is on the cone's mirror image
    root = trace.sqrt(trace.maximum(b * b - a * c, 0.0))
    some = trace.select(trace.absolute(a), SMALLEST, SMALLEST, a)
    both = [trace.select(b * b, a * c, -FAR, (x - b) / some) for x in (-root, root)]
    sides = [_ahead(x, (trace.absolute(ray.at(x)[2]), half)) for x in both]
    return _nearest([*sides, _disc(ray, -half, radius)])


def ellipsoid(ray: Ray, size: Vector) -> Value:
    """As a sphere, in coordinates that make it one."""
    start, along = ([x / r for x, r in zip(v, size, strict=True)] for v in (ray.start, ray.along))
    roots = _roots(dot(along, along), dot(along, start), dot(start, start) - 1.0)
    return _nearest([_ahead(x) for x in roots])


def box(ray: Ray, size: Vector) -> Value:
    """All six sides."""
    found = []
    for axis in range(3):
        for sign in (1.0, -1.0):
            distance = _crossing(ray, axis, sign * size[axis])
            point = ray.at(distance)
            found.append(_ahead(distance, *((trace.absolute(point[i]), size[i]) for i in range(3) if i != axis)))
    return _nearest(found)


RAYS: dict[str, Callable[[Ray, Vector], Value]] = {
    "plane": plane,
    "sphere": sphere,
    "capsule": capsule,
    "cylinder": cylinder,
    "cone": cone,
    "ellipsoid": ellipsoid,
    "box": box,
}
"""The distance along a ray of each kind of solid, from its size; `FAR` where it is not hit."""


def inside(kind: str, point: Vector, size: Vector) -> Value:
    """1 where a point is in a solid, else 0."""
    x, y, z = point
    match kind:
        case "sphere":
            off, most = dot(point, point), size[0] * size[0]
        case "capsule":
            beyond = trace.maximum(trace.absolute(z) - size[1], 0.0)
            off, most = x * x + y * y + beyond * beyond, size[0] * size[0]
        case "cylinder":
            off = trace.maximum((x * x + y * y) / (size[0] * size[0]), (z / size[1]) * (z / size[1]))
            most = 1.0
        case "ellipsoid":
            off, most = dot(*([a / r for a, r in zip(point, size, strict=True)],) * 2), 1.0
        case _:
            off = _largest([trace.absolute(a) / r for a, r in zip(point, size, strict=True)])
            most = 1.0
    return trace.select(most, off, 0.0, 1.0)


def _largest(values: Sequence[Value]) -> Value:
    result = values[0]
    for x in values[1:]:
        result = trace.maximum(result, x)
    return result

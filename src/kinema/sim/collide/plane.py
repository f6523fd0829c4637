"""Shapes on a plane, which is where z is 0 in its own axes; its normal is that of every point."""

from __future__ import annotations

import math

from kinema import trace
from kinema.trace import Value

from ..sweeps.maths import Vector, add, dot, rotate, scale, sub, unrotate
from .points import emit_each
from .solid import Solid, Work
from .vectors import SHORTEST, along, column, either, sign

STANDING = SHORTEST * SHORTEST
"""The square of the sine of a tilt below which a cylinder stands."""
THIRD = math.sqrt(0.75)
"""The sine of a third of a turn; the cosine is minus a half."""
MOST_CORNERS = 4.0


def plane_sphere(work: Work, plane: Solid, sphere: Solid) -> None:
    """The lowest point of the sphere."""
    work.emit(*_lowest(plane, sphere.position, sphere.size[0]), column(plane.rotation, 2))


def plane_capsule(work: Work, plane: Solid, capsule: Solid) -> None:
    """The lowest points of the spheres at both ends; friction is along the capsule."""
    axis = column(capsule.rotation, 2)
    ends = [along(capsule.position, half, axis) for half in (capsule.size[1], -capsule.size[1])]
    points = [_lowest(plane, end, capsule.size[0]) for end in ends]
    emit_each(work, points, column(plane.rotation, 2), axis)


def plane_ellipsoid(work: Work, plane: Solid, ellipsoid: Solid) -> None:
    """The lowest point of the ellipsoid."""
    normal = column(plane.rotation, 2)
    scaled = [x * half for x, half in zip(unrotate(ellipsoid.rotation, normal), ellipsoid.size, strict=True)]
    below = trace.sqrt(dot(scaled, scaled))
    inverse = -1.0 / trace.maximum(below, 1e-15)
    lowest = rotate(ellipsoid.rotation, [inverse * x * half for x, half in zip(scaled, ellipsoid.size, strict=True)])
    distance = _height(plane, ellipsoid) - below
    work.emit(distance, _half_way(ellipsoid, lowest, distance, normal), normal)


def plane_box(work: Work, plane: Solid, box: Solid) -> None:
    """The first four corners that are near enough, of those on the side of the plane."""
    recorder, normal, height = work.recorder, column(plane.rotation, 2), _height(plane, box)
    lifts = [x * half for x, half in zip(unrotate(box.rotation, normal), box.size, strict=True)]
    kept = recorder.local(4)
    recorder.write(kept, [-1.0, -1.0, -1.0, 0.0])

    def corner(_: Value) -> None:
        x, y, z, found = (recorder.read(kept, i) for i in range(4))
        lift = dot((x, y, z), lifts)
        distance = height + lift
        counts = trace.select(0.0, lift, 0.0, trace.select(work.reach, distance, 0.0, 1.0))
        counts = trace.select(found, MOST_CORNERS, counts, 0.0)
        # the next corner: x turns around each time, y every second time, z every fourth
        after = [-x, trace.select(0.0, x, -y, y), trace.select(0.0, trace.minimum(x, y), -z, z)]
        recorder.write(kept, [*after, found + counts])

        def tell() -> list[Value]:
            local = [side * half for side, half in zip((x, y, z), box.size, strict=True)]
            work.emit(distance, _half_way(box, rotate(box.rotation, local), distance, normal), normal)
            return []

        recorder.where("counts", 0.5, counts, tell, [])

    recorder.count("corners", 8.0, corner, uniform=True)


def plane_cylinder(work: Work, plane: Solid, cylinder: Solid) -> None:
    """The lowest point of the rim, the one above it on the other rim, and two more a third of a turn away."""
    normal, height = column(plane.rotation, 2), _height(plane, cylinder)
    up = unrotate(cylinder.rotation, normal)
    down, rise = _lowest_of_rim(up)
    end = [0.0, 0.0, -sign(up[2]) * cylinder.size[1]]
    lower, across = height - trace.absolute(up[2]) * cylinder.size[1], rise * cylinder.size[0]
    rim = scale(cylinder.size[0], down)
    beside = scale(-sign(up[2]), [down[1], -down[0], 0.0])
    points = [
        (lower - across, add(end, rim)),
        (2.0 * height - lower - across, sub(rim, end)),
        *((lower + 0.5 * across, add(end, turned)) for turned in _a_third_away(cylinder.size[0], down, beside)),
    ]
    emit_each(work, [(d, _half_way(cylinder, rotate(cylinder.rotation, p), d, normal)) for d, p in points], normal)


def plane_cone(work: Work, plane: Solid, cone: Solid) -> None:
    """The lowest point of the rim, the tip, and two more of the rim a third of a turn away."""
    normal, height = column(plane.rotation, 2), _height(plane, cone)
    up = unrotate(cone.rotation, normal)
    down, rise = _lowest_of_rim(up)
    base, across = height - up[2] * cone.size[1], rise * cone.size[0]
    beside = [-down[1], down[0], 0.0]
    turned = [scale(cone.size[0], down), *_a_third_away(cone.size[0], down, beside)]
    first, *others = [(x, y, -cone.size[1]) for x, y, _ in turned]
    points = [
        (base - across, first),
        (height + up[2] * cone.size[1], (0.0, 0.0, cone.size[1])),
        *((base + 0.5 * across, point) for point in others),
    ]
    emit_each(work, [(d, _half_way(cone, rotate(cone.rotation, p), d, normal)) for d, p in points], normal)


def _height(plane: Solid, solid: Solid) -> Value:
    """Of a solid's centre above a plane [m]."""
    return dot(column(plane.rotation, 2), sub(solid.position, plane.position))


def _lowest(plane: Solid, centre: Vector, radius: Value) -> tuple[Value, Vector]:
    """The distance of a sphere, and its point."""
    normal = column(plane.rotation, 2)
    distance = dot(normal, sub(centre, plane.position)) - radius
    return distance, along(centre, -(radius + 0.5 * distance), normal)


def _half_way(solid: Solid, corner: Vector, distance: Value, normal: Vector) -> Vector:
    """The point between a corner, given from the solid's centre, and the plane."""
    return add(solid.position, along(corner, -0.5 * distance, normal))


def _lowest_of_rim(up: Vector) -> tuple[Vector, Value]:
    """The way from the axis to the lowest point of a rim about z, and how much lower that is at a radius of one.

    What is upright has no lowest point: then x is taken. It is found in the solid's own axes, so that it is across the
    axis however small the tilt is.
    """
    squared = up[0] * up[0] + up[1] * up[1]
    inverse = -1.0 / trace.sqrt(trace.maximum(squared, STANDING))
    way = either(squared, STANDING, (1.0, 0.0, 0.0), (inverse * up[0], inverse * up[1], 0.0))
    return way, -(up[0] * way[0] + up[1] * way[1])


def _a_third_away(radius: Value, down: Vector, beside: Vector) -> list[Vector]:
    """The points of a rim a third of a turn to both sides."""
    return [add(scale(-0.5 * radius, down), scale(side * THIRD * radius, beside)) for side in (1.0, -1.0)]

"""Contacts of pairs of shapes by closed forms and small systems of equations, solved to rounding.

Each oracle maps one pose of both shapes, (position, rotation, size) each, to distance, point midway between the
surfaces and normal from the first shape to the second, as one array of 7 numbers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import root

from kinema.core import Array

Solid = tuple[Array, Array, Array]
"""Position (3,), rotation (3, 3), size (3,)."""
Oracle = Callable[[Solid, Solid], Array]


def contact(point_a: Array, point_b: Array, normal: Array) -> Array:
    """From the closest points of both surfaces."""
    return np.concatenate([[normal @ (point_b - point_a)], 0.5 * (point_a + point_b), normal])


def unit(vector: Array) -> Array:
    return np.asarray(vector / np.linalg.norm(vector))


def ellipsoid_support(solid: Solid, direction: Array) -> Array:
    """Point of an ellipsoid that is farthest in a direction."""
    position, rotation, size = solid
    local = rotation.T @ direction
    return np.asarray(position + rotation @ (size * size * local) / np.linalg.norm(size * local))


def solved(equations: Callable[[Array], Array], start: Array) -> Array:
    """Root of equations, and that it is one."""
    found = root(equations, start, tol=1e-13, options={"xtol": 1e-13})
    assert np.abs(found.fun).max() < 1e-12
    return np.asarray(found.x)


def plane_ellipsoid(normal: Array, offset: float, solid: Solid) -> Array:
    """Ellipsoid above the plane normal . x = offset, which is the first shape."""
    lowest = ellipsoid_support(solid, -normal)
    return contact(lowest - (normal @ lowest - offset) * normal, lowest, normal)


def sphere_ellipsoid(a: Solid, b: Solid) -> Array:
    """The closest point x of the ellipsoid to a centre y: y = x + t x / e^2, |x / e| = 1."""
    position, rotation, size = b
    centre = rotation.T @ (a[0] - position)

    def equations(values: Array) -> Array:
        x, t = values[:3], values[3]
        return np.array([*(x + t * x / size**2 - centre), (x / size) @ (x / size) - 1.0])

    x = solved(equations, np.append(size * unit(centre / size), 0.0))[:3]
    outward = unit(x / size**2)
    return contact(a[0] - a[2][0] * rotation @ outward, position + rotation @ x, -rotation @ outward)


def capsule_ellipsoid(a: Solid, b: Solid) -> Array:
    """The sphere around a point of the capsule's axis whose normal is perpendicular to the axis."""
    axis = a[1][:, 2]

    def touching(place: float) -> Array:
        return sphere_ellipsoid((a[0] + place * axis, a[1], a[2]), b)

    place = solved(lambda x: np.array([touching(x[0])[4:] @ axis]), np.zeros(1))[0]
    assert abs(place) < a[2][1]
    return touching(place)


def ellipsoid_ellipsoid(a: Solid, b: Solid) -> Array:
    """The normal along which the support points of both lie on one line."""
    first = unit(b[0] - a[0])
    tangents = np.linalg.svd(first[None])[2][1:]

    def points(turn: Array) -> tuple[Array, Array, Array]:
        normal = unit(first + turn @ tangents)
        return ellipsoid_support(a, normal), ellipsoid_support(b, -normal), normal

    def equations(turn: Array) -> Array:
        point_a, point_b, normal = points(turn)
        apart = point_b - point_a
        return np.asarray(tangents @ (apart - (normal @ apart) * normal))

    return contact(*points(solved(equations, np.zeros(2))))


def rim_on_face(a: Solid, b: Solid) -> Array:
    """Rim of a tilted cylinder (first) on the upper face of a box."""
    up, axis = b[1][:, 2], a[1][:, 2]
    axis = axis if axis @ up > 0.0 else -axis
    lowest = a[0] - a[2][1] * axis - a[2][0] * unit(up - (up @ axis) * axis)
    height = up @ (lowest - b[0]) - b[2][2]
    return contact(lowest, lowest - height * up, -up)


def lines(a: Solid, b: Solid, direction: Array, point: Array) -> Array:
    """Lateral surface of a cylinder (first) and a line through a point in a direction, fixed to the second shape."""
    axis = a[1][:, 2]
    normal = unit(np.cross(axis, direction))
    normal = normal if normal @ (b[0] - a[0]) > 0.0 else -normal
    # a + s axis + d normal = point + t direction
    s, t, distance = np.linalg.solve(np.stack([axis, -direction, normal], axis=1), point - a[0])
    del t
    on_axis = a[0] + s * axis
    assert abs(s) < a[2][1]
    return contact(on_axis + a[2][0] * normal, on_axis + distance * normal, normal)


def side_on_edge(a: Solid, b: Solid) -> Array:
    """Lateral surface of a cylinder on the edge of a box at the largest x and z."""
    return lines(a, b, b[1][:, 1], b[0] + b[1] @ (b[2] * [1.0, 0.0, 1.0]))


def ellipsoid_on_corner(corner: Array) -> Oracle:
    """Ellipsoid (first) and a vertex of the second shape, as a sphere without a radius."""

    def oracle(a: Solid, b: Solid) -> Array:
        found = sphere_ellipsoid((b[0] + b[1] @ corner, b[1], np.zeros(3)), a)
        return np.concatenate([found[:4], -found[4:]])

    return oracle


def ellipsoid_on_face(corners: Array) -> Oracle:
    """Ellipsoid (first) and the plane of three vertices of the second shape, counter-clockwise seen from outside."""

    def oracle(a: Solid, b: Solid) -> Array:
        p, q, r = b[0] + corners @ b[1].T
        normal = unit(np.cross(q - p, r - p))
        found = plane_ellipsoid(normal, float(normal @ p), a)
        return np.concatenate([found[:4], -found[4:]])

    return oracle


def sphere_on_plane(normal: Array, offset: float) -> Oracle:
    """Sphere (second) above a plane that is fixed to the first shape."""

    def oracle(a: Solid, b: Solid) -> Array:
        world = a[1] @ normal
        distance = world @ (b[0] - a[0]) - offset
        return contact(b[0] - distance * world, b[0] - b[2][0] * world, world)

    return oracle


def derivative(oracle: Oracle, a: Solid, b: Solid, motion: Array, h: float = 1e-3) -> Array:
    """Derivative of a contact by the time while both shapes move with constant twists (2, 6), by differences.

    Fourth-order central differences, extrapolated. A twist is (linear velocity, angular velocity) in world axes.
    """

    def at(time: float) -> Array:
        return oracle(moved(a, motion[0], time), moved(b, motion[1], time))

    def differences(h: float) -> Array:
        return (8.0 * (at(h) - at(-h)) - (at(2.0 * h) - at(-2.0 * h))) / (12.0 * h)

    return (16.0 * differences(0.5 * h) - differences(h)) / 15.0


def moved(solid: Solid, twist: Array, time: float) -> Solid:
    """A solid after some time of constant linear and angular velocity."""
    angle = np.linalg.norm(twist[3:]) * time
    x, y, z = unit(twist[3:])
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    turn = np.eye(3) + np.sin(angle) * cross + (1.0 - np.cos(angle)) * cross @ cross
    return solid[0] + time * twist[:3], turn @ solid[1], solid[2]

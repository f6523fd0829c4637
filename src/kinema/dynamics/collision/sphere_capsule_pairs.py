"""Analytic contacts of a sphere with a sphere, capsule, box, cylinder, cone or ellipsoid, and of two capsules."""

from __future__ import annotations

from collections.abc import Sequence

from kinema import ir
from kinema.ir import Tracer, Value

from ..vector_math import Vector, add, cross, dot, rotate, rotate_inverse, scale, sub
from .collision_types import CollisionGeom, ContactQuery
from .vector_math import (
    MIN_LENGTH,
    X_AXIS,
    Z_AXIS,
    column,
    norm,
    normalize_with_length,
    normalized_cross,
    point_along,
    select_vector,
    sign,
)

# ---------------------------------------------------------------------------------------------------- sphere and sphere


def fallback_normal(geom: CollisionGeom) -> Vector:
    """Contact normal if a sphere's centre is on the axis of a capsule or cylinder: perpendicular to the axis.

    Equals MuJoCo's choice for a sphere without rotation; the rotation of spheres is not computed here.
    """
    return normalized_cross(Z_AXIS, column(geom.rotation, 2))


def emit_sphere_sphere(
    query: ContactQuery, centre_a: Vector, radius_a: Value, centre_b: Vector, radius_b: Value, fallback: Vector
) -> None:
    """Emit the contact of two spheres; its normal is `fallback` if their centres coincide."""
    offset = sub(centre_b, centre_a)
    centre_distance = norm(offset)
    normal = normalize_with_length(offset, centre_distance, fallback)
    distance = centre_distance - radius_a - radius_b
    query.emit_contact(distance, point_along(centre_a, radius_a + 0.5 * distance, normal), normal)


def collide_sphere_sphere(query: ContactQuery, a: CollisionGeom, b: CollisionGeom) -> None:
    """Contact of two spheres, on the line between their centres."""
    emit_sphere_sphere(query, a.position, a.size[0], b.position, b.size[0], X_AXIS)


# ------------------------------------------------------------------------------ sphere and capsule, capsule and capsule

PARALLEL_AXES_SINE_SQUARED = 1e-8
"""Squared sine of the angle below which the axes of two capsules count as parallel, as in MuJoCo."""
MIN_HALF_LENGTH_SQUARED = 1e-15 / 4.0
"""Squared half length [m^2] up to which a capsule counts as a sphere."""


def collide_sphere_capsule(query: ContactQuery, sphere: CollisionGeom, capsule: CollisionGeom) -> None:
    """Contact of a sphere and a capsule: with the sphere at the closest point of the capsule's axis."""
    axis = column(capsule.rotation, 2)
    position = ir.clamp(dot(axis, sub(sphere.position, capsule.position)), -capsule.size[1], capsule.size[1])
    nearest = point_along(capsule.position, position, axis)
    emit_sphere_sphere(query, sphere.position, sphere.size[0], nearest, capsule.size[0], fallback_normal(capsule))


def collide_capsule_capsule(query: ContactQuery, a: CollisionGeom, b: CollisionGeom) -> None:
    """Contacts of two capsules: spheres at the closest points of their axes.

    One contact, or two contacts at both ends of the overlap for parallel axes. Emitted through `query.emit_contact`.
    """
    tracer = query.tracer
    axis_a, axis_b = column(a.rotation, 2), column(b.rotation, 2)
    segments = _SegmentPair(axis_a, axis_b, sub(a.position, b.position), a.size[1], b.size[1])
    nearest, second, has_second = segments.closest_points()
    positions = tracer.allocate_local(5)
    tracer.write(positions, [*nearest, *second, has_second])
    fallback = normalized_cross(axis_a, axis_b)

    def emit_pair(index: Value) -> None:
        position_a, position_b = (tracer.read(positions, i, 2.0 * index) for i in range(2))
        point_a, point_b = point_along(a.position, position_a, axis_a), point_along(b.position, position_b, axis_b)
        emit_sphere_sphere(query, point_a, a.size[0], point_b, b.size[0], fallback)

    tracer.counted_loop("closest points", 1.0 + has_second, emit_pair, max_iterations=2)


class _SegmentPair:
    """Two line segments, each given by unit direction and half length about a midpoint.

    `offset` is the vector from the midpoint of the second segment to that of the first.
    """

    def __init__(
        self, direction_a: Vector, direction_b: Vector, offset: Vector, half_length_a: Value, half_length_b: Value
    ) -> None:
        self.direction_a, self.direction_b, self.offset = direction_a, direction_b, offset
        self.half_length_a, self.half_length_b = half_length_a, half_length_b
        self.cosine = dot(direction_a, direction_b)
        self.offset_along_a, self.offset_along_b = dot(direction_a, offset), dot(direction_b, offset)

    def closest_points(self) -> tuple[list[Value], list[Value], Value]:
        """Closest points of the two segments, and the second pair of closest points for parallel segments.

        Returns:
            Positions [m] on the first and second segment of the closest points; positions of a second pair of points; 1
            if the segments are parallel and the second pair is a contact, otherwise 0.
        """
        normal = cross(self.direction_a, self.direction_b)
        sine_squared = dot(normal, normal)
        crossing = dot(normal, cross(self.direction_b, self.offset)) / ir.maximum(
            sine_squared, PARALLEL_AXES_SINE_SQUARED
        )
        min_half_length_squared = ir.minimum(
            self.half_length_a * self.half_length_a, self.half_length_b * self.half_length_b
        )
        # a segment without length has no direction
        is_parallel = ir.select(
            MIN_HALF_LENGTH_SQUARED,
            min_half_length_squared,
            ir.select(PARALLEL_AXES_SINE_SQUARED, sine_squared, 0.0, 1.0),
            0.0,
        )
        start = ir.clamp(
            ir.select(0.5, is_parallel, -self.half_length_a, crossing), -self.half_length_a, self.half_length_a
        )
        return self._project_back_and_forth(start), self._project_back_and_forth(self.half_length_a), is_parallel

    def _project_back_and_forth(self, position_on_a: Value) -> list[Value]:
        """Project a position on the first segment to the second, and back if it is clamped at an end of the second.

        Returns:
            Positions [m] on the first and the second segment.
        """
        unclamped = self.cosine * position_on_a + self.offset_along_b
        position_b = ir.clamp(unclamped, -self.half_length_b, self.half_length_b)
        moved = ir.clamp(self.cosine * position_b - self.offset_along_a, -self.half_length_a, self.half_length_a)
        return [ir.select(self.half_length_b, ir.absolute(unclamped), moved, position_on_a), position_b]


# ------------------------------------------------------------------------------------------------------- sphere and box

INWARD_FACE_NORMALS: tuple[Vector, ...] = tuple(
    tuple(-side if i == k else 0.0 for k in range(3)) for i in range(3) for side in (-1.0, 1.0)
)
"""Inward unit normals of the six faces of a box."""


def collide_sphere_box(query: ContactQuery, sphere: CollisionGeom, box: CollisionGeom) -> None:
    """Contact of a sphere and a box, at the closest point of the box or, for a centre inside, of the nearest face."""
    emit_sphere_box(query, rotate_inverse(box.rotation, sub(sphere.position, box.position)), sphere.size[0], box)


def emit_sphere_box(query: ContactQuery, local_centre: Vector, radius: Value, box: CollisionGeom) -> None:
    """Emit the contact of a sphere and a box, with the sphere's centre given in the axes of the box.

    The normal points from the sphere to the closest point of the box; if the centre is inside the box, through the
    nearest face.
    """
    nearest = [ir.clamp(x, -half, half) for x, half in zip(local_centre, box.size, strict=True)]
    offset = sub(nearest, local_centre)
    centre_distance = norm(offset)
    depth, inward_normal = _nearest_box_face(local_centre, box.size)
    direction = normalize_with_length(offset, centre_distance, inward_normal)
    gap = ir.select(centre_distance, MIN_LENGTH, -depth, centre_distance) - radius
    point = point_along(local_centre, radius + 0.5 * gap, direction)
    query.emit_contact(gap, add(box.position, rotate(box.rotation, point)), rotate(box.rotation, direction))


def _nearest_box_face(local_centre: Vector, half_extents: Vector) -> tuple[Value, Vector]:
    """Depth [m] of a point inside a box below the nearest face, and the inward normal of this face."""
    depths = [half_extents[i // 2] + (local_centre[i // 2] if i % 2 == 0 else -local_centre[i // 2]) for i in range(6)]
    min_depth, inward_normal = depths[0], INWARD_FACE_NORMALS[0]
    for depth, face_normal in zip(depths[1:], INWARD_FACE_NORMALS[1:], strict=True):
        inward_normal = select_vector(depth, min_depth, face_normal, inward_normal)
        min_depth = ir.minimum(min_depth, depth)
    return min_depth, scale(1.0, inward_normal)


# -------------------------------------------------------------------------------------------------- sphere and cylinder


def collide_sphere_cylinder(query: ContactQuery, sphere: CollisionGeom, cylinder: CollisionGeom) -> None:
    """Contact of a sphere and a cylinder, at the closest point of its lateral surface, cap or rim.

    For a centre inside the cylinder, the closer of lateral surface and cap. Computed in the axes of the cylinder, where
    the cap's normal is exact.
    """
    radius, half_length = cylinder.size[0], cylinder.size[1]
    x, y, z = rotate_inverse(cylinder.rotation, sub(sphere.position, cylinder.position))
    radial_distance = norm([x, y])
    side_distance, cap_distance = radial_distance - radius, ir.absolute(z) - half_length
    fallback_outward = rotate_inverse(cylinder.rotation, scale(-1.0, fallback_normal(cylinder)))
    radial_direction = normalize_with_length([x, y, 0.0], radial_distance, fallback_outward)
    cap_normal = [0.0, 0.0, sign(z)]
    rim_vector = add(scale(side_distance, radial_direction), scale(cap_distance, cap_normal))
    rim_distance = norm(rim_vector)
    rim_direction = normalize_with_length(rim_vector, rim_distance, fallback_outward)
    # the rim is closest beyond both surfaces, otherwise the surface with the larger signed distance
    nearer_surface = select_vector(
        side_distance, cap_distance, [*cap_normal, cap_distance], [*radial_direction, side_distance]
    )
    min_distance = ir.minimum(side_distance, cap_distance)
    *outward, distance = select_vector(min_distance, 0.0, nearer_surface, [*rim_direction, rim_distance])
    gap = distance - sphere.size[0]
    normal = scale(-1.0, rotate(cylinder.rotation, outward))
    query.emit_contact(gap, point_along(sphere.position, sphere.size[0] + 0.5 * gap, normal), normal)


# ------------------------------------------------------------------------------------------------------ sphere and cone


def collide_sphere_cone(query: ContactQuery, sphere: CollisionGeom, cone: CollisionGeom) -> None:
    """Contact of a sphere and a cone, at the closest point of its base or lateral surface.

    Computed in the half plane through the cone's axis and the sphere's centre, with coordinates (radius, z).
    """
    radius, half_height = cone.size[0], cone.size[1]
    x, y, z = rotate_inverse(cone.rotation, sub(sphere.position, cone.position))
    radial_distance = norm([x, y])
    radial_direction = normalize_with_length([x, y], radial_distance, (1.0, 0.0))
    position = [radial_distance, z]
    on_base = [ir.minimum(radial_distance, radius), -half_height]
    side_vector = [-radius, 2.0 * half_height]
    side_length = ir.maximum(norm(side_vector), MIN_LENGTH)
    fraction = ir.clamp(
        dot([radial_distance - radius, z + half_height], side_vector) / (side_length * side_length), 0.0, 1.0
    )
    on_side = [radius + fraction * side_vector[0], -half_height + fraction * side_vector[1]]
    side_normal = normalize_with_length([2.0 * half_height, radius], norm(side_vector), (1.0, 0.0))
    offsets = [sub(position, surface_point) for surface_point in (on_base, on_side)]
    distances = [norm(vector) for vector in offsets]
    *offset, normal_radial, normal_axial, distance = select_vector(
        distances[0], distances[1], [*offsets[0], 0.0, -1.0, distances[0]], [*offsets[1], *side_normal, distances[1]]
    )
    base_distance, side_distance = z + half_height, dot(side_normal, [radial_distance - radius, z + half_height])
    is_inside = ir.select(base_distance, 0.0, 0.0, ir.select(side_distance, 0.0, 1.0, 0.0))
    direction = normalize_with_length(offset, distance, [normal_radial, normal_axial])
    outward = select_vector(0.5, is_inside, [normal_radial, normal_axial], direction)
    gap = ir.select(0.5, is_inside, -distance, distance) - sphere.size[0]
    normal = scale(
        -1.0, rotate(cone.rotation, [outward[0] * radial_direction[0], outward[0] * radial_direction[1], outward[1]])
    )
    query.emit_contact(gap, point_along(sphere.position, sphere.size[0] + 0.5 * gap, normal), normal)


# ------------------------------------------------------------------------------------------------- sphere and ellipsoid

MIN_AXIS_RATIO = 1e-6
"""Lower bound of the semi-axes, relative to the largest."""
MIN_POSITIVE = 1e-15
MIN_RELATIVE_COORDINATE = 1e-12
"""Lower bound of the absolute coordinates of the point, relative to the semi-axes."""
NEWTON_MAX_ITERATIONS, NEWTON_TOLERANCE = 40, 1e-8
"""Iteration limit, and relative step length at which Newton's method ends; the next step would be its square."""


def collide_sphere_ellipsoid(query: ContactQuery, sphere: CollisionGeom, ellipsoid: CollisionGeom) -> None:
    """Contact of a sphere and an ellipsoid, at the point of the ellipsoid's surface closest to the sphere's centre.

    Works for a centre outside and inside the ellipsoid. The closest point is found by Newton's method.
    """
    centre = rotate_inverse(ellipsoid.rotation, sub(sphere.position, ellipsoid.position))
    largest = ir.maximum(ir.maximum(*ellipsoid.size[:2]), ellipsoid.size[2])
    semi_axes = [ir.maximum(ir.maximum(x, MIN_AXIS_RATIO * largest), MIN_POSITIVE) for x in ellipsoid.size]
    signs = [ir.select(x, 0.0, -1.0, 1.0) for x in centre]
    absolute_centre = [ir.absolute(ir.without_derivative(x)) for x in centre]
    unit_coordinates = _nearest_point_on_ellipsoid(query.tracer, absolute_centre, semi_axes)
    if query.tracer.differentiable:
        carriers = _differentiable_coordinates(unit_coordinates, centre, signs, semi_axes)
        unit_coordinates = [ir.attach(x, carrier) for x, carrier in zip(unit_coordinates, carriers, strict=True)]
    nearest = [
        sign * semi_axis * coordinate
        for sign, semi_axis, coordinate in zip(signs, semi_axes, unit_coordinates, strict=True)
    ]
    min_semi_axis = ir.minimum(ir.minimum(*semi_axes[:2]), semi_axes[2])
    outward = [
        sign * coordinate * (min_semi_axis / semi_axis)
        for sign, semi_axis, coordinate in zip(signs, semi_axes, unit_coordinates, strict=True)
    ]
    outward = scale(1.0 / ir.sqrt(dot(outward, outward)), outward)
    gap = dot(sub(centre, nearest), outward) - sphere.size[0]
    normal = scale(-1.0, rotate(ellipsoid.rotation, outward))
    query.emit_contact(gap, point_along(sphere.position, sphere.size[0] + 0.5 * gap, normal), normal)


def _nearest_point_on_ellipsoid(tracer: Tracer, point: Vector, half_axes: Vector) -> list[Value]:
    """Closest point of an ellipsoid's surface to a point, in units of the semi-axes (a unit vector), by Newton.

    The closest point x satisfies y = x + t x / e^2 per coordinate for a scalar t, where y is the given point and e the
    semi-axes. With u = 1 + t / e_min^2, x / e = r (y / e) / (u + r - 1), where r = (e / e_min)^2, and u > 0 is the root
    for which this vector has the length one. The inverse length is nearly linear in u, with curvature of one sign, so
    that Newton's method from below does not overshoot.

    Args:
        tracer: tracer.
        point: absolute coordinates of the point in the axes of the ellipsoid [m].
        half_axes: semi-axes [m].
    """
    min_semi_axis = ir.minimum(ir.minimum(*half_axes[:2]), half_axes[2])
    relative_point = [ir.maximum(y / e, MIN_RELATIVE_COORDINATE) for y, e in zip(point, half_axes, strict=True)]
    ratios = [(e / min_semi_axis) * (e / min_semi_axis) for e in half_axes]
    ratios_minus_one = [
        ((e - min_semi_axis) / min_semi_axis) * ((e + min_semi_axis) / min_semi_axis) for e in half_axes
    ]
    numerators = [r * z for r, z in zip(ratios, relative_point, strict=True)]
    start: Value = MIN_POSITIVE
    for numerator, ratio_minus_one in zip(numerators, ratios_minus_one, strict=True):
        start = ir.maximum(start, numerator - ratio_minus_one)  # this component alone has length one

    def unit_vector(u: Value) -> list[Value]:
        return [
            numerator / (u + ratio_minus_one)
            for numerator, ratio_minus_one in zip(numerators, ratios_minus_one, strict=True)
        ]

    def step(state: Sequence[Value]) -> tuple[list[Value], Value, Value]:
        (u,) = state
        vector = unit_vector(u)
        squared = dot(vector, vector)
        derivative = dot(
            vector,
            [
                component / (u + ratio_minus_one)
                for component, ratio_minus_one in zip(vector, ratios_minus_one, strict=True)
            ],
        )
        increment = ir.maximum(squared * (ir.sqrt(squared) - 1.0) / ir.maximum(derivative, MIN_POSITIVE), 0.0)
        return [u + increment], NEWTON_TOLERANCE * u, increment

    (u,) = tracer.while_loop("closest point on ellipsoid", step, [start], NEWTON_MAX_ITERATIONS)
    vector = unit_vector(u)
    return [x / ir.sqrt(dot(vector, vector)) for x in vector]


def _differentiable_coordinates(coordinates: Vector, point: Vector, signs: Vector, half_axes: Vector) -> list[Value]:
    """Coordinates of the closest point of an ellipsoid with their derivatives, by implicit differentiation.

    The closest point x satisfies y = x + t x / e^2 and |x / e| = 1. With the shift t of the solution c = x / e, the
    first equation gives the derivative of x for constant t, and the second equation that of t. The coordinates are
    absolute, but differentiable also where they are zero.

    Args:
        coordinates: solution, absolute coordinates in units of the semi-axes.
        point: the point in the axes of the ellipsoid [m].
        signs: signs of the coordinates.
        half_axes: semi-axes [m].
    """
    solution = [ir.detach(x) for x in coordinates]
    # t from the coordinate that is largest: t / e^2 = |y| / x - 1
    largest, shift = -1.0, 0.0
    for x, y, e in zip(solution, point, half_axes, strict=True):
        shift = ir.select(largest, x, e * (ir.absolute(ir.detach(y)) - e * x) / ir.maximum(x, 0.5), shift)
        largest = ir.maximum(largest, x)
    inverses = [1.0 / ir.maximum(e + ir.detach(shift) / e, MIN_RELATIVE_COORDINATE * e) for e in half_axes]
    at_constant_shift = [s * y * inverse for s, y, inverse in zip(signs, point, inverses, strict=True)]
    slopes = [x * inverse / e for x, inverse, e in zip(solution, inverses, half_axes, strict=True)]
    change = (dot(solution, at_constant_shift) - 1.0) / ir.detach(dot(solution, slopes))
    return [x - slope * change for x, slope in zip(at_constant_shift, slopes, strict=True)]

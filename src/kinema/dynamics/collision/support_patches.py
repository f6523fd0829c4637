"""Second-order local geometry of convex cores: support point, curvature and flat directions of the surface around it.

Directions n and points a of a convex body satisfy the optimality conditions of a support point exactly if a is the
point of the body closest to a + c n, for any c > 0. The closest point therefore tells on which vertex, edge, face or
curved part of the surface a contact is, also if direction and point are known only approximately (the rule of
primal-dual active-set methods).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kinema import ir
from kinema.ir import Tracer, Value

from ..vector_math import ZERO, Matrix, Vector, add, dot, matrix_scale, outer, scale, sub
from .gjk import FAR_DISTANCE, MinkowskiDifference, gjk_distance
from .vector_math import TINY, less_than, machine_epsilon, norm, normalize_or_fallback, select_vector, sign

NO_CURVATURE: Matrix = (ZERO, ZERO, ZERO)
MIN_WEIGHT = 1e-9
"""Barycentric coordinate above which a vertex of a simplex belongs to the feature that contains a point."""


@dataclass(frozen=True, slots=True)
class SupportPatch:
    """Surface of a convex core around a support point, in the axes of the geom."""

    point: Vector
    """The support point [m]."""
    curvature: Matrix
    """Derivative of the support point by the direction [m]; directions of edges and vertices have none."""
    flats: Sequence[Vector]
    """Unit vectors of the straight lines of the surface through the point, to which the direction is perpendicular:
    along an edge, or in a face. Zero vectors do not count."""


FindPatch = Callable[[Vector, Vector], SupportPatch]
"""Finds the patch of a core for a unit direction and a point, both in the axes of the geom and possibly approximate.
The point of the patch is the exact support point, except for its position along the flat directions."""


def point_patch(direction: Vector, point: Vector) -> SupportPatch:
    """Patch of a single point, the origin."""
    del direction, point
    return SupportPatch(ZERO, NO_CURVATURE, ())


def segment_patch(half_length: Value, direction: Vector, point: Vector) -> SupportPatch:
    """Patch of a segment of the z axis: its line, or an end point."""
    z, is_line = _interval(point[2], direction[2], half_length, half_length)
    return SupportPatch([0.0, 0.0, z], NO_CURVATURE, ([0.0, 0.0, is_line],))


def box_patch(half_extents: Vector, direction: Vector, point: Vector) -> SupportPatch:
    """Patch of a box: a face, an edge or a corner."""
    reach = ir.maximum(half_extents[0], ir.maximum(half_extents[1], half_extents[2]))
    coordinates, flats = [], []
    for i, half in enumerate(half_extents):
        coordinate, is_flat = _interval(point[i], direction[i], half, reach)
        coordinates.append(coordinate)
        flats.append([is_flat if k == i else 0.0 for k in range(3)])
    return SupportPatch(coordinates, NO_CURVATURE, flats)


def ellipsoid_patch(semi_axes: Vector, direction: Vector, point: Vector) -> SupportPatch:
    """Patch of an ellipsoid (semi-axes e): support point s = e^2 n / |e n|, with derivative (e^2 - s s^T) / |e n|."""
    del point
    scaled = [semi_axis * component for semi_axis, component in zip(semi_axes, direction, strict=True)]
    inverse = 1.0 / ir.maximum(norm(scaled), TINY)
    support = [semi_axis * component * inverse for semi_axis, component in zip(semi_axes, scaled, strict=True)]
    product = outer(support, support)
    curvature = [
        [inverse * ((semi_axes[i] * semi_axes[i] if i == j else 0.0) - product[i][j]) for j in range(3)]
        for i in range(3)
    ]
    return SupportPatch(support, curvature, ())


def cylinder_patch(size: Vector, direction: Vector, point: Vector) -> SupportPatch:
    """Patch of a cylinder (radius and half length) about the z axis: a cap, a rim, or a line of its lateral surface."""
    radius, half_length = size[0], size[1]
    reach = ir.maximum(radius, half_length)
    z, is_line = _interval(point[2], direction[2], half_length, reach)
    shifted = add(point[:2], scale(reach, direction[:2]))
    is_cap = less_than(norm(shifted), radius)
    x, y = select_vector(0.5, is_cap, point[:2], scale(radius, _radial_unit(direction, shifted)))
    flats = ([is_cap, 0.0, 0.0], [0.0, is_cap, 0.0], [0.0, 0.0, is_line])
    return SupportPatch([x, y, z], _circle_curvature((1.0 - is_cap) * radius, direction), flats)


def cone_patch(size: Vector, direction: Vector, point: Vector) -> SupportPatch:
    """Patch of a cone (radius and half height) about the z axis: base, rim, a line of its lateral surface, or apex."""
    radius, half_height = size[0], size[1]
    reach = ir.maximum(radius, half_height)
    shifted = add(point, scale(reach, direction))
    distance = norm(shifted[:2])
    is_base = less_than(distance, radius) * less_than(shifted[2], -half_height)
    # position on the line from the rim (0) to the apex (1) in the half plane of the shifted point
    line = [-radius, 2.0 * half_height]
    inverse_squared = 1.0 / ir.maximum(dot(line, line), TINY)
    position = inverse_squared * dot(line, [distance - radius, shifted[2] + half_height])
    is_line = (1.0 - is_base) * less_than(0.0, position) * less_than(position, 1.0)
    on_line = inverse_squared * dot(line, [norm(point[:2]) - radius, point[2] + half_height])
    position = ir.select(0.5, is_line, on_line, ir.select(position, 0.5, 0.0, 1.0))
    rho, z = radius + position * line[0], -half_height + position * line[1]
    radial = _radial_unit(direction, shifted)
    support = select_vector(0.5, is_base, [*point[:2], -half_height], [rho * radial[0], rho * radial[1], z])
    along = scale(is_line * ir.sqrt(inverse_squared), [line[0] * radial[0], line[0] * radial[1], line[1]])
    curvature = _circle_curvature((1.0 - is_base) * rho, direction)
    return SupportPatch(support, curvature, ([is_base, 0.0, 0.0], [0.0, is_base, 0.0], along))


def polytope_patch(
    tracer: Tracer, support: Callable[[Vector], Vector], bounding_radius: Value, direction: Vector, point: Vector
) -> SupportPatch:
    """Patch of a convex polytope given by its support mapping: a face, an edge or a vertex, found by GJK.

    The closest point of the polytope to a point outside is a combination of one to three vertices; the directions
    between these are flat.
    """
    inverse = 1.0 / ir.maximum(bounding_radius, TINY)
    viewpoint = add(scale(inverse, point), direction)

    def relative_support(direction: Vector) -> list[Value]:
        vertex = scale(inverse, support(direction))
        return [*sub(vertex, viewpoint), *vertex]

    difference = MinkowskiDifference(tracer, relative_support, machine_epsilon(*viewpoint))
    result = gjk_distance(difference, direction, FAR_DISTANCE)
    vertices, weights = [p[3:] for p in result.simplex], result.barycentric
    flats = []
    for i, j in ((0, 1), (0, 2), (1, 2)):
        is_flat = less_than(MIN_WEIGHT, ir.minimum(weights[i], weights[j]))
        flats.append(scale(is_flat, normalize_or_fallback(sub(vertices[j], vertices[i]))))
    return SupportPatch(scale(bounding_radius, result.separation.point), NO_CURVATURE, flats)


def _interval(coordinate: Value, component: Value, half: Value, reach: Value) -> tuple[Value, Value]:
    """Coordinate of a support point in an interval [-half, half], and 1 if it is inside the interval, else 0.

    `component` is that of the direction, `reach` the length by which the point is moved along the direction.
    """
    shifted = coordinate + reach * component
    is_inside = less_than(ir.absolute(shifted), half)
    return ir.select(0.5, is_inside, coordinate, sign(shifted) * half), is_inside


def _radial_unit(direction: Vector, fallback: Vector) -> Vector:
    """Unit vector (2) of the part of a direction perpendicular to the z axis; of `fallback` if it is zero."""
    return normalize_or_fallback([*direction[:2], 0.0], normalize_or_fallback([*fallback[:2], 0.0]))[:2]


def _circle_curvature(radius: Value, direction: Vector) -> Matrix:
    """Derivative of the support point of a circle about the z axis by the direction."""
    x, y = direction[:2]
    squared = ir.maximum(x * x + y * y, TINY)
    tangent = [-y, x, 0.0]
    return matrix_scale(radius / (squared * ir.sqrt(squared)), outer(tangent, tangent))

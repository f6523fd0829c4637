"""Local minimization of the penetration depth over directions, for smooth Minkowski differences.

The depth along a unit direction n is the support value h(n) of the Minkowski difference. Its gradient on the unit
sphere is the tangential part of the support point. Two methods: BFGS descent, which needs few iterations also for
strongly anisotropic curvature (thin ellipsoids), and projection of an exterior point.

The projection method places a point outside the surface along the current direction and finds the closest point of the
Minkowski difference by GJK; the direction between both is a better direction. With depth u, radius of curvature R and
an exterior point at the distance u, the directional error is multiplied by 2 u / (R + u) per iteration, and faces are
found at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kinema import ir
from kinema.ir import Value

from ..vector_math import ZERO, Matrix, Vector, dot, rotate, scale, sub
from .gjk import MinkowskiDifference, SimplexFeature, SupportPoint, nearest_simplex_feature
from .vector_math import TINY, less_than, normalize_or_fallback, select_vector

# --------------------------------------------------------------------------------------------------------- BFGS descent

BFGS_MAX_ITERATIONS = 80
STEP_SHRINK, STEP_GROWTH = 0.3, 3.0
"""Factors of the step length after a step without and with improvement."""
MAX_STEP_SCALE = 1e4
"""Maximum step length relative to the quasi-Newton step, which is too short along a valley with steep sides."""
MAX_STEP_ANGLE = 0.5
"""Approximate maximum angle of one step [rad]."""
MIN_CURVATURE_RATIO = 1e-3
"""Minimum of s.y / (|s| |y|) (step s, gradient change y) for which the inverse Hessian is updated."""


def minimize_depth_by_bfgs(
    difference: MinkowskiDifference, direction: Vector, edge: Vector, tolerance: Value
) -> tuple[Vector, Value]:
    """Local minimum of the penetration depth over unit directions by BFGS descent.

    With an edge of the Minkowski difference, directions are restricted to the plane perpendicular to the edge, because
    the depth has a kink there.

    Args:
        difference: Minkowski difference of the shapes.
        direction: initial unit direction.
        edge: unit vector of an edge, or zero.
        tolerance: absolute tolerance of the depth.

    Returns:
        The direction, and the depth (support value) along it.
    """

    def project(vector: Vector) -> Vector:
        return sub(vector, scale(dot(edge, vector), edge))

    direction = normalize_or_fallback(project(direction), direction)
    start = difference.support(direction)[:3]
    depth = dot(start, direction)

    def step(flat: Sequence[Value]) -> tuple[list[Value], Value, Value]:
        old_direction, old_depth, point, step_scale, inverse_hessian = flat[:3], flat[3], flat[4:7], flat[7], flat[8:14]
        gradient = project(sub(point, scale(old_depth, old_direction)))
        newton_step = rotate(_symmetric_matrix(inverse_hessian), gradient)
        step_length = ir.sqrt(ir.maximum(dot(newton_step, newton_step), TINY))
        scaled_step = scale(step_scale * ir.minimum(1.0, MAX_STEP_ANGLE / step_length), newton_step)
        new_direction = normalize_or_fallback(sub(old_direction, scaled_step), old_direction)
        support_point = difference.support(new_direction)[:3]
        depth = dot(support_point, new_direction)
        new_inverse_hessian = _update_inverse_hessian(
            inverse_hessian,
            sub(new_direction, old_direction),
            sub(project(sub(support_point, scale(depth, new_direction))), gradient),
        )
        is_better = less_than(depth, old_depth)
        kept = select_vector(
            0.5, is_better, [*new_direction, depth, *support_point], [*old_direction, old_depth, *point]
        )
        step_scale = ir.minimum(step_scale * ir.select(0.5, is_better, STEP_GROWTH, STEP_SHRINK), MAX_STEP_SCALE)
        return [*kept, step_scale, *new_inverse_hessian], 0.01 * tolerance, step_scale * dot(gradient, newton_step)

    inverse = 1.0 / ir.maximum(ir.absolute(depth) + ir.sqrt(dot(start, start)), TINY)
    state = [*direction, depth, *start, 1.0, inverse, inverse, inverse, 0.0, 0.0, 0.0]
    end = difference.tracer.while_loop("slide", step, state, BFGS_MAX_ITERATIONS)
    return end[:3], end[3]


def _symmetric_matrix(elements: Sequence[Value]) -> Matrix:
    """Symmetric 3x3 matrix from its elements xx, yy, zz, yz, xz, xy."""
    xx, yy, zz, yz, xz, xy = elements
    return [[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]


def _update_inverse_hessian(inverse_hessian: Sequence[Value], step: Vector, gradient_change: Vector) -> list[Value]:
    """BFGS update of the inverse Hessian, a symmetric 3x3 matrix as 6 elements (xx, yy, zz, yz, xz, xy).

    Returns the old elements if the curvature along the step is not sufficiently positive.
    """
    curvature = dot(step, gradient_change)
    min_curvature = MIN_CURVATURE_RATIO * ir.sqrt(
        ir.maximum(dot(step, step) * dot(gradient_change, gradient_change), TINY * TINY)
    )
    inverse_curvature = 1.0 / ir.maximum(curvature, ir.maximum(min_curvature, TINY))
    predicted = rotate(_symmetric_matrix(inverse_hessian), gradient_change)
    factor = inverse_curvature * (1.0 + inverse_curvature * dot(gradient_change, predicted))
    new = []
    for k, (i, j) in enumerate(((0, 0), (1, 1), (2, 2), (1, 2), (0, 2), (0, 1))):
        cross = predicted[i] * step[j] + step[i] * predicted[j]
        new.append(inverse_hessian[k] + factor * step[i] * step[j] - inverse_curvature * cross)
    return select_vector(ir.maximum(min_curvature, TINY), curvature, new, inverse_hessian)


# -------------------------------------------------------------------------------------- projection of an exterior point

PROJECTION_MAX_ITERATIONS = 40
"""Maximum number of iterations. Half of all cases need 10 to 15, one percent 30."""
PROJECTION_TOLERANCE = 1e-10
"""Convergence tolerance of the distance, in addition to rounding errors."""
MAX_STALLED_PROJECTIONS = 12
"""Maximum number of consecutive iterations without improvement."""
MIN_EXTERIOR_OFFSET = 0.05
"""Minimum distance of the exterior point from the surface; the direction is inaccurate for smaller distances."""
SAME_DIRECTION_ANGLE = 1e-3
"""Angle below which two directions count as equal [rad]; the error of the depth is about its square."""
MIN_BARYCENTRIC, MIN_EDGE_LENGTH = 1e-3, 0.03
"""Minimum barycentric coordinate and distance of two simplex points that are the ends of an edge, not points of a
curved surface."""


@dataclass(frozen=True, slots=True)
class LocalDepthMinimum:
    """Local minimum of the penetration depth over directions."""

    direction: Vector
    """Unit direction of the minimum."""
    depth: Value
    """Depth: support value of the Minkowski difference along the direction."""
    point: SupportPoint
    """Support point of the Minkowski difference closest to the origin."""
    converged: Value
    """1 if the direction to the exterior point agrees with the minimum's direction."""
    edge: Vector
    """Unit vector of an edge of the Minkowski difference that contains the point; zero without an edge."""

    def flatten(self) -> list[Value]:
        """All fields as a list of 14 scalars."""
        return [*self.direction, self.depth, *self.point, self.converged, *self.edge]

    @classmethod
    def unflatten(cls, values: Sequence[Value]) -> LocalDepthMinimum:
        """Local minimum from a list of 14 scalars."""
        return cls(values[:3], values[3], values[4:10], values[10], values[11:14])


def minimize_depth_by_projection(
    difference: MinkowskiDifference, direction: Vector, initial_simplex: Sequence[SupportPoint]
) -> LocalDepthMinimum:
    """Local minimum of the penetration depth near a unit direction, by GJK projection of an exterior point.

    Each iteration computes a support point along the current direction and the feature of the simplex (three support
    points and the new point) closest to a point outside the surface; the vector between both is the next direction, and
    the exterior point is moved along the best direction found.
    """
    depth = dot(difference.support(direction)[:3], direction)
    tolerance = difference.epsilon + PROJECTION_TOLERANCE

    def step(flat: Sequence[Value]) -> tuple[list[Value], Value, Value]:
        best_direction, min_depth, direction_back, distance, n_stalled = flat[:3], flat[3], flat[4:7], flat[7], flat[8]
        points = [flat[i : i + 6] for i in (9, 15, 21)]
        new_point = difference.support(direction_back)
        depth = dot(new_point[:3], direction_back)
        is_converged = less_than(
            distance - dot(direction_back, sub(_exterior_point(best_direction, min_depth), new_point[:3])), tolerance
        )
        is_better = less_than(depth, min_depth - 0.25 * tolerance)
        best_direction, min_depth = (
            select_vector(depth, min_depth, direction_back, best_direction),
            ir.minimum(min_depth, depth),
        )
        feature = _nearest_feature_from(
            difference, _exterior_point(best_direction, min_depth), new_point, points, direction_back
        )
        n_stalled = ir.select(0.5, is_better, 0.0, n_stalled + 1.0 + float(MAX_STALLED_PROJECTIONS) * is_converged)
        simplex = [x for p in feature.points for x in p[3:]]
        return (
            [
                *best_direction,
                min_depth,
                *feature.direction,
                feature.distance,
                n_stalled,
                *simplex,
                *feature.barycentric,
            ],
            n_stalled,
            MAX_STALLED_PROJECTIONS - 0.5,
        )

    start = [
        *direction,
        depth,
        *direction,
        1.0 / tolerance,
        0.0,
        *(x for p in initial_simplex for x in p),
        1.0,
        0.0,
        0.0,
    ]
    end = difference.tracer.while_loop("settle", step, start, PROJECTION_MAX_ITERATIONS)
    best_direction, direction_back, barycentric = end[:3], end[4:7], end[27:30]
    point = [dot(barycentric, [end[i + k] for i in (9, 15, 21)]) for k in range(6)]
    difference_of_directions = sub(best_direction, direction_back)
    edge = _supporting_edge([end[i : i + 3] for i in (9, 15, 21)], barycentric)
    return LocalDepthMinimum(
        best_direction,
        end[3],
        point,
        less_than(dot(difference_of_directions, difference_of_directions), SAME_DIRECTION_ANGLE * SAME_DIRECTION_ANGLE),
        edge,
    )


def _supporting_edge(points: Sequence[Vector], barycentric: Sequence[Value]) -> Vector:
    """Unit vector between the two most distant simplex points that contribute to the closest point.

    Zero if the points are too close to be the ends of an edge.
    """
    longest: Vector = ZERO
    for i, j in ((0, 1), (0, 2), (1, 2)):
        contributes = less_than(MIN_BARYCENTRIC, ir.minimum(barycentric[i], barycentric[j]))
        edge = scale(contributes, sub(points[i], points[j]))
        longest = select_vector(dot(longest, longest), dot(edge, edge), edge, longest)
    return select_vector(dot(longest, longest), MIN_EDGE_LENGTH * MIN_EDGE_LENGTH, ZERO, normalize_or_fallback(longest))


def _exterior_point(direction: Vector, depth: Value) -> Vector:
    """Point outside the Minkowski difference along a direction, at least `MIN_EXTERIOR_OFFSET` beyond its surface."""
    return scale(depth + ir.maximum(depth, MIN_EXTERIOR_OFFSET), direction)


def _nearest_feature_from(
    difference: MinkowskiDifference,
    viewpoint: Vector,
    new_point: SupportPoint,
    points: Sequence[SupportPoint],
    fallback: Vector,
) -> SimplexFeature:
    """Feature of the simplex of a new point and three old points that is closest to a viewpoint.

    The points of the returned feature have 9 components: relative to the viewpoint (3), then the original support point
    (6).

    Args:
        difference: Minkowski difference of the shapes.
        viewpoint: point to which the closest feature is searched.
        new_point: new support point.
        points: three previous support points.
        fallback: direction used if the closest point is the viewpoint itself.
    """
    new_relative, *old_relative = ([*sub(p[:3], viewpoint), *p] for p in (new_point, *points))
    return nearest_simplex_feature(new_relative, old_relative, fallback, 64.0 * difference.epsilon)

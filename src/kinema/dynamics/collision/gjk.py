"""GJK (Gilbert, Johnson and Keerthi): distance and closest points of two convex shapes.

The Minkowski difference of two shapes is the set of all differences of their points; the distance of the shapes is the
distance of this set from the origin. GJK keeps a simplex of at most three support points, whose closest point to the
origin gives the direction of the next support point.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kinema import ir
from kinema.ir import Tracer, Value

from ..vector_math import Vector, add, cross, dot, scale, sub
from .vector_math import TINY, less_than, normalize_or_fallback, select_vector, sign

GJK_MAX_ITERATIONS = 60
"""Maximum number of iterations. Polyhedra need about 10, smooth shapes twice as many, in double precision more."""
GJK_TOLERANCE = 1e-10
"""Convergence tolerance of the distance, in addition to rounding errors."""
MAX_STALLED_ITERATIONS = 4
"""Maximum number of consecutive iterations without progress."""
FAR_DISTANCE = 1e15
"""Stands for an infinite distance."""
SupportPoint = Sequence[Value]
"""Point of the Minkowski difference (3), and the point of the first shape that it is made from (3)."""


@dataclass(frozen=True, slots=True)
class MinkowskiDifference:
    """Minkowski difference a - b of two convex shapes, scaled to a size of about 1."""

    tracer: Tracer
    support: Callable[[Vector], SupportPoint]
    """Support mapping: the farthest point in a direction, with the point of the first shape."""
    epsilon: Value
    """Machine epsilon of the program's precision."""
    is_smooth: bool = False
    """Whether the surface is curved, not a polyhedron."""


@dataclass(frozen=True, slots=True)
class SignedDistance:
    """Signed distance of two convex shapes, with its direction and witness point."""

    direction: Vector
    """Unit vector from the first to the second shape."""
    distance: Value
    """Distance, or negative penetration depth."""
    point: Vector
    """Witness point on the first shape."""

    def flatten(self) -> list[Value]:
        """Direction, distance and point as a list of 7 scalars."""
        return [*self.direction, self.distance, *self.point]


@dataclass(frozen=True, slots=True)
class GjkResult:
    """Result of GJK."""

    separation: SignedDistance
    """Distance and witness point; invalid if the shapes overlap."""
    lower_bound: Value
    """Lower bound of the distance; invalid if the shapes overlap."""
    overlaps: Value
    """1 if the origin is within the Minkowski difference: the shapes overlap."""
    shallowest_direction: Vector
    """Of the directions tried, the direction with the smallest support value of the Minkowski difference (smallest
    penetration depth)."""
    simplex: tuple[SupportPoint, SupportPoint, SupportPoint]
    """Last simplex: three support points."""
    barycentric: Sequence[Value]
    """Barycentric coordinates of the closest point in the last simplex; invalid if the shapes overlap."""

    def flatten(self) -> list[Value]:
        """All fields as a list of 33 scalars."""
        scalars = [*self.separation.flatten(), self.lower_bound, self.overlaps, *self.shallowest_direction]
        return [*scalars, *(x for point in self.simplex for x in point), *self.barycentric]

    @classmethod
    def unflatten(cls, values: Sequence[Value]) -> GjkResult:
        """Result from a list of 33 scalars."""
        separation = SignedDistance(values[:3], values[3], values[4:7])
        simplex = (values[12:18], values[18:24], values[24:30])
        return cls(separation, values[7], values[8], values[9:12], simplex, values[30:33])


@dataclass(frozen=True, slots=True)
class SimplexFeature:
    """Closest feature of a simplex to the origin (vertex, edge or triangle) as three support points, possibly equal."""

    points: tuple[SupportPoint, SupportPoint, SupportPoint]
    barycentric: Sequence[Value]
    """Barycentric coordinates of the closest point."""
    direction: Vector
    """Unit vector from the closest point to the origin."""
    distance: Value
    """Distance of the closest point from the origin."""
    contains_origin: Value
    """1 if the tetrahedron of all four points contains the origin."""


@dataclass(frozen=True, slots=True)
class _GjkState:
    """Loop state of GJK."""

    simplex: tuple[SupportPoint, SupportPoint, SupportPoint]
    """Three support points, possibly equal."""
    barycentric: Sequence[Value]
    """Barycentric coordinates of the point closest to the origin."""
    direction: Vector
    distance: Value
    lower_bound: Value
    """Lower bound of the distance."""
    overlaps: Value
    n_stalled: Value
    """Number of consecutive iterations without measurable progress."""
    shallowest_direction: Vector
    """Of the directions tried, the direction with the smallest support value."""
    shallowest_depth: Value
    """The smallest support value."""

    def flatten(self) -> list[Value]:
        """All fields as a list of 32 scalars, the state of a traced while loop."""
        return [
            *(x for point in self.simplex for x in point),
            *self.barycentric,
            *self.direction,
            self.distance,
            self.lower_bound,
            self.overlaps,
            self.n_stalled,
            *self.shallowest_direction,
            self.shallowest_depth,
        ]

    @classmethod
    def unflatten(cls, values: Sequence[Value]) -> _GjkState:
        """State from a list of 32 scalars."""
        points = (values[0:6], values[6:12], values[12:18])
        distance, lower_bound, overlaps, n_stalled = values[24:28]
        return cls(
            points, values[18:21], values[21:24], distance, lower_bound, overlaps, n_stalled, values[28:31], values[31]
        )


def gjk_distance(difference: MinkowskiDifference, initial_direction: Vector, max_distance: Value) -> GjkResult:
    """Distance and closest points of two convex shapes by GJK on their Minkowski difference, or detection of overlap.

    Iterates until the distance has converged, the origin is found inside the Minkowski difference, no progress is made,
    or the lower bound of the distance exceeds `max_distance`; in the last case only the lower bound is meaningful.
    """
    first = difference.support(normalize_or_fallback(initial_direction))
    closest = first[:3]
    distance = ir.sqrt(dot(closest, closest))
    direction = normalize_or_fallback(scale(-1.0, closest))
    start = _GjkState(
        (first, first, first), (1.0, 0.0, 0.0), direction, distance, -FAR_DISTANCE, 0.0, 0.0, direction, FAR_DISTANCE
    )

    def step(flat: Sequence[Value]) -> tuple[list[Value], Value, Value]:
        return _gjk_iteration(difference, _GjkState.unflatten(flat), max_distance)

    end = _GjkState.unflatten(difference.tracer.while_loop("nearest", step, start.flatten(), GJK_MAX_ITERATIONS))
    point = [dot(end.barycentric, [p[3 + i] for p in end.simplex]) for i in range(3)]
    return GjkResult(
        SignedDistance(end.direction, end.distance, point),
        end.lower_bound,
        end.overlaps,
        end.shallowest_direction,
        end.simplex,
        end.barycentric,
    )


def _gjk_iteration(
    difference: MinkowskiDifference, state: _GjkState, max_distance: Value
) -> tuple[list[Value], Value, Value]:
    """One GJK iteration: a support point in the current direction, then the closest feature of the extended simplex.

    Returns:
        The flattened new state, and two values a and b; iterations continue while a < b.
    """
    new = difference.support(state.direction)
    lower_bound = -dot(new[:3], state.direction)
    tolerance = (4.0 * difference.epsilon + GJK_TOLERANCE) * (1.0 + state.distance)
    feature = nearest_simplex_feature(new, state.simplex, state.direction, 64.0 * difference.epsilon)
    # the state is kept if converged, farther than the maximum distance, or not improved
    done = ir.maximum(less_than(state.distance - lower_bound, tolerance), less_than(max_distance, lower_bound))
    overlaps = (1.0 - done) * less_than(lower_bound, 0.0) * feature.contains_origin
    # an iteration may gain less than rounding errors, and the next one more
    has_progress = less_than(feature.distance, state.distance * (1.0 - difference.epsilon))
    is_worse = less_than(state.distance * (1.0 + 4.0 * difference.epsilon), feature.distance)
    n_stalled = ir.select(0.5, has_progress, 0.0, state.n_stalled + 1.0)
    is_worse = ir.maximum(is_worse, less_than(MAX_STALLED_ITERATIONS - 0.5, n_stalled))
    done = ir.maximum(done, (1.0 - overlaps) * is_worse)
    before = [*(x for p in state.simplex for x in p), *state.barycentric, *state.direction, state.distance]
    after = [*(x for p in feature.points for x in p), *feature.barycentric, *feature.direction, feature.distance]
    values = [*select_vector(0.5, done, before, after), lower_bound, overlaps, n_stalled]
    values += select_vector(
        state.shallowest_depth,
        -lower_bound,
        [*state.shallowest_direction, state.shallowest_depth],
        [*state.direction, -lower_bound],
    )
    is_touching = less_than(feature.distance, 4.0 * difference.epsilon)
    continues = (1.0 - done) * (1.0 - overlaps) * (1.0 - is_touching)
    return values, 0.5, continues


def nearest_simplex_feature(
    new_point: SupportPoint, points: Sequence[SupportPoint], fallback: Vector, min_volume_ratio: Value
) -> SimplexFeature:
    """Feature of the simplex of a new point and three old points that is closest to the origin.

    The feature is an edge or triangle with the new point as a vertex. The origin counts as inside the tetrahedron only
    if the tetrahedron is not flat up to rounding.

    Args:
        new_point: new support point; the closest feature contains it.
        points: three previous support points, possibly equal.
        fallback: direction used if the closest point is the origin itself.
        min_volume_ratio: minimum volume of the tetrahedron, relative to the product of its edge lengths at the new
            point.
    """
    w, olds = new_point[:3], [p[:3] for p in points]
    best = _edge_candidate(w, olds[0], 0)
    for i in (1, 2):
        best = _closer_candidate(best, _edge_candidate(w, olds[i], i))
    contains_origin: Value = 1.0
    min_volume = min_volume_ratio
    for old_point in olds:
        edge = sub(old_point, w)
        min_volume = min_volume * ir.sqrt(dot(edge, edge))
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        candidate, normal, offset = _triangle_candidate(w, olds[i], olds[j], i, j)
        best = _closer_candidate(best, candidate)
        height = dot(normal, sub(olds[k], w))
        contains_origin = contains_origin * less_than(offset * height, 0.0) * less_than(min_volume, ir.absolute(height))
    distance_squared, i, j, *values = best
    chosen = (new_point, _select_point(points, i), _select_point(points, j))
    return SimplexFeature(
        chosen, values[:3], normalize_or_fallback(values[3:], fallback), ir.sqrt(distance_squared), contains_origin
    )


def _select_point(points: Sequence[SupportPoint], index: Value) -> SupportPoint:
    return select_vector(index, 0.5, points[0], select_vector(index, 1.5, points[1], points[2]))


def _closer_candidate(a: Sequence[Value], b: Sequence[Value]) -> list[Value]:
    return [ir.select(b[0], a[0], y, x) for x, y in zip(a, b, strict=True)]


def _edge_candidate(new_vertex: Vector, old_vertex: Vector, old_index: int) -> list[Value]:
    """Closest point to the origin of the edge from a new vertex to an old vertex.

    Returns:
        Squared distance, indices of two old vertices (both `old_index`), barycentric coordinates (3), and the vector
        from the closest point to the origin (3).
    """
    edge = sub(old_vertex, new_vertex)
    fraction = ir.clamp(-dot(new_vertex, edge) / ir.maximum(dot(edge, edge), TINY), 0.0, 1.0)
    closest = add(new_vertex, scale(fraction, edge))
    return [
        dot(closest, closest),
        float(old_index),
        float(old_index),
        1.0 - fraction,
        fraction,
        0.0,
        *scale(-1.0, closest),
    ]


def _triangle_candidate(
    new_vertex: Vector, first_vertex: Vector, second_vertex: Vector, first_index: int, second_index: int
) -> tuple[list[Value], Vector, Value]:
    """Closest point to the origin of the triangle of a new vertex and two old vertices.

    Returns:
        Squared distance (very large if the origin does not project into the triangle or the triangle is degenerate),
        indices of the two old vertices, barycentric coordinates (3) and direction to the origin (3); then the normal
        and the plane offset, both not normalized.
    """
    edge_a, edge_b, origin = sub(first_vertex, new_vertex), sub(second_vertex, new_vertex), scale(-1.0, new_vertex)
    normal = cross(edge_a, edge_b)
    square, offset = dot(normal, normal), dot(normal, new_vertex)
    inverse = 1.0 / ir.maximum(square, TINY)
    barycentric = [dot(normal, cross(origin, edge_b)) * inverse, dot(normal, cross(edge_a, origin)) * inverse]
    first_barycentric = 1.0 - barycentric[0] - barycentric[1]
    min_barycentric = ir.minimum(first_barycentric, ir.minimum(*barycentric))
    min_square = (
        1e-12 * dot(edge_a, edge_a) * dot(edge_b, edge_b)
    )  # the normals of thinner triangles are inaccurate in single precision
    is_valid = less_than(0.0, min_barycentric) * less_than(min_square, square) * less_than(TINY, square)
    distance_squared = ir.select(0.5, is_valid, offset * offset * inverse, FAR_DISTANCE * FAR_DISTANCE)
    direction = scale(-sign(offset), normal)
    return (
        [distance_squared, float(first_index), float(second_index), first_barycentric, *barycentric, *direction],
        normal,
        offset,
    )

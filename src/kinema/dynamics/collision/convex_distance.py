"""Signed distance of two convex geoms: GJK for separated geoms, EPA for penetration.

EPA needs many vertices to approximate a curved surface. For smooth geoms with small penetration, a local minimum of the
depth over directions is found instead, and an EPA polytope with few vertices verifies that no other direction has a
smaller depth, or finds a direction from which the local search is repeated. One EPA iteration costs as much as several
iterations of the local search.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kinema import ir
from kinema.ir import Value

from ..vector_math import ZERO, Matrix, Vector, add, cross, dot, matmul, rotate, rotate_inverse, scale, sub, transpose
from .collision_types import CollisionGeom, ContactQuery, InitialDirection
from .contact_optimality import ConvexPair, constants, refine_contact
from .depth_minimization import LocalDepthMinimum, minimize_depth_by_bfgs, minimize_depth_by_projection
from .epa import (
    EPA_TOLERANCE,
    REMOVED_FACE_OFFSET,
    TETRAHEDRON_FACES,
    TETRAHEDRON_NEIGHBOURS,
    VERTEX_SIZE,
    ClosestFace,
    EpaState,
    ExcludedCone,
    Polytope,
    epa_penetration,
    expand_polytope,
)
from .gjk import FAR_DISTANCE, GjkResult, MinkowskiDifference, SignedDistance, SupportPoint, gjk_distance
from .support_mapping import CONVEX_CORES, ConvexCore
from .vector_math import TINY, less_than, machine_epsilon, normalize_or_fallback, perpendicular_unit, select_vector

# ------------------------------------------------------------------------------------ penetration depth of smooth geoms

MAX_LOCAL_MINIMA = 3
"""Maximum number of local minima that are tried."""
VERIFICATION_MAX_ITERATIONS = 24
"""Maximum number of vertices inserted into the verification polytope after the initial four."""
MAX_SHALLOW_DEPTH = 0.1
"""Maximum depth, relative to the geom size, for the local search; deeper penetrations often have several close
minima."""
EXCLUDED_COSINE, EXCLUDED_EDGE_SINE = math.cos(0.06), math.sin(0.03)
"""Half angle of the cone around a local minimum whose polytope faces are not expanded (cosine), because the local
search is more accurate there, and the smaller angle along an edge perpendicular to the direction (sine): the local
search follows edges, and another edge may be adjacent."""
INITIAL_TILT = 0.06
"""Tangent of the angle between the local minimum and the directions of the initial support points."""
INITIAL_TRIANGLE = ((0.9, -0.5), (0.0, 1.0), (-0.9, -0.5))
"""Tangential directions of the three initial support points."""
EPA_ONLY_EPSILON = 1e-10
"""Machine epsilon below which only EPA is used. In double precision EPA is exact, while the local search misses a
direction next to the minimum in one of thousands of pairs, with an error of a few 1e-6 of the geom size."""
TRIED_DIRECTION_SIZE = 7
"""Scalars of a tried local minimum: direction (3), edge (3), depth."""


@dataclass(frozen=True, slots=True)
class _DepthSearchState:
    """Loop state of the search for the smallest depth."""

    next_direction: Vector
    """Initial direction of the next local search."""
    n_vertices: Value
    """Number of vertices of the verification polytope."""
    n_faces: Value
    """Number of faces of the verification polytope."""
    n_tried: Value
    """Number of local minima tried."""
    is_verified: Value
    """1 if the best local minimum is verified as the global minimum."""
    best: LocalDepthMinimum
    """Best local minimum so far."""
    tried: Sequence[Value]
    """Direction, edge and depth of each tried local minimum."""

    def flatten(self) -> list[Value]:
        """All fields as a list of 42 scalars, the state of a traced while loop."""
        scalars = [*self.next_direction, self.n_vertices, self.n_faces, self.n_tried, self.is_verified]
        return [*scalars, *self.best.flatten(), *self.tried]

    @classmethod
    def unflatten(cls, values: Sequence[Value]) -> _DepthSearchState:
        """State from a list of 42 scalars."""
        n_vertices, n_faces, n_tried, is_verified = values[3:7]
        return cls(
            values[:3],
            n_vertices,
            n_faces,
            n_tried,
            is_verified,
            LocalDepthMinimum.unflatten(values[7:21]),
            values[21:],
        )


def smooth_penetration(difference: MinkowskiDifference, gjk_result: GjkResult) -> SignedDistance:
    """Signed distance (negative depth) of overlapping smooth convex shapes: depth minima verified by an EPA polytope.

    In single precision, up to `MAX_LOCAL_MINIMA` local searches for a depth minimum start from GJK's simplex; each
    minimum is verified by expanding a small polytope. Full EPA in the same precision runs instead if no minimum was
    verified or the penetration is deep, and always in double precision, where the local searches are skipped. Also
    returns the direction and the witness point on the first shape.
    """
    tracer = difference.tracer
    polytope = Polytope(tracer, VERIFICATION_MAX_ITERATIONS)
    tolerance = 8.0 * difference.epsilon + EPA_TOLERANCE

    def search(flat: Sequence[Value]) -> tuple[list[Value], Value, Value]:
        state = _DepthSearchState.unflatten(flat)
        minimum = _minimize_depth(difference, state.next_direction, gjk_result.simplex, tolerance)
        is_usable = minimum.converged * less_than(minimum.depth, MAX_SHALLOW_DEPTH)

        def verify() -> list[Value]:
            return _verify_minimum(difference, polytope, state, minimum, tolerance)

        *state_after, continues = tracer.if_less("verify minimum", 0.5, is_usable, verify, [*state.flatten(), 0.0])
        return state_after, 0.5, continues

    no_minimum = LocalDepthMinimum(gjk_result.shallowest_direction, REMOVED_FACE_OFFSET, [0.0] * 6, 0.0, ZERO)
    start = _DepthSearchState(
        gjk_result.shallowest_direction,
        0.0,
        0.0,
        0.0,
        0.0,
        no_minimum,
        [*ZERO, *ZERO, REMOVED_FACE_OFFSET] * MAX_LOCAL_MINIMA,
    )

    def search_minima() -> list[Value]:
        return tracer.while_loop("local minima", search, start.flatten(), MAX_LOCAL_MINIMA)

    end = _DepthSearchState.unflatten(
        tracer.if_less("single precision", EPA_ONLY_EPSILON, difference.epsilon, search_minima, start.flatten())
    )
    signed_distance = SignedDistance(end.best.direction, -end.best.depth, end.best.point[3:])

    def full_epa() -> list[Value]:
        return epa_penetration(difference, gjk_result.separation.direction).flatten()

    flat = tracer.if_less("full EPA", end.is_verified, 0.5, full_epa, signed_distance.flatten())
    return SignedDistance(flat[:3], flat[3], flat[4:])


def _minimize_depth(
    difference: MinkowskiDifference, direction: Vector, initial_simplex: Sequence[SupportPoint], tolerance: Value
) -> LocalDepthMinimum:
    """Local minimum of the penetration depth near a direction, by exterior-point projection and BFGS.

    If the projection method has not converged, BFGS continues from its direction, and the projection is repeated once.

    Args:
        difference: Minkowski difference of the shapes.
        direction: initial unit direction.
        initial_simplex: three support points.
        tolerance: absolute tolerance of the depth.
    """
    tracer = difference.tracer

    def iterate(flat: Sequence[Value]) -> tuple[list[Value], Value, Value]:
        minimum = minimize_depth_by_projection(difference, flat[:3], initial_simplex)

        def refine() -> list[Value]:
            refined, depth = minimize_depth_by_bfgs(difference, minimum.direction, minimum.edge, tolerance)
            return select_vector(depth, minimum.depth, refined, minimum.direction)

        next_direction = tracer.if_less("slide", minimum.converged, 0.5, refine, minimum.direction)
        return [*next_direction, *minimum.flatten()], minimum.converged, 0.5

    return LocalDepthMinimum.unflatten(
        tracer.while_loop("projection and BFGS", iterate, [*direction, *[0.0] * 14], 2)[3:]
    )


def _verify_minimum(
    difference: MinkowskiDifference,
    polytope: Polytope,
    previous: _DepthSearchState,
    candidate: LocalDepthMinimum,
    tolerance: Value,
) -> list[Value]:
    """Verify by an EPA polytope, kept between calls, that a local depth minimum is the global minimum.

    Takes the better of the candidate and the previous best minimum, excludes faces in small cones of directions around
    all tried minima (excluded cones), and expands the polytope until every other face is at least as deep, or a
    direction with a smaller depth is found. A polytope that reaches its maximum number of vertices without finding such
    a direction counts as verification.

    Returns:
        The flattened new search state, followed by 1 if a better direction was found from which to search again,
        otherwise 0.
    """
    tracer = difference.tracer
    best = LocalDepthMinimum.unflatten(
        select_vector(candidate.depth, previous.best.depth, candidate.flatten(), previous.best.flatten())
    )
    tried: list[Value] = []
    for i in range(MAX_LOCAL_MINIMA):
        index_difference = ir.absolute(previous.n_tried - float(i))
        tried += select_vector(
            index_difference,
            0.5,
            [*candidate.direction, *candidate.edge, candidate.depth],
            previous.tried[TRIED_DIRECTION_SIZE * i : TRIED_DIRECTION_SIZE * (i + 1)],
        )
    polytope.excluded_cones = [
        _excluded_cone(tried[TRIED_DIRECTION_SIZE * i : TRIED_DIRECTION_SIZE * (i + 1)], tolerance)
        for i in range(MAX_LOCAL_MINIMA)
    ]
    start = _start_polytope(difference, polytope, previous, best)

    def step(flat: Sequence[Value]) -> tuple[list[Value], Value, Value]:
        after, _, continues = expand_polytope(difference, polytope, EpaState.unflatten(flat), tolerance, best.depth)
        n_vertices, depth = after[0], after[7]
        return (
            after,
            0.5,
            continues
            * less_than(best.depth - tolerance, depth)
            * less_than(n_vertices, 3.5 + VERIFICATION_MAX_ITERATIONS),
        )

    def expand() -> list[Value]:
        return tracer.while_loop("shallowest", step, start.flatten(), VERIFICATION_MAX_ITERATIONS)

    # the polytope is not expanded if one of the initial directions is better already
    end = EpaState.unflatten(
        tracer.if_less("expand polytope", best.depth - tolerance, start.best_depth, expand, start.flatten())
    )
    found_better = less_than(end.best_depth, best.depth - tolerance) * less_than(
        end.n_vertices, 3.5 + VERIFICATION_MAX_ITERATIONS
    )
    is_bounded = ir.maximum(
        less_than(best.depth - 2.0 * tolerance, end.closest_face[0]),
        less_than(3.5 + VERIFICATION_MAX_ITERATIONS, end.n_vertices),
    )
    # the closest face has a larger offset only if all vertices are collinear
    is_verified = (1.0 - found_better) * is_bounded * less_than(end.closest_face[0], 0.5 * REMOVED_FACE_OFFSET)
    state = _DepthSearchState(
        end.best_direction, end.n_vertices, end.n_faces, previous.n_tried + 1.0, is_verified, best, tried
    )
    return [*state.flatten(), found_better]


def _excluded_cone(tried_direction: Sequence[Value], tolerance: Value) -> ExcludedCone:
    direction, edge, depth = tried_direction[:3], tried_direction[3:6], tried_direction[6]
    return ExcludedCone(direction, EXCLUDED_COSINE, edge, EXCLUDED_EDGE_SINE, EXCLUDED_COSINE * depth - tolerance)


def _start_polytope(
    difference: MinkowskiDifference, polytope: Polytope, previous: _DepthSearchState, minimum: LocalDepthMinimum
) -> EpaState:
    """EPA state with which the verification of a local depth minimum as the global minimum starts.

    For the first minimum, a tetrahedron is built at the minimum; later, the existing polytope is kept and its face
    priorities are updated, as the regions of verified minima are excluded from the search.
    """
    tracer = difference.tracer

    def build() -> list[Value]:
        closest_face, best = _build_tetrahedron_at(difference, polytope, minimum)
        return [4.0, 4.0, *closest_face, *best, 0.0]

    def update() -> list[Value]:
        return [
            previous.n_vertices,
            previous.n_faces,
            *polytope.update_priorities(previous.n_faces),
            *minimum.direction,
            minimum.depth,
            0.0,
        ]

    flat = tracer.if_less("initial tetrahedron", previous.n_tried, 0.5, build, [0.0] * 9)
    return EpaState.unflatten(tracer.if_less("update priorities", 0.5, previous.n_tried, update, flat))


def _build_tetrahedron_at(
    difference: MinkowskiDifference, polytope: Polytope, minimum: LocalDepthMinimum
) -> tuple[ClosestFace, list[Value]]:
    """Build the initial polytope at a local depth minimum: its point and three support points in tilted directions.

    The tilted directions are arranged around the minimum's direction and aligned with its edge. They can have a smaller
    depth if the minimum is at a vertex of the Minkowski difference. Writes the vertices and faces of `polytope`.

    Returns:
        The closest face; and the direction (3) and depth of the best direction tried, including the minimum itself.
    """
    tracer, axis = difference.tracer, minimum.direction
    tangent = select_vector(0.5, dot(minimum.edge, minimum.edge), minimum.edge, perpendicular_unit(axis))
    tangent = normalize_or_fallback(sub(tangent, scale(dot(tangent, axis), axis)))
    bitangent = cross(axis, tangent)
    tilted = [
        normalize_or_fallback(add(axis, scale(INITIAL_TILT * x, tangent), scale(INITIAL_TILT * y, bitangent)))
        for x, y in INITIAL_TRIANGLE
    ]
    directions, best = tracer.allocate_local(9), tracer.allocate_local(4)
    tracer.write(directions, [x for tilted_direction in tilted for x in tilted_direction])
    tracer.write(best, [*axis, minimum.depth])
    tracer.write(polytope.vertices, minimum.point)

    def find_vertex(index: Value) -> None:
        direction = [tracer.read(directions, i, 3.0 * index) for i in range(3)]
        point = difference.support(direction)
        tracer.write(polytope.vertices, point, VERTEX_SIZE, VERTEX_SIZE * index)
        best_so_far = [tracer.read(best, i) for i in range(4)]
        depth = dot(point[:3], direction)
        tracer.write(best, select_vector(depth, best_so_far[3], [*direction, depth], best_so_far))

    tracer.counted_loop("initial vertices", 3.0, find_vertex, uniform=True)
    vertex_1, vertex_2, vertex_3 = (polytope.vertex(float(i)) for i in (1, 2, 3))
    orientation = dot(axis, cross(sub(vertex_2[:3], vertex_1[:3]), sub(vertex_3[:3], vertex_1[:3])))
    vertex_1, vertex_2 = (
        select_vector(orientation, 0.0, vertex_2, vertex_1),
        select_vector(orientation, 0.0, vertex_1, vertex_2),
    )
    tracer.write(polytope.vertices, [*vertex_1, *vertex_2], VERTEX_SIZE)
    points = [p[:3] for p in (minimum.point, vertex_1, vertex_2, vertex_3)]
    closest_face: ClosestFace = (2.0 * REMOVED_FACE_OFFSET, 0.0)
    for face_index, (face, adjacent) in enumerate(zip(TETRAHEDRON_FACES, TETRAHEDRON_NEIGHBOURS, strict=True)):
        vertex_indices, neighbours = ([float(i) for i in x] for x in (face, adjacent))
        priority = polytope.write_face(float(face_index), vertex_indices, neighbours, [points[i] for i in face])
        closest_face = (
            ir.minimum(closest_face[0], priority),
            ir.select(priority, closest_face[0], float(face_index), closest_face[1]),
        )
    tracer.new_basic_block()
    return closest_face, [tracer.read(best, i) for i in range(4)]


# ---------------------------------------------------------------------------------- signed distance of two convex geoms

MIN_LENGTH_SCALE = 1e-7
"""Lower bound of the length scale by which geoms are normalized to size 1 [m]."""


@dataclass(frozen=True, slots=True)
class ConvexPairDistance:
    """Signed distance of two convex geoms, in the axes of the second geom and scaled by the size of the larger geom."""

    cores: tuple[ConvexCore, ConvexCore]
    """Convex cores of both geoms."""
    relative_position: Vector
    """Position of the first geom relative to the second, scaled."""
    relative_rotation: Matrix
    """Rotation matrix from the axes of the first geom to the axes of the second."""
    length_scale: Value
    """Length that is scaled to 1 [m]."""
    signed_distance: SignedDistance
    """Signed distance of the geoms, including the radii of their cores; the witness point is on the first core."""


def convex_pair_distance(
    query: ContactQuery, geom_types: tuple[str, str], a: CollisionGeom, b: CollisionGeom
) -> ConvexPairDistance:
    """Signed distance, normal and witness point of two convex geoms by GJK and EPA.

    Args:
        query: contact query with tracer and margin.
        geom_types: types of the two geoms, keys of `CONVEX_CORES`.
        a: first geom.
        b: second geom.
    """
    tracer = query.tracer
    return core_pair_distance(
        query, (CONVEX_CORES[geom_types[0]](tracer, a), CONVEX_CORES[geom_types[1]](tracer, b)), a, b
    )


def core_pair_distance(
    query: ContactQuery, cores: tuple[ConvexCore, ConvexCore], a: CollisionGeom, b: CollisionGeom
) -> ConvexPairDistance:
    """Signed distance, normal and witness point of two geoms, each a convex core plus a sphere radius, by GJK and EPA.

    Works in the axes of the second geom, scaled so that the larger bounding radius is 1. The radii of both spheres are
    subtracted from the distance of the cores.

    Args:
        query: contact query with tracer and margin.
        cores: convex cores of both geoms.
        a: first geom, of which only the pose is used.
        b: second geom, of which only the pose is used.
    """
    first, second = cores
    bounding_radii = constants([first.bounding_radius, second.bounding_radius])
    length_scale = ir.maximum(ir.maximum(*bounding_radii), MIN_LENGTH_SCALE)
    inverse_scale = 1.0 / length_scale
    relative_position = scale(inverse_scale, rotate_inverse(b.rotation, sub(a.position, b.position)))
    relative_rotation = matmul(transpose(b.rotation), a.rotation)
    # the search is not differentiated
    position, rotation = constants(relative_position), [constants(row) for row in relative_rotation]

    def support(direction: Vector) -> SupportPoint:
        point_a = add(
            position, scale(inverse_scale, rotate(rotation, first.support(rotate_inverse(rotation, direction))))
        )
        point_b = scale(inverse_scale, second.support(scale(-1.0, direction)))
        return constants([*sub(point_a, point_b), *point_a])

    difference = MinkowskiDifference(
        query.tracer, support, machine_epsilon(*position), first.is_smooth or second.is_smooth
    )
    radii = inverse_scale * (first.radius + second.radius)
    max_distance = inverse_scale * query.margin + radii
    if query.initial_direction is not None and query.needs_depth:
        found = _core_distance_from(difference, position, max_distance, query.initial_direction)
    else:
        found = _signed_core_distance(difference, position, max_distance, needs_depth=query.needs_depth)
    if query.refines or query.tracer.differentiable:
        pair = ConvexPair(cores, relative_position, relative_rotation, length_scale, difference.epsilon)

        def refine() -> list[Value]:
            return refine_contact(query.tracer, pair, found).flatten()

        flat = query.tracer.if_less("refinement", found.distance, max_distance, refine, found.flatten())
        found = SignedDistance(flat[:3], flat[3], flat[4:])
    signed_distance = SignedDistance(found.direction, found.distance - radii, found.point)
    return ConvexPairDistance((first, second), relative_position, relative_rotation, length_scale, signed_distance)


def _signed_core_distance(
    difference: MinkowskiDifference, relative_position: Vector, max_distance: Value, *, needs_depth: bool
) -> SignedDistance:
    """Signed distance of two convex cores: GJK, and EPA if they overlap or nearly touch.

    For cores that nearly touch, the direction of EPA (a face normal) is more accurate than the direction between the
    closest points. The GJK result is kept if the EPA distance is below GJK's lower bound.

    Args:
        difference: Minkowski difference of the cores.
        relative_position: position of the first core relative to the second.
        max_distance: distance above which the exact distance is not needed.
        needs_depth: whether EPA is used; otherwise the distance of overlapping cores is 0.
    """
    gjk_result = gjk_distance(difference, scale(-1.0, relative_position), max_distance)
    separation = gjk_result.separation
    if not needs_depth:
        distance = ir.select(0.5, gjk_result.overlaps, 0.0, separation.distance)
        return SignedDistance(separation.direction, distance, separation.point)
    return _with_penetration(difference, gjk_result)


def _with_penetration(
    difference: MinkowskiDifference, gjk_result: GjkResult, starts_at_face: Value = 0.0
) -> SignedDistance:
    """Signed distance of two convex cores, given the result of GJK: by EPA if they overlap or nearly touch.

    `starts_at_face` is 1 if the direction of GJK's result is about that of a face of the Minkowski difference.
    """
    separation = gjk_result.separation
    distance = ir.select(0.5, gjk_result.overlaps, -1.0, separation.distance)

    def penetration() -> list[Value]:
        penetration_result = (
            smooth_penetration(difference, gjk_result)
            if difference.is_smooth
            else epa_penetration(difference, separation.direction, starts_at_face)
        )
        lower_bound = ir.select(
            (1.0 - gjk_result.overlaps) * gjk_result.lower_bound, TINY, -FAR_DISTANCE, gjk_result.lower_bound
        )
        return select_vector(
            penetration_result.distance + 8.0 * difference.epsilon,
            lower_bound,
            separation.flatten(),
            penetration_result.flatten(),
        )

    flat = difference.tracer.if_less(
        "overlap", distance, ir.sqrt(difference.epsilon), penetration, separation.flatten()
    )
    return SignedDistance(flat[:3], flat[3], flat[4:])


def _core_distance_from(
    difference: MinkowskiDifference, relative_position: Vector, max_distance: Value, initial: InitialDirection
) -> SignedDistance:
    """Signed distance of two convex cores, starting from the direction of the previous step.

    One support point in this direction either proves that the cores are farther apart than `max_distance`, or takes
    the place of GJK; EPA then starts around the direction. If it finds no penetration, or does not converge, GJK runs
    as without a direction. Keeps the direction for the next step.
    """
    tracer = difference.tracer
    limit = ir.maximum(max_distance, ir.sqrt(difference.epsilon))

    def evaluate_direction() -> list[Value]:
        point = difference.support(initial.direction)
        depth = dot(point[:3], initial.direction)
        separation = SignedDistance(initial.direction, -depth, point[3:])
        overlaps = 1.0 - less_than(depth, -limit)
        simplex = (point, point, point)
        return GjkResult(separation, -depth, overlaps, initial.direction, simplex, (1.0, 0.0, 0.0)).flatten()

    def attempt(flat: Sequence[Value]) -> tuple[list[Value], Value, Value]:
        is_warm = flat[0]
        result = tracer.if_less("direction", 0.5, is_warm, evaluate_direction, [0.0] * 33)
        run_gjk = lambda: gjk_distance(difference, scale(-1.0, relative_position), max_distance).flatten()  # noqa: E731
        gjk_result = GjkResult.unflatten(tracer.if_less("closest points", is_warm, 0.5, run_gjk, result))
        found = _with_penetration(difference, gjk_result, is_warm)
        is_apart = (1.0 - gjk_result.overlaps) * less_than(limit, found.distance)
        is_deep = less_than(found.distance, -8.0 * difference.epsilon)
        is_inconclusive = is_warm * (1.0 - ir.maximum(is_apart, is_deep))
        return [0.0, *found.flatten()], 0.5, is_inconclusive

    _, *found = tracer.while_loop("distance", attempt, [initial.is_known, *[0.0] * 7], 2)
    initial.store(found[:3])
    return SignedDistance(found[:3], found[3], found[4:])


def emit_closest_point(query: ContactQuery, pair_distance: ConvexPairDistance, b: CollisionGeom) -> None:
    """Emit one contact midway between the closest points of two convex geoms."""
    signed_distance, inverse_scale = pair_distance.signed_distance, 1.0 / pair_distance.length_scale
    radius_a, radius_b = (inverse_scale * core.radius for core in pair_distance.cores)
    distance = signed_distance.distance + radius_a + radius_b
    midpoint = add(signed_distance.point, scale(0.5 * (radius_a - radius_b + distance), signed_distance.direction))
    emit_local_point(query, pair_distance, b, signed_distance.distance, midpoint)


def emit_local_point(
    query: ContactQuery, pair_distance: ConvexPairDistance, b: CollisionGeom, distance: Value, local_point: Vector
) -> None:
    """Emit a contact given in the axes of geom b, in units of the pair's length scale, in world coordinates."""
    point = add(b.position, scale(pair_distance.length_scale, rotate(b.rotation, local_point)))
    query.emit_contact(
        pair_distance.length_scale * distance,
        point,
        normalize_or_fallback(rotate(b.rotation, pair_distance.signed_distance.direction)),
    )

"""Optimality conditions of the contact of two convex cores: refinement by Newton's method, implicit differentiation.

Along a unit direction n the cores are at the signed distance d(n) = -n . w, where w = a - b is the difference of the
support point a of the first core along n and b of the second along -n. The contact is a stationary point of d on the
unit sphere:

    t . w = 0 for all tangents t of n,    f . n = 0 for each flat direction f (an edge, or two directions of a face),

where a and b may move along the flat directions of their own core. The unknowns are the direction and the positions
along flat directions. With the curvature K of both support mappings and h = n . w, a change dn of the direction and
changes x_i along the flat directions f_i change t . w by t . (K dn - h dn + sum x_i f_i).

GJK and EPA find the contact to a tolerance, and their iterations have no useful derivatives. A few steps of a
semismooth Newton method, which chooses the flat directions anew in each step, make it exact up to rounding; one more
step, with constant matrices and derivatives of the residuals only, has the derivative of the implicit function theorem.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kinema import ir
from kinema.ir import Tracer, Value

from ..vector_math import (
    Matrix,
    Vector,
    add,
    cross,
    dot,
    matmul,
    matrix_add,
    rotate,
    rotate_inverse,
    scale,
    sub,
    transpose,
)
from .gjk import SignedDistance
from .support_mapping import ConvexCore
from .support_patches import SupportPatch
from .vector_math import TINY, less_than, norm, normalize_or_fallback, perpendicular_unit, select_vector

MAX_ITERATIONS = 10
"""Maximum number of Newton steps of the refinement. Most contacts need three."""
CONVERGENCE_TOLERANCE = 1e3
"""Change of directions and points in a step, relative to the machine epsilon, below which the iterations end; the error
is the square of that of the step before."""
MAX_TURN = 0.1
"""Largest angle [rad] between the refined direction and the direction that was found; beyond that the refinement has
converged to another stationary point."""
MAX_DISTANCE_CHANGE = 64.0
"""The same of the distance, relative to the geom size and the square root of the machine epsilon."""
ALIGNED_SLOPE_SQUARED = 1e-16
"""Difference of squared sines below which two faces or edges are equally close to perpendicular to the direction."""
FLAT_TOLERANCE = 1e-9
"""Depth, relative to the geom size, below which all points of a face or edge are support points."""
MIN_DETERMINANT = 1e-12
"""Determinant of the flat directions in the tangent plane, relative to the squared trace, below which they are
parallel."""
SINGULAR_DETERMINANT = 1e-14
"""Determinant, relative to the squared matrix, below which a Newton step is not defined and the direction is kept."""


@dataclass(frozen=True, slots=True)
class ConvexContact:
    """Contact of two convex cores, in the axes of the second geom and scaled by the length scale of the pair."""

    direction: Vector
    """Unit direction from the first to the second core."""
    point_a: Vector
    """Witness point on the first core."""
    point_b: Vector
    """Witness point on the second core."""

    def flatten(self) -> list[Value]:
        """Direction and both points as a list of 9 scalars."""
        return [*self.direction, *self.point_a, *self.point_b]

    @classmethod
    def unflatten(cls, values: Sequence[Value]) -> ConvexContact:
        """Contact from a list of 9 scalars."""
        return cls(values[:3], values[3:6], values[6:])

    @property
    def distance(self) -> Value:
        """Signed distance of the points along the direction."""
        return dot(self.direction, sub(self.point_b, self.point_a))


@dataclass(frozen=True, slots=True)
class ConvexPair:
    """Two convex cores with the pose of the first in the axes of the second geom, scaled by a length."""

    cores: tuple[ConvexCore, ConvexCore]
    """Convex cores of both geoms."""
    position: Vector
    """Scaled position of the first geom relative to the second."""
    rotation: Matrix
    """Rotation matrix from the axes of the first geom to those of the second."""
    length_scale: Value
    """Length that is scaled to 1 [m]."""
    epsilon: Value
    """Machine epsilon of the program."""

    def without_derivatives(self) -> ConvexPair:
        """The same pair at a constant pose."""
        return replace(self, position=constants(self.position), rotation=[constants(row) for row in self.rotation])


def constants(vector: Vector) -> list[Value]:
    """Values of a vector as constants for differentiation."""
    return [ir.without_derivative(x) for x in vector]


def refine_contact(tracer: Tracer, pair: ConvexPair, found: SignedDistance) -> SignedDistance:
    """Contact of two convex cores to rounding, with its derivative by the pose of the cores.

    If the iterations do not converge near the contact that was found, its values are kept, and the derivative is that
    of one step from there.

    Args:
        tracer: tracer.
        pair: the cores and their pose.
        found: signed distance, direction and witness point that GJK or EPA have found.
    """
    opposite = add(found.point, scale(found.distance, found.direction))
    first = ConvexContact(found.direction, found.point, opposite).flatten()
    tolerance = ir.square(CONVERGENCE_TOLERANCE * pair.epsilon)

    def step(flat: Sequence[Value]) -> tuple[list[Value], Value, Value]:
        iteration = flat[-1]
        before = constants(select_vector(iteration, MAX_ITERATIONS - 1.5, flat[:9], first))
        after = _newton_step(pair, ConvexContact.unflatten(before))
        change, turn = sub(after.flatten(), before), sub(after.direction, found.direction)
        is_solution = (
            less_than(dot(change, change), tolerance)
            * less_than(dot(turn, turn), MAX_TURN * MAX_TURN)
            * less_than(ir.absolute(after.distance - found.distance), MAX_DISTANCE_CHANGE * ir.sqrt(pair.epsilon))
        )
        return [*after.flatten(), is_solution, iteration + 1.0], is_solution, 0.5

    flat = constants(tracer.while_loop("refine contact", step, [*first, 0.0, 0.0], MAX_ITERATIONS))
    refined, is_solution = _newton_step(pair, ConvexContact.unflatten(flat[:9])), flat[9]
    carriers = [*refined.direction, refined.distance, *refined.point_a]
    values = select_vector(0.5, is_solution, constants(carriers), found.flatten())
    flat = [ir.with_derivative_of(value, carrier) for value, carrier in zip(values, carriers, strict=True)]
    return SignedDistance(flat[:3], flat[3], flat[4:])


@dataclass(frozen=True, slots=True)
class _Side:
    """Surface of one core near its witness point, in the axes of the second geom, scaled."""

    point: Vector
    """Support point."""
    curvature: Matrix
    """Derivative of the support point by the direction in which the core extends farthest."""
    flats: Sequence[Vector]
    """Flat directions; zero vectors do not count."""
    support: Vector
    """Support point by the support mapping, which is a vertex or a point of a rim if the surface is flat."""

    def or_vertex(self, keeps_flats: Value, slack: Value) -> _Side:
        """The same if `keeps_flats` is 1, otherwise a vertex: the support point if `slack` > 0, or the same point."""
        point = select_vector((1.0 - keeps_flats) * less_than(0.0, slack), 0.5, self.point, self.support)
        return _Side(point, self.curvature, [scale(keeps_flats, flat) for flat in self.flats], self.support)


def _newton_step(pair: ConvexPair, contact: ConvexContact) -> ConvexContact:
    """One semismooth Newton step on the optimality conditions, from a constant approximation of the contact.

    If the pose of the pair has a derivative, that of the step at the solution is the derivative of the solution: the
    matrices are constant.
    """
    normal = contact.direction
    first, second = _resolve_conflict(pair, normal, _first_side(pair, contact), _second_side(pair, contact))
    tangents = _tangents(normal)
    flats, difference = [*first.flats, *second.flats], sub(first.point, second.point)
    curvature = matrix_add(first.curvature, second.curvature)
    system = _TangentSystem(
        [[dot(t, constants(flat)) for t in tangents] for flat in flats],
        [[dot(s, rotate(curvature, t)) for t in tangents] for s in tangents],
        ir.without_derivative(dot(normal, difference)),
    )
    turn, positions = system.solve([dot(t, difference) for t in tangents], [dot(normal, flat) for flat in flats])
    change = add(scale(turn[0], tangents[0]), scale(turn[1], tangents[1]))
    shifts = [scale(x, constants(flat)) for x, flat in zip(positions, flats, strict=True)]
    n = len(first.flats)
    return ConvexContact(
        normalize_or_fallback(add(normal, change), normal),
        add(first.point, rotate(first.curvature, change), *shifts[:n]),
        sub(second.point, add(rotate(second.curvature, change), *shifts[n:])),
    )


def _tangents(normal: Vector) -> tuple[Vector, Vector]:
    """Two unit vectors perpendicular to a unit vector and to each other."""
    tangent = perpendicular_unit(normal)
    return tangent, cross(normal, tangent)


def _first_side(pair: ConvexPair, contact: ConvexContact) -> _Side:
    """Surface of the first core near its witness point."""
    core, inverse_scale, pose = pair.cores[0], 1.0 / pair.length_scale, pair.without_derivatives()
    direction = rotate_inverse(pose.rotation, contact.direction)
    patch = core.patch(
        direction, scale(pair.length_scale, rotate_inverse(pose.rotation, sub(contact.point_a, pose.position)))
    )
    curvature = _scaled(inverse_scale, matmul(matmul(pose.rotation, patch.curvature), transpose(pose.rotation)))

    def to_pair(point: Vector) -> Vector:
        return add(pair.position, scale(inverse_scale, rotate(pair.rotation, point)))

    # a constant direction turns in the axes of the geom
    turned = rotate(pose.rotation, sub(rotate_inverse(pair.rotation, contact.direction), direction))
    return _Side(
        add(to_pair(patch.point), rotate(curvature, turned)),
        curvature,
        [rotate(pair.rotation, flat) for flat in patch.flats],
        to_pair(_support(core, patch, direction)),
    )


def _second_side(pair: ConvexPair, contact: ConvexContact) -> _Side:
    """Surface of the second core near its witness point."""
    core, inverse_scale, direction = pair.cores[1], 1.0 / pair.length_scale, scale(-1.0, contact.direction)
    patch = core.patch(direction, scale(pair.length_scale, contact.point_b))
    support = scale(inverse_scale, _support(core, patch, direction))
    return _Side(scale(inverse_scale, patch.point), _scaled(inverse_scale, patch.curvature), patch.flats, support)


def _support(core: ConvexCore, patch: SupportPatch, direction: Vector) -> Vector:
    """Support point of a core; that of its patch, without a search, if the core has no flat directions."""
    return core.support(direction) if patch.flats else patch.point


def _scaled(factor: Value, matrix: Matrix) -> Matrix:
    """Constant multiple of a matrix."""
    return [constants(scale(factor, row)) for row in matrix]


def _resolve_conflict(pair: ConvexPair, normal: Vector, first: _Side, second: _Side) -> tuple[_Side, _Side]:
    """Both sides, with flat directions that determine the normal at most once.

    Two faces, a face and an edge, or two parallel edges determine the normal twice. A face takes precedence over an
    edge. Otherwise the flat directions that are closer to perpendicular to the normal do, or those of the larger geom,
    if both are. The other side then counts as a vertex.
    """
    if not first.flats or not second.flats:
        return first, second
    tangents = _tangents(normal)
    grams, ranks = [], []
    for side in (first, second):
        flats = [[ir.without_derivative(dot(t, flat)) for t in tangents] for flat in side.flats]
        grams.append(_gram_matrix(flats))
        ranks.append(_rank(grams[-1]))
    n_flat = ranks[0] + ranks[1]
    both = _rank(matrix_add(*grams))
    has_conflict = less_than(both + 0.5, n_flat)
    slopes = [
        sum((ir.square(ir.without_derivative(dot(normal, f))) for f in side.flats), 0.0) for side in (first, second)
    ]
    radii = [core.bounding_radius for core in pair.cores]
    prefers_first = ir.select(radii[1], radii[0], 1.0, 0.0)
    prefers_first = ir.select(slopes[0] + ALIGNED_SLOPE_SQUARED, slopes[1], 1.0, prefers_first)
    prefers_first = ir.select(slopes[1] + ALIGNED_SLOPE_SQUARED, slopes[0], 0.0, prefers_first)
    prefers_first = ir.select(ranks[1], ranks[0] - 0.5, 1.0, ir.select(ranks[0], ranks[1] - 0.5, 0.0, prefers_first))
    keeps_first = ir.maximum(1.0 - has_conflict, prefers_first)
    keeps_second = ir.maximum(1.0 - has_conflict, 1.0 - prefers_first)
    tolerance = FLAT_TOLERANCE + 8.0 * pair.epsilon
    slacks = [
        ir.without_derivative(sign * dot(normal, sub(side.support, side.point))) - tolerance
        for sign, side in ((1.0, first), (-1.0, second))
    ]
    return first.or_vertex(keeps_first, slacks[0]), second.or_vertex(keeps_second, slacks[1])


class _TangentSystem:
    """Linear system of a Newton step in the tangent plane of a direction, two-dimensional."""

    def __init__(self, flats: Sequence[Vector], curvature: Matrix, depth: Value) -> None:
        """Prepare the solution.

        Args:
            flats: flat directions f_i, projected on the tangent plane.
            curvature: curvature K of both cores in the tangent plane.
            depth: penetration depth h along the direction.
        """
        self.flats, self._gram = flats, _gram_matrix(flats)
        self._rank = _rank(self._gram)
        (xx, xy), (_, yy) = self._gram
        self._trace = ir.maximum(xx + yy, 0.5)
        along = select_vector(yy, xx, (xx, xy), (xy, yy))
        self._along = scale(1.0 / ir.maximum(norm(along), TINY), along)
        """Unit vector of the flat direction, if there is one."""
        self._hessian = [[depth - curvature[0][0], -curvature[0][1]], [-curvature[1][0], depth - curvature[1][1]]]

    def solve(self, residual: Vector, slopes: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        """Change of the direction, (2,), and of the positions along the flat directions.

        Args:
            residual: tangential part of the difference of the support points, (2,).
            slopes: normal components of the flat directions.
        """
        along, across = self._along, [-self._along[1], self._along[0]]
        constraint = [-dot([f[i] for f in self.flats], slopes) for i in range(2)]
        rows_of_edge = [along, rotate(self._hessian, across)]
        right_of_edge = [dot(along, constraint) / self._trace, dot(across, residual)]
        matrix = [self._by_rank(*rows) for rows in zip(self._hessian, rows_of_edge, self._gram, strict=True)]
        turn = _solve_2x2(matrix, self._by_rank(residual, right_of_edge, constraint))
        rest = sub(residual, rotate(self._hessian, turn))
        shift = self._by_rank((0.0, 0.0), scale(dot(along, rest) / self._trace, along), _solve_2x2(self._gram, rest))
        return turn, [-dot(flat, shift) for flat in self.flats]

    def _by_rank(self, smooth: Vector, edge: Vector, face: Vector) -> list[Value]:
        """Vector chosen by the number of independent flat directions: none, one or two."""
        return select_vector(self._rank, 0.5, smooth, select_vector(self._rank, 1.5, edge, face))


def _gram_matrix(flats: Sequence[Vector]) -> Matrix:
    """Sum of the outer products f f^T of vectors in the tangent plane, (2, 2)."""
    return [[dot([f[i] for f in flats], [f[j] for f in flats]) for j in range(2)] for i in range(2)]


def _rank(gram: Matrix) -> Value:
    """Number of independent unit vectors of a Gram matrix in the tangent plane: 0, 1 or 2."""
    (xx, xy), (_, yy) = gram
    has_any = less_than(0.5, xx + yy)
    return has_any + has_any * less_than(MIN_DETERMINANT * (xx + yy) * (xx + yy), xx * yy - xy * xy)


def _solve_2x2(matrix: Matrix, vector: Vector) -> list[Value]:
    """Solution of a 2x2 system by Cramer's rule; zero if the matrix is singular."""
    (a, b), (c, d) = matrix
    determinant, size = a * d - b * c, a * a + b * b + c * c + d * d
    inverse = ir.select(SINGULAR_DETERMINANT * size, ir.absolute(determinant), 1.0, 0.0)
    inverse = inverse / ir.select(0.5, inverse, determinant, 1.0)
    return [inverse * (d * vector[0] - b * vector[1]), inverse * (a * vector[1] - c * vector[0])]

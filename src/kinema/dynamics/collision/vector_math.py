"""Traced vector helpers of collision detection: normalization, selection, machine epsilon, floor, branches."""

from __future__ import annotations

from collections.abc import Callable

from kinema import ir
from kinema.ir import Tracer, Value

from ..vector_math import Matrix, Vector, add, cross, dot, scale

MIN_LENGTH = 1e-15
"""Length [m] below which a vector has no direction; its square is representable in single precision."""
X_AXIS: Vector = (1.0, 0.0, 0.0)
Z_AXIS: Vector = (0.0, 0.0, 1.0)


def column(rotation: Matrix, index: int) -> Vector:
    """Column of a rotation matrix: a coordinate axis of the geom in world axes."""
    return [row[index] for row in rotation]


def select_vector(a: Value, b: Value, if_less: Vector, otherwise: Vector) -> list[Value]:
    """Component-wise selection: `if_less` where a < b, otherwise `otherwise`."""
    return [ir.select(a, b, x, y) for x, y in zip(if_less, otherwise, strict=True)]


def norm(vector: Vector) -> Value:
    """Euclidean norm of a vector."""
    return ir.sqrt(dot(vector, vector))


def normalize_with_length(vector: Vector, length: Value, fallback: Vector) -> Vector:
    """Unit vector of a vector with known length; `fallback` if the length is below `MIN_LENGTH`."""
    return select_vector(length, MIN_LENGTH, fallback, scale(1.0 / ir.maximum(length, MIN_LENGTH), vector))


def normalized_cross(a: Vector, b: Vector) -> Vector:
    """Normalized cross product of two vectors; the x axis if they are parallel."""
    product = cross(a, b)
    return normalize_with_length(product, norm(product), X_AXIS)


def point_along(start: Vector, distance: Value, direction: Vector) -> Vector:
    """Point at a distance from a start point along a direction."""
    return add(start, scale(distance, direction))


def sign(x: Value) -> Value:
    """1 for x > 0, otherwise -1."""
    return ir.select(0.0, x, 1.0, -1.0)


TINY = 1e-30
"""Lower bound of divisors, to avoid division by zero; representable in single precision."""


def less_than(a: Value, b: Value) -> Value:
    """1 where a < b, otherwise 0."""
    return ir.select(a, b, 1.0, 0.0)


def normalize_or_fallback(vector: Vector, fallback: Vector = X_AXIS) -> Vector:
    """Unit vector of a vector; `fallback` if the squared length is below `TINY`."""
    square = dot(vector, vector)
    return select_vector(square, TINY, fallback, scale(1.0 / ir.sqrt(ir.maximum(square, TINY)), vector))


def perpendicular_unit(unit_vector: Vector) -> Vector:
    """Unit vector perpendicular to a unit vector."""
    other = select_vector(ir.absolute(unit_vector[0]), 0.6, X_AXIS, (0.0, 1.0, 0.0))
    return normalize_or_fallback(cross(unit_vector, other))


def machine_epsilon(*values: Value) -> Value:
    """Machine epsilon of the precision in which the traced program runs.

    Computed at run time as |3 (4/3 - 1) - 1| from any traced scalar among `values`, because the precision is not known
    while tracing. Without a traced scalar, the epsilon of double precision is returned.
    """
    traced = next((v for v in values if isinstance(v, ir.Scalar)), None)
    if traced is None:
        return 2.0**-52
    one = ir.select(traced, traced, 2.0, 1.0)  # not folded to a constant while tracing
    third = one * (4.0 / 3.0) - 1.0
    return ir.absolute(3.0 * third - 1.0)


def floor_by_rounding(x: Value) -> Value:
    """Floor of x, computed by adding and subtracting a large number; integers may be rounded to the next lower one.

    x is clamped to +-1e6. With plain floats the exact floor is returned.
    """
    if not isinstance(x, ir.Scalar):
        return float(x // 1.0)
    shift = 1.5 / machine_epsilon(x)  # floats of this magnitude have no fraction bits
    return ir.without_derivative((ir.clamp(x, -1e6, 1e6) - 0.5 + shift) - shift)


def if_less(
    tracer: Tracer, name: str, a: Value, b: Value, then: Callable[[], object], *, scalarize: bool = False
) -> None:
    """Trace a branch without results, taken where a < b.

    Args:
        tracer: records the branch.
        name: label of the branch.
        a: left-hand side of the condition.
        b: right-hand side of the condition.
        then: traces the body of the branch.
        scalarize: whether the environments of a SIMD vector execute the body one after the other.
    """

    def run() -> list[Value]:
        then()
        return []

    tracer.if_less(name, a, b, run, [], scalarize=scalarize)

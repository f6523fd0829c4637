"""Vectors and rotations over scalars, known or symbolic: lists of three, matrices as lists of rows."""

from __future__ import annotations

from collections.abc import Sequence

from kinema import trace
from kinema.trace import Value

Vector = Sequence[Value]
Matrix = Sequence[Sequence[Value]]

ZERO: Vector = (0.0, 0.0, 0.0)
IDENTITY: Matrix = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


def add(a: Vector, *others: Vector) -> Vector:
    """The sum of vectors."""
    for b in others:
        a = [x + y for x, y in zip(a, b, strict=True)]
    return a


def sub(a: Vector, b: Vector) -> Vector:
    """The difference of two vectors."""
    return [x - y for x, y in zip(a, b, strict=True)]


def scale(factor: Value, a: Vector) -> Vector:
    """A vector, times a number."""
    return [factor * x for x in a]


def sum_of(parts: Sequence[Value]) -> Value:
    """All of them together."""
    total: Value = parts[0] if parts else 0.0
    for part in parts[1:]:
        total = total + part
    return total


def dot(a: Vector, b: Vector) -> Value:
    """The inner product."""
    result: Value = 0.0
    for x, y in zip(a, b, strict=True):
        result = result + x * y
    return result


def cross(a: Vector, b: Vector) -> Vector:
    """The vector product."""
    return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]


def rotate(r: Matrix, a: Vector) -> Vector:
    """R a."""
    return [dot(row, a) for row in r]


def unrotate(r: Matrix, a: Vector) -> Vector:
    """R^T a."""
    return [dot([r[0][i], r[1][i], r[2][i]], a) for i in range(3)]


def transpose(r: Matrix) -> Matrix:
    """R^T."""
    return [[r[j][i] for j in range(3)] for i in range(3)]


def product(a: Matrix, b: Matrix) -> Matrix:
    """A b."""
    columns = transpose(b)
    return [[dot(row, column) for column in columns] for row in a]


def matrix_sum(a: Matrix, b: Matrix) -> Matrix:
    """A + b."""
    return [add(x, y) for x, y in zip(a, b, strict=True)]


def matrix_scale(factor: Value, a: Matrix) -> Matrix:
    """A matrix, times a number."""
    return [scale(factor, row) for row in a]


def outer(a: Vector, b: Vector) -> Matrix:
    """A b^T."""
    return [scale(x, b) for x in a]


def diagonal(a: Vector) -> Matrix:
    """A matrix with these on its diagonal."""
    return [[a[i] if i == j else 0.0 for j in range(3)] for i in range(3)]


def skew(a: Vector) -> Matrix:
    """The matrix that makes a x b of b."""
    x, y, z = a
    return [[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]]


def axis_rotation(axis: Sequence[float], angle: Value) -> Matrix:
    """The rotation about a constant unit axis: plain sines and cosines where it is an axis of the frame."""
    s, c = trace.sin(angle), trace.cos(angle)
    x, y, z = axis
    v = 1.0 - c
    return [
        [c + v * (x * x) if abs(x) != 1.0 else 1.0, v * (x * y) - s * z, v * (x * z) + s * y],
        [v * (x * y) + s * z, c + v * (y * y) if abs(y) != 1.0 else 1.0, v * (y * z) - s * x],
        [v * (x * z) - s * y, v * (y * z) + s * x, c + v * (z * z) if abs(z) != 1.0 else 1.0],
    ]


def quaternion_matrix(q: Vector) -> Matrix:
    """The rotation of a unit quaternion (w, x, y, z)."""
    w, x, y, z = q
    x2, y2, z2 = x + x, y + y, z + z
    xx, yy, zz = x * x2, y * y2, z * z2
    xy, xz, yz = x * y2, x * z2, y * z2
    wx, wy, wz = w * x2, w * y2, w * z2
    return [
        [1.0 - (yy + zz), xy - wz, xz + wy],
        [xy + wz, 1.0 - (xx + zz), yz - wx],
        [xz - wy, yz + wx, 1.0 - (xx + yy)],
    ]


def quaternion_product(a: Vector, b: Vector) -> Vector:
    """A then b, both (w, x, y, z)."""
    aw, ax, ay, az = a
    bw, bx, by, bz = b
    return [
        aw * bw - ax * bx - ay * by - az * bz,
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
    ]


def quaternion_of(half_turn: Vector) -> Vector:
    """The quaternion of a rotation vector, given half of it: (cos |x|, sin |x| / |x| x).

    By power series in |x|^2, which need neither a root nor a branch: exact to 1e-16 up to half a radian, and still good
    to 1e-5 at half a turn. Normalise afterwards.
    """
    z = dot(half_turn, half_turn)
    sine, cosine = 1.0, 1.0
    for k in (6, 5, 4, 3, 2, 1):
        sine = 1.0 - z * (1.0 / ((2 * k) * (2 * k + 1))) * sine
        cosine = 1.0 - z * (1.0 / ((2 * k - 1) * (2 * k))) * cosine
    return [cosine, *scale(sine, half_turn)]


HALVINGS = 3
"""How often a rotation is halved before its angle is taken from its sine."""


def rotation_vector(q: Vector) -> Vector:
    """The axis times the angle, at most half a turn, of a unit quaternion (w, x, y, z).

    Without an inverse function of the angle and without a branch: the rotation is halved until the power series of the
    arc sine is exact to 1e-16.
    """
    w, *xyz = [trace.select(q[0], 0.0, -x, x) for x in q]
    for _ in range(HALVINGS):
        w = trace.sqrt(0.5 + 0.5 * w)
        xyz = scale(0.5 / w, xyz)
    z = dot(xyz, xyz)
    series: Value = 1.0
    for k in range(12, 0, -1):
        series = 1.0 + ((2 * k - 1) ** 2 / (2 * k * (2 * k + 1))) * (z * series)
    return scale(2.0**HALVINGS * 2.0 * series, xyz)


def normalised(q: Vector) -> Vector:
    """A vector of length one."""
    return scale(1.0 / trace.sqrt(dot(q, q)), q)


def matrix_quaternion(r: Matrix) -> Vector:
    """The quaternion (w, x, y, z) of a rotation, without a branch: the largest of four is taken the root of."""
    trace_ = r[0][0] + r[1][1] + r[2][2]
    squares = [1.0 + trace_, *(1.0 + 2.0 * r[i][i] - trace_ for i in range(3))]  # 4 times the squares of w, x, y, z
    odd = [r[2][1] - r[1][2], r[0][2] - r[2][0], r[1][0] - r[0][1]]
    sums = [r[1][0] + r[0][1], r[2][0] + r[0][2], r[2][1] + r[1][2]]
    candidates = [
        [squares[0], *odd],
        [odd[0], squares[1], sums[0], sums[1]],
        [odd[1], sums[0], squares[2], sums[2]],
        [odd[2], sums[1], sums[2], squares[3]],
    ]
    best, chosen = squares[0], candidates[0]
    for square, candidate in zip(squares[1:], candidates[1:], strict=True):
        chosen = [trace.select(best, square, new, old) for new, old in zip(candidate, chosen, strict=True)]
        best = trace.maximum(best, square)
    return normalised(chosen)


HALVED = 9
"""How often an exponent is halved before its series is summed."""
LARGEST_EXPONENT = 40.0
"""Beyond it nothing is left of an exponential in double precision."""


def decayed(x: Value) -> Value:
    """1 - exp(-x) for x >= 0, to rounding: its series for a small part of x, doubled; no doubling amplifies errors."""
    small = -(2.0**-HALVED) * trace.minimum(x, LARGEST_EXPONENT)
    series: Value = 1.0
    for n in range(9, 1, -1):
        series = 1.0 + (1.0 / n) * small * series
    result = small * series
    for _ in range(HALVED):
        result = result * (2.0 + result)
    return -result


LEAST_BASE = 1e-30
ROOTS = 5
"""How often the root of a number is taken before the series of its logarithm is summed."""


def power_of(x: Value, exponent: Value) -> Value:
    """A number between 0 and 1 to a power of one or more: by its logarithm, to 1e-14 of one.

    With y = (1 - r) / (1 + r) for a root r of it, the logarithm is a series in odd powers of y.
    """
    root = trace.maximum(x, LEAST_BASE)
    for _ in range(ROOTS):
        root = trace.sqrt(root)
    y = (1.0 - root) / (1.0 + root)
    square, series = y * y, 1.0 / 33.0
    for k in range(31, 0, -2):
        series = 1.0 / k + square * series
    return 1.0 - decayed((2.0 * 2.0**ROOTS) * exponent * y * series)

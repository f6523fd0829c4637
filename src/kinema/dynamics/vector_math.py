"""3-vectors, 3x3 matrices, rotations, quaternions, exponentials and powers over symbolic or plain scalars.

Quaternions are (w, x, y, z). Functions are branch-free, so that they can be traced.
"""

from __future__ import annotations

from collections.abc import Sequence

from kinema import ir
from kinema.ir import Value

Vector = Sequence[Value]
Matrix = Sequence[Sequence[Value]]

ZERO: Vector = (0.0, 0.0, 0.0)
IDENTITY: Matrix = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


def add(a: Vector, *others: Vector) -> Vector:
    """Sum of vectors."""
    for b in others:
        a = [x + y for x, y in zip(a, b, strict=True)]
    return a


def sub(a: Vector, b: Vector) -> Vector:
    """Difference of two vectors."""
    return [x - y for x, y in zip(a, b, strict=True)]


def scale(factor: Value, a: Vector) -> Vector:
    """Scalar times vector."""
    return [factor * x for x in a]


def sum_values(values: Sequence[Value]) -> Value:
    """Sum of scalars; 0.0 for an empty sequence."""
    total: Value = values[0] if values else 0.0
    for value in values[1:]:
        total = total + value
    return total


def dot(a: Vector, b: Vector) -> Value:
    """Dot product."""
    result: Value = 0.0
    for x, y in zip(a, b, strict=True):
        result = result + x * y
    return result


def cross(a: Vector, b: Vector) -> Vector:
    """Cross product."""
    return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]


def rotate(rotation: Matrix, vector: Vector) -> Vector:
    """R v: rotate a vector by a rotation matrix."""
    return [dot(row, vector) for row in rotation]


def rotate_inverse(rotation: Matrix, vector: Vector) -> Vector:
    """R^T v: rotate a vector by the inverse of a rotation matrix."""
    return [dot([rotation[0][i], rotation[1][i], rotation[2][i]], vector) for i in range(3)]


def transpose(matrix: Matrix) -> Matrix:
    """Transpose of a 3x3 matrix."""
    return [[matrix[j][i] for j in range(3)] for i in range(3)]


def matmul(a: Matrix, b: Matrix) -> Matrix:
    """Matrix product A B."""
    columns = transpose(b)
    return [[dot(row, column) for column in columns] for row in a]


def matrix_add(a: Matrix, b: Matrix) -> Matrix:
    """Matrix sum A + B."""
    return [add(x, y) for x, y in zip(a, b, strict=True)]


def matrix_scale(factor: Value, matrix: Matrix) -> Matrix:
    """Scalar times matrix."""
    return [scale(factor, row) for row in matrix]


def outer(a: Vector, b: Vector) -> Matrix:
    """Outer product a b^T."""
    return [scale(x, b) for x in a]


def diagonal_matrix(entries: Vector) -> Matrix:
    """Diagonal 3x3 matrix."""
    return [[entries[i] if i == j else 0.0 for j in range(3)] for i in range(3)]


def skew(a: Vector) -> Matrix:
    """Skew-symmetric matrix S of a vector a, with S b = a x b."""
    x, y, z = a
    return [[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]]


def axis_angle_to_matrix(axis: Sequence[float], angle: Value) -> Matrix:
    """Rotation matrix of an angle about a constant unit axis (Rodrigues' formula), simplified for coordinate axes."""
    s, c = ir.sin(angle), ir.cos(angle)
    x, y, z = axis
    v = 1.0 - c
    return [
        [c + v * (x * x) if abs(x) != 1.0 else 1.0, v * (x * y) - s * z, v * (x * z) + s * y],
        [v * (x * y) + s * z, c + v * (y * y) if abs(y) != 1.0 else 1.0, v * (y * z) - s * x],
        [v * (x * z) - s * y, v * (y * z) + s * x, c + v * (z * z) if abs(z) != 1.0 else 1.0],
    ]


def quaternion_to_matrix(q: Vector) -> Matrix:
    """Rotation matrix of a unit quaternion (w, x, y, z)."""
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


def quaternion_multiply(a: Vector, b: Vector) -> Vector:
    """Quaternion product a b, both (w, x, y, z)."""
    aw, ax, ay, az = a
    bw, bx, by, bz = b
    return [
        aw * bw - ax * bx - ay * by - az * bz,
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
    ]


def quaternion_exp(half_rotation_vector: Vector) -> Vector:
    """Quaternion exponential (cos |x|, sin |x| / |x| x) of half a rotation vector x, to be normalised by the caller.

    Power series in |x|^2 without square root or branch: exact to 1e-16 up to |x| = 0.5, to 1e-5 at |x| = pi.
    """
    z = dot(half_rotation_vector, half_rotation_vector)
    sine, cosine = 1.0, 1.0
    for k in (6, 5, 4, 3, 2, 1):
        sine = 1.0 - z * (1.0 / ((2 * k) * (2 * k + 1))) * sine
        cosine = 1.0 - z * (1.0 / ((2 * k - 1) * (2 * k))) * cosine
    return [cosine, *scale(sine, half_rotation_vector)]


ROTATION_HALVINGS = 3
"""Number of half-angle steps before the series of the arc sine."""


def quaternion_to_rotation_vector(q: Vector) -> Vector:
    """Rotation vector (axis times angle, angle in [0, pi]) of a unit quaternion (w, x, y, z): the logarithm.

    Branch-free: the angle is halved repeatedly until the power series of the arc sine is exact to 1e-16.
    """
    w, *xyz = [ir.select(q[0], 0.0, -x, x) for x in q]
    for _ in range(ROTATION_HALVINGS):
        w = ir.sqrt(0.5 + 0.5 * w)
        xyz = scale(0.5 / w, xyz)
    z = dot(xyz, xyz)
    series: Value = 1.0
    for k in range(12, 0, -1):
        series = 1.0 + ((2 * k - 1) ** 2 / (2 * k * (2 * k + 1))) * (z * series)
    return scale(2.0**ROTATION_HALVINGS * 2.0 * series, xyz)


def normalize(vector: Vector) -> Vector:
    """Unit vector in the direction of a nonzero vector."""
    return scale(1.0 / ir.sqrt(dot(vector, vector)), vector)


def matrix_to_quaternion(rotation: Matrix) -> Vector:
    """Unit quaternion (w, x, y, z) of a rotation matrix, branch-free: normalised from the largest of its components."""
    trace_ = rotation[0][0] + rotation[1][1] + rotation[2][2]
    squares = [
        1.0 + trace_,
        *(1.0 + 2.0 * rotation[i][i] - trace_ for i in range(3)),
    ]  # 4 times the squares of w, x, y, z
    differences = [rotation[2][1] - rotation[1][2], rotation[0][2] - rotation[2][0], rotation[1][0] - rotation[0][1]]
    sums = [rotation[1][0] + rotation[0][1], rotation[2][0] + rotation[0][2], rotation[2][1] + rotation[1][2]]
    candidates = [
        [squares[0], *differences],
        [differences[0], squares[1], sums[0], sums[1]],
        [differences[1], sums[0], squares[2], sums[2]],
        [differences[2], sums[1], sums[2], squares[3]],
    ]
    best, chosen = squares[0], candidates[0]
    for square, candidate in zip(squares[1:], candidates[1:], strict=True):
        chosen = [ir.select(best, square, new, old) for new, old in zip(candidate, chosen, strict=True)]
        best = ir.maximum(best, square)
    return normalize(chosen)


EXPONENT_HALVINGS = 9
"""Number of halvings of the exponent before the series."""
MAX_EXPONENT = 40.0
"""Exponents beyond this value give 1 in double precision."""


def one_minus_exp_neg(x: Value) -> Value:
    """1 - exp(-x) for x >= 0, accurate to rounding for small x: series of x / 2^9, then repeated doubling."""
    small = -(2.0**-EXPONENT_HALVINGS) * ir.minimum(x, MAX_EXPONENT)
    series: Value = 1.0
    for n in range(9, 1, -1):
        series = 1.0 + (1.0 / n) * small * series
    result = small * series
    for _ in range(EXPONENT_HALVINGS):
        result = result * (2.0 + result)
    return -result


MIN_POWER_BASE = 1e-30
LOGARITHM_ROOTS = 5
"""Number of square roots before the series of the logarithm."""


def unit_interval_power(x: Value, exponent: Value) -> Value:
    """x^exponent for x in [0, 1] and exponent >= 1, by the logarithm, with absolute error below 1e-14.

    With y = (1 - r) / (1 + r) for the 32nd root r of x, -log(r) = 2 (y + y^3 / 3 + y^5 / 5 + ...).
    """
    root = ir.maximum(x, MIN_POWER_BASE)
    for _ in range(LOGARITHM_ROOTS):
        root = ir.sqrt(root)
    y = (1.0 - root) / (1.0 + root)
    square, series = y * y, 1.0 / 33.0
    for k in range(31, 0, -2):
        series = 1.0 / k + square * series
    return 1.0 - one_minus_exp_neg((2.0 * 2.0**LOGARITHM_ROOTS) * exponent * y * series)

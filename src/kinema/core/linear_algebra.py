"""Linear algebra and elementary functions with the same bits on every processor, for constants of compiled programs.

BLAS and LAPACK use fused multiply-add and another order of sums on each processor, and the sine of C libraries differs
in the last bit. Elementwise operations and sums of NumPy are the same everywhere.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
ArrayLike = npt.ArrayLike


def reproducible_product(a: Array, b: Array) -> Array:
    """Matrix product with the same bits on every processor: terms are added in their order.

    Shapes (..., n, k) and (..., k, m), or vectors as for `numpy.matmul`.
    """
    if b.ndim == 1:
        return reproducible_product(a, b[:, None])[..., 0]
    if a.ndim == 1:
        return reproducible_product(a[None], b)[..., 0, :]
    result = a[..., :, :1] * b[..., :1, :]
    for k in range(1, a.shape[-1]):
        result = result + a[..., :, k : k + 1] * b[..., k : k + 1, :]
    return result


def rotate_tensor(rotation: Array, tensor: Array) -> Array:
    """Tensor R T R^T in rotated axes, such as an inertia, with the same bits on every processor."""
    return reproducible_product(reproducible_product(rotation, tensor), np.swapaxes(rotation, -1, -2))


def reproducible_norm(vector: ArrayLike) -> float:
    """Euclidean norm of a vector with the same bits on every processor."""
    squares = np.asarray(vector, dtype=np.float64) ** 2
    return math.sqrt(float(squares.sum()))


def determinant3(matrix: ArrayLike) -> float:
    """Determinant of a 3x3 matrix."""
    (a, b, c), (d, e, f), (g, h, i) = np.asarray(matrix, dtype=np.float64).tolist()
    return a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)


def reproducible_solve(matrices: Array, rhs: Array) -> Array:
    """Solutions of linear systems (..., n, n) with right-hand sides (..., n, m) by Gaussian elimination with pivots.

    Not finite where a matrix is singular.
    """
    n, count = matrices.shape[-1], math.prod(matrices.shape[:-2])
    rest = np.array(matrices, np.float64).reshape(count, n, n)
    solution = np.array(rhs, np.float64).reshape(count, n, rhs.shape[-1])
    every = np.arange(count)
    with np.errstate(all="ignore"):
        for k in range(n):
            pivot_row = k + np.abs(rest[:, k:, k]).argmax(axis=1)
            for rows in (rest, solution):
                rows[every, pivot_row], rows[:, k] = rows[:, k].copy(), rows[every, pivot_row]
            factors = rest[:, k + 1 :, k, None] / rest[:, k, k, None, None]
            rest[:, k + 1 :] -= factors * rest[:, k, None]
            solution[:, k + 1 :] -= factors * solution[:, k, None]
        for k in reversed(range(n)):
            solution[:, k] -= (rest[:, k, k + 1 :, None] * solution[:, k + 1 :]).sum(axis=1)
            solution[:, k] /= rest[:, k, k, None]
    return solution.reshape(rhs.shape)


def reproducible_inverse(matrices: Array) -> Array:
    """Inverses of matrices (..., n, n) by Gaussian elimination; not finite where a matrix is singular."""
    return reproducible_solve(matrices, np.broadcast_to(np.eye(matrices.shape[-1]), matrices.shape))


_MAX_SWEEPS = 30
_NEGLIGIBLE = 2.0**-54
"""Relative size below which an off-diagonal entry is rounded off."""
_MIN_LENGTH = 1e-150
"""Length of a column, relative to the largest entry, below which it counts as zero."""


def symmetric_eigen(matrix: ArrayLike) -> tuple[Array, Array]:
    """Eigenvalues in ascending order and eigenvectors, as columns, of a symmetric matrix by Jacobi's cyclic method.

    The eigenvectors of a diagonal matrix are coordinate axes; those of other matrices have determinant +1 up to their
    order. Not finite if the matrix is not.
    """
    given = np.asarray(matrix, dtype=np.float64)
    exponent = _exponent(given)
    a = np.ldexp(given, -exponent).tolist()
    n = len(a)
    v = np.eye(n).tolist()
    for _ in range(_MAX_SWEEPS):
        is_diagonal = True
        for p in range(n):
            for q in range(p + 1, n):
                if abs(a[p][q]) <= _NEGLIGIBLE * min(abs(a[p][p]), abs(a[q][q])) or a[p][q] == 0.0:
                    continue
                is_diagonal = False
                cosine, sine = _jacobi_rotation(a[p][p], a[p][q], a[q][q])
                for row in (*a, *v):
                    row[p], row[q] = cosine * row[p] - sine * row[q], sine * row[p] + cosine * row[q]
                for j in range(n):
                    a[p][j], a[q][j] = cosine * a[p][j] - sine * a[q][j], sine * a[p][j] + cosine * a[q][j]
                a[p][q] = a[q][p] = 0.0
        if is_diagonal:
            break
    values = np.ldexp([a[i][i] for i in range(n)], exponent)
    order = np.argsort(values, kind="stable")
    return values[order], np.array(v)[:, order]


def _jacobi_rotation(pp: float, pq: float, qq: float) -> tuple[float, float]:
    """Cosine and sine of the rotation that makes the matrix [[pp, pq], [pq, qq]] diagonal, of an angle up to pi/4."""
    theta = (qq - pp) / (2.0 * pq)
    if abs(theta) > 1e150:
        tangent = 0.5 / theta
    else:
        tangent = math.copysign(1.0, theta) / (abs(theta) + math.sqrt(theta * theta + 1.0))
    cosine = 1.0 / math.sqrt(tangent * tangent + 1.0)
    return cosine, tangent * cosine


def singular_value_decomposition(matrix: ArrayLike) -> tuple[Array, Array, Array]:
    """Singular value decomposition U diag(s) V^T of a square matrix by Jacobi's one-sided method.

    Returns U, the singular values in descending order, and V^T. Where singular values are zero, U is completed to a
    basis. Not finite if the matrix is not.
    """
    given = np.asarray(matrix, dtype=np.float64)
    exponent = _exponent(given)
    columns = np.ldexp(given.T, -exponent).tolist()
    n = len(columns)
    v = np.eye(n).tolist()  # its rows are the columns of V
    for _ in range(_MAX_SWEEPS):
        is_orthogonal = True
        for p in range(n):
            for q in range(p + 1, n):
                pp, pq, qq = (_dot(columns[i], columns[j]) for i, j in ((p, p), (p, q), (q, q)))
                if abs(pq) <= _NEGLIGIBLE * math.sqrt(pp) * math.sqrt(qq) or pq == 0.0:
                    continue
                is_orthogonal = False
                cosine, sine = _jacobi_rotation(pp, pq, qq)
                for rows in (columns, v):
                    first, second = rows[p], rows[q]
                    rows[p] = [cosine * x - sine * y for x, y in zip(first, second, strict=True)]
                    rows[q] = [sine * x + cosine * y for x, y in zip(first, second, strict=True)]
        if is_orthogonal:
            break
    lengths = [math.sqrt(_dot(column, column)) for column in columns]
    order = sorted(range(n), key=lambda i: -lengths[i])
    left: list[list[float]] = []
    for i in order:
        is_null = lengths[i] < _MIN_LENGTH
        left.append(_orthogonal_direction(left, n) if is_null else [x / lengths[i] for x in columns[i]])
    values = np.ldexp([lengths[i] for i in order], exponent)
    return np.array(left).T, values, np.array([v[i] for i in order])


def _exponent(matrix: Array) -> int:
    """Exponent of the power of two by which a matrix is divided so that its squares neither overflow nor vanish."""
    return int(np.frexp(np.abs(matrix).max(initial=0.0))[1])


def _dot(a: list[float], b: list[float]) -> float:
    total = 0.0
    for x, y in zip(a, b, strict=True):
        total += x * y
    return total


def _orthogonal_direction(basis: list[list[float]], n: int) -> list[float]:
    """Unit vector orthogonal to orthonormal vectors: the coordinate axis farthest from their span, orthogonalised."""
    axes = np.eye(n).tolist()
    axis = max(axes, key=lambda e: 1.0 - sum(_dot(e, x) ** 2 for x in basis))
    for _ in range(2):  # twice is enough
        for x in basis:
            along = _dot(axis, x)
            axis = [a - along * b for a, b in zip(axis, x, strict=True)]
    length = math.sqrt(_dot(axis, axis))
    return [a / length for a in axis]


# ------------------------------------------------------------------------------------------------------------ angles

_FRACTION_BITS = 256
_UNIT = 1 << _FRACTION_BITS
_HALF_PI = 0x3243F6A8885A308D313198A2E03707344A4093822299F31D0082EFA98EC4E6C89 >> 1
"""Half of pi with `_FRACTION_BITS` bits after the point."""
_SMALL, _LARGE = 2.0**-27, 2.0**40
"""Angles whose sine and tangent are the angle up to rounding, and angles too large to be reduced."""


def sine_cosine(angle: float) -> tuple[float, float]:
    """Sine and cosine of an angle [rad], correctly rounded; angles above 2^40 are left to the C library."""
    if abs(angle) < _SMALL:
        return angle, 1.0
    return _rounded_sine_cosine(angle) if abs(angle) < _LARGE else (math.sin(angle), math.cos(angle))


def sines_cosines(angles: Array) -> tuple[Array, Array]:
    """`sine_cosine` of all angles [rad] of an array, as two arrays of its shape."""
    values = np.array([sine_cosine(angle) for angle in np.asarray(angles, np.float64).ravel().tolist()]).reshape(-1, 2)
    return values[:, 0].reshape(np.shape(angles)), values[:, 1].reshape(np.shape(angles))


def arc_tangent(y: float, x: float) -> float:
    """Angle of the point (x, y) from the x axis [rad], in [-pi, pi], correctly rounded.

    The angle of the C library is corrected by the arc tangent of the point turned back by it, y/x up to rounding.
    """
    angle = math.atan2(y, x)
    if x == 0.0 or y == 0.0 or not (math.isfinite(x) and math.isfinite(y)):
        return angle
    if abs(y) < _SMALL * x:
        return y / x
    (y_numerator, y_denominator), (x_numerator, x_denominator) = y.as_integer_ratio(), x.as_integer_ratio()
    rise, run = y_numerator * x_denominator, x_numerator * y_denominator
    sine, cosine = _fixed_point_sine_cosine(angle)
    rest = ((rise * cosine - run * sine) << _FRACTION_BITS) // (run * cosine + rise * sine)
    return (_fixed_point(angle) + rest) / _UNIT


def arc_sine(x: float) -> float:
    """Angle whose sine is x, in [-pi/2, pi/2]."""
    return arc_tangent(x, math.sqrt((1.0 - x) * (1.0 + x)))


_LN2 = sum(_UNIT // (k << k) for k in range(1, _FRACTION_BITS + 1))
"""Natural logarithm of 2 with `_FRACTION_BITS` bits after the point, the last few of them wrong."""


def exponential(x: float) -> float:
    """e^x, correctly rounded, for arguments between -700 and 700; others are left to the C library."""
    if not abs(x) <= 700.0:
        return math.exp(x)
    exponent, rest = divmod(_fixed_point(x), _LN2)
    term, total, k = _UNIT, 0, 1
    while term:
        total += term
        term = ((term * rest) >> _FRACTION_BITS) // k
        k += 1
    return math.ldexp(total / _UNIT, exponent)


@lru_cache(maxsize=4096)
def _rounded_sine_cosine(angle: float) -> tuple[float, float]:
    sine, cosine = _fixed_point_sine_cosine(angle)
    return sine / _UNIT, cosine / _UNIT


def _fixed_point(value: float) -> int:
    numerator, denominator = value.as_integer_ratio()
    return (numerator << _FRACTION_BITS) // denominator


def _fixed_point_sine_cosine(angle: float) -> tuple[int, int]:
    """Sine and cosine from their Taylor series in integers, after reduction by multiples of pi/2."""
    fixed = _fixed_point(angle)
    quadrant = (2 * fixed + _HALF_PI) // (2 * _HALF_PI)
    x = fixed - quadrant * _HALF_PI
    square = (x * x) >> _FRACTION_BITS
    values = []
    for term, first in ((x, 1), (_UNIT, 0)):
        total, k = 0, first
        while term not in (0, -1):
            total, k = total + term, k + 2
            term = -((term * square) >> _FRACTION_BITS) // (k * (k - 1))
        values.append(total)
    sine, cosine = values
    for _ in range(quadrant % 4):
        sine, cosine = cosine, -sine
    return sine, cosine

"""Linear algebra and functions that are the same on every processor, compared with LAPACK and extended precision."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kinema.core import (
    arc_sine,
    arc_tangent,
    determinant3,
    exponential,
    reproducible_inverse,
    reproducible_product,
    reproducible_solve,
    rotate_tensor,
    sine_cosine,
    sines_cosines,
    singular_value_decomposition,
    symmetric_eigen,
)

EPS = np.finfo(np.float64).eps


def matrices(rank: int, n: int = 3) -> list[np.ndarray]:
    """Random matrices of a rank, from tiny to huge."""
    rng = np.random.default_rng(rank)
    return [
        (rng.normal(size=(n, rank)) @ rng.normal(size=(rank, n))) * 10.0**exponent for exponent in range(-150, 151, 10)
    ]


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_singular_values_and_vectors(rank: int) -> None:
    for matrix in matrices(rank):
        u, s, vt = singular_value_decomposition(matrix)
        expected = np.linalg.svd(matrix, compute_uv=False)
        np.testing.assert_allclose(s, expected, rtol=0, atol=20 * EPS * expected[0])
        np.testing.assert_allclose((u * s) @ vt, matrix, rtol=0, atol=20 * EPS * expected[0])
        for orthogonal in (u, vt):
            np.testing.assert_allclose(orthogonal @ orthogonal.T, np.eye(3), atol=20 * EPS)


def test_the_decomposition_of_zero_is_a_basis() -> None:
    u, s, vt = singular_value_decomposition(np.zeros((3, 3)))
    assert not s.any()
    np.testing.assert_array_equal(u @ u.T, np.eye(3))
    np.testing.assert_array_equal(vt, np.eye(3))


@pytest.mark.parametrize("n", [1, 3, 6])
def test_eigenvalues_and_vectors(n: int) -> None:
    for matrix in matrices(n, n):
        symmetric = matrix + matrix.T
        values, axes = symmetric_eigen(symmetric)
        expected = np.linalg.eigvalsh(symmetric)
        tolerance = 40 * EPS * np.abs(expected).max()
        np.testing.assert_allclose(values, expected, rtol=0, atol=tolerance)
        np.testing.assert_allclose((axes * values) @ axes.T, symmetric, rtol=0, atol=tolerance)
        np.testing.assert_allclose(axes.T @ axes, np.eye(n), atol=40 * EPS)


def test_inverses_of_a_batch() -> None:
    rng = np.random.default_rng(1)
    batch = rng.normal(size=(2, 20, 4, 4))
    batch[0, 0] = np.eye(4)[[1, 2, 3, 0]]  # needs pivots
    np.testing.assert_allclose(reproducible_inverse(batch) @ batch, np.broadcast_to(np.eye(4), batch.shape), atol=1e-12)
    assert not np.isfinite(reproducible_inverse(np.zeros((2, 2)))).any()
    assert determinant3(batch[0, 1, :3, :3]) == pytest.approx(np.linalg.det(batch[0, 1, :3, :3]), rel=1e-12)


def test_products_of_matrices_and_vectors() -> None:
    rng = np.random.default_rng(2)
    a, b, v, w = rng.normal(size=(5, 2, 3)), rng.normal(size=(5, 3, 4)), rng.normal(size=3), rng.normal(size=2)
    np.testing.assert_allclose(reproducible_product(a, b), a @ b, atol=1e-14)
    np.testing.assert_allclose(reproducible_product(a[0], v), a[0] @ v, atol=1e-14)
    np.testing.assert_allclose(reproducible_product(w, a[0]), w @ a[0], atol=1e-14)
    assert float(reproducible_product(v, v)) == pytest.approx(v @ v, rel=1e-15)
    rotations, tensors = rng.normal(size=(5, 3, 3)), rng.normal(size=(5, 3, 3))
    expected = rotations @ tensors @ rotations.swapaxes(1, 2)
    np.testing.assert_allclose(rotate_tensor(rotations, tensors), expected, atol=1e-13)


def test_sine_and_cosine_are_correctly_rounded() -> None:
    """Within half a unit in the last place of x87's extended precision, plus its own error."""
    if np.finfo(np.longdouble).eps > 1e-18:
        pytest.skip("no extended precision on this processor")
    rng = np.random.default_rng(3)
    angles = [*rng.uniform(-10, 10, 3000), *(rng.uniform(-1, 1, 300) * 10.0 ** rng.integers(-12, 4, 300)), math.pi]
    for angle in map(float, angles):
        for found, function in zip(sine_cosine(angle), (np.sin, np.cos), strict=True):
            exact = function(np.longdouble(angle))
            assert abs(np.longdouble(found) - exact) <= (0.5 + 2**-8) * math.ulp(found)
    assert sine_cosine(math.pi / 2)[0] == 1.0
    assert sine_cosine(math.pi) == (math.sin(math.pi), -1.0)
    assert [math.copysign(1.0, sine_cosine(x)[0]) for x in (0.0, -0.0)] == [1.0, -1.0]
    assert sine_cosine(2.0**60) == (math.sin(2.0**60), math.cos(2.0**60))


def test_angles_and_exponentials_are_correctly_rounded() -> None:
    """Arc tangents and exponentials as sine and cosine above; arc sines within two units in the last place."""
    if np.finfo(np.longdouble).eps > 1e-18:
        pytest.skip("no extended precision on this processor")
    rng = np.random.default_rng(4)
    points = rng.normal(size=(2000, 2)) * 10.0 ** rng.integers(-12, 4, (2000, 2))
    for y, x in points.tolist():
        found, exact = arc_tangent(y, x), np.arctan2(np.longdouble(y), np.longdouble(x))
        assert abs(np.longdouble(found) - exact) <= (0.5 + 2**-4) * math.ulp(found)
    for x in [*rng.uniform(-1, 1, 500).tolist(), 1.0, -1.0, 0.0]:
        assert arc_sine(x) == pytest.approx(math.asin(x), rel=4 * EPS, abs=0.0)
    for x in [*rng.uniform(-40, 40, 1000).tolist(), 0.0, 1e-300, -700.0, 700.0]:
        found, exact = exponential(x), np.exp(np.longdouble(x))
        assert abs(np.longdouble(found) - exact) <= (0.5 + 2**-6) * math.ulp(found)
    assert [arc_tangent(y, x) for y, x in ((0.0, -1.0), (-0.0, -1.0), (1.0, 0.0))] == [math.pi, -math.pi, math.pi / 2]
    assert (arc_tangent(1e-20, -1.0), arc_tangent(1e-300, 1e300)) == (math.pi, 0.0)
    assert (exponential(-1000.0), exponential(-math.inf)) == (0.0, 0.0)
    assert math.isnan(arc_tangent(math.nan, 1.0))
    assert math.isnan(exponential(math.nan))


def test_sines_and_cosines_of_arrays() -> None:
    angles = np.array([[0.1, -2.0, 7.0]])
    sines, cosines = sines_cosines(angles)
    assert sines.shape == cosines.shape == (1, 3)
    assert list(zip(sines[0], cosines[0], strict=True)) == [sine_cosine(angle) for angle in angles[0].tolist()]
    assert sines_cosines(np.zeros(0))[0].shape == (0,)


@pytest.mark.parametrize("shape", [(0, 3, 3), (2, 0, 0), (0, 0), (0, 2, 1, 1)])
def test_solutions_of_no_systems_are_empty(shape: tuple[int, ...]) -> None:
    matrix = np.zeros(shape)
    assert reproducible_inverse(matrix).shape == shape
    assert reproducible_solve(matrix, np.zeros((*shape[:-1], 2))).shape == (*shape[:-1], 2)

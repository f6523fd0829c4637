"""Spheres and boxes around meshes, against trimesh and by what makes them the smallest."""

from __future__ import annotations

import numpy as np
import pytest
import trimesh
from hypothesis import given, settings, strategies as st

from kinema.geometry import (
    MeshData,
    MeshError,
    apply_affine,
    axis_aligned_bounding_box,
    bounding_sphere,
    box,
    capsule,
    cylinder,
    oriented_bounding_box,
    plane,
    sphere,
)

from .mesh_writers import random_turn

NO_FACES = np.zeros((0, 3), dtype=np.int64)


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), count=st.integers(1, 80), size=st.sampled_from([1e-4, 1.0, 1e3]))
def test_the_smallest_sphere(seed: int, count: int, size: float) -> None:
    """It holds all points, and its centre lies among those that it touches, so that no smaller one can."""
    random = np.random.default_rng(seed)
    points = size * (random.normal(size=(count, 3)) * random.uniform(0.1, 1.0, 3) + random.normal(size=3))
    found = bounding_sphere(MeshData(points, NO_FACES))
    distances = np.linalg.norm(points - found.center, axis=1)
    assert distances.max() <= found.radius * (1 + 1e-12)
    touching = points[distances >= found.radius * (1 - 1e-9)]
    # The centre is a mean of the points it touches with weights that are not negative.
    from scipy.optimize import nnls

    sums = np.vstack([(touching - found.center).T / size, np.ones(len(touching))])
    _, residual = nnls(sums, np.array([0.0, 0.0, 0.0, 1.0]))
    assert residual < 1e-6


@pytest.mark.parametrize(
    ("mesh", "radius"),
    [(box((1, 2, 3)), np.sqrt(14) / 2), (sphere(0.3, 32), 0.3), (capsule(0.1, 0.5), 0.35), (plane(3, 4), 2.5)],
)
def test_spheres_of_known_solids(mesh: MeshData, radius: float) -> None:
    moved = bounding_sphere(apply_affine(mesh, random_turn(1), (100.0, 0.0, -5.0)))
    assert moved.radius == pytest.approx(radius, rel=1e-9)
    np.testing.assert_allclose(moved.center, (100.0, 0.0, -5.0), atol=1e-9)


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), count=st.integers(4, 60))
def test_a_fitting_box_is_no_larger_than_that_of_trimesh(seed: int, count: int) -> None:
    random = np.random.default_rng(seed)
    points = random.normal(size=(count, 3)) * random.uniform(0.1, 1.0, 3) @ random_turn(seed).T + random.normal(size=3)
    found = oriented_bounding_box(MeshData(points, NO_FACES))
    local = (points - found.center) @ found.rotation
    assert (np.abs(local) <= found.size / 2 + 1e-9).all()
    np.testing.assert_allclose(found.rotation @ found.rotation.T, np.eye(3), atol=1e-12)
    assert np.linalg.det(found.rotation) > 0
    _, extents = trimesh.bounds.oriented_bounds(points)
    assert found.volume <= np.prod(extents) * (1 + 1e-7)
    assert found.volume <= axis_aligned_bounding_box(MeshData(points, NO_FACES)).volume * (1 + 1e-9)


@pytest.mark.parametrize("size", [1e-4, 1.0, 1e3])
def test_a_box_fits_a_turned_box(size: float) -> None:
    """Its axes are those of the box, and not in another order while the turn is small."""
    angle = 0.3
    turn = np.array([[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]])
    moved = apply_affine(box((size, 2 * size, 3 * size)), turn, np.array([1, 2, 3]) * size)
    found = oriented_bounding_box(moved)
    np.testing.assert_allclose(found.size, [size, 2 * size, 3 * size], rtol=1e-9)
    np.testing.assert_allclose(found.rotation, turn, atol=1e-9)
    np.testing.assert_allclose(found.center, np.array([1, 2, 3]) * size, rtol=1e-9)


def test_a_box_along_the_axes_wins_a_tie_and_a_flat_mesh_has_no_fitting_box() -> None:
    np.testing.assert_array_equal(oriented_bounding_box(box((1, 1, 1))).rotation, np.eye(3))
    np.testing.assert_array_equal(axis_aligned_bounding_box(cylinder(0.5, 3.0)).size, [1.0, 1.0, 3.0])
    with pytest.raises(MeshError, match="plane"):
        oriented_bounding_box(plane(1, 1))

"""Convex hulls."""

from __future__ import annotations

import numpy as np
import pytest
import trimesh
from hypothesis import given, settings, strategies as st

from kinema.geometry import (
    MeshData,
    MeshError,
    apply_affine,
    box,
    convex_hull,
    cylinder,
    measure_mesh_quality,
    plane,
    sphere,
)

from .mesh_writers import random_turn

EXAMPLES = 30

NO_FACES = np.zeros((0, 3), dtype=np.int64)


def assert_hull_of(hull: MeshData, points: np.ndarray) -> None:
    quality = measure_mesh_quality(hull)
    assert quality.is_closed
    assert not quality.is_inside_out
    corners = hull.triangles()
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    heights = normals @ points.T - np.einsum("ij,ij->i", normals, corners[:, 0])[:, None]
    assert heights.max() < 1e-9 * quality.extents.max() ** 3
    assert {tuple(vertex) for vertex in hull.vertices} <= {tuple(point) for point in points}


@settings(max_examples=EXAMPLES)
@given(seed=st.integers(0, 10**6), count=st.integers(5, 60))
def test_hull_of_random_points(seed: int, count: int) -> None:
    points = np.random.default_rng(seed).normal(size=(count, 3))
    assert_hull_of(convex_hull(MeshData(points, NO_FACES)), points)


@pytest.mark.parametrize("turned", [False, True])
def test_hull_of_points_with_many_coplanar(turned: bool) -> None:
    """Qhull leaves flat facets to be cut into triangles, with any winding."""
    grid = np.stack(np.meshgrid(*[np.arange(5) / 7] * 3), axis=-1).reshape(-1, 3)
    points = grid @ random_turn(1).T if turned else grid
    hull = convex_hull(MeshData(points, NO_FACES))
    assert_hull_of(hull, points)
    assert measure_mesh_quality(hull).volume == pytest.approx((4 / 7) ** 3)


@pytest.mark.parametrize("mesh", [sphere(0.3, 24), cylinder(0.1, 2.0, 33), box((1, 2, 3))])
def test_hull_of_a_convex_mesh_is_itself(mesh: MeshData) -> None:
    hull = convex_hull(mesh)
    assert measure_mesh_quality(hull).volume == pytest.approx(measure_mesh_quality(mesh).volume)
    assert measure_mesh_quality(hull).area == pytest.approx(measure_mesh_quality(mesh).area)


def test_hull_agrees_with_trimesh_and_is_deterministic() -> None:
    points = np.random.default_rng(0).normal(size=(500, 3)) + 1000
    first, second = convex_hull(MeshData(points, NO_FACES)), convex_hull(MeshData(points, NO_FACES))
    assert measure_mesh_quality(first).volume == pytest.approx(trimesh.PointCloud(points).convex_hull.volume)
    np.testing.assert_array_equal(first.faces, second.faces)
    np.testing.assert_array_equal(first.vertices, second.vertices)


def test_vertices_no_face_uses_do_not_matter() -> None:
    mesh = box((1, 1, 1))
    with_stray = MeshData(np.concatenate([mesh.vertices, [[5, 5, 5]]]), mesh.faces)
    np.testing.assert_allclose(measure_mesh_quality(convex_hull(with_stray)).extents, [1, 1, 1])


@pytest.mark.parametrize("seed", range(5))
def test_flat_input_is_refused(seed: int) -> None:
    turn = random_turn(seed)
    with pytest.raises(MeshError, match="plane"):
        convex_hull(apply_affine(plane(1, 1), turn, (1, 2, 3)))


def test_too_few_or_broken_points_are_refused() -> None:
    with pytest.raises(MeshError, match="four"):
        convex_hull(MeshData(np.eye(3), np.array([[0, 1, 2]])))
    with pytest.raises(MeshError, match="four"):
        convex_hull(MeshData(np.repeat(np.eye(3), 3, axis=0), NO_FACES))
    with pytest.raises(MeshError, match="finite"):
        convex_hull(MeshData(np.full((4, 3), np.nan), NO_FACES))

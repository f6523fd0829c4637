"""Tables of the farthest vertex by direction, against the search through all vertices."""

from __future__ import annotations

import numpy as np
import pytest

from kinema.geometry import (
    SUPPORT_RESOLUTION,
    GeometryError,
    MeshData,
    box,
    build_support_table,
    capsule,
    convex_polytope,
    cylinder,
    sphere,
    support_table_directions,
    support_vertex_indices,
)


def directions(count: int = 2000) -> np.ndarray:
    random = np.random.default_rng(0).normal(size=(count, 3))
    return np.concatenate([random, np.eye(3), -np.eye(3), [[0, -1e-300, 1], [-1, -0.0, 0], [-1, 0.0, 0]]])


def shortfall(vertices: np.ndarray, found: np.ndarray, along: np.ndarray) -> np.ndarray:
    """How much farther the farthest vertex reaches along unit vectors [m]."""
    unit = along / np.linalg.norm(along, axis=1)[:, None]
    return (unit @ vertices.T).max(axis=1) - np.einsum("ij,ij->i", vertices[found], unit)


@pytest.mark.parametrize("mesh", [box((1, 2, 3)), cylinder(0.5, 1.0, 32), sphere(0.7, 32), capsule(0.1, 0.4, 24)])
def test_solids_with_clear_corners_are_looked_up_exactly(mesh: MeshData) -> None:
    vertices = convex_polytope(mesh).vertices
    field = build_support_table(vertices)
    assert shortfall(vertices, field.lookup(directions()), directions()).max() < 1e-12
    assert shortfall(vertices, support_vertex_indices(vertices, directions()), directions()).max() < 1e-15


def test_fine_round_solids_fall_short_by_little() -> None:
    ball = sphere(1.0, 120).vertices
    field = build_support_table(ball, 60)
    # a third as many directions: nine times as far off as the 5e-4 of the usual table
    assert 1e-5 < shortfall(ball, field.lookup(directions(500)), directions(500)).max() < 9 * 5e-4


def test_random_solids_fall_short_by_two_hundredths_at_most() -> None:
    points = np.random.default_rng(3).normal(size=(200, 3))
    field = build_support_table(points)
    assert shortfall(points, field.lookup(directions()), directions()).max() < 0.02 * np.ptp(points, axis=0).max()


def test_the_table_has_both_poles_and_every_entry_is_the_farthest() -> None:
    table = support_table_directions()
    assert table.shape == (SUPPORT_RESOLUTION**2, 3)
    np.testing.assert_allclose(np.linalg.norm(table, axis=1), 1.0, atol=1e-15)
    np.testing.assert_array_equal(
        table.reshape(SUPPORT_RESOLUTION, SUPPORT_RESOLUTION, 3)[:, 0], [[0, 0, 1]] * SUPPORT_RESOLUTION
    )
    np.testing.assert_array_equal(
        table.reshape(SUPPORT_RESOLUTION, SUPPORT_RESOLUTION, 3)[:, -1], [[0, 0, -1]] * SUPPORT_RESOLUTION
    )
    points = np.random.default_rng(1).normal(size=(30, 3))
    field = build_support_table(points)
    np.testing.assert_array_equal(field.support_points, points[field.vertex_indices])
    assert shortfall(points, field.vertex_indices, table).max() < 1e-15


def test_what_makes_no_table_is_refused() -> None:
    with pytest.raises(GeometryError, match="at least 4"):
        build_support_table(box((1, 1, 1)).vertices, 3)
    with pytest.raises(GeometryError, match="empty set"):
        build_support_table(np.zeros((0, 3)))

"""Tables of the farthest vertex by direction, against the search through all vertices."""

from __future__ import annotations

import numpy as np
import pytest

from kinema.shapes import (
    SUPPORT_RES,
    MeshData,
    ShapeError,
    box,
    capsule,
    cylinder,
    polytope,
    sphere,
    support_directions,
    support_field,
    support_vertices,
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
    vertices = polytope(mesh).vertices
    field = support_field(vertices)
    assert shortfall(vertices, field.support(directions()), directions()).max() < 1e-12
    assert shortfall(vertices, support_vertices(vertices, directions()), directions()).max() < 1e-15


def test_fine_round_solids_fall_short_by_little() -> None:
    ball = sphere(1.0, 120).vertices
    field = support_field(ball, 60)
    # a third as many directions: nine times as far off as the 5e-4 of the usual table
    assert 1e-5 < shortfall(ball, field.support(directions(500)), directions(500)).max() < 9 * 5e-4


def test_random_solids_fall_short_by_two_hundredths_at_most() -> None:
    points = np.random.default_rng(3).normal(size=(200, 3))
    field = support_field(points)
    assert shortfall(points, field.support(directions()), directions()).max() < 0.02 * np.ptp(points, axis=0).max()


def test_the_table_has_both_poles_and_every_entry_is_the_farthest() -> None:
    table = support_directions()
    assert table.shape == (SUPPORT_RES**2, 3)
    np.testing.assert_allclose(np.linalg.norm(table, axis=1), 1.0, atol=1e-15)
    np.testing.assert_array_equal(table.reshape(SUPPORT_RES, SUPPORT_RES, 3)[:, 0], [[0, 0, 1]] * SUPPORT_RES)
    np.testing.assert_array_equal(table.reshape(SUPPORT_RES, SUPPORT_RES, 3)[:, -1], [[0, 0, -1]] * SUPPORT_RES)
    points = np.random.default_rng(1).normal(size=(30, 3))
    field = support_field(points)
    np.testing.assert_array_equal(field.v, points[field.vid])
    assert shortfall(points, field.vid, table).max() < 1e-15


def test_what_makes_no_table_is_refused() -> None:
    with pytest.raises(ShapeError, match="4 directions"):
        support_field(box((1, 1, 1)).vertices, 3)
    with pytest.raises(ShapeError, match="none"):
        support_field(np.zeros((0, 3)))

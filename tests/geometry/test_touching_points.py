"""Points of meshes that can be the first to touch: on the surface, at what stands out, not in hollows."""

from __future__ import annotations

import numpy as np
import pytest

from kinema.geometry import MeshData, box, contact_sample_points, signed_distances, sphere
from kit.hollow_meshes import cup, tray

HALF, HOLE, FLOOR = (0.5, 0.4, 0.3), (0.3, 0.2), 0.2


def test_corners_and_edges_of_a_box() -> None:
    """All eight corners, the rest on edges, evenly, and nothing within faces."""
    points = contact_sample_points(box(np.array([1.0, 0.5, 0.25])))
    at_sides = np.isclose(np.abs(points), [0.5, 0.25, 0.125]).sum(axis=1)
    assert (at_sides == 3).sum() == 8
    assert (at_sides >= 2).all()
    assert len(points) > 100


def test_nothing_in_hollows() -> None:
    """The lower edges of a tray's hole are never the first to touch, its upper ones are."""
    mesh = MeshData(*tray(HALF, HOLE, FLOOR))
    points = contact_sample_points(mesh)
    np.testing.assert_allclose(signed_distances(mesh, points), 0.0, atol=1e-12)
    in_hole = (np.abs(points[:, :2]) < np.array(HOLE) + 1e-9).all(axis=1)
    assert in_hole.any()
    np.testing.assert_allclose(points[in_hole & (points[:, 2] > -HALF[2] + 1e-9), 2], HALF[2])
    turned_round = MeshData(mesh.vertices, mesh.faces[:, ::-1])
    both = [np.unique(np.round(p, 9) + 0.0, axis=0) for p in (points, contact_sample_points(turned_round))]
    np.testing.assert_allclose(both[0], both[1], atol=1e-8)


@pytest.mark.parametrize("most", [40, 300])
def test_never_more_than_asked_for(most: int) -> None:
    """Of a fine surface some of all parts of it; the same at every call."""
    for mesh in (sphere(0.5), MeshData(*cup(sides=48))):
        points = contact_sample_points(mesh, most)
        assert 0 < len(points) <= most
        assert (np.ptp(points, axis=0) > 0.8 * np.ptp(mesh.vertices, axis=0)).all()
        np.testing.assert_array_equal(points, contact_sample_points(mesh, most))

"""How often a mesh goes around a point, against what is known of a torus."""

from __future__ import annotations

import numpy as np
import pytest
import trimesh

from kinema.check.hulls import FastWindingNumber

MAJOR, MINOR = 1.0, 0.4


@pytest.mark.parametrize("fine", [12, 96])
def test_a_torus_holds_what_is_nearer_to_its_ring_than_its_tube_is_thick(fine: int) -> None:
    """Groups of triangles that are far away count as one, and it makes no difference."""
    torus = trimesh.creation.torus(MAJOR, MINOR, major_sections=2 * fine, minor_sections=fine)
    winding = FastWindingNumber(np.asarray(torus.triangles, dtype=np.float64))
    points = np.random.default_rng(3).uniform(-1.5, 1.5, (300, 3)) * (1, 1, 0.5)
    to_ring = np.hypot(np.hypot(points[:, 0], points[:, 1]) - MAJOR, points[:, 2])
    clear = np.abs(to_ring - MINOR) > 0.1
    found = np.array([winding.evaluate(p) for p in points[clear]])
    assert clear.sum() > 100
    np.testing.assert_allclose(found, to_ring[clear] < MINOR, atol=0.01)


def test_a_mesh_that_is_nothing_but_a_point() -> None:
    assert FastWindingNumber(np.zeros((1, 3, 3))).evaluate(np.ones(3)) == pytest.approx(0.0)

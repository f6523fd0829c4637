"""A small part of what `make pairs` compares with coal: distances, normals and nearest points, degenerate ones too."""

from __future__ import annotations

import pytest

from .coal_side import TOLERANCE, all_poses, compared

pytest.importorskip("coal", reason="coal comes with the wheels of Pinocchio")


@pytest.mark.parametrize(
    "kinds", [("plane", "mesh"), ("sphere", "cone"), ("box", "mesh"), ("ellipsoid", "mesh")], ids="-".join
)
def test_distances_and_nearest_points(kinds: tuple[str, str]) -> None:
    """None is off of shapes with flat faces, hardly any of others, and no direction is."""
    found = compared(kinds, all_poses(50, 600))
    assert len(found.off) <= (3 if "ellipsoid" in kinds else 0)
    assert found.off_apart == 0
    assert found.turned == 0
    assert found.beside_surface < TOLERANCE
    assert found.same > 0.9 * found.count

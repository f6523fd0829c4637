"""Convex hulls of very small and very large point sets."""

from __future__ import annotations

import numpy as np
import pytest

from kinema.geometry import MeshData, convex_hull, signed_volume


def cube(size: float) -> MeshData:
    return MeshData(np.array(list(np.ndindex(2, 2, 2)), dtype=float) * size, np.zeros((0, 3), dtype=np.int64))


@pytest.mark.parametrize("size", [1e-50, 1e-9, 1.0, 1e12, 1e50])
def test_hulls_of_any_size(size: float) -> None:
    hull = convex_hull(cube(size))
    assert hull.n_faces == 12
    assert signed_volume(hull) == pytest.approx(size**3)


def test_huge_coordinates_do_not_end_the_process() -> None:
    """Qhull itself would overflow on them."""
    with np.errstate(all="ignore"):
        assert convex_hull(cube(1e300)).n_faces == 12

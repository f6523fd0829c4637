"""Where shapes touch, beside MuJoCo: the number of points, their places, distances and axes."""

from __future__ import annotations

import numpy as np
import pytest

from kinema.foundation import Array
from kinema.sim.collide.pairs import PAIRS

from .driver import Poses, Theirs, ours
from .poses import on_a_grid, somewhere

ANALYTIC = [kinds for kinds in PAIRS if "cone" not in kinds]
"""What MuJoCo finds by formulas, too; it has no cones."""
COUNT = 1500


def clear(found: list[Array], poses: Poses) -> tuple[Array, np.ndarray]:
    """Points that are not within rounding of the reach, all together, and which pose each is of."""
    owner = np.repeat(np.arange(len(found)), [len(points) for points in found])
    points = np.concatenate(found)
    kept = np.abs(points[:, 0] - poses.reach[owner]) > 1e-12
    return points[kept], owner[kept]


def right_angles(points: Array) -> np.ndarray:
    """Which have three axes at right angles: where a capsule stands on a plane, MuJoCo's need not be."""
    frames = points[:, 4:].reshape(-1, 3, 3)
    return np.abs(frames @ np.swapaxes(frames, 1, 2) - np.eye(3)).max(axis=(1, 2), initial=0.0) < 1e-12


@pytest.mark.parametrize("poses", [somewhere(1, COUNT), on_a_grid(2, COUNT)], ids=["anywhere", "on a grid"])
@pytest.mark.parametrize("kinds", ANALYTIC, ids="-".join)
def test_points(kinds: tuple[str, str], poses: Poses) -> None:
    found = ours(kinds, poses)
    assert max(map(len, found)) <= PAIRS[kinds].most
    (own, of), (other, of_other) = (clear(points, poses) for points in (found, list(Theirs(kinds).points(poses))))
    np.testing.assert_array_equal(np.bincount(of, minlength=COUNT), np.bincount(of_other, minlength=COUNT))
    assert len(own) > COUNT // 3
    assert right_angles(own).all()
    valid = right_angles(other)
    assert valid.all() or kinds == ("plane", "capsule")
    np.testing.assert_allclose(own[:, :7], other[:, :7], rtol=0, atol=1e-9)
    np.testing.assert_allclose(own[valid], other[valid], rtol=0, atol=1e-9)

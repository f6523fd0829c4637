"""Cones on a plane, by closed forms: MuJoCo has none."""

from __future__ import annotations

import numpy as np

from .driver import Poses, ours
from .poses import somewhere


def on_plane(rotation: list[list[float]], height: float, reach: float = 1e-3) -> np.ndarray:
    """The points of a cone of radius 0.3 and height 0.8 above z = 0."""
    zero, none = np.zeros((1, 3)), np.ones((1, 3))
    cone = (np.array([[0.0, 0.0, height]]), np.array([rotation]), np.array([[0.3, 0.4, 0.0]]))
    return ours(("plane", "cone"), Poses((zero, np.eye(3)[None], none), cone, np.array([reach])))[0]


def test_a_cone_on_its_base_its_tip_and_its_side() -> None:
    standing = on_plane([[1, 0, 0], [0, 1, 0], [0, 0, 1]], 0.4)
    np.testing.assert_allclose(np.linalg.norm(standing[:, 1:3], axis=1), 0.3)
    np.testing.assert_allclose(standing[:, 1:3].sum(axis=0), 0.0, atol=1e-12)
    assert len(standing) == 3
    assert len(on_plane([[1, 0, 0], [0, -1, 0], [0, 0, -1]], 0.4)) == 1
    slope = np.arctan2(0.3, 0.8)  # between the axis and the side
    s, c = np.sin(slope), np.cos(slope)
    lying = on_plane([[-s, 0, c], [0, 1, 0], [-c, 0, -s]], 0.4 * s)
    assert len(lying) == 2
    np.testing.assert_allclose(lying[:, 0], 0.0, atol=1e-12)
    np.testing.assert_allclose(np.ptp(lying[:, 1]), np.hypot(0.3, 0.8))


def test_the_deepest_point_of_a_cone() -> None:
    """Is the lowest of its tip and many points of its rim."""
    poses = somewhere(11, 150)
    turns = np.linspace(0.0, 2.0 * np.pi, 5001)
    for i, points in enumerate(ours(("plane", "cone"), poses)):
        radius, half, _ = poses.b[2][i]
        rim = np.array([radius * np.cos(turns), radius * np.sin(turns), np.full_like(turns, -half)]).T
        corners = np.concatenate([rim, [[0.0, 0.0, half]]]) @ poses.b[1][i].T + poses.b[0][i]
        lowest = ((corners - poses.a[0][i]) @ poses.a[1][i][:, 2]).min()
        assert len(points) > 0 or lowest > poses.reach[i] - 1e-5
        if len(points):
            np.testing.assert_allclose(points[:, 0].min(), lowest, atol=1e-6)

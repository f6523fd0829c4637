"""Spheres with ellipsoids, by many points of their surfaces: MuJoCo's search is not exact, least of all inside."""

from __future__ import annotations

import numpy as np

from .driver import Poses, ours
from .poses import rotations, somewhere


def test_no_point_is_nearer() -> None:
    """Than the nearest one, from outside and from inside; and some are nearly as near."""
    poses, generator = somewhere(13, 100), np.random.default_rng(0)
    nearer = (poses.b[0] + 0.4 * (poses.a[0] - poses.b[0]), *poses.a[1:])
    poses = Poses(nearer, poses.b, np.full(100, 10.0))
    directions = generator.normal(size=(20000, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    n_inside = 0
    for i, points in enumerate(ours(("sphere", "ellipsoid"), poses)):
        centre = (poses.a[0][i] - poses.b[0][i]) @ poses.b[1][i]
        half, apart = poses.b[2][i], points[0, 0] + poses.a[2][i][0]
        inside = np.linalg.norm(centre / half) < 1.0
        assert (apart < 0.0) == inside
        nearest = np.linalg.norm(directions * half - centre, axis=1).min()
        assert -1e-12 < nearest - abs(apart) < 0.02
        n_inside += inside
    assert 20 < n_inside < 80


def test_from_the_middle_and_the_planes_of_symmetry() -> None:
    """Along the shortest half axis, or beside it where the nearest point is not on an axis."""
    count = 50
    world = rotations(np.random.default_rng(1), count)
    half = np.array([0.2, 1.0, 0.5])
    along = np.linspace(0.0, 0.7, count)  # from the middle along the longest axis, inside
    centre = np.stack([np.zeros(count), along, np.zeros(count)], axis=1)
    spheres = (np.einsum("nij,nj->ni", world, centre), world, np.full((count, 3), 0.1))
    ellipsoids = (np.zeros((count, 3)), world, np.tile(half, (count, 1)))
    for i, points in enumerate(ours(("sphere", "ellipsoid"), Poses(spheres, ellipsoids, np.zeros(count)))):
        # the nearest point (x, y) of the ellipse has y = centre / (1 - (a / b)^2)
        y = along[i] / (1.0 - (half[0] / half[1]) ** 2)
        x = half[0] * np.sqrt(1.0 - (y / half[1]) ** 2)
        np.testing.assert_allclose(points[0, 0], -np.hypot(x, y - along[i]) - 0.1, atol=1e-9)

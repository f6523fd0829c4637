"""Penetration depths of convex bodies, beside closed forms and coal."""

from __future__ import annotations

import numpy as np
import pytest

from kinema.core import Pose, quaternion_to_matrix
from kinema.geometry import ConvexBody, MeshData, box, convex_polytope, core_distance, penetration_depth

NO_NORMALS = np.zeros((0, 3))


def cube(size: float) -> ConvexBody:
    polytope = convex_polytope(box([size] * 3))
    return ConvexBody(polytope.vertices, polytope.normals)


def pill(radius: float, half: float) -> ConvexBody:
    return ConvexBody(np.array([[0.0, 0.0, -half], [0.0, 0.0, half]]), NO_NORMALS, radius)


@pytest.mark.parametrize("gap", [-0.3, -0.02, 0.0, 0.5])
def test_bodies_at_known_distances(gap: float) -> None:
    """Boxes along an axis, a capsule beside a box, two balls; the depth of overlap is positive."""
    pairs = [
        (cube(1.0), cube(1.0), [1.0 + gap, 0.1, 0.2]),
        (cube(1.0), pill(0.2, 0.5), [0.0, 0.7 + gap, 0.1]),
        (pill(0.25, 0.0), pill(0.5, 0.0), [0.0, 0.0, 0.75 + gap]),
    ]
    for a, b, offset in pairs:
        depth = penetration_depth(a, b.transformed(Pose(np.array(offset))))
        assert depth == pytest.approx(max(-gap, 0.0), abs=1e-9)


def test_random_polytopes_beside_coal() -> None:
    """Distances to 1e-7 m; depths are never below the true ones, and at most some times as large."""
    coal = pytest.importorskip("coal", reason="this compares with coal (pip install coal)")
    rng, ratios, n_apart = np.random.default_rng(1), [], 0
    request, here = coal.DistanceRequest(), coal.Transform3s.Identity()
    request.enable_signed_distance = True
    for _ in range(60):
        bodies, theirs = [], []
        for shift in (np.zeros(3), rng.normal(size=3) * 0.3):
            points, quaternion = rng.normal(size=(25, 3)) * 0.1, rng.normal(size=4)
            turned = quaternion_to_matrix(quaternion / np.linalg.norm(quaternion))
            polytope = convex_polytope(MeshData(points, np.zeros((0, 3), np.int64)))
            body = ConvexBody(polytope.vertices, polytope.normals).transformed(Pose(shift, turned))
            bodies.append(body)
            vertices = coal.StdVec_Vec3s()
            for point in body.points:
                vertices.append(point)
            theirs.append(coal.ConvexBase.convexHull(vertices, False, "Qt"))
        expected = coal.distance(theirs[0], here, theirs[1], here, request, coal.DistanceResult())
        depth = penetration_depth(*bodies)
        if expected > 0.0:
            n_apart += 1
            assert depth == 0.0
            assert core_distance(bodies[0].points, bodies[1].points) == pytest.approx(expected, abs=1e-7)
        else:
            ratios.append(-depth / expected)
    assert n_apart > 20
    assert len(ratios) > 10
    assert min(ratios) > 1.0 - 1e-6
    assert np.median(ratios) < 1.2
    assert max(ratios) < 4.0

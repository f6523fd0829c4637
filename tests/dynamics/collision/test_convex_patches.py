"""Several points of convex shapes: the corners of what faces have in common, the same from step to step."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial import ConvexHull

from kinema.core import Array
from kinema.dynamics.collision.collision_table import convex_collision_table
from kit.choosing import representatives

from .convex_driver import Compiled, box_corners, depth_along, stone
from .driver import Poses, ours
from .poses import on_a_grid, somewhere

CONVEX_PAIRS = convex_collision_table(multiccd=True)
COUNT = 200


def about_z(angles: Array) -> Array:
    c, s, zero = np.cos(angles), np.sin(angles), np.zeros_like(angles)
    return np.moveaxis(np.array([[c, -s, zero], [s, c, zero], [zero, zero, zero + 1.0]]), -1, 0)


def standing(first: tuple[float, ...], second: tuple[float, ...], height: float, seed: int = 3) -> Poses:
    """The second on the first, 1 mm deep, anywhere on its top."""
    generator = np.random.default_rng(seed)
    places = np.column_stack([generator.uniform(-0.8, 0.8, (COUNT, 2)), np.full(COUNT, height - 1e-3)])
    a, b = (about_z(generator.uniform(-3.0, 3.0, COUNT)) for _ in range(2))
    sizes = [np.tile(size, (COUNT, 1)) for size in (first, second)]
    return Poses((np.zeros((COUNT, 3)), a, sizes[0]), (places, b, sizes[1]), np.full(COUNT, 0.01))


def common_area(poses: Poses, i: int, first: Array, second: Array) -> float:
    """Of two rectangles seen from above: the second, cut at each side of the first in turn (Sutherland and Hodgman)."""
    corners = np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]]) * second[:2]
    turn = poses.a[1][i].T @ poses.b[1][i]
    place = poses.a[1][i].T @ (poses.b[0][i] - poses.a[0][i])
    polygon = [place[:2] + turn[:2, :2] @ corner for corner in corners]
    for axis in range(2):
        for side in (-1.0, 1.0):
            heights = [first[axis] - side * p[axis] for p in polygon]
            cut = []
            for k, (p, height) in enumerate(zip(polygon, heights, strict=True)):
                after, next_height = polygon[(k + 1) % len(polygon)], heights[(k + 1) % len(polygon)]
                cut += [p] if height >= 0.0 else []
                cut += [p + height / (height - next_height) * (after - p)] if height * next_height < 0.0 else []
            polygon = cut
    if len(polygon) < 3:
        return 0.0
    x, y = np.array(polygon).T
    return float(0.5 * abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)))


@pytest.mark.parametrize("kinds", [("box", "mesh"), ("box", "box")], ids="-".join)
def test_a_box_on_a_box(kinds: tuple[str, str]) -> None:
    """All points are on both surfaces, and their hull is what both tops have in common; by search and by formula."""
    first, second = (1.0, 0.7, 0.5), (0.4, 0.3, 0.2)
    poses = standing(first, second, 0.7)
    meshes = {"b": box_corners(second)}
    found = ours(kinds, poses) if kinds[1] == "box" else Compiled(CONVEX_PAIRS[kinds], meshes=meshes).points(poses)
    counts = set()
    for i, points in enumerate(found):
        area = common_area(poses, i, np.array(first), np.array(second))
        if area < 1e-3:
            continue
        counts.add(len(points))
        np.testing.assert_allclose(points[:, 0], -1e-3, atol=1e-9)
        np.testing.assert_allclose(points[:, 3], 0.4995, atol=1e-9)
        np.testing.assert_allclose(points[:, 4:7], np.tile([0.0, 0.0, 1.0], (len(points), 1)), atol=1e-9)
        assert ConvexHull(points[:, 1:3]).volume == pytest.approx(area, abs=1e-9)
    assert {4, 5, 6} <= counts <= {3, 4, 5, 6, 7, 8}


def test_a_cylinder_that_stands_keeps_its_points() -> None:
    """Eight on its rim, which shaking by 1e-6 does not move; also in single precision."""
    size, floor = (0.3, 0.4, 0.0), (3.0, 3.0, 0.5)
    single = Compiled(CONVEX_PAIRS["cylinder", "box"], "single")
    still = standing(size, floor, -0.9)
    still = Poses((still.a[0], still.a[1], still.a[2]), (still.b[0] + [0, 0, 2e-3], *still.b[1:]), still.reach)
    generator = np.random.default_rng(4)
    tilt = 1e-6 * generator.normal(size=(COUNT, 3, 3))
    shaken = Poses((still.a[0], still.a[1] + tilt - np.swapaxes(tilt, 1, 2), still.a[2]), still.b, still.reach)
    for own, other in zip(single.points(still), single.points(shaken), strict=True):
        assert own.shape == other.shape == (8, 13)
        np.testing.assert_allclose(np.linalg.norm(own[:, 1:3], axis=1), 0.3, atol=1e-6)
        np.testing.assert_allclose(own[:, :7], other[:, :7], atol=2e-5)
        np.testing.assert_allclose(own[:, 0], -1e-3, atol=1e-6)


@pytest.mark.parametrize("precision", representatives(["single", "double"], 1))
def test_what_is_small_stands_on_what_is_large(precision: str) -> None:
    """A cylinder of 1 cm on a mesh of 20 m: its points are close to each other for the mesh, and not for itself."""
    size = np.tile([0.01, 0.01, 0.0], (COUNT, 1))
    poses = standing((1.0, 1.0, 1.0), (10.0, 10.0, 0.5), -0.5)
    places = np.column_stack([np.zeros((COUNT, 2)), np.full(COUNT, 0.01)])
    poses = Poses((places, poses.a[1], size), poses.b, poses.reach)
    pair = Compiled(CONVEX_PAIRS["cylinder", "mesh"], precision, meshes={"b": box_corners((10.0, 10.0, 0.5))})
    for points in pair.points(poses):
        assert len(points) == 8
        np.testing.assert_allclose(np.linalg.norm(points[:, 1:3], axis=1), 0.01, atol=1e-4)


@pytest.mark.parametrize("kinds", [("cylinder", "mesh")], ids="-".join)
def test_no_point_is_deeper_than_the_shapes_are(kinds: tuple[str, str]) -> None:
    """Nor less deep, of the deepest; none is twice there; and there are never more than said."""
    meshes = {"b": stone(5)}
    pair = CONVEX_PAIRS[kinds]
    compiled = Compiled(pair, meshes=meshes)
    several = 0
    for poses in (somewhere(41, 400), on_a_grid(42, 400)):
        for i, points in enumerate(compiled.points(poses)):
            assert np.isfinite(points).all()
            assert len(points) <= pair.max_contacts
            assert (points[:, 0] <= poses.reach[i] + 1e-12).all()
            several += len(points) > 1
            if len(points):
                depth = depth_along(kinds, poses, i, points[0, 4:7], meshes)
                assert (points[:, 0] >= -depth - 1e-7).all()
                assert points[:, 0].min() <= -depth + 0.01 * abs(depth) + 1e-4
    assert several > 20

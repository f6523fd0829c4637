"""Rays and solids on plain numbers, and the order in which rays walk a mesh."""

from __future__ import annotations

import numpy as np
import pytest

from kinema.builder.ray_geoms import pack_bvh
from kinema.dynamics.sensors.ray_intersection import HIT_THRESHOLD, PRIMITIVE_INTERSECTIONS, Ray, contains_point
from kinema.model import BVH_LEAF_TRIANGLES, BVH_NODE_SIZE

SIZES = {
    "sphere": (0.4, 0.0, 0.0),
    "capsule": (0.2, 0.3, 0.0),
    "cylinder": (0.3, 0.4, 0.0),
    "ellipsoid": (0.3, 0.5, 0.2),
    "box": (0.3, 0.2, 0.4),
    "cone": (0.4, 0.5, 0.0),
}


def is_inside(kind: str, point: np.ndarray, grown: float) -> bool:
    """By closed forms of the solids, made larger or smaller."""
    size = np.array(SIZES[kind]) + grown
    if kind != "cone":
        return bool(contains_point(kind, list(point), list(size)))
    radius, half = SIZES[kind][:2]
    wide = radius * (half - point[2]) / (2 * half) + grown
    return bool(np.hypot(*point[:2]) <= wide and abs(point[2]) <= half + grown)


@pytest.mark.parametrize("kind", SIZES)
def test_a_ray_ends_at_the_surface_and_meets_nothing_before(kind: str) -> None:
    rng, hits = np.random.default_rng(0), 0
    for _ in range(80):
        start, aim = rng.uniform(-1, 1, 3), rng.uniform(-0.5, 0.5, 3)
        along = (aim - start) / np.linalg.norm(aim - start)
        found = float(PRIMITIVE_INTERSECTIONS[kind](Ray(start.tolist(), along.tolist()), SIZES[kind]))  # type: ignore[arg-type]
        hit = found < HIT_THRESHOLD
        hits += hit
        begins_inside = is_inside(kind, start, 0.0)
        for share in np.linspace(0, 0.999, 15):
            point = start + share * (found if hit else 4.0) * along
            assert is_inside(kind, point, 1e-9 if begins_inside else -1e-9) == begins_inside
        if hit:
            point = start + found * along
            assert is_inside(kind, point, 1e-7)
            assert not is_inside(kind, point, -1e-7)
    assert 25 < hits < 80


def test_every_triangle_of_a_mesh_is_met_once_and_boxes_hold_what_is_in_them() -> None:
    corners = np.random.default_rng(1).uniform(-1, 1, (157, 3, 3))
    numbers, n_boxes = pack_bvh(corners)
    boxes = numbers[: BVH_NODE_SIZE * n_boxes].reshape(n_boxes, BVH_NODE_SIZE)
    stored = numbers[BVH_NODE_SIZE * n_boxes :].reshape(-1, 3, 3)
    np.testing.assert_array_equal(np.sort(stored.ravel()), np.sort(corners.ravel()))
    assert boxes[0, 6] == n_boxes
    assert boxes[:, 8].max() <= BVH_LEAF_TRIANGLES
    number, seen = 0, []
    while number < n_boxes:  # a ray that misses nothing
        low, high, past, first, count = boxes[number, :3], boxes[number, 3:6], *boxes[number, 6:].astype(int)
        below = boxes[number:past]
        assert (below[:, :3] >= low).all()
        assert (below[:, 3:6] <= high).all()
        held = [i for row in below for i in range(int(row[7]), int(row[7] + row[8]))]
        assert (stored[held] >= low).all()
        assert (stored[held] <= high).all()
        seen += range(first, first + count)
        number += 1
    assert seen == list(range(len(corners)))

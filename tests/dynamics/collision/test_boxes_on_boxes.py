"""Boxes on top of each other: as many points as their faces have corners in common, however they are rounded."""

from __future__ import annotations

import numpy as np
import pytest

from kinema.core import Array

from .driver import Poses, ours
from .poses import QUARTER_TURNS, rotation_matrices, rotations

COUNT = 500


def stacked(turns: Array, sizes: tuple[Array, Array], shift: Array, generator: np.random.Generator) -> Poses:
    """The second on the first, pressed in a little; the whole of it turned anyhow. Rounded to single precision."""
    world = rotations(generator, COUNT)
    height = np.abs(np.einsum("nj,nj->n", turns[:, 2], sizes[1])) + sizes[0][:, 2] - 1e-4
    apart = np.concatenate([shift, height[:, None]], axis=1)
    a = (np.zeros((COUNT, 3)), world, sizes[0])
    b = (np.einsum("nij,nj->ni", world, apart), world @ turns, sizes[1])
    rounded = [tuple(part.astype(np.float32).astype(float) for part in solid) for solid in (a, b)]
    return Poses(rounded[0], rounded[1], np.full(COUNT, 1e-3))  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_boxes_of_one_size_have_four_points(dtype: type) -> None:
    """At their corners, where rounding would say which edge is inside of which."""
    generator = np.random.default_rng(1)
    size = generator.uniform(0.05, 0.5, (COUNT, 3))
    turns = QUARTER_TURNS[generator.integers(0, len(QUARTER_TURNS), COUNT)]
    same = np.abs(np.einsum("nji,nj->ni", turns, size))
    poses = stacked(turns, (size, same), np.zeros((COUNT, 2)), generator)
    for i, points in enumerate(ours(("box", "box"), poses, dtype)):
        assert len(points) == 4, i
        local = (points[:, 1:4] - poses.a[0][i]) @ poses.a[1][i]
        np.testing.assert_allclose(np.abs(local[:, :2]), np.tile(size[i, :2], (4, 1)), atol=1e-5)
        np.testing.assert_allclose(points[:, 0], -1e-4, atol=1e-6)
        assert len({tuple(corner) for corner in np.sign(local[:, :2]).tolist()}) == 4


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_area_of_what_lies_on_each_other(dtype: type) -> None:
    """The points are the corners, in order, of the overlap of two rectangles: their area by many points in one."""
    generator = np.random.default_rng(2)
    sizes = generator.uniform(0.1, 0.5, (2, COUNT, 3))
    turn = generator.uniform(0.0, 2.0 * np.pi, COUNT)
    zero = np.zeros(COUNT)
    turns = rotation_matrices(np.stack([np.cos(turn / 2), zero, zero, np.sin(turn / 2)], axis=1))
    shift = generator.uniform(-0.3, 0.3, (COUNT, 2))
    grid = np.stack(np.meshgrid(*[np.linspace(-1.0, 1.0, 81)] * 2), axis=-1).reshape(-1, 2)
    for i, points in enumerate(
        ours(("box", "box"), stacked(turns, (sizes[0], sizes[1]), shift, generator), dtype)[:150]
    ):
        inside = np.abs((grid * sizes[0, i, :2] - shift[i]) @ turns[i, :2, :2]) <= sizes[1, i, :2]
        expected = 4.0 * np.prod(sizes[0, i, :2]) * inside.all(axis=1).mean()
        if expected > 0.01 and len(points) > 2:
            spokes = points[1:, 1:4] - points[0, 1:4]
            area = 0.5 * np.linalg.norm(np.cross(spokes[:-1], spokes[1:]).sum(axis=0))
            assert area == pytest.approx(expected, abs=0.02)

"""Capsules that lie on a box: two points, at both ends of where they do."""

from __future__ import annotations

import numpy as np
import pytest

from kinema.core import Array

from .driver import Poses, ours
from .poses import rotations

HALF = np.array([0.5, 0.3, 0.2])
RADIUS = 0.05


def on_top(turns: Array, centres: Array, halves: Array, generator: np.random.Generator) -> Poses:
    """Flat on the top of a box, pressed in a little; the whole of it turned anyhow."""
    count, zero = len(turns), np.zeros(len(turns))
    cosine, sine = np.cos(turns), np.sin(turns)
    flat = np.moveaxis(np.array([[-sine, zero, cosine], [cosine, zero, sine], [zero, zero + 1.0, zero]]), -1, 0)
    world = rotations(generator, count)
    positions = np.concatenate([centres, np.full((count, 1), HALF[2] + RADIUS - 1e-3)], axis=1)
    sizes = np.stack([np.full(count, RADIUS), halves, zero], axis=1)
    box = (np.zeros((count, 3)), world, np.tile(HALF, (count, 1)))
    return Poses((np.einsum("nij,nj->ni", world, positions), world @ flat, sizes), box, np.full(count, 1e-6))


def stretch_on_top(turn: float, centre: Array, half: float) -> Array:
    """The ends of the part of the axis that is above the box, as places on it."""
    way = np.array([np.cos(turn), np.sin(turn)])
    with np.errstate(divide="ignore"):
        first, second = (-HALF[:2] - centre) / way, (HALF[:2] - centre) / way
    return np.array([max(-half, *np.minimum(first, second)), min(half, *np.maximum(first, second))])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_both_ends_touch(dtype: type) -> None:
    """Longer than the box and shorter, along its edges, across them and any other way; in single precision too."""
    generator = np.random.default_rng(4)
    count = 400
    turns = np.where(generator.uniform(size=count) < 0.5, generator.integers(0, 8, count) * np.pi / 4.0, 0.0)
    turns = np.where(turns == 0.0, generator.uniform(0.0, 2.0 * np.pi, count), turns)
    centres = generator.uniform(-0.8, 0.8, (count, 2)) * HALF[:2]
    halves = generator.uniform(0.1, 1.5, count)
    poses = on_top(turns, centres, halves, generator)
    for i, points in enumerate(ours(("capsule", "box"), poses, dtype)):
        assert len(points) == 2, i
        np.testing.assert_allclose(points[:, 0], -1e-3, atol=1e-6)
        places = np.sort((points[:, 1:4] - poses.a[0][i]) @ poses.a[1][i][:, 2])
        np.testing.assert_allclose(places, stretch_on_top(turns[i], centres[i], halves[i]), atol=2e-6)

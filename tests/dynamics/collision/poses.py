"""Random poses and sizes of two shapes, near each other, and those where something coincides."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np

from kinema.core import Array

from .driver import Poses

QUARTER_TURNS = np.array(
    [
        matrix
        for order in permutations(range(3))
        for signs in product((-1.0, 1.0), repeat=3)
        if np.linalg.det(matrix := np.diag(signs)[list(order)]) > 0.0
    ]
)


def rotations(generator: np.random.Generator, count: int) -> Array:
    """Any, each as likely."""
    return rotation_matrices(generator.normal(size=(count, 4)))


def rotation_matrices(quaternions: Array) -> Array:
    """Of quaternions (w, x, y, z) of any length."""
    w, x, y, z = (quaternions / np.linalg.norm(quaternions, axis=1, keepdims=True)).T
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), -1, 0)


def quarter_turns(generator: np.random.Generator, count: int) -> Array:
    """Rotations that map axes onto axes, without rounding."""
    return QUARTER_TURNS[generator.integers(0, len(QUARTER_TURNS), count)]


def somewhere(seed: int, count: int, size: float = 1.0) -> Poses:
    """Shapes that often touch: sizes from 0.1 to 1 times a size, distances as large."""
    generator = np.random.default_rng(seed)
    sizes = [size * 10.0 ** generator.uniform(-1.0, 0.0, (count, 3)) for _ in range(2)]
    apart = generator.normal(size=(count, 3))
    apart *= size * generator.uniform(0.0, 2.0, (count, 1)) / np.linalg.norm(apart, axis=1, keepdims=True)
    first = size * generator.normal(size=(count, 3))
    reach = size * generator.choice([0.0, 0.05, 0.3], count)
    a, b = (rotations(generator, count) for _ in range(2))
    return Poses((first, a, sizes[0]), (first + apart, b, sizes[1]), reach)


def on_a_grid(seed: int, count: int) -> Poses:
    """Parallel, concentric, touching: quarter turns, multiples of a quarter of a metre, equal sizes."""
    generator = np.random.default_rng(seed)
    sizes = generator.integers(1, 5, (2, count, 3)) / 4.0
    sizes[1] = np.where(generator.uniform(size=(count, 1)) < 0.3, sizes[0], sizes[1])
    first = generator.integers(-2, 3, (count, 3)) / 4.0
    apart = generator.integers(-4, 5, (count, 3)) / 4.0 * (generator.uniform(size=(count, 3)) < 0.6)
    a, b = (quarter_turns(generator, count) for _ in range(2))
    turned = rotations(generator, count)
    b = np.where(generator.uniform(size=(count, 1, 1)) < 0.3, a, b)
    b = np.where(generator.uniform(size=(count, 1, 1)) < 0.15, turned, b)
    reach = generator.choice([0.0, 0.125, 1.0], count)
    return Poses((first, a, sizes[0]), (first + apart, b, sizes[1]), reach)


def nearly_on_a_grid(seed: int, count: int, least: float = 1e-8) -> Poses:
    """The same, with the second shape moved and turned a little, up to 0.1."""
    poses, generator = on_a_grid(seed, count), np.random.default_rng(seed)
    a_little = 10.0 ** generator.uniform(np.log10(least), -1.0, (count, 1))
    axes = a_little * generator.normal(size=(count, 3))
    half = np.concatenate([np.ones((count, 1)), 0.5 * axes], axis=1)
    turned = rotation_matrices(half) @ poses.b[1]
    moved = poses.b[0] + 0.1 * a_little * generator.normal(size=(count, 3))
    return Poses(poses.a, (moved, turned, poses.b[2]), poses.reach)

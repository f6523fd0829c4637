"""Shapes of any size, or of none, anywhere: points on both surfaces, never NaN, in single precision too."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kinema.core import Array
from kinema.dynamics.collision.analytic_pairs import ANALYTIC_COLLISION_TABLE

from .driver import Poses, ours
from .poses import on_a_grid, somewhere
from .surfaces import beyond_surface

KINDS = list(ANALYTIC_COLLISION_TABLE)


def without_sizes(seed: int, count: int) -> Poses:
    """On a grid, with sizes that are zero."""
    poses, generator = on_a_grid(seed, count), np.random.default_rng(seed)
    thin = [solid[2] * (generator.uniform(size=(count, 3)) < 0.5) for solid in (poses.a, poses.b)]
    return replace(poses, a=(*poses.a[:2], thin[0]), b=(*poses.b[:2], thin[1]))


@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_whatever_coincides_or_has_no_size(kinds: tuple[str, str]) -> None:
    """Points are finite and their axes at right angles."""
    for dtype, close in ((np.float64, 1e-12), (np.float32, 1e-5)):
        points = np.concatenate(ours(kinds, without_sizes(3, 1000), dtype))
        assert np.isfinite(points).all()
        frames = points[:, 4:].reshape(-1, 3, 3)
        np.testing.assert_allclose(frames @ np.swapaxes(frames, 1, 2) - np.eye(3), 0.0, rtol=0, atol=close)


def gaps(kinds: tuple[str, str], poses: Poses, i: int, points: Array) -> list[Array]:
    """How far the ends of the stretch at each point are from the surfaces that they should be on."""
    result = []
    for side, (position, rotation, size), kind in ((-0.5, poses.a, kinds[0]), (0.5, poses.b, kinds[1])):
        ends = points[:, 1:4] + side * points[:, :1] * points[:, 4:7]
        result.append(beyond_surface(kind, size[i], (ends - position[i]) @ rotation[i]))
    return result


@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_points_are_on_both_surfaces(kinds: tuple[str, str]) -> None:
    """Half the distance away to both sides; points beside the deepest one may be inside a capsule that stands.

    Where two edges of boxes are nearest at an end of one, the point is between them, and only so near to both; where
    the axis of a capsule goes through a box, the point is on the axis.
    """
    poses = somewhere(5, 400)
    for i, points in enumerate(ours(kinds, poses)):
        ends = gaps(kinds, poses, i, points)
        off = np.max(ends, axis=0)
        assert (off < 1e-12 + (abs(points[:, 0]) if kinds == ("box", "box") else 0.0)).all(), i
        if len(points) and "box" not in kinds[1:]:
            assert max(abs(end[points[:, 0].argmin()]) for end in ends) < 1e-12, i


@pytest.mark.parametrize("size", [1e-4, 1e3])
@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_single_precision(kinds: tuple[str, str], size: float) -> None:
    """Small and large shapes: the same points as in double precision, to the rounding of their places."""
    poses = somewhere(7, 600, size)
    rounded = [tuple(part.astype(np.float32).astype(float) for part in solid) for solid in (poses.a, poses.b)]
    poses = Poses(rounded[0], rounded[1], poses.reach.astype(np.float32).astype(float))  # type: ignore[arg-type]
    errors = []
    for single, double in zip(ours(kinds, poses, np.float32), ours(kinds, poses), strict=True):
        if len(single) == len(double):
            errors.append(np.abs(single - double)[:, :4].max(initial=0.0) / size)
    assert len(errors) > 595
    assert np.sort(errors)[-6] < 1e-5


@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_needles_and_walls(kinds: tuple[str, str]) -> None:
    """Sizes from 1e-4 to 1e3 m side by side: finite, and the deepest point is that of double precision."""
    poses, generator = somewhere(8, 600), np.random.default_rng(8)
    sizes = 10.0 ** generator.uniform(-4.0, 3.0, (2, 600, 3))
    apart = poses.b[0] - poses.a[0]
    apart *= np.minimum(sizes[0].max(axis=1), sizes[1].max(axis=1))[:, None]
    solids = (np.zeros((600, 3)), poses.a[1], sizes[0]), (apart, poses.b[1], sizes[1])
    rounded = [tuple(part.astype(np.float32).astype(float) for part in solid) for solid in solids]
    poses = Poses(rounded[0], rounded[1], np.zeros(600))  # type: ignore[arg-type]
    for i, (single, double) in enumerate(zip(ours(kinds, poses, np.float32), ours(kinds, poses), strict=True)):
        assert np.isfinite(single).all(), i
        assert np.isfinite(double).all(), i
        if len(single) and len(double):
            largest = max(sizes[0][i].max(), sizes[1][i].max())
            assert abs(single[:, 0].min() - double[:, 0].min()) < 1e-5 * largest, i

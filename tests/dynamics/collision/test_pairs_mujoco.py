"""Where shapes touch, beside MuJoCo: the number of points, their places, distances and axes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kinema.core import Array
from kinema.dynamics.collision.analytic_pairs import ANALYTIC_COLLISION_TABLE

from .driver import Poses, Theirs, ours
from .poses import nearly_on_a_grid, on_a_grid, somewhere

MUJOCO_TYPES = ("plane", "sphere", "capsule", "ellipsoid", "cylinder", "box")
ANALYTIC = [
    kinds
    for kinds in ANALYTIC_COLLISION_TABLE
    if set(kinds) <= set(MUJOCO_TYPES)
    and (kinds[0] in ("plane", "sphere") or set(kinds) <= {"capsule", "box"})
    and kinds != ("sphere", "ellipsoid")
]
"""What MuJoCo finds by formulas, too; it has no cones."""
COUNT = 1500
TILT = 4e-7
"""The sine of the angle below which MuJoCo's axes of a capsule that stands on a plane are mostly rounding."""


def clear(found: list[Array], poses: Poses, well: np.ndarray) -> tuple[Array, np.ndarray]:
    """Points that are not within rounding of the reach, all together, and which pose each is of."""
    owner = np.repeat(np.arange(len(found)), [len(points) for points in found])
    points = np.concatenate(found)
    kept = (np.abs(points[:, 0] - poses.reach[owner]) > 1e-12) & well[owner]
    return points[kept], owner[kept]


def right_angles(points: Array) -> np.ndarray:
    """Which have three axes at right angles."""
    frames = points[:, 4:].reshape(-1, 3, 3)
    return np.abs(frames @ np.swapaxes(frames, 1, 2) - np.eye(3)).max(axis=(1, 2), initial=0.0) < 1e-12


def same(kinds: tuple[str, str], poses: Poses, found: list[Array], theirs: list[Array], well: np.ndarray) -> int:
    """Where MuJoCo's answer is well defined; how many points that is."""
    (own, of), (other, of_other) = (clear(points, poses, well) for points in (found, theirs))
    np.testing.assert_array_equal(np.bincount(of, minlength=len(poses)), np.bincount(of_other, minlength=len(poses)))
    np.testing.assert_allclose(own[:, :7], other[:, :7], rtol=0, atol=1e-9)
    framed = np.ones(len(own), bool)
    if kinds == ("plane", "capsule"):  # of one that stands, MuJoCo's axes need not even be at right angles
        framed = np.linalg.norm(np.cross(poses.a[1][:, :, 2], poses.b[1][:, :, 2]), axis=1)[of] > TILT
    np.testing.assert_allclose(own[framed], other[framed], rtol=0, atol=1e-9)
    return len(own)


@pytest.mark.parametrize("kinds", ANALYTIC, ids="-".join)
def test_anywhere(kinds: tuple[str, str]) -> None:
    poses = somewhere(1, COUNT)
    found, everywhere = ours(kinds, poses), np.ones(COUNT, bool)
    assert same(kinds, poses, found, list(Theirs(kinds).points(poses)), everywhere) > COUNT // 3
    assert max(map(len, found)) <= ANALYTIC_COLLISION_TABLE[kinds].max_contacts
    assert right_angles(np.concatenate(found)).all()


@pytest.mark.parametrize("kinds", [kinds for kinds in ANALYTIC if kinds != ("capsule", "box")], ids="-".join)
def test_what_is_parallel_concentric_or_touches(kinds: tuple[str, str]) -> None:
    """The same number of points, and the same ones, also where only a rule says which."""
    poses = on_a_grid(2, COUNT)
    found, everywhere = ours(kinds, poses), np.ones(COUNT, bool)
    assert same(kinds, poses, found, list(Theirs(kinds).points(poses)), everywhere) > COUNT // 3
    assert max(map(len, found)) <= ANALYTIC_COLLISION_TABLE[kinds].max_contacts
    assert right_angles(np.concatenate(found)).all()


def well_defined(
    kinds: tuple[str, str], poses: Poses, theirs: list[Array], moved: float = 1e-13, close: float = 1e-10
) -> np.ndarray:
    """Where MuJoCo's own points stay as they are, as the second shape is moved and turned a very little."""
    generator, result = np.random.default_rng(0), np.ones(len(poses), bool)
    for _ in range(2):
        position, rotation, size = poses.b
        shift, (x, y, z) = (moved * generator.normal(size=shape) for shape in (position.shape, position.T.shape))
        zero = np.zeros(len(poses))
        turn = np.moveaxis(np.array([[zero, -z, y], [z, zero, -x], [-y, x, zero]]), -1, 0)
        other = replace(poses, b=(position + shift, rotation + turn @ rotation, size))
        for i, (a, b) in enumerate(zip(theirs, Theirs(kinds).points(other), strict=True)):
            result[i] &= len(a) == len(b) and np.abs(a[:, :7] - b[:, :7]).max(initial=0.0) < close
    return result


def has_digits(kinds: tuple[str, str], poses: Poses, theirs: list[Array]) -> np.ndarray:
    """Where MuJoCo's way of finding its points leaves digits, and we do not differ on purpose."""
    if kinds == ("box", "box"):  # that just touch, or whose edges lie on each other: see ROUNDING and ON_LINE there
        deep = np.array([len(points) == 0 or points[:, 0].min() < -1e-4 for points in theirs])
        return deep & well_defined(kinds, poses, theirs, 1e-5, 1e-2)
    if kinds == ("capsule", "box"):  # that is parallel to a face, or nearly to an edge: see FLAT there
        way = np.sort(np.abs(np.einsum("nij,ni->nj", poses.b[1], poses.a[1][:, :, 2])), axis=1)
        return (way[:, 0] > 1e-6) & (way[:, 1] > 1e-4)
    radii = poses.a[2][:, 0] + poses.b[2][:, 0]  # axes that nearly meet have next to no direction between them
    meet = [len(points) > 0 and abs(points[0, 0] + r) < 1e-5 for points, r in zip(theirs, radii, strict=True)]
    return ~np.array(meet) | (kinds[0] == "plane")


@pytest.mark.parametrize("kinds", ANALYTIC, ids="-".join)
def test_what_is_nearly_parallel_or_concentric(kinds: tuple[str, str]) -> None:
    """Wherever MuJoCo's own answer is well defined."""
    poses = nearly_on_a_grid(3, 1000, 1e-4 if kinds == ("box", "box") else 1e-8)
    theirs = list(Theirs(kinds).points(poses))
    well = well_defined(kinds, poses, theirs) & has_digits(kinds, poses, theirs)
    found = ours(kinds, poses)
    assert same(kinds, poses, found, theirs, well) > 300
    assert right_angles(np.concatenate(found)).all()


def test_the_distance_of_an_ellipsoid() -> None:
    """Outside, where MuJoCo's search for convex shapes is good to 1e-6."""
    kinds, poses = ("sphere", "ellipsoid"), replace(somewhere(1, COUNT), reach=np.full(COUNT, 10.0))
    own, other = (np.concatenate(points) for points in (ours(kinds, poses), list(Theirs(kinds).points(poses))))
    outside = own[:, 0] > 0.0
    assert outside.sum() > 200
    np.testing.assert_allclose(own[outside, 0], other[outside, 0], rtol=0, atol=2e-6)

"""Distances and depths of convex shapes, beside MuJoCo and by the one thing that decides: how far shapes reach."""

from __future__ import annotations

from dataclasses import replace

import mujoco
import numpy as np
import pytest

from kinema.core import Array
from kinema.dynamics.collision.collision_table import convex_collision_table
from kit.choosing import representatives

from .convex_driver import Compiled, depth_along, stone
from .driver import Poses
from .poses import on_a_grid, somewhere
from .test_pairs_never_break import without_sizes

ONE_POINT = convex_collision_table(multiccd=False)
COUNT = 500


def meshes_of(kinds: tuple[str, str]) -> dict[str, Array]:
    return {name: stone(seed) for name, kind, seed in (("a", kinds[0], 1), ("b", kinds[1], 2)) if kind == "mesh"}


def everywhere(poses: Poses, size: float = 1.0) -> Poses:
    """With a reach that leaves nothing out."""
    return replace(poses, reach=np.full(len(poses), 100.0 * size))


def theirs(kinds: tuple[str, str], poses: Poses) -> Array:
    """MuJoCo's distances, searched for longer than usual."""
    bodies = "".join(f'<body><freejoint/><geom type="{kind}" size="1 1 1"/></body>' for kind in kinds)
    model = mujoco.MjModel.from_xml_string(
        f'<mujoco><option ccd_tolerance="1e-10" ccd_iterations="200"/><worldbody>{bodies}</worldbody></mujoco>'
    )
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    found = []
    for i in range(len(poses)):
        for number, (position, rotation, size) in enumerate((poses.a, poses.b)):
            data.geom_xpos[number], data.geom_xmat[number] = position[i], rotation[i].ravel()
            model.geom_size[number] = size[i]
        found.append(mujoco.mj_geomDistance(model, data, 0, 1, 100.0, None))
    return np.array(found)


@pytest.mark.parametrize("kinds", [("ellipsoid", "ellipsoid"), ("cylinder", "box")], ids="-".join)
def test_beside_mujoco(kinds: tuple[str, str]) -> None:
    """The same distances; and depths that are MuJoCo's or smaller, which is nearer to the truth."""
    poses = everywhere(somewhere(31, COUNT))
    points = Compiled(ONE_POINT[kinds]).points(poses)
    assert all(len(p) == 1 for p in points)
    own, other = np.array([p[0, 0] for p in points]), theirs(kinds, poses)
    np.testing.assert_allclose(own[other > 0], other[other > 0], rtol=0, atol=1e-6)
    deeper = other[other < 0] - own[other < 0]
    assert len(deeper) > COUNT // 4
    assert np.sort(deeper)[-3] < 1e-6
    for i, point in enumerate(points):
        assert depth_along(kinds, poses, i, point[0, 4:7]) == pytest.approx(-point[0, 0], abs=1e-8)


@pytest.mark.parametrize("kinds", representatives([("cone", "mesh"), ("mesh", "mesh")], 1), ids="-".join)
def test_what_mujoco_has_not(kinds: tuple[str, str]) -> None:
    """No direction of many is better than the one found; and along that one shapes are as far apart as is said."""
    poses, meshes = everywhere(somewhere(32, 60)), meshes_of(kinds)
    tries = np.random.default_rng(0).normal(size=(300, 3))
    tries /= np.linalg.norm(tries, axis=1, keepdims=True)
    for i, point in enumerate(Compiled(ONE_POINT[kinds], meshes=meshes).points(poses)):
        depth, normal = -point[0, 0], point[0, 4:7]
        assert depth_along(kinds, poses, i, normal, meshes) == pytest.approx(depth, abs=1e-8)
        near = normal + 0.03 * tries
        near /= np.linalg.norm(near, axis=1, keepdims=True)
        others = [depth_along(kinds, poses, i, n, meshes) for n in (*tries[:100], *near[100:])]
        assert depth <= min(others) + 1e-8


@pytest.mark.parametrize("kinds", representatives([("ellipsoid", "mesh"), ("cylinder", "cone")], 1), ids="-".join)
def test_single_precision(kinds: tuple[str, str]) -> None:
    """Small and large shapes, parallel and concentric ones, and those of no size: finite, and right to its rounding."""
    meshes = meshes_of(kinds)
    single = Compiled(ONE_POINT[kinds], "single", meshes=meshes)
    sizes = [1.0] if meshes else [1e-4, 1.0, 1e3]
    cases = [(somewhere(33, COUNT, size), size) for size in sizes]
    for poses, size in [*cases, (on_a_grid(34, COUNT), 1.0), (without_sizes(35, COUNT), 1.0)]:
        rounded = [tuple(part.astype(np.float32).astype(float) for part in solid) for solid in (poses.a, poses.b)]
        all_near = everywhere(Poses(rounded[0], rounded[1], poses.reach), size)  # type: ignore[arg-type]
        off = []
        for i, point in enumerate(single.points(all_near)):
            assert np.isfinite(point).all()
            np.testing.assert_allclose(np.linalg.norm(point[:, 4:7], axis=1), 1.0, atol=1e-6)
            off.append(abs(depth_along(kinds, all_near, i, point[0, 4:7], meshes) + point[0, 0]) / size)
        assert np.sort(off)[-3] < 2e-5
        assert np.median(off) < 1e-6

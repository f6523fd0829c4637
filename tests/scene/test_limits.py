"""Limits of joints in scenes: they hold, can be moved without compiling, and say so where they cannot."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kinema as km
from kit.robots.small_robots import from_text

TEXT = """<mujoco><worldbody><body name="a">
<joint name="stops" axis="0 1 0" range="-20 20" limited="true" damping="0.02"/>
<geom size=".1" pos=".4 0 0"/><body name="b" pos=".8 0 0"><joint name="spins" axis="0 1 0" damping="0.02"/>
<geom size=".1" pos=".2 0 0"/></body></body></worldbody></mujoco>"""


@pytest.fixture
def built(tmp_path: Path) -> tuple[km.Scene, km.Entity]:
    scene = km.Scene(contacts=False, quiet=True)
    entity = scene.add(from_text(tmp_path, TEXT))
    scene.build(3)
    return scene, entity


def test_a_joint_stops_and_what_stops_it_is_known(built: tuple[km.Scene, km.Entity]) -> None:
    scene, entity = built
    lower, upper = entity.get_dofs_limit()
    np.testing.assert_allclose(lower, [-np.radians(20), -np.inf])
    np.testing.assert_allclose(upper, [np.radians(20), np.inf])
    scene.step(2000)
    assert np.abs(entity.get_qpos()[:, 0] - np.radians(20)).max() < 0.02
    assert (entity.get_dofs_constraint_force()[:, 0] < -1.0).all()
    assert (entity.get_dofs_constraint_force()[:, 1] == 0.0).all()


def test_limits_move_without_compiling(built: tuple[km.Scene, km.Entity]) -> None:
    scene, entity = built
    scene.step()
    kernels = dict(scene.built.engine._kernels)
    entity.set_dofs_limit(-0.1, 0.1, [0])
    scene.step(2000)
    assert scene.built.engine._kernels == kernels
    assert np.abs(entity.get_qpos()[:, 0] - 0.1).max() < 0.02
    np.testing.assert_allclose(entity.get_dofs_limit([0]), [[-0.1], [0.1]])


@pytest.mark.parametrize(
    ("lower", "upper", "dofs", "message"),
    [
        (0.2, 0.1, [0], "lower limits <= upper limits"),
        (float("nan"), 0.1, [0], "lower limits <= upper limits"),
        (-1.0, 1.0, [1], '"spins" was built without limits'),
    ],
)
def test_limits_that_cannot_be(
    built: tuple[km.Scene, km.Entity], lower: float, upper: float, dofs: list[int], message: str
) -> None:
    with pytest.raises(km.KinemaError, match=message):
        built[1].set_dofs_limit(lower, upper, dofs)


def test_limits_before_building(tmp_path: Path) -> None:
    scene = km.Scene(contacts=False, quiet=True)
    entity = scene.add(from_text(tmp_path, TEXT))
    entity.set_dofs_limit(-0.2, 0.2, [1])
    scene.build()
    scene.step(2000)
    assert abs(entity.get_qpos()[0, 1]) < 0.25

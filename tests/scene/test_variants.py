"""Lists of things in one place: each environment has one of them, as if it had been built with that alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as km
from kinema.core import Pose
from kinema.scene import SceneCameras
from kit.robots.small_robots import pendulum, reacher

CORNERS = np.array([[0.0, 0.0, 0.0], [0.1, 0.0, 0.0], [0.0, 0.12, 0.0], [0.0, 0.0, 0.1]])
FACES = [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]
THINGS = [
    km.Box((0.1, 0.12, 0.2)),
    km.Capsule(0.03, 0.1),
    km.Mesh(vertices=CORNERS, faces=FACES),
    km.Box((0.2, 0.1, 0.07)),
    km.Mesh(vertices=1.3 * CORNERS, faces=FACES),
]


def thrown(what: Any, n_envs: int = 1, **how: Any) -> tuple[km.Scene, km.Entity]:
    scene = km.Scene(quiet=True)
    scene.add(km.Plane((0.1, 0.0, 1.0)), friction=0.7)
    thing = scene.add(what, pos=(0, 0, 0.2), euler=(0.3, 0.2, 0.1), **how)
    scene.build(n_envs)
    return scene, thing


@pytest.fixture(scope="module")
def mixed() -> tuple[km.Scene, km.Entity]:
    """Boxes, a capsule and hulls, thrown on a slope."""
    scene, thing = thrown(THINGS, 2 * len(THINGS) + 1)
    scene.step(150)
    return scene, thing


def test_an_environment_is_as_if_it_was_built_with_its_shape_alone(mixed: tuple[km.Scene, km.Entity]) -> None:
    """Different sizes and different kinds, in contact: bit for bit."""
    scene, thing = mixed
    assert scene.get_contacts()["valid_mask"].any(axis=1).all()
    np.testing.assert_array_equal(thing.variant_idx, np.arange(11) % 5)
    for i in (3, 4):
        other, same = thrown(THINGS[i])
        other.step(150)
        for env in (i, i + 5):  # whichever environment it is
            assert same.get_qpos()[0].tobytes() == thing.get_qpos()[env].tobytes()
            assert same.get_qvel()[0].tobytes() == thing.get_qvel()[env].tobytes()
        np.testing.assert_allclose(same.get_AABB()[0], thing.get_AABB()[i], atol=1e-12)
        assert same.get_mass() == thing.get_mass()[i]


def test_pictures_show_what_each_environment_has(mixed: tuple[km.Scene, km.Entity]) -> None:
    """The depth of a pixel in the middle of each, from above, is that of its own shape."""
    scene, thing = mixed
    from kinema.render import Camera, look_at

    cameras = []
    for env in (0, 1):
        middle = thing.get_AABB()[env].mean(axis=0)
        pose = look_at(middle + np.array([0.0, 0.001, 1.0]), middle)
        cameras.append(Camera(name=f"above {env}", pose=pose, fov=0.5))
    image = SceneCameras(scene, cameras, (32, 32), images=("segmentation",)).render()["segmentation"].numpy()
    seen = [(image[env, env] != image[env, env, 0, 0]).sum() for env in (0, 1)]
    assert min(seen) > 10
    assert max(seen) < 1000
    assert seen[0] != seen[1]


def test_a_recording_shows_it_too(mixed: tuple[km.Scene, km.Entity], tmp_path: Path) -> None:
    pytest.importorskip("pxr")
    from pxr import Usd, UsdGeom

    scene, _ = mixed
    with scene.record(tmp_path / "all.usda", envs_idx=[0, 1, 2]):
        pass
    stage = Usd.Stage.Open(str(tmp_path / "all.usda"))
    kinds = []
    for env in range(3):
        prims = Usd.PrimRange(stage.GetPrimAtPath(f"/World/env_{env}"))
        kinds.append(
            {p.GetTypeName() for p in prims if p.IsA(UsdGeom.Gprim) and "plane" not in str(p.GetPath()).lower()}
        )
    assert ["Cube" in kinds[0], "Capsule" in kinds[1], "Mesh" in kinds[2]] == [True] * 3
    assert not kinds[1] & {"Cube"}


def test_which_environment_has_which_can_be_drawn() -> None:
    """And free bodies that differ want gains that are given, or room for their own."""
    few, first = thrown([km.Sphere(0.1), km.Sphere(0.2)], 6, seed=4)
    many, second = thrown([km.Sphere(0.1), km.Sphere(0.2)], 60, seed=4)
    np.testing.assert_array_equal(first.variant_idx, second.variant_idx[:6])
    assert 10 < second.variant_idx.sum() < 50
    np.testing.assert_allclose(first.get_geoms_size()[:, 0, 0], np.where(first.variant_idx, 0.2, 0.1))
    assert few.n_envs < many.n_envs
    with pytest.raises(km.KinemaError, match=r'variants need different default gains.*per_env=\("kp", "kv"\)'):
        first.control_dofs_velocity(0.0)
    first.set_dofs_kv(1.0)
    first.control_dofs_velocity(0.0)
    assert few.built.arrays.is_shared("kv")


def elsewhere(robot: km.Robot) -> km.Robot:
    """The same, hung up elsewhere."""
    robot.joints[0].parent_pose = Pose.translation(np.array([0.1, 0.0, 0.2]))
    return robot


def test_robots_of_one_form_differ_in_lengths_and_masses() -> None:
    robots = [pendulum(1.0, 0.5), pendulum(2.0, 0.8), elsewhere(pendulum(0.5, 0.3))]
    scene = km.Scene(precision="double", quiet=True)
    swing = scene.add(robots)
    scene.build(3)
    swing.set_qpos([0.4])
    scene.step(100)
    for i, robot in enumerate(robots):
        alone = km.Scene(precision="double", quiet=True)
        same = alone.add(robot)
        alone.build()
        same.set_qpos([0.4])
        alone.step(100)
        np.testing.assert_allclose(same.get_qpos()[0], swing.get_qpos()[i], atol=1e-12)
    assert len(np.unique(swing.get_qpos())) == 3


def test_each_robot_has_gains_of_its_own_where_nobody_gives_any() -> None:
    """Stiff enough for the weight m g l of each, critically damped; what is drawn is drawn about that."""
    robots = [pendulum(1.0, 0.5), pendulum(2.0, 0.8)]
    scene = km.Scene(precision="double", quiet=True, contacts=False)
    swing, ball = scene.add(robots), scene.add([km.Sphere(0.1), km.Sphere(0.2)], pos=(5, 0, 0))
    scene.build(3)
    swing.control_dofs_position(0.3)
    inertia, weight = np.array([0.25, 1.28, 0.25]), 9.81 * np.array([0.5, 1.6, 0.5])
    kp = weight / 0.01
    kv = 2 * np.sqrt(kp * inertia) + scene.dt * kp
    np.testing.assert_allclose(swing.get_dofs_kp()[:, 0], kp)
    np.testing.assert_allclose(swing.get_dofs_kv()[:, 0], kv)
    scene.step(50)
    alone = km.Scene(precision="double", quiet=True, contacts=False)
    same = alone.add(robots[1])
    alone.build()
    same.control_dofs_position(0.3)
    alone.step(50)
    np.testing.assert_allclose(same.get_qpos()[0], swing.get_qpos()[1], atol=1e-12)
    scene.randomize(swing, kp=km.uniform(2.0, 2.0), kv=km.uniform(3.0, 3.0))
    np.testing.assert_allclose(swing.get_dofs_kp()[:, 0], 2.0 * kp)
    kept = scene.get_state()
    scene.set_state(kept)
    scene.randomize(swing, kv=km.uniform(1.0, 1.0))
    np.testing.assert_allclose(swing.get_dofs_kv()[:, 0], kv)
    ball.control_dofs_velocity(0.0)
    np.testing.assert_allclose(ball.get_dofs_kv()[1, 0] / ball.get_dofs_kv()[0, 0], 8.0)


@pytest.mark.parametrize(
    ("things", "message"),
    [
        ([pendulum(), reacher()], "variants: all variants must have the same number of links and joints"),
        ([], "the list of variants is empty"),
        ([km.Sphere(0.1), km.Plane()], "variants: all have the same links"),
    ],
)
def test_what_cannot_be_mixed_is_refused(things: list[Any], message: str) -> None:
    with pytest.raises(km.KinemaError, match=message):
        thrown(things, 3)


def test_a_seed_draws_from_a_list() -> None:
    with pytest.raises(km.KinemaError, match="seed: expected a non-negative integer and a list"):
        km.Scene(quiet=True).add(km.Sphere(0.1), seed=3)

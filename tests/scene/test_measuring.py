"""What can be asked about an entity and set of it, beside MuJoCo; names, patterns, and what cannot be meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

import kinema as km
from kinema.core import rpy_to_matrix
from kinema.description import Joint, JointKind, Robot, spherical_axes
from kit.robots.small_robots import ball, body, from_text, lift, reacher

FLYING = """<mujoco><option gravity="0 0 -3"/><worldbody><body name="hull" pos="0 0 1"><freejoint/>
<geom type="box" size=".1 .2 .3" pos=".05 0 0"/><body name="arm" pos=".2 0 0"><joint name="hinge" axis="0 1 0"/>
<geom type="capsule" fromto="0 0 0 .3 0 0" size=".03"/></body></body></worldbody></mujoco>"""


@pytest.fixture(scope="module")
def flying(tmp_path_factory: pytest.TempPathFactory) -> tuple[km.Scene, km.Entity, Any, Any]:
    """A hull with an arm in mid-air, here and in MuJoCo."""
    scene = km.Scene(precision="double", quiet=True, contacts=False)
    entity = scene.add(from_text(tmp_path_factory.mktemp("flying"), FLYING))
    scene.build(2)
    model = mujoco.MjModel.from_xml_string(FLYING)
    data = mujoco.MjData(model)
    rng = np.random.default_rng(1)
    data.qpos[:], data.qvel[:] = [0.1, 0.2, 1.5, 0.5, 0.5, -0.5, 0.5, 0.7], rng.normal(size=7)
    mujoco.mj_forward(model, data)
    entity.set_qpos(data.qpos)
    entity.set_qvel(data.qvel)
    return scene, entity, model, data


def test_links_accelerate_as_mujocos(flying: tuple[km.Scene, km.Entity, Any, Any]) -> None:
    scene, entity, model, data = flying
    mujoco.mj_rnePostConstraint(model, data)
    linear, angular = entity.get_links_acc(), entity.get_links_acc_ang()
    for i, name in enumerate(("hull", "arm")):
        found = np.zeros(6)
        number = model.body(name).id
        mujoco.mj_objectAcceleration(model, data, mujoco.mjtObj.mjOBJ_XBODY, number, found, 0)
        np.testing.assert_allclose(linear[0, i], found[3:] + np.array([0.0, 0.0, -3.0]), atol=1e-9)
        np.testing.assert_allclose(angular[0, i], found[:3], atol=1e-9)
    np.testing.assert_allclose(entity.get_link("arm").get_acc()[1], linear[1, 1])
    del scene


def test_centres_of_mass_and_inertia(flying: tuple[km.Scene, km.Entity, Any, Any]) -> None:
    _, entity, model, data = flying
    np.testing.assert_allclose(entity.get_com()[0], data.subtree_com[1], atol=1e-12)
    np.testing.assert_allclose(entity.get_links_pos(ref="link_com")[0], data.xipos[1:], atol=1e-12)
    lower, inverse = entity.get_mass_mat(decompose=True)
    matrix = entity.get_mass_mat()
    rebuilt = np.einsum("nji,nj,njk->nik", lower, 1.0 / inverse, lower)
    np.testing.assert_allclose(rebuilt, matrix, atol=1e-12)
    assert entity.get_mass() == pytest.approx(model.body_mass.sum())
    np.testing.assert_allclose(entity.get_dofs_invweight(), model.dof_invweight0, rtol=1e-9)


def test_a_free_base_is_put_somewhere() -> None:
    scene = km.Scene(precision="double", quiet=True)
    flying, arm = scene.add(ball(), pos=(1, 2, 3)), scene.add(reacher())
    scene.build(2)
    flying.set_qvel(1.0)
    flying.set_pos([[0, 0, 1], [0, 0, 2]])
    np.testing.assert_array_equal(flying.get_pos(), [[0, 0, 1], [0, 0, 2]])
    flying.set_pos([0, 0, 1], relative=True, envs_idx=[1], zero_velocity=True)
    np.testing.assert_array_equal(flying.get_pos(), [[0, 0, 1], [1, 2, 4]])
    np.testing.assert_array_equal(flying.get_qvel(), [[1.0] * 6, [0.0] * 6])
    flying.set_quat([0, 3, 4, 0])
    np.testing.assert_allclose(flying.get_quat(), [[0, 0.6, 0.8, 0]] * 2)
    flying.set_quat([0, 1, 0, 0], relative=True)
    np.testing.assert_allclose(flying.get_quat(0), [[0, 1, 0, 0]])
    with pytest.raises(km.KinemaError, match='set_pos: the base of "reacher", link "base", is fixed'):
        arm.set_pos([0, 0, 0])
    with pytest.raises(km.KinemaError, match="coordinates 3 to 6 are a quaternion: set all four or none"):
        flying.set_qpos([0.5], qs_idx=[4])


def test_positions_of_degrees_of_freedom_come_back() -> None:
    """Rotation vectors of balls included."""
    robot = Robot(
        name="hip",
        links=[body("leg", inertia=0.1)],
        joints=[Joint(name="hip", kind=JointKind.SPHERICAL, parent=None, child="leg", axes=spherical_axes())],
    )
    scene = km.Scene(precision="double", quiet=True)
    hip, arm = scene.add(robot), scene.add(reacher())
    scene.build(2)
    turned = np.array([[0.3, -0.5, 0.2], [0.0, 0.0, 0.0]])
    hip.set_dofs_position(turned)
    np.testing.assert_allclose(hip.get_dofs_position(), turned, atol=1e-14)
    arm.set_dofs_position([[0.1], [0.2]], "elbow", zero_velocity=True)
    np.testing.assert_array_equal(arm.get_dofs_position(), [[0, 0.1, 0], [0, 0.2, 0]])
    arm.set_dofs_velocity(0.5, ["push", 0], envs_idx=1)
    np.testing.assert_array_equal(arm.get_dofs_velocity(), [[0, 0, 0], [0.5, 0, 0.5]])
    arm.zero_all_dofs_velocity()
    assert not arm.get_qvel().any()
    with pytest.raises(km.KinemaError, match="one of the three dofs of a ball joint"):
        hip.set_dofs_position(0.1, [0])


def test_a_trajectory_is_followed_with_its_velocity() -> None:
    """Kp (p - q) + kv (v - qd), at once."""
    scene = km.Scene(precision="double", quiet=True)
    box = scene.add(lift())
    scene.build()
    box.set_dofs_kp(50.0)
    box.set_dofs_kv(8.0)
    box.set_qvel([0.5])
    box.control_dofs_position_velocity(0.3, 2.0)
    np.testing.assert_allclose(box.get_dofs_control_force(), [[50 * 0.3 + 8 * (2.0 - 0.5)]])
    box.set_dofs_kp(0.0)
    with pytest.raises(km.KinemaError, match="needs a stiffness"):
        box.control_dofs_position_velocity(0.3, 2.0)


def test_names_are_found_by_patterns() -> None:
    arm = km.Scene().add(reacher())
    assert arm.find_dofs("sh.*", "push").tolist() == [0, 2]
    assert arm.find_dofs("*o*").tolist() == [0, 1]
    assert arm.find_dofs().tolist() == [0, 1, 2]
    assert arm.find_dofs([True, False, True]).tolist() == [0, 2]
    assert arm.find_dofs(slice(1, None), -1).tolist() == [1, 2, 2]
    assert arm.find_links("[ul].*er").tolist() == [1, 2]
    assert km.Scene().add(ball()).find_dofs("fr..").tolist() == [0, 1, 2, 3, 4, 5]
    assert km.Scene().add(ball()).find_dofs("free[2]").tolist() == [2]
    with pytest.raises(
        km.KinemaError, match=r"there is no '\[\(' *; the degrees of freedom are: shoulder, elbow, push"
    ):
        arm.find_dofs("[(")
    with pytest.raises(km.KinemaError, match=r"no 'sh\.\*'; the moving joints are"):
        arm.get_joint("sh.*")


def test_parameters_are_told_before_and_after_building(tmp_path: Path) -> None:
    scene = km.Scene(precision="double", quiet=True)
    arm = scene.add(reacher())
    arm.set_dofs_stiffness(3.0, "elbow")
    arm.set_dofs_kp([1.0, 2.0, 3.0])
    for built in (False, True):
        if built:
            scene.build(2, per_env=("armature",))
        np.testing.assert_array_equal(arm.get_dofs_stiffness(), [0, 3, 0])
        np.testing.assert_array_equal(arm.get_dofs_kp(["push", "shoulder"]), [3, 1])
        assert arm.get_dofs_kv().shape == (3,)
        assert arm.get_mass() == 3.5
    arm.set_dofs_armature([[1.0], [2.0]], "push")
    np.testing.assert_array_equal(arm.get_dofs_armature(), [[0, 0, 1], [0, 0, 2]])
    arm.set_dofs_force_range(-1.0, 2.0, "push")
    np.testing.assert_array_equal(np.array(arm.get_dofs_force_range())[:, 2], [-1, 2])
    with pytest.raises(km.KinemaError, match="set it before building"):
        arm.set_dofs_stiffness(1.0)


def test_boxes_around_things_are_tight() -> None:
    """Beside triangles of the same shapes, which reach nearly as far; planes reach everywhere."""
    scene = km.Scene(precision="double", quiet=True)
    bodies = (km.Box((0.1, 0.2, 0.3)), km.Sphere(0.2), km.Capsule(0.1, 0.3), km.Cylinder(0.1, 0.3))
    others = (km.Ellipsoid((0.1, 0.2, 0.3)), km.Mesh(vertices=np.eye(3), faces=[[0, 1, 2], [2, 1, 0]]))
    entities = [scene.add(morph, pos=(1, 2, 3), euler=(0.3, 0.5, 0.7)) for morph in (*bodies, *others[:1])]
    entities.append(scene.add(others[1], pos=(1, 2, 3), euler=(0.3, 0.5, 0.7), fixed=True))
    plane = scene.add(km.Plane())
    scene.build(2)
    turn = rpy_to_matrix((0.3, 0.5, 0.7))
    for entity in entities:
        ((_, _, vertices, _),) = entity.description.posed_meshes()
        points = vertices @ turn.T + [1, 2, 3]
        found = entity.get_AABB()
        np.testing.assert_allclose(found[1], [points.min(axis=0), points.max(axis=0)], atol=0.01)
        assert (found[0, 0] <= points.min(axis=0) + 1e-12).all()
        assert (found[0, 1] >= points.max(axis=0) - 1e-12).all()
    assert np.isinf(plane.get_AABB([0])).all()

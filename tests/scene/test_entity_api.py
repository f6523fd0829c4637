"""What users say to a scene and its entities, before a step is ever taken."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as km
from kinema.description import Mimic, rotation
from kinema.dynamics import ControlMode, InputMode
from kit.robots.small_robots import SERVO, ball, body, driven, from_text, joint, lift, pendulum, reacher


def built(*robots: km.Robot | km.World, n_envs: int = 3, **how: object) -> Any:
    scene = km.Scene(precision="double", quiet=True)
    entities = [scene.add(robot) for robot in robots]
    scene.build(n_envs, **how)  # type: ignore[arg-type]
    return (scene, *entities)


def modes(scene: km.Scene) -> list[str]:
    """What each degree of freedom is told, which is the same in all environments."""
    numbers = scene.built.arrays.get("ctrl_mode")
    assert (numbers == numbers[:, :1]).all()
    assert scene.built.engine.settings.input_mode is not InputMode.MIXED
    return [ControlMode(int(m)).name for m in numbers[:, 0]]


# ------------------------------------------------------------------------------------------------- sizes and names


def test_names_and_sizes_are_known_before_building() -> None:
    scene = km.Scene()
    arm = scene.add(reacher())
    flying = scene.add(ball())
    assert (arm.n_links, arm.n_joints, arm.n_dofs, arm.n_qs) == (4, 3, 3, 3)
    assert (flying.n_links, flying.n_dofs, flying.n_qs) == (1, 6, 7)
    assert [x.name for x in arm.links] == ["base", "upper", "lower", "tip"]
    assert arm.dof_names == ["shoulder", "elbow", "push"]
    assert arm.get_joint("push").dof_idx == 2
    assert flying.get_joint("free").dofs_idx == (0, 1, 2, 3, 4, 5)
    assert arm.get_link("tip").mass == 0.5
    assert arm.dofs_of("push", "shoulder") == [2, 0]
    assert arm.find_links(arm.get_link("tip"), [arm.get_link("upper"), "base"]).tolist() == [3, 1, 0]
    assert flying.find_dofs(flying.get_joint("free")).tolist() == [0, 1, 2, 3, 4, 5]
    assert arm.find_dofs([arm.get_joint("push"), 0]).tolist() == [2, 0]
    with pytest.raises(km.KinemaError, match=r'"tip" is of the entity "reacher", not of "ball"'):
        flying.find_links(arm.get_link("tip"))
    with pytest.raises(km.KinemaError, match=r"no 'shoulders'; the moving joints are: shoulder, elbow, push"):
        arm.get_joint("shoulders")


def test_entities_of_the_same_name_are_told_apart() -> None:
    scene = km.Scene()
    assert [scene.add(lift()).name, scene.add(lift()).name, scene.add(lift(), name="x").name] == ["lift", "lift_1", "x"]


def test_the_same_robot_may_be_added_several_times() -> None:
    robot = reacher()
    scene = km.Scene(precision="double")
    arms = [scene.add(robot, pos=(i, 0, 0)) for i in range(3)]
    scene.build()
    arms[1].set_qpos([0.0, 0.0, 0.5])
    np.testing.assert_allclose([a.get_link("tip").get_pos()[0, 0] for a in arms], [0.8, 2.3, 2.8])


def test_joints_of_a_world_are_told_apart_by_their_robots() -> None:
    left, right = pendulum(), pendulum()
    left.name, right.name = "left", "right"
    _, both = built(km.World(name="pair", robots=[left, right]))
    assert both.dof_names == ["left::hinge", "right::hinge"]
    both.control_dofs_force(3.0, "right::hinge")
    np.testing.assert_allclose(both.scene.built.arrays.get("command")[:, 0], [0.0, 3.0])


def test_a_path_is_read(tmp_path: Path) -> None:
    (tmp_path / "robot.xml").write_text(SERVO)
    scene = km.Scene()
    assert scene.add(tmp_path / "robot.xml").actuator_names == ["servo", "motor"]
    with pytest.raises(km.ReadError):
        scene.add(tmp_path / "missing.xml")


def test_entities_have_their_own_part_of_the_arrays() -> None:
    _, one, two = built(lift(), reacher())
    two.set_qpos([0.1, 0.2, 0.3])
    one.set_qpos([7.0])
    np.testing.assert_array_equal(one.get_qpos(), [[7.0]] * 3)
    np.testing.assert_array_equal(two.get_qpos(), [[0.1, 0.2, 0.3]] * 3)


# ------------------------------------------------------------------------------------------------ shapes of values


def test_a_row_serves_all_environments_and_a_batch_each_its_own() -> None:
    _, arm = built(reacher())
    arm.set_qvel([1.0, 2.0, 3.0])
    assert arm.get_qvel().shape == (3, 3)
    batch = np.arange(9.0).reshape(3, 3)
    arm.set_qvel(batch)
    np.testing.assert_array_equal(arm.get_qvel(), batch)
    arm.set_qvel(0.5)
    np.testing.assert_array_equal(arm.get_qvel(), np.full((3, 3), 0.5))


@pytest.mark.parametrize("envs", [[2, 0], np.array([2, 0]), [-1, 0]], ids=["list", "array", "from the end"])
def test_some_environments_by_number(envs: list[int]) -> None:
    _, arm = built(reacher())
    arm.set_qpos([[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]], envs_idx=envs)
    np.testing.assert_array_equal(arm.get_qpos()[:, 0], [2.0, 0.0, 1.0])
    np.testing.assert_array_equal(arm.get_qpos(envs_idx=envs)[:, 0], [1.0, 2.0])


def test_some_environments_by_mask_and_one_by_number() -> None:
    _, arm = built(reacher())
    arm.set_qpos([1.0, 1.0, 1.0], envs_idx=np.array([True, False, True]))
    arm.set_qpos([5.0, 5.0, 5.0], envs_idx=1)
    np.testing.assert_array_equal(arm.get_qpos()[:, 0], [1.0, 5.0, 1.0])


def test_what_is_read_is_a_copy() -> None:
    _, arm = built(reacher())
    arm.get_qpos()[:] = 9.0
    assert not arm.get_qpos().any()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a: a.set_qpos([1.0, 2.0]), r"set_qpos: expected values of shape \(3,\) or \(3, 3\), not \(2,\)"),
        (lambda a: a.set_qvel(np.zeros((2, 3))), r"expected values of shape \(3,\) or \(3, 3\), not \(2, 3\)"),
        (lambda a: a.set_qvel(np.zeros((3, 3)), envs_idx=[0]), r"\(3,\) or \(1, 3\), not \(3, 3\)"),
        (lambda a: a.control_dofs_position([0.0], ["elbow", "push"]), r"shape \(2,\) or \(3, 2\), not \(1,\)"),
        (lambda a: a.set_qpos("abc"), "the values are not numeric"),
        (lambda a: a.get_qpos(envs_idx=3), "index 3 is out of range: there are 3 environments"),
        (lambda a: a.get_qpos(envs_idx=[True, False]), r"a mask has shape \(3,\), not \(2,\)"),
        (lambda a: a.get_qpos(envs_idx=0.5), "expected indices of environments"),
        (lambda a: a.control_dofs_force(0.0, 7), "index 7 is out of range: there are 3 degrees of freedom"),
        (lambda a: a.control_dofs_force(0.0, "elbows"), "no 'elbows'; the degrees of freedom are: shoulder, elbow"),
        (lambda a: a.get_links_pos("hand"), "no 'hand'; the links are: base, upper, lower, tip"),
        (lambda a: a.control([0.0]), "has no simulated actuators"),
        (
            lambda a: a.set_dofs_kp(1.0, envs_idx=[0]),
            r"environments share this parameter: use .*per_env=\(\"kp\",\)\) to let them differ",
        ),
        (lambda a: a.set_dofs_kv([[1.0] * 3, [2.0] * 3, [1.0] * 3]), r"per_env=\(\"kv\",\)\) to let them differ"),
        (lambda a: a.set_dofs_force_range(1.0, -1.0), "a lower bound is above its upper one"),
        (lambda a: a.set_dofs_armature(1.0), r"constant: set it before .*, or use .*per_env=\(\"armature\",\)\)"),
        (lambda a: a.set_dofs_damping(1.0), r"constant: set it before .*, or use .*per_env=\(\"damping\",\)\)"),
        (lambda a: a.set_mass_shift(1.0), r"use scene.build\(per_env=\(\"mass_shift\",\)\)"),
        (lambda a: a.set_com_shift(1.0), r"use scene.build\(per_env=\(\"com_shift\",\)\)"),
        (lambda a: a.set_gravity([0.0, 0.0, 0.0], envs_idx=1), r"per_env=\(\"gravity\",\)\) to let them differ"),
        (lambda a: a.set_gravity(np.eye(3)), r"per_env=\(\"gravity\",\)\) to let them differ"),
        (lambda a: a.apply_links_external_force(1.0), "external_forces=True"),
        (lambda a: a.scene.build(), "already built"),
        (lambda a: a.scene.add(lift()), "add all entities before"),
        (lambda a: a.scene.step(0), "at least one step"),
    ],
)
def test_wrong_calls_are_told_in_one_sentence(call, message: str) -> None:
    _, arm = built(reacher())
    with pytest.raises(km.KinemaError, match=message):
        call(arm)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dt": 0.0}, "dt"),
        ({"dt": math.nan}, "dt"),
        ({"precision": "half"}, "'half' is none of single, double"),
        ({"integrator": "verlet"}, "'verlet' is none of euler, implicitfast, implicit, rk4"),
        ({"gravity": (0, 1)}, "gravity: expected three finite numbers"),
        ({"substeps": 0}, "substeps"),
    ],
)
def test_wrong_scenes_are_refused(arguments: dict, message: str) -> None:
    with pytest.raises(km.KinemaError, match=message):
        km.Scene(**arguments)


def test_what_needs_a_built_scene_says_so() -> None:
    scene = km.Scene()
    arm = scene.add(lift())
    for call in (arm.get_qpos, arm.get_pos, scene.step, scene.reset, scene.get_error_envs_mask, lambda: scene.sim):
        with pytest.raises(km.KinemaError, match="not built yet"):
            call()


def test_wrong_builds_are_refused() -> None:
    with pytest.raises(km.KinemaError, match="nothing to simulate"):
        km.Scene().build()
    wrong: tuple[tuple[dict[str, Any], str], ...] = (
        ({"n_envs": 0}, "at least one environment"),
        ({"per_env": ("colour",)}, "'colour' cannot differ between environments; these can: gravity"),
    )
    for how, message in wrong:
        scene = km.Scene()
        scene.add(lift())
        with pytest.raises(km.KinemaError, match=message):
            scene.build(**how)
    scene = km.Scene(device="cuda:99")
    scene.add(lift())
    with pytest.raises(km.KinemaError, match="device 'cuda:99' does not exist; available devices: cpu"):
        scene.build()


def test_too_many_environments_are_refused_with_all_they_need() -> None:
    """State and commands together, before anything is allocated."""
    engine = built(reacher())[0].built.engine
    each = 8 * (engine.state.layout.n_rows + engine.controls.layout.n_rows)
    scene = km.Scene(precision="double")
    scene.add(reacher())
    with pytest.raises(
        km.KinemaError, match=rf"need [\d,]+ MiB \({each} bytes each\), and cpu has [\d,]+ MiB free: room"
    ):
        scene.build(10**12)


# ------------------------------------------------------------------------------------------------------- placing


def test_a_fixed_base_stands_where_it_is_put() -> None:
    scene = km.Scene(precision="double")
    arm = scene.add(reacher(), fixed=True, pos=(1, 2, 3), quat=(1, 0, 0, 1))
    scene.build(2)
    np.testing.assert_allclose(arm.get_pos(), [[1, 2, 3]] * 2)
    np.testing.assert_allclose(arm.get_quat(), [[math.sqrt(0.5), 0, 0, math.sqrt(0.5)]] * 2)
    np.testing.assert_allclose(arm.get_link("tip").get_pos()[0], [1, 2.8, 3], atol=1e-12)


def test_coordinates_of_a_free_base_count_from_the_world() -> None:
    """As MuJoCo's do: where it is put is where its coordinates start, and setting them puts it there."""
    scene = km.Scene(precision="double")
    loose = scene.add(ball(), pos=(1, 2, 3), quat=(0, 0, 0, 1))
    robot = reacher()
    robot.links[0] = body("base", 3.0, inertia=0.1)
    arm = scene.add(robot, fixed=False, pos=(0, 0, 1))
    scene.build(1)
    np.testing.assert_allclose(loose.get_qpos(), [[1, 2, 3, 0, 0, 0, 1]], atol=1e-12)
    np.testing.assert_allclose(arm.get_qpos()[0, :7], [0, 0, 1, 1, 0, 0, 0], atol=1e-12)
    loose.set_qpos([4, 5, 6, 1, 0, 0, 0])
    np.testing.assert_allclose(loose.get_pos(), [[4, 5, 6]])


def test_links_are_where_the_description_says() -> None:
    """Poses of all links agree with the description's own kinematics, in every environment."""
    robot = reacher()
    _, arm = built(robot)
    q = np.array([[0.3, -0.7, 0.1], [1.2, 0.4, -0.2], [0.0, 2.0, 0.5]])
    arm.set_qpos(q)
    for e in range(3):
        poses = robot.link_poses(dict(zip(arm.dof_names, q[e], strict=True)))
        for i, link in enumerate(arm.links):
            np.testing.assert_allclose(arm.get_links_pos()[e, i], poses[link.name].position, atol=1e-12)
            np.testing.assert_allclose(link.get_quat()[e], poses[link.name].quaternion, atol=1e-12)


def test_velocities_of_links_are_the_rate_of_their_poses() -> None:
    _, arm = built(reacher(), n_envs=1)
    q, v, h = np.array([0.3, -0.7, 0.1]), np.array([0.5, 1.5, -0.8]), 1e-6
    arm.set_qvel(v)
    around = []
    for shift in (-h, h):
        arm.set_qpos(q + shift * v)
        around.append(arm.get_links_pos())
    arm.set_qpos(q)
    np.testing.assert_allclose(arm.get_links_vel(), (around[1] - around[0]) / (2 * h), atol=1e-8)
    np.testing.assert_allclose(arm.get_link("tip").get_ang(), [[0, 2.0, 0]], atol=1e-12)
    assert arm.get_links_ang(["tip", 0]).shape == (1, 2, 3)


def test_quaternions_are_normalised_and_one_of_no_length_refused() -> None:
    _, loose = built(ball())
    loose.set_qpos([0, 0, 0, 2, 0, 0, 2])
    np.testing.assert_allclose(loose.get_qpos()[0, 3:], np.array([1, 0, 0, 1]) / math.sqrt(2))
    np.testing.assert_allclose(loose.get_dofs_position()[0, 3:], [0, 0, math.pi / 2])
    with pytest.raises(km.KinemaError, match="coordinates 3 to 6 are a quaternion of length 0"):
        loose.set_qpos(np.zeros(7))


def test_energy_is_that_of_the_textbook() -> None:
    scene, weight = built(lift(2.0))
    weight.set_qpos([3.0])
    weight.set_qvel([2.0])
    kinetic, potential = scene.get_energy()
    np.testing.assert_allclose(kinetic, 4.0)
    np.testing.assert_allclose(potential, 2.0 * 9.81 * 3.0)


# --------------------------------------------------------------------------------------------------- control modes


def test_joints_start_as_their_files_say(tmp_path: Path) -> None:
    """No force where there is nothing, a drive's target where there is one, the actuators of MJCF."""
    position = driven(stiffness=100.0, damping=5.0, target_position=0.3)
    velocity = driven(damping=5.0, target_velocity=0.7)
    scene, *_ = built(lift(), position, velocity, from_text(tmp_path, SERVO))
    assert modes(scene) == ["FORCE", "POSITION", "VELOCITY", "ACTUATOR", "ACTUATOR"]
    np.testing.assert_allclose(scene.built.arrays.get("command")[:, 0], [0, 0.3, 0.7, 0, 0])


def test_control_switches_the_mode_of_the_joints_it_names() -> None:
    scene, arm = built(reacher())
    arm.control_dofs_position([0.1, 0.2], ["elbow", "push"])
    arm.control_dofs_velocity(0.5, 0)
    assert modes(scene) == ["VELOCITY", "POSITION", "POSITION"]
    np.testing.assert_allclose(scene.built.arrays.get("command")[:, 1], [0.5, 0.1, 0.2])
    arm.control_dofs_force([1.0, 2.0, 3.0])
    assert modes(scene) == ["FORCE"] * 3


def test_environments_may_differ_in_mode_and_agree_again() -> None:
    scene, arm = built(reacher())
    arm.control_dofs_position([0.1, 0.2, 0.3], envs_idx=[1])
    assert scene.built.engine.settings.input_mode is InputMode.MIXED
    numbers = scene.built.arrays.get("ctrl_mode")
    np.testing.assert_array_equal(numbers, [[ControlMode.FORCE, ControlMode.POSITION, ControlMode.FORCE]] * 3)
    arm.control_dofs_position([0.1, 0.2, 0.3], envs_idx=[0, 2])
    arm.control_dofs_force(0.0)
    assert modes(scene) == ["FORCE"] * 3


def test_commanding_some_environments_in_the_same_mode_keeps_the_program() -> None:
    scene, arm = built(reacher())
    arm.control_dofs_force([1.0, 2.0, 3.0], envs_idx=[1])
    assert modes(scene) == ["FORCE"] * 3
    np.testing.assert_array_equal(scene.built.arrays.get("command")[:, 1], [1.0, 2.0, 3.0])


def test_environments_may_differ_in_whether_actuators_pull(tmp_path: Path) -> None:
    scene, arm = built(from_text(tmp_path, SERVO))
    arm.control_dofs_velocity([0.0], "turn", envs_idx=[0])
    assert scene.built.engine.settings.input_mode is InputMode.MIXED
    np.testing.assert_array_equal(scene.built.arrays.get("actuator_on"), [[0, 1, 1], [1, 1, 1]])
    arm.control_dofs_force(0.0, envs_idx=[0, 1, 2])
    assert modes(scene) == ["FORCE"] * 2
    arm.control([0.3], ["motor"], envs_idx=[1])
    np.testing.assert_array_equal(scene.built.arrays.get("actuator_on"), [[0, 0, 0], [0, 1, 0]])
    arm.control([0.3, 0.4])
    assert modes(scene) == ["ACTUATOR"] * 2
    assert scene.built.engine.settings.input_mode is InputMode.ACTUATORS


def test_actuators_are_taken_over_and_given_back(tmp_path: Path) -> None:
    scene, arm = built(from_text(tmp_path, SERVO))
    arm.control_dofs_position([0.1, 0.2])
    assert modes(scene) == ["POSITION", "POSITION"]
    arm.control([0.4], ["motor"])
    assert modes(scene) == ["POSITION", "ACTUATOR"]
    np.testing.assert_allclose(scene.built.arrays.get("ctrl")[:, 0], [0, 0.4])
    arm.control([0.3, 0.4])
    assert modes(scene) == ["ACTUATOR", "ACTUATOR"]


def test_an_actuator_that_loses_one_of_its_joints_is_said_to_stop(tmp_path: Path) -> None:
    path = '<joint joint="turn" coef="1"/><joint joint="wrist" coef="1"/>'
    tendon = f'<tendon><fixed name="both">{path}</fixed></tendon>'
    text = SERVO.replace("</worldbody>", f"</worldbody>{tendon}")
    text = text.replace('<motor name="motor" joint="wrist" gear="0.5"/>', '<motor name="motor" tendon="both"/>')
    scene, arm = built(from_text(tmp_path, text))
    arm.control_dofs_force([0.0], "wrist")
    assert 'actuator "motor" is disabled' in scene.diagnostics.items[-1].message
    assert modes(scene) == ["ACTUATOR", "FORCE"]


def test_a_quaternion_has_no_position_to_control() -> None:
    _, loose = built(ball())
    loose.control_dofs_position(0.0, [0, 1, 2])
    loose.control_dofs_velocity(0.0, [3, 4, 5])
    with pytest.raises(km.KinemaError, match=r'"free\[3\]" belongs to a quaternion'):
        loose.control_dofs_position(np.zeros(6))


def test_gains_that_nobody_gave_of_free_bodies_are_set_by_their_first_command() -> None:
    scene, loose = built(ball())
    assert not loose.get_dofs_kp().any()
    loose.control_dofs_position([0.1, 0.0, 0.2], [0, 1, 2])
    assert (loose.get_dofs_kp([0, 1, 2]) > 0.0).all()
    note = next(d for d in scene.diagnostics if d.code == "scene.default-gains")
    assert note.severity is km.Severity.NOTE
    assert '"free[0]"' in note.message


def test_gains_of_the_user_and_of_the_file_are_kept(tmp_path: Path) -> None:
    scene = km.Scene()
    arm, servo = scene.add(reacher()), scene.add(from_text(tmp_path, SERVO))
    arm.set_dofs_kp([10.0, 20.0, 0.0])
    arm.set_dofs_kv(3.0)
    arm.set_dofs_force_range(-4.0, [5.0, 6.0, 7.0])
    arm.set_dofs_armature(0.1, "elbow")
    scene.build()
    arm.control_dofs_position(0.0)
    servo.control_dofs_position(0.0, "turn")
    dofs = scene.built.model.dofs
    np.testing.assert_allclose(dofs.kp[:4], [10, 20, 0, 20])
    np.testing.assert_allclose(dofs.kv[:4], [3, 3, 3, 2])
    np.testing.assert_allclose(dofs.force_lower[:3], -4)
    np.testing.assert_allclose(dofs.force_upper[:3], [5, 6, 7])
    np.testing.assert_allclose(dofs.armature[:3], [0, 0.1, 0])
    assert "scene.default-gains" not in scene.diagnostics.codes()


def test_parameters_before_building_are_checked() -> None:
    arm = km.Scene().add(reacher())
    with pytest.raises(km.KinemaError, match="set_dofs_kp: expected finite numbers that are not negative, not nan"):
        arm.set_dofs_kp(math.nan)
    with pytest.raises(km.KinemaError, match="no environments to select"):
        arm.set_dofs_kp(1.0, envs_idx=[0])
    with pytest.raises(km.KinemaError, match="lower bound is above"):
        arm.set_dofs_force_range(1.0, -1.0)


# ---------------------------------------------------------------------------------------- refusals and diagnostics


def test_followers_that_do_not_follow_are_said() -> None:
    robot = reacher()
    robot.joints[1].axes[0].mimic = Mimic(joint="shoulder", axis=0)
    assert "sim.mimic" not in built(robot)[0].diagnostics.codes()
    robot.joints[1].axes[0].mimic = Mimic(joint="nobody")
    scene, _ = built(robot)
    found = next(d for d in scene.diagnostics if d.code == "sim.mimic")
    assert '"elbow" does not mimic "nobody"' in found.message
    assert str(found.origin) == "made.up:2"


def test_a_massless_tip_is_refused_by_name_and_place() -> None:
    robot = reacher()
    robot.links[3] = body("tip", 0.0)
    with pytest.raises(
        km.KinemaError, match=r'made.up:2: error: joint "push" of link "tip" cannot .* no mass'
    ) as caught:
        built(robot)
    assert [d.code for d in caught.value.diagnostics] == ["sim.massless"]


def test_a_rotor_makes_a_massless_link_possible() -> None:
    robot = reacher()
    robot.links[3] = body("tip", 0.0)
    robot.joints[2].axes[0].armature = 0.01
    built(robot)


def test_two_joints_about_one_axis_are_refused() -> None:
    """Neither is without inertia, but nothing tells them apart."""
    robot = reacher()
    robot.links[1] = body("upper", 0.0)
    robot.joints[1] = joint("elbow", "upper", "lower", rotation((0.0, 1.0, 0.0)))
    with pytest.raises(km.KinemaError, match=r'joint "shoulder" of link "upper" .* other joints do not move as well'):
        built(robot)


def test_masses_that_are_still_to_be_set_are_only_warned_of() -> None:
    scene, _ = built(lift(0.0), per_env=("mass_shift",))
    found = next(d for d in scene.diagnostics if d.code == "sim.massless")
    assert found.severity is km.Severity.WARNING


def test_little_inertia_is_warned_of_in_single_precision() -> None:
    robot = reacher()
    robot.links[1] = body("upper", 1e-9)
    robot.joints[1] = joint("elbow", "upper", "lower", rotation((0.0, 1.0, 0.0)))
    robot.links[1].inertial = body("upper", 1e-9, inertia=1e-9).inertial
    scene = km.Scene(precision="single")
    scene.add(robot)
    scene.build()
    assert "sim.ill-conditioned" in scene.diagnostics.codes()
    assert "sim.ill-conditioned" not in built(robot)[0].diagnostics.codes()


def test_a_scene_in_which_nothing_moves_is_fine() -> None:
    statue = km.Robot(name="statue", links=[body("stone")])
    scene, entity = built(statue)
    scene.step(5)
    assert scene.time == pytest.approx(0.01)
    scene.reset()
    assert scene.time == 0.0
    assert entity.get_qpos().shape == (3, 0)
    np.testing.assert_allclose(entity.get_pos(), np.zeros((3, 3)))
    assert not scene.get_error_envs_mask().any()


def test_reset_takes_back_commands_and_forces() -> None:
    scene, arm = built(reacher(), external_forces=True)
    arm.set_qpos([1.0, 2.0, 3.0])
    arm.control_dofs_force(7.0)
    arm.apply_links_external_force(7.0)
    scene.reset([1])
    memory = scene.built.arrays
    np.testing.assert_array_equal(arm.get_qpos()[:, 0], [1.0, 0.0, 1.0])
    np.testing.assert_array_equal(memory.get("command")[0], [7.0, 0.0, 7.0])
    np.testing.assert_array_equal(memory.get("cfrc_applied_vel")[0], [7.0, 0.0, 7.0])


def test_mediums_that_differ_and_springs_that_are_too_much_are_reported(tmp_path: Path) -> None:
    """One medium for all; the spring of a free joint is linear."""
    scene = km.Scene(contacts=False, limits=False)
    for i, density in enumerate(("1.2", "3")):
        file = tmp_path / f"fluid{i}.xml"
        file.write_text(
            f'<mujoco><option density="{density}"/><worldbody><body><joint type="free" name="soft" stiffness="1 2"/>'
            '<geom size=".1"/></body></worldbody></mujoco>'
        )
        scene.add(file)
    scene.build()
    said = {d.code: d for d in scene.diagnostics}
    assert {"sim.fluid", "sim.polynomial"} <= set(said)
    assert "another medium" in said["sim.fluid"].message
    assert str(said["sim.fluid"].origin)
    assert str(said["sim.polynomial"].origin)


def test_the_force_on_a_joint_is_weight_and_command_together() -> None:
    """A mass of 2 kg on a vertical slide, pushed up with 5 N."""
    scene = km.Scene(precision="double", contacts=False, limits=False)
    box = scene.add(lift(2.0))
    scene.build(n_envs=2)
    box.control_dofs_force([5.0])
    assert box.get_dofs_force() == pytest.approx(np.full((2, 1), 5.0 - 2.0 * 9.81))
    assert box.get_dofs_control_force() == pytest.approx(np.full((2, 1), 5.0))

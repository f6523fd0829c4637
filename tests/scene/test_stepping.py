"""Scenes that are stepped: compiled programs, few of them and small."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as km
from kinema.dynamics import ARRAYS, ControlMode, InputMode, trace_unrolled_step
from kinema.dynamics.arrays import CONTROL_GAINS as GAIN_ARRAYS, initial_values
from kinema.ir import interpret
from kinema.runtime import list_devices
from kit.robots.small_robots import SERVO, ball, lift, pendulum, reacher

STEPS = 50
GAINS = ([30.0, 20.0, 50.0], [3.0, 2.0, 5.0])


def arm_scene(n_envs: int, precision: str = "single", **how: Any) -> tuple[km.Scene, km.Entity]:
    scene = km.Scene(precision=precision, quiet=True, **how)
    arm = scene.add(reacher())
    arm.set_dofs_kp(GAINS[0])
    arm.set_dofs_kv(GAINS[1])
    scene.build(n_envs)
    return scene, arm


def random_rows(count: int, seed: int = 3) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=(count, 3)) for name in ("q", "v", "command")}


def mixed_per_dof(arm: km.Entity, rows: dict[str, np.ndarray]) -> None:
    """A position, a velocity and a force."""
    arm.set_qpos(rows["q"])
    arm.set_qvel(rows["v"])
    arm.control_dofs_position(rows["command"][:, :1], "shoulder")
    arm.control_dofs_velocity(rows["command"][:, 1:2], "elbow")
    arm.control_dofs_force(rows["command"][:, 2:], "push")


def trajectory(scene: km.Scene, arm: km.Entity) -> np.ndarray:
    scene.step(STEPS)
    return np.concatenate([arm.get_qpos(), arm.get_qvel()], axis=1)


def run_mixed(rows: dict[str, np.ndarray], **how: Any) -> np.ndarray:
    scene, arm = arm_scene(len(rows["q"]), **how)
    mixed_per_dof(arm, rows)
    return trajectory(scene, arm)


NINE = random_rows(9)


@pytest.fixture(scope="module")
def nine() -> np.ndarray:
    """What nine environments do together."""
    return run_mixed(NINE)


# ---------------------------------------------------------------------------------------- independent environments


@pytest.mark.parametrize("chosen", [[4], [0, 1, 2], [8, 3, 5, 1, 0], [0], list(range(8, -1, -1))], ids=len)
def test_an_environment_does_not_depend_on_its_neighbours(nine: np.ndarray, chosen: list[int]) -> None:
    """Any subset, in any order, whether or not it fills the vectors: the same bits."""
    alone = run_mixed({name: values[chosen] for name, values in NINE.items()})
    np.testing.assert_array_equal(alone, nine[chosen])


def test_two_runs_give_the_same_bits(nine: np.ndarray) -> None:
    np.testing.assert_array_equal(run_mixed(NINE), nine)


def test_one_call_with_many_steps_is_many_calls_with_one(nine: np.ndarray) -> None:
    scene, arm = arm_scene(9)
    mixed_per_dof(arm, NINE)
    for _ in range(STEPS - 1):
        scene.step()
    scene.step()
    np.testing.assert_array_equal(np.concatenate([arm.get_qpos(), arm.get_qvel()], axis=1), nine)
    assert scene.time == pytest.approx(STEPS * 0.002)


def test_a_gpu_computes_what_the_cpu_does(nine: np.ndarray) -> None:
    if not any(device.name != "cpu" for device in list_devices()):
        pytest.skip("there is no GPU")
    scene, arm = arm_scene(9, device="cuda:0")
    mixed_per_dof(arm, NINE)
    np.testing.assert_allclose(trajectory(scene, arm), nine, rtol=2e-4, atol=2e-5)
    arm.set_qpos([1.0, 2.0, 3.0], envs_idx=[4])
    np.testing.assert_array_equal(arm.get_qpos([4]), [[1.0, 2.0, 3.0]])
    scene.built.arrays.write("command", arm.find_dofs("push"), np.array([[math.nan]]), np.array([4]))
    scene.step()
    assert scene.get_error_envs_mask().tolist() == [e == 4 for e in range(9)]


def test_substeps_divide_a_step(nine: np.ndarray) -> None:
    """Five of them in a step of 10 ms are five steps of 2 ms."""
    scene, arm = arm_scene(9, dt=0.01, substeps=5)
    mixed_per_dof(arm, NINE)
    scene.step(STEPS // 5)
    np.testing.assert_array_equal(arm.get_qpos(), nine[:, :3])


def test_single_precision_is_close_to_double(nine: np.ndarray) -> None:
    exact = run_mixed(NINE, precision="double")
    assert exact.dtype == np.float64
    assert nine.dtype == np.float32
    np.testing.assert_allclose(nine, exact, rtol=2e-4, atol=2e-5)


def test_a_wrong_number_stays_in_its_environment_and_is_flagged(nine: np.ndarray) -> None:
    """In the state or in a command; `reset` heals it, and only it."""
    scene, arm = arm_scene(9)
    mixed_per_dof(arm, NINE)
    write, push = scene.built.arrays.write, arm.find_dofs("push")
    write("qpos", np.arange(3), np.array([[math.nan, 0.0, 0.0]]), np.array([2]))
    write("command", push, np.array([[math.inf]]), np.array([7]))
    after = trajectory(scene, arm)
    np.testing.assert_array_equal(scene.get_error_envs_mask(), np.isin(np.arange(9), [2, 7]))
    fine = [0, 1, 3, 4, 5, 6, 8]
    np.testing.assert_array_equal(after[fine], nine[fine])
    scene.reset([2, 7])
    assert not scene.get_error_envs_mask().any()
    scene.step()
    assert np.isfinite(arm.get_qpos()).all()
    assert not scene.get_error_envs_mask().any()


def test_going_back_repeats_the_run(nine: np.ndarray) -> None:
    scene, arm = arm_scene(9)
    mixed_per_dof(arm, NINE)
    scene.step(7)
    assert scene.time == pytest.approx(0.014)
    scene.reset(slice(0, 4))
    assert scene.time == pytest.approx(0.014), "that of the others"
    assert not arm.get_qpos()[:4].any()
    assert arm.get_qpos()[4:].any()
    scene.reset()
    assert scene.time == 0.0
    mixed_per_dof(arm, NINE)
    np.testing.assert_array_equal(trajectory(scene, arm), nine)


def test_flat_arrays_show_what_the_entity_shows() -> None:
    scene, arm = arm_scene(3)
    mixed_per_dof(arm, {name: values[:3] for name, values in NINE.items()})
    scene.step(3)
    solver = scene.sim.rigid_solver
    np.testing.assert_allclose(np.moveaxis(solver.links_state.pos.numpy(), 1, 0), arm.get_links_pos(), atol=1e-6)
    np.testing.assert_array_equal(solver.qpos.numpy().T, arm.get_qpos())
    np.testing.assert_array_equal(solver.qvel.numpy().T, arm.get_qvel())
    assert list(solver.links_info.parent_idx) == [-1, 0, 1, 2]
    before = solver.links_state.pos.numpy().copy()
    arm.set_qpos([0.0, 0.0, 0.0])
    assert np.abs(solver.links_state.pos.numpy() - before).max() > 0.01


# ------------------------------------------------------------------------------------------------- modes of control


def test_modes_that_differ_between_environments_do_what_each_does_alone() -> None:
    """Against scenes in which all environments are told the same, and against the interpreter with gains put in."""
    every = [ControlMode.FORCE, ControlMode.VELOCITY, ControlMode.POSITION]
    rows = random_rows(3)
    scene, arm = arm_scene(3, "double")
    arm.set_qpos(rows["q"])
    arm.set_qvel(rows["v"])
    for e, mode in enumerate(every):
        tell(arm, mode, rows["command"][e], envs_idx=[e])
    scene.step(4)
    engine = scene.built.engine
    assert engine.settings.input_mode is InputMode.MIXED
    kp, kv = (np.array(values) for values in GAINS)
    gains = {
        ControlMode.FORCE: (np.ones(3), 0 * kp, 0 * kv),
        ControlMode.VELOCITY: (kv, 0 * kp, kv),
        ControlMode.POSITION: (kp, kp, kv),
    }
    for e, mode in enumerate(every):
        alone, one = arm_scene(1, "double")
        one.set_qpos(rows["q"][e])
        one.set_qvel(rows["v"][e])
        tell(one, mode, rows["command"][e])
        alone.step(4)
        fixed = alone.built.engine.settings
        assert fixed.input_mode is InputMode.COMMANDS
        arrays = {info.name: initial_values(info, scene.built.model, fixed) for info in ARRAYS if info.arena(fixed)}
        arrays |= {"qpos": rows["q"][e][:, None], "vel": rows["v"][e][:, None], "command": rows["command"][e][:, None]}
        arrays |= {name: values[:, None] for name, values in zip(GAIN_ARRAYS, gains[mode], strict=True)}
        program = trace_unrolled_step(scene.built.model, fixed)
        for _ in range(4):
            arrays |= interpret(program, arrays)
        for ours in (arm.get_qpos()[e], one.get_qpos()[0]):
            np.testing.assert_allclose(ours, arrays["qpos"][:, 0], rtol=1e-12, err_msg=mode.name)
        for ours in (arm.get_qvel()[e], one.get_qvel()[0]):
            np.testing.assert_allclose(ours, arrays["vel"][:, 0], rtol=1e-12, err_msg=mode.name)


def tell(arm: km.Entity, mode: ControlMode, command: np.ndarray, **which: Any) -> None:
    {
        ControlMode.FORCE: arm.control_dofs_force,
        ControlMode.VELOCITY: arm.control_dofs_velocity,
        ControlMode.POSITION: arm.control_dofs_position,
    }[mode](command, **which)


@pytest.fixture(scope="module")
def servo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("servo") / "servo.xml"
    file.write_text(SERVO)
    return file


@pytest.mark.parametrize("codegen", ["unrolled", "loops"])
def test_the_file_s_actuators_and_what_the_user_adds_are_mujoco_s(servo: Path, codegen: str) -> None:
    mujoco = pytest.importorskip("mujoco")
    scene = km.Scene(precision="double", contacts=False, codegen=codegen, quiet=True)
    arm = scene.add(servo)
    scene.build(2, external_forces=True)
    arm.control([[0.5, 1.0], [-0.3, 0.2]])
    arm.apply_dofs_external_force(0.4, "turn", envs_idx=[1])
    scene.step(100)
    model = mujoco.MjModel.from_xml_string(SERVO)
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    for e, (ctrl, more) in enumerate((([0.5, 1.0], 0.0), ([-0.3, 0.2], 0.4))):
        data = mujoco.MjData(model)
        data.ctrl[:], data.qfrc_applied[0] = ctrl, more
        mujoco.mj_step(model, data, nstep=100)
        np.testing.assert_allclose(arm.get_qpos()[e], data.qpos, rtol=1e-9)
        np.testing.assert_allclose(arm.get_qvel()[e], data.qvel, rtol=1e-9)
        mujoco.mj_forward(model, data)
        np.testing.assert_allclose(arm.get_dofs_control_force()[e], data.qfrc_actuator, rtol=1e-8, atol=1e-12)
        np.testing.assert_array_equal(scene.dofs.qf_applied.numpy()[:, e], data.qfrc_applied)
    scene.reset()
    assert not scene.dofs.qf_applied.numpy().any()


# ----------------------------------------------------------------------------------- parameters of environments

PARAMETERS = ("gravity", "mass_shift", "com_shift", "kp", "kv", "armature", "damping")
N = 5


@pytest.fixture(scope="module")
def varied() -> tuple[km.Scene, km.Entity, km.Entity]:
    """A lift under position control and a pendulum without, everything about them different in each environment."""
    scene = km.Scene(precision="double", dt=0.01, quiet=True)
    weight, swing = scene.add(lift(2.0)), scene.add(pendulum(1.0, 0.5))
    scene.build(N, per_env=PARAMETERS, external_forces=True)
    weight.control_dofs_position(0.0)
    return scene, weight, swing


def values(low: float, high: float) -> np.ndarray:
    return np.linspace(low, high, N)


def test_parameters_of_environments_do_what_they_should(varied: tuple[km.Scene, km.Entity, km.Entity]) -> None:
    """One step of each environment, against its formula."""
    scene, weight, swing = varied
    g, more, rotor, rub = values(-2, 15), values(0, 3), values(0, 1), values(0, 4)
    kp, kv, push, out, q, v = values(0, 50), values(0, 9), values(-5, 5), values(0.1, 0.4), values(-1, 1), values(2, 3)
    scene.reset()
    scene.set_gravity(np.stack([0 * g, 0 * g, -g], axis=1))
    weight.set_mass_shift(more[:, None])
    weight.set_dofs_armature(rotor[:, None])
    weight.set_dofs_damping(rub[:, None])
    weight.set_dofs_kp(kp[:, None])
    weight.set_dofs_kv(kv[:, None])
    weight.apply_links_external_force(np.stack([0 * g, 0 * g, push], axis=1)[:, None])
    swing.set_com_shift(np.stack([0 * g, 0 * g, -out], axis=1)[:, None])
    swing.apply_links_external_torque(np.stack([0 * g, push, 0 * g], axis=1)[:, None])
    weight.control_dofs_position(0.7)
    weight.set_qpos(q[:, None])
    weight.set_qvel(v[:, None])
    swing.set_qpos(q[:, None])
    scene.step()
    mass, dt = 2.0 + more, scene.dt
    force = kp * (0.7 - q) - kv * v - rub * v - mass * g + push
    expected = v + dt * force / (mass + rotor + dt * (kv + rub))
    np.testing.assert_allclose(weight.get_qvel()[:, 0], expected, rtol=1e-12)
    np.testing.assert_allclose(weight.get_qpos()[:, 0], q + dt * expected, rtol=1e-12)
    length = 0.5 + out
    torque = -g * length * np.sin(q) + push
    np.testing.assert_allclose(swing.get_qvel()[:, 0], dt * torque / length**2, rtol=1e-9)


def test_parameters_of_some_environments_leave_the_others_alone(
    varied: tuple[km.Scene, km.Entity, km.Entity],
) -> None:
    scene, weight, swing = varied
    scene.reset()
    weight.set_dofs_kp(0.0)
    weight.set_dofs_kv(0.0)
    weight.set_dofs_damping(0.0)
    weight.set_dofs_armature(0.0)
    scene.set_gravity([0.0, 0.0, -1.0])
    scene.set_gravity([0.0, 0.0, -3.0], envs_idx=[1, 4])
    swing.set_com_shift(0.0)
    scene.step(10)
    np.testing.assert_allclose(weight.get_qvel()[:, 0], [-0.1, -0.3, -0.1, -0.1, -0.3], rtol=1e-12)


# ----------------------------------------------------------------------------------------------------- free bodies


@pytest.fixture(scope="module")
def thrown() -> tuple[km.Scene, km.Entity]:
    scene = km.Scene(precision="double", integrator="rk4", quiet=True)
    entity = scene.add(ball(), pos=(0, 0, 10))
    scene.build(3)
    return scene, entity


def test_a_thrown_ball_follows_its_parabola(thrown: tuple[km.Scene, km.Entity]) -> None:
    scene, thing = thrown
    scene.reset()
    thing.set_qvel([1.0, 2.0, 3.0, 0.0, 0.0, 5.0])
    scene.step(250)
    t = 0.5
    np.testing.assert_allclose(thing.get_pos(), [[t, 2 * t, 10 + 3 * t - 0.5 * 9.81 * t * t]] * 3, rtol=1e-12)
    np.testing.assert_allclose(thing.get_vel(), [[1, 2, 3 - 9.81 * t]] * 3, rtol=1e-12)
    np.testing.assert_allclose(thing.get_ang(), [[0, 0, 5]] * 3, atol=1e-12)
    np.testing.assert_allclose(thing.get_dofs_position()[:, 5], 5 * t, rtol=1e-12)


def test_a_position_that_is_no_number_is_flagged_though_nothing_depends_on_it(
    thrown: tuple[km.Scene, km.Entity],
) -> None:
    scene, thing = thrown
    scene.reset()
    for env, qpos in ((1, [math.nan, 0, 0, 1, 0, 0, 0]), (2, [0, 0, 0, 1, math.inf, 0, math.nan])):
        scene.built.arrays.write("qpos", slice(None), np.array([qpos]), np.array([env]))
    scene.step()
    assert scene.get_error_envs_mask().tolist() == [False, True, True]
    assert np.isfinite(thing.get_dofs_position()[0]).all()


def test_energy_of_a_swinging_pendulum_is_kept() -> None:
    """RK4 loses next to nothing of it."""
    scene = km.Scene(precision="double", integrator="rk4", quiet=True)
    swing = scene.add(pendulum())
    scene.build(1)
    swing.set_qpos([2.0])
    before = sum(scene.get_energy())
    scene.step(1000)
    assert sum(scene.get_energy()) == pytest.approx(before, abs=1e-8)


def test_a_rolled_scene_steps_like_an_unrolled_one() -> None:
    ends = []
    for codegen in ("unrolled", "loops"):
        scene = km.Scene(precision="double", codegen=codegen, contacts=False, limits=False)
        robot = scene.add(pendulum())
        scene.build(n_envs=3)
        robot.set_qpos([0.7])
        scene.step(100)
        ends.append(robot.get_qpos())
    assert ends[0] == pytest.approx(ends[1], abs=1e-12)


def test_there_are_only_so_many_emissions() -> None:
    with pytest.raises(km.KinemaError, match="'folded' is none of auto, loops, unrolled"):
        km.Scene(codegen="folded")


def test_values_of_a_single_environment_lie_side_by_side() -> None:
    """Without padding between them, and with the bits of the same environment beside another one."""
    alone, arm = arm_scene(1)
    assert alone.built.engine.array_view("qpos").numpy().flags.c_contiguous
    among, same = arm_scene(2)
    rows = random_rows(2)
    found = []
    for scene, entity, n in ((alone, arm, 1), (among, same, 2)):
        mixed_per_dof(entity, {name: values[:n] for name, values in rows.items()})
        scene.step(STEPS)
        found.append([entity.get_qpos()[0], entity.get_qvel()[0], entity.get_links_pos()[0].ravel()])
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)

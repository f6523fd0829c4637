"""Environments that differ by chance: each like a scene that was built so, and the same again from the same seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
from hypothesis import given, strategies as st

import kinema as km
from kinema.description import rotation
from kinema.dynamics import PER_ENV_PARAMETERS
from kit.robots.small_robots import joint, pendulum, reacher

FORESEEN = ("mass_shift", "com_shift", "kp", "kv", "armature", "damping", "limit", "gravity")


def built(robot: km.Robot, n_envs: int, per_env: tuple[str, ...] = FORESEEN) -> tuple[km.Scene, km.Entity]:
    scene = km.Scene(precision="double", quiet=True)
    entity = scene.add(robot)
    scene.build(n_envs, per_env=per_env)
    return scene, entity


def hanging(mass: float = 1.0) -> km.Robot:
    """A pendulum that may swing so far."""
    robot = pendulum(mass)
    axis = rotation((0.0, 1.0, 0.0), lower=-0.5, upper=1.5, damping=0.1, armature=0.02)
    robot.joints = [joint("hinge", None, "bob", axis)]
    return robot


def test_an_environment_is_as_a_scene_that_was_built_so() -> None:
    """Masses with their inertia, dampers, rotors, gravity: 100 steps to 1e-12."""
    scene, swing = built(hanging(), 3)
    scene.randomize(
        swing,
        mass=km.uniform(0.5, 2.0),
        damping=km.uniform(0.1, 3.0),
        armature=km.uniform(0.5, 2.0),
        gravity=km.normal(0.0, 1.0),
        seed=3,
    )
    swing.set_qpos([0.3])
    scene.step(100)
    gravity = scene.built.arrays.read("gravity", slice(None))
    masses, dampers, rotors = swing.get_mass(), swing.get_dofs_damping(), swing.get_dofs_armature()
    assert len(np.unique(masses)) == len(np.unique(dampers)) == len(np.unique(rotors)) == 3
    for i in range(3):
        alone = km.Scene(precision="double", quiet=True, gravity=gravity[i])
        same = alone.add(hanging(float(masses[i])))
        same.set_dofs_damping(dampers[i])
        same.set_dofs_armature(rotors[i])
        alone.build()
        same.set_qpos([0.3])
        alone.step(100)
        np.testing.assert_allclose(same.get_qpos()[0], swing.get_qpos()[i], atol=1e-12)


def test_what_is_drawn_changes_what_was_built_and_not_what_was_drawn_before() -> None:
    scene, arm = built(reacher(), 5)
    for _ in range(3):
        scene.randomize(arm, mass=km.uniform(0.8, 1.2), com=km.uniform(-0.01, 0.01), links_idx="upper|lower", seed=1)
    masses = arm.get_links_inertial_mass()
    assert ((masses[:, 1] >= 1.6) & (masses[:, 1] <= 2.4)).all()
    np.testing.assert_array_equal(masses[:, [0, 3]], [[0.0, 0.5]] * 5)
    shift = scene.built.arrays.read("com_shift", slice(None)).reshape(5, 4, 3)
    assert (np.abs(shift) <= 0.01).all()
    assert not shift[:, [0, 3]].any()
    arm.set_links_inertial_mass([[1.5], [2.5]], "upper", [1, 3])
    np.testing.assert_allclose(arm.get_links_inertial_mass("upper", [1, 3])[:, 0], [1.5, 2.5])


def test_an_environment_draws_the_same_however_many_there_are() -> None:
    few, many = built(reacher(), 2), built(reacher(), 7)
    for scene, arm in (few, many):
        scene.randomize(arm, mass=km.normal(1.0, 0.1), seed=5)
    np.testing.assert_array_equal(few[1].get_links_inertial_mass(), many[1].get_links_inertial_mass()[:2])
    many[0].randomize(many[1], mass=km.normal(1.0, 0.1), seed=5, envs_idx=[4, 6])
    np.testing.assert_array_equal(few[1].get_links_inertial_mass(), many[1].get_links_inertial_mass()[:2])


def test_who_gets_a_number_of_its_own() -> None:
    robot = reacher()
    for one in robot.joints:
        one.axes[0].damping = 1.0
    scene, arm = built(robot, 4)
    for each, envs, items in (("item", 4, 3), ("env", 4, 1), ("all", 1, 1)):
        scene.randomize(arm, damping=km.uniform(1.0, 9.0, sample_per=each))
        values = arm.get_dofs_damping()
        assert len(np.unique(values)) == envs * items
    scene.randomize(arm, damping=km.loguniform(2.0, 3.0, operation="set"), dofs_idx="elbow", seed=2)
    assert ((arm.get_dofs_damping("elbow") >= 2.0) & (arm.get_dofs_damping("elbow") <= 3.0)).all()


def test_limits_are_scaled_about_their_middle_and_gains_from_what_all_have() -> None:
    scene, swing = built(hanging(), 3, ("limit",))
    swing.set_dofs_kp(100.0)
    scene.randomize(swing, limits=km.uniform(0.5, 0.9), kp=km.uniform(0.9, 1.1))
    lower, upper = swing.get_dofs_limit()
    np.testing.assert_allclose((lower + upper) / 2, 0.5, rtol=1e-12)
    assert (((upper - lower) >= 1.0) & ((upper - lower) <= 1.8)).all()
    assert ((swing.get_dofs_kp() >= 90.0) & (swing.get_dofs_kp() <= 110.0)).all()


def test_gains_that_nobody_gave_are_those_that_control_would_begin_with() -> None:
    """Drawing them is no reason to go limp."""
    (scene, swing), (_, other) = built(hanging(), 3), built(hanging(), 1)
    other.control_dofs_position(0.3)
    scene.randomize(swing, kp=km.uniform(0.9, 1.1), seed=np.int64(4))  # type: ignore[arg-type]
    swing.control_dofs_position(0.3)
    drawn = swing.get_dofs_kp() / other.get_dofs_kp()
    assert ((drawn > 0.9) & (drawn < 1.1)).all()
    assert len(np.unique(drawn)) == 3
    np.testing.assert_allclose(swing.get_dofs_kv(), np.broadcast_to(other.get_dofs_kv(), (3, 1)))


def test_what_a_draw_cannot_change_is_said(tmp_path: Path) -> None:
    file = tmp_path / "servo.xml"
    file.write_text(
        "<mujoco><worldbody><body><joint name='hinge'/><geom size='0.1'/></body></worldbody>"
        "<actuator><position name='servo' joint='hinge' kp='20'/></actuator></mujoco>"
    )
    scene = km.Scene(quiet=True, contacts=False)
    servo = scene.add(file)
    scene.build(2, per_env=("kp", "armature", "gravity"))
    for _ in range(2):
        scene.randomize(servo, kp=km.uniform(0.9, 1.1), armature=km.uniform(0.9, 1.1))
    said = [d.code for d in scene.diagnostics if d.code in ("scene.gains-of-actuators", "scene.nothing-to-scale")]
    assert said == ["scene.gains-of-actuators", "scene.nothing-to-scale"], "each once"
    scene.randomize(servo, armature=km.uniform(0.1, 0.2, operation="set"), gravity=km.normal(0.0, 0.1))
    assert (servo.get_dofs_armature() >= 0.1).all()
    assert len(np.unique(scene.get_gravity())) == 6


def test_what_was_not_foreseen_costs_one_compilation_that_is_announced() -> None:
    """Everything goes on from where it was, bit for bit, and the step is compiled once."""
    scene, swing = built(hanging(), 2, ())
    other, same = built(hanging(), 2, ("mass_shift", "com_shift"))
    for one, entity in ((scene, swing), (other, same)):
        entity.control_dofs_position(0.4)
        one.step(20)
    state, time = swing.get_qpos(), scene.time
    scene.randomize(swing, mass=km.uniform(0.5, 2.0), com=km.uniform(0.0, 0.1))
    notes = [d for d in scene.diagnostics if d.code == "scene.recompiled"]
    assert len(notes) == 1
    assert 'per_env=("com_shift", "mass_shift",)' in notes[0].hint
    np.testing.assert_array_equal(swing.get_qpos(), state)
    assert scene.time == time
    other.randomize(same, mass=km.uniform(0.5, 2.0), com=km.uniform(0.0, 0.1))
    for one in (scene, other):
        one.step(30)
    np.testing.assert_array_equal(swing.get_qpos(), same.get_qpos())
    scene.randomize(swing, mass=km.uniform(0.5, 2.0))
    assert len([d for d in scene.diagnostics if d.code == "scene.recompiled"]) == 1


@pytest.mark.skipif(
    "geom_friction" not in PER_ENV_PARAMETERS, reason="friction cannot differ between environments here"
)
def test_friction_and_sizes() -> None:
    scene = km.Scene(precision="double", quiet=True)
    scene.add(km.Plane(), friction=0.1)
    ball: Any = scene.add(km.Sphere(0.1), friction=0.5, pos=(0, 0, 0.3))
    scene.build(4, per_env=("geom_friction", "geom_size"))
    scene.randomize(ball, friction=km.uniform(0.5, 1.5), geometry_scale=km.uniform(0.9, 1.1))
    friction, size = ball.get_geoms_friction()[:, 0, 0], ball.get_geoms_size()[:, 0, 0]
    assert ((friction >= 0.25) & (friction <= 0.75)).all()
    assert ((size >= 0.09) & (size <= 0.11)).all()
    assert len(np.unique(friction)) == len(np.unique(size)) == 4
    scene.step(400)
    np.testing.assert_allclose(ball.get_pos()[:, 2], size, atol=1e-3)


FALLING = """
<mujoco><option timestep="0.002" integrator="implicitfast"/><worldbody>
<geom type="plane" size="1 1 1"/>
<body pos="0 0 0.12" euler="10 5 0"><freejoint/>
<geom type="box" size="0.1 0.06 0.05" mass="1.5" solref="0.05 0.8"/></body>
</worldbody></mujoco>
"""


def test_what_follows_from_masses_follows(tmp_path: Path) -> None:
    """Inverse inertias, and so how hard contacts are: as MuJoCo has them once mj_setConst ran on the new masses."""
    file = tmp_path / "falling.xml"
    file.write_text(FALLING)
    scene = km.Scene(precision="double", quiet=True)
    box = scene.add(file)
    scene.build(3)
    scene.randomize(box, mass=km.uniform(0.3, 3.0), seed=1)
    for i, mass in enumerate(box.get_mass()):
        peer = mujoco.MjModel.from_xml_string(FALLING)
        peer.body_mass[1], peer.body_inertia[1] = mass, peer.body_inertia[1] * (mass / 1.5)
        data = mujoco.MjData(peer)
        mujoco.mj_setConst(peer, data)
        np.testing.assert_allclose(box.get_dofs_invweight()[i], peer.dof_invweight0, rtol=1e-9)
        if i == 0:
            mujoco.mj_resetData(peer, data)
            for _ in range(60):
                mujoco.mj_step(peer, data)
            scene.step(60)
            assert data.ncon
            np.testing.assert_allclose(box.get_qpos()[0], data.qpos, atol=1e-7)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s, e: s.randomize(e, color=km.uniform(0, 1)), "'color' cannot be randomized; parameters: mass, com"),
        (lambda s, e: s.randomize(e, mass=1.2), r"mass: expected a distribution \(km.uniform\(low, high\)"),
        (lambda s, e: s.randomize(e, mass=km.uniform(1, 2), seed=-1), "seed: expected a whole number"),
        (lambda s, e: s.randomize("arm", mass=km.uniform(1, 2)), "expected an entity of this scene, not 'arm'"),
        (
            lambda s, e: s.randomize(e, geometry_scale=km.uniform(1, 2, operation="set")),
            "geometry_scale: sizes can only be scaled",
        ),
        (lambda s, e: s.randomize(e, mass=km.uniform(-2, -1)), "the mass of a link would be negative"),
        (lambda s, e: s.allow_per_env("color"), "'color' cannot differ between environments"),
        (lambda s, e: km.uniform(2, 1), "a lower bound <= the upper bound"),
        (lambda s, e: km.loguniform(0, 1), "positive bounds"),
        (lambda s, e: km.normal(0, float("nan")), "two finite numbers"),
        (lambda s, e: km.uniform(0, 1, sample_per="link"), "sample_per: 'link' is none of item, env, all"),
    ],
)
def test_what_cannot_be_meant_is_refused(call: Any, message: str) -> None:
    scene, entity = built(pendulum(), 2, (*FORESEEN, "geom_size"))
    with pytest.raises(km.KinemaError, match=message):
        call(scene, entity)


@given(st.floats(0.1, 10.0), st.floats(0.0, 5.0), st.integers(0, 2**32), st.sampled_from(["uniform", "loguniform"]))
def test_numbers_stay_within_their_bounds(low: float, more: float, seed: int, kind: str) -> None:
    draw = getattr(km, kind)(low, low + more)
    numbers = draw.sample(np.array([0, 5, 2]), (2,), seed, "test")
    assert numbers.shape == (3, 2)
    assert ((numbers >= low * (1 - 1e-12)) & (numbers <= (low + more) * (1 + 1e-12))).all()
    np.testing.assert_array_equal(numbers[1:2], draw.sample(np.array([5]), (2,), seed, "test"))

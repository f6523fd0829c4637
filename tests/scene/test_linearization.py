"""Jacobians of a step against MuJoCo's finite differences and Richardson extrapolation of our own."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

import kinema as km
from kinema.core import Array, KinemaError
from kinema.dynamics import Linearizer
from kinema.scene.linearization import compare_with_differences
from kit.choosing import representatives
from kit.gradient_modes import mode_difference

FEATURES = Path(__file__).parents[1] / "dynamics/features.xml"
QUADRUPED = Path(__file__).parents[2] / "examples/robots/quadruped/scene.xml"
ARM = Path(__file__).parents[2] / "examples/robots/arm/arm.urdf"
GRIPPER = Path(__file__).parents[2] / "examples/robots/gripper"


def built(source: str | Path, n_envs: int = 1, **options: Any) -> tuple[km.Scene, km.Entity]:
    scene = km.Scene(device="cpu", precision="double", quiet=True, **options)
    entity = scene.add(str(source))
    scene.build(n_envs=n_envs)
    return scene, entity


def mujoco_jacobians(model: mujoco.MjModel, data: mujoco.MjData) -> list[Array]:
    """A, B, C and D by central differences of MuJoCo over two distances, extrapolated."""
    model.opt.tolerance, model.opt.iterations = 0.0, 100
    n_state, n_sensors = 2 * model.nv + model.na, model.nsensordata
    found = []
    for h in (2e-6, 1e-6):
        sizes = [(n_state, n_state), (n_state, model.nu), (n_sensors, n_state), (n_sensors, model.nu)]
        matrices = [np.zeros(size) for size in sizes]
        mujoco.mjd_transitionFD(model, data, h, True, *(x if x.size else None for x in matrices))
        found.append(matrices)
    return [(4.0 * near - far) / 3.0 for far, near in zip(*found, strict=True)]


def assert_equal(found: Array, expected: Array, tolerance: float = 1e-6) -> None:
    if expected.size:
        assert np.abs(found - expected).max() <= tolerance * (1e-3 + np.abs(expected).max())


SHANK = """<body pos="0 0 -.2"><joint name="knee{i}" axis="0 1 0" frictionloss=".1"/>
<geom size=".03" pos="0 0 -.2" mass=".2" friction=".8" condim="4"/></body>"""
LEG = f"""<body pos="0 {{y}} 0"><joint name="hip{{i}}" axis="0 1 0" frictionloss=".1" damping=".2" armature=".01"/>
<geom type="capsule" size=".02" fromto="0 0 0 0 0 -.2" mass=".4" contype="0" conaffinity="0"/>{SHANK}</body>"""
BIPED = f"""<mujoco><option integrator="implicitfast" cone="elliptic" impratio="10"/><worldbody>
<geom type="plane" size="1 1 .1"/><body pos="0 0 .435"><freejoint/><site name="imu" pos=".02 0 .01"/>
<geom type="box" size=".1 .08 .05" mass="2" contype="0" conaffinity="0"/>{LEG.format(i=0, y=-0.1)}
{LEG.format(i=1, y=0.1)}</body></worldbody><actuator><position name="servo" joint="hip0" kp="30" kv="1"/>
<position joint="knee0" kp="30" kv="1"/><position joint="hip1" kp="30" kv="1"/><motor joint="knee1" gear="2"/>
</actuator><sensor><accelerometer site="imu"/><gyro site="imu"/><jointpos joint="knee1"/>
<actuatorfrc actuator="servo"/></sensor>
<keyframe><key name="home" qpos="0 0 .435 1 0 0 0 .1 -.2 -.1 .2" ctrl=".1 -.2 -.1 .1"/></keyframe></mujoco>"""


@pytest.mark.parametrize("legged", representatives(["biped", "quadruped"], 1))
def test_a_robot_on_the_floor_equals_mujoco(legged: str, tmp_path: Path) -> None:
    """Elliptic friction cones, joint friction and sensors; both environments are equal."""
    (tmp_path / "biped.xml").write_text(BIPED)
    path = QUADRUPED if legged == "quadruped" else tmp_path / "biped.xml"
    model = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(model)
    generator = np.random.default_rng(0)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    for _ in range(100):
        data.ctrl[:] = model.key_ctrl[0] + generator.uniform(-0.2, 0.2, model.nu)
        mujoco.mj_step(model, data)
    assert data.ncon
    scene, robot = built(path, 2)
    robot.set_qpos(np.repeat(data.qpos[None], 2, 0))
    robot.set_qvel(np.repeat(data.qvel[None], 2, 0))
    robot.control(np.repeat(data.ctrl[None], 2, 0))
    found = scene.linearize()
    for name, expected in zip("ABCD", mujoco_jacobians(model, data), strict=True):
        matrices = getattr(found, name)
        assert_equal(matrices[0], expected)
        np.testing.assert_array_equal(matrices[0], matrices[1])


INTEGRATORS = ("implicitfast", "implicit", "euler")


@pytest.mark.parametrize("integrator", representatives(INTEGRATORS, 1))
def test_joints_actuators_and_tendons_equal_mujoco(integrator: str) -> None:
    """Joints of all kinds, actuators of most, with activations of none."""
    model = mujoco.MjModel.from_xml_path(str(FEATURES))
    model.opt.integrator = {"euler": 0, "implicit": 2, "implicitfast": 3}[integrator]
    data = mujoco.MjData(model)
    generator = np.random.default_rng(1)
    data.qvel[:], data.ctrl[:] = generator.uniform(-1, 1, model.nv), generator.uniform(-0.4, 0.4, model.nu)
    for _ in range(20):
        mujoco.mj_step(model, data)
    scene, robot = built(FEATURES, integrator=integrator)
    robot.set_qpos(data.qpos[None])
    robot.set_qvel(data.qvel[None])
    robot.control(data.ctrl[None])
    found = scene.linearize()
    for name, expected in zip("ABCD", mujoco_jacobians(model, data), strict=True):
        assert_equal(getattr(found, name)[0], expected)


def test_runge_kutta_steps_equal_differences() -> None:
    scene, robot = built(FEATURES, integrator="rk4")
    robot.set_qvel(np.random.default_rng(2).uniform(-1, 1, (1, robot.n_dofs)))
    check = scene.check_gradients()
    assert check.n_smooth == check.n_entries
    assert check.max_error < 1e-7


ACTIVATIONS = """
<mujoco><option timestep="0.002"/>
<worldbody><body><joint name="j" damping="0.1"/><geom size="0.1" mass="1" pos="0.2 0 0"/>
<body pos="0.3 0 0"><joint name="k"/><geom size="0.05" mass="0.4" pos="0.1 0 0"/></body></body></worldbody>
<actuator>
<general name="filter" joint="j" dyntype="filter" dynprm="0.05" gainprm="3"/>
<general name="integrator" joint="k" dyntype="integrator" gainprm="2" biastype="affine" biasprm="0 -2 -0.1"/>
<muscle name="muscle" joint="j" lengthrange="-1 1"/>
<intvelocity name="velocity" joint="k" kp="4" actrange="-2 2"/>
</actuator>
<sensor><jointpos joint="j"/><actuatorfrc actuator="muscle"/></sensor></mujoco>"""


def test_activations_are_part_of_the_state(tmp_path: Path) -> None:
    (tmp_path / "model.xml").write_text(ACTIVATIONS)
    model = mujoco.MjModel.from_xml_string(ACTIVATIONS)
    data = mujoco.MjData(model)
    data.ctrl[:] = [0.4, 0.2, 0.6, 0.3]
    scene, robot = built(tmp_path / "model.xml", integrator="euler")
    robot.control(data.ctrl[None])
    scene.step(30)
    mujoco.mj_step(model, data, 30)
    found = scene.linearize()
    assert found.A.shape == (1, 8, 8)
    for name, expected in zip("ABCD", mujoco_jacobians(model, data), strict=True):
        assert_equal(getattr(found, name)[0], expected)


TENDON = '<tendon><fixed name="t" {}><joint joint="ja" coef="1"/><joint joint="jb" coef="-0.5"/></fixed></tendon>'
CONSTRAINTS = {
    "connect": '<equality><connect body1="a" body2="b" anchor="0.1 0 0"/></equality>',
    "weld": '<equality><weld body1="a" body2="b" torquescale="0.5"/></equality>',
    "joint": '<equality><joint joint1="ja" joint2="jb" polycoef="0.1 0.5 0.2 0 0"/></equality>',
    "tendon": TENDON.format("") + '<equality><tendon tendon1="t" polycoef="0.1 0 0 0 0"/></equality>',
    "tendon limit": TENDON.format('range="-0.02 0.02" limited="true"'),
    "tendon friction": TENDON.format('frictionloss="0.3"'),
}
BODIES = """
<body name="a" pos="0 0 1"><joint name="ja" axis="0 1 0" range="-10 8" limited="true" frictionloss="0.2"/>
<geom type="capsule" size="0.03" fromto="0 0 0 0.2 0 0" contype="0" conaffinity="0"/></body>
<body name="b" pos="0.3 0 1"><joint name="jb" axis="1 1 0"/><joint name="jc" type="ball" pos="0.1 0 0"/>
<geom type="box" size="0.1 0.03 0.02" contype="0" conaffinity="0"/></body>"""


@pytest.mark.parametrize("kind", representatives(CONSTRAINTS, 1))
def test_equality_constraints_limits_and_dry_friction(kind: str, tmp_path: Path) -> None:
    text = f"<mujoco><worldbody>{BODIES}</worldbody>{CONSTRAINTS[kind]}</mujoco>"
    (tmp_path / "model.xml").write_text(text)
    scene, robot = built(tmp_path / "model.xml")
    robot.set_qvel(np.random.default_rng(3).uniform(-1, 1, (1, robot.n_dofs)))
    scene.step(40)
    check = scene.check_gradients(by="force")
    assert check.max_error < 1e-6
    assert check.n_smooth + check.n_one_sided == check.n_entries


SHAPES = {
    "sphere": 'type="sphere" size="0.1"',
    "capsule": 'type="capsule" size="0.06 0.1"',
    "box": 'type="box" size="0.1 0.08 0.06"',
    "cylinder": 'type="cylinder" size="0.08 0.07"',
    "ellipsoid": 'type="ellipsoid" size="0.1 0.08 0.06"',
    "mesh": 'type="mesh" mesh="m"',
}
MESH = (
    '<asset><mesh name="m" '
    'vertex="0.1 0 0 -0.1 0.01 0 0 0.09 0.02 0 -0.1 0 0.01 0 0.08 0 0.02 -0.09 0.06 0.06 0.05"/></asset>'
)
PAIRS = [
    *(("plane", "mesh"), ("capsule", "ellipsoid"), ("capsule", "box"), ("mesh", "mesh")),
    *(("plane", x) for x in ("sphere", "capsule", "box", "cylinder")),
    *(("sphere", "capsule"), ("sphere", "box"), ("capsule", "capsule"), ("capsule", "mesh")),
    *(
        ("box", "cylinder"),
        ("box", "ellipsoid"),
        ("cylinder", "mesh"),
        ("ellipsoid", "ellipsoid"),
        ("ellipsoid", "mesh"),
    ),
]
CONES = ("pyramidal", "elliptic")


def two_shapes(first: str, second: str, cone: str, condim: int) -> str:
    """A body that falls on a plane, or on a shape on springs."""
    floor = f'<geom type="plane" size="2 2 .1" condim="{condim}"/>'
    if first != "plane":
        floor = (
            '<body pos="0 0 0.1"><joint type="slide" axis="0 0 1" stiffness="300" damping="5"/>'
            f'<joint axis="1 1 0" stiffness="50" damping="2"/><geom {SHAPES[first]} condim="{condim}"/></body>'
        )
    return (
        f'<mujoco><option cone="{cone}"/>{MESH}<worldbody>{floor}'
        f'<body pos="0.02 0.01 {0.12 if first == "plane" else 0.28}" euler="10 15 5"><freejoint/>'
        f'<geom {SHAPES[second]} condim="{condim}" friction="0.7 0.02 0.01" mass="1"/></body></worldbody></mujoco>'
    )


CONTACT_CASES = list(zip(PAIRS, itertools.cycle(CONES), itertools.cycle((3, 6, 1)), strict=False))


@pytest.mark.parametrize(
    "case", representatives(CONTACT_CASES, 1), ids=lambda case: f"{'-'.join(case[0])}-{case[1]}-{case[2]}"
)
def test_contacts(case: tuple[tuple[str, str], str, int], tmp_path: Path) -> None:
    """Contacts of a falling body, in the first steps after they begin."""
    pair, cone, condim = case
    (tmp_path / "model.xml").write_text(two_shapes(*pair, cone, condim))
    scene, body = built(tmp_path / "model.xml", 2)
    body.set_qvel(np.random.default_rng(4).normal(0.0, 0.3, (2, body.n_dofs)))
    for _ in range(300):
        scene.step()
        if (scene.get_contacts().n > 0).all():
            break
    scene.step(5)
    check = scene.check_gradients()
    assert check.n_smooth > 0.9 * check.n_entries
    assert check.max_error < 1e-6


def test_position_targets_of_an_arm() -> None:
    """Of a robot without actuators, by commands whose gains are derived; environments in other states."""
    scene, arm = built(ARM, 3, contacts=False)
    arm.control_dofs_position(np.zeros(arm.n_dofs))
    arm.set_qpos(np.random.default_rng(5).uniform(0.1, 0.3, (3, 8)) * [1, 1, 1, 1, 1, 1, 0.05, 0.05])
    scene.step(3)
    before = scene.get_state()
    check = scene.check_gradients(by="position")
    assert check.max_error < 1e-7
    found = scene.linearize([2, 0], by="position")
    assert found.A.shape == (2, 16, 16)
    assert found.B.shape == (2, 16, 8)
    everything = scene.linearize(by="position")
    np.testing.assert_array_equal(found.A, everything.A[[2, 0]])
    after = scene.get_state()
    np.testing.assert_array_equal(before.arrays["qpos"], after.arrays["qpos"])


@pytest.mark.exhaustive
def test_loops_and_unrolled_code_agree(tmp_path: Path) -> None:
    matrices = []
    for codegen in ("loops", "unrolled"):
        (tmp_path / "model.xml").write_text(two_shapes("plane", "sphere", "elliptic", 3))
        scene, robot = built(tmp_path / "model.xml", codegen=codegen)
        scene.step(100)
        robot.set_qvel(np.random.default_rng(6).normal(0.0, 0.1, (1, robot.n_dofs)))
        matrices.append(scene.linearize())
    for name in "ABCD":
        assert_equal(getattr(matrices[0], name), getattr(matrices[1], name), 1e-9)


AT_A_LIMIT = (
    '<mujoco><option gravity="0 0 0"/><worldbody><body><joint type="slide" range="-1 0" limited="true"/>'
    '<geom size="0.1"/></body></worldbody></mujoco>'
)


def test_comparison_with_differences_of_functions_with_kinks() -> None:
    """A smooth function, kinks at the point, near it and farther away, and equal values of which the larger counts."""
    functions = [
        np.sin,
        np.abs,
        np.abs,
        lambda x: np.abs(x - 4e-6),
        lambda x: np.abs(x - 8e-6),
        lambda x: np.maximum(x, 0.0),
    ]
    exact = np.array([1.0, 1.0, 0.5, -1.0, -1.0, 0.5])

    def differences(h: float) -> tuple[Array, Array]:
        ahead = [(f(h) - f(0.0)) / h for f in functions]
        return np.array(ahead), np.array([(f(0.0) - f(-h)) / h for f in functions])

    found = compare_with_differences(exact, np.ones(6), differences, 1e-5, 1e-6)
    np.testing.assert_array_equal(np.isnan(found.errors), [False, True, True, False, False, True])
    np.testing.assert_array_equal(found.is_one_sided, [False, True, False, False, False, True])
    assert np.nanmax(found.errors) < 1e-9


def test_a_kink_within_reach_of_the_larger_difference(tmp_path: Path) -> None:
    """It is no error of the derivative."""
    (tmp_path / "model.xml").write_text(AT_A_LIMIT)
    scene, body = built(tmp_path / "model.xml")
    body.set_qpos([-0.7e-5])
    check = scene.check_gradients(step=1e-5)
    assert check.n_smooth == check.n_entries
    assert check.max_error < 1e-8


def test_a_kink_is_one_sided(tmp_path: Path) -> None:
    """A joint at its limit with no force: pushing it in is resisted, pulling it out is not."""
    (tmp_path / "model.xml").write_text(AT_A_LIMIT)
    scene, _ = built(tmp_path / "model.xml")
    check = scene.check_gradients(by="force")
    assert check.n_one_sided > 0
    assert "one-sided" in str(check)


def test_single_precision_is_near_double() -> None:
    found = []
    for precision in ("single", "double"):
        scene = km.Scene(device="cpu", precision=precision, quiet=True)
        robot = scene.add(str(FEATURES))
        scene.build()
        robot.set_qvel(np.random.default_rng(7).uniform(-1, 1, (1, robot.n_dofs)))
        found.append(scene.linearize())
    assert_equal(found[0].A, found[1].A, 1e-3)
    assert_equal(found[0].B, found[1].B, 1e-3)


def test_refused_settings() -> None:
    scene, _ = built(FEATURES, noslip_iterations=3)
    with pytest.raises(KinemaError, match="no-slip"):
        scene.linearize()
    with pytest.raises(KinemaError, match=r"by='torque' is not one of 'ctrl', 'force', 'position'"):
        scene.linearize(by="torque")


def test_matrices_of_a_solver_that_stops_early_are_not_valid(tmp_path: Path) -> None:
    """The derivative is that of a converged solution."""
    (tmp_path / "ball.xml").write_text(two_shapes("plane", "box", "elliptic", 3))
    for iterations, is_valid in ((1, False), (100, True)):
        scene, robot = built(tmp_path / "ball.xml", iterations=iterations)
        robot.set_qpos([0.02, 0.01, 0.055, 0.999, 0.02, 0.03, 0.01])
        robot.set_qvel(np.linspace(-1.0, 1.0, robot.n_dofs))
        assert scene.linearize().valid.tolist() == [is_valid]


def test_scenes_without_moving_parts_have_empty_matrices() -> None:
    scene = km.Scene(quiet=True)
    scene.add(km.Plane())
    scene.build(n_envs=2)
    assert scene.linearize().A.shape == (2, 0, 0)
    assert scene.check_gradients().n_entries == 0


def test_forward_and_reverse_mode_agree() -> None:
    """By forward mode, as for Runge-Kutta steps or where the tape is too small, the matrices are the same."""
    scene, robot = built(FEATURES, 2)
    robot.set_qvel(np.random.default_rng(8).uniform(-1, 1, (2, robot.n_dofs)))
    scene.step(5)
    found = scene.linearize()
    expected = Linearizer(scene.built.engine, "ctrl", reverse=False).compute(np.arange(2))
    for name in "ABCD":
        assert_equal(getattr(found, name), getattr(expected, name), 1e-12)


@pytest.mark.parametrize("seed", [3, pytest.param(8, marks=pytest.mark.exhaustive)])
def test_forward_and_reverse_mode_agree_for_random_models(seed: int) -> None:
    """Dot-product test for fifty robots of one structure, or fifty scenes of bodies that fell onto each other."""
    found = mode_difference(seed)
    assert found.n_dofs
    assert max(found.errors) < 1e-11

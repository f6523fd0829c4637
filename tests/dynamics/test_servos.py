"""PID controllers and DC motors against MuJoCo: trajectories, states, keyframes, sensors, on all transmissions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

import kinema as km
from kinema.core import Array
from kinema.model import SERVO_STATES

pytestmark = pytest.mark.skipif(not hasattr(mujoco.mjtGain, "mjGAIN_PID"), reason="this MuJoCo has no PID controllers")
N_STEPS = 60
ROBOT = """<mujoco><option timestep="0.002" integrator="{integrator}"><flag contact="disable"/></option><worldbody>
<site name="fixed" euler="40 -20 10"/>
<body name="a" pos="0 0 1" euler="20 30 40"><joint name="h" axis="0 1 1" damping=".05"/>
<inertial pos=".02 0 .1" mass="1" diaginertia=".01 .02 .03"/>
<body name="b" pos=".3 0 0"><joint name="s" type="slide" axis="1 0 0"/><inertial pos="0 .05 .1" mass="2"
diaginertia=".03 .02 .04"/><body name="c" pos=".2 0 0"><joint name="ball" type="ball" damping=".02"/>
<inertial pos="0 0 .1" mass=".5" diaginertia=".02 .03 .04"/><site name="tip" euler="-30 10 5"/></body></body></body>
</worldbody><tendon><fixed name="t"><joint joint="h" coef=".4"/><joint joint="s" coef="-2"/></fixed></tendon>
<actuator>{actuators}</actuator>
<sensor><actuatorfrc actuator="x"/><actuatorpos actuator="x"/><actuatorvel actuator="x"/></sensor>{more}</mujoco>"""
DC = '<dcmotor name="x" joint="h" motorconst=".3 .2" resistance="2" {}/>'
ALL_OF_A_MOTOR = (
    'inductance="0 .004" cogging=".1 6 .3" thermal="10 .5 0 .04 25 20" saturation="3 0 500" '
    'lugre="10 .1 .2 .3 .1" controller="9 5 .4 7 .2 12" input="pos vel ff voltage"'
)
SERVOS = {
    "pid": '<motor name="m" joint="s"/><pid name="x" joint="h" kp="20" kv="2"/>',
    "pid, all": '<pid name="x" joint="h" kp="20" kv="2" ki="9" imax=".02" slewmax="4" input="pos vel ff" '
    'posrange="-1 1" ffrange="-.2 .3" forcerange="-9 8"/><motor name="m" joint="s"/>',
    "pid, tendon, delayed": '<pid name="x" tendon="t" kp="20" kv="2" input="vel ff" delay=".01" nsample="8"/>',
    "pid, ball": '<pid name="x" joint="ball" gear="0 1 2" kp="4" ki="2" kv=".2" input="pos"/>',
    "pid, site": '<pid name="x" site="tip" refsite="fixed" gear="0 0 0 0 0 1" kp="4" kv=".2" slewmax="30"/>',
    "motor": DC.format('gear="3"'),
    "motor, current": DC.format('inductance=".008 0" saturation=".5 0 90"'),
    "motor, warm": DC.format('thermal="10 .05 0 .04 25 20" inductance="0 .01" damping=".01" armature=".02"'),
    "motor, controlled": DC.format('controller="9 5 .4 7 .05 3" input="pos vel ff voltage" gear="2"'),
    "motor, velocity": DC.format('controller="0 0 .4 0 0 2" input="vel" saturation=".4 0 0"'),
    "motor, all": DC.format(ALL_OF_A_MOTOR),
    "passive": '<dcmotor name="x" joint="h" motorconst="0" resistance="2" input="none" cogging=".1 3 0" '
    'lugre="10 .1 .2 .3 .1"/><position name="p" joint="s" kp="50" ctrlrange="-.2 .2"/>',
    "brake": DC.format('input="none"'),
}


def made(name: str, folder: Path, integrator: str = "implicitfast", more: str = "", **options: Any) -> tuple[Any, ...]:
    """MuJoCo's model and data, the scene and the robot."""
    file = folder / "servos.xml"
    file.write_text(ROBOT.format(integrator=integrator, actuators=SERVOS[name], more=more))
    model = mujoco.MjModel.from_xml_path(str(file))
    scene = km.Scene(**({"precision": "double", "quiet": True} | options))
    robot = scene.add(file)
    scene.build(n_envs=2)
    assert not [d for d in scene.diagnostics if d.code.startswith("sim.actuator")]
    return model, mujoco.MjData(model), scene, robot


def servo_row(scene: km.Scene) -> int:
    """Row of the servo among the actuators."""
    return next(i for i, kind in enumerate(scene.built.model.actuators.kinds) if kind in ("pid", "dcmotor"))


def states_of(scene: km.Scene, robot: Any) -> Array:
    """The states of the servo, in MuJoCo's order."""
    row = servo_row(scene)
    names = scene.built.model.actuators.servo_states[row]
    return robot.get_servo_states()[1, row, [SERVO_STATES.index(x) for x in names]]


INTEGRATORS = ("implicitfast", "RK4", "Euler", "implicit")
CASES = [(name, INTEGRATORS[i % 4], ("loops", "unrolled")[i % 3 == 0]) for i, name in enumerate(SERVOS)]


@pytest.mark.parametrize(("name", "integrator", "codegen"), [*CASES, ("motor, all", "implicitfast", "unrolled")])
def test_trajectory(name: str, integrator: str, codegen: str, tmp_path: Path) -> None:
    """Steps, states and sensors to 1e-9, with controls that change in every third step."""
    model, data, scene, robot = made(name, tmp_path, integrator, codegen=codegen)
    rng = np.random.default_rng(1)
    data.qpos[:] = rng.normal(size=model.nq)
    data.qpos[2:6] /= np.linalg.norm(data.qpos[2:6])
    data.qvel[:] = rng.normal(size=model.nv)
    data.act[:] = 0.01 * rng.normal(size=model.na)
    robot.set_qpos(data.qpos)
    robot.set_qvel(data.qvel)
    row = servo_row(scene)
    states = np.zeros((len(robot.actuator_names), len(SERVO_STATES)))
    names = scene.built.model.actuators.servo_states[row] if model.na else ()
    states[row, [SERVO_STATES.index(x) for x in names]] = data.act
    robot.set_servo_states(states)
    for step in range(N_STEPS):
        if step % 3 == 0:
            data.ctrl[:] = rng.normal(size=model.nu) * 1.5
            passive = len(robot.actuator_names) - model.nu
            robot.control([0.0] * passive + data.ctrl.tolist())
        mujoco.mj_step(model, data)
        scene.step()
        np.testing.assert_allclose(robot.get_qvel()[1], data.qvel, atol=1e-9)
        np.testing.assert_allclose(states_of(scene, robot), data.act, atol=1e-9)
    mujoco.mj_forward(model, data)
    measured = np.concatenate([np.ravel(scene.sensors[name].read()[1]) for name in scene.sensors])
    np.testing.assert_allclose(measured, data.sensordata, atol=1e-8)
    assert np.abs(data.actuator_force).max() > 1e-4


@pytest.mark.parametrize("name", ["pid, all", "motor, all"])
def test_keyframes_and_saved_states(name: str, tmp_path: Path) -> None:
    """Controls and states of a keyframe; a saved state brings them back; a reset clears them."""
    values = np.round(np.random.default_rng(2).normal(size=9), 3)
    n_controls = {"pid, all": 4, "motor, all": 4}[name]
    act = values[: {"pid, all": 2, "motor, all": 5}[name]]
    ctrl = values[-n_controls:]
    texts = (" ".join(map(str, x.tolist())) for x in (ctrl, act))
    more = '<keyframe><key name="k" ctrl="{}" act="{}"/></keyframe>'.format(*texts)
    _, _, scene, robot = made(name, tmp_path, more=more)
    scene.reset(keyframe="k")
    np.testing.assert_allclose(states_of(scene, robot), act)
    np.testing.assert_allclose(robot.get_control()[0], ctrl)
    saved = scene.get_state()
    scene.step(5)
    assert np.abs(states_of(scene, robot) - act).max() > 1e-4
    after = states_of(scene, robot).copy()
    scene.set_state(saved)
    scene.step(5)
    np.testing.assert_array_equal(states_of(scene, robot), after)
    scene.reset()
    assert not states_of(scene, robot).any()


def test_controls_of_a_servo_have_names(tmp_path: Path) -> None:
    """One control by the name of the actuator, several by that of their input; each has its own range."""
    _, _, _, robot = made("pid, all", tmp_path)
    assert robot.actuator_names == ["x pos", "x vel", "x ff", "m"]
    lower, upper = robot.get_control_range()
    assert lower.tolist() == [-1.0, -np.inf, -0.2, -np.inf]
    assert upper.tolist() == [1.0, np.inf, 0.3, np.inf]
    assert robot.get_dofs_kp(["h"]).ravel()[0] == 20.0
    _, _, _, robot = made("motor, velocity", tmp_path)
    assert robot.actuator_names == ["x"]


def test_joints_of_servos_can_be_driven_otherwise(tmp_path: Path) -> None:
    """Where a user drives the joint, the motor exerts no force and keeps its states; then it goes on."""
    _, _, scene, robot = made("motor, all", tmp_path)
    robot.control([0.5, 0.0, 0.0, 2.0])
    scene.step(20)
    before = states_of(scene, robot).copy()
    robot.control_dofs_position([0.2], ["h"])
    scene.step(20)
    np.testing.assert_array_equal(states_of(scene, robot), before)
    robot.control([0.5, 0.0, 0.0, 2.0])
    scene.step(1)
    assert np.abs(states_of(scene, robot) - before).min() > 0.0


def test_single_precision(tmp_path: Path) -> None:
    """A motor with all its parts is as in double precision to single precision."""
    speeds = []
    for precision in ("single", "double"):
        _, _, scene, robot = made("motor, all", tmp_path, precision=precision)
        robot.control([0.5, 0.0, 0.1, 2.0])
        scene.step(40)
        speeds.append(robot.get_qvel()[0])
    np.testing.assert_allclose(speeds[0], speeds[1], rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("codegen", ["loops", "unrolled"])
def test_copies_have_their_own_controls(codegen: str, tmp_path: Path) -> None:
    """Equal robots, whose steps may share code, follow the second control of their own servo."""
    text = """<mujoco><worldbody><body><joint name="h" axis="0 1 0"/><geom size=".1"/></body></worldbody>
    <actuator><pid name="x" joint="h" kp="0" kv="9" delay=".004" nsample="4"/></actuator></mujoco>"""
    scene = km.Scene(precision="double", quiet=True, contacts=False, codegen=codegen)
    path = tmp_path / "servo.xml"
    path.write_text(text)
    robots = [scene.add(path, name=f"r{i}") for i in range(5)]
    scene.build()
    for i, robot in enumerate(robots):
        robot.control([0.0, 0.1 * i])
    scene.step(400)
    np.testing.assert_allclose([x.get_qvel()[0, 0] for x in robots], 0.1 * np.arange(5), atol=1e-3)

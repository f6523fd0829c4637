"""Servos that turn something to where three or four numbers say, against MuJoCo."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest

import kinema as km

from .rolling import model_of_text

pytestmark = pytest.mark.skipif(not hasattr(mujoco.mjtTrn, "mjTRN_SO3"), reason="this MuJoCo has no orientation servos")
N_STEPS = 150
ROBOT = """<mujoco><option timestep="0.002" integrator="{}"><flag contact="disable"/></option><worldbody>
<site name="fixed" euler="40 -20 10"/>
<body name="a" pos="0 0 1" euler="20 30 40"><joint name="h" axis="0 1 1"/>
<inertial pos=".02 0 .1" mass="1" diaginertia=".01 .02 .03"/><site name="ref" euler="10 -20 30"/>
<body name="b" pos=".3 0 0" euler="5 50 10"><joint name="ball" type="ball" pos=".1 0 .05"/>
<inertial pos="0 .05 .1" mass="2" diaginertia=".03 .02 .04"/><site name="tip" pos=".1 0 0" euler="-30 10 5"/>
</body></body>
<body name="c" pos="1 0 0"><joint name="other" type="ball" damping=".05"/>
<inertial pos="0 0 .1" mass=".5" diaginertia=".02 .03 .04"/><site name="end" euler="0 15 0"/></body>
</worldbody><actuator>{}</actuator>{}</mujoco>"""
SERVOS = {
    "vectors": """<orientation name="o" joint="ball" kp="8" kv=".5"/><motor name="m" joint="h"/>
        <orientation name="p" site="end" refsite="fixed" kp="3" dampratio="1" ctrlrange="-1 .5"/>""",
    "quaternions": """<orientation name="o" site="tip" refsite="ref" kp="6" kv=".4" input="quat"/>
        <orientation name="p" joint="other" kp="4" kv=".3" input="quat" ctrlrange="-.6 .8" delay=".005" nsample="4"
        interp="linear"/>""",
    "bounds": """<orientation name="o" site="tip" refsite="ref" kp="20" kv="1" forcerange="0 2"/>
        <orientation name="p" site="end" refsite="tip" kp="4" kv=".3" forcerange="0 50" delay=".006" nsample="4"/>""",
    "activations": """<general name="o" joint="ball" gaintype="so3" biastype="so3" gainprm="5" biasprm="0 -5 -.5"
        dyntype="integrator" actdim="3" actearly="true" actlimited="true" actrange="-.1 .1"/>
        <general name="p" joint="other" gaintype="so3" biastype="so3" gainprm="5" biasprm="0 -5 -.5"
        dyntype="integrator" actdim="3"/>""",
}
KEY = '<keyframe><key name="k" ctrl=".1 .2 .3 -.4 .5 -.6" act=".01 .02 .03 .04 .05 .06"/></keyframe>'
CASES = [
    ("vectors", "implicitfast", "loops"),
    ("vectors", "RK4", "loops"),
    ("quaternions", "implicitfast", "unrolled"),
    ("bounds", "Euler", "loops"),  # where a bound is reached, rounding decides in MuJoCo what `implicitfast` does
    ("activations", "implicitfast", "loops"),
]


@pytest.mark.parametrize(("name", "integrator", "codegen"), CASES)
def test_trajectory(name: str, integrator: str, codegen: str, tmp_path: Path) -> None:
    """Steps to 1e-9, told something else every ten of them."""
    file = tmp_path / "servos.xml"
    file.write_text(ROBOT.format(integrator, SERVOS[name], KEY if name == "activations" else ""), encoding="utf-8")
    model = mujoco.MjModel.from_xml_path(str(file))
    data = mujoco.MjData(model)
    scene = km.Scene(
        precision="double", codegen=codegen, integrator=integrator.lower(), dt=0.002, device="cpu", quiet=True
    )
    robot = scene.add(file)
    scene.build(n_envs=1)
    assert not [d for d in scene.diagnostics if d.code.startswith("sim.actuator")]
    rng = np.random.default_rng(0)
    data.qpos[:] = rng.normal(size=model.nq)
    for ball in (1, 5):
        data.qpos[ball : ball + 4] /= np.linalg.norm(data.qpos[ball : ball + 4])
    data.qvel[:] = rng.normal(size=model.nv)
    robot.set_qpos(data.qpos)
    robot.set_qvel(data.qvel)
    worst = 0.0
    for step in range(N_STEPS):
        if step % 10 == 0:
            data.ctrl[:] = rng.normal(size=model.nu)
            robot.control(data.ctrl)
        mujoco.mj_step(model, data)
        scene.step()
        worst = max(worst, float(np.abs(robot.get_qpos()[0] - data.qpos).max()))
    assert worst < 1e-9
    if name == "activations":
        np.testing.assert_allclose(robot.get_activations()[0], data.act, atol=1e-12)
        scene.reset(keyframe="k")
        np.testing.assert_allclose(robot.get_activations()[0], model.key_act[0], atol=1e-12)
        np.testing.assert_allclose(scene.built.engine.array_view("ctrl").numpy()[:, 0], model.key_ctrl[0], atol=1e-12)


def test_what_cannot_be_turned_is_said(tmp_path: Path) -> None:
    """Sites on one body."""
    file = tmp_path / "servos.xml"
    servos = '<orientation name="o" site="fixed" refsite="fixed" kp="1"/>'
    file.write_text(ROBOT.format("Euler", servos, ""), encoding="utf-8")
    scene = km.Scene(device="cpu", quiet=True)
    scene.add(file)
    scene.build(n_envs=1)
    warnings = [str(d) for d in scene.diagnostics if d.code == "sim.actuator"]
    assert len(warnings) == 1
    assert "does not rotate" in warnings[0]


def test_robots_that_share_a_description_have_their_own() -> None:
    """Servos of two of them are two."""
    model = model_of_text(ROBOT.format("Euler", SERVOS["quaternions"], ""), copies=2)
    assert model.actuators.orientation_servo_idx.tolist() == [servo for servo in range(4) for _ in range(4)]

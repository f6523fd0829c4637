"""Velocity derivatives of actuators whose force, or whose joint's effort, is clamped: MuJoCo's implicitfast."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest

from kinema import read
from kinema.builder import EntitySpec, build_model
from kinema.dynamics import Engine, Integrator, Settings
from kinema.runtime import find_device
from kit.choosing import alternating

MODEL = """<mujoco><option timestep="0.01" integrator="implicitfast"/><worldbody><site name="base" pos="0 0 1"/>
<body gravcomp="1"><joint name="a" axis="0 1 0" {a}/><geom size=".1" pos=".3 0 0" mass="1"/>
<body pos=".5 0 0"><joint name="b" axis="0 1 0.2" {b}/><geom size=".1" pos=".3 0 0" mass="1"/>
<body pos=".5 0 0"><joint name="c" axis="0 1 0" {c}/><geom size=".1" pos=".3 0 0" mass="1"/>
<site name="tip" pos=".2 .1 0"/></body></body></body></worldbody>
<tendon>
<fixed name="all" {all}><joint joint="a" coef="1"/><joint joint="b" coef="2"/><joint joint="c" coef="3"/></fixed>
<fixed name="one"><joint joint="c" coef="2"/></fixed></tendon>
<actuator>{actuators}</actuator></mujoco>"""

LIMIT = {joint: f'actuatorfrcrange="-{limit} {limit}"' for joint, limit in (("a", 0.5), ("b", 3), ("c", 1.5))}
JOINT = '<position joint="b" kp="10" kv="2"/>'
TENDON = '<position tendon="all" kp="10" kv="2"/>'
REFSITE = '<position site="tip" refsite="base" gear="1 0 1 0 0 0" kp="40" dampratio="1"/>'
CASES = {
    "actuator": ({}, JOINT.replace("/>", ' forcerange="-3 3"/>') + TENDON),
    "joint": ({"b": LIMIT["b"]}, JOINT),
    "both": ({"b": LIMIT["b"]}, JOINT.replace("/>", ' forcerange="-4 4"/>')),
    "several on a joint": ({"b": LIMIT["b"]}, JOINT + JOINT.replace('kv="2"', 'kv="3" forcerange="-1 1"')),
    "joint in parent": ({"b": LIMIT["b"]}, JOINT.replace("joint=", "jointinparent=")),
    "tendon": ({"b": LIMIT["b"]}, TENDON),
    "tendon and joint": ({"a": LIMIT["a"], "b": LIMIT["b"]}, TENDON + JOINT),
    "tendon of one joint": ({"c": LIMIT["c"]}, '<position tendon="one" kp="10" kv="2"/>'),
    "clamped tendon": ({"all": 'actuatorfrcrange="-3 3"', "b": LIMIT["b"]}, TENDON + JOINT),
    "refsite": (LIMIT, REFSITE),
    "gravity compensation": ({"a": LIMIT["a"] + ' actuatorgravcomp="true"'}, TENDON + JOINT.replace('"b"', '"a"')),
}


@pytest.mark.parametrize(("case", "codegen"), alternating(CASES, ["unrolled", "loops"]))
def test_steps_equal_mujocos(tmp_path: Path, case: str, codegen: str) -> None:
    """Every joint limit is reached in some of the states, which are stepped side by side."""
    limits, actuators = CASES[case]
    file = tmp_path / "arm.xml"
    file.write_text(
        MODEL.format(**{name: limits.get(name, "") for name in ("a", "b", "c", "all")}, actuators=actuators)
    )
    model = mujoco.MjModel.from_xml_path(str(file))
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
    n, rng = 8, np.random.default_rng(3)
    states = []
    for scale in np.linspace(0.0, 1.0, n):
        data = mujoco.MjData(model)
        data.qpos, data.qvel, data.ctrl = rng.normal(size=3), rng.normal(size=3), 4 * scale * rng.normal(size=model.nu)
        states.append(data)
    settings = Settings(dt=model.opt.timestep, integrator=Integrator.IMPLICITFAST)
    arm = build_model([EntitySpec(name="arm", description=read(file))])
    engine = Engine(arm, settings, n, find_device("cpu"), precision="double", codegen=codegen)
    for name, values in (("qpos", "qpos"), ("vel", "qvel"), ("ctrl", "ctrl")):
        engine.array_view(name).assign(np.array([getattr(data, values) for data in states]).T)
    for _ in range(3):
        engine.step(1)
        for data in states:
            mujoco.mj_step(model, data)
        ours = engine.array_view("vel").numpy().T
        np.testing.assert_allclose(ours[:n], [data.qvel for data in states], rtol=1e-10, atol=1e-10)

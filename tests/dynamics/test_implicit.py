"""The integrator `implicit`: steps with the full velocity derivative of smooth forces equal MuJoCo's."""

from __future__ import annotations

import itertools
from pathlib import Path

import mujoco
import numpy as np
import pytest

from kinema import read
from kinema.builder import EntitySpec, build_model
from kinema.dynamics import Engine, Integrator, Settings
from kinema.runtime import find_device
from kit.choosing import representative_tuples

BOX = '<geom size=".1 .05 .2" type="box" pos=".3 .1 0" mass="1" {fluid}/>'
BODIES = {
    "hinges": f"""<body><joint axis="0 1 0"/>{BOX}
    <body pos=".5 0 0"><joint name="last" axis="1 .3 .2"/>{BOX}</body></body>""",
    "slides": f"""<body><joint type="slide" axis="0 1 0"/><joint axis="0 0 1"/>{BOX}
    <body pos=".5 0 0"><joint name="last" type="slide" axis="1 .3 .2" damping="1"/>{BOX}</body></body>""",
    "free": f"<body><freejoint/>{BOX}</body>",
    "humanlike": f"""<body><freejoint/>{BOX}
    <body pos=".5 0 0"><joint type="ball" damping=".2"/>{BOX}
      <body pos=".5 0 0"><joint name="first" axis="1 0 1"/>{BOX}<site name="tip" pos=".2 0 0"/></body></body>
    <body pos="-.5 0 0"><joint name="last" axis="0 1 0"/>{BOX}</body></body>""",
}
DRIVES = """<tendon>
<fixed name="both" damping="3"><joint joint="first" coef="1"/><joint joint="last" coef="-2"/></fixed></tendon>
<actuator><position joint="last" kp="20" kv="2"/><velocity joint="first" kv="3"/>
<position tendon="both" kp="5" kv="1"/></actuator>"""
MEDIUM = 'density="500" viscosity=".5" wind=".5 0 1"'
CASES = {
    **{name: (body, "", "") for name, body in BODIES.items()},
    "driven": (BODIES["humanlike"], DRIVES, ""),
    "boxes in a fluid": (BODIES["humanlike"], DRIVES, MEDIUM),
    "ellipsoids in a fluid": (BODIES["humanlike"].replace("{fluid}", 'fluidshape="ellipsoid"'), "", MEDIUM),
}
CHOSEN = (("hinges", "unrolled"), ("free", "unrolled"), ("driven", "unrolled"), ("slides", "loops"))
CHOSEN += (("ellipsoids in a fluid", "unrolled"),)
N_STEPS = 50


@pytest.mark.parametrize(
    ("case", "codegen"),
    representative_tuples(itertools.product(CASES, ["unrolled", "loops"]), lambda case: case in CHOSEN),
)
def test_rollouts_equal_mujocos(tmp_path: Path, case: str, codegen: str) -> None:
    """50 steps of 5 ms from random states, in double precision."""
    bodies, drives, medium = CASES[case]
    option = f'<option timestep="0.005" integrator="implicit" {medium}><flag contact="disable"/></option>'
    file = tmp_path / "bodies.xml"
    file.write_text(f"<mujoco>{option}<worldbody>{bodies.replace('{fluid}', '')}</worldbody>{drives}</mujoco>")
    model = mujoco.MjModel.from_xml_path(str(file))
    rng, states = np.random.default_rng(2), []
    for _ in range(4):
        data = mujoco.MjData(model)
        mujoco.mj_integratePos(model, data.qpos, rng.normal(size=model.nv), 1.0)
        data.qvel, data.ctrl = 2 * rng.normal(size=model.nv), rng.normal(size=model.nu)
        states.append(data)
    settings = Settings(dt=model.opt.timestep, integrator=Integrator.IMPLICIT)
    built = build_model([EntitySpec(name="bodies", description=read(file))])
    engine = Engine(built, settings, len(states), find_device("cpu"), precision="double", codegen=codegen)
    for name, values in (("qpos", "qpos"), ("vel", "qvel"), ("ctrl", "ctrl")):
        if len(getattr(states[0], values)):
            engine.array_view(name).assign(np.array([getattr(data, values) for data in states]).T)
    engine.step(1)
    for data in states:
        mujoco.mj_step(model, data)
    velocities = engine.array_view("vel").numpy().T
    np.testing.assert_allclose(velocities, [data.qvel for data in states], rtol=1e-12, atol=1e-12)
    engine.step(N_STEPS - 1)
    for data in states:
        mujoco.mj_step(model, data, nstep=N_STEPS - 1)
    for name, values in (("qpos", "qpos"), ("vel", "qvel")):
        ours = engine.array_view(name).numpy().T
        np.testing.assert_allclose(ours, [getattr(data, values) for data in states], rtol=1e-9, atol=1e-9)

"""Weight that actuators hold up (MJCF `actuatorgravcomp`), within the bounds of what they may do, beside MuJoCo's."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

import kinema as km
from kinema.dynamics import InputMode, Integrator, Settings
from kit.choosing import combinations, representative_tuples
from kit.robots.small_robots import from_text

from .rolling import Both, model_of_text

BEARS = 'actuatorgravcomp="true"'
TEXT = f"""<mujoco><option timestep="0.002" integrator="implicitfast"><flag actuation="ACTUATION"/></option>
<default><geom contype="0" conaffinity="0"/></default><worldbody>
<body name="free" pos="0 0 2"><freejoint/><geom size=".1" mass="2"/>
<body name="upper" gravcomp="1" pos=".2 0 0"><joint name="a" axis="0 1 0" {BEARS} actuatorfrcrange="-2 3" damping=".5"/>
<geom size=".1" pos=".3 0 .1" mass="1"/>
<body name="lower" gravcomp="0.75" pos=".4 0 0"><joint name="b" axis="0 1 0" damping="1" actuatorfrcrange="-.5 .5"/>
<geom size=".1" pos=".3 0 0" mass=".8"/>
<body name="ball" gravcomp="1.5" pos=".3 0 .1"><joint name="c" type="ball" {BEARS}/>
<geom size=".05" pos=".1 .1 0" mass=".5"/>
<body name="tip" gravcomp="1" pos=".1 0 0"><joint name="d" type="slide" axis="0 0 1" {BEARS} stiffness="40"
 actuatorfrcrange="-1 1"/><geom size=".1" mass=".7"/></body></body></body></body></body>
<body name="post"><joint name="e" axis="1 0 0" {BEARS}/><geom size=".1" pos="0 .2 0" mass="1"/></body></worldbody>
<actuator><motor name="m0" joint="a"/><motor name="m1" joint="b"/><motor name="m2" joint="d"/></actuator></mujoco>"""
"""Some joints bear weight and saturate, one has no bounds, one is compensated passively, one carries nothing spared."""

ORDERS = {"m0": 1.0, "m1": -2.0, "m2": 0.6}


def _peer(text: str) -> tuple[Any, Any]:
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    data.qpos[7:] = (0.3, -0.4, *np.array([0.9, 0.1, -0.2, 0.3]) / np.sqrt(0.95), 0.02, 0.4)
    data.qvel[:] = np.linspace(-0.6, 0.8, model.nv)
    data.ctrl[:] = list(ORDERS.values())
    return model, data


def _scene(text: str, data: Any, folder: Path, codegen: str) -> tuple[km.Scene, Any]:
    scene = km.Scene(contacts=False, precision="double", quiet=True, dt=0.002, codegen=codegen)
    entity = scene.add(from_text(folder, text))
    scene.build(1)
    entity.set_qpos(data.qpos)
    entity.set_qvel(data.qvel)
    if entity.n_actuators:
        entity.control([ORDERS[name] for name in entity.actuator_names])
    return scene, entity


@pytest.mark.parametrize(
    ("actuation", "codegen"), combinations(["enable", "disable"], ["loops", "unrolled"], strength=1)
)
def test_forces_and_steps_are_mujocos(actuation: str, codegen: str, tmp_path: Path) -> None:
    """Force by force; then a second of steps."""
    text = TEXT.replace("ACTUATION", actuation)
    model, data = _peer(text)
    mujoco.mj_forward(model, data)
    scene, entity = _scene(text, data, tmp_path, codegen)
    acting = data.qfrc_actuator
    if actuation == "enable":
        np.testing.assert_allclose(acting[[6, 7, 11]], [-2.0, -0.5, 1.0])  # at their bounds, or there is nothing to see
        assert acting[8:11].any()
    np.testing.assert_allclose(entity.get_dofs_control_force()[0], acting, atol=1e-9)
    wanted = data.qfrc_passive + acting - data.qfrc_bias
    np.testing.assert_allclose(entity.get_dofs_force()[0], wanted, atol=1e-9)
    scene.step(500)
    mujoco.mj_step(model, data, 500)
    np.testing.assert_allclose(entity.get_qvel()[0], data.qvel, atol=1e-7)
    np.testing.assert_allclose(entity.get_qpos()[0], data.qpos, atol=1e-7)


@pytest.mark.parametrize(
    ("integrator", "drive"),
    representative_tuples(
        itertools.product(Integrator, InputMode),
        lambda case: case in {(Integrator.IMPLICIT, InputMode.MIXED), (Integrator.EULER, InputMode.ACTUATORS)},
    ),
)
def test_all_programs_agree(integrator: Integrator, drive: InputMode) -> None:
    """Loops over tables and over copies, straight lines; the user's forces on links beside it."""
    model = model_of_text(TEXT.replace("ACTUATION", "enable"), copies=2)
    both = Both(model, Settings(input_mode=drive, integrator=integrator, external_forces=True))
    assert both.difference(0, 10**6) < 1e-11


def test_nothing_to_bear_costs_nothing() -> None:
    """A joint that asks, on links of full weight, is as any other: no loop more, no kind of part more."""
    plain = TEXT.replace("ACTUATION", "enable").replace(" gravcomp=", " user=")
    assert BEARS in plain
    assert not model_of_text(plain).dofs.actuator_gravcomp.any()

"""Springs and dampers that are more than linear, what actuators add to them, and late controls, against MuJoCo."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from kinema.dynamics import Engine, Integrator, Settings
from kinema.runtime import find_device
from kit.mjcf_side import Pair

from .arrays_for_tests import mjcf_settings
from .rolling import model_of_text
from .trajectories import WAYS, loaded_text, worst_difference

HEAD = """<mujoco><compiler angle="radian"/>
<option timestep="0.002"><flag contact="disable" constraint="disable"/></option><worldbody>"""
CURVED = f"""{HEAD}
<body name="a"><joint name="j0" axis="0 1 0" damping=".05 .1 .02" stiffness="2 1 .5" springref=".2"/>
<inertial pos="0 .02 -.1" mass="1" diaginertia=".01 .012 .003"/>
<body name="b" pos="0 0 -.2"><joint name="j1" axis="1 0 0" stiffness="0 0 3"/>
<inertial pos="0.01 0 -.1" mass=".6" diaginertia=".005 .006 .002"/></body></body>
<body name="d" pos="1 0 0"><joint name="ball" type="ball" stiffness="1 .5 .3" damping=".01 .02 .03"/>
<inertial pos="0 0 .1" mass=".5" diaginertia=".002 .003 .004"/></body></worldbody>
<tendon>
<fixed name="t" stiffness="20 30 40" damping="1 2 3" springlength="-.01 .02">
<joint joint="j0" coef=".4"/><joint joint="j1" coef="-.5"/></fixed>
<fixed name="u"><joint joint="j1" coef=".4"/><joint joint="j0" coef="-.5"/></fixed></tendon>
<actuator><motor name="m0" joint="j0" gear="2" damping=".01 .02 .03" armature=".002"/>
<motor name="m1" joint="ball" gear=".5 1 2" damping=".01 .02 .03" armature=".002"/>
<motor name="m2" tendon="u" gear="3" damping=".1 .2 .3" armature=".02"/></actuator></mujoco>"""
YIELDING = f"""{HEAD}
<body name="a"><joint name="j0" axis="0 1 0" stiffness="2 1 .5" springref=".2" springyield=".3"/>
<inertial pos="0 .02 -.1" mass="1" diaginertia=".01 .012 .003"/><site name="s0" pos=".1 0 0"/>
<body name="b" pos="0 0 -.2"><joint name="j1" axis="1 0 0" stiffness="3"/>
<inertial pos="0.01 0 -.1" mass=".6" diaginertia=".005 .006 .002"/><site name="s1" pos="0 .1 0.1"/></body></body>
<body name="d" pos="1 0 0"><joint name="ball" type="ball" stiffness="1" damping=".01" springyield=".4"/>
<inertial pos="0 0 .1" mass=".5" diaginertia=".002 .003 .004"/></body></worldbody>
<tendon>
<fixed name="t" stiffness="20 30 40" springlength="-.01 .02" springyield=".05">
<joint joint="j0" coef=".4"/><joint joint="j1" coef="-.5"/></fixed>
<spatial name="u" stiffness="50" springlength="0 .15" springyield=".01"><site site="s0"/><site site="s1"/></spatial>
<spatial name="v" stiffness="10"><site site="s0"/><site site="s1"/></spatial></tendon></mujoco>"""
LATE = f"""{HEAD}
<body name="a"><joint name="j0" axis="0 1 0" damping=".05" actuatorfrcrange="-5 5"/>
<inertial pos="0 .02 -.1" mass="1" diaginertia=".01 .012 .003"/>
<body name="b" pos="0 0 -.2"><joint name="j1" axis="1 0 0"/>
<inertial pos="0.01 0 -.1" mass=".6" diaginertia=".005 .006 .002"/></body></body></worldbody>
<tendon><fixed name="t" actuatorfrcrange="-.3 .5"><joint joint="j0" coef="1"/><joint joint="j1" coef="-.5"/></fixed>
</tendon><actuator>
<motor name="a" joint="j0" nsample="4" delay=".008"/><motor name="b" joint="j1" nsample="4" delay=".005"/>
<motor name="c" joint="j1" nsample="3" delay=".0051" interp="linear" ctrlrange="-.2 .7"/>
<general name="d" joint="j0" nsample="5" delay=".0057" interp="cubic" dyntype="filter" dynprm=".01"/>
<motor name="e" joint="j0" nsample="2" delay=".001" interp="cubic"/><motor name="f" joint="j0" nsample="2"/>
<motor name="g" tendon="t" gear="2"/><velocity name="h" tendon="t" kv=".2" gear="-1"/></actuator></mujoco>"""


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_curved_springs(tmp_path: Path, way: tuple[Integrator, str]) -> None:
    """Polynomials of joints, balls and tendons; inertia and damping of actuators, through their gear."""
    assert worst_difference(loaded_text(tmp_path, CURVED), way) < 1e-11


@pytest.mark.parametrize("way", WAYS[1:3], ids=str)
def test_late_controls_and_bounded_tendons(tmp_path: Path, way: tuple[Integrator, str]) -> None:
    """Delays of whole steps and of parts of them; what actuators do to a tendon together is bounded."""
    pair = loaded_text(tmp_path, LATE)
    assert worst_difference(pair, way) < 1e-11
    data = pair.random_state(np.random.default_rng(0), speed=2.0)
    data.ctrl[:] = 1.5
    mujoco.mj_forward(pair.theirs, data)
    assert data.actuator_force[-2] < 1.0, "the bound acts"


def test_late_controls_in_stages(tmp_path: Path) -> None:
    """Each stage of a Runge-Kutta step hears what was told its own time ago."""
    assert worst_difference(loaded_text(tmp_path, LATE), WAYS[3]) < 1e-11


@pytest.mark.parametrize("way", WAYS[1:3], ids=str)
def test_springs_that_give_way(tmp_path: Path, way: tuple[Integrator, str]) -> None:
    """Of joints, of a ball, of tendons along coordinates and along a path; they give way many times."""
    pair = loaded_text(tmp_path, YIELDING)

    def begin(data: Any) -> None:
        data.qpos[:] = pair.theirs.qpos0
        data.qvel[:] *= 3.0

    assert worst_difference(pair, way, begin=begin) < 1e-11
    data = mujoco.MjData(pair.theirs)
    begin(data)
    data.qvel[:] = 6.0
    start = data.plastic.copy()
    mujoco.mj_step(pair.theirs, data, nstep=200)
    assert (np.abs(data.plastic - start) > 1e-3).sum() >= 6


def test_a_spring_stays_where_it_gave_way(tmp_path: Path) -> None:
    """Held beyond its yield it rests that far behind, and a reset brings it back."""
    pair = loaded_text(tmp_path, YIELDING)
    engine = Engine(pair.ours, mjcf_settings(pair), 2, find_device("cpu"), precision="double", codegen="loops")
    engine.array_view("qpos").assign(np.array([[1.0, 0.0], *[[0.0, 0.0]] * 1, [1.0, 1.0], *[[0.0, 0.0]] * 3]))
    engine.step()
    q, rest = engine.array_view("qpos").numpy()[0], engine.array_view("spring_rest").numpy()[0]
    np.testing.assert_allclose(rest, [q[0] - 0.3, 0.2], rtol=0, atol=1e-15)
    engine.reset()
    np.testing.assert_array_equal(engine.array_view("spring_rest").numpy()[0], 0.2)


def test_energy_of_curved_springs(tmp_path: Path) -> None:
    """The integral of the force, as MuJoCo has it."""
    pair: Pair = loaded_text(tmp_path, CURVED)
    states = [pair.random_state(np.random.default_rng(i)) for i in range(3)]
    engine = Engine(pair.ours, mjcf_settings(pair), 3, find_device("cpu"), precision="double", codegen="loops")
    for data in states:
        mujoco.mj_forward(pair.theirs, data)
    engine.array_view("qpos").assign(pair.arrays(states)["qpos"])
    ours = engine.fields.system.potential_energy.numpy().ravel()
    np.testing.assert_allclose(ours, [d.energy[0] for d in states], rtol=1e-12)


@pytest.mark.parametrize(("text", "kept"), [(YIELDING, "spring_rest"), (LATE, "history")], ids=["yielding", "late"])
def test_copies_have_their_own(text: str, kept: str) -> None:
    """Rests and histories of two copies in one scene, by a line that they share and by one for both."""
    found = []
    for codegen in ("loops", "unrolled"):
        model = model_of_text(text, copies=2)
        settings = Settings(integrator=Integrator.EULER)
        engine = Engine(model, settings, 2, find_device("cpu"), precision="double", codegen=codegen)
        generator = np.random.default_rng(1)
        for name in ("vel", "ctrl"):
            if len(engine.array_view(name).numpy()):
                engine.array_view(name).assign(generator.uniform(-9, 9, engine.array_view(name).numpy().shape))
        engine.step(30)
        found.append({name: engine.array_view(name).numpy().copy() for name in ("qpos", kept)})
    for name, values in found[0].items():
        np.testing.assert_allclose(values, found[1][name], rtol=0, atol=1e-12)
        assert len(np.unique(values)) > 7, "each has its own"


def test_what_is_left_out(tmp_path: Path) -> None:
    """A free joint's spring that is a polynomial is taken to be linear, and that is said."""
    text = f'{HEAD}<body><joint type="free" stiffness="1 2 3"/><geom size=".1"/></body></worldbody></mujoco>'
    with pytest.raises(AssertionError, match="is simulated as linear"):
        loaded_text(tmp_path, text)

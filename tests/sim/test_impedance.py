"""How hard constraints are, where the power of their law is no whole number, and without the safety of their time."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest

from kinema.sim import Integrator
from kinema.sim.constrain.impedance import whole_power
from kinema.sim.sweeps.maths import power_of

from .constrained import beside_mujoco, loaded_text

STOPPED = """<mujoco><option timestep="0.004"><flag {flags}/></option><worldbody>
<body name="a"><joint name="j0" axis="0 1 0" range="-20 20" solimplimit=".5 .99 .3 .4 {power}" solreflimit=".006 1"/>
<inertial pos="0 .02 -.1" mass="1" diaginertia=".01 .012 .003"/>
<body name="b" pos="0 0 -.2"><joint name="j1" axis="1 0 0"/>
<inertial pos="0.01 0 -.1" mass=".6" diaginertia=".005 .006 .002"/></body></body></worldbody>
<equality><joint joint1="j0" joint2="j1" polycoef="0 .5 0 0 0" solimp=".3 .8 .4 .5 2.7" solref=".05 .7"/></equality>
</mujoco>"""


def test_power_of_a_number() -> None:
    """To 1e-13 of one, from nothing to one."""
    x = np.concatenate([np.linspace(0, 1, 301), np.logspace(-12, 0, 60)])
    for power in (1.0, 1.3, 2.5, 7.2):
        ours = np.array([power_of(float(v), power) for v in x], float)
        np.testing.assert_allclose(ours, x**power, rtol=0, atol=1e-13)


def test_powers_that_are_whole_stay_products() -> None:
    """Only others take a logarithm; MuJoCo has none below one."""
    assert [whole_power((0.9, 0.95, 0.001, 0.5, p)) for p in (2.0, 1.0, 0.5, 6.0, 2.5)] == [2, 1, 1, 6, 0]


@pytest.mark.parametrize(("power", "flags"), [(1.3, ""), (2.5, 'refsafe="disable"')])
def test_trajectory(tmp_path: Path, power: float, flags: str) -> None:
    """200 steps beyond a limit to 1e-12."""
    pair = loaded_text(tmp_path, STOPPED.format(power=power, flags=flags))
    assert pair.ours.options.refsafe is not bool(flags)
    data = pair.random_state(np.random.default_rng(0), speed=3.0)
    data.qpos[0] = 0.5
    engine, active = beside_mujoco(pair, [data], "rolled", Integrator.EULER), 0
    for _ in range(200):
        mujoco.mj_step(pair.theirs, data)
        engine.step()
        active += data.nefc > 1
        np.testing.assert_allclose(engine.field("qpos").numpy()[:, 0], data.qpos, rtol=0, atol=1e-12)
    assert active > 5, "the limit is reached"

"""How hard constraints are, where the power of their law is no whole number, and without the safety of their time."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest

from kinema.builder import EntitySpec, build_model
from kinema.dynamics import Integrator, Settings
from kinema.dynamics.constraints.impedance_power import integer_power
from kinema.dynamics.lowering.invweight import compute_inverse_inertias, with_constraint_invweights
from kinema.dynamics.vector_math import unit_interval_power
from kinema.read import read

from .constrained import beside_mujoco, loaded_text

STOPPED = """<mujoco><option timestep="0.004"><flag {flags}/></option><worldbody>
<body name="a"><joint name="j0" axis="0 1 0" range="-20 20" solimplimit=".5 .99 .3 .4 {power}" solreflimit=".006 1"/>
<inertial pos="0 .02 -.1" mass="1" diaginertia=".01 .012 .003"/>
<body name="b" pos="0 0 -.2"><joint name="j1" axis="1 0 0"/>
<inertial pos="0.01 0 -.1" mass=".6" diaginertia=".005 .006 .002"/></body></body></worldbody>
<equality><joint joint1="j0" joint2="j1" polycoef="0 .5 0 0 0" solimp=".3 .8 .4 .5 2.7" solref=".05 .7"/></equality>
</mujoco>"""


SLIDING = """<mujoco><worldbody>
<body name="block" pos="0 0 1"><joint name="x" type="slide" axis="1 0 0" armature=".3" range="-1 1"/>
<joint name="y" type="slide" axis="0 1 0" armature=".2"/><geom name="g0" type="box" size=".1 .2 .3"/></body>
<body name="still"><geom name="wall" type="box" size="1 1 .1" pos="0 0 -2"/>
<body name="drawer" pos="0 3 1"><joint name="d" type="slide" axis="0 1 0" armature=".5"/>
<geom name="g1" size=".1"/></body></body>
<body name="skewed" pos="3 0 1"><joint name="s" type="slide" axis="1 1 0" armature=".5"/>
<geom name="g2" size=".1"/></body>
<body name="lying" pos="6 0 1"><joint name="l" type="slide" axis="1 0 0" armature=".5"/>
<geom name="g3" type="capsule" size=".1 .2" quat=".7071 0 .7071 0"/></body>
<body name="cart" pos="9 0 1"><joint name="c" type="slide" axis="1 0 0" armature=".5"/><geom name="g4" size=".1"/>
<body name="pole" pos="0 0 1"><joint name="p" axis="0 1 0"/><geom name="g5" size=".1"/></body></body></worldbody>
<equality><joint joint1="d" joint2="x"/></equality></mujoco>"""
"""Bodies that slide on the world: alone along their own axes, askew, with axes of inertia of their own, and with
something on them."""


def test_how_easily_what_slides_is_moved(tmp_path: Path) -> None:
    """As MuJoCo has it, which counts the mass alone, and no armature, of what slides along its own axes."""
    pair = loaded_text(tmp_path, SLIDING)
    theirs, (ours,) = pair.theirs, with_constraint_invweights([pair.ours])
    np.testing.assert_allclose(ours.derived.dof_invweight, theirs.dof_invweight0[pair.dof], rtol=1e-12)
    d, x = (int(theirs.joint(name).dofadr[0]) for name in "dx")
    np.testing.assert_allclose(ours.derived.coupling_invweight, theirs.dof_invweight0[[d, x]].sum(), rtol=1e-12)
    touching = build_model([EntitySpec(name="it", description=read(tmp_path / "model.xml"))], with_contacts=True)
    known = compute_inverse_inertias(touching, Settings(), {"qpos": ours.qpos0[:, None]}).link
    moved = [link for link in known if link >= 0 and not ours.links.is_fixed[link]]
    assert len(moved) == 6
    for link in moved:
        np.testing.assert_allclose(known[link][0], theirs.body_invweight0[pair.body[link]], rtol=1e-9, atol=1e-12)


def test_power_of_a_number() -> None:
    """To 1e-13 of one, from nothing to one."""
    x = np.concatenate([np.linspace(0, 1, 301), np.logspace(-12, 0, 60)])
    for power in (1.0, 1.3, 2.5, 7.2):
        ours = np.array([unit_interval_power(float(v), power) for v in x], float)
        np.testing.assert_allclose(ours, x**power, rtol=0, atol=1e-13)


def test_powers_that_are_whole_stay_products() -> None:
    """Only others take a logarithm; MuJoCo has none below one."""
    assert [integer_power((0.9, 0.95, 0.001, 0.5, p)) for p in (2.0, 1.0, 0.5, 6.0, 2.5)] == [2, 1, 1, 6, 0]


@pytest.mark.parametrize(("power", "flags"), [(1.3, ""), (2.5, 'refsafe="disable"')])
def test_trajectory(tmp_path: Path, power: float, flags: str) -> None:
    """200 steps beyond a limit to 1e-12."""
    pair = loaded_text(tmp_path, STOPPED.format(power=power, flags=flags))
    assert pair.ours.options.refsafe is not bool(flags)
    data = pair.random_state(np.random.default_rng(0), speed=3.0)
    data.qpos[0] = 0.5
    engine, active = beside_mujoco(pair, [data], "loops", Integrator.EULER), 0
    for _ in range(200):
        mujoco.mj_step(pair.theirs, data)
        engine.step()
        active += data.nefc > 1
        np.testing.assert_allclose(engine.array_view("qpos").numpy()[:, 0], data.qpos, rtol=0, atol=1e-12)
    assert active > 5, "the limit is reached"

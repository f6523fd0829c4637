"""Solutions that are as good as single precision can make them end there, and nothing is lost of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kinema as km
from kinema.dynamics import Engine
from kit.choosing import representatives

LEG = """<body pos="{x} 0 0"><joint name="hip{n}" axis="0 1 0" range="-60 60"/>
<geom type="capsule" size=".02" fromto="0 0 0 0 0 -.15" mass=".3"/>
<body pos="0 0 -.15"><joint name="knee{n}" axis="0 1 0" range="-85 0"/>
<geom type="capsule" size=".015" fromto="0 0 0 0 0 -.15" mass=".1"/>
<geom size=".022" pos="0 0 -.15" condim="6" friction=".8 .02 .01" mass=".05"/></body></body>"""
MOTOR = '<motor joint="{}" ctrlrange="-20 20" ctrllimited="true"/>'
BIPED = f"""<mujoco><option timestep="0.002" cone="elliptic" impratio="100"/><worldbody>
<geom type="plane" size="9 9 .1"/><body pos="0 0 .3"><freejoint/><geom type="box" size=".15 .06 .04" mass="4"/>
{LEG.format(x=0.15, n=0)}{LEG.format(x=-0.15, n=1)}</body></worldbody>
<actuator>{"".join(MOTOR.format(f"{joint}{n}") for joint in ("hip", "knee") for n in (0, 1))}</actuator></mujoco>"""
N_ENVS, FALLEN, N_STEPS = 256, 150, 60
CUBE = """<mujoco><option timestep="0.002" cone="CONE" impratio="10"/><worldbody><geom type="plane" size="5 5 .1"/>
<body pos=".3 -.2 .0299"><freejoint/><geom type="box" size=".03 .03 .03" mass=".1"/></body></worldbody></mujoco>"""


def test_no_solution_goes_on_for_rounding(tmp_path: Path) -> None:
    """Feet that slip, on stiff cones: rows at their limits let go and push in turn, for as long as they are asked.

    Within so many steps a solution does not arrive that is counted, by the slope of its cost alone: a dozen did not.
    """
    path = tmp_path / "biped.xml"
    path.write_text(BIPED)
    scene = km.Scene(precision="single", quiet=True)
    scene.add(path)
    scene.build(n_envs=N_ENVS)
    engine, rng, most = scene.built.engine, np.random.default_rng(0), 0
    for step in range(FALLEN + N_STEPS):
        engine.array_view("ctrl").assign(rng.uniform(-20.0, 20.0, (4, N_ENVS)).astype(np.float32))
        engine.step()
        if step >= FALLEN:
            most = max(most, int(engine.array_view("n_iterations").numpy().max()))
    assert int(engine.array_view("n_contacts").numpy().max()) > 4
    assert most < engine.settings.iterations


@pytest.mark.parametrize("cone", representatives(["elliptic", "pyramidal"], 1))
def test_what_rests_is_as_exact_as_its_digits(cone: str, tmp_path: Path) -> None:
    """Its weight and what bears it cancel; forces that are taken from how stiff contacts are would turn it by that."""
    path = tmp_path / "cube.xml"
    path.write_text(CUBE.replace("CONE", cone))

    def engine(precision: str) -> Engine:
        scene = km.Scene(precision=precision, quiet=True)
        scene.add(path)
        scene.build(n_envs=64)
        return scene.built.engine

    start = engine("double")
    start.array_view("vel").assign(np.random.default_rng(0).normal(scale=0.05, size=(6, 64)))
    for _ in range(300):
        start.step()
    state = {name: start.array_view(name).numpy().astype(np.float32) for name in ("qpos", "vel", "warm_start")}
    after = {}
    for precision in ("single", "double"):
        own = engine(precision)
        for name, values in state.items():
            own.array_view(name).assign(values)
        own.step()
        assert own.array_view("n_contacts").numpy().min() == 4
        after[precision] = own.array_view("vel").numpy().astype(np.float64)
    np.testing.assert_allclose(after["single"], after["double"], rtol=0.0, atol=1e-4 * 0.002)

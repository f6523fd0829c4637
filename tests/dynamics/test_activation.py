"""Actuators with activations, and muscles, against MuJoCo: controls that change every step, by every integrator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from kinema.core import Array
from kinema.dynamics import ControlMode, Engine, Integrator, Settings
from kinema.runtime import find_device
from kit.choosing import alternating
from kit.mjcf_side import INTEGRATORS, Pair, load

from .arrays_for_tests import mjcf_settings
from .rolling import Both, model_of_text

ARM = """<mujoco><option timestep="0.002"><flag contact="disable" constraint="disable"/></option><worldbody>
<body name="a"><joint name="j0" axis="0 1 0" damping=".05"/>
<inertial pos="0 .02 -.1" mass="1" diaginertia=".01 .012 .003"/>
<body name="b" pos="0 0 -.2"><joint name="j1" axis="1 0 0"/>
<inertial pos="0.01 0 -.1" mass=".6" diaginertia=".005 .006 .002"/>
<site name="nozzle" pos=".02 0 -.1" euler="10 20 30"/>
<body name="c" pos="0 0 -.2"><joint name="j2" type="slide" axis="0 0 1" stiffness="80"/>
<inertial pos="0 0 0.05" mass=".3" diaginertia=".002 .002 .002"/></body></body></body>
<body name="d" pos="1 0 0"><joint name="ball" type="ball"/>
<inertial pos="0 0 .1" mass=".5" diaginertia=".002 .003 .004"/></body></worldbody>
<tendon><fixed name="t"><joint joint="j0" coef=".04"/><joint joint="j1" coef="-.05"/></fixed></tendon>
<actuator>{}</actuator></mujoco>"""

CURVE = ".75 1.05 {} 20 .5 1.6 1.5 1.3 1.2"
ACTUATORS = {
    "integrator": '<general joint="j0" dyntype="integrator" gainprm="3"/>',
    "integrator with limits": """<intvelocity joint="j0" kp="3" actrange="-.02 .03"/>
        <general joint="j1" dyntype="integrator" gaintype="affine" gainprm="1 .5 -.2" actlimited="true"
        actrange="-.01 .02" actearly="true"/>""",
    "filter": """<general joint="j0" dyntype="filter" dynprm=".03" gainprm="2" biastype="affine" biasprm="0 -3 -.2"/>
        <general joint="j1" dyntype="filter" dynprm=".004" actearly="true" forcerange="-.3 .4"/>
        <general joint="j2" dyntype="filter" dynprm=".05" actlimited="true" actrange="0 .2" ctrlrange="-.2 .3"/>""",
    "filterexact": """<general joint="j0" dyntype="filterexact" dynprm=".03" gainprm="2"/>
        <general joint="j1" dyntype="filterexact" dynprm=".003" actearly="true"/>
        <general tendon="t" dyntype="filterexact" dynprm=".002" gaintype="affine" gainprm="1 .3 -.1"/>""",
    "fast filterexact": """<general joint="j1" dyntype="filterexact" dynprm=".0001" actearly="true"/>
        <general joint="j2" dyntype="filterexact" dynprm="0" gainprm="3"/>""",
    "filtered servos": """<position joint="j0" kp="8" dampratio="1" timeconst=".02"/>
        <position joint="j2" kp="90" dampratio=".7"/><damper joint="j1" kv=".2" ctrlrange="0 1"/>
        <cylinder joint="j2" timeconst=".01" area=".3"/><velocity tendon="t" kv="20"/>""",
    "filtered thruster": """<general site="nozzle" gear="0 1 2 .1 0 0" dyntype="filter" dynprm=".01"/>
        <general joint="ball" gear=".1 .2 .3" dyntype="filterexact" dynprm=".01"/>""",
    "muscle": '<muscle joint="j0" lengthrange="-1.5 1.5" force="20"/>',
    "muscles": """<muscle joint="j0" lengthrange="-1.2 1.5" force="20" tausmooth=".4" gear="-1"/>
        <muscle tendon="t" lengthrange="-.05 .05" scale="150" fvmax="1.4" vmax="3" timeconst=".02 .05"/>
        <muscle joint="j2" lengthrange="-.3 .3" scale="20" tausmooth="2" forcerange="-6 -1"/>""",
    "parts of muscles": f"""<general joint="j0" gaintype="muscle" gainprm="{CURVE.format(10)}" ctrlrange="-2 2"
            lengthrange="-1 1" biastype="affine" biasprm=".1 -.5 -.1"/>
        <general joint="j1" dyntype="muscle" dynprm=".01 .04 .2" lengthrange="-1 1" actearly="true" biastype="muscle"
            gaintype="affine" gainprm="1 .2 -.3" biasprm="{CURVE.format(-1)}"/>
        <general joint="j2" dyntype="integrator" gaintype="muscle" gainprm="{CURVE.format(-1)}" lengthrange="-.2 .3"
            biastype="muscle" biasprm="{CURVE.format(5)}"/>""",
}
N_STEPS = 200
CLOSE = 1e-9


def loaded(folder: Path, actuators: str) -> Pair:
    """The arm with these actuators on both sides: all of them are simulated."""
    file = folder / "arm.xml"
    file.write_text(ARM.format(actuators))
    pair = load(file)
    assert not pair.left_out
    return pair


def both(pair: Pair, integrator: Integrator, codegen: str) -> tuple[Engine, Any]:
    """Ours and theirs at the same random state."""
    pair.theirs.opt.integrator = INTEGRATORS[integrator]
    settings = mjcf_settings(pair, integrator)
    engine = Engine(pair.ours, settings, 1, find_device("cpu"), precision="double", codegen=codegen)
    generator = np.random.default_rng(3)
    data = pair.random_state(generator)
    data.act[:] = generator.uniform(-0.2, 1.2, pair.theirs.na)
    for name, values in pair.arrays([data]).items():
        if name in ("qpos", "vel", "act") and values.size:
            engine.array_view(name).assign(values)
    return engine, data


def error(pair: Pair, engine: Engine, data: Any) -> float:
    """The greatest difference of any number of the state."""
    theirs = pair.arrays([data])
    names = [name for name in ("qpos", "vel", "act") if theirs[name].size]
    return max(float(np.abs(engine.array_view(name).numpy() - theirs[name]).max()) for name in names)


@pytest.mark.wide
@pytest.mark.parametrize("codegen", ["unrolled", "loops"])
@pytest.mark.parametrize("integrator", list(Integrator), ids=lambda i: i.value)
@pytest.mark.parametrize("name", ACTUATORS)
def test_trajectory(tmp_path: Path, name: str, integrator: Integrator, codegen: str) -> None:
    """200 steps to 1e-9, told something else in each; activations may start outside of their range."""
    if name == "fast filterexact" and integrator is Integrator.RK4:
        pytest.skip("the stages of a Runge-Kutta step are not exact, and blow up in MuJoCo as well")
    pair = loaded(tmp_path, ACTUATORS[name])
    engine, data = both(pair, integrator, codegen)
    generator = np.random.default_rng(4)
    worst = 0.0
    for _ in range(N_STEPS):
        data.ctrl[:] = generator.uniform(-0.5, 1.5, pair.theirs.nu)
        engine.array_view("ctrl").assign(pair.arrays([data])["ctrl"])
        mujoco.mj_step(pair.theirs, data)
        engine.step()
        worst = max(worst, error(pair, engine, data))
    assert worst < CLOSE
    assert np.abs(data.qvel).max() < 1e2, "what blows up is compared with nothing"


def muscle_text(**more: str) -> str:
    """A muscle that neither limits nor dynamics hide."""
    given = " ".join(f'{name}="{value}"' for name, value in more.items())
    return f'<muscle joint="j0" lengthrange="-.7 1.1" force="30" {given}/>'


def curve(pair: Pair, lengths: Array, speeds: Array, act: float) -> tuple[Array, Array]:
    """The force of the only actuator over lengths and speeds: ours and theirs."""
    states = []
    for length, speed in zip(lengths, speeds, strict=True):
        data = mujoco.MjData(pair.theirs)
        data.qpos[:] = pair.theirs.qpos0
        data.qpos[0], data.qvel[0], data.act[:] = length, speed, act
        mujoco.mj_forward(pair.theirs, data)
        states.append(data)
    engine = Engine(pair.ours, mjcf_settings(pair), len(states), find_device("cpu"), precision="double")
    for name, values in pair.arrays(states).items():
        if name in ("qpos", "vel", "act"):
            engine.array_view(name).assign(values)
    return engine.fields.dofs_state.qf_actuator.numpy()[0], np.array([d.actuator_force[0] for d in states])


@pytest.mark.parametrize("act", [0.0, 0.6, 1.0])
@pytest.mark.parametrize(
    "more", [{}, {"lmin": ".3", "lmax": "2", "fvmax": "2", "fpmax": ".4"}, {"fvmax": ".9"}], ids=str
)
def test_curve_of_a_muscle(tmp_path: Path, more: dict[str, str], act: float) -> None:
    """Force over length and speed, at the joints between its pieces too."""
    pair = loaded(tmp_path, muscle_text(**more))
    low, high, _, _, lmin, lmax, vmax, _, fvmax = pair.theirs.actuator_gainprm[0][:9]
    optimum = 1.8 / (high - low)
    pieces = np.array([lmin, (lmin + 1) / 2, 1.0, (lmax + 1) / 2, lmax])
    normal = np.concatenate([np.linspace(0.1, 2.3, 23), pieces, np.repeat(1.1, 25)])
    speed = np.concatenate([np.tile(0.0, 28), np.linspace(-1.5, 1.5, 21), [-1.0, 0.0, fvmax - 1.0, 1e-9]])
    ours, theirs = curve(pair, -0.7 + (normal - low) * optimum, speed * optimum * vmax, act)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-11)
    assert np.abs(theirs).max() > 5.0


def test_strength_by_acceleration(tmp_path: Path) -> None:
    """Without a force it is `scale`, over what a unit force accelerates the joints by, as MuJoCo has it."""
    pair = loaded(tmp_path, ACTUATORS["muscles"])
    relative = pair.ours.actuators.peak_force_needs_acc0[:, 0].copy()
    assert relative.any()
    engine = Engine(pair.ours, mjcf_settings(pair), 1, find_device("cpu"))
    scale, acc0 = pair.theirs.actuator_gainprm[pair.actuator, 3], pair.theirs.actuator_acc0[pair.actuator]
    found = engine.model.derived.actuator_peak_force
    np.testing.assert_allclose(found[relative], (scale / acc0)[relative, None].repeat(2, axis=1), rtol=1e-12)


def test_damping_ratio_is_the_compiled_gain(tmp_path: Path) -> None:
    """`dampratio` becomes a velocity gain when MuJoCo compiles, by the inertia at the start: that is what is read."""
    pair = loaded(tmp_path, ACTUATORS["filtered servos"])
    np.testing.assert_allclose(pair.ours.actuators.bias, pair.theirs.actuator_biasprm[pair.actuator, :3])
    assert (pair.ours.actuators.bias[:2, 2] < -0.1).all()


def test_environments_have_their_own(tmp_path: Path) -> None:
    """Activations of several environments, and the same in one of them as alone."""
    pair = loaded(tmp_path, ACTUATORS["muscles"])
    controls = np.random.default_rng(5).uniform(0, 1, (pair.theirs.nu, 7))
    found = []
    for own in (controls, controls[:, 3:4]):
        engine = Engine(pair.ours, mjcf_settings(pair), own.shape[1], find_device("cpu"), precision="double")
        engine.array_view("ctrl").assign(own)
        engine.step(20)
        found.append(engine.array_view("act").numpy().copy())
        engine.reset()
        assert not engine.array_view("act").numpy().any()
    assert len(np.unique(found[0])) == controls.size
    np.testing.assert_array_equal(found[0][:, 3:4], found[1])


@pytest.mark.parametrize(("budget", "integrator"), alternating([0, 20_000], Integrator))
def test_copies_have_their_own(budget: int, integrator: Integrator) -> None:
    """Several arms in one scene, by loops over tables and by a line that they share, with some joints commanded."""
    model = model_of_text(ARM.format(ACTUATORS["muscles"] + ACTUATORS["filterexact"]), copies=3)
    is_scale = np.zeros_like(model.actuators.peak_force_needs_acc0)
    model = model.with_columns("actuators", peak_force_needs_acc0=is_scale)
    made = Both(model, Settings(integrator=integrator), modes=_modes(model.n_dofs))
    before = made.arrays()["act"].copy()
    assert made.difference(budget) < 1e-12
    changed = (made.arrays()["act"] != before).any(axis=1)
    per_arm = changed.reshape(3, -1)
    assert per_arm[0].any()
    assert not per_arm[1].any(), "actuators that are switched off keep their activations"


def _modes(n: int) -> list[ControlMode]:
    """The second of three arms is told forces, the others are left to their actuators."""
    return [ControlMode.FORCE if n // 3 <= i < 2 * n // 3 else ControlMode.ACTUATOR for i in range(n)]

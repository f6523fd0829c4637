"""Limits, dry friction, couplings and ties beside MuJoCo C: every MJCF robot, and every kind of row by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from kinema.core import Diagnostics
from kinema.dynamics import Integrator
from kit.assets import EXAMPLES, all_assets, asset_id
from kit.mjcf_side import INTEGRATORS, Pair
from kit.mujoco_models import quiet

from .constrained import CODEGENS, beside_mujoco, load_constrained, loaded_text, worst

FRAGMENTS = {"talos.xml"}
"""Files that are only meant to be included."""
ROBOTS = [EXAMPLES / "quadruped" / "quadruped.xml", *all_assets("mjcf/**/*.xml")]
ROBOTS = [f for f in ROBOTS if f.name not in FRAGMENTS]


def wild_states(pair: Pair, count: int) -> list[Any]:
    """Half of them from a run with random controls and kicks, half at random coordinates, far beyond all limits."""
    rng = np.random.default_rng(0)
    model, data = pair.theirs, mujoco.MjData(pair.theirs)
    states = [pair.random_state(rng, 5.0) for _ in range(count - count // 2)]
    limited = model.actuator_ctrllimited.astype(bool)
    bounds = np.where(limited[:, None], np.sort(model.actuator_ctrlrange, axis=1), [[-1.0, 1.0]])
    with quiet():
        for _ in range(count // 2):
            data.ctrl[:] = rng.uniform(*bounds.T)
            data.qvel[:] += 2.0 * rng.normal(size=model.nv)
            mujoco.mj_step(model, data, 15)
            data.qvel[:] += rng.normal(size=model.nv)
            states.append(_copied(model, data))
    return states


def _copied(model: Any, data: Any) -> Any:
    """The state alone: what a solver starts from is left behind."""
    copy = mujoco.MjData(model)
    for name in ("qpos", "qvel", "ctrl", "act"):
        getattr(copy, name)[:] = getattr(data, name)
    return copy


@pytest.mark.wide
@pytest.mark.parametrize("file", ROBOTS, ids=asset_id)
def test_robots(file: Path) -> None:
    """One step from each of eight wild states: velocities to 1e-8."""
    diagnostics = Diagnostics()
    pair = load_constrained(file, diagnostics)
    if pair.ours.n_dofs == 0:
        pytest.skip("nothing moves")
    assert {d.code for d in diagnostics if d.code.startswith("sim.")} <= {"sim.actuator", "sim.no-contact"}
    pair.theirs.opt.integrator = INTEGRATORS[Integrator.IMPLICITFAST]
    states = wild_states(pair, 8)
    engine = beside_mujoco(pair, states)
    engine.step()
    with quiet():
        for data in states:
            mujoco.mj_step(pair.theirs, data)
    acted = np.max([(d.ne, d.nf, d.nl) for d in states], axis=0)
    error = worst(engine.array_view("vel").numpy(), np.array([d.qvel[pair.dof] for d in states]).T)
    print(f"error {error:.1e}, rows of equalities, friction, limits: {acted}")
    assert error < 1e-8


# ------------------------------------------------------------------------------------------- each kind of row by itself

TEXT = """<mujoco><option timestep="{dt}" gravity="1 2 -9.81"/><default><geom contype="0" conaffinity="0"/>
<joint damping="0.01" armature="0.002"/>{default}</default><worldbody>{bodies}</worldbody>{rest}</mujoco>"""
"""A time step that even the explicit integrators carry stiff rows with."""


def chain(*joints: str, sites: bool = False) -> str:
    """Bodies that hang on each other, each by a joint of its own."""
    text = ""
    for i, joint in enumerate(joints):
        site = f'<site name="s{i}" pos="0.02 {0.01 * i} -0.1" euler="{20 * i} 30 -10"/>' if sites else ""
        text += (
            f'<body name="b{i}" pos="{0.3 if i == 0 else 0} 0 {-0.2 if i else 0}">{joint}{site}'
            f'<geom type="box" size="0.03 0.05 0.1" pos="0.01 0 -0.1" mass="{0.4 + 0.3 * i}"/>'
        )
    return text + "</body>" * len(joints)


def hinge(i: int, more: str = "", axis: str = "0 1 0") -> str:
    return f'<joint name="j{i}" type="hinge" axis="{axis}" {more}/>'


def slide(i: int, more: str = "", axis: str = "1 0 1") -> str:
    return f'<joint name="j{i}" type="slide" axis="{axis}" {more}/>'


def ball(i: int, more: str = "") -> str:
    return f'<joint name="j{i}" type="ball" {more}/>'


def free(name: str = "f", at: str = "0 0 0") -> str:
    """A body that flies."""
    return (
        f'<body name="{name}" pos="{at}"><freejoint/><site name="{name} site" pos="0.03 0 0.05" euler="0 40 0"/>'
        '<geom type="box" size="0.03 0.05 0.1" mass="0.8" pos="0 0.02 0"/></body>'
    )


def equality(text: str) -> str:
    return f"<equality>{text}</equality>"


STOP = 'limited="true" range="-10 12"'
HARD_STOP = f'{STOP} solreflimit="-20000 -150"'
LAYERED = f'{STOP} margin="0.05" solreflimit="0.01 0.3" solimplimit="0.3 0.99 0.2 0.3 {{}}"'
TENDONS = """<tendon><fixed name="t0"><joint joint="j0" coef="1"/><joint joint="j1" coef="-0.5"/></fixed>
<fixed name="t1"><joint joint="j1" coef="0.7"/><joint joint="j2" coef="0.4"/></fixed></tendon>"""
PATHS = """<tendon><spatial name="t0"><site site="s0"/><site site="s2"/><site site="f site"/></spatial>
<spatial name="t1"><site site="f site"/><site site="s1"/></spatial>
<fixed name="t2"><joint joint="j1" coef="0.2"/></fixed></tendon>"""
FREE_ENDS = chain(hinge(0), hinge(1, axis="1 0 0"), hinge(2), sites=True)
CASES: dict[str, tuple[str, str]] = {
    "limits": (
        chain(hinge(0, STOP), slide(1, 'limited="true" range="-0.02 0.01"'), hinge(2, HARD_STOP, "1 1 0")),
        "",
    ),
    "limits with margins and impedances of all kinds": (
        chain(*(hinge(i, LAYERED.format(power)) for i, power in enumerate((1, 2, 3, 5)))),
        "",
    ),
    "impedance without width, midpoints at the ends, solref of both forms at once": (
        chain(
            hinge(0, f'{STOP} solimplimit="0.5 0.9 0 0.5 2"'),
            hinge(1, f'{STOP} margin="0.1" solimplimit="0.5 0.9 0.3 0 2"'),
            hinge(2, f'{STOP} margin="0.1" solimplimit="0.5 0.9 0.3 1 3"'),
            hinge(3, f'{STOP} solreflimit="0.01 0"'),
            hinge(4, f'{STOP} solreflimit="0.01 -1"'),
            hinge(5, f'{STOP} solreflimit="-900 0"'),
        ),
        "",
    ),
    "both limits at once": (chain(hinge(0, 'limited="true" range="-2 2" margin="0.1"'), hinge(1)), ""),
    "balls": (
        chain(ball(0, 'limited="true" range="0 20"'), ball(1, 'limited="true" range="0 10" margin="0.05"')),
        "",
    ),
    "friction": (
        chain(
            hinge(0, 'frictionloss="0.4"'),
            slide(1, 'frictionloss="2" solreffriction="0.01 1" solimpfriction="0.8 0.9 0.01 0.5 2"'),
            ball(2, 'frictionloss="0.05"'),
        ),
        "",
    ),
    "connect": (
        FREE_ENDS + free(at="1 0 0"),
        equality(
            '<connect body1="b2" anchor="0.05 0 -0.3"/><connect body1="b0" body2="f" anchor="0 0.1 -0.1"/>'
            '<connect site1="s1" site2="f site" solref="0.02 0.7"/>'
        ),
    ),
    "weld": (
        FREE_ENDS + free(at="0.5 0.1 -0.4"),
        equality('<weld body1="b2" body2="f" solref="0.02 1" torquescale="0.3"/>'),
    ),
    "weld to the world": (
        FREE_ENDS + free(at="0.5 0.1 -0.4"),
        equality('<weld body1="f" relpose="0.45 0.1 -0.4 0.9 0.1 -0.2 0.3" anchor="0.1 0 0"/><weld body1="b1"/>'),
    ),
    "weld of sites": (
        FREE_ENDS + free(at="0.5 0.1 -0.4"),
        equality('<weld site1="s2" site2="f site" torquescale="2" solref="-500 -40" solimp="0.5 0.9 0.1 0.4 3"/>'),
    ),
    "joints": (
        chain(hinge(0, 'ref="10"'), slide(1), hinge(2, axis="1 0 0"), hinge(3)),
        equality(
            '<joint joint1="j0" joint2="j2" polycoef="0.1 0.5 -0.7 0.2 0.3"/>'
            '<joint joint1="j3" polycoef="0.2 0 0 0 0"/>'
            '<joint joint1="j1" joint2="j3" polycoef="0 0.2 0 0 0" solref="-900 -50"/>'
        ),
    ),
    "tendons": (
        chain(hinge(0, 'ref="20"'), hinge(1), hinge(2, axis="1 0 0")),
        TENDONS + equality('<tendon tendon1="t0" tendon2="t1" polycoef="0.1 0.8 0.2 0 0"/><tendon tendon1="t1"/>'),
    ),
    "tendons along paths": (
        FREE_ENDS + free(at="0.6 0.1 -0.4"),
        PATHS
        + equality(
            '<tendon tendon1="t0" tendon2="t1" polycoef="0.02 0.8 0.2 0 0"/><tendon tendon1="t1" solref="0.03 1"/>'
            '<tendon tendon1="t2" tendon2="t0"/>'
        ),
    ),
    "all at once": (
        chain(hinge(0, f'{STOP} frictionloss="0.1"'), ball(1, 'limited="true" range="0 30"'), slide(2, STOP), hinge(3))
        + free(at="0.4 0 -0.6"),
        equality('<weld body1="b2" body2="f"/><joint joint1="j0" joint2="j3"/><connect body1="f" anchor="0.1 0 0"/>'),
    ),
    "that contradict each other": (
        chain(hinge(0, STOP), hinge(1), hinge(2)),
        equality(
            '<joint joint1="j0" polycoef="1 0 0 0 0"/><joint joint1="j0" polycoef="-0.5 0 0 0 0"/>'
            '<connect body1="b2" anchor="0.05 0 -0.3"/><weld body1="b2" relpose="0.5 0 -0.5 1 0 0 0"/>'
            '<joint joint1="j1" joint2="j2" polycoef="0.1 1 0 0 0"/><joint joint1="j1" joint2="j2"/>'
        ),
    ),
}
RUNS = [(Integrator.EULER, "unrolled"), (Integrator.IMPLICITFAST, "loops"), (Integrator.RK4, "unrolled")]
"""Each integrator one way; the other ways take as long again."""
ALL_RUNS = [
    pytest.param(i, e, marks=() if (i, e) in RUNS else pytest.mark.benchmark) for i in Integrator for e in CODEGENS
]


@pytest.mark.wide
@pytest.mark.parametrize(("integrator", "codegen"), ALL_RUNS, ids=str)
@pytest.mark.parametrize("case", CASES)
def test_rows(tmp_path: Path, case: str, integrator: Integrator, codegen: str) -> None:
    """A hundred steps to 1e-9, from several states; and rows act in them."""
    bodies, rest = CASES[case]
    pair = loaded_text(tmp_path, TEXT.format(dt=0.001, default="", bodies=bodies, rest=rest))
    pair.theirs.opt.integrator = INTEGRATORS[integrator]
    rng = np.random.default_rng(1)
    states = [mujoco.MjData(pair.theirs) for _ in range(3)]
    for k, data in enumerate(states):
        mujoco.mj_integratePos(pair.theirs, data.qpos, 0.2 * k * rng.uniform(-1, 1, pair.theirs.nv), 1.0)
        data.qvel[:] = k * rng.uniform(-1, 1, pair.theirs.nv)
    engine = beside_mujoco(pair, states, codegen, integrator)
    error, acted = 0.0, 0
    with quiet():
        for _ in range(100):
            for data in states:
                mujoco.mj_step(pair.theirs, data)
                acted = max(acted, data.nefc)
            engine.step()
            error = max(error, worst(engine.array_view("vel").numpy(), np.array([d.qvel[pair.dof] for d in states]).T))
    print(f"error {error:.1e}, rows {acted}")
    assert acted > 0
    assert error < 1e-9

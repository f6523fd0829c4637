"""Models whose tendons and actuators pull along lengths that are no coordinates, beside MuJoCo's numbers of these."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mujoco
import numpy as np

from kinema.core import Array, Diagnostics
from kinema.dynamics import Engine, Integrator
from kinema.dynamics.lowering.reference_configuration import path_lengths_and_moments
from kinema.runtime import find_device
from kit.mjcf_side import INTEGRATORS, Disable, Pair, load

from .arrays_for_tests import mjcf_settings

LINKS = """<mujoco><option timestep="0.002"/><compiler angle="radian"/>
<default><geom contype="0" conaffinity="0" mass="0"/></default><worldbody>
<site name="w0" pos=".1 .05 1.3"/><site name="w1" pos=".3 -.1 .2"/>
<geom name="fixed_cylinder" type="cylinder" size=".07 .3" pos=".25 0 .6" euler="1.3 .1 0"/>
<site name="beside_fixed" pos=".5 0 .6"/>
<body name="a" pos="0 0 1"><joint name="j1" axis="0 1 0" damping=".1"/>
 <inertial pos="0 0 -.2" mass="1" diaginertia=".05 .05 .01"/>
 <site name="a1" pos=".05 .02 -.1" euler=".3 .2 .1"/><site name="a2" pos=".04 -.02 -.35" euler="0 1 0"/>
 <geom name="ball" type="sphere" size=".06" pos="0 0 -.4"/>
 <site name="beside" pos=".07 0 -.4"/><site name="inside" pos=".01 0 -.38"/>
 <body name="b" pos="0 0 -.4"><joint name="j2" axis="1 1 0" damping=".1"/>
  <inertial pos="0 0 -.2" mass=".7" diaginertia=".03 .04 .01"/>
  <site name="b1" pos=".05 .01 -.15" euler=".5 0 .4"/><site name="b2" pos="-.1 .01 -.2"/>
  <geom name="cylinder" type="cylinder" size=".05 .2" pos="0 .03 -.4" euler="0 1.5 .3"/>
  <body name="c" pos="0 0 -.4"><joint name="j3" type="slide" axis="0 .2 1" springref=".05"/>
   <inertial pos="0 .1 -.2" mass=".3" diaginertia=".03 .04 .01"/><site name="c1" pos=".1 .15 -.05"/></body></body>
 <body name="d" pos="0 .1 -.4"><joint name="j4" type="ball" damping=".1"/>
  <inertial pos="0 0 -.2" mass=".7" diaginertia=".03 .04 .01"/><site name="d1" pos="0 .05 -.3"/></body></body>
<body name="f" pos=".8 0 .8" euler=".1 .4 .2"><joint name="free" type="free"/>
 <inertial pos="0 0 .01" mass=".7" diaginertia=".03 .04 .05"/><site name="f1" pos="0 .05 -.03"/>
 <site name="f2" pos=".1 0 0"/></body>
</worldbody><tendon>{tendons}</tendon><actuator>{actuators}</actuator></mujoco>"""

FIXED = """
<fixed name="limited" limited="true" range="-.1 .2" margin=".01" solreflimit=".03 .8" solimplimit=".8 .9 .01 .5 2">
 <joint joint="j1" coef="1"/><joint joint="j2" coef="-.5"/></fixed>
<fixed name="rubbing" frictionloss=".3" solreffriction=".03 1"><joint joint="j2" coef=".3"/><joint joint="j3" coef="2"/>
</fixed>
<fixed name="both" frictionloss=".1" limited="true" range="-.05 .05" margin=".1" stiffness="3" damping=".2">
 <joint joint="j1" coef="1"/><joint joint="j3" coef="-2"/></fixed>"""
THROUGH = """
<spatial name="via" stiffness="30" damping="2" springlength=".5">
 <site site="w0"/><site site="a1"/><site site="a2"/><site site="b1"/><site site="c1"/></spatial>
<spatial name="pulleys" stiffness="40" damping="1"><site site="w1"/><site site="b1"/><pulley divisor="2"/>
 <site site="b1"/><site site="f1"/><pulley divisor="3"/><site site="b1"/><site site="d1"/></spatial>
<spatial name="held" limited="true" range=".1 .75" margin=".02" frictionloss=".5">
 <site site="a1"/><site site="d1"/><site site="f2"/></spatial>"""
ON_TENDONS = """<position name="servo" tendon="{0}" kp="20" kv="3" gear="1.5"/>
<motor name="motor" tendon="{1}" gear="2"/><general name="affine" tendon="{2}" gaintype="affine" biastype="affine"
 gainprm="1 .5 .2" biasprm=".1 -3 -.4"/>"""
AROUND = """
<spatial name="sphere" stiffness="30" damping="2" springlength=".1">
 <site site="a1"/><geom geom="ball"/><site site="b1"/></spatial>
<spatial name="sphere beside" stiffness="30"><site site="a2"/><geom geom="ball" sidesite="beside"/><site site="b2"/>
</spatial>
<spatial name="cylinder" stiffness="30"><site site="w0"/><geom geom="fixed_cylinder"/><site site="f1"/></spatial>
<spatial name="cylinder beside" stiffness="30"><site site="w1"/><geom geom="fixed_cylinder" sidesite="beside_fixed"/>
 <site site="f2"/></spatial>
<spatial name="two" stiffness="30" damping=".5" limited="true" range=".1 .3"><site site="a2"/><geom geom="cylinder"/>
 <site site="c1"/><geom geom="fixed_cylinder"/><site site="f1"/></spatial>
<spatial name="either" stiffness="3">
 <site site="a2"/><geom geom="cylinder" sidesite="d1"/><site site="c1"/></spatial>"""
INSIDE = """
<spatial name="near" stiffness="30" damping="1"><site site="a1"/><geom geom="ball" sidesite="inside"/><site site="b2"/>
</spatial>
<spatial name="far" stiffness="3"><site site="w1"/><geom geom="ball" sidesite="inside"/><site site="d1"/></spatial>"""
OTHERS = """
<general name="crank" cranksite="b1" slidersite="a2" cranklength=".5" gear="2" biastype="affine" biasprm="0 -5 -.5"/>
<general name="short crank" cranksite="c1" slidersite="w1" cranklength=".01" biastype="affine" biasprm=".1 -1 -.1"/>
<position name="place" site="b1" refsite="a1" kp="5" kv=".5" gear="1 2 3 0 0 0"/>
<position name="turn" site="d1" refsite="f1" kp="1" kv=".1" gear="0 0 0 .3 .2 .1"/>
<position name="all" site="c1" refsite="d1" kp="1" kv=".1" gear="1 0 .5 .3 .2 .1"/>
<velocity name="thrust" site="f2" kv=".5" gear="1 0 .5 .3 .2 .1"/>
<position name="ball servo" joint="j4" kp="2" kv=".2" gear=".5 1 .3"/>
<position name="ball in parent" jointinparent="j4" kp="1" kv=".1" gear=".5 1 .3"/>
<velocity name="free servo" joint="free" kv=".3" gear="1 .2 .3 .4 .5 .6"/>
<velocity name="free in parent" jointinparent="free" kv=".3" gear="1 .2 .3 .4 .5 .6"/>
<position name="hinge in parent" jointinparent="j1" kp="3" kv=".3" gear="2"/>"""
HEAVY = """
<fixed name="fixed" armature=".2" stiffness="3"><joint joint="j1" coef="1"/><joint joint="j2" coef="-.5"/></fixed>
<fixed name="slide" armature=".1"><joint joint="j2" coef="1"/><joint joint="j3" coef="3"/></fixed>
<spatial name="through" armature=".3" stiffness="20">
 <site site="w0"/><site site="a1"/><site site="b1"/><site site="c1"/>
 <pulley divisor="2"/><site site="w1"/><site site="f1"/></spatial>
<spatial name="across" armature=".5" limited="true" range=".1 .7" damping="1"><site site="c1"/><site site="d1"/>
</spatial>"""
MODELS = {
    "heavy": LINKS.format(tendons=HEAVY, actuators=ON_TENDONS.format("fixed", "through", "across")),
    "fixed": LINKS.format(tendons=FIXED, actuators=""),
    "through": LINKS.format(tendons=THROUGH, actuators=ON_TENDONS.format("via", "pulleys", "held")),
    "around": LINKS.format(tendons=AROUND, actuators=ON_TENDONS.format("sphere", "cylinder", "two")),
    "inside": LINKS.format(tendons=INSIDE, actuators=ON_TENDONS.format("near", "far", "far")),
    "transmissions": LINKS.format(tendons="", actuators=OTHERS),
}


@cache
def pair_of(name: str) -> Pair:
    """A model on both sides, with all constraints but contacts; nothing of it is left out."""
    diagnostics = Diagnostics()
    with TemporaryDirectory() as folder:
        file = Path(folder) / "model.xml"
        file.write_text(MODELS[name], encoding="utf-8")
        pair = load(file, diagnostics)
    assert not [d for d in diagnostics if d.code.startswith("sim.")]
    options = pair.theirs.opt
    options.disableflags = int(Disable.mjDSBL_CONTACT)
    options.tolerance, options.iterations = 0.0, 100
    options.ls_tolerance, options.ls_iterations = 1e-12, 100
    return pair


@dataclass(frozen=True)
class Errors:
    """The greatest, over many states, of lengths and of moments."""

    length: float
    moment: float


def errors_of_lengths(pair: Pair, n_states: int) -> Errors:
    """Of all tendons and actuators whose moments are computed."""
    generator = np.random.default_rng(1)
    lengths, moments = [0.0], [0.0]
    tendons, actuators = pair.ours.tendons, pair.ours.actuators
    for _ in range(n_states):
        data = pair.random_state(generator)
        mujoco.mj_forward(pair.theirs, data)
        length, moment = path_lengths_and_moments(pair.ours, data.qpos[pair.q])
        of_tendons, of_actuators = _tendon_moments(pair, data), _actuator_moments(pair, data)
        for i, path in enumerate(tendons.path_idx):
            if path >= 0:
                theirs = pair.theirs.tendon(tendons.names[i]).id
                lengths.append(abs(length[path] - data.ten_length[theirs]))
                moments.append(np.abs(moment[path] - of_tendons[theirs, pair.dof]).max())
        for i, path in enumerate(actuators.path_idx):
            if path >= 0:
                theirs, scale = pair.actuator[i], actuators.moment[i].max()
                lengths.append(abs(scale * length[path] - data.actuator_length[theirs]))
                moments.append(np.abs(actuators.moment[i] * moment[path] - of_actuators[theirs, pair.dof]).max())
    return Errors(max(lengths), max(moments))


def _tendon_moments(pair: Pair, data: Any) -> Array:
    model = pair.theirs
    result = np.zeros((model.ntendon, model.nv))
    for i in range(model.ntendon):
        own = slice(model.ten_J_rowadr[i], model.ten_J_rowadr[i] + model.ten_J_rownnz[i])
        result[i, model.ten_J_colind[own]] = data.ten_J[own]
    return result


def _actuator_moments(pair: Pair, data: Any) -> Array:
    result = np.zeros((pair.theirs.nu, pair.theirs.nv))
    if pair.theirs.nu:
        mujoco.mju_sparse2dense(
            result, data.actuator_moment, data.moment_rownnz, data.moment_rowadr, data.moment_colind
        )
    return result


def error_of_trajectory(
    pair: Pair, integrator: Integrator, codegen: str, steps: int, precision: str = "double"
) -> tuple[float, int]:
    """The greatest of any coordinate or velocity, and the most rows of constraints that there were in MuJoCo."""
    pair.theirs.opt.integrator = INTEGRATORS[integrator]
    data = pair.random_state(np.random.default_rng(2))
    data.qpos[:] = pair.theirs.qpos0
    settings = mjcf_settings(pair, integrator, limits=True, constraints=True)
    engine = Engine(pair.ours, settings, 1, find_device("cpu"), precision=precision, codegen=codegen)
    for name, values in pair.arrays([data]).items():
        if name in ("qpos", "vel", "ctrl") and values.size:
            engine.array_view(name).assign(values)
    worst, rows = 0.0, 0
    for _ in range(steps):
        mujoco.mj_step(pair.theirs, data)
        engine.step()
        rows = max(rows, data.nefc)
        theirs = np.concatenate([data.qpos[pair.q], data.qvel[pair.dof]])
        ours = np.concatenate([engine.array_view(name).numpy()[:, 0] for name in ("qpos", "vel")])
        worst = max(worst, float(np.abs(ours - theirs).max() / max(1.0, np.abs(theirs).max())))
    return worst, rows

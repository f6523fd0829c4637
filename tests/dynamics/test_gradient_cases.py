"""A case for every kind of tendon, actuator and fluid force: derivatives of a step against central differences.

Joints are in `test_sim_gradients.py`; constraints, cones and pairs of shapes in `tests/scene/test_linearization.py`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kinema.dynamics import Integrator, Settings
from kit.choosing import representatives

from .rolling import model_of_text
from .test_sim_gradients import check

SETTINGS = Settings(dt=0.02, per_env=frozenset(("mass_shift", "damping", "armature")))
LINKS = """<body name="a" pos="0 0 1"><joint name="ja" axis="0 1 0" damping=".1"/>
<geom type="capsule" fromto="0 0 0 .3 0 0" size=".03"/>
<site name="sa" pos=".2 .02 .05"/><site name="side" pos=".1 .3 0"/>
<geom name="ball" type="sphere" size=".04" pos=".25 0 0" contype="0" conaffinity="0"/>
<geom name="hollow" type="sphere" size=".2" pos=".25 0 0" contype="0" conaffinity="0" mass=".1"/>
<site name="in_hollow" pos=".25 .05 .02"/>
<geom name="drum" type="cylinder" size=".05 .2" pos=".25 0 0" euler="90 5 3" contype="0" conaffinity="0"/>
<body name="b" pos=".3 0 0"><joint name="jb" axis="0 1 .3"/><geom type="capsule" fromto="0 0 0 .3 0 0" size=".02"/>
<site name="sb" pos=".2 -.02 .04"/><site name="crank" pos=".1 0 .05"/></body></body>
<body name="c" pos=".6 .1 1"><joint name="jc" type="slide" axis="1 0 .2"/>
<site name="slider" pos="0 0 0" euler="0 90 0"/><geom type="box" size=".05 .04 .03"/>
<site name="sc" pos=".02 .05 .06"/></body>"""
BALL = """<body pos="0 0 1"><joint name="j" type="{kind}" {damping}/><geom type="box" size=".1 .05 .03" pos=".05 0 0"/>
<site name="s" pos=".1 .02 .03" euler="10 20 30"/></body>"""
SHAPES = {
    "sphere": 'type="sphere" size=".1"',
    "capsule": 'type="capsule" size=".05 .1"',
    "cylinder": 'type="cylinder" size=".08 .05"',
    "box": 'type="box" size=".1 .06 .03"',
    "ellipsoid": 'type="ellipsoid" size=".1 .06 .03"',
}
FLYING = """<body pos="0 0 1"><joint name="j" type="free"/>
<geom {shape} pos=".05 0 0" euler="10 20 30" {fluid}/></body>"""


def linked(tendon: str = "", actuator: str = "") -> str:
    """Two links and a slider, with tendons and actuators."""
    return f"<worldbody>{LINKS}</worldbody><tendon>{tendon}</tendon><actuator>{actuator}</actuator>"


def pulled(path: str, options: str = 'stiffness="30" damping="2" springlength=".1"') -> str:
    """A spatial tendon."""
    return linked(f'<spatial name="t" {options}>{path}</spatial>', '<motor tendon="t" gear="2"/>')


def driven(actuator: str) -> str:
    """An actuator on a joint."""
    return linked('<fixed name="t"><joint joint="ja" coef="1"/><joint joint="jc" coef="-.5"/></fixed>', actuator)


def jointed(kind: str, actuator: str) -> str:
    """An actuator on a ball joint, a free joint or a site."""
    damping = 'damping=".1"'
    return f"<worldbody>{BALL.format(kind=kind, damping=damping)}</worldbody><actuator>{actuator}</actuator>"


def in_medium(shape: str, model: str, density: float = 50.0, viscosity: float = 0.5) -> str:
    """A free body in a fluid."""
    fluid = 'fluidshape="ellipsoid" fluidcoef=".4 .3 1.2 1.1 .9"' if model == "ellipsoid" else ""
    option = f'<option density="{density}" viscosity="{viscosity}" wind="1.5 -.5 .3"/>'
    return f"{option}<worldbody>{FLYING.format(shape=SHAPES[shape], fluid=fluid)}</worldbody>"


def site(name: str) -> str:
    """A point of a spatial tendon."""
    return f'<site site="{name}"/>'


TENDONS = {
    "fixed": linked(
        '<fixed name="t" stiffness="4" damping=".7" springlength="-.1 .05"><joint joint="ja" coef="1"/>'
        '<joint joint="jc" coef="-.5"/></fixed>'
    ),
    "spatial": pulled(site("sa") + site("sb") + site("sc")),
    "pulley": pulled(f'{site("sa")}{site("sc")}<pulley divisor="2"/>{site("sb")}{site("sc")}'),
    "sphere": pulled(f'{site("sa")}<geom geom="ball"/>{site("sb")}'),
    "sphere and side site": pulled(f'{site("sa")}<geom geom="ball" sidesite="side"/>{site("sb")}'),
    "inside of a sphere": pulled(f'{site("in_hollow")}<geom geom="hollow" sidesite="in_hollow"/>{site("sc")}'),
    "cylinder": pulled(f'{site("sa")}<geom geom="drum"/>{site("sb")}'),
    "armature": pulled(site("sa") + site("sc"), 'armature=".2" damping="1"'),
}
ACTUATORS = {
    "motor": driven('<motor joint="ja" gear="3"/>'),
    "position": driven('<position joint="ja" kp="20" kv="2"/>'),
    "velocity": driven('<velocity joint="jb" kv="1.5" gear="2"/>'),
    "damper": driven('<damper joint="jb" kv="2" ctrlrange="0 1"/>'),
    "cylinder": driven('<cylinder joint="jc" timeconst=".1" area=".2" bias=".1 -.3 -.4"/>'),
    "intvelocity": driven('<intvelocity joint="ja" kp="10" actrange="-2 2"/>'),
    "affine": driven('<general joint="ja" gaintype="affine" biastype="affine" gainprm="1 .5 .2" biasprm=".1 -3 -.4"/>'),
    "filter": driven('<general joint="ja" dyntype="filter" dynprm=".1" gainprm="3"/>'),
    "filterexact": driven('<general joint="ja" dyntype="filterexact" dynprm=".1" gainprm="3"/>'),
    "muscle": driven('<muscle joint="ja" lengthrange="-1 1" force="5"/>'),
    "on a tendon": driven('<position tendon="t" kp="5" kv=".5"/>'),
    "slider-crank": driven('<motor cranksite="crank" slidersite="slider" cranklength=".5"/>'),
    "ball": jointed("ball", '<motor joint="j" gear=".1 .2 .3"/>'),
    "free": jointed("free", '<motor joint="j" gear="1 2 3 .4 .5 .6"/>'),
    "joint in parent": jointed("ball", '<motor jointinparent="j" gear=".1 .2 .3"/>'),
    "site": jointed("free", '<motor site="s" gear="0 .1 1 .05 0 .2"/>'),
}
FLUIDS = {
    "inertia box": in_medium("box", "box"),
    "density only": in_medium("box", "box", viscosity=0.0),
    "viscosity only": in_medium("box", "box", density=0.0),
    **{f"ellipsoid, {shape}": in_medium(shape, "ellipsoid") for shape in SHAPES},
}
INTEGRATORS = (Integrator.IMPLICITFAST, Integrator.IMPLICIT, Integrator.EULER)
CASES = {
    f"{kind}: {name}": (text, INTEGRATORS[i % 3])
    for kind, texts in (("tendon", TENDONS), ("actuator", ACTUATORS), ("fluid", FLUIDS))
    for i, (name, text) in enumerate(texts.items())
}
CHOSEN = (
    *("tendon: pulley", "tendon: sphere and side site"),
    *("actuator: muscle", "actuator: slider-crank"),
    "fluid: ellipsoid, cylinder",
)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("case", representatives(CASES, lambda case: case in CHOSEN))
def test_derivatives(case: str) -> None:
    """By state, controls and some parameters, in forward and reverse mode."""
    text, integrator = CASES[case]
    model = model_of_text(f"<mujoco>{text}</mujoco>")
    rng = np.random.default_rng(3)
    more = {"qpos": np.array(model.qpos0)[:, None] + rng.uniform(-0.05, 0.05, (model.n_qs, 1))}
    check(model, replace(SETTINGS, integrator=integrator), more)

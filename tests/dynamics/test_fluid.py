"""The medium against MuJoCo's: both of its models, with wind, on chains and on bodies that fly alone."""

from __future__ import annotations

import math
from pathlib import Path

import mujoco
import numpy as np
import pytest

import kinema as km
from kinema.dynamics import Integrator, Settings
from kinema.dynamics.forces.fluid import (
    apply_derivative,
    ellipsoid_constants,
    ellipsoid_force,
    ellipsoid_force_derivative,
)
from kinema.dynamics.rigid.kinematics import Twist

from .rolling import Both, model_of_text
from .trajectories import WAYS, loaded_text, worst_difference

SHAPE = 'fluidshape="ellipsoid" fluidcoef=".4 .3 1.2 1.1 .9"'
MEDIUM = 'density="{}" viscosity="{}" wind="1.5 -.5 .3"'
TEXT = f"""<mujoco><option timestep="0.002" {{medium}}><flag contact="disable" constraint="disable" {{flags}}/></option>
<worldbody>
<body name="chain"><joint axis="0 1 .2"/><geom type="capsule" fromto="0 0 0 .1 .2 .3" size=".03" density="900"/>
<body pos=".3 .1 0"><joint axis="1 0 0"/>
<geom type="cylinder" size=".1 .2" mass=".6" pos=".1 0 0" euler="9 5 7" {SHAPE}/></body></body>
<body name="lone" pos="2 0 1"><freejoint/><geom type="sphere" size=".1" mass=".5"/>
<geom type="ellipsoid" size=".1 .2 .03" mass="0" pos=".1 .2 0" euler="10 20 30" {SHAPE}/></body></worldbody></mujoco>"""


def text_of(density: float = 12.0, viscosity: float = 0.2, flags: str = "") -> str:
    """Everything that may feel a medium."""
    return TEXT.format(medium=MEDIUM.format(density, viscosity), flags=flags)


@pytest.mark.parametrize("way", WAYS[1:], ids=str)
def test_trajectory(tmp_path: Path, way: tuple[Integrator, str]) -> None:
    """200 steps to 1e-11: implicit ones too, whose slopes are symmetric but for bodies that fly alone."""
    pair = loaded_text(tmp_path, text_of())
    assert sorted(pair.ours.fluid.kinds) == ["box", "ellipsoid", "ellipsoid"]
    assert worst_difference(pair, way) < 1e-11


def test_single_precision(tmp_path: Path) -> None:
    """Within what single precision keeps over 200 steps."""
    pair = loaded_text(tmp_path, text_of())
    assert worst_difference(pair, (Integrator.IMPLICITFAST, "loops"), precision="single") < 1e-3


def test_nothing_without_passive_forces(tmp_path: Path) -> None:
    """Without springs and dampers MuJoCo has no medium either; nor has anybody where there is none."""
    off = loaded_text(tmp_path, text_of(flags='spring="disable" damper="disable"'))
    assert not off.ours.fluid.kinds
    assert not loaded_text(tmp_path, text_of(0.0, 0.0)).ours.fluid.kinds


def test_copies_feel_it_alike() -> None:
    """Two of everything, by lines that they share and by one line for all, each environment in its own wind."""
    per_env = frozenset({"wind", "density", "com_shift"})
    settings = Settings(integrator=Integrator.IMPLICITFAST, per_env=per_env)
    made = Both(model_of_text(text_of(), copies=2), settings)
    assert made.difference(100_000) < 1e-12


class _Numbers:
    """A shape's numbers, as the code of a row hands them out."""

    def __init__(self, given: dict[str, list[float]]) -> None:
        self.constants = given.__getitem__


@pytest.mark.parametrize("radii", [(0.1, 0.2, 0.3), (0.2, 0.2, 0.2), (0.3, 0.01, 0.1)], ids=str)
def test_slopes_are_derivatives(radii: tuple[float, float, float]) -> None:
    """Of the force on an ellipsoid, by differences."""
    added = {"added_mass": [0.1, 0.2, 0.05], "added_inertia": [0.01, 0.03, 0.02]}
    code = _Numbers({**ellipsoid_constants(radii, (0.4, 0.3, 1.2, 1.1, 0.9)), **added})

    def force(x: np.ndarray) -> np.ndarray:
        found = ellipsoid_force(code, 1.2, 0.1, Twist(x[:3].tolist(), x[3:].tolist()))  # type: ignore[arg-type]
        return np.array([*found.torque, *found.force])

    at, step = np.array([0.3, -0.5, 0.7, 1.1, -0.2, 0.4]), 1e-6
    slopes = ellipsoid_force_derivative(code, 1.2, 0.1, Twist(at[:3].tolist(), at[3:].tolist()))  # type: ignore[arg-type]
    for unit in np.eye(6):
        ours = apply_derivative(slopes, Twist(unit[:3].tolist(), unit[3:].tolist()))
        theirs = (force(at + step * unit) - force(at - step * unit)) / (2 * step)
        np.testing.assert_allclose(np.array([*ours.torque, *ours.force], float), theirs, rtol=0, atol=1e-8)
    still = ellipsoid_force(code, 1.2, 0.1, Twist([0.0] * 3, [0.0] * 3))  # type: ignore[arg-type]
    assert not any((*still.torque, *still.force)), "nothing is divided by zero"


FALLING = """<mujoco><worldbody><body pos="0 0 100"><freejoint/><geom type="box" size=".1 .1 .1" mass="1"/></body>
</worldbody></mujoco>"""


def test_terminal_speed_in_each_environments_wind(tmp_path: Path) -> None:
    """A box that falls through air: weight and drag balance at sqrt(2 m g / (rho A)), and it drifts with the wind."""
    file = tmp_path / "box.xml"
    file.write_text(FALLING, encoding="utf-8")
    scene = km.Scene(dt=0.02, precision="double", contacts=False, density=50.0, viscosity=0.0, quiet=True)
    box = scene.add(file)
    scene.build(3, per_env=("wind", "density"))
    scene.set_wind([[0.0, 0.0, 0.0], [3.0, 0.0, 0.0], [0.0, 0.0, 2.0]])
    scene.set_density([[50.0], [50.0], [20.0]])
    scene.step(2000)
    speed = -box.get_qvel()[:, 2]
    expected = [math.sqrt(2 * 9.81 / (rho * 0.04)) for rho in (50.0, 50.0, 20.0)]
    np.testing.assert_allclose(speed, np.array(expected) - [0.0, 0.0, 2.0], rtol=1e-6)
    assert 2.8 < box.get_qvel()[1, 0] < 3.0
    passive = scene.dofs.qf_passive.numpy()[2]
    np.testing.assert_allclose(passive, 9.81, rtol=1e-5)


def test_there_is_no_medium_to_set(tmp_path: Path) -> None:
    """One sentence where nothing feels any, or a number cannot be meant."""
    file = tmp_path / "box.xml"
    file.write_text(FALLING, encoding="utf-8")
    scene = km.Scene(contacts=False, quiet=True)
    scene.add(file)
    scene.build()
    with pytest.raises(km.KinemaError, match="set_wind: the program was compiled without a medium"):
        scene.set_wind([1.0, 0.0, 0.0])
    with pytest.raises(km.KinemaError, match="density: expected a finite number that is not negative"):
        km.Scene(density=-1.0)


def test_axes_of_equal_moments_are_kept(tmp_path: Path) -> None:
    """MuJoCo's boxes have axes that no inertia tells: written again, they are the same."""
    file = tmp_path / "box.xml"
    file.write_text(text_of(), encoding="utf-8")
    report = km.write(km.read(file), tmp_path / "again.xml")
    assert not report.items
    first, again = (mujoco.MjModel.from_xml_path(str(tmp_path / name)) for name in ("box.xml", "again.xml"))
    np.testing.assert_allclose(again.body_iquat, first.body_iquat, atol=1e-12)

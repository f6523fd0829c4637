"""Random scenes: sizes, friction, hardness, gravity, places, speeds. Nothing breaks, no energy comes from nowhere.

Ten thousand scenes of more structures: `make fuzz-scenes`.
"""

from __future__ import annotations

import numpy as np
import pytest

from kit.contact_scenes import scene_of
from kit.scene_fuzz import STRUCTURES, tumbled

BODIES = """<body pos="0 0 1"><freejoint/><geom name="ball" size=".1" mass="1"/></body>
<body pos="1 0 1"><freejoint/><geom name="bar" type="capsule" size=".05 .1" mass=".3" condim="4"/></body>
<body pos="2 0 1"><freejoint/><geom name="box" type="box" size=".1 .1 .1" mass="3"/></body>"""
FLOOR = '<geom name="floor" type="plane" size="50 50 1"/>'
NAMES = ["ball", "bar", "box"]
PER_ENV = ("gravity", "geom_friction", "geom_sol_params", "geom_size")


@pytest.mark.parametrize(
    ("seed", "count"),
    [pytest.param(0, 48, id="elliptic"), pytest.param(25, 250, id="pyramidal", marks=pytest.mark.exhaustive)],
)
def test_random_scenes(seed: int, count: int) -> None:
    """A few dozen of the simplest structure with cones; chains, planks and marbles with pyramids.

    A marble a metre away from the first body, with next to no friction, once made the solver lose its way.
    """
    found = tumbled(seed, count)
    assert found.is_sound, found
    assert found.contacts > 2


SLIPPERY = {
    "size": [[0.02889, 0.0587, 0.01833], [0.03289, 0.0217, 0.28036], [0.16285, 0.06589, 0.02361]],
    "friction": [0.00341, 0.03175, 0.07182, 0.00355],
    "solref": [[0.0326, 1.42423], [0.00526, 1.69093], [0.04928, 1.6466], [0.05916, 0.94324]],
    "gravity": [1.91266, -0.95968, -11.48988],
    "qpos": [
        *(-0.00276, 0.07459, 0.02447, -0.77828, -0.32061, -0.39273, -0.37046),
        *(1.80427, -0.47023, -0.01174, -0.29926, -0.45167, -0.64271, -0.54163),
        *(2.0687, -0.64889, 0.01142, -0.26095, 0.79845, -0.48865, 0.23579),
    ],
    "qvel": [
        *(-0.3259, 0.0375, 0.0639, -0.4215, -2.3058, -0.0413),
        *(1.3579, -1.294, -0.7733, -1.423, -1.8042, 5.4624),
        *(0.216, -1.9739, -1.0008, -9.8993, 5.0942, -4.769),
    ],
}
BY_DOUBLE_PRECISION = 0.59128
"""The most that any speed changes in that step."""


def test_steep_pyramids() -> None:
    """Deep in the floor, with next to no friction: a step of the solver left 7 km/s of it in single precision."""
    scene, things = scene_of(BODIES, 1, 'cone="pyramidal"', floor=FLOOR, per_env=PER_ENV)
    everything = ["floor", *NAMES]
    things.set_geoms_size([SLIPPERY["size"]], NAMES)
    things.set_geoms_friction([SLIPPERY["friction"]], everything)
    soft = [[*solref, 0.9, 0.95, 0.001, 0.5, 2.0] for solref in SLIPPERY["solref"]]
    things.set_geoms_sol_params([soft], everything)
    scene.set_gravity([SLIPPERY["gravity"]])
    things.set_qpos([SLIPPERY["qpos"]])
    things.set_qvel([SLIPPERY["qvel"]])
    scene.step()
    change = np.abs(things.get_qvel()[0] - SLIPPERY["qvel"]).max()
    assert change == pytest.approx(BY_DOUBLE_PRECISION, rel=1e-2)


@pytest.mark.benchmark
@pytest.mark.parametrize("seed", range(2 * len(STRUCTURES)))
def test_random_scenes_of_every_structure(seed: int) -> None:
    """A hundred of each."""
    found = tumbled(seed, 100)
    assert found.is_sound, found

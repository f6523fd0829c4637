"""Random scenes: sizes, friction, hardness, gravity, places, speeds. Nothing breaks, no energy comes from nowhere.

One program serves them all: what is random differs between environments. Ten thousand scenes: `pytest -m benchmark`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sim.touching import scene_of

BODIES = """<body pos="0 0 1"><freejoint/><geom name="ball" size=".1" mass="1"/></body>
<body pos="1 0 1"><freejoint/><geom name="bar" type="capsule" size=".05 .1" mass=".3" condim="4"/></body>
<body pos="2 0 1"><freejoint/><geom name="box" type="box" size=".1 .1 .1" mass="3"/></body>"""
FLOOR = '<geom name="floor" type="plane" size="50 50 1"/>'
NAMES = ["ball", "bar", "box"]
PER_ENV = ("gravity", "geom_friction", "geom_sol_params", "geom_size")


def tumble(folder: Path, n: int, seed: int, cone: str) -> None:
    """So many random scenes for 200 steps."""
    rng = np.random.default_rng(seed)
    scene, things = scene_of(folder, BODIES, n, f'cone="{cone}"', floor=FLOOR, per_env=PER_ENV)
    size = 10.0 ** rng.uniform(-2.0, -0.5, (n, 3, 3))
    things.set_geoms_size(size, NAMES)
    everything = ["floor", *NAMES]
    things.set_geoms_friction(10.0 ** rng.uniform(-3.0, 0.5, (n, 4)), everything)
    soft = np.broadcast_to([0.02, 1.0, 0.9, 0.95, 0.001, 0.5, 2.0], (n, 4, 7)).copy()
    soft[..., 0] = 10.0 ** rng.uniform(-2.3, -1.0, (n, 4))
    soft[..., 1] = rng.uniform(0.7, 2.0, (n, 4))
    things.set_geoms_sol_params(soft, everything)
    gravity = np.concatenate([rng.uniform(-5, 5, (n, 2)), rng.uniform(-12, 0, (n, 1))], axis=1)
    scene.set_gravity(gravity)
    q = things.get_qpos().reshape(n, 3, 7)
    reach = 2.0 * np.linalg.norm(size, axis=2)
    q[..., 0] = np.cumsum(reach, axis=1) * 2.0  # apart from each other, and from the floor
    q[..., 2] = reach + rng.uniform(0.0, 0.3, (n, 3))
    turn = rng.normal(size=(n, 3, 4))
    q[..., 3:] = turn / np.linalg.norm(turn, axis=2, keepdims=True)
    things.set_qpos(q.reshape(n, -1))
    things.set_qvel(rng.normal(size=(n, 18)))
    start = sum(scene.get_energy())
    moving = scene.get_energy()[0]
    most = np.full(n, -np.inf)
    for _ in range(20):
        scene.step(10)
        most = np.maximum(most, sum(scene.get_energy()))
    assert not scene.get_error_envs_mask().any()
    assert np.isfinite(things.get_qpos()).all()
    assert scene.get_most_contacts().max() > 2
    grown = (most - start) / (np.abs(start) + moving + 1.0)
    assert grown.max() < 0.02, (int(grown.argmax()), float(grown.max()))


@pytest.mark.parametrize("cone", ["elliptic", "pyramidal"])
def test_random_scenes(cone: str, tmp_path: Path) -> None:
    """A few dozen."""
    tumble(tmp_path, 48, 0, cone)


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


def test_steep_pyramids(tmp_path: Path) -> None:
    """Deep in the floor, with next to no friction: a step of the solver left 7 km/s of it in single precision."""
    scene, things = scene_of(tmp_path, BODIES, 1, 'cone="pyramidal"', floor=FLOOR, per_env=PER_ENV)
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
@pytest.mark.parametrize("cone", ["elliptic", "pyramidal"])
def test_ten_thousand_random_scenes(cone: str, tmp_path: Path) -> None:
    """All of them, in four batches."""
    for seed in (1, 2, 4, 5):
        tumble(tmp_path, 2500, seed, cone)

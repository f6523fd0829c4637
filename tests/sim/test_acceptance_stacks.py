"""Stacks and grips: a tower, boxes on boxes, a pyramid, cubes side by side; what is pressed to a wall, and pinched.

These take minutes: `pytest -m benchmark`.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from sim.touching import GRAVITY, scene_of

CONE = 'cone="elliptic" impratio="100"'
FLOOR = '<geom name="floor" type="plane" size="50 50 1"/>'


def boxes(places: list[tuple[float, float, float]], half: str = ".1 .1 .1", mass: float = 1.0) -> str:
    """Free boxes."""
    shape = f'<geom type="box" size="{half}" mass="{mass}"/>'
    return "".join(f'<body pos="{x} {y} {z}"><freejoint/>{shape}</body>' for x, y, z in places)


@pytest.mark.benchmark
def test_a_tower(tmp_path: Path) -> None:
    """Twenty boxes, a millimetre apart to begin with: after two of three seconds they stand."""
    places = [(0.0, 0.0, 0.1 + 0.201 * i) for i in range(20)]
    scene, tower = scene_of(tmp_path, boxes(places), 1, floor=FLOOR)
    scene.step(1000)
    fastest = 0.0
    for _ in range(50):
        scene.step(10)
        fastest = max(fastest, float(np.abs(tower.get_qvel()).max()))
    heights = tower.get_qpos().reshape(20, 7)[:, 2]
    print(f"tower: fastest {fastest:.1e}, lowest gap {np.diff(heights).min():.4f}")
    assert (heights > [z - 0.1 for _, _, z in places]).all()
    assert fastest < 1e-2


@pytest.mark.benchmark
def test_boxes_on_boxes(tmp_path: Path) -> None:
    """Twenty environments, anyhow turned and moved a little: at rest after a second, where they should be."""
    rng, n = np.random.default_rng(0), 20
    scene, both = scene_of(tmp_path, boxes([(0, 0, 0.2), (0, 0, 0.6)], ".2 .2 .2"), n, floor=FLOOR)
    q = both.get_qpos()
    q[:, 7:9] = rng.uniform(-0.08, 0.08, (n, 2))
    turn = rng.uniform(0, 2 * np.pi, n)
    q[:, 10], q[:, 13] = np.cos(turn / 2), np.sin(turn / 2)
    both.set_qpos(q)
    scene.step(500)
    np.testing.assert_allclose(both.get_qpos()[:, 9], 0.6, atol=2e-3)
    assert np.abs(both.get_qvel()).max() < 1e-2


@pytest.mark.benchmark
def test_a_pyramid(tmp_path: Path) -> None:
    """Four, three, two and one box: they stay for two seconds."""
    places = [(0.21 * k - 0.105 * (4 - row), 0.0, 0.1 + 0.2005 * row) for row in range(4) for k in range(4 - row)]
    scene, pile = scene_of(tmp_path, boxes(places), 1, floor=FLOOR)
    scene.step(1000)
    moved = pile.get_qpos().reshape(len(places), 7)[:, :3] - places
    assert np.abs(moved).max() < 5e-3
    assert np.abs(pile.get_qvel()).max() < 1e-2


@pytest.mark.benchmark
@pytest.mark.parametrize("side", [3, 5])
def test_cubes(side: int, tmp_path: Path) -> None:
    """Cubes side by side and on each other, 150 steps: none gets far."""
    places = [(0.21 * x, 0.21 * y, 0.1 + 0.2005 * z) for x, y, z in product(range(side), repeat=3)]
    scene, cubes = scene_of(tmp_path, boxes(places), 1, floor=FLOOR)
    scene.step(150)
    moved = cubes.get_qpos().reshape(len(places), 7)[:, :3] - places
    assert np.abs(moved).max() < 0.05
    assert np.abs(cubes.get_qvel()).mean() < 0.05


GRIP = """<geom name="wall" type="box" size=".1 1 1" pos="-.1 0 1" friction=".5"/>
<body pos=".1 0 1"><freejoint/><geom type="box" size=".1 .1 .1" mass="1" friction=".5"/></body>
<body pos=".3 0 1"><freejoint/><geom type="box" size=".1 .1 .1" mass="1" friction=".5"/></body>
<body pos=".45 0 1"><joint name="press" type="slide" axis="1 0 0"/>
<geom type="box" size=".05 .1 .1" mass="1" friction=".5"/></body>
<body pos="5 0 .15"><joint name="other" type="slide" axis="0 0 1"/>
<geom type="box" size=".1 .1 .1" mass="1"/></body>"""


@pytest.mark.benchmark
def test_pressed_to_a_wall(tmp_path: Path) -> None:
    """Two boxes between a wall and a press: 1.1 times what friction needs holds them, 0.95 times does not.

    Neither matters what is pressed elsewhere, and with friction that may not slip they creep no more.
    """
    scene, grip = scene_of(tmp_path, GRIP, 4, CONE, floor=FLOOR)
    weight = 2 * GRAVITY
    needed = weight / (2 * 0.5)
    press = needed * np.array([1.1, 0.95, 1.1, 2.5])
    other = np.array([0.0, 0.0, 1e4, 0.0])
    dofs = [grip.dofs_of("press")[0], grip.dofs_of("other")[0]]
    grip.control_dofs_force(-np.stack([press, other], axis=1), dofs_idx=dofs)
    for noslip in (0, 20):
        engine = scene.running.engine
        engine.settings = replace(engine.settings, noslip_iterations=noslip)
        scene.reset()
        grip.control_dofs_force(-np.stack([press, other], axis=1), dofs_idx=dofs)
        scene.step(500)
        start = grip.get_qpos()[:, [2, 9]]
        scene.step(5000)
        sunk = (start - grip.get_qpos()[:, [2, 9]]).max(axis=1)
        print(f"wall, noslip {noslip}: sunk {sunk} m in 10 s")
        assert sunk[1] > 0.3
        assert abs(sunk[2] - sunk[0]) < 0.01
        assert sunk[[0, 3]].max() < (5e-3 if noslip == 0 else 1e-4)


PINCH = """<body pos="0 0 1"><freejoint/><geom type="capsule" size=".03 .1" mass=".1" friction=".8"/></body>
<body pos="-.08 0 1"><joint name="left" type="slide" axis="1 0 0"/>
<geom type="box" size=".05 .1 .1" mass=".2"/></body>
<body pos=".08 0 1"><joint name="right" type="slide" axis="1 0 0"/>
<geom type="box" size=".05 .1 .1" mass=".2"/></body>"""


@pytest.mark.benchmark
def test_a_pinched_bar(tmp_path: Path) -> None:
    """A bar between two jaws, held without slip: it sinks by 2 micrometres a second at most."""
    scene, hand = scene_of(tmp_path, PINCH, 1, 'cone="elliptic" impratio="10"', floor=FLOOR, precision="double")
    dofs = [hand.dofs_of("left")[0], hand.dofs_of("right")[0]]
    speeds = []
    for noslip in (0, 10):
        engine = scene.running.engine
        engine.settings = replace(engine.settings, noslip_iterations=noslip)
        scene.reset()
        hand.control_dofs_force([[5.0, -5.0]], dofs_idx=dofs)
        scene.step(500)
        before = float(hand.get_qpos()[0, 2])
        scene.step(1000)
        speeds.append((before - float(hand.get_qpos()[0, 2])) / 2.0)
    print(f"pinched: creeps at {speeds[0] * 1e6:.1f}, without slip {speeds[1] * 1e6:.3f} micrometres a second")
    assert abs(speeds[1]) < 2e-6

"""Grips: what is pressed to a wall, and pinched."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import kinema as km

from .measured import FLOOR, GRAVITY, Measured, scene_of

WALL = """<geom name="wall" type="box" size=".1 1 1" pos="-.1 0 1" friction=".5"/>
<body pos=".1 0 1"><freejoint/><geom type="box" size=".1 .1 .1" mass="1" friction=".5"/></body>
<body pos=".3 0 1"><freejoint/><geom type="box" size=".1 .1 .1" mass="1" friction=".5"/></body>
<body pos=".45 0 1"><joint name="press" type="slide" axis="1 0 0"/>
<geom type="box" size=".05 .1 .1" mass="1" friction=".5"/></body>
<body pos="5 0 .15"><joint name="other" type="slide" axis="0 0 1"/>
<geom type="box" size=".1 .1 .1" mass="1"/></body>"""
RATIO, HARD_RATIO = 1_000, 10_000
CONE = 'cone="elliptic" impratio="{}"'
"""With how much harder friction is than the normal."""
NEEDED, ELSEWHERE = 2 * GRAVITY / (2 * 0.5), 1e4
"""What friction needs to hold both boxes, and what is pressed elsewhere [N]."""


def wall(precision: str = "single", seconds: float = 20.0, ratio: int = RATIO) -> list[Measured]:
    """Two boxes between a wall and a press: 1.1 times what friction needs holds them, 0.95 times does not.

    With friction that may not slip, 2.5 times holds them likewise.
    """
    scene, grip = scene_of(WALL, 3, CONE.format(ratio), floor=FLOOR, precision=precision)
    press, found = NEEDED * np.array([1.1, 0.95, 2.5]), []
    for noslip in (0, 20):
        engine = scene.built.engine
        engine.settings = replace(engine.settings, noslip_iterations=noslip)
        scene.reset()
        found.append(_sunk(scene, grip, press, np.zeros(3), seconds))
    soft, firm = found
    each = f"in {seconds:g} s"
    return [
        Measured(f"pressed by 1.1 of what it needs: sinks {each}, a second", soft[0] / seconds, 2e-5, unit="m/s"),
        Measured(f"by 1.1, without slip: {each}", firm[0], 1e-2, unit="m"),
        Measured(f"by 2.5, without slip: {each}", firm[2], 1e-2, unit="m"),
        Measured("by 0.95: falls", soft[1], 0.3, True, "m"),
        Measured("by 0.95, without slip: falls", firm[1], 0.3, True, "m"),
    ]


def beside_a_press(precision: str = "single", seconds: float = 20.0) -> list[Measured]:
    """The same grip is not to be affected by what another body is pressed with: as usual, and solved by islands."""
    found = []
    for name, islands in (("", False), (", by islands", True)):
        scene, grip = scene_of(WALL, 2, CONE.format(RATIO), floor=FLOOR, precision=precision, islands=islands)
        sunk = _sunk(scene, grip, np.full(2, 1.1 * NEEDED), np.array([0.0, ELSEWHERE]), seconds)
        found.append(Measured(f"beside 1e4 N on another body{name}: slips by", abs(sunk[1] - sunk[0]), 0.01, unit="m"))
    return found


def _sunk(scene: km.Scene, grip: Any, press: np.ndarray, elsewhere: np.ndarray, seconds: float) -> list[float]:
    """How far the boxes sink while they are pressed, after a second, in each environment [m]."""
    dofs = [grip.dofs_of("press")[0], grip.dofs_of("other")[0]]
    grip.control_dofs_force(-np.stack([press, elsewhere], axis=1), dofs_idx=dofs)
    scene.step(500)
    start = grip.get_qpos()[:, [2, 9]]
    scene.step(round(seconds / scene.dt))
    return [abs(float(x)) for x in (start - grip.get_qpos()[:, [2, 9]]).max(axis=1)]


PINCH = """<body pos="0 0 1"><freejoint/><geom type="capsule" size=".03 .1" mass=".1" friction=".8"/></body>
<body pos="-.08 0 1"><joint name="left" type="slide" axis="1 0 0"/>
<geom type="box" size=".05 .1 .1" mass=".2"/></body>
<body pos=".08 0 1"><joint name="right" type="slide" axis="1 0 0"/>
<geom type="box" size=".05 .1 .1" mass=".2"/></body>"""


def pinch(precision: str = "double") -> list[Measured]:
    """A bar between two jaws, held without slip: it hardly sinks."""
    scene, hand = scene_of(PINCH, 1, 'cone="elliptic" impratio="10"', floor=FLOOR, precision=precision)
    engine = scene.built.engine
    engine.settings = replace(engine.settings, noslip_iterations=10)
    scene.reset()
    hand.control_dofs_force([[5.0, -5.0]], dofs_idx=[hand.dofs_of("left")[0], hand.dofs_of("right")[0]])
    scene.step(500)
    before = float(hand.get_qpos()[0, 2])
    scene.step(1000)
    sunk = (before - float(hand.get_qpos()[0, 2])) / 2.0
    return [Measured("a pinched bar creeps", abs(sunk), 2e-6, unit="m/s")]

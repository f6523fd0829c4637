"""What both halves of the porting tests share: one small model, and how a program and its port are compared."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

HEAD = '<option timestep="0.002" integrator="implicitfast" tolerance="1e-15" iterations="200"/>'
BALL = """<geom name="floor" type="plane" size="5 5 .1" friction="0.8"/>
<body name="ball" pos="0 1 0.098"><freejoint/><geom name="ball" size="0.1" mass="0.5" friction="0.6"/></body>"""
ARM = """<body name="upper" pos="0 0 1"><joint name="joint1" axis="0 1 0" damping="0.2" armature="0.01"/>
<geom type="capsule" fromto="0 0 0 .3 0 0" size=".03" mass="1"/>
<body name="lower" pos=".3 0 0"><joint name="joint2" axis="0 0.6 0.8" damping="0.1"/>
<geom type="capsule" fromto="0 0 0 .2 0 0" size=".02" mass="0.5"/></body></body>"""
TAIL = """<actuator><position name="servo" joint="joint1" kp="20" kv="1"/>
<motor name="motor" joint="joint2" gear="0.5"/></actuator>
<keyframe><key name="home" qpos="0.4 -0.3" qvel="0.1 0.2" ctrl="0.5 0.1"/></keyframe>"""
MODELS = {
    "arm": f"<mujoco>{HEAD}<worldbody>{ARM}</worldbody>{TAIL}</mujoco>",
    "ball": f"<mujoco>{HEAD}<worldbody>{BALL}</worldbody></mujoco>",
}
"""An arm of two links, and a ball on the floor."""


def model_file(folder: Path, model: str) -> Path:
    """A model in a file of its own."""
    file = folder / f"{model}.xml"
    file.write_text(MODELS[model])
    return file


def n_lines(program: Callable[..., Any] | str) -> int:
    """How many lines of a program do something."""
    text = program if isinstance(program, str) else inspect.getsource(program)
    lines = [line.strip() for line in text.splitlines()]
    if not isinstance(program, str):
        lines = lines[1:]  # what makes it a function
    return sum(1 for line in lines if line and not line.startswith(("#", '"""')))


@dataclass(frozen=True)
class Pair:
    """A program, and its port; both give the numbers that they end with."""

    name: str
    original: Callable[[str], Any] | str
    port: Callable[[str], Any]
    tolerance: float = 1e-9
    model: str = "arm"


def compare(pair: Pair, expected: Any, found: Any) -> None:
    """The same numbers, in no more lines."""
    assert n_lines(pair.port) <= n_lines(pair.original), f"{pair.name} takes more lines"
    for i, (a, b) in enumerate(zip(expected, found, strict=True)):
        np.testing.assert_allclose(np.squeeze(b), np.squeeze(a), atol=pair.tolerance, err_msg=f"{pair.name}: {i}")

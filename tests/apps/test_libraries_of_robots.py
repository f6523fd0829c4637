"""Robots as libraries: a C program takes 1,000 steps with contact with the same bits as the scene; the controller."""

from __future__ import annotations

import re
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as km
from kit.assets import EXAMPLES, ROOT, all_assets, asset_id

from .compiled_leg import run, tool

CONTROLLER = ROOT / "examples" / "controller"
N_CALLS, STEPS_PER_CALL = 10, 100
BALL_RADIUS, BALL_HEIGHT = 0.0625, 0.25
PROGRAM = """
#include <stdio.h>
#include "robot.h"

static robot_workspace workspace;

int main(void) {
    static robot_state state;
    static robot_control control;
    int k;
    state = robot_initial_state;
    control = robot_initial_control;
    for (k = 0; k < 10; k++) {
#if ROBOT_N_ACTUATORS > 0
        int i;
        for (i = 0; i < ROBOT_N_ACTUATORS; i++) control.ctrl[i] += 0.0625 * ((k + i) % 5 - 2);
#endif
        robot_step(&state, &control, 100, &workspace);
        fwrite(&state, sizeof state, 1, stdout);
    }
    return 0;
}
"""
STRICT = ["-Wall", "-Wextra", "-pedantic", "-Werror"]
SMALL = ["cartpole/cartpole.xml", "hopper/hopper.xml"]
BUNDLED = [*SMALL, "acrobot/acrobot.xml", "gripper/gripper.sdf", "arm/arm.urdf", "quadruped/quadruped.xml"]


def robots_and_ball(robots: Sequence[Path]) -> km.Scene:
    """Robots with a floor, on which a ball falls, so that there are contacts."""
    together: dict[str, Any] = {"dt": 0.002, "integrator": "implicitfast"} if len(robots) > 1 else {}
    scene = km.Scene(precision="double", quiet=True, **together)
    for i, robot in enumerate(robots):
        scene.add(robot, name=f"robot{i}", errors="keep", **({"pos": (3.0 * i, 0.0, 0.0)} if i else {}))
    scene.add(km.Plane())
    scene.add(km.Sphere(BALL_RADIUS), pos=(0.0, 3.0, BALL_HEIGHT))
    scene.build()
    return scene


def check_library(scene: km.Scene, folder: Path, functions: Sequence[str] | None = None) -> None:
    """Compile a scene, build a C program with it, and compare its states with those of the scene."""
    gcc = tool("gcc")
    library = km.compile_library(scene, folder, name="robot", functions=functions)
    (folder / "run.c").write_text(PROGRAM)
    run(gcc, "-std=c99", *STRICT, f"-I{folder}", folder / "run.c", library.files["static"], "-o", folder / "run")
    run(tool("g++"), "-std=c++17", *STRICT, "-fsyntax-only", "-x", "c++", library.files["c++"])
    found = np.frombuffer(run(folder / "run")).reshape(N_CALLS, -1)
    engine, entities = scene.built.engine, [entity for entity in scene.entities if entity.n_actuators]
    controls = [np.asarray(entity.get_control(), float) for entity in entities]
    start = [entity.info.actuator_start for entity in entities]
    for k in range(N_CALLS):
        for entity, values, first in zip(entities, controls, start, strict=True):
            values += 0.0625 * ((k + first + np.arange(entity.n_actuators)) % 5 - 2)
            entity.control(values)
        scene.step(STEPS_PER_CALL)
        expected = np.concatenate([engine.read_array(name)[:, 0] for name in engine.state.layout.rows])
        np.testing.assert_array_equal(found[k][: len(expected)], expected)
    assert engine.read_array("max_n_contacts")[0, 0] >= 1


@pytest.mark.slow("optimises the code of several robots in contact")
def test_small_robots_simulate_in_c_with_the_same_bits(tmp_path: Path) -> None:
    """All in one scene, so that it is one library."""
    check_library(robots_and_ball([EXAMPLES / name for name in SMALL]), tmp_path, ["step"])


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", BUNDLED)
def test_bundled_robots_simulate_in_c_with_the_same_bits(name: str, tmp_path: Path) -> None:
    check_library(robots_and_ball([EXAMPLES / name]), tmp_path)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "robot", all_assets("urdf/*/*.urdf", "sdf/*/*.sdf", "mjcf/*/*.xml", "usd/*/*.usd*"), ids=asset_id
)
def test_every_shared_robot_simulates_in_c_with_the_same_bits(robot: Path, tmp_path: Path) -> None:
    try:
        scene = robots_and_ball([robot])
    except km.ReadError:
        pytest.skip("it is no robot")
    except km.KinemaError as error:  # such as links without mass
        assert "cannot be simulated" in str(error)  # noqa: PT017
        pytest.skip(str(error))
    check_library(scene, tmp_path)


@pytest.mark.exhaustive
@pytest.mark.slow("optimises the code of an arm, and follows a motion in real time")
def test_the_controller_follows_its_motion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example in C++: computed torque with its own compiled simulation of the arm."""
    compiler = tool("g++")
    monkeypatch.setattr(sys, "argv", ["compile_arm.py", "--out", str(tmp_path)])
    runpy.run_path(str(CONTROLLER / "compile_arm.py"), run_name="__main__")
    command = [compiler, "-std=c++17", "-O1", *STRICT, f"-I{tmp_path}", CONTROLLER / "main.cpp", tmp_path / "libarm.a"]
    run(*command, "-o", tmp_path / "controller")
    printed = run(tmp_path / "controller", "--cycles", 6000).decode()
    found = re.search(r"tracking error: (\S+)", printed)
    assert found is not None
    assert float(found[1]) < 0.025
    for name in ("latency", "processor time"):
        found = re.search(rf"{name} \[us\]: median (\S+), 99.9 % (\S+), 99.99 % (\S+), maximum (\S+)", printed)
        assert found is not None
        median, *larger, worst = map(float, found.groups())
        assert 0 < median <= larger[0] <= larger[1] <= worst
        assert median < 200

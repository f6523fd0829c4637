"""`kinema simulate --profile` and the tiers that a run reports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kinema.apps.cli.simulate import CodeTiers
from kinema.apps.cli.simulate_profile import process_age, start_stage_times
from kinema.core import record_stages, timed_stage
from kit import command_line

BOX = """<mujoco><worldbody><geom type="plane" size="1 1 .1"/><body name="box" pos="0 0 .1"><freejoint/>
<geom type="box" size=".1 .1 .1"/></body></worldbody></mujoco>"""


def run(*arguments: object) -> tuple[int, str, str]:
    return command_line.run("simulate", *arguments)


@pytest.fixture
def box(tmp_path: Path) -> Path:
    file = tmp_path / "box.xml"
    file.write_text(BOX)
    return file


@pytest.fixture
def profiled(box: Path) -> dict[str, Any]:
    code, out, err = run(box, "--steps", 60, "--profile", "--json")
    assert (code, err) == (0, "")
    data: dict[str, Any] = json.loads(out)
    return data


def test_the_start_is_divided_into_its_stages(profiled: dict[str, Any]) -> None:
    start = profiled["profile"]["start"]
    assert {"read", "add", "model", "derived quantities", "load"} <= start.keys()
    assert all(seconds > 0 for seconds in start.values())
    if process_age() is not None:
        assert next(iter(start)) == "import"
    assert start["read"] == pytest.approx(profiled["seconds"]["read"])


def test_the_phases_of_a_step_add_up_to_it(profiled: dict[str, Any]) -> None:
    step = profiled["profile"]["step"]
    order = ["kinematics and dynamics", "broad phase", "narrow phase", "constraint rows", "solver"]
    assert list(step["phases"]) == [*order, "accelerations and integration"]
    assert sum(step["phases"].values()) == pytest.approx(step["seconds_timed"])
    assert sum(block["seconds"] for block in step["blocks"]) == pytest.approx(step["seconds_timed"])
    assert step["phases"]["solver"] > 0
    assert step["counts"]["contacts"] == pytest.approx(4.0)
    assert step["counts"]["iterations"] >= 0
    assert step["counts"]["rows"] >= 12
    assert "one thread" in step["how"]


def test_profiling_changes_no_result(profiled: dict[str, Any], box: Path) -> None:
    plain = json.loads(run(box, "--steps", 60, "--json")[1])
    assert plain["final"] == profiled["final"]
    assert "profile" not in plain


def test_the_profile_is_printed(box: Path) -> None:
    out = run(box, "--steps", 20, "--profile")[1]
    for words in ("derived quantities", "narrow phase", "solver", "untimed", "measured: ", "contacts: "):
        assert words in out


@pytest.mark.parametrize("integrator", ["euler", "rk4"])
def test_a_straight_line_is_one_phase(tmp_path: Path, integrator: str) -> None:
    file = tmp_path / "pendulum.urdf"
    file.write_text(
        '<robot name="p"><link name="a"/><link name="b"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" '
        'ixy="0" ixz="0" iyz="0"/></inertial></link><joint name="j" type="continuous"><parent link="a"/>'
        '<child link="b"/></joint></robot>'
    )
    options = ("--steps", 20, "--envs", 3, "--integrator", integrator, "--profile", "--json")
    data = json.loads(run(file, *options)[1])
    assert list(data["profile"]["step"]["phases"]) == ["the whole step"]


def test_a_scene_without_joints_has_no_step(tmp_path: Path) -> None:
    file = tmp_path / "rock.urdf"
    file.write_text('<robot name="rock"><link name="rock"/></robot>')
    assert json.loads(run(file, "--steps", 3, "--profile", "--json")[1])["profile"]["step"] == {}


def test_the_tier_is_named(box: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KINEMA_TIER", "baseline")
    data = json.loads(run(box, "--steps", 7, "--json")[1])
    assert data["code"]["steps"] == {"baseline": 7}
    assert set(data["code"]["active_after"]) == {"baseline"}
    rows = {line.split()[0]: line.split()[1:] for line in run(box, "--steps", 7)[1].splitlines() if line.strip()}
    assert rows["code"] == ["baseline"]


def test_other_runs_import_nothing_that_traces() -> None:
    program = (
        "import sys, kinema.apps.cli.simulate\n"
        "print([m for m in ('kinema.ir.unroll', 'kinema.dynamics.pipeline', 'mujoco', 'pxr') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_switch_of_tiers_is_told() -> None:
    switched = CodeTiers({"baseline": 320, "optimised": 680}).describe(
        {"baseline": 0.5, "optimised": 4.24}, is_compiling=False
    )
    assert switched == "baseline for 320 steps, optimised after 4.2 s"
    assert CodeTiers({"optimised": 10}).describe({"optimised": 0.1}, is_compiling=False) == "optimised"
    assert "in the background" in CodeTiers({"baseline": 10}).describe({"baseline": 0.1}, is_compiling=True)


def test_stages_have_their_own_time_and_add_up() -> None:
    with record_stages() as found, timed_stage("tracing"), timed_stage("derived"):
        pass
    assert set(found) == {"other", "tracing", "derived"}
    named = start_stage_times({"tracing": 1.0, "trace": 0.5, "other": 0.25, "unheard of": 0.25}, 2.0)
    assert named == {"import": 2.0, "trace": 1.5, "other": 0.5}

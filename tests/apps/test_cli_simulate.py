"""`kinema simulate`: what it prints, its exit status, and that it never shows a traceback."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from kit import command_line

PENDULUM = """<robot name="clock"><link name="wall"/><link name="bob">
<inertial><origin xyz="0 0 -0.5"/><mass value="1"/><inertia ixx="0.001" iyy="0.001" izz="0.001" ixy="0" ixz="0"
iyz="0"/></inertial></link><joint name="hinge" type="revolute"><parent link="wall"/><child link="bob"/>
<axis xyz="0 1 0"/><limit lower="-0.5" upper="0.8" effort="100" velocity="10"/></joint></robot>"""


def run(*arguments: object) -> tuple[int, str, str]:
    return command_line.run("simulate", *arguments)


@pytest.fixture
def clock(tmp_path: Path) -> Path:
    file = tmp_path / "clock.urdf"
    file.write_text(PENDULUM)
    return file


def test_a_summary_is_printed(clock: Path) -> None:
    code, out, _ = run(clock, "--envs", 3, "--steps", 20)
    assert code == 0
    for words in (
        "clock: 2 links, 1 degrees of freedom",
        "3 on cpu, single precision",
        "20 of 0.002 s (implicitfast), control: zero",
        "0.04 s in each environment",
        "environment-steps/s",
        "a drift of",
        "hinge",
        "all environments are fine",
    ):
        assert words in out


def test_json_has_everything_and_nothing_else_is_printed(clock: Path) -> None:
    code, out, err = run(clock, "--envs", 3, "--steps", 20, "--json")
    data = json.loads(out)
    assert (code, err) == (0, "")
    assert (data["robot"], data["n_dofs"], data["n_envs"], data["steps"], data["device"]) == ("clock", 1, 3, 20, "cpu")
    assert data["sim_time"] == pytest.approx(0.04)
    assert data["env_steps_per_second"] > 0
    assert data["realtime_factor"] == pytest.approx(data["env_steps_per_second"] * 0.002)
    assert {"read", "build", "trace", "compile", "step"} == set(data["seconds"])
    assert data["energy"]["end"] == pytest.approx(data["energy"]["start"], abs=1e-6)
    assert data["n_error_envs"] == 0
    assert data["final"]["qpos"] == [0.0]
    assert set(data["final"]["links"]) == {"wall", "bob"}


def test_random_targets_repeat_with_their_seed_and_are_within_limits(clock: Path) -> None:
    options = ("--envs", 2, "--steps", 2000, "--dt", 0.005, "--control", "random", "--json")
    runs = [json.loads(run(clock, *options, "--seed", seed)[1])["final"]["qpos"][0] for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]
    assert all(-0.6 < q < 0.9 for q in runs)
    assert json.loads(run(clock, *options)[1])["energy"] is None


@pytest.mark.parametrize("integrator", ["euler", "rk4"])
def test_integrator_and_precision_are_passed_on(clock: Path, integrator: str) -> None:
    code, out, _ = run(clock, "--steps", 5, "--integrator", integrator, "--precision", "double", "--json")
    data = json.loads(out)
    assert (code, data["integrator"], data["precision"]) == (0, integrator, "double")


def test_time_step_and_integrator_of_an_mjcf_file(tmp_path: Path) -> None:
    """As the file says; an option of the command takes precedence."""
    file = tmp_path / "arm.xml"
    arm = '<worldbody><body><joint/><geom size="1"/></body></worldbody>'
    file.write_text(f'<mujoco><option timestep="0.01" integrator="RK4"/>{arm}</mujoco>')
    data = json.loads(run(file, "--steps", 5, "--json")[1])
    assert (data["dt"], data["integrator"], data["sim_time"]) == (0.01, "rk4", pytest.approx(0.05))
    data = json.loads(run(file, "--steps", 5, "--integrator", "implicit", "--json")[1])
    assert (data["dt"], data["integrator"]) == (0.01, "implicit")


def test_a_robot_that_cannot_be_simulated_gives_status_1(tmp_path: Path) -> None:
    file = tmp_path / "ghost.urdf"
    file.write_text(PENDULUM.replace('<mass value="1"/>', '<mass value="0"/>').replace("0.001", "0"))
    code, out, err = run(file)
    assert code == 1
    assert "sim.massless" in out
    assert err.startswith("error: ")
    assert 'joint "hinge" of link "bob"' in err
    code, out, _ = run(file, "--json")
    assert code == 1
    assert json.loads(out)["diagnostics"][0]["line"] == 3


def test_copies_that_go_wrong_give_status_1(tmp_path: Path) -> None:
    """A fall so fast that numbers end."""
    file = tmp_path / "wild.xml"
    file.write_text(
        '<mujoco><option gravity="0 0 -1e37"/><worldbody><body name="b"><joint name="s" type="slide" axis="0 0 1"/>'
        '<geom size=".1" mass="1"/></body></worldbody></mujoco>'
    )
    code, out, _ = run(file, "--envs", 2, "--steps", 50, "--dt", 1)
    assert code == 1
    assert "2 environments went wrong (not finite): 0, 1" in out
    code, out, _ = run(file, "--envs", 2, "--steps", 50, "--dt", 1, "--json")
    data = json.loads(out)
    assert (code, data["error_envs"]) == (1, [0, 1])
    assert not any(isinstance(x, float) and math.isnan(x) for x in data["final"]["qpos"])


@pytest.mark.parametrize(
    ("options", "words"),
    [(("--device", "cuda:99"), "device 'cuda:99' does not exist"), (("--dt", "0"), "dt"), (("--dt", "nan"), "dt")],
)
def test_impossible_options_are_one_line_and_status_2(clock: Path, options: tuple[str, ...], words: str) -> None:
    code, out, err = run(clock, *options)
    assert (code, out) == (2, "")
    assert words in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "options", [("--envs", "0"), ("--steps", "0"), ("--control", "dance"), ("--precision", "half")]
)
def test_options_out_of_range_are_usage_errors(clock: Path, options: tuple[str, ...]) -> None:
    assert run(clock, *options)[0] == 2


def test_an_unreadable_file_is_one_line_and_status_2(tmp_path: Path) -> None:
    code, out, err = run(tmp_path / "missing.urdf")
    assert (code, out) == (2, "")
    assert "no such file" in err
    assert "no such file" in json.loads(run(tmp_path / "missing.urdf", "--json")[1])["error"]


def test_scenery_is_simulated_without_complaint(tmp_path: Path) -> None:
    file = tmp_path / "rock.urdf"
    file.write_text('<robot name="rock"><link name="rock"/></robot>')
    code, out, _ = run(file, "--steps", 3, "--json")
    assert (code, json.loads(out)["final"]["qpos"]) == (0, [])


def test_the_help_needs_none_of_the_heavy_packages() -> None:
    program = (
        "import sys\nfrom typer.testing import CliRunner\nfrom kinema.apps.cli.commands import app\n"
        "out = CliRunner().invoke(app, ['simulate', '--help']).stdout\nassert '--envs' in out and '--control' in out\n"
        "print([m for m in ('warp', 'numpy', 'scipy', 'mujoco', 'pxr') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_pose_that_is_not_held_gives_status_1(tmp_path: Path) -> None:
    """The motor is too weak for the weight; with a stronger one all is well."""
    text = (
        '<robot name="crane"><link name="base"/><link name="boom"><inertial><origin xyz="1 0 0"/><mass value="2"/>'
        '<inertia ixx=".1" iyy=".1" izz=".1" ixy="0" ixz="0" iyz="0"/></inertial></link>'
        '<joint name="lift" type="revolute"><parent link="base"/><child link="boom"/><axis xyz="0 1 0"/>'
        '<limit lower="-2" upper="2" effort="{}" velocity="1"/></joint></robot>'
    )
    file = tmp_path / "crane.urdf"
    file.write_text(text.format(10))
    code, out, _ = run(file, "--control", "hold", "--base", "fixed")
    assert code == 1
    assert "the pose is not held" in out
    assert '"lift" by' in " ".join(out.split())
    assert "of its effort limit" in " ".join(out.split())
    code, out, _ = run(file, "--control", "hold", "--base", "fixed", "--json")
    assert (code, json.loads(out)["hold"]["held"]) == (1, False)
    file.write_text(text.format(30))
    code, out, _ = run(file, "--control", "hold", "--base", "fixed")
    assert code == 0
    assert "the pose is held" in out

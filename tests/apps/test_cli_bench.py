"""`kinema bench`: figures beside MuJoCo's, checked in the same run."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from kinema.apps.bench import load_case
from kinema.apps.cli import app
from kit.assets import ROOT

ARM = ROOT / "examples" / "robots" / "arm" / "arm.urdf"


def bench(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["bench", *arguments, "--seconds", "0.05", "--device", "cpu"])
    return result.exit_code, result.output


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict, Path]:
    """One run for all tests."""
    chart = tmp_path_factory.mktemp("bench") / "chart.svg"
    status, output = bench(str(ARM), "--envs", "16,40", "--json", "--no-startup", "--plot", str(chart))
    assert status == 0, output
    return json.loads(output.splitlines()[-1]), chart


def test_simulators_are_compared_on_the_same_robot(figures: tuple[dict, Path]) -> None:
    results = figures[0]["results"]
    assert {r["case"] for r in results} == {"arm"}
    assert {r["n_dofs"] for r in results} == {8}
    names = {r["figures"]["simulator"] for r in results}
    assert {"MuJoCo C, one core", "Kinema, rollout, one core", "Kinema, step by step, one core"} <= names
    assert {r["figures"]["n_envs"] for r in results if "Kinema" in r["figures"]["simulator"]} == {16, 40}
    assert all(r["figures"]["rate"] > 0 and r["ratio"] > 0 for r in results)


def test_results_are_finite_and_agree_with_mujoco(figures: tuple[dict, Path]) -> None:
    """After twenty steps of random commands in single precision."""
    ours = [r["figures"] for r in figures[0]["results"] if "Kinema" in r["figures"]["simulator"]]
    assert ours
    assert all(f["finite"] and 0 < f["error"] < 1e-4 for f in ours)


def test_mimic_joints_are_equally_soft_in_both_models() -> None:
    """Mimic joints of Kinema are rigid by default, those of MuJoCo soft: the error is to compare integrations only."""
    case = load_case(ARM)
    assert len(case.model.couplings.is_rigid) == case.mujoco_model.neq == 1
    assert not case.model.couplings.is_rigid.any()
    assert case.model.couplings.solref[0].tolist() == case.mujoco_model.eq_solref[0].tolist()
    assert case.model.couplings.solimp[0].tolist() == case.mujoco_model.eq_solimp[0].tolist()


def test_one_environment_is_measured_too(figures: tuple[dict, Path]) -> None:
    assert set(figures[0]["one_environment"]["arm"]) == {"step", "step(10)", "mj_step", "mj_step(10)"}


def test_the_chart_is_a_picture_with_a_bar_for_each_result(figures: tuple[dict, Path]) -> None:
    root = ElementTree.parse(figures[1]).getroot()
    bars = [e for e in root.iter() if e.tag.endswith("rect")]
    assert len(bars) == len(figures[0]["results"]) + 1  # and the background


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(("nowhere.urdf",), "no such file"), ((str(ARM), "--envs", "many"), "not a list of numbers")],
)
def test_what_cannot_be_measured_gives_one_clear_error(arguments: tuple[str, ...], said: str) -> None:
    status, output = bench(*arguments)
    assert status == 2
    assert said in output
    assert "Traceback" not in output

"""The examples run, in their short form, and what they check of themselves holds."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
SCRIPTS = ("shake_robot", "identify", "sampled_mpc", "convert_library", "grip_and_lift", "compliant_insertion")


@pytest.mark.parametrize("script", SCRIPTS)
def test_an_example_runs(script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    picture = tmp_path / ("picture.svg" if script in ("shake_robot", "identify", "sampled_mpc") else "picture.png")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setattr(sys, "argv", [script, "--short", "--picture", str(picture)])
    runpy.run_path(str(EXAMPLES / f"{script}.py"), run_name="__main__")
    assert picture.stat().st_size > 500

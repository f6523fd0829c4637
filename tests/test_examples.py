"""The examples run, in their short form, and what they check of themselves holds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
SCRIPTS = (
    "shake_robot",
    "identify",
    "sampled_mpc",
    "convert_library",
    "grip_and_lift",
    "compliant_insertion",
    "plan_to_shelf",
    "pick_from_conveyor",
    "sort_parcels",
)


@pytest.mark.exhaustive
@pytest.mark.parametrize("script", SCRIPTS)
def test_an_example_runs(script: str, tmp_path: Path) -> None:
    picture = tmp_path / ("picture.svg" if script in ("shake_robot", "identify", "sampled_mpc") else "picture.png")
    command = [sys.executable, str(EXAMPLES / f"{script}.py"), "--short", "--picture", str(picture)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert picture.stat().st_size > 500

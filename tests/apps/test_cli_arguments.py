"""Numbers on the command line that cannot be meant: a usage error, at once."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from kinema.apps.cli import app
from kit.assets import EXAMPLES

ARM = str(EXAMPLES / "arm" / "arm.urdf")


@pytest.mark.parametrize(
    "arguments",
    [
        *(("bench", "--seconds", s) for s in ("-1", "0", "nan", "inf", "x")),
        *(("bench", "--envs", s) for s in ("0", "4,0", "-2", "1.5", "", "4,")),
        *(("simulate", "--envs", s) for s in ("0", "-1", "1.5")),
        *(("simulate", "--steps", s) for s in ("0", "-1", "2.5")),
        *(("simulate", "--seed", s) for s in ("-1", "0.5")),
        ("simulate", "--dt", "x"),
        ("convert", "--jobs", "0", "out.usda"),
    ],
    ids=" ".join,
)
def test_usage_errors(arguments: tuple[str, ...]) -> None:
    """Exit status 2, and the option is named."""
    command, option, *_ = arguments
    result = CliRunner().invoke(app, [command, ARM, *arguments[1:]])
    assert result.exit_code == 2
    assert option in result.output
    assert "Usage" in result.output


@pytest.mark.parametrize(
    ("option", "value"),
    [*(("--dt", s) for s in ("-1", "0", "nan", "inf")), ("--device", "tpu"), ("--device", "cuda:")],
)
def test_what_a_scene_refuses(option: str, value: str) -> None:
    """One line, before the file is read."""
    result = CliRunner().invoke(app, ["simulate", "not there.urdf", option, value])
    assert result.exit_code == 2
    assert len(result.output.strip().splitlines()) == 1
    assert option.removeprefix("--") in result.output

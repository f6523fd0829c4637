"""`kinema --version`, and what shells are told when somebody presses Tab."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

import kinema
from kinema.apps.cli import app
from kit.command_line import run

MAIN = "import sys; from kinema.apps.cli import main; sys.argv = ['kinema', *sys.argv[1:]]; main()"


def _kinema(*arguments: str, **environment: str) -> str:
    """What the command prints, in a process with these variables."""
    process = [sys.executable, "-c", MAIN, *arguments]
    done = subprocess.run(process, env={**os.environ, **environment}, capture_output=True, text=True, check=True)
    return done.stdout


def test_the_version_is_that_of_the_package() -> None:
    assert run("--version") == (0, f"kinema {kinema.__version__}\n", "")


def test_tab_offers_every_command() -> None:
    offered = _kinema(_KINEMA_COMPLETE="complete_bash", COMP_WORDS="kinema ", COMP_CWORD="1").split()
    assert {"info", "check", "convert", "simulate", "view"} <= set(offered)
    assert set(offered) == set(typer.main.get_command(app).commands)  # pyright: ignore[reportAttributeAccessIssue]


def test_tab_offers_options_and_their_values() -> None:
    words = {"_KINEMA_COMPLETE": "complete_bash"}
    options = _kinema(**words, COMP_WORDS="kinema convert --lay", COMP_CWORD="2").split()
    assert options == ["--layout", "--layered"]
    values = _kinema(**words, COMP_WORDS="kinema convert --layout ", COMP_CWORD="3").split()
    assert values == ["nested", "flat"]


@pytest.mark.parametrize(("shell", "file"), [("bash", ".bashrc"), ("zsh", ".zshrc")])
def test_completion_installs_itself(tmp_path: Path, shell: str, file: str) -> None:
    """Into the home of whoever asks, for the shell that is named; what is installed asks `kinema`."""
    _kinema("--install-completion", shell, HOME=str(tmp_path), _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert (tmp_path / file).exists()
    installed = [p.read_text() for p in tmp_path.rglob("*") if p.is_file()]
    assert any(f"_KINEMA_COMPLETE=complete_{shell}" in text for text in installed)

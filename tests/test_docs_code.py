"""What the documentation tells people to type works: blocks of Python, and commands of the five-minute start.

A page's blocks run one after the other in one namespace, as a reader would. What a page leaves to the reader stands in
comments of the page that the site does not show (sybil's `invisible-code-block` and `skip`).
"""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

from kit.assets import ROOT
from kit.command_line import run

PAGES = sorted(p for p in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")] if "```python" in p.read_text())
SLOW = {"README.md", "docs/rendering.md"} | {
    f"docs/{n}.md"
    for n in (
        *("index", "from/genesis", "attachments", "dynamics", "scenes", "contacts", "kinematics", "motion-planning"),
        *("gradients", "sensors"),
    )
}
"""Those that compile or draw for long; run with -m benchmark."""


def _marked(page: Path) -> object:
    name = page.relative_to(ROOT).as_posix()
    return pytest.param(page, id=name, marks=[pytest.mark.benchmark] if name in SLOW else [])


@pytest.fixture(autouse=True)
def beside_the_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that looks as the repository does to a page, and may be written to."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "build").mkdir()
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("page", [_marked(page) for page in PAGES])
def test_blocks_of_python_run(page: Path) -> None:
    sybil = Sybil([PythonCodeBlockParser(), SkipParser()])
    examples = list(sybil.parse(page).examples())
    assert examples, "no block was found"
    for example in examples:
        example.evaluate()


def _commands(page: Path) -> list[str]:
    """The lines of a page that begin with `kinema`."""
    return [line for line in page.read_text().splitlines() if line.startswith("kinema ")]


STARTED = [c for name in ("index.md", "from/gazebo.md") for c in _commands(ROOT / "docs" / name)]
ENDLESS = [c for c in STARTED if " view " in c]
LONG = [c for c in STARTED if " simulate " in c or " --to all " in c]
QUICK = [c for c in STARTED if c not in ENDLESS + LONG]


def test_the_start_has_commands() -> None:
    assert {shlex.split(c)[1] for c in STARTED} == {"--version", "info", "check", "view", "convert", "simulate"}


def _works(command: str) -> None:
    code, out, err = run(*shlex.split(command)[1:])
    assert code == 0, err
    assert out


@pytest.mark.parametrize("command", QUICK)
def test_commands_of_the_start_work_as_written(command: str) -> None:
    _works(command)


@pytest.mark.benchmark
@pytest.mark.parametrize("command", LONG)
def test_long_commands_of_the_start_work_as_written(command: str) -> None:
    _works(command)

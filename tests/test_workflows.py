"""The files that other machines run are true: what they call exists, and they ask for what the package says."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path
from typing import Any

import pytest
import yaml

from kit.assets import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z]+):", MAKEFILE, re.MULTILINE))


def _workflow(file: Path) -> dict[str, Any]:
    return yaml.safe_load(file.read_text())


def _commands(file: Path) -> list[str]:
    steps = [step for job in _workflow(file)["jobs"].values() for step in job["steps"]]
    return [line for step in steps for line in step.get("run", "").splitlines() if line.strip()]


def test_there_are_workflows_for_tests_wheels_and_the_site() -> None:
    assert [w.stem for w in WORKFLOWS] == ["docs", "tests", "wheels"]


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda f: f.stem)
def test_commands_of_workflows_exist(file: Path) -> None:
    """All of them are targets of the Makefile, which says what would be run, with the variables that it knows."""
    for command in _commands(file):
        program, *arguments = shlex.split(command)
        assert program == "make", f"{file.name}: {command}"
        targets = [a for a in arguments if "=" not in a]
        assert targets
        assert set(targets) <= TARGETS, command
        for variable in (a.partition("=")[0] for a in arguments if "=" in a):
            assert re.search(rf"^{variable}\s*\?=", MAKEFILE, re.MULTILINE), f"{file.name}: {command}"
        subprocess.run(["make", "--dry-run", *arguments], cwd=ROOT, check=True, capture_output=True)


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda f: f.stem)
def test_steps_name_versions_and_jobs_end(file: Path) -> None:
    for name, job in _workflow(file)["jobs"].items():
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step)
            assert re.fullmatch(r"[\w/-]+@v\d+", step.get("uses", "a/b@v1"))
        assert "timeout-minutes" in job or name == "publish"


def test_machines_and_versions_are_those_of_the_package() -> None:
    matrix = _workflow(ROOT / ".github" / "workflows" / "tests.yml")["jobs"]["test"]["strategy"]["matrix"]
    said = [c.rpartition(" ")[2] for c in PROJECT["classifiers"] if "Python :: 3." in c]
    assert matrix["python"] == said
    assert PROJECT["requires-python"] == f">={said[0]}"
    assert {s.partition("-")[0] for s in matrix["system"]} == {"ubuntu", "macos"}
    assert any(s.endswith("-arm") for s in matrix["system"])


def test_the_container_copies_what_there_is() -> None:
    text = (ROOT / "Dockerfile").read_text()
    for line in re.findall(r"^COPY (.*)$", text, re.MULTILINE):
        for source in line.split()[:-1]:
            assert (ROOT / source).exists(), source
    for part in (PROJECT["readme"], *PROJECT["license-files"], "src", "examples"):
        assert re.search(rf"^COPY .*\b{re.escape(part)}\b", text, re.MULTILINE), f"the build needs {part}"
    (extras,) = re.findall(r"'\.\[([\w,]+)\]'", text)
    assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])
    assert 'ENTRYPOINT ["kinema"]' in text
    assert "kinema" in PROJECT["scripts"]


def test_the_development_container_calls_a_target() -> None:
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    program, target = container["postCreateCommand"].split()
    assert program == "make"
    assert target in TARGETS


def test_installing_has_a_row_for_every_extra() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "installing.md").read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(PROJECT["optional-dependencies"])


def _run(command: str, folder: Path, **environment: str) -> None:
    """Run a command as a workflow would, with this Python as `python`; what it said is told where it fails."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    outcome = subprocess.run(
        shlex.split(command),
        cwd=folder,
        env={**os.environ, "PATH": path, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 0, f"{command}\n{outcome.stdout[-2000:]}\n{outcome.stderr[-2000:]}"


@pytest.mark.workflows
def test_commands_of_workflows_run_in_a_fresh_clone(tmp_path: Path) -> None:
    """All of them, each once; of the tests, which take long, those of one file."""
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    commands = [*(c for file in WORKFLOWS for c in _commands(file)), container["postCreateCommand"]]
    for command in sorted(dict.fromkeys(commands), key=lambda c: "setup" not in c):
        _run(command, clone, PYTEST_ADDOPTS="tests/test_words.py")
    assert (clone / "build" / "site" / "index.html").exists()
    assert {file.suffix for file in (clone / "dist").iterdir()} >= {".whl", ".gz"}


@pytest.mark.workflows
def test_the_container_is_built_and_answers(tmp_path: Path) -> None:
    """Its lines one by one, in an empty environment instead of an image: what is copied suffices."""
    text = (ROOT / "Dockerfile").read_text()
    image, python = tmp_path / "image", tmp_path / "python"
    for line in re.findall(r"^COPY (.*)$", text, re.MULTILINE):
        *sources, target = line.split()
        for source in (ROOT / name for name in sources):
            (image / target).mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, image / target, dirs_exist_ok=True)
            else:
                shutil.copy(source, image / target)
    venv.create(python, with_pip=True)
    (install,) = re.findall(r"^RUN (pip install .*)$", text, re.MULTILINE)
    _run(install.replace("pip", str(python / "bin" / "pip"), 1).replace("--no-cache-dir", ""), image)
    (entry,), (arguments,) = (json.loads(x) for x in re.findall(r"^(?:ENTRYPOINT|CMD) (.*)$", text, re.MULTILINE))
    _run(f"{python / 'bin' / entry} {arguments}", image)
    _run(f"{python / 'bin' / entry} info examples/robots/arm/arm.urdf", image)

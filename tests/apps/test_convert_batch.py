"""Converting a whole folder: what is found, where it goes, failures, the table, and being killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kinema.apps.cli.commands import app
from kinema.apps.cli.convert import format_named
from kinema.apps.cli.convert_batch import target_names
from kinema.apps.cli.find_robots import find_robots
from kinema.apps.cli.processes import work_on_all
from kinema.foundation import WriteError, collect
from kinema.read import read
from support import EXAMPLES

GOOD = """<robot name="a"><link name="a"/><link name="b"/>
<joint name="j" type="fixed"><parent link="a"/><child link="b"/></joint></robot>"""
WITH_ERRORS = GOOD.replace('<link name="b"/>', '<link name="b"/><link name="b"/>')


def run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def test_a_folder_is_converted_past_failures(tmp_path: Path) -> None:
    """Good, faulty and unreadable files: each has its line, and the exit status is the worst."""
    source, out, report = tmp_path / "in", tmp_path / "out", tmp_path / "report.json"
    (source / "deep").mkdir(parents=True)
    (source / "deep" / "good.urdf").write_text(GOOD)
    (source / "faulty.urdf").write_text(WITH_ERRORS)
    (source / "broken.urdf").write_text(GOOD[:40])
    (source / "package.xml").write_text("<package/>")
    code, printed, _ = run("convert", "--to", "usda", source, out, "--jobs", 2, "--report", report)
    assert code == 2
    assert "✓ written" in next(line for line in printed.splitlines() if "good.urdf" in line)
    assert "1 errors" in next(line for line in printed.splitlines() if "faulty.urdf" in line)
    assert "✗" in next(line for line in printed.splitlines() if "broken.urdf" in line)
    assert "2 of 3 files" in printed
    assert sorted(str(p.relative_to(out)) for p in out.rglob("*") if p.is_file()) == ["deep/good.usda", "faulty.usda"]
    entries = {e["file"]: e for e in json.loads(report.read_text())}
    assert entries["deep/good.urdf"]["report"]["format"] == "usd"
    assert entries["broken.urdf"]["report"] is None
    (source / "broken.urdf").unlink()
    assert run("convert", "--to", "sdf", source, out)[0] == 1


def test_what_cannot_be_asked_for(tmp_path: Path) -> None:
    """One line that says what to do instead."""
    (tmp_path / "a.urdf").write_text(GOOD)
    (tmp_path / "empty").mkdir()
    for arguments, words in (
        (("convert", tmp_path, tmp_path / "out"), "--to usda"),
        (("convert", tmp_path, tmp_path / "out", "--to", "step"), "these can: usd, usda"),
        (("convert", tmp_path, tmp_path / "a.urdf", "--to", "usd"), "this is a file"),
        (("convert", tmp_path / "empty", tmp_path / "out", "--to", "usd"), "no robot files"),
        (("convert", tmp_path, tmp_path, "--to", "urdf"), "over a file"),
    ):
        code, _, error = run(*arguments)
        assert code == 2
        assert words in error
        assert len(error.strip().splitlines()) == 1
    assert (tmp_path / "a.urdf").read_text() == GOOD


def test_the_format_of_a_single_file_can_be_said(tmp_path: Path) -> None:
    """A suffix that says something else, or nothing."""
    source = tmp_path / "a.urdf"
    source.write_text(GOOD)
    assert run("convert", source, tmp_path / "b.xml", "--to", "urdf")[0] == 0
    assert read(tmp_path / "b.xml", policy=collect).format == "urdf"
    assert run("convert", source, tmp_path / "b.model", "--to", "sdf")[0] == 0
    assert read(tmp_path / "b.model", policy=collect).format == "sdf"


@pytest.mark.parametrize(
    ("to", "expected"),
    [("usd", ("usd", ".usda")), (".USDC", ("usd", ".usdc")), ("mjcf", ("mjcf", ".xml")), ("xml", ("mjcf", ".xml"))],
)
def test_formats_go_by_name_or_suffix(to: str, expected: tuple[str, str]) -> None:
    assert format_named(to) == expected
    with pytest.raises(WriteError, match="cannot be written"):
        format_named("dae")


def test_every_output_has_a_name_of_its_own() -> None:
    """Files that differ by their suffix alone, and mesh files that would lie in one folder."""
    files = [Path("a/x.urdf"), Path("a/x.sdf"), Path("b/y.urdf.xacro")]
    assert target_names(files, ".usda", apart=False) == [
        Path("a/x_urdf.usda"),
        Path("a/x_sdf.usda"),
        Path("b/y.usda"),
    ]
    assert target_names(files, ".xml", apart=True) == [
        Path("a/x_urdf/x_urdf.xml"),
        Path("a/x_sdf/x_sdf.xml"),
        Path("b/y.xml"),
    ]


def test_layers_of_a_stage_are_no_robots(tmp_path: Path) -> None:
    """What another stage loads is found through it."""
    (tmp_path / "main.usda").write_text("#usda 1.0\n(\n subLayers = [@./parts/part.usda@]\n)\n")
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "part.usda").write_text("#usda 1.0\n")
    (tmp_path / "broken.usda").write_text("#usda 1.0\n(")
    (tmp_path / ".draft").mkdir()
    (tmp_path / ".draft" / "a.urdf").write_text(GOOD)
    assert [f.name for f in find_robots(tmp_path)] == ["broken.usda", "main.usda"]


def misbehave(how: str) -> str:
    """A task that does not end well."""
    if how == "crash":
        os._exit(3)
    if how == "hang":
        time.sleep(600)
    if how == "raise":
        raise ValueError("no")
    return how


def test_one_that_crashes_takes_no_other_with_it() -> None:
    tasks = ["fine", "crash", "hang", "raise", "well"]
    outcomes = {o.task: o for o in work_on_all(misbehave, tasks, jobs=2, seconds=5)}
    assert {t: outcomes[t].result for t in tasks} == {
        **dict.fromkeys(tasks, None),
        "fine": "fine",
        "well": "well",
    }
    assert outcomes["crash"].failure == "its process ended with status 3"
    assert outcomes["hang"].failure == "it took more than 5 s"
    assert outcomes["raise"].failure == "ValueError: no"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT], ids=lambda s: s.name)
def test_killed_midway_no_file_is_half_written(tmp_path: Path, how: signal.Signals) -> None:
    """Everything there is whole; an interrupt leaves no drafts either."""
    source, out = tmp_path / "in", tmp_path / "out"
    for i in range(20):
        shutil.copytree(EXAMPLES / "gripper", source / str(i))
    program = "from kinema.apps.cli import main; main()"
    arguments = [sys.executable, "-c", program, "convert", "--to", "usda", str(source), str(out), "--jobs", "2"]
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while not list(out.glob("*/*.usda")) and time.monotonic() < until:
        time.sleep(0.01)
    process.send_signal(how)
    process.wait(30)
    settled(out)
    written = list(out.rglob("*.usda"))
    assert 0 < len(written) < 20
    for file in written:
        if not file.parent.name.startswith("."):
            assert len(read(file, policy=collect).links) == 7
    if how is signal.SIGINT:
        assert [p for p in out.rglob(".*") if p.is_dir()] == []


def settled(folder: Path) -> None:
    """Wait until processes that were left behind have finished."""
    before: list[Path] | None = None
    while before != (before := sorted(folder.rglob("*"))):
        time.sleep(1.0)

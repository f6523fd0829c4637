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

from kinema.apps.cli.batch import find_robots
from kinema.apps.cli.convert import BatchOptions, convert_many, parse_target_format, target_names
from kinema.apps.cluster.local_processes import run_in_processes
from kinema.core import WriteError, collect
from kinema.description import Mesh
from kinema.read import read
from kit.assets import EXAMPLES
from kit.choosing import combinations
from kit.command_line import run
from kit.misbehaviour import misbehave

GOOD = """<robot name="a"><link name="a"/><link name="b"/>
<joint name="j" type="fixed"><parent link="a"/><child link="b"/></joint></robot>"""
WITH_ERRORS = GOOD.replace('<link name="b"/>', '<link name="b"/><link name="b"/>')


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
    assert parse_target_format(to) == expected
    with pytest.raises(WriteError, match="cannot be written"):
        parse_target_format("dae")


def test_every_output_has_a_name_of_its_own() -> None:
    """Files that differ by their suffix alone, and mesh files that would lie in one folder."""
    files = [Path("a/x.urdf"), Path("a/x.sdf"), Path("b/y.urdf.xacro")]
    assert target_names(files, ".usda", separate_folders=False) == [
        Path("a/x_urdf.usda"),
        Path("a/x_sdf.usda"),
        Path("b/y.usda"),
    ]
    assert target_names(files, ".xml", separate_folders=True) == [
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


def test_one_that_crashes_takes_no_other_with_it() -> None:
    tasks = ["fine", "crash", "hang", "raise", "well"]
    outcomes = {o.task: o for o in run_in_processes(misbehave, tasks, jobs=2, timeout=5)}
    assert {t: outcomes[t].result for t in tasks} == {
        **dict.fromkeys(tasks, None),
        "fine": "fine",
        "well": "well",
    }
    assert outcomes["crash"].failure == "its process ended with status 3"
    assert outcomes["hang"].failure == "it took more than 5 s"
    assert outcomes["raise"].failure == "ValueError: no"


@pytest.mark.parametrize(("how", "to"), combinations([signal.SIGINT, signal.SIGKILL], ["all", "usda"], strength=0))
def test_killed_midway_no_file_is_half_written(tmp_path: Path, how: signal.Signals, to: str) -> None:
    """Everything there is whole; an interrupt leaves no drafts either."""
    source, out = tmp_path / "in", tmp_path / "out"
    count = 20 if to == "all" else 80
    for i in range(count):
        shutil.copytree(EXAMPLES / "gripper", source / str(i))
    # an interrupt may be ignored where the tests run, as behind `nohup`, and so by those that they start
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    program = f"{heed}; from kinema.apps.cli import main; main()"
    arguments = [sys.executable, "-c", program, "convert", "--to", to, str(source), str(out), "--jobs", "2"]
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while not robots(out) and time.monotonic() < until:
        time.sleep(0.01)
    process.send_signal(how)
    process.wait(30)
    settled(out)
    written = robots(out)
    assert 0 < len(written) < count * (4 if to == "all" else 1)
    for file in written:
        assert {link.name for link in read(file, policy=collect).links} >= {"palm", "left_tip", "right_tip"}
    if how is signal.SIGINT:
        assert [p for p in out.rglob(".*") if p.is_dir()] == []


def test_an_interrupt_removes_drafts_of_workers_that_were_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that does not end in time is killed, and removes nothing itself; drafts of other programs stay."""
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    out.mkdir()
    (source / "a.urdf").write_text(GOOD)
    drafts = [out / name for name in (".a.urdf.x1", ".a_left.urdf.x2", ".other.urdf.x3")]

    def interrupted(*_: object) -> list[object]:
        for draft in drafts:
            draft.mkdir()
            (draft / "a.urdf").write_text(GOOD[:40])
        raise KeyboardInterrupt

    monkeypatch.setattr("kinema.apps.cli.convert.process_all", interrupted)
    with pytest.raises(KeyboardInterrupt):
        convert_many(source, out, BatchOptions(to="urdf"))
    assert list(out.iterdir()) == [drafts[2]]


def robots(folder: Path) -> list[Path]:
    """The robot files that are in their places."""
    suffixes = (".usda", ".urdf", ".sdf", ".xml")
    # unlike `rglob`, this minds no draft that is moved or removed while it looks
    files = [Path(parent, name) for parent, _, names in os.walk(folder) for name in names]
    files = [p for p in files if p.suffix in suffixes]
    return [p for p in files if not any(part.startswith(".") for part in p.relative_to(folder).parts)]


def settled(folder: Path) -> None:
    """Wait until processes that were left behind have finished."""
    before: list[Path] | None = None
    while before != (before := sorted(folder.rglob("*"))):
        time.sleep(1.0)


def test_all_formats_in_one_command(tmp_path: Path) -> None:
    """A folder to each format, one table of all with a column for each, and one report."""
    source, out, report = tmp_path / "in", tmp_path / "out", tmp_path / "report.json"
    shutil.copytree(EXAMPLES / "gripper", source / "gripper")
    (source / "broken.urdf").write_text(GOOD[:40])
    code, printed, _ = run("convert", "--to", "all", source, out, "--report", report)
    assert code == 2
    head, broken, gripper = printed.splitlines()[:3]
    assert head.split() == ["file", "usd", "mjcf", "urdf", "sdf", "seconds"]
    assert broken.count("✗") == 4
    assert gripper.count("✓") == 4
    assert "4 of 8 conversions" in printed
    assert sorted(str(p.relative_to(out)) for p in robots(out)) == [
        "mjcf/gripper/gripper.xml",
        "sdf/gripper/gripper.sdf",
        "urdf/gripper/gripper.urdf",
        "usd/gripper/gripper.usda",
    ]
    entries = json.loads(report.read_text())
    assert {(e["file"], e["to"]) for e in entries if e["report"]} == {
        ("gripper/gripper.sdf", to) for to in ("usd", "mjcf", "urdf", "sdf")
    }


def test_a_single_robot_to_several_formats(tmp_path: Path) -> None:
    """They go to a folder; formats go by any of their names."""
    source = tmp_path / "a.urdf"
    source.write_text(GOOD)
    assert run("convert", "--to", "usdc, sdf", source, tmp_path / "out")[0] == 0
    assert (tmp_path / "out" / "usdc" / "a.usdc").is_file()
    assert (tmp_path / "out" / "sdf" / "a.sdf").is_file()


def test_of_several_robots_each_has_a_urdf_file(tmp_path: Path) -> None:
    """A folder goes on without being told which; for a single file it can be said."""
    model = '<model name="{0}"><link name="{0}_link"/></model>'
    (tmp_path / "in").mkdir()
    world = f'<sdf version="1.9"><world name="w">{model.format("one")}{model.format("two")}</world></sdf>'
    (tmp_path / "in" / "w.sdf").write_text(world)
    code, printed, _ = run("convert", "--to", "urdf", tmp_path / "in", tmp_path / "out")
    assert code == 0
    assert "1 more" in printed
    for name in ("one", "two"):
        assert read(tmp_path / "out" / f"w_{name}.urdf", policy=collect).name == name
    assert run("convert", tmp_path / "in" / "w.sdf", tmp_path / "w.urdf")[0] == 2
    assert run("convert", tmp_path / "in" / "w.sdf", tmp_path / "w.urdf", "--robot", "two")[0] == 0
    assert read(tmp_path / "w.urdf", policy=collect).name == "two"


@pytest.mark.parametrize("to", ["urdf", "sdf", "mjcf"])
@pytest.mark.parametrize(
    ("meshes", "expected"),
    [("copy", {".stl"}), ("embed", {".stl"}), ("bake", {".obj"}), ("reference", set())],
)
def test_what_becomes_of_mesh_files(tmp_path: Path, to: str, meshes: str, expected: set[str]) -> None:
    """Copied as they are, made anew, or referred to where they lie; the robot finds them."""
    out = tmp_path / f"arm.{'xml' if to == 'mjcf' else to}"
    assert run("convert", EXAMPLES / "arm" / "arm.urdf", out, "--meshes", meshes)[0] == 0
    if (to, meshes) == ("urdf", "embed"):
        expected = set()  # references to packages stay
    assert {p.suffix for p in tmp_path.rglob("*") if p.is_file() and p != out} == expected
    robot = read(out, policy=collect, search_paths=[EXAMPLES])  # files elsewhere are read on request only
    shapes = [s.geometry for link in robot.links for s in link.shapes if isinstance(s.geometry, Mesh)]
    assert shapes
    assert all(mesh.path and Path(mesh.path).is_file() for mesh in shapes)


@pytest.mark.parametrize(("meshes", "files"), [("embed", 1), ("copy", 1), ("bake", 1), ("reference", 2)])
def test_what_becomes_of_meshes_in_usd(tmp_path: Path, meshes: str, files: int) -> None:
    """Triangles are in the stage, or in one file beside it: a stage cannot refer to mesh files."""
    assert run("convert", EXAMPLES / "arm" / "arm.urdf", tmp_path / "arm.usda", "--meshes", meshes)[0] == 0
    assert len([p for p in tmp_path.rglob("*") if p.is_file()]) == files


def test_options_have_to_be_among_the_choices(tmp_path: Path) -> None:
    for option in ("--meshes", "--layout"):
        code, _, error = run("convert", EXAMPLES / "arm" / "arm.urdf", tmp_path / "a.urdf", option, "nonsense")
        assert code == 2
        assert "nonsense" in error
        assert not (tmp_path / "a.urdf").exists()

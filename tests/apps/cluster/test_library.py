"""Whole folders: tables of `info` and `check`, what is done already, libraries elsewhere."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from kinema.apps.cli.batch import ExecutionOptions
from kinema.apps.cli.convert import BatchOptions, convert_many as convert_all
from kinema.apps.cli.options import insert_default_cluster_address
from kinema.apps.cluster import InProcessExecutor, Store, mirror_to_cache, remote_url
from kinema.core import collect
from kinema.read import read
from kit.assets import EXAMPLES
from kit.command_line import run
from kit.failing_stores import fail_at

GOOD = """<robot name="a"><link name="a"/><link name="b"/>
<joint name="j" type="fixed"><parent link="a"/><child link="b"/></joint></robot>"""
WITH_ERRORS = GOOD.replace('<link name="b"/>', '<link name="b"/><link name="b"/>')
needs_fsspec = pytest.mark.skipif(importlib.util.find_spec("fsspec") is None, reason="needs fsspec: kinema[cluster]")


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A good, a faulty and a broken file."""
    folder = tmp_path / "in"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "good.urdf").write_text(GOOD)
    (folder / "faulty.urdf").write_text(WITH_ERRORS)
    (folder / "broken.urdf").write_text(GOOD[:40])
    return folder


@pytest.mark.parametrize(("command", "words"), [("check", "errors"), ("info", "mass [kg]")])
def test_a_folder_is_one_table(library: Path, tmp_path: Path, command: str, words: str) -> None:
    """A line for each file, and the worst exit status of all; the report has what each would say alone."""
    report = tmp_path / "report.json"
    code, printed, _ = run(command, library, "--jobs", 2, "--report", report)
    assert code == 2
    assert words in printed.splitlines()[0]
    assert "✓" in next(line for line in printed.splitlines() if "good.urdf" in line)
    assert "!" in next(line for line in printed.splitlines() if "faulty.urdf" in line)
    assert "✗" in next(line for line in printed.splitlines() if "broken.urdf" in line)
    assert "3 files, 1 without errors, 1 with errors, 1 cannot be read" in printed
    entries = {e["file"]: e for e in json.loads(report.read_text())}
    code, alone, _ = run(command, library / "deep" / "good.urdf", "--json")
    known = json.loads(alone)
    known.pop("file", None)
    assert {k: v for k, v in entries["deep/good.urdf"].items() if k in known} == known
    assert entries["broken.urdf"]["failure"]


def test_what_is_done_is_not_done_again(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the content of a file and of all that it is made of, by options, and as long as the output is there."""
    monkeypatch.setenv("KINEMA_CACHE", str(tmp_path / "cache"))
    (library / "broken.urdf").unlink()
    shutil.copytree(EXAMPLES / "arm", library / "arm")
    out = tmp_path / "out"
    arguments = ("convert", library, out, "--to", "usda", "--resume", "--jobs", 2)
    assert "done already" not in run(*arguments)[2]
    times = {p: p.stat().st_mtime_ns for p in out.rglob("*.usda")}
    assert len(times) == 3
    _, printed, said = run(*arguments)
    assert "3 of 3 files are done already" in said
    assert "3 of 3 files are in" in printed
    assert {p: p.stat().st_mtime_ns for p in out.rglob("*.usda")} == times
    (out / ".faulty.usda.abc12345").mkdir()  # of a worker that was killed
    run(*arguments)
    assert not [p for p in out.rglob(".*") if p.name != ".kinema"]
    mesh = next((library / "arm" / "meshes").rglob("*.stl"))
    mesh.write_bytes(mesh.read_bytes() + b"\n")
    (out / "faulty.usda").unlink()
    assert "1 of 3 files are done already" in run(*arguments)[2]
    assert "done already" not in run(*arguments[:-1], 1, "--layout", "flat")[2]


def test_without_ray_one_is_told_what_to_install(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    for arguments in (("check", library, "--cluster"), ("cluster", "status"), ("cluster", "doctor")):
        code, _, said = run(*arguments)
        assert code == 2
        assert "pip install 'kinema[cluster]'" in said
        assert len(said.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        (["in", "out", "--cluster"], ["in", "out", "--cluster", "auto"]),
        (["--cluster", "in", "out"], ["--cluster", "auto", "in", "out"]),
        (["--cluster", "ray://head:10001", "in"], ["--cluster", "ray://head:10001", "in"]),
        (["--cluster", "10.0.0.1:6379", "in"], ["--cluster", "10.0.0.1:6379", "in"]),
        (["in", "--jobs", "2"], ["in", "--jobs", "2"]),
    ],
)
def test_the_address_of_a_cluster_may_be_left_out(given: list[str], taken: list[str]) -> None:
    assert insert_default_cluster_address(given) == taken


def test_a_store_shows_whole_files_only(tmp_path: Path) -> None:
    store = Store(tmp_path / "a")
    assert store.read("x") is None
    assert store.size("x") == -1
    assert store.list_files() == []
    store.write("b/x", b"123")
    assert (store.read("b/x"), store.size("b/x"), store.list_files("b")) == (b"123", 3, ["x"])
    assert remote_url(Path("s3://bucket/robots")) == "s3://bucket/robots"
    assert remote_url("C:/robots") == ""
    assert remote_url(tmp_path) == ""


@needs_fsspec
def test_processes_read_from_an_address_and_write_to_one(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder of this machine that goes by an address stands for a store."""
    monkeypatch.setenv("KINEMA_CACHE", str(tmp_path / "cache"))
    options = BatchOptions("urdf", ExecutionOptions(jobs=1, resume=True))
    source: Any = f"local://{library}"
    target: Any = f"local://{tmp_path}/out"
    assert convert_all(source, target, options) == 2
    assert "2 of 3 files are in local://" in capsys.readouterr().out
    assert sorted(p.name for p in (tmp_path / "out").rglob("*.urdf")) == ["faulty.urdf", "good.urdf"]
    assert convert_all(source, target, options) == 2
    assert "2 of 3 files are done already" in capsys.readouterr().err


@needs_fsspec
def test_a_library_in_an_object_store(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A store that fails half-way leaves no robot that is not whole; the next time goes on from there."""
    monkeypatch.setenv("KINEMA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(ExecutionOptions, "make_executor", lambda *_: InProcessExecutor())  # whose memory it is
    shutil.copytree(EXAMPLES / "arm", library / "arm")
    source: Any = "memory://library"
    target: Any = "memory://out"
    Store(source).upload_folder(library, last=library / "faulty.urdf")
    out, options = Store(target), BatchOptions("mjcf", ExecutionOptions(resume=True))
    with monkeypatch.context() as patched:
        fail_at(patched, "arm.xml")
        assert convert_all(source, target, options) == 2
    printed = capsys.readouterr().out
    assert "2 of 4 files are in memory://out" in printed
    assert "arm.xml: No space left on device" in " ".join(printed.split())
    assert out.list_files("arm") == []
    assert [p for p in mirror_to_cache(target).rglob("*") if p.suffix == ".stl"], "meshes come first"
    assert convert_all(source, target, options) == 2
    output = capsys.readouterr()
    assert "2 of 4 files are done already" in output.err
    assert "3 of 4 files are in memory://out" in output.out
    found = mirror_to_cache(target)
    robot = read(found / "arm" / "arm.xml", policy=collect)
    assert len(robot.links) == len(read(EXAMPLES / "arm" / "arm.urdf", policy=collect).links)

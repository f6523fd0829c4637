"""The command line: what it prints, its exit status, and that it never shows a traceback."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kit.assets import EXAMPLES
from kit.command_line import run

ARM = EXAMPLES / "arm" / "arm.urdf"
GRIPPER = EXAMPLES / "gripper" / "gripper.sdf"
QUADRUPED = EXAMPLES / "quadruped" / "scene.xml"

NO_EFFORT = """<robot name="bad"><link name="a"/><link name="b"/>
<joint name="j" type="revolute"><parent link="a"/><child link="nowhere"/><limit lower="0" upper="1"/></joint></robot>"""


def test_info_shows_the_tree() -> None:
    code, out, _ = run("info", ARM)
    assert code == 0
    for words in ("arm", "11 links", "elbow_joint revolute y [-2.6, 2.6] rad 80 N·m", "forearm_link 1.647 kg"):
        assert words in out


def test_info_shows_loops_and_mimics() -> None:
    code, out, _ = run("info", GRIPPER)
    assert code == 0
    assert "closing loops" in out
    assert "= 1·left_driver_joint" in out


def test_info_of_a_world_lists_its_scenery() -> None:
    code, out, _ = run("info", QUADRUPED)
    assert code == 0
    assert "plane" in out
    assert "also:" in out


def test_info_json_keeps_its_contract() -> None:
    code, out, _ = run("info", ARM, "--json")
    data = json.loads(out)
    assert code == 0
    assert {"format", "name", "n_links", "n_joints", "n_dofs", "n_qs", "total_mass", "links", "joints", "geoms"} <= set(
        data
    )
    assert (data["format"], data["n_links"], data["n_joints"], data["n_dofs"]) == ("urdf", 11, 10, 8)
    link = next(x for x in data["links"] if x["name"] == "upper_arm_link")
    assert link["parent"] == "shoulder_link"
    assert len(link["inertia"]) == 3
    assert len(link["pose"]) == 4
    joint = next(x for x in data["joints"] if x["name"] == "wrist_roll_joint")
    assert joint["type"] == "continuous"
    assert joint["lower"] is None
    assert joint["effort"] == 28
    assert data["diagnostics"][0]["severity"] == "note"


@pytest.mark.parametrize("file", [ARM, GRIPPER, QUADRUPED], ids=lambda p: p.name)
def test_the_examples_have_no_errors_or_warnings(file: Path) -> None:
    code, out, _ = run("check", file, "--json")
    loud = [d for d in json.loads(out)["diagnostics"] if d["severity"] != "note"]
    assert (code, loud) == (0, [])


def test_errors_of_the_file_are_listed_and_give_status_1(tmp_path: Path) -> None:
    file = tmp_path / "bad.urdf"
    file.write_text(NO_EFFORT)
    code, out, _ = run("check", file)
    assert code == 1
    assert "bad.urdf:2" in out
    assert "nowhere" in out
    assert "✗" in out


@pytest.mark.parametrize("command", ["info", "check"])
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("missing.urdf", None),
        ("empty.urdf", b""),
        ("binary.urdf", bytes(range(256)) * 10),
        ("truncated.sdf", b"<sdf version='1.9'><model name='a'>"),
        ("wrong.xml", b"<html><body/></html>"),
        ("wrong.txt", b"hello"),
        ("bomb.xml", b'<!DOCTYPE x [<!ENTITY a "aaaa">]><mujoco>&a;</mujoco>'),
    ],
)
def test_unreadable_files_are_one_line_and_status_2(
    tmp_path: Path, command: str, name: str, content: bytes | None
) -> None:
    file = tmp_path / name
    if content is not None:
        file.write_bytes(content)
    code, out, err = run(command, file)
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert name in err
    assert len(err.strip().splitlines()) == 1


def test_unreadable_files_as_json(tmp_path: Path) -> None:
    code, out, _ = run("info", tmp_path / "missing.urdf", "--json")
    assert code == 2
    assert "no such file" in json.loads(out)["error"]


def test_a_folder_is_not_a_robot(tmp_path: Path) -> None:
    assert run("info", tmp_path)[0] == 2


def test_rules_and_version_and_help() -> None:
    assert "inertia.triangle" in run("rules")[1]
    assert run("--version")[1].startswith("kinema ")
    for words in ("info", "check"):
        assert words in run("--help")[1]


def test_starting_the_command_line_imports_nothing_heavy() -> None:
    """What makes `kinema --help` instant; measured as imports, not as time."""
    program = "import sys, kinema, kinema.apps.cli; print([m for m in sys.modules if m.split('.')[0] in sys.argv[1:]])"
    heavy = ["numpy", "mujoco", "trimesh", "scipy", "pxr", "rich"]
    done = subprocess.run([sys.executable, "-c", program, *heavy], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_packages_that_lie_elsewhere(tmp_path: Path) -> None:
    """Their folder is named by `--search-path`."""
    package = tmp_path / "elsewhere" / "parts"
    package.mkdir(parents=True)
    (package / "package.xml").write_text("<package/>", encoding="utf-8")
    (package / "part.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n", encoding="utf-8")
    home = tmp_path / "home"
    home.mkdir()
    shape = '<visual><geometry><mesh filename="package://parts/part.obj"/></geometry></visual>'
    (home / "r.urdf").write_text(f'<robot name="r"><link name="a">{shape}</link></robot>', encoding="utf-8")
    for options, is_found in (((), False), (("--search-path", package.parent), True)):
        report = json.loads(run("info", home / "r.urdf", *options, "--json")[1])
        assert any("parts" in d["message"] for d in report["diagnostics"]) != is_found

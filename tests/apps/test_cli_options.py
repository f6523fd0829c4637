"""Every option on the command line, and how the commands speak."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import mujoco
import pytest
import typer

from kinema.apps.cli import app
from kinema.core import collect
from kinema.description import Base, Robot
from kinema.read import read
from kit.assets import EXAMPLES
from kit.command_line import run

ARM = EXAMPLES / "arm" / "arm.urdf"
COMMANDS = ("info", "check", "compile", "publish", "convert", "simulate", "doctor", "bench", "rules", "render", "view")
XACRO = """<robot name="cart" xmlns:xacro="http://ros.org/wiki/xacro"><xacro:arg name="n" default="1"/>
<link name="base"/><xacro:if value="${int('$(arg n)') > 1}"><link name="second"/>
<joint name="j" type="fixed"><parent link="base"/><child link="second"/></joint></xacro:if></robot>"""
MOTORS = """<robot name="r"><link name="a"/>{}{}</robot>"""
PART = """<link name="{0}"><inertial><mass value="1"/>
<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
</link><joint name="j{0}" type="revolute"><parent link="a"/><child link="{0}"/><axis xyz="0 1 0"/>
<limit lower="-1" upper="1" effort="{1}" velocity="4"/></joint>"""
STAGE = """#usda 1.0
(
    defaultPrim = "World"
    upAxis = "Z"
    metersPerUnit = 1
    kilogramsPerUnit = 1
)
def Xform "World"
{
    def Xform "arm" (prepend apiSchemas = ["PhysicsArticulationRootAPI"])
    {
        def Xform "base" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"])
        {
            float physics:mass = 1
            float3 physics:diagonalInertia = (1, 1, 1)
        }
        def Xform "tip" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"])
        {
            float physics:mass = 1
            float3 physics:diagonalInertia = (1, 1, 1)
            double3 xformOp:translate = (0, 0, 1)
            uniform token[] xformOpOrder = ["xformOp:translate"]
        }
        def PhysicsRevoluteJoint "hinge"
        {
            rel physics:body0 = </World/arm/base>
            rel physics:body1 = </World/arm/tip>
            uniform token physics:axis = "Z"
            point3f physics:localPos0 = (0, 0, 0.5)
            point3f physics:localPos1 = (0.2, 0, 0)
        }
    }
}
"""


def kinema(*arguments: object, given: bytes = b"", columns: str = "") -> subprocess.CompletedProcess[bytes]:
    """The command in a process of its own."""
    program = "from kinema.apps.cli import main; main()"
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, input=given, capture_output=True, check=False, env=_environment(columns))


def _environment(columns: str) -> dict[str, str]:
    plain = {k: v for k, v in os.environ.items() if k != "COLUMNS"}
    return {**plain, "COLUMNS": columns} if columns else plain


def _all_commands(command: Any, names: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The words that lead to each command, those of commands that only hold others among them."""
    within = getattr(command, "commands", {})
    return [names, *(words for name in within for words in _all_commands(within[name], (*names, name)))]


# -- help and words ---------------------------------------------------------------------------------------------------


def test_no_command_is_left_out() -> None:
    assert {command.name or getattr(command.callback, "__name__", "") for command in app.registered_commands} == set(
        COMMANDS
    )


@pytest.mark.parametrize("command", _all_commands(typer.main.get_command(app)), ids=" ".join)
def test_help_names_no_types(command: tuple[str, ...]) -> None:
    """A flag takes no value, and what others take is said in words, not in types of Python."""
    code, text, _ = run(*command, "--help")
    assert code == 0
    assert not re.search(r"<[A-Za-z]|bool|list\[|\[\[|\.\.\.\]", text)
    assert ("--json" in text) is bool(command and command != ("cluster",))


def test_the_width_that_is_asked_for_is_kept() -> None:
    """Tables that go to another program are wide, unless COLUMNS says how wide."""
    wide, narrow = (kinema("rules", columns=columns).stdout.decode() for columns in ("", "72"))
    assert max(map(len, narrow.splitlines())) <= 72 < max(len(line.rstrip()) for line in wide.splitlines())


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_readable_in_80_columns(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Descriptions of options begin in the left half of the terminal."""
    monkeypatch.setenv("COLUMNS", "80")
    lines = run(command, "--help")[1].splitlines()
    described = [re.search(r"^ +-.*?  +(?=\w)|^ {20,}(?=\w)", line) for line in lines[lines.index("Options:") + 1 :]]
    assert max(map(len, lines)) <= 80
    assert max(found.end() for found in described if found) <= 40


@pytest.mark.parametrize(
    "arguments",
    [
        ("info", "nowhere.urdf"),
        ("check", "nowhere.urdf"),
        ("convert", "nowhere.urdf", "out.usda"),
        ("convert", "--to", "all", "nowhere", "out"),
        ("simulate", "nowhere.urdf"),
        ("bench", "nowhere.urdf", "--device", "cpu"),
        ("view", "nowhere.urdf"),
    ],
    ids=lambda a: a[0],
)
def test_errors_begin_alike(arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*arguments)
    if arguments[1] == "--to":  # it is one of many, in the table
        assert code == 2
        return
    assert (code, out) == (2, "")
    assert err.startswith("error: nowhere.urdf: ")


@pytest.mark.parametrize(
    "command", [("info",), ("check",), ("simulate",), ("view",), ("render", "-o", "x.png")], ids=lambda c: c[0]
)
def test_errors_as_json(command: tuple[str, ...]) -> None:
    code, out, err = run(*command, "nowhere.urdf", "--json")
    assert (code, err) == (2, "")
    assert "nowhere.urdf" in json.loads(out)["error"]


def test_rules_and_conversions_as_json(tmp_path: Path) -> None:
    rules = json.loads(run("rules", "--json")[1])["rules"]
    assert {"code", "severity", "finds"} <= rules[0].keys()
    code, out, _ = run("convert", ARM, tmp_path / "arm.sdf", "--json")
    data = json.loads(out)
    assert code == 0
    assert data["output"].endswith("arm.sdf")
    assert data["report"]["matters"].keys() == {"motion", "looks", "bookkeeping"}
    code, out, _ = run("convert", ARM, tmp_path / "all", "--to", "sdf,urdf", "--json")
    assert [c["to"] for c in json.loads(out)["conversions"]] == ["sdf", "urdf"]


def test_a_fault_is_told_once(tmp_path: Path) -> None:
    """The reader of stages and the rules see the same gap; the prim that carries the articulation names the robot."""
    (tmp_path / "stage.usda").write_text(STAGE, encoding="utf-8")
    data = json.loads(run("check", tmp_path / "stage.usda", "--json")[1])
    assert data["name"] == "arm"
    codes = [d["code"] for d in data["diagnostics"]]
    assert codes.count("frames.disagree") == 1
    assert "usd.joint-frames-apart" not in codes


# -- input and output -------------------------------------------------------------------------------------------------


def test_standard_input_and_output(tmp_path: Path) -> None:
    """`-` reads one and writes the other; all words go elsewhere."""
    shown = kinema("info", "-", "--json", given=ARM.read_bytes())
    info = json.loads(shown.stdout)
    assert (info["n_links"], info["source"]) == (11, "-")
    through = kinema("convert", "-", "-", "--to", "mjcf", given=(EXAMPLES / "quadruped" / "quadruped.xml").read_bytes())
    assert through.returncode == 0
    (tmp_path / "dog.xml").write_bytes(through.stdout)
    again, first = read(tmp_path / "dog.xml"), read(EXAMPLES / "quadruped" / "quadruped.xml")
    assert [link.name for link in again.links] == [link.name for link in first.links]
    assert b"standard output" in through.stderr


@pytest.mark.parametrize(
    ("arguments", "given", "words"),
    [
        (("info", "-"), b"", "the standard input is empty"),
        (("info", "-"), b"hello", "error: <stdin>: "),
        (("check", "-"), b"<robot", "error: <stdin>:1: not well-formed"),
        (("convert", "-", "nowhere.urdf"), b"#usda 1.0\ndef {", "error: <stdin>: "),
        (("convert", ARM, "-"), b"", "--to urdf"),
        (("convert", ARM, "-", "--to", "sdf", "--meshes", "copy"), b"", "beside it"),
    ],
)
def test_what_standard_streams_cannot_do(arguments: tuple[object, ...], given: bytes, words: str) -> None:
    status, out, err = run(*arguments, given=given)
    assert (status, out) == (2, "")
    assert err.startswith("error: ")
    assert words in err


UNLIMITED = b"""<robot name="r"><link name="a"/><link name="b"/>
<joint name="j" type="revolute"><parent link="a"/><child link="b"/></joint></robot>"""


@pytest.mark.parametrize(
    "arguments",
    [
        ("info", "-"),
        ("info", "-", "--json"),
        ("check", "-"),
        ("check", "-", "--json"),
        ("convert", "-", "OUT", "--report", "REPORT"),
        ("convert", "-", "OUT", "--json"),
    ],
)
def test_what_is_said_of_the_standard_input_names_no_other_file(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """Neither words, nor origins, nor losses name the copy that the readers are given."""
    places = {"OUT": tmp_path / "r.usda", "REPORT": tmp_path / "report.json"}
    _, out, err = run(*(places.get(word, word) for word in arguments), given=UNLIMITED)
    said = out + err + "".join(path.read_text() for path in tmp_path.iterdir())
    assert "urdf.missing-limit" in said
    assert "<stdin>" in said
    assert "stdin." not in said
    assert "kinema-" not in said


def test_a_folder_as_the_target_of_one_format(tmp_path: Path) -> None:
    assert run("convert", ARM, tmp_path, "--to", "usda")[0] == 0
    assert (tmp_path / "arm.usda").is_file()
    assert run("convert", ARM, tmp_path / "new", "--to", "sdf")[0] == 0
    assert (tmp_path / "new" / "arm.sdf").is_file()
    code, _, err = run("convert", ARM, tmp_path)
    assert code == 2
    assert "--to usda" in err


def test_files_that_a_robot_is_made_of_are_not_replaced(tmp_path: Path) -> None:
    """Not the file itself, nor what it includes, nor a mesh by other triangles; unless that is asked for."""
    mesh = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 2 3 4\nf 3 1 4\n"
    (tmp_path / "meshes").mkdir()
    (tmp_path / "meshes" / "part.obj").write_text(mesh, encoding="utf-8")
    shape = '<visual><geometry><mesh filename="meshes/part.obj" scale="2 2 2"/></geometry></visual>'
    robot = tmp_path / "r.urdf"
    robot.write_text(f'<robot name="r"><link name="a">{shape}</link></robot>', encoding="utf-8")
    before = robot.read_bytes()
    for out, options in ((robot, ()), (tmp_path / "r.sdf", ("--meshes", "bake"))):
        code, _, err = run("convert", robot, out, *options)
        assert code == 2
        assert "--force" in err
    assert robot.read_bytes() == before
    assert (tmp_path / "meshes" / "part.obj").read_text(encoding="utf-8") == mesh
    assert run("convert", robot, tmp_path / "copy.sdf", "--meshes", "copy")[0] == 0  # the same mesh, over itself
    assert run("convert", robot, robot, "--force")[0] == 0
    (tmp_path / "part.usda").write_text('#usda 1.0\ndef Xform "b" {}\n', encoding="utf-8")
    stage = tmp_path / "stage.usda"
    stage.write_text('#usda 1.0\n(subLayers = [@part.usda@])\ndef Xform "a" {}\n', encoding="utf-8")
    code, _, err = run("convert", stage, tmp_path / "part.usda")
    assert code == 2
    assert "part.usda: this is one of the files" in err


# -- what is read and written -----------------------------------------------------------------------------------------


def test_arguments_of_xacro_files(tmp_path: Path) -> None:
    pytest.importorskip("xacro")
    file = tmp_path / "cart.urdf.xacro"
    file.write_text(XACRO, encoding="utf-8")
    assert json.loads(run("info", file, "--json")[1])["n_links"] == 1
    assert json.loads(run("info", file, "n:=2", "--json")[1])["n_links"] == 2
    assert run("convert", file, tmp_path / "cart.usda", "n:=2")[0] == 0
    assert len(read(tmp_path / "cart.usda", policy=collect).links) == 2
    code, _, err = run("check", file, "two")
    assert code == 2
    assert "name:=value" in err


def test_what_holds_the_base(tmp_path: Path) -> None:
    assert json.loads(run("info", ARM, "--base", "free", "--json")[1])["robots"][0]["base"] == "free"
    assert run("convert", ARM, tmp_path / "arm.usda", "--base", "fixed")[0] == 0
    robot = read(tmp_path / "arm.usda", policy=collect)
    assert isinstance(robot, Robot)
    assert robot.base is Base.FIXED


@pytest.mark.parametrize(
    ("options", "base", "n_dofs"),
    [((), "assumed fixed", 1), (("--fixed",), "fixed", 1), (("--base", "free"), "free", 7)],
)
def test_simulating_with_another_base(options: tuple[str, ...], base: str, n_dofs: int, tmp_path: Path) -> None:
    """What is assumed is said in one line."""
    body = PART.format("a", 1).split("</link>")[0] + "</link>"
    text = MOTORS.format(PART.format("b", 10), "").replace('<link name="a"/>', body)
    (tmp_path / "r.urdf").write_text(text, encoding="utf-8")
    arguments = ("simulate", tmp_path / "r.urdf", "--steps", 1, "--no-limits", "--no-contacts", *options)
    data = json.loads(run(*arguments, "--json")[1])
    assert (data["base"], data["n_dofs"]) == ({"r": base}, n_dofs)
    assert not any(d["code"] == "sim.contacts" for d in data["diagnostics"])
    if not options:
        assert "the file does not say; --base fixed or free decides" in run(*arguments)[1]


def test_bases_that_contradict_each_other() -> None:
    code, _, err = run("simulate", ARM, "--fixed", "--base", "free")
    assert code == 2
    assert "contradict" in err


def test_options_of_urdf(tmp_path: Path) -> None:
    out = tmp_path / "arm.urdf"
    options = ("--meshes", "copy", "--package", "my_arm", "--format-version", "1.2")
    assert run("convert", ARM, out, *options)[0] == 0
    text = out.read_text(encoding="utf-8")
    assert 'version="1.2"' in text
    assert "package://my_arm/meshes/" in text
    dog = EXAMPLES / "quadruped" / "quadruped.xml"
    for more in ((), ("--frames",)):
        assert run("convert", dog, tmp_path / "dog.urdf", *more)[0] == 0
        n_frames = len(read(dog).frames) if more else 0
        assert len(read(tmp_path / "dog.urdf", policy=collect).links) == len(read(dog).links) + n_frames


def test_numbers_in_single_precision_only(tmp_path: Path) -> None:
    for option in ("--exact", "--no-exact"):
        assert run("convert", ARM, tmp_path / "arm.usda", option)[0] == 0
        assert ("kinema:exact" in (tmp_path / "arm.usda").read_text(encoding="utf-8")) == (option == "--exact")


# -- actuators --------------------------------------------------------------------------------------------------------

TRANSMISSION = """<transmission name="t"><joint name="jb"/><actuator name="m">
<mechanicalReduction>50</mechanicalReduction></actuator></transmission>"""
CONTROL = (
    '<ros2_control name="c" type="system"><joint name="jc"><command_interface name="position"/></joint></ros2_control>'
)


@pytest.mark.parametrize(
    ("block", "driven"),
    [("", ["jb", "jc"]), (TRANSMISSION, ["jb"]), (CONTROL, ["jc"])],
    ids=["efforts", "transmission", "ros2_control"],
)
@pytest.mark.parametrize("kind", ["position", "velocity", "effort"])
def test_actuators_are_made_on_request(block: str, driven: list[str], kind: str, tmp_path: Path) -> None:
    """MuJoCo has them, with forces up to the limit of effort; no effort is no motor, unless the file says so."""
    parts = PART.format("b", 10) + PART.format("c", 20) + (PART.format("d", 0) if not block else "")
    (tmp_path / "r.urdf").write_text(MOTORS.format(parts, block), encoding="utf-8")
    assert run("convert", tmp_path / "r.urdf", tmp_path / "r.xml", "--actuators", kind)[0] == 0
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "r.xml"))
    assert [model.joint(int(j)).name for j in model.actuator_trnid[:, 0]] == driven
    for actuator, name in enumerate(driven):
        effort = {"jb": 10.0, "jc": 20.0}[name]
        data = mujoco.MjData(model)
        data.ctrl[actuator] = 1e6
        mujoco.mj_forward(model, data)
        force = float(data.qfrc_actuator[model.joint(name).dofadr[0]])
        assert force == pytest.approx(effort)
    assert run("convert", tmp_path / "r.urdf", tmp_path / "plain.xml")[0] == 0
    assert mujoco.MjModel.from_xml_path(str(tmp_path / "plain.xml")).nu == 0


@pytest.mark.parametrize("kind", ["position", "velocity", "effort"])
def test_actuators_in_usd(kind: str, tmp_path: Path) -> None:
    """Drives where USD has them, MuJoCo's actuators where it has not; both come back."""
    (tmp_path / "r.urdf").write_text(MOTORS.format(PART.format("b", 10), ""), encoding="utf-8")
    assert run("convert", tmp_path / "r.urdf", tmp_path / "r.usda", "--actuators", kind)[0] == 0
    robot = read(tmp_path / "r.usda", policy=collect)
    drive = robot.joints[0].axes[0].drive
    assert [a.target for a in robot.actuators] == (["jb"] if kind == "effort" else [])
    if kind != "effort":
        assert drive is not None
        stiffness = 10 / (0.1 * 2) if kind == "position" else 0.0
        damping = stiffness / 20 if kind == "position" else 10 / 4
        assert (drive.stiffness, drive.damping, drive.max_force) == pytest.approx((stiffness, damping, 10), rel=1e-5)


def test_the_documentation_names_every_option() -> None:
    """And no other."""
    text = (EXAMPLES.parents[1] / "docs" / "command-line.md").read_text(encoding="utf-8")
    known: set[str] = {"--help", "--version"}
    for command in app.registered_commands:
        parameters = typer.main.get_command_from_info(
            command, pretty_exceptions_short=False, rich_markup_mode=None
        ).params
        known |= {o for p in parameters for o in (*p.opts, *p.secondary_opts) if o.startswith("--")}
    bench_only = {"--plot", "--seconds", "--startup", "--no-startup", "--free", "--openusd", "--contacts", "--limits"}
    named = set(re.findall(r"--[a-z][a-z-]*", text))
    assert named <= known
    assert known - named - bench_only - {"--version"} == set()

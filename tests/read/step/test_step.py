"""STEP assemblies, with and without a file of joints."""

from __future__ import annotations

import copy
import math
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema
from kinema.core import Diagnostics, KinemaError, ReadError
from kinema.description import JointKind, Robot
from kinema.read import detect_format
from kinema.read.cad.build123d_assembly import SolidOptions, location_to_pose
from kinema.read.cad.elements import Snapshot
from kinema.read.step import read_step
from kinema.read.step.cad_kernel import load_parts
from kit.diagnostics import ClaimedDiagnostics

b = pytest.importorskip("build123d", reason="build123d is not installed (pip install 'kinema[cad]')")
pytest.importorskip("yaml", reason="PyYAML is not installed (pip install 'kinema[cad]')")

JOINTS = """\
density: 2700
densities: {wheel: 7850}
ground: base plate
joints:
  - name: shoulder
    type: revolute
    parent: base plate
    child: link1
    origin: [0, 0, 20]
    axis: [0, 0, 2]
    value: 30
    limits: [-90, null]
  - name: left
    type: cylindrical
    parent: link1
    child: sub+wheel_1
    origin: [0, 0, 50]
    axis: [1, 0, 0]
    value: {rotation: 10, slide: 5}
    limits: {slide: [-5, 1e1]}
  - {name: right, type: slider, parent: link1, child: sub+wheel_2, axis: [0, 1, 0],
     follows: {joint: shoulder, ratio: -0.5}}
"""


@pytest.fixture(scope="module")
def assembly() -> Any:
    base, link = b.Cylinder(60, 40), b.Pos(0, 0, 100) * b.Box(40, 30, 200)
    left = b.Cylinder(5, 6)
    right = b.Location((30, 0, 0), (90, 0, 0)) * b.Cylinder(5, 6)
    base.label, link.label, left.label, right.label = "base plate", "link1", "wheel", "wheel"
    base.color, link.color = b.Color("gray"), b.Color(1, 0, 0)
    sub = b.Compound(label="sub", children=[left, right])
    sub.location = b.Location((0, 0, 50), (0, 0, 45))
    return b.Compound(label="arm", children=[base, link, sub])


@pytest.fixture(scope="module")
def written(assembly: Any, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    file = tmp_path_factory.mktemp("step") / "arm.step"
    assert b.export_step(assembly, str(file))
    return file.read_bytes()


@pytest.fixture
def step(written: bytes, tmp_path: Path) -> Path:
    file = tmp_path / "arm.step"
    file.write_bytes(written)
    return file


@pytest.fixture(scope="module")
def parts(written: bytes, tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    file = tmp_path_factory.mktemp("parts") / "arm.step"
    file.write_bytes(written)
    return load_parts(file, SolidOptions(), Diagnostics())


@pytest.fixture
def quick(parts: Snapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    """Starts no CAD kernel, which takes seconds, but takes the parts that it gave before."""
    monkeypatch.setattr("kinema.read.step.load_parts", lambda *_: copy.deepcopy(parts))


def with_joints(step: Path, text: str, diagnostics: ClaimedDiagnostics) -> Robot:
    step.with_name("arm.joints.yaml").write_text(text, encoding="utf-8")
    return read_step(step, diagnostics=diagnostics)


def test_without_joints_it_is_one_link(step: Path, assembly: Any) -> None:
    """`kinema.read` knows the format; the link stands at the assembly's origin, with all parts in their places."""
    robot = kinema.read(step)
    assert isinstance(robot, Robot)
    (link,) = robot.links
    assert link.name == "arm"
    assert link.pose is not None
    assert max(link.pose.distance(location_to_pose(assembly.location))) < 1e-12
    assert {d.code for d in robot.diagnostics} == {"cad.no-joints", "cad.default-density"}
    names = [s.name for s in link.shapes]
    assert names == ["base_plate", "link1", "wheel", "wheel"]
    parts = [assembly.children[0], assembly.children[1], *assembly.children[2].children]
    for shape, part in zip(link.shapes, parts, strict=True):
        assert max(shape.pose.distance(location_to_pose(part.global_location))) < 1e-9
    colors = [s.material.color if s.material else None for s in link.shapes]
    assert colors[1] == pytest.approx((1, 0, 0, 1))
    assert link.inertial is not None
    volume = sum(part.volume for part in parts) * 1e-9
    assert link.inertial.mass == pytest.approx(1000 * volume, rel=1e-6)


def test_joints_come_from_the_file_beside_it(step: Path, assembly: Any, diagnostics: ClaimedDiagnostics) -> None:
    """Types, axes, values, limits and units; the parts stand where the STEP file has them."""
    robot = with_joints(step, JOINTS, diagnostics)
    assert [(j.name, j.kind) for j in robot.joints] == [
        ("shoulder", JointKind.REVOLUTE),
        ("left", JointKind.CYLINDRICAL),
        ("right", JointKind.PRISMATIC),
    ]
    assert robot.root == "base_plate"
    shoulder, left, right = robot.joints
    assert shoulder.state == pytest.approx([math.radians(30)])
    assert (shoulder.axes[0].lower, shoulder.axes[0].upper) == (pytest.approx(-math.pi / 2), math.inf)
    assert left.state == pytest.approx([math.radians(10), 0.005])
    assert (left.axes[1].lower, left.axes[1].upper) == pytest.approx((-0.005, 0.01))
    mimic = right.axes[0].mimic
    assert mimic is not None
    assert mimic.joint == "shoulder"
    assert mimic.multiplier == pytest.approx(-0.5e-3 / math.radians(1))
    poses = robot.link_poses({j.name: j.state for j in robot.joints if j.state is not None})
    wheels = assembly.children[2].children
    for name, part in (("link1", assembly.children[1]), ("sub+wheel_1", wheels[0]), ("sub+wheel_2", wheels[1])):
        assert max(poses[name].distance(location_to_pose(part.global_location))) < 1e-9
    wheel = robot.link("sub+wheel_1").inertial
    assert wheel is not None
    assert wheel.mass == pytest.approx(math.pi * 25 * 6e-9 * 7850, rel=1e-6)


@pytest.mark.usefixtures("quick")
def test_the_shoulder_turns_about_its_axis(step: Path, diagnostics: ClaimedDiagnostics) -> None:
    """From 30 to 120 degrees about z: x becomes y."""
    robot = with_joints(step, JOINTS, diagnostics)
    poses = robot.link_poses({"shoulder": math.radians(120)})
    np.testing.assert_allclose(poses["link1"].rotation[:, 0], [0, 1, 0], atol=1e-12)
    np.testing.assert_allclose(poses["link1"].position, [0, 0, 0.1], atol=1e-12)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("type", ["rigid", "pin_slot", "planar", "ball"])
def test_the_other_types(type: str, step: Path, diagnostics: ClaimedDiagnostics) -> None:
    """All types are understood, in metres and radians too; parts that nothing mentions go with the base."""
    text = f"""\
length: m
angle: rad
groups: [[link1, sub+wheel_1]]
joints:
  - {{name: j, type: {type}, parent: null, child: base plate, origin: [0, 0, 0.02]}}
  - {{name: k, type: rigid, parent: base plate, child: link1}}
"""
    robot = with_joints(step, text, diagnostics)
    assert "wheel" in diagnostics.claim("cad.loose-part").message
    assert robot.joint("j").n_dofs == {"rigid": 0, "pin_slot": 2, "planar": 3, "ball": 3}[type]
    assert robot.joint("j").parent is None
    assert [link.name for link in robot.links] == ["base_plate", "link1"]


@pytest.mark.usefixtures("quick")
def test_wrong_names_are_said_with_their_lines(step: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A part that is not there, a name of two parts, a joint that is not there, fields that mean nothing."""
    text = """\
ground: bass plate
joints:
  - {name: a, type: revolute, parent: base plate, child: link2, origin: [0, 0, 0]}
  - name: b
    type: revolut
    parent: base plate
    child: wheel
    colour: red
  - {name: c, type: revolute, parent: base plate, child: link1, axis: [0, 0, 0], limits: [3, 1], origin: [1, x, 3]}
  - {name: d, type: slider, parent: link1, child: sub+wheel_1, follows: {joint: nobody}}
"""
    with_joints(step, text, diagnostics)
    first, second = diagnostics.claim_all("step.unknown-part")
    assert (first.origin.line, "base_plate" in first.hint) == (1, True)
    assert (second.origin.line, "link1" in second.hint) == (3, True)
    both = diagnostics.claim("step.ambiguous-part")
    assert both.origin.line == 4
    assert '"sub+wheel_1", "sub+wheel_2"' in both.message
    expected = {
        "cad.unknown-value": 5,
        "cad.unknown-field": 4,
        "cad.zero-axis": 9,
        "cad.limits-crossed": 9,
        "cad.wrong-type": 9,
        "cad.no-joint-frame": 9,
        "step.bad-follower": 10,
    }
    for code, line in expected.items():
        assert diagnostics.claim(code).origin.line == line, code
    diagnostics.claim_all("cad.loose-part")


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("joints: [", 1, "not valid YAML"),
        ("a: 1\nb: [1, 2\nc: 3", 3, "not valid YAML"),
        ("- joints", 1, "no fields"),
        ("", None, "no fields"),
        ("a: 1\na: 2", 2, "twice"),
        ("? [a]\n: 1", 1, "not a text"),
        ("[" * 5000, None, "deep"),
        ("a: " + "[" * 60 + "]" * 60, 1, "deep"),
        ("x" * 300_000, None, "bytes"),
        ("a: !!python/object/apply:os.system [echo]", None, ""),
    ],
)
def test_broken_files_of_joints(
    text: str, line: int | None, words: str, step: Path, diagnostics: ClaimedDiagnostics
) -> None:
    """The parts are still there; the error says where the file is broken, and nothing in it is run."""
    if words == "bytes":
        with pytest.raises(ReadError, match="bytes"):
            with_joints(step, text, diagnostics)
        return
    robot = with_joints(step, text, diagnostics)
    assert len(robot.links) == 1
    if words:
        found = diagnostics.claim("step.bad-joints-file")
        assert words in found.message
        assert found.origin.line == line
    else:
        diagnostics.claim_all("cad.unknown-field")


@pytest.mark.usefixtures("quick")
def test_aliases_cannot_blow_up(step: Path, diagnostics: ClaimedDiagnostics) -> None:
    text = "a0: &a0 [1, 1]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 9))
    with_joints(step, text, diagnostics)
    assert "aliases" in diagnostics.claim("step.bad-joints-file").message


@pytest.mark.usefixtures("quick")
def test_another_file_of_joints(step: Path, tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(JOINTS, encoding="utf-8")
    assert len(read_step(step, joints=other, diagnostics=diagnostics).joints) == 3
    with pytest.raises(ReadError, match="no such file"):
        read_step(step, joints=tmp_path / "none.yaml", diagnostics=diagnostics)


def test_bad_step_files(step: Path, written: bytes) -> None:
    """Empty, cut off, something else, nothing inside, broken in the middle: one sentence, with the line if known."""
    empty = b"ISO-10303-21;\nHEADER;\nENDSEC;\nDATA;\nENDSEC;\nEND-ISO-10303-21;\n"
    broken = written[: len(written) // 2] + b"\nEND-ISO-10303-21;\n"
    cases = {
        b"": "is empty",
        written[: len(written) // 2]: r":\d+: the STEP file is cut off",
        b"hello": "no STEP file",
        empty: "arm.step: ",
        broken: r"arm.step:\d+: this is not valid STEP",
    }
    for data, words in cases.items():
        step.write_bytes(data)
        with pytest.raises(ReadError, match=words) as raised:
            kinema.read(step)
        assert "\n" not in str(raised.value)


def test_damaged_files_do_not_take_us_down(step: Path, written: bytes) -> None:
    """References to wrong entities crash the CAD kernel; that is a sentence here."""
    crashed = 0
    for seed in range(2):
        chance = random.Random(seed)
        data = bytearray(written)
        for _ in range(20):
            at = data.find(b"#", chance.randrange(len(data) - 100))
            data[at + 1 : at + 3] = str(chance.randrange(10, 99)).encode()
        step.write_bytes(bytes(data))
        try:
            kinema.read(step)
        except ReadError as error:
            crashed += "kernel" in str(error)
    assert crashed


def test_the_format_is_known(tmp_path: Path) -> None:
    assert detect_format(b"\n ISO-10303-21;\n", tmp_path / "arm.txt") == "step"
    assert detect_format(b"", tmp_path / "arm.STP") == "step"


def test_without_build123d_one_sentence_says_so(step: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kinema.read.step.find_spec", lambda _: None)
    monkeypatch.setitem(sys.modules, "build123d", None)
    with pytest.raises(KinemaError, match=r"pip install 'kinema\[cad\]'"):
        read_step(step)

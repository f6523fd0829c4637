"""The snapshot format: mistakes are found, with their place, what is unknown is kept, and nothing else escapes."""

from __future__ import annotations

import copy
import json
import math
import random
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import kinema
from kinema.core import Diagnostics, ReadError, Severity
from kinema.description import JointKind, Robot
from kinema.read.cad import read_cad
from kit.assets import ROOT
from kit.diagnostics import ClaimedDiagnostics
from kit.patience import HANG

IDENTITY = [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]


def at(x: float, y: float, z: float) -> list[float]:
    """A translation."""
    return [1, 0, 0, x, 0, 1, 0, y, 0, 0, 1, z, 0, 0, 0, 1]


def minimal() -> dict[str, Any]:
    """Two parts and a hinge, in metres."""
    return {
        "kinema": "cad-snapshot",
        "version": 1,
        "units": "m,kg,rad",
        "name": "mini",
        "occurrences": [
            {
                "path": "A:1",
                "pose": list(IDENTITY),
                "grounded": True,
                "physical": {"mass": 2.0, "center": [0, 0, 0], "inertia": [1, 1, 1, 0, 0, 0], "principal": [1, 1, 1]},
                "bodies": [{"name": "b", "color": [1, 0, 0, 1]}],
            },
            {"path": "B:1", "pose": at(1, 0, 0)},
        ],
        "joints": [
            {
                "name": "hinge",
                "type": "revolute",
                "one": "B:1",
                "two": "A:1",
                "frame1": None,
                "frame2": at(0.5, 0, 0),
                "motions": {"rotation": {"axis": [0, 0, 1], "value": 0.25, "lower": -1, "upper": 1}},
                "probe": [],
            }
        ],
    }


def write(folder: Path, value: Any) -> Path:
    file = folder / "snapshot.json"
    file.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return file


def read(folder: Path, value: Any, diagnostics: Diagnostics) -> Robot:
    return read_cad(write(folder, value), diagnostics=diagnostics)


# -- files that are none ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (b"\x00\x01\x02\xff", "not UTF-8"),
        (b'{"kinema": "cad-snapshot", "version": 1,\n "units": ', ":2: this is not valid JSON"),
        (b'{"kinema": "cad-snapshot"', "not valid JSON"),
        (b"[1, 2]", "no CAD snapshot"),
        (b'{"kinema": "other"}', "no CAD snapshot"),
        (b'{"kinema": "cad-snapshot"}', 'no "version"'),
        (b'{"kinema": "cad-snapshot", "version": "x"}', "version is 'x'"),
        (b'{"kinema": "cad-snapshot", "version": 99}', "newer"),
        (b'{"kinema": "cad-snapshot", "version": 1}', "units"),
        (b'{"kinema": "cad-snapshot", "version": 1, "units": "mm,kg,rad"}', "'mm,kg,rad' is not known"),
        (b'{"kinema": "cad-snapshot", "x": ' + b"[" * 100_000, "nested too deeply|more than"),
        (b'{"kinema": "cad-snapshot", "x": ' + b"[" * 5_000 + b"]" * 5_000 + b"}", "nested too deeply"),
        (b'{"kinema": "cad-snapshot", "x": [' + b"1," * 1_100_000 + b"1]}", "more than"),
        (
            b'{"kinema": "cad-snapshot", "version": 1, "units": "m,kg,rad", "joints": [' + b"{}," * 20_001 + b"{}]}",
            "at most",
        ),
    ],
    ids=range(16),
)
def test_unreadable_files(tmp_path: Path, data: bytes, message: str) -> None:
    """One sentence that begins with the file, and soon."""
    file = tmp_path / "snapshot.json"
    file.write_bytes(data)
    start = time.perf_counter()
    with pytest.raises(ReadError, match=message) as caught:
        read_cad(file)
    assert str(caught.value).startswith(str(file))
    assert "\n" not in str(caught.value)
    assert time.perf_counter() - start < HANG


def test_missing_files(tmp_path: Path) -> None:
    """Likewise."""
    with pytest.raises(ReadError, match="no such file"):
        read_cad(tmp_path / "nothing.json")
    with pytest.raises(ReadError, match="not a file"):
        read_cad(tmp_path)


def test_the_format_is_found_by_its_content(tmp_path: Path) -> None:
    """Whatever the file is called; other JSON is refused with a reason."""
    file = tmp_path / "robot.txt"
    file.write_text(json.dumps(minimal(), indent=2), encoding="utf-8-sig")
    robot = kinema.read(file)
    assert robot.format == "cad"
    assert robot.source == str(file)
    (tmp_path / "other.json").write_text('{"a": 1}')
    with pytest.raises(ReadError, match="no CAD snapshot"):
        kinema.read(tmp_path / "other.json")


# -- mistakes with their places ---------------------------------------------------------------------------------------


def put(value: dict[str, Any], place: str, new: Any) -> dict[str, Any]:
    """A copy in which the value at a place such as `joints[0].frame1` is another; `...` takes it away."""
    result = copy.deepcopy(value)
    keys: list[Any] = [int(k) if k.isdigit() else k for k in re.findall(r"[^.\[\]]+", place)]
    inside: Any = result
    for key in keys[:-1]:
        inside = inside[key]
    if new is ...:
        del inside[keys[-1]]
    else:
        inside[keys[-1]] = new
    return result


MISTAKES = [
    ("occurrences", {}, "cad.wrong-type", "occurrences"),
    ("occurrences[0]", 7, "cad.wrong-type", "occurrences[0]"),
    ("occurrences[0].path", 7, "cad.wrong-type", "occurrences[0].path"),
    ("occurrences[0].path", ..., "cad.missing-field", "occurrences[0].path"),
    ("occurrences[0].pose", ..., "cad.missing-field", "occurrences[0].pose"),
    ("occurrences[0].pose", [1, 2, 3], "cad.wrong-type", "occurrences[0].pose"),
    ("occurrences[0].pose[5]", "x", "cad.wrong-type", "occurrences[0].pose[5]"),
    ("occurrences[0].pose[5]", True, "cad.wrong-type", "occurrences[0].pose[5]"),
    ("occurrences[0].pose[5]", math.nan, "cad.wrong-type", "occurrences[0].pose[5]"),
    ("occurrences[0].pose[5]", math.inf, "cad.wrong-type", "occurrences[0].pose[5]"),
    ("occurrences[0].pose[3]", 1e300, "cad.wrong-type", "occurrences[0].pose[3]"),
    ("occurrences[0].pose[5]", 1.1, "cad.not-rigid", "occurrences[0].pose"),
    ("occurrences[0].pose[5]", -1, "cad.not-rigid", "occurrences[0].pose"),
    ("occurrences[0].pose[12]", 0.5, "cad.not-rigid", "occurrences[0].pose"),
    ("occurrences[0].grounded", "yes", "cad.wrong-type", "occurrences[0].grounded"),
    ("occurrences[0].parent", "C:1", "cad.unknown-occurrence", "occurrences[0]"),
    ("occurrences[0].parent", "B:1", None, ""),
    ("occurrences[0].parent", "A:1", "cad.nesting", "occurrences[0]"),
    ("occurrences[1].path", "A:1", "cad.duplicate-path", "occurrences[1]"),
    ("occurrences[0].physical.mass", -1, "cad.negative-mass", "occurrences[0].physical.mass"),
    ("occurrences[0].physical.mass", ..., "cad.missing-field", "occurrences[0].physical.mass"),
    ("occurrences[0].physical.inertia", [1, 2], "cad.wrong-type", "occurrences[0].physical.inertia"),
    ("occurrences[0].physical.principal", [2, 2, 2], "cad.principal-moments", "occurrences[0].physical"),
    ("occurrences[0].physical.frame", "world", "cad.unknown-value", "occurrences[0].physical.frame"),
    ("occurrences[0].bodies[0].color", [255, 0, 0, 255], "cad.not-a-color", "occurrences[0].bodies[0].color"),
    ("occurrences[0].bodies[0].mesh", {"file": "x.stl"}, "cad.missing-field", "occurrences[0].bodies[0].mesh.unit"),
    (
        "occurrences[0].bodies[0].mesh",
        {"file": "x.stl", "unit": "m"},
        "cad.missing-mesh",
        "occurrences[0].bodies[0].mesh",
    ),
    ("occurrences[0].bodies[0].mesh", {"unit": "m"}, "cad.missing-field", "occurrences[0].bodies[0].mesh.file"),
    (
        "occurrences[0].bodies[0].mesh",
        {"file": "/etc/passwd", "unit": "m"},
        "cad.missing-mesh",
        "occurrences[0].bodies[0].mesh",
    ),
    ("joints[0].type", "helical", "cad.unknown-value", "joints[0].type"),
    ("joints[0].type", ..., "cad.missing-field", "joints[0].type"),
    ("joints[0].one", "C:1", "cad.unknown-occurrence", "joints[0]"),
    ("joints[0].one", ..., "cad.missing-field", "joints[0].one"),
    ("joints[0].one", "A:1", "cad.joint-to-itself", "joints[0]"),
    ("joints[0].frame2", None, "cad.no-joint-frame", "joints[0]"),
    ("joints[0].frame2", "here", "cad.wrong-type", "joints[0].frame2"),
    ("joints[0].frame1", at(0.5, 0.1, 0), "cad.frames-apart", "joints[0]"),
    ("joints[0].motions", ..., "cad.missing-field", "joints[0].motions"),
    ("joints[0].motions.rotation", ..., "cad.missing-field", "joints[0].motions.rotation"),
    ("joints[0].motions.rotation.axis", [0, 0, 0], "cad.zero-axis", "joints[0].motions.rotation.axis"),
    ("joints[0].motions.rotation.axis", ..., "cad.no-axis", "joints[0]"),
    ("joints[0].motions.rotation.value", 3.0, "cad.value-outside-limits", "joints[0].motions.rotation"),
    ("joints[0].motions.rotation.lower", 3.0, "cad.limits-crossed", "joints[0].motions.rotation"),
    ("joints[0].problem", "it is broken", "cad.joint-problem", "joints[0]"),
    ("joints[0].probe", [{}], "cad.missing-field", "joints[0].probe[0].values"),
    ("rigid_groups", [{"occurrences": ["A:1", "C:1"]}], "cad.unknown-occurrence", "rigid_groups[0]"),
    ("rigid_groups", [{"occurrences": [1]}], "cad.wrong-type", "rigid_groups[0].occurrences"),
    ("motion_links", [{"joint1": 3, "motion1": "rotation"}], "cad.unknown-joint", "motion_links[0].joint1"),
    ("motion_links", [{"joint1": -1}], "cad.wrong-type", "motion_links[0].joint1"),
    ("motion_links", [{"motion1": "rotation"}], "cad.missing-field", "motion_links[0].joint1"),
    ("motion_links", [{"joint1": 0, "motion1": "slide"}], "cad.unknown-motion", "motion_links[0].motion1"),
    (
        "motion_links",
        [{"joint1": 0, "motion1": "rotation", "motion2": "rotation", "value1": 0}],
        "cad.zero-motion-link",
        "motion_links[0].value1",
    ),
    ("up", "x", "cad.unknown-value", "up"),
    ("notes", ["look out"], "cad.exporter-note", ""),
    ("notes", "look out", "cad.wrong-type", "notes"),
    ("colour", 5, "cad.unknown-field", ""),
    ("joints[0].speed", 5, "cad.unknown-field", "joints[0]"),
    ("joints[0].motions.slide", {}, "cad.unknown-field", "joints[0].motions"),
]


@pytest.mark.parametrize(
    ("place", "new", "code", "found_at"), MISTAKES, ids=[f"{m[0]}-{m[2]}-{i}" for i, m in enumerate(MISTAKES)]
)
def test_mistakes_are_found_where_they_are(
    tmp_path: Path, place: str, new: Any, code: str | None, found_at: str
) -> None:
    """Each is reported at its place, the rest of the file is read, and the robot can be used."""
    diagnostics = Diagnostics()
    robot = read(tmp_path, put(minimal(), place, new), diagnostics)
    if code is None:
        assert [d for d in diagnostics if d.severity is Severity.ERROR] == []
    else:
        assert code in diagnostics.codes()
        found = next(d for d in diagnostics if d.code == code)
        assert found.origin.path == found_at
        assert str(found).startswith(str(tmp_path / "snapshot.json"))
    assert all(pose.is_finite for pose in robot.link_poses().values())


def test_unknown_fields_are_kept(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Verbatim, on what they belong to."""
    value = put(put(minimal(), "joints[0].vendor", {"a": [1, None]}), "occurrences[1].tag", "x")
    robot = read(tmp_path, value, diagnostics)
    assert [(e.tag, e.text) for e in robot.joints[0].extras] == [("vendor", '{"a": [1, null]}')]
    assert [(e.tag, e.text) for e in robot.links[1].extras] == [("tag", '"x"')]
    assert len(diagnostics.claim_all("cad.unknown-field")) == 2


def test_a_field_that_stands_twice(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Is an error: a reader of JSON takes the last one without a word."""
    text = json.dumps(minimal()).replace('"name": "mini"', '"name": "a", "name": "mini"')
    assert read(tmp_path, text, diagnostics).name == "mini"
    diagnostics.claim("cad.repeated-field")


def test_names_of_all_kinds(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Spaces, slashes, emoji, nothing at all, and half a surrogate pair, which is legal in JSON and nowhere else."""
    value = minimal()
    value["name"] = "a/b \U0001f9be \ud800"
    value["joints"] += [dict(copy.deepcopy(value["joints"][0]), name="") for _ in range(2)]
    value["joints"].append(copy.deepcopy(value["joints"][0]))
    robot = read(tmp_path, value, diagnostics)
    assert robot.name == "a/b \U0001f9be ?"
    assert [j.name for j in robot.joints] == ["hinge", "joint_2", "joint_3", "hinge_1"]
    assert [j.name_is_generated for j in robot.joints] == [False, True, True, False]


def test_nothing_in_it(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """An assembly without parts is a robot without links."""
    robot = read(tmp_path, {"kinema": "cad-snapshot", "version": 1, "units": "m,kg,rad"}, diagnostics)
    assert (robot.links, robot.joints, robot.name) == ([], [], "snapshot")
    diagnostics.claim("cad.no-links")


def test_many_parts_and_mistakes_take_little_time(tmp_path: Path) -> None:
    """The work grows with the file, not with its square."""
    n = 4_000
    value = minimal()
    value["occurrences"] = [{"path": f"p{i // 2}" if i % 3 else f"p{i}", "pose": IDENTITY} for i in range(n)]
    value["occurrences"] += [
        {"path": f"d{i}", "parent": f"d{i - 1}" if i else None, "pose": IDENTITY} for i in range(n)
    ]
    value["joints"] = [
        {"name": "j", "type": "revolute", "one": f"p{i}", "two": None, "frame2": IDENTITY, "motions": {}}
        for i in range(n)
    ]
    start = time.perf_counter()
    robot = read(tmp_path, value, Diagnostics())
    assert time.perf_counter() - start < HANG
    assert len({j.name for j in robot.joints}) == len(robot.joints) > 0


_WORDS: list[Any] = [
    None,
    True,
    -1,
    0,
    1e300,
    1e-300,
    math.nan,
    math.inf,
    "",
    "A:1",
    "B:1",
    "x",
    [],
    {},
    [1, 2, 3],
    IDENTITY,
    [None],
]


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else []
    for key, item in inside:
        found += _places(item, (*path, key))
    return found


@settings(max_examples=150)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4))
def test_no_damage_escapes(tmp_path_factory: pytest.TempPathFactory, seed: int, count: int) -> None:
    """Whatever values stand where, there is a robot with finite poses or one ReadError."""
    chance = random.Random(seed)
    value = minimal()
    for _ in range(count):
        places = [p for p in _places(value) if p[0] not in ("kinema", "version", "units")]
        path = chance.choice(places)
        inside: Any = value
        for key in path[:-1]:
            inside = inside[key]
        if chance.random() < 0.2 and isinstance(inside, dict):
            del inside[path[-1]]
        else:
            inside[path[-1]] = copy.deepcopy(chance.choice(_WORDS))
    try:
        robot = read(tmp_path_factory.mktemp("damaged"), value, Diagnostics())
    except ReadError:
        return
    assert all(pose.is_finite for pose in robot.link_poses().values())
    assert len({link.name for link in robot.links}) == len(robot.links)
    assert len({joint.name for joint in robot.joints}) == len(robot.joints)


@settings(max_examples=100)
@given(st.integers(0, 2**32 - 1))
def test_no_damaged_text_escapes(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    """Bytes cut off, changed or doubled."""
    chance = random.Random(seed)
    data = bytearray(json.dumps(minimal()).encode())
    for _ in range(chance.randint(1, 4)):
        i = chance.randrange(len(data))
        data[i : i + chance.randint(0, 9)] = bytes(
            chance.choice(b'{}[]",:0129.-eEntf\\u\xff ') for _ in range(chance.randint(0, 5))
        )
    file = tmp_path_factory.mktemp("damaged") / "snapshot.json"
    file.write_bytes(bytes(data))
    try:
        robot = read_cad(file)
    except ReadError:
        return
    assert all(pose.is_finite for pose in robot.link_poses().values())


# -- units and frames -------------------------------------------------------------------------------------------------


def test_centimetres_are_converted_once(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """The same assembly in centimetres and in metres is the same robot."""
    si = minimal()
    si["joints"][0] |= {"type": "cylindrical", "offset": 0.3}
    si["joints"][0]["motions"]["slide"] = {"axis": [0, 0, 1], "value": 0.1, "lower": -0.5, "upper": None, "rest": 0.2}
    cm = copy.deepcopy(si)
    cm["units"] = "cm, kg, rad"
    for occurrence in cm["occurrences"]:
        occurrence["pose"] = [100 * v if i in (3, 7, 11) else v for i, v in enumerate(occurrence["pose"])]
    physical = cm["occurrences"][0]["physical"]
    physical["inertia"] = [1e4 * v for v in physical["inertia"]]
    physical["principal"] = [1e4 * v for v in physical["principal"]]
    joint = cm["joints"][0]
    joint["frame2"] = at(50, 0, 0)
    joint["offset"] = 30
    joint["motions"]["slide"] |= {"value": 10, "lower": -50, "rest": 20}
    a, b = (read(tmp_path, v, diagnostics) for v in (si, cm))
    for name, pose in a.link_poses({"hinge": (0.4, 0.2)}).items():
        assert max(pose.distance(b.link_poses({"hinge": (0.4, 0.2)})[name])) < 1e-15
    assert [(x.lower, x.upper) for x in a.joints[0].axes] == [(x.lower, x.upper) for x in b.joints[0].axes]
    assert a.joints[0].attributes == b.joints[0].attributes
    assert a.links[0].inertial is not None
    assert b.links[0].inertial is not None
    np.testing.assert_allclose(a.links[0].inertial.inertia, b.links[0].inertial.inertia)


@pytest.mark.parametrize("frame", ["component", "root"])
def test_meshes_in_either_frame(tmp_path: Path, diagnostics: ClaimedDiagnostics, frame: str) -> None:
    """In the occurrence's own frame or in the root's, in a unit of their own."""
    offset = (0.0, 0.0, 0.0) if frame == "component" else (1000.0, 0.0, 0.0)
    corners = [(0, 0, 0), (10, 0, 0), (0, 10, 0), (0, 0, 10)]
    lines = [f"v {x + offset[0]} {y} {z}" for x, y, z in corners] + ["f 1 3 2", "f 1 2 4", "f 2 3 4", "f 1 4 3"]
    (tmp_path / "t.obj").write_text("\n".join(lines))
    value = minimal()
    value["occurrences"][1]["bodies"] = [{"name": "t", "mesh": {"file": "t.obj", "unit": "mm", "frame": frame}}]
    robot = read(tmp_path, value, diagnostics)
    diagnostics.claim("cad.no-mass")
    vertices = robot.posed_meshes({"hinge": 0.25})[0].vertices
    np.testing.assert_allclose(vertices.min(axis=0), (1.0, 0, 0), atol=1e-12)
    np.testing.assert_allclose(vertices.max(axis=0), (1.01, 0.01, 0.01), atol=1e-12)


def test_a_centre_of_mass_outside_the_part_is_suspicious(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A frame or a unit was mixed up."""
    value = put(minimal(), "occurrences[0].box", [1, 1, 1, 2, 2, 2])
    read(tmp_path, value, diagnostics)
    assert "1.73 m outside" in diagnostics.claim("cad.center-outside").message


def test_measurements_in_a_wrong_unit(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """The size of the disagreement, and by how much it moved too far, are told."""
    value = minimal()
    value["joints"][0] |= {"type": "slider", "motions": {"slide": {"axis": [0, 0, 1], "value": 0}}}
    value["joints"][0]["probe"] = [{"values": {"slide": 0.01}, "pose1": at(1, 0, 0.1), "pose2": IDENTITY}]
    read(tmp_path, value, diagnostics)
    found = diagnostics.claim("cad.probe-disagrees")
    assert "0.09 m" in found.message
    assert "10 times" in found.hint


def test_an_inertia_about_the_centre_is_recognised(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """It should be about the origin."""
    physical = {"mass": 2.0, "center": [0.1, 0.2, 0.3], "inertia": [1, 2, 2.5, 0, 0, 0], "principal": [1, 2, 2.5]}
    read(tmp_path, put(minimal(), "occurrences[0].physical", physical), diagnostics)
    assert "about the centre" in diagnostics.claim("cad.principal-moments").hint


def test_a_slider_needs_no_frame(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """It moves alike wherever its axis lies; its joint is put at the child."""
    value = minimal()
    slide = {"slide": {"axis": [0, 1, 0], "value": 0.3}}
    value["joints"][0] |= {"type": "slider", "frame2": None, "motions": slide, "kind": "as_built"}
    joint = read(tmp_path, value, diagnostics).joints[0]
    assert joint.kind is JointKind.PRISMATIC
    np.testing.assert_allclose(joint.parent_pose.position, (1, 0, 0))


# -- the documentation ------------------------------------------------------------------------------------------------


def test_the_example_of_the_documentation(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """It is a snapshot, and what it says of itself is true."""
    text = (ROOT / "docs" / "cad-snapshot.md").read_text(encoding="utf-8")
    example = text.split("```json\n", 1)[1].split("```", 1)[0]
    robot = read(tmp_path, example, diagnostics)
    diagnostics.claim("cad.missing-mesh")
    assert [link.name for link in robot.links] == ["base:1", "arm:1"]
    assert robot.joint("shoulder").state is not None
    np.testing.assert_allclose(robot.link_poses({"shoulder": 0.5})["arm:1"].position, (0, 0, 0.1), atol=1e-12)

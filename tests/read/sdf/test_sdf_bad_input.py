"""Whatever the bytes: a clear answer within a moment, never another exception."""

from __future__ import annotations

import contextlib
import re
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kinema.core import Diagnostics, KinemaError, ReadError
from kinema.read.sdf import read_sdf
from kit.diagnostics import ClaimedDiagnostics
from kit.patience import HANG

from .sdf_support import Writer, model, random_robot, read_robot, read_text

_DEEP = "<model name='m'><link name='l'/>" * 200 + "</model>" * 200


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file is empty"),
        (b"   \n", "the file is empty"),
        (b"\x00\x01\x02", "binary"),
        (b"<sdf", "not well-formed"),
        (b"<sdf version='1.9'><model name='m'>", "not well-formed"),
        (b"<robot name='r'/>", "the root element is <robot>"),
        (b"<sdf version='1.9'/>", "no model and no world"),
        (b"<!DOCTYPE sdf [<!ENTITY a 'b'>]><sdf version='1.9'/>", "document type"),
        (b"<sdf version='1.9'>" + b"<a>" * 10_000, "nested more than"),
        ("<sdf version='1.9'>ä".encode("latin-1"), "the text is not"),
    ],
)
def test_a_file_that_is_none(tmp_path: Path, data: bytes, message: str) -> None:
    """One sentence with the place."""
    file = tmp_path / "bad.sdf"
    file.write_bytes(data)
    with pytest.raises(ReadError, match=message) as caught:
        read_sdf(file)
    assert str(caught.value).startswith(str(file))


def test_no_such_file(tmp_path: Path) -> None:
    """Nor is a folder one."""
    with pytest.raises(ReadError, match="there is no such file"):
        read_sdf(tmp_path / "gone.sdf")
    with pytest.raises(ReadError, match="not a file"):
        read_sdf(tmp_path)


def test_models_nested_without_end(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """They are cut off, with one error."""
    robot = read_robot(tmp_path, f'<sdf version="1.9">{_DEEP}</sdf>', diagnostics)
    diagnostics.claim("sdf.nested-too-deep")
    assert len(robot.links) == 64


@pytest.mark.parametrize(
    "text",
    ["x", "1 2 3", "nan 0 0 0 0 0", "inf 0 0 0 0 0", "1e999 0 0 0 0 0", "1_0 0 0 0 0 0", "٣ 0 0 0 0 0", "1,2,3,4,5,6"],
)
def test_a_pose_that_is_none(tmp_path: Path, diagnostics: ClaimedDiagnostics, text: str) -> None:
    """An error, and no number that is not one gets in."""
    robot = read_robot(tmp_path, model(f'<link name="a"><pose>{text}</pose></link>'), diagnostics)
    (error,) = diagnostics.errors()
    diagnostics.claim(error.code)
    assert robot.link_poses()["a"].is_finite


@pytest.mark.parametrize("bad", ["nan", "-nan", "inf", "x", "1 2", "0x10"])
@pytest.mark.parametrize("tag", ["mass", "ixx", "damping", "lower", "radius", "update_rate", "gearbox_ratio"])
def test_a_number_that_is_none(tmp_path: Path, bad: str, tag: str) -> None:
    """An error that names the element, or an infinity where infinity is meant."""
    body = (
        '<link name="a"><inertial><mass>1</mass><inertia><ixx>1</ixx></inertia></inertial>'
        '<collision name="c"><geometry><sphere><radius>1</radius></sphere></geometry></collision>'
        '<sensor name="s" type="imu"><update_rate>1</update_rate></sensor></link><link name="b"/>'
        '<joint name="j" type="revolute"><parent>a</parent><child>b</child><gearbox_ratio>1</gearbox_ratio><axis>'
        "<xyz>0 0 1</xyz><dynamics><damping>1</damping></dynamics><limit><lower>1</lower></limit></axis></joint>"
    )
    diagnostics = Diagnostics()
    robot = read_robot(tmp_path, model(body.replace(f"<{tag}>1<", f"<{tag}>{bad}<")), diagnostics)
    errors = diagnostics.errors()
    if (bad, tag) == ("inf", "lower"):
        assert errors == []
    else:
        assert len(errors) == 1
        assert tag in errors[0].message
    for link in robot.links:
        assert link.inertial is not None
        assert np.isfinite(link.inertial.inertia).all()


@pytest.mark.parametrize("flag", ["yes", "2", "", "TRUE", " 1 "])
def test_flags(tmp_path: Path, flag: str) -> None:
    """True, false, 1 and 0, however they are written; anything else is an error."""
    diagnostics = Diagnostics()
    robot = read_robot(tmp_path, model(f'<static>{flag}</static><link name="a"/>'), diagnostics)
    assert robot.static == (flag in ("TRUE", " 1 "))
    assert len(diagnostics.errors()) == (0 if robot.static else 1)


def test_names_of_every_kind(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Spaces, slashes, quotes and pictures are part of a name."""
    names = ["a b", "a/b", "🤖", "ключ", "a&amp;b", "&lt;x&gt;", "a.b-c"]
    body = "".join(f'<link name="{n}"/>' for n in names)
    joints = "".join(
        f'<joint name="{n}!" type="fixed"><parent>{names[0]}</parent><child>{n}</child></joint>' for n in names[1:]
    )
    robot = read_robot(tmp_path, model(body + joints), diagnostics)
    assert {x.name for x in robot.links} >= {"a b", "🤖", "a&b", "<x>"}
    assert len(robot.joints) == len(names) - 1


@pytest.mark.parametrize("name", ["__model__", "__x__", "world", "____"])
def test_reserved_names(tmp_path: Path, name: str) -> None:
    """An error since 1.7, a warning before."""
    for version, n_errors in (("1.9", 1), ("1.6", 0)):
        diagnostics = Diagnostics()
        read_robot(tmp_path, model(f'<link name="{name}"/>', version=version), diagnostics)
        assert len(diagnostics.errors()) == n_errors
        assert "sdf.reserved-name" in diagnostics.codes()


def test_many_elements_are_quick(tmp_path: Path) -> None:
    """Thousands of links, each on the one before."""
    n = 2000
    links = "".join(f'<link name="l{i}"/>' for i in range(n))
    joints = "".join(
        f'<joint name="j{i}" type="revolute"><parent>l{i}</parent><child>l{i + 1}</child>'
        "<axis><xyz>0 0 1</xyz></axis></joint>"
        for i in range(n - 1)
    )
    start = time.monotonic()
    robot = read_robot(tmp_path, model(links + joints))
    assert len(robot.joints) == n - 1
    assert time.monotonic() - start < HANG


def _sample(seed: int) -> str:
    rng = np.random.default_rng(seed)
    drawn = random_robot(rng, n_links=3, kinds=("revolute", "ball", "universal", "screw"), n_models=1)
    writer = Writer(drawn, rng)
    writer.chance_of_include = 0.0
    return writer.text()


@settings(max_examples=150)
@given(
    seed=st.integers(0, 20), cut=st.floats(0, 1), junk=st.sampled_from(["", "<", "</link>", "nan", '"', "::", "&#0;"])
)
def test_torn_files_raise_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, seed: int, cut: float, junk: str
) -> None:
    """Cut off anywhere, with anything in between: an answer or a `ReadError`."""
    text = _sample(seed)
    place = int(cut * len(text))
    with contextlib.suppress(KinemaError):
        read_text(tmp_path_factory.getbasetemp(), text[:place] + junk + text[place + len(junk) :])


@settings(max_examples=150)
@given(
    seed=st.integers(0, 20), which=st.integers(0, 10**6), action=st.sampled_from(["drop", "double", "rename", "empty"])
)
def test_wrong_trees_raise_nothing(
    tmp_path_factory: pytest.TempPathFactory, seed: int, which: int, action: str
) -> None:
    """Well-formed files with an element missing, doubled, renamed or emptied give a description."""
    text = _sample(seed)
    leaves = list(re.finditer(r"<(\w+)([^<>]*)>([^<>]*)</\1>", text))
    leaf = leaves[which % len(leaves)]
    tag, attributes, inside = leaf.groups()
    other = leaves[(which // 7) % len(leaves)].group(3)
    new = {
        "drop": "",
        "double": leaf.group(0) * 2,
        "rename": f"<{tag}x{attributes}>{inside}</{tag}x>",
        "empty": f"<{tag}{attributes}>{other}</{tag}>",
    }[action]
    read_text(tmp_path_factory.getbasetemp(), text[: leaf.start()] + new + text[leaf.end() :])


@settings(max_examples=150)
@given(
    seed=st.integers(0, 20),
    which=st.integers(0, 10**6),
    name=st.sampled_from(["", "L0", "M0", "M0::L1", "world", "__model__", "J1", "x::", "::", "F0"]),
)
def test_wrong_names_raise_nothing(tmp_path_factory: pytest.TempPathFactory, seed: int, which: int, name: str) -> None:
    """Any name in any place: frames that are missing, doubled, in circles."""
    text = _sample(seed)
    places = list(re.finditer(r'(?:name|relative_to|attached_to|expressed_in|placement_frame)="([^"]*)"', text))
    places += list(re.finditer(r"<(?:parent|child)>([^<]*)<", text))
    place = places[which % len(places)]
    described = read_text(tmp_path_factory.getbasetemp(), text[: place.start(1)] + name + text[place.end(1) :])
    assert all(np.isfinite(m).all() for m in described.forward_kinematics().values())

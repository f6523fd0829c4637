"""Bad files, unknown elements, and that nothing is lost."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from kinema.core import Diagnostics, ReadError, Severity
from kinema.read.resolve import Resolver
from kinema.read.urdf import read_urdf
from kit.assets import EXAMPLES
from kit.diagnostics import ClaimedDiagnostics
from kit.patience import HANG

from .urdf_files import LIMIT, joint, read_text, write

# -- files that cannot be read ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "empty"),
        (b"   \n", "empty"),
        (b"\x7fELF\x00\x00\x01", "binary"),
        (b"solid cube", "not well-formed"),
        (b"<robot name='a'><link", "not well-formed"),
        (b"<robot name='a'><link name='b'></robot>", ":1: not well-formed"),
        (b"<sdf version='1.7'/>", "root element is <sdf>"),
        (b"<mujoco/>", "root element is <mujoco>"),
        (b"<!DOCTYPE r [<!ENTITY a 'b'>]><robot name='&a;'/>", "document type"),
        (b"<?xml version='1.0' encoding='klingon'?><robot/>", "encoding"),
        (b"<robot>" + b"<a>" * 10_000 + b"</a>" * 10_000 + b"</robot>", "nested"),
        (b"<robot name='\xff\xfe\xfa'/>", "not"),
    ],
)
def test_unreadable_files(tmp_path: Path, data: bytes, message: str) -> None:
    """One sentence that begins with the file."""
    file = tmp_path / "bad.urdf"
    file.write_bytes(data)
    with pytest.raises(ReadError, match=message) as caught:
        read_urdf(file)
    assert str(caught.value).startswith(str(file))
    assert "\n" not in str(caught.value)


def test_missing_files_and_folders(tmp_path: Path) -> None:
    """Likewise."""
    with pytest.raises(ReadError, match="no such file"):
        read_urdf(tmp_path / "nothing.urdf")
    with pytest.raises(ReadError, match="not a file"):
        read_urdf(tmp_path)


_MANY = {
    "nameless links": "<link/>" * 20_000,
    "equal links": '<link name="a"/>' * 20_000,
    "equal joints": '<link name="a"/>' + joint(type="fixed") * 5_000,
    "unknown elements": "<x/>" * 20_000,
}


@pytest.mark.parametrize("inside", _MANY.values(), ids=_MANY)
def test_many_mistakes_take_little_time(tmp_path: Path, inside: str) -> None:
    """The work grows with the file, not with its square."""
    file = write(tmp_path, inside)
    start = time.perf_counter()
    robot = read_urdf(file)
    assert time.perf_counter() - start < HANG
    assert len({x.name for x in robot.links}) == len(robot.links)
    assert len({j.name for j in robot.joints}) == len(robot.joints)


_EXAMPLE = (EXAMPLES / "arm" / "arm.urdf").read_bytes()
_WORDS = [b"nan", b"1e999", b"", b"x", b"\xf0\x9f\xa6\xbe", b"0 0", b"-1", b"robot", b"<", b">", b"/>", b'"', b"&amp;"]


@settings(max_examples=150)
@given(data=st.data())
def test_damaged_files_never_surprise(tmp_path: Path, data: st.DataObject) -> None:
    """Cut, and with parts replaced: a robot or a `ReadError`, nothing else."""
    text = _EXAMPLE
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(text)))
        length = data.draw(st.sampled_from([0, 1, 5, 40]))
        text = text[:place] + data.draw(st.sampled_from(_WORDS)) + text[place + length :]
    if data.draw(st.booleans()):
        text = text[: data.draw(st.integers(0, len(text)))]
    file = tmp_path / "arm.urdf"
    file.write_bytes(text)
    try:
        robot = read_urdf(file, resolve=Resolver(use_environment=False))
    except ReadError:
        return
    robot.forward_kinematics()


_ATTRIBUTE = re.compile(rb'="[^"]*"')
_ATTRIBUTES = [m.span() for m in _ATTRIBUTE.finditer(_EXAMPLE, _EXAMPLE.index(b"<robot"))]
_WRONG = ["nan", "inf", "", "1", "a b c", "-1 0 1", "🦾"]


@settings(max_examples=150)
@given(which=st.integers(0, len(_ATTRIBUTES) - 1), value=st.sampled_from(_WRONG))
def test_any_attribute_may_be_wrong(tmp_path: Path, which: int, value: str) -> None:
    """Well-formed files with one wrong value are always read, and never into something that is not finite."""
    start, end = _ATTRIBUTES[which]
    file = tmp_path / "arm.urdf"
    file.write_bytes(_EXAMPLE[:start] + f'="{value}"'.encode() + _EXAMPLE[end:])
    robot = read_urdf(file, resolve=Resolver(use_environment=False))
    assert all(pose.is_finite for pose in robot.link_poses().values())


def test_the_policy_of_the_collector_is_heard(tmp_path: Path) -> None:
    """A collector that raises on errors ends the reading."""

    def stop(diagnostic: object) -> None:
        raise KeyError(diagnostic)

    with pytest.raises(KeyError):
        read_urdf(write(tmp_path, ""), diagnostics=Diagnostics(policy=stop))


# -- what is not understood -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "code"),
    [("1.0", None), ("1.1", None), ("1.2", None), ("1.3", "unknown-version"), ("1", "unknown-version")],
)
def test_versions(tmp_path: Path, diagnostics: ClaimedDiagnostics, version: str, code: str | None) -> None:
    """Unknown ones are warned of, and every one is kept."""
    robot = read_text(tmp_path, '<link name="a"/>', diagnostics, attributes=f'name="r" version="{version}"')
    assert robot.attributes["urdf:version"] == version
    if code:
        assert diagnostics.claim(f"urdf.{code}").severity is Severity.WARNING


def test_a_newer_version_is_read_as_the_newest_known(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """And so effort and velocity are optional."""
    limit = '<limit lower="0" upper="1"/>'
    read_text(tmp_path, joint(limit), diagnostics, attributes='name="r" version="1.9"')
    assert "1.2" in diagnostics.claim("urdf.unknown-version").message


@pytest.mark.parametrize(
    "element",
    [
        '<gazebo><plugin name="p" filename="libp.so">\n  <x>1</x></plugin></gazebo>',
        '<transmission name="t"><type>x</type><joint name="j"/></transmission>',
        '<ros2_control name="c" type="system"><hardware/></ros2_control>',
        '<mujoco><compiler meshdir="x"/></mujoco>',
        '<drake:linear_bushing_rpy xmlns:drake="x"/>',
    ],
)
def test_what_others_read_is_kept_with_a_note(tmp_path: Path, diagnostics: ClaimedDiagnostics, element: str) -> None:
    """Verbatim, at the robot."""
    robot = read_text(tmp_path, f'<link name="a"/>{element}', diagnostics)
    assert [e.text for e in robot.extras] == [element]
    assert diagnostics.claim("urdf.kept-element").severity is Severity.NOTE


def test_gazebo_belongs_to_what_it_refers_to(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A link or a joint, wherever it stands; several make one note."""
    elements = [f'<gazebo reference="{name}"><mu1>1</mu1></gazebo>' for name in ("b", "j", "nowhere")]
    robot = read_text(tmp_path, "".join(elements) + joint(LIMIT), diagnostics)
    assert [e.text for e in robot.links[1].extras] == [elements[0]]
    assert [e.text for e in robot.joints[0].extras] == [elements[1]]
    assert [e.text for e in robot.extras] == [elements[2]]
    assert '"nowhere"' in diagnostics.claim("urdf.unknown-reference").message
    assert "3 <gazebo>" in diagnostics.claim("urdf.kept-element").message


def test_sensors_are_kept_with_a_warning(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """They would measure something."""
    robot = read_text(tmp_path, '<link name="a"/><sensor name="s"><parent link="a"/></sensor>', diagnostics)
    assert '"s"' in diagnostics.claim("urdf.sensor").message
    assert robot.extras[0].tag == "sensor"


def test_extensions_inside_links_are_kept_with_a_note(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Bullet's contact, Drake's properties, the materials that exporters write into collisions."""
    shape = '<geometry><sphere radius="1"/></geometry>'
    extra = '<drake:proximity_properties/><material name="m"/><verbose value="x"/>'
    contact = '<contact><lateral_friction value="1"/></contact>'
    inside = f'<link name="a">{contact}<collision>{shape}{extra}</collision></link>'
    link = read_text(tmp_path, inside, diagnostics).links[0]
    assert [e.text for e in link.extras] == [contact]
    assert sorted(e.tag for e in link.shapes[0].extras) == ["drake:proximity_properties", "material", "verbose"]


_UNKNOWN = [
    ("robot", '<link name="a"/><x k="1"/>', "x"),
    ("link", '<link name="a"><x k="1"/></link>', "x"),
    ("link", '<link name="a" k="1"/>', "@k"),
    ("link", '<link name="a"><inertial><mass value="1" k="1"/><inertia/></inertial></link>', "inertial/mass/@k"),
    ("shape", '<link name="a"><visual k="1"><geometry><box size="1 1 1"/></geometry></visual></link>', "@k"),
    (
        "shape",
        '<link name="a"><visual><origin k="1"/><geometry><box size="1 1 1"/></geometry></visual></link>',
        "origin/@k",
    ),
    (
        "shape",
        '<link name="a"><visual><geometry><box size="1 1 1"><x/></box></geometry></visual></link>',
        "geometry/box/x",
    ),
    ("joint", joint('<x k="1"/>', type="fixed"), "x"),
    ("joint", joint('<origin k="1"/>', type="fixed"), "origin/@k"),
    ("joint", joint(LIMIT.replace("/>", ' k="1"/>')), "limit/@k"),
]


@pytest.mark.parametrize(("owner", "inside", "tag"), _UNKNOWN, ids=[f"{o} {t}" for o, _, t in _UNKNOWN])
def test_unknown_things_are_kept_with_a_warning(
    tmp_path: Path, diagnostics: ClaimedDiagnostics, owner: str, inside: str, tag: str
) -> None:
    """At the node they belong to, with the path to them."""
    robot = read_text(tmp_path, inside, diagnostics)
    code = "unknown-attribute" if "@" in tag else "unknown-element"
    assert diagnostics.claim(f"urdf.{code}").severity is Severity.WARNING
    if "<inertia/>" in inside:
        diagnostics.claim("urdf.missing-attribute")
    node = {
        "robot": lambda: robot,
        "link": lambda: robot.links[0],
        "shape": lambda: robot.links[0].shapes[0],
        "joint": lambda: robot.joints[0],
    }[owner]()
    assert [e.tag for e in node.extras] == [tag]


def test_arguments_without_xacro_are_suspicious(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Somebody expects them to do something."""
    read_text(tmp_path, '<link name="a"/>', diagnostics, arguments={"side": "left"})
    diagnostics.claim("urdf.unused-arguments")

"""Files from strangers: each is refused in one clear sentence, or read with what is wrong in it reported."""

from __future__ import annotations

import importlib
import time
from contextlib import suppress
from pathlib import Path

import mujoco
import pytest
from hypothesis import given, settings, strategies as st

from kinema.core import Diagnostics, ReadError, Severity
from kinema.description import Robot
from kinema.read.mjcf import read_mjcf
from kit.diagnostics import ClaimedDiagnostics
from kit.mjcf_texts import BALL, INLINE, in_body, read_text, write
from kit.patience import HANG


def _refused(path: Path, match: str) -> str:
    begin = time.monotonic()
    with pytest.raises(ReadError, match=match) as caught:
        read_mjcf(path)
    assert time.monotonic() - begin < HANG
    assert "\n" not in str(caught.value)
    assert "Traceback" not in str(caught.value)
    return str(caught.value)


def _world(inside: str, rest: str = "") -> str:
    return f"<mujoco>\n<worldbody>{inside}</worldbody>{rest}</mujoco>"


ENTITIES = '<!DOCTYPE mujoco [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><mujoco model="&b;"/>'


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "the file is empty"),
        ("   \n", "the file is empty"),
        ("\x00\x01\x02\x03", "binary file"),
        ("this is no XML", "not well-formed"),
        ("<mujoco><worldbody>", "not well-formed"),
        ('<robot name="r"><link name="a"/></robot>', r":1: this is a URDF file \(its root is <robot>\)"),
        ("<mujocoinclude><worldbody/></mujocoinclude>", "a fragment for other files to include"),
        ('<sdf version="1.7"/>', "the root of an MJCF file is <mujoco>, this one is <sdf>"),
        (ENTITIES, "document type declarations and entities are not accepted"),
        ("<mujoco>" + "<body>" * 10_000, "nested more than"),
        ("<!--" * 200_000, "not well-formed"),
    ],
    ids=lambda value: value[:20] if len(value) < 1000 else "long",
)
def test_not_a_model(tmp_path: Path, text: str, match: str) -> None:
    """What is no MJCF at all."""
    _refused(write(tmp_path, text), match)


def test_no_file(tmp_path: Path) -> None:
    """A file that is not there, and a folder."""
    _refused(tmp_path / "gone.xml", "no such file")
    _refused(tmp_path, "not a file")


@pytest.mark.parametrize(
    ("inside", "match"),
    [
        ('<replicate count="2000000000"><body/></replicate>', "more than 30000 elements"),
        ('<replicate count="6000"><body/></replicate>', "more than 5000 bodies"),
        ('<replicate count="4000"><body>' + '<joint type="ball"/>' * 3 + "</body></replicate>", "more than 30000 deg"),
        ('<replicate count="99">' * 5 + BALL + "</replicate>" * 5, "more than 30000 elements"),
        ('<replicate count="50">' + "<body><joint/>" * 200 + "</body>" * 200 + "</replicate>", "5000 bodies"),
        ('<replicate count="20">' + "<body><joint/>" * 250 + "</body>" * 250 + "</replicate>", "inertia matrix"),
        ("".join(f'<body name="b{i}">' + f'<attach body="b{i - 1}" prefix="p{i}"/>' * 2 * (i > 0) + "</body>"
                 for i in range(40)), "more than"),
        ('<body name="a">' + '<body name="b"><attach body="a" prefix="p"/></body>' * 60 + "</body>", "more than"),
        ('<flexcomp name="f" type="grid" count="1000 1000 1000" spacing="1 1 1"/>', "asks for more memory"),
        ('<flexcomp name="f" type="grid" dof="trilinear" cellcount="999 999 9" count="3 3 3"/>', "more memory"),
    ],
    ids=lambda value: value[:30],
)  # fmt: skip
def test_trees_that_explode(tmp_path: Path, inside: str, match: str) -> None:
    """A few lines that ask for millions of bodies."""
    assert ":2: " in _refused(write(tmp_path, _world(inside)), match)


@pytest.mark.parametrize(
    "rest",
    [
        '<asset><hfield name="h" nrow="65536" ncol="65536" size="1 1 1 1"/></asset>',
        '<asset><hfield name="h" nrow="30000" ncol="30000" size="1 1 1 1"/></asset>',
        '<asset><hfield name="h" nrow="2" ncol="3000000" size="1 1 1 1"/></asset>',
        '<size nkey="1000000000"/>',
        '<size nuser_body="1000000000"/>',
        '<sensor><user dim="2000000000"/></sensor>',
        "<sensor>" + '<user dim="90000"/>' * 200 + "</sensor>",
        '<worldbody><camera name="c" resolution="90000 90000"/></worldbody><sensor><rangefinder camera="c"/></sensor>',
        '<actuator><general joint="j" dyntype="user" actdim="2000000000"/></actuator>',
        '<default><general nsample="90000"/></default>' + "<actuator>" + '<motor joint="j"/>' * 200 + "</actuator>",
        '<asset><mesh name="m" builtin="supertorus" params="50000 .5 1 1"/></asset>',
        '<asset><mesh name="m" builtin="grid" params="5000 5000 5000 1 1 1"/></asset>',
        "<asset>" + '<mesh><plugin plugin="mujoco.sdf.torus"/></mesh>' * 30 + "</asset>",
    ],
    ids=lambda value: value[:45],
)
def test_numbers_that_explode(tmp_path: Path, rest: str) -> None:
    """A single attribute that asks for gigabytes."""
    _refused(write(tmp_path, in_body("", rest)), "larger than|more memory|made by plugins")


@pytest.mark.parametrize(
    "rest",
    [
        '<size memory="1000G" njmax="2000000000" nconmax="2000000000" nuserdata="2000000000"/>',
        '<asset><texture name="t" builtin="checker" width="60000" height="60000"/></asset>',
        '<asset><texture name="t" type="cube" builtin="flat" width="99999" height="99999" mark="random"/></asset>',
        '<option iterations="2000000000" ls_iterations="2000000000" sdf_initpoints="2000000000"/>',
    ],
)
def test_memory_that_is_not_needed_is_not_taken(tmp_path: Path, diagnostics: ClaimedDiagnostics, rest: str) -> None:
    """Requests that say nothing about the robot: they are kept as text, and the robot is read."""
    begin = time.monotonic()
    assert isinstance(read_text(tmp_path, in_body("", rest), diagnostics), Robot)
    assert time.monotonic() - begin < HANG


def test_length_ranges_do_not_take_for_ever(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """MuJoCo would simulate for hours to find them; they stay as given, and that is said."""
    rest = '<compiler><lengthrange inttotal="1e9" timestep="1e-6"/></compiler><actuator><muscle joint="j"/></actuator>'
    begin = time.monotonic()
    robot = read_text(tmp_path, in_body("", rest), diagnostics)
    assert time.monotonic() - begin < HANG
    assert "too long" in diagnostics.claim("mjcf.mujoco-warning").message
    assert robot.actuators[0].length_range == (0.0, 0.0)


def test_length_ranges_that_do_not_converge(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """An error of MuJoCo's about one quantity does not lose the robot."""
    robot = read_text(tmp_path, in_body("", '<actuator><muscle name="m" joint="j"/></actuator>'), diagnostics)
    assert diagnostics.claim("mjcf.length-range").severity is Severity.ERROR
    assert [a.name for a in robot.actuators] == ["m"]


def test_circles(tmp_path: Path) -> None:
    """Files that include or attach themselves, directly or by way of others."""
    include = '<mujoco>\n<include file="{}"/></mujoco>'
    attach = '<mujoco model="m">\n<asset><model name="m" file="{}"/></asset></mujoco>'
    for template, match in ((include, "is circular"), (attach, "attaches itself")):
        assert ":2: " in _refused(write(tmp_path, template.format("self.xml"), "self.xml"), match)
        write(tmp_path, template.format("b.xml"), "a.xml")
        write(tmp_path, template.format("a.xml"), "b.xml")
        _refused(tmp_path / "a.xml", match)


def test_long_chains_of_files(tmp_path: Path) -> None:
    """Includes and attached models may not nest without end."""
    for i in range(60):
        write(tmp_path, f'<mujoco><include file="i{i + 1}.xml"/></mujoco>', f"i{i}.xml")
        write(tmp_path, f'<mujoco><asset><model name="m" file="m{i + 1}.xml"/></asset></mujoco>', f"m{i}.xml")
    _refused(tmp_path / "i0.xml", "includes are nested more than")
    _refused(tmp_path / "m0.xml", "too many models are attached")


def test_deep_includes_are_deep_trees(tmp_path: Path) -> None:
    """Depth is that of the whole model."""
    deep = "<frame>" * 300 + "{}" + "</frame>" * 300
    write(tmp_path, "<mujoco>" + deep.format("<geom/>") + "</mujoco>", "part.xml")
    _refused(write(tmp_path, _world(deep.format('<include file="part.xml"/>'))), "nested more than")


# -- what MuJoCo refuses ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inside", "match"),
    [
        ("\n<bady/>", r":2: <bady>: .*unrecognized element"),
        ('\n<geom size=".1" foo="1"/>', r":2: <geom>: .*unrecognized attribute: 'foo'"),
        ('\n<geom size="x"/>', r":2: <geom>: bad format in attribute 'size'"),
        ('\n<geom name="g" size=".1"/><geom name="g" size=".1"/>', r':2: <geom> "g": repeated name \'g\' in geom'),
        ('\n<body name="c"><joint/></body>', r':2: <body> "c": mass and inertia of moving bodies'),
        ('\n<geom name="g" type="mesh" mesh="m"/>', r':2: <geom> "g": mesh'),
        ('\n<body quat="0 0 0 0"/>', r":2: <body>: zero quaternion"),
    ],
    ids=lambda value: value[:25],
)
def test_mujocos_complaints_have_a_place(tmp_path: Path, inside: str, match: str) -> None:
    """What the tree of bodies rests on is refused with MuJoCo's words and the line."""
    _refused(write(tmp_path, in_body(inside)), match)


def test_one_run_lists_all_that_is_wrong(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Elements that nothing rests on are left out one by one, each with its reason and line."""
    rest = """
<actuator><motor name="good" joint="j"/>
<motor name="bad" joint="gone"/></actuator>
<sensor><gyro site="gone"/></sensor>
<tendon><fixed name="t"><joint joint="gone" coef="1"/></fixed></tendon>
<actuator><motor name="worse" tendon="t"/></actuator>
<equality><joint joint1="gone"/></equality>
<contact><exclude body1="b" body2="gone"/></contact>
<keyframe><key qpos="1 2 3"/></keyframe>"""
    robot = read_text(tmp_path, in_body("", rest), diagnostics)
    found = diagnostics.claim_all("mjcf.left-out")
    assert sorted(d.origin.line or 0 for d in found) == [3, 4, 5, 6, 7, 8, 9]
    assert all(d.severity is Severity.ERROR and "is left out" in d.message for d in found)
    assert [a.name for a in robot.actuators] == ["good"]


def test_too_much_is_wrong(tmp_path: Path) -> None:
    """After many wrong elements it gives up, in one sentence."""
    wrong = "".join(f'<motor joint="gone{i}"/>' for i in range(60))
    _refused(write(tmp_path, in_body("", f"<actuator>{wrong}</actuator>")), "more than 50 elements are wrong")


def test_empty_values(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """MuJoCo fails without a reason on some; here they are as good as absent."""
    rest = '\n<equality><connect body1="b" anchor=""/></equality>'
    robot = read_text(tmp_path, in_body('<site name="s" pos="" size=""/>', rest), diagnostics)
    assert "anchor" in diagnostics.claim("mjcf.left-out").message
    assert [f.name for f in robot.frames] == ["s"]


def test_mujoco_survives_its_own_failures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception it does not expect would make its next warning endless; another thread does not notice."""
    module = importlib.import_module("kinema.read.mjcf.prepare")
    monkeypatch.setattr(module, "_MAY_BE_EMPTY", {"anchor"})
    failing = write(tmp_path, in_body("", '<equality><connect body1="b" anchor=""/></equality>'), "failing.xml")
    for _ in range(2):
        with pytest.raises(ReadError):
            read_mjcf(failing)
    begin = time.monotonic()
    assert read_text(tmp_path, in_body("", '<keyframe><key qpos="nan"/></keyframe>')).links
    assert time.monotonic() - begin < HANG


def test_nan_is_found_where_it_is(tmp_path: Path) -> None:
    """MuJoCo takes NaN for a number."""
    diagnostics = Diagnostics()
    text = in_body("", '\n<keyframe><key qpos="nan"/></keyframe>')
    read_text(tmp_path, text, diagnostics)
    assert [(d.code, d.origin.line) for d in diagnostics] == [("mjcf.not-finite", 2)]


def test_warnings_become_diagnostics(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is printed, nothing is written beside the user's files, and the user's own handler comes back."""
    monkeypatch.chdir(tmp_path)
    seen: list[str] = []
    mujoco.set_mju_user_warning(seen.append)
    try:
        diagnostics = Diagnostics()
        read_text(tmp_path, in_body("", '<compiler settotalmass="3"/><option gravity="nan 0 0"/>'), diagnostics)
        assert mujoco.get_mju_user_warning() is not None
    finally:
        mujoco.set_mju_user_warning(None)
    assert not seen
    assert not (tmp_path / "MUJOCO_LOG.TXT").exists()
    printed = capfd.readouterr()
    assert (printed.out, printed.err) == ("", "")
    if tuple(int(n) for n in mujoco.__version__.split(".")[:2]) >= (3, 16):
        assert "settotalmass" in " ".join(d.message for d in diagnostics if d.code == "mjcf.mujoco-warning")


# -- what MuJoCo takes, though it is no XML ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        '<mujoco>\n<worldbody><body name="a"pos="1 2 3"><geom name="g"size=".1"/></body></worldbody></mujoco>',
        '<mujoco>\n<!-- ---- a line ---- --><worldbody><body name="a" pos="1 2 3">\n<geom name="g" size=".1"/></body>'
        "</worldbody></mujoco>",
        "<mujoco>\n<worldbody><body name='a' pos=\"1 2 3\"><geom name='g'size='.1' user='1'/></body></worldbody>"
        "</mujoco>",
    ],
    ids=["glued attributes", "dashes in a comment", "single quotes"],
)
def test_text_that_only_mujoco_takes(tmp_path: Path, diagnostics: ClaimedDiagnostics, text: str) -> None:
    """It is read as MuJoCo reads it, with a warning, and places stay right."""
    robot = read_text(tmp_path, text, diagnostics)
    assert isinstance(robot, Robot)
    assert diagnostics.claim("mjcf.not-well-formed").origin.line == 2
    assert robot.link("a").shapes[0].name == "g"
    assert robot.link("a").origin.line == 2


def test_ampersands(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A bare one is meant."""
    robot = read_text(tmp_path, in_body("").replace('name="b"', 'name="b & c < d"'), diagnostics)
    diagnostics.claim("mjcf.not-well-formed")
    assert robot.links[0].name == "b & c < d"


@pytest.mark.parametrize("name", ["with space", "a/b", "🤖", "%s%n%x", "::", '"quoted"', "x" * 5000])
def test_names(tmp_path: Path, diagnostics: ClaimedDiagnostics, name: str) -> None:
    """Names are the file's own, whatever is in them."""
    escaped = name.replace('"', "&quot;")
    text = in_body("").replace('name="b"', f'name="{escaped}"').replace('name="j"', f'name="{escaped}"')
    robot = read_text(tmp_path, text, diagnostics)
    assert (robot.links[0].name, robot.joints[0].name) == (name, name)


# -- damage -----------------------------------------------------------------------------------------------------------

_TEXTS = [text.encode() for text in INLINE.values()]
_JUNK = [
    b"",
    b"<",
    b'"',
    b"nan",
    b"-1",
    b"1e999",
    b"99999999999",
    b"\x00",
    b"\xff",
    b"</body>",
    b"&amp;",
    b"mesh",
    b" ",
]


@settings(max_examples=300)
@given(
    text=st.sampled_from(_TEXTS),
    cuts=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 12), st.sampled_from(_JUNK)), min_size=1, max_size=4),
)
def test_damaged_files(tmp_path_factory: pytest.TempPathFactory, text: bytes, cuts: list) -> None:
    """Whatever the bytes are: a description, or one `ReadError`."""
    for where, length, junk in cuts:
        position = int(where * len(text))
        text = text[:position] + junk + text[position + length :]
    path = tmp_path_factory.mktemp("damaged") / "model.xml"
    path.write_bytes(text)
    with suppress(ReadError):
        described = read_mjcf(path)
        for robot in [described] if isinstance(described, Robot) else described.robots:
            robot.link_poses()

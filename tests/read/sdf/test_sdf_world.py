"""Worlds and models: what is a robot, what is scenery, what is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from kinema.core import ReadError
from kinema.description import Base, Robot, World
from kit.assets import all_assets, asset_id
from kit.diagnostics import ClaimedDiagnostics

from .sdf_support import assert_close, model, read_robot, read_text, read_world, world

_ONE = '<model name="{}"><pose>{} 0 0 0 0 0</pose><link name="l"/></model>'


def test_one_model_is_a_robot(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """With its name, format, source and version; where gravity points is not its business."""
    robot = read_robot(tmp_path, model('<link name="a"/>', version="1.7"), diagnostics)
    assert (robot.name, robot.format, robot.attributes["sdf:version"]) == ("m", "sdf", "1.7")
    assert Path(robot.source) == tmp_path / "test.sdf"
    assert robot.gravity is None
    assert robot.origin.line == 1
    assert robot.diagnostics is diagnostics


def test_a_world_is_a_world(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Even with one model in it."""
    result = read_world(tmp_path, world(_ONE.format("m", 2)), diagnostics)
    assert (result.name, result.format) == ("w", "sdf")
    assert_close(result.gravity, [0, 0, -9.8])
    assert_close(result.robots[0].pose.position, [2, 0, 0])


def test_several_models_at_the_root(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Fine in old files, an error since 1.8; in any case they are a world."""
    two = _ONE.format("a", 1) + _ONE.format("b", 2)
    old = read_text(tmp_path, f'<sdf version="1.7">{two}</sdf>', diagnostics)
    assert isinstance(old, World)
    assert [r.name for r in old.robots] == ["a", "b"]
    new = read_text(tmp_path, f'<sdf version="1.9">{two}</sdf>', diagnostics)
    diagnostics.claim("sdf.several-models")
    assert isinstance(new, World)
    assert len(new.robots) == 2


def test_only_the_first_world_is_read(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """The others are named."""
    text = f'<sdf version="1.9"><world name="v">{_ONE.format("m", 0)}</world><world name="w"/></sdf>'
    result = read_world(tmp_path, text, diagnostics)
    assert '"w"' in diagnostics.claim("sdf.several-worlds").message
    assert result.name == "v"


@pytest.mark.parametrize(
    ("version", "text", "expected"),
    [
        ("1.9", "<gravity>1 2 3</gravity>", [1, 2, 3]),
        ("1.9", "<physics type='ode'><gravity>1 2 3</gravity></physics>", [0, 0, -9.8]),
        ("1.5", "<physics type='ode'><gravity>1 2 3</gravity></physics>", [1, 2, 3]),
        ("1.9", "<gravity/>", [0, 0, -9.8]),
    ],
)
def test_gravity(
    tmp_path: Path, diagnostics: ClaimedDiagnostics, version: str, text: str, expected: list[float]
) -> None:
    """Up to 1.5 it stood inside physics."""
    assert_close(read_world(tmp_path, world(text, version=version), diagnostics).gravity, expected)


def test_the_time_step(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Of the physics that is marked as default, else of the first; all of it is kept."""
    text = world(
        "<physics type='ode'><max_step_size>0.1</max_step_size></physics>"
        "<physics type='dart' default='true'><max_step_size>0.2</max_step_size></physics>"
    )
    result = read_world(tmp_path, text, diagnostics)
    assert result.options["timestep"] == 0.2
    assert [e.tag for e in result.extras] == ["physics", "physics"]
    assert read_world(tmp_path, world("<physics type='ode'/>"), diagnostics).options["timestep"] == 0.001
    assert "timestep" not in read_world(tmp_path, world(""), diagnostics).options


def test_a_static_model_is_scenery(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """It is fixed, and joints and frames in it do not matter."""
    text = world(
        '<model name="m"><static>true</static><pose>1 0 0 0 0 0</pose><link name="l"/><link name="k"/></model>'
    )
    (robot,) = read_world(tmp_path, text, diagnostics).robots
    assert (robot.static, robot.base) == (True, Base.FIXED)


def test_a_static_model_inside_a_robot_is_held(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """By joints that the file does not have, at the place it has in the world."""
    body = (
        '<pose>1 0 0 0 0 0</pose><link name="a"/>'
        '<model name="n"><static>true</static><pose>0 2 0 0 0 0</pose><link name="b"/>'
        '<model name="o"><link name="c"/></model></model>'
    )
    robot = read_robot(tmp_path, model(body), diagnostics)
    assert [(j.child, j.parent, j.implicit, j.name_is_generated) for j in robot.joints] == [
        ("n::b", None, True, True),
        ("n::o::c", None, True, True),
    ]
    assert_close(robot.link_poses()["n::b"].position, [1, 2, 0])
    assert robot.base is Base.FREE
    assert robot.tree().roots == ("a",)


def test_nested_models_are_flattened(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Their parts carry the names of the models around them; the top-level model's name is not among these."""
    body = (
        '<link name="l"/><model name="n"><link name="l"/><model name="o"><link name="l"/><frame name="f"/>'
        '<joint name="j" type="fixed"><parent>world</parent><child>l</child></joint></model>'
        '<plugin name="p" filename="f"/></model>'
    )
    robot = read_robot(tmp_path, model(body), diagnostics)
    assert [x.name for x in robot.links] == ["l", "n::l", "n::o::l"]
    assert [x.name for x in robot.joints] == ["n::o::j"]
    frames = {f.name: f for f in robot.frames}
    assert frames.keys() == {"n::__model__", "n::o::__model__", "n::o::f"}
    assert frames["n::__model__"].link == "n::l"
    assert [e.tag for e in frames["n::__model__"].extras] == ["plugin"]


def test_a_canonical_link(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A declared one is the root unless a joint carries it: the tree follows the joints."""
    links = '<link name="a"/><link name="b"/>'
    robot = read_robot(tmp_path, model(links, attributes='canonical_link="b"'), diagnostics)
    assert robot.root == "b"
    joint = '<joint name="j" type="fixed"><parent>a</parent><child>b</child></joint>'
    carried = read_robot(tmp_path, model(links + joint, attributes='canonical_link="b"'), diagnostics)
    assert carried.root is None
    assert carried.attributes["sdf:canonical_link"] == "b"
    assert read_robot(tmp_path, model(links), diagnostics).root is None


@pytest.mark.parametrize(
    "tag",
    [
        "plugin",
        "gui",
        "scene",
        "wind",
        "audio",
        "magnetic_field",
        "atmosphere",
        "spherical_coordinates",
        "state",
        "road",
    ],
)
def test_what_a_world_has_beside_is_kept(tmp_path: Path, diagnostics: ClaimedDiagnostics, tag: str) -> None:
    """Word for word, with a note."""
    text = f"<{tag} name='x'><inside>1</inside></{tag}>"
    result = read_world(tmp_path, world(text), diagnostics)
    assert [(e.tag, e.text) for e in result.extras] == [(tag, text)]
    assert diagnostics.codes() == ["sdf.kept"]


def test_a_population_is_not_created(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """It stands for models, so that is a warning."""
    result = read_world(tmp_path, world('<population name="x"/>'), diagnostics)
    diagnostics.claim("sdf.population")
    assert [e.tag for e in result.extras] == ["population"]


def test_models_of_one_name(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """The later one gets another name."""
    result = read_world(tmp_path, world(_ONE.format("m", 0) + _ONE.format("m", 1)), diagnostics)
    diagnostics.claim("sdf.duplicate-name")
    names = [r.name for r in result.robots]
    assert names[0] == "m"
    assert len(set(names)) == 2
    assert len(result.link_poses()) == 2


def test_links_and_joints_of_one_name(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Two links of a name are an error, a link and a joint of a name only since 1.7; the name means the link."""
    body = (
        '<joint name="a" type="fixed"><parent>b</parent><child>a</child></joint>'
        '<link name="a"><pose>1 0 0 0 0 0</pose></link><link name="b"/>'
    )
    old = read_robot(tmp_path, model(body, version="1.6"), diagnostics)
    assert old.joint("a").child == "a"
    new = read_robot(tmp_path, model(body), diagnostics)
    diagnostics.claim("sdf.duplicate-name")
    assert new.joint("a").child == "a"
    twice = read_robot(tmp_path, model('<link name="a"/><link name="a"/>', version="1.6"), diagnostics)
    diagnostics.claim("sdf.duplicate-name")
    assert [x.name for x in twice.links] == ["a", "a_1"]


@pytest.mark.parametrize("version", ["1.5", "1.7"])
def test_flattened_names_of_old_files(tmp_path: Path, diagnostics: ClaimedDiagnostics, version: str) -> None:
    """Before 1.8 tools wrote `model::link` as the name itself."""
    body = (
        '<link name="n::a"/><link name="n::b"/>'
        '<joint name="n::j" type="fixed"><parent>n::a</parent><child>n::b</child></joint>'
    )
    robot = read_robot(tmp_path, model(body, version=version), diagnostics)
    assert (robot.joint("n::j").parent, robot.joint("n::j").child) == ("n::a", "n::b")


def test_a_flattened_name_may_meet_a_nested_one(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Both would be `n::a`."""
    body = '<link name="n::a"/><model name="n"><link name="a"/></model>'
    robot = read_robot(tmp_path, model(body, version="1.7"), diagnostics)
    diagnostics.claim("sdf.duplicate-name")
    assert [x.name for x in robot.links] == ["n::a", "n::a_1"]


def test_names_are_made_up_where_there_are_none(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """With an error; and they are unique."""
    robot = read_robot(tmp_path, '<sdf version="1.9"><model><link/><link name=" "/></model></sdf>', diagnostics)
    assert len(diagnostics.claim_all("sdf.missing-name")) == 3
    diagnostics.claim("sdf.duplicate-name")
    assert len({x.name for x in robot.links}) == 2
    assert all(x.name_is_generated for x in robot.links)


def test_a_light_alone_is_a_world(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """There is no robot in it, but something to see by."""
    result = read_world(tmp_path, '<sdf version="1.9"><light name="l" type="directional"/></sdf>', diagnostics)
    assert [x.name for x in result.lights] == ["l"]
    assert_close(result.lights[0].pose.rotation[:, 2], [0, 0, 1])


def test_an_empty_file_has_nothing_to_give(tmp_path: Path) -> None:
    """Neither a model nor a world."""
    with pytest.raises(ReadError, match=r"test\.sdf:1: <sdf> holds no model and no world"):
        read_text(tmp_path, '<sdf version="1.9"/>')


@pytest.mark.parametrize(
    ("version", "severity"),
    [
        ('version="1.4"', None),
        ('version="1.12"', None),
        ('version="1.3"', "warning"),
        ('version="1.13"', "warning"),
        ('version="2.0"', "warning"),
        ('version="new"', "error"),
        ("", "error"),
    ],
)
def test_versions(tmp_path: Path, diagnostics: ClaimedDiagnostics, version: str, severity: str | None) -> None:
    """An unknown version is read as well as possible, with a word about it."""
    robot = read_robot(tmp_path, f'<sdf {version}><model name="m"><link name="a"/></model></sdf>', diagnostics)
    assert robot.link("a")
    if severity:
        assert diagnostics.claim("sdf.version").severity.value == severity


@pytest.mark.parametrize("file", all_assets("sdf/**/*.sdf"), ids=asset_id)
def test_real_files_read_cleanly(file: Path) -> None:
    """Public robots: no error, every mesh found, nothing unknown."""
    from kinema.read.sdf import read_sdf

    described = read_sdf(file)
    assert isinstance(described, Robot | World)
    assert described.links
    said = {d.code for d in described.diagnostics if d.severity != "note"}
    assert said <= {"sdf.missing-axis", "sdf.gearbox-reference"}
    assert len(described.posed_meshes(kind="collision")) == sum(len(x.collisions) for x in described.links)

"""`<include>`: finding, overriding, merging, and what must not work."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from kinema.core import Diagnostics
from kinema.description import Base
from kit.diagnostics import ClaimedDiagnostics
from kit.patience import HANG

from .sdf_support import assert_close, model, read_robot, read_text, read_world, world

_PART = (
    '<sdf version="1.9"><model name="part"><pose>0 0 7 0 0 0</pose><link name="l"/>'
    '<plugin name="p" filename="f"/></model></sdf>'
)


def _folder(root: Path, name: str, files: dict[str, str], config: str | None = None) -> None:
    """A model's folder with its files and its manifest."""
    folder = root / name
    folder.mkdir(parents=True)
    for file, text in files.items():
        (folder / file).write_text(text)
    if config is None:
        config = '<model><sdf version="1.9">model.sdf</sdf></model>'
    (folder / "model.config").write_text(config)


def _named(name: str, version: str = "1.9") -> str:
    return f'<sdf version="{version}"><model name="{name}"><link name="l"/></model></sdf>'


# -- finding -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "uri", ["model://part", "model://part/", "part", "file://part", "model://part/model.sdf", "part/model.sdf"]
)
def test_a_model_is_found(tmp_path: Path, diagnostics: ClaimedDiagnostics, uri: str) -> None:
    """By package, by folder or by file, beside the file that includes it."""
    _folder(tmp_path, "part", {"model.sdf": _PART})
    robot = read_robot(tmp_path, model(f"<include><uri>{uri}</uri></include>"), diagnostics)
    assert [x.name for x in robot.links] == ["part::l"]


def test_a_search_path_is_searched(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Models that lie elsewhere need one."""
    _folder(tmp_path / "models", "part", {"model.sdf": _PART})
    text = model("<include><uri>model://part</uri></include>")
    robot = read_robot(tmp_path / "here", text, diagnostics, search=(tmp_path / "models",))
    assert robot.link("part::l").origin.file.endswith("model.sdf")


@pytest.mark.parametrize(
    ("versions", "chosen"),
    [
        (["1.4", "1.12", "1.9"], "1.12"),
        (["1.5", "1.6"], "1.6"),
        (["1.9", "2.0", "1.13"], "1.9"),
        (["1.10", "1.9"], "1.10"),
    ],
)
def test_the_newest_version_we_read_is_taken(
    tmp_path: Path, diagnostics: ClaimedDiagnostics, versions: list[str], chosen: str
) -> None:
    """A manifest may offer a model in several versions; they are compared as numbers."""
    entries = "".join(f'<sdf version="{v}">{v}.sdf</sdf>' for v in versions)
    files = {f"{v}.sdf": _named(f"v{v}".replace(".", "_")) for v in versions}
    _folder(tmp_path, "part", files, f"<model>{entries}</model>")
    robot = read_robot(tmp_path, model("<include><uri>model://part</uri></include>"), diagnostics)
    assert [x.name for x in robot.links] == [f"v{chosen.replace('.', '_')}::l"]


@pytest.mark.parametrize(
    ("uri", "code"),
    [
        ("model://nobody", "sdf.include-not-found"),
        ("https://example.org/part", "sdf.include-not-found"),
        ("", "sdf.include-not-found"),
        ("/etc", "sdf.include-not-found"),
        ("empty", "sdf.include-not-found"),
        ("broken.sdf", "sdf.include-unreadable"),
        ("wrong.sdf", "sdf.include-unreadable"),
        ("robot.urdf", "sdf.include-urdf"),
        ("world.sdf", "sdf.include-content"),
    ],
)
def test_what_cannot_be_included(tmp_path: Path, diagnostics: ClaimedDiagnostics, uri: str, code: str) -> None:
    """One error; the rest of the model is read."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken.sdf").write_text("<sdf")
    (tmp_path / "wrong.sdf").write_text("<html/>")
    (tmp_path / "robot.urdf").write_text('<robot name="r"><link name="l"/></robot>')
    (tmp_path / "world.sdf").write_text(world(""))
    robot = read_robot(tmp_path, model(f'<link name="a"/><include><uri>{uri}</uri></include>'), diagnostics)
    diagnostics.claim(code)
    assert [x.name for x in robot.links] == ["a"]


@pytest.mark.parametrize(
    "config",
    [
        "<model/>",
        '<model><sdf version="1.9">gone.sdf</sdf></model>',
        '<model><sdf version="1.9">../secret.sdf</sdf></model>',
        "not xml",
    ],
)
def test_a_manifest_that_leads_nowhere(tmp_path: Path, diagnostics: ClaimedDiagnostics, config: str) -> None:
    """It may not lead out of its folder either."""
    (tmp_path / "a" / "secret.sdf").parent.mkdir()
    (tmp_path / "secret.sdf").write_text(_PART)
    _folder(tmp_path / "a", "part", {}, config)
    text = model('<link name="a"/><include><uri>model://part</uri></include>')
    robot = read_robot(tmp_path / "b", text, diagnostics, search=(tmp_path / "a" / "part",))
    (found,) = [d for d in diagnostics.errors() if "include" in d.code]
    diagnostics.claim(found.code)
    assert [x.name for x in robot.links] == ["a"]


@pytest.mark.parametrize("uri", ["model://sun", "model://ground_plane"])
def test_the_models_everybody_includes_have_stand_ins(
    tmp_path: Path, diagnostics: ClaimedDiagnostics, uri: str
) -> None:
    """Old worlds name a sun and a ground that they do not bring; a file of that name comes first."""
    result = read_world(tmp_path, world(f"<include><uri>{uri}</uri></include>"), diagnostics)
    diagnostics.claim("sdf.builtin-model")
    if uri.endswith("sun"):
        assert [x.kind for x in result.lights] == ["directional"]
    else:
        assert [(r.name, r.static) for r in result.robots] == [("ground_plane", True)]
        assert result.robots[0].links[0].collisions[0].kind == "plane"


# -- overriding --------------------------------------------------------------------------------------------------------


def test_overrides(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Name, pose, static and plugins; the same file can be included again and is not changed by it."""
    (tmp_path / "part.sdf").write_text(_PART)
    inside = "<name>other</name><pose>1 0 0 0 0 0</pose><static>true</static><plugin name='q' filename='g'/>"
    text = world(f"<include><uri>part.sdf</uri>{inside}</include><include><uri>part.sdf</uri></include>")
    first, second = read_world(tmp_path, text, diagnostics).robots
    assert (first.name, first.static, first.base) == ("other", True, Base.FIXED)
    assert (second.name, second.static, second.base) == ("part", False, Base.FREE)
    assert_close(first.pose.position, [1, 0, 0])
    assert_close(second.pose.position, [0, 0, 7])
    assert [e.text[:17] for e in first.extras] == ['<plugin name="p" ', "<plugin name='q' "]
    assert len(second.extras) == 1


def test_an_include_of_an_old_file_follows_its_own_rules(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A file keeps the meaning of its version, whoever includes it."""
    old = (
        '<sdf version="1.4"><model name="part"><link name="l"/><link name="k"><pose>0 0 0 0 0 1.5707963267948966</pose>'
        '</link><joint name="j" type="revolute"><parent>l</parent><child>k</child><axis><xyz>1 0 0</xyz></axis></joint>'
        "</model></sdf>"
    )
    (tmp_path / "old.sdf").write_text(old)
    robot = read_robot(tmp_path, model("<include><uri>old.sdf</uri></include>", version="1.12"), diagnostics)
    assert_close(robot.joint("part::j").axes[0].direction, [0, -1, 0])


def test_meshes_of_an_included_model_are_its_own(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Relative references are relative to the file they stand in."""
    part = (
        '<sdf version="1.9"><model name="part"><link name="l"><visual name="v"><geometry><mesh><uri>m.stl</uri></mesh>'
        "</geometry></visual></link></model></sdf>"
    )
    _folder(tmp_path, "part", {"model.sdf": part, "m.stl": "solid"})
    robot = read_robot(tmp_path, model("<include><uri>model://part</uri></include>"), diagnostics)
    (shape,) = robot.links[0].shapes
    assert Path(shape.geometry.path) == (tmp_path / "part" / "m.stl").resolve()  # type: ignore[union-attr]


def test_a_placement_frame_needs_a_pose(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Without one there is nothing to place it at."""
    (tmp_path / "part.sdf").write_text(_PART)
    text = world("<include><uri>part.sdf</uri><placement_frame>l</placement_frame></include>")
    (robot,) = read_world(tmp_path, text, diagnostics).robots
    diagnostics.claim("sdf.placement-frame")
    assert_close(robot.pose.position, [0, 0, 0])


def test_lights_and_actors_can_be_included(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A world may include them; a model may not."""
    (tmp_path / "light.sdf").write_text('<sdf version="1.9"><light name="l" type="point"/></sdf>')
    (tmp_path / "actor.sdf").write_text('<sdf version="1.9"><actor name="x"><link name="l"/></actor></sdf>')
    text = world(
        "<include><uri>light.sdf</uri><name>lamp</name><pose>0 0 3 0 0 0</pose></include>"
        "<include><uri>actor.sdf</uri></include>"
    )
    result = read_world(tmp_path, text, diagnostics)
    assert [(x.name, x.pose.position[2]) for x in result.lights] == [("lamp", 3)]
    assert [e.tag for e in result.extras] == ["actor"]
    read_robot(tmp_path, model('<link name="a"/><include><uri>light.sdf</uri></include>'), diagnostics)
    diagnostics.claim("sdf.include-content")


# -- merging -----------------------------------------------------------------------------------------------------------


def test_merging_puts_the_members_into_the_model_around(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Names without a scope, references both ways, and a frame in the place of the merged model's own."""
    part = (
        '<sdf version="1.9"><model name="part"><link name="tool"><pose>0 0 1 0 0 0</pose></link>'
        '<frame name="tip"><pose relative_to="__model__">0 0 2 0 0 0</pose></frame>'
        '<joint name="j" type="fixed"><parent>base</parent><child>tool</child></joint><plugin name="p"/></model></sdf>'
    )
    (tmp_path / "part.sdf").write_text(part)
    body = (
        '<link name="base"/><include merge="true"><uri>part.sdf</uri><pose>5 0 0 0 0 0</pose></include>'
        '<frame name="f" attached_to="tip"/>'
    )
    robot = read_robot(tmp_path, model(body), diagnostics)
    assert [x.name for x in robot.links] == ["base", "tool"]
    assert (robot.joint("j").parent, robot.joint("j").child) == ("base", "tool")
    assert_close(robot.link_poses()["tool"].position, [5, 0, 1])
    frames = {f.name: f for f in robot.frames}
    assert frames.keys() == {"tip", "_merged__part__model__", "f"}
    assert_close(frames["f"].pose.position, [0, 0, 1])
    assert [e.tag for e in frames["_merged__part__model__"].extras] == ["plugin"]


def test_merging_into_a_world(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Since 1.10: the models, frames and joints inside become the world's own; links have no place there."""
    part = (
        '<sdf version="1.10"><model name="part"><frame name="f"><pose>0 0 1 0 0 0</pose></frame><link name="stray"/>'
        '<model name="a"><pose relative_to="f"/><link name="l"/></model><model name="b"><link name="l"/></model>'
        '<joint name="j" type="fixed"><parent>a::l</parent><child>b::l</child></joint></model></sdf>'
    )
    (tmp_path / "part.sdf").write_text(part)
    text = world('<include merge="true"><uri>part.sdf</uri><pose>5 0 0 0 0 0</pose></include>', version="1.10")
    result = read_world(tmp_path, text, diagnostics)
    diagnostics.claim("sdf.merged-links")
    (robot,) = result.robots
    assert robot.name == "a+b"
    assert_close(result.link_poses()["a::l"].position, [5, 0, 1])


# -- bounds ------------------------------------------------------------------------------------------------------------


def test_a_circle_of_includes_is_one_error(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """The chain is named; everything else is read."""
    for name, other in (("a", "b"), ("b", "c"), ("c", "a")):
        body = f'<link name="l"/><include><uri>{other}.sdf</uri></include>'
        (tmp_path / f"{name}.sdf").write_text(f'<sdf version="1.9"><model name="{name}">{body}</model></sdf>')
    robot = read_robot(tmp_path, (tmp_path / "a.sdf").read_text(), diagnostics, name="a.sdf")
    assert "a.sdf includes b.sdf includes c.sdf includes a.sdf" in diagnostics.claim("sdf.circular-include").message
    assert [x.name for x in robot.links] == ["l", "b::l", "b::c::l"]


def test_a_file_that_includes_itself(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Also through a link of the file system."""
    text = model('<link name="a"/><include><uri>self.sdf</uri></include><include><uri>alias.sdf</uri></include>')
    (tmp_path / "alias.sdf").symlink_to("self.sdf")
    read_robot(tmp_path, text, diagnostics, name="self.sdf")
    assert len(diagnostics.claim_all("sdf.circular-include")) == 2


def test_includes_that_double_and_double_again(tmp_path: Path) -> None:
    """Thirty files that each include the next twice would be a thousand million models."""
    for i in range(30):
        twice = "".join(f"<include><uri>f{i + 1}.sdf</uri><name>n{k}</name></include>" for k in range(2))
        text = f'<sdf version="1.9"><model name="m"><link name="l"/>{twice if i < 29 else ""}</model></sdf>'
        (tmp_path / f"f{i}.sdf").write_text(text)
    diagnostics = Diagnostics()
    start = time.monotonic()
    read_robot(tmp_path, (tmp_path / "f0.sdf").read_text(), diagnostics, name="f0.sdf")
    assert time.monotonic() - start < HANG
    assert diagnostics.codes().count("sdf.too-many-includes") == 1


def test_a_very_long_chain_of_includes(tmp_path: Path) -> None:
    """It ends with one error."""
    for i in range(60):
        inside = f"<include><uri>f{i + 1}.sdf</uri></include>"
        (tmp_path / f"f{i}.sdf").write_text(
            f'<sdf version="1.9"><model name="m"><link name="l"/>{inside}</model></sdf>'
        )
    diagnostics = Diagnostics()
    read_robot(tmp_path, (tmp_path / "f0.sdf").read_text(), diagnostics, name="f0.sdf")
    assert [d.code for d in diagnostics.errors()] == ["sdf.include-too-deep"]


def test_deep_models_in_deep_models(tmp_path: Path) -> None:
    """Nesting is bounded over all files together."""
    deep = "".join(f'<model name="m{i}"><link name="l"/>' for i in range(40)) + "</model>" * 40
    (tmp_path / "deep.sdf").write_text(f'<sdf version="1.9">{deep}</sdf>')
    inside = "".join(f'<model name="n{i}"><link name="l"/>' for i in range(40))
    text = model(f"{inside}<include><uri>deep.sdf</uri></include>{'</model>' * 40}")
    diagnostics = Diagnostics()
    read_text(tmp_path, text, diagnostics)
    assert [d.code for d in diagnostics.errors()] == ["sdf.nested-too-deep"]

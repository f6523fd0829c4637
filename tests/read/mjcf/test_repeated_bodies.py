"""Free bodies that differ by name and pose: copies of two that MuJoCo compiles, equal to all of them compiled."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as km
from kinema.apps.bench.heap import HeapKind, heap_mjcf
from kinema.core import Diagnostics, ReadError
from kinema.description import Robot, World
from kinema.read import mjcf as reader
from kinema.read.mjcf import size_limits

LIGHT, NAMED, BOX = 'childclass="light"', 'name="body_{}"', 'name="box{}"'
GEOM = '<geom type="box" size=".1 .2 .3" density="300" rgba="1 0 0 1"/>'


def flatten(value: Any, path: str = "") -> dict[str, Any]:
    """All values of a description by their path."""
    if dataclasses.is_dataclass(value) and not isinstance(value, Diagnostics):
        return {
            k: v
            for f in dataclasses.fields(value)
            for k, v in flatten(getattr(value, f.name), f"{path}.{f.name}").items()
        }
    if isinstance(value, list | tuple):
        return {f"{path}#": len(value)} | {
            k: v for i, item in enumerate(value) for k, v in flatten(item, f"{path}[{i}]").items()
        }
    if isinstance(value, dict):
        return {k: v for key, item in value.items() for k, v in flatten(item, f"{path}[{key}]").items()}
    if isinstance(value, np.ndarray):
        return {path: (value.shape, value.tobytes())}
    return {path: list(map(str, value)) if isinstance(value, Diagnostics) else value}


def read_both_ways(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Robot | World, int]:
    """Description read with copies, checked against one read without, and the number of copied bodies."""
    file = folder / "model.xml"
    file.write_text(text, encoding="utf-8")
    copied, make = [0], reader._read_with_copies

    def count(prepared: Any, repeated: Any, diagnostics: Any) -> Any:
        description = make(prepared, repeated, diagnostics)
        copied[0] += 0 if description is None else len(repeated.copies)
        return description

    with monkeypatch.context() as patch:
        patch.setattr(reader, "_read_with_copies", count)
        description = km.read(file)
    with monkeypatch.context() as patch:
        patch.setattr(reader, "find_repeated_bodies", lambda document: None)
        whole = km.read(file)
    assert flatten(description) == flatten(whole)
    return description, copied[0]


def bodies(count: int, content: str = GEOM, attributes: str = "") -> str:
    """Free bodies at random poses; `{}` in the attributes is the number of the body."""
    rng = np.random.default_rng(count)
    lines = []
    for i in range(count):
        pos, quat = (" ".join(map(repr, rng.normal(size=n).tolist())) for n in (3, 4))
        own = attributes.replace("{}", str(i))
        lines.append(f'<body pos="{pos}" quat="{quat}" {own}><freejoint/>{content}</body>')
    return "\n".join(lines)


def model(world: str, rest: str = "") -> str:
    return f"<mujoco>{rest}<worldbody>{world}</worldbody></mujoco>"


@pytest.mark.parametrize("kind", list(HeapKind))
def test_heaps(kind: HeapKind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, copied = read_both_ways(heap_mjcf(40, kind), tmp_path, monkeypatch)
    assert copied == 40 - 2 * (1 if kind in (HeapKind.BOXES, HeapKind.SPHERES, HeapKind.CAPSULES) else 5)


def test_robots_between_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers in generated names, order of robots, elements on the world, classes, and references by name."""
    arm = (
        '<body name="arm"><joint name="hinge" axis="0 1 0"/><geom size=".1"/><site/>'
        '<body pos="0 0 1"><joint/><geom size=".1"/><camera/></body></body>'
    )
    text = f"""<mujoco><default><default class="light"><geom density="10"/></default></default>
<worldbody><light/>{bodies(12)}<geom type="plane" size="1 1 1"/>{arm}<site/>{bodies(9, attributes=LIGHT)}
<body/><body pos="0 0 3"><freejoint name="own"/>{GEOM}{GEOM}</body>{bodies(12, GEOM + '<geom size=".3" pos="1 0 0"/>')}
<body name="pushed" pos="1 2 3"><freejoint/>{GEOM}</body>{bodies(3, attributes=NAMED)}</worldbody>
<actuator><motor joint="hinge"/></actuator><sensor><framepos objtype="body" objname="pushed"/></sensor></mujoco>"""
    description, copied = read_both_ways(text, tmp_path, monkeypatch)
    assert copied == 12 + 3 + 9 + 12 - 2 * 3  # those of one kind need not be neighbours
    assert isinstance(description, World)
    assert len(description.robots) == 12 + 1 + 9 + 1 + 1 + 12 + 1 + 3


OTHERS = {
    "few": model(bodies(15)),
    "total mass": model(bodies(30), '<compiler settotalmass="3"/>'),
    "keyframe": model(bodies(30), '<keyframe><key time="1"/></keyframe>'),
    "frame": model(f"<frame>{bodies(30)}</frame>"),
    "euler": model(bodies(30).replace("quat=", "xyaxes=").replace('" ><free', ' 0.5 0.5" ><free')),
    "sites": model(bodies(30, GEOM + "<site/>")),
    "nested": model(bodies(30, GEOM + '<body><geom size="1"/></body>')),
    "hinges": model(bodies(30).replace("<freejoint/>", "<joint/>")),
}


@pytest.mark.parametrize("name", OTHERS)
def test_others_are_compiled(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_both_ways(OTHERS[name], tmp_path, monkeypatch)[1] == 0


@pytest.mark.parametrize(("other", "n_copied"), [(1, 24), (25, 0)], ids=["neighbours", "interleaved"])
def test_named_bodies_that_others_refer_to_are_compiled(
    other: int, n_copied: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bodies in one robot with others between them are numbered by the file: there are no copies then."""
    references = f"""<equality><weld body1="box0" body2="box{other}"/></equality>
<contact><exclude body1="box3" body2="box4"/></contact>"""
    assert read_both_ways(model(bodies(30, attributes=BOX), references), tmp_path, monkeypatch)[1] == n_copied


def test_messages_about_bodies_are_those_of_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model with a warning for each body is compiled as a whole; one about another element is reported once."""
    adhesive = '<geom size="1" adhesion="2"/>'
    try:
        assert read_both_ways(model(f"{adhesive}\n{bodies(30)}"), tmp_path, monkeypatch)[1] == 28
    except ReadError:
        pytest.skip("this version of MuJoCo has no adhesion of geoms")
    description, copied = read_both_ways(model(bodies(30, adhesive)), tmp_path, monkeypatch)
    assert copied == 0
    assert len(description.diagnostics) == 30


@pytest.mark.parametrize("content", [bodies(20, attributes='name="same"'), bodies(20, '<geom size="-1"/>')])
def test_errors_are_those_of_the_whole_model(content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeated names, and an element of all bodies that MuJoCo rejects."""
    file = tmp_path / "model.xml"
    file.write_text(model(content), encoding="utf-8")
    with pytest.raises(ReadError) as with_copies:
        km.read(file)
    monkeypatch.setattr(reader, "find_repeated_bodies", lambda document: None)
    with pytest.raises(ReadError) as whole:
        km.read(file)
    assert str(with_copies.value) == str(whole.value)


def test_copies_may_be_changed_one_by_one(tmp_path: Path) -> None:
    file = tmp_path / "model.xml"
    file.write_text(f"<mujoco><worldbody>{bodies(20)}</worldbody></mujoco>", encoding="utf-8")
    world = km.read(file)
    assert isinstance(world, World)
    before = [flatten(robot) for robot in world.robots]
    robot = world.robots[7]
    robot.links[0].shapes[0].attributes["changed"] = robot.joints[0].axes[0].damping = 1.0
    robot.links[0].shapes[0].surface.gap = robot.joints[0].initial[0] = 2.0
    robot.collision.pairs.append(None)
    assert [i for i, robot in enumerate(world.robots) if flatten(robot) != before[i]] == [7]


def test_copies_do_not_count_as_bodies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More bodies than MuJoCo is given; as many different ones are refused."""
    monkeypatch.setattr(size_limits, "MAX_BODIES", 50)
    file, ball = tmp_path / "model.xml", '<geom size="1"/>'
    file.write_text(model(bodies(100, ball)), encoding="utf-8")
    world = km.read(file)
    assert isinstance(world, World)
    assert len(world.robots) == 100
    file.write_text(model(bodies(100, ball, 'gravcomp="0.{}"')), encoding="utf-8")
    with pytest.raises(ReadError, match="more than 50 bodies"):
        km.read(file)

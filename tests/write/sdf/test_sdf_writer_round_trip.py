"""What was read from SDFormat comes back from SDFormat, or the report names it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kinema
from kinema.core import Severity
from kinema.description import Extra, Node, Robot, World
from kit.assets import EXAMPLES, all_assets, asset_id
from kit.robots.same import assert_same_motion, assert_same_pose, colliding_links
from kit.written.sdf import Written

from .sdf_same import assert_same_joint, assert_same_shape

FILES = [*all_assets("sdf/**/*.sdf"), *sorted(EXAMPLES.glob("*/*.sdf"))]
TIGHT = 1e-12


@pytest.mark.parametrize("file", FILES, ids=asset_id)
def test_it_comes_back(file: Path, tmp_path: Path) -> None:
    """Links, masses, joints, limits, shapes, sensors, frames, kept text: all as it was, unless the report names it."""
    first = kinema.read(file)
    written = Written.make(first, tmp_path / "out")
    second = kinema.read(written.file)
    assert type(second) is type(first)
    assert not [d for d in second.diagnostics.items if d.severity is Severity.ERROR]
    for robot, again in zip(written.robots, written.read(), strict=True):
        _same_robot(written, robot, again)
    assert sum(colliding_links(second).values()) == sum(colliding_links(first).values())
    if isinstance(first, World) and isinstance(second, World):
        np.testing.assert_array_equal(np.asarray(second.gravity), np.asarray(first.gravity))
        assert second.options == first.options
        assert [x.name for x in second.lights] == [x.name for x in first.lights]
        for a, b in zip(first.lights, second.lights, strict=True):
            assert_same_pose(a.pose, b.pose, TIGHT, a.name)
            assert (a.kind, a.color, a.casts_shadow) == (b.kind, b.color, b.casts_shadow)
        _same_extras(first, second)


@pytest.mark.parametrize("file", FILES, ids=asset_id)
def test_the_second_writing_is_the_first(file: Path, tmp_path: Path) -> None:
    """Written, read and written again, the text is the same but for last digits: nothing drifts."""
    first = Written.make(kinema.read(file), tmp_path / "first")
    second = Written.make(kinema.read(first.file), tmp_path / "second")
    third = Written.make(kinema.read(second.file), tmp_path / "third")
    for a, b in zip(_words(second.text), _words(third.text), strict=True):
        assert a == b or abs(float(a) - float(b)) < TIGHT


def _words(text: str) -> list[str]:
    return text.replace("<", " <").replace(">", "> ").split()


def _same_robot(written: Written, a: Robot, b: Robot) -> None:
    assert b.name == a.name
    assert (b.static, b.base, b.collision.self_collide) == (a.static, a.base, a.collision.self_collide)
    assert_same_pose(a.pose, b.pose, TIGHT, a.name)
    assert [x.name for x in b.links] == [written.name("link", x.name) for x in a.links]
    renamed = {x.name for x in written.report}
    if not renamed & {x.name for x in (*a.links, *a.joints)}:
        assert_same_motion(a, b, TIGHT)
        for one, other in zip(a.joints, b.joints, strict=True):
            assert_same_joint(one, other, TIGHT)
            _same_extras(one, other)
    for one, other in zip(a.links, b.links, strict=True):
        assert (other.kinematic, other.gravity_scale) == (one.kinematic, one.gravity_scale)
        assert other.self_collide == one.self_collide
        assert [s.name for s in other.shapes] == [s.name for s in one.shapes]
        for x, y in zip(one.shapes, other.shapes, strict=True):
            assert_same_shape(x, y, TIGHT)
            assert y.attributes == x.attributes
            assert (y.contype, y.conaffinity) == (x.contype, x.conaffinity)
            _same_extras(x, y)
        _same_extras(one, other)
    assert [(s.name, s.kind, s.update_rate) for s in b.sensors] == [(s.name, s.kind, s.update_rate) for s in a.sensors]
    for one, other in zip([*a.sensors, *a.cameras, *a.lights], [*b.sensors, *b.cameras, *b.lights], strict=True):
        assert_same_pose(one.pose, other.pose, TIGHT, one.name)
        _same_extras(one, other)
    assert [x.name for x in b.frames] == [written.name("frame", x.name) for x in a.frames]
    for one, other in zip(a.frames, b.frames, strict=True):
        assert_same_pose(one.pose, other.pose, TIGHT, one.name)
    _same_extras(a, b)


def _same_extras(a: Node, b: Node) -> None:
    assert _texts(b.extras) == _texts(a.extras), a.name


def _texts(extras: list[Extra]) -> list[str]:
    return sorted(" ".join(e.text.split()) for e in extras if not e.tag.startswith("@"))

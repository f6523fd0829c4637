"""Every robot at hand, written as URDF, before the judges: they read it and have every link where it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema
from kinema.description import JointKind, Link, Robot, World, colliding_pairs
from kit.assets import EXAMPLES, all_assets, asset_id
from kit.robots.configurations import random_coordinates
from kit.robots.same import agree
from kit.written.urdf import Written, check_urdf, mujoco_poses, pinocchio_poses, yourdfpy_poses

FILES = [
    *all_assets("urdf/**/*.urdf", "mjcf/**/*.xml", "sdf/**/*.sdf"),
    *(p for p in all_assets("usd/**/*.usd*") if "Payload" not in p.parts and "Props" not in p.parts),
    *sorted(p for p in EXAMPLES.glob("*/*") if p.suffix in (".urdf", ".sdf", ".usda") or p.stem == p.parent.name),
]
TOLERANCE = 1e-9


@pytest.mark.wide
@pytest.mark.parametrize("file", FILES, ids=asset_id)
def test_judges_agree(file: Path, tmp_path: Path) -> None:
    """check_urdf, Pinocchio, MuJoCo, yourdfpy and our reader find no fault, and all in its place.

    Of a world with several robots, it is the first.
    """
    described = kinema.read(file)
    robot = ""
    if isinstance(described, World):
        moving = [r.name for r in described.robots if not r.static]
        robot = moving[0] if len(moving) > 1 else ""
        if not described.robots:
            pytest.skip("there is no robot in it")
    written = Written.make(described, tmp_path / "out", robot=robot)
    check_urdf(written.file)
    _loads_in_mujoco(written)
    _have_the_links_in_their_places(written)
    read = kinema.read(written.file)
    assert isinstance(read, Robot)
    _masses_are_kept(written, read)
    _limits_are_kept(written, read)
    _collisions_are_kept_or_named(written, read, described)


def _loads_in_mujoco(written: Written) -> None:
    """The file as it is, with its meshes, unless the robot itself is none for MuJoCo."""
    mujoco: Any = pytest.importorskip("mujoco")
    moving = {j.child for j in written.lowered.robot.joints if j.axes}
    if all(_is_possible(link, link.name in moving) for link in written.robot.links):
        mujoco.MjModel.from_xml_path(str(written.file))


def _is_possible(link: Link, moves: bool) -> bool:
    if link.inertial is None:
        return not moves
    moments = np.sort(np.linalg.eigvalsh(link.inertial.inertia))
    return bool(moments[0] > 1e-14 and moments[0] + moments[1] >= moments[2])


def _have_the_links_in_their_places(written: Written) -> None:
    """Pinocchio and MuJoCo at zero and at random configurations, yourdfpy at zero."""
    random = np.random.default_rng(5)
    zero = {j.name: j.rest for j in written.robot.joints}
    configurations = [zero, *(random_coordinates(written.robot, random) for _ in range(5))]
    expected = [written.expected(c) for c in configurations]
    in_file = [written.in_file(c) for c in configurations]
    for theirs, ours in zip(pinocchio_poses(written, in_file), expected, strict=True):
        agree(theirs, ours, TOLERANCE)
    free = [j for j in written.joints.values() if j.kind is JointKind.FREE]
    if all(j.parent == "world" for j in free):  # MuJoCo has free joints nowhere else
        for theirs, ours in zip(mujoco_poses(written, in_file), expected, strict=True):
            agree(theirs, ours, TOLERANCE)
    if not any(a.mimic for j in written.joints.values() for a in j.axes):  # which moves with an offset even at zero
        agree(yourdfpy_poses(written), expected[0], TOLERANCE)


def _masses_are_kept(written: Written, read: Robot) -> None:
    """Mass, centre and inertia of every link as our reader has them, to the last digits."""
    again = {link.name: link for link in read.links}
    for link in written.robot.links:
        mine, other = link.inertial, again[link.name].inertial
        assert (mine is None) == (other is None), link.name
        if mine is not None and other is not None:
            assert other.mass == mine.mass
            np.testing.assert_array_equal(other.center, mine.center)
            np.testing.assert_allclose(other.inertia, mine.inertia, rtol=1e-12, atol=0)


def _limits_are_kept(written: Written, read: Robot) -> None:
    """Limits, damping and friction of every coordinate that has a joint of its own in the file."""
    for joint in written.robot.joints:
        for number, name in written.lowered.coordinates.get(joint.name, {}).items():
            mine, other = joint.moving_axes[number], read.joint(name).axes[0]
            names = ("lower", "upper", "effort", "velocity", "damping", "friction")
            assert [getattr(other, n) for n in names] == [getattr(mine, n) for n in names], name


def _collisions_are_kept_or_named(written: Written, read: Robot, described: Robot | World) -> None:
    """The same links may collide, or the report names both of them."""
    alone: Robot | World = written.robot
    if isinstance(described, World):
        alone = World(robots=[written.robot], collision=described.collision)
    for pair in _pairs(alone) ^ _pairs(read):
        first, second = pair
        said = [*written.losses(first), *written.losses(second)]
        assert any(first in x and second in x and "collide" in x for x in said), pair


def _pairs(described: Robot | World) -> set[frozenset[str]]:
    return {frozenset((a.link, b.link)) for a, b in colliding_pairs(described) if a.link and b.link}

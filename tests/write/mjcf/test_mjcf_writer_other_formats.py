"""URDF, SDFormat and USD to MJCF and back into a description: the same robot, or the report names the element."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from kinema.core import Array, Pose, collect
from kinema.description import Axis, Joint, JointKind, Robot, World, colliding_pairs
from kinema.read import read
from kinema.write.mjcf.context import MjcfBody
from kit.assets import EXAMPLES, all_assets, asset_id
from kit.written.mjcf import Written, random_coordinates, write

FILES = [
    EXAMPLES / "arm" / "arm.urdf",
    EXAMPLES / "gripper" / "gripper.sdf",
    *all_assets("urdf/**/*.urdf", "sdf/**/*.sdf", "usd/*/*.usda", "usd/newton_tests/**/*.usda"),
]


@pytest.mark.wide
@pytest.mark.parametrize("file", FILES, ids=asset_id)
def test_there_and_back(file: Path, tmp_path: Path) -> None:
    """Poses at random configurations, masses, limits and links that may collide."""
    before = read(file, policy=collect)
    written = write(before, tmp_path)
    after = read(written.path, policy=collect)
    assert not after.diagnostics.errors()
    names = _link_names(written)
    _same_poses(written, after, names)
    _same_masses(written, after, names)
    _same_limits(written, after)
    _same_collisions(written, after, names)


def _link_names(written: Written) -> dict[int, str]:
    """`id` of a link -> its name in the file."""
    return {id(b.link): written.writing.names.name_of("body", b.link) for b in written.bodies if b.link is not None}


def _same_poses(written: Written, after: Robot | World, names: dict[int, str]) -> None:
    generator = np.random.default_rng(3)
    for _ in range(3):
        values = random_coordinates(written, generator)
        theirs = after.link_poses(_configuration(written, after, values))
        for robot, table in zip(written.robots, values, strict=True):
            poses: dict[str, Pose] = robot.link_poses({} if robot.static else table)
            for link in robot.links:
                metres, radians = poses[link.name].distance(theirs[names[id(link)]])
                scale = 1 + float(np.abs(poses[link.name].position).max())
                assert max(metres / scale, radians) < 1e-7, link.name


def _configuration(written: Written, after: Robot | World, values: list[dict[str, Array]]) -> dict[str, Array]:
    """The same configuration for the joints of the file, which go by the parts they were written as."""
    by_robot = {id(robot): table for robot, table in zip(written.robots, values, strict=True)}
    given: dict[str, Array] = {}
    for body in written.bodies:
        for part in body.joints:
            own = by_robot[id(body.robot)].get(part.joint.name)
            q = part.to_qpos(part.joint.rest if own is None else own)
            given[part.name or _freedom(written, after, body)] = np.array(q)
    return given


def _freedom(written: Written, after: Robot | World, body: MjcfBody) -> str:
    """The joint that the freedom of a base became."""
    assert body.link is not None
    child = written.writing.names.name_of("body", body.link)
    return next(j.name for j in after.joints if j.child == child and j.kind is JointKind.FREE)


def _same_masses(written: Written, after: Robot | World, names: dict[int, str]) -> None:
    reported = {x.name for x in written.report if x.kind == "link" and ("mass" in x.what or "inertia" in x.what)}
    links = {link.name: link for link in after.links}
    for robot in written.robots:
        for link in robot.links:
            other = links[names[id(link)]]
            if link.name in reported:
                continue
            assert (link.inertial is None) == (other.inertial is None), link.name
            if link.inertial is not None and other.inertial is not None:
                a, b = link.inertial, other.inertial
                np.testing.assert_allclose(b.mass, a.mass, rtol=1e-9)
                np.testing.assert_allclose(b.center, a.center, atol=1e-9)
                np.testing.assert_allclose(b.inertia, a.inertia, atol=1e-9 * float(np.abs(a.inertia).max()))


def _same_limits(written: Written, after: Robot | World) -> None:
    reported = {x.name for x in written.report if x.kind == "joint" and "limits" in x.what}
    joints = {j.name: j for j in after.joints}
    for part in (p for body in written.bodies for p in body.joints if p.name):
        other: Joint = joints[part.name]
        if part.axis is None or part.joint.name in reported:
            continue
        mine, theirs = part.axis, other.axes[0]
        np.testing.assert_allclose(_numbers(theirs), _numbers(mine), rtol=1e-12, atol=1e-11, err_msg=part.name)
        np.testing.assert_allclose(theirs.reference, part.reference, rtol=1e-12, atol=1e-11, err_msg=part.name)


def _numbers(axis: Axis) -> list[float]:
    effort = axis.effort if axis.effort > 0 else np.inf
    return [axis.lower, axis.upper, effort, axis.damping, axis.friction, axis.armature, axis.stiffness]


def _same_collisions(written: Written, after: Robot | World, names: dict[int, str]) -> None:
    """Pairs of links; where the base's freedom was not said, what is now fixed touches nothing that is fixed too."""
    fixed = {names[id(b.link)] for b in written.bodies if b.link is not None and b.weld_body is None}
    by_name = {(robot.name, link.name): names[id(link)] for robot in written.robots for link in robot.links}

    def pairs(described: Robot | World, renamed: bool) -> Iterator[frozenset[str]]:
        for a, b in colliding_pairs(described):
            if renamed and not {id(a.shape), id(b.shape)} <= set(written.writing.geoms):
                continue
            ends = ["world" if c.link is None else by_name[c.robot, c.link] if renamed else c.link for c in (a, b)]
            if not all(end == "world" or end in fixed for end in ends):
                yield frozenset(ends)

    assert set(pairs(after, renamed=False)) == set(pairs(written.described, renamed=True))

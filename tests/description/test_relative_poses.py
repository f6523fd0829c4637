"""Poses of links in their parents, beside those in the world."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kinema.core import Pose, axis_angle_to_matrix
from kinema.description import Joint, JointKind, Link, Robot, World, rotation
from kinema.read.usd import read_usd
from kit.diagnostics import ClaimedDiagnostics
from kit.usd_stages import placed, prim, write_stage

HALF_Z = (np.sqrt(0.5), 0, 0, np.sqrt(0.5))


def test_of_nested_bodies_they_are_what_the_stage_says(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A body inside another is placed in it; one whose transform is reset is placed in the world."""
    cube = prim('Cube "c"', apis=["PhysicsCollisionAPI"])
    inner = prim('Xform "inner"', placed((0, 0, 2), HALF_Z), cube, apis=["PhysicsRigidBodyAPI"])
    alone = prim('Xform "alone"', placed((9, 9, 9), reset=True), cube, apis=["PhysicsRigidBodyAPI"])
    outer = prim('Xform "outer"', placed((1, 0, 0), HALF_Z), cube, inner, alone, apis=["PhysicsRigidBodyAPI"])
    joint = prim(
        'PhysicsRevoluteJoint "j"', "rel physics:body0 = </outer>", "rel physics:body1 = </outer/inner>",
        "point3f physics:localPos0 = (0, 0, 2)", 'uniform token physics:axis = "Z"',
    )  # fmt: skip
    world = read_usd(write_stage(tmp_path, outer, joint), diagnostics=diagnostics)
    assert isinstance(world, World)
    poses = world.relative_poses()
    turn = axis_angle_to_matrix((0, 0, 1), np.pi / 2)
    assert poses["outer"].is_close(Pose(np.array([1.0, 0, 0]), turn), 1e-9)
    assert poses["inner"].is_close(Pose(np.array([0.0, 0, 2]), turn), 1e-9)
    links = {link.name: link.pose for link in world.links}
    assert links["outer"] is not None
    assert links["alone"] is not None
    assert (links["outer"] @ poses["alone"]).is_close(links["alone"], 1e-9)


def robot(*, authored: bool, pose: Pose) -> Robot:
    """The links a and b side by side, b carried by a; with or without poses of their own."""
    places = [Pose(np.array([float(x), 0, 0])) if authored else None for x in (0, 1)]
    joint = Joint(
        name="j", kind=JointKind.REVOLUTE, parent="a", child="b", axes=[rotation((0, 0, 1))],
        parent_pose=Pose(np.array([1.0, 0, 0])),
    )  # fmt: skip
    return Robot(links=[Link(name=n, pose=p) for n, p in zip("ab", places, strict=True)], joints=[joint], pose=pose)


@pytest.mark.parametrize("authored", [True, False])
def test_of_links_side_by_side_the_tree_tells_the_parent(authored: bool) -> None:
    """Where the robot stands is no matter, but for its roots in a world."""
    one = robot(authored=authored, pose=Pose(np.array([5.0, 0, 0])))
    assert one.relative_poses()["a"].is_close(Pose(), 1e-12)
    assert one.relative_poses()["b"].is_close(Pose(np.array([1.0, 0, 0])), 1e-12)
    world = World(robots=[one])
    assert world.relative_poses()["a"].is_close(one.pose, 1e-12)
    assert world.relative_poses()["b"].is_close(Pose(np.array([1.0, 0, 0])), 1e-12)

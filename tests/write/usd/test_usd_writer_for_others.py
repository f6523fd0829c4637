"""What other tools make of a written stage, judged by OpenUSD's own physics parser."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinema.core import Pose, collect
from kinema.description import AxisState, Base, JointKind, Robot
from kinema.read import read
from kinema.write import write
from kit.robots.random_robots import random_robot
from kit.robots.variety import USD

SINGLE = 2e-5
"""OpenUSD's parser works in single precision."""


def parsed(file: Path) -> tuple[Any, dict[str, Any]]:
    """The stage, and what OpenUSD's parser finds in it: kind -> {path: descriptor}."""
    from pxr import Usd, UsdPhysics

    stage = Usd.Stage.Open(str(file))
    found = UsdPhysics.UsdPhysicsLoadStageFromPrimRange(stage, [str(stage.GetDefaultPrim().GetPath())])
    result: dict[str, Any] = {}
    for kind, (paths, descriptors) in found.items():
        result[str(kind).rpartition(".")[2]] = {str(p): d for p, d in zip(paths, descriptors, strict=True)}
    return stage, result


def gf_pose(position: Any, turn: Any) -> Pose:
    return Pose.from_quaternion(list(position), [turn.GetReal(), *turn.GetImaginary()])


@pytest.mark.parametrize("layout", ["nested", "flat"])
@pytest.mark.parametrize("seed", range(12))
def test_openusds_parser_sees_the_same_robot(tmp_path: Path, seed: int, layout: str) -> None:
    """Bodies where the links are, and every joint's frames on both of them, as the description has them."""
    robot = random_robot(seed, USD)
    file = tmp_path / "robot.usda"
    write(robot, file, layout=layout)
    back = read(file, policy=collect)
    assert isinstance(back, Robot)
    _, found = parsed(file)
    poses = back.link_poses()
    path_of = {link.name: link.origin.path for link in back.links}
    bodies = found.get("RigidBody", {})
    assert set(bodies) == set(path_of.values())
    for name, path in path_of.items():
        seen = gf_pose(bodies[path].position, bodies[path].rotation)
        metres, radians = poses[name].distance(seen)
        assert max(metres, radians) < SINGLE * max(1.0, float(np.linalg.norm(poses[name].position)))
    joints = {path: d for kind, ds in found.items() if kind.endswith("Joint") for path, d in ds.items()}
    for joint in back.joints:
        if joint.kind is JointKind.FREE:
            continue
        seen = joints[joint.origin.path]
        assert str(seen.body0) == path_of.get(joint.parent or "", "")
        assert str(seen.body1) == path_of.get(joint.child or "", "")


@pytest.mark.parametrize("layout", ["nested", "flat"])
def test_limits_and_drives_in_degrees(tmp_path: Path, layout: str) -> None:
    """OpenUSD reports raw values: degrees, and gains per degree."""
    for seed in range(20):
        robot = random_robot(seed, USD)
        file = tmp_path / f"robot_{seed}.usda"  # OpenUSD remembers layers by name
        write(robot, file, layout=layout)
        back = read(file, policy=collect)
        _, found = parsed(file)
        for joint in back.joints:
            if joint.kind not in (JointKind.REVOLUTE, JointKind.CONTINUOUS):
                continue
            seen, axis = found["RevoluteJoint"][joint.origin.path], joint.axes[0]
            if axis.state is AxisState.LIMITED:
                assert math.radians(seen.limit.upper) == pytest.approx(axis.upper, rel=1e-6)
            if axis.drive is not None:
                assert seen.drive.stiffness == pytest.approx(axis.drive.stiffness * math.pi / 180, rel=1e-6)


@pytest.mark.parametrize("layout", ["nested", "flat"])
@pytest.mark.parametrize("base", [Base.FIXED, Base.FREE])
def test_the_articulation_has_the_tree_of_the_robot(tmp_path: Path, layout: str, base: Base) -> None:
    """OpenUSD finds one articulation, rooted at the joint to the world or at the root link."""
    robots = [random_robot(seed, USD) for seed in range(40)]
    robot = next(r for r in robots if len(r.links) > 4 and len(r.tree().roots) == 1 and not r.tree().loops)
    robot.base = base
    file = tmp_path / "robot.usda"
    write(robot, file, layout=layout)
    _, found = parsed(file)
    (articulation,) = found["Articulation"].values()
    back = read(file, policy=collect)
    assert isinstance(back, Robot)
    root = back.link(back.tree().roots[0]).origin.path
    (seen,) = [str(p) for p in articulation.rootPrims]
    assert seen == (root if base is Base.FREE else f"{root}/base_fixed")

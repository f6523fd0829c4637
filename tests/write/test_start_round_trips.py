"""A robot starts where its file shows it, through every format and back, or the report says that it does not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kinema as km
from kinema.core import Pose, collect
from kinema.description import Joint, JointKind, Link, Mimic, Robot, rotation, translation
from kinema.read import read
from kinema.write import write
from kit.assets import assets
from kit.round_trip import RoundTrip, round_trips

SUFFIXES = {"usd": ".usda", "mjcf": ".xml", "sdf": ".sdf", "urdf": ".urdf"}
POSED = (
    "mjcf/agility_cassie/cassie.xml",
    "mjcf/robotiq_2f85_v4/mjx_2f85.xml",
    "sdf/joint_complete/joint_complete.sdf",
    "sdf/gzsim_mimic_pendulums/mimic_fast_slow_pendulums_world.sdf",
    "usd/newton_assets_robotiq_2f85_v4/Dual_wrist_camera.usda",
    "usd/newton_tests/kamino/basics/boxes_nunchaku.usda",
    "usd/newton_tests/kamino/testing/joints/test_joint_d6_6dof_actuated.usda",
    "usd/newton_tests/kamino/testing/joints/test_joint_spherical_unary.usda",
)


@pytest.mark.wide
@pytest.mark.parametrize("target", ["usd", "mjcf", "sdf", "urdf"])
@pytest.mark.parametrize("file", POSED)
def test_the_start_survives_or_is_reported(file: str, target: str, tmp_path: Path) -> None:
    """Every link is where it was, seen from its parent; else a loss says that a joint starts elsewhere."""
    for trip in round_trips(assets(file), target, tmp_path):
        before, after = trip.before.poses({}), trip.after.poses({})
        reported = _reported(trip)
        for name, there in trip.links.items():
            parent, joints = trip.before.above[name]
            if parent is not None and parent not in trip.links:
                continue
            a, b = before[name], after[there]
            if parent is not None:
                a, b = before[parent].inverse() @ a, after[trip.links[parent]].inverse() @ b
            elif any(trip.before.joints[j].kind is JointKind.FREE for j in joints) or not joints:
                continue  # the base: other tests look at where it stands
            kept = max(a.distance(b)) < 1e-5
            assert kept or reported.intersection(joints), f"{name} starts {a.distance(b)} away, without a word"


def _reported(trip: RoundTrip) -> set[str]:
    words = ("starts", "its kind", "the joint", "joint", "coordinate offset")
    losses = [x for x in (*trip.there, *trip.back) if x.kind == "joint" and x.action.value != "extension"]
    return {x.name for x in losses if any(w in x.what for w in words)}


def _robot() -> Robot:
    """A hinge, a stacked pair, and a follower, all of which start away from zero, and one more than a turn away."""
    links = [Link(name=n) for n in ("base", "a", "b", "c", "d")]
    tilted = Pose.from_quaternion((0.1, 0.2, 0.3), np.array([0.8, 0.6, 0.0, 0.0]))
    turns = Joint(name="turns", kind=JointKind.CONTINUOUS, parent="base", child="a", axes=[rotation((0, 0, 1))])
    turns.parent_pose, turns.state = tilted, np.array([7.0])
    first = Joint(name="first", kind=JointKind.CONTINUOUS, parent="a", child="b", axes=[rotation((0, 1, 0))])
    first.child_pose, first.state = tilted, np.array([0.4])
    slides = Joint(name="slides", kind=JointKind.PRISMATIC, parent="b", child="c", axes=[translation((1, 0, 0))])
    slides.initial, slides.parent_pose = np.array([0.25]), tilted
    follows = Joint(name="follows", kind=JointKind.CONTINUOUS, parent="c", child="d", axes=[rotation((1, 0, 0))])
    follows.axes[0].mimic = Mimic(joint="first", multiplier=-2.0, offset=0.1)
    return Robot(name="made", links=links, joints=[turns, first, slides, follows])


@pytest.mark.parametrize("target", ["usd", "mjcf", "sdf"])
def test_coordinates_and_start_both_survive(target: str, tmp_path: Path) -> None:
    """The joints start at the same coordinates, which mean the same."""
    robot = _robot()
    file = tmp_path / f"made{SUFFIXES[target]}"
    write(robot, file)
    again = read(file, policy=collect)
    assert isinstance(again, Robot)
    starts = {"turns": 7.0, "first": 0.4, "slides": 0.25, "follows": -0.7}
    wanted = robot.link_poses(starts)
    for name in ("turns", "first", "slides"):
        np.testing.assert_allclose(again.joint(name).start, starts[name], atol=1e-6)
    for configuration in ({}, starts):
        found = again.link_poses(configuration)
        for name, pose in wanted.items():
            relative = [p["base"].inverse() @ x for p, x in ((wanted, pose), (found, found[name]))]
            assert max(relative[0].distance(relative[1])) < 1e-6, name
    moved = again.link_poses({"first": 1.0})
    wanted = robot.link_poses({"first": 1.0})
    for name in ("b", "c", "d"):
        assert max((wanted["base"].inverse() @ wanted[name]).distance(moved["base"].inverse() @ moved[name])) < 1e-6


def test_urdf_says_that_the_start_is_lost(tmp_path: Path) -> None:
    """URDF has zero only; a follower goes with its leader, there, too."""
    report = km.write(_robot(), tmp_path / "made.urdf")
    lost = {x.name for x in report.dropped if "starts" in x.what}
    assert lost == {"turns", "first", "slides", "follows"}

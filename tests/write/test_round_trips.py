"""The example robots to every format and back: all as it was, or the loss reports name the very element."""

from __future__ import annotations

from pathlib import Path

import pytest

from kinema.description import Inertial
from kinema.write import FORMATS
from kit import round_trip
from kit.assets import EXAMPLES
from kit.round_trip import RoundTrip, differences, round_trips

ROBOTS = [EXAMPLES / "arm" / "arm.urdf", EXAMPLES / "gripper" / "gripper.sdf", EXAMPLES / "quadruped" / "scene.xml"]


@pytest.mark.parametrize("target", FORMATS)
@pytest.mark.parametrize("file", ROBOTS, ids=lambda p: p.stem)
def test_nothing_differs_that_the_reports_do_not_name(file: Path, target: str, tmp_path: Path) -> None:
    """Structure, poses, inertias, limits and pairs that may collide."""
    found = [d for trip in round_trips(file, target, tmp_path) for d in differences(trip)]
    assert [str(d) for d in found if d.loss is None] == []
    same_format = {"arm": "urdf", "gripper": "sdf", "scene": "mjcf"}[file.stem] == target
    assert not (same_format and found), "a robot comes back from its own format as it was"


@pytest.fixture
def trip(tmp_path: Path) -> RoundTrip:
    """The arm through its own format: nothing differs, and nothing is reported."""
    (result,) = round_trips(ROBOTS[0], "urdf", tmp_path)
    assert list(differences(result)) == []
    return result


def test_a_link_that_moved_is_seen(trip: RoundTrip) -> None:
    """The comparison itself: a changed joint frame is a difference of its child alone."""
    joint = trip.after.joints["elbow_joint"]
    joint.parent_pose = joint.parent_pose @ round_trip.Pose.translation((0, 0, 2e-7))
    (found,) = round_trip.poses(trip)
    assert "forearm_link" in found.text
    assert found.loss is None


def test_a_mass_that_changed_is_seen(trip: RoundTrip) -> None:
    link = trip.after.links["forearm_link"]
    assert link.inertial is not None
    link.inertial = Inertial(link.inertial.mass * (1 + 2e-6), link.inertial.center, link.inertial.inertia)
    assert [d.text.split(":")[0] for d in round_trip.inertias(trip)] == ['link "forearm_link"']


def test_a_limit_that_changed_is_seen(trip: RoundTrip) -> None:
    trip.after.joints["elbow_joint"].axes[0].upper += 1e-5
    assert ["elbow_joint" in d.text for d in round_trip.limits(trip)] == [True]


def test_a_pair_that_may_collide_no_more_is_seen(trip: RoundTrip) -> None:
    trip.after.links["forearm_link"].shapes = [s for s in trip.after.links["forearm_link"].shapes if not s.collision]
    found = list(round_trip.collisions(trip))
    assert found
    assert all("forearm_link" in d.text and d.loss is None for d in found)


def test_a_link_that_is_gone_is_seen(trip: RoundTrip) -> None:
    del trip.after.links["tool_frame"]
    again = RoundTrip(trip.before, trip.after, trip.there, trip.back)
    assert [d.text for d in round_trip.structure(again)] == ['the link "tool_frame" is gone']

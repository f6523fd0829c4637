"""Random CAD assemblies, written as URDF: other programs put every link where the assembly had it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kinema.core import Array
from kit.cad.fake_fusion import FakeDesign
from kit.cad.random_designs import designs
from kit.oracles import OracleMissing, drake
from kit.robots.same import agree
from kit.written.urdf import Written, check_urdf, mujoco_poses, pinocchio_poses

from .stations import Station, robot_of, stations

TOLERANCE = 1e-9
OF_YOURDFPY = 1e-7
"""Its scene graph takes a transform that is within 1e-8 of the identity for the identity."""


def _expected(written: Written, station: Station) -> dict[str, Array]:
    """The design's poses, seen from the root link of the file."""
    base = written.root_pose(station.poses).inverse()
    return {name: (base @ pose).matrix for name, pose in station.poses.items()}


@settings(max_examples=40)
@given(designs(), st.data())
def test_pinocchio_and_mujoco(design: FakeDesign, data: st.DataObject) -> None:
    """At the assembly pose and along each joint, for all joint types, parked anywhere."""
    robot = robot_of(design)
    places = stations(robot, design, data)
    with tempfile.TemporaryDirectory() as folder:
        written = Written.make(robot, Path(folder))
        in_file = [written.in_file(s.configuration) for s in places]
        for judge in (pinocchio_poses, mujoco_poses):
            for theirs, station in zip(judge(written, in_file), places, strict=True):
                agree(theirs, _expected(written, station), TOLERANCE)


@settings(max_examples=20)
@given(designs(), st.data())
def test_yourdfpy(design: FakeDesign, data: st.DataObject) -> None:
    """The same by yourdfpy, which also validates the file."""
    yourdfpy: Any = pytest.importorskip("yourdfpy")
    robot = robot_of(design)
    places = stations(robot, design, data)
    with tempfile.TemporaryDirectory() as folder:
        written = Written.make(robot, Path(folder))
        loaded = yourdfpy.URDF.load(str(written.file), load_meshes=False)
        assert loaded.validate(), loaded.errors
        for station in places:
            loaded.update_cfg({name: float(q[0]) for name, q in written.in_file(station.configuration).items()})
            theirs = {link.name: loaded.get_transform(link.name) for link in robot.links}
            agree(theirs, _expected(written, station), OF_YOURDFPY)


@settings(max_examples=15)
@given(designs())
def test_urdfdom_has_no_complaint(design: FakeDesign) -> None:
    """The library of ROS reads the file without a word."""
    with tempfile.TemporaryDirectory() as folder:
        check_urdf(Written.make(robot_of(design), Path(folder)).file)


@settings(max_examples=6)
@given(designs(), st.data())
def test_drake(design: FakeDesign, data: st.DataObject) -> None:
    """The same by Drake, to which a link called world is the world."""
    robot = robot_of(design)
    places = stations(robot, design, data)
    with tempfile.TemporaryDirectory() as folder:
        written = Written.make(robot, Path(folder), base="world")
        try:
            at = [{n: q.tolist() for n, q in written.in_file(s.configuration).items()} for s in places]
            result = drake(written.file, at)
        except OracleMissing as missing:
            pytest.skip(str(missing))
    assert "error" not in result, result["error"]
    for seen, station in zip(result["configurations"], places, strict=True):
        theirs = {name.rpartition("::")[2]: pose for name, pose in seen["poses"].items()}
        agree(theirs, {name: pose.matrix for name, pose in station.poses.items()}, TOLERANCE)


def test_the_judges_can_object(tmp_path: Path) -> None:
    """A joint whose frame is off by 0.1 mm is found: the tests above can fail."""
    from kit.cad.fake_fusion import box_body
    from kit.cad.fake_joints import make_joint
    from kit.cad.fake_math import shift

    design = FakeDesign("one joint")
    part = design.component("part", box_body("body", (1.0, 2.0, 3.0), np.eye(4), density=0.0027))
    base, arm = design.root.add(part, np.eye(4)), design.root.add(part, shift((5.0, 0.0, 0.0)))
    design.root.find(base).grounded = True
    make_joint(design.root, "hinge", "revolute", arm, base, shift((3.0, 1.0, 0.0)), values={"rotation": 0.7})
    robot = robot_of(design)
    place = Station({"hinge": np.array([0.9])}, robot.link_poses({"hinge": 0.9}))
    robot.joints[0].parent_pose.position[0] += 1e-4
    written = Written.make(robot, tmp_path)
    with pytest.raises(AssertionError):
        agree(pinocchio_poses(written, [written.in_file(place.configuration)])[0], _expected(written, place), TOLERANCE)

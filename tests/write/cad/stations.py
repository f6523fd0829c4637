"""From a random design to a robot, its configurations, and where the design has every part in each."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from kinema.core import Array, Diagnostics, Pose, Severity
from kinema.description import Robot
from kit.cad.addin import assembly_state, exported_robot
from kit.cad.assembly_checks import drive, metres, moved_along_each_joint
from kit.cad.fake_fusion import FakeDesign


@dataclass(frozen=True)
class Station:
    """One configuration, and the design's word on where the links are in it."""

    configuration: dict[str, Array]
    poses: dict[str, Pose]


def robot_of(design: FakeDesign) -> Robot:
    """The robot that the add-in's snapshot gives; its meshes do not matter here."""
    diagnostics = Diagnostics()
    with tempfile.TemporaryDirectory() as folder:
        robot = exported_robot(design, Path(folder), diagnostics)
    assert [str(d) for d in diagnostics if d.severity is not Severity.NOTE] == []
    for link in robot.links:
        link.shapes = []
    return robot


def stations(robot: Robot, design: FakeDesign, data: st.DataObject) -> list[Station]:
    """The assembly as it was snapped, and a place along each joint."""
    found = [_station(robot, design, assembly_state(robot))]
    found += [_station(robot, design, c) for c in moved_along_each_joint(robot, design, data)]
    return found


def at_zero(robot: Robot, design: FakeDesign) -> Station:
    """All joints at the CAD program's zero, where every format has its own."""
    for context, component in design.contexts():
        for joint in component.joints:
            drive(design, joint, dict.fromkeys(design.values_of(joint, context), 0.0), context)
    return _station(robot, design, {})


def _station(robot: Robot, design: FakeDesign, configuration: dict[str, Array]) -> Station:
    complete = {j.name: np.atleast_1d(np.asarray(configuration.get(j.name, j.rest), float)) for j in robot.joints}
    poses = {}
    for link in robot.links:
        path = tuple(link.attributes["cad:occurrences"][0].split("+"))
        poses[link.name] = robot.pose @ metres(design.pose(path))
    return Station(complete, poses)

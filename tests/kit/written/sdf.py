"""Written SDFormat files before libsdformat, Drake and our own reader, and where the description has every link."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema
from kinema.core import Array, Pose
from kinema.description import Joint, JointKind, Robot, World
from kinema.write import WriteOptions
from kinema.write.loss_report import LossReport
from kinema.write.sdf import LoweredSdfRobot, preview_lowering, write_sdf

from ..oracles import OracleMissing, drake, libsdformat
from ..robots.configurations import random_coordinates, rest_coordinates
from ..robots.same import agree

Coordinates = Mapping[str, Array]
_NEWER = "Unable to convert from SDF version 1.11 to 1.9"
_NEWER_WORDS = ("XML Attribute[optimization]", "XML Element[mimic]", "XML Element[cone]", "XML Element[density]")


@dataclass
class Written:
    """A robot or world, its file, and how the two correspond."""

    described: Robot | World
    file: Path
    report: LossReport
    lowered: list[LoweredSdfRobot]

    @classmethod
    def make(cls, described: Robot | World, folder: Path, **options: Any) -> Written:
        """Write it."""
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "robot.sdf"
        report = LossReport("sdf", str(file))
        chosen = WriteOptions(**{"meshes": "copy", **options})
        write_sdf(described, file, report, chosen)
        made = cls(described, file, report, [])
        made.lowered = [preview_lowering(r, chosen) for r in made.robots]
        return made

    @property
    def robots(self) -> list[Robot]:
        """The robots that are in the file."""
        robots = self.described.robots if isinstance(self.described, World) else [self.described]
        return [r for r in robots if r.links]

    @property
    def text(self) -> str:
        return self.file.read_text(encoding="utf-8")

    def losses(self, name: str) -> list[str]:
        """What the report says of an element."""
        return [str(x) for x in self.report if x.name == name]

    def name(self, kind: str, name: str) -> str:
        """What an element of the lowered robot is called in the file."""
        found = [x.how for x in self.report if (x.kind, x.name, x.what) == (kind, name, "its name")]
        match = re.search(r'it is called "(.*)"', found[-1]) if found else None
        return match[1] if match else name

    def read(self) -> list[Robot]:
        """The robots that our reader finds, without the scenery."""
        again = kinema.read(self.file)
        found = again.robots if isinstance(again, World) else [again]
        return found[: len(self.robots)]

    def in_file(self, index: int, coordinates: Coordinates) -> dict[str, Array]:
        """Coordinates of a robot's joints as those of the file's; all joints must be given."""
        robot, lowered = self.robots[index], self.lowered[index]
        values: dict[str, Array] = {}
        by_name = {j.name: j for j in lowered.robot.joints}
        for joint in robot.joints:
            if joint.kind is JointKind.SPHERICAL and joint.name in lowered.joint_chains:
                q = coordinates[joint.name]
                values[joint.name] = q if joint.child is not None else q * [1, -1, -1, -1]
            for number, (name, axis) in lowered.coordinates.get(joint.name, {}).items():
                q = values.setdefault(name, np.zeros(len(by_name[name].axes)))
                q[axis] = coordinates[joint.name][number] - lowered.coordinate_offsets.get((joint.name, number), 0.0)
        return {self.name("joint", name): q for name, q in values.items()}

    def expected(self, index: int, coordinates: Coordinates) -> dict[str, Array]:
        """Where the description has the links, by their names in the file."""
        poses = self.robots[index].forward_kinematics(coordinates)
        return {self.name("link", name): pose for name, pose in poses.items()}


# -- judges -----------------------------------------------------------------------------------------------------------


def own_reader_agrees(written: Written, tolerance: float, count: int = 3) -> None:
    """Our reader has every link in its place, at zero and at random configurations."""
    random = np.random.default_rng(5)
    for index, (robot, again) in enumerate(zip(written.robots, written.read(), strict=True)):
        for q in (rest_coordinates(robot), *(random_coordinates(robot, random, free=False) for _ in range(count))):
            in_file = _without_loops(again, written.in_file(index, q))
            theirs, ours = again.forward_kinematics(in_file), written.expected(index, q)
            agree(*seen_from_roots(again, theirs, ours), tolerance)


def seen_from_roots(
    robot: Robot, theirs: dict[str, Array], ours: dict[str, Array]
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Links seen from the root that they hang on: of a robot that is free, which of its links stays is a choice."""
    root_of = {root: root for root in robot.tree().roots}
    for edge in robot.tree().edges:
        if edge.parent is not None and edge.parent in root_of:
            root_of[edge.child] = root_of[edge.parent]
    seen = []
    for poses in (theirs, ours):
        inverse = {root: np.linalg.inv(poses[root]) for root in root_of.values() if root in poses}
        seen.append({n: inverse[root_of[n]] @ p if n in root_of else p for n, p in poses.items() if n in ours})
    return seen[0], seen[1]


def _without_loops(robot: Robot, coordinates: Coordinates) -> dict[str, Array]:
    """A loop joint's coordinates place nothing; a ball that was a constraint has none of the description."""
    rest = {j.name: j.rest for j in robot.joints if j.name not in coordinates}
    return {**rest, **coordinates}


def libsdformat_accepts(written: Written) -> dict[str, Any]:
    """No error, and no warning but that of an old library about a newer version."""
    try:
        result = libsdformat(written.file)
    except OracleMissing as missing:
        pytest.skip(str(missing))
    complaints, _ = libsdformat_complaints(written, result)
    assert complaints == []
    return result


def libsdformat_complaints(written: Written, result: dict[str, Any]) -> tuple[list[str], list[str]]:
    """What the library has against the file, and what it has against inertias that the report calls impossible."""
    impossible = {written.name("link", x.name) for x in written.report if x.what == "its mass and inertia"}
    errors = [e["message"] for e in result["errors"]]
    of_inertias = [e for e in errors if any(f"A link named {n} has invalid" in e for n in impossible)]
    is_new = 'sdf version="1.9"' not in written.text
    spoken = [w for w in result["warnings"] if not (is_new and (_NEWER in w or any(x in w for x in _NEWER_WORDS)))]
    return [*(e for e in errors if e not in of_inertias), *spoken], of_inertias


def drake_refuses(written: Written) -> bool:
    """Whether Drake has no way to hold such a robot: loops, gears, or joints that it does not know."""
    return any(
        x.robot.tree().loops
        or x.robot.constraints
        or any(j.attributes.get("sdf:type") == "revolute2" for j in x.robot.joints)
        for x in written.lowered
    )


def drake_agrees(written: Written, tolerance: float, count: int = 2) -> None:
    """Drake has every link in its place, at zero and at random configurations."""
    random = np.random.default_rng(6)
    requests: list[dict[str, Any]] = [{} for _ in range(1 + count)]
    expected: list[dict[str, Any]] = [{} for _ in requests]
    for index, (robot, model) in enumerate(zip(written.robots, model_names(written), strict=True)):
        configurations = [
            rest_coordinates(robot),
            *(random_coordinates(robot, random, free=False) for _ in range(count)),
        ]
        if robot.static:  # Drake welds every link of it to the world
            configurations = [rest_coordinates(robot)] * len(requests)
        for i, q in enumerate(configurations):
            if not robot.static:
                at = drake_positions(written, index, written.in_file(index, q))
                requests[i] |= {f"{model}::{name}": values for name, values in at.items()}
            for name, pose in written.expected(index, q).items():
                expected[i][f"{model}::{name}"] = pose
    try:
        result = drake(written.file, requests)
    except OracleMissing as missing:
        pytest.skip(str(missing))
    assert "error" not in result, result["error"]
    for seen, ours in zip(result["configurations"], expected, strict=True):
        agree(seen["poses"], ours, tolerance)


def model_names(written: Written) -> list[str]:
    """What the models of the robots are called in the file."""
    return [written.name("robot", r.name) if r.name else "robot" for r in written.robots]


def drake_positions(written: Written, index: int, coordinates: Coordinates) -> dict[str, Array]:
    """Coordinates of a robot's joints in the file as Drake has them."""
    joints = {written.name("joint", j.name): j for j in written.lowered[index].robot.joints}
    return {name: _for_drake(joints[name], q) for name, q in coordinates.items()}


def _for_drake(joint: Joint, q: Array) -> Array:
    """Drake's balls have roll, pitch and yaw."""
    return Pose.from_quaternion(np.zeros(3), q).rpy if joint.kind is JointKind.SPHERICAL else q


def stands_where_it_stood(written: Written, tolerance: float) -> None:
    """At zero every link is in its place in the world, whatever holds it."""
    for index, (robot, again) in enumerate(zip(written.robots, written.read(), strict=True)):
        if not written.lowered[index].coordinate_offsets:
            rest = {j.name: j.rest for j in again.joints}
            agree(again.forward_kinematics(rest), written.expected(index, rest_coordinates(robot)), tolerance)

"""Joints that follow others, through formats that say it in other ways."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kinema.core import Pose, collect
from kinema.description import Constraint, ConstraintKind, Joint, JointKind, Mimic, Robot, rotation
from kinema.read import read
from kinema.write import FORMATS, write
from kit.robots.small_robots import body

FACTORS = st.floats(-3, 3).map(lambda x: round(x, 3))
SUFFIX = {format: suffixes[0] for format, suffixes in FORMATS.items()}


def chain(*joints: Joint) -> Robot:
    """Links on the base, one for each joint."""
    links = [body(name, inertia=1.0) for name in ("base", *(f"{j.name}_link" for j in joints))]
    return Robot(name="robot", links=links, joints=list(joints))


def hinge(name: str, reference: float = 0.0, mimic: Mimic | None = None) -> Joint:
    axis = rotation((0, 0, 1), reference=reference)
    axis.mimic = mimic
    place = Pose.translation((1.0, 0, 0))
    return Joint(
        name=name, kind=JointKind.REVOLUTE, parent="base", child=f"{name}_link", parent_pose=place, axes=[axis]
    )


def travel(robot: Robot, folder: Path, *formats: str) -> Robot:
    """The robot after it was written in one format after the other."""
    for number, format in enumerate(formats):
        file = folder / f"{number}{SUFFIX[format]}"
        write(robot, file)
        again = read(file, policy=collect)
        assert isinstance(again, Robot)
        robot = again
    return robot


def same_places(one: Robot, other: Robot, tolerance: float = 1e-7) -> None:
    """Where one joint leads, all links are in the same places."""
    for value in (-0.7, 0.0, 0.4):
        a, b = one.forward_kinematics({"leader": value}), other.forward_kinematics({"leader": value})
        for name in a:
            np.testing.assert_allclose(
                np.linalg.inv(b["base"]) @ b[name], np.linalg.inv(a["base"]) @ a[name], rtol=0, atol=tolerance
            )


@pytest.mark.parametrize("through", FORMATS)
@pytest.mark.parametrize("own", ["urdf", "usd"])
@settings(max_examples=10)
@given(factor=FACTORS, offset=FACTORS, reference=FACTORS)
def test_a_mimic_comes_back_as_a_mimic(
    own: str, through: str, factor: float, offset: float, reference: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Through every format, MJCF among them, which has only soft constraints."""
    mimic = Mimic(joint="leader", multiplier=factor, offset=offset, reference=reference)
    robot = chain(hinge("leader"), hinge("follower", mimic=mimic))
    again = travel(robot, tmp_path_factory.mktemp("trip"), through, own)
    assert again.constraints == []
    found = next(j for j in again.joints if j.name == "follower").axes[0].mimic
    assert found is not None
    assert found.joint == "leader"
    same_places(robot, again, 1e-6)


def test_references_count_in_mjcf(tmp_path: Path) -> None:
    """MuJoCo counts both coordinates from where the frames coincide."""
    robot = chain(hinge("leader", 0.3), hinge("follower", -0.2, Mimic(joint="leader", multiplier=2, offset=0.1)))
    same_places(robot, travel(robot, tmp_path, "mjcf"))


@pytest.mark.parametrize("change", ['polycoef="0 1 0.5 0 0"', 'solref="0.1 1"', 'active="false"'])
def test_what_became_something_else_stays_a_constraint(change: str, tmp_path: Path) -> None:
    """Somebody edited the constraint that stands for a mimic."""
    file = tmp_path / "robot.xml"
    write(chain(hinge("leader"), hinge("follower", mimic=Mimic(joint="leader"))), file)
    text = file.read_text().replace('joint2="leader"', f'joint2="leader" {change}')
    assert change in text
    file.write_text(text)
    robot = read(file, policy=collect)
    assert [c.kind for c in robot.constraints] == [ConstraintKind.JOINT]
    assert not any(a.mimic for j in robot.joints for a in j.axes)


@pytest.mark.parametrize("format", ["urdf", "sdf"])
@settings(max_examples=15)
@given(line=st.tuples(FACTORS, FACTORS), references=st.tuples(FACTORS, FACTORS))
def test_a_constraint_that_becomes_a_mimic_counts_from_the_references(
    format: str,
    line: tuple[float, float],
    references: tuple[float, float],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """The constraint is between distances from the reference coordinates, a mimic between the coordinates."""
    robot = chain(hinge("leader", references[0]), hinge("follower", references[1]))
    constraint = Constraint(name="c", kind=ConstraintKind.JOINT, a="follower", b="leader")
    constraint.polynomial = (*line, 0.0, 0.0, 0.0)
    robot.constraints.append(constraint)
    again = travel(robot, tmp_path_factory.mktemp("trip"), format)
    mimic = Mimic(joint="leader", multiplier=line[1], offset=line[0] + references[1], reference=references[0])
    robot.joints[1].axes[0].mimic = mimic
    robot.constraints = []
    same_places(robot, again)


def test_followers_of_followers_follow_the_first(tmp_path: Path) -> None:
    """Many programs of ROS have no chains of mimics: those that constraints make are cut short."""
    robot = chain(hinge("leader"), hinge("second"), hinge("third"))
    for a, b, line in (("third", "second", (0.2, 3.0)), ("second", "leader", (0.1, 2.0))):
        constraint = Constraint(name=f"{a}_{b}", kind=ConstraintKind.JOINT, a=a, b=b)
        constraint.polynomial = (*line, 0.0, 0.0, 0.0)
        robot.constraints.append(constraint)
    again = travel(robot, tmp_path, "urdf")
    mimics = {j.name: a.mimic for j in again.joints for a in j.axes if a.mimic is not None}
    assert {name: (m.joint, m.multiplier, m.offset) for name, m in mimics.items()} == {
        "second": ("leader", 2.0, 0.1),
        "third": ("leader", 6.0, 0.5),
    }

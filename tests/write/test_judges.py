"""Robots of each kind, written in every format, before the programs of others; docs/judges.md has all of the corpus."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kinema.description import Robot
from kinema.read import read
from kit import judges
from kit.assets import EXAMPLES, assets
from kit.judges.cases import configurations, mass_matrix, matrix_error, pose_error
from kit.judges.urdf import Written, judge_urdf
from kit.mass_matrix import mass_matrix as mass_matrix_by_differences

ARM = EXAMPLES / "arm" / "arm.urdf"
ROBOTS = {
    "arm": ARM,
    "gripper": EXAMPLES / "gripper" / "gripper.sdf",
    "quadruped": EXAMPLES / "quadruped" / "scene.xml",
    "stacked joints": "mjcf/edge_cases/stacked_joints.xml",
    "ball joints": "mjcf/edge_cases/ball_joints.xml",
    "all joints of SDFormat": "sdf/joint_complete/joint_complete.sdf",
    "cylinder": "usd/newton_tests/kamino/testing/joints/test_joint_cylindrical_actuated.usda",
    "references": "mjcf/agility_cassie/cassie.xml",
    "several robots": "sdf/gzsim_mimic_pendulums/mimic_fast_slow_pendulums_world.sdf",
}


def robot_file(name: str) -> Path:
    place = ROBOTS[name]
    if isinstance(place, Path):
        return place
    return assets(place)


@pytest.mark.wide
@pytest.mark.parametrize("target", ["urdf", "sdf", "mjcf"])
@pytest.mark.parametrize("name", ROBOTS)
def test_judges_agree(name: str, target: str, tmp_path: Path) -> None:
    """They load the file and have links and mass matrix as we have them in the source, or name a limit of theirs."""
    judged, _ = judges.judge(robot_file(name), target, tmp_path)
    assert {v.judge for v in judged.verdicts} == set(judges.JUDGES[target])
    assert [v for v in judged.verdicts if v.state == "wrong"] == []
    absent = [v.detail for v in judged.verdicts if v.state == "absent"]
    if absent:
        pytest.skip("; ".join(absent))


def test_openusd_and_newton_agree(tmp_path: Path) -> None:
    """The same of USD, all in one process of Newton's."""
    cases = []
    for i, name in enumerate(ROBOTS):
        judged, own = judges.judge(robot_file(name), "usd", tmp_path / str(i))
        assert [v for v in judged.verdicts if v.state != "agrees"] == []
        cases += own
    verdicts = judges.judge_newton(cases)
    if verdicts[0].state == "absent":
        pytest.skip(verdicts[0].detail)
    assert [v for v in verdicts if v.state == "wrong"] == []
    assert verdicts[0].state == "agrees"


# -- the judging itself -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["arm", "quadruped", "references", "cylinder"])
def test_the_mass_matrix_is_that_of_the_motion(name: str) -> None:
    """The matrix that judges are compared with, against differences of link poses."""
    described = read(robot_file(name))
    robot = described if isinstance(described, Robot) else next(r for r in described.robots if r.n_dofs)
    q = configurations(robot, seed=1)[1]
    names, ours = mass_matrix(robot, q, armature=True)
    by_joint = list(dict.fromkeys(joint for joint, _ in names))
    other = mass_matrix_by_differences(robot, by_joint, q)
    assert matrix_error(other, ours, names)[0] < 1e-7


def test_a_link_that_is_elsewhere_is_seen() -> None:
    """The comparison of poses: absolute, and from the link that floats."""
    here, there = np.eye(4), np.eye(4)
    there[0, 3] = 2e-6
    assert pose_error({"a": there}, {"a": here}, {})[0] == pytest.approx(2e-6)
    assert pose_error({"a": there, "b": there}, {"a": here, "b": here}, {"a": "a", "b": "a"})[0] == 0.0
    assert pose_error({}, {"a": here}, {})[0] == np.inf


def test_a_wrong_file_is_seen(tmp_path: Path) -> None:
    """A judge that has the file of another robot does not agree."""
    written = Written.make(read(ARM), tmp_path)
    written.file.write_text(written.text.replace('<mass value="', '<mass value="1'))
    states = {v.judge: v.state for v in judge_urdf(written)}
    assert states["Pinocchio"] in ("wrong", "absent")
    assert states["MuJoCo"] == "wrong"

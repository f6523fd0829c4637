"""What URDF files mean, judged by Pinocchio, MuJoCo and (for its own joints) Drake."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from kinema.core import Diagnostics, Severity
from kinema.description import Robot
from kinema.read.resolve import Resolver
from kinema.read.urdf import read_urdf
from kit.assets import EXAMPLES, all_assets, asset_id, assets
from kit.oracles import OracleMissing, drake
from kit.robots.configurations import random_coordinates
from kit.urdf_oracles import Mujoco, Pinocchio, Refused, without_declaration

from .urdf_files import LIMIT, write

TOLERANCE = 1e-9
CONFIGURATIONS = 20

_BODY = '<inertial>{}<mass value="{}"/><inertia ixx="2" ixy="0.1" ixz="-0.2" iyy="2.5" iyz="0.3" izz="1.9"/></inertial>'


def _link(name: str, mass: float, origin: str = "") -> str:
    return f'<link name="{name}">{_BODY.format(origin, mass)}</link>'


def _joint(name: str, type: str, parent: str, child: str, inside: str) -> str:
    return f'<joint name="{name}" type="{type}"><parent link="{parent}"/><child link="{child}"/>{inside}</joint>'


INLINE = {
    # a pitch of exactly a quarter turn is where roll and yaw become one
    "gimbal_lock": _link("base", 1.0)
    + _link("one", 2.0, '<origin xyz="0.1 -0.2 0.3" rpy="0.3 1.5707963267948966 -0.7"/>')
    + _link("two", 3.0, '<origin xyz="-1 0 2" rpy="2.5 -1.1 3.0"/>')
    + _joint(
        "j1",
        "revolute",
        "base",
        "one",
        f'<origin xyz="1 2 3" rpy="0.4 1.5707963267948966 0.2"/><axis xyz="0.6 0 0.8"/>{LIMIT}',
    )
    + _joint("j2", "prismatic", "one", "two", f'<origin rpy="-3 -1.57 1"/>{LIMIT}'),
    "every_type": "".join(_link(n, 1.5 + i, f'<origin xyz="0 {i} 0.1"/>') for i, n in enumerate("abcdefg"))
    + _joint("fixed", "fixed", "a", "b", '<origin xyz="0.5 0 0" rpy="0.1 0.2 0.3"/>')
    + _joint("continuous", "continuous", "b", "c", '<origin xyz="0 1 0"/><axis xyz="0 0.6 0.8"/>')
    + _joint("revolute", "revolute", "c", "d", f'<origin rpy="1 1 1"/><axis xyz="0 -1 0"/>{LIMIT}')
    + _joint("prismatic", "prismatic", "b", "e", f'<axis xyz="-0.8 0 0.6"/>{LIMIT}')
    + _joint("planar", "planar", "e", "f", '<origin xyz="0 0 1" rpy="0.5 -0.5 2"/><axis xyz="0 0 1"/>')
    + _joint("default_axis", "continuous", "f", "g", '<origin xyz="1 1 1"/>'),
    "floating": _link("base", 1.0)
    + _link("body", 2.0, '<origin xyz="0.1 0.2 0.3" rpy="1 2 3"/>')
    + _link("arm", 3.0)
    + _joint("float", "floating", "base", "body", '<origin xyz="1 -1 0.5" rpy="0.2 0.3 0.4"/>')
    + _joint("j", "continuous", "body", "arm", '<origin xyz="0 0 1"/><axis xyz="0 1 0"/>'),
    "mimic_chain": "".join(_link(n, 1.0) for n in "abcd")
    + _joint("leader", "revolute", "a", "b", f'<axis xyz="0 0 1"/>{LIMIT}')
    + _joint("second", "revolute", "b", "c", f'<mimic joint="leader" multiplier="-2.5" offset="0.3"/>{LIMIT}')
    + _joint("third", "prismatic", "c", "d", f'<axis xyz="0 1 0"/><mimic joint="second" multiplier="0.1"/>{LIMIT}'),
    "many_children": _link("hub", 5.0)
    + "".join(
        _link(f"spoke{i}", 1.0)
        + _joint(f"s{i}", "continuous", "hub", f"spoke{i}", f'<origin xyz="{i} 0 0" rpy="0 0 {i}"/><axis xyz="0 0 1"/>')
        for i in range(6)
    ),
    "far_axis": _link("a", 1.0) + _link("b", 1.0) + _joint("j", "revolute", "a", "b", f'<axis xyz="3 -4 12"/>{LIMIT}'),
}
WITHOUT_MUJOCO = {
    "floating": "free joints hang on the world only",
    "urdf/edge_cases/link_first_ghost_link_floating.urdf": "free joints hang on the world only",
}
WITHOUT_PINOCCHIO = {"urdf/edge_cases/link_skip_ghost_link_chain.urdf": "its <limit> has no effort and no velocity"}

FILES = [*all_assets("urdf/**/*.urdf"), *sorted(EXAMPLES.glob("*/*.urdf"))]


def _read(file: Path) -> Robot:
    return read_urdf(file, diagnostics=Diagnostics(), resolve=Resolver(use_environment=False))


def _name_of(file: Path) -> str:
    return file.stem if file.stem in INLINE else asset_id(file)


@pytest.fixture(params=[*INLINE, *FILES], ids=lambda p: p if isinstance(p, str) else asset_id(p))
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Each inline robot and each robot at hand."""
    if isinstance(request.param, Path):
        return request.param
    return write(tmp_path, INLINE[request.param], name=f"{request.param}.urdf")


def _agree(robot: Robot, judge: Pinocchio | Mujoco) -> None:
    random = np.random.default_rng(7)
    for _ in range(CONFIGURATIONS):
        coordinates = random_coordinates(robot, random, follow=False)
        ours, theirs = robot.forward_kinematics(coordinates), judge.poses(robot, coordinates)
        for name, pose in theirs.items():
            np.testing.assert_allclose(ours[name], pose, rtol=0, atol=TOLERANCE, err_msg=name)
    judge.check_inertias(robot, TOLERANCE)


def test_pinocchio_agrees(file: Path) -> None:
    """Poses of all links at random configurations, and masses, centres and inertias."""
    robot = _read(file)
    name = _name_of(file)
    if name in WITHOUT_PINOCCHIO:
        assert robot.diagnostics.errors()
        with pytest.raises(Refused):
            Pinocchio.load(without_declaration(file))
        return
    _agree(robot, Pinocchio.load(without_declaration(file)))


def test_mujoco_agrees(file: Path) -> None:
    """The same, link by link."""
    robot = _read(file)
    if _name_of(file) in WITHOUT_MUJOCO:
        with pytest.raises(Refused, match="free joint"):
            Mujoco.load(without_declaration(file))
        return
    _agree(robot, Mujoco.load(without_declaration(file)))


def test_files_at_hand_have_no_unexpected_errors(file: Path) -> None:
    """What all judges accept has no errors for us either."""
    errors = _read(file).diagnostics.errors()
    if _name_of(file) not in WITHOUT_PINOCCHIO:
        assert not errors, [str(e) for e in errors]


def test_followers_follow(file: Path) -> None:
    """A mimic joint that is not named goes where its leader sends it."""
    robot = _read(file)
    followers = {j.name: j.axes[0].mimic for j in robot.joints if j.axes and j.axes[0].mimic}
    if not followers:
        return
    coordinates = random_coordinates(robot, np.random.default_rng(3), follow=False)
    for _ in followers:  # enough rounds for the longest chain
        for name, mimic in followers.items():
            assert mimic is not None
            coordinates[name] = mimic.multiplier * coordinates[mimic.joint] + mimic.offset
    given = {name: q for name, q in coordinates.items() if name not in followers}
    theirs = Pinocchio.load(without_declaration(file)).poses(robot, coordinates)
    for name, pose in robot.forward_kinematics(given).items():
        np.testing.assert_allclose(pose, theirs[name], rtol=0, atol=TOLERANCE, err_msg=name)


def test_quaternion_agrees_with_pinocchio(tmp_path: Path) -> None:
    """URDF 1.1's quat_xyzw, which is x y z w and need not be of unit length."""
    inside = (
        _link("a", 1.0)
        + _link("b", 2.0, '<origin xyz="1 2 3" quat_xyzw="0.1 0.7 -0.1 0.7"/>')
        + _joint("j", "continuous", "a", "b", '<origin xyz="0 0 1" quat_xyzw="0.5 -0.5 0.5 0.5"/>')
    )
    file = write(tmp_path, inside, attributes='name="r" version="1.1"')
    robot = _read(file)
    assert not [d for d in robot.diagnostics if d.severity is not Severity.NOTE]
    _agree(robot, Pinocchio.load(file.read_text()))


@pytest.mark.parametrize("normal", ["1 0 0", "0 1 0", "0 0 1", "0 0 -1", "1 2 -3", "-0.3 0 0.1", "1e-12 0 -1"])
def test_planar_joint_is_mujocos(tmp_path: Path, normal: str) -> None:
    """The directions in the plane of a planar joint are MuJoCo's, whatever the normal."""
    inside = (
        _link("a", 1.0)
        + _link("b", 2.0)
        + _joint("j", "planar", "a", "b", f'<origin xyz="1 2 3" rpy="0.1 0.2 0.3"/><axis xyz="{normal}"/>')
    )
    file = write(tmp_path, inside)
    _agree(_read(file), Mujoco.load(file.read_text()))


def test_spherical_joint_is_mujocos(tmp_path: Path) -> None:
    """The spherical joint of Bullet and MuJoCo."""
    inside = _link("a", 1.0) + _link("b", 2.0) + _joint("j", "spherical", "a", "b", '<origin rpy="0.1 0.2 0.3"/>')
    file = write(tmp_path, inside)
    _agree(_read(file), Mujoco.load(file.read_text()))


def test_drake_joints_are_drakes(tmp_path: Path) -> None:
    """Drake's screw, universal and planar joints."""
    ends = '<parent link="{}"/><child link="{}"/><origin xyz="0 1 2" rpy="0.3 0.2 0.1"/>'
    inside = "".join(_link(n, 1.0) for n in "abcd") + (
        f'<drake:joint name="screw" type="screw">{ends.format("a", "b")}<axis xyz="0 0.6 0.8"/>'
        '<drake:screw_thread_pitch value="0.25"/></drake:joint>'
        f'<drake:joint name="universal" type="universal">{ends.format("b", "c")}</drake:joint>'
        f'<drake:joint name="planar" type="planar">{ends.format("c", "d")}<axis xyz="1 2 -3"/></drake:joint>'
        '<joint name="ground" type="fixed"><parent link="world"/><child link="a"/></joint>'
    )
    file = write(tmp_path, inside, attributes='name="r" xmlns:drake="http://drake.mit.edu"')
    configuration = {"screw": 1.2, "universal": [0.4, -0.9], "planar": [0.1, -0.2, 0.7]}
    try:
        theirs = drake(file, [configuration])
    except OracleMissing as missing:
        pytest.skip(str(missing))
    assert "error" not in theirs, theirs
    poses = {name.split("::")[-1]: pose for name, pose in theirs["configurations"][0]["poses"].items()}
    ours = _read(file).forward_kinematics(configuration)
    for name in "abcd":
        np.testing.assert_allclose(ours[name], poses[name], rtol=0, atol=1e-9)


@pytest.mark.benchmark
def test_the_largest_robot_is_read_at_once() -> None:
    """PR2, with 82 links and 98 gazebo elements."""
    file = assets("urdf/pr2/example-robot-data/robots/pr2_description/urdf/pr2.urdf")
    start = time.perf_counter()
    _read(file)
    assert time.perf_counter() - start < 1.0

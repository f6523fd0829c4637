"""Properties of the reader over random robots."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from hypothesis import given, settings, strategies as st

from kinema.core import Diagnostics, Pose
from kinema.description import Robot
from kinema.read.urdf import read_urdf
from kit.robots.configurations import random_coordinates
from kit.urdf_oracles import Pinocchio

from .urdf_files import write

_numbers = st.floats(-3.0, 3.0, allow_nan=False).map(lambda x: round(x, 6))
_vectors = st.tuples(_numbers, _numbers, _numbers)
_directions = _vectors.filter(lambda v: float(np.linalg.norm(v)) > 0.05)
_types = st.sampled_from(["revolute", "continuous", "prismatic", "fixed", "floating"])


@dataclass
class RandomRobot:
    """The elements of a random robot."""

    links: list[str]
    joints: list[str]

    def text(self) -> str:
        """All of them, links first."""
        return "\n".join([*self.links, *self.joints])


def _xyz(vector: tuple[float, float, float]) -> str:
    return " ".join(map(repr, vector))


@st.composite
def robots(draw: st.DrawFn) -> RandomRobot:
    """A tree of up to seven links with random joints, shapes and inertias."""
    links, joints = [], []
    for i in range(draw(st.integers(1, 7))):
        origin = f'<origin xyz="{_xyz(draw(_vectors))}" rpy="{_xyz(draw(_vectors))}"/>'
        inertia = '<inertia ixx="1" ixy="0.1" ixz="0" iyy="1.5" iyz="0.2" izz="2"/>'
        inertial = f'<inertial>{origin}<mass value="{i + 1}"/>{inertia}</inertial>' if draw(st.booleans()) else ""
        shape = (
            f'<collision>{origin}<geometry><box size="1 2 3"/></geometry></collision>' if draw(st.booleans()) else ""
        )
        links.append(f'<link name="link{i}">{inertial}{shape}</link>')
        if i > 0:
            kind, parent = draw(_types), draw(st.integers(0, i - 1))
            pose = f'<origin xyz="{_xyz(draw(_vectors))}" rpy="{_xyz(draw(_vectors))}"/>'
            axis = f'<axis xyz="{_xyz(draw(_directions))}"/>' if kind not in ("fixed", "floating") else ""
            limit = '<limit lower="-1" upper="1" effort="1" velocity="1"/>' if kind in ("revolute", "prismatic") else ""
            ends = f'<parent link="link{parent}"/><child link="link{i}"/>'
            joints.append(f'<joint name="joint{i}" type="{kind}">{ends}{pose}{axis}{limit}</joint>')
    return RandomRobot(links, joints)


def _read(folder: Path, text: str) -> Robot:
    return read_urdf(write(folder, text), diagnostics=Diagnostics())


def _poses(robot: Robot, seed: int) -> dict[str, Pose]:
    """Poses at coordinates that depend on the joints' names, not on their order."""
    by_name = sorted(robot.joints, key=lambda j: j.name)
    ordered = Robot(joints=by_name)
    return robot.link_poses(random_coordinates(ordered, np.random.default_rng(seed)))


@settings(max_examples=40)
@given(made=robots(), seed=st.integers(0, 2**16))
def test_pinocchio_agrees_on_random_robots(tmp_path: Path, made: RandomRobot, seed: int) -> None:
    """Poses, masses, centres and inertias."""
    robot = _read(tmp_path, made.text())
    assert not robot.diagnostics.errors()
    judge = Pinocchio.load((tmp_path / "robot.urdf").read_text())
    coordinates = random_coordinates(robot, np.random.default_rng(seed))
    theirs = judge.poses(robot, coordinates)
    for name, pose in robot.forward_kinematics(coordinates).items():
        np.testing.assert_allclose(pose, theirs[name], rtol=0, atol=1e-9)
    judge.check_inertias(robot, 1e-9)


@settings(max_examples=40)
@given(made=robots(), seed=st.integers(0, 2**16))
def test_order_does_not_matter(tmp_path: Path, made: RandomRobot, seed: int) -> None:
    """Links and joints may come in any order, mixed."""
    elements = [*made.links, *made.joints]
    random.Random(seed).shuffle(elements)
    one, other = _read(tmp_path, made.text()), _read(tmp_path, "\n".join(elements))
    poses = _poses(other, seed)
    for name, pose in _poses(one, seed).items():
        assert pose.is_close(poses[name], 1e-12)
    assert one.total_mass == other.total_mass
    assert sorted(one.diagnostics.codes()) == sorted(other.diagnostics.codes())


@settings(max_examples=40)
@given(made=robots(), seed=st.integers(0, 2**16))
def test_names_do_not_matter(tmp_path: Path, made: RandomRobot, seed: int) -> None:
    """Renaming renames, and changes nothing else."""
    text = made.text()
    renamed = re.sub(r"link(\d)", r"🦾 part/\1", re.sub(r"joint(\d)", r"a hinge \1", text))
    one, other = _read(tmp_path, text), _read(tmp_path, renamed)
    poses = _poses(other, seed)
    for name, pose in _poses(one, seed).items():
        assert pose.is_close(poses[name.replace("link", "🦾 part/")], 1e-12)
    assert [j.kind for j in one.joints] == [j.kind for j in other.joints]


@settings(max_examples=40)
@given(made=robots(), xyz=_vectors, rpy=_vectors, seed=st.integers(0, 2**16))
def test_moving_the_root_moves_everything(
    tmp_path: Path, made: RandomRobot, xyz: tuple[float, float, float], rpy: tuple[float, float, float], seed: int
) -> None:
    """A robot fixed to a new root, at a pose, stands at that pose."""
    base = (
        f'<link name="base"/><joint name="base_joint" type="fixed"><parent link="base"/><child link="link0"/>'
        f'<origin xyz="{_xyz(xyz)}" rpy="{_xyz(rpy)}"/></joint>'
    )
    one, moved = _read(tmp_path, made.text()), _read(tmp_path, made.text() + base)
    shift = Pose.from_rpy(xyz, rpy)
    poses = _poses(moved, seed)
    for name, pose in _poses(one, seed).items():
        assert (shift @ pose).is_close(poses[name], 1e-9)

"""Joints: each kind as SDFormat has it, loops, constraints, mimics, gears, coordinates."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from kinema.core import Pose, WriteError
from kinema.description import (
    Axis,
    Base,
    Constraint,
    ConstraintKind,
    Joint,
    JointKind,
    Mimic,
    Robot,
    free_axes,
    rotation,
    spherical_axes,
    translation,
)
from kit.robots.small_robots import body
from kit.written.sdf import Written, libsdformat_accepts, own_reader_agrees


def _robot(*joints: Joint, links: str = "abc") -> Robot:
    """Links with mass, and the joints."""
    made = [body(n, inertia=1.0) for n in links]
    return Robot(name="robot", links=made, joints=list(joints), base=Base.FREE)


def _joint(kind: JointKind, *axes: Axis, name: str = "j", parent: str | None = "a", child: str | None = "b") -> Joint:
    place = Pose.from_rpy((0.1, 0.2, 0.3), (0.4, 0.5, 0.6))
    return Joint(name=name, kind=kind, parent=parent, child=child, parent_pose=place, axes=list(axes))


def _read(written: Written) -> Robot:
    (robot,) = written.read()
    return robot


@pytest.mark.parametrize("version", ["1.9", "1.10", "1.11"])
@pytest.mark.parametrize("pitch", [0.01, -0.25])
def test_a_screw_is_as_steep_and_as_handed(version: str, pitch: float, tmp_path: Path) -> None:
    """Radians per metre, left-handed, up to 1.9; metres per revolution, right-handed, since 1.10."""
    joint = _joint(JointKind.SCREW, rotation((0, 0, 1)))
    joint.pitch = pitch
    written = Written.make(_robot(joint), tmp_path, version=version)
    assert ("<thread_pitch>" in written.text) == (version == "1.9")
    assert math.isclose(_read(written).joints[0].pitch, pitch, rel_tol=1e-15)
    own_reader_agrees(written, 1e-12)


def test_a_mimic_needs_a_newer_version(tmp_path: Path) -> None:
    """Version 1.11 is chosen by itself; where 1.9 is asked for, the mimic is dropped and named."""
    leader = _joint(JointKind.REVOLUTE, rotation((0, 0, 1)), name="lead")
    follower = _joint(JointKind.REVOLUTE, rotation((0, 1, 0)), name="follow", parent="b", child="c")
    follower.axes[0].mimic = Mimic(joint="lead", multiplier=2.0, offset=0.5, reference=0.25)
    written = Written.make(_robot(leader, follower), tmp_path / "new")
    assert '<sdf version="1.11">' in written.text
    mimic = _read(written).joints[1].axes[0].mimic
    assert mimic is not None
    assert (mimic.joint, mimic.multiplier, mimic.offset, mimic.reference) == ("lead", 2.0, 0.5, 0.25)
    old = Written.make(_robot(leader, follower), tmp_path / "old", version="1.9")
    assert "mimic" not in old.text
    assert 'that it follows "lead"' in " ".join(old.losses("follow"))
    libsdformat_accepts(old)


def test_a_joint_that_starts_elsewhere_keeps_its_coordinates(tmp_path: Path) -> None:
    """The links are posed at zero, so that limits and springs need no shift, whatever the reference."""
    axis = rotation((0, 0, 1), lower=-1.0, upper=2.0, reference=0.7, stiffness=3.0, spring_reference=0.5)
    written = Written.make(_robot(_joint(JointKind.REVOLUTE, axis)), tmp_path)
    own_reader_agrees(written, 1e-12)
    again = _read(written).joints[0].axes[0]
    assert (again.lower, again.upper, again.stiffness, again.spring_reference) == (-1.0, 2.0, 3.0, 0.5)
    assert not written.losses("j")


def test_absent_limits_stay_absent(tmp_path: Path) -> None:
    """Infinity is not written; what is given on one side only stays on one side."""
    axis = rotation((0, 0, 1), upper=2.0, effort=0.0)
    written = Written.make(_robot(_joint(JointKind.REVOLUTE, axis)), tmp_path)
    again = _read(written).joints[0].axes[0]
    assert (again.lower, again.upper, again.effort, again.velocity) == (-math.inf, 2.0, 0.0, math.inf)
    libsdformat_accepts(written)


def test_a_cylindrical_joint_is_a_chain(tmp_path: Path) -> None:
    """Two simple joints with a small link between them, and the report says so."""
    written = Written.make(_robot(_joint(JointKind.CYLINDRICAL, rotation((0, 0, 1)), translation((0, 0, 1)))), tmp_path)
    assert [j.name for j in _read(written).joints] == ["j_rotation", "j_translation"]
    assert "its kind, cylindrical" in written.losses("j")[0]
    libsdformat_accepts(written)
    own_reader_agrees(written, 1e-12)


def test_the_world_is_never_a_child(tmp_path: Path) -> None:
    """A joint from a link to the world is turned round, with the same coordinate."""
    joint = _joint(JointKind.REVOLUTE, rotation((0, 0, 1), lower=-1.0, upper=2.0), parent="a", child=None)
    written = Written.make(_robot(joint, links="a"), tmp_path)
    again = _read(written).joints[0]
    assert (again.parent, again.child, again.axes[0].lower) == (None, "a", -1.0)
    own_reader_agrees(written, 1e-12)


def test_a_joint_to_the_world_hangs_on_the_model(tmp_path: Path) -> None:
    """Where the robot stands is the model's pose, and its joints to the world move with it."""
    robot = _robot(_joint(JointKind.PRISMATIC, translation((1, 0, 0)), parent=None, child="a"), links="a")
    robot.pose = Pose.from_rpy((1, 2, 3), (0.1, 0.2, 0.3))
    written = Written.make(robot, tmp_path)
    libsdformat_accepts(written)
    own_reader_agrees(written, 1e-12)


@pytest.mark.parametrize(("base", "option", "held"), [("fixed", "auto", True), ("unspecified", "auto", False)])
def test_the_base_is_held_where_it_is_fixed(base: str, option: str, held: bool, tmp_path: Path) -> None:
    """A fixed base gets a joint; one of which nothing is said stays free, which is named."""
    robot = _robot(_joint(JointKind.REVOLUTE, rotation((0, 0, 1))), links="ab")
    robot.base = Base(base)
    written = Written.make(robot, tmp_path / "one", base=option)
    assert (_read(written).base is Base.FIXED) == held
    assert bool(written.losses("robot")) == (not held)
    assert _read(Written.make(robot, tmp_path / "two", base="world")).base is Base.FIXED


def test_loops_are_the_extra_joint(tmp_path: Path) -> None:
    """A joint that closes a loop is there, marked, with its coordinate counted from where the loop is closed."""
    first = _joint(JointKind.REVOLUTE, rotation((0, 0, 1)), name="j1")
    second = _joint(JointKind.REVOLUTE, rotation((0, 0, 1)), name="j2", parent="b", child="c")
    loop = _joint(JointKind.REVOLUTE, rotation((0, 0, 1), lower=-3.0, upper=3.0), name="loop", parent="c", child="a")
    loop.closes_loop = True
    robot = _robot(first, second, loop)
    poses = robot.link_poses()
    turned = poses["c"] @ loop.parent_pose @ Pose.from_rpy((0, 0, 0), (0, 0, 0.5))
    loop.child_pose = poses["a"].inverse() @ turned
    written = Written.make(robot, tmp_path)
    again = _read(written)
    assert [j.name for j in again.tree().loops] == ["loop"]
    assert again.joint("loop").closes_loop
    np.testing.assert_allclose([again.joint("loop").axes[0].lower, again.joint("loop").axes[0].upper], [-3.5, 2.5])
    assert "coordinate offset" in written.losses("loop")[0]
    libsdformat_accepts(written)


@pytest.mark.parametrize(("kind", "made"), [(ConstraintKind.CONNECT, "ball"), (ConstraintKind.WELD, "fixed")])
def test_constraints_are_joints_that_close_loops(kind: ConstraintKind, made: str, tmp_path: Path) -> None:
    """Connect is a ball, weld a fixed joint; both are marked and named in the report."""
    robot = _robot(_joint(JointKind.REVOLUTE, rotation((0, 0, 1))), links="ab")
    poses = robot.link_poses()
    robot.constraints = [
        Constraint(name="held", kind=kind, a="a", b="b", pose_b=poses["b"].inverse() @ poses["a"]),
        Constraint(name="asleep", kind=kind, a="a", b="b", active=False),
    ]
    written = Written.make(robot, tmp_path)
    assert f'<joint name="held" type="{made}">' in written.text
    assert [j.name for j in _read(written).tree().loops] == ["held"]
    assert made in written.losses("held")[0]
    assert "not active" in written.losses("asleep")[0]
    libsdformat_accepts(written)


def test_loops_that_close_at_the_reference_pose_the_links_there(tmp_path: Path) -> None:
    """MJCF's anchors meet where every joint is at its reference: zero in the file is there, and limits are shifted."""
    axis = rotation((0, 0, 1), lower=-1.0, upper=2.0, reference=0.5, stiffness=1.0, spring_reference=0.25)
    robot = _robot(_joint(JointKind.REVOLUTE, axis), links="ab")
    at_reference = robot.link_poses({"j": 0.5})
    point = Pose.translation((1, 0, 0))
    pose_b = at_reference["b"].inverse() @ at_reference["a"] @ point
    robot.constraints = [Constraint(name="pin", kind=ConstraintKind.CONNECT, a="a", b="b", pose_a=point, pose_b=pose_b)]
    written = Written.make(robot, tmp_path)
    own_reader_agrees(written, 1e-12)
    again = _read(written).joint("j").axes[0]
    assert (again.lower, again.upper, again.spring_reference) == (-1.5, 1.5, -0.25)
    assert "coordinate offset" in " ".join(written.losses("j"))


def test_a_linear_constraint_between_joints_is_a_mimic(tmp_path: Path) -> None:
    """What is between distances from the references becomes what is between coordinates."""
    first = _joint(JointKind.REVOLUTE, rotation((0, 0, 1), reference=0.5), name="j1")
    second = _joint(JointKind.REVOLUTE, rotation((0, 0, 1), reference=0.25), name="j2", parent="b", child="c")
    robot = _robot(first, second)
    polynomial = (0.1, 2.0, 0.0, 0.0, 0.0)
    robot.constraints = [Constraint(name="eq", kind=ConstraintKind.JOINT, a="j2", b="j1", polynomial=polynomial)]
    mimic = _read(Written.make(robot, tmp_path)).joint("j2").axes[0].mimic
    assert mimic is not None
    # q2 - 0.25 = 0.1 + 2 (q1 - 0.5)
    assert math.isclose(mimic.multiplier * (1.0 - mimic.reference) + mimic.offset, 0.25 + 0.1 + 2 * 0.5)


def test_a_gear_comes_back(tmp_path: Path) -> None:
    """Ratio, axes and reference body of a gearbox."""
    joints = [
        _joint(JointKind.REVOLUTE, rotation((0, 0, 1)), name="j1"),
        _joint(JointKind.REVOLUTE, rotation((0, 0, 1)), name="j2", child="c"),
    ]
    robot = _robot(*joints)
    axis_a, axis_b = np.array([0.6, 0.8, 0.0]), np.array([0.0, 0.6, 0.8])
    gear = Constraint(name="gear", kind=ConstraintKind.GEAR, a="b", b="c", ratio=-3.0, reference="a")
    gear.pose_b, gear.gear_axis_a, gear.gear_axis_b = Pose.translation((0.1, 0, 0)), axis_a, axis_b
    robot.constraints = [gear]
    written = Written.make(robot, tmp_path)
    (again,) = _read(written).constraints
    assert (again.a, again.b, again.ratio, again.reference) == ("b", "c", -3.0, "a")
    np.testing.assert_allclose([again.gear_axis_a, again.gear_axis_b], [axis_a, axis_b], atol=1e-15)
    libsdformat_accepts(written)


def test_disabled_distance_and_free_joints_are_named(tmp_path: Path) -> None:
    """What the file has no joint for is not in it, and the report says what became of it."""
    off = _joint(JointKind.FIXED, name="off")
    off.enabled = False
    rope = _joint(JointKind.DISTANCE, name="rope", child="c")
    free = _joint(JointKind.FREE, name="free", parent=None, child="a")
    free.axes = free_axes()
    written = Written.make(_robot(off, rope, free), tmp_path)
    assert not _read(written).joints
    for name in ("off", "rope", "free"):
        assert written.losses(name), name


def test_a_ball_keeps_its_damping(tmp_path: Path) -> None:
    """Damping of a ball is written as if it had an axis; cone limits are named as lost."""
    axes = spherical_axes()
    for axis in axes:
        axis.damping = 0.5
    written = Written.make(_robot(_joint(JointKind.SPHERICAL, *axes)), tmp_path)
    assert [a.damping for a in _read(written).joints[0].axes] == [0.5] * 3
    libsdformat_accepts(written)


def test_numbers_that_are_none_are_refused(tmp_path: Path) -> None:
    """A pose with NaN is an error that names the link, and no file is left behind."""
    robot = _robot(links="a")
    robot.links[0].pose = Pose.translation((math.nan, 0, 0))
    with pytest.raises(WriteError, match='link "a": its pose is nan'):
        Written.make(robot, tmp_path)
    assert not list(tmp_path.iterdir())
